//! Reader of V8's `.cpuprofile`, as written by `node --cpu-prof` and Chrome's developer tools.
//!
//! ```text
//! {"nodes":[{"id":1,"callFrame":{"functionName":"(root)","url":"","lineNumber":-1,…},"children":[2]},
//!           {"id":2,"callFrame":{"functionName":"main","url":"file:///app.js","lineNumber":3,…}}],
//!  "startTime":12447275544,"endTime":12447394655,"samples":[2,2],"timeDeltas":[2777,10319]}
//! ```
//!
//! Source: the type `Profiler.Profile` of the Chrome DevTools Protocol. Times are microseconds.
//!
//! - A sample is the thread's state *from* its time on: it counts until the next sample, the last one until
//!   `endTime`. `timeDeltas[0]` is the time from `startTime` to the first sample.
//! - Deltas may be negative: V8 does not sort samples of its two threads. Such deltas count as 0.
//! - `children` lists the callees; files of some other tools have `parent`, the caller, instead.
//! - `(root)` is not a frame. `(program)`, `(idle)` and `(garbage collector)` are V8's names for time outside of any
//!   function, and are kept.
//! - Before version 12, Node wrote the form of V8's own interface: a tree below `head` instead of `nodes`, whose
//!   nodes have the fields of a `callFrame` themselves; `timestamps` instead of `timeDeltas`, as many as samples or
//!   one more; and a start and an end in seconds.
//! - Without `samples`, `hitCount` is the number of times that each node was the leaf.

mod old;

use hashbrown::HashMap;
use pyrograph_profile::{Frame, FrameKind, Profile, Sample, StackId, ThreadId, ValueType};
use serde::Deserialize;

use super::json;
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};

/// Reader of V8's `.cpuprofile`.
pub struct CpuProfile;

impl Reader for CpuProfile {
    fn name(&self) -> &'static str {
        "cpuprofile"
    }

    fn written_by(&self) -> &'static str {
        "node --cpu-prof, Chrome's developer tools"
    }

    fn detect(&self, head: &[u8]) -> bool {
        // Traces may contain such profiles in their events.
        json::begins_object(head)
            && !json::has_key(head, "traceEvents")
            && json::has_key(head, "functionName")
            && (json::has_key(head, "nodes") && json::has_key(head, "callFrame")
                || json::has_key(head, "head") && json::has_key(head, "hitCount"))
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let text = json::text(input)?;
        let mut file: File = serde_json::from_slice(&text).map_err(|error| {
            ReadError::Malformed { name: name.clone(), reason: error.to_string() }
        })?;
        let mut warnings = Warnings::default();
        if file.nodes.is_empty() {
            file.complete(old::nodes(text, &mut warnings));
        }
        build(&file, warnings).ok_or_else(|| ReadError::Nothing {
            name,
            reason: "no node of this CPU profile was ever sampled".to_owned(),
        })
    }
}

/// The contents of a file.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct File {
    #[serde(default, deserialize_with = "json::or_default")]
    pub nodes: Vec<Node>,
    /// Absolute times of samples: the older alternative to `time_deltas`.
    #[serde(default, deserialize_with = "json::or_default")]
    timestamps: Vec<f64>,
    #[serde(default, deserialize_with = "json::or_default")]
    pub start_time: f64,
    #[serde(default, deserialize_with = "json::or_default")]
    pub end_time: f64,
    #[serde(default, deserialize_with = "json::or_default")]
    pub samples: Vec<u64>,
    #[serde(default, deserialize_with = "json::or_default")]
    pub time_deltas: Vec<f64>,
}

/// A node of the call tree: a function with a specific caller.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Node {
    id: u64,
    call_frame: CallFrame,
    #[serde(default, deserialize_with = "json::or_default")]
    hit_count: u64,
    #[serde(default, deserialize_with = "json::or_default")]
    children: Vec<u64>,
    parent: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallFrame {
    function_name: String,
    #[serde(default, deserialize_with = "json::or_default")]
    url: String,
    /// Line at which the function begins, from 0; −1 if there is none.
    #[serde(default, deserialize_with = "json::or_default")]
    line_number: f64,
}

fn build(file: &File, mut warnings: Warnings) -> Option<Reading> {
    let value_type = match file.is_timed() {
        true => ValueType::new("time", "ns"),
        false => ValueType::samples(),
    };
    let mut profile = Profile::new(vec![value_type]);
    let unknown = file.add(&mut profile, ThreadId::UNKNOWN);
    if unknown > 0 {
        warnings.add(WarningKind::UnreadableSample, unknown, []);
    }
    (!profile.samples.is_empty()).then_some(Reading::new(profile, warnings))
}

impl File {
    /// Converts the times of the older form to those of the newer one.
    fn complete(&mut self, nodes: Vec<Node>) {
        self.nodes = nodes;
        let Some(&first) = self.timestamps.first() else { return };
        let times = &self.timestamps[..self.timestamps.len().min(self.samples.len())];
        // An additional timestamp is the end of the last sample. The file's start and end are whole seconds.
        let end = self.timestamps.get(times.len()).or(times.last());
        (self.start_time, self.end_time) = (first, end.copied().unwrap_or(first));
        let before = std::iter::once(first).chain(times.iter().copied());
        self.time_deltas = times.iter().zip(before).map(|(time, before)| time - before).collect();
    }

    /// True if the samples have times.
    pub fn is_timed(&self) -> bool {
        !self.samples.is_empty() && self.time_deltas.len() == self.samples.len()
    }

