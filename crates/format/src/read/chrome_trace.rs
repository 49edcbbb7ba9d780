//! Reader of Chrome's trace event format, written by `chrome://tracing`, Perfetto, node, clang's `-ftime-trace` and
//! many programs for their own purposes.
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
//! - The list may be at the top level, without the surrounding object, and may be unterminated: a program that
//!   crashed never wrote its end.
//! - Events are in any order. Complete events (`X`) and pairs of `B` and `E` of one thread nest by time; an `E` ends
//!   the innermost open `B` with its name, or, if it has no name, the innermost of all.
//! - `B` and `E` with the same timestamp keep the file's order, so that a call may begin and end at the same time.
//! - Complete events that overlap without nesting are both kept: the outer one leaves the stack when it ends,
//!   and the inner one continues.
//! - A call that never ends lasts until its thread's last event.
//! - Asynchronous events (`b`, `e`, `S`, `F` …) belong to no thread's stack, and are reported as left out. Counters,
//!   instants and flows have no duration.
//! - If there are samples as well ([`samples`]), they are shown, and calls are reported as the other event.

mod samples;

use std::collections::BTreeMap;
use std::fmt;

use hashbrown::HashMap;
use pyrograph_profile::{Frame, FrameKind, Profile, StringId, Thread, ThreadId, ValueType};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use self::samples::{Args, Beside, Loose};
use super::calls::Calls;
use super::cpuprofile::nanoseconds;
use super::json;
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};

/// Reader of Chrome traces.
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

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let text = json::text(input)?;
        let mut file = File::default();
        let mut warnings = Warnings::default();
        let mut json = serde_json::Deserializer::from_slice(&text);
        if let Err(error) = Whole(&mut file).deserialize(&mut json) {
            if file.events.is_empty() {
                return Err(ReadError::Malformed { name, reason: error.to_string() });
            }
            // The format permits a list without an end.
            if !error.is_eof() || text.trim_ascii_start().first() != Some(&b'[') {
                warnings.add(WarningKind::Truncated(error.to_string()), 1, []);
            }
        }
        build(file, warnings, options.event.as_deref()).ok_or_else(|| ReadError::Nothing {
            name,
            reason: "the trace has no events with a duration (B and E, or X), and no samples"
                .to_owned(),
        })
    }
}

/// Name of the event for samples, if the trace also has calls.
const SAMPLES: &str = "CPU samples";
/// Name of the event for calls, if the trace also has samples.
const CALLS: &str = "calls";

/// The contents of a trace.
#[derive(Default)]
struct File {
    events: Vec<Event>,
    beside: Beside,
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
    /// Duration by the thread's CPU clock, used if `dur` is missing.
    #[serde(default, deserialize_with = "json::number")]
    tdur: f64,
    #[serde(default)]
    id: Id,
    #[serde(default)]
    args: Loose<Args>,
}

/// A number, which some programs write as a string.
#[derive(Clone, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(from = "Written")]
enum Id {
    Number(i64),
    Text(String),
    #[default]
    None,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(i64),
    Text(String),
    None(IgnoredAny),
}

impl From<Written> for Id {
    fn from(written: Written) -> Self {
        match written {
            Written::Number(number) => Self::Number(number),
            Written::Text(text) => text.parse().map_or(Self::Text(text), Self::Number),
            Written::None(_) => Self::None,
        }
    }
}

/// Visitor of the list of events, at the top level or in an object; collects events as it goes, so that those before
/// an error are kept.
struct Whole<'a>(&'a mut File);

