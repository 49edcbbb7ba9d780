//! Reader of Gecko profiles, written by Firefox's built-in sampler (`MOZ_PROFILER_SHUTDOWN`, "Save as raw"), and of
//! the recordings of Firefox's older developer tools (up to version 88), which contain one.
//!
//! ```text
//! {"meta":{"version":24,"startTime":1602543758734.8,"interval":1,"stackwalk":1,"processType":0, …},
//!  "libs":[{"start":140245,"end":140300,"offset":0,"path":"/usr/lib/firefox/libxul.so","codeId":"3ac1…"}],
//!  "threads":[{"name":"GeckoMain","processName":"Parent Process","pid":7,"tid":7,
//!    "samples":{"schema":{"stack":0,"time":1},"data":[[1,3.9],[null,4.9]]},
//!    "stackTable":{"schema":{"prefix":0,"frame":1},"data":[[null,0],[0,1]]},
//!    "frameTable":{"schema":{"location":0,"relevantForJS":1,"line":5},"data":[[0],[1,true,null,null,null,12]]},
//!    "stringTable":["(root)","f (https://example.org/a.js:12:7)"]}],
//!  "processes":[{"meta":…,"libs":…,"threads":…}]}
//! {"label":"","duration":513.3,"markers":[],"profile":{…},"fileType":"Recorded Performance Data"}
//! ```
//!
//! Source: `docs-developer/gecko-profile-format.md` of the Firefox Profiler. The processed format is read by
//! [`firefox`](super::firefox).
//!
//! - A row of a table is a list, whose columns are named by `schema`; a row may be shorter.
//! - Each sample counts 1, as in the Firefox Profiler, which multiplies counts by the interval to show milliseconds.
//! - `0x7f8e4c2a1b30` is an address in the process. `libs` maps it to a file, and functions are [looked
//!   up](crate::nameless) there.
//! - `f (https://example.org/a.js:12:7)` is a script function; other names are labels, and `(root)` is not a frame.
//! - `processes` are tab processes: their samples are added.
//! - Up to version 3, `libs` is a string that contains the JSON list; tab processes may be such strings in `threads`,
//!   too.
//! - Markers, memory and CPU times are not read.
//! - The add-on of 2012 wrote [another format](cleopatra).

mod cleopatra;

use std::collections::BTreeMap;
use std::fmt;

use pyrograph_profile::{
    About, Frame, FrameId, FrameKind, Profile, Sample, StackId, Thread, ValueType,
};
use pyrograph_symbol::BuildId;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::json;
use super::rows::Rows;
use crate::input::Head;
use crate::nameless;
use crate::names::{module_kind, tidy_name};
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};

/// Reader of Gecko profiles.
pub struct Gecko;

impl Reader for Gecko {
    fn name(&self) -> &'static str {
        "gecko"
    }

    fn written_by(&self) -> &'static str {
        "Firefox: MOZ_PROFILER_SHUTDOWN=FILE, older developer tools"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let has = |keys: &[&str]| keys.iter().all(|key| json::has_key(head, key));
        let is_raw = has(&["meta", "stackwalk", "processType", "interval"])
            && !["preprocessedProfileVersion", "funcTable"].iter().any(|key| has(&[key]));
        json::begins_object(head) && (is_raw || is_recording(head) || cleopatra::begins(head))
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        if cleopatra::begins(input.bytes()) {
            return cleopatra::read(input, options);
        }
        let (file, warnings) = json::parse::<Process>(input)?;
        let process = match file.profile {
            Some(profile) => *profile,
            None => file,
        };
        if process.threads.is_empty() && process.processes.is_empty() {
            let reason = "there are no threads in this Gecko profile".to_owned();
            return Err(ReadError::Nothing { name, reason });
        }
        let mut builder = Builder {
            profile: Profile::new(vec![ValueType::samples()]),
            rows: Rows::new(options, 1),
            files: nameless::Files::default(),
            unreadable: 0,
        };
        let start = (process.meta.start_time * 1e6).round() as u64;
        builder.profile.about =
            About { start: Some(start).filter(|&start| start > 0), ..About::default() };
        builder.process(&process, 0, process.meta.start_time);
        Ok(builder.finish(options, warnings))
    }
}

