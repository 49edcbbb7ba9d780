//! Single events as lines of text, in the layout of `perf script`, which many tools read.
//!
//! ```text
//! two words  4711 [001] 83864.041674:    2004008 cpu-clock:
//!                 1288 inner+0x48 (inlined)
//!                 1288 leaf+0x48 (/tmp/w)
//!                 131e work+0x4e (/tmp/w)
//!
//! ```
//!
//! A place in code becomes text once; after that its text is copied.

mod fields;
mod json;

use std::io::{self, Write};

use pyrograph_profile::{
    EventKind, Frame, FrameKind, Location, Locations, SingleEvent, StackEntry,
};

pub use self::fields::{FieldError, FieldSet, ScriptField, ScriptFields};

/// Text is written once there is so much of it.
const CHUNK: usize = 1 << 16;

/// Prints events.
pub struct ScriptWriter<'a, W> {
    out: W,
    kinds: Vec<Columns>,
    name_width: usize,
    locations: &'a Locations,
    options: ScriptOptions,
    /// The lines of places, of which each set of fields has its own.
    places: Vec<Places>,
    text: Vec<u8>,
}

/// How events are printed, beside the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptOptions {
    /// Times have nanoseconds.
    pub nanoseconds: bool,
    /// Source files have their whole paths.
    pub full_paths: bool,
    /// An object of JSON a line.
    pub json: bool,
}

/// What is printed of a kind of events.
struct Columns {
    name: String,
    fields: FieldSet,
    /// Frames stand below the line, each on its own.
    below: bool,
    /// The number of its set of fields in [`ScriptWriter::places`].
    places: usize,
}

/// Lines of places with a set of fields.
struct Places {
    fields: FieldSet,
    /// Of each place, and of the address behind it, where its text is; empty if it was not made yet.
    known: Vec<(usize, u32)>,
    text: Vec<u8>,
}

impl<'a, W: Write> ScriptWriter<'a, W> {
    /// For events of these kinds, whose stacks lead through these places.
    pub fn new(
        out: W,
        kinds: &[EventKind],
        fields: &ScriptFields,
        locations: &'a Locations,
        options: ScriptOptions,
    ) -> Self {
        let mut places: Vec<Places> = Vec::new();
        let columns = kinds.iter().map(|kind| {
            let fields = fields.of(kind);
            let of_places = fields & FieldSet::OF_PLACES;
            let known = places.iter().position(|of| of.fields == of_places);
            let number = known.unwrap_or_else(|| {
                let known = vec![(0, 0); 2 * locations.list.len()];
                places.push(Places { fields: of_places, known, text: Vec::new() });
                places.len() - 1
            });
            let below = kind.stack && fields.has(ScriptField::Ip);
            Columns { name: kind.name.clone(), fields, below, places: number }
        });
        Self {
            out,
            kinds: columns.collect(),
            name_width: kinds.iter().map(|kind| kind.name.len()).max().unwrap_or(0),
            places,
            locations,
            options,
            text: Vec::with_capacity(2 * CHUNK),
        }
    }

    /// Prints an event.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn event(&mut self, event: &SingleEvent<'_>) -> io::Result<()> {
        let Some(columns) = self.kinds.get(event.kind) else { return Ok(()) };
        let places = &mut self.places[columns.places];
        if self.options.json {
            json::head(&mut self.text, &columns.name, columns.fields, event);
            if columns.fields.has(ScriptField::Ip) {
                json::stack(&mut self.text);
                places.add_all(&mut self.text, event, self.locations, self.options);
                if self.text.last() == Some(&b',') {
                    self.text.pop();
                }
                self.text.push(b']');
            }
            self.text.extend_from_slice(b"}\n");
            return if self.text.len() >= CHUNK { self.write() } else { Ok(()) };
        }
        head(&mut self.text, columns, event, self.name_width, self.options);
        if columns.below {
            self.text.push(b'\n');
            places.add_all(&mut self.text, event, self.locations, self.options);
        } else if columns.fields.has(ScriptField::Ip) {
            self.text.push(b' ');
            let ip = event.ip.unwrap_or(0);
            let location = event.stack.first().and_then(|entry| {
                let location = self.locations.list.get(entry.location as usize)?;
                Some((location, self.locations))
            });
            one_place(&mut self.text, places.fields, ip, location, event, self.options);
        }
        if columns.fields.has(ScriptField::PhysAddr) {
            self.text.push(b' ');
            hex(&mut self.text, event.phys_addr.unwrap_or(0), 16);
        }
        self.text.push(b'\n');
        if self.text.len() >= CHUNK { self.write() } else { Ok(()) }
    }

    /// Writes what is left.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn finish(mut self) -> io::Result<()> {
        self.write()?;
        self.out.flush()
    }

    fn write(&mut self) -> io::Result<()> {
        let written = self.out.write_all(&self.text);
        self.text.clear();
        written
    }
}

