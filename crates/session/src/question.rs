//! Questions that a recording answers: CPU time, waits, system calls, memory, any event or place in a program.

use std::time::Duration;

use pyrograph_event::request::{Measure, Trigger, Waits};
use pyrograph_record::{Event, Target};

use crate::calls;
use crate::error::{Error, PlaceError};
use crate::goroutines;
use crate::malloc;
use crate::matching;
use crate::places;
use crate::valued_events::{ValuedEvent, WantedValues, valued_events};
use crate::values::NamedValue;

/// A question that a recording answers. The default is CPU time. What is recorded is chosen by a constructor, since events,
/// triggers and waits cannot be combined freely.
#[derive(Clone, Debug)]
pub struct Question {
    event: Option<Event>,
    trigger: Trigger,
    waits: Waits,
    /// Minimum duration of a wait that is counted.
    pub min_block: Duration,
    /// Leave out idle waits, in which a thread waits for work: waits for condition variables, and in system calls that
    /// wait for requests, events, signals and children.
    pub no_idle: bool,
    /// Take the stack of every event, even if there are very many.
    pub exact: bool,
    /// True if only the in-kernel engine can answer it.
    in_kernel_only: bool,
    /// Name and unit of the values, if they differ from the event's.
    shown: Option<(String, &'static str)>,
    /// Noun for a single event, as `sample` or `wait`.
    noun: &'static str,
    /// The value of an event by which stacks are kept apart.
    by: Option<NamedValue>,
    /// Name of the event, if the values of stacks are sums of one of its values.
    summed: Option<String>,
}

impl Default for Question {
    fn default() -> Self {
        Self {
            event: None,
            trigger: Trigger::PerfEvents,
            waits: Waits::None,
            min_block: Duration::from_micros(1),
            no_idle: false,
            exact: false,
            in_kernel_only: false,
            shown: None,
            noun: "sample",
            by: None,
            summed: None,
        }
    }
}

impl Question {
    /// The event, if one was given.
    pub fn event(&self) -> Option<&Event> {
        self.event.as_ref()
    }

    /// Trigger of the in-kernel engine: the cause for taking a stack.
    pub fn trigger(&self) -> &Trigger {
        &self.trigger
    }

    /// Waits that the in-kernel engine counts.
    pub fn waits(&self) -> Waits {
        self.waits
    }

    /// Returns true if perf events or a tracepoint are sampled, by a frequency or a period.
    pub fn is_sampled(&self) -> bool {
        let is_event = matches!(self.trigger, Trigger::PerfEvents | Trigger::Tracepoint { .. });
        is_event && self.waits == Waits::None
    }

    /// Returns true if the stacks of only some events are taken on a CPU that has very many of them, unless
    /// [`Self::exact`] is set.
    pub fn thins_stacks(&self) -> bool {
        !matches!(
            self.trigger,
            Trigger::PerfEvents
                | Trigger::BlockRequests { .. }
                | Trigger::Locks
                | Trigger::Goroutines { .. }
                | Trigger::Sockets
                | Trigger::None
        ) && self.by.is_none()
    }

    /// Question for the event with this name ([`Event::parse`]), or for a place in a program: `uprobe:FILE:FUNCTION`
    /// and `uretprobe:FILE:FUNCTION` for the calls and returns of a function, `uprobe:FILE:FUNCTION:LINE` for a line in
    /// it, `usdt:FILE:PROVIDER:NAME` for a static probe (USDT).
    ///
    /// # Errors
    ///
    /// If there is no such event, file, function or probe.
    pub fn of_event(named: &str) -> Result<Self, Error> {
        if let Some(found) = matching::expand(named) {
            let none = || PlaceError::NoMatch { pattern: named.to_owned() };
            let trigger = matching::joined(found?).ok_or_else(none)?;
            return Ok(Self::named(named, "count", "hit", trigger));
        }
        if let Some(place) = places::named(named) {
            return Ok(Self::named(named, "count", "hit", place?));
        }
        let event = Event::parse(named)?;
        let mut question = Self::default();
        if let Some((category, name)) =
            event.name().split_once(':').filter(|_| event.is_tracepoint())
        {
            question.shown = Some((event.name().to_owned(), "count"));
            question.trigger =
                Trigger::Tracepoint { category: category.to_owned(), name: name.to_owned() };
        }
        question.event = Some(event);
        Ok(question)
    }

    /// Question for an event by its values: stacks of those that pass the filter, each with the sum of one value, and kept
    /// apart by one, which is at the root. `named` is an event as for [`Self::of_event`], with `NAME=EXPRESSION` behind it for
    /// values that are to have a name.
    ///
    /// # Errors
    ///
    /// If there is no such event, it has not the values, or there are several.
    pub fn of_values(named: &str, wanted: &WantedValues) -> Result<Self, Error> {
        let found = valued_events(&[named.to_owned()], wanted)?;
        let names = || found.events().iter().map(|event| event.name().to_owned()).collect();
        let [source] = &found.sources[..] else {
            return Err(PlaceError::SeveralEvents { events: names() }.into());
        };
        let ValuedEvent { trigger, values, sum, key, .. } = source.clone();
        let event = named.split_ascii_whitespace().next().unwrap_or(named);
        let trigger = Trigger::Values { of: Box::new(trigger), values, sum };
        Ok(match &wanted.value {
            Some(value) => {
                let question = Self::named(&format!("{value} of {event}"), "count", "hit", trigger);
                Self { by: key, summed: Some(event.to_owned()), ..question }
            }
            None => Self { by: key, ..Self::named(event, "count", "hit", trigger) },
        })
    }

