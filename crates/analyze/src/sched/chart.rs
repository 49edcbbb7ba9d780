//! CPUs and tasks over time: which task each CPU ran, and what each task did when it did not run.
//!
//! [`SchedChartBuilder`] takes events in the order of their times, and keeps 16 bytes for each span of a
//! task (20 where events have stacks) and 12 for each of a CPU: a million switches are some 60 MB. Spans of a
//! task follow each other without a gap, so that the times of all activities in any part of its life add
//! up to that part.

mod build;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use pyrograph_profile::{
    Frame, LabelOptions, Profile, Sample, SchedTasks, StackId, StackLine, TaskId, TaskState,
    ValueType, WaitReason,
};

pub use build::SchedChartBuilder;

use super::filter::SchedFilter;
use crate::{FlameError, TimedGraph, timed_graph};

/// States of CPUs and tasks from the first event to the last. Times are nanoseconds on the recording's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedChart {
    /// When the first event was.
    pub start: u64,
    /// When the last event was.
    pub end: u64,
    /// By the CPU's number. A CPU without an event has an empty one.
    pub cpus: Vec<CpuTimeline>,
    /// By [`TaskId`]. A task without an event has an empty one, and so has [`TaskId::IDLE`].
    pub tasks: Vec<TaskTimeline>,
    /// The stacks that [`TaskTimeline::stacks`] refers to, innermost frame first.
    pub stacks: Vec<Arc<[Arc<StackLine>]>>,
    /// Number of switches.
    pub switches: u64,
    /// Number of wake-ups, those that began what was known already included. Where it is 0, nothing is known about when
    /// tasks could have run.
    pub wakeups: u64,
    /// Number of switches that do not go on from the one before on their CPU: others between them are missing.
    pub gaps: u64,
    /// Number of events on CPUs whose number is beyond what Linux can have. They are left out.
    pub impossible: u64,
}

/// The spans of a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuTimeline {
    /// When it began to run each task. A run lasts until the next one begins, the last one until the end of the chart.
    pub starts: Vec<u64>,
    /// The task of each run: [`TaskId::IDLE`] if it was idle, `None` if that is not known.
    pub tasks: Vec<Option<TaskId>>,
    /// When it was in which idle state, in the order of time.
    pub idle: Vec<IdleSpan>,
    /// Frequencies in kHz, with the time from which on each was.
    pub frequencies: Vec<(u64, u32)>,
}

/// A time in an idle state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleSpan {
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// The state's number. The higher, the deeper.
    pub state: u32,
}

/// The spans of a task, from when it was known first to its end or that of the chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskTimeline {
    /// When each span began. It lasts until the next one begins.
    pub starts: Vec<u64>,
    /// The activity of each span.
    pub activities: Vec<Activity>,
    /// The stack with which each span off the CPU began, in [`SchedChart::stacks`], counted from 1; 0 if it was not taken.
    /// Empty where no event of the whole chart has a stack.
    pub stacks: Vec<u32>,
    /// When the last span ended.
    pub end: u64,
}

/// The state of a task in a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activity {
    /// Events are missing.
    #[default]
    Unknown,
    /// It runs.
    Running {
        /// On this CPU.
        cpu: u32,
    },
    /// It could run, and waits for a CPU.
    Ready(ReadyCause),
    /// It waits for something else.
    Blocked {
        /// The state in which it left its CPU; `None` if it did so before the first event.
        state: Option<TaskState>,
        /// The reason for the wait.
        reason: WaitReason,
    },
}

/// The wakeup that made a task ready to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadyCause {
    /// That was before the first event.
    #[default]
    Unknown,
    /// It had to leave its CPU.
    Preempted,
    /// It was woken, or started.
    Woken {
        /// The task that ran where it was woken; [`TaskId::IDLE`] if an interrupt of an idle CPU woke it.
        waker: TaskId,
        /// The CPU on which it was woken.
        cpu: u16,
    },
}

/// How long a task did what, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActivityTimes {
    /// It ran.
    pub running: u64,
    /// It waited for a CPU.
    pub ready: u64,
    /// It was blocked, by what it waited for: [`WaitReason`] in its order.
    pub blocked: [u64; ActivityTimes::REASONS],
    /// Events are missing.
    pub unknown: u64,
}

