//! Reader of speedscope's own file format, which many profilers write.
//!
//! ```text
//! {"$schema":"https://www.speedscope.app/file-format-schema.json",
//!  "shared":{"frames":[{"name":"main","file":"a.py","line":3},{"name":"work"}]},
//!  "profiles":[{"type":"sampled","name":"MainThread","unit":"seconds","startValue":0,"endValue":3,
//!               "samples":[[0],[0,1]],"weights":[1,2]},
//!              {"type":"evented","name":"other","unit":"seconds","startValue":0,"endValue":2,
//!               "events":[{"type":"O","frame":0,"at":0},{"type":"C","frame":0,"at":2}]}],
//!  "activeProfileIndex":0}
//! ```
//!
//! Source: `file-format-spec.ts` of speedscope.
//!
//! - Stacks are root first.
//! - If there are several profiles, each is a thread, named after the profile. Profiles with different units become
//!   different values; the one of `activeProfileIndex` is shown.
//! - Time units are converted to nanoseconds. Values that are not times may have decimals.
//! - Samples of a sampled profile have no times, but each lasts as long as its weight.
//! - In an evented profile, time without an open frame is not counted. A frame that closes while frames inside it are
//!   open closes these, too; a frame that never closes lasts until the end.

use pyrograph_profile::{
    Frame, FrameId, FrameKind, Profile, Sample, StackId, Thread, ThreadId, UnitKind, ValueType,
};
use serde::Deserialize;

use super::json;
use super::rows::Rows;
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};

/// Reader of speedscope files.
pub struct Speedscope;

impl Reader for Speedscope {
    fn name(&self) -> &'static str {
        "speedscope"
    }

    fn written_by(&self) -> &'static str {
        "py-spy record -f speedscope, rbspy, speedscope's export, many profilers; pyrograph convert"
    }

    fn detect(&self, head: &[u8]) -> bool {
        json::begins_object(head)
            && memchr::memmem::find(head, b"speedscope.app/file-format-schema.json").is_some()
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let (file, warnings) = json::parse::<File>(input)?;
        Ok(Builder::new(&file, options, warnings).build(&file))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    shared: Shared,
    profiles: Vec<OneProfile>,
    #[serde(default, deserialize_with = "json::or_default")]
    active_profile_index: usize,
    #[serde(default, deserialize_with = "json::or_default")]
    exporter: String,
}

#[derive(Deserialize)]
struct Shared {
    frames: Vec<SharedFrame>,
}

#[derive(Deserialize)]
struct SharedFrame {
    name: String,
    file: Option<String>,
    line: Option<f64>,
}

/// A profile of either type: a sampled one has no events, an evented one no samples.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OneProfile {
    #[serde(default, deserialize_with = "json::or_default")]
    name: String,
    #[serde(default, deserialize_with = "json::or_default")]
    unit: String,
    #[serde(default, deserialize_with = "json::or_default")]
    start_value: f64,
    #[serde(default, deserialize_with = "json::or_default")]
    end_value: f64,
    #[serde(default, deserialize_with = "json::or_default")]
    samples: Vec<Vec<usize>>,
    #[serde(default, deserialize_with = "json::or_default")]
    weights: Vec<f64>,
    #[serde(default, deserialize_with = "json::or_default")]
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    r#type: char,
    frame: usize,
    at: f64,
}

/// Number of decimals of values that are not times, if any is not an integer.
const DECIMALS: u8 = 6;

/// Separator that Pyrograph writes between value and thread in names of profiles.
pub(crate) const SEPARATOR: &str = " · ";

/// A value column of the profile, shared by the file's profiles with the same unit.
struct Column {
    value_type: ValueType,
    /// The unit in the file.
    unit: String,
    /// Factor from values in the file to values of the profile.
    scale: f64,
}

struct Builder {
    profile: Profile,
    frames: Vec<FrameId>,
    columns: Vec<Column>,
    rows: Rows,
    unreadable: u64,
    warnings: Warnings,
}

impl Builder {
    fn new(file: &File, options: &Options, warnings: Warnings) -> Self {
        let columns = columns(file);
        let types = columns.iter().map(|column| column.value_type.clone()).collect();
        let mut profile = Profile::new(types);
        let frames = file
            .shared
            .frames
            .iter()
            .map(|frame| {
                let function = profile.strings.intern(&frame.name);
                let file = profile.strings.intern(frame.file.as_deref().unwrap_or_default());
                let line = frame.line.unwrap_or(0.0) as u32;
                let frame = Frame { file, line, ..Frame::named(function, FrameKind::User) };
                profile.frames.intern(frame)
            })
            .collect();
        let rows = Rows::new(options, columns.len());
        Self { profile, frames, columns, rows, unreadable: 0, warnings }
    }

