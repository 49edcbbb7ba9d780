//! JSON output of reports. `docs/report.md` describes the format; its names are not changed without a new version.

use std::io::{self, Write};

use pyrograph_analyze::{CallNode, CallTree, Direction, LeftOut, Report, TopLine, TopRow};
use pyrograph_profile::FrameKind;
use serde_json::{Value, json};

use super::min_percent;

/// Version of the format; incremented when a name is removed or changes its meaning.
const VERSION: u32 = 1;

/// Writes a report as one JSON object.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn report_json(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let number = |value: u64| number(value, report.value_type.decimals);
    let line = |line: &TopLine| {
        json!({
            "file": line.file,
            "line": line.line,
            "text": line.text,
            "self": number(line.self_value),
            "total": number(line.total),
        })
    };
    let function = |row: &TopRow| {
        json!({
            "name": row.name,
            "module": row.module,
            "kind": kind(row.kind),
            "self": number(row.self_value),
            "total": number(row.total),
            "lines": row.lines.iter().map(line).collect::<Vec<_>>(),
            "more_lines": row.more_lines,
        })
    };
    let left_out = |of: LeftOut| json!({ "count": of.count, "value": number(of.value) });
    let node = |node: &CallNode, direction: Direction| {
        let mut object = json!({
            "depth": node.depth,
            "name": node.name,
            "module": node.module,
            "kind": kind(node.kind),
            "total": number(node.total),
            "left_out": left_out(node.left_out),
        });
        if direction == Direction::Callees {
            object["self"] = number(node.self_value);
        }
        object
    };
    let tree = |tree: &CallTree| {
        let nodes = tree.nodes.iter().map(|of| node(of, tree.direction));
        json!({
            "direction": match tree.direction {
                Direction::Callees => "callees",
                Direction::Callers => "callers",
            },
            "min_percent": min_percent(report),
            "nodes": nodes.collect::<Vec<_>>(),
            "left_out": left_out(tree.left_out),
        })
    };
    let object = json!({
        "version": VERSION,
        "value_type": { "name": report.value_type.name, "unit": report.value_type.unit },
        "total": number(report.total),
        "whole": number(report.whole),
        "functions": report.functions.iter().map(function).collect::<Vec<_>>(),
        "more_functions": report.more_functions,
        "tree": report.tree.as_ref().map(tree),
    });
    writeln!(out, "{object:#}")
}

/// Converts a value to its unit: an integer if the value type has no decimals.
fn number(value: u64, decimals: u8) -> Value {
    match decimals {
        0 => json!(value),
        decimals => json!(value as f64 / 10f64.powi(decimals.into())),
    }
}

fn kind(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Marker(_) => "marker",
        kind => kind.name(),
    }
}
