//! Start lines of functions, for formats that have a table of functions.

use hashbrown::HashMap;
use pyrograph_profile::{Frame, Profile, StringId};

/// The start line of each function, by name and source file. If only some frames of a function have it, it is used for
/// all of them: otherwise the function would appear twice.
pub(super) struct StartLines {
    known: HashMap<(StringId, StringId), u32, foldhash::fast::FixedState>,
}

impl StartLines {
    pub fn new(profile: &Profile) -> Self {
        let mut known = HashMap::default();
        for frame in profile.frames.iter().filter(|frame| frame.start_line > 0) {
            known.entry((frame.function, frame.file)).or_insert(frame.start_line);
        }
        Self { known }
    }

    /// Start line of a frame's function; 0 if unknown.
    pub fn of(&self, frame: Frame) -> u32 {
        match frame.start_line {
            0 => self.known.get(&(frame.function, frame.file)).copied().unwrap_or(0),
            line => line,
        }
    }

    /// The first start line among all functions with the name and source file of `frame`.
    pub fn first_of(&self, frame: Frame) -> u32 {
        self.known.get(&(frame.function, frame.file)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{FrameKind, Sample, ValueType};

    use super::*;
    use crate::{Input, Options, WriteOptions, read, writer_named};

    /// The lines and start lines that are read again of three frames of one function, the second without its start
    /// line, and one of another function of the same name.
    fn written(format: &str) -> Vec<(u32, u32)> {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        let (name, file) = (profile.strings.intern("work"), profile.strings.intern("a.c"));
        for (line, start_line) in [(3, 2), (4, 0), (5, 2), (13, 12)] {
            let named = Frame::named(name, FrameKind::User);
            let frame = profile.frames.intern(Frame { file, line, start_line, ..named });
            let stack = profile.stacks.intern_path([frame]);
            profile.push(Sample::new(stack), &[1]);
        }
        let mut bytes = Vec::new();
        let writer = writer_named(format).expect("a format");
        writer.write(&profile, &WriteOptions::default(), &mut bytes).expect("to memory");
        let (read, _) = read(vec![Input::bytes("x", bytes)], &Options::default()).expect("it");
        let mut lines: Vec<_> = read.frames.iter().map(|of| (of.line, of.start_line)).collect();
        lines.sort_unstable();
        lines
    }

    #[test]
    fn frames_of_one_function_have_one_start_line() {
        for format in ["pprof", "otlp"] {
            assert_eq!(written(format), [(3, 2), (4, 2), (5, 2), (13, 12)], "{format}");
        }
        // There, two functions of one name would be two in its call tree.
        assert_eq!(written("firefox"), [(3, 2), (4, 2), (5, 2), (13, 2)]);
    }
}
