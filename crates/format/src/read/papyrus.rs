//! Reader of profiling logs of Papyrus, the scripting language of Skyrim and Fallout 4 (`Debug.StartStackProfiling`,
//! `StartScriptProfiling`, `bEnableProfiling` in the game's settings).
//!
//! ```text
//! Stack_3185 log opened (PC)
//! 50002:START:3185
//! 50018:PUSH:3185:3: (00018A56):Form..GetFormID
//! 50018:POP:3185:3: (00018A56):Form..GetFormID
//! 50018:QUEUE_PUSH:3185:4: (00018A56):Location.??.GetFormID
//! Log closed
//! ```
//!
//! The fields are milliseconds, action, stack number, depth, object and function. Each stack is a thread of its own.
//!
//! - The value of each call is its self time. In the log of a single stack, time outside of calls that began in it
//!   belongs to the stack itself: earlier calls are only known by their ends, which are counted, with a warning.
//! - A call that waits for the game's next frame (`QUEUE_PUSH`) has not begun: the time counts for its caller.

use std::collections::BTreeMap;

use pyrograph_profile::{Frame, FrameId, FrameKind, Marker, Profile, Sample, Thread, ValueType};

use super::calls::Calls;
use super::rows::Rows;
use super::text::{Lines, first_lines};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};

/// Reader of Papyrus logs.
pub struct Papyrus;

impl Reader for Papyrus {
    fn name(&self) -> &'static str {
        "Papyrus"
    }

    fn written_by(&self) -> &'static str {
        "Debug.StartStackProfiling, StartScriptProfiling (Skyrim, Fallout 4)"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines = first_lines(head).filter(|line| !line.trim().is_empty());
        lines.next().is_some_and(is_title) && lines.next().is_some_and(|of| entry(of).is_some())
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let mut lines = Lines::new(input);
        let mut log = Log {
            profile: Profile::new(vec![ValueType::new("time", "ns")]),
            stacks: BTreeMap::new(),
            last: 0,
            unmatched: 0,
        };
        let mut is_closed = false;
        while lines.advance() {
            let line = lines.line().trim();
            match entry(line) {
                Some(entry) => log.entry(&entry),
                None if line == "Log closed" => is_closed = true,
                None if line.is_empty() || is_title(line) => {}
                None => lines.warn(WarningKind::UnreadableLine),
            }
        }
        if !is_closed {
            let cause = "its last line (Log closed) is missing".to_owned();
            lines.warnings.add(WarningKind::Truncated(cause), 1, []);
        }
        Ok(log.finish(options, lines.warnings))
    }
}

/// True for `Stack_3185 log opened (PC)` and `Script_abc_example_quest log opened (PC)`.
fn is_title(line: &str) -> bool {
    let name = line.trim().split_once(" log opened").map(|(name, _)| name);
    name.is_some_and(|name| name.starts_with("Stack_") || name.starts_with("Script_"))
}

/// A line between the title and the end.
#[derive(Debug, PartialEq)]
struct Entry<'a> {
    /// Time in milliseconds.
    time: u64,
    what: &'a str,
    stack: u64,
    function: &'a str,
}

fn entry(line: &str) -> Option<Entry<'_>> {
    let (time, rest) = line.trim().split_once(':')?;
    let (what, rest) = rest.split_once(':')?;
    let (stack, rest) = rest.split_once(':').unwrap_or((rest, ""));
    let is_word = |text: &str| text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    // An object's name may contain a colon.
    let (_, function) = rest.rsplit_once(':').unwrap_or(("", rest));
    let (time, stack) = (time.parse().ok()?, stack.parse().ok()?);
    (!what.is_empty() && is_word(what)).then_some(Entry { time, what, stack, function })
}

struct Log {
    profile: Profile,
    stacks: BTreeMap<u64, Calls>,
    /// Time of the last entry, in nanoseconds.
    last: u64,
    /// Number of ends of calls that began before the log.
    unmatched: u64,
}

impl Log {
    fn entry(&mut self, entry: &Entry<'_>) {
        let time = entry.time.saturating_mul(1_000_000);
        self.last = self.last.max(time);
        let profile = &mut self.profile;
        let calls = self.stacks.entry(entry.stack).or_insert_with(|| {
            let process = profile.strings.intern(&format!("stack {}", entry.stack));
            let tid = i32::try_from(entry.stack).ok();
            Calls::new(profile.threads.intern(Thread { tid, process, ..Thread::default() }))
        });
        match entry.what {
            "START" => {
                let frame = frame(profile, "[began before]", FrameKind::Marker(Marker::Remark));
                calls.call(profile, time, frame, u64::MAX);
            }
            "PUSH" => {
                let frame = frame(profile, entry.function, FrameKind::Interpreted);
                calls.call(profile, time, frame, u64::from(frame.0));
            }
            "POP" => {
                let frame = frame(profile, entry.function, FrameKind::Interpreted);
                let ended = calls.end_token(profile, time, u64::from(frame.0));
                self.unmatched += u64::from(!ended);
            }
            // `QUEUE_PUSH`, `QUEUE_POP`.
            _ => {}
        }
    }

    fn finish(mut self, options: &Options, mut warnings: Warnings) -> Reading {
        let mut too_deep = 0;
        for calls in self.stacks.values_mut() {
            if calls.depth() > 0 {
                calls.pass(&mut self.profile, self.last);
            }
            too_deep += calls.too_deep;
        }
        let counts =
            [(WarningKind::UnmatchedEnd, self.unmatched), (WarningKind::TooDeep, too_deep)];
        for (kind, count) in counts.into_iter().filter(|&(_, count)| count > 0) {
            warnings.add(kind, count, []);
        }
        let Profile { value_types, strings, frames, stacks, threads, samples, .. } = self.profile;
        let empty = Profile::new(value_types);
        let mut profile = Profile { strings, frames, stacks, ..empty };
        let mut rows = Rows::new(options, 1);
        for (sample, value) in samples.iter().zip(samples.values(0)) {
            let thread = rows.thread(&mut profile, threads.get(sample.thread));
            rows.push(Sample { thread, time: sample.time, ..Sample::new(sample.stack) }, &[*value]);
        }
        rows.finish(&mut profile);
        Reading::new(profile, warnings)
    }
}

fn frame(profile: &mut Profile, function: &str, kind: FrameKind) -> FrameId {
    let function = profile.strings.intern(function);
    profile.frames.intern(Frame::named(function, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let check = |line, expect| assert_eq!(entry(line), expect, "{line}");
        let of = |time, what, stack, function| Some(Entry { time, what, stack, function });
        check("50002:START:3185", of(50002, "START", 3185, ""));
        check("1:POP:2:3:None:Debug..Start", of(1, "POP", 2, "Debug..Start"));
        check("1:PUSH:2:3:a: b (0001A27A):Cell..f", of(1, "PUSH", 2, "Cell..f"));
        for line in ["", "1:2", "1:pop:2", "x:POP:2", "1:POP:x", "1::2", "Log closed"] {
            check(line, None);
        }
        assert!(is_title("Script_abc_example_quest log opened (PC)"));
        assert!(!is_title("log opened (PC)"));
    }
}
