//! Output of event counts as text, Markdown, CSV and JSON, and as a table with a line per interval.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};

use pyrograph_analyze::{CountChange, CountNote, CountRow, CountSummary, Mean, Verdict};
use pyrograph_profile::{Counter, NotCounted};
use serde_json::{Value, json};

use crate::csv::field;
use crate::table::{Table, heads};
use crate::units::grouped;

/// Output format of counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountStyle {
    /// Aligned columns for people.
    Text,
    /// A Markdown table.
    Markdown,
    /// Comma-separated values.
    Csv,
    /// JSON; for intervals, one object per line.
    Json,
}

/// Writes counts.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn write_counts(
    style: CountStyle,
    summary: &CountSummary,
    title: &str,
    refused: &[NotCounted],
    out: &mut dyn Write,
) -> io::Result<()> {
    match style {
        CountStyle::Text => counts_text(summary, title, refused, out),
        CountStyle::Markdown => counts_markdown(summary, refused, out),
        CountStyle::Csv => counts_csv(summary, refused, out),
        CountStyle::Json => writeln!(out, "{:#}", counts_json(summary, title, refused)),
    }
}

/// Writes the changes between two commands.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn write_count_changes(
    style: CountStyle,
    changes: &[CountChange],
    titles: [&str; 2],
    refused: &[NotCounted],
    out: &mut dyn Write,
) -> io::Result<()> {
    match style {
        CountStyle::Csv => count_changes_csv(changes, out),
        CountStyle::Json => writeln!(out, "{:#}", count_changes_json(changes, titles)),
        CountStyle::Text | CountStyle::Markdown => {
            writeln!(out, "before: {}\nafter:  {}\n", titles[0], titles[1])?;
            let table = change_table(changes);
            if style == CountStyle::Markdown {
                table.markdown(out)?
            } else {
                table.text(out)?
            }
            let notes: Vec<String> = not_counted(refused).collect();
            notes.iter().try_for_each(|note| writeln!(out, "\n{note}"))
        }
    }
}

/// Formats a value with its unit: nanoseconds as `1.23 ms`, bytes as `4.5 MiB`, others as numbers.
fn value(value: f64, unit: &str) -> String {
    match unit {
        "ns" => seconds(value / 1e9),
        "s" => seconds(value),
        "bytes" => {
            let steps = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
            let step = steps.into_iter().find(|(step, _)| value >= f64::from(*step));
            let (step, unit) = step.unwrap_or((1, "B"));
            format!("{:.1} {unit}", value / f64::from(step))
        }
        _ if value.fract() == 0.0 || value >= 100.0 => grouped(value.round() as u64),
        _ => format!("{value:.1}"),
    }
}

fn seconds(value: f64) -> String {
    let steps = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")];
    let step = steps.into_iter().find(|(step, _)| value.abs() >= *step);
    match step.unwrap_or((1e-9, "ns")) {
        (step, "ns") => format!("{:.0} ns", value / step),
        (step, unit) => format!("{:.3} {unit}", value / step),
    }
}

fn unit_of(counter: &Counter) -> &'static str {
    if counter.is_time { "ns" } else { "" }
}

/// Name of a counter, with the modifier `u` if kernel mode is not permitted and therefore not counted.
fn name_of(counter: &Counter) -> String {
    let colon = if counter.name.contains(':') { "" } else { ":" };
    if counter.user_only { format!("{}{colon}u", counter.name) } else { counter.name.clone() }
}

/// Formats a derived value: `2.50 CPUs used`, `1.20 a cycle`, `4.30 % of branches`, `12.3 K/s`.
fn note(note: CountNote) -> String {
    match note {
        CountNote::CpusUsed(cpus) => format!("{cpus:.2} CPUs used"),
        CountNote::Gigahertz(hertz) => format!("{hertz:.2} GHz"),
        CountNote::PerCycle(count) => format!("{count:.2} a cycle"),
        CountNote::ShareOf(of, share) => format!("{:.2} % of {of}", share * 100.0),
        CountNote::PerSecond(rate) => {
            let steps = [(1e9, "G"), (1e6, "M"), (1e3, "K"), (1.0, "")];
            let (step, letter) =
                steps.into_iter().find(|(step, _)| rate >= *step).unwrap_or((1.0, ""));
            format!("{:.1} {letter}/s", rate / step).replace(" /s", "/s")
        }
    }
}

/// Half width of the confidence interval: `± 1.2 %`; empty for a single run.
fn spread(mean: &Mean) -> String {
    match mean.half_width {
        Some(half) if mean.mean > 0.0 => format!("± {:.1} %", 100.0 * half / mean.mean),
        Some(_) => "± 0.0 %".to_owned(),
        None => String::new(),
    }
}

