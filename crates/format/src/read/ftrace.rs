//! Reader of stacks that the kernel's tracer writes after events (`options/stacktrace`, `userstacktrace`, a
//! `stacktrace` trigger, `func_stack_trace`), and of the output of `trace-cmd report` for them (`-T`).
//!
//! ```text
//! # tracer: nop
//! #           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
//!             demo-30703   [000] d..2. 14362.884825: sched_switch: prev_comm=demo …
//!             demo-30703   [000] d..2. 14362.884832: <stack trace>
//!  => __schedule
//!  => xfs_buf_iowait+0x40/0xa0 [xfs]
//!  => entry_SYSCALL_64_after_hwframe
//!             demo-30703   [000] d..2. 14362.884832: <user stack trace>
//!  => /usr/lib/x86_64-linux-gnu/libc.so.6[+0xa9545]
//!  =>  <00007fe21482e000>
//!             demo-30703   [000] 14362.884832: kernel_stack:         <stack trace >
//! => __schedule (ffffffff821f8b58)
//! => schedule (ffffffff821f94c3)
//! ```
//!
//! - Each stack is a sample of 1. A user stack that follows a kernel stack of the same task is its outer part.
//! - The event of a stack is the preceding one of the same task. Of several events, one is read at a time: the first
//!   one, or the one chosen by `--event-filter`. With the function tracer, the event is the function.
//! - The tracer has no symbols of user code, only file and offset (option `sym-userobj`), or the address.

use std::collections::BTreeMap;

use pyrograph_profile::{FrameKind, Sample, StackId, ThreadId, ValueType};

use super::text::{Collector, Lines, first_lines, hex_address};
use crate::input::Head;
use crate::reader::{Detail, Options, ReadError, Reader, Reading, ThreadDetail};
use crate::warnings::WarningKind;

/// Reader of ftrace text.
pub struct Ftrace;

impl Reader for Ftrace {
    fn name(&self) -> &'static str {
        "ftrace"
    }

    fn written_by(&self) -> &'static str {
        "/sys/kernel/tracing/trace with options/stacktrace, trace-cmd record -T; trace-cmd report"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut is_title = false;
        first_lines(head).any(|line| {
            let found = is_title && frame(line).is_some();
            is_title = Line::parse(line).is_some_and(|line| line.stack().is_some());
            found
        })
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let mut lines = Lines::new(input);
        let mut state = State {
            out: Collector::new(ValueType::samples()).addresses(options),
            events: Vec::new(),
            last: None,
            stack: None,
            rows: Vec::new(),
        };
        let mut text = String::new();
        while lines.next(&mut text) {
            if let (Some((_, kind, _)), Some(frame)) = (&state.stack, frame(&text)) {
                let kind = *kind;
                state.frame(frame, kind);
            } else if let Some(line) = Line::parse(&text) {
                state.line(&line, options.threads);
            } else if !text.starts_with('#') && frame(&text).is_some() {
                lines.warn(WarningKind::UnreadableLine);
            }
        }
        state.end();
        Ok(state.finish(lines, options))
    }
}

/// Parses ` => __schedule`.
fn frame(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("=>").map(str::trim)
}

/// A line of the trace.
struct Line<'a> {
    comm: &'a str,
    tid: i32,
    pid: Option<i32>,
    cpu: u32,
    time: Option<u64>,
    /// The event, with its arguments.
    event: &'a str,
}

impl<'a> Line<'a> {
    /// Parses `comm-TID (PID) [CPU] flags time: event`. The name may contain all of these delimiters.
    fn parse(line: &'a str) -> Option<Self> {
        // Names have at most 15 bytes, and numbers few digits, so the search can stop early in long lines.
        const FAR: usize = 200;
        let mut places = line.match_indices(" [").take_while(|&(at, _)| at < FAR);
        places.find_map(|(at, _)| {
            let end = line.as_bytes()[at + 2..].iter().take(12).position(|&byte| byte == b']')?;
            let (cpu, after) = line[at + 2..].split_at(end);
            let (cpu, after) = (cpu.parse().ok()?, after.strip_prefix("] ")?);
            let (task, pid) = match line[..at].trim_end().strip_suffix(')') {
                Some(task) => {
                    let (task, pid) = task.rsplit_once('(')?;
                    (task.trim_end(), pid.trim().parse().ok())
                }
                None => (line[..at].trim_end(), None),
            };
            let (comm, tid) = task.rsplit_once('-')?;
            let tid = tid.parse().ok()?;
            let (before, event) = after.split_once(": ")?;
            let time = time(before.rsplit(' ').next()?)?;
            Some(Self {
                comm: comm.trim_start(),
                tid,
                pid,
                cpu,
                time: Some(time),
                event: event.trim(),
            })
        })
    }

