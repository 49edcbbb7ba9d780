//! Reader of the output of `jfr print --json`: a recording of JDK Flight Recorder as text.
//!
//! ```text
//! {"recording":{"events":[{"type":"jdk.ExecutionSample","values":{"startTime":"…",
//!  "sampledThread":{"javaName":"main","osThreadId":7},
//!  "stackTrace":{"truncated":false,"frames":[
//!   {"method":{"type":{"name":"java\/io\/Reader"},"name":"read"},"lineNumber":166,"type":"JIT compiled"}]}}}]}}
//! ```
//!
//! - Frames are leaf first. As in a binary recording, one event is counted: the requested one, or the first of those
//!   that [`jfr`](super::jfr) lists.
//! - Times are not read.

use std::collections::BTreeMap;

use pyrograph_profile::{Frame, FrameKind, Marker, Sample, Thread, ValueType};
use serde::Deserialize;

use super::jfr::EVENTS;
use super::json;
use super::rows::Rows;
use super::text::Collector;
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};

/// Reader of `jfr print --json` text.
pub struct JfrJson;

#[derive(Deserialize)]
struct File {
    recording: Recording,
}

#[derive(Deserialize)]
struct Recording {
    #[serde(default)]
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type", default)]
    name: String,
    #[serde(default)]
    values: Values,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Values {
    sampled_thread: Option<JavaThread>,
    event_thread: Option<JavaThread>,
    stack_trace: Option<StackTrace>,
    samples: Option<u64>,
    weight: Option<u64>,
    tlab_size: Option<u64>,
    allocation_size: Option<u64>,
    duration: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct JavaThread {
    java_name: Option<String>,
    os_name: Option<String>,
    os_thread_id: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StackTrace {
    truncated: bool,
    frames: Vec<Call>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Call {
    method: Option<Method>,
    line_number: Option<i64>,
    #[serde(rename = "type")]
    sort: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Method {
    #[serde(rename = "type")]
    class: Option<Named>,
    name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    name: Option<String>,
}

impl Reader for JfrJson {
    fn name(&self) -> &'static str {
        "jfr JSON"
    }

    fn written_by(&self) -> &'static str {
        "jfr print --json"
    }

    fn detect(&self, head: &[u8]) -> bool {
        json::begins_object(head)
            && json::has_key(head, "recording")
            && json::has_key(head, "events")
            && json::has_key(head, "values")
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let (file, warnings) = json::parse::<File>(input)?;
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for event in file.recording.events.iter().filter(|event| event.values.stack_trace.is_some())
        {
            *counts.entry(&event.name).or_default() += 1;
        }
        let wanted = options.event.as_deref();
        let first = EVENTS.iter().map(|of| of.0).find(|name| counts.contains_key(name));
        let Some(chosen) = wanted.or(first).or_else(|| counts.keys().next().copied()) else {
            let reason = "no event of the recording has a stack".to_owned();
            return Err(ReadError::Nothing { name, reason });
        };
        let others = counts.iter().filter(|&(&other, _)| other != chosen);
        let other_events = others.map(|(&other, &count)| (other.to_owned(), count)).collect();
        let known = EVENTS.iter().find(|of| of.0 == chosen);
        let &(_, field, of, unit) = known.unwrap_or(&("", "", "events", "count"));
        let mut out = Collector::new(ValueType::new(of, unit));
        let mut rows = Rows::new(options, 1);
        for event in file.recording.events.iter().filter(|event| event.name == chosen) {
            if let Some(trace) = &event.values.stack_trace {
                push(event, trace, field, &mut out, &mut rows);
            }
        }
        rows.finish(&mut out.profile);
        let event = (!out.profile.samples.is_empty()).then(|| chosen.to_owned());
        Ok(Reading { event, other_events, ..out.reading(warnings) })
    }
}

fn push(event: &Event, trace: &StackTrace, field: &str, out: &mut Collector, rows: &mut Rows) {
    for call in &trace.frames {
        frame(call, out);
    }
    if trace.truncated {
        out.marker(Marker::Truncated);
    }
    let values = &event.values;
    let value = match field {
        "" => Some(1),
        "samples" => values.samples,
        "weight" => values.weight,
        "tlabSize" => values.tlab_size,
        "allocationSize" => values.allocation_size,
        _ => values.duration.as_deref().and_then(nanoseconds),
    };
    let mut thread = Thread::default();
    if let Some(of) = values.sampled_thread.as_ref().or(values.event_thread.as_ref()) {
        let name = of.java_name.as_deref().or(of.os_name.as_deref()).unwrap_or_default();
        thread.process = out.intern(name);
        thread.tid = of.os_thread_id.and_then(|tid| i32::try_from(tid).ok());
    }
    let thread = rows.thread(&mut out.profile, thread);
    let stack = out.profile.stacks.intern_path(out.frames.drain(..).rev());
    rows.push(Sample { thread, ..Sample::new(stack) }, &[value.unwrap_or(0)]);
}

fn frame(call: &Call, out: &mut Collector) {
    let method = call.method.as_ref();
    let class =
        method.and_then(|method| method.class.as_ref()?.name.as_deref()).unwrap_or_default();
    let name = method.and_then(|method| method.name.as_deref()).unwrap_or_default();
    let name = match class {
        "" => name.to_owned(),
        class => format!("{}.{name}", class.replace('/', ".")),
    };
    let kind = match call.sort.as_deref() {
        Some("Interpreted") => FrameKind::Interpreted,
        Some("Inlined") => FrameKind::Inlined,
        Some("JIT compiled") => FrameKind::Jit,
        _ => FrameKind::User,
    };
    let function = out.intern(&name);
    let line = call.line_number.and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
    out.push_frame(Frame { line, ..Frame::named(function, kind) });
}

/// Parses a duration: `PT0.0123S`, `PT1M2.5S`, `PT1H`.
fn nanoseconds(text: &str) -> Option<u64> {
    let mut rest = text.strip_prefix("PT")?;
    let mut sum = 0.0;
    while let Some(at) = rest.find(['H', 'M', 'S']) {
        let number: f64 = rest[..at].parse().ok()?;
        sum += number
            * match rest.as_bytes()[at] {
                b'H' => 3600.0,
                b'M' => 60.0,
                _ => 1.0,
            };
        rest = &rest[at + 1..];
    }
    Some((sum * 1e9).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_java() {
        assert_eq!(nanoseconds("PT0.0123S"), Some(12_300_000));
        assert_eq!(nanoseconds("PT1H1M2.5S"), Some(3_662_500_000_000));
        assert_eq!(nanoseconds("12"), None);
    }
}
