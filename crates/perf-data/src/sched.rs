//! Scheduler events in a recording made by `perf sched record`.
//!
//! Source of the fields: the kernel's `include/trace/events/sched.h` and `power.h`; the recording contains their
//! formats.

mod points;
mod stacks;

use std::ops::ControlFlow;

use pyrograph_event::ByteOrder;
use pyrograph_profile::{
    EventFilter, EventRecord, NamedThread, RecordGroup, SchedEvent, SchedFact, SchedTasks,
    SchedThreads, SingleEvent, TaskRecord,
};
use pyrograph_resolve::Stats;

use self::points::{Point, point_of};
use self::stacks::Stacks;
use crate::recording::Recording;
use crate::resolve::ResolveOptions;
use crate::single::SingleEvents;
use crate::trace_events::Unread;
use crate::tracing;

/// The scheduler events of a recording.
pub struct SchedEvents<'a> {
    recording: &'a Recording,
    events: SingleEvents<'a>,
    /// Decoders by kind of event.
    points: Vec<Option<Point>>,
}

impl Recording {
    /// Returns the scheduler events; `None` if there are no switches among them. With `with_stacks`, they have their
    /// stacks, if these were recorded; stacks are the most expensive part.
    pub fn sched_events(
        &self,
        with_stacks: bool,
        options: &ResolveOptions,
    ) -> Option<SchedEvents<'_>> {
        let tracepoints = tracing::parse(&self.tracing_data, self.order());
        let points: Vec<Option<Point>> =
            self.events.list.iter().map(|event| point_of(event, &tracepoints)).collect();
        points.iter().flatten().find(|point| point.is_switch())?;
        let kinds = (0..points.len()).filter(|&kind| points[kind].is_some()).collect();
        let filter =
            EventFilter { kinds, records: vec![RecordGroup::Task], ..EventFilter::default() };
        let stacks: Vec<bool> = points.iter().map(|point| with_stacks && point.is_some()).collect();
        let events = self.single_events(filter, &stacks, options);
        Some(SchedEvents { recording: self, events, points })
    }
}

/// Result after the last scheduler event.
#[derive(Debug)]
pub struct SchedEnd {
    /// All tasks.
    pub tasks: SchedTasks,
    /// Counts of records that could not be read.
    pub unread: Unread,
}

impl SchedEvents<'_> {
    /// Returns counts of incomplete stacks; `None` without stacks.
    pub fn stats(&self) -> Option<&Stats> {
        self.events.stats()
    }

    /// Calls `on_event` for each event in order of time, until it returns `Break`.
    pub fn each(
        &self,
        on_event: &mut dyn FnMut(&SchedTasks, SchedEvent) -> ControlFlow<()>,
    ) -> SchedEnd {
        let mut threads = SchedThreads::default();
        let mut stacks = Stacks::new(self.events.locations());
        let order = self.recording.order();
        let (mut states, mut unreadable, mut has_begun) = (points::States::default(), 0, false);
        let mut unread = self.events.each(false, &mut |one| {
            let fact = match (one.record, self.points.get(one.kind)) {
                (Some(record), _) => fact_of(record),
                (None, Some(Some(point))) => {
                    let fact = point.read(one.raw, order, &mut states);
                    unreadable += u64::from(fact.is_none());
                    fact
                }
                _ => None,
            };
            let Some(fact) = fact else { return ControlFlow::Continue(()) };
            let current = current_thread(one, order);
            let action = threads.action(current, &fact);
            follow_process(&mut threads, one, current.tid);
            // Starts, ends and names of threads are recorded before the tracepoints are enabled; threads that exist at
            // the start have records with time 0. These records do not show when CPUs ran what.
            has_begun |= one.record.is_none();
            let (Some(action), Some(time @ 1..), true) = (action, one.time, has_begun) else {
                return ControlFlow::Continue(());
            };
            let cpu = one.cpu.unwrap_or(0);
            let stack = stacks.of(one.stack);
            on_event(threads.tasks(), SchedEvent { time, cpu, action, stack })
        });
        unread.unreadable += unreadable;
        SchedEnd { tasks: threads.into_tasks(), unread }
    }
}

/// Returns the thread in which an event happened. The sample's own thread ID is −1 once an exiting thread has released
/// it, and in a PID namespace it differs from the thread IDs in events.
fn current_thread<'a>(one: &SingleEvent<'a>, order: ByteOrder) -> NamedThread<'a> {
    const COMMON_PID: usize = 4;
    let in_data =
        one.raw.get(COMMON_PID..).and_then(|rest| rest.first_chunk()).map(|bytes| match order {
            ByteOrder::Little => i32::from_le_bytes(*bytes),
            ByteOrder::Big => i32::from_be_bytes(*bytes),
        });
    let tid = in_data.or(one.tid).unwrap_or(-1);
    // Names are looked up by the sample's thread ID.
    let name = if Some(tid) == one.tid { one.comm } else { "" };
    NamedThread { tid, name }
}

/// Sets the process of the current thread from a sample.
fn follow_process(threads: &mut SchedThreads, one: &SingleEvent<'_>, current: i32) {
    if let (None, Some(pid @ 0..), Some(tid @ 1..)) = (one.record, one.pid, one.tid)
        && tid == current
    {
        let task = threads.task(tid, "");
        threads.set_process(task, pid);
    }
}

fn fact_of<'a>(record: &'a EventRecord<'_>) -> Option<SchedFact<'a>> {
    let thread = |tid| NamedThread { tid, name: "" };
    Some(match record {
        EventRecord::Fork(TaskRecord { pid, tid, parent_tid, .. }) => SchedFact::Fork {
            parent: thread(*parent_tid),
            child: thread(*tid),
            child_process: Some(*pid),
        },
        EventRecord::Exit(task) => SchedFact::Exit { thread: thread(task.tid) },
        EventRecord::Comm { pid, tid, name, .. } => {
            let thread = NamedThread { tid: *tid, name };
            SchedFact::Rename { thread, process: Some(*pid) }
        }
        _ => return None,
    })
}
