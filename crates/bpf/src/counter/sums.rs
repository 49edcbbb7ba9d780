//! Sums of values: which values are read, and what the programs have added up.

use std::collections::HashMap;

use libbpf_rs::{Link, Object};
use pyrograph_event::request::{Ends, Trigger};
use pyrograph_event::values::{EventValues, Sum};

use super::CountedEvent;
use super::layout::{self, UNREAD_KEY};
use crate::error::Error;
use crate::object::handle;
use crate::rows::all_rows;
use crate::trigger::{attach_calls, attach_places, attach_to_data};
use crate::values::{self, KeyText, Plans, places_of};

/// A sum of values, or a number of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSum {
    /// Index of the event.
    pub event: usize,
    /// Key of the sum.
    pub by: SumKey,
    /// Number of the range of values ([`Ranges::bounds`](pyrograph_event::values::Ranges::bounds)).
    pub range: u32,
    /// Number of events.
    pub events: u64,
    /// Sum of their values; of events without one their number.
    pub value: i64,
}

/// Keys of sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SumKey {
    /// The key of counts.
    Key(u64),
    /// A number.
    Number(u64),
    /// The beginning of a text, and the number of bytes of all that was read of it.
    Text(Vec<u8>, usize),
    /// The value could not be read.
    Unread,
}

/// Returns true for an event at a place whose values are counted.
pub fn is_place(event: &CountedEvent) -> bool {
    matches!(event, CountedEvent::Values { trigger, ends: None, .. } if !is_of_kernel(trigger))
}

/// Returns true for an event that is a tracepoint whose values are counted.
pub fn is_tracepoint(event: &CountedEvent) -> bool {
    matches!(event, CountedEvent::Values { trigger, ends: None, .. } if is_of_kernel(trigger))
}

/// Returns true for an event at the returns of functions whose values are of their calls, too.
pub fn is_of_call(event: &CountedEvent) -> bool {
    matches!(event, CountedEvent::Values { values, .. } if values.need_call())
}

/// Programs for the begin and the end of what is measured, each with true if it is needed.
pub fn programs_of_times(events: &[CountedEvent]) -> impl Iterator<Item = (&'static str, bool)> {
    let any = |is_it: fn(&Trigger, &Ends) -> bool| {
        events.iter().any(|event| match event {
            CountedEvent::Values { trigger, ends: Some(ends), .. } => is_it(trigger, ends),
            _ => false,
        })
    };
    [
        ("on_call_begins", any(|trigger, _| !is_of_kernel(trigger))),
        ("on_tracepoint_begins", any(|trigger, _| is_of_kernel(trigger))),
        ("on_call_ends", any(|_, ends| matches!(ends, Ends::Returns(_)))),
        (
            "on_place_ends",
            any(|_, ends| matches!(ends, Ends::Event(end, ..) if !is_of_kernel(end))),
        ),
        (
            "on_tracepoint_ends",
            any(|_, ends| matches!(ends, Ends::Event(end, ..) if is_of_kernel(end))),
        ),
    ]
    .into_iter()
}

fn is_of_kernel(trigger: &Trigger) -> bool {
    matches!(trigger, Trigger::Tracepoint { .. })
}

/// The parts of an event that have plans, each with its number of places: itself, and what ends it.
fn parts(event: &CountedEvent) -> impl Iterator<Item = (usize, &EventValues, Sum)> {
    let own = match event {
        CountedEvent::Values { trigger, values, sum, .. } => {
            Some((places_of(trigger), values, *sum))
        }
        _ => None,
    };
    let end = match event {
        CountedEvent::Values { ends: Some(ends), .. } => match &**ends {
            Ends::Event(trigger, values, sum) => Some((places_of(trigger), values, *sum)),
            Ends::Returns(_) => None,
        },
        _ => None,
    };
    own.into_iter().chain(end)
}

/// Number of rows of a map; `None` for maps that are for other events, and those that are large enough.
pub fn rows(map: &str, events: &[CountedEvent]) -> Option<usize> {
    let valued = || events.iter().flat_map(parts);
    let is_measured =
        |event: &CountedEvent| matches!(event, CountedEvent::Values { ends: Some(_), .. });
    match map {
        "probe_plans" => Some(valued().map(|(places, ..)| places).sum()),
        "patterns" => Some(values::patterns(valued().map(|(_, values, _)| values))),
        "sums" | "key_texts" | "values_here" if valued().next().is_none() => Some(1),
        "called" if !events.iter().any(is_of_call) => Some(1),
        "begun_calls" if !events.iter().any(is_measured) => Some(1),
        _ => None,
    }
}

