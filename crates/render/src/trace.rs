//! Output of system calls: one line per call, as by `strace -f -tt -T`, and tables.

use std::io::{self, Write};
use std::time::Duration;

use pyrograph_analyze::{CallGroup, CallRow, CallTable};
use pyrograph_profile::{
    Durations, FrameKind, Marker, StackLine, ThreadAction, ThreadEvent, TracedCall,
};
use serde_json::{Value, json};

use crate::csv::field;
use crate::table::{Table, heads};
use crate::units::{grouped, percent};

/// Output format of tables of system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStyle {
    /// Aligned columns for people.
    Text {
        /// Lists the number of failed calls by error, below each call.
        errors: bool,
        /// Prints a histogram of durations below each call.
        histogram: bool,
        /// Width in columns: less important columns are left out if the table is wider. `None` for no limit.
        width: Option<usize>,
    },
    /// A Markdown table.
    Markdown,
    /// Comma-separated values.
    Csv,
    /// JSON.
    Json,
}

/// Writes an event of a thread as a line, and its stack below. Times are times of day, `offset` seconds east of UTC.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn write_thread_event(event: &ThreadEvent, offset: i32, out: &mut dyn Write) -> io::Result<()> {
    match event.thread_name.is_empty() {
        true => write!(out, "{} ", event.thread)?,
        false => write!(out, "{}<{}> ", event.thread, event.thread_name)?,
    }
    if event.time > 0 {
        let seconds = (event.time / 1_000_000_000).saturating_add_signed(offset.into()) % 86400;
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        let micros = event.time / 1000 % 1_000_000;
        write!(out, "{hours:02}:{minutes:02}:{:02}.{micros:06} ", seconds % 60)?;
    }
    write_action(&event.action, out)?;
    event.stack.iter().try_for_each(|line| write_frame(line, out))
}

/// Writes a frame of a stack: `    > main+0x1d (/usr/bin/ls) ls.c:1702`.
fn write_frame(line: &StackLine, out: &mut dyn Write) -> io::Result<()> {
    let StackLine { function, offset, module, source, kind, guessed } = line;
    write!(out, "    > ")?;
    let is_kernel = *kind == FrameKind::Kernel;
    match (function.is_empty(), offset) {
        (true, Some(offset)) => {
            let module = if module.is_empty() { "[unknown]" } else { module };
            write!(out, "{module}+{offset:#x}")?;
        }
        (true, None) => write!(out, "[unknown]")?,
        (false, Some(offset)) => write!(out, "{function}+{offset:#x}")?,
        (false, None) => write!(out, "{function}")?,
    }
    match kind {
        FrameKind::Inlined => write!(out, " (inlined)")?,
        FrameKind::Marker(Marker::Truncated) => write!(out, " the copy of the stack ends here")?,
        FrameKind::Marker(_) => {}
        _ if is_kernel => write!(out, " (kernel)")?,
        _ if module.is_empty() || function.is_empty() => {}
        _ => write!(out, " ({module})")?,
    }
    if !source.is_empty() {
        write!(out, " {source}")?;
    }
    if *guessed {
        write!(out, " (guessed)")?;
    }
    writeln!(out)
}

fn write_action(action: &ThreadAction, out: &mut dyn Write) -> io::Result<()> {
    match action {
        ThreadAction::Call(call) => write_call(call, out),
        ThreadAction::Signal { name, details } => {
            let comma = if details.is_empty() { "" } else { ", " };
            writeln!(out, "--- {name} {{si_signo={name}{comma}{details}}} ---")
        }
        ThreadAction::Event { name, text } => writeln!(out, "{name}({text})"),
        ThreadAction::Fault { major, place, address, target } => {
            let kind = if *major { "major" } else { "minor" };
            write!(out, "page fault ({kind}) at {place} of {address:#x}")?;
            match target.is_empty() {
                true => writeln!(out),
                false => writeln!(out, " in {target}"),
            }
        }
        ThreadAction::Exited { code } => writeln!(out, "+++ exited with {code} +++"),
        ThreadAction::Killed { signal, dumped } => {
            let dumped = if *dumped { " (core dumped)" } else { "" };
            writeln!(out, "+++ killed by {signal}{dumped} +++")
        }
    }
}

/// Column of the result of a call.
const RESULT_COLUMN: usize = 39;

