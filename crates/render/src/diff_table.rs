//! Output of comparisons as tables in text, Markdown, CSV and JSON.

use std::io::{self, Write};

use pyrograph_analyze::{
    Diff, Estimate, FunctionChange, Measure, SampleBasis, Scale, Side, Verdict,
};
use pyrograph_profile::ValueType;
use serde_json::{Value, json};

use crate::apart::{SHORTEST_NAME, cut_all};
use crate::csv::field;
use crate::units::{counted, grouped};

/// Options to recommend in hints, in the terms of the program that prints the table.
#[derive(Clone, Copy, Debug)]
pub struct DiffHints {
    /// Option to show all rows: `--limit 0`.
    pub all_rows: &'static str,
    /// Option to test each function by itself: `--each`.
    pub each: &'static str,
    /// Options that give the number of samples, if the inputs do not contain it and noise is therefore unknown.
    pub samples: &'static str,
}

/// Table of functions that changed, largest change first.
#[derive(Debug)]
pub struct DiffTable<'a> {
    diff: &'a Diff,
    names: &'a (String, String),
    fail_over: Option<f64>,
    hints: DiffHints,
    rows: Vec<&'a FunctionChange>,
    /// Number of rows to show.
    shown: usize,
}

impl<'a> DiffTable<'a> {
    /// Creates a table of all functions that changed beyond noise. With `fail_over`, only of functions that increased
    /// beyond noise by more than this share of the whole before. `limit` is the maximum number of rows to show, 0 for
    /// all.
    pub fn new(
        diff: &'a Diff,
        names: &'a (String, String),
        fail_over: Option<f64>,
        limit: usize,
        hints: DiffHints,
    ) -> Self {
        let counts = |function: &&FunctionChange| match fail_over {
            None => function.verdict != Verdict::Noise,
            Some(limit) => {
                function.verdict == Verdict::More && part(diff, function.estimate.change()) > limit
            }
        };
        let mut rows: Vec<&FunctionChange> = diff.functions.iter().filter(counts).collect();
        let size = |function: &FunctionChange| function.estimate.change().abs();
        rows.sort_by(|a, b| size(b).total_cmp(&size(a)).then(a.name.cmp(&b.name)));
        let shown = if limit == 0 { rows.len() } else { limit.min(rows.len()) };
        Self { diff, names, fail_over, hints, rows, shown }
    }

