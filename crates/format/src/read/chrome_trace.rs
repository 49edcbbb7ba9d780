//! Chrome's trace event format: what `chrome://tracing`, Perfetto, node, clang's `-ftime-trace` and
//! many programs of their own write.
//!
//! ```text
//! {"traceEvents":[{"ph":"X","pid":1,"tid":2,"ts":100.5,"dur":20,"name":"parse"},
//!                 {"ph":"B","pid":1,"tid":2,"ts":130,"name":"draw"},
//!                 {"ph":"E","pid":1,"tid":2,"ts":140},
//!                 {"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"main"}}]}
//! ```
//!
//! Source: the document "Trace Event Format". `ts` and `dur` are microseconds, possibly with
//! decimals.
//!
//! - The list may stand alone, without the object around it, and may lack its end: a program that
//!   died never wrote it.
//! - Events are in any order. Complete events (`X`) and pairs of `B` and `E` of one thread nest by
//!   time; an `E` ends the innermost `B`, whatever name it has.
//! - Complete events that overlap without nesting both stay: the outer one ends when it ends.
//! - A call that never ends lasts until its thread's last event.
//! - Asynchronous events (`b`, `e`, `S`, `F` …) belong to no thread's stack, and are counted as left
//!   out. Counters, instants and flows say nothing of time.

use std::collections::BTreeMap;
use std::fmt;

use hashbrown::HashMap;
use pyrograph_profile::{Frame, FrameKind, Profile, StringId, Thread, ThreadId, ValueType};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::calls::Calls;
use super::json;
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};

/// See the module.
pub struct ChromeTrace;

impl Reader for ChromeTrace {
    fn name(&self) -> &'static str {
        "Chrome trace"
    }

    fn written_by(&self) -> &'static str {
        "chrome://tracing, node --trace-event-categories, clang -ftime-trace, many programs"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let is_event = json::has_key(head, "ph") && json::has_key(head, "ts");
        (json::begins_object(head) && json::has_key(head, "traceEvents"))
            || (json::begins_list(head) && is_event)
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let text = json::text(input)?;
        let mut events = Vec::new();
        let mut warnings = Warnings::default();
        let mut json = serde_json::Deserializer::from_slice(&text);
        if let Err(error) = Events(&mut events).deserialize(&mut json) {
            if events.is_empty() {
                return Err(ReadError::Malformed { name, reason: error.to_string() });
            }
            // The format permits a list without an end.
            if !error.is_eof() || text.trim_ascii_start().first() != Some(&b'[') {
                warnings.add(WarningKind::Truncated(error.to_string()), 1, []);
            }
        }
        build(events, warnings).ok_or_else(|| ReadError::Nothing {
            name,
            reason: "the trace has no events with a duration (B and E, or X)".to_owned(),
        })
    }
}

#[derive(Deserialize)]
struct Event {
    #[serde(default, deserialize_with = "json::or_default")]
    ph: String,
    #[serde(default, deserialize_with = "json::or_default")]
    name: String,
    #[serde(default)]
    pid: Id,
    #[serde(default)]
    tid: Id,
    #[serde(default, deserialize_with = "json::number")]
    ts: f64,
    #[serde(default, deserialize_with = "json::number")]
    dur: f64,
    #[serde(default)]
    args: Option<Args>,
}

/// The contents of metadata events.
#[derive(Deserialize)]
#[serde(untagged)]
enum Args {
    Named { name: String },
    Other(IgnoredAny),
}

/// A number; some programs write text.
#[derive(Clone, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(untagged)]
enum Id {
    Number(i64),
    Text(String),
    #[default]
    None,
}

/// The list of events, alone or within an object; gathers them so that those before an error are
/// kept.
struct Events<'a>(&'a mut Vec<Event>);

