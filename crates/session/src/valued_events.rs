//! Events that are counted, or whose stacks are recorded, by their values.

use pyrograph_event::request::{Ends, Trigger};
use pyrograph_event::values::{EventValues, Ranges, Sum};
use pyrograph_perf_data::Tracepoint;
use pyrograph_probe::Condition;
use pyrograph_record::{Event, TracepointFormat, tracepoint_formats};

use crate::error::{Error, PlaceError};
use crate::matching;
use crate::places;
use crate::source_places::PlaceWithValues;
use crate::values::{NamedValue, Resolved, Wanted, of_tracepoint, words};

/// How events are counted by their values: variables of places in programs, fields of tracepoints, `$comm`, `$pid`, `$tid`,
/// `$cpu`.
#[derive(Clone, Debug, Default)]
pub struct WantedValues {
    /// Value by which counts are kept apart: an expression, or the name that it has in the event's text.
    pub by: Option<String>,
    /// Value that is added up in place of counting events.
    pub value: Option<String>,
    /// Ranges of this value, in which events are counted.
    pub ranges: Ranges,
    /// Count only events for which this is true.
    pub filter: Option<Condition>,
    /// The value is the time until a function returns, in nanoseconds; with `key` the time from one event to another.
    pub latency: bool,
    /// Value that is the same where what the first event has begun ends with the second.
    pub key: Option<String>,
}

impl WantedValues {
    /// Returns true if no value is asked for.
    pub fn is_empty(&self) -> bool {
        self.by.is_none() && self.value.is_none() && self.filter.is_none() && !self.latency
    }
}

/// Events that are counted by their values.
#[derive(Clone, Debug, Default)]
pub struct ValuedEvents {
    events: Vec<Event>,
    pub(crate) sources: Vec<ValuedEvent>,
}

/// Where the values of an event come from.
#[derive(Clone, Debug)]
pub(crate) struct ValuedEvent {
    pub trigger: Trigger,
    /// What ends it, if the time until then is measured.
    #[cfg_attr(
        not(feature = "bpf"),
        expect(dead_code, reason = "programs in the kernel measure it")
    )]
    pub ends: Option<Ends>,
    pub values: EventValues,
    pub sum: Sum,
    /// The value by which counts are kept apart.
    pub key: Option<NamedValue>,
}

impl ValuedEvents {
    /// The events.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    fn add(&mut self, event: Event, place: PlaceWithValues, ranges: Ranges) {
        let PlaceWithValues { trigger, values: resolved, returns } = place;
        let Resolved { values, named, by, sum: value, frame } = resolved;
        let ranges = if value.is_some() || frame.is_some() { ranges } else { Ranges::None };
        self.sources.push(ValuedEvent {
            trigger,
            ends: returns.map(Ends::Returns),
            values,
            sum: Sum { by, value, ranges, frame, keyed: false },
            key: by.and_then(|by| named.into_iter().nth(by)),
        });
        self.events.push(event);
    }
}

/// Finds events with their values: `uprobe:FILE:FUNCTION[:LINE] [NAME=EXPRESSION]...`, `uretprobe:FILE:FUNCTION ...`, a tracepoint,
/// a pattern or a list of them. Each text is one `-e`.
///
/// # Errors
///
/// If there is no such event, or it has not the values.
pub fn valued_events(texts: &[String], wanted: &WantedValues) -> Result<ValuedEvents, Error> {
    if let Some(key) = &wanted.key {
        return from_one_to_another(texts, wanted, key);
    }
    let mut found = ValuedEvents::default();
    for text in texts {
        let mut words = words(text).into_iter();
        let name = words.next().unwrap_or_default();
        let shown: Vec<&str> = words.collect();
        let values = Wanted {
            shown: &shown,
            filter: wanted.filter.as_ref(),
            by: wanted.by.as_deref(),
            sum: wanted.value.as_deref(),
            frame: wanted.latency,
            key: None,
        };
        let names = matching::names(name)?;
        let places = names.iter().map(|name| Some((name, places::with_values(name, values)?)));
        if let Some(places) = places.collect::<Option<Vec<_>>>() {
            for (name, place) in places {
                let place = place?;
                found.add(Event::at_place(name, place.trigger.clone()), place, wanted.ranges);
            }
            continue;
        }
        for name in name.split(',').filter(|name| !name.is_empty()) {
            if wanted.latency {
                return Err(PlaceError::NoCall { place: name.to_owned() }.into());
            }
            if !name.contains(':') {
                return Err(PlaceError::NoValues { event: name.to_owned() }.into());
            }
            for of in tracepoint_formats(name)? {
                let place = with_fields(&of, values)?;
                let event = Event::parse(&format!("{}:{}", of.system, of.name))?;
                found.add(event, place, wanted.ranges);
            }
        }
    }
    Ok(found)
}

