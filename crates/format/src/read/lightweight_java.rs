//! Reader of traces of the Lightweight Java Profiler.
//!
//! ```text
//! 42    3    my_func_b(prog.java:455)
//!         my_func_a(prog.java:123)
//!         java.lang.Thread.run(Thread.java:744)
//! ```
//!
//! A stack begins with its count and its number of frames; the leaf comes first. The profiler ends with a line of
//! totals, which is not a stack.

use pyrograph_profile::{Frame, FrameKind, ThreadId, ValueType};

use super::text::{Collector, Lines};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of Lightweight Java Profiler traces.
pub struct LightweightJava;

impl Reader for LightweightJava {
    fn name(&self) -> &'static str {
        "Lightweight Java Profiler"
    }

    fn written_by(&self) -> &'static str {
        "Lightweight Java Profiler (traces.txt)"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines = head
            .split(|&byte| byte == b'\n')
            .filter_map(|line| str::from_utf8(line).ok())
            .skip_while(|line| line.trim().is_empty());
        let Some((_, depth, first)) = lines.next().and_then(first_line) else { return false };
        frame(first).is_some()
            && (depth == 1
                || lines.next().is_some_and(|line| {
                    line.starts_with([' ', '\t']) && frame(line.trim()).is_some()
                }))
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let mut lines = Lines::new(input);
        let mut collector = Collector::new(ValueType::samples());
        let mut count = None;
        let mut line = String::new();
        while lines.next(&mut line) {
            let text = line.trim();
            let call = match first_line(&line) {
                Some((next, _, call)) => {
                    finish(&mut collector, count.replace(next));
                    call
                }
                None => text,
            };
            match frame(call) {
                Some((function, file, number)) if count.is_some() => {
                    let file = collector.intern(file);
                    let function = collector.intern(function);
                    let frame =
                        Frame { file, line: number, ..Frame::named(function, FrameKind::Jit) };
                    collector.push_frame(frame);
                }
                _ if text.is_empty() || text.starts_with("Total") => {
                    finish(&mut collector, count.take());
                }
                _ => lines.warn(WarningKind::UnreadableLine),
            }
        }
        finish(&mut collector, count);
        Ok(collector.reading(lines.warnings))
    }
}

fn finish(collector: &mut Collector, count: Option<u64>) {
    match count {
        Some(count) if collector.depth() > 0 => collector.end_leaf_first(ThreadId::UNKNOWN, count),
        _ => collector.discard(),
    }
}

/// Parses count, depth and leaf in a stack's first line.
fn first_line(line: &str) -> Option<(u64, u64, &str)> {
    let (count, rest) = line.trim().split_once([' ', '\t'])?;
    let (depth, call) = rest.trim_start().split_once([' ', '\t'])?;
    Some((count.parse().ok()?, depth.parse().ok()?, call.trim()))
}

/// Parses function, file and line in `my_func_a(prog.java:123)`; the line may be −1.
fn frame(call: &str) -> Option<(&str, &str, u32)> {
    let (function, place) = call.strip_suffix(')')?.rsplit_once('(')?;
    let (file, line) = place.rsplit_once(':').unwrap_or((place, "0"));
    let known = line.parse::<i64>().ok()?;
    (!function.is_empty() && !function.contains(' ')).then_some((
        function,
        file,
        u32::try_from(known).unwrap_or(0),
    ))
}