fn summary_table(summary: &CountSummary) -> Table {
    let (heads, numeric) = heads(&[
        ("", false),
        ("event", false),
        ("value", true),
        ("95 %", true),
        ("counted", true),
        ("", false),
    ]);
    let row = |row: &CountRow| {
        let counter = &summary.counters[row.counter];
        vec![
            row.key.clone(),
            name_of(counter),
            row.value.as_ref().map_or_else(
                || "not counted".to_owned(),
                |mean| value(mean.mean, unit_of(counter)),
            ),
            row.value.as_ref().map_or_else(String::new, spread),
            match row.running {
                running if running < 0.9995 => format!("{:.1} % of the time", running * 100.0),
                _ => String::new(),
            },
            row.note.map_or_else(String::new, note),
        ]
    };
    let rows = summary.rows.iter().map(row).collect();
    Table { heads, rows, numeric }.without_empty()
}

/// Elapsed time, CPU times and peak memory, with names and units.
fn resources(summary: &CountSummary) -> Vec<(&'static str, &Mean, &'static str)> {
    let mut lines = vec![("elapsed", &summary.elapsed, "s")];
    if let Some([user, system, memory]) = &summary.usage {
        lines.extend([
            ("user", user, "s"),
            ("system", system, "s"),
            ("peak memory", memory, "bytes"),
        ]);
    }
    lines
}

/// Outliers, one line per counter.
fn outliers(summary: &CountSummary) -> Vec<String> {
    let of_rows = summary.rows.iter().filter_map(|row| {
        let counter = &summary.counters[row.counter];
        Some((name_of(counter), row.value.as_ref()?, unit_of(counter)))
    });
    let of_resources =
        resources(summary).into_iter().map(|(name, mean, unit)| (name.to_owned(), mean, unit));
    let line = |(name, mean, unit): (String, &Mean, &str)| {
        let runs: Vec<String> = mean
            .outliers
            .iter()
            .map(|(run, far)| format!("{} in run {run}", value(*far, unit)))
            .collect();
        (!runs.is_empty()).then(|| format!("outliers of {name}: {}", runs.join(", ")))
    };
    of_rows.chain(of_resources).filter_map(line).collect()
}

/// Lines that explain why events are not counted, one per reason.
pub fn not_counted(events: &[NotCounted]) -> impl Iterator<Item = String> {
    events
        .iter()
        .map(|events| format!("not counted: {}: {}", events.names.join(", "), events.reason))
}

fn counts_text(
    summary: &CountSummary,
    title: &str,
    refused: &[NotCounted],
    out: &mut dyn Write,
) -> io::Result<()> {
    let runs = if summary.runs == 1 { String::new() } else { format!(", {} runs", summary.runs) };
    writeln!(out, "counts of {title}{runs}\n")?;
    if !summary.rows.is_empty() {
        summary_table(summary).text(out)?;
        writeln!(out)?;
    }
    for (name, mean, unit) in resources(summary) {
        let line = format!("  {name:<12} {} {}", value(mean.mean, unit), spread(mean));
        writeln!(out, "{}", line.trim_end())?;
    }
    let notes: Vec<String> = outliers(summary).into_iter().chain(not_counted(refused)).collect();
    if !notes.is_empty() {
        writeln!(out)?;
    }
    notes.iter().try_for_each(|note| writeln!(out, "{note}"))
}

fn counts_markdown(
    summary: &CountSummary,
    refused: &[NotCounted],
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut table = summary_table(summary);
    let (event, columns) = (table.heads.iter().position(|head| head == "event"), table.heads.len());
    for (name, mean, unit) in resources(summary) {
        let mut row = vec![String::new(); columns];
        let event = event.unwrap_or(0);
        for (column, text) in [
            (event, name.to_owned()),
            (event + 1, value(mean.mean, unit)),
            (event + 2, spread(mean)),
        ] {
            let fits = column < columns && (column < event + 2 || table.heads[column] == "95 %");
            if fits {
                row[column] = text;
            }
        }
        table.rows.push(row);
    }
    table.markdown(out)?;
    for line in outliers(summary).into_iter().chain(not_counted(refused)) {
        writeln!(out, "\n{line}")?;
    }
    Ok(())
}

fn counts_csv(
    summary: &CountSummary,
    refused: &[NotCounted],
    out: &mut dyn Write,
) -> io::Result<()> {
    write!(out, "key,event,value,unit,half width of 95 %,share of time counted,reason\r\n")?;
    let number = |number: Option<f64>| number.map_or_else(String::new, |number| number.to_string());
    for row in &summary.rows {
        let counter = &summary.counters[row.counter];
        let (mean, half) =
            row.value.as_ref().map_or((None, None), |mean| (Some(mean.mean), mean.half_width));
        let (key, name) = (field(&row.key), field(&name_of(counter)));
        let (unit, running) = (unit_of(counter), row.running);
        write!(out, "{key},{name},{},{unit},{},{running},\r\n", number(mean), number(half))?;
    }
    for (name, mean, unit) in resources(summary) {
        write!(out, ",{name},{},{unit},{},1,\r\n", mean.mean, number(mean.half_width))?;
    }
    for events in refused {
        for name in &events.names {
            write!(out, ",{},,,,0,{}\r\n", field(name), field(&events.reason))?;
        }
    }
    Ok(())
}