    /// Returns true if no function changed, or none increased by more than the limit.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes the table as text. With `width`, names are cut so that rows fit that many columns.
    ///
    /// # Errors
    ///
    /// Fails if writing to `out` fails.
    pub fn text(&self, width: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
        for line in self.head() {
            writeln!(out, "{line}")?;
        }
        if self.rows.is_empty() {
            return Ok(());
        }
        let (heads, mut rows) = self.cells();
        let width_of = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([heads[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..heads.len()).map(width_of).collect();
        if let (Some(width), [numbers @ .., _]) = (width, &widths[..]) {
            let used: usize = numbers.iter().map(|number| number + 2).sum();
            let names: Vec<&String> = rows.iter().map(|row| &row[numbers.len()]).collect();
            let cut = cut_all(&names, width.saturating_sub(used).max(SHORTEST_NAME));
            rows.iter_mut().zip(cut).for_each(|(row, name)| row[numbers.len()] = name);
        }
        writeln!(out)?;
        for row in std::iter::once(&heads).chain(&rows) {
            // The last column, names, is not padded.
            let [numbers @ .., name] = &row[..] else { continue };
            for (cell, width) in numbers.iter().zip(&widths) {
                write!(out, "{}{cell}  ", " ".repeat(width - cell.chars().count()))?;
            }
            writeln!(out, "{name}")?;
        }
        self.rest().map_or(Ok(()), |rest| writeln!(out, "{rest}"))
    }

    /// Writes the table as Markdown.
    ///
    /// # Errors
    ///
    /// Fails if writing to `out` fails.
    pub fn markdown(&self, out: &mut dyn Write) -> io::Result<()> {
        for line in self.head() {
            writeln!(out, "{line}  ")?;
        }
        if self.rows.is_empty() {
            return Ok(());
        }
        let (heads, rows) = self.cells();
        writeln!(out, "\n| {} |", heads.join(" | "))?;
        writeln!(out, "|{}---|", "---:|".repeat(heads.len().saturating_sub(1)))?;
        for row in &rows {
            let [numbers @ .., name] = &row[..] else { continue };
            writeln!(out, "| {} | {} |", numbers.join(" | "), code(name))?;
        }
        self.rest().map_or(Ok(()), |rest| writeln!(out, "\n{rest}"))
    }

    /// Writes the table as JSON, with all rows.
    ///
    /// # Errors
    ///
    /// Fails if writing to `out` fails.
    pub fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        let diff = self.diff;
        let side = |side: &Side, name: &str| {
            json!({
                "name": name, "runs": side.runs, "samples": side.samples,
                "total": units(diff, side.total as f64),
                "value": { "name": side.value_type.name, "unit": side.value_type.unit },
            })
        };
        let family = &diff.functions_family;
        let value = json!({
            "before": side(&diff.before, &self.names.0),
            "after": side(&diff.after, &self.names.1),
            "compared": {
                "change": match diff.options.measure {
                    Measure::Total => "total",
                    Measure::OwnSelf => "self",
                },
                "scale": if by_values(diff) { "values" } else { "shares" },
                "confidence": diff.options.confidence,
                "tested": family.tested,
                "changed": family.changed,
            },
            "fail_over": self.fail_over,
            "regressed": self.fail_over.map(|_| !self.rows.is_empty()),
            "functions": self.rows.iter().map(|row| self.json_row(row)).collect::<Vec<_>>(),
        });
        serde_json::to_writer_pretty(&mut *out, &value)?;
        writeln!(out)
    }

    /// Writes the table as CSV, with all rows. Follows RFC 4180. Rates are shares of the whole, or values in the units of
    /// the inputs if values are compared; unknown bounds are empty.
    ///
    /// # Errors
    ///
    /// Fails if writing to `out` fails.
    pub fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let diff = self.diff;
        let value = |of: &str, side: &Side| {
            let ValueType { name, unit, .. } = &side.value_type;
            match &unit[..] {
                "" => field(&format!("{of} {name}")),
                unit => field(&format!("{of} {name} ({unit})")),
            }
        };
        let (before, after) = (value("before", &diff.before), value("after", &diff.after));
        let rate = if by_values(diff) { "value" } else { "share" };
        write!(
            out,
            "function,module,is,{before},{after},{rate} before,{rate} after,change,low,high\r\n"
        )?;
        for row in &self.rows {
            let Estimate { before, after, low, high } = row.estimate;
            let number = |rate: f64| match rate.is_finite() {
                true => rate_in_units(diff, rate).to_string(),
                false => String::new(),
            };
            write!(
                out,
                "{},{},{},{},{},{},{},{},{},{}\r\n",
                field(name(row)),
                field(&row.module),
                verdict(row),
                units(diff, row.before as f64),
                units(diff, row.after as f64),
                number(before),
                number(after),
                number(after - before),
                number(low),
                number(high),
            )?;
        }
        Ok(())
    }

    fn json_row(&self, row: &FunctionChange) -> Value {
        let diff = self.diff;
        let Estimate { before, after, low, high } = row.estimate;
        let rate = |rate: f64| rate_in_units(diff, rate);
        json!({
            "function": name(row),
            "module": row.module,
            "before": { "value": units(diff, row.before as f64), "rate": rate(before) },
            "after": { "value": units(diff, row.after as f64), "rate": rate(after) },
            "change": { "rate": rate(after - before), "low": rate(low), "high": rate(high) },
            "part_of_whole": part(diff, after - before),
            "is": verdict(row),
        })
    }

