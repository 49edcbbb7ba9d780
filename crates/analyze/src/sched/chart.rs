//! Timelines of CPUs and tasks: which task each CPU ran, and the state of each task while it did not run.
//!
//! [`SchedChartBuilder`] takes events in time order. It needs 16 bytes per span of a task (20 if events have stacks)
//! and 12 per span of a CPU: about 60 MB for a million switches. The spans of a task are contiguous, so that the
//! times of all activities in any part of its lifetime add up to the length of that part.

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

/// States of CPUs and tasks from the first to the last event. Times are nanoseconds on the recording's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedChart {
    /// Time of the first event.
    pub start: u64,
    /// Time of the last event.
    pub end: u64,
    /// By CPU number. Empty timelines for CPUs without events.
    pub cpus: Vec<CpuTimeline>,
    /// By [`TaskId`]. Empty timelines for tasks without events, and for [`TaskId::IDLE`].
    pub tasks: Vec<TaskTimeline>,
    /// Stacks that [`TaskTimeline::stacks`] refers to, innermost frame first.
    pub stacks: Vec<Arc<[Arc<StackLine>]>>,
    /// Number of context switches.
    pub switches: u64,
    /// Number of wakeups, including wakeups of tasks that are already ready. If it is 0, it is unknown when tasks
    /// became ready.
    pub wakeups: u64,
    /// Number of switches whose previous task is not the one that was last known to run on the CPU: switches between
    /// the two are missing.
    pub gaps: u64,
    /// Number of events left out because their CPU number exceeds what Linux supports.
    pub impossible: u64,
}

/// Timeline of a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuTimeline {
    /// Start of each run. A run lasts until the next one starts; the last one until the end of the chart.
    pub starts: Vec<u64>,
    /// Task of each run: [`TaskId::IDLE`] if the CPU was idle, `None` if unknown.
    pub tasks: Vec<Option<TaskId>>,
    /// Idle states, in time order.
    pub idle: Vec<IdleSpan>,
    /// Frequencies in kHz, with the time from which on they applied.
    pub frequencies: Vec<(u64, u32)>,
}

/// A span in an idle state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleSpan {
    /// Start of the span.
    pub start: u64,
    /// End of the span.
    pub end: u64,
    /// Number of the idle state; higher numbers are deeper states.
    pub state: u32,
}

/// Timeline of a task, from when it was first known to its end or the end of the chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskTimeline {
    /// Start of each span. A span lasts until the next one starts.
    pub starts: Vec<u64>,
    /// Activity in each span.
    pub activities: Vec<Activity>,
    /// Stack with which each off-CPU span began, as a number in [`SchedChart::stacks`], starting at 1; 0 without a
    /// stack. Empty if no event of the chart has a stack.
    pub stacks: Vec<u32>,
    /// End of the last span.
    pub end: u64,
}

/// State of a task in a time span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activity {
    /// Unknown, because events are missing.
    #[default]
    Unknown,
    /// Running on a CPU.
    Running {
        /// CPU number.
        cpu: u32,
    },
    /// Runnable, waiting for a CPU.
    Ready(ReadyCause),
    /// Blocked, waiting for something else.
    Blocked {
        /// State in which the task left its CPU; `None` if that was before the first event.
        state: Option<TaskState>,
        /// Reason for the wait.
        reason: WaitReason,
    },
}

/// Event that made a task runnable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadyCause {
    /// An event before the first one of the recording.
    #[default]
    Unknown,
    /// Preemption: the task had to leave its CPU.
    Preempted,
    /// Wakeup or creation of the task.
    Woken {
        /// Task that was running on the CPU at the wakeup; [`TaskId::IDLE`] for an interrupt of an idle CPU.
        waker: TaskId,
        /// CPU on which the wakeup occurred.
        cpu: u16,
    },
}

/// Time of a task in each activity, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActivityTimes {
    /// Running.
    pub running: u64,
    /// Runnable, waiting for a CPU.
    pub ready: u64,
    /// Blocked, by reason: in the order of [`WaitReason`].
    pub blocked: [u64; ActivityTimes::REASONS],
    /// Unknown, because events are missing.
    pub unknown: u64,
}

impl ActivityTimes {
    /// Number of wait reasons.
    pub const REASONS: usize = 7;

    /// Sum of all times.
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

/// Tasks of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedProcess {
    /// Process ID; −1 if unknown.
    pub pid: i32,
    /// Name of the main thread or, if that is unknown, of the thread that ran longest.
    pub name: String,
    /// Tasks that had an event, sorted by running time, longest first.
    pub tasks: Vec<TaskId>,
    /// Total running time of the tasks.
    pub running: u64,
}

impl TaskTimeline {
    /// Iterates over the spans with their activities.
    pub fn spans(&self) -> impl Iterator<Item = (Range<u64>, Activity)> {
        let ends = self.starts.iter().skip(1).copied().chain([self.end]);
        self.starts
            .iter()
            .zip(ends)
            .zip(&self.activities)
            .map(|((&start, end), &activity)| (start..end, activity))
    }

    /// Time in each activity within a time range.
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
    /// Iterates over the runs of the CPU in a chart that ends at `end`: time range and task.
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
    /// Processes with their tasks, sorted by running time, longest first. `tasks` is the task table of the events.
    pub fn processes(&self, tasks: &SchedTasks) -> Vec<SchedProcess> {
        let whole = self.start..self.end;
        let mut by_pid: BTreeMap<i64, Vec<(u64, TaskId)>> = BTreeMap::new();
        for (id, task) in tasks.iter().skip(1) {
            let Some(timeline) = self.tasks.get(id.index()).filter(|of| !of.starts.is_empty())
            else {
                continue;
            };
            // Each task with an unknown process is a process of its own.
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

    /// Returns the part of the chart that a filter keeps. The waker of a task remains known even if it is not shown.
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

    /// Returns all stacks as one flame graph with the frame that each stack ends in. The `time` of each sample in it
    /// is the stack's number in [`SchedChart::stacks`], starting at 1. Returns `None` if there are no stacks.
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

/// Indices of the spans that overlap a time range. The spans begin at `starts`; the last one ends at `end`.
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
