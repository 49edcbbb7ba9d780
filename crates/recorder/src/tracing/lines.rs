//! Frames of stacks as lines of text.

use std::collections::HashMap;
use std::sync::Arc;

use pyrograph_profile::{FrameId, FrameKind, Location, Locations, StackLine};

/// Makes lines of places in code, each once.
pub struct Lines<'a> {
    locations: &'a Locations,
    known: HashMap<FrameId, Vec<Arc<StackLine>>>,
}

impl<'a> Lines<'a> {
    pub fn new(locations: &'a Locations) -> Self {
        Self { locations, known: HashMap::new() }
    }

    /// The lines of a place, innermost first: several where calls were inlined.
    pub fn of(&mut self, place: FrameId) -> &[Arc<StackLine>] {
        let locations = self.locations;
        self.known.entry(place).or_insert_with(|| match locations.list.get(place.index()) {
            Some(location) => lines(locations, location),
            None => Vec::new(),
        })
    }

    /// The function that a place is in, or its file, with the offset in it: `memset+0x1d`, `libc.so.6+0x1d0`.
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
    let text = |id| locations.strings.get(id);
    let line = |(depth, id): (usize, &FrameId)| {
        let frame = locations.frames.get(*id);
        let is_code = !matches!(frame.kind, FrameKind::Marker(_));
        let function = text(frame.function).to_owned();
        // Where there is no symbol, the place in the file is all that is known.
        let offset = if function.is_empty() { Some(location.address) } else { location.offset };
        let source = match (text(frame.file), frame.line) {
            ("", _) => String::new(),
            (file, 0) => file.to_owned(),
            (file, line) => format!("{file}:{line}"),
        };
        Arc::new(StackLine {
            function: crate::tracing::decode::printable(function.as_bytes()),
            offset: offset.filter(|_| is_code && depth == 0),
            module: crate::tracing::decode::printable(text(frame.module).as_bytes()),
            source: crate::tracing::decode::printable(source.as_bytes()),
            kind: frame.kind,
            guessed: frame.guessed,
        })
    };
    locations.frames_of(location).iter().enumerate().map(line).rev().collect()
}
