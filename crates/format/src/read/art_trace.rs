//! Reader of method traces of the Android Runtime: `am profile start`, `Debug.startMethodTracing`, Android Studio's
//! "Java method trace".
//!
//! ```text
//! *version
//! 3
//! data-file-overflow=false
//! clock=dual
//! *threads
//! 7164\tmain
//! *methods
//! 0x8\tcom.example.Main\tonCreate\t(I)V\tMain.java
//! *end
//! SLOW …       binary from here on: a header, and records of calls and returns
//! ```
//!
//! A streamed trace, as Android Studio saves it, begins with the header. Methods, threads and, at the end, the text
//! are embedded between its [records].
//!
//! Versions 4 and 5 have [blocks] of records instead.
//!
//! Source: the description of the format in `profile.h` of Android's Dalvik and `trace.cc` of ART.
//!
//! - The value of each call is its self time. If the trace has both clocks, wall-clock time is used, not CPU time.
//! - Calls that began before the trace are missing: their returns are counted, with a warning.

mod blocks;
mod records;

use std::collections::BTreeMap;

use pyrograph_profile::{About, Frame, FrameId, FrameKind, Profile, Thread, ValueType};

use self::records::{Item, Records};
use super::calls::Calls;
use crate::input::Head;
use crate::reader::{Detail, Options, ReadError, Reader, Reading, ThreadDetail};
use crate::warnings::{WarningKind, Warnings};

/// Reader of ART method traces.
pub struct ArtTrace;

impl Reader for ArtTrace {
    fn name(&self) -> &'static str {
        "ART method trace"
    }

    fn written_by(&self) -> &'static str {
        "am profile start, Debug.startMethodTracing (Android)"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines = head.split(|&byte| byte == b'\n');
        let version = lines.next() == Some(b"*version") && lines.next().is_some_and(is_number);
        version && lines.next().is_some_and(|line| line.contains(&b'=')) || records::begins(head)
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let (bytes, mut warnings) = input.into_bytes();
        let mut tables = Tables::new(options);
        let is_streamed = bytes.starts_with(records::MAGIC);
        let (text, records) = if is_streamed { (&b""[..], &bytes[..]) } else { split(&bytes) };
        if records.is_empty() {
            let reason = "it ends before the records of calls (`*end`)".to_owned();
            return Err(ReadError::Malformed { name, reason });
        }
        tables.text(text, &mut warnings);
        let records = match Records::read(records, is_streamed, tables.is_dual) {
            Ok(records) => records,
            Err(reason) => return Err(ReadError::Malformed { name, reason }),
        };
        if is_streamed {
            tables.between(&records, &mut warnings);
        }
        tables.profile.about = About { start: records.start, ..About::default() };
        if tables.is_dual && !records.has_two_clocks() {
            let reason = "its records are too short for the two clocks that it names".to_owned();
            return Err(ReadError::Malformed { name, reason });
        }
        tables.play(&records, &mut warnings);
        if tables.is_dual {
            let said = "CPU times of calls are left out: the time is counted".to_owned();
            warnings.add(WarningKind::NotHeld(said), 1, []);
        }
        let profile = match options.detail {
            Detail::Samples => tables.profile,
            Detail::Totals => totals(tables.profile),
        };
        Ok(Reading::new(profile, warnings))
    }
}

fn is_number(line: &[u8]) -> bool {
    !line.is_empty() && line.iter().all(u8::is_ascii_digit)
}

/// Splits off the text; returns it and the bytes after it, which are empty if the text is not terminated.
fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    const END: &[u8] = b"\n*end\n";
    match memchr::memmem::find(bytes, END) {
        Some(at) => (&bytes[..=at], &bytes[at + END.len()..]),
        None => (bytes, &[]),
    }
}

/// The contents of the text part: threads, methods and the clock.
struct Tables {
    profile: Profile,
    is_dual: bool,
    methods: BTreeMap<u32, FrameId>,
    threads: BTreeMap<u32, Calls>,
    by_thread: bool,
}

