//! Reader of stacks of Python threads, printed by `faulthandler` and `py-spy dump`, in one dump or several.
//!
//! ```text
//! Timeout (0:00:00.150000)!
//! Thread 0x00007f678df696c0 (most recent call first):
//!   File "/src/e.py", line 4 in inner
//!   File "/src/e.py", line 7 in <module>
//!   ...
//! ```
//!
//! ```text
//! Process 27010: python3 e.py
//! Thread 27010 (active+gil): "MainThread"
//!     inner (e.py:4)
//!     <module> (e.py:7)
//! ```
//!
//! - Each thread in each dump is a sample of 1. Threads that `py-spy` marks as idle are left out and counted.
//! - `faulthandler` stops after 100 frames and prints `...`: such a stack begins with a marker.
//! - Since Python 3.13, a thread's name may follow its ID, in brackets.

use pyrograph_profile::{Frame, FrameKind, Marker, Thread, ThreadId, ValueType};

use super::text::{Collector, Lines};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading, ThreadDetail};
use crate::warnings::WarningKind;

/// Reader of `faulthandler` and `py-spy dump` text.
pub struct Faulthandler;

/// End of the line above a stack.
const FIRST: &str = "(most recent call first):";

impl Reader for Faulthandler {
    fn name(&self) -> &'static str {
        "faulthandler"
    }

    fn written_by(&self) -> &'static str {
        "Python's faulthandler, py-spy dump"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let lines = || head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
        let python = lines().any(|line| {
            line.ends_with(FIRST.as_bytes())
                && [&b"Thread 0x"[..], b"Current thread 0x", b"Stack "]
                    .iter()
                    .any(|word| line.starts_with(word))
        });
        let py_spy =
            |line: &[u8]| str::from_utf8(line).ok().and_then(|line| py_spy_thread(line)).is_some();
        python || (head.starts_with(b"Process ") && lines().any(py_spy))
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let mut lines = Lines::new(input);
        let mut collector = Collector::new(ValueType::samples());
        let mut thread: Option<Dumped> = None;
        let mut line = String::new();
        while lines.next(&mut line) {
            if let Some(next) = header(&line, lines.number()) {
                finish(&mut collector, &mut lines, thread.take(), options);
                thread = Some(next);
            } else if thread.is_some() && line.starts_with("  ") {
                if !frame(&mut collector, line.trim()) {
                    lines.warn(WarningKind::UnreadableLine);
                }
            } else {
                finish(&mut collector, &mut lines, thread.take(), options);
            }
        }
        finish(&mut collector, &mut lines, thread, options);
        Ok(collector.reading(lines.warnings))
    }
}

struct Dumped {
    name: String,
    tid: Option<i32>,
    idle: bool,
    line: u64,
}

fn header(line: &str, number: u64) -> Option<Dumped> {
    if let Some((tid, idle, name)) = py_spy_thread(line) {
        return Some(Dumped { name: name.to_owned(), tid, idle, line: number });
    }
    let words = line.trim_end().strip_suffix(FIRST)?;
    let is_header = ["Thread 0x", "Current thread 0x", "Stack "]
        .iter()
        .any(|beginning| words.starts_with(beginning));
    let name = words.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let name = name.map_or("", |(name, _)| name).to_owned();
    is_header.then_some(Dumped { name, tid: None, idle: false, line: number })
}

/// Parses ID, idle state, and name in `Thread 27010 (active+gil): "MainThread"`.
fn py_spy_thread(line: &str) -> Option<(Option<i32>, bool, &str)> {
    let (tid, rest) = line.strip_prefix("Thread ")?.split_once(" (")?;
    let (state, name) = rest.split_once(')')?;
    let state = state.split('+').next().filter(|state| ["active", "idle"].contains(state))?;
    let name = name.trim_start_matches(':').trim().trim_matches('"');
    Some((tid.parse().ok(), state == "idle", name))
}

fn frame(collector: &mut Collector, text: &str) -> bool {
    if text == "..." {
        collector.marker(Marker::Truncated);
        return true;
    }
    if text == "<no Python frame>" {
        return true;
    }
    let parts = match text.strip_prefix("File \"") {
        Some(rest) => rest.rsplit_once("\", line ").and_then(|(file, rest)| {
            let (line, function) = rest.split_once(" in ")?;
            Some((function, file, line))
        }),
        None => text.strip_suffix(')').and_then(|text| {
            let (function, place) = text.rsplit_once(" (")?;
            let (file, line) = place.rsplit_once(':')?;
            Some((function, file, line))
        }),
    };
    let Some((function, file, line)) = parts else { return false };
    let Ok(line) = line.parse() else { return false };
    let file = collector.intern(file);
    let function = collector.intern(function);
    let frame = Frame { file, line, ..Frame::named(function, FrameKind::Interpreted) };
    collector.push_frame(frame);
    true
}

fn finish(collector: &mut Collector, lines: &mut Lines, thread: Option<Dumped>, options: &Options) {
    let Some(thread) = thread.filter(|_| collector.depth() > 0) else { return collector.discard() };
    if thread.idle {
        lines.warn_at(WarningKind::IdleThread, thread.line);
        return collector.discard();
    }
    let tid = thread.tid.filter(|_| options.threads == ThreadDetail::Thread);
    let thread = match (thread.name.as_str(), tid) {
        ("", None) => ThreadId::UNKNOWN,
        (name, tid) => {
            let process = collector.intern(name);
            collector.profile.threads.intern(Thread { process, tid, ..Thread::default() })
        }
    };
    collector.end_leaf_first(thread, 1);
}