impl ActivityTimes {
    /// Number of reasons to wait.
    pub const REASONS: usize = 7;

    /// All of it.
    pub fn total(&self) -> u64 {
        self.running + self.ready + self.unknown + self.blocked.iter().sum::<u64>()
    }

    fn add(&mut self, activity: Activity, time: u64) {
        match activity {
            Activity::Unknown => self.unknown += time,
            Activity::Running { .. } => self.running += time,
            Activity::Ready(_) => self.ready += time,
            Activity::Blocked { reason, .. } => self.blocked[reason as usize] += time,
        }
    }
}

/// The tasks of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedProcess {
    /// The process's ID; −1 if it is not known.
    pub pid: i32,
    /// Name of its first thread, or of the one that ran longest.
    pub name: String,
    /// Its tasks that had an event, by how long they ran, longest first.
    pub tasks: Vec<TaskId>,
    /// How long they ran, together.
    pub running: u64,
}

impl TaskTimeline {
    /// The spans: what it did, and when.
    pub fn spans(&self) -> impl Iterator<Item = (Range<u64>, Activity)> {
        let ends = self.starts.iter().skip(1).copied().chain([self.end]);
        self.starts
            .iter()
            .zip(ends)
            .zip(&self.activities)
            .map(|((&start, end), &activity)| (start..end, activity))
    }

    /// How long it did what in a part of the time.
    pub fn times(&self, within: Range<u64>) -> ActivityTimes {
        let mut times = ActivityTimes::default();
        let first = self.starts.partition_point(|start| *start <= within.start).saturating_sub(1);
        for at in first..self.starts.len() {
            let start = self.starts[at].max(within.start);
            if start >= within.end {
                break;
            }
            let end = self.starts.get(at + 1).copied().unwrap_or(self.end).min(within.end);
            times.add(self.activities[at], end.saturating_sub(start));
        }
        times
    }
}

impl CpuTimeline {
    /// The runs in a chart that ends at `end`: the task, and when.
    pub fn runs(&self, end: u64) -> impl Iterator<Item = (Range<u64>, Option<TaskId>)> {
        let ends = self.starts.iter().skip(1).copied().chain([end]);
        self.starts
            .iter()
            .zip(ends)
            .zip(&self.tasks)
            .map(|((&start, end), &task)| (start..end, task))
    }
}

impl SchedChart {
    /// Processes by how long they ran, longest first, with their tasks. `tasks` is the table of the events.
    pub fn processes(&self, tasks: &SchedTasks) -> Vec<SchedProcess> {
        let whole = self.start..self.end;
        let mut by_pid: BTreeMap<i64, Vec<(u64, TaskId)>> = BTreeMap::new();
        for (id, task) in tasks.iter().skip(1) {
            let Some(timeline) = self.tasks.get(id.index()).filter(|of| !of.starts.is_empty())
            else {
                continue;
            };
            // Those of which it is not known are processes of their own.
            let key = if task.pid < 0 { -1 - i64::from(id.0) } else { task.pid.into() };
            by_pid.entry(key).or_default().push((timeline.times(whole.clone()).running, id));
        }
        let mut processes: Vec<SchedProcess> = by_pid
            .into_values()
            .map(|mut members| {
                members.sort_by_key(|(running, id)| (std::cmp::Reverse(*running), *id));
                let first =
                    members.iter().map(|(_, id)| tasks.get(*id)).find(|task| task.pid == task.tid);
                let named = first.unwrap_or_else(|| tasks.get(members[0].1));
                SchedProcess {
                    pid: named.pid,
                    name: named.name.clone(),
                    running: members.iter().map(|(running, _)| running).sum(),
                    tasks: members.into_iter().map(|(_, id)| id).collect(),
                }
            })
            .collect();
        processes.sort_by_key(|process| (std::cmp::Reverse(process.running), process.tasks[0]));
        processes
    }

