//! Output of annotated functions as text, JSON and HTML: instructions and source lines with their shares.

mod html;
mod json;
mod packed;
mod rows;
mod text;

pub use html::annotation_html;
pub use json::annotation_json;
pub(crate) use packed::packed;
pub use text::annotation_text;

use pyrograph_analyze::Annotation;

use crate::units::{exact_percent, value_text};

/// Parts of an annotated function to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnnotationParts {
    /// Instructions, with the source lines between them.
    #[default]
    Both,
    /// Source lines only.
    Source,
    /// Instructions only.
    Instructions,
}

/// Style of an annotated function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnnotationStyle {
    /// Parts to show.
    pub parts: AnnotationParts,
    /// Column that determines what is hot; all columns are shown.
    pub column: usize,
    /// Also show long runs of instructions without samples.
    pub all: bool,
    /// Colour shares with terminal escape sequences.
    pub color: bool,
}

/// Heat of a row, by its share of the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heat {
    Hot,
    Warm,
    Cool,
}

impl Heat {
    /// Uses the thresholds of `perf annotate`.
    fn of(share: f64) -> Self {
        match share {
            0.05.. => Self::Hot,
            0.005.. => Self::Warm,
            _ => Self::Cool,
        }
    }
}

/// A line for each value type: `62.31% of 1.97 s (cpu-clock): 1.23 s`.
fn heading(of: &Annotation) -> Vec<String> {
    let line = |((value_type, own), whole)| {
        let share = exact_percent(own, whole);
        let (own, whole) = (value_text(value_type, own), value_text(value_type, whole));
        let name = if value_type.is_unnamed() { "values" } else { &value_type.name };
        format!("{share} of {whole} ({name}): {own}")
    };
    of.value_types
        .iter()
        .zip(of.totals.iter().copied())
        .zip(of.wholes.iter().copied())
        .map(line)
        .collect()
}

/// Describes the hottest region: `401150–401172: 83.10% in 12 instructions`.
fn hottest_line(of: &Annotation, column: usize) -> Option<String> {
    let region = of.hottest(column)?;
    let (first, last) = (&of.instructions[region.start], &of.instructions[region.end - 1]);
    let share = exact_percent(of.sums(region.clone())[column], of.totals[column]);
    let count = crate::units::counted(region.len() as u64, "instruction");
    Some(format!("{:x}–{:x}: {share} in {count}", first.address, last.address))
}

#[cfg(test)]
mod tests;
