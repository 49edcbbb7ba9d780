//! Following the scheduler: single events, or the times that tasks run and wait for a CPU, counted in the kernel.

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
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pyrograph_event::RoundQueue;
use pyrograph_event::sched::SchedChange;
use pyrograph_profile::{SchedCount, SchedEvent, SchedTasks};
use pyrograph_record::{
    Child, Ended, Launch, Stopper, Target, Waiting, Watch, family, monotonic_now, threads,
};

use self::counts::Totals;
use self::in_kernel::SchedTracer;
use self::stacks::{Named, Taken};
use self::tasks::Tasks;
use crate::error::Error;
use crate::filters::Filters;
use crate::tracing::{Moments, MomentsPlan};

/// A plan for following the scheduler.
#[derive(Clone, Debug)]
pub struct SchedPlan {
    /// Target to follow. A task switch is reported if one of the two tasks belongs to the target.
    pub target: Target,
    /// Follow the processes that the target starts, too.
    pub inherit: bool,
    /// Filters on the target.
    pub filters: Filters,
    /// Take the stack of the task that stops running at each switch. Only for single events.
    pub stacks: bool,
    /// Keys by which counts are kept apart. `None` to report single events instead.
    pub counts: Option<SchedKey>,
    /// A command that runs beside the target. The recording ends when it does.
    pub beside: Option<Vec<OsString>>,
    /// Maximum duration.
    pub duration: Option<Duration>,
    /// Time between two readings of the counts. `None` for one reading at the end.
    pub interval: Option<Duration>,
    /// Memory in bytes for events that wait to be read.
    pub memory: u32,
    /// Directory below which the kernel's type information is cached for the next time. `None` to cache nothing.
    pub cache: Option<PathBuf>,
    /// How the command is started.
    pub launch: Launch,
}

/// Keys by which counts are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedKey {
    /// Tasks, each from its start to its end. If very many tasks have ended, those are added up by name, without IDs.
    /// Tasks outside of this PID namespace are one row.
    Task,
    /// CPUs.
    Cpu,
    /// One sum for all.
    Total,
}

/// Result of following the scheduler.
#[derive(Debug)]
pub struct SchedEnd {
    /// Duration.
    pub elapsed: Duration,
    /// Start time in nanoseconds of the recording's clock.
    pub started: u64,
    /// End time in nanoseconds of the recording's clock.
    pub ended: u64,
    /// Number of events, or counts of tasks that have ended, for which there was no room.
    pub lost: u64,
    /// Number of times that a task could not be followed because the kernel had no memory for it.
    pub lost_tasks: u64,
    /// Number of lost records of processes. Without them, stacks may be wrong.
    pub lost_records: u64,
    /// Counts of the whole time, if the scheduler was counted, ordered by CPU and ID.
    pub counts: Vec<SchedCount>,
    /// Tasks in the events that were reported.
    pub tasks: SchedTasks,
    /// The command, if there is one.
    pub child: Option<Child>,
}

/// Time between two reads of events, and of the counts of tasks that have ended.
const EVENTS_EVERY: Duration = Duration::from_millis(50);
const ENDED_EVERY: Duration = Duration::from_millis(500);

/// Maximum delay in ns until an event is in the buffer. Within it, events of several CPUs may be out of order, and
/// wakeups wait until the task is on a run queue.
const EVENTS_ARE_LATE_BY_NS: u64 = 100_000_000;

/// Maximum number of batches of events in one step. Then the events are reported.
const MOST_BATCHES: usize = 32;

/// A running recording of the scheduler.
///
/// A delay begins when a task is woken (`sched_waking`), is started, or is preempted while it is runnable. It ends with
/// the switch that gives the task a CPU. Delays that have begun before the recording, or end after it, are not counted.
/// A task that is running at the start is counted from the start, and one that is running at the end until the end.
/// Counted run times are those that the kernel accounts (as in `getrusage`): a few microseconds per switch more than
/// from switch to switch.
///
/// ```
/// use pyrograph_record::{Launch, Target};
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
///     launch: Launch::default(),
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
    /// Events that wait for symbols, if stacks are taken.
    moments: Option<Moments<Named>>,
    /// Time of the last event that was reported.
    handed_out: u64,
    totals: Option<Totals>,
    interval: Option<Duration>,
    /// Number of intervals that were waited for, and of those whose counts were taken.
    intervals: u32,
    intervals_taken: u32,
    watch: Watch,
    /// The command, until it runs (`command`) and from then on (`child`).
    command: Option<Waiting>,
    child: Option<Child>,
    has_started: bool,
    started: (Instant, u64),
    ended: (Duration, u64),
    duration: Option<Duration>,
    until: Option<Instant>,
    /// Time at which the events ended, if it is known.
    ends: Arc<OnceLock<(Instant, u64)>>,
    has_ended: bool,
}

