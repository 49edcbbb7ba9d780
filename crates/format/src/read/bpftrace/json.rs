//! Parser of the output of `bpftrace -f json`: one object per line.
//!
//! ```text
//! {"type": "attached_probes", "data": {"probes": 2}}
//! {"type": "map", "data": {"@": {"\n    read_zero+55\n,\n    main+64\n,my app,7": 12, ",\n    spin+1\n,my app,7": 1}}}
//! {"type": "stats", "data": {"@bytes": {"\n    main+64\n": {"count": 2, "average": 3, "total": 6}}}}
//! {"type": "hist", "data": {"@sizes": [{"min": 1, "max": 1, "count": 35}]}}
//! {"type": "lost_events", "data": {"events": 3}}
//! ```
//!
//! A key is one string, its parts separated by commas; in a stack there is a line break before each frame and after
//! the last one.

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::{Parser, Part, Value};
use crate::warnings::WarningKind;

/// A line of the output.
#[derive(Deserialize)]
struct Record {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    data: Json,
}

/// True if a line is such an object, even if it is cut off.
pub(super) fn is_record(line: &str) -> bool {
    let kind = line.strip_prefix('{').map(str::trim_start);
    let kind = kind.and_then(|text| text.strip_prefix("\"type\":")).map(str::trim_start);
    let kinds = ["attached_probes", "map", "stats", "hist", "lhist", "lost_events"];
    // Other types may be output of the bpftrace program itself.
    kind.and_then(|text| text.strip_prefix('"')?.split('"').next())
        .is_some_and(|kind| kinds.contains(&kind))
}

impl Parser {
    /// Parses a line.
    pub(super) fn json_record(&mut self, line: &str) {
        let Ok(Record { kind, data }) = serde_json::from_str(line) else {
            return self.lines.warn(WarningKind::UnreadableLine);
        };
        if kind == "lost_events" {
            let lost = data.get("events").and_then(Json::as_u64).unwrap_or(0);
            self.lines.warnings.add(WarningKind::LostSamples, lost, []);
            return;
        }
        let Json::Object(maps) = data else { return };
        for (name, entries) in maps {
            let Some(name) = name.strip_prefix('@') else { continue };
            let map = self.map(name);
            if let (Json::Object(entries), "map" | "stats") = (entries, kind.as_str()) {
                self.json_entries(map, entries, kind == "map");
            }
        }
    }

    fn json_entries(&mut self, map: usize, entries: Map<String, Json>, is_sum: bool) {
        for (key, value) in entries {
            // An average is not a sum; `stats` has three numbers, of which `total` is one.
            let total = if is_sum { Some(&value) } else { value.get("total") };
            let value = match total {
                Some(Json::Number(number)) => {
                    number.as_u64().map_or(Value::OutOfRange, Value::Number)
                }
                _ => Value::Other,
            };
            self.finish(map, parts(&key), value);
        }
    }
}

/// Splits a key into its parts.
fn parts(key: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = key;
    loop {
        let end = match rest.starts_with('\n') {
            true => rest.find("\n,").map_or(rest.len(), |at| at + 1),
            false => rest.find(',').unwrap_or(rest.len()),
        };
        let (part, behind) = rest.split_at(end);
        parts.push(match part.starts_with('\n') {
            true => {
                let frames = part.lines().map(str::trim).filter(|frame| !frame.is_empty());
                Part::Stack(frames.map(str::to_owned).collect())
            }
            false => Part::Text(part.to_owned()),
        });
        match behind.strip_prefix(',') {
            Some(behind) => rest = behind,
            None => return parts,
        }
    }
}
