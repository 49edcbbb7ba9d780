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

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pyrograph_event::RoundQueue;
use pyrograph_event::sched::SchedChange;
use pyrograph_profile::{SchedCount, SchedEvent, SchedTasks};
use pyrograph_record::{Child, Ended, Stopper, monotonic_now};

use self::counts::Totals;
use self::in_kernel::SchedTracer;
use self::stacks::{Named, Taken};
use self::tasks::Tasks;
use crate::error::Error;
use crate::lifetime::Lifetime;
use crate::scope::Scope;
use crate::tracing::Moments;

/// A plan for following the scheduler.
#[derive(Clone, Debug)]
pub struct SchedPlan {
    /// Target and duration. A task switch is reported if one of the two tasks belongs to the target.
    pub scope: Scope,
    /// Take the stack of the task that stops running at each switch. Only for single events.
    pub stacks: bool,
    /// Keys by which counts are kept apart. `None` to report single events instead.
    pub counts: Option<SchedKey>,
    /// Time between two readings of the counts. `None` for one reading at the end.
    pub interval: Option<Duration>,
    /// Memory in bytes for events that wait to be read.
    pub memory: u32,
}

impl SchedPlan {
    /// Returns a plan to report single events of a scope or target, without stacks.
    pub fn new(scope: impl Into<Scope>) -> Self {
        Self { scope: scope.into(), stacks: false, counts: None, interval: None, memory: 64 << 20 }
    }
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
/// use pyrograph_session::{Error, SchedKey, SchedPlan, SchedRecording, Target};
///
/// let command = Target::Command(vec!["sleep".into(), "0.1".into()]);
/// let plan = SchedPlan { counts: Some(SchedKey::Task), ..SchedPlan::new(command) };
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
    life: Lifetime,
    /// Start time in nanoseconds of the recording's clock.
    started: u64,
    ended: (Duration, u64),
    /// Time at which the events ended, if it is known.
    ends: Arc<OnceLock<(Instant, u64)>>,
}

impl SchedRecording {
    /// Prepares to follow the scheduler. The first [`Self::step`] starts it, and the command: handlers of signals that are
    /// installed in between are not the command's, which is forked here.
    ///
    /// # Errors
    ///
    /// If the kernel rejects the eBPF programs.
    pub fn open(plan: &SchedPlan) -> Result<Self, Error> {
        let life = Lifetime::open(&plan.scope)?;
        let mut tracer = in_kernel::load(plan)?;
        let command = life.target_command();
        tracer.attach()?;
        if let Some(command) = command {
            tracer.add_threads(&[command])?;
        }
        plan.scope.add_threads(|threads| tracer.add_threads(threads))?;
        let has_stacks = plan.stacks && plan.counts.is_none();
        let moments = has_stacks.then(|| Moments::open(&plan.scope, command, false)).transpose()?;
        let now = monotonic_now();
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
            life,
            started: now,
            ended: (Duration::ZERO, now),
            ends: Arc::default(),
        })
    }

    /// Starts the recording, and the command. The first [`Self::step`] does this if it was not done before.
    ///
    /// # Errors
    ///
    /// If the command cannot be run, or the kernel refuses an operation.
    pub fn start(&mut self) -> Result<(), Error> {
        if !self.life.start() {
            return Ok(());
        }
        self.started = monotonic_now();
        self.tracer.start()?;
        if self.totals.is_none() {
            let (end, known) = (self.tracer.end_of_events(), Arc::clone(&self.ends));
            self.life.end_in_time(move |ended| {
                wait_for_last_switch(ended);
                end();
                let _ = known.set((Instant::now(), monotonic_now()));
            });
        }
        self.life.run_command()
    }

    /// Handle that ends the recording from any thread or signal handler.
    pub fn stopper(&self) -> Stopper {
        self.life.stopper()
    }

    /// Process ID of the command, if there is one.
    pub fn command(&self) -> Option<i32> {
        self.life.command()
    }

    /// Start time in nanoseconds of the recording's clock, which is `CLOCK_MONOTONIC`.
    pub fn started(&self) -> u64 {
        self.started
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
        if self.life.has_ended() {
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
        if let Some(end) = self.life.wait(Some(tick), Some(self.tracer.fd())) {
            wait_for_last_switch(Some(end));
            self.tracer.stop()?;
            let now = || (Instant::now(), monotonic_now());
            let (at, time) = self.ends.get().copied().unwrap_or_else(now);
            self.ended = (at.saturating_duration_since(self.life.started()), time);
        }
        Ok(())
    }

    fn wait_for_interval(&mut self) -> Result<(), Error> {
        self.intervals += 1;
        let interval =
            self.interval.map(|interval| self.life.started() + interval * self.intervals);
        while !self.life.has_ended() && interval.is_none_or(|interval| Instant::now() < interval) {
            let tick = Instant::now() + ENDED_EVERY;
            self.wait(interval.map_or(tick, |interval| interval.min(tick)))?;
            self.take_ended()?;
        }
        if self.life.has_ended() { self.take_counts() } else { Ok(()) }
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
        if !self.life.has_ended() {
            self.take_counts()?;
        }
        Ok(self.totals.as_mut().map_or_else(Vec::new, Totals::take_interval))
    }

    /// Takes events. Returns the time before which all events have been taken.
    fn take_events(&mut self) -> Result<u64, Error> {
        let (tasks, queue) = (&mut self.tasks, &mut self.queue);
        let now = monotonic_now();
        let mut newest = 0;
        let batches = if self.life.has_ended() { usize::MAX } else { MOST_BATCHES };
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
        match self.life.has_ended() {
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
        moments.hand_out((!self.life.has_ended()).then_some(until), &mut |named: Named| match tasks
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
            started: self.started,
            ended: self.ended.1,
            lost,
            lost_tasks,
            lost_records: self.moments.as_ref().map_or(0, Moments::lost_records),
            counts: self.totals.map_or_else(Vec::new, Totals::into_rows),
            tasks: self.tasks.into_rows(),
            child: self.life.into_child(),
        }
    }
}

/// Waits for the last task switch of a target that has ended: a process appears ended before its last thread leaves its
/// CPU.
fn wait_for_last_switch(ended: Option<Ended>) {
    if ended == Some(Ended::TargetEnded) {
        std::thread::sleep(Duration::from_millis(10));
    }
}
