//! Profiles of contention and of threads as text, as C++ programs with gperftools' or Abseil's pages serve them:
//! `/pprof/contentionz`, `/pprof/threadz`.
//!
//! ```text
//! --- contentionz 1 ---
//! format = java
//! cycles/second = 3200000000
//! sampling period = 100
//! ms since reset = 16502830
//! discarded samples = 0
//!   19490304       27 @ 0xbccc97 0xc61202 0x42ed5f
//! MAPPED_LIBRARIES:
//! 00400000-00fcb000 r-xp 00000000 9:4 23     /opt/app/server
//!
//! --- threadz 1 ---
//!
//! --- Thread 7eff063d9940 (name: main/25376) stack: ---
//!   PC: 0x40bce7: helper()
//!   0x40be31 0x40a1f2
//! --- Thread 7eff063d8700 (name: pool/25379) stack: ---
//!     [same as previous thread]
//! --- Memory map: ---
//! 00400000-00fcb000 r-xp 00000000 9:4 23     /opt/app/server
//! ```
//!
//! Source: `legacy_profile.go` of google/pprof, which reads them. Heaps and their growth have
//! [a reader of their own](super::gperftools_heap), and so have [Go's](super::go_profile) texts, which hold names.
//!
//! - Of a contention the first number is cycles of waiting, the second how often; with `sampling period` each stands for
//!   so many.
//! - Each thread counts 1. One without a stack is `[no stack]`.
//! - Addresses are leaf first, each behind a call, but for a thread's first.

use pyrograph_profile::{Frame, FrameKind, Marker, Profile, Sample, StackId, ValueType};

use super::mapped::Maps;
use super::rows::Rows;
use super::text::{Lines, first_lines, hex_address};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};

/// See the module.
pub struct PprofText;

impl Reader for PprofText {
    fn name(&self) -> &'static str {
        "pprof text"
    }

    fn written_by(&self) -> &'static str {
        "/pprof/contentionz and /pprof/threadz of C++ programs"
    }

    fn detect(&self, head: &[u8]) -> bool {
        first_lines(head).find(|line| !line.is_empty()).is_some_and(|line| Kind::of(line).is_some())
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let mut lines = Lines::new(input);
        let mut file = File::default();
        while lines.advance() {
            if !file.line(lines.line()) {
                lines.warn(WarningKind::UnreadableLine);
            }
        }
        let Some(kind) = file.kind else {
            let reason = "it has no first line of contentionz or threadz".to_owned();
            return Err(ReadError::Malformed { name, reason });
        };
        let mut warnings = lines.warnings;
        if file.maps.is_none() {
            let cause = "its list of mapped files is missing: functions have no names".to_owned();
            warnings.add(WarningKind::Truncated(cause), 1, []);
        }
        Ok(build(kind, file.stacks, file.maps.unwrap_or_default(), options, warnings))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Cycles a second, if that is said, and contentions that a sample stands for.
    Contention(Option<f64>, f64),
    Threads,
}

impl Kind {
    /// The kind of the profile that begins with this line.
    fn of(line: &str) -> Option<Self> {
        let line = line.trim().strip_prefix("--- ")?.strip_suffix("---")?;
        if line.starts_with("Thread ") {
            return line.contains(" (name: ").then_some(Self::Threads);
        }
        let (name, version) = line.trim().split_once(' ')?;
        let _: u32 = version.parse().ok()?;
        match name {
            "contentionz" => Some(Self::Contention(None, 1.0)),
            "threadz" => Some(Self::Threads),
            _ => None,
        }
    }
}

/// A stack as addresses, leaf first, and its values.
struct Stack {
    values: [u64; 2],
    addresses: Vec<u64>,
}

#[derive(Default)]
struct File {
    kind: Option<Kind>,
    stacks: Vec<Stack>,
    maps: Option<Maps>,
}

impl File {
    /// Takes a line; `false` if it is none.
    fn line(&mut self, line: &str) -> bool {
        let line = line.trim();
        if line.is_empty() {
            return true;
        }
        if let Some(maps) = &mut self.maps {
            // Lines such as `build=/opt/app` stand between mappings.
            return maps.line(line) || line.contains('=');
        }
        if matches!(line, "MAPPED_LIBRARIES:" | "--- Memory map: ---") {
            self.maps = Some(Maps::default());
            return true;
        }
        match &mut self.kind {
            None => {
                self.kind = Kind::of(line);
                if line.starts_with("--- Thread ") {
                    self.stacks.push(Stack { values: [1, 0], addresses: Vec::new() });
                }
                self.kind.is_some()
            }
            Some(Kind::Contention(second, period)) => match line.split_once('@') {
                Some((numbers, addresses)) => {
                    let stack = contention(numbers, addresses, second.unwrap_or(1e9), *period);
                    let is_stack = stack.is_some();
                    self.stacks.extend(stack);
                    is_stack
                }
                None => setting(line, second, period),
            },
            Some(Kind::Threads) => self.thread_line(line),
        }
    }

    fn thread_line(&mut self, line: &str) -> bool {
        if line.starts_with("--- Thread ") {
            self.stacks.push(Stack { values: [1, 0], addresses: Vec::new() });
            return true;
        }
        // `---- no stack trace for`
        if line.starts_with("---") {
            return true;
        }
        let [before @ .., last] = self.stacks.as_mut_slice() else { return false };
        if line.contains("same as previous thread") {
            let previous = before.last();
            last.addresses = previous.map(|stack| stack.addresses.clone()).unwrap_or_default();
            return previous.is_some();
        }
        let words = line.split([' ', '\t', ':']).filter_map(hex_address);
        let known = last.addresses.len();
        for address in words {
            let back = u64::from(!last.addresses.is_empty());
            last.addresses.push(address.saturating_sub(back));
        }
        last.addresses.len() > known
    }
}

