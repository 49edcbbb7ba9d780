//! The fields of tracepoints as text, as `perf script` prints them.

use std::fmt::Write;

use pyrograph_event::{ByteOrder, type_id};

use crate::recording::Recording;
use crate::tracepoint::Tracepoint;
use crate::tracing;

/// How the samples of a tracepoint become text.
pub struct TraceText {
    tracepoint: Tracepoint,
}

impl TraceText {
    /// Those of a recording's events, by number; `None` for what is no tracepoint, or has no format.
    pub fn all(recording: &Recording) -> Vec<Option<Self>> {
        let tracepoints = tracing::parse(&recording.tracing_data, recording.order());
        let of = |event: &crate::events::Event| {
            let is_it = |known: &&Tracepoint| known.id == event.attr.config;
            let found = tracepoints.iter().find(is_it);
            let is_one = event.attr.type_ == type_id::TRACEPOINT;
            found.filter(|_| is_one).map(|found| Self { tracepoint: found.clone() })
        };
        recording.events.list.iter().map(of).collect()
    }

    /// Adds the text of a sample's raw data.
    pub fn write(&self, raw: &[u8], order: ByteOrder, out: &mut String) {
        for (at, (name, value)) in self.tracepoint.values(raw, order).enumerate() {
            let blank = if at == 0 { "" } else { " " };
            // To memory it cannot fail.
            let _ = write!(out, "{blank}{name}={value}");
        }
    }
}
