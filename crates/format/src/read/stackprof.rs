//! Reader of results of StackProf, the sampling profiler of Ruby: `StackProf.run(out: FILE)`, also as JSON.
//!
//! ```text
//! {"version":1.2,"mode":"cpu","interval":1000,"samples":44,"gc_samples":0,"missed_samples":0,
//!  "frames":{"1405":{"name":"Shop#price","file":"/src/work.rb","line":4,"total_samples":42,"samples":17,
//!                    "edges":{"1406":42}}},
//!  "raw":[3,1407,1405,1406,1]}
//! ```
//!
//! Source: `ext/stackprof/stackprof.c` and the README of StackProf. `out:` writes the same data in Ruby's
//! [marshal](marshal) format. `raw` contains stacks: number of frames, frames root first, and sample count.
//!
//! - `interval` is in microseconds, or in allocations in the mode `object`.
//! - Without `raw: true` there are **no stacks**, but self samples of each function, and with `edges` the number of
//!   samples for each callee: stacks are [estimated](super::call_graph) from them.
//! - Lines are those at which methods begin.

mod marshal;

use std::collections::BTreeMap;

use hashbrown::HashMap;
use pyrograph_profile::{Frame, FrameId, FrameKind, Marker, Profile, Sample, ValueType};
use serde::Deserialize;

use super::call_graph::{self, Node};
use super::json;
use super::marshalled::Value;
use super::rows::Rows;
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};

/// Reader of StackProf results.
pub struct StackProf;

