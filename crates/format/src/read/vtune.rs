//! Reader of CSV reports of Intel's VTune: hot spots and memory consumption, as call trees.
//!
//! ```text
//! Function Stack,CPU Time:Total,CPU Time:Self,Module
//! Total,5.0,0.0,
//!   _start,5.0,0.0,app
//!     main,5.0,1.25,app
//! ```
//!
//! Created by `vtune -report top-down -call-stack-mode all -column="CPU Time:Self","Module" -format csv
//! -csv-delimiter comma -r RESULT`.
//!
//! - The function's indentation is its depth, one or two blanks per level.
//! - Each column `…:Self` is a value; totals are sums of these, and are ignored. Times are seconds.
//! - The tool's messages may precede the heading.
//! - `Total` at the root is not a function.

use pyrograph_profile::{Profile, Sample, StackId, ValueType};

use super::csv_table::{Frames, Table, number, rounded};
use crate::callees::Function;
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of VTune CSV reports.
pub struct Vtune;

fn is_heading(line: &str) -> bool {
    line.trim_start_matches(['\u{feff}', '"']).starts_with("Function Stack")
        && line.contains(":Self")
}

impl Reader for Vtune {
    fn name(&self) -> &'static str {
        "VTune"
    }

    fn written_by(&self) -> &'static str {
        "vtune -report top-down -format csv"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines = head.split(|&byte| byte == b'\n').take(50);
        lines.any(|line| str::from_utf8(line).is_ok_and(is_heading))
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let heading = input
            .bytes()
            .split(|&byte| byte == b'\n')
            .find(|line| str::from_utf8(line).is_ok_and(is_heading));
        let delimiter = delimiter(heading.unwrap_or_default());
        let missing =
            |reason: &str| ReadError::Malformed { name: name.clone(), reason: reason.to_owned() };
        let mut table = Table::open(input, delimiter, is_heading)
            .ok_or_else(|| missing("no heading `Function Stack` with columns `…:Self`"))?;
        let columns: Vec<usize> = (0..table.headings().len())
            .filter(|&column| table.headings()[column].ends_with(":Self"))
            .collect();
        let module = table.column("Module");
        let types: Vec<(ValueType, f64)> =
            columns.iter().map(|&column| value_type(&table.headings()[column])).collect();
        let mut profile = Profile::new(types.iter().map(|(of, _)| of.clone()).collect());
        // Indentation, function and stack of the entries above the current one.
        let mut path: Vec<(usize, Function, StackId)> = Vec::new();
        let mut frames = Frames::new();
        let mut values = Vec::new();
        while table.next() {
            let cell = table.cell(0);
            let function = cell.trim_ascii_start();
            let indent = cell.len() - function.len();
            let function = function.trim_ascii_end();
            if function.is_empty() {
                continue;
            }
            values.clear();
            for (&column, (_, factor)) in columns.iter().zip(&types) {
                values.extend(quantity(table.cell(column).trim_ascii(), *factor));
            }
            if values.len() < columns.len() {
                table.warn(WarningKind::UnreadableLine);
                continue;
            }
            while path.last().is_some_and(|&(above, ..)| above >= indent) {
                path.pop();
            }
            let (_, caller, stack) =
                path.last().copied().unwrap_or((0, Function::NONE, StackId::ROOT));
            let (function, stack) = match (path.is_empty(), function) {
                (true, b"Total") => (Function::NONE, StackId::ROOT),
                _ => {
                    let module = module.map_or(&[][..], |at| table.cell(at).trim_ascii());
                    let (function, frame) = frames.get(&mut profile, caller, function, module);
                    (function, profile.stacks.intern(stack, frame))
                }
            };
            path.push((indent, function, stack));
            if values.iter().any(|&value| value > 0) {
                profile.push(Sample::new(stack), &values);
            }
        }
        Ok(Reading::new(profile, table.into_warnings()))
    }
}

/// Parses a value as an integer; seconds may have a unit, as in text copied from the window. An empty cell is 0.
fn quantity(text: &[u8], factor: f64) -> Option<u64> {
    let (digits, scale) = match text {
        [] => return Some(0),
        [digits @ .., b'm', b's'] => (digits, 1e-3),
        [digits @ .., b'u', b's'] => (digits, 1e-6),
        [digits @ .., b's'] => (digits, 1.0),
        digits => (digits, 1.0),
    };
    number(digits).map(|number| rounded(number * scale * factor))
}

/// Returns the `-csv-delimiter`: the first delimiter in the heading.
fn delimiter(heading: &[u8]) -> u8 {
    let mut found = heading.iter().copied().filter(|byte| b",;\t|".contains(byte));
    found.next().unwrap_or(b',')
}

/// Returns the value type of a column, and the factor for its numbers.
fn value_type(heading: &str) -> (ValueType, f64) {
    let name = heading.trim_end_matches(":Self");
    match name {
        _ if name.ends_with("Time") => (ValueType::new(&name.to_lowercase(), "ns"), 1e9),
        _ if name.ends_with("Size") => (ValueType::new(&name.to_lowercase(), "bytes"), 1.0),
        _ => (ValueType::new(&name.to_lowercase(), "count"), 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_have_a_unit() {
        assert_eq!(quantity(b"1.5", 1e9), Some(1_500_000_000));
        assert_eq!(quantity(b"1.5s", 1e9), Some(1_500_000_000));
        assert_eq!(quantity(b"12ms", 1e9), Some(12_000_000));
        assert_eq!(quantity(b"4,096", 1.0), Some(4096));
        assert_eq!(quantity(b"some", 1e9), None);
    }
}
