//! The thread section of IBM's and OpenJ9's `javacore` dumps.
//!
//! ```text
//! 3XMTHREADINFO      "main" J9VMThread:0x0000000B0F010500, …, state:R, prio=5
//! 3XMTHREADINFO1            (native thread ID:0x814, native priority:0x5, vmstate:CW, …)
//! 3XMTHREADINFO3           Java callstack:
//! 4XESTACKTRACE                at myLoop.main(myLoop.java:32(Compiled Code))
//! 3XMTHREADINFO3           Native callstack:
//! 4XENATIVESTACK               ZwWaitForSingleObject+0xa (0x0000000077C612FA [ntdll+0x512fa])
//! ```
//!
//! - Each thread in state `R` with a Java stack is a sample of 1; the others (`CW` waits, `P` parked,
//!   `B` blocked, `S` suspended) are left out and counted. The machine stops all threads for the dump,
//!   so that `vmstate` says `CW` of each.
//! - Packages are parted by slashes; they become dots, as everywhere else.
//! - Native stacks are those of the dump itself, mostly, and are left out.

use pyrograph_profile::{Thread, ValueType};

use super::java;
use super::jstack::without_number;
use super::text::{Collector, Lines};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading, ThreadDetail};
use crate::warnings::WarningKind;

/// See the module.
pub struct Javacore;

impl Reader for Javacore {
    fn name(&self) -> &'static str {
        "javacore"
    }

    fn written_by(&self) -> &'static str {
        "IBM and OpenJ9 Java, kill -QUIT"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let begins = |tag: &[u8]| {
            head.starts_with(tag)
                || memchr::memmem::find_iter(head, tag).any(|at| at > 0 && head[at - 1] == b'\n')
        };
        begins(b"3XMTHREADINFO ") || begins(b"0SECTION ") || begins(b"1TIFILENAME ")
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let mut lines = Lines::new(input);
        let mut collector = Collector::new(ValueType::samples());
        let mut thread: Option<Dumped> = None;
        let mut line = String::new();
        while lines.next(&mut line) {
            let (tag, rest) = line.split_once(' ').unwrap_or((&line, ""));
            match tag {
                "3XMTHREADINFO" => {
                    finish(&mut collector, &mut lines, thread.take(), options);
                    thread = Dumped::new(rest.trim(), lines.number());
                }
                "3XMTHREADINFO1" => {
                    if let Some(thread) = &mut thread {
                        thread.tid = native_id(rest);
                    }
                }
                "4XESTACKTRACE"
                    if thread.is_some() && !java::push_frame(&mut collector, &dotted(rest)) =>
                {
                    lines.warn(WarningKind::UnreadableLine);
                }
                _ => {}
            }
        }
        finish(&mut collector, &mut lines, thread, options);
        Ok(collector.reading(lines.warnings))
    }
}

struct Dumped {
    name: String,
    tid: Option<i32>,
    runnable: bool,
    /// Where it begins.
    line: u64,
}

impl Dumped {
    /// `None` for `Anonymous native thread`, which has no Java stack.
    fn new(rest: &str, line: u64) -> Option<Self> {
        let (name, rest) = rest.strip_prefix('"')?.rsplit_once('"')?;
        let state = rest.split_once("state:").map_or("R", |(_, state)| state);
        let state = state.split([',', ' ']).next().unwrap_or_default();
        Some(Self { name: name.to_owned(), tid: None, runnable: state == "R", line })
    }
}

/// Of `(native thread ID:0x814, …`.
fn native_id(text: &str) -> Option<i32> {
    let (_, id) = text.split_once("native thread ID:")?;
    let id = id.split([',', ' ', ')']).next()?;
    match id.strip_prefix("0x") {
        Some(digits) => i32::from_str_radix(digits, 16).ok(),
        None => id.parse().ok(),
    }
}

/// The slashes of the class become dots; those in the place, which follows it, stay.
fn dotted(frame: &str) -> String {
    let end = frame.find('(').unwrap_or(frame.len());
    format!("{}{}", frame[..end].replace('/', "."), &frame[end..])
}

fn finish(collector: &mut Collector, lines: &mut Lines, thread: Option<Dumped>, options: &Options) {
    let Some(thread) = thread.filter(|_| collector.depth() > 0) else { return collector.discard() };
    if !thread.runnable || java::waits(collector.function(0)) {
        lines.warn_at(WarningKind::IdleThread, thread.line);
        return collector.discard();
    }
    let (name, tid) = match options.threads {
        ThreadDetail::Thread => (thread.name.as_str(), thread.tid),
        _ => (without_number(&thread.name), None),
    };
    let process = collector.intern(name);
    let thread = collector.profile.threads.intern(Thread { process, tid, ..Thread::default() });
    collector.end_leaf_first(thread, 1);
}