/// True for a recording of the developer tools: the profile comes after the markers, of which there may be very many.
fn is_recording(head: &[u8]) -> bool {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let begins = text.strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
    begins.is_some_and(|text| text.starts_with(b"\"label\""))
        && json::has_key(head, "duration")
        && json::has_key(head, "markers")
}

#[derive(Default, Deserialize)]
struct Process {
    #[serde(default, deserialize_with = "json::or_default")]
    meta: Meta,
    #[serde(default, deserialize_with = "list_or_text")]
    libs: Vec<Lib>,
    #[serde(default, deserialize_with = "json::or_default")]
    threads: Vec<ThreadOrText>,
    #[serde(default, deserialize_with = "json::or_default")]
    processes: Vec<Process>,
    /// The actual profile in a recording of the developer tools, which has no other useful fields.
    profile: Option<Box<Process>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    #[serde(default, deserialize_with = "json::or_default")]
    start_time: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Lib {
    #[serde(default, deserialize_with = "json::or_default")]
    start: u64,
    #[serde(default, deserialize_with = "json::or_default")]
    end: u64,
    #[serde(default, deserialize_with = "json::or_default")]
    offset: u64,
    #[serde(default, deserialize_with = "json::or_default")]
    path: String,
    #[serde(default, deserialize_with = "json::or_default")]
    name: String,
    /// The build ID, for libraries on Linux.
    code_id: Option<String>,
}

/// A thread, or in old versions a process as a JSON string.
enum ThreadOrText {
    Thread(Box<OneThread>),
    Text(String),
}

// serde's derived implementation of such an enum buffers each thread, and errors have no line numbers.
impl<'de> Deserialize<'de> for ThreadOrText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = ThreadOrText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a thread")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let thread = OneThread::deserialize(MapAccessDeserializer::new(map))?;
                Ok(ThreadOrText::Thread(Box::new(thread)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(ThreadOrText::Text(text.to_owned()))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// Deserializes a list, or a string that contains one as JSON.
fn list_or_text<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: DeserializeOwned,
    D: Deserializer<'de>,
{
    let of = serde::de::Error::custom;
    match Value::deserialize(deserializer)? {
        Value::String(text) => serde_json::from_str(&text).map_err(of),
        Value::Null => Ok(Vec::new()),
        list => serde_json::from_value(list).map_err(of),
    }
}

/// Deserializes a number; `None` if it is other text, such as `Unknown Process 3`.
fn number_or_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i32>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Number(number) => number.as_i64().and_then(|number| number.try_into().ok()),
        Value::String(text) => text.parse().ok(),
        _ => None,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OneThread {
    #[serde(default, deserialize_with = "json::or_default")]
    name: String,
    #[serde(default, deserialize_with = "json::or_default")]
    process_name: String,
    #[serde(default, deserialize_with = "number_or_text")]
    pid: Option<i32>,
    #[serde(default, deserialize_with = "number_or_text")]
    tid: Option<i32>,
    #[serde(default, deserialize_with = "json::or_default")]
    samples: Table,
    #[serde(default, deserialize_with = "json::or_default")]
    stack_table: Table,
    #[serde(default, deserialize_with = "json::or_default")]
    frame_table: Table,
    #[serde(default, deserialize_with = "json::or_default")]
    string_table: Vec<String>,
}

/// A table with named columns.
#[derive(Default, Deserialize)]
struct Table {
    #[serde(default, deserialize_with = "json::or_default")]
    schema: BTreeMap<String, usize>,
    #[serde(default, deserialize_with = "json::or_default")]
    data: Vec<Vec<Value>>,
}

impl Table {
    /// Index of a column; beyond the end of all rows if it does not exist.
    fn place(&self, column: &str) -> usize {
        self.schema.get(column).copied().unwrap_or(usize::MAX)
    }
}

/// Returns an entry of a row as an index; `None` if it is missing.
fn index(row: &[Value], place: usize) -> Option<usize> {
    usize::try_from(row.get(place)?.as_u64()?).ok()
}

struct Builder {
    profile: Profile,
    rows: Rows,
    files: nameless::Files,
    /// Number of samples whose stack does not exist.
    unreadable: u64,
}

impl Builder {
    /// Adds the samples of a process. Its times are relative to its own start, those of the profile to `origin`.
    fn process(&mut self, process: &Process, depth: usize, origin: f64) {
        // Firefox writes one level; deeper nesting is damage.
        const MOST: usize = 16;
        let mut libs: Vec<&Lib> = process.libs.iter().collect();
        libs.sort_by_key(|lib| lib.start);
        for thread in &process.threads {
            match thread {
                ThreadOrText::Thread(thread) => {
                    self.thread(thread, &libs, process.meta.start_time - origin);
                }
                ThreadOrText::Text(text) => match serde_json::from_str(text) {
                    Ok(process) if depth < MOST => self.process(&process, depth + 1, origin),
                    _ => self.unreadable += 1,
                },
            }
        }
        for process in process.processes.iter().filter(|_| depth < MOST) {
            self.process(process, depth + 1, origin);
        }
    }

    fn thread(&mut self, one: &OneThread, libs: &[&Lib], offset: f64) {
        let stacks = self.stacks(one, libs);
        let mut intern = |text: &str| self.profile.strings.intern(text);
        let (name, process) = (intern(&one.name), intern(&one.process_name));
        let thread = Thread { pid: one.pid, tid: one.tid, process, name, ..Thread::default() };
        let thread = self.rows.thread(&mut self.profile, thread);
        let (stack_at, time_at) = (one.samples.place("stack"), one.samples.place("time"));
        for row in &one.samples.data {
            let stack = match index(row, stack_at) {
                // The thread was sampled but had no stack.
                None => Some(StackId::ROOT),
                Some(stack) => stacks.get(stack).copied().flatten(),
            };
            let Some(stack) = stack else {
                self.unreadable += 1;
                continue;
            };
            let time = row.get(time_at).and_then(Value::as_f64);
            // The `as` conversion saturates.
            let time = time.map(|time| ((time + offset) * 1e6).round() as u64);
            self.rows.push(Sample { thread, time, ..Sample::new(stack) }, &[1]);
        }
    }

    /// Interns the stacks of a thread. `None` marks a damaged row.
    fn stacks(&mut self, one: &OneThread, libs: &[&Lib]) -> Vec<Option<StackId>> {
        let frames = self.frames(one, libs);
        let table = &one.stack_table;
        let (prefix_at, frame_at) = (table.place("prefix"), table.place("frame"));
        let mut stacks: Vec<Option<StackId>> = Vec::with_capacity(table.data.len());
        for row in &table.data {
            let caller = match index(row, prefix_at) {
                None => Some(StackId::ROOT),
                // A caller comes before its callees.
                Some(at) => stacks.get(at).copied().flatten(),
            };
            let frame = index(row, frame_at).and_then(|at| frames.get(at).copied());
            let stack = caller.zip(frame).map(|(caller, frame)| match frame {
                Some(frame) => self.profile.stacks.intern(caller, frame),
                None => caller,
            });
            stacks.push(stack);
        }
        stacks
    }

    /// Interns the frames of a thread; `None` for `(root)`.
    fn frames(&mut self, one: &OneThread, libs: &[&Lib]) -> Vec<Option<FrameId>> {
        let table = &one.frame_table;
        let [location_at, line_at, js_at] =
            ["location", "line", "relevantForJS"].map(|column| table.place(column));
        let frame = |row: &Vec<Value>| {
            let location = index(row, location_at).and_then(|at| one.string_table.get(at));
            let location = location.map_or("", String::as_str);
            if location == "(root)" {
                return None;
            }
            let line = index(row, line_at).and_then(|line| u32::try_from(line).ok());
            let is_js = row.get(js_at).and_then(Value::as_bool);
            let frame = self.frame(location, line.unwrap_or(0), is_js != Some(false), libs);
            Some(self.profile.frames.intern(frame))
        };
        table.data.iter().map(frame).collect()
    }

    fn frame(&mut self, location: &str, line: u32, may_be_js: bool, libs: &[&Lib]) -> Frame {
        if let Some(address) = location.strip_prefix("0x").and_then(hex) {
            return self.address(address, libs);
        }
        let mut intern = |text: &str| self.profile.strings.intern(text);
        match script(location).filter(|_| may_be_js) {
            Some((name, file, start_line)) => {
                let function = intern(if name.is_empty() { "(anonymous)" } else { name });
                let file = intern(file);
                let frame = Frame::named(function, FrameKind::Interpreted);
                Frame { file, module: file, line, start_line, ..frame }
            }
            None => Frame::named(intern(&tidy_name(location)), FrameKind::User),
        }
    }

    /// Returns the frame of an address in the process.
    fn address(&mut self, address: u64, libs: &[&Lib]) -> Frame {
        let after = libs.partition_point(|lib| lib.start <= address);
        let lib = after.checked_sub(1).map(|at| libs[at]).filter(|lib| address < lib.end);
        let Some(lib) = lib else { return Frame { address, ..Frame::default() } };
        let path = if lib.path.is_empty() { &lib.name } else { &lib.path };
        let module = self.profile.strings.intern(path);
        let build_id = || lib.code_id.as_deref().and_then(|id| id.parse::<BuildId>().ok());
        self.files.entry(module).or_insert_with(build_id);
        let address = (address - lib.start).saturating_add(lib.offset);
        Frame { module, address, kind: module_kind(path), ..Frame::default() }
    }

    fn finish(mut self, options: &Options, mut warnings: Warnings) -> Reading {
        if self.unreadable > 0 {
            warnings.add(WarningKind::UnreadableRecord, self.unreadable, []);
        }
        self.rows.finish(&mut self.profile);
        let base = nameless::Base::Image;
        nameless::name(&mut self.profile, &self.files, base, options, &mut warnings);
        Reading::new(self.profile, warnings)
    }
}

fn hex(digits: &str) -> Option<u64> {
    u64::from_str_radix(digits, 16).ok()
}

/// Parses `f (https://example.org/a.js:12:7)`, `https://example.org/a.js:12` or `self-hosted:340:4` into function,
/// file and line. The column is dropped.
fn script(location: &str) -> Option<(&str, &str, u32)> {
    let (name, place) = match location.strip_suffix(')').and_then(|text| text.split_once(" (")) {
        Some(parts) => parts,
        None => ("", location),
    };
    let (rest, last) = number_at_end(place)?;
    let (file, line) = number_at_end(rest).unwrap_or((rest, last));
    let is_file = !name.is_empty() || file.contains("://") || file == "self-hosted";
    (is_file && !file.is_empty()).then_some((name, file, line))
}

fn number_at_end(text: &str) -> Option<(&str, u32)> {
    let (rest, number) = text.rsplit_once(':')?;
    Some((rest, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_and_labels() {
        for (location, expect) in [
            ("f (https://a.org/a.js:12:7)", Some(("f", "https://a.org/a.js", 12))),
            ("f (a.js -> b.js:9)", Some(("f", "a.js -> b.js", 9))),
            ("file:///a b/c.js:3", Some(("", "file:///a b/c.js", 3))),
            ("self-hosted:340:4", Some(("", "self-hosted", 340))),
            ("nsJSUtils::ExecutionContext", None),
            ("ns::f console-api:3", None),
            ("f (x)", None),
            (":3", None),
            ("", None),
        ] {
            assert_eq!(script(location), expect, "{location}");
        }
    }
}
