//! Reader of the output of `node --prof-process`, which is made from V8's log.
//!
//! ```text
//!  [Bottom up (heavy) profile]:
//!    ticks parent  name
//!      74   59.7%  JS: *fib /src/fib.js:1:13
//!      74  100.0%    JS: ^work /src/fib.js:2:14
//!       6   20.0%  UNKNOWN
//! ```
//!
//! - Only the bottom-up part has stacks: each entry is a caller of the entry that it is indented under, with the
//!   ticks of calls from it. Ticks that are not distributed to callers end there.
//! - The output has at most five callers, and none below 1 % of its callee: outer parts are missing without any
//!   indication. For complete stacks use `node --cpu-prof` or perf.
//! - `*` marks optimized code, `^` and `+` partly optimized code, `~` interpreted code.

use pyrograph_profile::{Frame, FrameKind, ThreadId, ValueType};

use super::call_tree::{CallTree, Direction};
use super::text::{Collector, Lines};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};

/// Reader of `node --prof-process` text.
pub struct V8Prof;

const BOTTOM_UP: &str = " [Bottom up (heavy) profile]:";

impl Reader for V8Prof {
    fn name(&self) -> &'static str {
        "node --prof-process"
    }

    fn written_by(&self) -> &'static str {
        "node --prof-process"
    }

    fn detect(&self, head: &[u8]) -> bool {
        head.starts_with(b"Statistical profiling result from ")
            || memchr::memmem::find(head, BOTTOM_UP.as_bytes()).is_some()
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let mut lines = Lines::new(input);
        let mut collector = Collector::new(ValueType::new("ticks", "count"));
        let mut bottom_up = false;
        let mut tree = CallTree::new(Direction::Callers);
        let mut line = String::new();
        while lines.next(&mut line) {
            if line == BOTTOM_UP {
                bottom_up = true;
            } else if line.starts_with(" [") {
                bottom_up = false;
            }
            let Some((ticks, indent, call)) = entry(&line).filter(|_| bottom_up) else { continue };
            let frame = frame(&mut collector, call);
            let frame = collector.profile.frames.intern(frame);
            tree.enter(&mut collector, ThreadId::UNKNOWN, indent, Some(frame), ticks);
        }
        tree.finish(&mut collector, ThreadId::UNKNOWN);
        if collector.profile.samples.is_empty() {
            let reason = "it has no bottom-up profile with ticks".to_owned();
            return Err(ReadError::Nothing { name, reason });
        }
        Ok(collector.reading(lines.warnings))
    }
}

/// Parses ticks, indentation and name of an entry.
fn entry(line: &str) -> Option<(u64, usize, &str)> {
    let (ticks, rest) = line.trim_start().split_once(' ')?;
    let (_, rest) = rest.split_once("%  ")?;
    let call = rest.trim_start();
    Some((ticks.parse().ok()?, rest.len() - call.len(), call))
}

fn frame(collector: &mut Collector, call: &str) -> Frame {
    let Some(script) = call.strip_prefix("JS: ") else {
        let name = call.strip_prefix("T ").or_else(|| call.strip_prefix("t ")).unwrap_or(call);
        let is_module = name.starts_with('/');
        let text = collector.intern(name);
        return match is_module {
            true => Frame { module: text, ..Frame::default() },
            false => Frame::named(text, FrameKind::User),
        };
    };
    // An `o` before the sign is of code that replaced a running loop, a quotation mark behind it of one closure's.
    let sign =
        script.strip_prefix('o').filter(|rest| rest.starts_with(['+', '*'])).unwrap_or(script);
    let (kind, script) = match sign.split_at_checked(1) {
        Some(("~", rest)) => (FrameKind::Interpreted, rest),
        Some(("*" | "^" | "+", rest)) => (FrameKind::Jit, rest.strip_prefix('\'').unwrap_or(rest)),
        _ => (FrameKind::Jit, script),
    };
    let (function, place) = script.rsplit_once(' ').unwrap_or((script, ""));
    let mut parts = place.rsplitn(3, ':');
    let (_column, line, file) = (parts.next(), parts.next(), parts.next());
    let line = line.and_then(|line| line.parse().ok()).unwrap_or(0);
    let file = collector.intern(file.unwrap_or_default());
    let function = if function.is_empty() { "(anonymous)" } else { function };
    Frame { file, module: file, line, ..Frame::named(collector.intern(function), kind) }
}
