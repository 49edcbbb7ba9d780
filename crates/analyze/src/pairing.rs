//! Pairs of events in traces: the events that begin and end an operation, and the fields that identify it.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use pyrograph_profile::TraceEvent;

use crate::event_filter::{wants_event, wants_time};
use crate::filter::Filter;
use crate::latency::{Latencies, Pairs};

/// Name of an event: `block:block_rq_issue`, `block_rq_issue`, or a prefix followed by `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventName(String);

impl FromStr for EventName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "" => Err("the name of an event is missing".to_owned()),
            name => Ok(Self(name.to_owned())),
        }
    }
}

impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl EventName {
    pub(crate) fn is(&self, name: &str) -> bool {
        let wanted = &self.0[..];
        let name = match name.split_once(':') {
            Some((_, name)) if !wanted.contains(':') => name,
            _ => name,
        };
        match wanted.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == wanted,
        }
    }

    /// Name without the group before the colon.
    fn short(&self) -> &str {
        self.0.split_once(':').map_or(&self.0[..], |(_, name)| name)
    }
}

/// A field of the key of a pair, by its name in begin events and in end events: `dev`, or `pid=next_pid`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyField {
    begin: String,
    end: String,
}

impl FromStr for KeyField {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (begin, end) = text.split_once('=').unwrap_or((text, text));
        if begin.trim().is_empty() || end.trim().is_empty() {
            return Err(format!("'{text}' names no field"));
        }
        Ok(Self { begin: begin.trim().to_owned(), end: end.trim().to_owned() })
    }
}

/// Rules for pairing events.
#[derive(Clone, Debug)]
pub struct Pairing {
    begin: Vec<EventName>,
    end: Vec<EventName>,
    key: Vec<KeyField>,
    /// Field of an end event that identifies a thread that is not waiting any more: see [`Pairing::new`].
    cancel: Option<&'static str>,
    /// Filter for latencies: see [`wants_event`].
    filter: Filter,
}

impl Pairing {
    /// Creates rules. If `key` is empty, the default for known events is used: device and sector for block I/O, the
    /// thread and number for system calls, and the thread that is woken and switched to. A thread that is switched
    /// from is cancelled, because it was not waiting: it may have been woken while it ran.
    pub fn new(begin: &[EventName], end: &[EventName], key: &[KeyField]) -> Self {
        let first = begin.first().map_or("", EventName::short);
        let switch = end.iter().any(|name| name.short() == "sched_switch");
        let default = |fields: &[&str]| -> Vec<KeyField> {
            fields.iter().filter_map(|field| field.parse().ok()).collect()
        };
        let key = match key {
            [] if first.starts_with("block_") => default(&["dev", "sector"]),
            [] if first == "sys_enter" => default(&["tid", "id"]),
            [] if switch => default(&["pid=next_pid"]),
            [] => default(&["tid"]),
            key => key.to_vec(),
        };
        let switched = key.len() == 1 && key[0].end == "next_pid";
        let cancel = (switch && switched).then_some("prev_pid");
        let filter = Filter::default();
        Self { begin: begin.to_vec(), end: end.to_vec(), key, cancel, filter }
    }

    /// Restricts the latencies to the processes, threads, names, CPUs and times of a filter; its other conditions
    /// have no effect.
    pub fn wanted(self, filter: Filter) -> Self {
        Self { filter, ..self }
    }

    /// Describes the rules: `block_rq_issue to block_rq_complete, by dev, sector`.
    pub fn describe(&self) -> String {
        let names = |names: &[EventName]| {
            names.iter().map(|name| &name.0[..]).collect::<Vec<_>>().join(", ")
        };
        let key = |field: &KeyField| match field.begin == field.end {
            true => field.begin.clone(),
            false => format!("{} = {}", field.begin, field.end),
        };
        let key = self.key.iter().map(key).collect::<Vec<_>>().join(", ");
        format!("{} to {}, by {key}", names(&self.begin), names(&self.end))
    }
}

/// Pairs the events of a trace.
#[derive(Debug)]
pub struct PairedEvents<'a> {
    pairing: &'a Pairing,
    pairs: Pairs,
    key: String,
    /// Time of the first event.
    start: Option<u64>,
    /// Number of begin events.
    pub begins: u64,
    /// Number of end events.
    pub ends: u64,
    /// Number of events without a time or without a field of the key.
    pub unusable: u64,
    /// Fields of the first of these.
    pub fields: Vec<String>,
    /// Names of other events, at most a dozen.
    pub others: BTreeSet<String>,
}

/// Maximum number of names of other events.
const OTHERS: usize = 12;

