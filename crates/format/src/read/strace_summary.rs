//! Reader of the table of `strace -c`: system calls and their total times.
//!
//! ```text
//! % time     seconds  usecs/call     calls    errors syscall
//! ------ ----------- ----------- --------- --------- ----------------
//!  52.63    0.000010           5         2         1 access
//!   0.00    0.000000           0         4           close
//! ------ ----------- ----------- --------- --------- ----------------
//! 100.00    0.000019           0        21         1 total
//! ```
//!
//! There are no stacks: each system call is one frame. The first value is the time, the second the number of calls.
//! Columns are identified by the heading (`-U` changes them). With `-C` the table follows a trace, which is then read
//! instead.

use pyrograph_profile::{Frame, FrameKind, Profile, Sample, StackId, ValueType};

use super::text::{Lines, first_lines};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of `strace -c` tables.
pub struct StraceSummary;

impl Reader for StraceSummary {
    fn name(&self) -> &'static str {
        "strace summary"
    }

    fn written_by(&self) -> &'static str {
        "strace -c"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines = first_lines(head).filter(|line| !line.is_empty());
        lines.next().is_some_and(|line| Columns::of(line).is_some())
            && lines.next().is_some_and(is_rule)
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let mut lines = Lines::new(input);
        let types = vec![ValueType::new("time", "ns"), ValueType::new("calls", "count")];
        let mut profile = Profile::new(types);
        let mut columns: Option<Columns> = None;
        while lines.advance() {
            let line = lines.line().trim_end();
            if line.is_empty() || is_rule(line) {
                continue;
            }
            if let Some(found) = Columns::of(line) {
                columns = Some(found);
                continue;
            }
            match columns.as_ref().and_then(|columns| columns.row(line)) {
                Some(("total", ..)) => {}
                Some((name, time, calls)) => {
                    let function = profile.strings.intern(name);
                    let frame = profile.frames.intern(Frame::named(function, FrameKind::Kernel));
                    let stack = profile.stacks.intern(StackId::ROOT, frame);
                    profile.push(Sample::new(stack), &[time, calls]);
                }
                None => lines.warn(WarningKind::UnreadableLine),
            }
        }
        // In a short run, all calls may take less than a microsecond.
        profile.shown = usize::from(profile.samples.total(0) == 0);
        Ok(Reading::new(profile, lines.warnings))
    }
}

/// The columns that are read, counted from the left. `errors` may be empty.
struct Columns {
    seconds: usize,
    calls: usize,
    count: usize,
}

impl Columns {
    /// Parses `% time     seconds  usecs/call     calls    errors syscall`.
    fn of(line: &str) -> Option<Self> {
        // The only heading of two words.
        let line = line.replacen("% time", "%time", 1);
        let names: Vec<&str> = line.split_whitespace().collect();
        let place = |name: &str| names.iter().position(|&found| found == name);
        (names.last() == Some(&"syscall")).then_some(())?;
        Some(Self { seconds: place("seconds")?, calls: place("calls")?, count: names.len() })
    }

    fn row<'a>(&self, line: &'a str) -> Option<(&'a str, u64, u64)> {
        let words: Vec<&str> = line.split_whitespace().collect();
        // An empty `errors` cell does not shift the columns that are read: it comes after the calls, just before the
        // name.
        if words.len() != self.count && words.len() + 1 != self.count {
            return None;
        }
        let seconds: f64 = words[self.seconds].parse().ok().filter(|seconds| *seconds >= 0.0)?;
        let calls = words[self.calls].parse().ok()?;
        Some((words.last()?, (seconds * 1e9).round() as u64, calls))
    }
}

fn is_rule(line: &str) -> bool {
    line.starts_with("---")
        && line.contains("- -")
        && line.bytes().all(|byte| matches!(byte, b'-' | b' '))
}
