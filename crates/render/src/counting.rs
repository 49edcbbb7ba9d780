//! Output of event counts as text, Markdown, CSV and JSON.

mod intervals;
mod ranges;

use std::io::{self, Write};

use pyrograph_analyze::{CountChange, CountNote, CountRow, CountSummary, Mean, Verdict};
use pyrograph_profile::{Counter, NotCounted};
use serde_json::{Value, json};

pub use self::intervals::IntervalTable;
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
    if value < 0.0 && unit.is_empty() {
        return format!("-{}", self::value(-value, unit));
    }
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
        CountNote::PerSecond(rate) => per_second(rate),
    }
}

/// Formats a rate: `12.3 K/s`, `7.0/s`.
fn per_second(rate: f64) -> String {
    let steps = [(1e9, "G"), (1e6, "M"), (1e3, "K"), (1.0, "")];
    let (step, letter) = steps.into_iter().find(|(step, _)| rate >= *step).unwrap_or((1.0, ""));
    format!("{:.1} {letter}/s", rate / step).replace(" /s", "/s")
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
    ranges::text(summary, out)?;
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
    if !summary.ranges.is_empty() {
        writeln!(out)?;
        ranges::table(summary).markdown(out)?;
    }
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
    if !summary.ranges.is_empty() {
        return ranges::csv(summary, out);
    }
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
    let mut counts = json!({
        "target": title,
        "runs": summary.runs,
        "events": rows,
        "resources": resources,
        "not_counted": refused
            .iter()
            .map(|events| json!({ "events": events.names, "reason": events.reason }))
            .collect::<Vec<_>>(),
    });
    if !summary.ranges.is_empty() {
        counts["ranges"] = ranges::json(summary);
    }
    counts
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
        Verdict::Noise => "within noise",
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
            match change.verdict {
                // 80 columns hold no more.
                Verdict::Noise => "noise",
                other => verdict(other),
            }
            .to_owned(),
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