impl<'a> PairedEvents<'a> {
    /// Creates an instance without events.
    pub fn new(pairing: &'a Pairing) -> Self {
        Self {
            pairing,
            pairs: Pairs::default(),
            key: String::new(),
            start: None,
            begins: 0,
            ends: 0,
            unusable: 0,
            fields: Vec::new(),
            others: BTreeSet::new(),
        }
    }

    /// Adds an event.
    pub fn add(&mut self, event: &TraceEvent<'_>) {
        let pairing = self.pairing;
        self.start = self.start.or(event.time);
        let begins = pairing.begin.iter().any(|name| name.is(event.name));
        let ends = pairing.end.iter().any(|name| name.is(event.name));
        if !begins && !ends {
            if self.others.len() < OTHERS && !self.others.contains(event.name) {
                self.others.insert(event.name.to_owned());
            }
            return;
        }
        self.begins += u64::from(begins);
        self.ends += u64::from(ends);
        if let (Some(field), Some(_)) = (pairing.cancel, event.time)
            && ends
        {
            self.key.clear();
            if write_field(&mut self.key, event, field) {
                self.pairs.cancel(&self.key);
            }
        }
        // An event may both end one pair and begin the next.
        for (is, end) in [(ends, true), (begins, false)] {
            if !is {
                continue;
            }
            self.key.clear();
            let mut fields = pairing.key.iter().map(|key| if end { &key.end } else { &key.begin });
            let whole = fields.all(|field| write_field(&mut self.key, event, field));
            match (whole, event.time) {
                (true, Some(time)) if end => {
                    if wants_time(&pairing.filter, time, self.start.unwrap_or(time)) {
                        self.pairs.end(&self.key, time);
                    } else {
                        self.pairs.end_unwanted(&self.key);
                    }
                }
                // The begin decides, because the end may occur in another task: an I/O request may be completed in the idle
                // task.
                (true, Some(time)) if wants_event(&pairing.filter, event) => {
                    self.pairs.begin(&self.key, time);
                }
                (true, Some(time)) => self.pairs.begin_unwanted(&self.key, time),
                _ => {
                    if self.unusable == 0 {
                        self.fields = event.fields.iter().map(|of| of.name.to_owned()).collect();
                    }
                    self.unusable += 1;
                }
            }
        }
    }

    /// Returns the latencies of all pairs.
    pub fn finish(self) -> Latencies {
        self.pairs.finish()
    }
}

/// Appends the value of a field; returns false if the event does not have it. `tid`, `pid`, `cpu` and `comm` are
/// taken from the event itself if it has no field with that name.
fn write_field(key: &mut String, event: &TraceEvent<'_>, name: &str) -> bool {
    use std::fmt::Write;

    // A separator that no field contains.
    key.push('\n');
    let written = match (event.field(name), name) {
        (Some(value), _) => write!(key, "{value}"),
        (None, "tid") => return event.tid.is_some_and(|tid| write!(key, "{tid}").is_ok()),
        (None, "pid") => return event.pid.is_some_and(|pid| write!(key, "{pid}").is_ok()),
        (None, "cpu") => return event.cpu.is_some_and(|cpu| write!(key, "{cpu}").is_ok()),
        (None, "comm") => write!(key, "{}", event.comm),
        (None, _) => return false,
    };
    written.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_events() {
        let is = |wanted: &str, name| EventName(wanted.to_owned()).is(name);
        assert!(is("block:block_rq_issue", "block:block_rq_issue"));
        assert!(is("block_rq_issue", "block:block_rq_issue"));
        assert!(is("syscalls:sys_enter_*", "syscalls:sys_enter_read"));
        assert!(is("sys_enter_*", "syscalls:sys_enter_read"));
        assert!(!is("block:block_rq_issue", "other:block_rq_issue"));
        assert!(!is("block_rq", "block:block_rq_issue"));
    }

    #[test]
    fn keys_of_known_events() {
        let key = |begin: &str, end: &str| {
            let name = |text: &str| vec![EventName(text.to_owned())];
            let pairing = Pairing::new(&name(begin), &name(end), &[]);
            let fields = pairing.key.iter().map(|key| format!("{}={}", key.begin, key.end));
            (fields.collect::<Vec<_>>().join(","), pairing.cancel)
        };
        let block = key("block:block_rq_issue", "block:block_rq_complete");
        assert_eq!(block, ("dev=dev,sector=sector".to_owned(), None));
        let read = key("syscalls:sys_enter_read", "syscalls:sys_exit_read");
        assert_eq!(read, ("tid=tid".to_owned(), None));
        let raw = key("raw_syscalls:sys_enter", "raw_syscalls:sys_exit");
        assert_eq!(raw, ("tid=tid,id=id".to_owned(), None));
        let woken = key("sched:sched_wakeup", "sched:sched_switch");
        assert_eq!(woken, ("pid=next_pid".to_owned(), Some("prev_pid")));
    }
}