    fn build(mut self, file: &File) -> Reading {
        for (index, one) in file.profiles.iter().enumerate() {
            let (name, thread) = parts_of_name(file, one);
            let column = self
                .columns
                .iter()
                .position(|column| column.unit == one.unit && is_named(column, name))
                .unwrap_or_default();
            if index == file.active_profile_index {
                self.profile.shown = column;
            }
            // A single profile is usually named after its file or what was recorded.
            let is_thread = file.profiles.len() > 1 || is_ours(file);
            let thread = if is_thread && !thread.is_empty() {
                let process = self.profile.strings.intern(thread);
                self.profile.threads.intern(Thread { process, ..Thread::default() })
            } else {
                ThreadId::UNKNOWN
            };
            self.sampled(one, thread, column);
            self.evented(one, thread, column);
        }
        if self.unreadable > 0 {
            self.warnings.add(WarningKind::UnreadableRecord, self.unreadable, []);
        }
        self.rows.finish(&mut self.profile);
        Reading::new(self.profile, self.warnings)
    }

    fn sampled(&mut self, one: &OneProfile, thread: ThreadId, column: usize) {
        let mut at = one.start_value;
        for (row, sample) in one.samples.iter().enumerate() {
            let frames: Option<Vec<FrameId>> =
                sample.iter().map(|&frame| self.frames.get(frame).copied()).collect();
            let (Some(frames), Some(&weight)) = (frames, one.weights.get(row)) else {
                self.unreadable += 1;
                continue;
            };
            let stack = self.profile.stacks.intern_path(frames);
            self.push(stack, thread, column, at, weight);
            at += weight;
        }
    }

    fn evented(&mut self, one: &OneProfile, thread: ThreadId, column: usize) {
        let mut open: Vec<(FrameId, StackId)> = Vec::new();
        let mut at = one.start_value;
        for event in &one.events {
            if let Some(&(_, stack)) = open.last()
                && event.at > at
            {
                self.push(stack, thread, column, at, event.at - at);
            }
            at = at.max(event.at);
            let Some(&frame) = self.frames.get(event.frame) else {
                self.unreadable += 1;
                continue;
            };
            if event.r#type == 'O' {
                let caller = open.last().map_or(StackId::ROOT, |&(_, stack)| stack);
                open.push((frame, self.profile.stacks.intern(caller, frame)));
            } else {
                match open.iter().rposition(|&(opened, _)| opened == frame) {
                    Some(depth) => open.truncate(depth),
                    None => self.unreadable += 1,
                }
            }
        }
        if let Some(&(_, stack)) = open.last()
            && one.end_value > at
        {
            self.push(stack, thread, column, at, one.end_value - at);
        }
    }

    fn push(&mut self, stack: StackId, thread: ThreadId, column: usize, at: f64, weight: f64) {
        let of = &self.columns[column];
        if weight < 0.0 {
            self.warnings.add(WarningKind::NegativeValue, 1, []);
            return;
        }
        let mut values = vec![0; self.columns.len()];
        // The conversion saturates.
        values[column] = (weight * of.scale).round() as u64;
        let is_time = of.value_type.unit_kind().time_unit().is_some();
        let time = is_time.then(|| (at * of.scale).round() as u64);
        self.rows.push(Sample { thread, time, ..Sample::new(stack) }, &values);
    }
}

/// Returns the columns for the profiles of a file: one for each unit, and one for each value that Pyrograph wrote as
/// a separate profile.
fn columns(file: &File) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for one in &file.profiles {
        let (name, _) = parts_of_name(file, one);
        let known =
            columns.iter().position(|column| column.unit == one.unit && is_named(column, name));
        let at = known.unwrap_or_else(|| {
            columns.push(column(&one.unit, name));
            columns.len() - 1
        });
        let column = &mut columns[at];
        let numbers = one.weights.iter().copied().chain(one.events.iter().map(|event| event.at));
        let plain =
            column.value_type.unit_kind().time_unit().is_none() && column.value_type.decimals == 0;
        if plain && numbers.into_iter().any(|number| number.fract() != 0.0) {
            column.value_type.decimals = DECIMALS;
            column.scale = 10f64.powi(DECIMALS.into());
        }
    }
    if columns.is_empty() {
        columns.push(column("none", None));
    }
    columns
}

