//! Reader of heaptrack data: every allocation of a program, as `heaptrack COMMAND` writes it, compressed or not.
//!
//! ```text
//! v 10400 3                          version of heaptrack and of the format
//! X ./heap
//! I 1000 5e298d
//! s a /src/heap                      text 1, its length before it
//! i 7f43b442ba1d 8 e d 4a e d 1a     address 1: module, then function, file and line, innermost first
//! t 1 0                              stack 1: its leaf and its caller's stack
//! a 11c00 1                          kind of allocation 0: size and stack
//! + 0                                allocated
//! - 0                                freed
//! c 1e                               time in ms
//! # strings: 37                      the end
//! ```
//!
//! `heaptrack --raw` writes addresses in place of names; see [`raw`].
//!
//! Source: heaptrack's `README.md` and its output. Numbers are hexadecimal; strings, addresses and stacks are
//! numbered from 1. Formats 2 and 3 are supported, which heaptrack 1.1 and later write. `at peak` is the memory that
//! was alive when the total was highest. heaptrack's own reports suppress leaks that it considers harmless; here they
//! are included.

use pyrograph_profile::{Frame, FrameId, FrameKind, Profile, Sample, StackId, ValueType};

mod raw;

use raw::Raw;

use super::rows::Rows;
use super::text::{Collector, Lines, first_lines};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of heaptrack data.
pub struct Heaptrack;

impl Reader for Heaptrack {
    fn name(&self) -> &'static str {
        "heaptrack"
    }

    fn written_by(&self) -> &'static str {
        "heaptrack COMMAND"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines = first_lines(head);
        let version = lines.next().and_then(|line| line.strip_prefix("v "));
        version.is_some_and(|of| of.split(' ').all(|number| hex(number).is_some()))
            && lines.take(2).any(|line| line.starts_with(['X', 'x']))
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let mut lines = Lines::new(input);
        let types = [
            ("allocations", "count"),
            ("temporary", "count"),
            ("total", "bytes"),
            ("at peak", "bytes"),
            ("at end", "bytes"),
        ];
        let types: Vec<ValueType> =
            types.iter().map(|&(name, unit)| ValueType::new(name, unit)).collect();
        let mut out = Collector::new(ValueType::samples());
        out.profile = Profile { shown: 3, ..Profile::new(types) };
        let mut file = File { out, ..File::new() };
        let mut raw: Option<Raw> = None;
        while lines.advance() {
            let line = lines.line();
            let (code, rest) = line.split_once(' ').unwrap_or((line, ""));
            let is_known = match (&mut raw, code) {
                (None, "x" | "m") => {
                    let mut begun = Raw::default();
                    let is_known = begun.line(code, rest, &mut file.counts);
                    raw = Some(begun);
                    is_known
                }
                (Some(raw), _) => raw.line(code, rest, &mut file.counts),
                (None, _) => file.line(code, rest),
            };
            if is_known.is_none() {
                lines.warn(WarningKind::UnreadableLine);
            }
            if file.version == 1 {
                let reason =
                    "heaptrack before 1.1 wrote it, in a format that is not read".to_owned();
                return Err(ReadError::Malformed { name, reason });
            }
        }
        if let Some(raw) = raw {
            let stacks = raw.stacks(options, &mut file.out.profile, &mut lines.warnings);
            file.stacks = stacks;
        } else if !file.ended {
            let cause = "its last lines, which count strings and ips, are missing".to_owned();
            lines.warnings.add(WarningKind::Truncated(cause), 1, []);
        }
        let mut out = file.finish(options);
        out.discard();
        Ok(out.reading(lines.warnings))
    }
}

struct File {
    out: Collector,
    /// Version of the format.
    version: u64,
    strings: Vec<String>,
    /// The frames at each address, outermost first.
    places: Vec<Vec<FrameId>>,
    stacks: Vec<StackId>,
    counts: Counts,
    ended: bool,
}

/// Allocations, and what of them is alive.
#[derive(Default)]
struct Counts {
    kinds: Vec<Kind>,
    /// Bytes that are alive; `peak` is the maximum so far.
    live: u64,
    peak: u64,
    /// Indices of the kinds whose live count has changed since the peak.
    changed: Vec<usize>,
    /// The kind of the allocation in the previous line.
    last: Option<usize>,
}

/// All allocations of one size by one stack.
struct Kind {
    size: u64,
    /// Number of the stack, from 1 on; 0 if it is not known.
    stack: usize,
    count: u64,
    temporary: u64,
    live: u64,
    at_peak: u64,
    is_changed: bool,
}

impl File {
    fn new() -> Self {
        Self {
            out: Collector::new(ValueType::samples()),
            version: 0,
            strings: Vec::new(),
            places: Vec::new(),
            stacks: Vec::new(),
            counts: Counts::default(),
            ended: false,
        }
    }