    /// Returns the kind of stack that follows; `None` if the line is an event.
    fn stack(&self) -> Option<FrameKind> {
        let title = self.event.strip_suffix('>')?.trim_end();
        if title.ends_with("<user stack trace") {
            return Some(FrameKind::User);
        }
        title.ends_with("<stack trace").then_some(FrameKind::Kernel)
    }

    /// Returns the name of the event: `sched_switch: prev_comm=…`, `vfs_read <-ksys_read`.
    fn event_name(&self) -> &'a str {
        let end = self.event.find([':', ' ']).unwrap_or(self.event.len());
        &self.event[..end]
    }
}

/// Parses seconds with microseconds or nanoseconds into nanoseconds.
fn time(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let scale = 10u64.checked_pow(9u32.checked_sub(fraction.len().try_into().ok()?)?)?;
    let digits =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?;
    let (seconds, fraction): (u64, u64) = (digits(seconds)?, digits(fraction)?);
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction * scale)
}

struct State {
    out: Collector,
    events: Vec<String>,
    /// The event and the thread of the last line that was not a stack.
    last: Option<(usize, i32)>,
    /// The current stack.
    stack: Option<(Row, FrameKind, i32)>,
    rows: Vec<Row>,
}

#[derive(Clone, Copy)]
struct Row {
    event: usize,
    sample: Sample,
}

impl State {
    fn line(&mut self, line: &Line<'_>, threads: ThreadDetail) {
        let Some(kind) = line.stack() else {
            self.end();
            let event = self.event(line.event_name());
            self.last = Some((event, line.tid));
            return;
        };
        if let Some((_, last_kind, tid)) = &mut self.stack
            && (*tid, *last_kind, kind) == (line.tid, FrameKind::Kernel, FrameKind::User)
        {
            *last_kind = FrameKind::User;
            return;
        }
        self.end();
        let event = match self.last {
            Some((event, tid)) if tid == line.tid => event,
            _ => self.event("stack"),
        };
        let (pid, tid) = threads.numbers(line.pid, Some(line.tid));
        let thread: ThreadId = self.out.thread(line.comm, pid, tid);
        let sample =
            Sample { thread, cpu: Some(line.cpu), time: line.time, ..Sample::new(StackId::ROOT) };
        self.stack = Some((Row { event, sample }, kind, line.tid));
    }

    fn event(&mut self, name: &str) -> usize {
        self.events.iter().position(|event| event == name).unwrap_or_else(|| {
            self.events.push(name.to_owned());
            self.events.len() - 1
        })
    }

    fn frame(&mut self, text: &str, kind: FrameKind) {
        // `<00007fe21482e000>`, `??`
        let address = text.strip_prefix('<').and_then(|text| text.strip_suffix('>'));
        if let Some(address) = address {
            let address = hex_address(&format!("0x{address}")).unwrap_or(0);
            return self.out.unknown(address, "", kind);
        }
        // `/usr/lib/libc.so.6[+0xa9545]`
        if let Some((file, offset)) = text.strip_suffix(']').and_then(|text| text.rsplit_once("[+"))
        {
            return self.out.unknown(hex_address(offset).unwrap_or(0), file, kind);
        }
        // `schedule (ffffffff821f94c3)`
        let symbol = match text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) {
            Some((symbol, digits)) if hex_address(&format!("0x{digits}")).is_some() => symbol,
            _ => text,
        };
        match symbol.strip_suffix(']').and_then(|text| text.split_once(" [")) {
            Some((symbol, module)) => self.out.symbol(symbol, module, kind),
            None => self.out.symbol(symbol, "", kind),
        }
    }

    fn end(&mut self) {
        let Some((mut row, ..)) = self.stack.take() else { return };
        row.sample.stack = self.out.profile.stacks.intern_path(self.out.frames.drain(..).rev());
        if row.sample.stack != StackId::ROOT {
            self.rows.push(row);
        }
    }

    fn finish(mut self, lines: Lines, options: &Options) -> Reading {
        let first = self.rows.first().map(|row| row.event);
        let chosen = match options.event.as_deref() {
            // `perf` and `trace-cmd` also print the subsystem: `sched:sched_switch`.
            Some(wanted) => {
                let wanted = wanted.rsplit(':').next().unwrap_or(wanted);
                self.events.iter().position(|event| event == wanted)
            }
            None => first,
        };
        let mut others = vec![0u64; self.events.len()];
        for row in &self.rows {
            if Some(row.event) != chosen {
                others[row.event] += 1;
                continue;
            }
            let sample = match options.detail {
                Detail::Samples => row.sample,
                Detail::Totals => Sample { cpu: None, time: None, ..row.sample },
            };
            self.out.profile.push(sample, &[1]);
        }
        let mut other_events = BTreeMap::new();
        for (event, count) in self.events.iter().zip(others).filter(|(_, count)| *count > 0) {
            other_events.insert(event.clone(), count);
        }
        let mut reading = self.out.reading(lines.warnings);
        reading.other_events = other_events;
        reading.event = chosen.map(|event| self.events[event].clone());
        reading
    }
}
