//! Iterates over the samples of a recording, with the fields of tracepoints.

use pyrograph_event::{Record, Sample, type_id};

use crate::events::Event;
use crate::lost::Losses;
use crate::names::Names;
use crate::recording::{Place, Recording};
use crate::tracepoint::Tracepoint;
use crate::tracing;
use pyrograph_profile::{TraceEvent, TraceField};

/// Counts of records that were not read as events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// Number of samples that were lost while recording.
    pub lost: u64,
    /// Number of records that are damaged.
    pub unreadable: u64,
}

impl Recording {
    /// Calls `on_event` for each sample of all events, in order of time.
    pub fn each_sample(&self, on_event: &mut dyn FnMut(&TraceEvent<'_>)) -> Unread {
        events(self, on_event)
    }
}

fn events(recording: &Recording, on_event: &mut dyn FnMut(&TraceEvent<'_>)) -> Unread {
    let tracepoints = tracing::parse(&recording.tracing_data, recording.order());
    let events = recording.events.list.iter();
    let of_event: Vec<_> = events.map(|event| tracepoint_of(event, &tracepoints)).collect();
    let mut names = Names::default();
    let (mut losses, mut unreadable) = (Losses::default(), 0);
    for &(_, place) in &recording.index {
        let place = Place::from_number(place);
        let event = &recording.events.list[place.event()];
        let bytes = recording.record_at(place);
        match event.layout.decode(bytes) {
            Ok(Record::Sample(sample)) => {
                let tracepoint = of_event[place.event()];
                let fields = tracepoint.zip(sample.raw).map(|(tracepoint, raw)| {
                    let values = tracepoint.values(raw, recording.order());
                    values.map(|(name, value)| TraceField { name, value }).collect::<Vec<_>>()
                });
                let comm = names.of(sample.id.pid, sample.id.tid);
                on_event(&trace_event(&event.name, &sample, comm, &fields.unwrap_or_default()));
            }
            Ok(record) if losses.add(event, &record, recording.misc(bytes)) => {}
            Ok(record) => names.follow(&record),
            Err(_) => unreadable += 1,
        }
    }
    Unread { lost: losses.total(), unreadable }
}

/// The tracepoint of an event, if it is one.
pub(crate) fn tracepoint_of<'a>(event: &Event, all: &'a [Tracepoint]) -> Option<&'a Tracepoint> {
    let is_it = |tracepoint: &&Tracepoint| tracepoint.id == event.attr.config;
    (event.attr.type_ == type_id::TRACEPOINT).then(|| all.iter().find(is_it)).flatten()
}

fn trace_event<'a>(
    name: &'a str,
    sample: &Sample<'a>,
    comm: &'a str,
    fields: &'a [TraceField<'a>],
) -> TraceEvent<'a> {
    let id = &sample.id;
    TraceEvent { name, time: id.time, cpu: id.cpu, pid: id.pid, tid: id.tid, comm, fields }
}