/// Everything before the stack.
fn head(
    text: &mut Vec<u8>,
    columns: &Columns,
    event: &SingleEvent<'_>,
    name_width: usize,
    options: ScriptOptions,
) {
    use ScriptField as F;
    let has = |field| columns.fields.has(field);
    if has(F::Comm) {
        if !columns.below {
            blanks(text, 16usize.saturating_sub(event.comm.len()));
        }
        one_line(text, event.comm);
        text.push(b' ');
    }
    match (has(F::Pid), has(F::Tid)) {
        (true, true) => {
            number(text, event.pid.unwrap_or(-1), 5);
            text.push(b'/');
            let start = text.len();
            number(text, event.tid.unwrap_or(-1), 0);
            blanks(text, 5usize.saturating_sub(text.len() - start) + 1);
        }
        (true, false) => {
            number(text, event.pid.unwrap_or(-1), 5);
            text.push(b' ');
        }
        (false, true) => {
            number(text, event.tid.unwrap_or(-1), 5);
            text.push(b' ');
        }
        (false, false) => {}
    }
    if has(F::Cpu) {
        let cpu = event.cpu.map_or(-1, i64::from);
        text.push(b'[');
        zeros(text, cpu, 3);
        text.extend_from_slice(b"] ");
    }
    if has(F::Time) {
        let time = event.time.unwrap_or(0);
        let (seconds, rest) = (time / 1_000_000_000, time % 1_000_000_000);
        number(text, seconds, 5);
        text.push(b'.');
        match options.nanoseconds {
            true => zeros(text, rest, 9),
            false => zeros(text, rest / 1000, 6),
        }
        text.extend_from_slice(b": ");
    }
    if has(F::Period) {
        number(text, event.period, 10);
        text.push(b' ');
    }
    if has(F::Event) {
        blanks(text, name_width.saturating_sub(columns.name.len()));
        one_line(text, &columns.name);
        text.extend_from_slice(b": ");
    }
    if has(F::Trace) {
        one_line(text, event.trace);
    }
    if has(F::Addr) {
        hex(text, event.addr.unwrap_or(0), 16);
        text.push(b' ');
    }
    if has(F::DataSrc) {
        text.push(b' ');
        hex(text, event.data_src.unwrap_or(0), 16);
    }
    if has(F::Weight) {
        text.push(b' ');
        number(text, event.weight.unwrap_or(0), 16);
    }
}

impl Places {
    /// Adds the lines of a stack.
    fn add_all(
        &mut self,
        text: &mut Vec<u8>,
        event: &SingleEvent<'_>,
        locations: &Locations,
        options: ScriptOptions,
    ) {
        for &entry in event.stack {
            let (start, len) = self.get(entry, event, locations, options);
            text.extend_from_slice(&self.text[start..start + len]);
        }
    }

    /// Where the lines of a place are.
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
            Some(&(start, len)) if len > 0 => (start, len as usize),
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
        let start = self.text.len();
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
        // A line that does not fit is made each time.
        if let Ok(len) = u32::try_from(len) {
            self.known[at] = (start, len);
        }
        (start, len)
    }
}

/// The place of an event without a stack.
fn one_place(
    text: &mut Vec<u8>,
    fields: FieldSet,
    ip: u64,
    location: Option<(&Location, &Locations)>,
    event: &SingleEvent<'_>,
    options: ScriptOptions,
) {
    // The function that is really there is the outermost.
    let row = location.and_then(|(location, all)| all.frames_of(location).first());
    let frame = row.zip(location).map(|(&row, (_, all))| all.frames.get(row));
    let frame = frame.as_ref().zip(location).map(|(frame, (location, all))| (frame, location, all));
    place(text, fields, ip, frame, event, options);
}

/// A frame with its address, function, module and line.
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

/// `w.c:9` on a line of its own; where the source is not known, the module and the address again.
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

/// A name in one line, whatever is in it.
fn one_line(text: &mut Vec<u8>, name: &str) {
    let start = text.len();
    text.extend_from_slice(name.as_bytes());
    for byte in &mut text[start..] {
        if matches!(byte, b'\n' | b'\r' | 0) {
            *byte = b' ';
        }
    }
}

fn blanks(text: &mut Vec<u8>, count: usize) {
    text.resize(text.len() + count, b' ');
}

/// A number, right-aligned.
fn number(text: &mut Vec<u8>, number: impl itoa::Integer, width: usize) {
    padded(text, number, width, b' ');
}

fn zeros(text: &mut Vec<u8>, number: impl itoa::Integer, width: usize) {
    padded(text, number, width, b'0');
}

fn padded(text: &mut Vec<u8>, number: impl itoa::Integer, width: usize, fill: u8) {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(number);
    text.resize(text.len() + width.saturating_sub(digits.len()), fill);
    text.extend_from_slice(digits.as_bytes());
}

/// A hexadecimal number, right-aligned.
fn hex(text: &mut Vec<u8>, number: u64, width: usize) {
    let digits = (16 - number.leading_zeros() as usize / 4).max(1);
    blanks(text, width.saturating_sub(digits));
    let digit = |at: usize| b"0123456789abcdef"[(number >> (4 * at) & 15) as usize];
    text.extend((0..digits).rev().map(digit));
}
