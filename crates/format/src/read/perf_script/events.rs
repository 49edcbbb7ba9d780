//! Iterates over single events in `perf script` text.

use std::borrow::Cow;

use super::arguments::arguments;
use super::header::{self, Layout};
use super::last_cut;
use crate::bytes;
use crate::chunks::{Chunks, drop_carriage_returns};
use crate::input::Head;
use crate::perf_frame as frame;
use crate::warnings::{WarningKind, Warnings};
use pyrograph_profile::{TraceEvent, TraceField};

/// Calls `on_event` for the header line of each sample.
pub fn events(input: Head, on_event: &mut dyn FnMut(&TraceEvent<'_>)) -> Warnings {
    let layout = Layout::of(input.bytes());
    let chunks = Chunks::new(input.into_stream(), last_cut);
    let mut text = Vec::new();
    while chunks.next(&mut text).is_some() {
        drop_carriage_returns(&mut text);
        let mut at = 0;
        while at < text.len() {
            let end = bytes::find(&text, at, b'\n');
            event(&text[at..end], layout, on_event);
            at = end + 1;
        }
    }
    let mut warnings = Warnings::default();
    if let Some(cause) = chunks.into_error() {
        warnings.add(WarningKind::Truncated(cause), 1, []);
    }
    warnings
}

/// Calls `on_event` if `line` is a header line. Other lines are frames, comments, or blank.
fn event(line: &[u8], layout: Layout, on_event: &mut dyn FnMut(&TraceEvent<'_>)) {
    if matches!(line.first(), None | Some(b'\t' | b'#')) {
        return;
    }
    let header = header::parse(line, layout);
    let Some(header) = header.filter(|header| !header.is_other_record()) else {
        return;
    };
    let (name, comm, rest) = (lossy(header.event), lossy(header.comm), lossy(header.rest));
    // The only frame of a sample without a callchain is not an argument.
    let fields = match frame::is_likely(header.rest) {
        true => Vec::new(),
        false => arguments(&name, &rest),
    };
    on_event(&TraceEvent {
        name: &name,
        time: header.time(),
        cpu: header.cpu,
        // A single number is the thread ID.
        pid: header.pid,
        tid: header.tid,
        comm: &comm,
        fields: fields.as_slice() as &[TraceField<'_>],
    });
}

fn lossy(text: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(text)
}
