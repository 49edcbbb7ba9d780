//! Counting events of a target without stacks: values at intervals and at the end.

mod choice;
mod events;
#[cfg(feature = "bpf")]
mod in_kernel;
#[cfg(not(feature = "bpf"))]
#[path = "counting/no_kernel.rs"]
mod in_kernel;
pub(crate) mod readings;

use std::io;
use std::time::{Duration, Instant};

use pyrograph_profile::{CommandUsage, CountRun, CountValue, Counter, NotCounted, RangeCount};
use pyrograph_record::{Child, Count, Counters, Event, Refusal, Target, Unit};

pub use self::events::counted_events;

use self::choice::Choice;
use self::in_kernel::InKernel;
use self::readings::{Reading, add_missing, apart_since, settle_times, since};
use crate::error::Error;
use crate::keys::{KeyKind, Keys};
use crate::lifetime::Lifetime;
use crate::plan::Engine;
use crate::scope::Scope;
use crate::valued_events::ValuedEvents;

/// A plan of the events to count, and for how long.
#[derive(Clone, Debug)]
pub struct CountPlan {
    /// Target and duration.
    pub scope: Scope,
    /// Events in groups. The events of a group are on the hardware together, or none of them is.
    pub groups: Vec<Vec<Event>>,
    /// The same events, if they are counted by their values; empty if not.
    pub values: ValuedEvents,
    /// Count only on these CPUs. `None` for all. Only for the whole machine.
    pub cpus: Option<Vec<u32>>,
    /// Keys by which counts are kept apart. `None` to add up all counts.
    pub by: Option<KeyKind>,
    /// The engine that counts tracepoints. `None` for eBPF programs if they are permitted and count as
    /// `perf_event_open` does, else `perf_event_open`. All other events are counted by `perf_event_open`.
    pub engine: Option<Engine>,
    /// Time between two readings. `None` for one reading at the end.
    pub interval: Option<Duration>,
}

impl CountPlan {
    /// Events that suit most programs, for [`Event::parse_list`].
    pub const USUAL_EVENTS: &str = "task-clock,context-switches,cpu-migrations,page-faults,cycles,\
                                    instructions,branches,branch-misses";

    /// Returns a plan to count events of a scope or target, each in a group of its own, and to read them at the end.
    pub fn new(scope: impl Into<Scope>, events: impl IntoIterator<Item = Event>) -> Self {
        Self {
            scope: scope.into(),
            groups: events.into_iter().map(|event| vec![event]).collect(),
            values: ValuedEvents::default(),
            cpus: None,
            by: None,
            engine: None,
            interval: None,
        }
    }

    /// Title of the target: `'sleep 1'`, `process 12`, `CPU 0, 1`, `control group /batch`, `process 12, only processes
    /// and threads named bash`. Call it while the control group exists.
    pub fn title(&self) -> String {
        match self.scope.filters.words() {
            Some(words) if self.scope.is_machine() => words,
            Some(words) => format!("{}, only {words}", self.target()),
            None => self.target(),
        }
    }

