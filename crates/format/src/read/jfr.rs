//! Reader of JDK Flight Recorder files, written by `java -XX:StartFlightRecording`, `jcmd PID JFR.dump` and
//! async-profiler (`-o jfr`).
//!
//! ```text
//! FLR\0 2.1 …                        the header of a chunk; chunks follow one another
//! jdk.ExecutionSample { startTime: 12345, sampledThread: → 7, stackTrace: → 9, state: → 3 }
//! StackTrace 9 { truncated: false, frames: [{ method: → 4, lineNumber: 6, type: → 2 }] }   leaf first
//! Method 4 { type: → 5, name: → 6 }, Class 5 { name: → 8 }, Symbol 8 { string: "java/lang/Thread" }
//! ```
//!
//! Source: the files of OpenJDK 17, which describe all their types and fields themselves ([`chunk`]); the encoding of
//! numbers and strings is that of `jdk.jfr.internal.consumer`, checked by tests.
//!
//! - Events of one type are read: the requested one, or else the first of [`EVENTS`] that is present, normally
//!   `jdk.ExecutionSample`, which samples threads that run Java code. Any event with a stack can be requested.
//! - `:STATE_RUNNABLE` after an event's name selects samples of threads in that state: wall-clock samples include all
//!   threads, and most of them sleep. If all are counted, a message says how many samples there were in each state.
//! - The value is bytes for allocations, nanoseconds for waits, and a count for all other events. If frees of native
//!   memory were recorded, the memory that was [not freed](native) is a second value.
//! - A frame is marked as interpreted, compiled or inlined.
//! - A stack that was deeper than the recorder's limit (64 frames by default, `stackdepth`) begins with
//!   `[truncated]`.
//! - Methods that Java hides from its own stack traces, for example those of lambdas, are left out, as in `jfr
//!   print`: their names contain an address.
//! - The thread's name is its Java name, or else that of the operating system.

mod chunk;
mod native;
mod states;

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};
use pyrograph_profile::{
    Frame, FrameId, FrameKind, Marker, Profile, Sample, StackId, Thread, ThreadId, ValueType,
};

use self::chunk::{Chunk, Cursor, Damaged, Value, begins_chunk};
use self::states::States;
use super::rows::Rows;
use crate::input::Head;
use crate::reader::{Count, Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of JDK Flight Recorder files.
pub struct Jfr;

/// Events with stacks: type, field with the value (empty if each event counts one), name and unit of the value.
/// Events that are not listed count one each. The first event of the list that is present is read by default.
pub(super) const EVENTS: &[(&str, &str, &str, &str)] = &[
    ("jdk.ExecutionSample", "", "samples", "count"),
    ("jdk.CPUTimeSample", "", "samples", "count"),
    ("profiler.WallClockSample", "samples", "samples", "count"),
    ("jdk.NativeMethodSample", "", "samples", "count"),
    ("jdk.ObjectAllocationSample", "weight", "alloc", "bytes"),
    ("jdk.ObjectAllocationInNewTLAB", "tlabSize", "alloc", "bytes"),
    ("jdk.ObjectAllocationOutsideTLAB", "allocationSize", "alloc", "bytes"),
    ("profiler.LiveObject", "allocationSize", "live", "bytes"),
    ("profiler.Malloc", "size", "malloc", "bytes"),
    ("jdk.JavaMonitorEnter", DURATION, "wait", "ns"),
    ("jdk.JavaMonitorWait", DURATION, "wait", "ns"),
    ("jdk.ThreadPark", DURATION, "wait", "ns"),
    ("jdk.ThreadSleep", DURATION, "wait", "ns"),
    ("datadog.ExecutionSample", "", "samples", "count"),
    ("datadog.MethodSample", "", "samples", "count"),
    ("datadog.ObjectSample", "", "samples", "count"),
];

/// The field with a duration, in ticks of the recorder's clock.
const DURATION: &str = "duration";

impl Reader for Jfr {
    fn name(&self) -> &'static str {
        "jfr"
    }

    fn written_by(&self) -> &'static str {
        "java -XX:StartFlightRecording, jcmd PID JFR.dump, asprof -o jfr"
    }

    fn detect(&self, head: &[u8]) -> bool {
        begins_chunk(head)
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let (bytes, mut warnings) = input.into_bytes();
        let mut chunks: Vec<Chunk<'_>> = Vec::new();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            match Chunk::parse(rest) {
                Ok((chunk, after)) => {
                    chunks.push(chunk);
                    rest = after;
                }
                Err(Damaged) => {
                    let cause = "a chunk that is not finished, or damaged".to_owned();
                    warnings.add(WarningKind::Truncated(cause), 1, []);
                    break;
                }
            }
        }
        if chunks.is_empty() {
            let reason = "no chunk of the recording is whole".to_owned();
            return Err(ReadError::Malformed { name, reason });
        }
        let counts = counts(&chunks);
        let (wanted, state) = match &options.event {
            Some(wanted) => states::split(wanted, &counts),
            None => (None, None),
        };
        let event = chosen(&counts, wanted);
        let mut other_events = BTreeMap::new();
        for (other, _, _, _) in EVENTS.iter().filter(|of| Some(of.0) != event.as_deref()) {
            if let Some(&count) = counts.get(*other) {
                other_events.insert((*other).to_owned(), count);
            }
        }
        let mut builder = Builder::new(event.as_deref().unwrap_or_default(), options);
        builder.states.wanted = state;
        if event.as_deref() == Some(native::MALLOC) {
            builder.separate_freed(native::not_freed(&chunks), options);
        }
        for (index, chunk) in chunks.iter().enumerate() {
            builder.chunk(index, chunk);
        }
        if builder.damaged > 0 {
            warnings.add(WarningKind::UnreadableRecord, builder.damaged, []);
        }
        let event = event
            .clone()
            .map(|event| builder.states.finish(event, &mut other_events, &mut warnings));
        Ok(Reading { profile: builder.finish(&chunks), warnings, event, other_events })
    }
}

