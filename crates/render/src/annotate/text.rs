//! Text output of an annotated function.

use std::io::{self, Write};

use pyrograph_analyze::Annotation;

use super::rows::{Row, rows};
use super::{AnnotationParts, AnnotationStyle, Heat, heading, hottest_line};
use crate::report::plain;
use crate::units::grouped;

const RESET: &str = "\x1b[0m";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";

/// Writes an annotated function as text. Control characters in names and sources are replaced.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn annotation_text(
    of: &Annotation,
    style: AnnotationStyle,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (bold, reset) = if style.color { (BOLD, RESET) } else { ("", "") };
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
    let table = Table::new(of, &rows, style.color);
    writeln!(out, "{bold}{}{reset} │", table.titles())?;
    rows.iter().try_for_each(|row| table.write(row, out))?;
    if !of.notes.is_empty() {
        writeln!(out)?;
    }
    for note in &of.notes {
        writeln!(out, "{}", plain(note))?;
    }
    Ok(())
}

/// Column widths, in characters.
struct Table<'a> {
    of: &'a Annotation,
    color: bool,
    shares: Vec<usize>,
    arrows: usize,
    addresses: usize,
    labels: usize,
}

impl<'a> Table<'a> {
    fn new(of: &'a Annotation, rows: &[Row], color: bool) -> Self {
        let last = of.instructions.last().map_or(0, |last| last.address);
        let mut table = Self {
            of,
            color,
            shares: widths(of),
            arrows: 0,
            addresses: format!("{last:x}").len(),
            labels: 0,
        };
        for row in rows {
            match row {
                Row::Source { label, .. } => {
                    table.labels = table.labels.max(label.chars().count());
                }
                Row::Instruction { arrows, .. } => {
                    table.arrows = table.arrows.max(arrows.chars().count());
                }
                Row::Owner(_) | Row::LeftOut(_) => {}
            }
        }
        table
    }

    fn titles(&self) -> String {
        let titles = titles(self.of);
        let cells =
            titles.iter().zip(&self.shares).map(|(title, width)| format!("{title:>width$}"));
        cells.collect::<Vec<_>>().join(" ")
    }

    fn write(&self, row: &Row, out: &mut dyn Write) -> io::Result<()> {
        let Self { of, arrows: lanes, addresses, labels, .. } = *self;
        let empty = || self.shares(&vec![0; of.value_types.len()]);
        let (dim, bold, reset) = if self.color { (DIM, BOLD, RESET) } else { ("", "", "") };
        match row {
            Row::Owner(text) => writeln!(out, "{} │ {bold}{text}{reset}", empty()),
            Row::Source { label, text, values } => {
                let (shares, dim, reset) = match values {
                    Some(values) => (self.shares(values), "", ""),
                    None => (empty(), dim, reset),
                };
                let line = format!("{shares} │ {dim}{label:>labels$}  {text}");
                writeln!(out, "{}{reset}", line.trim_end())
            }
            Row::Instruction { at, arrows } => {
                let instruction = &of.instructions[*at];
                let (address, text) = (instruction.address, plain(&instruction.text));
                let shares = self.shares(&instruction.values);
                writeln!(
                    out,
                    "{shares} │ {dim}{arrows:lanes$} {address:addresses$x}{reset}  {text}"
                )
            }
            Row::LeftOut(count) => {
                let count = grouped(*count as u64);
                let text = format!("… {count} instructions without samples");
                writeln!(out, "{} │ {dim}{text}{reset}", empty())
            }
        }
    }

    /// Formats the shares of a row; shares of 0 are left blank.
    fn shares(&self, values: &[u64]) -> String {
        let cell = |(column, width): (usize, &usize)| {
            if values[column] == 0 {
                return " ".repeat(*width);
            }
            let share = self.of.share(values, column);
            let text = format!("{:>width$.2}", 100.0 * share);
            match Heat::of(share) {
                Heat::Hot if self.color => format!("\x1b[31m{text}{RESET}"),
                Heat::Warm if self.color => format!("\x1b[32m{text}{RESET}"),
                _ => text,
            }
        };
        self.shares.iter().enumerate().map(cell).collect::<Vec<_>>().join(" ")
    }
}

/// Titles of the share columns; for a single value type, `Percent`.
fn titles(of: &Annotation) -> Vec<String> {
    match &of.value_types[..] {
        [_] => vec!["Percent".to_owned()],
        all => all.iter().map(|value| plain(&value.name)).collect(),
    }
}

fn widths(of: &Annotation) -> Vec<usize> {
    titles(of).iter().map(|title| title.chars().count().max("100.00".len() + 1)).collect()
}
