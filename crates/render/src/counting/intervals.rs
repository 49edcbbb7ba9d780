//! Counts over time: a table that grows with each interval.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};

use pyrograph_analyze::{CountRow, CountSummary};
use serde_json::{Value, json};

use super::{CountStyle, name_of, unit_of, value};
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
}

/// Number of lines after which the heading is repeated.
const HEAD_EVERY: usize = 25;

impl IntervalTable {
    /// Creates an empty table. If text goes to a terminal that is wide enough, each value is followed by a sparkline
    /// of its recent values. `width` is the width of the terminal in columns.
    pub fn new(style: CountStyle, width: Option<usize>) -> Self {
        Self { style, width, history: HashMap::new(), columns: Vec::new(), lines: 0 }
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
        let cells: Vec<(String, &'static str, Option<f64>)> = summary
            .rows
            .iter()
            .map(|row| {
                let value = row.value.as_ref().map(|mean| mean.mean);
                (name(row), unit_of(&summary.counters[row.counter]), value)
            })
            .collect();
        if self.style == CountStyle::Json {
            let counts: serde_json::Map<String, Value> =
                cells.iter().map(|(name, _, value)| (name.clone(), json!(value))).collect();
            return writeln!(out, "{}", json!({ "seconds": at, "counts": counts }));
        }
        let columns: Vec<_> = cells.iter().map(|(name, unit, _)| (name.clone(), *unit)).collect();
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
                .map(|(_, _, value)| value.map_or_else(String::new, |value| value.to_string()));
            return write!(out, "{at:.6},{}\r\n", values.collect::<Vec<_>>().join(","));
        }
        if summary.rows.iter().any(|row| !row.key.is_empty()) {
            return self.text_by_key(at, summary, out);
        }
        self.text_line(at, &cells, is_new, out)
    }

    /// Writes a line for each key, so that lines are as wide however many there are.
    fn text_by_key(
        &mut self,
        at: f64,
        summary: &CountSummary,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let heads: Vec<String> = summary.counters.iter().map(name_of).collect();
        let keys = summary.rows.iter().map(|row| row.key.chars().count());
        let key_width = keys.max().unwrap_or(0);
        let width = |counter: usize| heads[counter].chars().count().max(10);
        // What cannot be counted has no rows.
        let is_counted = |at: &usize| summary.rows.iter().any(|row| row.counter == *at);
        let shown: Vec<usize> = (0..heads.len()).filter(is_counted).collect();
        if self.lines == 0 || self.lines >= HEAD_EVERY {
            self.lines = 0;
            let heads: Vec<String> = shown
                .iter()
                .map(|&at| format!("{:>width$}", heads[at], width = width(at)))
                .collect();
            writeln!(out, "{:>9}  {:key_width$}  {}", "seconds", "", heads.join("  "))?;
        }
        let mut rows = summary.rows.iter().peekable();
        while let Some(first) = rows.next() {
            let mut values = vec![first];
            while let Some(row) = rows.next_if(|row| row.key == first.key) {
                values.push(row);
            }
            let mut line = format!("{at:>9.3}  {:key_width$}", first.key);
            for &counter in &shown {
                let row = values.iter().find(|row| row.counter == counter);
                let mean = row.and_then(|row| row.value.as_ref()).map(|mean| mean.mean);
                let unit = unit_of(&summary.counters[counter]);
                let text = mean.map_or_else(|| "-".to_owned(), |mean| value(mean, unit));
                line += &format!("  {text:>width$}", width = width(counter));
            }
            writeln!(out, "{}", line.trim_end())?;
            self.lines += 1;
        }
        Ok(())
    }

    fn text_line(
        &mut self,
        at: f64,
        cells: &[(String, &'static str, Option<f64>)],
        is_new: bool,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let width = |name: &str| name.chars().count().max(12);
        let columns = self.columns.iter().map(|(name, _)| width(name) + 2);
        let needed = 10 + columns.map(|width| width + SPARKLINE + 1).sum::<usize>();
        let has_course = self.width.is_some_and(|width| needed <= width);
        if is_new || self.lines.is_multiple_of(HEAD_EVERY) {
            let room = if has_course { SPARKLINE + 1 } else { 0 };
            let heads: Vec<String> = self
                .columns
                .iter()
                .map(|(name, _)| format!("{name:>width$}{:room$}", "", width = width(name)))
                .collect();
            writeln!(out, "{:>10}  {}", "seconds", heads.join("  ").trim_end())?;
        }
        self.lines += 1;
        let mut line = format!("{at:>10.3}");
        for (name, unit, count) in cells {
            let text = count.map_or_else(|| "-".to_owned(), |count| value(count, unit));
            line += &format!("  {text:>width$}", width = width(name));
            if has_course {
                let history = self.history.entry(name.clone()).or_default();
                history.push_back(count.unwrap_or(0.0));
                if history.len() > SPARKLINE {
                    history.pop_front();
                }
                line += &format!(" {:<SPARKLINE$}", sparkline(history));
            }
        }
        writeln!(out, "{}", line.trim_end())
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
                note: None,
            };
            let counter = Counter { name: "faults".to_owned(), is_time: false, user_only: false };
            let (counters, rows) = (vec![counter], vec![row]);
            let summary = CountSummary { counters, rows, runs: 1, elapsed: mean, usage: None };
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
            note: None,
        };
        let summary = CountSummary {
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
        let expect = "  seconds          task-clock  context-switches
    1.000  CPU 0      2.000 s                 7
    1.000  CPU 10           -                30
    2.000  CPU 0      2.000 s                 7
    2.000  CPU 10           -                30
";
        assert_eq!(text, expect);
    }

    #[test]
    fn only_terminals_with_room_have_sparklines() {
        let plain =
            "   seconds        faults\n     1.000             2\n     2.000             4\n";
        assert_eq!(lines(None, &[2.0, 4.0]), plain);
        assert_eq!(lines(Some(20), &[2.0, 4.0]), plain);
        assert_eq!(
            lines(Some(80), &[2.0, 4.0]),
            "   seconds        faults\n     1.000             2 █\n     2.000             4 ▅█\n"
        );
        // The last eight.
        let many: Vec<f64> = (0..12).map(f64::from).collect();
        let last = lines(Some(80), &many).lines().last().map(str::to_owned);
        assert_eq!(last.as_deref(), Some("    12.000            11 ▄▄▅▅▆▇▇█"));
    }
}
