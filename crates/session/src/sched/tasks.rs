//! Tasks by the numbers that the eBPF programs give them, and conversion of records to events.

use std::sync::Arc;

use pyrograph_event::sched::{SchedChange, SchedRecord, TaskNames, TaskNumber, UNKNOWN};
use pyrograph_profile::{SchedAction, SchedEvent, SchedTask, SchedTasks, StackLine, TaskId};

use super::reason::{Reasons, state_of};

/// Table of tasks, which converts records to events.
pub struct Tasks {
    rows: SchedTasks,
    /// Task IDs by number. Number 0 is for the idle tasks, which share one ID.
    ids: Vec<Option<TaskId>>,
    /// The task for all records whose task the kernel had no memory for.
    unknown: Option<TaskId>,
    reasons: Reasons,
    no_stack: Arc<[Arc<StackLine>]>,
}

impl Tasks {
    pub fn new() -> Self {
        Self {
            rows: SchedTasks::default(),
            ids: vec![Some(TaskId::IDLE)],
            unknown: None,
            reasons: Reasons::new(),
            no_stack: Arc::default(),
        }
    }

    pub fn rows(&self) -> &SchedTasks {
        &self.rows
    }

    pub fn into_rows(self) -> SchedTasks {
        self.rows
    }

    /// Returns the task with a number. A task whose description was lost is added without a name.
    fn id(&mut self, number: TaskNumber) -> TaskId {
        let rows = &mut self.rows;
        let nameless =
            || rows.add(SchedTask { pid: -1, tid: -1, name: "[unknown]".to_owned(), parent: None });
        if number == UNKNOWN {
            return *self.unknown.get_or_insert_with(nameless);
        }
        let index = number as usize;
        if self.ids.len() <= index {
            self.ids.resize(index + 1, None);
        }
        *self.ids[index].get_or_insert_with(nameless)
    }

    /// Sets the names of a task.
    pub fn describe(&mut self, task: TaskNumber, names: &TaskNames, parent: TaskNumber) {
        let parent = (parent != 0).then(|| self.id(parent));
        let id = self.id(task);
        let row = self.rows.get_mut(id);
        *row = SchedTask { parent: parent.or(row.parent), ..named(names) };
    }

    /// Returns the IDs of the process and the thread of a task.
    pub fn thread(&mut self, number: TaskNumber) -> (i32, i32) {
        let id = self.id(number);
        let task = self.rows.get(id);
        (task.pid, task.tid)
    }

    /// Converts a record to an event. Records must be in order of time. Returns `None` for descriptions of tasks.
    pub fn event(
        &mut self,
        record: &SchedRecord,
        stack: Option<Arc<[Arc<StackLine>]>>,
    ) -> Option<SchedEvent> {
        let action = match record.change {
            SchedChange::Task { .. } => return None,
            SchedChange::Switch { previous, state, wait, next } => {
                let state = state_of(state);
                let reason = self.reasons.of(&wait, state);
                let (previous, next) = (self.id(previous), self.id(next));
                SchedAction::Switch { previous, state, reason, next }
            }
            SchedChange::Wakeup { task, waker, target, is_new } => SchedAction::Wakeup {
                task: self.id(task),
                waker: self.id(waker),
                target,
                is_new,
                is_waking: !is_new,
            },
            SchedChange::Migrate { task, from, to } => {
                SchedAction::Migrate { task: self.id(task), from, to }
            }
            SchedChange::Fork { parent, child } => {
                SchedAction::Fork { parent: self.id(parent), child: self.id(child) }
            }
            SchedChange::Rename { task, names } => {
                let task = self.id(task);
                let parent = self.rows.get(task).parent;
                let row = SchedTask { parent, ..named(&names) };
                let name = row.name.clone();
                *self.rows.get_mut(task) = row;
                SchedAction::Rename { task, name }
            }
            SchedChange::Exit { task } => SchedAction::Exit { task: self.id(task) },
            SchedChange::Idle { state } => SchedAction::Idle { state },
            SchedChange::Frequency { frequency } => SchedAction::Frequency { frequency },
        };
        let (time, cpu) = (record.time, record.cpu);
        let stack = stack.unwrap_or_else(|| Arc::clone(&self.no_stack));
        Some(SchedEvent { time, cpu, action, stack })
    }
}

/// Returns the name of a thread, up to the first zero byte.
pub fn name_of(names: &TaskNames) -> String {
    let end = names.name.iter().position(|byte| *byte == 0).unwrap_or(names.name.len());
    String::from_utf8_lossy(&names.name[..end]).into_owned()
}

fn named(names: &TaskNames) -> SchedTask {
    SchedTask { pid: names.pid, tid: names.tid, name: name_of(names), parent: None }
}
