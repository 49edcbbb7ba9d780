//! Reader of text profiles of contention and threads, served by C++ programs with gperftools or Abseil
//! (`/pprof/contentionz`, `/pprof/threadz`), and of contention and heap profiles served by Java programs.
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
//!       creator: 0xa45b96 0xa48928
//! --- Thread 7eff063d8700 (name: pool/25379) stack: ---
//!     [same as previous thread]
//! --- Memory map: ---
//!   00400000-00fcb000: /opt/app/server
//!
//! --- heapz 1 ---
//! format = java
//! resolution = bytes
//!          7048     1 @ 0x00000003 0x00000004
//!  0x00000003 com.example.Main.work (Main.java:12)
//!  0x00000004 com.example.Main.main (Main.java:9)
//! ```
//!
//! Source: `legacy_profile.go` and `legacy_java_profile.go` of google/pprof, which reads them. Heap and growth
//! profiles of C++ programs have [a reader of their own](super::gperftools_heap), and so have
//! [Go's](super::go_profile) texts, which contain names.
//!
//! - In contention profiles, the first number is cycles of waiting, the second the number of contentions; both are
//!   multiplied by `sampling period`. In Java's, the unit of the first number is given by `resolution`.
//! - In Java's heap profiles, the first number is bytes, the second objects. Totals are estimated with Java's
//!   sampling rate, 512 KiB.
//! - Each thread counts 1. A thread without a stack is `[no stack]`. The creator of a thread is shown below it, as in
//!   pprof.
//! - Addresses are leaf first. They are return addresses, except for a thread's first one. Names next to them are
//!   used.
//! - Java's addresses are numbers of [places](super::java_places), which follow the stacks.

use hashbrown::HashMap;
use pyrograph_profile::{
    Frame, FrameId, FrameKind, Marker, Profile, Sample, StackId, StringId, ValueType,
};

use super::go_profile::estimated;
use super::java_places::Places;
use super::mapped::{Maps, begins_maps};
use super::rows::Rows;
use super::text::{Lines, first_lines, hex_address};
use crate::input::Head;
use crate::names::{module_kind, tidy_name};
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};

/// Reader of pprof's text profiles.
pub struct PprofText;

impl Reader for PprofText {
    fn name(&self) -> &'static str {
        "pprof text"
    }

    fn written_by(&self) -> &'static str {
        "/pprof/contentionz and /pprof/threadz of C++ programs, /pprof/heapz of Java's"
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
        let mut warnings = lines.warnings;
        let missing = match (&file.kind, &file.maps) {
            (None, _) => {
                let reason = "it has no first line of contentionz, threadz or heapz".to_owned();
                return Err(ReadError::Malformed { name, reason });
            }
            (Some(kind), _) if kind.is_java() => file.places.is_empty().then_some("places"),
            (Some(_), maps) => maps.is_none().then_some("mapped files"),
        };
        if let Some(missing) = missing {
            let cause = format!("its list of {missing} is missing: functions have no names");
            warnings.add(WarningKind::Truncated(cause), 1, []);
        }
        Ok(file.build(options, warnings))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Contention(Contention),
    Threads,
    /// A heap profile of Java.
    Heap,
}

/// The settings in the header of a contention profile.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Contention {
    /// Cycles per second.
    second: Option<f64>,
    /// Number of contentions per sample.
    period: f64,
    /// Nanoseconds per unit of delays, in Java's profiles.
    resolution: Option<f64>,
}

impl Kind {
    /// Returns the kind of profile that begins with this line.
    fn of(line: &str) -> Option<Self> {
        let line = line.trim().strip_prefix("--- ")?.strip_suffix("---")?;
        if line.starts_with("Thread ") {
            return line.contains(" (name: ").then_some(Self::Threads);
        }
        let (name, version) = line.trim().split_once(' ')?;
        let _: u32 = version.parse().ok()?;
        let contention = Contention { second: None, period: 1.0, resolution: None };
        match name {
            "contentionz" => Some(Self::Contention(contention)),
            "threadz" => Some(Self::Threads),
            "heapz" => Some(Self::Heap),
            _ => None,
        }
    }

