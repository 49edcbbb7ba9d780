//! Reader of kernel stacks of sleeping tasks, the contents of `/proc/PID/stack`.
//!
//! ```text
//! ==> /proc/812/stack <==
//! [<0>] hrtimer_nanosleep+0x74/0xf0
//! [<0>] xfs_buf_iowait+0x2e/0xd0 [xfs]
//! [<0>] entry_SYSCALL_64_after_hwframe+0x76/0x7e
//!
//! /proc/812/task/813/stack:[<ffffffff8103ce3b>] do_exit+0x1/0x2
//! /proc/812/task/813/stack:[<ffffffffffffffff>] 0xffffffffffffffff
//! ```
//!
//! - Each stack is a sample of 1. Files with several stacks are supported in all common forms: with titles printed by
//!   `head` or `tail`, with file names printed by `grep`, with other lines in between, or without. A stack ends at
//!   another line, or after a kernel entry point.
//! - A line between stacks is the task's name, or, if it is a number, the process ID.
//! - Since kernel 4.15, addresses are 0 or hidden. The last line of older kernels, all `f`, is not a frame.

use pyrograph_profile::{FrameKind, ValueType};

use super::text::{Collector, Lines, first_lines, hex_address, is_kernel_entry, without_offset};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};

/// Reader of `/proc/PID/stack` text.
pub struct ProcStack;

impl Reader for ProcStack {
    fn name(&self) -> &'static str {
        "proc stack"
    }

    fn written_by(&self) -> &'static str {
        "cat /proc/PID/stack, tail -n +1 /proc/*/task/*/stack"
    }

    fn detect(&self, head: &[u8]) -> bool {
        first_lines(head).take(200).any(|line| {
            frame(line)
                .is_some_and(|(_, frame)| without_offset(split_module(frame).0).len() < frame.len())
        })
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let mut lines = Lines::new(input);
        let mut out = Collector::new(ValueType::samples()).addresses(options);
        let mut who = Who::default();
        let mut line = String::new();
        let mut was_entry = false;
        while lines.next(&mut line) {
            let Some((path, frame)) = frame(&line) else {
                end(&mut out, &who);
                who.title(line.trim());
                continue;
            };
            let (symbol, module) = split_module(frame);
            let is_entry = is_kernel_entry(symbol) || hex_address(symbol).is_some();
            let begins = (was_entry && !is_entry) || who.file != path;
            if begins && out.depth() > 0 {
                end(&mut out, &who);
                who = Who::default();
            }
            if who.file != path {
                who.path(path);
            }
            was_entry = is_entry;
            if hex_address(symbol) != Some(u64::MAX) {
                out.symbol(symbol, module, FrameKind::Kernel);
            }
        }
        end(&mut out, &who);
        Ok(out.reading(lines.warnings))
    }
}

/// Parses `[<0>] hrtimer_nanosleep+0x74/0xf0`, possibly after a file name.
fn frame(line: &str) -> Option<(&str, &str)> {
    let (before, rest) = line.split_once("[<")?;
    let path = before.trim_end();
    if !(path.is_empty() || path.starts_with('/') && path.ends_with(':')) {
        return None;
    }
    let (address, frame) = rest.split_once(">] ")?;
    let address = address.strip_prefix("0x").unwrap_or(address);
    let is_address = !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_hexdigit());
    let frame = frame.trim();
    (is_address && !frame.is_empty()).then_some((path, frame))
}

/// Splits off the kernel module: `xfs_buf_iowait+0x2e/0xd0 [xfs]`.
fn split_module(frame: &str) -> (&str, &str) {
    let split = frame.strip_suffix(']').and_then(|frame| frame.split_once(" ["));
    match split {
        Some((symbol, module)) => (symbol, module),
        None => (frame, ""),
    }
}

/// The task that a stack belongs to.
#[derive(Default)]
struct Who {
    name: String,
    pid: Option<i32>,
    tid: Option<i32>,
    /// The text before each frame.
    file: String,
}

impl Who {
    /// Parses a line between stacks.
    fn title(&mut self, line: &str) {
        let title = line.strip_prefix("==> ").and_then(|line| line.strip_suffix(" <=="));
        if let Some(path) = title {
            self.numbers(path);
        } else if let Ok(pid) = line.parse() {
            *self = Self { pid: Some(pid), ..Self::default() };
        } else if !line.is_empty() {
            *self = Self { name: line.to_owned(), ..Self::default() };
        } else {
            *self = Self::default();
        }
    }

    fn path(&mut self, path: &str) {
        self.numbers(path);
        self.file = path.to_owned();
    }

    /// Parses the IDs in `/proc/812/task/813/stack`.
    fn numbers(&mut self, path: &str) {
        let mut numbers = path.split('/').filter_map(|part| part.parse().ok());
        let (pid, tid) = (numbers.next(), numbers.next());
        *self = Self { pid, tid, ..Self::default() };
    }
}

fn end(out: &mut Collector, who: &Who) {
    if out.depth() > 0 {
        let thread = out.thread(&who.name, who.pid, who.tid);
        out.end_leaf_first(thread, 1);
    }
}
