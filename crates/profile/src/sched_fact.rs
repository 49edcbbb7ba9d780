//! Scheduler events in which threads are identified by ID and name, as recorded, and their conversion to [`SchedAction`]s
//! of tasks.

use crate::sched::{SchedAction, TaskId, TaskState, WaitReason};
use crate::sched_threads::SchedThreads;

/// A thread as an event identifies it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamedThread<'a> {
    /// Thread ID.
    pub tid: i32,
    /// Name; empty if the event does not contain it.
    pub name: &'a str,
}

/// A scheduler event as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedFact<'a> {
    /// `sched_switch`.
    Switch {
        /// The thread that stopped running.
        previous: NamedThread<'a>,
        /// State of that thread.
        state: TaskState,
        /// Reason for its wait.
        reason: WaitReason,
        /// The thread that started running.
        next: NamedThread<'a>,
    },
    /// `sched_wakeup`, `sched_waking`, `sched_wakeup_new`.
    Wakeup {
        /// The thread.
        thread: NamedThread<'a>,
        /// The CPU on which the thread is to run.
        target: u32,
        /// True if the thread has just been created.
        is_new: bool,
        /// True if the event is `sched_waking`.
        is_waking: bool,
    },
    /// `sched_migrate_task`.
    Migrate {
        /// The thread.
        thread: NamedThread<'a>,
        /// The CPU from which it was moved.
        from: u32,
        /// The CPU to which it was moved.
        to: u32,
    },
    /// `sched_process_fork`, or a FORK record.
    Fork {
        /// The thread that created it.
        parent: NamedThread<'a>,
        /// The new thread.
        child: NamedThread<'a>,
        /// Process of the new thread, if the event contains it.
        child_process: Option<i32>,
    },
    /// `sched_process_exec`, `task_rename`, or a COMM record.
    Rename {
        /// The thread, with its new name.
        thread: NamedThread<'a>,
        /// Process of the thread, if the event contains it.
        process: Option<i32>,
    },
    /// `sched_process_exit`, or an EXIT record.
    Exit {
        /// The thread.
        thread: NamedThread<'a>,
    },
    /// `sched_stat_runtime`.
    Runtime {
        /// The thread.
        thread: NamedThread<'a>,
        /// Run time in nanoseconds.
        time: u64,
    },
    /// `cpu_idle`.
    Idle {
        /// Number of the idle state; `None` if the CPU leaves it.
        state: Option<u32>,
    },
    /// `cpu_frequency`.
    Frequency {
        /// Frequency in kHz.
        frequency: u32,
    },
}

impl SchedThreads {
    /// Converts a recorded event to an action. Returns `None` if another event has already reported the same. `current`
    /// is the thread in which the event occurred.
    pub fn action(
        &mut self,
        current: NamedThread<'_>,
        fact: &SchedFact<'_>,
    ) -> Option<SchedAction> {
        let mut task = |thread: NamedThread<'_>| self.task(thread.tid, thread.name);
        Some(match *fact {
            SchedFact::Switch { previous, state, reason, next } => {
                let (previous, next) = (task(previous), task(next));
                SchedAction::Switch { previous, state, reason, next }
            }
            SchedFact::Wakeup { thread, target, is_new, is_waking } => {
                let (waker, task) = (task(current), task(thread));
                SchedAction::Wakeup { task, waker, target, is_new, is_waking }
            }
            SchedFact::Migrate { thread, from, to } => {
                SchedAction::Migrate { task: task(thread), from, to }
            }
            SchedFact::Runtime { thread, time } => {
                SchedAction::Runtime { task: task(thread), time }
            }
            SchedFact::Fork { parent, child, child_process } => {
                return self.fork(parent, child, child_process);
            }
            SchedFact::Rename { thread, process } => return self.set_name(thread, process),
            SchedFact::Exit { thread } => {
                let task = self.task(thread.tid, thread.name);
                return self.end(task).then_some(SchedAction::Exit { task });
            }
            SchedFact::Idle { state } => SchedAction::Idle { state },
            SchedFact::Frequency { frequency } => SchedAction::Frequency { frequency },
        })
    }

    fn fork(
        &mut self,
        parent: NamedThread<'_>,
        child: NamedThread<'_>,
        process: Option<i32>,
    ) -> Option<SchedAction> {
        if child.tid == 0 {
            return None;
        }
        let parent = self.task(parent.tid, parent.name);
        let before = self.tasks().len();
        let name = match child.name {
            "" => self.tasks().get(parent).name.clone(),
            name => name.to_owned(),
        };
        let child = self.start(Some(parent), child.tid, &name);
        if let Some(process) = process {
            self.set_process(child, process);
        }
        (self.tasks().len() > before).then_some(SchedAction::Fork { parent, child })
    }

    fn set_name(&mut self, thread: NamedThread<'_>, process: Option<i32>) -> Option<SchedAction> {
        let task = self.task(thread.tid, "");
        if let Some(process) = process {
            self.set_process(task, process);
        }
        let is_other = self.rename(task, thread.name) && task != TaskId::IDLE;
        is_other.then(|| SchedAction::Rename { task, name: thread.name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: i32, name: &str) -> NamedThread<'_> {
        NamedThread { tid, name }
    }

    #[test]
    fn what_two_events_tell_of_is_one_action() {
        let mut threads = SchedThreads::default();
        let mut action = |fact| threads.action(thread(7, "sh"), &fact);
        let fork = |name| SchedFact::Fork {
            parent: thread(7, "sh"),
            child: thread(8, name),
            child_process: Some(8),
        };
        let (parent, child) = (TaskId(1), TaskId(2));
        assert_eq!(action(fork("")), Some(SchedAction::Fork { parent, child }));
        assert_eq!(action(fork("sh")), None, "the tracepoint behind the record");
        let rename = |name| SchedFact::Rename { thread: thread(8, name), process: None };
        let name = "ls".to_owned();
        assert_eq!(action(rename("ls")), Some(SchedAction::Rename { task: child, name }));
        assert_eq!(action(rename("ls")), None);
        let exit = SchedFact::Exit { thread: thread(8, "") };
        assert_eq!(action(exit), Some(SchedAction::Exit { task: child }));
        assert_eq!(action(exit), None);
        assert_eq!(action(fork("")), Some(SchedAction::Fork { parent, child: TaskId(3) }));
        assert_eq!(threads.tasks().get(TaskId(3)).name, "sh", "inherited");
    }
}