    fn target(&self) -> String {
        let list = |numbers: Vec<String>| numbers.join(", ");
        match (&self.scope.target, &self.cpus) {
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

    /// Returns the counters, before it is known which of them can be counted.
    pub fn named_counters(&self) -> Vec<Counter> {
        self.events().map(|event| counter(event, false)).collect()
    }

    pub(crate) fn events(&self) -> impl Iterator<Item = &Event> {
        self.groups.iter().flatten()
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
/// use pyrograph_session::{CountPlan, Counting, Event, Target};
///
/// let command = Target::Command(vec!["true".into()]);
/// let plan = CountPlan::new(command, [Event::parse("task-clock")?]);
/// let mut counting = Counting::open(&plan)?;
/// while counting.step()?.is_some() {}
/// let counted = counting.finish()?;
/// for count in &counted.run.values {
///     println!("{} ns of CPU time", count.value);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Counting {
    counters: Counters,
    in_kernel: Option<InKernel>,
    choice: Choice,
    /// Indexes in the plan of the events that `counters` counts.
    indexes: Vec<usize>,
    events: Vec<Event>,
    keys: Keys,
    life: Lifetime,
    /// Counts at the start. Counters of processes count from when they are opened, so these are subtracted.
    before: Taken,
    /// For each counter, true if it is counted by hardware, which may have fewer counters than requested.
    shares_hardware: Vec<bool>,
    /// True if the counters are those of CPUs, for everything that runs there.
    is_of_machine: bool,
    /// True if eBPF programs keep the counters apart by what runs.
    is_by_who_runs: bool,
    /// Counts of the previous reading, as the kernel returned them.
    previous: Taken,
    interval: Option<Duration>,
    /// Number of completed intervals.
    intervals: u32,
    last: Option<CountRun>,
}

/// Counts at one time, as the kernel returned them.
#[derive(Debug, Default)]
struct Taken {
    counters: Vec<Count>,
    in_kernel: Vec<Reading>,
}

/// Time between two reads of counters that are kept apart by what runs. If the name or control group of a running
/// thread changes, its counts go to the new one from the next read on.
const SETTLE_EVERY: Duration = Duration::from_millis(100);

/// Result of counting.
#[derive(Debug)]
pub struct Counted {
    /// Counts of the whole time.
    pub run: CountRun,
    /// The counters.
    pub counters: Vec<Counter>,
    /// Events that are not counted.
    pub not_counted: Vec<NotCounted>,
    /// The command. Its exit status and usage are known if it has ended.
    pub child: Option<Child>,
    /// Gaps in the counts.
    pub gaps: CountGaps,
}

/// Events that are missing in the counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountGaps {
    /// Number of processes that the target had started, and that this user may not count.
    pub denied: usize,
    /// Number of events for which the kernel's tables had no room.
    pub lost: u64,
    /// For each event, the number of occurrences that were missed because the event was being counted on the same CPU,
    /// in whichever thread.
    pub missed: Vec<(String, u64)>,
    /// Number of events whose value could not be read, and that are not counted for this.
    pub unread: u64,
}

/// Counts of several runs.
#[derive(Debug, Default)]
pub struct CountedRuns {
    /// The counters.
    pub counters: Vec<Counter>,
    /// The runs.
    pub runs: Vec<CountRun>,
    /// Events that were not counted.
    pub not_counted: Vec<NotCounted>,
    /// Number of commands that ended with an error.
    pub failed: usize,
    /// Exit code of the last command.
    pub code: u8,
    /// Missing events of the last run.
    pub gaps: CountGaps,
}

impl CountedRuns {
    /// Adds a run, after waiting for its command.
    fn add(&mut self, counted: Counted, is_of_command: bool) -> io::Result<()> {
        let Counted { mut run, counters, not_counted, child, gaps } = counted;
        self.gaps = gaps;
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

/// Counts several plans by turns, so that other activity on the machine disturbs all of them alike. `count` runs one of
/// them, and returns `None` to end the rounds.
///
/// # Errors
///
/// Errors of `count`, or if a command cannot be waited for.
pub fn count_by_turns<const N: usize, E: From<io::Error>>(
    plans: [&CountPlan; N],
    rounds: u32,
    mut count: impl FnMut(&CountPlan) -> Result<Option<Counted>, E>,
) -> Result<[CountedRuns; N], E> {
    let mut all = [(); N].map(|()| CountedRuns::default());
    for _ in 0..rounds {
        for (plan, runs) in plans.into_iter().zip(&mut all) {
            let Some(counted) = count(plan)? else { return Ok(all) };
            runs.add(counted, plan.scope.is_command())?;
        }
    }
    Ok(all)
}

impl Counting {
    /// Opens the counters. The first [`Self::step`] starts them, and the command: handlers of signals that are installed in
    /// between are not the command's, which is forked here.
    ///
    /// # Errors
    ///
    /// As [`Counters::open`]. Also if the kernel rejects the eBPF programs, and these are
    /// needed to keep counts apart by what runs, or [`Engine::InKernel`] was requested.
    pub fn open(plan: &CountPlan) -> Result<Self, Error> {
        let life = Lifetime::open(&plan.scope)?;
        let command = life.target_command();
        let (mut in_kernel, choice) = in_kernel::open(plan)?;
        let options = choice.counters(plan, command);
        let counters = Counters::open(&options)?;
        if let Some(in_kernel) = &mut in_kernel {
            in_kernel.start(plan, command, &counters)?;
        }
        let counted_by = options.groups.iter().flatten();
        let shares_hardware =
            |event: &Event| !event.is_counted_by_kernel() && event.unit() == Unit::Count;
        Ok(Self {
            indexes: choice.indexes(),
            in_kernel,
            choice,
            events: plan.events().cloned().collect(),
            keys: Keys::new(plan.by),
            life,
            before: Taken::default(),
            shares_hardware: counted_by.map(shares_hardware).collect(),
            is_of_machine: plan.scope.is_machine(),
            is_by_who_runs: plan.is_by_who_runs(),
            previous: Taken::default(),
            interval: plan.interval,
            intervals: 0,
            last: None,
            counters,
        })
    }

    /// Starts the counters, and the command. The first [`Self::step`] does this if it was not done before.
    ///
    /// # Errors
    ///
    /// As [`Counters::start`].
    pub fn start(&mut self) -> Result<(), Error> {
        if self.life.has_started() {
            return Ok(());
        }
        self.counters.start()?;
        self.life.start();
        if !self.life.is_command() {
            (self.before, self.previous) = (self.take()?, self.take()?);
        }
        self.life.run_command()
    }

    /// Handle that ends the counting from any thread or signal handler.
    pub fn stopper(&self) -> pyrograph_record::Stopper {
        self.life.stopper()
    }

    /// Waits for the end of the next interval. Returns its counts, with the time since the start, or `None` when
    /// counting is over.
    ///
    /// # Errors
    ///
    /// If a counter cannot be read; the first call also as [`Counters::start`].
    pub fn step(&mut self) -> Result<Option<CountRun>, Error> {
        if self.life.has_ended() {
            return Ok(None);
        }
        self.start()?;
        self.intervals += 1;
        self.wait(self.interval.map(|every| self.life.started() + every * self.intervals))?;
        let [whole, interval] = self.read()?;
        self.last = Some(whole);
        // The rest of an interval is returned as a separate reading.
        Ok(self.interval.map(|_| interval))
    }

    /// Waits until the end of an interval, or of the recording.
    fn wait(&mut self, tick: Option<Instant>) -> Result<(), Error> {
        let in_kernel = self.in_kernel.as_ref().filter(|_| self.is_by_who_runs);
        let until = tick.into_iter().chain(self.life.deadline()).min();
        if let Some(in_kernel) = in_kernel {
            loop {
                let next = Instant::now() + SETTLE_EVERY;
                if until.is_some_and(|until| until <= next) {
                    break;
                }
                if self.life.wait(Some(next), None).is_some() {
                    return Ok(());
                }
                in_kernel.settle(&self.keys)?;
            }
        }
        self.life.wait(tick, None);
        Ok(())
    }

    /// Reads the counts from the kernel.
    fn take(&self) -> Result<Taken, Error> {
        let in_kernel = self.in_kernel.as_ref();
        let in_kernel = in_kernel.map(|in_kernel| in_kernel.read(&self.keys)).transpose()?;
        let counters = if self.is_by_who_runs { Vec::new() } else { self.counters.read()? };
        Ok(Taken { counters, in_kernel: in_kernel.unwrap_or_default() })
    }

    fn is_counted(&self, event: usize) -> bool {
        let counter = self.indexes.iter().position(|index| *index == event);
        counter.is_none_or(|counter| !self.counters.is_refused(counter))
    }

    /// Returns the counts between two times.
    fn between(&self, before: &Taken, now: &Taken) -> Vec<Reading> {
        let mut counts = since(&now.counters, &before.counters);
        settle_times(&mut counts, &self.shares_hardware, self.is_of_machine);
        let mut readings: Vec<Reading> = counts
            .iter()
            .filter_map(|count| Some(Reading::of_counter(count, *self.indexes.get(count.event)?)))
            .collect();
        if let Some(in_kernel) = &self.in_kernel {
            let mut apart = apart_since(&now.in_kernel, &before.in_kernel);
            add_missing(&mut apart, in_kernel.events().filter(|event| self.is_counted(*event)));
            readings.extend(apart);
        }
        readings
    }

    /// Reads the counts since the start, and the counts since the previous reading.
    fn read(&mut self) -> Result<[CountRun; 2], Error> {
        let elapsed = self.life.started().elapsed();
        let now = self.take()?;
        let runs = [&self.before, &self.previous].map(|before| {
            let value = |reading: &Reading| CountValue {
                key: self.keys.of(reading),
                counter: reading.event,
                value: reading.value,
                enabled: reading.enabled,
                running: reading.running,
            };
            let readings = self.between(before, &now);
            let in_kernel = self.in_kernel.as_ref();
            let ranges = readings.iter().filter_map(|reading| {
                let (first, last, is_time) = in_kernel?.range(reading)?;
                Some(RangeCount {
                    key: self.keys.of(reading),
                    counter: reading.event,
                    first,
                    last,
                    is_time,
                    count: reading.value.cast_unsigned(),
                })
            });
            CountRun {
                values: readings.iter().map(value).collect(),
                ranges: ranges.collect(),
                elapsed,
                usage: None,
            }
        });
        self.previous = now;
        Ok(runs)
    }

    /// Ends counting, and returns the result. If the command has ended, it is reaped.
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
        let gaps = self.gaps();
        let (mut refused, mut user_only) =
            (vec![None; self.events.len()], vec![false; self.events.len()]);
        let mut child = self.life.into_child();
        let (of_counters, user_only_counters) = self.counters.into_parts();
        for ((index, refusal), user) in self.indexes.iter().zip(of_counters).zip(user_only_counters)
        {
            (refused[*index], user_only[*index]) = (refusal, user);
        }
        for (index, refusal) in self.choice.refused {
            refused[index] = Some(refusal);
        }
        let counters = self.events.iter().zip(user_only).map(|(event, user)| counter(event, user));
        let counters = counters.collect();
        let not_counted = by_reason(&self.events, &refused);
        if let Some(child) = &mut child {
            // Gets its status and usage, if it has ended.
            child.try_wait().ok();
        }
        Ok(Counted { run, counters, not_counted, child, gaps })
    }

    fn gaps(&self) -> CountGaps {
        let in_kernel = self.in_kernel.as_ref();
        let name = |(event, missed): (usize, u64)| (self.events[event].name().to_owned(), missed);
        CountGaps {
            denied: self.counters.denied(),
            lost: in_kernel.map_or(0, InKernel::lost),
            unread: in_kernel.map_or(0, InKernel::unread),
            missed: in_kernel
                .map_or_else(Vec::new, InKernel::missed)
                .into_iter()
                .map(name)
                .collect(),
        }
    }
}

/// Returns the events that are not counted, grouped by reason.
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
