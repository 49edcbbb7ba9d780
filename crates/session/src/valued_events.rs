//! Events that are counted, or whose stacks are recorded, by their values.

use pyrograph_event::request::Trigger;
use pyrograph_event::values::{EventValues, Ranges, Sum};
use pyrograph_perf_data::Tracepoint;
use pyrograph_probe::Condition;
use pyrograph_record::{Event, tracepoint_formats};

use crate::error::{Error, PlaceError};
use crate::matching;
use crate::places;
use crate::source_places::PlaceWithValues;
use crate::values::{NamedValue, Resolved, Wanted, of_tracepoint};

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
    /// The value is the time until a function returns, in nanoseconds.
    pub latency: bool,
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
    /// Where what has begun there ends, if its time is measured.
    #[cfg_attr(
        not(feature = "bpf"),
        expect(dead_code, reason = "programs in the kernel measure it")
    )]
    pub returns: Option<Trigger>,
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
            returns,
            values,
            sum: Sum { by, value, ranges, frame },
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
    let mut found = ValuedEvents::default();
    for text in texts {
        let mut words = text.split_ascii_whitespace();
        let name = words.next().unwrap_or_default();
        let shown: Vec<&str> = words.collect();
        let values = Wanted {
            shown: &shown,
            filter: wanted.filter.as_ref(),
            by: wanted.by.as_deref(),
            sum: wanted.value.as_deref(),
            frame: wanted.latency,
        };
        let names = matching::expand(name).unwrap_or_else(|| Ok(vec![name.to_owned()]))?;
        let places = names.iter().map(|name| Some((name, places::with_values(name, values)?)));
        if let Some(places) = places.collect::<Option<Vec<_>>>() {
            for (name, place) in places {
                let place = place?;
                let shown = if wanted.latency { format!("{name} (ns)") } else { name.to_owned() };
                found.add(Event::at_place(&shown, place.trigger.clone()), place, wanted.ranges);
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
                let name = format!("{}:{}", of.system, of.name);
                let tracepoint =
                    Tracepoint::parse(&of.system, &of.format, size_of::<usize>() as u8);
                let Some(tracepoint) = tracepoint else {
                    return Err(PlaceError::NoValues { event: name }.into());
                };
                let resolved = of_tracepoint(&tracepoint, values)?;
                let trigger = Trigger::Tracepoint { category: of.system, name: of.name };
                let place = PlaceWithValues { trigger, values: resolved, returns: None };
                found.add(Event::parse(&name)?, place, wanted.ranges);
            }
        }
    }
    Ok(found)
}
