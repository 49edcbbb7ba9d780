//! Reader of the text that Instruments' "Deep Copy" copies to the clipboard.
//!
//! ```text
//! Weight    Self Weight        Symbol Name
//! 90.99 min 100.0%    0 s         rustc (32919)
//! 52.23 min  57.4%    0 s          thread_start
//! 1.10 ms    0.1%    1.10 ms           main
//! ```
//!
//! - The symbol's indentation is its depth, one blank per level, relative to the first symbol; since version 16 there
//!   is no column before it. Older versions call `Weight` `Running Time`, and `Self Weight` `Self (ms)`; then numbers
//!   have no unit.
//! - The self weight is the value; it is rounded to three digits for display. `-` means no weight.
//! - Weights are times, cycles (`1.10 Mc`), bytes, or counts. Tables of allocations (`Bytes Used`, `Count`) have no
//!   self weights: these are computed by subtracting the callees, for bytes and numbers of allocations.

use pyrograph_profile::{FrameId, FrameKind, Profile, Sample, StackId, ValueType};

use super::text::{Collector, Lines};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of Instruments' "Deep Copy" text.
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
        str::from_utf8(first).is_ok_and(|line| Header::parse(line).is_some())
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let mut lines = Lines::new(input);
        let mut tree = Tree {
            collector: Collector::new(ValueType::samples()),
            header: None,
            margin: None,
            unit: None,
            path: Vec::new(),
            samples: Vec::new(),
            has_allocations: false,
            mixed: 0,
        };
        let mut line = String::new();
        while lines.next(&mut line) {
            if let Some(header) = Header::parse(&line) {
                tree.begin(header);
            } else if !line.trim().is_empty() && !tree.line(&line) {
                lines.warn(WarningKind::UnreadableLine);
            }
        }
        if tree.mixed > 0 {
            let said = format!("{} lines with weights of another unit are left out", tree.mixed);
            lines.warnings.add(WarningKind::NotHeld(said), 1, []);
        }
        Ok(Reading::new(tree.finish(), lines.warnings))
    }
}

/// The line of headings.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Header {
    /// True if the second column is the number of allocations; there are no self weights.
    of_allocations: bool,
    /// Factor for numbers without a unit.
    factor: f64,
    columns: usize,
}

impl Header {
    fn parse(line: &str) -> Option<Self> {
        let columns: Vec<&str> = line.trim_end().split('\t').map(str::trim).collect();
        let [weight, second, .., symbols] = columns.as_slice() else { return None };
        let of_allocations = *weight == "Bytes Used" && *second == "Count";
        let is_header = matches!(*symbols, "Symbol Name" | "Symbol Names")
            && ["Weight", "Running Time", "Bytes Used", "Count"].contains(weight)
            && (second.starts_with("Self") || of_allocations);
        let factor = if second.contains("(ms)") { 1e6 } else { 1.0 };
        is_header.then_some(Self { of_allocations, factor, columns: columns.len() })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Time,
    Cycles,
    Bytes,
    Count,
}

impl Unit {
    fn value_type(self) -> ValueType {
        match self {
            Self::Time => ValueType::new("time", "ns"),
            Self::Cycles => ValueType::new("cycles", "count"),
            Self::Bytes => ValueType::new("heap", "bytes"),
            Self::Count => ValueType::samples(),
        }
    }
}

struct Tree {
    collector: Collector,
    header: Option<Header>,
    /// Indentation of the first symbol.
    margin: Option<usize>,
    unit: Option<Unit>,
    /// The frames from the root to the current line, with their self values as far as known: weights, and numbers of
    /// allocations.
    path: Vec<(FrameId, [u64; 2])>,
    samples: Vec<(StackId, [u64; 2])>,
    has_allocations: bool,
    /// Number of lines with weights in another unit.
    mixed: u64,
}

impl Tree {
    fn begin(&mut self, header: Header) {
        self.leave(0);
        self.margin = None;
        self.has_allocations |= header.of_allocations;
        self.header = Some(header);
    }