/// Takes `cycles/second = 3200000000` and its like; `false` if it is none.
fn setting(line: &str, second: &mut Option<f64>, period: &mut f64) -> bool {
    let Some((name, value)) = line.split_once('=') else { return false };
    let number = value.trim().parse::<f64>().ok().filter(|number| *number > 0.0);
    match (name.trim(), number) {
        ("cycles/second", Some(number)) => *second = Some(number),
        ("sampling period", Some(number)) => *period = number,
        ("cycles/second" | "sampling period", None) => return false,
        _ => {}
    }
    true
}

/// Reads `  19490304       27 ` and ` 0xbccc97 0xc61202`: how often, and nanoseconds.
fn contention(numbers: &str, addresses: &str, second: f64, period: f64) -> Option<Stack> {
    let mut numbers = numbers.split_whitespace().map(str::parse::<u64>);
    let (Some(Ok(cycles)), Some(Ok(count)), None) =
        (numbers.next(), numbers.next(), numbers.next())
    else {
        return None;
    };
    let address = |text| hex_address(text).map(|address| address.saturating_sub(1));
    let addresses = addresses.split_whitespace().map(address).collect::<Option<_>>()?;
    let delay = cycles as f64 * period / second * 1e9;
    Some(Stack { values: [(count as f64 * period) as u64, delay as u64], addresses })
}

fn build(
    kind: Kind,
    stacks: Vec<Stack>,
    maps: Maps,
    options: &Options,
    mut warnings: Warnings,
) -> Reading {
    let of = ValueType::new;
    let types = match kind {
        Kind::Contention(..) => vec![of("contentions", "count"), of("delay", "ns")],
        Kind::Threads => vec![of("threads", "count")],
    };
    let columns = types.len();
    if let Kind::Contention(None, _) = kind {
        let said = "the file does not say how long a cycle is: delays count cycles as nanoseconds";
        warnings.add(WarningKind::NotHeld(said.to_owned()), 1, []);
    }
    let mut profile = Profile { shown: columns - 1, ..Profile::new(types) };
    let addresses = stacks.iter().flat_map(|stack| stack.addresses.iter().copied());
    let frames = maps.frames(addresses, options, &mut profile, &mut warnings);
    let name = profile.strings.intern("[no stack]");
    let none = profile.frames.intern(Frame::named(name, FrameKind::Marker(Marker::Remark)));
    let mut rows = Rows::new(options, columns);
    for Stack { values, addresses } in stacks {
        let path = addresses.iter().rev().filter_map(|address| frames.get(address));
        let stack = match addresses.is_empty() {
            true => profile.stacks.intern(StackId::ROOT, none),
            false => profile.stacks.intern_path(path.flat_map(|of| of.iter().rev().copied())),
        };
        rows.push(Sample::new(stack), &values[..columns]);
    }
    rows.finish(&mut profile);
    Reading::new(profile, warnings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Input;

    fn check(text: &str, shown: &str, totals: &[u64], said: &str) {
        let input = Input::bytes("x", text).begin().expect("bytes");
        assert!(PprofText.detect(input.bytes()));
        let reading = PprofText.read(input, &Options::default()).expect("a profile");
        let profile = &reading.profile;
        assert_eq!(profile.value_types[profile.shown].name, shown);
        let sums: Vec<u64> =
            (0..totals.len()).map(|column| profile.samples.total(column)).collect();
        assert_eq!(sums, totals);
        let warnings: Vec<String> = reading.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(warnings.join("; "), said);
    }

    const MAPS: &str = "MAPPED_LIBRARIES:\n00400000-00fcb000 r-xp 00000000 9:4 23 [app]\n";

    #[test]
    fn delays_are_cycles_of_samples() {
        // 19,490,304 cycles of 3.2 GHz, each 100 times: 0.609072 s.
        let head = "--- contentionz 1 ---\nformat = java\ncycles/second = 3200000000\n";
        let text = format!("{head}sampling period = 100\n 19490304 27 @ 0xbccc97 0xc61202\n{MAPS}");
        check(&text, "delay", &[2700, 609_072_000], "");
        let text = format!("--- contentionz 1 ---\n 5 1 @ 0xbccc97\nnonsense\n{MAPS}");
        let said = "1 line within samples was skipped: not a frame (x:3); \
                    the file does not say how long a cycle is: delays count cycles as nanoseconds";
        check(&text, "delay", &[1, 5], said);
    }

    #[test]
    fn threads_count_one_each() {
        let text = "--- threadz 1 ---\n\n--- Thread 7e0 (name: main/2) stack: ---\n\
                    \x20 PC: 0x40bce7: f()\n 0x40be31 0x40a1f2\n\
                    --- Thread 7e1 (name: pool/3) stack: ---\n    [same as previous thread]\n\
                    --- Thread 7e2 (name: pool/4) stack: ---\n---- no stack trace for\n\
                    --- Memory map: ---\n00400000-00fcb000 r-xp 00000000 9:4 23 [app]\n";
        check(text, "threads", &[3], "");
        let mut file = File::default();
        assert!(text.lines().all(|line| file.line(line)));
        assert_eq!(file.stacks[1].addresses, [0x40_bce7, 0x40_be30, 0x40_a1f1]);
        assert!(file.stacks[2].addresses.is_empty());
    }

    #[test]
    fn only_first_lines_of_these() {
        assert_eq!(Kind::of("--- threadz 1 ---"), Some(Kind::Threads));
        for line in
            ["--- contention:", "--- a/file.c", "---", "--- Thread 1 ---", "--- heapz 1 ---"]
        {
            assert_eq!(Kind::of(line), None, "{line}");
        }
    }
}
