//! Counts by eBPF programs.

use pyrograph_bpf::{
    CountKey, CountedEvent, EventCount, EventCounter, EventOptions, EventSum, SumKey,
};
use pyrograph_event::values::{Ranges, Sum};
use pyrograph_probe::Shape;
use pyrograph_record::{Counters, Unit, online_cpus};

use super::CountPlan;
use super::choice::{Choice, InKernelEvent};
use super::readings::{Of, Reading, signed, together};
use crate::engine_error::EngineError;
use crate::error::Error;
use crate::keys::{KeyKind, Keys};
use crate::plan::Engine;
use crate::valued_events::ValuedEvent;
use crate::values::value_text;

/// The eBPF programs that count some of the events, or keep the counts of `perf_event_open` apart.
pub(super) struct InKernel {
    counter: EventCounter,
    /// Indexes in the plan of the events that it counts.
    events: Vec<usize>,
    key: CountKey,
    /// CPUs to count.
    cpus: Vec<u32>,
    by_cpu: bool,
    /// True if all events on the machine are counted into one sum. Then the missed events can be added to it.
    all_together: bool,
    /// Threads by which counts are kept apart.
    roots: Vec<i32>,
    /// Sums of the events that are counted by their values, and shapes of their keys.
    sums: Vec<(Sum, Option<Shape>)>,
}

fn key_of(plan: &CountPlan) -> CountKey {
    match plan.by {
        Some(KeyKind::Group) => CountKey::Group,
        Some(KeyKind::Thread) if plan.is_by_who_runs() => CountKey::Thread,
        Some(KeyKind::Process) if plan.is_by_who_runs() => CountKey::Process,
        Some(KeyKind::Thread | KeyKind::Process) => CountKey::Root,
        Some(_) => CountKey::Cpu,
        None => CountKey::None,
    }
}

/// Selects the engine for each event, and loads programs for those that programs can count.
pub(super) fn open(plan: &CountPlan) -> Result<(Option<InKernel>, Choice), Error> {
    let by_who_runs = plan.is_by_who_runs();
    let mut choice = Choice::of(plan, &[], EventCounter::MOST_COUNTERS);
    if by_who_runs && plan.engine == Some(Engine::Perf) {
        return Err(Error::NeedsInKernel);
    }
    if !by_who_runs && choice.in_kernel.is_empty() {
        return Ok((None, choice));
    }
    let sources = &plan.values.sources;
    let has_places = plan.events().any(|event| event.place().is_some()) || !sources.is_empty();
    let by_perf = || Choice::of(plan, &(0..plan.events().count()).collect::<Vec<_>>(), 0);
    loop {
        let (counter, refused) = match load(plan, &choice) {
            Ok(loaded) => loaded,
            Err(_) if !by_who_runs && plan.engine.is_none() && !has_places => {
                return Ok((None, by_perf()));
            }
            Err(error) => return Err(EngineError::from(error).into()),
        };
        if refused.is_empty() {
            let counted = choice.in_kernel.iter().map(|(index, _)| *index);
            let kept_apart = if by_who_runs { choice.indexes() } else { Vec::new() };
            let opened = InKernel {
                counter,
                events: counted.chain(kept_apart).collect(),
                key: key_of(plan),
                cpus: plan.cpus.clone().map_or_else(online_cpus, Ok)?,
                by_cpu: plan.is_by_cpu(),
                all_together: plan.is_of_all_together(),
                roots: Vec::new(),
                sums: sources.iter().map(|of| (of.sum, shape_of(of))).collect(),
            };
            return Ok((Some(opened), choice));
        }
        let refused: Vec<usize> = refused.iter().map(|index| choice.in_kernel[*index].0).collect();
        choice = Choice::of(plan, &refused, EventCounter::MOST_COUNTERS);
    }
}

/// How the value is shown by which the counts of an event are kept apart.
fn shape_of(event: &ValuedEvent) -> Option<Shape> {
    event.key.as_ref().map(|key| key.shape.clone())
}

fn load(
    plan: &CountPlan,
    choice: &Choice,
) -> Result<(EventCounter, Vec<usize>), pyrograph_bpf::Error> {
    let event = |event: &InKernelEvent| match event {
        InKernelEvent::Call(number) => CountedEvent::Call(*number),
        InKernelEvent::Return(number) => CountedEvent::Return(*number),
        InKernelEvent::Tracepoint(name) => CountedEvent::Tracepoint(name.clone()),
        InKernelEvent::Place(place) => CountedEvent::Place(place.clone()),
        InKernelEvent::Values(index) => {
            let ValuedEvent { trigger, ends, values, sum, .. } = &plan.values.sources[*index];
            let (trigger, ends) = (trigger.clone(), ends.clone().map(Box::new));
            CountedEvent::Values { trigger, ends, values: values.clone(), sum: *sum }
        }
    };
    let is_time = |(_, event): &(usize, pyrograph_record::Event)| event.unit() == Unit::Nanoseconds;
    let counters = choice.by_perf.iter().flatten().map(is_time);
    let mut counter = EventCounter::load(EventOptions {
        scope: plan.scope.in_kernel(),
        key: key_of(plan),
        events: choice.in_kernel.iter().map(|(_, of)| event(of)).collect(),
        counters: if plan.is_by_who_runs() { counters.collect() } else { Vec::new() },
    })?;
    let refused = counter.attach()?;
    Ok((counter, refused))
}

