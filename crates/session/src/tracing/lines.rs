//! Frames of stacks as lines of text.

use std::collections::HashMap;
use std::sync::Arc;

use pyrograph_profile::{FrameId, Location, Locations, StackLine};

/// Formats places in code as lines, each place once.
pub struct Lines<'a> {
    locations: &'a Locations,
    known: HashMap<FrameId, Vec<Arc<StackLine>>>,
}

impl<'a> Lines<'a> {
    pub fn new(locations: &'a Locations) -> Self {
        Self { locations, known: HashMap::new() }
    }

    /// Returns the lines of a place, innermost first. There are several if calls were inlined.
    pub fn of(&mut self, place: FrameId) -> &[Arc<StackLine>] {
        let locations = self.locations;
        self.known.entry(place).or_insert_with(|| match locations.list.get(place.index()) {
            Some(location) => lines(locations, location),
            None => Vec::new(),
        })
    }

    /// Returns the outermost function of a place, or its file, with the offset in it: `memset+0x1d`, `libc.so.6+0x1d0`.
    pub fn outermost(&mut self, place: FrameId) -> String {
        let Some(line) = self.of(place).last() else { return "[unknown]".to_owned() };
        let file = line.module.rsplit('/').next().unwrap_or_default();
        let name = if line.function.is_empty() { file } else { &line.function };
        match line.offset {
            Some(offset) => format!("{name}+{offset:#x}"),
            None => name.to_owned(),
        }
    }
}

fn lines(locations: &Locations, location: &Location) -> Vec<Arc<StackLine>> {
    let printable = |text: &str| super::text::printable(text.as_bytes());
    let line = |line: StackLine| {
        let (function, module) = (printable(&line.function), printable(&line.module));
        Arc::new(StackLine { function, module, source: printable(&line.source), ..line })
    };
    locations.lines_of(location).map(line).collect()
}
