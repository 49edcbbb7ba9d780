//! Samples that contain counts: of their event, or of all events of its group (`{a,b}:S`).
//!
//! Such a sample counts as one of each of these events; its value is the increase of the count since the sample before.

use hashbrown::HashMap;
use pyrograph_event::Sample;

use crate::events::Event;
use crate::recording::{Place, Recording};

/// Last count of each event, per thread if threads have their own counts.
#[derive(Default)]
pub(crate) struct Counts {
    last: HashMap<(u64, i32), u64, foldhash::fast::FixedState>,
}

impl Counts {
    /// Returns the events that a sample counts, with the increase of each.
    pub fn growth<'a>(
        &'a mut self,
        recording: &'a Recording,
        place: Place,
        event: &Event,
        sample: &Sample<'a>,
    ) -> impl Iterator<Item = (usize, u64)> + 'a {
        let thread = if event.inherits() { sample.id.tid.unwrap_or(-1) } else { 0 };
        members(recording, place, sample).map(move |(kind, id, value)| {
            let before = self.last.insert((id, thread), value).unwrap_or(0);
            (kind, value.saturating_sub(before))
        })
    }
}

/// Returns the events that a sample counts, each with its ID and count.
pub(crate) fn members<'a>(
    recording: &'a Recording,
    place: Place,
    sample: &Sample<'a>,
) -> impl Iterator<Item = (usize, u64, u64)> + 'a {
    let own = sample.id.id;
    sample.read.into_iter().flat_map(|values| values.iter()).filter_map(move |value| {
        let id = value.id.or(own)?;
        Some((recording.events.index(id).unwrap_or(place.event()), id, value.value))
    })
}
