//! The events of the scheduler in a recording, as `perf sched record` makes it.
//!
//! Source of the fields: the kernel's `include/trace/events/sched.h` and `power.h`, as the recording has their formats.

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

/// The events of the scheduler of a recording.
pub struct SchedEvents<'a> {
    recording: &'a Recording,
    events: SingleEvents<'a>,
    /// By kind of events, how to read them.
    points: Vec<Option<Point>>,
}

impl Recording {
    /// The events of the scheduler; `None` if there are no switches among them. With stacks, where they were recorded,
    /// if asked for: they cost the most.
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

/// The end of the events of the scheduler.
#[derive(Debug)]
pub struct SchedEnd {
    /// The tasks.
    pub tasks: SchedTasks,
    /// What could not be read.
    pub unread: Unread,
}

impl SchedEvents<'_> {
    /// Counts of stacks that are not whole; `None` without stacks.
    pub fn stats(&self) -> Option<&Stats> {
        self.events.stats()
    }

    /// Hands over each event, in the order of time, until `on_event` has enough.
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
            // Starts, ends and names of threads are recorded from before the tracepoints on, as are, with the time 0, the threads
            // that there are at the start. They tell nothing of when CPUs ran what.
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

/// The thread that an event happened in. The sample's own number is −1 once the thread has let go of it, on its way to its
/// end, and in a PID namespace is another than events have of threads.
fn current_thread<'a>(one: &SingleEvent<'a>, order: ByteOrder) -> NamedThread<'a> {
    const COMMON_PID: usize = 4;
    let in_data =
        one.raw.get(COMMON_PID..).and_then(|rest| rest.first_chunk()).map(|bytes| match order {
            ByteOrder::Little => i32::from_le_bytes(*bytes),
            ByteOrder::Big => i32::from_be_bytes(*bytes),
        });
    let tid = in_data.or(one.tid).unwrap_or(-1);
    // Names go by the sample's number.
    let name = if Some(tid) == one.tid { one.comm } else { "" };
    NamedThread { tid, name }
}

/// Samples have the process of the thread that runs.
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
