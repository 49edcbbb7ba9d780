//! The text that Instruments' "Deep Copy" puts on the clipboard.
//!
//! ```text
//! Weight    Self Weight        Symbol Name
//! 90.99 min 100.0%    0 s         rustc (32919)
//! 52.23 min  57.4%    0 s          thread_start
//! 1.10 ms    0.1%    1.10 ms           main
//! ```
//!
//! - The symbol's indentation is its depth, a blank a level. `Running Time` is the older word for
//!   `Weight`, and `Self (ms)` for `Self Weight`; then numbers have no unit of their own.
//! - The self weight is the value; it is rounded for display, to three digits.
//! - Weights are times, cycles (`1.10 Mc`), or a count.

use pyrograph_profile::{FrameKind, ThreadId, ValueType};

use super::text::{Collector, Lines};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// See the module.
pub struct Instruments;

impl Reader for Instruments {
    fn name(&self) -> &'static str {
        "Instruments"
    }

    fn written_by(&self) -> &'static str {
        "Instruments, Deep Copy (macOS)"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let first = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
        str::from_utf8(first).is_ok_and(|line| header(line).is_some())
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let mut lines = Lines::new(input);
        let mut collector = Collector::new(ValueType::new("time", "ns"));
        let mut unit = None;
        let mut line = String::new();
        // The frames above the present one.
        let mut path = Vec::new();
        while lines.next(&mut line) {
            if let Some(default) = header(&line) {
                unit = Some(default);
                path.clear();
                continue;
            }
            let Some(entry) = unit.and_then(|unit| entry(&line, unit)) else {
                if !line.trim().is_empty() {
                    lines.warn(WarningKind::UnreadableLine);
                }
                continue;
            };
            if entry.depth > path.len() {
                lines.warn(WarningKind::UnreadableLine);
                continue;
            }
            if entry.unit != Unit::Time && collector.profile.samples.is_empty() {
                collector.profile.value_types = vec![ValueType::new(entry.unit.name(), "count")];
            }
            path.truncate(entry.depth);
            collector.discard();
            collector.frame(entry.symbol, "", FrameKind::User);
            path.append(&mut collector.frames);
            if entry.own > 0 {
                collector.frames.clone_from(&path);
                collector.end_root_first(ThreadId::UNKNOWN, entry.own);
            }
        }
        Ok(collector.reading(lines.warnings))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Time,
    Cycles,
    Count,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Cycles => "cycles",
            Self::Count => "samples",
        }
    }
}

/// The factor for numbers without a unit, of a line of headings.
fn header(line: &str) -> Option<f64> {
    let mut columns = line.trim_end().split('\t');
    let (weight, own) = (columns.next()?, columns.next()?);
    let is_symbols = columns.next_back()?.trim() == "Symbol Name";
    let is_header = is_symbols
        && ["Weight", "Running Time", "Bytes Used", "Count"].contains(&weight.trim())
        && own.trim().starts_with("Self");
    is_header.then_some(if own.contains("(ms)") { 1e6 } else { 1.0 })
}

struct Entry<'a> {
    own: u64,
    unit: Unit,
    depth: usize,
    symbol: &'a str,
}

/// `1.10 ms    0.1%    1.10 ms           main`
fn entry(line: &str, default: f64) -> Option<Entry<'_>> {
    let mut columns = line.splitn(4, '\t');
    let (_, own, _, symbol) = (columns.next()?, columns.next()?, columns.next()?, columns.next()?);
    let (number, word) = own.trim().split_once(' ').unwrap_or((own.trim(), ""));
    let number: f64 = number.replace(',', "").parse().ok()?;
    let (factor, unit) = match word {
        "min" => (60e9, Unit::Time),
        "s" => (1e9, Unit::Time),
        "ms" => (1e6, Unit::Time),
        "µs" | "us" => (1e3, Unit::Time),
        "ns" => (1.0, Unit::Time),
        "Gc" => (1e9, Unit::Cycles),
        "Mc" => (1e6, Unit::Cycles),
        "Kc" => (1e3, Unit::Cycles),
        "c" => (1.0, Unit::Cycles),
        "" if default > 1.0 => (default, Unit::Time),
        "" => (1.0, Unit::Count),
        _ => return None,
    };
    let text = symbol.trim_start_matches(' ');
    let depth = symbol.len() - text.len();
    let symbol = text.trim_end();
    let own = (number.max(0.0) * factor).round() as u64;
    (!symbol.is_empty()).then_some(Entry { own, unit, depth, symbol })
}
