//! Charts of the activity of CPUs and tasks: as a static SVG file, and as a page that contains all data.
//!
//! There is a row for each CPU, in the colours of the processes that it ran, then a row for each process and thread,
//! in the colours of its activities. A pixel with several spans is divided by their shares of its time, from the
//! bottom up: running, waiting for a CPU, blocked. Thus a row of a million spans is a load curve, and a row of ten is
//! ten blocks.

mod bars;
mod colours;
mod graph;
mod pack;
mod page;
mod svg;

use pyrograph_analyze::{Activity, SchedChart, SchedProcess};
use pyrograph_profile::{SchedTasks, TaskState, WaitReason};

pub use page::sched_chart_html;
pub use svg::sched_chart_svg;

/// Appearance of a chart.
#[derive(Clone, Debug)]
pub struct SchedChartLook {
    /// Title.
    pub title: String,
    /// Subtitle, such as the number of lost events. A summary of the content is shown in any case.
    pub subtitle: String,
    /// Width of the SVG file in pixels. The page fits its window.
    pub width: f64,
    /// Maximum number of threads with a row in the SVG file. The page has all rows.
    pub rows: usize,
}

impl Default for SchedChartLook {
    fn default() -> Self {
        Self {
            title: "What CPUs and threads did".to_owned(),
            subtitle: String::new(),
            width: 1200.0,
            rows: 60,
        }
    }
}

/// The data to draw: the chart, its tasks, and its processes in the order of their rows.
pub(crate) struct Shown<'a> {
    chart: &'a SchedChart,
    tasks: &'a SchedTasks,
    processes: Vec<SchedProcess>,
}

impl<'a> Shown<'a> {
    fn new(chart: &'a SchedChart, tasks: &'a SchedTasks) -> Self {
        Self { chart, tasks, processes: chart.processes(tasks) }
    }

    /// Numbers of the CPUs that had an event.
    fn cpus(&self) -> impl Iterator<Item = usize> {
        let has_event = |cpu: &usize| {
            let timeline = &self.chart.cpus[*cpu];
            !timeline.starts.is_empty()
                || !timeline.idle.is_empty()
                || !timeline.frequencies.is_empty()
        };
        (0..self.chart.cpus.len()).filter(has_event)
    }

    /// Summary, such as `1,234 switches of 12 threads on 2 CPUs in 1.23 s`, and what is missing.
    fn summary(&self) -> String {
        use crate::units::counted;
        let chart = self.chart;
        let threads: usize = self.processes.iter().map(|process| process.tasks.len()).sum();
        let length = (chart.end - chart.start) as f64;
        let mut text = format!(
            "{} of {} on {} in {}",
            counted(chart.switches, "switch").replace("switchs", "switches"),
            counted(threads as u64, "thread"),
            counted(self.cpus().count() as u64, "CPU"),
            crate::scale::Scale::time().text(length, length, length / 100.0),
        );
        if chart.switches > 0 && chart.wakeups == 0 {
            text.push_str(
                "; no wake-ups were recorded, so that waiting for a CPU is part of being blocked",
            );
        }
        if chart.gaps > 0 {
            text.push_str(&format!("; events are missing at {}", counted(chart.gaps, "place")));
        }
        if chart.impossible > 0 {
            let left_out = counted(chart.impossible, "event");
            text.push_str(&format!(
                "; {left_out} left out, of CPUs beyond the number that Linux can have"
            ));
        }
        text
    }
}

/// Kind of activity that a colour represents, in the order in which the shares of a pixel are stacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Running,
    Ready,
    Disk,
    Lock,
    Network,
    Pipe,
    Child,
    /// Uninterruptible sleep with an unknown reason.
    Uninterruptible,
    Timer,
    /// Blocked in another state, with an unknown reason.
    Blocked,
    /// Stopped by a signal or a tracer.
    Stopped,
    Unknown,
}

impl Kind {
    pub(crate) const ALL: [Self; 12] = [
        Self::Running,
        Self::Ready,
        Self::Disk,
        Self::Lock,
        Self::Network,
        Self::Pipe,
        Self::Child,
        Self::Uninterruptible,
        Self::Timer,
        Self::Blocked,
        Self::Stopped,
        Self::Unknown,
    ];

    pub(crate) fn of(activity: Activity) -> Self {
        let Activity::Blocked { state, reason } = activity else {
            return match activity {
                Activity::Running { .. } => Self::Running,
                Activity::Ready(_) => Self::Ready,
                Activity::Unknown | Activity::Blocked { .. } => Self::Unknown,
            };
        };
        match (reason, state) {
            (_, Some(TaskState::Stopped | TaskState::Traced)) => Self::Stopped,
            (WaitReason::Disk, _) => Self::Disk,
            (WaitReason::Lock, _) => Self::Lock,
            (WaitReason::Network, _) => Self::Network,
            (WaitReason::Pipe, _) => Self::Pipe,
            (WaitReason::Child, _) => Self::Child,
            (WaitReason::Sleep, _) => Self::Timer,
            (WaitReason::Unknown, Some(TaskState::Uninterruptible)) => Self::Uninterruptible,
            (WaitReason::Unknown, _) => Self::Blocked,
        }
    }

    /// Label in legends, tables and details.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ready => "waiting for a CPU",
            Self::Disk => "disk",
            Self::Lock => "lock",
            Self::Network => "network",
            Self::Pipe => "pipe or poll",
            Self::Child => "child process",
            Self::Uninterruptible => "uninterruptible",
            Self::Timer => "sleep",
            Self::Blocked => "blocked",
            Self::Stopped => "stopped",
            Self::Unknown => "not known",
        }
    }
}

#[cfg(test)]
mod tests;