impl Tables {
    fn new(options: &Options) -> Self {
        Self {
            profile: Profile::new(vec![ValueType::new("time", "ns")]),
            is_dual: false,
            methods: BTreeMap::new(),
            threads: BTreeMap::new(),
            by_thread: options.threads == ThreadDetail::Thread,
        }
    }

    /// Parses the text before the records, or at the end of streamed ones.
    fn text(&mut self, text: &[u8], warnings: &mut Warnings) {
        let (mut section, mut unreadable) = (String::new(), 0);
        for line in String::from_utf8_lossy(text).lines() {
            if let Some(name) = line.strip_prefix('*') {
                name.clone_into(&mut section);
                continue;
            }
            let is_known = match section.as_str() {
                "version" => {
                    match line.split_once('=') {
                        Some(("clock", clock)) => self.is_dual = clock == "dual",
                        Some(("data-file-overflow", "true")) => {
                            let cause = "its buffer was full: later calls are missing".to_owned();
                            warnings.add(WarningKind::Truncated(cause), 1, []);
                        }
                        _ => {}
                    }
                    true
                }
                "threads" => self.thread(line),
                "methods" => self.method(line),
                _ => true,
            };
            unreadable += u64::from(!is_known && !line.is_empty());
        }
        if unreadable > 0 {
            warnings.add(WarningKind::UnreadableRecord, unreadable, []);
        }
    }

    /// Parses the items between streamed records.
    fn between(&mut self, records: &Records<'_>, warnings: &mut Warnings) {
        // Used if the text with this setting is missing.
        self.is_dual = records.has_two_clocks();
        let (mut has_text, mut unreadable) = (false, 0);
        for item in records.items(self.is_dual) {
            match item {
                Item::Record(_) => {}
                Item::Thread(id, name) => self.named_thread(id, &String::from_utf8_lossy(name)),
                Item::Method(id, line) => {
                    let line = String::from_utf8_lossy(line);
                    let line = line.trim_end_matches('\n');
                    let is_known = match id {
                        Some(id) => self.method_of(id, line),
                        None => self.method(line),
                    };
                    unreadable += u64::from(!is_known);
                }
                Item::Text(text) => {
                    has_text = true;
                    self.text(text, warnings);
                }
            }
        }
        if unreadable > 0 {
            warnings.add(WarningKind::UnreadableRecord, unreadable, []);
        }
        if !has_text {
            let cause = "the text at its end is missing".to_owned();
            warnings.add(WarningKind::Truncated(cause), 1, []);
        }
    }

    /// Parses `7164\tmain`.
    fn thread(&mut self, line: &str) -> bool {
        let Some((id, name)) = line.split_once('\t') else { return false };
        let Ok(id) = id.parse::<u32>() else { return false };
        self.named_thread(id, name);
        true
    }

    fn named_thread(&mut self, id: u32, name: &str) {
        let process = self.profile.strings.intern(name);
        let tid = i32::try_from(id).ok().filter(|_| self.by_thread);
        let thread = self.profile.threads.intern(Thread { tid, process, ..Thread::default() });
        self.threads.insert(id, Calls::new(thread));
    }

    /// Parses `0x8\tcom.example.Main\tonCreate\t(I)V\tMain.java`, possibly with a line number at the end.
    fn method(&mut self, line: &str) -> bool {
        let Some((id, rest)) = line.split_once('\t') else { return false };
        // The first method's ID is written as `0`, without a prefix.
        let digits = id.strip_prefix("0x").unwrap_or(id);
        u32::from_str_radix(digits, 16).is_ok_and(|id| self.method_of(id, rest))
    }

    /// Parses such a line after its ID.
    fn method_of(&mut self, id: u32, line: &str) -> bool {
        let mut fields = line.split('\t');
        let (Some(class), Some(name)) = (fields.next(), fields.next()) else { return false };
        let (file, start_line) = (fields.nth(1).unwrap_or_default(), fields.next());
        let name = match class {
            "" => name.to_owned(),
            class => format!("{}.{name}", class.replace('/', ".")),
        };
        let function = self.profile.strings.intern(&name);
        let file = self.profile.strings.intern(file);
        let start_line = start_line.and_then(|line| line.parse().ok()).unwrap_or(0);
        let frame = Frame { file, start_line, ..Frame::named(function, FrameKind::User) };
        self.methods.insert(id, self.profile.frames.intern(frame));
        true
    }

