//! Counts over time: a table that grows with each interval.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};

use pyrograph_analyze::{CountNote, CountRow, CountSummary};
use serde_json::{Value, json};

use super::{CountStyle, name_of, per_second, ranges, unit_of, value};
use crate::csv::field;

/// A table that grows by one line per interval.
#[derive(Debug)]
pub struct IntervalTable {
    style: CountStyle,
    /// Width of the terminal in columns; `None` if the output is not a terminal.
    width: Option<usize>,
    /// Recent values of each column.
    history: HashMap<String, VecDeque<f64>>,
    columns: Vec<(String, &'static str)>,
    lines: usize,
    /// End of the last interval, in seconds.
    last: f64,
    /// True if there were ranges of values.
    has_ranges: bool,
}

/// A column of one line.
struct Cell {
    name: String,
    unit: &'static str,
    value: Option<f64>,
    /// Rate per second (`1.5 K/s`, `0.25 CPUs`) or ratio to another counter (`1.20/cycle`); empty for none.
    rate: String,
}

/// Number of lines after which the heading is repeated.
const HEAD_EVERY: usize = 25;

impl IntervalTable {
    /// Creates an empty table. Each value is followed by its rate and, on a terminal, by a sparkline of its recent values, where
    /// the terminal is wide enough. `width` is the width of the terminal in columns.
    pub fn new(style: CountStyle, width: Option<usize>) -> Self {
        let (history, columns) = (HashMap::new(), Vec::new());
        Self { style, width, history, columns, lines: 0, last: 0.0, has_ranges: false }
    }

    /// Writes the counts of one interval. `at` is the time at its end in seconds.
    ///
    /// # Errors
    ///
    /// Fails if writing to `out` fails.
    pub fn line(&mut self, at: f64, summary: &CountSummary, out: &mut dyn Write) -> io::Result<()> {
        let name = |row: &CountRow| {
            let name = name_of(&summary.counters[row.counter]);
            if row.key.is_empty() { name } else { format!("{} {name}", row.key) }
        };
        // Of several runs, each begins at 0.
        let seconds = if at > self.last { at - self.last } else { at };
        self.last = at;
        let cell = |row: &CountRow| Cell {
            name: name(row),
            unit: unit_of(&summary.counters[row.counter]),
            value: row.value.as_ref().map(|mean| mean.mean),
            rate: rate(row, seconds),
        };
        let cells: Vec<Cell> = summary.rows.iter().map(cell).collect();
        if self.style == CountStyle::Json {
            let counts: serde_json::Map<String, Value> =
                cells.iter().map(|cell| (cell.name.clone(), json!(cell.value))).collect();
            let mut line = json!({ "seconds": at, "counts": counts });
            if !summary.ranges.is_empty() {
                line["ranges"] = ranges::json(summary);
            }
            return writeln!(out, "{line}");
        }
        if self.style == CountStyle::Csv && (self.has_ranges || !summary.ranges.is_empty()) {
            if !self.has_ranges {
                write!(out, "seconds,key,event,first,last,events,unit\r\n")?;
            }
            self.has_ranges = true;
            let at = format!("{at:.6},");
            return summary
                .ranges
                .iter()
                .try_for_each(|of| ranges::csv_line(summary, of, &at, out));
        }
        let columns: Vec<_> = cells.iter().map(|cell| (cell.name.clone(), cell.unit)).collect();
        let is_new = columns != self.columns;
        self.columns = columns;
        if self.style == CountStyle::Csv {
            if is_new {
                let heads = self.columns.iter().map(|(name, unit)| match *unit {
                    "" => field(name),
                    unit => field(&format!("{name} ({unit})")),
                });
                write!(out, "seconds,{}\r\n", heads.collect::<Vec<_>>().join(","))?;
            }
            let values = cells
                .iter()
                .map(|cell| cell.value.map_or_else(String::new, |value| value.to_string()));
            return write!(out, "{at:.6},{}\r\n", values.collect::<Vec<_>>().join(","));
        }
        match summary.rows.iter().any(|row| !row.key.is_empty()) {
            true => self.text_by_key(at, summary, &cells, out)?,
            false => self.text_line(at, &cells, is_new, out)?,
        }
        ranges::text(summary, out)
    }

