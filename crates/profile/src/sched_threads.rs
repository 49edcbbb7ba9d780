//! Maps thread IDs to tasks. The kernel reuses the ID of a thread that has exited, so an ID alone does not identify a
//! task.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::sched::{SchedTask, SchedTasks, TaskId};

/// The tasks of a trace, and the task that currently has each thread ID.
///
/// ```
/// use pyrograph_profile::SchedThreads;
///
/// let mut threads = SchedThreads::default();
/// let shell = threads.task(7, "sh");
/// let first = threads.start(Some(shell), 8, "sh");
/// assert_eq!(threads.task(8, "ls"), first, "it has another name now");
/// let second = threads.start(Some(shell), 8, "sh");
/// assert_ne!(first, second, "another thread with the same number");
/// assert_eq!(threads.tasks().get(first).name, "ls");
/// ```
#[derive(Clone, Debug, Default)]
pub struct SchedThreads {
    tasks: SchedTasks,
    now: HashMap<i32, Known, FixedState>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    task: TaskId,
    /// Only its creation has been seen so far, which several events may report.
    is_new: bool,
    /// Its exit was seen, which several events may report.
    has_ended: bool,
}

impl SchedThreads {
    /// The tasks seen so far.
    pub fn tasks(&self) -> &SchedTasks {
        &self.tasks
    }

    /// Returns the tasks seen so far.
    pub fn into_tasks(self) -> SchedTasks {
        self.tasks
    }

    /// Returns the task that currently has this thread ID, for an event that shows that it has run. Adds a task if there
    /// is none. An empty name means that the name is not known.
    #[inline]
    pub fn task(&mut self, tid: i32, name: &str) -> TaskId {
        if tid == 0 {
            return TaskId::IDLE;
        }
        match self.now.get_mut(&tid) {
            Some(known) => {
                known.is_new = false;
                let task = known.task;
                // At the start, names are from /proc, where the name of a kernel worker is followed by what it works on:
                // kworker/0:1-events.
                let has_more =
                    name.starts_with("kworker/") && self.tasks.get(task).name.starts_with(name);
                if !has_more {
                    self.rename(task, name);
                }
                task
            }
            None => self.add(None, tid, name, false),
        }
    }

    /// Notes the creation of a task and returns the task.
    pub fn start(&mut self, parent: Option<TaskId>, tid: i32, name: &str) -> TaskId {
        if tid == 0 {
            return TaskId::IDLE;
        }
        let Some(known) = self.now.get(&tid).filter(|known| known.is_new) else {
            return self.add(parent, tid, name, true);
        };
        let task = known.task;
        self.rename(task, name);
        let row = self.tasks.get_mut(task);
        row.parent = row.parent.or(parent);
        task
    }

    /// Notes the exit of a task, which will still be switched away from its CPU. Returns false if the exit was already
    /// noted.
    pub fn end(&mut self, task: TaskId) -> bool {
        let tid = self.tasks.get(task).tid;
        let Some(known) = self.now.get_mut(&tid).filter(|known| known.task == task) else {
            return false;
        };
        !std::mem::replace(&mut known.has_ended, true)
    }

    /// Sets the process of a task.
    pub fn set_process(&mut self, task: TaskId, pid: i32) {
        if task != TaskId::IDLE && pid >= 0 {
            self.tasks.get_mut(task).pid = pid;
        }
    }

    /// Renames a task. Returns false if the name is unchanged.
    pub fn rename(&mut self, task: TaskId, name: &str) -> bool {
        if task == TaskId::IDLE || name.is_empty() || self.tasks.get(task).name == name {
            return false;
        }
        let row = self.tasks.get_mut(task);
        row.name.clear();
        row.name.push_str(name);
        true
    }

    fn add(&mut self, parent: Option<TaskId>, tid: i32, name: &str, is_new: bool) -> TaskId {
        let name = name.to_owned();
        let task = self.tasks.add(SchedTask { pid: -1, tid, name, parent });
        self.now.insert(tid, Known { task, is_new, has_ended: false });
        task
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_two_events_tell_of_is_one() {
        let mut threads = SchedThreads::default();
        let parent = threads.task(7, "sh");
        let child = threads.start(None, 8, "");
        assert_eq!(threads.start(Some(parent), 8, "sh"), child);
        let row = threads.tasks().get(child);
        assert_eq!((row.parent, &row.name[..], row.pid), (Some(parent), "sh", -1));
        threads.set_process(child, 7);
        assert_eq!(threads.tasks().get(child).pid, 7);
        // It ran: the next start is of another.
        assert_eq!(threads.task(8, ""), child);
        assert_ne!(threads.start(Some(parent), 8, "sh"), child);
        assert_eq!(threads.tasks().len(), 4);
    }

    #[test]
    fn workers_keep_what_they_work_on() {
        let mut threads = SchedThreads::default();
        let worker = threads.task(9, "");
        threads.rename(worker, "kworker/0:1-events");
        threads.task(9, "kworker/0:1");
        assert_eq!(threads.tasks().get(worker).name, "kworker/0:1-events");
        threads.task(9, "kworker/0:2");
        assert_eq!(threads.tasks().get(worker).name, "kworker/0:2");
    }

    #[test]
    fn the_idle_tasks_are_one_and_keep_their_name() {
        let mut threads = SchedThreads::default();
        assert_eq!(threads.task(0, "swapper/3"), TaskId::IDLE);
        assert_eq!(threads.start(None, 0, "x"), TaskId::IDLE);
        threads.set_process(TaskId::IDLE, 5);
        let row = threads.tasks().get(TaskId::IDLE);
        assert_eq!((row.pid, &row.name[..]), (0, "swapper"));
        assert!(threads.tasks().is_empty());
    }
}
