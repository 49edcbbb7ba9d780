//! Counting events of a target, without stacks: values at intervals and at the end.

use std::collections::HashMap;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use pyrograph_record::{
    Child, Count, CounterOptions, Counters, Ended, Refusal, Target, Unit, Waiting,
};

use crate::error::Error;

/// A plan of what to count, and for how long.
#[derive(Clone, Debug)]
pub struct CountPlan {
    /// The counters and their target.
    pub counters: CounterOptions,
    /// A command that runs beside the target, which is counted until this ends.
    pub beside: Option<Vec<OsString>>,
    /// The longest time to count.
    pub duration: Option<Duration>,
    /// The time between two readings; `None` for one at the end.
    pub interval: Option<Duration>,
}

/// Values since the start.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Time since the start.
    pub elapsed: Duration,
    /// The counts, each since the start.
    pub counts: Vec<Count>,
    /// The counts since the reading before.
    pub interval: Vec<Count>,
}

/// A running count.
///
/// ```
/// use pyrograph_record::{CounterOptions, Event, Target};
/// use pyrograph_recorder::{CountPlan, Counting};
///
/// let plan = CountPlan {
///     counters: CounterOptions {
///         target: Target::Command(vec!["true".into()]),
///         groups: vec![vec![Event::parse("task-clock")?]],
///         inherit: true,
///         cpus: None,
///         by_cpu: false,
///         output_to_stderr: false,
///     },
///     beside: None,
///     duration: None,
///     interval: None,
/// };
/// let mut counting = Counting::open(&plan)?;
/// while counting.step()?.is_some() {}
/// let counted = counting.finish()?;
/// for count in &counted.last.counts {
///     println!("{} ns of CPU time", count.value);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Counting {
    counters: Counters,
    start: Instant,
    /// Counters of processes count from when they are opened: this is taken off.
    before: Vec<Count>,
    /// For each event, true if it is counted by hardware, which may have fewer counters than are asked for.
    shares_hardware: Vec<bool>,
    /// The counters are those of CPUs, whatever runs there.
    is_of_machine: bool,
    /// The counts of the reading before, as the kernel has them.
    previous: Vec<Count>,
    until: Option<Instant>,
    interval: Option<Duration>,
    /// Intervals that are over.
    intervals: u32,
    last: Option<Reading>,
    has_ended: bool,
}

/// The result of counting.
#[derive(Debug)]
pub struct Counted {
    /// The counts of the whole time.
    pub last: Reading,
    /// For each event, why it is not counted; `None` if it is.
    pub refused: Vec<Option<Refusal>>,
    /// For each event, true if only user mode is counted, since the kernel's is not permitted.
    pub user_only: Vec<bool>,
    /// The command, whose exit status and usage are known if it has ended.
    pub child: Option<Child>,
}

impl Counting {
    /// Opens the counters and starts them.
    ///
    /// # Errors
    ///
    /// Those of [`Counters::open`] and [`Counters::start`].
    pub fn open(plan: &CountPlan) -> Result<Self, Error> {
        let mut counters = Counters::open(&plan.counters)?;
        let beside = plan.beside.as_ref();
        let beside = beside
            .map(|command| Waiting::fork(command, plan.counters.output_to_stderr))
            .transpose()?;
        let start = counters.start()?;
        let before = match plan.counters.target {
            Target::Command(_) => Vec::new(),
            _ => counters.read()?,
        };
        if let Some(beside) = beside {
            counters.also_until(beside.run()?);
        }
        let events = plan.counters.groups.iter().flatten();
        let shares_hardware =
            events.map(|event| !event.is_counted_by_kernel() && event.unit() == Unit::Count);
        let shares_hardware = shares_hardware.collect();
        let previous = before.clone();
        let until = plan.duration.map(|duration| start + duration);
        let interval = plan.interval;
        let (intervals, last, has_ended) = (0, None, false);
        Ok(Self {
            counters,
            start,
            before,
            shares_hardware,
            is_of_machine: plan.counters.target == Target::System,
            previous,
            until,
            interval,
            intervals,
            last,
            has_ended,
        })
    }

    /// Handle that ends the counting from any thread or signal handler.
    pub fn stopper(&self) -> pyrograph_record::Stopper {
        self.counters.stopper()
    }

    /// For each event, why it is not counted; `None` if it is.
    pub fn refused(&self) -> &[Option<Refusal>] {
        self.counters.refused()
    }

    /// Waits for the next interval, of which it returns the counts; `None` when counting is over.
    ///
    /// # Errors
    ///
    /// If a counter cannot be read.
    pub fn step(&mut self) -> Result<Option<Reading>, Error> {
        if self.has_ended {
            return Ok(None);
        }
        let tick = self.interval.map(|interval| self.start + interval * (self.intervals + 1));
        let until = [tick, self.until].into_iter().flatten().min();
        let ended: Option<Ended> = self.counters.wait(until);
        self.intervals += 1;
        let reading = self.read()?;
        self.has_ended = ended.is_some() || self.until.is_some_and(|until| until <= Instant::now());
        self.last = Some(reading.clone());
        // What is left of an interval is a reading of its own.
        Ok(self.interval.map(|_| reading))
    }