fn column(unit: &str, name: Option<&str>) -> Column {
    let (value_type, scale) = match UnitKind::of_unit(unit) {
        UnitKind::Time(unit) => (ValueType::new("time", "ns"), unit.nanoseconds() as f64),
        UnitKind::Unknown => (ValueType::samples(), 1.0),
        _ if unit == "none" => (ValueType::samples(), 1.0),
        _ => (ValueType::new(unit, unit), 1.0),
    };
    let name = name.map_or(value_type.name.clone(), str::to_owned);
    Column { value_type: ValueType { name, ..value_type }, unit: unit.to_owned(), scale }
}

fn is_named(column: &Column, name: Option<&str>) -> bool {
    name.is_none_or(|name| column.value_type.name == name)
}

/// Splits the name of a profile into its value, if known, and its thread.
fn parts_of_name<'a>(file: &File, one: &'a OneProfile) -> (Option<&'a str>, &'a str) {
    if !is_ours(file) {
        return (None, &one.name);
    }
    let (name, thread) = one.name.split_once(SEPARATOR).unwrap_or((&one.name, ""));
    (Some(name), thread)
}

/// True if Pyrograph wrote the file.
fn is_ours(file: &File) -> bool {
    file.exporter.starts_with("pyrograph@")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Detail, Input, write_folded};
    use pyrograph_profile::{LabelOptions, Tree};

    fn read(frames: &str, profiles: &str) -> Reading {
        let text = format!(
            r#"{{"$schema":"https://www.speedscope.app/file-format-schema.json",
                "shared":{{"frames":[{frames}]}},"profiles":[{profiles}]}}"#
        );
        let input = Input::bytes("x", text).begin().expect("bytes");
        let options = Options { detail: Detail::Samples, ..Options::default() };
        Speedscope.read(input, &options).expect("a profile")
    }

    fn check(profiles: &str, expect: &str) {
        let reading = read(r#"{"name":"a"},{"name":"b"}"#, profiles);
        let mut folded = Vec::new();
        for warning in &reading.warnings {
            folded.extend_from_slice(format!("# {warning}\n").as_bytes());
        }
        write_folded(&Tree::new(&reading.profile, &LabelOptions::default()), &mut folded)
            .expect("writing to memory");
        assert_eq!(String::from_utf8_lossy(&folded), expect);
    }

    #[test]
    fn samples_and_events() {
        check(
            r#"{"type":"sampled","name":"x","unit":"none","startValue":0,"endValue":3,
                "samples":[[0],[0,1],[]],"weights":[1,2.5,1]}"#,
            "[unknown] 1\na 1\na;b 2.5\n",
        );
        check(
            r#"{"type":"evented","name":"x","unit":"milliseconds","startValue":1,"endValue":9,
                "events":[{"type":"O","frame":0,"at":1},{"type":"O","frame":1,"at":3},
                          {"type":"C","frame":1,"at":4},{"type":"C","frame":0,"at":5},
                          {"type":"O","frame":1,"at":7}]}"#,
            "a 3000000\na;b 1000000\nb 2000000\n",
        );
    }

    #[test]
    fn several_profiles_are_threads_and_several_units_values() {
        check(
            r#"{"type":"sampled","name":"x","unit":"none","startValue":0,"endValue":1,
                "samples":[[0]],"weights":[1]},
               {"type":"sampled","name":"y","unit":"bytes","startValue":0,"endValue":1,
                "samples":[[0]],"weights":[7]}"#,
            "x;a 1 0\ny;a 0 7\n",
        );
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        check(
            r#"{"type":"sampled","name":"x","unit":"none","startValue":0,"endValue":1,
                "samples":[[0],[9],[1],[0]],"weights":[1,1,-3]},
               {"type":"evented","name":"x","unit":"none","startValue":0,"endValue":1,
                "events":[{"type":"C","frame":1,"at":0},{"type":"O","frame":9,"at":0}]}"#,
            "# 4 damaged records were skipped\n\
             # 1 sample with values below 0 was skipped\n\
             x;a 1\n",
        );
    }

    #[test]
    fn a_sample_lasts_as_long_as_its_weight() {
        let reading = read(
            r#"{"name":"a"}"#,
            r#"{"type":"sampled","name":"x","unit":"seconds","startValue":5,"endValue":6,
                "samples":[[0],[0]],"weights":[0.25,0.5]}"#,
        );
        let times: Vec<_> = reading.profile.samples.iter().map(|sample| sample.time).collect();
        assert_eq!(times, [Some(5_000_000_000), Some(5_250_000_000)]);
    }
}