    /// The part of it that a filter shows. Who woke a task is known also where the waker is not shown.
    pub fn shown(mut self, filter: &SchedFilter, tasks: &SchedTasks) -> Self {
        for (number, timeline) in (0..).zip(&mut self.tasks) {
            if !filter.keeps_task(tasks, TaskId(number)) {
                *timeline = TaskTimeline::default();
            }
        }
        for (number, timeline) in (0..).zip(&mut self.cpus) {
            if !filter.keeps_cpu(number) {
                *timeline = CpuTimeline::default();
            }
        }
        let from = filter.times.iter().map(|range| *range.start()).min().unwrap_or(0);
        let to = filter.times.iter().map(|range| *range.end()).max().unwrap_or(u64::MAX);
        if from > self.start || to < self.end {
            self.cut(from.max(self.start)..to.min(self.end));
        }
        self
    }

    fn cut(&mut self, within: Range<u64>) {
        let within = within.start.min(self.end)
            ..within.end.max(within.start).min(self.end.max(within.start));
        for timeline in &mut self.tasks {
            let kept = overlap(&timeline.starts, timeline.end, &within);
            timeline.starts.truncate(kept.end);
            timeline.starts.drain(..kept.start);
            timeline.activities.truncate(kept.end);
            timeline.activities.drain(..kept.start);
            timeline.stacks.truncate(kept.end);
            timeline.stacks.drain(..kept.start.min(timeline.stacks.len()));
            timeline.end = timeline.end.min(within.end);
            timeline.starts.iter_mut().for_each(|start| *start = (*start).max(within.start));
        }
        for timeline in &mut self.cpus {
            let kept = overlap(&timeline.starts, self.end, &within);
            timeline.starts.truncate(kept.end);
            timeline.starts.drain(..kept.start);
            timeline.tasks.truncate(kept.end);
            timeline.tasks.drain(..kept.start);
            timeline.starts.iter_mut().for_each(|start| *start = (*start).max(within.start));
            timeline.idle.retain(|idle| idle.end > within.start && idle.start < within.end);
            for idle in &mut timeline.idle {
                (idle.start, idle.end) = (idle.start.max(within.start), idle.end.min(within.end));
            }
            let known = timeline.frequencies.partition_point(|(time, _)| *time <= within.start);
            timeline.frequencies.drain(..known.saturating_sub(1));
            timeline.frequencies.retain_mut(|(time, _)| {
                *time = (*time).max(within.start);
                *time < within.end
            });
        }
        (self.start, self.end) = (within.start, within.end);
    }

    /// The stacks as one flame graph, and the frame that each ends in: those whose place in [`SchedChart::stacks`],
    /// counted from 1, is the `time` of a sample. `None` if there are no stacks.
    ///
    /// # Errors
    ///
    /// As [`flame`](crate::flame).
    pub fn stack_graph(&self) -> Result<Option<TimedGraph>, FlameError> {
        if self.stacks.is_empty() {
            return Ok(None);
        }
        let mut profile = Profile::new(vec![ValueType::new("off-cpu", "ns")]);
        for (number, stack) in (1u64..).zip(&self.stacks) {
            let mut id = StackId::ROOT;
            for line in stack.iter().rev() {
                let name = profile.strings.intern(&line.function);
                let module = profile.strings.intern(&line.module);
                let frame =
                    Frame { module, guessed: line.guessed, ..Frame::named(name, line.kind) };
                let frame = profile.frames.intern(frame);
                id = profile.stacks.intern(id, frame);
            }
            profile.push(Sample { time: Some(number), ..Sample::new(id) }, &[1]);
        }
        timed_graph(&profile, &LabelOptions::default(), 0).map(Some)
    }
}

/// Which of the spans that begin at `starts`, the last of which ends at `end`, are in a part of the time.
fn overlap(starts: &[u64], end: u64, within: &Range<u64>) -> Range<usize> {
    if within.start >= end {
        return 0..0;
    }
    let first = starts.partition_point(|start| *start <= within.start).saturating_sub(1);
    let last = starts.partition_point(|start| *start < within.end);
    first..last.max(first)
}

#[cfg(test)]
mod tests;