fn write_call(call: &TracedCall, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{}(", call.name)?;
    let mut columns = call.name.len() + 2;
    for (index, (_, value)) in call.arguments.iter().enumerate() {
        let separator = if index > 0 { ", " } else { "" };
        write!(out, "{separator}{value}")?;
        columns += separator.len() + value.len();
    }
    if call.unfinished {
        write!(out, " <unfinished ...>")?;
    } else {
        let blanks = RESULT_COLUMN.saturating_sub(columns);
        write!(out, "){:blanks$} = {}", "", call.result)?;
    }
    match call.duration {
        Some(duration) => {
            writeln!(out, " <{}.{:09}>", duration / 1_000_000_000, duration % 1_000_000_000)
        }
        None => writeln!(out),
    }
}

/// Writes a table of system calls. Of several tables as CSV, only the first, whose interval begins with the trace,
/// has headings.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn write_call_table(
    style: CallStyle,
    table: &CallTable,
    out: &mut dyn Write,
) -> io::Result<()> {
    match style {
        CallStyle::Text { errors, histogram, width } => {
            interval_heading(table, out)?;
            for (index, group) in table.groups.iter().enumerate() {
                if index > 0 {
                    writeln!(out)?;
                }
                group_text(group, table, (errors, histogram), width, out)?;
            }
            if table.end.is_some() && !table.groups.is_empty() { writeln!(out) } else { Ok(()) }
        }
        CallStyle::Markdown => {
            interval_heading(table, out)?;
            if !table.groups.is_empty() || table.end.is_none() {
                table_of(&table.groups, true).markdown(out)?;
            }
            if table.end.is_some() { writeln!(out) } else { Ok(()) }
        }
        CallStyle::Csv => table_csv(table, out),
        // One line per interval.
        CallStyle::Json if table.end.is_some() => writeln!(out, "{}", table_json(table)),
        CallStyle::Json => writeln!(out, "{:#}", table_json(table)),
    }
}

/// Writes the interval of a table, if there are several tables.
fn interval_heading(table: &CallTable, out: &mut dyn Write) -> io::Result<()> {
    let (Some(elapsed), Some(end)) = (table.elapsed, table.end) else { return Ok(()) };
    let begin = end.saturating_sub(elapsed);
    let nothing = if table.groups.is_empty() { ": no calls" } else { "" };
    writeln!(out, "{:.3} s to {:.3} s{nothing}\n", begin.as_secs_f64(), end.as_secs_f64())
}

/// Formats nanoseconds as milliseconds with three decimals.
fn milliseconds(time: u64) -> String {
    format!("{:.3}", time as f64 / 1e6)
}

/// Formats nanoseconds as microseconds with one decimal.
fn microseconds(time: f64) -> String {
    format!("{:.1}", time / 1e3)
}

/// Formats a share of the elapsed time.
fn of_time(share: f64) -> String {
    percent((share * 1e9) as u64, 1_000_000_000)
}

fn cells(row: &CallRow) -> Vec<String> {
    let times = &row.times;
    let time = |time: f64| if times.count > 0 { microseconds(time) } else { String::new() };
    vec![
        row.name.clone(),
        grouped(row.calls),
        if row.failed() > 0 { grouped(row.failed()) } else { String::new() },
        if times.count > 0 { milliseconds(times.total) } else { String::new() },
        time(times.least as f64),
        time(times.mean()),
        time(times.percentile(0.5) as f64),
        time(times.percentile(0.99) as f64),
        time(times.longest as f64),
        row.share.map(of_time).unwrap_or_default(),
    ]
}

const HEADS: [(&str, bool); 10] = [
    ("call", false),
    ("calls", true),
    ("errors", true),
    ("total ms", true),
    ("min \u{b5}s", true),
    ("mean \u{b5}s", true),
    ("p50 \u{b5}s", true),
    ("p99 \u{b5}s", true),
    ("max \u{b5}s", true),
    ("of time", true),
];

/// Columns that a narrow terminal has no room for, the least important first.
const LESS_IMPORTANT: [&str; 3] = ["min \u{b5}s", "p50 \u{b5}s", "of time"];

/// Builds a table of groups. With `titled`, it has a column with the title of the group, unless all titles are empty.
fn table_of(groups: &[CallGroup], titled: bool) -> Table {
    let (mut heads, mut numeric) = heads(&HEADS);
    if titled {
        heads.insert(0, "of".to_owned());
        numeric.insert(0, false);
    }
    let rows = groups.iter().flat_map(|group| {
        group.rows.iter().map(move |row| {
            let mut cells = cells(row);
            if titled {
                cells.insert(0, group.title.clone());
            }
            cells
        })
    });
    let rows = rows.collect();
    Table { heads, rows, numeric }.without_empty()
}

