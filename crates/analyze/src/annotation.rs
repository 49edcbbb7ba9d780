//! Instructions and source lines of one function with their samples: the view behind `pyrograph annotate`.

use std::collections::BTreeMap;
use std::ops::Range;

use pyrograph_profile::ValueType;

mod arrows;

pub use arrows::{Arrow, arrows};

/// An annotated function.
#[derive(Clone, Debug, Default)]
pub struct Annotation {
    /// Function name.
    pub function: String,
    /// File that contains the function.
    pub module: String,
    /// Value types; the function and each instruction have one value of each.
    pub value_types: Vec<ValueType>,
    /// Sums of the function's own values, one per value type.
    pub totals: Vec<u64>,
    /// Totals of the whole profile, one per value type.
    pub wholes: Vec<u64>,
    /// Instructions in address order.
    pub instructions: Vec<AnnotatedInstruction>,
    /// Scopes that instructions belong to; the function itself comes first.
    pub scopes: Vec<Scope>,
    /// Source files.
    pub files: Vec<SourceFile>,
    /// Source line on which the function starts, if known.
    pub start: Option<SourcePlace>,
    /// Build ID of the file in hexadecimal; empty if unknown.
    pub build_id: String,
    /// Address of an instruction minus the [`Address::offset`](pyrograph_profile::Address::offset) of its samples.
    pub bias: u64,
    /// Limitations of this annotation, one line each, with cause and remedy.
    pub notes: Vec<String>,
}

/// An instruction with its values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnnotatedInstruction {
    /// Address in the file, or in memory if there is no file.
    pub address: u64,
    /// Mnemonic and operands, followed by the name of the function that the operands refer to, if any.
    pub text: String,
    /// Index of the instruction of this function that it may jump to.
    pub target: Option<usize>,
    /// Values, one per value type.
    pub values: Vec<u64>,
    /// Source line, if known.
    pub place: Option<SourcePlace>,
    /// Index into [`Annotation::scopes`].
    pub scope: usize,
}

/// A source line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourcePlace {
    /// Index into [`Annotation::files`].
    pub file: usize,
    /// Line number, starting at 1.
    pub line: u32,
}

/// A chain of inlined functions, outermost first; empty for the function's own code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Function names, each with its call site.
    pub inlined: Vec<(String, Option<SourcePlace>)>,
}

/// A source file, with only the lines that are needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFile {
    /// Path as recorded by the compiler.
    pub path: String,
    /// Text by line number, without tabs and line ends; empty if the file was not found.
    pub lines: BTreeMap<u32, String>,
}

/// Lines of one function in one file, with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceBlock {
    /// Name of the inlined function, or `None` for the annotated function itself.
    pub inlined: Option<String>,
    /// Index into [`Annotation::files`].
    pub file: usize,
    /// Values by line number. Lines without values between two lines with code are included if their text is known.
    pub lines: BTreeMap<u32, Vec<u64>>,
    /// Sums of the values of all lines.
    pub totals: Vec<u64>,
}

/// Values by line number.
type LineValues = BTreeMap<u32, Vec<u64>>;

/// Maximum number of instructions without samples inside a hot region; a longer gap ends the region.
const LONGEST_GAP: usize = 8;

/// Maximum distance between two lines with code for the lines in between to be included in a block.
const LONGEST_RUN_WITHOUT_CODE: u32 = 20;

impl Annotation {
    /// Returns the share of the function's total in a column, from 0 to 1.
    pub fn share(&self, values: &[u64], column: usize) -> f64 {
        share(values[column], self.totals[column])
    }

    /// Returns the region around the instruction with the highest value, including gaps of up to `LONGEST_GAP`
    /// instructions without samples; `None` if no instruction has a value.
    pub fn hottest(&self, column: usize) -> Option<Range<usize>> {
        let value = |at: &usize| self.instructions[*at].values[column];
        let count = self.instructions.len();
        let hottest = (0..count).rev().max_by_key(value).filter(|at| value(at) > 0)?;
        let is_hot = |at: &usize| value(at) > 0;
        let mut region = hottest..hottest + 1;
        while let Some(next) =
            (region.end..count.min(region.end + LONGEST_GAP + 1)).find(|at| is_hot(at))
        {
            region.end = next + 1;
        }
        while let Some(next) =
            (region.start.saturating_sub(LONGEST_GAP + 1)..region.start).rev().find(|at| is_hot(at))
        {
            region.start = next;
        }
        Some(region)
    }

    /// Sums the values of a range of instructions.
    pub fn sums(&self, of: Range<usize>) -> Vec<u64> {
        let mut sums = vec![0u64; self.value_types.len()];
        for instruction in &self.instructions[of] {
            add(&mut sums, &instruction.values);
        }
        sums
    }

    /// Returns the text of a line, if known.
    pub fn text(&self, place: SourcePlace) -> Option<&str> {
        self.files.get(place.file)?.lines.get(&place.line).map(String::as_str)
    }

