//! Method traces of Android's runtime: `am profile start`, `Debug.startMethodTracing`, Android Studio's "Java method trace".
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
//! Source: the description of the format in `profile.h` of Android's Dalvik and `trace.cc` of ART. Numbers are
//! little-endian. The header is `SLOW`, the version (16 bits), the length of the header (16 bits), the time at its start in
//! microseconds (64 bits), and, from version 3 on, the length of a record (16 bits). A record is a thread (16 bits, in
//! version 1 8 bits), a method with what happened in its two lowest bits (call, return, return by an exception; 32 bits),
//! and microseconds since the start by each clock (32 bits): the thread's CPU time, the time, or both in this order.
//!
//! - The time of each call is its own: that of those it called is theirs. With both clocks it is the time, not CPU time.
//! - Calls that had begun before the trace are not in it: their returns are counted, and said.

use std::collections::BTreeMap;

use pyrograph_profile::{About, Frame, FrameId, FrameKind, Profile, Thread, ValueType};

use super::calls::Calls;
use crate::input::Head;
use crate::reader::{Detail, Options, ReadError, Reader, Reading, ThreadDetail};
use crate::warnings::{WarningKind, Warnings};

/// See the module.
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
        version && lines.next().is_some_and(|line| line.contains(&b'='))
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let (bytes, mut warnings) = input.into_bytes();
        let Some((text, records)) = split(&bytes) else {
            let reason = "it ends before the records of calls (`*end`)".to_owned();
            return Err(ReadError::Malformed { name, reason });
        };
        let mut tables = Tables::read(text, options, &mut warnings);
        let Some(records) = Records::read(records, tables.is_dual) else {
            let reason = "its records of calls are of no known version".to_owned();
            return Err(ReadError::Malformed { name, reason });
        };
        tables.profile.about =
            About { start: Some(records.start).filter(|&start| start > 0), ..About::default() };
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

/// The text, and the bytes after it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    const END: &[u8] = b"\n*end\n";
    let at = memchr::memmem::find(bytes, END)?;
    Some((&bytes[..=at], &bytes[at + END.len()..]))
}

/// The text part: threads, methods and the clock.
struct Tables {
    profile: Profile,
    is_dual: bool,
    methods: BTreeMap<u32, FrameId>,
    threads: BTreeMap<u32, Calls>,
    by_thread: bool,
}

impl Tables {
    fn read(text: &[u8], options: &Options, warnings: &mut Warnings) -> Self {
        let mut tables = Self {
            profile: Profile::new(vec![ValueType::new("time", "ns")]),
            is_dual: false,
            methods: BTreeMap::new(),
            threads: BTreeMap::new(),
            by_thread: options.threads == ThreadDetail::Thread,
        };
        let (mut section, mut unreadable) = (String::new(), 0);
        for line in String::from_utf8_lossy(text).lines() {
            if let Some(name) = line.strip_prefix('*') {
                name.clone_into(&mut section);
                continue;
            }
            let is_known = match section.as_str() {
                "version" => {
                    match line.split_once('=') {
                        Some(("clock", clock)) => tables.is_dual = clock == "dual",
                        Some(("data-file-overflow", "true")) => {
                            let cause = "its buffer was full: later calls are missing".to_owned();
                            warnings.add(WarningKind::Truncated(cause), 1, []);
                        }
                        _ => {}
                    }
                    true
                }
                "threads" => tables.thread(line),
                "methods" => tables.method(line),
                _ => true,
            };
            unreadable += u64::from(!is_known && !line.is_empty());
        }
        if unreadable > 0 {
            warnings.add(WarningKind::UnreadableRecord, unreadable, []);
        }
        tables
    }

    /// Takes `7164\tmain`.
    fn thread(&mut self, line: &str) -> bool {
        let Some((id, name)) = line.split_once('\t') else { return false };
        let Ok(id) = id.parse::<u32>() else { return false };
        let process = self.profile.strings.intern(name);
        let tid = i32::try_from(id).ok().filter(|_| self.by_thread);
        let thread = self.profile.threads.intern(Thread { tid, process, ..Thread::default() });
        self.threads.insert(id, Calls::new(thread));
        true
    }

    /// Takes `0x8\tcom.example.Main\tonCreate\t(I)V\tMain.java`, maybe with a line at the end.
    fn method(&mut self, line: &str) -> bool {
        let mut fields = line.split('\t');
        let id = fields.next().and_then(|id| u32::from_str_radix(id.strip_prefix("0x")?, 16).ok());
        let (Some(id), Some(class), Some(name)) = (id, fields.next(), fields.next()) else {
            return false;
        };
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

    /// Follows all calls.
    fn play(&mut self, records: &Records<'_>, warnings: &mut Warnings) {
        let (mut unmatched, mut unknown, mut last) = (0, 0, 0);
        let nameless = self.profile.frames.intern(Frame::default());
        for record in records.iter() {
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
            (WarningKind::UnreadableRecord, unknown + u64::from(records.has_rest)),
            (WarningKind::TooDeep, too_deep),
        ] {
            if count > 0 {
                warnings.add(kind, count, []);
            }
        }
    }
}

/// One row a stack and thread.
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

struct Records<'a> {
    /// Nanoseconds.
    start: u64,
    bytes: &'a [u8],
    size: usize,
    /// Bytes of a thread's number.
    thread: usize,
    /// Where the time is.
    time_at: usize,
    /// The last record is cut off.
    has_rest: bool,
}

struct Record {
    thread: u32,
    method: u32,
    /// Nanoseconds since the start.
    time: u64,
}

impl<'a> Records<'a> {
    fn read(bytes: &'a [u8], is_dual: bool) -> Option<Self> {
        let header = bytes.strip_prefix(b"SLOW")?;
        let word =
            |at: usize| header.get(at..)?.first_chunk().map(|word| u16::from_le_bytes(*word));
        let (version, offset) = (word(0)?, usize::from(word(2)?));
        let start = u64::from_le_bytes(*header.get(4..)?.first_chunk()?);
        let thread = if version == 1 { 1 } else { 2 };
        let (least, time_at) = match is_dual {
            true => (thread + 12, thread + 8),
            false => (thread + 8, thread + 4),
        };
        let size = match version {
            1 | 2 => least,
            3 => usize::from(word(12)?),
            _ => return None,
        };
        let bytes = bytes.get(offset..)?;
        let has_rest = !bytes.len().is_multiple_of(size.max(1));
        (size >= least && offset >= 16).then_some(Self {
            start: start.saturating_mul(1000),
            bytes,
            size,
            thread,
            time_at,
            has_rest,
        })
    }

    fn iter(&self) -> impl Iterator<Item = Record> {
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, &b| sum << 8 | u32::from(b));
        self.bytes.chunks_exact(self.size).map(move |record| Record {
            thread: number(&record[..self.thread]),
            method: number(&record[self.thread..self.thread + 4]),
            time: u64::from(number(&record[self.time_at..self.time_at + 4])) * 1000,
        })
    }
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
        bytes.extend_from_slice(&7u64.to_le_bytes());
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
        assert_eq!(reading.profile.about.start, Some(7000));
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
        let whole = trace("dual", &[(1, 4, 0, 1, 10), (1, 4, 1, 1, 20)]);
        for end in 0..whole.len() {
            let input = Input::bytes("x", &whole[..end]).begin().expect("bytes");
            let _ = ArtTrace.read(input, &Options::default());
        }
    }
}