    /// Parses a line; returns `None` if it is not recognized.
    fn line(&mut self, code: &str, rest: &str) -> Option<()> {
        let mut numbers = rest.split(' ').map(hex);
        match code {
            "v" => self.version = rest.split(' ').nth(1).map_or(Some(1), hex)?,
            "s" => self.string(rest)?,
            "i" => self.address(numbers.collect::<Option<Vec<u64>>>()?)?,
            "t" => {
                let (place, caller) = (numbers.next()??, numbers.next()??);
                let place = self.places.get(usize::try_from(place).ok()?.checked_sub(1)?)?;
                let mut stack = match usize::try_from(caller).ok()?.checked_sub(1) {
                    Some(caller) => *self.stacks.get(caller)?,
                    None => StackId::ROOT,
                };
                for &frame in place {
                    stack = self.out.profile.stacks.intern(stack, frame);
                }
                self.stacks.push(stack);
            }
            "a" => {
                let (size, stack) = (numbers.next()??, usize::try_from(numbers.next()??).ok()?);
                if stack > self.stacks.len() {
                    return None;
                }
                self.counts.add(size, stack);
            }
            "+" => self.counts.allocate(usize::try_from(numbers.next()??).ok()?)?,
            "-" => self.counts.free(usize::try_from(numbers.next()??).ok()?)?,
            "#" => self.ended |= rest.starts_with("strings: "),
            // Command, page size and count, times, resident memory, the program's suppressions, attach marker.
            "X" | "I" | "c" | "R" | "S" | "A" | "" => {}
            _ => return None,
        }
        Some(())
    }

    fn string(&mut self, rest: &str) -> Option<()> {
        let text = match self.version {
            3.. => rest.split_once(' ').filter(|(length, _)| hex(length).is_some())?.1,
            _ => rest,
        };
        self.strings.push(text.to_owned());
        Some(())
    }

    /// Parses `7f43b442ba1d 8 e d 4a e d 1a`.
    fn address(&mut self, numbers: Vec<u64>) -> Option<()> {
        let (&[_, module], calls) = numbers.split_first_chunk()?;
        let text = |number: u64| -> Option<&str> {
            match usize::try_from(number).ok()?.checked_sub(1) {
                Some(place) => self.strings.get(place).map(String::as_str),
                None => Some(""),
            }
        };
        let module = text(module)?;
        let calls = if calls.is_empty() { &[0, 0, 0][..] } else { calls };
        let count = calls.len() / 3;
        for (depth, call) in calls.chunks_exact(3).enumerate() {
            let kind = if depth + 1 < count { FrameKind::Inlined } else { FrameKind::User };
            let line = u32::try_from(call[2]).unwrap_or(0);
            let (function, file) = (text(call[0])?, text(call[1])?);
            self.out.symbol_at(function, module, kind, (file, line));
        }
        self.places.push(self.out.frames.drain(..).rev().collect());
        Some(())
    }

    fn finish(mut self, options: &Options) -> Collector {
        let mut rows = Rows::new(options, 5);
        let unknown = self.out.profile.frames.intern(Frame::default());
        for kind in self.counts.kinds.iter().filter(|kind| kind.count > 0) {
            let known = kind.stack.checked_sub(1).and_then(|stack| self.stacks.get(stack));
            let stack = match known.copied().unwrap_or(StackId::ROOT) {
                StackId::ROOT => self.out.profile.stacks.intern(StackId::ROOT, unknown),
                stack => stack,
            };
            let bytes = |count: u64| count.saturating_mul(kind.size);
            let values = [
                kind.count,
                kind.temporary,
                bytes(kind.count),
                bytes(kind.at_peak),
                bytes(kind.live),
            ];
            rows.push(Sample::new(stack), &values);
        }
        rows.finish(&mut self.out.profile);
        self.out
    }
}

impl Counts {
    /// Adds a kind, and returns its index.
    fn add(&mut self, size: u64, stack: usize) -> usize {
        let (count, temporary, live, at_peak) = (0, 0, 0, 0);
        self.kinds.push(Kind { size, stack, count, temporary, live, at_peak, is_changed: false });
        self.kinds.len() - 1
    }

    fn allocate(&mut self, of: usize) -> Option<()> {
        let kind = self.kinds.get_mut(of)?;
        kind.count += 1;
        kind.live += 1;
        self.live = self.live.saturating_add(kind.size);
        self.last = Some(of);
        self.note(of);
        if self.live > self.peak {
            self.peak = self.live;
            for of in self.changed.drain(..) {
                let kind = &mut self.kinds[of];
                kind.at_peak = kind.live;
                kind.is_changed = false;
            }
        }
        Some(())
    }