fn mean_json(mean: &Mean) -> Value {
    let outliers: Vec<Value> =
        mean.outliers.iter().map(|(run, value)| json!({ "run": run, "value": value })).collect();
    json!({ "mean": mean.mean, "half_width_95": mean.half_width, "outliers": outliers })
}

fn note_json(note: CountNote) -> Value {
    match note {
        CountNote::CpusUsed(value) => json!({ "kind": "cpus used", "value": value }),
        CountNote::PerSecond(value) => json!({ "kind": "per second", "value": value }),
        CountNote::Gigahertz(value) => json!({ "kind": "gigahertz", "value": value }),
        CountNote::PerCycle(value) => json!({ "kind": "per cycle", "value": value }),
        CountNote::ShareOf(of, value) => json!({ "kind": "share", "of": of, "value": value }),
    }
}

fn counts_json(summary: &CountSummary, title: &str, refused: &[NotCounted]) -> Value {
    let rows: Vec<Value> = summary
        .rows
        .iter()
        .map(|row| {
            let counter = &summary.counters[row.counter];
            json!({
                "key": row.key,
                "event": name_of(counter),
                "unit": unit_of(counter),
                "value": row.value.as_ref().map(mean_json),
                "share_of_time_counted": row.running,
                "derived": row.note.map(note_json),
            })
        })
        .collect();
    let resources: serde_json::Map<String, Value> = resources(summary)
        .into_iter()
        .map(|(name, mean, unit)| {
            let mut value = mean_json(mean);
            value["unit"] = unit.into();
            (name.replace(' ', "_"), value)
        })
        .collect();
    json!({
        "target": title,
        "runs": summary.runs,
        "events": rows,
        "resources": resources,
        "not_counted": refused
            .iter()
            .map(|events| json!({ "events": events.names, "reason": events.reason }))
            .collect::<Vec<_>>(),
    })
}

/// Relative change, `+12.3 %`, and its confidence interval.
fn change_text(change: &CountChange) -> [String; 2] {
    let Some([change, low, high]) = change.change else { return [String::new(), String::new()] };
    let percent = |share: f64| format!("{:+.1} %", share * 100.0);
    let interval = match low.is_finite() {
        true => format!("{} to {}", percent(low), percent(high)),
        false => "unknown: one run shows no noise".to_owned(),
    };
    [percent(change), interval]
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::More => "more",
        Verdict::Less => "less",
        Verdict::Noise => "no change beyond noise",
    }
}

fn change_table(changes: &[CountChange]) -> Table {
    let (heads, numeric) = heads(&[
        ("event", false),
        ("before", true),
        ("after", true),
        ("change", true),
        ("95 %", false),
        ("", false),
    ]);
    let rows = changes.iter().map(|change| {
        let [difference, interval] = change_text(change);
        vec![
            change.name.clone(),
            value(change.before.mean, change.unit),
            value(change.after.mean, change.unit),
            difference,
            interval,
            verdict(change.verdict).to_owned(),
        ]
    });
    Table { heads, rows: rows.collect(), numeric }
}

fn count_changes_json(changes: &[CountChange], titles: [&str; 2]) -> Value {
    let row = |change: &CountChange| {
        let bounds = change.change.filter(|[_, low, _]| low.is_finite());
        json!({
            "event": change.name,
            "unit": change.unit,
            "before": mean_json(&change.before),
            "after": mean_json(&change.after),
            "change": change.change.map(|[change, ..]| change),
            "interval_95": bounds.map(|[_, low, high]| [low, high]),
            "verdict": verdict(change.verdict),
        })
    };
    json!({
        "before": titles[0],
        "after": titles[1],
        "events": changes.iter().map(row).collect::<Vec<_>>(),
    })
}

fn count_changes_csv(changes: &[CountChange], out: &mut dyn Write) -> io::Result<()> {
    write!(out, "event,unit,before,after,change,low,high,verdict\r\n")?;
    for change in changes {
        let parts = change.change.map_or_else(
            || ",,".to_owned(),
            |[change, low, high]| match low.is_finite() {
                true => format!("{change},{low},{high}"),
                false => format!("{change},,"),
            },
        );
        let (before, after) = (change.before.mean, change.after.mean);
        let (name, unit) = (field(&change.name), change.unit);
        let verdict = verdict(change.verdict);
        write!(out, "{name},{unit},{before},{after},{parts},{verdict}\r\n")?;
    }
    Ok(())
}

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