    /// Lines that describe the inputs and the result.
    fn head(&self) -> Vec<String> {
        let diff = self.diff;
        let side = |side: &Side| {
            let one = side.sample_name.strip_suffix('s').unwrap_or(&side.sample_name);
            counted(side.samples.round() as u64, one)
        };
        let confidence = 100.0 * diff.options.confidence;
        let family = &diff.functions_family;
        let what = if by_values(diff) { "values" } else { "shares of the whole" };
        let of = match diff.options.measure {
            Measure::Total => "total",
            Measure::OwnSelf => "self",
        };
        let of_functions = counted(family.tested as u64, "function");
        let result = match (self.fail_over, self.rows.len()) {
            (None, 0) if cannot_tell(diff) => format!(
                "cannot tell what changed beyond noise, of {of_functions}: the input does not say how many samples \
                 the values are; {} do",
                self.hints.samples
            ),
            (None, 0) => format!("nothing changed beyond noise, of {of_functions}"),
            (None, rows) => {
                format!("{} of {of_functions} changed beyond noise", grouped(rows as u64))
            }
            (Some(limit), 0) => {
                format!("nothing takes more by over {} %, of {of_functions}", 100.0 * limit)
            }
            (Some(limit), rows) => format!(
                "{} of {of_functions} {} more, beyond noise, by over {} % of the whole",
                grouped(rows as u64),
                if rows == 1 { "takes" } else { "take" },
                100.0 * limit
            ),
        };
        let mut head = vec![
            format!("before: {}, {}", self.names.0, side(&diff.before)),
            format!("after: {}, {}", self.names.1, side(&diff.after)),
        ];
        head.extend(diff.before.unlike(&diff.after));
        head.push(format!("{result} (by {of}; {what}; {confidence} %)"));
        if self.rows.is_empty() && self.fail_over.is_none() && !cannot_tell(diff) {
            head.extend(self.within_noise());
        }
        head
    }

    /// Describes the largest changes within noise, and estimates the number of samples per side at which each would
    /// be significant if it is real. Noise falls with the square root of this number.
    fn within_noise(&self) -> Option<String> {
        const SHOWN: usize = 3;
        let diff = self.diff;
        let size = |function: &FunctionChange| function.estimate.change().abs();
        let mut rows: Vec<&FunctionChange> =
            diff.functions.iter().filter(|row| size(row) > 0.0).collect();
        rows.sort_by(|a, b| size(b).total_cmp(&size(a)).then(a.name.cmp(&b.name)));
        let samples = diff.before.samples.max(diff.after.samples);
        let row = |row: &&FunctionChange| {
            let Estimate { low, high, .. } = row.estimate;
            let times = ((high - low) / 2.0 / size(row)).powi(2);
            let [change, .., name] = self.cell_row(row);
            // Significant by itself, but not among so many tests.
            let needed = match times > 1.0 && (samples * times).is_finite() {
                true => format!(
                    "takes some {} {} a side",
                    grouped((samples * times).ceil() as u64),
                    diff.before.sample_name
                ),
                false => format!("alone it would count: {}", self.hints.each),
            };
            format!("{change} {name} ({needed})")
        };
        let rows: Vec<String> = rows.iter().take(SHOWN).map(row).collect();
        (!rows.is_empty()).then(|| format!("the largest, within noise: {}", rows.join("; ")))
    }

    /// Column headings and rows.
    fn cells(&self) -> ([String; 6], Vec<[String; 6]>) {
        let heads = ["change", "between", "before", "after", "relative", "function"];
        let rows = self.rows[..self.shown].iter().map(|row| self.cell_row(row)).collect();
        (heads.map(str::to_owned), rows)
    }

    fn cell_row(&self, row: &FunctionChange) -> [String; 6] {
        let Estimate { before, after, low, high } = row.estimate;
        let relative = match (row.verdict, row.before, row.after) {
            (_, 0, _) => "new".to_owned(),
            (_, _, 0) => "gone".to_owned(),
            _ => relative(after / before),
        };
        let between = if low.is_finite() && high.is_finite() {
            format!("{} … {}", self.change(low), self.change(high))
        } else {
            "?".to_owned()
        };
        let unit = if by_values(self.diff) { "" } else { " pp" };
        [
            format!("{}{unit}", self.change(after - before)),
            between,
            self.rate(before),
            self.rate(after),
            relative,
            name(row).to_owned(),
        ]
    }