impl<'de> DeserializeSeed<'de> for Events<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of trace events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(event) = list.next_element()? {
            self.0.push(event);
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "traceEvents" {
                map.next_value_seed(Events(&mut *self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// One end of a call: when, and the event it is of.
struct Edge {
    time: u64,
    /// Of edges at one time, ends come first, then the longer of two calls.
    order: (u8, std::cmp::Reverse<u64>),
    event: usize,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    Call,
    /// The end of a complete event.
    EndOf,
    /// The end of the innermost call that `B` began.
    End,
}

fn build(events: Vec<Event>, mut warnings: Warnings) -> Option<Reading> {
    let mut profile = Profile::new(vec![ValueType::new("time", "ns")]);
    let names = names(&events);
    let mut threads: Vec<(&Id, &Id)> = Vec::new();
    let mut place: HashMap<(&Id, &Id), usize> = HashMap::new();
    let mut edges: Vec<Vec<Edge>> = Vec::new();
    let mut asynchronous = 0u64;
    for (index, event) in events.iter().enumerate() {
        let begin = nanoseconds(event.ts);
        let end = nanoseconds(event.ts + event.dur);
        let edge = |time, order, what| Edge { time, order, event: index, what };
        let call = edge(begin, (1, std::cmp::Reverse(end)), What::Call);
        let added: Vec<Edge> = match event.ph.as_str() {
            "X" => vec![call, edge(end, (0, std::cmp::Reverse(begin)), What::EndOf)],
            "B" => vec![edge(begin, (1, std::cmp::Reverse(u64::MAX)), What::Call)],
            "E" => vec![edge(begin, (0, std::cmp::Reverse(u64::MAX)), What::End)],
            "b" | "e" | "n" | "S" | "T" | "p" | "F" => {
                asynchronous += 1;
                continue;
            }
            _ => continue,
        };
        let thread = (&event.pid, &event.tid);
        let at = *place.entry(thread).or_insert_with(|| {
            threads.push(thread);
            edges.push(Vec::new());
            threads.len() - 1
        });
        edges[at].extend(added);
    }
    let (mut unmatched, mut too_deep) = (0u64, 0u64);
    for (thread, mut edges) in threads.into_iter().zip(edges) {
        // Stable: events at one time stay in the file's order otherwise.
        edges.sort_by_key(|edge| (edge.time, edge.order));
        let thread = intern_thread(&mut profile, thread, &names);
        let (no_begin, deep) = replay(&mut profile, thread, &edges, &events);
        unmatched += no_begin;
        too_deep += deep;
    }
    let mut other_events = BTreeMap::new();
    if asynchronous > 0 {
        other_events.insert("asynchronous (b, e, S, F …)".to_owned(), asynchronous);
    }
    if unmatched > 0 {
        warnings.add(WarningKind::UnmatchedEnd, unmatched, []);
    }
    if too_deep > 0 {
        warnings.add(WarningKind::TooDeep, too_deep, []);
    }
    let is_empty = profile.samples.is_empty();
    (!is_empty).then(|| Reading { other_events, ..Reading::new(profile, warnings) })
}

/// Runs through the edges of one thread; returns how many ends had no beginning, and how many calls
/// were too deep to be shown.
fn replay(profile: &mut Profile, thread: ThreadId, edges: &[Edge], events: &[Event]) -> (u64, u64) {
    /// The token of calls that `B` began.
    const BEGUN: u64 = u64::MAX;
    let mut calls = Calls::new(thread);
    let mut unmatched = 0;
    for edge in edges {
        let event = &events[edge.event];
        let matched = match edge.what {
            What::Call => {
                let name = if event.name.is_empty() { "(unnamed)" } else { &event.name };
                let function = profile.strings.intern(name);
                let frame = profile.frames.intern(Frame::named(function, FrameKind::User));
                let token = if event.ph == "B" { BEGUN } else { edge.event as u64 };
                calls.call(profile, edge.time, frame, token);
                true
            }
            What::EndOf => calls.end_token(profile, edge.time, edge.event as u64),
            What::End => calls.end_token(profile, edge.time, BEGUN),
        };
        unmatched += u64::from(!matched);
    }
    (unmatched, calls.too_deep)
}

/// Of microseconds. `as` saturates, and what is no number is 0.
fn nanoseconds(microseconds: f64) -> u64 {
    (microseconds * 1e3).round() as u64
}

/// The names that metadata events give processes (no thread) and threads.
fn names(events: &[Event]) -> HashMap<(&Id, Option<&Id>), &str> {
    let mut names = HashMap::new();
    for event in events.iter().filter(|event| event.ph == "M") {
        if let Some(Args::Named { name }) = &event.args {
            match event.name.as_str() {
                "process_name" => names.insert((&event.pid, None), name.as_str()),
                "thread_name" => names.insert((&event.pid, Some(&event.tid)), name.as_str()),
                _ => None,
            };
        }
    }
    names
}

fn intern_thread(
    profile: &mut Profile,
    (pid, tid): (&Id, &Id),
    names: &HashMap<(&Id, Option<&Id>), &str>,
) -> ThreadId {
    let number = |id: &Id| match id {
        Id::Number(number) => i32::try_from(*number).ok(),
        Id::Text(text) => text.parse().ok(),
        Id::None => None,
    };
    let mut intern = |name: Option<&&str>| match name {
        Some(name) => profile.strings.intern(name),
        None => StringId::EMPTY,
    };
    // Chrome calls its idea of a process's name "Renderer" and the like.
    let thread = intern(names.get(&(pid, Some(tid))));
    let process = intern(names.get(&(pid, None)));
    let text = |id: &Id| match id {
        Id::Text(text) if text.parse::<i32>().is_err() => Some(text.clone()),
        _ => None,
    };
    let thread = match (thread, text(tid)) {
        (StringId::EMPTY, Some(text)) => profile.strings.intern(&text),
        (name, _) => name,
    };
    profile.threads.intern(Thread {
        pid: number(pid),
        tid: number(tid),
        process: if process.is_empty() { thread } else { process },
        name: thread,
        ..Thread::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Input;

    #[test]
    fn times_in_quotation_marks_and_nothing_for_a_number() {
        let text = r#"{"traceEvents":[{"ph":"X","name":"a","ts":"10","dur":"5.5","pid":"p","tid":1},
            {"ph":"X","name":"b","ts":20,"dur":2,"pid":null,"tid":null,"args":null},
            {"ph":"i","name":"c","ts":null}]}"#;
        let input = Input::bytes("x", text.as_bytes()).begin().expect("bytes in memory");
        let reading = ChromeTrace.read(input, &Options::default()).expect("a trace");
        assert_eq!(reading.profile.samples.total(0), 7500);
    }

    #[test]
    fn calls_that_never_end_filled_the_disk() {
        use pyrograph_profile::{LabelOptions, Tree};
        let event = |n: usize| format!(r#"{{"ph":"B","pid":1,"tid":1,"ts":{n},"name":"f"}}"#);
        let events: Vec<String> = (0..20_000).map(event).collect();
        let text = format!("[{}", events.join(","));
        let input = Input::bytes("x", text).begin().expect("bytes in memory");
        let reading = ChromeTrace.read(input, &Options::default()).expect("a trace");
        // A call's own time is in no other, and all of it is there.
        assert_eq!(reading.profile.samples.total(0), 19_999 * 1000);
        let mut folded = Vec::new();
        let tree = Tree::new(&reading.profile, &LabelOptions::default());
        crate::write_folded(&tree, &mut folded).expect("to memory");
        assert!(folded.len() < 8 << 20, "{} bytes", folded.len());
        let said: Vec<String> = reading.all_warnings().iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            ["18000 calls were inside of 2000 others: their time is that of [deeper calls]"]
        );
    }
}
