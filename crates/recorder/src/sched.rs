//! Following the scheduler: each event, or how long tasks run and wait for a CPU, counted in the kernel.

mod counts;
#[cfg(feature = "bpf")]
mod in_kernel;
#[cfg(not(feature = "bpf"))]
#[path = "sched/no_kernel.rs"]
mod in_kernel;
mod reason;
mod stacks;
mod tasks;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pyrograph_event::RoundQueue;
use pyrograph_event::sched::SchedChange;
use pyrograph_profile::{SchedCount, SchedEvent, SchedTasks};
use pyrograph_record::{
    Child, Ended, Stopper, Target, Waiting, Watch, descendants, monotonic_now, threads,
};

use self::counts::Totals;
use self::in_kernel::SchedTracer;
use self::stacks::{Named, Taken};
use self::tasks::Tasks;
use crate::error::Error;
use crate::filters::Filters;
use crate::tracing::{Moments, MomentsPlan};

/// A plan of what to follow, and for how long.
#[derive(Clone, Debug)]
pub struct SchedPlan {
    /// Whose events or times. Of a switch of tasks, one of both is enough.
    pub target: Target,
    /// Follow the processes that the target starts, too.
    pub inherit: bool,
    /// Of the target, what is followed.
    pub filters: Filters,
    /// A switch has the stack of the task that stops to run, where events are handed out.
    pub stacks: bool,
    /// What counts are kept apart by; `None`: events are handed out one by one.
    pub counts: Option<SchedKey>,
    /// A command that runs beside the target, which is followed until this ends.
    pub beside: Option<Vec<OsString>>,
    /// The longest time to follow it.
    pub duration: Option<Duration>,
    /// The time between two takings of counts; `None` for one at the end.
    pub interval: Option<Duration>,
    /// Bytes of memory for events that wait to be handed out.
    pub memory: u32,
    /// Below which folder the kernel's types are kept for the next time; `None`: they are not.
    pub cache: Option<PathBuf>,
    /// A command's standard output is this process's standard error.
    pub output_to_stderr: bool,
}

/// What counts are kept apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedKey {
    /// Tasks, each from its start to its end. Of those that have ended, very many are added up by name, without IDs; those
    /// that this PID namespace cannot see are one row.
    Task,
    /// CPUs.
    Cpu,
    /// Nothing.
    Total,
}

/// The end of following the scheduler.
#[derive(Debug)]
pub struct SchedEnd {
    /// The time that passed.
    pub elapsed: Duration,
    /// When it began: nanoseconds on the recording's clock.
    pub started: u64,
    /// When it ended: nanoseconds on the recording's clock.
    pub ended: u64,
    /// Events, or counts of tasks that have ended, for which there was no room.
    pub lost: u64,
    /// How often a task could not be followed, for which the kernel had no memory.
    pub lost_tasks: u64,
    /// Records of processes that were lost, without which stacks may be wrong.
    pub lost_records: u64,
    /// The counts of the whole time, where the scheduler was counted, in order of CPUs and IDs.
    pub counts: Vec<SchedCount>,
    /// The tasks in the events that were handed out.
    pub tasks: SchedTasks,
    /// The command, if there is one.
    pub child: Option<Child>,
}

/// How often events are taken, and counts of tasks that have ended.
const EVENTS_EVERY: Duration = Duration::from_millis(50);
const ENDED_EVERY: Duration = Duration::from_millis(500);

/// An event is in the buffer no later than this after it happened; those of several CPUs are interchanged until then, and
/// wakeups wait there until the task is on a queue.
const EVENTS_ARE_LATE_BY_NS: u64 = 100_000_000;

/// Batches of events that are taken in one step at most; then they are handed out.
const MOST_BATCHES: usize = 32;