    /// Returns the source lines of the function, each including the code inlined there, followed by the lines of the
    /// inlined functions, highest value first.
    pub fn source_blocks(&self) -> Vec<SourceBlock> {
        let mut blocks: BTreeMap<(Option<&str>, usize), LineValues> = BTreeMap::new();
        let none = vec![0u64; self.value_types.len()];
        for instruction in &self.instructions {
            let inlined = self.scopes.get(instruction.scope).map_or(&[][..], |of| &of.inlined);
            let (own, owner) = match (inlined.first(), inlined.last()) {
                (Some((_, call)), Some((name, _))) => (*call, Some(name.as_str())),
                _ => (instruction.place, None),
            };
            let inner = instruction.place.filter(|_| owner.is_some());
            for (owner, place) in [(None, own), (owner, inner)] {
                let Some(SourcePlace { file, line }) = place else { continue };
                let lines = blocks.entry((owner, file)).or_default();
                add(lines.entry(line).or_insert_with(|| none.clone()), &instruction.values);
            }
        }
        if let Some(SourcePlace { file, line }) = self.start
            && let Some(lines) = blocks.get_mut(&(None, file))
        {
            lines.entry(line).or_insert_with(|| none.clone());
        }
        let block = |((inlined, file), mut lines): ((Option<&str>, usize), LineValues)| {
            let mut totals = none.clone();
            lines.values().for_each(|values| add(&mut totals, values));
            let known: Vec<u32> = lines.keys().copied().collect();
            for pair in
                known.windows(2).filter(|pair| pair[1] - pair[0] <= LONGEST_RUN_WITHOUT_CODE)
            {
                for line in pair[0] + 1..pair[1] {
                    if self.text(SourcePlace { file, line }).is_some() {
                        lines.insert(line, none.clone());
                    }
                }
            }
            SourceBlock { inlined: inlined.map(str::to_owned), file, lines, totals }
        };
        let mut blocks: Vec<SourceBlock> = blocks.into_iter().map(block).collect();
        blocks.sort_by_key(|block| {
            let first = block.totals.first().copied().unwrap_or_default();
            (block.inlined.is_some(), std::cmp::Reverse(first))
        });
        blocks
    }
}

fn add(sums: &mut [u64], values: &[u64]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum = sum.saturating_add(*value);
    }
}

fn share(value: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { value as f64 / total as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotation(values: &[u64]) -> Annotation {
        let instruction = |(at, &value)| AnnotatedInstruction {
            address: at as u64,
            values: vec![value],
            ..AnnotatedInstruction::default()
        };
        Annotation {
            value_types: vec![ValueType::samples()],
            totals: vec![values.iter().sum()],
            instructions: values.iter().enumerate().map(instruction).collect(),
            scopes: vec![Scope::default()],
            ..Annotation::default()
        }
    }

    #[test]
    fn the_hottest_region_ends_where_nothing_ran_for_long() {
        let mut values = vec![0; 40];
        (values[2], values[20], values[21], values[29], values[39]) = (5, 9, 3, 1, 8);
        let of = annotation(&values);
        assert_eq!(of.hottest(0), Some(20..30));
        assert_eq!(of.sums(20..30), [13]);
        assert_eq!(annotation(&[0, 0]).hottest(0), None);
        assert_eq!(annotation(&[]).hottest(0), None);
        assert_eq!(annotation(&[1, 1, 0]).hottest(0), Some(0..2));
    }

    #[test]
    fn a_line_has_the_sum_of_its_instructions() {
        let mut of = annotation(&[1, 2, 4, 8]);
        let place = |file, line| Some(SourcePlace { file, line });
        for (instruction, (place, scope)) in of.instructions.iter_mut().zip([
            (place(0, 3), 0),
            (place(1, 9), 1),
            (place(0, 5), 0),
            (None, 0),
        ]) {
            (instruction.place, instruction.scope) = (place, scope);
        }
        of.scopes.push(Scope { inlined: vec![("get".to_owned(), place(0, 3))] });
        of.files = vec![SourceFile::default(); 2];
        of.files[0].lines = [(3, "a"), (4, "b"), (5, "c")].map(|(n, t)| (n, t.to_owned())).into();
        of.start = place(0, 2);
        let blocks = of.source_blocks();
        let lines = |at: usize| -> Vec<(u32, u64)> {
            blocks[at].lines.iter().map(|(line, values)| (*line, values[0])).collect()
        };
        assert_eq!(lines(0), [(2, 0), (3, 3), (4, 0), (5, 4)]);
        assert_eq!(lines(1), [(9, 2)]);
        assert_eq!(blocks[1].inlined.as_deref(), Some("get"));
        assert_eq!((&blocks[0].totals, &blocks[1].totals), (&vec![7], &vec![2]));
    }
}