    /// Writes a line for each key, so that lines are as wide however many there are.
    fn text_by_key(
        &mut self,
        at: f64,
        summary: &CountSummary,
        cells: &[Cell],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let heads: Vec<String> = summary.counters.iter().map(name_of).collect();
        let keys = summary.rows.iter().map(|row| row.key.chars().count());
        let key_width = keys.max().unwrap_or(0);
        // What cannot be counted has no rows.
        let is_counted = |at: &usize| summary.rows.iter().any(|row| row.counter == *at);
        let shown: Vec<usize> = (0..heads.len()).filter(is_counted).collect();
        let names = || shown.iter().map(|&at| &heads[at][..]);
        let columns = Columns::new(12 + key_width, names(), 10, self.width);
        if self.lines == 0 || self.lines >= HEAD_EVERY {
            self.lines = 0;
            let heads: Vec<String> = names().map(|name| columns.head(name)).collect();
            let heads = heads.join("  ");
            writeln!(out, "{:>9}  {:key_width$}  {}", "seconds", "", heads.trim_end())?;
        }
        let mut rows = summary.rows.iter().zip(cells).peekable();
        while let Some(first) = rows.next() {
            let mut values = vec![first];
            while let Some(row) = rows.next_if(|(row, _)| row.key == first.0.key) {
                values.push(row);
            }
            let mut line = format!("{at:>9.3}  {:key_width$}", first.0.key);
            for &counter in &shown {
                let cell = values.iter().find(|(row, _)| row.counter == counter);
                line += "  ";
                line += &columns.cell(&heads[counter], cell.map(|(_, cell)| *cell));
            }
            writeln!(out, "{}", line.trim_end())?;
            self.lines += 1;
        }
        Ok(())
    }

    fn text_line(
        &mut self,
        at: f64,
        cells: &[Cell],
        is_new: bool,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let names = || self.columns.iter().map(|(name, _)| &name[..]);
        let columns = Columns::new(10, names(), 12, self.width);
        let needed = columns.needed(10, names()) + names().count() * (SPARKLINE + 1);
        let has_course = self.width.is_some_and(|width| needed <= width);
        if is_new || self.lines.is_multiple_of(HEAD_EVERY) {
            let room = if has_course { SPARKLINE + 1 } else { 0 };
            let heads: Vec<String> =
                names().map(|name| format!("{}{:room$}", columns.head(name), "")).collect();
            writeln!(out, "{:>10}  {}", "seconds", heads.join("  ").trim_end())?;
        }
        self.lines += 1;
        let mut line = format!("{at:>10.3}");
        for cell in cells {
            line += "  ";
            line += &columns.cell(&cell.name, Some(cell));
            if has_course {
                let history = self.history.entry(cell.name.clone()).or_default();
                history.push_back(cell.value.unwrap_or(0.0));
                if history.len() > SPARKLINE {
                    history.pop_front();
                }
                line += &format!(" {:<SPARKLINE$}", sparkline(history));
            }
        }
        writeln!(out, "{}", line.trim_end())
    }
}

/// How wide the columns of a table are.
struct Columns {
    least: usize,
    /// True if each value is followed by its rate.
    has_rates: bool,
}

impl Columns {
    /// Decides whether there is room for rates, behind `before` columns.
    fn new<'a>(
        before: usize,
        names: impl Iterator<Item = &'a str>,
        least: usize,
        width: Option<usize>,
    ) -> Self {
        let names: Vec<&str> = names.collect();
        let fits = |columns: &Self| {
            let needed = columns.needed(before, names.iter().copied());
            width.is_none_or(|width| needed <= width)
        };
        let with_rates = [least, 10].map(|least| Self { least, has_rates: true });
        with_rates.into_iter().find(fits).unwrap_or(Self { least, has_rates: false })
    }

    fn needed<'a>(&self, before: usize, names: impl Iterator<Item = &'a str>) -> usize {
        before + names.map(|name| self.width(name) + 2).sum::<usize>()
    }

    /// Width of the whole column.
    fn width(&self, name: &str) -> usize {
        name.chars().count().max(self.least + self.rate_width())
    }

    fn value_width(&self, name: &str) -> usize {
        self.width(name) - self.rate_width()
    }

    fn rate_width(&self) -> usize {
        if self.has_rates { 1 + RATE } else { 0 }
    }

    /// The name above the values, or, if it is longer, above the whole column.
    fn head(&self, name: &str) -> String {
        let (value, width) = (self.value_width(name), self.width(name));
        if name.chars().count() <= value {
            format!("{:<width$}", format!("{name:>value$}"))
        } else {
            format!("{name:>width$}")
        }
    }

    fn cell(&self, name: &str, cell: Option<&Cell>) -> String {
        let text = cell.and_then(|cell| cell.value.map(|count| value(count, cell.unit)));
        let text =
            format!("{:>width$}", text.as_deref().unwrap_or("-"), width = self.value_width(name));
        if !self.has_rates {
            return text;
        }
        format!("{text} {:<RATE$}", cell.map_or("", |cell| &cell.rate[..]))
    }
}

/// Width of a rate.
const RATE: usize = 10;

/// Rate of an interval's value per second, or its ratio to another counter.
fn rate(row: &CountRow, seconds: f64) -> String {
    let count = row.value.as_ref().map_or(0.0, |mean| mean.mean);
    match row.note {
        _ if count <= 0.0 || seconds <= 0.0 => String::new(),
        Some(CountNote::CpusUsed(_)) => format!("{:.2} CPUs", count / 1e9 / seconds),
        Some(CountNote::PerCycle(count)) => format!("{count:.2}/cycle"),
        Some(CountNote::ShareOf(_, share)) => format!("{:.2} %", 100.0 * share),
        Some(CountNote::PerSecond(_) | CountNote::Gigahertz(_)) => per_second(count / seconds),
        None => String::new(),
    }
}

