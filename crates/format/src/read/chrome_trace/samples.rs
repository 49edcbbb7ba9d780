//! Samples in traces.
//!
//! V8 writes its CPU profiles as events, in chunks. The first event of a profile is on the sampled thread; the others
//! are on a thread of V8's own and have the same `id`:
//!
//! ```text
//! {"ph":"P","pid":1,"tid":9,"id":"0x1","name":"Profile","args":{"data":{"startTime":1000}}}
//! {"ph":"P","pid":1,"tid":33,"id":"0x1","name":"ProfileChunk","args":{"data":{
//!   "cpuProfile":{"nodes":[{"id":1,"callFrame":{…}},{"id":2,"parent":1,"callFrame":{…}}],
//!                 "samples":[2,2]},"timeDeltas":[0,1000],"endTime":4000}}}
//! ```
//!
//! Other programs, such as Hermes, write samples next to the list of events:
//!
//! ```text
//! "samples":[{"pid":1,"tid":9,"ts":1000,"sf":2,"weight":1}],
//! "stackFrames":{"1":{"name":"main"},"2":{"name":"work","parent":1}}
//! ```
//!
//! The value of a sample is the time until the thread's next one.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use pyrograph_profile::{Frame, FrameId, FrameKind, Profile, Sample, StackId};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::super::cpuprofile::{File, Node, nanoseconds};
use super::super::json;
use super::{Event, Id, Names, intern_thread};

/// A value of a type, or anything else: traces may have values of any type in these fields.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Loose<T> {
    Known(T),
    Other(IgnoredAny),
}

impl<T> Default for Loose<T> {
    fn default() -> Self {
        Self::Other(IgnoredAny)
    }
}

impl<T> Loose<T> {
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(known) => Some(known),
            Self::Other(_) => None,
        }
    }
}

/// The arguments of an event that are used here.
#[derive(Deserialize)]
pub(super) struct Args {
    #[serde(default)]
    pub name: Loose<String>,
    #[serde(default)]
    data: Loose<Data>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    #[serde(default, deserialize_with = "json::or_default")]
    cpu_profile: Chunk,
    #[serde(default, deserialize_with = "json::or_default")]
    time_deltas: Vec<f64>,
    start_time: Option<f64>,
    end_time: Option<f64>,
}

#[derive(Default, Deserialize)]
struct Chunk {
    #[serde(default, deserialize_with = "json::or_default")]
    nodes: Vec<Node>,
    #[serde(default, deserialize_with = "json::or_default")]
    samples: Vec<u64>,
}

/// Samples next to the list of events.
#[derive(Default)]
pub(super) struct Beside {
    pub samples: Loose<Vec<Taken>>,
    pub frames: Loose<BTreeMap<Id, StackFrame>>,
}

#[derive(Deserialize)]
pub(super) struct Taken {
    #[serde(default)]
    pid: Id,
    #[serde(default)]
    tid: Id,
    #[serde(default, deserialize_with = "json::number")]
    ts: f64,
    sf: Id,
}

#[derive(Deserialize)]
pub(super) struct StackFrame {
    name: String,
    #[serde(default)]
    parent: Id,
}

/// Adds all samples of a trace. Returns the number of samples that could not be used.
pub(super) fn add(
    profile: &mut Profile,
    events: &mut [Event],
    beside: Beside,
    names: &Names,
) -> u64 {
    let unused = add_cpu_profiles(profile, events, names);
    unused + add_beside(profile, beside, names)
}

fn add_cpu_profiles(profile: &mut Profile, events: &mut [Event], names: &Names) -> u64 {
    let mut unused = 0;
    // Keys in file order.
    let mut order: Vec<(Id, Id)> = Vec::new();
    let mut files: HashMap<(Id, Id), (Option<Id>, File)> = HashMap::new();
    for event in events.iter_mut().filter(|event| event.ph == "P") {
        let is_first = event.name == "Profile";
        if !is_first && event.name != "ProfileChunk" {
            continue;
        }
        let key = (event.pid.clone(), event.id.clone());
        let (thread, file) = files.entry(key.clone()).or_insert_with(|| {
            order.push(key);
            (None, File::default())
        });
        if is_first {
            *thread = Some(event.tid.clone());
        }
        let data = match &mut event.args {
            Loose::Known(Args { data: Loose::Known(data), .. }) => data,
            // The last chunk may have no data.
            _ => continue,
        };
        file.start_time = data.start_time.unwrap_or(file.start_time);
        file.end_time = data.end_time.unwrap_or(file.end_time);
        file.nodes.append(&mut data.cpu_profile.nodes);
        if data.time_deltas.len() != data.cpu_profile.samples.len() {
            unused += data.cpu_profile.samples.len() as u64;
            continue;
        }
        file.samples.append(&mut data.cpu_profile.samples);
        file.time_deltas.append(&mut data.time_deltas);
    }
    for key in order {
        let Some((tid, file)) = files.remove(&key) else { continue };
        let thread = intern_thread(profile, (&key.0, &tid.unwrap_or_default()), names);
        unused += file.add(profile, thread);
    }
    unused
}

fn add_beside(profile: &mut Profile, beside: Beside, names: &Names) -> u64 {
    let (Loose::Known(mut samples), Loose::Known(frames)) = (beside.samples, beside.frames) else {
        return 0;
    };
    let stacks = stacks(profile, &frames);
    samples.sort_by(|a, b| (&a.pid, &a.tid).cmp(&(&b.pid, &b.tid)).then(a.ts.total_cmp(&b.ts)));
    let mut unused = 0;
    for of_thread in samples.chunk_by(|a, b| (&a.pid, &a.tid) == (&b.pid, &b.tid)) {
        let thread = intern_thread(profile, (&of_thread[0].pid, &of_thread[0].tid), names);
        for (place, taken) in of_thread.iter().enumerate() {
            let Some(&stack) = stacks.get(&taken.sf) else {
                unused += 1;
                continue;
            };
            let lasts = of_thread.get(place + 1).map_or(0.0, |next| next.ts - taken.ts);
            let time = Some(nanoseconds(taken.ts));
            profile.push(Sample { thread, time, ..Sample::new(stack) }, &[nanoseconds(lasts)]);
        }
    }
    unused
}

/// Interns the stack of each frame. A frame in a cycle of parents becomes a root.
fn stacks(profile: &mut Profile, frames: &BTreeMap<Id, StackFrame>) -> HashMap<Id, StackId> {
    let mut known: HashMap<Id, StackId> = HashMap::new();
    let mut missing: Vec<(&Id, FrameId)> = Vec::new();
    for id in frames.keys() {
        let (mut at, mut stack) = (id, StackId::ROOT);
        while let Some(of) = frames.get(at) {
            if let Some(&found) = known.get(at) {
                stack = found;
                break;
            }
            known.insert(at.clone(), StackId::ROOT);
            let function = profile.strings.intern(&of.name);
            let frame = profile.frames.intern(Frame::named(function, FrameKind::User));
            missing.push((at, frame));
            at = &of.parent;
        }
        while let Some((id, frame)) = missing.pop() {
            stack = profile.stacks.intern(stack, frame);
            known.insert(id.clone(), stack);
        }
    }
    known
}
