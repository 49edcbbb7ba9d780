//! Lines of stacks. Each code location is formatted once; after that its text is copied.

use pyrograph_profile::{Frame, FrameKind, Location, Locations, SingleEvent, StackEntry};

use super::fields::{FieldSet, ScriptField};
use super::text::{MARGIN, hex, number, one_line, piece};
use super::{ScriptOptions, json};

/// Cached lines of code locations, for one set of fields.
pub struct Places {
    /// Fields of each frame.
    pub fields: FieldSet,
    /// For each location, and for the address after it, the position of its text and, in the lowest [`LEN_BITS`]
    /// bits, its length; 0 if it has not been formatted yet.
    known: Vec<u64>,
    /// Texts, followed by [`MARGIN`] bytes.
    text: Vec<u8>,
}

const LEN_BITS: u32 = 24;

impl Places {
    /// Creates an empty cache for these fields and locations.
    pub fn new(fields: FieldSet, locations: &Locations) -> Self {
        Self { fields, known: vec![0; 2 * locations.list.len()], text: vec![0; MARGIN] }
    }

    /// Appends the lines of a stack.
    pub fn add_all(
        &mut self,
        text: &mut Vec<u8>,
        event: &SingleEvent<'_>,
        locations: &Locations,
        options: ScriptOptions,
    ) {
        for &entry in event.stack {
            let (start, len) = self.get(entry, event, locations, options);
            piece(text, &self.text, start, len);
        }
    }

    /// Position and length of the text of a stack entry.
    #[inline]
    fn get(
        &mut self,
        entry: StackEntry,
        event: &SingleEvent<'_>,
        locations: &Locations,
        options: ScriptOptions,
    ) -> (usize, usize) {
        let at = 2 * entry.location as usize + usize::from(entry.returns);
        match self.known.get(at) {
            Some(&place) if place > 0 => {
                ((place >> LEN_BITS) as usize, place as usize & ((1 << LEN_BITS) - 1))
            }
            Some(_) => self.make(at, entry, event, locations, options),
            None => (0, 0),
        }
    }

    #[cold]
    fn make(
        &mut self,
        at: usize,
        entry: StackEntry,
        event: &SingleEvent<'_>,
        locations: &Locations,
        options: ScriptOptions,
    ) -> (usize, usize) {
        let start = self.text.len() - MARGIN;
        self.text.truncate(start);
        if let Some(location) = locations.list.get(entry.location as usize) {
            let behind = u64::from(entry.returns);
            let address = location.address.wrapping_add(behind);
            let offset = location.offset.map(|offset| offset.wrapping_add(behind));
            let location = Location { offset, ..location.clone() };
            for &row in locations.frames_of(&location).iter().rev() {
                let frame = (&locations.frames.get(row), &location, locations);
                if options.json {
                    json::frame(&mut self.text, self.fields, address, Some(frame));
                    self.text.push(b',');
                    continue;
                }
                self.text.push(b'\t');
                place(&mut self.text, self.fields, address, Some(frame), event, options);
                self.text.push(b'\n');
            }
        }
        let len = self.text.len() - start;
        self.text.resize(start + len + MARGIN, 0);
        // A text whose position or length does not fit is formatted each time.
        if len >> LEN_BITS == 0 && (start as u64) >> (u64::BITS - LEN_BITS) == 0 {
            self.known[at] = (start as u64) << LEN_BITS | len as u64;
        }
        (start, len)
    }
}

/// Appends the location of an event without a stack.
pub fn one_place(
    text: &mut Vec<u8>,
    fields: FieldSet,
    ip: u64,
    location: Option<(&Location, &Locations)>,
    event: &SingleEvent<'_>,
    options: ScriptOptions,
) {
    // The outermost function is the one that is not inlined.
    let row = location.and_then(|(location, all)| all.frames_of(location).first());
    let frame = row.zip(location).map(|(&row, (_, all))| all.frames.get(row));
    let frame = frame.as_ref().zip(location).map(|(frame, (location, all))| (frame, location, all));
    place(text, fields, ip, frame, event, options);
}

/// Appends a frame with its address, function, module and line.
fn place(
    text: &mut Vec<u8>,
    fields: FieldSet,
    address: u64,
    frame: Option<(&Frame, &Location, &Locations)>,
    event: &SingleEvent<'_>,
    options: ScriptOptions,
) {
    hex(text, address, 16);
    let string = |id| frame.map_or("", |(_, _, all)| all.strings.get(id));
    let function = frame.map_or("", |(frame, ..)| string(frame.function));
    let inlined = frame.is_some_and(|(frame, ..)| frame.kind == FrameKind::Inlined);
    if fields.has(ScriptField::Sym) {
        text.push(b' ');
        match function {
            "" => text.extend_from_slice(b"[unknown]"),
            function => {
                one_line(text, function);
                let offset = frame.and_then(|(_, location, _)| location.offset);
                if let Some(offset) = offset.filter(|_| fields.has(ScriptField::Symoff)) {
                    text.extend_from_slice(b"+0x");
                    hex(text, offset, 1);
                }
            }
        }
    }
    let module = frame.map_or("", |(frame, ..)| string(frame.module));
    if fields.has(ScriptField::Dso) && !inlined {
        text.extend_from_slice(b" (");
        match (module, frame) {
            ("", Some((Frame { kind: FrameKind::Jit, .. }, ..))) => {
                text.extend_from_slice(b"/tmp/perf-");
                number(text, event.pid.unwrap_or(-1), 0);
                text.extend_from_slice(b".map");
            }
            ("", _) => text.extend_from_slice(b"[unknown]"),
            (module, _) => one_line(text, module),
        }
        text.push(b')');
    }
    if fields.has(ScriptField::Srcline)
        && let Some((frame, ..)) = frame
    {
        source(text, string(frame.file), frame.line, module, address, options);
    }
    if inlined {
        text.extend_from_slice(b" (inlined)");
    }
}

/// Appends the source line on a line of its own, such as `w.c:9`; the module and the address if it is unknown.
fn source(
    text: &mut Vec<u8>,
    file: &str,
    line: u32,
    module: &str,
    address: u64,
    options: ScriptOptions,
) {
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    if file.is_empty() {
        if !module.is_empty() {
            text.extend_from_slice(b"\n  ");
            one_line(text, &name(module));
            text.push(b'[');
            hex(text, address, 1);
            text.push(b']');
        }
        return;
    }
    text.extend_from_slice(b"\n  ");
    one_line(text, &if options.full_paths { file.to_owned() } else { name(file) });
    text.push(b':');
    number(text, line, 0);
}
