//! Reader of reports of `wallClockProfiler`, which stops a program with gdb many times a second.
//!
//! ```text
//! Full stacks with at least one sample:
//!
//!  45.455% ===================================== (15 samples)
//!          1: usleep   (at :-1)
//!          2: main   (at test.cpp:12)
//! ```
//!
//! Functions and partial stacks, which are listed before the full stacks, cover the same samples and are skipped.
//! There may be lines of source code, marked with a bar, between the frames.

use pyrograph_profile::{Frame, FrameKind, ThreadId, ValueType};

use super::text::{Collector, Lines};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};

/// Reader of `wallClockProfiler` reports.
pub struct WallClock;

impl Reader for WallClock {
    fn name(&self) -> &'static str {
        "wallClockProfiler"
    }

    fn written_by(&self) -> &'static str {
        "wallClockProfiler"
    }

    fn detect(&self, head: &[u8]) -> bool {
        head.split(|&byte| byte == b'\n')
            .filter_map(|line| str::from_utf8(line).ok())
            .any(|line| samples(line).is_some())
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let mut lines = Lines::new(input);
        let mut collector = Collector::new(ValueType::samples());
        let mut full = false;
        let mut count = None;
        let mut line = String::new();
        while lines.next(&mut line) {
            if line.starts_with("Full stacks ") {
                full = true;
            } else if !full {
                continue;
            } else if let Some(next) = samples(&line) {
                finish(&mut collector, count.replace(next));
            } else if let Some((function, file, number)) = frame(&line) {
                let file = collector.intern(file);
                let function = collector.intern(function);
                let line = u32::try_from(number).unwrap_or(0);
                collector.push_frame(Frame {
                    file,
                    line,
                    ..Frame::named(function, FrameKind::User)
                });
            }
        }
        finish(&mut collector, count);
        if collector.profile.samples.is_empty() {
            let reason = "the report has no full stacks".to_owned();
            return Err(ReadError::Nothing { name, reason });
        }
        Ok(collector.reading(lines.warnings))
    }
}

fn finish(collector: &mut Collector, count: Option<u64>) {
    match count {
        Some(count) if collector.depth() > 0 => collector.end_leaf_first(ThreadId::UNKNOWN, count),
        _ => collector.discard(),
    }
}

/// Parses the number in ` 45.455% ===================================== (15 samples)`.
fn samples(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("% ================")?;
    let count = rest.trim_start_matches('=').trim().strip_prefix('(')?;
    count.strip_suffix(" samples)")?.parse().ok()
}

/// Parses function, file and line in `  1: usleep   (at file.c:12)`.
fn frame(line: &str) -> Option<(&str, &str, i64)> {
    let (number, rest) = line.trim().split_once(": ")?;
    number.parse::<u32>().ok()?;
    let (function, place) = rest.strip_suffix(')')?.rsplit_once("   (at ")?;
    let (file, line) = place.rsplit_once(':')?;
    Some((function.trim(), file, line.parse().ok()?))
}