fn group_text(
    group: &CallGroup,
    table: &CallTable,
    (errors, histogram): (bool, bool),
    width: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let all = &group.all;
    let title = if group.title.is_empty() { "All".to_owned() } else { group.title.clone() };
    write!(out, "{title}: {} calls", grouped(all.calls))?;
    if all.failed() > 0 {
        write!(out, ", {} failed", grouped(all.failed()))?;
    }
    if all.times.count > 0 {
        write!(out, ", {} ms", milliseconds(all.times.total))?;
    }
    if let (Some(elapsed), Some(share)) = (table.elapsed, all.share) {
        write!(out, " ({} of {:.3} s)", of_time(share), elapsed.as_secs_f64())?;
    }
    writeln!(out, "\n")?;
    let mut text = Vec::new();
    let mut cells = table_of(std::slice::from_ref(group), false);
    for less_important in LESS_IMPORTANT {
        if width.is_some_and(|width| cells.width() > width) {
            cells.leave_out(less_important);
        }
    }
    cells.text(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines();
    if let Some(heads) = lines.next() {
        writeln!(out, "{heads}")?;
    }
    for (line, row) in lines.zip(&group.rows) {
        writeln!(out, "{line}")?;
        if errors {
            for (name, failed) in &row.errors {
                writeln!(out, "    {name}: {}", grouped(*failed))?;
            }
        }
        if histogram {
            histogram_text(&row.times, out)?;
        }
    }
    Ok(())
}

/// Writes a histogram: a line with a bar for each power of two.
pub(crate) fn histogram_text(times: &Durations, out: &mut dyn Write) -> io::Result<()> {
    const WIDTH: u64 = 40;
    let mut powers: Vec<(u64, u64)> = Vec::new();
    for (begin, _, count) in times.ranges() {
        let power = begin.checked_ilog2().map_or(0, |bits| 1 << bits);
        match powers.last_mut() {
            Some((last, sum)) if *last == power => *sum += count,
            _ => powers.push((power, count)),
        }
    }
    let most = powers.iter().map(|(_, count)| *count).max().unwrap_or(1);
    for (begin, count) in powers {
        let end = if begin == 0 { Durations::LEAST } else { begin * 2 };
        let bar = (count * WIDTH).div_ceil(most.max(1)) as usize;
        let range = format!("{} to {}", short(begin), short(end));
        writeln!(out, "    {range:>20}  {:>11}  {}", grouped(count), "#".repeat(bar))?;
    }
    Ok(())
}

/// Formats a duration with three significant digits: `1.02 µs`, `16 ns`.
fn short(time: u64) -> String {
    let steps = [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "\u{b5}s")];
    let step = steps.into_iter().find(|(step, _)| time >= *step);
    match step {
        Some((step, unit)) => {
            let value = time as f64 / step as f64;
            let places = if value < 10.0 {
                2
            } else if value < 100.0 {
                1
            } else {
                0
            };
            format!("{value:.places$} {unit}")
        }
        None => format!("{time} ns"),
    }
}

fn table_csv(table: &CallTable, out: &mut dyn Write) -> io::Result<()> {
    let end = table.end.map(|end| format!("{:.3},", end.as_secs_f64())).unwrap_or_default();
    if table.end.is_none() || table.end == table.elapsed {
        let end = if table.end.is_some() { "end_s," } else { "" };
        writeln!(
            out,
            "{end}of,call,calls,errors,total_ns,min_ns,mean_ns,p50_ns,p99_ns,max_ns,share"
        )?;
    }
    for group in &table.groups {
        for row in &group.rows {
            let times = &row.times;
            let share = row.share.map(|share| format!("{share:.6}")).unwrap_or_default();
            writeln!(
                out,
                "{end}{},{},{},{},{},{},{:.0},{},{},{},{share}",
                field(&group.title),
                field(&row.name),
                row.calls,
                row.failed(),
                times.total,
                times.least,
                times.mean(),
                times.percentile(0.5),
                times.percentile(0.99),
                times.longest,
            )?;
        }
    }
    Ok(())
}

fn table_json(table: &CallTable) -> Value {
    let row = |row: &CallRow| {
        let times = &row.times;
        let ranges: Vec<Value> = times
            .ranges()
            .map(|(begin, end, count)| json!({"from_ns": begin, "to_ns": end, "calls": count}))
            .collect();
        json!({
            "call": row.name,
            "calls": row.calls,
            "errors": row.errors,
            "total_ns": times.total,
            "min_ns": times.least,
            "mean_ns": times.mean(),
            "p50_ns": times.percentile(0.5),
            "p99_ns": times.percentile(0.99),
            "max_ns": times.longest,
            "share_of_time": row.share,
            "histogram": ranges,
        })
    };
    let group = |group: &CallGroup| {
        let rows: Vec<Value> = group.rows.iter().map(row).collect();
        json!({"of": group.title, "calls": rows})
    };
    let groups: Vec<Value> = table.groups.iter().map(group).collect();
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    let mut value = json!({"seconds": seconds(table.elapsed), "groups": groups});
    if table.end.is_some() {
        value["end_seconds"] = json!(seconds(table.end));
    }
    value
}
