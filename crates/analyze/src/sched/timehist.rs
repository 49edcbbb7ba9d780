//! Switch history: a row for each switch, with what the outgoing task had waited for before it ran.

use std::collections::BTreeMap;
use std::sync::Arc;

use pyrograph_profile::{SchedAction, SchedEvent, SchedTasks, StackLine, TaskId};

use super::filter::SchedFilter;
use super::summary::SchedSummary;
use super::track::{SchedTrack, Stint};

/// Makes rows of events and sums them up, one event at a time. Only the sums are kept in memory.
#[derive(Clone, Debug, Default)]
pub struct Timehist {
    track: SchedTrack,
    summary: SchedSummary,
    /// Task last seen on each CPU.
    current: BTreeMap<u32, TaskId>,
    /// For each idle CPU, the stack with which the task before the idle task left it.
    before_idle: BTreeMap<u32, Arc<[Arc<StackLine>]>>,
}

/// A row of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimehistRow {
    /// Time in nanoseconds on the recording's clock.
    pub time: u64,
    /// CPU number.
    pub cpu: u32,
    /// Task that was running on the CPU.
    pub task: TaskId,
    /// Event of the row.
    pub what: TimehistEvent,
}

/// Event of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimehistEvent {
    /// The task left the CPU.
    Switch {
        /// Time of the outgoing task on the CPU.
        stint: Stint,
        /// Task that the CPU switched to.
        next: TaskId,
        /// Stack of the outgoing task, innermost frame first; empty if there is none.
        stack: Arc<[Arc<StackLine>]>,
        /// If the idle task leaves the CPU, the stack of the task that ran before it.
        idle_since: Option<Arc<[Arc<StackLine>]>>,
    },
    /// The task woke this one.
    Wakeup(TaskId),
    /// A task was migrated.
    Migration {
        /// Migrated task.
        task: TaskId,
        /// Previous CPU.
        from: u32,
        /// New CPU.
        to: u32,
    },
}

impl Timehist {
    /// Adds an event. Returns a row if the event has one and `filter` keeps it.
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
                // The event does not say which task caused the migration.
                (current.unwrap_or(task), TimehistEvent::Migration { task, from, to })
            }
            _ => return None,
        };
        let row = TimehistRow { time: event.time, cpu: event.cpu, task, what };
        // Idle times do not depend on which tasks are shown.
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

    /// Stores the stack with which a CPU becomes idle, and returns it when the CPU is no longer idle.
    fn follow_idle(&mut self, event: &SchedEvent) -> Option<Arc<[Arc<StackLine>]>> {
        let SchedAction::Switch { next, .. } = event.action else { return None };
        let before = self.before_idle.remove(&event.cpu);
        if next == TaskId::IDLE {
            self.before_idle.insert(event.cpu, Arc::clone(&event.stack));
        }
        before
    }

    /// Sums over all rows.
    pub fn summary(&self) -> &SchedSummary {
        &self.summary
    }

    /// Number of switches that are missing in the trace.
    pub fn missing(&self) -> u64 {
        self.track.missing()
    }
}
