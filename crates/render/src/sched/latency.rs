//! Output of run times and run queue latencies, as by `perf sched latency` and bcc's `runqlat`.

use std::io::{self, Write};

use pyrograph_analyze::{LatencyBy, LatencyRow, LatencyTable};
use pyrograph_profile::Durations;
use serde_json::{Value, json};

use super::seconds;
use crate::csv::field;
use crate::table::{Table, heads};
use crate::text::one_line;
use crate::trace::histogram_text;

/// Output format of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyStyle {
    /// One line per row, in 80 columns.
    Text,
    /// One line per row, with the columns and labels of `perf sched latency`.
    Perf,
    /// A histogram of delays per row, in powers of two.
    Histogram,
    /// A Markdown table.
    Markdown,
    /// Comma-separated values.
    Csv,
    /// JSON.
    Json,
}

impl LatencyStyle {
    /// Returns true if the output is for people.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Perf | Self::Histogram | Self::Markdown)
    }
}

/// Writes the table. If the table is for an interval, that is given above it in text, in the first columns in CSV,
/// and as an object of one line in JSON. CSV has headings only for the first interval.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn write_latency(
    style: LatencyStyle,
    table: &LatencyTable,
    out: &mut dyn Write,
) -> io::Result<()> {
    if let (true, Some(interval)) = (style.is_text(), &table.interval) {
        let blank = if interval.start == 0 { "" } else { "\n" };
        let [from, to] = [interval.start, interval.end].map(|time| time as f64 / 1e9);
        writeln!(out, "{blank}From {from:.3} s to {to:.3} s")?;
    }
    match (style, &table.interval) {
        (LatencyStyle::Text, _) => text(table, out),
        (LatencyStyle::Perf, _) => as_perf(table, out),
        (LatencyStyle::Histogram, _) => histograms(table, out),
        (LatencyStyle::Markdown, _) => markdown(table, out),
        (LatencyStyle::Csv, _) => csv(table, out),
        (LatencyStyle::Json, None) => writeln!(out, "{:#}", table_json(table)),
        (LatencyStyle::Json, Some(_)) => writeln!(out, "{}", table_json(table)),
    }
}

/// Label of a row: `name:tid`, `name:(3)` for three threads, or `CPU 3`.
fn label(row: &LatencyRow) -> String {
    match (row.cpu, row.tid) {
        (Some(cpu), _) => format!("CPU {cpu}"),
        (None, Some(tid)) => format!("{}:{tid}", one_line(&row.name)),
        (None, None) => format!("{}:({})", one_line(&row.name), row.threads),
    }
}

const MILLISECOND: f64 = 1e6;

/// Heading of the labels.
fn head(table: &LatencyTable) -> &'static str {
    match table.by {
        LatencyBy::Cpu => "CPU",
        LatencyBy::Name | LatencyBy::Thread | LatencyBy::Total => "Task",
    }
}

/// Labels of all rows, and their width, which is at least `least`.
fn labels(table: &LatencyTable, least: usize) -> (Vec<String>, usize) {
    let labels: Vec<String> = table.rows.iter().map(label).collect();
    let longest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    (labels, longest.max(least))
}

fn markdown(table: &LatencyTable, out: &mut dyn Write) -> io::Result<()> {
    let (heads, numeric) = heads(&[
        (head(table), false),
        ("runtime, ms", true),
        ("switches", true),
        ("mean delay, ms", true),
        ("longest, ms", true),
        ("began at, s", true),
    ]);
    let rows = table.rows.iter().map(|row| (label(row), row));
    let rows = rows.chain([("TOTAL".to_owned(), &table.total)]);
    let rows = rows.map(|(label, row)| [vec![label], numbers(row).to_vec()].concat()).collect();
    if table.interval.is_some() {
        // Without an empty line, a table would be part of the paragraph above it.
        writeln!(out)?;
    }
    Table { heads, rows, numeric }.markdown(out)
}

/// Run time, switches, and the mean and longest delay with its start, as text. Unknown delays are dashes.
fn numbers(row: &LatencyRow) -> [String; 5] {
    let delays = &row.delays;
    let known = |text: String| if delays.count > 0 { text } else { "-".to_owned() };
    [
        format!("{:.3}", row.run_time as f64 / MILLISECOND),
        row.switches.to_string(),
        known(format!("{:.3}", delays.mean() / MILLISECOND)),
        known(format!("{:.3}", delays.longest as f64 / MILLISECOND)),
        known(seconds(row.longest_since)),
    ]
}