    fn read(&mut self) -> Result<Reading, Error> {
        let elapsed = self.start.elapsed();
        let now = self.counters.read()?;
        let [mut counts, mut interval] =
            [&self.before, &self.previous].map(|before| since(&now, before));
        settle_times(&mut counts, &self.shares_hardware, self.is_of_machine);
        settle_times(&mut interval, &self.shares_hardware, self.is_of_machine);
        self.previous = now;
        Ok(Reading { elapsed, counts, interval })
    }

    /// Ends counting. A command that has ended is waited for.
    ///
    /// # Errors
    ///
    /// If a counter cannot be read.
    pub fn finish(mut self) -> Result<Counted, Error> {
        let last = match self.last.take() {
            Some(last) => last,
            None => self.read()?,
        };
        let (refused, user_only, mut child) = self.counters.into_parts();
        if let Some(child) = &mut child {
            // Its status and usage, if it has ended.
            child.try_wait().ok();
        }
        Ok(Counted { last, refused, user_only, child })
    }
}

/// The counts since others of the same counters; of none, since 0.
fn since(now: &[Count], before: &[Count]) -> Vec<Count> {
    let mut counts = now.to_vec();
    for (count, before) in counts.iter_mut().zip(before) {
        count.value = count.value.saturating_sub(before.value);
        count.enabled = count.enabled.saturating_sub(before.enabled);
        count.running = count.running.saturating_sub(before.running);
    }
    counts
}

/// Makes of the times the share of the hardware that each count had. The counter of a thread on one CPU is enabled
/// while the thread runs anywhere, and runs only there: all of the thread's together ran for the time of its share. What
/// the kernel counts is never left out.
fn settle_times(counts: &mut [Count], shares_hardware: &[bool], is_of_machine: bool) {
    let mut all: HashMap<(usize, Option<i32>), (u64, u64)> = HashMap::new();
    for count in counts.iter() {
        let (enabled, running) = all.entry((count.event, count.thread)).or_default();
        *enabled = count.enabled.max(*enabled);
        *running = running.saturating_add(count.running);
    }
    for count in counts {
        let is_shared = shares_hardware.get(count.event).copied().unwrap_or(true);
        let together = all.get(&(count.event, count.thread)).filter(|(_, running)| *running > 0);
        count.enabled = match together {
            _ if !is_shared => count.running.max(1),
            // Those of a CPU run for as long as they are enabled, but for the times of others.
            _ if is_of_machine => count.enabled,
            Some((enabled, running)) if enabled > running => {
                (count.running as f64 * (*enabled as f64 / *running as f64)) as u64
            }
            Some(_) => count.enabled.min(count.running.max(1)),
            None => count.enabled,
        };
        if !is_shared {
            count.running = count.enabled;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(event: usize, cpu: u32, value: u64, enabled: u64, running: u64) -> Count {
        Count { event, thread: None, cpu: Some(cpu), value, enabled, running }
    }

    #[test]
    fn a_thread_that_moves_has_its_whole_share_of_the_hardware() {
        // On each of two CPUs for a half of its time, and all of the time on the hardware.
        let mut counts = vec![count(0, 0, 5, 100, 50), count(0, 1, 7, 100, 50)];
        settle_times(&mut counts, &[true], false);
        assert!(counts.iter().all(|count| count.enabled == count.running), "{counts:?}");
        // On the hardware for a half of that.
        let mut counts = vec![count(0, 0, 5, 100, 25), count(0, 1, 7, 100, 25)];
        settle_times(&mut counts, &[true], false);
        assert!(counts.iter().all(|count| count.enabled == 2 * count.running), "{counts:?}");
        // What the kernel counts is exact.
        let mut counts = vec![count(0, 0, 5, 100, 25), count(0, 1, 7, 100, 0)];
        settle_times(&mut counts, &[false], false);
        assert!(counts.iter().all(|count| count.enabled == count.running), "{counts:?}");
        // Of two CPUs, each on the hardware for a half.
        let mut counts = vec![count(0, 0, 5, 100, 50), count(0, 1, 7, 100, 50)];
        settle_times(&mut counts, &[true], true);
        assert!(counts.iter().all(|count| count.enabled == 2 * count.running), "{counts:?}");
        // Never on the hardware.
        let mut counts = vec![count(0, 0, 0, 100, 0)];
        settle_times(&mut counts, &[true], false);
        assert_eq!((counts[0].enabled, counts[0].running), (100, 0));
    }

    #[test]
    fn intervals_are_differences() {
        let now = [count(0, 0, 15, 30, 30)];
        assert_eq!(since(&now, &[count(0, 0, 5, 10, 10)]), [count(0, 0, 10, 20, 20)]);
        assert_eq!(since(&now, &[]), now);
    }
}
