//! The output of bcc's `profile` and `offcputime` without `-f` (with it they print folded stacks).
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
//! - Frames are leaf first, the kernel's before the program's. `--` (`-d`) parts them; otherwise the
//!   kernel's end where it is entered, and all of a kernel thread are. `_[k]` (`-a`) marks them, too.
//! - `[Missed User Stack]` and its like say that the stack is not whole.
//! - The title says whether values are samples or microseconds off the CPU.

use pyrograph_profile::{FrameKind, ValueType};

use super::text::{Collector, Lines, first_lines, hex_address, is_kernel_entry};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// See the module.
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

/// Reads `    -                sshd (1234)`.
fn process(line: &str) -> Option<(&str, i32)> {
    let (name, pid) =
        line.strip_prefix("    -   ")?.trim_end().strip_suffix(')')?.rsplit_once(" (")?;
    Some((name.trim(), pid.parse().ok()?))
}

/// Reads `        9529`.
fn value(line: &str) -> Option<u64> {
    line.strip_prefix("        ")?.trim_end().parse().ok()
}

/// Number of frames of a stack, leaf first, that are the kernel's.
pub(super) fn kernel_frames(stack: &[String]) -> usize {
    let delimiter = stack.iter().position(|frame| matches!(frame.as_str(), "--" | "-"));
    let is_entry = |frame: &String| {
        // `-v`: an address before the name.
        let name = frame.rsplit(' ').next().unwrap_or_default();
        is_kernel_entry(name.trim_end_matches("_[k]"))
    };
    let entry = stack.iter().rposition(is_entry);
    delimiter.or(entry.map(|entry| entry + 1)).unwrap_or(0)
}

/// Adds the frames, of which the first so many are the kernel's, to the stack.
pub(super) fn push(out: &mut Collector, stack: &[String], kernel: usize) {
    for (place, frame) in stack.iter().enumerate() {
        let (name, marked) = match frame.strip_suffix("_[k]") {
            Some(name) => (name, true),
            None => (frame.as_str(), false),
        };
        let kind = if marked || place < kernel { FrameKind::Kernel } else { FrameKind::User };
        match name {
            "--" | "-" => {}
            "[Missed Kernel Stack]" | "[Missed User Stack]" => out.remark(name),
            // `-v`: an address before the name.
            name => match name.split_once(' ') {
                Some((digits, name)) if hex_address(&format!("0x{digits}")).is_some() => {
                    out.symbol(name, "", kind);
                }
                _ => out.symbol(name, "", kind),
            },
        }
    }
}
