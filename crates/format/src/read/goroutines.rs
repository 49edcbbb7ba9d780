//! Reader of stacks of goroutines, as printed by Go's panics, on `SIGQUIT`, and by `/debug/pprof/goroutine?debug=2`.
//!
//! ```text
//! goroutine 18 [chan receive, 5 minutes]:
//! main.worker(0x0?)
//! \t/src/g.go:16 +0x1b
//! created by main.main in goroutine 1
//! \t/src/g.go:24 +0x67
//! ```
//!
//! - Each goroutine is a sample of 1; the state that it waits in is a frame at the leaf.
//! - The function that created it is not on its stack.

use pyrograph_profile::{Frame, FrameId, FrameKind, Marker, ThreadId, ValueType};

use super::text::{Collector, Lines, first_lines};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of goroutine dumps.
pub struct Goroutines;

impl Reader for Goroutines {
    fn name(&self) -> &'static str {
        "goroutines"
    }

    fn written_by(&self) -> &'static str {
        "Go's panics, kill -QUIT, /debug/pprof/goroutine?debug=2"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines = first_lines(head).skip_while(|line| state(line).is_none());
        lines.next().is_some() && lines.nth(1).is_some_and(|line| line.starts_with('\t'))
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let mut lines = Lines::new(input);
        let mut out = Collector::new(ValueType::new("goroutines", "count"));
        let mut open = false;
        // The source position of a function is on the next line.
        let mut function: Option<String> = None;
        let mut line = String::new();
        while lines.next(&mut line) {
            if let Some(state) = state(&line) {
                finish(&mut out, &mut open);
                open = true;
                function = None;
                if state != "running" {
                    out.remark(&format!("[{state}]"));
                }
            } else if line.is_empty() {
                finish(&mut out, &mut open);
            } else if !open {
            } else if let Some(place) = line.strip_prefix('\t') {
                if let Some(name) = function.take() {
                    let frame = frame(&mut out, &name, place);
                    out.frames.push(frame);
                }
            } else if line.starts_with("...") && line.ends_with("elided...") {
                out.marker(Marker::Truncated);
            } else if line.starts_with("created by ") {
                function = None;
            } else if let Some((name, _)) = line.rsplit_once('(') {
                function = Some(name.to_owned());
            } else {
                lines.warn(WarningKind::UnreadableLine);
            }
        }
        finish(&mut out, &mut open);
        Ok(out.reading(lines.warnings))
    }
}

/// Returns the state of a goroutine: `chan receive` in `goroutine 18 [chan receive, 5 minutes]:`.
fn state(line: &str) -> Option<&str> {
    let (number, rest) = line.strip_prefix("goroutine ")?.split_once(' ')?;
    let inside = rest[rest.find('[')?..].strip_prefix('[')?.strip_suffix("]:")?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| inside.split(',').next().unwrap_or_default())
}

/// Interns the frame of a function with a source position such as `/src/g.go:16 +0x1b`.
fn frame(out: &mut Collector, name: &str, place: &str) -> FrameId {
    let place = place.split(" +0x").next().unwrap_or(place);
    let (file, line) = place.rsplit_once(':').unwrap_or((place, ""));
    let (function, file) = (out.intern(name), out.intern(file));
    let line = line.trim().parse().unwrap_or(0);
    out.profile.frames.intern(Frame { file, line, ..Frame::named(function, FrameKind::User) })
}

fn finish(out: &mut Collector, open: &mut bool) {
    if std::mem::take(open) && out.depth() > 0 {
        out.end_leaf_first(ThreadId::UNKNOWN, 1);
    }
    out.discard();
}