/// A running recording of the scheduler.
///
/// A delay begins when a task is woken (`sched_waking`), is started, or has to leave its CPU while it could run on, and ends
/// when it is given a CPU, which is a switch. Delays that have not ended, and those that had begun before, are not counted.
/// A task that runs already is counted from the beginning, and one that runs still, until the end. Counted run times are
/// those that the kernel accounts (as `getrusage` has them), a few microseconds a switch more than from switch to switch.
///
/// ```
/// use pyrograph_record::Target;
/// use pyrograph_recorder::{Error, Filters, SchedKey, SchedPlan, SchedRecording};
///
/// let plan = SchedPlan {
///     target: Target::Command(vec!["sleep".into(), "0.1".into()]),
///     inherit: true,
///     filters: Filters::default(),
///     stacks: false,
///     counts: Some(SchedKey::Task),
///     beside: None,
///     duration: None,
///     interval: None,
///     memory: 1 << 20,
///     cache: None,
///     output_to_stderr: false,
/// };
/// let mut recording = match SchedRecording::open(&plan) {
///     Err(error) if error.is_refusal() => return Ok(()), // it takes rights
///     recording => recording?,
/// };
/// while recording.step(&mut |_, _| Ok::<(), Error>(()))? {}
/// for count in recording.finish().counts {
///     println!("{} ran for {} ns", count.name, count.run_time);
/// }
/// # Ok::<(), Error>(())
/// ```
pub struct SchedRecording {
    tracer: SchedTracer,
    tasks: Tasks,
    queue: RoundQueue<Taken>,
    /// Where stacks are handed out.
    moments: Option<Moments<Named>>,
    /// The time of the last event that was handed out.
    handed_out: u64,
    totals: Option<Totals>,
    interval: Option<Duration>,
    /// Intervals that were waited for, and those of which counts were taken.
    intervals: u32,
    intervals_taken: u32,
    watch: Watch,
    child: Option<Child>,
    started: (Instant, u64),
    ended: (Duration, u64),
    until: Option<Instant>,
    /// When events ended, if that is known.
    ends: Arc<OnceLock<(Instant, u64)>>,
    has_ended: bool,
}

impl SchedRecording {
    /// Begins to follow the scheduler.
    ///
    /// # Errors
    ///
    /// If the kernel does not take the programs, or the command cannot be run.
    pub fn open(plan: &SchedPlan) -> Result<Self, Error> {
        let command = match &plan.target {
            Target::Command(argv) => Some(argv),
            Target::Processes(_) | Target::System => plan.beside.as_ref(),
        };
        check_processes(&plan.target)?;
        let mut tracer = in_kernel::load(plan)?;
        let command = command.map(|argv| Waiting::fork(argv, plan.output_to_stderr)).transpose()?;
        let mut watch = Watch::new()?;
        match (&plan.target, &command) {
            (_, Some(command)) => watch.child(command.pid()),
            (Target::Processes(pids), None) => watch.processes(pids),
            _ => {}
        }
        tracer.attach()?;
        match (&plan.target, &command) {
            (Target::Command(_), Some(command)) => tracer.add_threads(&[command.pid()])?,
            (Target::Processes(pids), _) => follow(&tracer, pids, plan.inherit)?,
            _ => {}
        }
        let names = MomentsPlan {
            target: &plan.target,
            inherit: plan.inherit,
            data_mappings: false,
            cache: plan.cache.as_deref(),
        };
        let pid = command.as_ref().map(Waiting::pid);
        let has_stacks = plan.stacks && plan.counts.is_none();
        let moments = has_stacks.then(|| Moments::open(&names, pid)).transpose()?;
        let started = (Instant::now(), monotonic_now());
        let until = plan.duration.map(|duration| started.0 + duration);
        tracer.start()?;
        let ends = Arc::<OnceLock<_>>::default();
        if plan.counts.is_none() {
            let (end, known) = (tracer.end_of_events(), Arc::clone(&ends));
            watch.end_in_time(until, move |ended| {
                wait_for_last_switch(ended);
                end();
                let _ = known.set((Instant::now(), monotonic_now()));
            });
        }
        let child = command.map(Waiting::run).transpose()?;
        Ok(Self {
            tracer,
            tasks: Tasks::new(),
            queue: RoundQueue::default(),
            moments,
            handed_out: 0,
            totals: plan.counts.map(|key| Totals::new(key, plan.interval.is_some())),
            interval: plan.interval,
            intervals: 0,
            intervals_taken: 0,
            watch,
            child,
            started,
            ended: (Duration::ZERO, started.1),
            until,
            ends,
            has_ended: false,
        })
    }

