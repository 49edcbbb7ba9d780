//! Reader of Austin's text output: one sampled Python stack per line, with its metric.
//!
//! ```text
//! # austin: 3.6.0
//! # mode: wall
//! P22323;T0x7f1a421fe000;/src/e.py:<module>:7;/src/e.py:outer:5;/src/e.py:inner:4 10073
//! P22323;T22324;main (e.py);L7;inner (e.py);L4 10073
//! ```
//!
//! - The metric is microseconds; with `# mode: memory`, bytes; with `# mode: full`, three numbers `time,idle,memory`,
//!   each of which becomes a column (`idle` is 1 for idle samples).
//! - Version 1 prints the line as a separate frame.
//! - A memory metric may be negative if memory was freed: it counts as 0.
//! - The thread may have an interpreter ID as prefix, `T0:140…`; the thread ID follows the colon.

use pyrograph_profile::{Frame, FrameKind, Marker, Profile, Sample, Thread, ValueType};

use super::text::Lines;
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of Austin text.
pub struct Austin;

impl Reader for Austin {
    fn name(&self) -> &'static str {
        "Austin"
    }

    fn written_by(&self) -> &'static str {
        "austin"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let first = head.split(|&byte| byte == b'\n').find(|line| !line.starts_with(b"#"));
        head.starts_with(b"# austin: ")
            || first
                .and_then(|line| str::from_utf8(line).ok())
                .is_some_and(|line| split(line.trim_end()).is_some())
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let mut lines = Lines::new(input);
        let mut profile = Profile::new(vec![ValueType::new("time", "ns")]);
        let mut mode = Mode::Time;
        let mut line = String::new();
        while lines.next(&mut line) {
            if let Some(remark) = line.strip_prefix('#') {
                if let Some(named) = remark.trim().strip_prefix("mode:")
                    && profile.samples.is_empty()
                {
                    mode = Mode::named(named.trim());
                    profile = Profile::new(mode.value_types());
                }
                continue;
            }
            if line.trim().is_empty() {
                continue;
            }
            if push(&mut profile, mode, &line).is_none() {
                lines.warn(WarningKind::UnreadableSample);
            }
        }
        Ok(Reading::new(profile, lines.warnings))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Time,
    Memory,
    Full,
}

impl Mode {
    fn named(name: &str) -> Self {
        match name {
            "memory" => Self::Memory,
            "full" => Self::Full,
            _ => Self::Time,
        }
    }

    fn value_types(self) -> Vec<ValueType> {
        let (time, memory) = (ValueType::new("time", "ns"), ValueType::new("memory", "bytes"));
        match self {
            Self::Time => vec![time],
            Self::Memory => vec![memory],
            Self::Full => vec![time, ValueType::new("idle", "count"), memory],
        }
    }

    fn values(self, metric: &str) -> Option<Vec<u64>> {
        let number = |text: &str| text.parse::<i64>().ok().map(|number| number.max(0) as u64);
        match self {
            Self::Time => Some(vec![number(metric)?.saturating_mul(1000)]),
            Self::Memory => Some(vec![number(metric)?]),
            Self::Full => {
                let mut parts = metric.splitn(3, ',');
                let time = number(parts.next()?)?.saturating_mul(1000);
                Some(vec![time, number(parts.next()?)?, number(parts.next()?)?])
            }
        }
    }
}

/// Splits a line into process ID, thread, frames with their semicolons, and metric.
fn split(line: &str) -> Option<(i32, &str, &str, &str)> {
    let (stack, metric) = line.rsplit_once(' ')?;
    let (pid, rest) = stack.strip_prefix('P')?.split_once(';')?;
    let (thread, frames) = rest.split_once(';').unwrap_or((rest, ""));
    let thread = thread.strip_prefix('T')?;
    let is_number = |c: char| c.is_ascii_digit() || c == ',' || c == '-';
    let is_id = thread.chars().all(|c| c.is_ascii_hexdigit() || c == 'x' || c == ':');
    (!metric.is_empty() && metric.chars().all(is_number) && is_id && !thread.is_empty())
        .then(|| Some((pid.parse().ok()?, thread, frames, metric)))?
}

fn push(profile: &mut Profile, mode: Mode, line: &str) -> Option<()> {
    let (pid, thread, frames, metric) = split(line.trim_end())?;
    let values = mode.values(metric)?;
    let mut path: Vec<Frame> = Vec::new();
    for text in frames.split(';').filter(|text| !text.is_empty()) {
        let is_line = text.strip_prefix('L').and_then(|digits| digits.parse::<u32>().ok());
        if let (Some(line), Some(last)) = (is_line, path.last_mut()) {
            last.line = line;
            continue;
        }
        let mut parts = text.rsplitn(3, ':');
        let (last, before, module) = (parts.next()?, parts.next(), parts.next());
        let (function, file, line) = match (module, before, last.parse::<u32>()) {
            (Some(module), Some(function), Ok(line)) => (function, module, line),
            _ => match text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) {
                Some((function, file)) => (function, file, 0),
                None => (text, "", 0),
            },
        };
        // `:INVALID:`, `:GC:` and the like are printed by Austin itself.
        let kind = match text.starts_with(':') && text.ends_with(':') {
            true => FrameKind::Marker(Marker::Remark),
            false => FrameKind::Interpreted,
        };
        let function = profile.strings.intern(function);
        let file = profile.strings.intern(file);
        path.push(Frame { file, line, ..Frame::named(function, kind) });
    }
    let frames: Vec<_> = path.into_iter().map(|frame| profile.frames.intern(frame)).collect();
    let stack = profile.stacks.intern_path(frames);
    let number = thread.rsplit(':').next().unwrap_or(thread);
    // A pthread address (0x7f…) is not a kernel thread ID.
    let tid = number.parse().ok();
    let process = profile.strings.intern("python");
    let thread = Thread { pid: Some(pid), tid, process, ..Thread::default() };
    let thread = profile.threads.intern(thread);
    profile.push(Sample { thread, ..Sample::new(stack) }, &values);
    Some(())
}
