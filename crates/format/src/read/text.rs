//! What readers of line-based text have in common: lines with their numbers, and stacks by name.
//!
//! For formats whose files are small, as most are. Those of which people have gigabytes (`perf
//! script`, folded) read in larger pieces.

use std::io::{BufRead, BufReader, Read};

use pyrograph_profile::{
    Frame, FrameId, FrameKind, Profile, Sample, StackId, StringId, Thread, ThreadId, ValueType,
};

use super::Reading;
use crate::Head;
use crate::warnings::{Place, WarningKind, Warnings};

/// What is beyond this in one line is left out: no format has such lines.
const LONGEST_LINE: u64 = 16 << 20;

/// The lines of an input, without their ends (`\n` or `\r\n`); bytes that are not UTF-8 replaced.
pub(crate) struct Lines {
    input: BufReader<Box<dyn Read + Send>>,
    name: String,
    bytes: Vec<u8>,
    number: u64,
    ended: bool,
    /// What was wrong with them so far.
    pub warnings: Warnings,
}

impl Lines {
    pub fn new(input: Head) -> Self {
        let name = input.name().to_owned();
        let input = BufReader::with_capacity(64 << 10, input.into_stream());
        let (bytes, warnings) = (Vec::new(), Warnings::default());
        Self { input, name, bytes, number: 0, ended: false, warnings }
    }

    /// Puts the next line into `line`, in place of what was there; `false` at the end.
    pub fn next(&mut self, line: &mut String) -> bool {
        line.clear();
        self.bytes.clear();
        if self.ended {
            return false;
        }
        match (&mut self.input).take(LONGEST_LINE).read_until(b'\n', &mut self.bytes) {
            Ok(0) => self.ended = true,
            Ok(_) => {}
            Err(error) => {
                // What was read of this line stays: it may be whole.
                self.ended = true;
                self.warnings.add(WarningKind::Truncated(error.to_string()), 1, []);
            }
        }
        if self.bytes.is_empty() {
            return false;
        }
        self.number += 1;
        if self.bytes.last() == Some(&b'\n') {
            self.bytes.pop();
        } else if self.bytes.len() as u64 == LONGEST_LINE {
            self.warn(WarningKind::UnreadableLine);
            // The rest of it.
            let _ = self.input.skip_until(b'\n');
        }
        if self.bytes.last() == Some(&b'\r') {
            self.bytes.pop();
        }
        match str::from_utf8(&self.bytes) {
            Ok(text) => line.push_str(text),
            Err(_) => {
                line.push_str(&String::from_utf8_lossy(&self.bytes));
                self.warn(WarningKind::InvalidUtf8);
            }
        }
        true
    }

    /// The number of the line that came last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Counts one of `kind` at the line that came last.
    pub fn warn(&mut self, kind: WarningKind) {
        self.warn_at(kind, self.number);
    }

    /// Counts one of `kind` at a line.
    pub fn warn_at(&mut self, kind: WarningKind, line: u64) {
        self.warnings.add(kind, 1, [Place { file: self.name.clone(), line }]);
    }
}

/// Grows a profile of one value type, stack by stack.
pub(crate) struct Collector {
    pub profile: Profile,
    /// The frames of the stack that is being read, in the order in which the format lists them.
    pub frames: Vec<FrameId>,
}

impl Collector {
    pub fn new(value_type: ValueType) -> Self {
        Self { profile: Profile::new(vec![value_type]), frames: Vec::new() }
    }

    /// Adds a frame of which a name and perhaps a module (`""`: not known) are known to the stack.
    pub fn frame(&mut self, function: &str, module: &str, kind: FrameKind) {
        let function = self.profile.strings.intern(function);
        let module = self.profile.strings.intern(module);
        self.push_frame(Frame { module, ..Frame::named(function, kind) });
    }

    /// Adds a frame, whose strings are the profile's, to the stack.
    pub fn push_frame(&mut self, frame: Frame) {
        let frame = self.profile.frames.intern(frame);
        self.frames.push(frame);
    }

    /// How many frames the stack that is being read has so far.
    pub fn depth(&self) -> usize {
        self.frames.len()
    }

    /// Forgets the stack that is being read.
    pub fn discard(&mut self) {
        self.frames.clear();
    }

    /// The name of a frame of the stack that is being read; empty if there is no such frame.
    pub fn function(&self, place: usize) -> &str {
        let frame = self.frames.get(place).map(|&frame| self.profile.frames.get(frame));
        frame.map_or("", |frame| self.profile.strings.get(frame.function))
    }

    /// The thread of this name, of which nothing else is known; `""` is the unknown thread.
    pub fn thread_named(&mut self, name: &str) -> ThreadId {
        match name {
            "" => ThreadId::UNKNOWN,
            name => {
                let process = self.profile.strings.intern(name);
                self.profile.threads.intern(Thread { process, ..Thread::default() })
            }
        }
    }

    /// Ends a stack whose frames came root first, as a sample of `value`.
    pub fn end_root_first(&mut self, thread: ThreadId, value: u64) {
        let stack = self.profile.stacks.intern_path(self.frames.drain(..));
        self.sample(stack, thread, value);
    }

    /// Ends a stack whose frames came leaf first, as a sample of `value`.
    pub fn end_leaf_first(&mut self, thread: ThreadId, value: u64) {
        let stack = self.profile.stacks.intern_path(self.frames.drain(..).rev());
        self.sample(stack, thread, value);
    }

    fn sample(&mut self, stack: StackId, thread: ThreadId, value: u64) {
        self.profile.push(Sample { thread, ..Sample::new(stack) }, &[value]);
    }

    /// What was read.
    pub fn reading(self, warnings: Warnings) -> Reading {
        Reading { profile: self.profile, warnings, event: None }
    }

    /// An interned text.
    pub fn intern(&mut self, text: &str) -> StringId {
        self.profile.strings.intern(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Input;

    #[test]
    fn lines_have_no_ends_and_numbers_from_one() {
        let head = Input::bytes("x", &b"one\r\n\ntw\xffo\nlast"[..]).begin().expect("bytes");
        let mut lines = Lines::new(head);
        let mut line = String::new();
        let mut all = Vec::new();
        while lines.next(&mut line) {
            all.push((lines.number(), line.clone()));
        }
        let text = |number, text: &str| (number, text.to_owned());
        assert_eq!(all, [text(1, "one"), text(2, ""), text(3, "tw\u{fffd}o"), text(4, "last")]);
        let said: Vec<String> = lines.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(said, ["1 line had bytes that are not UTF-8, now replaced (x:3)"]);
    }
}
