//! Reader of files of Python's `cProfile` and `profile`, written by `-o FILE`, `dump_stats` and `pstats.Stats`.
//!
//! ```text
//! {('work.py', 16, 'square'): (20000, 20000, 0.105, 0.105,
//!      {('work.py', 7, '<genexpr>'): (20000, 20000, 0.105, 0.105)}), …}
//! ```
//!
//! Source: `Lib/cProfile.py` (`create_stats`, `snapshot_stats`) and `Lib/pstats.py`. The file is a dictionary in
//! Python's [marshal](marshal) format. Keys are file, line and function; values are the number of primitive calls, of
//! all calls, self time and total time in seconds, and the same four numbers for the calls by each caller.
//!
//! - There are **no stacks**, only callers one level deep: stacks are [estimated](super::call_graph) from them. Self
//!   times and the times of calls by each caller are exact; deeper stacks are an estimate.
//! - Built-in functions are in the file `~` at line 0.
//! - Direct recursion is ignored, because its time is included in that of the calls from outside.

mod marshal;

use hashbrown::HashMap;
use pyrograph_profile::{Frame, FrameId, FrameKind, Profile, ValueType};

use super::call_graph::{self, Node, add};
use super::marshalled::Value;
use super::rows::Rows;
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};
use marshal::Marshal;

/// Reader of Python's `pstats` files.
pub struct Pstats;

impl Reader for Pstats {
    fn name(&self) -> &'static str {
        "pstats"
    }

    fn written_by(&self) -> &'static str {
        "python -m cProfile -o FILE, pyinstrument -r pstats"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut marshal = Marshal::new(head);
        marshal.begin_dict() == Ok(true) && marshal.value().is_ok_and(|key| Key::of(&key).is_some())
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let (bytes, mut warnings) = input.into_bytes();
        let mut graph = Graph::default();
        if let Err(cause) = graph.read(&bytes, &mut warnings) {
            if graph.functions.is_empty() {
                return Err(ReadError::Malformed { name, reason: cause });
            }
            warnings.add(WarningKind::Truncated(cause), 1, []);
        }
        if graph.functions.is_empty() {
            let reason = "no function was called while it was recorded".to_owned();
            return Err(ReadError::Nothing { name, reason });
        }
        Ok(graph.build(options, warnings))
    }
}

/// A function, identified by file, line and name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key<'a> {
    file: &'a str,
    line: u32,
    name: &'a str,
}

impl<'a> Key<'a> {
    fn of(value: &'a Value) -> Option<Self> {
        let [Value::Text(file), Value::Int(line), Value::Text(name)] = value.list()? else {
            return None;
        };
        Some(Self { file, line: u32::try_from(*line).unwrap_or(0), name })
    }
}

#[derive(Default)]
struct Graph {
    functions: Vec<Function>,
    nodes: Vec<Node>,
    index: HashMap<(String, u32, String), usize>,
}

struct Function {
    file: String,
    line: u32,
    name: String,
}

impl Graph {
    /// Adds all functions up to the first damage; the error has its offset.
    fn read(&mut self, bytes: &[u8], warnings: &mut Warnings) -> Result<(), String> {
        let mut marshal = Marshal::new(bytes);
        if !marshal.begin_dict()? {
            return Err("no dictionary of Python's marshal".to_owned());
        }
        while let Some(key) = marshal.key()? {
            let value = marshal.value()?;
            if self.entry(&key, &value).is_none() {
                warnings.add(WarningKind::UnreadableRecord, 1, []);
            }
        }
        Ok(())
    }

    fn entry(&mut self, key: &Value, value: &Value) -> Option<()> {
        let key = Key::of(key)?;
        let [_, _, own, _, Value::Dict(callers)] = value.list()? else { return None };
        let own = nanoseconds(own)?;
        let row = self.row(key);
        add(&mut self.nodes[row].own, &[own]);
        for (caller, values) in callers.iter() {
            let caller = Key::of(caller)?;
            // Python 2's `profile` writes only the number of calls.
            let [_, _, _, whole] = values.list()? else { return None };
            let whole = nanoseconds(whole)?;
            let caller = self.row(caller);
            if caller != row {
                self.nodes[row].callers.push((caller, vec![whole]));
            }
        }
        Some(())
    }

