//! A field of tracepoints, by which samples are told apart.

use pyrograph_event::Record;

use crate::recording::{Place, Recording};
use crate::trace_events::tracepoint_of;
use crate::tracepoint::Tracepoint;
use crate::tracing;

/// A field, and which events have it.
pub struct FieldOfEvents<'a> {
    recording: &'a Recording,
    name: &'a str,
    /// For each event of the recording, its tracepoint if that has the field.
    of_event: Vec<Option<Tracepoint>>,
}

impl<'a> FieldOfEvents<'a> {
    /// Finds the field in the tracepoints of a recording.
    pub fn new(recording: &'a Recording, name: &'a str) -> Self {
        let tracepoints = tracing::parse(&recording.tracing_data, recording.order());
        let has_it = |of: &&Tracepoint| of.fields.iter().any(|field| field.name == name);
        let events = recording.events.list.iter();
        let of_event =
            events.map(|event| tracepoint_of(event, &tracepoints).filter(has_it).cloned());
        Self { recording, name, of_event: of_event.collect() }
    }

    /// The field and its value in a sample: `addr=0x10`. `None` if its event has none.
    pub fn text(&self, place: Place, bytes: &[u8]) -> Option<String> {
        let tracepoint = self.of_event[place.event()].as_ref()?;
        let event = &self.recording.events.list[place.event()];
        let Ok(Record::Sample(sample)) = event.layout.decode(bytes) else { return None };
        let values = tracepoint.values(sample.raw?, self.recording.order());
        let (_, value) = values.into_iter().find(|(name, _)| *name == self.name)?;
        Some(format!("{}={value}", self.name))
    }
}
