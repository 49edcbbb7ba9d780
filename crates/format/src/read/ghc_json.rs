//! Reader of JSON profiles (`+RTS -pj`) of Haskell programs compiled by GHC with `-prof`.
//!
//! ```text
//! {"program": "app", "total_ticks": 798, "tick_interval": 1000,
//!  "cost_centres": [{"id": 144, "label": "MAIN", "module": "MAIN", "src_loc": "<built-in>", "is_caf": false}],
//!  "profile": {"id": 144, "entries": 0, "alloc": 648, "ticks": 3, "children": [{"id": 37, …}]}}
//! ```
//!
//! Source: GHC's user's guide, "JSON profile format". The unit of ticks is `tick_interval` microseconds, that of
//! `alloc` bytes; both are self values of the cost centre. Unlike the text report, the file has all cost centres.

use hashbrown::HashMap;
use pyrograph_profile::{Frame, FrameId, FrameKind, Profile, Sample, ValueType};
use serde::Deserialize;
use struson::reader::ReaderError;

use super::json;
use super::json_tree::{self, Tokens};
use super::rows::Rows;
use super::text::Collector;
use crate::input::{Head, Input};
use crate::reader::{Options, ReadError, Reader, Reading};

/// Reader of GHC's JSON profiles.
pub struct GhcJson;

#[derive(Deserialize)]
struct File {
    /// Microseconds per tick.
    #[serde(default, deserialize_with = "json::or_default")]
    tick_interval: f64,
    #[serde(default)]
    cost_centres: Vec<CostCentre>,
}

#[derive(Deserialize)]
struct CostCentre {
    id: u64,
    #[serde(default, deserialize_with = "json::or_default")]
    label: String,
    #[serde(default, deserialize_with = "json::or_default")]
    module: String,
}

impl Reader for GhcJson {
    fn name(&self) -> &'static str {
        "GHC JSON"
    }

    fn written_by(&self) -> &'static str {
        "a Haskell program compiled with -prof, run with +RTS -pj"
    }

    fn detect(&self, head: &[u8]) -> bool {
        json::begins_object(head)
            && json::has_key(head, "rts_arguments")
            && json::has_key(head, "cost_centres")
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let text = json::text(input)?;
        let file: File = serde_json::from_slice(&text).map_err(|error| ReadError::Malformed {
            name: name.clone(),
            reason: error.to_string(),
        })?;
        let again = Input::bytes(&name, text).begin();
        let again = again.map_err(|source| ReadError::Io { name: name.clone(), source })?;
        let (nodes, mut warnings) =
            json_tree::read::<Call>(again, "profile", "children", Call::field);
        let centres: HashMap<u64, &CostCentre> =
            file.cost_centres.iter().map(|centre| (centre.id, centre)).collect();
        let mut out = Collector::new(ValueType::samples());
        out.profile =
            Profile::new(vec![ValueType::new("time", "ns"), ValueType::new("alloc", "bytes")]);
        let stacks = json_tree::stacks(&nodes, &mut out, &mut warnings, |call, out| {
            let centre = centres.get(&call.id)?;
            (centre.label != "MAIN").then(|| frame(centre, out))
        });
        let mut rows = Rows::new(options, 2);
        for (node, stack) in nodes.iter().zip(stacks) {
            let time = (node.fields.ticks * file.tick_interval * 1e3).round() as u64;
            let values = [time, node.fields.alloc as u64];
            if values != [0, 0] {
                rows.push(Sample::new(stack), &values);
            }
        }
        rows.finish(&mut out.profile);
        Ok(out.reading(warnings))
    }
}

fn frame(centre: &CostCentre, out: &mut Collector) -> FrameId {
    let function = out.intern(&centre.label);
    let module = out.intern(&centre.module);
    out.profile.frames.intern(Frame { module, ..Frame::named(function, FrameKind::User) })
}

#[derive(Default)]
struct Call {
    id: u64,
    ticks: f64,
    alloc: f64,
}

impl Call {
    fn field(&mut self, name: &str, tokens: &mut Tokens) -> Result<bool, ReaderError> {
        match name {
            "id" => self.id = json_tree::number(tokens)? as u64,
            "ticks" => self.ticks = json_tree::number(tokens)?,
            "alloc" => self.alloc = json_tree::number(tokens)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{detect, write_folded};
    use pyrograph_profile::{LabelOptions, Tree};

    /// The form that GHC 8.4 writes, shortened.
    const TEXT: &str = r#"{
"program": "app",
"arguments": ["app"],
"rts_arguments": ["-pj"],
"total_time":        0.80,
"total_ticks": 8,
"tick_interval": 1000,
"total_alloc":1921,
"cost_centres": [
{"id": 9, "label": "MAIN", "module": "MAIN", "src_loc": "<built-in>", "is_caf": false}, {"id": 8, "label": "make", "module": "Main", "src_loc": "app.hs:3:1-9", "is_caf": false}
],
"profile": {"id": 9, "entries": 0, "alloc": 648, "ticks": 1, "children": [{"id": 8, "entries": 0, "alloc": 0, "ticks": 5, "children": [
{"id": 8, "entries": 3, "alloc": 16, "ticks": 2, "children": []}]}
]}}"#;

    #[test]
    fn both_values_of_each_cost_centre() {
        assert_eq!(detect(TEXT.as_bytes()).map(Reader::name), Some("GHC JSON"));
        let input = Input::bytes("x", TEXT).begin().expect("bytes in memory");
        let mut reading = GhcJson.read(input, &Options::default()).expect("a profile");
        assert!(reading.warnings.is_empty());
        let mut check = |column: usize, expect: &str| {
            reading.profile.shown = column;
            let mut profile = reading.profile.clone();
            profile.keep_shown();
            let mut folded = Vec::new();
            let tree = Tree::new(&profile, &LabelOptions::default());
            write_folded(&tree, &mut folded).expect("to memory");
            assert_eq!(String::from_utf8_lossy(&folded), expect);
        };
        check(0, "[unknown] 1000000\nmake 5000000\nmake;make 2000000\n");
        check(1, "[unknown] 648\nmake;make 16\n");
    }
}