/// Returns the number of events of each type that has stacks.
fn counts(chunks: &[Chunk<'_>]) -> HashMap<String, u64> {
    let mut counts = HashMap::new();
    for chunk in chunks {
        let mut of_chunk: HashMap<i64, u64> = HashMap::new();
        for (id, _) in chunk.events() {
            *of_chunk.entry(id).or_default() += 1;
        }
        for (id, count) in of_chunk {
            if let Some(of) = chunk.types.get(&id).filter(|of| of.has("stackTrace")) {
                *counts.entry(of.name.clone()).or_default() += count;
            }
        }
    }
    counts
}

/// Returns the event to read: `wanted`, with or without its `jdk.`, or the first of [`EVENTS`] that is present.
fn chosen(counts: &HashMap<String, u64>, wanted: Option<&str>) -> Option<String> {
    let there = |name: &str| counts.contains_key(name).then(|| name.to_owned());
    match wanted {
        Some(wanted) => there(wanted).or_else(|| there(&format!("jdk.{wanted}"))),
        None => EVENTS.iter().find_map(|of| there(of.0)),
    }
}

struct Builder<'o> {
    profile: Profile,
    rows: Rows,
    event: &'o str,
    /// The field with the value; empty if events are counted.
    field: &'static str,
    states: States,
    /// For native memory, the allocations that were not freed, which are the second value.
    not_freed: Option<HashSet<native::Place>>,
    damaged: u64,
}

/// Results of earlier lookups in a chunk, by the keys of its constant pools.
#[derive(Default)]
struct Known {
    stacks: HashMap<i64, StackId>,
    /// The frame of each method and frame type; `None` if the method is hidden.
    frames: HashMap<(i64, i64), Result<Option<FrameId>, Damaged>>,
    threads: HashMap<i64, ThreadId>,
    states: HashMap<i64, String>,
}

impl<'o> Builder<'o> {
    fn new(event: &'o str, options: &Options) -> Self {
        let known = EVENTS.iter().find(|of| of.0 == event);
        let &(_, field, name, unit) = match (known, options.count) {
            (Some(known), Count::Period) => known,
            (Some(_), Count::Samples) => &("", "", "samples", "count"),
            (None, _) => &("", "", "events", "count"),
        };
        let profile = Profile::new(vec![ValueType::new(name, unit)]);
        Self {
            profile,
            rows: Rows::new(options, 1),
            event,
            field,
            states: States::default(),
            not_freed: None,
            damaged: 0,
        }
    }

