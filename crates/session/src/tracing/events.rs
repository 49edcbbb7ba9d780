//! Events that are traced together with system calls.

use pyrograph_event::request::Trigger;
use pyrograph_event::traced::{DataPlace, EventSource};
use pyrograph_event::values::EventValues;
use pyrograph_perf_data::{LiveText, Tracepoint, TracepointField};
use pyrograph_probe::Condition;
use pyrograph_record::{TracepointFormat, tracepoint_formats};

use crate::error::{Error, PlaceError};
use crate::matching;
use crate::places;
use crate::source_places::PlaceWithValues;
use crate::values::{self, NamedValue, Resolved, Wanted, of_tracepoint};

/// An event that is traced together with system calls.
#[derive(Clone, Debug)]
pub struct TracedEvent {
    /// Name: `sched:sched_switch`.
    name: String,
    pub(super) source: EventSource,
    /// Layout of its data, if it is a tracepoint.
    tracepoint: Option<Tracepoint>,
    /// The values in its data, if it is a place in a program.
    values: Vec<NamedValue>,
}

impl TracedEvent {
    /// Name: `sched:sched_switch`, `uprobe:FILE:FUNCTION`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if another one is the same event, with the same values.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.name == other.name && self.source == other.source && self.values == other.values
    }

    /// Formats its data as text.
    pub(super) fn text(&self, data: &[u8], live: &mut LiveText) -> String {
        let mut text = String::new();
        match (&self.tracepoint, &self.source.trigger) {
            (None, _) if !self.values.is_empty() => values::text(&self.values, data, &mut text),
            (Some(tracepoint), _) => live.write(tracepoint, data, &mut text),
            (
                None,
                Trigger::Function { returns: true, .. }
                | Trigger::Places { returns: true, .. }
                | Trigger::KernelFunctions { returns: true, .. },
            ) => {
                let result = data.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
                text = format!("result={result:#x}");
            }
            _ => {}
        }
        text
    }
}

/// Returns true if a word names an event rather than a system call: `sched:sched_switch`.
pub fn names_event(word: &str) -> bool {
    word.contains(':') && !word.starts_with('!')
}

/// Parses the events in a word: a tracepoint, a pattern of tracepoints (`block:*`), or a place in a program with values.
/// `filter` leaves out events for which it is false.
pub(super) fn events_of(word: &str, filter: Option<&Condition>) -> Result<Vec<TracedEvent>, Error> {
    let mut words = values::words(word).into_iter();
    let name = words.next().unwrap_or(word);
    let mut shown: Vec<&str> = words.collect();
    if let Some(found) = matching::expand(name) {
        let (found, rest) = (found?, word.strip_prefix(name).unwrap_or_default());
        // Nothing more than their places is known of functions, if no values are wanted.
        if rest.trim().is_empty() && filter.is_none() && !name.starts_with("usdt:") {
            return Ok(found.into_iter().map(|of| at_place(&of.name, of.trigger)).collect());
        }
        let each = found.iter().map(|of| events_of(&format!("{}{rest}", of.name), filter));
        return Ok(each.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect());
    }
    if shown.is_empty() {
        // Those of a static probe need not be named.
        shown = places::arguments_of(name);
    }
    let wanted = Wanted { shown: &shown, filter, ..Wanted::default() };
    if !wanted.is_empty()
        && let Some(place) = places::with_values(name, wanted)
    {
        let PlaceWithValues { trigger, values, .. } = place?;
        let Resolved { values, mut named, .. } = values;
        named.truncate(values.shown);
        let plain = at_place(name, trigger);
        let source = EventSource { values, ..plain.source };
        return Ok(vec![TracedEvent { source, values: named, ..plain }]);
    }
    if let Some(place) = places::named(word) {
        if filter.is_some() {
            return Err(PlaceError::NoValues { event: word.to_owned() }.into());
        }
        return Ok(vec![at_place(word, place?)]);
    }
    let all = tracepoint_formats(word)?;
    // The eBPF programs take a lock for their ring buffer: waiting for it would cause the event again.
    if let Some(own) = all.iter().find(|it| it.system == "lock") {
        return Err(Error::OwnLocks { name: format!("{}:{}", own.system, own.name) });
    }
    all.iter().map(|of| traced_tracepoint(of, filter)).collect()
}

/// A place without values.
fn at_place(name: &str, trigger: Trigger) -> TracedEvent {
    let values = EventValues::default();
    let source = EventSource { trigger, size: 0, places: Vec::new(), values };
    TracedEvent { name: name.to_owned(), source, tracepoint: None, values: Vec::new() }
}

fn traced_tracepoint(
    of: &TracepointFormat,
    filter: Option<&Condition>,
) -> Result<TracedEvent, Error> {
    let tracepoint = Tracepoint::parse(&of.system, &of.format, size_of::<usize>() as u8);
    let fields = tracepoint.as_ref().map_or(&[][..], |tracepoint| &tracepoint.fields);
    let end = |field: &TracepointField| field.offset.saturating_add(field.size);
    let name = format!("{}:{}", of.system, of.name);
    let values = match (filter, &tracepoint) {
        (None, _) => EventValues::default(),
        (Some(_), None) => return Err(PlaceError::NoValues { event: name }.into()),
        (filter, Some(tracepoint)) => {
            of_tracepoint(tracepoint, Wanted { filter, ..Wanted::default() })?.values
        }
    };
    let source = EventSource {
        trigger: Trigger::Tracepoint { category: of.system.clone(), name: of.name.clone() },
        size: fields.iter().map(end).max().unwrap_or(0),
        places: fields.iter().filter_map(place).collect(),
        values,
    };
    Ok(TracedEvent { name, source, tracepoint, values: Vec::new() })
}

fn place(field: &TracepointField) -> Option<DataPlace> {
    let relative = field.kind.starts_with("__rel_loc ");
    let is_place = relative || field.kind.starts_with("__data_loc ");
    let offset = u16::try_from(field.offset).ok().filter(|_| is_place)?;
    Some(DataPlace { offset, relative })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: task_x\nID: 5\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:__data_loc char[] a;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:int b;\toffset:12;\tsize:4;\tsigned:1;\n\
        \tfield:__rel_loc u8[] c;\toffset:16;\tsize:4;\tsigned:0;\n\n\
        print fmt: \"%s %d\", __get_str(a), REC->b\n";

    #[test]
    fn data_reach_to_the_end_of_the_last_field() {
        let of = TracepointFormat {
            system: "task".to_owned(),
            name: "task_x".to_owned(),
            format: FORMAT.to_owned(),
        };
        let event = traced_tracepoint(&of, None).expect("it has no filter");
        let place = |offset, relative| DataPlace { offset, relative };
        assert_eq!((event.name(), event.source.size), ("task:task_x", 20));
        assert_eq!(event.source.places, [place(8, false), place(16, true)]);
        let mut data = vec![0; 8];
        data.extend([20, 0, 3, 0, 0xfb, 0xff, 0xff, 0xff, 0, 0, 0, 0, b'h', b'i', 0]);
        assert_eq!(event.text(&data, &mut LiveText::default()), "hi -5");
    }
}