    /// Replays all calls.
    fn play(&mut self, records: &Records<'_>, warnings: &mut Warnings) {
        let (mut unmatched, mut unknown, mut last) = (0, 0, 0);
        let nameless = self.profile.frames.intern(Frame::default());
        for record in records.iter(self.is_dual) {
            last = last.max(record.time);
            let method = record.method & !3;
            let calls = self.threads.entry(record.thread).or_default();
            match record.method & 3 {
                0 => {
                    let frame = self.methods.get(&method).copied().unwrap_or(nameless);
                    calls.call(&mut self.profile, record.time, frame, method.into());
                }
                1 | 2 => {
                    let ended = calls.end_token(&mut self.profile, record.time, method.into());
                    unmatched += u64::from(!ended);
                }
                _ => unknown += 1,
            }
        }
        let mut too_deep = 0;
        for calls in self.threads.values_mut() {
            if calls.depth() > 0 {
                calls.pass(&mut self.profile, last);
            }
            too_deep += calls.too_deep;
        }
        for (kind, count) in [
            (WarningKind::UnmatchedEnd, unmatched),
            (WarningKind::UnreadableRecord, unknown + u64::from(records.has_rest())),
            (WarningKind::TooDeep, too_deep),
        ] {
            if count > 0 {
                warnings.add(kind, count, []);
            }
        }
    }
}

