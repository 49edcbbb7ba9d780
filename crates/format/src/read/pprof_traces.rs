//! Reader of the stacks that `pprof -traces` prints.
//!
//! ```text
//! File: server
//! Type: cpu
//! Duration: 10s, Total samples = 1.12s (11.20%)
//! -----------+-------------------------------------------------------
//!     worker:  3
//!         1s   shop.price
//!              shop.total shop/cart.go:31 (inline)
//!              main.main
//! -----------+-------------------------------------------------------
//! ```
//!
//! Source: `printTraces` in google/pprof's `internal/report`.
//!
//! - Stacks are leaf first; the value stands before the leaf, rounded to three digits or so, with its unit.
//! - Above it are labels, `KEY:  VALUE`, which are left out.

use pyrograph_profile::{Frame, FrameKind, ThreadId, ValueType};

use super::text::{Collector, Lines, first_lines};
use crate::input::Head;
use crate::names::tidy_name;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of `pprof -traces`.
pub struct PprofTraces;

const SEPARATOR: &str = "-----------+-------------------------------------------------------";

impl Reader for PprofTraces {
    fn name(&self) -> &'static str {
        "pprof traces"
    }

    fn written_by(&self) -> &'static str {
        "go tool pprof -traces"
    }

    fn detect(&self, head: &[u8]) -> bool {
        // Comments, file, type, time and duration may precede it.
        first_lines(head).take(64).any(|line| line == SEPARATOR)
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let mut lines = Lines::new(input);
        let mut collector = Collector::new(ValueType::samples());
        let (mut kind, mut unit) = (String::new(), None);
        let (mut is_begun, mut value, mut labels) = (false, None, false);
        let mut line = String::new();
        while lines.next(&mut line) {
            let text = line.trim_end();
            if text == SEPARATOR {
                is_begun = true;
                end(&mut collector, &mut value);
            } else if let Some(of) = text.strip_prefix("Type: ").filter(|_| !is_begun) {
                of.clone_into(&mut kind);
            } else if !is_begun {
                // About the file.
            } else if let Some(call) =
                text.strip_prefix("             ").filter(|_| value.is_some())
            {
                frame(&mut collector, call);
            } else if let Some((number, of, call)) = leaf(text) {
                value = Some(number);
                unit = unit.or(Some(of));
                frame(&mut collector, call);
            } else if value.is_none() && text.contains(":  ") {
                labels = true;
            } else if !text.is_empty() {
                lines.warn(WarningKind::UnreadableLine);
            }
        }
        if value.is_some() {
            lines.warnings.add(
                WarningKind::Truncated("the last stack has no end".to_owned()),
                1,
                [],
            );
        }
        end(&mut collector, &mut value);
        let Some(unit) = unit else {
            let reason = "no stack is in it".to_owned();
            return Err(ReadError::Nothing { name, reason });
        };
        let kind = if kind.is_empty() { "samples" } else { &kind };
        collector.profile.value_types[0] = ValueType::new(kind, &unit);
        if labels {
            let said = "labels of samples are left out".to_owned();
            lines.warnings.add(WarningKind::NotHeld(said), 1, []);
        }
        Ok(collector.reading(lines.warnings))
    }
}

fn end(collector: &mut Collector, value: &mut Option<u64>) {
    if let Some(value) = value.take() {
        collector.end_leaf_first(ThreadId::default(), value);
    }
}

/// Parses `     100ms   shop.price`: the value in the smallest unit of its kind, that unit, and the function.
fn leaf(line: &str) -> Option<(u64, String, &str)> {
    let (value, call) = line.trim_start().split_once("   ")?;
    let is_digit = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-');
    let digits = value.len() - value.trim_start_matches(is_digit).len();
    let (number, unit) = value.split_at(digits);
    let number: f64 = number.parse().ok()?;
    let (scale, unit) = match unit {
        "ns" => (1.0, "ns"),
        "us" | "µs" => (1e3, "ns"),
        "ms" => (1e6, "ns"),
        "s" => (1e9, "ns"),
        "mins" => (60e9, "ns"),
        "hrs" => (3600e9, "ns"),
        "B" => (1.0, "bytes"),
        "kB" => (1024.0, "bytes"),
        "MB" => (1048576.0, "bytes"),
        "GB" => (1073741824.0, "bytes"),
        "TB" => (1099511627776.0, "bytes"),
        "" => (1.0, "count"),
        other if other.bytes().all(|byte| byte.is_ascii_alphabetic()) => (1.0, other),
        _ => return None,
    };
    (number >= 0.0).then(|| ((number * scale).round() as u64, unit.to_owned(), call))
}

/// Adds the frame of `shop.total shop/cart.go:31 (inline)`, which may have an address in front.
fn frame(collector: &mut Collector, call: &str) {
    let call = call.trim();
    let (call, kind) = match call.strip_suffix(" (inline)") {
        Some(call) => (call, FrameKind::Inlined),
        None => (call, FrameKind::User),
    };
    let is_address =
        |word: &str| word.len() == 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let call =
        call.split_once(' ').filter(|(word, _)| is_address(word)).map_or(call, |(_, rest)| rest);
    let place = call.rsplit_once(' ').and_then(|(function, place)| {
        let (file, line) = place.rsplit_once(':')?;
        Some((function, file, line.parse().ok()?))
    });
    let (function, file, line) = place.unwrap_or((call, "", 0));
    let function = collector.intern(&tidy_name(function));
    let file = collector.intern(file);
    collector.push_frame(Frame { file, line, ..Frame::named(function, kind) });
}