    fn is_java(&self) -> bool {
        match self {
            Self::Contention(of) => of.is_java(),
            Self::Heap => true,
            Self::Threads => false,
        }
    }

    fn value_types(self) -> Vec<ValueType> {
        let of = ValueType::new;
        match self {
            Self::Contention(_) => vec![of("contentions", "count"), of("delay", "ns")],
            Self::Threads => vec![of("threads", "count")],
            Self::Heap => vec![of("inuse_objects", "count"), of("inuse_space", "bytes")],
        }
    }

    /// Returns the values of a stack from its two numbers.
    fn values(self, first: u64, count: u64) -> [u64; 2] {
        /// Bytes between two samples of a heap; Java's rate is fixed.
        const RATE: f64 = 524_288.0;
        match self {
            Self::Contention(of) => {
                let nanoseconds = of.resolution.filter(|_| of.is_java());
                let nanoseconds = nanoseconds.unwrap_or(1e9 / of.second.unwrap_or(1e9));
                let delay = first as f64 * of.period * nanoseconds;
                [(count as f64 * of.period) as u64, delay as u64]
            }
            Self::Threads => [first, 0],
            Self::Heap => estimated(count, first, RATE).into(),
        }
    }
}

impl Contention {
    /// True for Java's profiles: only C++ programs count cycles.
    fn is_java(&self) -> bool {
        self.second.is_none() && self.resolution.is_some()
    }

    /// Parses `cycles/second = 3200000000` and similar settings; returns `false` if the line is not a valid setting.
    fn setting(&mut self, line: &str) -> bool {
        let Some((name, value)) = line.split_once('=') else { return false };
        let (name, value) = (name.trim(), value.trim());
        let number = value.parse::<f64>().ok().filter(|number| *number > 0.0);
        match (name, number) {
            ("cycles/second", Some(number)) => self.second = Some(number),
            ("sampling period", Some(number)) => self.period = number,
            ("cycles/second" | "sampling period", None) => return false,
            ("resolution", _) => {
                self.resolution = match value {
                    "nanoseconds" => Some(1.0),
                    "microseconds" => Some(1e3),
                    "milliseconds" => Some(1e6),
                    _ => return false,
                }
            }
            _ => {}
        }
        true
    }
}

/// A stack as addresses, leaf first, and the two numbers before it.
struct Stack {
    numbers: [u64; 2],
    addresses: Vec<u64>,
}

#[derive(Default)]
struct File {
    kind: Option<Kind>,
    stacks: Vec<Stack>,
    maps: Option<Maps>,
    /// Places of Java's profiles.
    places: Places,
    /// Names next to addresses.
    names: HashMap<u64, String>,
    /// True if the current thread has the same stack as the previous one, with which it is counted.
    is_same: bool,
}

impl File {
    /// Parses a line; returns `false` if it is not recognized.
    fn line(&mut self, line: &str) -> bool {
        let line = line.trim();
        if line.is_empty() {
            return true;
        }
        if let Some(maps) = &mut self.maps {
            return maps.line(line);
        }
        if begins_maps(line) {
            self.maps = Some(Maps::default());
            return true;
        }
        let Some(kind) = &mut self.kind else {
            self.kind = Kind::of(line);
            if line.starts_with("--- Thread ") {
                self.stacks.push(Stack { numbers: [1, 0], addresses: Vec::new() });
            }
            return self.kind.is_some();
        };
        if *kind == Kind::Threads {
            return self.thread_line(line);
        }
        // A place may have an `@` in its name.
        if line.starts_with("0x") && kind.is_java() {
            return self.places.line(line);
        }
        match (line.split_once('@'), kind) {
            (Some((numbers, addresses)), _) => {
                let stack = counted(numbers, addresses);
                let is_stack = stack.is_some();
                self.stacks.extend(stack);
                is_stack
            }
            (None, Kind::Contention(of)) => of.setting(line),
            // `format = java`
            (None, _) => line.contains('='),
        }
    }