    /// Returns the row of a function, adding it if it is new.
    fn row(&mut self, Key { file, line, name }: Key<'_>) -> usize {
        let row = self.functions.len();
        let (file, name) = (file.to_owned(), name.to_owned());
        let known = *self.index.entry((file.clone(), line, name.clone())).or_insert(row);
        if known == row {
            self.functions.push(Function { file, line, name });
            self.nodes.push(Node { own: vec![0], callers: Vec::new() });
        }
        known
    }

    fn build(self, options: &Options, mut warnings: Warnings) -> Reading {
        let mut profile = Profile::new(vec![ValueType::new("time", "ns")]);
        let frames: Vec<FrameId> =
            self.functions.iter().map(|function| frame(&mut profile, function)).collect();
        let mut rows = Rows::new(options, 1);
        let cut = call_graph::put_together(&self.nodes, &frames, &mut profile, &mut rows);
        rows.finish(&mut profile);
        call_graph::say(&mut warnings, "pstats", cut);
        Reading::new(profile, warnings)
    }
}

/// Converts seconds to nanoseconds; `None` if the value is not a number. Negative times, for example after the clock
/// was set back, become 0 for floats, because `as` saturates.
fn nanoseconds(value: &Value) -> Option<u64> {
    match value {
        Value::Float(seconds) => Some((seconds * 1e9).round() as u64),
        Value::Int(seconds) => u64::try_from(*seconds).ok()?.checked_mul(1_000_000_000),
        _ => None,
    }
}

fn frame(profile: &mut Profile, function: &Function) -> FrameId {
    let Function { file, line, name } = function;
    let (file, kind) = match file.as_str() {
        "~" => ("", FrameKind::User),
        file => (file, FrameKind::Interpreted),
    };
    let (function, file) = (profile.strings.intern(name), profile.strings.intern(file));
    let named = Frame { start_line: *line, ..Frame::named(function, kind) };
    let frame = Frame { file, module: file, line: *line, ..named };
    profile.frames.intern(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Input, write_folded};
    use pyrograph_profile::{LabelOptions, Tree};

    fn text(text: &str) -> Vec<u8> {
        [&[b'z', text.len() as u8], text.as_bytes()].concat()
    }

    fn key(name: &str) -> Vec<u8> {
        [&b")\x03"[..], &text("a.py"), b"i\x01\0\0\0", &text(name)].concat()
    }

    fn times(own: f64, whole: f64) -> Vec<u8> {
        let calls = b"i\x01\0\0\0i\x01\0\0\0g";
        [&calls[..], &own.to_le_bytes(), b"g", &whole.to_le_bytes()].concat()
    }

    fn entry(name: &str, own: f64, whole: f64, callers: &[(&str, f64)]) -> Vec<u8> {
        let mut bytes = [&key(name)[..], b")\x05", &times(own, whole), b"{"].concat();
        for (caller, whole) in callers {
            bytes.extend([&key(caller)[..], b")\x04", &times(own, *whole)].concat());
        }
        bytes.push(b'0');
        bytes
    }

    fn fold(bytes: &[u8]) -> (String, Warnings) {
        let input = Input::bytes("x", bytes).begin().expect("bytes");
        assert!(Pstats.detect(input.bytes()));
        let reading = Pstats.read(input, &Options::default()).expect("a profile");
        let mut folded = Vec::new();
        write_folded(&Tree::new(&reading.profile, &LabelOptions::default()), &mut folded)
            .expect("writing to memory");
        (String::from_utf8_lossy(&folded).into_owned(), reading.warnings)
    }

    fn whole() -> Vec<u8> {
        [
            &b"{"[..],
            &entry("main", 1e-9, 100e-9, &[]),
            &entry("a", 9e-9, 69e-9, &[("main", 69e-9)]),
            &entry("b", 0.0, 30e-9, &[("main", 30e-9)]),
            &entry("leaf", 90e-9, 90e-9, &[("a", 60e-9), ("b", 30e-9), ("leaf", 5e-9)]),
            b"0",
        ]
        .concat()
    }

    #[test]
    fn own_times_are_shared_out_among_callers() {
        let (folded, warnings) = fold(&whole());
        assert_eq!(folded, "main 1\nmain;a 9\nmain;a;leaf 60\nmain;b;leaf 30\n");
        assert!(!warnings.any_loss());
    }

    #[test]
    fn functions_before_a_cut_are_kept_and_the_cut_is_said() {
        let whole = whole();
        for length in [whole.len() - 1, whole.len() - 30] {
            let (folded, warnings) = fold(&whole[..length]);
            assert!(folded.starts_with("main 1\nmain;a 9\n"), "{folded}");
            assert!(warnings.any_loss());
        }
    }
}
