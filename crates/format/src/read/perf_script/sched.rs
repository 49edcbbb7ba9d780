//! Off-CPU time from the scheduler's events in `perf script` text.
//!
//! ```text
//! app  1234 [000] 14890.716352: sched:sched_switch: prev_comm=app prev_pid=1234 prev_prio=120 prev_state=S ==> next_comm=w next_pid=18 next_prio=0
//!         ffffffff821f8b58 __schedule+0x618 ([kernel.kallsyms])
//!         ffffffff821f94c3 schedule+0x23 ([kernel.kallsyms])
//!                    2724a main+0x7a (/opt/app)
//!
//! w      18 [000] 14890.716370: sched:sched_wakeup: comm=app pid=1234 prio=120 target_cpu=001
//! w      18 [000] 14890.726415: sched:sched_stat_sleep: comm=app pid=1234 delay=10063000 [ns]
//! ```
//!
//! The stack of a blocked thread is that of the switch away from it. How long it was blocked follows from the first
//! of these events:
//!
//! 1. `sched_stat_sleep`, `sched_stat_blocked` or `sched_stat_iowait`: its `delay`,
//! 2. `sched_wakeup`: the time from the switch to the wakeup,
//! 3. the switch back to the thread: the time between the switches, including the wait for a CPU.
//!
//! Threads that were still runnable (`prev_state=R`) were not blocked, and the idle task never is. A thread that is
//! still blocked at the end of the recording is not counted.
//!
//! The same text is also valid input for the `perf script` reader, which counts each event. So this reader is never
//! chosen by content, only by its name.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pyrograph_profile::{Sample, StackId, ThreadId, ValueType};

use super::arguments::arguments;
use super::header;
use crate::input::Head;
use crate::perf_frame as frame;
use crate::read::text::{Collector, Lines};
use crate::reader::{Detail, Options, ReadError, Reader, Reading, ThreadDetail};
use crate::warnings::WarningKind;
use pyrograph_profile::{FieldValue, TraceField};

/// Reader of off-CPU time in `perf script` text.
pub struct PerfSched;

impl Reader for PerfSched {
    fn name(&self) -> &'static str {
        "perf sched"
    }

    fn written_by(&self) -> &'static str {
        "perf record -g -a -e sched:sched_switch -e sched:sched_wakeup; perf script (only with --from perf-sched)"
    }

    fn detect(&self, _head: &[u8]) -> bool {
        false
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let mut lines = Lines::new(input);
        // Microseconds, the usual unit of off-CPU flame graphs, with three decimals so that nothing is rounded.
        let unit = ValueType { decimals: 3, ..ValueType::new("off-cpu", "us") };
        let mut state = State {
            out: Collector::new(unit).addresses(options),
            threads: options.threads,
            blocked: HashMap::default(),
            spans: Vec::new(),
            detail: options.detail,
            totals: HashMap::default(),
            switch: None,
        };
        let mut line = String::new();
        while lines.next(&mut line) {
            if state.switch.is_some() && !line.is_empty() {
                let is_header = !line.starts_with('\t') && header::is_certain(line.as_bytes());
                if !is_header {
                    match frame::parse(line.as_bytes()) {
                        Some(frame) => state.out.perf_frame(&frame),
                        None => lines.warn(WarningKind::UnreadableLine),
                    }
                    continue;
                }
            }
            state.end_switch();
            state.event(&line);
        }
        state.end_switch();
        if state.spans.is_empty() {
            let reason =
                "no thread was blocked in it: it needs events of sched:sched_switch".into();
            return Err(ReadError::Nothing { name, reason });
        }
        Ok(state.finish().reading(lines.warnings))
    }
}

