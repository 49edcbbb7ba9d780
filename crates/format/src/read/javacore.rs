//! Reader of the thread section of `javacore` dumps of IBM's Java and OpenJ9.
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
//! - Each thread in state `R` with a Java stack is a sample of 1; threads in other states (`CW` waiting, `P` parked,
//!   `B` blocked, `S` suspended) are left out and counted. The virtual machine stops all threads for the dump, so
//!   `vmstate` is `CW` for each.
//! - Packages are separated by slashes, which are replaced with dots, the usual notation.
//! - Native stacks are mostly those of the dump itself, and are left out.

use pyrograph_profile::ValueType;

use super::java::{self, DumpedThread, native_id};
use super::text::{Collector, Lines};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of `javacore` dumps.
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
        let mut thread: Option<DumpedThread> = None;
        let mut line = String::new();
        while lines.next(&mut line) {
            let (tag, rest) = line.split_once(' ').unwrap_or((&line, ""));
            match tag {
                "3XMTHREADINFO" => {
                    java::end_thread(&mut collector, &mut lines, thread.take(), options);
                    thread = dumped(rest.trim(), lines.number());
                }
                "3XMTHREADINFO1" => {
                    if let Some(thread) = &mut thread {
                        thread.tid = thread_id(rest);
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
        java::end_thread(&mut collector, &mut lines, thread, options);
        Ok(collector.reading(lines.warnings))
    }
}

/// Parses the rest of a thread's line; `None` for `Anonymous native thread`, which has no Java stack.
fn dumped(rest: &str, line: u64) -> Option<DumpedThread> {
    let (name, rest) = rest.strip_prefix('"')?.rsplit_once('"')?;
    let state = rest.split_once("state:").map_or("R", |(_, state)| state);
    let state = state.split([',', ' ']).next().unwrap_or_default();
    Some(DumpedThread { name: name.to_owned(), tid: None, runnable: state == "R", line })
}

/// Parses the thread ID in `(native thread ID:0x814, …`.
fn thread_id(text: &str) -> Option<i32> {
    let (_, id) = text.split_once("native thread ID:")?;
    native_id(id.split([',', ' ', ')']).next()?)
}

/// Replaces slashes in the class with dots; slashes in the source position, which follows it, are kept.
fn dotted(frame: &str) -> String {
    let end = frame.find('(').unwrap_or(frame.len());
    format!("{}{}", frame[..end].replace('/', "."), &frame[end..])
}
