//! Tables of functions during a recording: one table per interval, as text or JSON.

use std::io::{self, Write};
use std::time::Duration;

use pyrograph_analyze::{PartCounts, RootedRow};
use pyrograph_profile::ValueType;
use serde_json::json;

use crate::apart::file_labels;
use crate::report::plain;
use crate::units::{counted, exact_percent, grouped, percent, value_text};

/// Functions of a part of a recording.
#[derive(Clone, Debug)]
pub struct TopTable {
    /// Heading: the target of the recording.
    pub subject: String,
    /// Time of day, as text; empty for none.
    pub time: String,
    /// Counts of the part of the recording.
    pub counts: PartCounts,
    /// Singular of the name of the samples: `sample`.
    pub noun: String,
    /// Value type of the functions' values.
    pub value_type: ValueType,
    /// Base of percentages.
    pub whole: u64,
    /// Part of it in stacks whose outer frames are missing.
    pub cut: u64,
    /// Kind of the root labels: `Process`; empty if there are none.
    pub roots: String,
    /// Functions, with names as they are shown.
    pub rows: Vec<RootedRow>,
    /// Number of functions left out.
    pub more: usize,
}

/// Writes a table as text: a line about the part of the recording, the headings, a line per function, and an empty
/// line. Control characters in names are replaced.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn top_text(table: &TopTable, out: &mut dyn Write) -> io::Result<()> {
    let TopTable { counts, whole, .. } = table;
    let mut head = vec![plain(&table.subject), seconds(counts.span)];
    head.push(value_text(&table.value_type, *whole));
    head.push(counted(counts.samples, &table.noun));
    head.push(format!("{} lost", grouped(counts.lost)));
    if table.cut > 0 {
        head.push(format!("{} not whole", percent(table.cut, *whole)));
    }
    let time = if table.time.is_empty() { "" } else { "  " };
    writeln!(out, "{}{time}{}", table.time, head.join(", "))?;
    let width = |text: &dyn Fn(&RootedRow) -> String, heading: &str| match heading {
        "" => 0,
        _ => {
            let rows = table.rows.iter().map(|row| text(row).chars().count());
            rows.max().unwrap_or(0).max(heading.chars().count()) + 2
        }
    };
    let root = |of: &RootedRow| plain(&of.root);
    let places: Vec<(&str, &str)> =
        table.rows.iter().map(|of| (&*of.row.name, &*of.row.module)).collect();
    let files: Vec<String> = file_labels(&places).into_iter().map(plain).collect();
    let modules = files.iter().map(|file| file.chars().count()).max().unwrap_or(0).max(6) + 2;
    let roots = width(&root, &table.roots);
    let heading = format!("{:roots$}{:modules$}Function", table.roots, "Module");
    writeln!(out, "{:>8} {:>8}  {heading}", "Self", "Total")?;
    for (of, module) in table.rows.iter().zip(&files) {
        let [own, total] =
            [of.row.self_value, of.row.total].map(|value| exact_percent(value, *whole));
        let (root, name) = (root(of), plain(&of.row.name));
        writeln!(out, "{own:>8} {total:>8}  {root:roots$}{module:modules$}{name}")?;
    }
    if table.more > 0 {
        writeln!(out, "{:>17}  … {}", "", counted(table.more as u64, "function"))?;
    }
    writeln!(out)
}

/// Writes a table as a JSON object on one line.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn top_json(table: &TopTable, out: &mut dyn Write) -> io::Result<()> {
    let function = |of: &RootedRow| {
        let mut object = json!({
            "name": of.row.name,
            "module": of.row.module,
            "kind": of.row.kind.name(),
            "self": of.row.self_value,
            "total": of.row.total,
        });
        if !table.roots.is_empty() {
            object[table.roots.to_lowercase().replace(' ', "_")] = json!(of.root);
        }
        object
    };
    let object = json!({
        "version": 1,
        "subject": table.subject,
        "seconds": table.counts.span.as_secs_f64(),
        "samples": table.counts.samples,
        "lost": table.counts.lost,
        "value_type": { "name": table.value_type.name, "unit": table.value_type.unit },
        "whole": table.whole,
        "not_whole": table.cut,
        "functions": table.rows.iter().map(function).collect::<Vec<_>>(),
        "more_functions": table.more,
    });
    writeln!(out, "{object}")
}

/// Formats a duration: `2.0 s`.
fn seconds(span: Duration) -> String {
    format!("{:.1} s", span.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use pyrograph_analyze::TopRow;
    use pyrograph_profile::FrameKind;

    use super::*;

    fn table() -> TopTable {
        let row = |root: &str, name: &str, module: &str, self_value, total| RootedRow {
            root: root.to_owned(),
            row: TopRow {
                name: name.to_owned(),
                module: module.to_owned(),
                kind: FrameKind::User,
                self_value,
                total,
                lines: Vec::new(),
                more_lines: 0,
            },
        };
        TopTable {
            subject: "cpu-clock: app".to_owned(),
            time: "12:00:01".to_owned(),
            counts: PartCounts { span: Duration::from_secs(2), samples: 3, lost: 1 },
            noun: "sample".to_owned(),
            value_type: ValueType::new("cpu-clock", "ns"),
            whole: 3_000_000_000,
            cut: 30_000_000,
            roots: "Process".to_owned(),
            rows: vec![
                row("sh-12", "work\x1b[0m", "/usr/bin/app", 2_000_000_000, 2_500_000_000),
                row("x-1", "main", "", 0, 3_000_000_000),
            ],
            more: 7,
        }
    }

    #[test]
    fn text_has_a_line_a_function() {
        let mut out = Vec::new();
        top_text(&table(), &mut out).expect("to memory");
        let expect = "\
12:00:01  cpu-clock: app, 2.0 s, 3.00 s, 3 samples, 1 lost, 1.0 % not whole
    Self    Total  Process  Module  Function
  66.67%   83.33%  sh-12    app     work\u{fffd}[0m
   0.00%  100.00%  x-1              main
                   … 7 functions

";
        assert_eq!(String::from_utf8(out).expect("text"), expect);
    }

    #[test]
    fn json_is_one_line() {
        let mut out = Vec::new();
        top_json(&table(), &mut out).expect("to memory");
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text.lines().count(), 1);
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["functions"][0]["process"], "sh-12");
        assert_eq!(value["functions"][1]["total"], 3_000_000_000u64);
        assert_eq!((&value["samples"], &value["lost"]), (&json!(3), &json!(1)));
    }
}
