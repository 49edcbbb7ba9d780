//! Reader of the output of bcc's `stackcount`: number of calls of a function or occurrences of an event, by stack.
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
//! - Frames are leaf first, kernel frames before user frames, indented by two blanks; `-v` prints addresses before
//!   them. `--` (`-d`) separates them, otherwise the kernel stack ends at a kernel entry point.
//! - `-P` prints the process below its stack, in some versions in Python's notation for bytes.
//! - With `-i` there is a table for each interval, with `-T` below a time of day: they are summed.

use pyrograph_profile::{ThreadId, ValueType};

use super::bcc;
use super::text::{Collector, Lines, first_lines};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of `stackcount` text.
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

/// Parses the name of the function or event in the first line.
fn title(line: &str) -> Option<&str> {
    let (number, rest) = line.strip_prefix("Tracing ")?.split_once(" functions for \"")?;
    number.parse::<u64>().ok()?;
    rest.split_once('"').map(|(counted, _)| counted)
}

/// Parses `    b'work' [21272]`.
fn process(line: &str) -> Option<(&str, i32)> {
    let (name, pid) = line.strip_prefix("    ")?.strip_suffix(']')?.rsplit_once(" [")?;
    let name = name.strip_prefix("b'").and_then(|name| name.strip_suffix('\'')).unwrap_or(name);
    Some((name.trim(), pid.parse().ok()?))
}

/// Parses `    12`.
fn value(line: &str) -> Option<u64> {
    line.strip_prefix("    ")?.trim_end().parse().ok()
}
