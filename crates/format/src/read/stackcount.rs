//! The output of bcc's `stackcount`: how often each stack led to a function or an event.
//!
//! ```text
//! Tracing 1 functions for "t:sched:sched_switch"... Hit Ctrl-C to end.
//!
//!   ffffffff821f8b58 __schedule
//!   ffffffff81000e46 asm_sysvec_reschedule_ipi
//!     --
//!   556f3f86524c     spin(int)
//!     b'work' [21272]
//!     12
//!
//! ```
//!
//! - Frames are leaf first, the kernel's before the program's, indented by two blanks; `-v` puts
//!   addresses before them. `--` (`-d`) parts them, otherwise the kernel's end where it is entered.
//! - `-P` names the process below its stack, in some versions as Python writes bytes.
//! - With `-i` there is a table for each interval, with `-T` below a time of day: they are added up.

use pyrograph_profile::{ThreadId, ValueType};

use super::bcc;
use super::text::{Collector, Lines, first_lines};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// See the module.
pub struct Stackcount;

impl Reader for Stackcount {
    fn name(&self) -> &'static str {
        "stackcount"
    }

    fn written_by(&self) -> &'static str {
        "stackcount-bpfcc"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines = first_lines(head).take(4000).skip_while(|line| title(line).is_none());
        lines.next().is_some() && lines.any(|line| value(line).is_some())
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let counted = first_lines(input.bytes()).find_map(title).unwrap_or("calls").to_owned();
        let mut lines = Lines::new(input);
        let mut out = Collector::new(ValueType::new(&counted, "count")).addresses(options);
        let mut stack: Vec<String> = Vec::new();
        let mut thread = ThreadId::UNKNOWN;
        while let Some(line) = lines.next_line() {
            if let Some(value) = value(line) {
                bcc::push(&mut out, &stack, bcc::kernel_frames(&stack));
                out.end_leaf_first(thread, value);
            } else if let Some((name, pid)) = process(line) {
                thread = out.thread(name, Some(pid), None);
                continue;
            } else if let Some(frame) = line.strip_prefix("  ") {
                stack.push(frame.trim().to_owned());
                continue;
            } else if !stack.is_empty() {
                lines.warn(WarningKind::NoCount);
            }
            stack.clear();
            thread = ThreadId::UNKNOWN;
        }
        Ok(out.reading(lines.warnings))
    }
}

/// Reads what is counted from the first line.
fn title(line: &str) -> Option<&str> {
    let (number, rest) = line.strip_prefix("Tracing ")?.split_once(" functions for \"")?;
    number.parse::<u64>().ok()?;
    rest.split_once('"').map(|(counted, _)| counted)
}

/// Reads `    b'work' [21272]`.
fn process(line: &str) -> Option<(&str, i32)> {
    let (name, pid) = line.strip_prefix("    ")?.strip_suffix(']')?.rsplit_once(" [")?;
    let name = name.strip_prefix("b'").and_then(|name| name.strip_suffix('\'')).unwrap_or(name);
    Some((name.trim(), pid.parse().ok()?))
}

/// Reads `    12`.
fn value(line: &str) -> Option<u64> {
    line.strip_prefix("    ")?.trim_end().parse().ok()
}
