//! Output of single events as text, in the layout of `perf script`, which many tools can read.
//!
//! ```text
//! two words  4711 [001] 83864.041674:    2004008 cpu-clock:
//!                 1288 inner+0x48 (inlined)
//!                 1288 leaf+0x48 (/tmp/w)
//!                 131e work+0x4e (/tmp/w)
//!
//! ```
//!
//! Each code location is formatted once; after that its text is copied.

mod fields;
mod head;
mod json;
mod places;
mod record;
mod tail;
mod text;

use std::io::{self, Write};

use pyrograph_profile::{EventKind, Locations, SingleEvent};

pub use self::fields::{FieldError, FieldSet, ScriptField, ScriptFields};
use self::head::{Columns, Heads};
use self::places::{Places, one_place};

/// Size of the buffered text in bytes at which it is written.
const CHUNK: usize = 1 << 16;

/// Writes events.
pub struct ScriptWriter<'a, W> {
    out: W,
    kinds: Vec<Columns>,
    heads: Heads,
    locations: &'a Locations,
    options: ScriptOptions,
    /// Formatted lines of code locations, one instance per set of fields.
    places: Vec<Places>,
    text: Vec<u8>,
}

/// Times of events in text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScriptTimes {
    /// Times of the recording's clock.
    #[default]
    Clock,
    /// Times since the first event that is printed.
    SinceFirst,
    /// Times since the event that is printed before.
    SinceLast,
}

/// Options of the output, besides the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptOptions {
    /// Prints times with nanoseconds instead of microseconds.
    pub nanoseconds: bool,
    /// The times of text.
    pub times: ScriptTimes,
    /// Prints source files with their full paths.
    pub full_paths: bool,
    /// Writes a JSON object per line.
    pub json: bool,
}

impl<'a, W: Write> ScriptWriter<'a, W> {
    /// Creates a writer for events of these kinds, whose stacks refer to `locations`.
    pub fn new(
        out: W,
        kinds: &[EventKind],
        fields: &ScriptFields,
        locations: &'a Locations,
        options: ScriptOptions,
    ) -> Self {
        let mut places: Vec<Places> = Vec::new();
        let width = kinds.iter().map(|kind| kind.name.len()).max().unwrap_or(0);
        let columns = kinds.iter().map(|kind| {
            let fields = fields.of(kind);
            let of_places = fields & FieldSet::OF_PLACES;
            let known = places.iter().position(|of| of.fields == of_places);
            let number = known.unwrap_or_else(|| {
                places.push(Places::new(of_places, locations));
                places.len() - 1
            });
            Columns::new(kind, fields, number, width)
        });
        Self {
            out,
            kinds: columns.collect(),
            heads: Heads::new(options.nanoseconds, options.times),
            places,
            locations,
            options,
            text: Vec::with_capacity(2 * CHUNK),
        }
    }

    /// Writes an event.
    ///
    /// # Errors
    ///
    /// Fails if writing to the output fails.
    pub fn event(&mut self, event: &SingleEvent<'_>) -> io::Result<()> {
        let Some(columns) = self.kinds.get(event.kind) else { return Ok(()) };
        if let Some(record) = event.record {
            match self.options.json {
                true => record::json(&mut self.text, columns.fields, event, record),
                false => {
                    self.heads.add_origin(&mut self.text, columns, event);
                    record::line(&mut self.text, record);
                }
            }
            return if self.text.len() >= CHUNK { self.write() } else { Ok(()) };
        }
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
            json::tail(&mut self.text, columns.fields, event);
            self.text.extend_from_slice(b"}\n");
            return if self.text.len() >= CHUNK { self.write() } else { Ok(()) };
        }
        self.heads.add(&mut self.text, columns, event);
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
        tail::add(&mut self.text, columns.fields, event);
        self.text.push(b'\n');
        if self.text.len() >= CHUNK { self.write() } else { Ok(()) }
    }

    /// Writes the remaining text.
    ///
    /// # Errors
    ///
    /// Fails if writing to the output fails.
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