/// Finds two events of which the first begins what the second ends.
fn from_one_to_another(
    texts: &[String],
    wanted: &WantedValues,
    key: &str,
) -> Result<ValuedEvents, Error> {
    let both: Vec<&str> = match texts {
        [one] => one.split(',').collect(),
        more => more.iter().map(String::as_str).collect(),
    };
    let &[begin, end] = &both[..] else {
        return Err(PlaceError::NotTwoEvents { count: both.len() }.into());
    };
    let of_begin = Wanted {
        filter: wanted.filter.as_ref(),
        by: wanted.by.as_deref(),
        key: Some(key),
        ..Wanted::default()
    };
    let (first, begin) = place_of(begin, of_begin)?;
    let (second, end) = place_of(end, Wanted { key: Some(key), ..Wanted::default() })?;
    let ranges = wanted.ranges;
    let sum =
        |values: &Resolved| Sum { ranges, frame: values.frame, keyed: true, ..Sum::default() };
    let ends = Ends::Event(end.trigger, end.values.values.clone(), sum(&end.values));
    let PlaceWithValues { trigger, values, .. } = begin;
    let sum = Sum { by: values.by, ..sum(&values) };
    let event = Event::at_place(&format!("{first} to {second}"), trigger.clone());
    let key = values.by.and_then(|by| values.named.into_iter().nth(by));
    let source = ValuedEvent { trigger, ends: Some(ends), values: values.values, sum, key };
    Ok(ValuedEvents { events: vec![event], sources: vec![source] })
}

/// One event with the values that are wanted of it, those behind its name among them, and its name.
fn place_of<'a>(text: &'a str, wanted: Wanted<'_>) -> Result<(&'a str, PlaceWithValues), Error> {
    let mut words = words(text).into_iter();
    let name = words.next().unwrap_or_default();
    let shown: Vec<&str> = words.collect();
    let wanted = Wanted { shown: &shown, ..wanted };
    if let Some(place) = places::with_values(name, wanted) {
        return Ok((name, place?));
    }
    let no_values = || PlaceError::NoValues { event: name.to_owned() };
    if !name.contains(':') {
        return Err(no_values().into());
    }
    let [of] = &tracepoint_formats(name)?[..] else { return Err(no_values().into()) };
    Ok((name, with_fields(of, wanted)?))
}

/// A tracepoint with the values that are wanted of it.
fn with_fields(of: &TracepointFormat, wanted: Wanted<'_>) -> Result<PlaceWithValues, PlaceError> {
    let TracepointFormat { system, name, format } = of;
    let tracepoint = Tracepoint::parse(system, format, size_of::<usize>() as u8);
    let no_values = || PlaceError::NoValues { event: format!("{system}:{name}") };
    let values = of_tracepoint(&tracepoint.ok_or_else(no_values)?, wanted)?;
    let trigger = Trigger::Tracepoint { category: system.clone(), name: name.clone() };
    Ok(PlaceWithValues { trigger, values, returns: None })
}
