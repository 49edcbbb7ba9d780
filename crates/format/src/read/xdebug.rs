//! Reader of Xdebug's function traces of PHP, in the computer-readable format (`xdebug.trace_format=1`) and the
//! [human-readable](human) one (0).
//!
//! ```text
//! Version: 3.2.0
//! File format: 4
//! TRACE START [2026-11-21 12:45:13.598978]
//! 1    0    0    0.000933    394176    {main}    1        /src/x.php    0    0
//! 2    1    0    0.000993    394216    Work->run    1        /src/x.php    4    1    300000
//! 2    1    1    0.019086    394216
//! TRACE END   [2026-11-21 12:45:13.621761]
//! ```
//!
//! - Fields are separated by tabs: level, number of the call, 0 for a call, 1 for its return, `R` for its return
//!   value, seconds, memory; a call also has its name, 1 if it is defined in PHP, the file it includes, and the file
//!   and line of the caller.
//! - Values are self times of functions, or numbers of calls if samples are counted.
//! - Calls that never return, for example `exit`, last until the trace ends.
//! - Human-readable traces do not mark returns: a call lasts until the next call that is not deeper, unless return
//!   values were collected. Times have four decimals.
//! - Names of closures contain the place of their definition. It is kept, because it distinguishes them.

mod human;

use hashbrown::HashMap;
use pyrograph_profile::{Frame, FrameKind, Profile, Sample, StackId, ThreadId, ValueType};

use super::calls::Calls;
use super::text::{Lines, first_lines};
use crate::input::Head;
use crate::reader::{Count, Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;
use human::Line;

/// Reader of Xdebug traces.
pub struct Xdebug;

impl Reader for Xdebug {
    fn name(&self) -> &'static str {
        "Xdebug"
    }

    fn written_by(&self) -> &'static str {
        "PHP with xdebug.mode=trace, xdebug.trace_format 0 or 1"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let has = |text: &[u8]| memchr::memmem::find(&head[..head.len().min(1000)], text).is_some();
        let is_human = || {
            let mut lines = first_lines(head).skip_while(|line| !line.starts_with("TRACE START ["));
            lines.nth(1).is_some_and(|line| human::parse(line).is_some())
        };
        has(b"TRACE START [") && (has(b"File format: ") || is_human())
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let mut lines = Lines::new(input);
        let counted = options.count == Count::Samples;
        let of =
            if counted { ValueType::new("calls", "count") } else { ValueType::new("time", "ns") };
        let mut trace = Trace {
            profile: Profile::new(vec![of]),
            calls: Calls::new(ThreadId::UNKNOWN),
            counted: counted.then(HashMap::new),
            stack: Vec::new(),
            indents: Vec::new(),
            last: 0,
            too_deep: 0,
        };
        let mut begun = false;
        let mut line = String::new();
        while lines.next(&mut line) {
            if line.starts_with("TRACE START") {
                begun = true;
            } else if begun && line.starts_with("TRACE END") {
                // Another trace may follow, if the file was appended to.
                trace.end();
                begun = false;
            } else if begun && !line.trim().is_empty() && trace.line(&line).is_none() {
                lines.warn(WarningKind::UnreadableLine);
            }
        }
        trace.end();
        if trace.too_deep > 0 {
            lines.warnings.add(WarningKind::TooDeep, trace.too_deep, []);
        }
        Ok(Reading::new(trace.finish(), lines.warnings))
    }
}

struct Trace {
    profile: Profile,
    calls: Calls,
    /// Number of calls of each stack, if calls are counted.
    counted: Option<HashMap<StackId, u64>>,
    stack: Vec<StackId>,
    /// Indentations of the open calls in a human-readable trace.
    indents: Vec<usize>,
    /// The last time in the file, in nanoseconds.
    last: u64,
    /// Number of calls that were too deep to be shown.
    too_deep: u64,
}

impl Trace {
    fn line(&mut self, line: &str) -> Option<()> {
        if !line.contains('\t') {
            return self.human(line);
        }
        let mut fields = line.split('\t');
        let (level, number, what) = (fields.next()?, fields.next()?, fields.next()?);
        if what == "R" {
            return Some(());
        }
        let seconds: f64 = fields.next()?.parse().ok()?;
        self.last = (seconds * 1e9).round() as u64;
        // The memory at the end of a trace has neither level nor number.
        if level.is_empty() && number.is_empty() {
            return Some(());
        }
        let number = number.parse().ok()?;
        match what {
            "0" => {
                let _memory = fields.next()?;
                let name = fields.next()?;
                let (_user, included) = (fields.next()?, fields.next()?);
                let (file, line) = (fields.next()?, fields.next()?);
                self.call(number, name, included, file, line.parse().unwrap_or(0));
                Some(())
            }
            "1" => {
                self.stack.pop();
                let ended = match self.counted {
                    None => self.calls.end_token(&mut self.profile, self.last, number),
                    Some(_) => true,
                };
                ended.then_some(())
            }
            _ => None,
        }
    }

    fn human(&mut self, line: &str) -> Option<()> {
        match human::parse(line)? {
            Line::Call { time, indent, name, included, file, line } => {
                self.last = time;
                self.end_indented(indent);
                self.call(0, name, included, file, line);
                self.indents.push(indent);
            }
            Line::Return { time, indent } => {
                self.last = time;
                self.end_indented(indent);
            }
            Line::End { time } => self.last = time,
            Line::Assignment => {}
        }
        Some(())
    }

    /// Ends the calls with an indentation of `indent` or more.
    fn end_indented(&mut self, indent: usize) {
        while self.indents.last().is_some_and(|&open| open >= indent) {
            self.indents.pop();
            self.stack.pop();
            if self.counted.is_none() {
                self.calls.end(&mut self.profile, self.last);
            }
        }
    }

    fn call(&mut self, number: u64, name: &str, included: &str, file: &str, line: u32) {
        let name = match included.is_empty() {
            true => name.to_owned(),
            false => format!("{name}({included})"),
        };
        let strings = &mut self.profile.strings;
        let frame = Frame {
            // The source position of the caller.
            file: strings.intern(file),
            line,
            ..Frame::named(strings.intern(&name), FrameKind::Interpreted)
        };
        let frame = self.profile.frames.intern(frame);
        match &mut self.counted {
            None => self.calls.call(&mut self.profile, self.last, frame, number),
            Some(counted) => {
                let caller = self.stack.last().copied().unwrap_or(StackId::ROOT);
                let stack = self.profile.stacks.intern(caller, frame);
                self.stack.push(stack);
                *counted.entry(stack).or_default() += 1;
            }
        }
    }

    /// Ends all open calls.
    fn end(&mut self) {
        while self.calls.depth() > 0 {
            self.calls.end(&mut self.profile, self.last);
        }
        self.too_deep += self.calls.too_deep;
        self.calls = Calls::new(ThreadId::UNKNOWN);
        self.stack.clear();
        self.indents.clear();
    }

    fn finish(mut self) -> Profile {
        let mut counted: Vec<(StackId, u64)> = self.counted.take().into_iter().flatten().collect();
        counted.sort_unstable();
        for (stack, count) in counted {
            self.profile.push(Sample::new(stack), &[count]);
        }
        self.profile
    }
}