    /// Adds all samples, with nanoseconds as values, or 1 each if they have no times. Returns the number of samples
    /// without a node.
    pub fn add(&self, profile: &mut Profile, thread: ThreadId) -> u64 {
        let timed = self.is_timed();
        let stacks = stacks(&self.nodes, profile);
        let sample = |stack, time| Sample { thread, time, ..Sample::new(stack) };
        if self.samples.is_empty() {
            for node in self.nodes.iter().filter(|node| node.hit_count > 0) {
                let stack = stacks.get(&node.id).copied().unwrap_or(StackId::ROOT);
                profile.push(sample(stack, None), &[node.hit_count]);
            }
        }
        let mut unknown = 0u64;
        let mut at = self.start_time;
        for (row, node) in self.samples.iter().enumerate() {
            at += self.time_deltas.get(row).copied().unwrap_or_default();
            let Some(&stack) = stacks.get(node) else {
                unknown += 1;
                continue;
            };
            if !timed {
                profile.push(sample(stack, None), &[1]);
                continue;
            }
            let lasts = match self.time_deltas.get(row + 1) {
                Some(&delta) => delta,
                None => self.end_time - at,
            };
            profile.push(sample(stack, Some(nanoseconds(at))), &[nanoseconds(lasts)]);
        }
        unknown
    }
}

/// Converts microseconds to nanoseconds. Negative numbers and NaN become 0, because `as` saturates.
pub(super) fn nanoseconds(microseconds: f64) -> u64 {
    (microseconds * 1e3).round() as u64
}

/// Interns the stack of each node. A node in a cycle of callers becomes a root.
fn stacks(nodes: &[Node], profile: &mut Profile) -> HashMap<u64, StackId> {
    let mut parents: HashMap<u64, u64> = HashMap::new();
    for node in nodes {
        parents.extend(node.parent.map(|parent| (node.id, parent)));
        parents.extend(node.children.iter().map(|&child| (child, node.id)));
    }
    let by_id: HashMap<u64, &Node> = nodes.iter().map(|node| (node.id, node)).collect();
    let mut known: HashMap<u64, StackId> = HashMap::new();
    let mut missing = Vec::new();
    for node in nodes {
        let mut at = Some(node.id);
        let mut stack = StackId::ROOT;
        while let Some(id) = at {
            if let Some(&found) = known.get(&id) {
                stack = found;
                break;
            }
            // Marked as known, so that a cycle ends here.
            known.insert(id, StackId::ROOT);
            missing.push(id);
            at = parents.get(&id).copied();
        }
        while let Some(id) = missing.pop() {
            if let Some(node) = by_id.get(&id) {
                stack = push(profile, stack, &node.call_frame);
            }
            known.insert(id, stack);
        }
    }
    known
}

fn push(profile: &mut Profile, caller: StackId, call: &CallFrame) -> StackId {
    let (name, kind) = match call.function_name.as_str() {
        "(root)" => return caller,
        "" => ("(anonymous)", FrameKind::Interpreted),
        name @ ("(program)" | "(idle)" | "(garbage collector)") => (name, FrameKind::User),
        name => (name, FrameKind::Interpreted),
    };
    let function = profile.strings.intern(name);
    let file = profile.strings.intern(&call.url);
    let line = if call.url.is_empty() { 0 } else { (call.line_number + 1.0) as u32 };
    let named = Frame { start_line: line, ..Frame::named(function, kind) };
    let frame = Frame { file, module: file, line, ..named };
    let frame = profile.frames.intern(frame);
    profile.stacks.intern(caller, frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Input;
    use crate::write_folded;
    use pyrograph_profile::{LabelOptions, Tree};

    fn check(text: &str, expect: &str) {
        let input = Input::bytes("x", text.as_bytes()).begin().expect("bytes");
        let reading = CpuProfile.read(input, &Options::default()).expect("a profile");
        let mut folded = Vec::new();
        write_folded(&Tree::new(&reading.profile, &LabelOptions::default()), &mut folded)
            .expect("writing to memory");
        assert_eq!(String::from_utf8_lossy(&folded), expect);
    }

    #[test]
    fn a_sample_lasts_until_the_next() {
        check(
            r#"{"nodes":[{"id":1,"callFrame":{"functionName":"(root)"},"children":[2,3]},
                {"id":2,"callFrame":{"functionName":"a"}},{"id":3,"callFrame":{"functionName":""}}],
                "startTime":10,"endTime":100,"samples":[2,3,2,9],"timeDeltas":[5,20,-1,30]}"#,
            // Sample 3 begins at 35 and a delta of −1 counts nothing.
            "a 50000\n",
        );
    }

    #[test]
    fn hit_counts_and_parents_serve_where_there_is_nothing_better() {
        check(
            r#"{"nodes":[{"id":1,"callFrame":{"functionName":"(root)"}},
                {"id":2,"parent":1,"callFrame":{"functionName":"a"},"hitCount":2},
                {"id":3,"parent":2,"callFrame":{"functionName":"b"},"hitCount":3}]}"#,
            "a 2\na;b 3\n",
        );
    }

    #[test]
    fn a_circle_of_nodes_ends() {
        check(
            r#"{"nodes":[{"id":1,"callFrame":{"functionName":"a"},"children":[2],"hitCount":1},
                {"id":2,"callFrame":{"functionName":"b"},"children":[1],"hitCount":1}]}"#,
            "b 1\nb;a 1\n",
        );
    }
}
