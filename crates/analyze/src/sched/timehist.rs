//! The history of switches: a row for each, with what the task that left its CPU had waited for before it ran.

use std::collections::BTreeMap;
use std::sync::Arc;

use pyrograph_profile::{SchedAction, SchedEvent, SchedTasks, StackLine, TaskId};

use super::filter::SchedFilter;
use super::summary::SchedSummary;
use super::track::{SchedTrack, Stint};

/// Makes rows of events, and sums them up, an event at a time. In memory are the sums alone.
#[derive(Clone, Debug, Default)]
pub struct Timehist {
    track: SchedTrack,
    summary: SchedSummary,
    /// The task that was seen last on each CPU.
    current: BTreeMap<u32, TaskId>,
    /// The stack with which the task left each CPU that is idle since.
    before_idle: BTreeMap<u32, Arc<[Arc<StackLine>]>>,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimehistRow {
    /// Nanoseconds on the recording's clock.
    pub time: u64,
    /// The CPU.
    pub cpu: u32,
    /// The task that ran there.
    pub task: TaskId,
    /// What happened.
    pub what: TimehistEvent,
}

/// What a row is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimehistEvent {
    /// The task left the CPU.
    Switch {
        /// What it had done there.
        stint: Stint,
        /// The task that has the CPU now.
        next: TaskId,
        /// Its stack, the innermost frame first; empty if it was not taken.
        stack: Arc<[Arc<StackLine>]>,
        /// Of the idle task, the stack of the task that left the CPU before it.
        idle_since: Option<Arc<[Arc<StackLine>]>>,
    },
    /// It woke another.
    Wakeup(TaskId),
    /// A task was moved.
    Migration {
        /// The task.
        task: TaskId,
        /// The CPU that it leaves.
        from: u32,
        /// The CPU that it moves to.
        to: u32,
    },
}

impl Timehist {
    /// Follows an event. Returns its row, if it is one, and `filter` keeps it.
    pub fn push(
        &mut self,
        tasks: &SchedTasks,
        filter: &SchedFilter,
        event: &SchedEvent,
    ) -> Option<TimehistRow> {
        let current = self.current.get(&event.cpu).copied();
        if let SchedAction::Switch { next: task, .. } | SchedAction::Wakeup { waker: task, .. } =
            event.action
        {
            self.current.insert(event.cpu, task);
        }
        let switched = self.track.event(event);
        let idle_since = self.follow_idle(event);
        if !filter.keeps_time(event.time) || !filter.keeps_cpu(event.cpu) {
            return None;
        }
        self.summary.saw(event);
        let (task, what) = match event.action {
            SchedAction::Switch { previous, next, .. } => {
                let stint = switched?.left;
                let stack = Arc::clone(&event.stack);
                (previous, TimehistEvent::Switch { stint, next, stack, idle_since })
            }
            SchedAction::Wakeup { task, waker, .. } => (waker, TimehistEvent::Wakeup(task)),
            SchedAction::Migrate { task, from, to } => {
                // The event does not have who moved it.
                (current.unwrap_or(task), TimehistEvent::Migration { task, from, to })
            }
            _ => return None,
        };
        let row = TimehistRow { time: event.time, cpu: event.cpu, task, what };
        // CPUs are idle whatever tasks are shown.
        self.summary.add_cpu(&row);
        let other = match row.what {
            TimehistEvent::Switch { .. } => task,
            TimehistEvent::Wakeup(task) | TimehistEvent::Migration { task, .. } => task,
        };
        if !filter.keeps_task(tasks, task) && !filter.keeps_task(tasks, other) {
            return None;
        }
        self.summary.add_task(&row);
        Some(row)
    }

    /// Keeps the stack with which a CPU becomes idle, and returns it when it is no longer.
    fn follow_idle(&mut self, event: &SchedEvent) -> Option<Arc<[Arc<StackLine>]>> {
        let SchedAction::Switch { next, .. } = event.action else { return None };
        let before = self.before_idle.remove(&event.cpu);
        if next == TaskId::IDLE {
            self.before_idle.insert(event.cpu, Arc::clone(&event.stack));
        }
        before
    }

    /// The sums of all rows.
    pub fn summary(&self) -> &SchedSummary {
        &self.summary
    }

    /// How many switches are missing in the trace.
    pub fn missing(&self) -> u64 {
        self.track.missing()
    }
}
