//! Reader of V8's `.heapprofile`, allocations by function, as written by `node --heap-prof` and Chrome's developer
//! tools ("Allocation sampling").
//!
//! ```text
//! {"head":{"callFrame":{"functionName":"(root)","scriptId":"0","url":"","lineNumber":-1,"columnNumber":-1},
//!          "selfSize":0,"id":1,"children":[{"callFrame":{"functionName":"grow",…},"selfSize":524512,"id":2,
//!          "children":[]}]},
//!  "samples":[{"size":524512,"nodeId":2,"ordinal":1}]}
//! ```
//!
//! Source: the type `HeapProfiler.SamplingHeapProfile` of the Chrome DevTools Protocol. `selfSize` is the live memory
//! that the function itself allocated, in bytes, estimated from samples by V8. `samples` lists the samples one by
//! one. `(root)` is not a frame; `(V8 API)`, `(GC)` and the like are V8's names, and are kept.

use pyrograph_profile::{Frame, FrameId, FrameKind, Profile, Sample, ValueType};
use struson::reader::{JsonReader, ReaderError, ValueType as Type};

use super::json;
use super::json_tree::{self, Tokens};
use super::rows::Rows;
use super::text::Collector;
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};

/// Reader of V8's `.heapprofile`.
pub struct HeapProfile;

impl Reader for HeapProfile {
    fn name(&self) -> &'static str {
        "heapprofile"
    }

    fn written_by(&self) -> &'static str {
        "node --heap-prof, Chrome's developer tools"
    }

    fn detect(&self, head: &[u8]) -> bool {
        json::begins_object(head)
            && json::has_key(head, "head")
            && json::has_key(head, "callFrame")
            && json::has_key(head, "selfSize")
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let (nodes, mut warnings) = json_tree::read::<Call>(input, "head", "children", Call::field);
        let mut out = Collector::new(ValueType::samples());
        out.profile = Profile::new(vec![ValueType::new("heap", "bytes")]);
        let stacks = json_tree::stacks(&nodes, &mut out, &mut warnings, Call::frame);
        let mut rows = Rows::new(options, 1);
        for (node, stack) in nodes.iter().zip(stacks) {
            if node.fields.size > 0 {
                rows.push(Sample::new(stack), &[node.fields.size]);
            }
        }
        rows.finish(&mut out.profile);
        if out.profile.samples.is_empty() && !warnings.any_loss() {
            let reason = "no allocation was sampled while it was recorded".to_owned();
            return Err(ReadError::Nothing { name, reason });
        }
        Ok(out.reading(warnings))
    }
}

#[derive(Default)]
struct Call {
    function: String,
    url: String,
    /// Line at which the function begins, from 0; −1 if there is none.
    line: f64,
    size: u64,
}

impl Call {
    fn field(&mut self, name: &str, tokens: &mut Tokens) -> Result<bool, ReaderError> {
        match name {
            "selfSize" => self.size = json_tree::number(tokens)?.round() as u64,
            "callFrame" if tokens.peek()? == Type::Object => {
                tokens.begin_object()?;
                while tokens.has_next()? {
                    match tokens.next_name_owned()?.as_str() {
                        "functionName" => self.function = json_tree::text(tokens)?,
                        "url" => self.url = json_tree::text(tokens)?,
                        "lineNumber" => self.line = json_tree::number(tokens)?,
                        _ => tokens.skip_value()?,
                    }
                }
                tokens.end_object()?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn frame(&self, out: &mut Collector) -> Option<FrameId> {
        let (name, kind) = match self.function.as_str() {
            "(root)" => return None,
            "" => ("(anonymous)", FrameKind::Interpreted),
            name if name.starts_with('(') => (name, FrameKind::User),
            name => (name, FrameKind::Interpreted),
        };
        let (function, file) = (out.intern(name), out.intern(&self.url));
        let line = if self.url.is_empty() { 0 } else { (self.line + 1.0) as u32 };
        let named = Frame { start_line: line, ..Frame::named(function, kind) };
        let frame = Frame { file, module: file, line, ..named };
        Some(out.profile.frames.intern(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Input, write_folded};
    use pyrograph_profile::{LabelOptions, Tree};

    #[test]
    fn a_tree_of_any_depth_is_read_and_a_cut_is_said() {
        const DEPTH: usize = 200_000;
        let mut text = r#"{"head":"#.to_owned();
        for level in 0..DEPTH {
            text += r#"{"callFrame":{"functionName":"f"},"selfSize":1,"children":["#;
            assert!(level < DEPTH);
        }
        let whole = text.clone() + &"]}".repeat(DEPTH) + "}";
        for (text, cut) in [(whole, false), (text, true)] {
            let input = Input::bytes("x", text).begin().expect("bytes");
            let reading = HeapProfile.read(input, &Options::default()).expect("a profile");
            assert_eq!(reading.profile.samples.total(0), DEPTH as u64);
            assert_eq!(reading.warnings.any_loss(), cut);
            let said: Vec<String> = reading.warnings.iter().map(ToString::to_string).collect();
            assert!(said.iter().any(|line| line.contains("[deeper calls]")), "{said:?}");
        }
    }

    #[test]
    fn sizes_are_each_functions_own() {
        let text = r#"{"head":{"callFrame":{"functionName":"(root)"},"selfSize":0,"id":1,"children":[
            {"callFrame":{"functionName":"a","url":"a.js","lineNumber":3},"selfSize":5,"id":2,"children":[
                {"callFrame":{"functionName":""},"selfSize":7,"children":[]}]},
            {"callFrame":{"functionName":"(V8 API)"},"selfSize":2,"children":[]}]},"samples":[{"size":5}]}"#;
        let input = Input::bytes("x", text).begin().expect("bytes");
        assert!(HeapProfile.detect(input.bytes()));
        let reading = HeapProfile.read(input, &Options::default()).expect("a profile");
        let labels = LabelOptions { source: true, ..LabelOptions::default() };
        let mut folded = Vec::new();
        write_folded(&Tree::new(&reading.profile, &labels), &mut folded).expect("to memory");
        let expect = "(V8 API) 2\na:a.js:4 5\na:a.js:4;(anonymous) 7\n";
        assert_eq!(String::from_utf8_lossy(&folded), expect);
        assert!(reading.warnings.is_empty());
    }
}