    /// Handle that ends it from any thread or signal handler.
    pub fn stopper(&self) -> Stopper {
        self.watch.stopper()
    }

    /// The command that was started, if there is one.
    pub fn command(&self) -> Option<i32> {
        self.child.as_ref().map(Child::pid)
    }

    /// When it began: nanoseconds on the recording's clock, which is `CLOCK_MONOTONIC`.
    pub fn started(&self) -> u64 {
        self.started.1
    }

    /// The tasks that were seen in events so far.
    pub fn tasks(&self) -> &SchedTasks {
        self.tasks.rows()
    }

    /// Waits a while, and hands out events, in the order of time; where the scheduler is counted, waits until the next
    /// interval is over. Returns false when all is over.
    ///
    /// # Errors
    ///
    /// If the kernel cannot be asked, or `out` fails.
    pub fn step<E: From<Error>>(
        &mut self,
        out: &mut dyn FnMut(&SchedTasks, SchedEvent) -> Result<(), E>,
    ) -> Result<bool, E> {
        if self.has_ended {
            return Ok(false);
        }
        if self.totals.is_some() {
            self.wait_for_interval()?;
            return Ok(true);
        }
        self.wait(Instant::now() + EVENTS_EVERY)?;
        let until = self.take_events()?;
        self.hand_out(until, out)?;
        Ok(true)
    }

    /// Waits until then, or until the kernel's buffer fills, or all is over.
    fn wait(&mut self, tick: Instant) -> Result<(), Error> {
        let next = self.until.map_or(tick, |until| until.min(tick));
        let ended = self.watch.wait(Some(next), Some(self.tracer.fd()));
        let is_over = self.until.is_some_and(|until| until <= Instant::now());
        if ended.is_some() || is_over {
            wait_for_last_switch(ended);
            self.has_ended = true;
            self.tracer.stop()?;
            let now = || (Instant::now(), monotonic_now());
            let (at, time) = self.ends.get().copied().unwrap_or_else(now);
            self.ended = (at.saturating_duration_since(self.started.0), time);
        }
        Ok(())
    }

    fn wait_for_interval(&mut self) -> Result<(), Error> {
        self.intervals += 1;
        let interval = self.interval.map(|interval| self.started.0 + interval * self.intervals);
        while !self.has_ended && interval.is_none_or(|interval| Instant::now() < interval) {
            let tick = Instant::now() + ENDED_EVERY;
            self.wait(interval.map_or(tick, |interval| interval.min(tick)))?;
            self.take_ended()?;
        }
        if self.has_ended { self.take_counts() } else { Ok(()) }
    }

    fn take_ended(&mut self) -> Result<(), Error> {
        let Some(totals) = &mut self.totals else { return Ok(()) };
        // The number of this interval.
        let interval = self.intervals_taken + 1;
        while self.tracer.take_ended(&mut |counts| totals.add(counts, interval))? {}
        Ok(())
    }

    fn take_counts(&mut self) -> Result<(), Error> {
        let Some(totals) = &mut self.totals else { return Ok(()) };
        let interval = self.intervals_taken + 1;
        self.tracer.take_counts(&mut |counts| totals.add(counts, interval))?;
        self.intervals_taken = interval;
        Ok(())
    }

    /// The counts since the last call, or since the beginning, in order of CPUs and IDs: where the plan has intervals, those
    /// of one.
    ///
    /// # Errors
    ///
    /// If the kernel cannot be asked.
    pub fn counts(&mut self) -> Result<Vec<SchedCount>, Error> {
        if !self.has_ended {
            self.take_counts()?;
        }
        Ok(self.totals.as_mut().map_or_else(Vec::new, Totals::take_interval))
    }