impl InKernel {
    /// Gives the programs the target and the counters of CPUs, and starts counting. `command` is the process of the
    /// command that is the target.
    pub fn start(
        &mut self,
        plan: &CountPlan,
        command: Option<i32>,
        counters: &Counters,
    ) -> Result<(), Error> {
        if plan.is_by_who_runs() {
            for (index, cpu, fd) in counters.on_cpus() {
                self.counter.add_counter(index, cpu, fd)?;
            }
        }
        if let Some(command) = command {
            self.counter.expect_command(command);
        }
        plan.scope.add_threads(|threads| {
            let first = u32::try_from(self.roots.len()).unwrap_or(u32::MAX);
            let rows: Vec<(i32, u32)> = threads.iter().copied().zip(first..).collect();
            self.roots.extend(threads);
            self.counter.add_threads(&rows)
        })?;
        Ok(self.counter.start()?)
    }

    /// Returns the indexes in the plan of the events that it counts.
    pub fn events(&self) -> impl Iterator<Item = usize> {
        self.events.iter().copied()
    }

    /// Adds the counts of CPUs until now to what runs there now.
    pub fn settle(&self, keys: &Keys) -> Result<(), Error> {
        self.counter.settle()?;
        if self.key == CountKey::Group {
            // The control group may have been removed at the end.
            self.counter.names()?.keys().for_each(|id| keys.find_group(*id));
        }
        Ok(())
    }

    /// Reads the counts until now.
    pub fn read(&self, keys: &Keys) -> Result<Vec<Reading>, Error> {
        let counts = self.counter.read()?;
        if matches!(self.key, CountKey::Thread | CountKey::Process) {
            for (key, name) in self.counter.names()? {
                keys.set_name(key, &String::from_utf8_lossy(&name));
            }
        }
        let sums = self.counter.sums()?;
        let sums: Vec<Reading> = sums.iter().filter_map(|sum| self.of_sum(sum, keys)).collect();
        let missed = if self.all_together { self.all_missed() } else { Vec::new() };
        let missed =
            missed.into_iter().map(|(event, hits)| Reading::exact(event, Of::All, None, hits));
        let counts = counts.iter().filter_map(|count| self.reading(count));
        Ok(together(counts.chain(missed).chain(sums)))
    }

    fn of_sum(&self, sum: &EventSum, keys: &Keys) -> Option<Reading> {
        let event = *self.events.get(sum.event)?;
        let (of, shape) = self.sums.get(event)?;
        let text = |number| shape.as_ref().map(|shape| value_text(shape, number, &[], 0));
        let named = |text: String| Of::Value(keys.number_of(text));
        let (of_key, cpu) = match &sum.by {
            SumKey::Key(key) => self.owner(*key, None)?,
            SumKey::Number(number) => (named(text(*number)?), None),
            SumKey::Text(bytes, all) => {
                let shape = shape.as_ref()?;
                (named(value_text(shape, 0, bytes, *all)), None)
            }
            SumKey::Unread => (named("?".to_owned()), None),
        };
        let value = if of.ranges == Ranges::None { sum.value } else { signed(sum.events) };
        Some(Reading { event, of: of_key, cpu, range: sum.range, value, enabled: 1, running: 1 })
    }

    /// The bounds of a reading's range of values, and true if these are times in nanoseconds; `None` if it has none.
    pub fn range(&self, reading: &Reading) -> Option<(i64, i64, bool)> {
        let (sum, _) = self.sums.get(reading.event)?;
        let has_ranges = sum.ranges != Ranges::None && reading.value != 0;
        has_ranges.then(|| {
            let (first, last) = sum.ranges.bounds(reading.range);
            (first, last, sum.frame.is_some())
        })
    }

    /// Owner and CPU of a count by its key; `None` if it is on a CPU that is not counted.
    fn owner(&self, key: u64, cpu: Option<u32>) -> Option<(Of, Option<u32>)> {
        let number = || u32::try_from(key).unwrap_or(u32::MAX);
        let cpu = if self.key == CountKey::Cpu { cpu.or(Some(number())) } else { cpu };
        if cpu.is_some_and(|cpu| !self.cpus.contains(&cpu)) {
            return None;
        }
        let of = match self.key {
            CountKey::None | CountKey::Cpu => Of::All,
            CountKey::Thread => Of::Thread(number().cast_signed()),
            CountKey::Process => Of::Process(number().cast_signed()),
            CountKey::Group => Of::Group(key),
            CountKey::Root => Of::Thread(*self.roots.get(number() as usize)?),
        };
        Some((of, cpu.filter(|_| self.by_cpu)))
    }

    fn reading(&self, count: &EventCount) -> Option<Reading> {
        let (of, cpu) = self.owner(count.key, count.cpu)?;
        let event = *self.events.get(count.event)?;
        let EventCount { value, enabled, running, .. } = *count;
        Some(match enabled {
            0 => Reading::exact(event, of, cpu, value),
            _ => Reading { event, of, cpu, range: 0, value: signed(value), enabled, running },
        })
    }

    /// Number of events for which there was no room.
    pub fn lost(&self) -> u64 {
        self.counter.lost()
    }

    /// Number of events whose value could not be read.
    pub fn unread(&self) -> u64 {
        self.counter.unread()
    }

    /// Returns, for each event, the number of occurrences that its count lacks because they came while another was
    /// being counted.
    pub fn missed(&self) -> Vec<(usize, u64)> {
        if self.all_together { Vec::new() } else { self.all_missed() }
    }

    fn all_missed(&self) -> Vec<(usize, u64)> {
        let missed = self.counter.missed().into_iter();
        missed.filter_map(|(event, missed)| Some((*self.events.get(event)?, missed))).collect()
    }
}
