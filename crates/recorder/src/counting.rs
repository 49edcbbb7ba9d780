//! Counting events of a target, without stacks: values at intervals and at the end.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant};

use pyrograph_profile::{CommandUsage, CountRun, CountValue, Counter, NotCounted};
use pyrograph_record::{
    Child, Count, CounterOptions, Counters, Ended, Event, Refusal, Target, Unit, Waiting,
};

use crate::error::Error;
use crate::keys::{KeyKind, Keys};

/// A plan of what to count, and for how long.
#[derive(Clone, Debug)]
pub struct CountPlan {
    /// The counters and their target.
    pub counters: CounterOptions,
    /// Keys that keep counts apart; `None` to add all up. CPUs and groups of them need
    /// [`by_cpu`](CounterOptions::by_cpu), too.
    pub by: Option<KeyKind>,
    /// A command that runs beside the target, which is counted until this ends.
    pub beside: Option<Vec<OsString>>,
    /// The longest time to count.
    pub duration: Option<Duration>,
    /// The time between two readings; `None` for one at the end.
    pub interval: Option<Duration>,
}

impl CountPlan {
    /// Events that suit most programs, for [`Event::parse_list`].
    pub const USUAL_EVENTS: &str = "task-clock,context-switches,cpu-migrations,page-faults,cycles,\
                                    instructions,branches,branch-misses";

    /// The target in words: `'sleep 1'`, `process 12`, `CPU 0, 1`.
    pub fn title(&self) -> String {
        let list = |numbers: Vec<String>| numbers.join(", ");
        match (&self.counters.target, &self.counters.cpus) {
            (Target::Command(command), _) => {
                let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
                format!("'{}'", words.join(" "))
            }
            (Target::Processes(pids), _) => {
                format!("process {}", list(pids.iter().map(i32::to_string).collect()))
            }
            (Target::System, Some(cpus)) => {
                format!("CPU {}", list(cpus.iter().map(u32::to_string).collect()))
            }
            (Target::System, None) => "the machine".to_owned(),
        }
    }

    /// The counters, before it is known what can be counted.
    pub fn named_counters(&self) -> Vec<Counter> {
        self.events().map(|event| counter(event, false)).collect()
    }

    fn events(&self) -> impl Iterator<Item = &Event> {
        self.counters.groups.iter().flatten()
    }
}

fn counter(event: &Event, user_only: bool) -> Counter {
    let name = match event.modifiers_text() {
        text if text.is_empty() => event.name().to_owned(),
        text => format!("{}:{text}", event.name()),
    };
    Counter { name, is_time: event.unit() == Unit::Nanoseconds, user_only }
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
///     by: None,
///     beside: None,
///     duration: None,
///     interval: None,
/// };
/// let mut counting = Counting::open(&plan)?;
/// while counting.step()?.is_some() {}
/// let counted = counting.finish()?;
/// for count in &counted.run.values {
///     println!("{} ns of CPU time", count.value);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Counting {
    counters: Counters,
    events: Vec<Event>,
    keys: Keys,
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
    last: Option<CountRun>,
    has_ended: bool,
}

/// The result of counting.
#[derive(Debug)]
pub struct Counted {
    /// The counts of the whole time.
    pub run: CountRun,
    /// The counters.
    pub counters: Vec<Counter>,
    /// The events that are not counted.
    pub not_counted: Vec<NotCounted>,
    /// The command, whose exit status and usage are known if it has ended.
    pub child: Option<Child>,
}

/// The counts of several runs.
#[derive(Debug, Default)]
pub struct CountedRuns {
    /// The counters.
    pub counters: Vec<Counter>,
    /// The runs.
    pub runs: Vec<CountRun>,
    /// The events that were not counted.
    pub not_counted: Vec<NotCounted>,
    /// How many commands ended with an error.
    pub failed: usize,
    /// The exit code of the last command.
    pub code: u8,
}

impl CountedRuns {
    /// Adds a run. Its command is waited for.
    fn add(&mut self, counted: Counted, is_of_command: bool) -> io::Result<()> {
        let Counted { mut run, counters, not_counted, child } = counted;
        if let Some(mut child) = child {
            self.code = child.exit_code()?;
            self.failed += usize::from(self.code != 0);
            run.usage = child.usage().filter(|_| is_of_command).map(|usage| CommandUsage {
                user: usage.user,
                system: usage.system,
                peak_memory: usage.peak_memory,
            });
        }
        self.runs.push(run);
        (self.counters, self.not_counted) = (counters, not_counted);
        Ok(())
    }
}