/// Maximum number of values in a sparkline.
const SPARKLINE: usize = 8;

/// Bars of eight heights; the largest value has the highest bar, 0 and negative values the lowest.
fn sparkline(values: &VecDeque<f64>) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let largest = values.iter().copied().fold(0.0, f64::max);
    let bar = |value: &f64| {
        let share = if largest > 0.0 { value.max(0.0) / largest } else { 0.0 };
        BARS[((share * 7.0).round() as usize).min(7)]
    };
    values.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use pyrograph_analyze::Mean;
    use pyrograph_profile::Counter;

    use super::*;

    #[test]
    fn sparklines_are_as_high_as_their_values() {
        let of = |values: &[f64]| sparkline(&values.iter().copied().collect());
        assert_eq!(of(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]), "▁▂▃▄▅▆▇█");
        assert_eq!(of(&[0.0, 0.0]), "▁▁");
        assert_eq!(of(&[5.0, -1.0, f64::NAN]), "█▁▁");
        assert_eq!(of(&[]), "");
    }

    fn lines(width: Option<usize>, values: &[f64]) -> String {
        let mut table = IntervalTable::new(CountStyle::Text, width);
        let mut out = Vec::new();
        for (at, value) in (1u8..).zip(values) {
            let mean = Mean { mean: *value, half_width: None, outliers: Vec::new() };
            let row = CountRow {
                key: String::new(),
                counter: 0,
                value: Some(mean.clone()),
                running: 1.0,
                note: Some(CountNote::PerSecond(0.5)),
            };
            let counter = Counter { name: "faults".to_owned(), is_time: false, user_only: false };
            let (counters, rows) = (vec![counter], vec![row]);
            let summary = CountSummary {
                counters,
                rows,
                ranges: Vec::new(),
                runs: 1,
                elapsed: mean,
                usage: None,
            };
            table.line(at.into(), &summary, &mut out).expect("to memory");
        }
        String::from_utf8(out).expect("text")
    }

    /// It was a column for each, 176 wide with two CPUs.
    #[test]
    fn each_key_has_a_line() {
        let mean = |mean| Mean { mean, half_width: None, outliers: Vec::new() };
        let counter =
            |name: &str, is_time| Counter { name: name.to_owned(), is_time, user_only: false };
        let row = |key: &str, counter, value| CountRow {
            key: key.to_owned(),
            counter,
            value: Some(mean(value)),
            running: 1.0,
            note: Some(if counter == 0 {
                CountNote::CpusUsed(1.0)
            } else {
                CountNote::PerSecond(1.0)
            }),
        };
        let summary = CountSummary {
            ranges: Vec::new(),
            counters: vec![counter("task-clock", true), counter("context-switches", false)],
            rows: vec![row("CPU 0", 0, 2e9), row("CPU 0", 1, 7.0), row("CPU 10", 1, 30.0)],
            runs: 1,
            elapsed: mean(1.0),
            usage: None,
        };
        let mut table = IntervalTable::new(CountStyle::Text, None);
        let mut out = Vec::new();
        for at in [1.0, 2.0] {
            table.line(at, &summary, &mut out).expect("to memory");
        }
        let text = String::from_utf8(out).expect("text");
        let expect = "  seconds          task-clock                  context-switches
    1.000  CPU 0      2.000 s 2.00 CPUs            7 7.0/s
    1.000  CPU 10           -                     30 30.0/s
    2.000  CPU 0      2.000 s 2.00 CPUs            7 7.0/s
    2.000  CPU 10           -                     30 30.0/s
";
        assert_eq!(text, expect);
    }

    #[test]
    fn only_terminals_with_room_have_rates_and_sparklines() {
        let head = "   seconds        faults\n";
        let rates = "     1.000             2 2.0/s\n     2.000             4 4.0/s\n";
        assert_eq!(lines(None, &[2.0, 4.0]), format!("{head}{rates}"));
        assert_eq!(lines(Some(40), &[2.0, 4.0]), format!("{head}{rates}"));
        let plain = "     1.000             2\n     2.000             4\n";
        assert_eq!(lines(Some(20), &[2.0, 4.0]), format!("{head}{plain}"));
        let all = "     1.000             2 2.0/s      █\n     2.000             4 4.0/s      ▅█\n";
        assert_eq!(lines(Some(80), &[2.0, 4.0]), format!("{head}{all}"));
        // The last eight.
        let many: Vec<f64> = (0..12).map(f64::from).collect();
        let last = lines(Some(80), &many).lines().last().map(str::to_owned);
        assert_eq!(last.as_deref(), Some("    12.000            11 11.0/s     ▄▄▅▅▆▇▇█"));
    }
}