    /// Adds a second value for memory that was not freed, if that is known.
    fn separate_freed(&mut self, not_freed: Option<HashSet<native::Place>>, options: &Options) {
        if not_freed.is_none() {
            return;
        }
        self.not_freed = not_freed;
        let unit = self.profile.value_types[0].unit.clone();
        self.profile.value_types.push(ValueType::new("not freed", &unit));
        self.profile = Profile::new(std::mem::take(&mut self.profile.value_types));
        self.rows = Rows::new(options, 2);
    }

    fn chunk(&mut self, index: usize, chunk: &Chunk<'_>) {
        let of_event = chunk.types.iter().find(|(_, of)| of.name == self.event);
        let Some((&of_event, _)) = of_event else { return };
        let mut known = Known::default();
        for (_, cursor) in chunk.events().filter(|(id, _)| *id == of_event) {
            let place = (index, cursor.at);
            let is_left = self.not_freed.as_ref().is_some_and(|left| left.contains(&place));
            if self.sample(chunk, of_event, cursor, &mut known, is_left).is_err() {
                self.damaged += 1;
            }
        }
    }

    fn sample<'a>(
        &mut self,
        chunk: &Chunk<'a>,
        of: i64,
        mut cursor: Cursor<'a>,
        known: &mut Known,
        is_left: bool,
    ) -> Result<(), Damaged> {
        let (mut time, mut value) = (0, 1);
        let (mut stack, mut thread, mut state) = (None, None, None);
        chunk.fields(of, &mut cursor, &mut |field, held| match (field.name.as_str(), held) {
            ("startTime", Value::Number(ticks)) => time = ticks,
            ("stackTrace", Value::Constant(key)) => stack = Some((field.type_id, key)),
            ("sampledThread" | "eventThread", Value::Constant(key)) => {
                thread = Some((field.type_id, key));
            }
            ("state", Value::Constant(key)) => state = Some((field.type_id, key)),
            (name, Value::Number(number)) if name == self.field => value = number,
            _ => {}
        })?;
        let value = match self.field {
            DURATION => chunk.clock().nanoseconds(value),
            _ => u64::try_from(value).map_err(|_| Damaged)?,
        };
        if let Some((of, key)) = state {
            let name = known.states.entry(key).or_insert_with(|| {
                texts(chunk, (of, key), ["name"]).map_or_else(String::new, |[name]| name)
            });
            // A wall-clock event represents several consecutive samples with the same result.
            if !self.states.takes(name, value) {
                return Ok(());
            }
        }
        let thread = match thread {
            Some((of, key)) => self.thread(chunk, of, key, known)?,
            None => ThreadId::UNKNOWN,
        };
        let stack = match stack {
            // Threads that have ended, and compiler threads, have no stack.
            None | Some((_, 0)) => StackId::ROOT,
            Some((of, key)) => self.stack(chunk, of, key, known)?,
        };
        let sample = Sample { thread, time: Some(chunk.clock().time(time)), ..Sample::new(stack) };
        let values = [value, if is_left { value } else { 0 }];
        self.rows.push(sample, &values[..self.profile.value_types.len()]);
        Ok(())
    }

    fn stack<'a>(
        &mut self,
        chunk: &Chunk<'a>,
        of: i64,
        key: i64,
        known: &mut Known,
    ) -> Result<StackId, Damaged> {
        if let Some(&stack) = known.stacks.get(&key) {
            return Ok(stack);
        }
        let mut cursor = chunk.constant(of, key).ok_or(Damaged)?;
        let (mut is_truncated, mut frames) = (false, None);
        chunk.fields(of, &mut cursor, &mut |field, held| match (field.name.as_str(), held) {
            ("truncated", Value::Number(truncated)) => is_truncated = truncated != 0,
            ("frames", Value::Array(array)) => frames = Some((field.type_id, array)),
            _ => {}
        })?;
        let (of, array) = frames.ok_or(Damaged)?;
        // The method and the frame type of each frame, with the IDs of their types.
        let mut parts: Vec<[(i64, i64); 2]> = Vec::new();
        chunk.elements(of, array, &mut |index, field, held| {
            if parts.len() <= index {
                parts.push([(0, 0); 2]);
            }
            match (field.name.as_str(), held) {
                ("method", Value::Constant(key)) => parts[index][0] = (field.type_id, key),
                ("type", Value::Constant(key)) => parts[index][1] = (field.type_id, key),
                _ => {}
            }
        })?;
        let mut path = Vec::with_capacity(parts.len() + 1);
        if is_truncated {
            path.push(self.frame(Marker::Truncated.label(), FrameKind::Marker(Marker::Truncated)));
        }
        for [method, sort] in parts.into_iter().rev() {
            let place = (method.1, sort.1);
            let frame =
                *known.frames.entry(place).or_insert_with(|| self.method(chunk, method, sort));
            path.extend(frame?);
        }
        let stack = self.profile.stacks.intern_path(path);
        known.stacks.insert(key, stack);
        Ok(stack)
    }

    fn frame(&mut self, name: &str, kind: FrameKind) -> FrameId {
        let function = self.profile.strings.intern(name);
        self.profile.frames.intern(Frame::named(function, kind))
    }

    /// Interns the frame of a method, named like `java.lang.Thread.run`; `None` if the method is hidden.
    fn method(
        &mut self,
        chunk: &Chunk<'_>,
        method: (i64, i64),
        sort: (i64, i64),
    ) -> Result<Option<FrameId>, Damaged> {
        let mut cursor = chunk.constant(method.0, method.1).ok_or(Damaged)?;
        let mut is_hidden = false;
        chunk.fields(method.0, &mut cursor, &mut |field, held| {
            if let ("hidden", Value::Number(hidden)) = (field.name.as_str(), held) {
                is_hidden = hidden != 0;
            }
        })?;
        if is_hidden {
            return Ok(None);
        }
        let [class, name] = texts(chunk, method, ["type", "name"]).ok_or(Damaged)?;
        let name = match &*class {
            "" => name,
            class => format!("{}.{name}", class.replace('/', ".")),
        };
        let [sort] = texts(chunk, sort, ["description"]).ok_or(Damaged)?;
        let kind = match &*sort {
            "Interpreted" => FrameKind::Interpreted,
            "Inlined" => FrameKind::Inlined,
            "Native" | "C++" => FrameKind::User,
            "Kernel" => FrameKind::Kernel,
            // `JIT compiled`, `C1 compiled`.
            _ => FrameKind::Jit,
        };
        Ok(Some(self.frame(&name, kind)))
    }

    fn thread(
        &mut self,
        chunk: &Chunk<'_>,
        of: i64,
        key: i64,
        known: &mut Known,
    ) -> Result<ThreadId, Damaged> {
        if let Some(&thread) = known.threads.get(&key) {
            return Ok(thread);
        }
        let Some(mut cursor) = chunk.constant(of, key) else { return Ok(ThreadId::UNKNOWN) };
        let (mut java, mut system, mut tid) = (String::new(), String::new(), None);
        chunk.fields(of, &mut cursor, &mut |field, held| match (field.name.as_str(), held) {
            ("javaName", Value::Text(name)) => java = name,
            ("osName", Value::Text(name)) => system = name,
            ("osThreadId", Value::Number(number)) => tid = i32::try_from(number).ok(),
            _ => {}
        })?;
        let process = self.profile.strings.intern(if java.is_empty() { &system } else { &java });
        let thread = Thread { process, tid, ..Thread::default() };
        let thread = self.rows.thread(&mut self.profile, thread);
        known.threads.insert(key, thread);
        Ok(thread)
    }

    fn finish(mut self, chunks: &[Chunk<'_>]) -> Profile {
        self.rows.finish(&mut self.profile);
        let start = chunks.iter().map(|chunk| chunk.clock().start).min();
        let end = chunks.iter().map(|chunk| {
            let clock = chunk.clock();
            clock.start.saturating_add(clock.duration)
        });
        self.profile.about.start = start;
        self.profile.about.duration =
            end.max().zip(start).map(|(end, start)| end.saturating_sub(start));
        self.profile
    }
}