fn text(table: &LatencyTable, out: &mut dyn Write) -> io::Result<()> {
    // Names have at most 15 bytes, and IDs 7 digits.
    let (labels, width) = labels(table, 23);
    writeln!(out, "{:width$} {:>11} {:>9} {:>19} {:>13}", "", "", "", "delays, ms", "longest")?;
    writeln!(
        out,
        "{:width$} {:>11} {:>9} {:>9} {:>9} {:>13}",
        head(table),
        "runtime, ms",
        "switches",
        "mean",
        "longest",
        "began at, s"
    )?;
    let total = ("TOTAL".to_owned(), &table.total);
    for (label, row) in labels.into_iter().zip(&table.rows).chain([total]) {
        let [run, switches, mean, longest, since] = numbers(row);
        writeln!(out, "{label:width$} {run:>11} {switches:>9} {mean:>9} {longest:>9} {since:>13}")?;
    }
    Ok(())
}

fn as_perf(table: &LatencyTable, out: &mut dyn Write) -> io::Result<()> {
    let (labels, width) = labels(table, 21);
    let rule = "-".repeat(width + 118);
    writeln!(out, " {rule}")?;
    let head = head(table);
    writeln!(
        out,
        "  {head:width$} |   Runtime ms  | Switches | Avg delay ms    | Max delay ms    | Max delay start           | Max delay end          |"
    )?;
    writeln!(out, " {rule}")?;
    for (label, row) in labels.iter().zip(&table.rows) {
        write!(out, "  {label:width$} |")?;
        line(row, out)?;
    }
    writeln!(out, " {rule}")?;
    write!(out, "  {:width$} |", "TOTAL:")?;
    line(&table.total, out)
}

/// Writes the numbers of a row. Unknown delays are shown as dashes, because 0 would be a valid delay.
fn line(row: &LatencyRow, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{:11.3} ms |{:9} |", row.run_time as f64 / MILLISECOND, row.switches)?;
    let delays = &row.delays;
    if delays.count == 0 {
        let none = "-";
        return writeln!(
            out,
            " avg:{none:>8} ms | max:{none:>8} ms | max start: {none:>12} s | max end: {none:>12} s"
        );
    }
    let (mean, longest) = (delays.mean() / MILLISECOND, delays.longest as f64 / MILLISECOND);
    let start = row.longest_since;
    let end = start.saturating_add(delays.longest);
    writeln!(
        out,
        " avg:{mean:8.3} ms | max:{longest:8.3} ms | max start: {:>12} s | max end: {:>12} s",
        seconds(start),
        seconds(end)
    )
}

fn histograms(table: &LatencyTable, out: &mut dyn Write) -> io::Result<()> {
    let rows = table.rows.iter().filter(|row| row.delays.count > 0);
    for (index, row) in rows.enumerate() {
        let blank = if index == 0 { "" } else { "\n" };
        write!(out, "{blank}{}: ", label(row))?;
        histograms_of(row, out)?;
    }
    if table.by == LatencyBy::Total {
        write!(out, "All: ")?;
        histograms_of(&table.total, out)?;
    }
    Ok(())
}

/// Writes the histogram of delays, and below it those of the times on and off a CPU, if known.
fn histograms_of(row: &LatencyRow, out: &mut dyn Write) -> io::Result<()> {
    let longest = row.delays.longest as f64 / MILLISECOND;
    writeln!(out, "{}, longest {longest:.3} ms", summary(&row.delays, "delays"))?;
    histogram_text(&row.delays, out)?;
    for (times, what) in [
        (&row.on_cpu, "times on a CPU (run time)"),
        (&row.off_cpu, "times off it (waits and delays)"),
    ] {
        if times.count > 0 {
            writeln!(out, "  {}", summary(times, what))?;
            histogram_text(times, out)?;
        }
    }
    Ok(())
}

fn summary(times: &Durations, what: &str) -> String {
    let of = |time: u64| time as f64 / MILLISECOND;
    format!(
        "{} {what}, mean {:.3} ms, median {:.3} ms, 99 % below {:.3} ms",
        crate::grouped(times.count),
        times.mean() / MILLISECOND,
        of(times.percentile(0.5)),
        of(times.percentile(0.99)),
    )
}

