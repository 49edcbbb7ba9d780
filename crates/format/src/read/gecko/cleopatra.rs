//! Reader of profiles saved by Firefox's profiler add-on of 2012, whose page was called Cleopatra.
//!
//! ```text
//! {"format":"profileJSONWithSymbolicationTable,1","meta":{"interval":1,"stackwalk":1, …},
//!  "profileJSON":[{"frames":[2,0,1],"extraInfo":{"time":131484}}],
//!  "symbolicationTable":{"0":"main (in firefox.exe)","1":"f","2":"(root)"}}
//! ```
//!
//! Source: saved files. Later ones have `{"threads":[{"name":…,"samples":[…]}]}` instead of the list, or a map of
//! threads by number. A frame is an index of the table, or a name. Times are milliseconds.

use std::collections::{BTreeMap, HashMap};

use pyrograph_profile::{
    Frame, FrameId, FrameKind, Profile, Sample, StackId, Thread, ThreadId, ValueType,
};
use serde::Deserialize;

use crate::input::Head;
use crate::names::{module_kind, tidy_name};
use crate::read::json;
use crate::read::rows::Rows;
use crate::reader::{Options, ReadError, Reading};

/// True if the text begins like such a profile.
pub(super) fn begins(head: &[u8]) -> bool {
    json::begins_object(head)
        && memchr::memmem::find(head, b"\"profileJSONWithSymbolicationTable").is_some()
        && json::has_key(head, "format")
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    #[serde(rename = "profileJSON")]
    profile: Threads,
    #[serde(default)]
    symbolication_table: HashMap<String, String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Threads {
    One(Vec<OneSample>),
    Many { threads: ListOrMap },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ListOrMap {
    List(Vec<OneThread>),
    Map(BTreeMap<String, OneThread>),
}

#[derive(Deserialize)]
struct OneThread {
    #[serde(default, deserialize_with = "json::or_default")]
    name: String,
    #[serde(default, deserialize_with = "json::or_default")]
    samples: Vec<OneSample>,
}

#[derive(Deserialize)]
struct OneSample {
    #[serde(default, deserialize_with = "json::or_default")]
    frames: Vec<Place>,
    #[serde(default, rename = "extraInfo", deserialize_with = "json::or_default")]
    extra: Extra,
}

#[derive(Default, Deserialize)]
struct Extra {
    time: Option<f64>,
}

/// A frame: an index of the table, or a name.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Hash)]
#[serde(untagged)]
enum Place {
    Number(u64),
    Name(String),
}

pub(super) fn read(input: Head, options: &Options) -> Result<Reading, ReadError> {
    let (file, warnings) = json::parse::<File>(input)?;
    let mut profile = Profile::new(vec![ValueType::samples()]);
    let mut rows = Rows::new(options, 1);
    let mut frames: HashMap<&Place, Option<FrameId>> = HashMap::new();
    let threads: Vec<(&str, &[OneSample])> = match &file.profile {
        Threads::One(samples) => vec![("", samples)],
        Threads::Many { threads: ListOrMap::List(threads) } => {
            threads.iter().map(|thread| (thread.name.as_str(), &*thread.samples)).collect()
        }
        Threads::Many { threads: ListOrMap::Map(threads) } => {
            threads.values().map(|thread| (thread.name.as_str(), &*thread.samples)).collect()
        }
    };
    for (name, samples) in threads {
        let name = profile.strings.intern(name);
        let thread = match name.is_empty() {
            true => ThreadId::UNKNOWN,
            false => rows.thread(&mut profile, Thread { process: name, name, ..Thread::default() }),
        };
        for OneSample { frames: places, extra } in samples {
            let mut stack = StackId::ROOT;
            for place in places {
                let frame = *frames
                    .entry(place)
                    .or_insert_with(|| frame(place, &file.symbolication_table, &mut profile));
                if let Some(frame) = frame {
                    stack = profile.stacks.intern(stack, frame);
                }
            }
            let time = extra.time.map(|time| (time * 1e6).round() as u64);
            rows.push(Sample { thread, time, ..Sample::new(stack) }, &[1]);
        }
    }
    rows.finish(&mut profile);
    Ok(Reading::new(profile, warnings))
}

/// Interns the frame of a place; `None` for `(root)`.
fn frame(place: &Place, table: &HashMap<String, String>, profile: &mut Profile) -> Option<FrameId> {
    let name = match place {
        Place::Number(number) => table.get(&number.to_string()).map_or("", String::as_str),
        Place::Name(name) => table.get(name).unwrap_or(name),
    };
    if name == "(root)" {
        return None;
    }
    let mut intern = |text: &str| profile.strings.intern(text);
    let frame = match super::script(name) {
        Some((function, file, start_line)) => {
            let function = intern(if function.is_empty() { "(anonymous)" } else { function });
            let file = intern(file);
            let frame = Frame::named(function, FrameKind::Interpreted);
            Frame { file, module: file, start_line, ..frame }
        }
        None => {
            // `main (in firefox.exe)`
            let parts = name.strip_suffix(')').and_then(|name| name.rsplit_once(" (in "));
            let (function, module) = parts.unwrap_or((name, ""));
            let (kind, module) = (module_kind(module), intern(module));
            Frame { module, ..Frame::named(intern(&tidy_name(function)), kind) }
        }
    };
    Some(profile.frames.intern(frame))
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{LabelOptions, Tree};

    use super::*;
    use crate::{Input, write_folded};

    #[test]
    fn threads_in_all_forms() {
        let table = r#""symbolicationTable":{"0":"(root)","1":"main (in a.exe)","2":"f (http://x/y.js:3)"}"#;
        let samples =
            r#"[{"frames":[0,1,2],"extraInfo":{"time":1.5}},{"frames":[0,1]},{"frames":[0,"g"]}]"#;
        let threads = format!(r#"[{{"name":"Gecko","samples":{samples}}}]"#);
        for (profile, thread) in [
            (samples.to_owned(), ""),
            (format!(r#"{{"threads":{threads}}}"#), "Gecko;"),
            (format!(r#"{{"threads":{{"0":{}}}}}"#, &threads[1..threads.len() - 1]), "Gecko;"),
        ] {
            let text = format!(
                r#"{{"format":"profileJSONWithSymbolicationTable,1","meta":{{}},"profileJSON":{profile},{table}}}"#
            );
            let head = Input::bytes("x", text).begin().expect("bytes");
            assert!(begins(head.bytes()));
            let reading = read(head, &Options::default()).expect("a profile");
            let mut out = Vec::new();
            write_folded(&Tree::new(&reading.profile, &LabelOptions::default()), &mut out)
                .expect("to memory");
            let expect = format!("{thread}g 1\n{thread}main 1\n{thread}main;f 1\n");
            assert_eq!(String::from_utf8_lossy(&out), expect);
        }
    }
}
