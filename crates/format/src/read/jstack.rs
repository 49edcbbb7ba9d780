//! Java's thread dumps: `jstack PID`, `kill -QUIT PID`, `jcmd PID Thread.print`; one or many in a
//! file.
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
//! - Each runnable thread with a stack is a sample of 1. Threads that wait, and those that are
//!   called runnable but wait in a native method (`EPoll.wait`, `accept` …), are left out and counted.
//! - `nid` is the thread's number for the kernel, in hexadecimal or, from Java 21 on, decimal.
//! - Threads of a pool differ in the number at the end of their names. It is left out unless threads
//!   are told apart.
//! - Lines below a frame (`- locked <…>`) say what it holds; they are not frames.

use pyrograph_profile::{Thread, ValueType};

use super::java;
use super::text::{Collector, Lines};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading, ThreadDetail};
use crate::warnings::WarningKind;

/// See the module.
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
        let mut thread: Option<Dumped> = None;
        let mut line = String::new();
        while lines.next(&mut line) {
            if let Some(name) = line.strip_prefix('"') {
                finish(&mut collector, &mut lines, thread.take(), options);
                thread = Some(Dumped::new(name, lines.number()));
            } else if let Some(state) = line.trim().strip_prefix("java.lang.Thread.State: ") {
                if let Some(thread) = &mut thread {
                    thread.runnable = state.starts_with("RUNNABLE");
                }
            } else if line.trim().is_empty() {
                finish(&mut collector, &mut lines, thread.take(), options);
            } else if thread.is_some() {
                java::push_frame(&mut collector, &line);
            }
        }
        finish(&mut collector, &mut lines, thread, options);
        Ok(collector.reading(lines.warnings))
    }
}

/// A thread of a dump.
struct Dumped {
    name: String,
    nid: Option<i32>,
    runnable: bool,
    /// Where it begins.
    line: u64,
}

impl Dumped {
    /// Of the line that follows the quote in front of its name.
    fn new(rest: &str, line: u64) -> Self {
        let (name, rest) = rest.rsplit_once('"').unwrap_or((rest, ""));
        let nid = rest.split_ascii_whitespace().find_map(|word| word.strip_prefix("nid="));
        let nid = nid.and_then(|nid| match nid.strip_prefix("0x") {
            Some(digits) => i32::from_str_radix(digits, 16).ok(),
            None => nid.parse().ok(),
        });
        // A thread that says nothing of its state has a stack, or is none of Java's.
        Self { name: name.to_owned(), nid, runnable: true, line }
    }
}

fn finish(collector: &mut Collector, lines: &mut Lines, thread: Option<Dumped>, options: &Options) {
    let Some(thread) = thread else { return collector.discard() };
    if collector.depth() == 0 {
        return;
    }
    if !thread.runnable || java::waits(collector.function(0)) {
        lines.warn_at(WarningKind::IdleThread, thread.line);
        return collector.discard();
    }
    let (name, tid) = match options.threads {
        ThreadDetail::Thread => (thread.name.as_str(), thread.nid),
        _ => (without_number(&thread.name), None),
    };
    let process = collector.intern(name);
    let thread = collector.profile.threads.intern(Thread { process, tid, ..Thread::default() });
    collector.end_leaf_first(thread, 1);
}

/// `pool-1-thread-12` without `-12`.
pub(crate) fn without_number(name: &str) -> &str {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    match stem.strip_suffix(['-', '#']) {
        Some(stem) if stem.len() + 1 < name.len() && !stem.is_empty() => stem,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_pool_have_one_name() {
        assert_eq!(without_number("pool-1-thread-12"), "pool-1-thread");
        assert_eq!(without_number("GC Thread#0"), "GC Thread");
        assert_eq!(without_number("main"), "main");
        assert_eq!(without_number("http2"), "http2");
        assert_eq!(without_number("odd-"), "odd-");
        assert_eq!(without_number("-1"), "-1");
    }
}