/// Sums samples into one row for each stack and thread.
fn totals(profile: Profile) -> Profile {
    let Profile { strings, frames, stacks, threads, about, .. } = profile;
    let mut sums = BTreeMap::new();
    for (sample, value) in profile.samples.iter().zip(profile.samples.values(0)) {
        *sums.entry((sample.stack, sample.thread)).or_insert(0u64) += value;
    }
    let of = Profile::new(profile.value_types);
    let mut summed = Profile { strings, frames, stacks, threads, about, ..of };
    for ((stack, thread), value) in sums {
        let sample = pyrograph_profile::Sample { thread, ..pyrograph_profile::Sample::new(stack) };
        summed.push(sample, &[value]);
    }
    summed
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{LabelOptions, Tree};

    use super::*;
    use crate::{Input, write_folded};

    /// A trace of these records: thread, method, action, CPU time, time.
    fn trace(clock: &str, records: &[(u16, u32, u32, u32, u32)]) -> Vec<u8> {
        let is_dual = clock == "dual";
        let mut bytes = format!(
            "*version\n3\ndata-file-overflow=false\nclock={clock}\n*threads\n1\tmain\n2\tpool-1\n*methods\n\
             0x4\tcom/example/Main\tmain\t([L)V\tMain.java\n0x8\tcom.example.Main\twork\t()V\tMain.java\t12\n*end\n"
        )
        .into_bytes();
        bytes.extend_from_slice(b"SLOW\x03\0\x20\0");
        bytes.extend_from_slice(&1_700_000_000_000_000u64.to_le_bytes());
        bytes.extend_from_slice(&(if is_dual { 14u16 } else { 10 }).to_le_bytes());
        bytes.extend_from_slice(&[0; 14]);
        for &(thread, method, action, cpu, wall) in records {
            bytes.extend_from_slice(&thread.to_le_bytes());
            bytes.extend_from_slice(&(method | action).to_le_bytes());
            bytes.extend_from_slice(&cpu.to_le_bytes());
            if is_dual {
                bytes.extend_from_slice(&wall.to_le_bytes());
            }
        }
        bytes
    }

    fn check(bytes: Vec<u8>, expect: &str, said: &str) {
        let input = Input::bytes("x", bytes).begin().expect("bytes");
        assert!(ArtTrace.detect(input.bytes()));
        let reading = ArtTrace.read(input, &Options::default()).expect("a trace");
        assert_eq!(reading.profile.about.start, Some(1_700_000_000_000_000_000));
        let mut out = Vec::new();
        write_folded(&Tree::new(&reading.profile, &LabelOptions::default()), &mut out)
            .expect("to memory");
        assert_eq!(String::from_utf8_lossy(&out), expect);
        let warnings: Vec<String> = reading.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(warnings.join("; "), said);
    }

    #[test]
    fn each_call_has_its_own_time() {
        let records = [
            (1, 4, 0, 1, 10),
            (1, 8, 0, 2, 20),
            (2, 8, 0, 0, 25),
            // By an exception.
            (1, 8, 2, 9, 70),
            (2, 8, 1, 3, 75),
            (1, 4, 1, 10, 100),
        ];
        let dual = "main;com.example.Main.main 40000\nmain;com.example.Main.main;com.example.Main.work 50000\n\
                    pool-1;com.example.Main.work 50000\n";
        let said = "CPU times of calls are left out: the time is counted";
        check(trace("dual", &records), dual, said);
        let cpu = "main;com.example.Main.main 2000\nmain;com.example.Main.main;com.example.Main.work 7000\n\
                   pool-1;com.example.Main.work 3000\n";
        check(trace("thread-cpu", &records), cpu, "");
    }

    #[test]
    fn calls_may_begin_before_a_trace_and_end_after_it() {
        let records = [(1, 8, 1, 5, 0), (1, 4, 0, 6, 0), (2, 8, 0, 1, 0), (2, 8, 1, 9, 0)];
        let mut bytes = trace("wall", &records);
        bytes.push(0);
        let said = "1 damaged record was skipped; 1 end of calls that begin nowhere was skipped";
        let expect = "main;com.example.Main.main 3000\npool-1;com.example.Main.work 8000\n";
        let text = |said: &str| said.to_owned();
        let mut words: Vec<String> = said.split("; ").map(text).collect();
        words.sort();
        let input = Input::bytes("x", bytes.clone()).begin().expect("bytes");
        let reading = ArtTrace.read(input, &Options::default()).expect("a trace");
        let mut found: Vec<String> = reading.warnings.iter().map(ToString::to_string).collect();
        found.sort();
        assert_eq!(found, words);
        bytes.pop();
        check(bytes, expect, "1 end of calls that begin nowhere was skipped");
    }

    #[test]
    fn damage_is_refused_or_said() {
        let records = [(1, 0, 1, 10), (1, 1, 1, 20)];
        for whole in [
            trace("dual", &[(1, 4, 0, 1, 10), (1, 4, 1, 1, 20)]),
            streamed(true, &[(7164, &records), (7200, &records)]),
            streamed(false, &[(7164, &records)]),
        ] {
            for end in 0..whole.len() {
                let input = Input::bytes("x", &whole[..end]).begin().expect("bytes");
                let _ = ArtTrace.read(input, &Options::default());
            }
        }
    }

    fn leb128(bytes: &mut Vec<u8>, mut value: u32) {
        while value > 0x7f {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
    }

    fn signed_leb128(bytes: &mut Vec<u8>, mut value: i32) {
        while !(-64..64).contains(&value) {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8 & 0x7f);
    }

    /// Records of a thread: method, action, CPU time, time.
    type Block<'a> = (u32, &'a [(u32, u32, u32, u32)]);

    /// A streamed trace with blocks, as ART's writer makes it, of a machine that was started 90 minutes before.
    fn streamed(is_dual: bool, blocks: &[Block<'_>]) -> Vec<u8> {
        let mut bytes = b"SLOW".to_vec();
        let version: u16 = if is_dual { 0xf5 } else { 0xf4 };
        bytes.extend_from_slice(&version.to_le_bytes());
        bytes.extend_from_slice(&5_400_000_000u64.to_le_bytes());
        bytes.resize(32, 0);
        let mut item = |kind: u8, id: u32, text: &str| {
            bytes.push(kind);
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        };
        item(0, 7164, "main");
        item(1, 1, "com.example.Main\tmain\t([L)V\tMain.java\n");
        item(1, 300, "com.example.Main\twork\t()V\tMain.java\n");
        for (thread, records) in blocks {
            let (method, action, mut cpu, mut time) = records[0];
            let first = method << 2 | action;
            bytes.push(2);
            bytes.extend_from_slice(&thread.to_le_bytes());
            bytes.extend_from_slice(&first.to_le_bytes());
            if is_dual {
                bytes.extend_from_slice(&cpu.to_le_bytes());
            }
            bytes.extend_from_slice(&time.to_le_bytes());
            bytes.extend_from_slice(&((records.len() - 1) as u16).to_le_bytes());
            let size_at = bytes.len();
            bytes.extend_from_slice(&[0, 0]);
            for &(method, action, cpu_now, now) in &records[1..] {
                signed_leb128(&mut bytes, (method << 2 | action).wrapping_sub(first).cast_signed());
                leb128(&mut bytes, now.wrapping_sub(time));
                if is_dual {
                    leb128(&mut bytes, cpu_now.wrapping_sub(cpu));
                }
                (cpu, time) = (cpu_now, now);
            }
            let size = (bytes.len() - size_at - 2) as u16;
            bytes[size_at..size_at + 2].copy_from_slice(&size.to_le_bytes());
        }
        let clock = if is_dual { "dual" } else { "wall" };
        let text =
            format!("*version\n{}\ndata-file-overflow=false\nclock={clock}\n*end\n", version & 15);
        bytes.push(3);
        bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
        bytes
    }

    /// Folded text of a trace, and what is said of it.
    fn read(bytes: Vec<u8>) -> (String, String) {
        let input = Input::bytes("x", bytes).begin().expect("bytes");
        assert!(ArtTrace.detect(input.bytes()));
        let reading = ArtTrace.read(input, &Options::default()).expect("a trace");
        // The time since the machine was started is no date.
        assert_eq!(reading.profile.about.start, None);
        let mut out = Vec::new();
        write_folded(&Tree::new(&reading.profile, &LabelOptions::default()), &mut out)
            .expect("to memory");
        let warnings: Vec<String> = reading.warnings.iter().map(ToString::to_string).collect();
        (String::from_utf8_lossy(&out).into_owned(), warnings.join("; "))
    }

    #[test]
    fn blocks_of_records_are_read_as_records() {
        let first = [(1, 0, 5, 10), (300, 0, 6, 20), (300, 2, 9, 70)];
        let (second, other) = ([(1, 1, 10, 100)], [(300, 0, 0, 25), (300, 1, 3, 75)]);
        let of =
            |is_dual| read(streamed(is_dual, &[(7164, &first), (7200, &other), (7164, &second)]));
        let expect = "com.example.Main.work 50000\nmain;com.example.Main.main 40000\n\
                      main;com.example.Main.main;com.example.Main.work 50000\n";
        assert_eq!(of(false), (expect.to_owned(), String::new()));
        let said = "CPU times of calls are left out: the time is counted";
        assert_eq!(of(true), (expect.to_owned(), said.to_owned()));
    }

    #[test]
    fn a_block_may_be_longer_than_its_header_can_say() {
        // The thread's buffer holds 262,144 records.
        let records: Vec<_> = (0..200_000).map(|i| (1, i % 2, i, 10 * i)).collect();
        let last = [(300, 0, 0, 3_000_000), (300, 1, 0, 3_000_007)];
        let (folded, said) = read(streamed(false, &[(7164, &records), (7164, &last)]));
        let expect = "main;com.example.Main.main 1000000000\nmain;com.example.Main.work 7000\n";
        assert_eq!((&folded[..], &said[..]), (expect, ""));
    }

    #[test]
    fn a_block_whose_header_is_damaged_is_said() {
        let mut bytes = streamed(false, &[(7164, &[(1, 0, 0, 0), (1, 1, 0, 9)])]);
        let size = memchr::memmem::rfind(&bytes, &[1, 0, 2, 0])
            .expect("the number of records and their size");
        bytes[size] = 2;
        let (_, said) = read(bytes);
        assert!(
            said.contains("damaged record") && said.contains("text at its end is missing"),
            "{said}"
        );
    }
}