    fn thread_line(&mut self, line: &str) -> bool {
        if line.starts_with("--- Thread ") {
            self.is_same = false;
            self.stacks.push(Stack { numbers: [1, 0], addresses: Vec::new() });
            return true;
        }
        // `---- no stack trace for`
        if line.starts_with("---") {
            return true;
        }
        if line.contains("same as previous thread") {
            // The threads are counted together, because a copy of the stack for each could turn a small text into a
            // large profile.
            let [.., previous, last] = self.stacks.as_mut_slice() else { return false };
            previous.numbers[0] += last.numbers[0];
            self.stacks.pop();
            self.is_same = true;
            return true;
        }
        let Some(last) = self.stacks.last_mut().filter(|_| !self.is_same) else { return false };
        let title = ["PC:", "creator:"].iter().find_map(|title| line.strip_prefix(title));
        let line = title.unwrap_or(line).trim();
        // `0x0040be31: main`
        let (addresses, name) = line.split_once(": ").unwrap_or((line, ""));
        let known = last.addresses.len();
        for word in addresses.split_whitespace() {
            let back = u64::from(!last.addresses.is_empty());
            let Some(address) = hex_address(word.trim_end_matches(':')) else { return false };
            last.addresses.push(address.saturating_sub(back));
        }
        if let (false, &[.., address]) = (name.is_empty(), &last.addresses[..]) {
            self.names.insert(address, name.to_owned());
        }
        title.is_some() || last.addresses.len() > known
    }

    fn build(self, options: &Options, mut warnings: Warnings) -> Reading {
        let Self { kind, mut stacks, maps, places, names, is_same: _ } = self;
        let kind = kind.unwrap_or(Kind::Threads);
        let types = kind.value_types();
        let columns = types.len();
        let mut profile = Profile { shown: columns - 1, ..Profile::new(types) };
        if !kind.is_java() {
            if let Kind::Contention(Contention { second: None, .. }) = kind {
                let said =
                    "the file does not say how long a cycle is: delays count cycles as nanoseconds";
                warnings.add(WarningKind::NotHeld(said.to_owned()), 1, []);
            }
            // These are all return addresses; those of threads were adjusted while parsing.
            let back = u64::from(kind != Kind::Threads);
            let addresses = stacks.iter_mut().flat_map(|stack| &mut stack.addresses);
            addresses.for_each(|address| *address = address.saturating_sub(back));
        }
        let mut addresses: Vec<u64> =
            stacks.iter().flat_map(|stack| stack.addresses.iter().copied()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let frames = if kind.is_java() {
            places.frames(&addresses, &mut profile)
        } else {
            let mut maps = maps.unwrap_or_default();
            let mut frames = named(&mut profile, &addresses, &names, &mut maps);
            addresses.retain(|address| !frames.contains_key(address));
            frames.extend(maps.frames(addresses, options, &mut profile, &mut warnings));
            frames
        };
        let name = profile.strings.intern("[no stack]");
        let none = profile.frames.intern(Frame::named(name, FrameKind::Marker(Marker::Remark)));
        let mut rows = Rows::new(options, columns);
        for Stack { numbers: [first, second], addresses } in stacks {
            let path = addresses.iter().rev().filter_map(|address| frames.get(address));
            let stack = match addresses.is_empty() {
                true => profile.stacks.intern(StackId::ROOT, none),
                false => profile.stacks.intern_path(path.flat_map(|of| of.iter().rev().copied())),
            };
            rows.push(Sample::new(stack), &kind.values(first, second)[..columns]);
        }
        rows.finish(&mut profile);
        Reading::new(profile, warnings)
    }
}

/// Returns the frames of addresses with names in the text.
fn named(
    profile: &mut Profile,
    addresses: &[u64],
    names: &HashMap<u64, String>,
    maps: &mut Maps,
) -> HashMap<u64, Vec<FrameId>> {
    let mut frames = HashMap::new();
    let known = addresses.iter().copied().filter(|address| names.contains_key(address));
    maps.paths(known, |address, path| {
        let module: StringId = profile.strings.intern(path);
        let function = profile.strings.intern(&tidy_name(&names[&address]));
        let frame = Frame { module, ..Frame::named(function, module_kind(path)) };
        frames.insert(address, vec![profile.frames.intern(frame)]);
    });
    frames
}

/// Parses `  19490304       27 ` and ` 0xbccc97 0xc61202`.
fn counted(numbers: &str, addresses: &str) -> Option<Stack> {
    let mut numbers = numbers.split_whitespace().map(str::parse::<u64>);
    let (Some(Ok(first)), Some(Ok(second)), None) =
        (numbers.next(), numbers.next(), numbers.next())
    else {
        return None;
    };
    let addresses = addresses.split_whitespace().map(hex_address).collect::<Option<_>>()?;
    Some(Stack { numbers: [first, second], addresses })
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{LabelOptions, Tree};

    use super::*;
    use crate::{Input, write_folded};

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
        assert_eq!(file.stacks[0].addresses, [0x40_bce7, 0x40_be30, 0x40_a1f1]);
        assert_eq!(file.stacks[0].numbers, [2, 0]);
        assert!(file.stacks[1].addresses.is_empty());
        // What has no thread before it, and what stands below such a line.
        let mut file = File::default();
        let known = |line: &str| file.line(line);
        let lines = ["--- threadz 1 ---", "--- Thread 7e0 (name: main/2) stack: ---"];
        assert!(lines.into_iter().all(known));
        assert!(!file.line("[same as previous thread]") && file.line("0x10"));
        assert!(file.line("--- Thread 7e1 (name: pool/3) stack: ---"));
        assert!(file.line("[same as previous thread]") && !file.line("0x20"));
        assert_eq!(file.stacks.len(), 1);
    }

