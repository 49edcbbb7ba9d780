//! Run times of tasks and run queue latencies.

use std::collections::{BTreeMap, HashSet};

use pyrograph_profile::{Durations, SchedAction, SchedCount, SchedEvent, SchedTasks, TaskId};

use super::filter::SchedFilter;
use super::track::{Arrival, SchedTrack};

/// Sums run times and delays, one event at a time. Only the sums are kept in memory.
#[derive(Clone, Debug)]
pub struct SchedLatency {
    track: SchedTrack,
    by_cpu: bool,
    rows: BTreeMap<(TaskId, Option<u32>), Row>,
    last: u64,
    /// Tasks whose run times the trace contains as counted by the kernel.
    counted: HashSet<TaskId>,
}

#[derive(Clone, Debug, Default)]
struct Row {
    /// Sum of the kernel's counts, which exclude interrupts and time taken by a hypervisor.
    counted: u64,
    /// Sum of the times from one switch to the next.
    on_cpu: u64,
    switches: u64,
    delays: Durations,
    longest_since: u64,
    runs: Durations,
    absences: Durations,
}

impl SchedLatency {
    /// Creates counts per task or, if `by_cpu` is set, per task and CPU.
    pub fn new(by_cpu: bool) -> Self {
        let track = SchedTrack::default();
        Self { track, by_cpu, rows: BTreeMap::new(), last: 0, counted: HashSet::new() }
    }

    /// Adds an event, if `filter` keeps it.
    pub fn push(&mut self, tasks: &SchedTasks, filter: &SchedFilter, event: &SchedEvent) {
        self.last = self.last.max(event.time);
        let keeps = |task| {
            filter.keeps_time(event.time)
                && filter.keeps_cpu(event.cpu)
                && task != TaskId::IDLE
                && filter.keeps_task(tasks, task)
        };
        if let SchedAction::Runtime { task, time } = event.action {
            self.counted.insert(task);
            if keeps(task) {
                let row = self.row(task, event.cpu);
                row.counted = row.counted.saturating_add(time);
            }
        }
        let is_followed = self.track.on(event.cpu).is_some();
        let Some(switched) = self.track.event(event) else { return };
        let (left, came) = (&switched.left, &switched.came);
        if keeps(left.task) {
            // The switch that gave the CPU to the task is missing.
            let is_missed = is_followed && left.arrival.is_none();
            let row = self.row(left.task, event.cpu);
            row.switches += u64::from(is_missed);
            row.ran(left.on_cpu().unwrap_or(0));
            left.on_cpu().into_iter().for_each(|time| row.runs.add(time));
        }
        if keeps(came.task) {
            self.row(came.task, event.cpu).came(came);
        }
    }

    fn row(&mut self, task: TaskId, cpu: u32) -> &mut Row {
        self.rows.entry((task, self.by_cpu.then_some(cpu))).or_default()
    }

    /// Ends counting: adds the time of tasks that are still running, unless the trace contains the kernel's counts.
    pub fn finish(&mut self, tasks: &SchedTasks, filter: &SchedFilter) {
        if !self.counted.is_empty() {
            return;
        }
        let last = self.last;
        let running: Vec<_> = self.track.cpus().map(|(cpu, arrival)| (cpu, *arrival)).collect();
        for (cpu, arrival) in running {
            let Arrival { task, time, .. } = arrival;
            let keeps = task != TaskId::IDLE && filter.keeps_task(tasks, task);
            if keeps && filter.keeps_cpu(cpu) && filter.keeps_time(last) {
                self.row(task, cpu).ran(last.saturating_sub(time));
            }
        }
    }

    /// Returns the counts, by task and CPU.
    pub fn counts(&self, tasks: &SchedTasks) -> Vec<SchedCount> {
        let count = |(&(id, cpu), row): (&(TaskId, Option<u32>), &Row)| {
            let task = tasks.get(id);
            SchedCount {
                pid: task.pid,
                tid: task.tid,
                name: task.name.clone(),
                cpu,
                run_time: if self.counted.contains(&id) { row.counted } else { row.on_cpu },
                switches: row.switches,
                delays: row.delays.clone(),
                longest_since: row.longest_since,
                on_cpu: row.runs.clone(),
                off_cpu: row.absences.clone(),
            }
        };
        self.rows.iter().map(count).collect()
    }

    /// Number of switches that are missing in the trace.
    pub fn missing(&self) -> u64 {
        self.track.missing()
    }
}

impl Row {
    fn ran(&mut self, time: u64) {
        self.on_cpu = self.on_cpu.saturating_add(time);
    }

    fn came(&mut self, came: &Arrival) {
        self.switches += 1;
        if let Some(absence) = came.absence {
            self.absences.add(came.time.saturating_sub(absence.since));
        }
        if let (Some(delay), Some(ready)) = (came.delay(), came.ready) {
            if self.delays.count == 0 || delay > self.delays.longest {
                self.longest_since = ready.since;
            }
            self.delays.add(delay);
        }
    }
}