    fn rate(&self, rate: f64) -> String {
        if by_values(self.diff) { value(self.diff, rate) } else { format!("{:.2} %", 100.0 * rate) }
    }

    fn change(&self, change: f64) -> String {
        if by_values(self.diff) {
            let sign = if change < 0.0 { '-' } else { '+' };
            format!("{sign}{}", value(self.diff, change.abs()))
        } else {
            format!("{:+.2}", 100.0 * change + 0.0)
        }
    }

    /// Line with the number of rows that are not shown.
    fn rest(&self) -> Option<String> {
        let rest = self.rows.len() - self.shown;
        let all = self.hints.all_rows;
        (rest > 0).then(|| format!("and {} more: {all} shows all", grouped(rest as u64)))
    }
}

/// Formats a ratio as a change in percent or, from 10 on, as a factor.
fn relative(ratio: f64) -> String {
    match ratio {
        10.0.. => format!("× {}", grouped(ratio.round() as u64)),
        _ => format!("{:+.1} %", 100.0 * (ratio - 1.0)),
    }
}

/// Returns true if noise is unknown: there is one run per side, and the values come without a number of samples.
fn cannot_tell(diff: &Diff) -> bool {
    let sides = [&diff.before, &diff.after];
    sides.iter().any(|side| side.basis == SampleBasis::Totals && side.total > 0)
        && sides.iter().all(|side| side.runs == 1)
}

fn by_values(diff: &Diff) -> bool {
    diff.options.scale == Scale::Values
}

/// The verdict in words.
fn verdict(row: &FunctionChange) -> &'static str {
    match row.verdict {
        Verdict::More if row.before == 0 => "new",
        Verdict::Less if row.after == 0 => "gone",
        Verdict::More => "more",
        Verdict::Less => "less",
        Verdict::Noise => "within noise",
    }
}

/// A rate as it is compared: a value in its unit, or a share.
fn rate_in_units(diff: &Diff, rate: f64) -> f64 {
    if by_values(diff) { units(diff, rate) } else { rate }
}

/// A change as a share of the whole before.
fn part(diff: &Diff, change: f64) -> f64 {
    if !by_values(diff) {
        return change;
    }
    let whole = diff.before.total as f64 / diff.before.runs as f64;
    if whole > 0.0 { change / whole } else { f64::INFINITY * change.signum() }
}

/// Name of a function; `all` for the whole.
fn name(row: &FunctionChange) -> &str {
    if row.name.is_empty() { "all" } else { &row.name }
}

/// Converts from the fixed-point representation of columns to units.
fn units(diff: &Diff, value: f64) -> f64 {
    value / 10f64.powi(diff.after.value_type.decimals.into())
}

/// Formats a value: `1,234`, `12.3 ms`.
fn value(diff: &Diff, value: f64) -> String {
    let units = units(diff, value);
    match diff.after.value_type.unit.as_str() {
        "ns" if units >= 1e9 => format!("{:.2} s", units / 1e9),
        "ns" => format!("{:.1} ms", units / 1e6),
        _ if diff.after.value_type.decimals > 0 => format!("{units:.2}"),
        _ => grouped(units.round() as u64),
    }
}

/// Formats text as code in a cell of a Markdown table.
fn code(text: &str) -> String {
    let text = text.replace('|', "\\|").replace(['\n', '\r'], " ");
    // Delimited by more backticks than the longest run in the text.
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let ticks = "`".repeat(longest + 1);
    let room = if longest > 0 { " " } else { "" };
    format!("{ticks}{room}{text}{room}{ticks}")
}

#[cfg(test)]
mod tests {
    use super::relative;

    #[test]
    fn ratios_are_in_percent_or_in_times() {
        for (ratio, expect) in [
            (0.5, "-50.0 %"),
            (1.0, "+0.0 %"),
            (1.081, "+8.1 %"),
            (9.99, "+899.0 %"),
            (10.0, "× 10"),
            (5_836.4, "× 5,836"),
        ] {
            assert_eq!(relative(ratio), expect);
        }
    }
}
