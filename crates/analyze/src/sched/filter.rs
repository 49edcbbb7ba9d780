//! Which tasks, CPUs and times a view of the scheduler shows. All events are followed, whatever is shown.

use std::ops::RangeInclusive;

use pyrograph_profile::{SchedTasks, TaskId};

/// What is shown. What is empty leaves nothing out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedFilter {
    /// Processes.
    pub pids: Vec<i32>,
    /// Threads.
    pub tids: Vec<i32>,
    /// Names of threads.
    pub names: Vec<String>,
    /// CPUs.
    pub cpus: Vec<u32>,
    /// Times, in nanoseconds on the recording's clock.
    pub times: Vec<RangeInclusive<u64>>,
}

impl SchedFilter {
    /// Returns true if all tasks are shown.
    pub fn keeps_all_tasks(&self) -> bool {
        self.pids.is_empty() && self.tids.is_empty() && self.names.is_empty()
    }

    /// Returns true if a task is shown.
    pub fn keeps_task(&self, tasks: &SchedTasks, task: TaskId) -> bool {
        if self.keeps_all_tasks() {
            return true;
        }
        let row = tasks.get(task);
        // The first thread of a process has its number.
        let is_of = |pid: &i32| *pid == row.pid || (row.pid < 0 && *pid == row.tid);
        (self.pids.is_empty() || self.pids.iter().any(is_of))
            && (self.tids.is_empty() || self.tids.contains(&row.tid))
            && (self.names.is_empty() || self.names.contains(&row.name))
    }

    /// Returns true if a CPU is shown.
    pub fn keeps_cpu(&self, cpu: u32) -> bool {
        self.cpus.is_empty() || self.cpus.contains(&cpu)
    }

    /// Returns true if a time is shown.
    pub fn keeps_time(&self, time: u64) -> bool {
        self.times.is_empty() || self.times.iter().any(|range| range.contains(&time))
    }
}
