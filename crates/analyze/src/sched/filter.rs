//! Filter for views of the scheduler. It only selects what is shown; all events are processed.

use std::ops::RangeInclusive;

use pyrograph_profile::{SchedTasks, TaskId};

/// Tasks, CPUs and times to show. An empty list selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedFilter {
    /// Process IDs.
    pub pids: Vec<i32>,
    /// IDs of processes to show with all their known descendants.
    pub families: Vec<i32>,
    /// Thread IDs.
    pub tids: Vec<i32>,
    /// Thread names.
    pub names: Vec<String>,
    /// CPU numbers.
    pub cpus: Vec<u32>,
    /// Time ranges, in nanoseconds on the recording's clock.
    pub times: Vec<RangeInclusive<u64>>,
}

impl SchedFilter {
    /// Returns true if all tasks are shown.
    pub fn keeps_all_tasks(&self) -> bool {
        let Self { pids, families, tids, names, .. } = self;
        pids.is_empty() && families.is_empty() && tids.is_empty() && names.is_empty()
    }

    /// Returns true if a task is shown.
    pub fn keeps_task(&self, tasks: &SchedTasks, task: TaskId) -> bool {
        if self.keeps_all_tasks() {
            return true;
        }
        let row = tasks.get(task);
        // The ID of a process is that of its first thread.
        let is_of = |pid: &i32| *pid == row.pid || (row.pid < 0 && *pid == row.tid);
        (self.pids.is_empty() || self.pids.iter().any(is_of))
            && (self.families.is_empty() || self.is_of_family(tasks, task))
            && (self.tids.is_empty() || self.tids.contains(&row.tid))
            && (self.names.is_empty() || self.names.contains(&row.name))
    }

    fn is_of_family(&self, tasks: &SchedTasks, task: TaskId) -> bool {
        // Longer chains of ancestors come from damaged files, and may be circular.
        const LONGEST: usize = 256;
        let parent = |id: &TaskId| tasks.get(*id).parent;
        let mut ancestors = std::iter::successors(Some(task), parent).take(LONGEST);
        ancestors.any(|id| {
            let row = tasks.get(id);
            self.families.contains(&row.pid) || self.families.contains(&row.tid)
        })
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
