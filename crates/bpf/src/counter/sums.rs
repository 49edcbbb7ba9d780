//! Sums of values: which values are read, and what the programs have added up.

use std::collections::HashMap;

use libbpf_rs::{Link, Object};
use pyrograph_event::request::Trigger;

use super::CountedEvent;
use super::layout::{self, UNREAD_KEY};
use crate::error::Error;
use crate::object::handle;
use crate::rows::all_rows;
use crate::trigger::{attach_places, attach_to_data};
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

/// Returns true for an event at a place in a program.
pub fn is_place(event: &CountedEvent) -> bool {
    matches!(event, CountedEvent::Values { trigger, returns: None, .. } if !is_of_kernel(trigger))
}

/// Returns true for calls whose time is added up.
pub fn is_measured(event: &CountedEvent) -> bool {
    matches!(event, CountedEvent::Values { returns: Some(_), .. })
}

/// Returns true for an event that is a tracepoint.
pub fn is_tracepoint(event: &CountedEvent) -> bool {
    matches!(event, CountedEvent::Values { trigger, .. } if is_of_kernel(trigger))
}

fn is_of_kernel(trigger: &Trigger) -> bool {
    matches!(trigger, Trigger::Tracepoint { .. })
}

/// Number of rows of a map; `None` for maps that are for other events, and those that are large enough.
pub fn rows(map: &str, events: &[CountedEvent]) -> Option<usize> {
    let valued = || {
        events.iter().filter_map(|event| match event {
            CountedEvent::Values { trigger, values, .. } => Some((trigger, values)),
            _ => None,
        })
    };
    match map {
        "probe_plans" => Some(valued().map(|(trigger, _)| places_of(trigger)).sum()),
        "patterns" => Some(values::patterns(valued().map(|(_, values)| values))),
        "sums" | "key_texts" | "values_here" if valued().next().is_none() => Some(1),
        "begun_calls" if !events.iter().any(is_measured) => Some(1),
        _ => None,
    }
}

/// Tells the programs which values they read and add up.
pub fn set_plans(object: &Object, events: &[CountedEvent]) -> Result<(), Error> {
    let mut plans = Plans::new(object)?;
    for (number, event) in (0u32..).zip(events) {
        if let CountedEvent::Values { trigger, values, sum, .. } = event {
            plans.add(number, places_of(trigger), values, Some(*sum))?;
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
        let CountedEvent::Values { trigger, returns, .. } = event else { continue };
        match trigger {
            place if let Some(returns) = returns => {
                // A call whose end is missed would be as long as the next one of its frame, so ends come first.
                attach_places(object, "on_call_ends", returns, |_| first, links)?;
                attach_places(object, "on_call_begins", place, |index| first + index, links)?;
            }
            Trigger::Tracepoint { category, name } => {
                let name_of_program = "on_tracepoint_values";
                links.push(attach_to_data(object, name_of_program, category, name, first)?);
            }
            place => {
                attach_places(object, "on_place_values", place, |index| first + index, links)?;
            }
        }
        first += places_of(trigger) as u64;
    }
    Ok(())
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
