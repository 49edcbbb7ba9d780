//! A field of events over time, as points of a heat map.

use std::collections::BTreeMap;

use pyrograph_profile::{FieldValue, TraceEvent};

use crate::event_filter::{wants_event, wants_time};
use crate::filter::Filter;
use crate::pairing::EventName;

/// Maximum number of names of events that are kept for an error.
const MOST_NAMES: usize = 12;

/// The values of a field, which is a number.
#[derive(Debug)]
pub struct FieldPoints<'a> {
    field: &'a str,
    events: &'a [EventName],
    filter: &'a Filter,
    start: Option<u64>,
    /// Time of each value, in nanoseconds.
    pub times: Vec<u64>,
    /// The values.
    pub values: Vec<f64>,
    /// Number of values that are addresses: pointers, or numbers in hexadecimal.
    pub addresses: usize,
    /// Number of chosen events that have no such field, no number in it, or no time.
    pub without: u64,
    /// Number of values that the filter leaves out.
    pub unwanted: u64,
    /// Names of the events that have no such field, with their fields; at most a dozen.
    pub others: BTreeMap<String, Vec<String>>,
}

impl<'a> FieldPoints<'a> {
    /// Creates an instance without points. Without `events`, all that have the field are wanted. Of the filter, processes,
    /// threads, names, CPUs and times have an effect.
    pub fn new(field: &'a str, events: &'a [EventName], filter: &'a Filter) -> Self {
        Self {
            field,
            events,
            filter,
            start: None,
            times: Vec::new(),
            values: Vec::new(),
            addresses: 0,
            without: 0,
            unwanted: 0,
            others: BTreeMap::new(),
        }
    }

    /// Adds an event.
    pub fn add(&mut self, event: &TraceEvent<'_>) {
        self.start = self.start.or(event.time);
        let is_named = self.events.iter().any(|name| name.is(event.name));
        let value = event.field(self.field);
        if !(is_named || self.events.is_empty() && value.is_some()) {
            self.note(event);
            return;
        }
        let (Some(time), Some((number, is_address))) = (event.time, value.and_then(number)) else {
            self.without += 1;
            self.note(event);
            return;
        };
        if !wants_event(self.filter, event)
            || !wants_time(self.filter, time, self.start.unwrap_or(time))
        {
            self.unwanted += 1;
            return;
        }
        self.times.push(time);
        self.values.push(number);
        self.addresses += usize::from(is_address);
    }

    fn note(&mut self, event: &TraceEvent<'_>) {
        if self.others.len() < MOST_NAMES && !self.others.contains_key(event.name) {
            let fields = event.fields.iter().map(|field| field.name.to_owned()).collect();
            self.others.insert(event.name.to_owned(), fields);
        }
    }
}

/// A value as a number, and true if it is an address.
fn number(value: &FieldValue<'_>) -> Option<(f64, bool)> {
    let is_address = match value {
        FieldValue::Address(_) => true,
        FieldValue::Text(text) => text.starts_with("0x"),
        _ => false,
    };
    let number = match value {
        FieldValue::Text(text) if !is_address => {
            text.parse().ok().filter(|of: &f64| of.is_finite())
        }
        _ => value.as_i64().map(|of| of as f64).or_else(|| value.as_u64().map(|of| of as f64)),
    };
    number.map(|number| (number, is_address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pyrograph_profile::TraceField;

    #[test]
    fn values_of_a_field_are_points() {
        let filter = Filter { tids: vec![7], ..Filter::default() };
        let mut points = FieldPoints::new("len", &[], &filter);
        let mut add = |name, tid, time, field, value: FieldValue<'_>| {
            let fields = [TraceField { name: field, value }];
            points.add(&TraceEvent {
                name,
                time,
                cpu: None,
                pid: None,
                tid,
                comm: "",
                fields: &fields,
            });
        };
        add("a:b", Some(7), Some(5), "len", FieldValue::Unsigned(3));
        add("a:b", Some(7), Some(6), "len", FieldValue::Text("0x10".into()));
        add("a:b", Some(7), Some(7), "len", FieldValue::Text("-2.5".into()));
        add("a:b", Some(7), Some(8), "len", FieldValue::Text("\"long\"".into()));
        add("a:b", Some(7), None, "len", FieldValue::Unsigned(9));
        add("a:b", Some(8), Some(9), "len", FieldValue::Unsigned(1));
        add("a:c", Some(7), Some(9), "length", FieldValue::Unsigned(1));
        assert_eq!((points.times, points.values), (vec![5, 6, 7], vec![3.0, 16.0, -2.5]));
        assert_eq!((points.addresses, points.without, points.unwanted), (1, 2, 1));
        assert_eq!(points.others.get("a:c"), Some(&vec!["length".to_owned()]));
    }
}
