//! Reader of call trees that Visual Studio's profiler exports as CSV (`VSPerfReport /summary:calltree`).
//!
//! ```text
//! Level,Function Name,Number of Calls,Elapsed Inclusive Time %,Elapsed Exclusive Time %,Module Name,
//! 0,"app.exe",0,100.00,0.00,"",
//! 1,"main(int, char**)",1,100.00,25.50,"app.exe",
//! ```
//!
//! - `Level` is the depth. The value is the first column of exclusive values that exists: samples, times, or, if the
//!   report has only percentages, these (with four decimals), and otherwise the number of calls.
//! - Numbers are in the notation of the machine's locale.

use pyrograph_profile::{Profile, Sample, StackId, ValueType};

use super::csv_table::{Frames, Table, number, rounded};
use crate::bytes;
use crate::callees::Function;
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of Visual Studio call trees.
pub struct VisualStudio;

fn is_heading(line: &str) -> bool {
    let line = line.trim_start_matches(['\u{feff}', '"']);
    line.starts_with("Level") && line.contains("Function Name")
}

/// Value columns in order of preference, with name, unit and factor of their values.
const COLUMNS: &[(&str, &str, &str, f64)] = &[
    ("Exclusive Samples", "samples", "count", 1.0),
    ("Elapsed Exclusive Time", "elapsed time", "ns", 1e6),
    ("Application Exclusive Time", "application time", "ns", 1e6),
    ("Exclusive Allocations", "allocations", "count", 1.0),
    ("Exclusive Bytes", "bytes", "bytes", 1.0),
    ("Exclusive Samples %", "samples", "0.0001", 1e4),
    ("Elapsed Exclusive Time %", "elapsed time", "0.0001", 1e4),
    ("Number of Calls", "calls", "count", 1.0),
];

impl Reader for VisualStudio {
    fn name(&self) -> &'static str {
        "Visual Studio"
    }

    fn written_by(&self) -> &'static str {
        "VSPerfReport /summary:calltree"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let first = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
        str::from_utf8(first).is_ok_and(is_heading)
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let missing =
            |reason: &str| ReadError::Malformed { name: name.clone(), reason: reason.to_owned() };
        let mut table = Table::open(input, b',', is_heading)
            .ok_or_else(|| missing("no heading `Level,Function Name,…`"))?;
        let (level, function) = (table.column("Level"), table.column("Function Name"));
        let (Some(level), Some(function)) = (level, function) else {
            return Err(missing("no columns `Level` and `Function Name`"));
        };
        let module = table.column("Module Name");
        let chosen = COLUMNS
            .iter()
            .find_map(|of| table.column(of.0).map(|column| (column, of)))
            .ok_or_else(|| missing("no column of exclusive values, nor `Number of Calls`"))?;
        let (column, &(_, value, unit, factor)) = chosen;
        let value_type = match unit {
            // Percentages with four decimals.
            "0.0001" => ValueType { decimals: 4, ..ValueType::new(value, "%") },
            unit => ValueType::new(value, unit),
        };
        let mut profile = Profile::new(vec![value_type]);
        let mut path: Vec<(Function, StackId)> = Vec::new();
        // Level 0 is the whole program; a table may begin at a deeper level.
        let mut highest = None;
        let mut frames = Frames::new();
        while table.next() {
            let depth = bytes::decimal(table.cell(level).trim_ascii());
            let depth = depth.and_then(|depth| depth.checked_sub(*highest.get_or_insert(depth)));
            let depth = depth.and_then(|depth| usize::try_from(depth).ok());
            let value = number(table.cell(column));
            let (Some(depth), Some(value)) = (depth.filter(|&depth| depth <= path.len()), value)
            else {
                table.warn(WarningKind::UnreadableLine);
                continue;
            };
            path.truncate(depth);
            let module = module.map_or(&[][..], |at| table.cell(at).trim_ascii());
            let (caller, stack) = path.last().copied().unwrap_or((Function::NONE, StackId::ROOT));
            let name = table.cell(function).trim_ascii();
            let (function, frame) = frames.get(&mut profile, caller, name, module);
            let stack = profile.stacks.intern(stack, frame);
            path.push((function, stack));
            let value = rounded(value * factor);
            if value > 0 {
                profile.push(Sample::new(stack), &[value]);
            }
        }
        Ok(Reading::new(profile, table.into_warnings()))
    }
}