    /// Question for waits, measured from the moment a thread stops running until it runs again.
    pub fn waiting(waits: Waits) -> Self {
        let name = match waits {
            Waits::None | Waits::Alone => "off-cpu",
            Waits::Wakers => "wakeup",
            Waits::WithWakers => "off-wake",
        };
        Self { waits, ..Self::named(name, "ns", "wait", Trigger::None) }
    }

    /// Question for elapsed time: waits, and samples of the CPU clock for running threads.
    pub fn elapsed() -> Self {
        Self {
            waits: Waits::Alone,
            event: Some(Event::cpu_clock()),
            ..Self::named("wall", "ns", "sample", Trigger::PerfEvents)
        }
    }

    /// Question for memory allocations, in bytes that are requested from the target's C library or another allocator that
    /// it has. `live`: only memory that is not freed before the recording ends.
    ///
    /// # Errors
    ///
    /// If the C library cannot be found.
    pub fn allocations(target: &Target, live: bool) -> Result<Self, Error> {
        let name = if live { "live" } else { "alloc" };
        Ok(Self::named(name, "bytes", "allocation", malloc::trigger(target, live)?))
    }

    /// Question for waits for locks of the kernel and of programs, measured until the thread has acquired the lock.
    pub fn locks() -> Self {
        Self::named("locks", "ns", "wait", Trigger::Locks)
    }

    /// Question for waits of goroutines, measured from when one gives up its thread until a thread runs it again.
    ///
    /// # Errors
    ///
    /// If the target is not one program of Go 1.17 or newer.
    pub fn goroutines(target: &Target) -> Result<Self, Error> {
        Ok(Self::named("goroutines", "ns", "wait", goroutines::trigger(target)?))
    }

    /// Question for bytes that are sent and received through sockets.
    pub fn sockets() -> Self {
        Self::named("net", "bytes", "transfer", Trigger::Sockets)
    }

    /// Question for system calls that read and write files.
    pub fn file_io(measure: Measure) -> Self {
        let trigger = Trigger::Calls { numbers: calls::of_files(), measure, files: true };
        Self::named("file-io", unit(measure, "calls"), "system call", trigger)
    }

    /// Question for requests to block devices.
    pub fn block_io(measure: Measure) -> Self {
        let trigger = Trigger::BlockRequests { measure };
        Self::named("block-io", unit(measure, "requests"), "request", trigger)
    }

    /// Question for system calls by their names, separated by commas; all calls if the text is empty.
    ///
    /// # Errors
    ///
    /// If no system call has one of the names.
    pub fn system_calls(names: &str, measure: Measure) -> Result<Self, Error> {
        let trigger = Trigger::Calls { numbers: calls::numbers(names)?, measure, files: false };
        let mut question = Self::named("syscalls", unit(measure, "calls"), "system call", trigger);
        // If calls are only counted, `perf_event_open` can do it, too, but without the names of calls. It cannot
        // without root, which may not read the tracepoint's ID.
        if measure == Measure::Count
            && names.is_empty()
            && let Ok(event) = Event::parse("raw_syscalls:sys_enter")
        {
            question.in_kernel_only = false;
            question.event = Some(event);
        }
        Ok(question)
    }

    /// Question that only the in-kernel engine can answer.
    fn named(name: &str, unit: &'static str, noun: &'static str, trigger: Trigger) -> Self {
        let shown = Some((name.to_owned(), unit));
        Self { trigger, in_kernel_only: true, shown, noun, ..Self::default() }
    }

    /// Returns true if only the in-kernel engine can answer it.
    pub fn needs_in_kernel(&self) -> bool {
        self.in_kernel_only
    }

    /// The value of an event by which stacks are kept apart, if they are.
    #[cfg_attr(
        not(feature = "bpf"),
        expect(dead_code, reason = "programs in the kernel read values")
    )]
    pub(crate) fn by(&self) -> Option<&NamedValue> {
        self.by.as_ref()
    }

    /// Name of the event, if the values of stacks are sums of one of its values.
    pub fn summed(&self) -> Option<&str> {
        self.summed.as_deref()
    }

    /// Name of the values, if they are not of an event such as `cycles`: `off-cpu`, `sched:sched_switch`.
    pub fn own_name(&self) -> Option<&str> {
        self.shown.as_ref().map(|(name, _)| name.as_str())
    }

    /// Name of the values. `event` is the event that was opened.
    pub fn name<'a>(&'a self, event: &'a Event) -> &'a str {
        self.own_name().unwrap_or_else(|| event.name())
    }

    /// Unit of the values, if it differs from the event's.
    pub fn unit(&self) -> Option<&'static str> {
        self.shown.as_ref().map(|(_, unit)| *unit)
    }

    /// Noun for a single event: `sample`, `wait`, `system call`.
    pub fn noun(&self) -> &'static str {
        self.noun
    }
}

/// Unit of a measure. `things` is the unit of counts.
fn unit(measure: Measure, things: &'static str) -> &'static str {
    match measure {
        Measure::Count => things,
        Measure::Time => "ns",
        Measure::Bytes => "bytes",
    }
}
