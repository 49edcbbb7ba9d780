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

use pyrograph_profile::ValueType;

use super::java::{self, DumpedThread, native_id};
use super::text::{Collector, Lines};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
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

/// `None` for `Anonymous native thread`, which has no Java stack.
fn dumped(rest: &str, line: u64) -> Option<DumpedThread> {
    let (name, rest) = rest.strip_prefix('"')?.rsplit_once('"')?;
    let state = rest.split_once("state:").map_or("R", |(_, state)| state);
    let state = state.split([',', ' ']).next().unwrap_or_default();
    Some(DumpedThread { name: name.to_owned(), tid: None, runnable: state == "R", line })
}

/// Of `(native thread ID:0x814, …`.
fn thread_id(text: &str) -> Option<i32> {
    let (_, id) = text.split_once("native thread ID:")?;
    native_id(id.split([',', ' ', ')']).next()?)
}

/// The slashes of the class become dots; those in the place, which follows it, stay.
fn dotted(frame: &str) -> String {
    let end = frame.find('(').unwrap_or(frame.len());
    format!("{}{}", frame[..end].replace('/', "."), &frame[end..])
}
