//! Reader of the output of FreeBSD's `pmcstat -G`: a tree of callers for each sampled function.
//!
//! ```text
//! @ CPU_CLK_UNHALTED_CORE [1246 samples]
//!
//! 05.91%  [61]     __mtx_assert @ /boot/kernel/kernel
//!  98.36%  [60]      vm_object_deallocate
//!   100.0%  [60]       vm_map_process_deferred @ /boot/kernel/kernel
//!  01.64%  [1]       softclock_call_cc
//! ```
//!
//! The indentation of a percentage is its depth; the number in brackets is the sample count. A module is printed if
//! it differs from the callee's. Several events may follow one another.

use std::collections::BTreeMap;

use pyrograph_profile::{Frame, FrameKind, ThreadId, ValueType};

use super::call_tree::{CallTree, Direction};
use super::text::{Collector, Lines};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of `pmcstat -G` text.
pub struct Pmcstat;

impl Reader for Pmcstat {
    fn name(&self) -> &'static str {
        "pmcstat"
    }

    fn written_by(&self) -> &'static str {
        "pmcstat -G (FreeBSD)"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines =
            head.split(|&byte| byte == b'\n').filter_map(|line| str::from_utf8(line).ok());
        lines.any(|line| event(line).is_some())
            && lines.find(|line| !is_remark(line)).is_some_and(|line| entry(line).is_some())
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let mut lines = Lines::new(input);
        let mut collector = Collector::new(ValueType::samples());
        let mut tree = CallTree::new(Direction::Callers);
        let mut module = String::new();
        let mut counted: Option<String> = options.event.clone();
        let mut other_events = BTreeMap::<String, u64>::new();
        let mut skipping = false;
        let mut line = String::new();
        while lines.next(&mut line) {
            if let Some((name, samples)) = event(&line) {
                tree.finish(&mut collector, ThreadId::UNKNOWN);
                let counted = counted.get_or_insert_with(|| name.to_owned());
                skipping = counted != name;
                if skipping {
                    *other_events.entry(name.to_owned()).or_default() += samples;
                }
                continue;
            }
            if is_remark(&line) || skipping {
                continue;
            }
            let Some((indent, count, call)) = entry(&line) else {
                lines.warn(WarningKind::UnreadableLine);
                continue;
            };
            let (function, named) = call.split_once(" @ ").unwrap_or((call, ""));
            if !named.is_empty() || tree.is_root(indent) {
                named.trim().clone_into(&mut module);
            }
            let kernel = module.contains("/kernel") || module.ends_with(".ko");
            let kind = if kernel { FrameKind::Kernel } else { FrameKind::User };
            let frame = Frame {
                module: collector.intern(&module),
                ..Frame::named(collector.intern(function.trim()), kind)
            };
            let frame = collector.profile.frames.intern(frame);
            tree.enter(&mut collector, ThreadId::UNKNOWN, indent, Some(frame), count);
        }
        tree.finish(&mut collector, ThreadId::UNKNOWN);
        let reading = collector.reading(lines.warnings);
        Ok(Reading { event: counted, other_events, ..reading })
    }
}

/// True if a line is blank or a comment.
fn is_remark(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with('#') || line.starts_with("//")
}

/// Parses name and number of samples in `@ CPU_CLK_UNHALTED_CORE [1246 samples]`.
fn event(line: &str) -> Option<(&str, u64)> {
    let (name, rest) = line.strip_prefix("@ ")?.split_once(" [")?;
    Some((name, rest.trim_end().strip_suffix(" samples]")?.parse().ok()?))
}

/// Parses indentation, count and rest of ` 98.36%  [60]      vm_object_deallocate`.
fn entry(line: &str) -> Option<(usize, u64, &str)> {
    let text = line.trim_start_matches(' ');
    let (percent, rest) = text.split_once("%  [")?;
    percent.parse::<f64>().ok()?;
    let (count, call) = rest.split_once(']')?;
    Some((line.len() - text.len(), count.parse().ok()?, call.trim()))
}
