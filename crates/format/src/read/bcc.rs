//! Reader of the output of bcc's `profile` and `offcputime` without `-f` (with `-f` they print folded stacks).
//!
//! ```text
//! Tracing off-CPU time (us) of all threads by user + kernel stack... Hit Ctrl-C to end.
//! ^C
//!     finish_task_switch
//!     schedule
//!     entry_SYSCALL_64_after_hwframe
//!     --
//!     __read_nocancel
//!     [unknown]
//!     -                sshd (1234)
//!         9529
//!
//! ```
//!
//! - Frames are leaf first, kernel frames before user frames. `--` (`-d`) separates them; otherwise the kernel stack
//!   ends at a kernel entry point, and kernel threads have only kernel frames. `_[k]` (`-a`) also marks kernel
//!   frames.
//! - `[Missed User Stack]` and similar lines mean that the stack is incomplete.
//! - With `-v`, names are preceded by addresses (`ffffffff8a9c0f3d finish_task_switch`). libbpf-tools also print the
//!   frame's number and the file offset: `#0  0x00007f2c1b0e61aa read+0x1a (/usr/lib/libc.so.6+0x1061aa)`.
//! - Some versions for Python 3 print names as bytes: `b'main'`.
//! - The title shows whether values are samples or microseconds off the CPU.

use pyrograph_profile::{FrameKind, ValueType};

use super::text::{Collector, Lines, first_lines, is_kernel_entry};
use crate::input::Head;
use crate::perf_frame::split_module;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of bcc's `profile` and `offcputime` text.
pub struct Bcc;

impl Reader for Bcc {
    fn name(&self) -> &'static str {
        "bcc"
    }

    fn written_by(&self) -> &'static str {
        "profile-bpfcc, offcputime-bpfcc"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut before = "";
        first_lines(head).take(4000).any(|line| {
            let found = process(before).is_some() && value(line).is_some();
            before = line;
            found
        })
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let off_cpu = first_lines(input.bytes()).take(20).any(|line| line.contains("off-CPU time"));
        let unit = if off_cpu { ValueType::new("off-cpu", "us") } else { ValueType::samples() };
        let mut lines = Lines::new(input);
        let mut out = Collector::new(unit).addresses(options);
        let mut stack: Vec<String> = Vec::new();
        let mut who: Option<(String, i32)> = None;
        let mut line = String::new();
        while lines.next(&mut line) {
            if let (Some((name, pid)), Some(value)) = (&who, value(&line)) {
                push(&mut out, &stack, kernel_frames(&stack));
                let thread = out.thread(name, Some(*pid), None);
                out.end_leaf_first(thread, value);
            } else if let Some((name, pid)) = process(&line) {
                who = Some((name.to_owned(), pid));
                continue;
            } else if let Some(frame) = line.strip_prefix("    ") {
                stack.push(frame.trim().to_owned());
                continue;
            } else if who.is_some() {
                lines.warn(WarningKind::NoCount);
            }
            stack.clear();
            who = None;
        }
        Ok(out.reading(lines.warnings))
    }
}

/// Parses `    -                sshd (1234)`.
fn process(line: &str) -> Option<(&str, i32)> {
    let (name, pid) =
        line.strip_prefix("    -   ")?.trim_end().strip_suffix(')')?.rsplit_once(" (")?;
    Some((name.trim(), pid.parse().ok()?))
}

/// Parses `        9529`.
fn value(line: &str) -> Option<u64> {
    line.strip_prefix("        ")?.trim_end().parse().ok()
}

/// A printed frame, without the additions of `-v`.
struct Printed<'a> {
    name: &'a str,
    module: &'a str,
    marked: bool,
}

impl<'a> Printed<'a> {
    fn parse(text: &'a str) -> Self {
        let text = without_number(text);
        let digits = text.split(' ').next().unwrap_or_default();
        let hex = digits.strip_prefix("0x").unwrap_or(digits);
        let is_address = hex.len() > 3
            && hex.len() <= 16
            && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
            && (digits != hex || digits.len() < text.len());
        let rest = text[digits.len()..].trim_start();
        let rest = if is_address && !rest.is_empty() { rest } else { text };
        let (name, module) = if is_address { split_place(rest) } else { (rest, "") };
        let (name, marked) = match name.strip_suffix("_[k]") {
            Some(name) => (name, true),
            None => (name, false),
        };
        let bytes = name.strip_prefix("b'").and_then(|name| name.strip_suffix('\''));
        Self { name: bytes.unwrap_or(name), module, marked }
    }
}

/// Removes a frame number `#0  ` from the start of a text.
fn without_number(text: &str) -> &str {
    let rest = text.strip_prefix('#').unwrap_or_default();
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    match after.strip_prefix(' ') {
        Some(after) if after.len() < rest.len() => after.trim_start(),
        _ => text,
    }
}

/// Splits `read+0x1a (/usr/lib/libc.so.6+0x1061aa)` into symbol and module; either may be missing.
fn split_place(text: &str) -> (&str, &str) {
    let (name, _) = split_module(text.as_bytes());
    let (name, place) = text.split_at(name.len());
    let inner = place.trim_start().strip_prefix('(').and_then(|place| place.strip_suffix(')'));
    let is_hex = |offset: &str| offset.bytes().all(|byte| byte.is_ascii_hexdigit());
    match inner.and_then(|place| place.rsplit_once("+0x")) {
        Some((module, offset)) if is_hex(offset) => (name.trim_end(), module),
        _ => (text, ""),
    }
}

/// Number of kernel frames at the start of a stack, which is leaf first.
pub(super) fn kernel_frames(stack: &[String]) -> usize {
    let delimiter = stack.iter().position(|frame| matches!(frame.as_str(), "--" | "-"));
    let is_entry = |frame: &String| is_kernel_entry(Printed::parse(frame).name);
    let entry = stack.iter().rposition(is_entry);
    delimiter.or(entry.map(|entry| entry + 1)).unwrap_or(0)
}

/// Adds frames to the stack; the first `kernel` of them are kernel frames.
pub(super) fn push(out: &mut Collector, stack: &[String], kernel: usize) {
    for (place, frame) in stack.iter().enumerate() {
        let printed = Printed::parse(frame);
        let is_kernel = printed.marked || place < kernel;
        let kind = if is_kernel { FrameKind::Kernel } else { FrameKind::User };
        match printed.name {
            "--" | "-" => {}
            "[Missed Kernel Stack]" | "[Missed User Stack]" => out.remark(printed.name),
            name => out.symbol(name, printed.module, kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_were_a_part_of_names() {
        for (text, name, module) in [
            ("main", "main", ""),
            ("b'main'", "main", ""),
            ("b'f'_[k]", "f", ""),
            ("ffffffff8a9c0f3d schedule", "schedule", ""),
            ("#0  0xffffffff8a9c0f3d schedule+0x2d", "schedule+0x2d", ""),
            (
                "#12 0x00007f2c1b0e61aa read+0x1a (/usr/lib/a (x).so+0x1061aa)",
                "read+0x1a",
                "/usr/lib/a (x).so",
            ),
            ("#3  0x00007f2c1b0e61aa (/opt/app+0x61aa)", "", "/opt/app"),
            ("#3  0x00007f2c1b0e61aa [unknown]", "[unknown]", ""),
            ("dead beef", "beef", ""),
            ("operator new(unsigned long)", "operator new(unsigned long)", ""),
            ("deadbeef", "deadbeef", ""),
            ("#x", "#x", ""),
        ] {
            let printed = Printed::parse(text);
            assert_eq!((printed.name, printed.module), (name, module), "{text}");
        }
    }
}