fn csv(table: &LatencyTable, out: &mut dyn Write) -> io::Result<()> {
    if table.interval.as_ref().is_none_or(|interval| interval.start == 0) {
        let times = table.interval.as_ref().map_or("", |_| "from_ns,to_ns,");
        write!(
            out,
            "{times}name,tid,pid,threads,cpu,runtime_ns,switches,delays,avg_delay_ns,p50_delay_ns,p99_delay_ns,max_delay_ns,max_delay_start_ns\r\n"
        )?;
    }
    let rows: &[LatencyRow] = match table.by {
        LatencyBy::Total => std::slice::from_ref(&table.total),
        _ => &table.rows,
    };
    for row in rows {
        let number = |number: Option<String>| number.unwrap_or_default();
        let delays = &row.delays;
        let known = |text: String| if delays.count > 0 { text } else { String::new() };
        if let Some(interval) = &table.interval {
            write!(out, "{},{},", interval.start, interval.end)?;
        }
        write!(
            out,
            "{},{},{},{},{},{},{},{},{},{},{},{},{}\r\n",
            field(&one_line(&row.name)),
            number(row.tid.map(|tid| tid.to_string())),
            number(row.tid.filter(|_| row.pid >= 0).map(|_| row.pid.to_string())),
            row.threads,
            number(row.cpu.map(|cpu| cpu.to_string())),
            row.run_time,
            row.switches,
            delays.count,
            known(format!("{:.0}", delays.mean())),
            known(delays.percentile(0.5).to_string()),
            known(delays.percentile(0.99).to_string()),
            known(delays.longest.to_string()),
            known(row.longest_since.to_string()),
        )?;
    }
    Ok(())
}

fn table_json(table: &LatencyTable) -> Value {
    let range = |(from, to, count)| json!({"from_ns": from, "to_ns": to, "count": count});
    let spans = |times: &Durations| {
        (times.count > 0).then(|| {
            json!({
                "count": times.count,
                "total_ns": times.total,
                "p50_ns": times.percentile(0.5),
                "p99_ns": times.percentile(0.99),
                "histogram": times.ranges().map(range).collect::<Vec<Value>>(),
            })
        })
    };
    let row = |row: &LatencyRow| {
        let delays = &row.delays;
        let known = |value: u64| (delays.count > 0).then_some(value);
        let ranges: Vec<Value> = delays.ranges().map(range).collect();
        json!({
            "name": row.name,
            "tid": row.tid,
            "pid": row.tid.filter(|_| row.pid >= 0).map(|_| row.pid),
            "threads": row.threads,
            "cpu": row.cpu,
            "runtime_ns": row.run_time,
            "switches": row.switches,
            "delays": delays.count,
            "avg_delay_ns": known(delays.mean().round() as u64),
            "p50_delay_ns": known(delays.percentile(0.5)),
            "p99_delay_ns": known(delays.percentile(0.99)),
            "max_delay_ns": known(delays.longest),
            "max_delay_start_ns": known(row.longest_since),
            "histogram": ranges,
            "on_cpu": spans(&row.on_cpu),
            "off_cpu": spans(&row.off_cpu),
        })
    };
    let by = match table.by {
        LatencyBy::Name => "name",
        LatencyBy::Thread => "thread",
        LatencyBy::Cpu => "cpu",
        LatencyBy::Total => "total",
    };
    let rows: Vec<Value> = table.rows.iter().map(row).collect();
    let mut object = json!({"by": by, "rows": rows, "total": row(&table.total)});
    if let Some(interval) = &table.interval {
        object["from_ns"] = interval.start.into();
        object["to_ns"] = interval.end.into();
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_fits_80_columns() {
        let mut row = LatencyRow {
            name: "a-name-of-bytes".to_owned(),
            tid: Some(4_194_304),
            pid: 4_194_304,
            threads: 1,
            // An hour, switched to as often as can be, in a machine that has run for ten days.
            run_time: 3_600_000_000_000,
            switches: 100_000_000,
            longest_since: 864_000_000_000_000,
            ..LatencyRow::default()
        };
        row.delays.add(12_345_678_901);
        let none = LatencyRow { name: "a".to_owned(), threads: 2, ..LatencyRow::default() };
        let table = LatencyTable {
            by: LatencyBy::Name,
            rows: vec![row.clone(), none],
            total: row,
            interval: None,
        };
        let mut text = Vec::new();
        write_latency(LatencyStyle::Text, &table, &mut text).expect("memory");
        let text = String::from_utf8(text).expect("text");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        let columns = |at: usize| text.lines().nth(at).unwrap_or("").split_whitespace().collect();
        let longest: Vec<&str> = columns(2);
        let expect = ["3600000.000", "100000000", "12345.679", "12345.679", "864000.000000"];
        assert_eq!(longest[1..], expect);
        let none: Vec<&str> = columns(3);
        assert_eq!(none, ["a:(2)", "0.000", "0", "-", "-", "-"]);
    }
}