    /// Takes events, and returns the time before which all have been.
    fn take_events(&mut self) -> Result<u64, Error> {
        let (tasks, queue) = (&mut self.tasks, &mut self.queue);
        let now = monotonic_now();
        let mut newest = 0;
        let batches = if self.has_ended { usize::MAX } else { MOST_BATCHES };
        for _ in 0..batches {
            let more = self.tracer.take(&mut |record, stack| {
                newest = newest.max(record.time);
                match record.change {
                    // It is the name of when the task was first seen, whatever came before in this buffer.
                    SchedChange::Task { task, names, parent } => {
                        tasks.describe(task, &names, parent);
                    }
                    _ => queue.push(record.time, Taken::new(record, stack)),
                }
            })?;
            if !more {
                newest = now;
                break;
            }
        }
        match self.has_ended {
            true => Ok(u64::MAX),
            false => Ok(newest.min(now).saturating_sub(EVENTS_ARE_LATE_BY_NS)),
        }
    }

    fn hand_out<E: From<Error>>(
        &mut self,
        until: u64,
        out: &mut dyn FnMut(&SchedTasks, SchedEvent) -> Result<(), E>,
    ) -> Result<(), E> {
        for (_, mut taken) in self.queue.flush_until(until) {
            // One that came even later was held up between its CPU and the buffer.
            taken.record.time = taken.record.time.max(self.handed_out);
            let record = taken.record;
            self.handed_out = record.time;
            let Some(moments) = &mut self.moments else {
                if let Some(event) = self.tasks.event(&record, None) {
                    out(self.tasks.rows(), event)?;
                }
                continue;
            };
            let thread = match record.change {
                SchedChange::Switch { previous, .. } => self.tasks.thread(previous),
                _ => (0, 0),
            };
            moments.add(Named { record, thread, stack: None }, &taken.moment());
        }
        let Some(moments) = &mut self.moments else { return Ok(()) };
        let tasks = &mut self.tasks;
        moments.hand_out((!self.has_ended).then_some(until), &mut |named: Named| match tasks
            .event(&named.record, named.stack)
        {
            Some(event) => out(tasks.rows(), event),
            None => Ok(()),
        })
    }

    /// Ends it.
    pub fn finish(self) -> SchedEnd {
        let (lost, lost_tasks) = self.tracer.lost();
        SchedEnd {
            elapsed: self.ended.0,
            started: self.started.1,
            ended: self.ended.1,
            lost,
            lost_tasks,
            lost_records: self.moments.as_ref().map_or(0, Moments::lost_records),
            counts: self.totals.map_or_else(Vec::new, Totals::into_rows),
            tasks: self.tasks.into_rows(),
            child: self.child,
        }
    }
}

/// A process is seen to have ended before its last thread leaves its CPU, which is an event, too.
fn wait_for_last_switch(ended: Option<Ended>) {
    if let Some(Ended::TargetEnded) = ended {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Checks that all processes of a target run.
fn check_processes(target: &Target) -> Result<(), Error> {
    let Target::Processes(pids) = target else { return Ok(()) };
    let is_there = |pid: &&i32| Path::new(&format!("/proc/{pid}")).exists();
    match pids.iter().find(|pid| !is_there(pid)) {
        Some(pid) => Err(pyrograph_record::Error::NoSuchProcess { pid: *pid }.into()),
        None => Ok(()),
    }
}

/// Follows the threads of processes and of their descendants. What these start meanwhile is followed by the programs, if who
/// starts it is.
fn follow(tracer: &SchedTracer, pids: &[i32], inherit: bool) -> Result<(), Error> {
    let mut known = BTreeSet::new();
    loop {
        let children = if inherit { descendants(pids) } else { Vec::new() };
        let all = pids.iter().chain(&children).flat_map(|pid| threads(*pid));
        let new: Vec<i32> = all.filter(|thread| known.insert(*thread)).collect();
        if new.is_empty() {
            return Ok(());
        }
        tracer.add_threads(&new)?;
    }
}
