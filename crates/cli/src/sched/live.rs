//! Live recording of scheduler events and counts.

use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use pyrograph_analyze::SchedFilter;
use pyrograph_cache::user_folder;
use pyrograph_profile::{SchedCount, SchedTasks};
use pyrograph_record::{family, monotonic_now};
use pyrograph_session::{
    Error, Filters, SchedEnd, SchedKey, SchedPlan, SchedRecording, Scope, Target, control_group,
};

use super::source::OnEvent;
use crate::live::{exit_code, stop_on_signal};
use crate::say::say;
use crate::targets::TargetArgs;
use crate::units::{counted, parse_duration, parse_size};

/// What is followed where nothing is read from a file.
#[derive(clap::Args)]
pub struct LiveArgs {
    #[command(flatten)]
    pub target: TargetArgs,

    /// Only what is in this control group, or in one inside of it: its folder
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,

    /// Without the processes that the target starts
    #[arg(long)]
    no_inherit: bool,

    /// For how long: seconds, or with a unit (500ms, 10s, 5m) [default: until it ends, or Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// Memory for events that wait to be written [default: 64M]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    buffer: Option<usize>,
}

/// Callback for the counts of an interval, with its begin and end in nanoseconds since the recording began.
pub type OnInterval<'a> = dyn FnMut(Range<u64>, &[SchedCount]) -> anyhow::Result<()> + 'a;

/// A live recording that has not begun.
pub struct Live {
    plan: SchedPlan,
}

impl LiveArgs {
    /// Plan of the live recording; `None` if no target is given, so that a file is read. If `names` is not empty, only
    /// threads with these names are recorded.
    pub fn plan(&mut self, names: &[String]) -> anyhow::Result<Option<Live>> {
        let launch = self.target.launch(false)?;
        let target = match self.target.take() {
            Some(target) => target,
            None if self.duration.is_some() || self.cgroup.is_some() => Target::System,
            None => return Ok(None),
        };
        let group = self.cgroup.as_deref().map(control_group).transpose()?;
        let filters = Filters { names: names.to_vec(), group, by_cpu: false };
        let beside = self.target.beside();
        // The command beside the target may have one of the names.
        if beside.is_none() {
            filters.check_names(&target, !self.no_inherit)?;
        }
        let memory = self.buffer.unwrap_or(64 << 20);
        let scope = Scope {
            inherit: !self.no_inherit,
            filters,
            beside,
            duration: self.duration,
            launch,
            cache: user_folder(),
            ..Scope::new(target)
        };
        let memory = u32::try_from(memory).unwrap_or(u32::MAX);
        Ok(Some(Live { plan: SchedPlan { memory, ..SchedPlan::new(scope) } }))
    }
}

impl Live {
    /// Redirects the command's standard output to standard error.
    pub fn output_to_stderr(&mut self, is_wanted: bool) {
        self.plan.scope.launch.output_to_stderr = is_wanted;
    }

    /// Returns true if the events of the whole machine are recorded.
    pub fn is_whole(&self) -> bool {
        self.plan.scope.is_machine() && !self.plan.scope.filters.chooses()
    }

    /// Returns true if a command runs, whose output is not to be mixed with ours.
    pub fn runs_command(&self) -> bool {
        self.plan.scope.is_command() || self.plan.scope.beside.is_some()
    }

    /// Calls `on_event` for each event. Sets `filter` to show the tasks of the target, because the events contain other
    /// tasks, too. `with_stacks`: take the stacks of tasks when they stop running. Returns the tasks, the exit code, and
    /// warnings about losses.
    pub fn each(
        mut self,
        with_stacks: bool,
        filter: &mut SchedFilter,
        on_event: &mut OnEvent<'_>,
    ) -> anyhow::Result<(SchedTasks, ExitCode, Vec<String>)> {
        self.plan.stacks = with_stacks;
        let mut recording = SchedRecording::open(&self.plan)?;
        let (interrupt, _stops) = stop_on_signal(recording.stopper())?;
        filter.families = match &self.plan.scope.target {
            Target::Command(_) => recording.command().into_iter().collect(),
            Target::Processes(pids) if self.plan.scope.inherit => family(pids, true),
            Target::Processes(pids) => {
                filter.pids.clone_from(pids);
                Vec::new()
            }
            Target::System => Vec::new(),
        };
        while recording.step(&mut |tasks, event| on_event(tasks, filter, Some(event)))? {
            on_event(recording.tasks(), filter, None)?;
        }
        let end = recording.finish();
        let remarks = lost(&end);
        let code = exit_code(end.child, &interrupt, self.plan.scope.is_command())?;
        Ok((end.tasks, code, remarks))
    }

    /// Counts in the kernel: calls `on_interval` with the counts of each interval and its begin and end, in nanoseconds
    /// since the recording began. Returns the counts of the whole time.
    pub fn counts(
        mut self,
        key: SchedKey,
        interval: Option<Duration>,
        on_interval: &mut OnInterval<'_>,
    ) -> anyhow::Result<(Vec<SchedCount>, ExitCode)> {
        (self.plan.counts, self.plan.interval) = (Some(key), interval);
        let mut recording = SchedRecording::open(&self.plan)?;
        let (interrupt, _stops) = stop_on_signal(recording.stopper())?;
        let mut from = 0;
        while recording.step(&mut |_, _| Ok::<(), Error>(()))? {
            if interval.is_some() {
                let counts = recording.counts()?;
                let to = monotonic_now().saturating_sub(recording.started());
                on_interval(std::mem::replace(&mut from, to)..to, &counts)?;
            }
        }
        let end = recording.finish();
        lost(&end).iter().for_each(|line| say!("{line}"));
        let code = exit_code(end.child, &interrupt, self.plan.scope.is_command())?;
        Ok((end.counts, code))
    }
}

/// Warnings about events and tasks that were lost.
fn lost(end: &SchedEnd) -> Vec<String> {
    let mut lines = Vec::new();
    if end.lost > 0 {
        lines.push(format!(
            "{} were lost: they came faster than they were written; --buffer gives more memory",
            counted(end.lost, "event")
        ));
    }
    if end.lost_records > 0 {
        lines.push(format!(
            "{} of processes were lost: stacks behind them may be wrong",
            counted(end.lost_records, "record")
        ));
    }
    if end.lost_tasks > 0 {
        lines.push(format!(
            "a task could not be followed {}: the kernel had no memory for it",
            counted(end.lost_tasks, "time")
        ));
    }
    lines
}
