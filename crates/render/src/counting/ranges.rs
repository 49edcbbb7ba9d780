//! Ranges of values: how many events had which.

use std::io::{self, Write};

use pyrograph_analyze::CountSummary;
use pyrograph_profile::RangeCount;
use serde_json::{Value, json};

use super::{name_of, value};
use crate::csv::field;
use crate::table::{Table, heads};
use crate::units::grouped;

/// Number of characters of the longest bar.
const WIDTH: u64 = 40;

/// Writes the ranges of each key and event with bars. Ranges without events between others are shown, too.
pub(super) fn text(summary: &CountSummary, out: &mut dyn Write) -> io::Result<()> {
    for of_one in summary.ranges.chunk_by(|a, b| a.key == b.key && a.counter == b.counter) {
        let most = of_one.iter().map(|range| range.count).max().unwrap_or(1).max(1);
        if let Some(first) = of_one.first() {
            writeln!(out, "{}", title(summary, first))?;
        }
        for range in of_one {
            let bar = (range.count.saturating_mul(WIDTH)).div_ceil(most) as usize;
            let (span, count) = (span(range), grouped(range.count));
            writeln!(out, "  {span:>25}  {count:>11}  {}", "#".repeat(bar))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn event_of(summary: &CountSummary, range: &RangeCount) -> String {
    summary.counters.get(range.counter).map(name_of).unwrap_or_default()
}

fn title(summary: &CountSummary, of: &RangeCount) -> String {
    let event = event_of(summary, of);
    if of.key.is_empty() { event } else { format!("{}  {event}", of.key) }
}

/// A range: `16 to 31`, `0`, `below -10`, `100 and more`, `524.288 µs to 1.049 ms`.
fn span(range: &RangeCount) -> String {
    let text = |bound: i64| match range.is_time {
        true => value(bound as f64, "ns"),
        false => bound.to_string(),
    };
    match (range.first, range.last) {
        (first, last) if first == last => text(first),
        (i64::MIN, last) => format!("below {}", text(last.saturating_add(1))),
        (first, i64::MAX) => format!("{} and more", text(first)),
        // Times are no whole numbers: a range ends where the next one begins.
        (first, last) if range.is_time => format!("{} to {}", text(first), text(last + 1)),
        (first, last) => format!("{} to {}", text(first), text(last)),
    }
}

/// All ranges as a table.
pub(super) fn table(summary: &CountSummary) -> Table {
    let (heads, numeric) =
        heads(&[("", false), ("event", false), ("values", true), ("events", true)]);
    let row = |range: &RangeCount| {
        let event = event_of(summary, range);
        vec![range.key.clone(), event, span(range), grouped(range.count)]
    };
    let rows = summary.ranges.iter().map(row).collect();
    Table { heads, rows, numeric }.without_empty()
}

/// Writes all ranges. The first and the last one may have no bound.
pub(super) fn csv(summary: &CountSummary, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "key,event,first,last,events,unit\r\n")?;
    summary.ranges.iter().try_for_each(|range| csv_line(summary, range, "", out))
}

/// Writes a line of a range, with something before it.
pub(super) fn csv_line(
    summary: &CountSummary,
    range: &RangeCount,
    before: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let event = event_of(summary, range);
    let bound =
        |value: i64, none: i64| if value == none { String::new() } else { value.to_string() };
    let (first, last) = (bound(range.first, i64::MIN), bound(range.last, i64::MAX));
    let (key, event) = (field(&range.key), field(&event));
    let unit = if range.is_time { "ns" } else { "" };
    write!(out, "{before}{key},{event},{first},{last},{},{unit}\r\n", range.count)
}

/// All ranges, `null` for a bound that is not there.
pub(super) fn json(summary: &CountSummary) -> Value {
    let bound = |value: i64, none: i64| (value != none).then_some(value);
    let range = |of: &RangeCount| {
        json!({
            "key": of.key,
            "event": event_of(summary, of),
            "unit": if of.is_time { "ns" } else { "" },
            "first": bound(of.first, i64::MIN),
            "last": bound(of.last, i64::MAX),
            "events": of.count,
        })
    };
    summary.ranges.iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_named_by_their_bounds() {
        let range = |first, last| {
            let (key, is_time) = (String::new(), false);
            span(&RangeCount { key, counter: 0, first, last, is_time, count: 1 })
        };
        let time = |first, last| {
            let (key, is_time) = (String::new(), true);
            span(&RangeCount { key, counter: 0, first, last, is_time, count: 1 })
        };
        assert_eq!(time(524_288, 1_048_575), "524.288 µs to 1.049 ms");
        assert_eq!(time(0, 0), "0 ns");
        assert_eq!(range(0, 0), "0");
        assert_eq!(range(16, 31), "16 to 31");
        assert_eq!(range(i64::MIN, -11), "below -10");
        assert_eq!(range(100, i64::MAX), "100 and more");
    }
}