/// Counts several plans by turns, so that what else runs disturbs all alike. `count` does one of them, and returns
/// `None` when there is to be no more.
///
/// # Errors
///
/// Those of `count`, or if a command cannot be waited for.
pub fn count_by_turns<const N: usize, E: From<io::Error>>(
    plans: [&CountPlan; N],
    rounds: u32,
    mut count: impl FnMut(&CountPlan) -> Result<Option<Counted>, E>,
) -> Result<[CountedRuns; N], E> {
    let mut all = [(); N].map(|()| CountedRuns::default());
    for _ in 0..rounds {
        for (plan, runs) in plans.into_iter().zip(&mut all) {
            let Some(counted) = count(plan)? else { return Ok(all) };
            runs.add(counted, matches!(plan.counters.target, Target::Command(_)))?;
        }
    }
    Ok(all)
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
        let shares_hardware =
            |event: &Event| !event.is_counted_by_kernel() && event.unit() == Unit::Count;
        let shares_hardware = plan.events().map(shares_hardware).collect();
        let previous = before.clone();
        let until = plan.duration.map(|duration| start + duration);
        let interval = plan.interval;
        let (intervals, last, has_ended) = (0, None, false);
        Ok(Self {
            counters,
            events: plan.events().cloned().collect(),
            keys: Keys::new(plan.by),
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

    /// Waits for the next interval, of which it returns the counts, with the time since the start; `None` when
    /// counting is over.
    ///
    /// # Errors
    ///
    /// If a counter cannot be read.
    pub fn step(&mut self) -> Result<Option<CountRun>, Error> {
        if self.has_ended {
            return Ok(None);
        }
        let tick = self.interval.map(|interval| self.start + interval * (self.intervals + 1));
        let until = [tick, self.until].into_iter().flatten().min();
        let ended: Option<Ended> = self.counters.wait(until);
        self.intervals += 1;
        let [whole, interval] = self.read()?;
        self.has_ended = ended.is_some() || self.until.is_some_and(|until| until <= Instant::now());
        self.last = Some(whole);
        // The rest of an interval is a reading of its own.
        Ok(self.interval.map(|_| interval))
    }

    /// The counts since the start, and those since the reading before.
    fn read(&mut self) -> Result<[CountRun; 2], Error> {
        let elapsed = self.start.elapsed();
        let now = self.counters.read()?;
        let runs = [&self.before, &self.previous].map(|before| {
            let mut counts = since(&now, before);
            settle_times(&mut counts, &self.shares_hardware, self.is_of_machine);
            let value = |count: &Count| CountValue {
                key: self.keys.of(count),
                counter: count.event,
                value: count.value,
                enabled: count.enabled,
                running: count.running,
            };
            CountRun { values: counts.iter().map(value).collect(), elapsed, usage: None }
        });
        self.previous = now;
        Ok(runs)
    }

    /// Ends counting. A command that has ended is waited for.
    ///
    /// # Errors
    ///
    /// If a counter cannot be read.
    pub fn finish(mut self) -> Result<Counted, Error> {
        let run = match self.last.take() {
            Some(last) => last,
            None => {
                let [whole, _] = self.read()?;
                whole
            }
        };
        let (refused, user_only, mut child) = self.counters.into_parts();
        let counters = self.events.iter().zip(user_only).map(|(event, user)| counter(event, user));
        let counters = counters.collect();
        let not_counted = by_reason(&self.events, &refused);
        if let Some(child) = &mut child {
            // Its status and usage, if it has ended.
            child.try_wait().ok();
        }
        Ok(Counted { run, counters, not_counted, child })
    }
}

/// The events that are not counted, those with one reason together.
fn by_reason(events: &[Event], refused: &[Option<Refusal>]) -> Vec<NotCounted> {
    let mut reasons: Vec<NotCounted> = Vec::new();
    for (event, refusal) in events.iter().zip(refused) {
        let Some(reason) = refusal.as_ref().map(Refusal::to_string) else { continue };
        let name = event.name().to_owned();
        match reasons.iter_mut().find(|known| known.reason == reason) {
            Some(known) => known.names.push(name),
            None => reasons.push(NotCounted { names: vec![name], reason }),
        }
    }
    reasons
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
        // Counts of the kernel are exact.
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