struct State {
    out: Collector,
    threads: ThreadDetail,
    /// Blocked threads, by thread ID.
    blocked: HashMap<i32, Blocked, FixedState>,
    /// Stacks of blocked threads with their off-CPU times in nanoseconds. For totals, one entry for each stack and
    /// thread.
    spans: Vec<(Blocked, u64)>,
    detail: Detail,
    /// Index in `spans` of the total for each stack and thread.
    totals: HashMap<(StackId, ThreadId), usize, FixedState>,
    /// The switch whose stack is being read.
    switch: Option<(i32, Blocked)>,
}

/// A thread that is off the CPU: since when, and its stack.
#[derive(Clone, Copy)]
struct Blocked {
    since: u64,
    cpu: Option<u32>,
    thread: ThreadId,
    stack: StackId,
}

impl State {
    fn end_switch(&mut self) {
        if let Some((tid, mut blocked)) = self.switch.take() {
            blocked.stack = self.out.profile.stacks.intern_path(self.out.frames.drain(..).rev());
            self.blocked.insert(tid, blocked);
        }
    }

    fn event(&mut self, line: &str) {
        let Some(header) = header::parse(line.as_bytes(), header::Layout::default()) else {
            return;
        };
        let (event, rest) = (lossy(header.event), lossy(header.rest));
        let Some(time) = header.time() else { return };
        let fields = arguments(event, rest);
        let text = |name: &str| field(&fields, name).map(ToString::to_string);
        let number = |name: &str| text(name).and_then(|text| text.parse::<i32>().ok());
        match event.rsplit(':').next().unwrap_or(event) {
            "sched_switch" => {
                if let Some(next) = number("next_pid") {
                    self.wake(next, time, None);
                }
                let state = text("prev_state").unwrap_or_default();
                let tid = number("prev_pid").or(header.tid);
                let Some(tid) = tid.filter(|&tid| tid != 0 && !state.starts_with('R')) else {
                    return;
                };
                let comm = text("prev_comm").unwrap_or_else(|| lossy(header.comm).to_owned());
                let (pid, thread) = self.threads.numbers(header.pid, Some(tid));
                let thread = self.out.thread(&comm, pid, thread);
                let stack = StackId::ROOT;
                let blocked = Blocked { since: time, cpu: header.cpu, thread, stack };
                self.switch = Some((tid, blocked));
            }
            "sched_wakeup" | "sched_waking" | "sched_stat_sleep" | "sched_stat_blocked"
            | "sched_stat_iowait" => {
                // `delay=10063000 [ns]`
                let delay = text("delay").and_then(|text| text.split(' ').next()?.parse().ok());
                if let Some(tid) = number("pid") {
                    self.wake(tid, time, delay);
                }
            }
            _ => {}
        }
    }

    fn wake(&mut self, tid: i32, time: u64, delay: Option<u64>) {
        let Some(blocked) = self.blocked.remove(&tid) else { return };
        let time = delay.unwrap_or_else(|| time.saturating_sub(blocked.since));
        if self.detail == Detail::Totals {
            let key = (blocked.stack, blocked.thread);
            let row = *self.totals.entry(key).or_insert(self.spans.len());
            if let Some((_, total)) = self.spans.get_mut(row) {
                *total = total.saturating_add(time);
                return;
            }
        }
        self.spans.push((blocked, time));
    }

    fn finish(self) -> Collector {
        let mut out = self.out;
        for (blocked, time) in self.spans {
            let mut sample = Sample { thread: blocked.thread, ..Sample::new(blocked.stack) };
            if self.detail == Detail::Samples {
                (sample.cpu, sample.time) = (blocked.cpu, Some(blocked.since));
            }
            out.profile.push(sample, &[time]);
        }
        out
    }
}

fn field<'a, 'b>(fields: &'b [TraceField<'a>], name: &str) -> Option<&'b FieldValue<'a>> {
    fields.iter().find(|field| field.name == name).map(|field| &field.value)
}

/// Returns part of a line as text. The line is UTF-8 and is cut only at ASCII bytes, so the conversion does not fail.
fn lossy(text: &[u8]) -> &str {
    str::from_utf8(text).unwrap_or_default()
}