    fn free(&mut self, of: usize) -> Option<()> {
        let kind = self.kinds.get_mut(of)?;
        // A freed block that was not allocated existed before the recording.
        if kind.live > 0 {
            kind.live -= 1;
            self.live = self.live.saturating_sub(kind.size);
        }
        kind.temporary += u64::from(self.last.take() == Some(of));
        self.note(of);
        Some(())
    }

    /// Records that the live count of a kind has changed since the peak.
    fn note(&mut self, of: usize) {
        if !std::mem::replace(&mut self.kinds[of].is_changed, true) {
            self.changed.push(of);
        }
    }
}

/// Parses `5e298d`.
fn hex(text: &str) -> Option<u64> {
    // `from_str_radix` accepts a sign.
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u64::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Input;

    fn read(text: &str) -> Result<Reading, ReadError> {
        let input = Input::bytes("x", text).begin().expect("bytes");
        assert!(Heaptrack.detect(input.bytes()));
        Heaptrack.read(input, &Options::default())
    }

    #[test]
    fn old_formats_are_refused_with_words() {
        let said = read("v 10000 1\nX a\n").err().map(|error| error.to_string());
        assert!(said.is_some_and(|said| said.contains("before 1.1")));
    }

    #[test]
    fn raw_data_are_counted_by_address_and_pointer() {
        let text = "v 10400 3\nx 2 /a\nX ./a\nI 1000 5\nm 1 -\nm 1 x 1000 0 500\nt 1101 0\nt 1202 1\n\
                    + 10 2 5000\n+ 10 2 6000\n- 5000\n- 7000\n+ 8 1 5000\n- 5000\n+ 3 0 8000\n+ 1 9 1\n";
        let Reading { profile, warnings, .. } = read(text).expect("a profile");
        let samples = &profile.samples;
        let row = |row: usize| (0..5).map(|of| samples.values(of)[row]).collect();
        let mut rows: Vec<Vec<u64>> = (0..samples.len()).map(row).collect();
        rows.sort_unstable();
        assert_eq!(rows, [[1, 0, 3, 0, 3], [1, 1, 8, 0, 0], [2, 1, 32, 32, 16]]);
        let said: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert!(said.iter().any(|said| said.contains("/a")), "the file is missing: {said:?}");
        assert!(said.iter().any(|said| said.contains("line")), "no such stack: {said:?}");
    }

    #[test]
    fn a_missing_end_is_said() {
        let text = "v 10400 3\nX a\nI 1000 5\ns 1 m\ni 5 1\nt 1 0\na 10 1\n+ 0\n+ 7\n";
        let reading = read(text).expect("a profile");
        let said: Vec<String> = reading.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("are missing"), "{said:?}");
        assert_eq!(reading.profile.samples.total(2), 16);
    }

    proptest! {
        /// Against a sum over all that is alive after every line.
        #[test]
        fn the_peak_is_that_of_brute_force(
            sizes in prop::collection::vec(0u64..50, 1..6),
            events in prop::collection::vec((any::<bool>(), 0usize..6), 0..120),
        ) {
            let mut text = "v 10400 3\nX a\nI 1000 5\n".to_owned();
            for size in &sizes {
                text += &format!("s 1 {}\ni 5 0 {1:x} 0 0\nt {1:x} 0\na {size:x} {1:x}\n", 'f', text.matches("\ni ").count() + 1);
            }
            let mut alive = vec![0u64; sizes.len()];
            let (mut most, mut at_peak) = (0, vec![0u64; sizes.len()]);
            let mut total = 0;
            for (is_new, of) in events {
                let of = of % sizes.len();
                if !is_new && alive[of] == 0 {
                    continue;
                }
                text += &format!("{} {of:x}\n", if is_new { '+' } else { '-' });
                alive[of] = if is_new { alive[of] + 1 } else { alive[of] - 1 };
                total += if is_new { sizes[of] } else { 0 };
                let sum = alive.iter().zip(&sizes).map(|(count, size)| count * size).sum();
                if sum > most {
                    (most, at_peak) = (sum, alive.clone());
                }
            }
            text += "# strings: 1\n";
            let reading = read(&text).expect("a profile");
            prop_assert!(reading.warnings.is_empty(), "{:?}", reading.warnings);
            let samples = &reading.profile.samples;
            let sum = |counts: &[u64]| -> u64 {
                counts.iter().zip(&sizes).map(|(count, size)| count * size).sum()
            };
            prop_assert_eq!(samples.total(2), total);
            prop_assert_eq!(samples.total(3), sum(&at_peak));
            prop_assert_eq!(samples.total(4), sum(&alive));
        }
    }
}