    #[test]
    fn names_beside_addresses_were_not_read() {
        let text = "--- threadz 1 ---\n\n--- Thread 7f7 (name: main/1) stack: ---\n\
                    \x20 PC:  0x00bc8f1c: helper(arg *)\n  0x0040be31: main\n\
                    --- Thread 7f8 (name: thread1/2) stack: ---\n  PC: 0x00bc8f1c 0x0040b688\n\
                    \x20     creator: 0x0040be31\n\
                    --- Thread 7f9 (name: thread2/3) stack: ---\n      creator:\n  0x0040be31: main\n\
                    --- Memory map: ---\n  00400000-00fcb000: server\n";
        check(text, "threads", &[3], "");
        let stacks = folded(text);
        assert_eq!(stacks, "main 1\nmain;[server];helper 1\nmain;helper 1\n");
    }

    #[test]
    fn java_counts_in_its_own_units() {
        let places = "\n 0x3 a.B.f (B.java:3)\n 0x4 a.B.@main (B.java:-1)\n";
        let head = "--- contentionz 1 ---\nformat = java\nresolution = microseconds\nsampling period = 100\n";
        let text = format!("{head}  14 2 @ 0x00000003 0x00000004\n{places}");
        check(&text, "delay", &[200, 1_400_000], "");
        assert_eq!(folded(&text), "a.B.@main;a.B.f 200 1400000\n");
        // As pprof scales it.
        let head = "--- heapz 1 ---\nformat = java\nresolution = bytes\n";
        let text = format!("{head} 7048 1 @ 0x3\n 4752 9 @ 0x4\n{places}");
        check(&text, "inuse_space", &[74 + 8941, 527_819 + 4_720_968], "");
    }

    fn folded(text: &str) -> String {
        let input = Input::bytes("x", text).begin().expect("bytes");
        let reading = PprofText.read(input, &Options::default()).expect("a profile");
        let mut out = Vec::new();
        let tree = Tree::new(&reading.profile, &LabelOptions::default());
        write_folded(&tree, &mut out).expect("to memory");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn only_first_lines_of_these() {
        assert_eq!(Kind::of("--- threadz 1 ---"), Some(Kind::Threads));
        for line in ["--- contention:", "--- a/file.c", "---", "--- Thread 1 ---", "--- heapz ---"]
        {
            assert_eq!(Kind::of(line), None, "{line}");
        }
    }
}