    /// Parses a line; returns `false` if it is not recognized.
    fn line(&mut self, line: &str) -> bool {
        let Some(header) = self.header else { return false };
        let columns: Vec<&str> = line.splitn(header.columns, '\t').collect();
        let (&[weight, second, ..], Some(symbol)) = (columns.as_slice(), columns.last()) else {
            return false;
        };
        let text = symbol.trim_start_matches(' ');
        let indentation = symbol.len() - text.len();
        let margin = *self.margin.get_or_insert(indentation);
        let Some(depth) = indentation.checked_sub(margin).filter(|&at| at <= self.path.len())
        else {
            return false;
        };
        let text = text.trim_end();
        if columns.len() < header.columns || text.is_empty() {
            return false;
        }
        let values = match header.of_allocations {
            true => amount(weight, 1.0).zip(second.trim().parse().ok()),
            false => amount(second, header.factor).map(|amount| (amount, 0)),
        };
        let Some(((own, unit), count)) = values else { return false };
        self.leave(depth);
        if header.of_allocations
            && let Some((_, caller)) = self.path.last_mut()
        {
            // The remainder of the caller's total, which is rounded, is its self value.
            *caller = [caller[0].saturating_sub(own), caller[1].saturating_sub(count)];
        }
        // A line without a self weight does not determine the unit.
        let is_mixed = own > 0 && *self.unit.get_or_insert(unit) != unit;
        self.mixed += u64::from(is_mixed);
        self.collector.discard();
        self.collector.frame(text, "", FrameKind::User);
        let frame = self.collector.frames.pop();
        let values = if is_mixed { [0; 2] } else { [own, count] };
        self.path.extend(frame.map(|frame| (frame, values)));
        true
    }

    /// Leaves all frames beyond the first `depth`.
    fn leave(&mut self, depth: usize) {
        while self.path.len() > depth {
            let frames = self.path.iter().map(|&(frame, _)| frame);
            let stack = self.collector.profile.stacks.intern_path(frames);
            let Some((_, values)) = self.path.pop() else { return };
            if values != [0; 2] {
                self.samples.push((stack, values));
            }
        }
    }

    fn finish(mut self) -> Profile {
        self.leave(0);
        let mut types = vec![self.unit.unwrap_or(Unit::Count).value_type()];
        if self.has_allocations {
            types.push(ValueType::new("allocations", "count"));
        }
        let Profile { strings, frames, stacks, .. } = self.collector.profile;
        let mut profile = Profile { strings, frames, stacks, ..Profile::new(types) };
        let columns = profile.value_types.len();
        for (stack, values) in self.samples {
            profile.push(Sample::new(stack), &values[..columns]);
        }
        profile
    }
}

/// Parses a number with a unit, followed by a share in some columns: `1.10 ms`, ` 429.93 MB     100.0%`, `693`, `-`.
fn amount(text: &str, default: f64) -> Option<(u64, Unit)> {
    const KIB: f64 = 1024.0;
    let mut words = text.split_whitespace().filter(|word| !word.ends_with('%'));
    let number = words.next()?;
    if number == "-" {
        return Some((0, Unit::Count));
    }
    let number: f64 = number.replace(',', "").parse().ok()?;
    let (factor, unit) = match words.next().unwrap_or_default() {
        "min" => (60e9, Unit::Time),
        "s" => (1e9, Unit::Time),
        "ms" => (1e6, Unit::Time),
        "µs" | "us" => (1e3, Unit::Time),
        "ns" => (1.0, Unit::Time),
        "Gc" => (1e9, Unit::Cycles),
        "Mc" => (1e6, Unit::Cycles),
        "Kc" => (1e3, Unit::Cycles),
        "c" | "cycles" => (1.0, Unit::Cycles),
        "Bytes" | "bytes" | "B" => (1.0, Unit::Bytes),
        "KB" | "KiB" => (KIB, Unit::Bytes),
        "MB" | "MiB" => (KIB * KIB, Unit::Bytes),
        "GB" | "GiB" => (KIB * KIB * KIB, Unit::Bytes),
        "" if default > 1.0 => (default, Unit::Time),
        "" => (1.0, Unit::Count),
        _ => return None,
    };
    Some(((number.max(0.0) * factor).round() as u64, unit))
}
