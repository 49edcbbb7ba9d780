//! An annotated function as text.

use std::io::{self, Write};

use pyrograph_analyze::Annotation;

use super::rows::{Row, rows};
use super::{AnnotationParts, AnnotationStyle, Heat, heading, hottest_line};
use crate::report::plain;
use crate::units::grouped;

const RESET: &str = "\x1b[0m";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";

/// Writes an annotated function as text. What names and sources hold that a terminal would obey is replaced.
///
/// # Errors
///
/// Those of `out`.
pub fn annotation_text(
    of: &Annotation,
    style: AnnotationStyle,
    out: &mut dyn Write,
) -> io::Result<()> {
    let paint = |code: &'static str| if style.color { (code, RESET) } else { ("", "") };
    let (bold, reset) = paint(BOLD);
    writeln!(out, "{bold}{}{reset} in {}", plain(&of.function), plain(&of.module))?;
    for line in heading(of) {
        writeln!(out, "{line}")?;
    }
    if style.parts != AnnotationParts::Source
        && let Some(line) = hottest_line(of, style.column)
    {
        writeln!(out, "hottest: {line}")?;
    }
    writeln!(out)?;
    let rows = rows(of, style);
    let widths = widths(of);
    let titles =
        titles(of).into_iter().zip(&widths).map(|(title, width)| format!("{title:>width$}"));
    writeln!(out, "{bold}{}{reset} │", titles.collect::<Vec<_>>().join(" "))?;
    let digits = of.instructions.last().map_or(1, |last| format!("{:x}", last.address).len());
    let labels = rows.iter().filter_map(|row| match row {
        Row::Source { label, .. } => Some(label.chars().count()),
        _ => None,
    });
    let label_width = labels.max().unwrap_or_default();
    let lane_width = rows.iter().filter_map(|row| match row {
        Row::Instruction { arrows, .. } => Some(arrows.chars().count()),
        _ => None,
    });
    let lane_width = lane_width.max().unwrap_or_default();
    let empty = widths.iter().map(|width| " ".repeat(*width)).collect::<Vec<_>>().join(" ");
    for row in &rows {
        match row {
            Row::Owner(text) => {
                let (dim, reset) = paint(BOLD);
                writeln!(out, "{empty} │ {dim}{text}{reset}")?;
            }
            Row::Source { label, text, values } => {
                let shares = values.as_ref().map_or_else(
                    || empty.clone(),
                    |values| shares(of, values, &widths, style.color),
                );
                let (dim, reset) = if values.is_none() { paint(DIM) } else { ("", "") };
                let line = format!("{shares} │ {dim}{label:>label_width$}  {text}");
                writeln!(out, "{}{reset}", line.trim_end())?;
            }
            Row::Instruction { at, arrows } => {
                let instruction = &of.instructions[*at];
                let shares = shares(of, &instruction.values, &widths, style.color);
                let (dim, reset) = paint(DIM);
                writeln!(
                    out,
                    "{shares} │ {dim}{arrows:lane_width$}{reset} {dim}{:digits$x}{reset}  {}",
                    instruction.address,
                    plain(&instruction.text)
                )?;
            }
            Row::LeftOut(count) => {
                let (dim, reset) = paint(DIM);
                let count = grouped(*count as u64);
                writeln!(out, "{empty} │ {dim}… {count} instructions without samples{reset}")?;
            }
        }
    }
    if !of.notes.is_empty() {
        writeln!(out)?;
    }
    for note in &of.notes {
        writeln!(out, "{}", plain(note))?;
    }
    Ok(())
}

/// The titles of the columns of shares: of one value only what they are.
fn titles(of: &Annotation) -> Vec<String> {
    match &of.value_types[..] {
        [_] => vec!["Percent".to_owned()],
        all => all.iter().map(|value| plain(&value.name)).collect(),
    }
}

fn widths(of: &Annotation) -> Vec<usize> {
    titles(of).iter().map(|title| title.chars().count().max("100.00".len() + 1)).collect()
}

/// The shares of a row; those that are 0 are left out.
fn shares(of: &Annotation, values: &[u64], widths: &[usize], color: bool) -> String {
    let cell = |(column, width): (usize, &usize)| {
        if values[column] == 0 {
            return " ".repeat(*width);
        }
        let share = of.share(values, column);
        let text = format!("{:>width$.2}", 100.0 * share);
        match Heat::of(share) {
            Heat::Hot if color => format!("\x1b[31m{text}{RESET}"),
            Heat::Warm if color => format!("\x1b[32m{text}{RESET}"),
            _ => text,
        }
    };
    widths.iter().enumerate().map(cell).collect::<Vec<_>>().join(" ")
}