impl SchedRecording {
    /// Prepares to follow the scheduler. The first [`Self::step`] starts it, and the command: handlers of signals that are
    /// installed in between are not the command's, which is forked here.
    ///
    /// # Errors
    ///
    /// If the kernel rejects the eBPF programs.
    pub fn open(plan: &SchedPlan) -> Result<Self, Error> {
        plan.target.check()?;
        // First of all: Ctrl-C while the programs are loaded ends the command, too.
        let command = plan.target.fork(plan.beside.as_ref(), &plan.launch)?;
        let mut tracer = in_kernel::load(plan)?;
        let pid = command.as_ref().map(Waiting::pid);
        let watch = Watch::of(&plan.target, pid)?;
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
        let has_stacks = plan.stacks && plan.counts.is_none();
        let moments = has_stacks.then(|| Moments::open(&names, pid)).transpose()?;
        let now = (Instant::now(), monotonic_now());
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
            command,
            child: None,
            has_started: false,
            started: now,
            ended: (Duration::ZERO, now.1),
            duration: plan.duration,
            until: None,
            ends: Arc::default(),
            has_ended: false,
        })
    }

    /// Starts the recording, and the command. The first [`Self::step`] does this if it was not done before.
    ///
    /// # Errors
    ///
    /// If the command cannot be run, or the kernel refuses an operation.
    pub fn start(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.has_started, true) {
            return Ok(());
        }
        self.started = (Instant::now(), monotonic_now());
        self.until = self.duration.map(|duration| self.started.0 + duration);
        self.tracer.start()?;
        if self.totals.is_none() {
            let (end, known) = (self.tracer.end_of_events(), Arc::clone(&self.ends));
            self.watch.end_in_time(self.until, move |ended| {
                wait_for_last_switch(ended);
                end();
                let _ = known.set((Instant::now(), monotonic_now()));
            });
        }
        self.child = self.command.take().map(Waiting::run).transpose()?;
        Ok(())
    }

    /// Handle that ends the recording from any thread or signal handler.
    pub fn stopper(&self) -> Stopper {
        self.watch.stopper()
    }

    /// Process ID of the command, if there is one.
    pub fn command(&self) -> Option<i32> {
        let waiting = self.command.as_ref().map(Waiting::pid);
        waiting.or_else(|| self.child.as_ref().map(Child::pid))
    }

    /// Start time in nanoseconds of the recording's clock, which is `CLOCK_MONOTONIC`.
    pub fn started(&self) -> u64 {
        self.started.1
    }

    /// Tasks that were seen in events so far.
    pub fn tasks(&self) -> &SchedTasks {
        self.tasks.rows()
    }

    /// Waits for a limited time, and passes events to `out`, in order of time. If the scheduler is counted, waits until
    /// the next interval is over. Returns false when the recording is over.
    ///
    /// # Errors
    ///
    /// If the kernel refuses an operation, or `out` fails.
    pub fn step<E: From<Error>>(
        &mut self,
        out: &mut dyn FnMut(&SchedTasks, SchedEvent) -> Result<(), E>,
    ) -> Result<bool, E> {
        if self.has_ended {
            return Ok(false);
        }
        self.start()?;
        if self.totals.is_some() {
            self.wait_for_interval()?;
            return Ok(true);
        }
        self.wait(Instant::now() + EVENTS_EVERY)?;
        let until = self.take_events()?;
        self.hand_out(until, out)?;
        Ok(true)
    }

    /// Waits until `tick`, or until the kernel's buffer fills or the recording is over.
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
        // Number of the current interval.
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

    /// Returns the counts since the last call, or since the beginning, ordered by CPU and ID. With intervals in the
    /// plan, these are the counts of one interval.
    ///
    /// # Errors
    ///
    /// If the kernel refuses an operation.
    pub fn counts(&mut self) -> Result<Vec<SchedCount>, Error> {
        if !self.has_ended {
            self.take_counts()?;
        }
        Ok(self.totals.as_mut().map_or_else(Vec::new, Totals::take_interval))
    }

    /// Takes events. Returns the time before which all events have been taken.
    fn take_events(&mut self) -> Result<u64, Error> {
        let (tasks, queue) = (&mut self.tasks, &mut self.queue);
        let now = monotonic_now();
        let mut newest = 0;
        let batches = if self.has_ended { usize::MAX } else { MOST_BATCHES };
        for _ in 0..batches {
            let more = self.tracer.take(&mut |record, stack| {
                newest = newest.max(record.time);
                match record.change {
                    // It has the name from when the task was first seen, even if older records precede it in the
                    // buffer.
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
            // An event that arrives even later was delayed between its CPU and the buffer.
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

    /// Ends the recording, and returns the result.
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

/// Waits for the last task switch of a target that has ended: a process appears ended before its last thread leaves its
/// CPU.
fn wait_for_last_switch(ended: Option<Ended>) {
    if let Some(Ended::TargetEnded) = ended {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Adds the threads of processes and of their descendants. Threads and processes that these start meanwhile are added
/// by the eBPF programs, if the one that starts them is known.
fn follow(tracer: &SchedTracer, pids: &[i32], inherit: bool) -> Result<(), Error> {
    let mut known = BTreeSet::new();
    loop {
        let all = family(pids, inherit).into_iter().flat_map(threads);
        let new: Vec<i32> = all.filter(|thread| known.insert(*thread)).collect();
        if new.is_empty() {
            return Ok(());
        }
        tracer.add_threads(&new)?;
    }
}
