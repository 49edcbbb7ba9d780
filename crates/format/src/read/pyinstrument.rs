//! Reader of pyinstrument's JSON (`-r json`) and sessions (`-r session`, `.pyisession`); pyinstrument is a sampling
//! profiler of Python.
//!
//! ```text
//! {"start_time": 1795383744.498,"duration": 0.508,"sample_count": 16,…,"root_frame":
//!  {"function": "<module>","file_path": "work.py","line_no": 1,"time": 0.489,"children": [
//!   {"function": "price",…,"time": 0.298,"children": [],"class_name": "Shop"}]}}
//!
//! {"start_time": 1795383746.354, …, "start_call_stack": […], "frame_records":
//!  [[["MainThread\u0000<thread>\u0000139656687844224", "price\u0000work.py\u00006\u0001cShop\u0001l7"], 0.037], …]}
//! ```
//!
//! Source: `renderers/jsonrenderer.py`, `session.py` and `frame.py` of pyinstrument. Values are wall-clock time.
//!
//! - Times in JSON include callees: the part that a frame's callees do not account for is its self time. pyinstrument
//!   itself has already removed frames there that it considers irrelevant.
//! - A session has all stacks as sampled, including those of pyinstrument and of Python's startup. A frame's
//!   function, file and first line are separated by NUL; class (`c`) and line (`l`) follow U+0001.
//! - `[self]`, `[await]` and the like are pyinstrument's names, and are kept.

use pyrograph_profile::{
    Frame, FrameId, FrameKind, Marker, Profile, Sample, Thread, ThreadId, ValueType,
};
use serde::Deserialize;
use struson::reader::ReaderError;

use super::json;
use super::json_tree::{self, Tokens};
use super::rows::Rows;
use super::text::Collector;
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};

/// Reader of pyinstrument files.
pub struct Pyinstrument;

impl Reader for Pyinstrument {
    fn name(&self) -> &'static str {
        "pyinstrument"
    }

    fn written_by(&self) -> &'static str {
        "pyinstrument -r json, pyinstrument -r session"
    }

    fn detect(&self, head: &[u8]) -> bool {
        json::begins_object(head)
            && json::has_key(head, "sample_count")
            && json::has_key(head, "cpu_time")
            && (json::has_key(head, "root_frame") || is_session(head))
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let reading = match is_session(input.bytes()) {
            true => session(input, options)?,
            false => tree(input, options),
        };
        if reading.profile.samples.is_empty() && !reading.warnings.any_loss() {
            let reason = "no stack was sampled while it was recorded".to_owned();
            return Err(ReadError::Nothing { name, reason });
        }
        Ok(reading)
    }
}

fn is_session(head: &[u8]) -> bool {
    json::has_key(head, "start_call_stack")
}

fn collector() -> Collector {
    let mut out = Collector::new(ValueType::samples());
    out.profile = Profile::new(vec![ValueType::new("wall", "ns")]);
    out
}

/// Converts seconds to nanoseconds. Negative numbers and NaN become 0, because `as` saturates.
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

fn tree(input: Head, options: &Options) -> Reading {
    let (nodes, mut warnings) =
        json_tree::read::<Call>(input, "root_frame", "children", Call::field);
    let mut own: Vec<u64> = nodes.iter().map(|node| nanoseconds(node.fields.time)).collect();
    for node in &nodes {
        if let Some(caller) = node.caller {
            // The sum of rounded times may exceed the rounded sum.
            own[caller] = own[caller].saturating_sub(nanoseconds(node.fields.time));
        }
    }
    let mut out = collector();
    let stacks =
        json_tree::stacks(&nodes, &mut out, &mut warnings, |call, out| Some(call.frame(out)));
    let mut rows = Rows::new(options, 1);
    for (stack, time) in stacks.into_iter().zip(own).filter(|&(_, time)| time > 0) {
        rows.push(Sample::new(stack), &[time]);
    }
    rows.finish(&mut out.profile);
    out.reading(warnings)
}

/// A frame, common to both formats.
#[derive(Default)]
struct Call {
    function: String,
    class: String,
    file: String,
    line: u32,
    time: f64,
}

impl Call {
    fn field(&mut self, name: &str, tokens: &mut Tokens) -> Result<bool, ReaderError> {
        match name {
            "function" => self.function = json_tree::text(tokens)?,
            "class_name" => self.class = json_tree::text(tokens)?,
            "file_path" => self.file = json_tree::text(tokens)?,
            "line_no" => self.line = json_tree::number(tokens)? as u32,
            "time" => self.time = json_tree::number(tokens)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Parses `price\0work.py\06\u{1}cShop\u{1}l7`.
    fn of(identifier: &str) -> Self {
        let mut parts = identifier.split('\u{1}');
        let mut place = parts.next().unwrap_or_default().split('\0').map(str::to_owned);
        let (function, file, line) = (place.next(), place.next(), place.next());
        let class = parts.find_map(|part| part.strip_prefix('c')).unwrap_or_default();
        Self {
            function: function.unwrap_or_default(),
            class: class.to_owned(),
            file: file.unwrap_or_default(),
            line: line.and_then(|line| line.parse().ok()).unwrap_or(0),
            time: 0.0,
        }
    }

    fn frame(&self, out: &mut Collector) -> FrameId {
        let name = match self.class.as_str() {
            "" => self.function.clone(),
            class => format!("{class}.{}", self.function),
        };
        let (file, kind) = match self.file.as_str() {
            "<built-in>" => ("", FrameKind::User),
            "" if name.starts_with('[') => ("", FrameKind::Marker(Marker::Remark)),
            file => (file, FrameKind::Interpreted),
        };
        let (function, file) = (out.intern(&name), out.intern(file));
        let named = Frame { start_line: self.line, ..Frame::named(function, kind) };
        let frame = Frame { file, module: file, line: self.line, ..named };
        out.profile.frames.intern(frame)
    }
}

#[derive(Deserialize)]
struct Session {
    #[serde(default)]
    frame_records: Vec<(Vec<String>, f64)>,
}

fn session(input: Head, options: &Options) -> Result<Reading, ReadError> {
    let (session, warnings) = json::parse::<Session>(input)?;
    let mut out = collector();
    let mut rows = Rows::new(options, 1);
    for (stack, time) in &session.frame_records {
        let mut thread = ThreadId::UNKNOWN;
        for identifier in stack {
            let call = Call::of(identifier);
            if call.file == "<thread>" {
                let process = out.intern(&call.function);
                thread = rows.thread(&mut out.profile, Thread { process, ..Thread::default() });
                continue;
            }
            let frame = call.frame(&mut out);
            out.frames.push(frame);
        }
        let stack = out.profile.stacks.intern_path(out.frames.drain(..));
        rows.push(Sample { thread, ..Sample::new(stack) }, &[nanoseconds(*time)]);
    }
    rows.finish(&mut out.profile);
    Ok(out.reading(warnings))
}
