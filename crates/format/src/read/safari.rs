//! Reader of timeline recordings exported by Safari's Web Inspector.
//!
//! ```text
//! {"version":1,"recording":{"displayName":"Timeline Recording 1","startTime":4.1,"endTime":6.6,
//!   "instrumentTypes":["timeline-record-type-script"],"records":[…],
//!   "sampleStackTraces":[{"timestamp":4.47,"stackFrames":[
//!     {"name":"work","line":20,"column":15,"url":"file:///app.js","expressionLocation":{"line":22,"column":19}}, …]}],
//!   "sampleDurations":[0.001]}}
//! ```
//!
//! Source: the export of WebKit's `TimelineRecording.js`. Times are seconds; frames are leaf first. Files in which
//! some samples have no duration are rejected, because these samples would be lost. Timeline records have no stacks,
//! and are not read.

use pyrograph_profile::{Frame, FrameKind, Profile, Sample, StackId, ValueType};
use serde::Deserialize;

use super::json;
use super::rows::Rows;
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};

/// Reader of Safari's timeline recordings.
pub struct Safari;

impl Reader for Safari {
    fn name(&self) -> &'static str {
        "safari"
    }

    fn written_by(&self) -> &'static str {
        "Safari's Web Inspector, Timelines, Export"
    }

    fn detect(&self, head: &[u8]) -> bool {
        json::begins_object(head)
            && ["recording", "displayName", "instrumentTypes"]
                .iter()
                .all(|key| json::has_key(head, key))
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let (file, warnings) = json::parse::<File>(input)?;
        let (traces, durations) = (file.recording.traces, file.recording.durations);
        if traces.len() != durations.len() {
            let (traces, durations) = (traces.len(), durations.len());
            let reason = format!("it has {traces} stacks, but {durations} durations of them");
            return Err(ReadError::Malformed { name, reason });
        }
        let mut profile = Profile::new(vec![ValueType::new("time", "ns")]);
        let mut rows = Rows::new(options, 1);
        for (trace, seconds) in traces.iter().zip(durations) {
            let mut stack = StackId::ROOT;
            for call in trace.frames.iter().rev() {
                let frame = call.frame(&mut profile);
                let frame = profile.frames.intern(frame);
                stack = profile.stacks.intern(stack, frame);
            }
            // The `as` conversion saturates.
            let nanoseconds = |seconds: f64| (seconds * 1e9).round() as u64;
            let time = Some(nanoseconds(trace.timestamp));
            rows.push(Sample { time, ..Sample::new(stack) }, &[nanoseconds(seconds)]);
        }
        rows.finish(&mut profile);
        Ok(Reading::new(profile, warnings))
    }
}

#[derive(Deserialize)]
struct File {
    recording: Recording,
}

#[derive(Deserialize)]
struct Recording {
    #[serde(default, rename = "sampleStackTraces", deserialize_with = "json::or_default")]
    traces: Vec<Trace>,
    #[serde(default, rename = "sampleDurations", deserialize_with = "json::or_default")]
    durations: Vec<f64>,
}

#[derive(Deserialize)]
struct Trace {
    #[serde(default, deserialize_with = "json::or_default")]
    timestamp: f64,
    #[serde(default, rename = "stackFrames", deserialize_with = "json::or_default")]
    frames: Vec<Call>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Call {
    #[serde(default, deserialize_with = "json::or_default")]
    name: String,
    #[serde(default, deserialize_with = "json::or_default")]
    url: String,
    /// Line at which the function begins.
    #[serde(default, deserialize_with = "json::or_default")]
    line: f64,
    #[serde(default, deserialize_with = "json::or_default")]
    expression_location: Place,
}

#[derive(Default, Deserialize)]
struct Place {
    #[serde(default, deserialize_with = "json::or_default")]
    line: f64,
}

impl Call {
    fn frame(&self, profile: &mut Profile) -> Frame {
        let name = if self.name.is_empty() { "(anonymous)" } else { &self.name };
        let function = profile.strings.intern(name);
        let file = profile.strings.intern(&self.url);
        let (line, start_line) = (self.expression_location.line as u32, self.line as u32);
        let named = Frame::named(function, FrameKind::Interpreted);
        Frame { file, module: file, line, start_line, ..named }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Input;

    #[test]
    fn stacks_without_durations_are_refused() {
        let text = r#"{"recording":{"displayName":"x","instrumentTypes":[],
            "sampleStackTraces":[{"timestamp":1,"stackFrames":[{"name":"f"}]}],"sampleDurations":[]}}"#;
        let input = Input::bytes("x", text).begin().expect("bytes");
        let error = Safari.read(input, &Options::default()).expect_err("no durations");
        assert_eq!(error.to_string(), "read x: it has 1 stacks, but 0 durations of them");
    }
}