impl<'de> DeserializeSeed<'de> for Whole<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Whole<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of trace events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(event) = list.next_element()? {
            self.0.events.push(event);
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "traceEvents" => map.next_value_seed(Whole(&mut *self.0))?,
                "samples" => self.0.beside.samples = map.next_value()?,
                "stackFrames" => self.0.beside.frames = map.next_value()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Begin or end of a call: time and event.
struct Edge {
    time: u64,
    /// Order of edges with the same time: first ends of complete events, inner before outer, then `B` and `E` in the
    /// file's order, then begins of complete events, longer before shorter.
    order: (u8, std::cmp::Reverse<u64>),
    event: usize,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    Call,
    /// End of a complete event.
    EndOf,
    /// End of a call that began with `B`.
    End,
}

fn build(file: File, mut warnings: Warnings, wanted: Option<&str>) -> Option<Reading> {
    let File { mut events, beside } = file;
    let names = names(&events);
    let of_time = || Profile::new(vec![ValueType::new("time", "ns")]);
    let (mut calls, mut samples) = (of_time(), of_time());
    let unused = samples::add(&mut samples, &mut events, beside, &names);
    let mut other_events = BTreeMap::new();
    add_calls(&mut calls, &events, &names, &mut warnings, &mut other_events);
    let (has_calls, has_samples) = (!calls.samples.is_empty(), !samples.samples.is_empty());
    if unused > 0 {
        warnings.add(WarningKind::UnreadableSample, unused, []);
    }
    let shows_samples = has_samples && (wanted != Some(CALLS) || !has_calls);
    let (profile, event, other) = match shows_samples {
        true => (samples, SAMPLES, (CALLS, calls)),
        false => (calls, CALLS, (SAMPLES, samples)),
    };
    let event = (has_calls && has_samples).then(|| {
        other_events.insert(other.0.to_owned(), other.1.samples.len() as u64);
        event.to_owned()
    });
    (has_calls || has_samples).then(|| Reading {
        event,
        other_events,
        ..Reading::new(profile, warnings)
    })
}

/// Adds the self time of all calls.
fn add_calls(
    profile: &mut Profile,
    events: &[Event],
    names: &Names,
    warnings: &mut Warnings,
    other_events: &mut BTreeMap<String, u64>,
) {
    let mut threads: Vec<(&Id, &Id)> = Vec::new();
    let mut place: HashMap<(&Id, &Id), usize> = HashMap::new();
    let mut edges: Vec<Vec<Edge>> = Vec::new();
    let mut asynchronous = 0u64;
    for (index, event) in events.iter().enumerate() {
        let begin = nanoseconds(event.ts);
        let duration = if event.dur > 0.0 { event.dur } else { event.tdur };
        let end = nanoseconds(event.ts + duration);
        let edge = |time, order, what| Edge { time, order, event: index, what };
        let call = edge(begin, (2, std::cmp::Reverse(end)), What::Call);
        let added: Vec<Edge> = match event.ph.as_str() {
            // A call without a duration has no time to show.
            "X" if end <= begin => Vec::new(),
            "X" => vec![call, edge(end, (0, std::cmp::Reverse(begin)), What::EndOf)],
            "B" => vec![edge(begin, (1, std::cmp::Reverse(0)), What::Call)],
            "E" => vec![edge(begin, (1, std::cmp::Reverse(0)), What::End)],
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
        // The sort is stable: other events with the same time keep the file's order.
        edges.sort_by_key(|edge| (edge.time, edge.order));
        let thread = intern_thread(profile, thread, names);
        let (no_begin, deep) = replay(profile, thread, &edges, events);
        unmatched += no_begin;
        too_deep += deep;
    }
    if asynchronous > 0 {
        other_events.insert("asynchronous (b, e, S, F …)".to_owned(), asynchronous);
    }
    if unmatched > 0 {
        warnings.add(WarningKind::UnmatchedEnd, unmatched, []);
    }
    if too_deep > 0 {
        warnings.add(WarningKind::TooDeep, too_deep, []);
    }
}

/// Replays the edges of one thread; returns the number of ends without a begin, and the number of calls that were too
/// deep to be shown.
fn replay(profile: &mut Profile, thread: ThreadId, edges: &[Edge], events: &[Event]) -> (u64, u64) {
    /// Flag in the token of calls that began with `B`, next to the function; the token of other calls is the event's
    /// index.
    const BEGUN: u64 = 1 << 63;
    let mut calls = Calls::new(thread);
    let mut unmatched = 0;
    for edge in edges {
        let event = &events[edge.event];
        let name = if event.name.is_empty() { "(unnamed)" } else { &event.name };
        let matched = match edge.what {
            What::Call => {
                let function = profile.strings.intern(name);
                let frame = profile.frames.intern(Frame::named(function, FrameKind::User));
                let begun = BEGUN | function.index() as u64;
                let token = if event.ph == "B" { begun } else { edge.event as u64 };
                calls.call(profile, edge.time, frame, token);
                true
            }
            What::EndOf => calls.end_token(profile, edge.time, edge.event as u64),
            What::End if event.name.is_empty() => {
                calls.end_where(profile, edge.time, |token| token & BEGUN != 0)
            }
            What::End => match profile.strings.find(name) {
                Some(function) => {
                    calls.end_token(profile, edge.time, BEGUN | function.index() as u64)
                }
                None => false,
            },
        };
        unmatched += u64::from(!matched);
    }
    (unmatched, calls.too_deep)
}

/// Names of processes (without a thread) and threads.
type Names = HashMap<(Id, Option<Id>), String>;

/// Collects the names from metadata events.
fn names(events: &[Event]) -> Names {
    let mut names = Names::new();
    for event in events.iter().filter(|event| event.ph == "M") {
        let name = event.args.known().and_then(|args| args.name.known());
        let thread = match event.name.as_str() {
            "process_name" => None,
            "thread_name" => Some(event.tid.clone()),
            _ => continue,
        };
        if let Some(name) = name {
            names.insert((event.pid.clone(), thread), name.clone());
        }
    }
    names
}

fn intern_thread(profile: &mut Profile, (pid, tid): (&Id, &Id), names: &Names) -> ThreadId {
    let number = |id: &Id| match id {
        Id::Number(number) => i32::try_from(*number).ok(),
        Id::Text(text) => text.parse().ok(),
        Id::None => None,
    };
    let mut intern = |name: Option<&String>| match name {
        Some(name) => profile.strings.intern(name),
        None => StringId::EMPTY,
    };
    // In Chrome, a process's name is its role, such as "Renderer".
    let thread = intern(names.get(&(pid.clone(), Some(tid.clone()))));
    let process = intern(names.get(&(pid.clone(), None)));
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

    fn read(text: &str, options: &Options) -> (String, Reading) {
        use pyrograph_profile::{LabelOptions, Tree};
        let input = Input::bytes("x", text.as_bytes()).begin().expect("bytes in memory");
        let reading = ChromeTrace.read(input, options).expect("a trace");
        let mut folded = Vec::new();
        let tree = Tree::new(&reading.profile, &LabelOptions::default());
        crate::write_folded(&tree, &mut folded).expect("to memory");
        (String::from_utf8_lossy(&folded).into_owned(), reading)
    }

    /// Events of one thread: `X A 0 10` (begin, duration), `B A 0`, `E A 5`, `E - 5`.
    fn check(events: &str, expect: &str, warnings: &[&str]) {
        let event = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let name = if words[1] == "-" { "" } else { words[1] };
            let duration = words.get(3).copied().unwrap_or("0");
            format!(
                r#"{{"ph":"{}","name":"{name}","ts":{},"dur":{duration},"pid":1,"tid":1}}"#,
                words[0], words[2]
            )
        };
        let events: Vec<String> = events.split(", ").map(event).collect();
        let (folded, reading) = read(&format!("[{}]", events.join(",")), &Options::default());
        assert_eq!(folded.replace("000\n", "\n"), expect);
        let said: Vec<String> = reading.all_warnings().iter().map(ToString::to_string).collect();
        assert_eq!(said, warnings);
    }

    #[test]
    fn calls_that_take_no_time_never_ended() {
        check("X A 0 10, X D 3 0, X B 20 10, X C 22 5", "A 10\nB 5\nB;C 5\n", &[]);
        check("B A 0, B D 3, E D 3, E A 10, B D 12, E D 12, X B 20 10", "A 10\nB 10\n", &[]);
        // One ends where the next one begins.
        check("B A 0, E A 5, B A 5, B C 6, E C 7, E A 9", "A 8\nA;C 1\n", &[]);
        check("X A 0 5, X B 5 5, B C 10, X D 10 1, E C 12", "A 5\nB 5\nC 1\nC;D 1\n", &[]);
    }

    #[test]
    fn a_call_with_only_the_time_of_its_thread_was_dropped() {
        let text = r#"[{"ph":"X","name":"a","ts":1,"tdur":4,"pid":1,"tid":1}]"#;
        assert_eq!(read(text, &Options::default()).0, "a 4000\n");
    }

    #[test]
    fn an_end_closes_no_call_of_another_name() {
        let skipped = "1 end of calls that begin nowhere was skipped";
        check("B A 0, E C 2, E A 10", "A 10\n", &[skipped]);
        check("B A 0, B B 1, E A 5, E B 7", "A 1\nA;B 4\nB 2\n", &[]);
        check("B A 0, B B 1, E - 5, E - 7", "A 3\nA;B 4\n", &[]);
        check(
            "B A 0, B B 1, B A 2, E A 5, E - 7, E A 8, E A 9",
            "A 2\nA;B 3\nA;B;A 3\n",
            &[skipped],
        );
    }

    const PROFILE: &str = r#"
        {"ph":"M","name":"thread_name","pid":7,"tid":9,"args":{"name":"main"}},
        {"ph":"P","name":"Profile","pid":7,"tid":9,"id":"0x1","ts":1000,"args":{"data":{"startTime":1000}}},
        {"ph":"P","name":"ProfileChunk","pid":7,"tid":33,"id":"0x1","ts":4000,"args":{"data":{"cpuProfile":
            {"nodes":[{"id":1,"callFrame":{"functionName":"(root)"}},
                      {"id":2,"parent":1,"callFrame":{"functionName":"click","url":"a.js","lineNumber":3}}],
             "samples":[2,2]},"timeDeltas":[0,1000]}}},
        {"ph":"P","name":"ProfileChunk","pid":7,"tid":33,"id":"0x1","ts":6000,"args":{"data":{"cpuProfile":
            {"nodes":[{"id":3,"parent":2,"callFrame":{"functionName":"draw"}}],"samples":[3]},
             "timeDeltas":[1000]}}},
        {"ph":"P","name":"ProfileChunk","pid":7,"tid":33,"id":"0x1","ts":6000,"args":{"data":{"endTime":5000}}}"#;

    #[test]
    fn cpu_profiles_in_pieces_were_dropped() {
        let only = format!(r#"{{"traceEvents":[{PROFILE}]}}"#);
        let (folded, reading) = read(&only, &Options::default());
        assert_eq!(folded, "main;click 2000000\nmain;click;draw 2000000\n");
        assert!(reading.event.is_none() && reading.other_events.is_empty());
        let call = r#"{"ph":"X","name":"RunTask","ts":1,"dur":2,"pid":7,"tid":9}"#;
        let both = format!(r#"{{"traceEvents":[{call},{PROFILE}]}}"#);
        let (folded, reading) = read(&both, &Options::default());
        assert_eq!(folded, "main;click 2000000\nmain;click;draw 2000000\n");
        assert_eq!(reading.event.as_deref(), Some(SAMPLES));
        assert_eq!(reading.other_events, BTreeMap::from([(CALLS.to_owned(), 1)]));
        let wanted = Options { event: Some(CALLS.to_owned()), ..Options::default() };
        assert_eq!(read(&both, &wanted).0, "main;RunTask 2000\n");
        assert_eq!(crate::detect(both.as_bytes()).map(Reader::name), Some("Chrome trace"));
    }

    #[test]
    fn samples_beside_the_events_were_dropped() {
        let text = r#"{"traceEvents":[],"samples":[
            {"pid":1,"tid":"2","ts":"10","sf":2},{"pid":1,"tid":2,"ts":15,"sf":3},
            {"pid":1,"tid":2,"ts":"16","sf":9},{"pid":1,"tid":2,"ts":18,"sf":"1"},
            {"pid":1,"tid":2,"ts":20,"sf":4}],
            "stackFrames":{"1":{"name":"main"},"2":{"name":"work","parent":1},
                           "3":{"name":"a","parent":4},"4":{"name":"b","parent":"3"}}}"#;
        let (folded, reading) = read(text, &Options::default());
        assert_eq!(folded, "b;a 1000\nmain 2000\nmain;work 5000\n");
        let said: Vec<String> = reading.all_warnings().iter().map(ToString::to_string).collect();
        assert_eq!(said, ["1 sample was skipped: no readable first line"]);
        // What only has these names is no obstacle.
        let other = r#"{"traceEvents":[{"ph":"X","name":"a","ts":1,"dur":1,"args":{"data":[1],"name":{}}}],
            "samples":7,"stackFrames":[]}"#;
        assert_eq!(read(other, &Options::default()).0, "a 1000\n");
    }

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
