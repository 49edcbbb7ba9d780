//! Reader of Java thread dumps: `jstack PID`, `kill -QUIT PID`, `jcmd PID Thread.print`. A file may contain several
//! dumps.
//!
//! ```text
//! Full thread dump OpenJDK 64-Bit Server VM (17.0.15+6 mixed mode, sharing):
//!
//! "worker-0" #12 prio=5 os_prio=0 cpu=1209.91ms tid=0x00007f1a3c135ac0 nid=0x688d runnable [0x…]
//!    java.lang.Thread.State: RUNNABLE
//!     at Spin.burn(Spin.java:3)
//!     - locked <0x000000069ec02f40> (a java.lang.Object)
//!     at Spin.work(Spin.java:4)
//! ```
//!
//! - Each runnable thread with a stack is a sample of 1. Waiting threads, and threads reported as runnable that wait
//!   in a native method (`EPoll.wait`, `accept` …), are left out and counted.
//! - `nid` is the kernel's thread ID, in hexadecimal or, since Java 21, decimal.
//! - Threads of a pool differ in the number at the end of their names. It is removed unless threads are
//!   distinguished.
//! - Lines below a frame (`- locked <…>`) show the locks that it holds; they are not frames.

use pyrograph_profile::ValueType;

use super::java::{self, DumpedThread, native_id};
use super::text::{Collector, Lines};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};

/// Reader of Java thread dumps.
pub struct Jstack;

impl Reader for Jstack {
    fn name(&self) -> &'static str {
        "jstack"
    }

    fn written_by(&self) -> &'static str {
        "jstack, jcmd Thread.print, kill -QUIT of a Java process"
    }

    fn detect(&self, head: &[u8]) -> bool {
        memchr::memmem::find(head, b"Full thread dump ").is_some()
            || memchr::memmem::find(head, b"\n   java.lang.Thread.State: ").is_some()
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let mut lines = Lines::new(input);
        let mut collector = Collector::new(ValueType::samples());
        let mut thread: Option<DumpedThread> = None;
        let mut line = String::new();
        while lines.next(&mut line) {
            if let Some(name) = line.strip_prefix('"') {
                java::end_thread(&mut collector, &mut lines, thread.take(), options);
                thread = Some(dumped(name, lines.number()));
            } else if let Some(state) = line.trim().strip_prefix("java.lang.Thread.State: ") {
                if let Some(thread) = &mut thread {
                    thread.runnable = state.starts_with("RUNNABLE");
                }
            } else if line.trim().is_empty() {
                java::end_thread(&mut collector, &mut lines, thread.take(), options);
            } else if thread.is_some() {
                java::push_frame(&mut collector, &line);
            }
        }
        java::end_thread(&mut collector, &mut lines, thread, options);
        Ok(collector.reading(lines.warnings))
    }
}

/// Parses a thread's line, after the quotation mark in front of its name.
fn dumped(rest: &str, line: u64) -> DumpedThread {
    let (name, rest) = rest.rsplit_once('"').unwrap_or((rest, ""));
    let nid = rest.split_ascii_whitespace().find_map(|word| word.strip_prefix("nid="));
    // A thread without a state has a stack or is not a Java thread.
    DumpedThread { name: name.to_owned(), tid: nid.and_then(native_id), runnable: true, line }
}