/// Returns the strings in the named fields of a constant: inline strings, or those of the constants that the fields
/// refer to, found by following their fields `name` and `string`.
fn texts<const COUNT: usize>(
    chunk: &Chunk<'_>,
    (of, key): (i64, i64),
    names: [&str; COUNT],
) -> Option<[String; COUNT]> {
    let mut found = [const { String::new() }; COUNT];
    let mut constants = [None; COUNT];
    chunk
        .fields(of, &mut chunk.constant(of, key)?, &mut |field, held| {
            let Some(index) = names.iter().position(|name| *name == field.name) else { return };
            match held {
                Value::Text(text) => found[index] = text,
                Value::Constant(key) => constants[index] = Some((field.type_id, key)),
                _ => {}
            }
        })
        .ok()?;
    for (text, constant) in found.iter_mut().zip(constants) {
        // A class has a name, which is a symbol, which has a string.
        let mut next = constant;
        for _ in 0..3 {
            let Some((of, key)) = next.take().filter(|(_, key)| *key != 0) else { break };
            let Some(mut cursor) = chunk.constant(of, key) else { break };
            let on_field = &mut |field: &chunk::Field, held| match (field.name.as_str(), held) {
                ("string", Value::Text(string)) => *text = string,
                ("name", Value::Constant(key)) => next = Some((field.type_id, key)),
                _ => {}
            };
            chunk.fields(of, &mut cursor, on_field).ok()?;
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{LabelOptions, Tree};
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::{Input, write_folded};

    const RECORDED: &[u8] = include_bytes!("../../tests/formats/jfr/spin.jfr.zst");

    /// As the JDK wrote it, decompressed.
    fn recorded() -> Vec<u8> {
        Input::bytes("x", RECORDED).begin().expect("bytes in memory").into_bytes().0
    }

    fn read(bytes: &[u8], event: Option<&str>) -> Result<Reading, ReadError> {
        let options = Options { event: event.map(str::to_owned), ..Options::default() };
        Jfr.read(Input::bytes("x", bytes).begin().expect("bytes in memory"), &options)
    }

    #[test]
    fn any_event_with_a_stack_can_be_asked_for() {
        let reading = read(&recorded(), Some("ObjectAllocationSample")).expect("a recording");
        assert_eq!(reading.event.as_deref(), Some("jdk.ObjectAllocationSample"));
        assert_eq!(reading.profile.value_types[0], ValueType::new("alloc", "bytes"));
        let mut folded = Vec::new();
        let tree = Tree::new(&reading.profile, &LabelOptions::default());
        write_folded(&tree, &mut folded).expect("writing to memory");
        let folded = String::from_utf8_lossy(&folded);
        assert!(folded.contains("main;Spin.main "), "{folded}");
    }

    #[test]
    fn samples_were_counted_as_bytes() {
        let event = Some("ObjectAllocationSample".to_owned());
        let options = Options { event, count: Count::Samples, ..Options::default() };
        let head = Input::bytes("x", recorded()).begin().expect("bytes in memory");
        let profile = Jfr.read(head, &options).expect("a recording").profile;
        assert_eq!(profile.value_types[0], ValueType::samples());
        let bytes = read(&recorded(), Some("ObjectAllocationSample")).expect("a recording").profile;
        let samples = profile.samples.total(0);
        assert!(samples > 0 && samples < bytes.samples.total(0), "{samples}");
    }

    #[test]
    fn chunks_follow_one_another_and_the_last_may_be_cut() {
        let once = recorded();
        let samples = |bytes: &[u8]| {
            let reading = read(bytes, None).expect("a recording");
            (reading.profile.samples.total(0), reading.warnings.any_loss())
        };
        assert_eq!(samples(&once), (138, false));
        let twice = [once.clone(), once.clone()].concat();
        assert_eq!(samples(&twice), (276, false));
        assert_eq!(samples(&twice[..twice.len() - 1]), (138, true));
        assert!(read(&once[..1000], None).is_err());
    }

    #[test]
    fn damage_is_survived() {
        let whole = recorded();
        let mut generator = StdRng::seed_from_u64(7);
        let mut random = |below: usize| generator.random_range(0..below);
        for _ in 0..200 {
            let mut bytes = whole.clone();
            for _ in 0..1 + random(20) {
                let at = random(bytes.len());
                bytes[at] = random(256) as u8;
            }
            let _ = read(&bytes, None);
        }
    }
}