impl Reader for StackProf {
    fn name(&self) -> &'static str {
        "StackProf"
    }

    fn written_by(&self) -> &'static str {
        "StackProf.run(out: FILE), as JSON, too"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let has = |text: &[u8]| memchr::memmem::find(&head[..head.len().min(300)], text).is_some();
        let is_marshal = head.starts_with(b"\x04\x08{")
            && has(b":\x0cversion")
            && has(b":\rinterval")
            && has(b"samples");
        is_marshal
            || json::begins_object(head)
                && ["mode", "interval", "gc_samples", "missed_samples", "frames"]
                    .iter()
                    .all(|key| json::has_key(head, key))
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let (dump, mut warnings) = if input.bytes().starts_with(b"\x04\x08") {
            let (bytes, warnings) = input.into_bytes();
            let dump = marshal::read(&bytes).map(|value| Dump::of(&value));
            (dump.map_err(|reason| ReadError::Malformed { name: name.clone(), reason })?, warnings)
        } else {
            json::parse::<Dump>(input)?
        };
        if dump.frames.is_empty() {
            let reason = "no stack was sampled while it was recorded".to_owned();
            return Err(ReadError::Nothing { name, reason });
        }
        if dump.missed_samples > 0 {
            warnings.add(WarningKind::LostSamples, dump.missed_samples, []);
        }
        Ok(dump.build(options, warnings))
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Dump {
    #[serde(deserialize_with = "json::or_default")]
    mode: String,
    #[serde(deserialize_with = "json::or_default")]
    interval: f64,
    #[serde(deserialize_with = "json::or_default")]
    missed_samples: u64,
    #[serde(deserialize_with = "json::or_default")]
    frames: BTreeMap<u64, Function>,
    #[serde(deserialize_with = "json::or_default")]
    raw: Vec<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Function {
    #[serde(deserialize_with = "json::or_default")]
    name: String,
    #[serde(deserialize_with = "json::or_default")]
    file: String,
    #[serde(deserialize_with = "json::or_default")]
    line: u32,
    samples: u64,
    #[serde(deserialize_with = "json::or_default")]
    edges: BTreeMap<u64, u64>,
}

impl Dump {
    /// Converts Ruby's values to a dump.
    fn of(value: &Value) -> Self {
        let count = |key| value.get(key).and_then(Value::count);
        let frames = value.get("frames").and_then(Value::dict).unwrap_or_default().iter();
        let raw = value.get("raw").and_then(Value::list).unwrap_or_default().iter();
        Self {
            mode: value.get("mode").and_then(Value::text).unwrap_or_default().to_owned(),
            interval: match value.get("interval") {
                Some(Value::Float(interval)) => *interval,
                _ => count("interval").unwrap_or(0) as f64,
            },
            missed_samples: count("missed_samples").unwrap_or(0),
            frames: frames.filter_map(|(id, of)| Some((id.count()?, Function::of(of)))).collect(),
            raw: raw.filter_map(Value::count).collect(),
        }
    }

    /// Returns the value type, and the value of one sample.
    fn value_type(&self) -> (ValueType, f64) {
        let interval = if self.interval >= 1.0 { self.interval } else { 1.0 };
        match self.mode.as_str() {
            "object" => (ValueType::new("objects", "count"), interval),
            mode @ ("cpu" | "wall") => (ValueType::new(mode, "ns"), interval * 1000.0),
            _ => (ValueType::new("events", "count"), 1.0),
        }
    }

    fn build(&self, options: &Options, mut warnings: Warnings) -> Reading {
        let (value_type, each) = self.value_type();
        let types = vec![ValueType::samples(), value_type];
        let mut profile = Profile { shown: 1, ..Profile::new(types) };
        let mut rows = Rows::new(options, 2);
        let frames: HashMap<u64, FrameId> =
            self.frames.iter().map(|(&id, of)| (id, frame(&mut profile, of))).collect();
        let value = |count: u64| (count as f64 * each).round() as u64;
        if self.raw.is_empty() {
            let (nodes, order) = self.graph(value);
            let frames: Vec<FrameId> = order.iter().map(|id| frames[id]).collect();
            let cut = call_graph::put_together(&nodes, &frames, &mut profile, &mut rows);
            call_graph::say(&mut warnings, "StackProf without `raw: true`", cut);
        } else if !raw(&self.raw, &frames, &mut profile, &mut rows, value) {
            let cause = "the stacks in `raw` do not end where it ends".to_owned();
            warnings.add(WarningKind::Truncated(cause), 1, []);
        }
        rows.finish(&mut profile);
        Reading::new(profile, warnings)
    }

    /// Returns the call graph, and the function ID of each of its rows.
    fn graph(&self, value: impl Fn(u64) -> u64) -> (Vec<Node>, Vec<u64>) {
        let order: Vec<u64> = self.frames.keys().copied().collect();
        let row: HashMap<u64, usize> =
            order.iter().enumerate().map(|(row, &id)| (id, row)).collect();
        let both = |count| vec![count, value(count)];
        let own = self.frames.values().map(|of| both(of.samples));
        let mut nodes: Vec<Node> = own.map(|own| Node { own, callers: Vec::new() }).collect();
        for (caller, (id, of)) in self.frames.iter().enumerate() {
            for (callee, &count) in of.edges.iter().filter(|&(callee, _)| callee != id) {
                if let Some(&callee) = row.get(callee) {
                    nodes[callee].callers.push((caller, both(count)));
                }
            }
        }
        (nodes, order)
    }
}

impl Function {
    fn of(value: &Value) -> Self {
        let text = |key| value.get(key).and_then(Value::text).unwrap_or_default().to_owned();
        let count = |key| value.get(key).and_then(Value::count).unwrap_or(0);
        let edges = value.get("edges").and_then(Value::dict).unwrap_or_default().iter();
        Self {
            name: text("name"),
            file: text("file"),
            line: u32::try_from(count("line")).unwrap_or(0),
            samples: count("samples"),
            edges: edges.filter_map(|(to, count)| Some((to.count()?, count.count()?))).collect(),
        }
    }
}

fn frame(profile: &mut Profile, of: &Function) -> FrameId {
    let (file, kind) = match of.file.as_str() {
        "<cfunc>" | "" => ("", FrameKind::User),
        file => (file, FrameKind::Interpreted),
    };
    // `(garbage collection)`, `(marking)`, `(sweeping)`.
    let kind = if of.name.starts_with('(') { FrameKind::Marker(Marker::Remark) } else { kind };
    let (function, file) = (profile.strings.intern(&of.name), profile.strings.intern(file));
    let named = Frame { start_line: of.line, ..Frame::named(function, kind) };
    let frame = Frame { file, module: file, line: of.line, ..named };
    profile.frames.intern(frame)
}

/// Adds all stacks; returns `false` if the last one is incomplete.
fn raw(
    mut raw: &[u64],
    frames: &HashMap<u64, FrameId>,
    profile: &mut Profile,
    rows: &mut Rows,
    value: impl Fn(u64) -> u64,
) -> bool {
    while let Some((&depth, rest)) = raw.split_first() {
        let depth = usize::try_from(depth).unwrap_or(usize::MAX);
        let Some((path, rest)) = rest.split_at_checked(depth) else { return false };
        let Some((&count, rest)) = rest.split_first() else { return false };
        let unknown = profile.frames.intern(Frame::default());
        let path = path.iter().map(|id| frames.get(id).copied().unwrap_or(unknown));
        let stack = profile.stacks.intern_path(path);
        rows.push(Sample::new(stack), &[count, value(count)]);
        raw = rest;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Input, write_folded};
    use pyrograph_profile::{LabelOptions, Tree};

    fn fold(text: &str) -> (String, Warnings) {
        let text = format!(
            r#"{{"version":1.2,"mode":"wall","interval":1000,"samples":9,"gc_samples":0,"missed_samples":2,
            "frames":{{"1":{{"name":"main","samples":1,"edges":{{"2":8}}}},
                       "2":{{"name":"f","samples":8,"line":null,"edges":{{"2":3}}}}}}{text}}}"#
        );
        let input = Input::bytes("x", text).begin().expect("bytes");
        assert!(StackProf.detect(input.bytes()));
        let reading = StackProf.read(input, &Options::default()).expect("a profile");
        let mut folded = Vec::new();
        write_folded(&Tree::new(&reading.profile, &LabelOptions::default()), &mut folded)
            .expect("writing to memory");
        (String::from_utf8_lossy(&folded).into_owned(), reading.warnings)
    }

    #[test]
    fn stacks_are_read_and_put_together_where_there_are_none() {
        let (folded, warnings) = fold(r#","raw":[1,1,1,2,1,2,7,3,1,2,2,1]"#);
        assert_eq!(folded, "main 1 1000000\nmain;f 7 7000000\nmain;f;f 1 1000000\n");
        let said: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert_eq!(said, ["2 samples were lost while recording"]);
        assert_eq!(fold("").0, "main 1 1000000\nmain;f 8 8000000\n");
    }

    #[test]
    fn a_length_beyond_the_end_is_said() {
        let (folded, warnings) = fold(r#","raw":[1,1,1,99999999999,1,2]"#);
        assert_eq!(folded, "main 1 1000000\n");
        assert!(warnings.any_loss());
    }
}