/// Tells the programs which values they read and add up.
pub fn set_plans(object: &Object, events: &[CountedEvent]) -> Result<(), Error> {
    let mut plans = Plans::new(object)?;
    for (number, event) in (0u32..).zip(events) {
        for (places, values, sum) in parts(event) {
            plans.add(number, places, values, Some(sum))?;
        }
    }
    Ok(())
}

/// Attaches the programs, each with the row of its plan.
pub fn attach(
    object: &Object,
    events: &[CountedEvent],
    links: &mut Vec<Link>,
) -> Result<(), Error> {
    let mut first = 0u64;
    for event in events {
        let CountedEvent::Values { trigger, ends, values, .. } = event else { continue };
        let own = first;
        let end = own + places_of(trigger) as u64;
        first += parts(event).map(|(places, ..)| places as u64).sum::<u64>();
        // A call whose end is missed would be as long as the next one of its frame, so ends come first.
        let (on_place, on_tracepoint) = match ends.as_deref() {
            None => ("on_place_values", "on_tracepoint_values"),
            Some(Ends::Returns(returns)) => {
                attach_places(object, "on_call_ends", returns, |_| own, links)?;
                ("on_call_begins", "on_tracepoint_begins")
            }
            Some(Ends::Event(other, ..)) => {
                attach_at(object, ("on_place_ends", "on_tracepoint_ends"), other, end, links)?;
                ("on_call_begins", "on_tracepoint_begins")
            }
        };
        attach_calls(object, trigger, values, own, links)?;
        attach_at(object, (on_place, on_tracepoint), trigger, own, links)?;
    }
    Ok(())
}

/// Attaches one of two programs, for places or for tracepoints, with rows from `first` on.
fn attach_at(
    object: &Object,
    (on_place, on_tracepoint): (&'static str, &'static str),
    trigger: &Trigger,
    first: u64,
    links: &mut Vec<Link>,
) -> Result<(), Error> {
    match trigger {
        Trigger::Tracepoint { category, name } => {
            links.push(attach_to_data(object, on_tracepoint, category, name, first)?);
            Ok(())
        }
        place => attach_places(object, on_place, place, |index| first + index, links),
    }
}

/// Returns the sums so far.
pub fn read(object: &Object, events: &[CountedEvent]) -> Result<Vec<EventSum>, Error> {
    if !events.iter().any(|event| matches!(event, CountedEvent::Values { .. })) {
        return Ok(Vec::new());
    }
    let texts = all_rows(&handle(object, "key_texts")?, "key_texts")?;
    let texts: HashMap<u64, KeyText> = texts
        .into_iter()
        .map(|(key, text)| {
            (bytemuck::pod_read_unaligned(&key), bytemuck::pod_read_unaligned(&text))
        })
        .collect();
    let sum = |(key, sum): (Vec<u8>, Vec<u8>)| {
        let key: layout::SumKey = bytemuck::pod_read_unaligned(&key);
        let sum: layout::Sum = bytemuck::pod_read_unaligned(&sum);
        let event = usize::try_from(key.event & !UNREAD_KEY).ok()?;
        let CountedEvent::Values { values, sum: how, .. } = events.get(event)? else { return None };
        let is_text = how.by.is_some_and(|by| {
            values.reads.first().and_then(|reads| reads.get(by)).is_some_and(|of| of.is_text())
        });
        let by = match how.by {
            _ if key.event & UNREAD_KEY != 0 => SumKey::Unread,
            None => SumKey::Key(key.by),
            Some(_) if is_text => match texts.get(&key.by) {
                Some(text) => SumKey::Text(text.bytes().to_vec(), text.all as usize),
                None => SumKey::Unread,
            },
            Some(_) => SumKey::Number(key.by),
        };
        Some(EventSum { event, by, range: key.range, events: sum.events, value: sum.value })
    };
    let rows = all_rows(&handle(object, "sums")?, "sums")?;
    Ok(rows.into_iter().filter_map(sum).collect())
}
