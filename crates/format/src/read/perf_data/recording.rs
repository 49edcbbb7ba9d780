//! A file, open: its header, its records in the order of time, and where its samples are.

use std::fs::File;
use std::io;
use std::path::Path;

use hashbrown::HashMap;
use memmap2::Mmap;
use pyrograph_event::{Attr, ByteOrder, Callchain, Header, Record, Sample, kind};
use pyrograph_resolve::{Extra, SampleSource};

use super::events::Events;
use super::features::{EventDescription, Features, number};
use super::fields::{Fields, slice, text};
use super::header::{FileHeader, words_of};
use super::records::{self, Records};
use super::unpack;
use crate::Head;

/// Which file of a directory, where in it, and of which event: 12 bits, 40 bits, 12 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u64);

impl Place {
    const OFFSET_BITS: u32 = 40;
    const EVENT_BITS: u32 = 12;

    fn new(part: usize, offset: usize, event: usize) -> Option<Self> {
        let (part, offset, event) = (part as u64, offset as u64, event as u64);
        let event_at = Self::OFFSET_BITS;
        let part_at = event_at + Self::EVENT_BITS;
        let fits =
            offset >> Self::OFFSET_BITS == 0 && event >> Self::EVENT_BITS == 0 && part >> 12 == 0;
        fits.then_some(Self(part << part_at | event << event_at | offset))
    }

    pub fn from_number(number: u64) -> Self {
        Self(number)
    }

    pub fn number(self) -> u64 {
        self.0
    }

    fn offset(self) -> usize {
        (self.0 & ((1 << Self::OFFSET_BITS) - 1)) as usize
    }

    pub fn event(self) -> usize {
        (self.0 >> Self::OFFSET_BITS) as usize & ((1 << Self::EVENT_BITS) - 1)
    }

    fn part(self) -> usize {
        (self.0 >> (Self::OFFSET_BITS + Self::EVENT_BITS)) as usize
    }
}

/// Bytes with records.
struct Part {
    bytes: Mmap,
    /// Where the records are in it.
    start: usize,
    end: usize,
}

impl Part {
    fn records(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }
}

/// An open recording.
pub struct Recording {
    parts: Vec<Part>,
    order: ByteOrder,
    /// What perf wrote about the machine.
    pub features: Features,
    /// The formats of tracepoints.
    pub tracing_data: Vec<u8>,
    /// The events.
    pub events: Events,
    /// Time and place of each record that counts, in the order of time.
    pub index: Vec<(u64, u64)>,
    /// Where the user part of a thread's callchains is, by thread and cookie.
    deferred: HashMap<(i32, u64), u64>,
    /// The address of the kernel's first symbol: it differs from boot to boot.
    pub kernel_start: Option<u64>,
    /// What is wrong with the file.
    pub damage: Vec<String>,
    /// When the file was written, as far as is known.
    pub written: Option<std::time::SystemTime>,
}

/// Which records of a file there are places for.
const MOST_EVENTS: usize = 1 << Place::EVENT_BITS;

impl Recording {
    /// Opens a recording and puts its records in order.
    ///
    /// # Errors
    ///
    /// If it cannot be mapped, or does not begin as such a file does.
    pub fn open(input: Head) -> io::Result<Self> {
        let path = input.file().map(Path::to_owned);
        let (bytes, error, written) = match &path {
            Some(path) => {
                let file = File::open(path)?;
                let written = file.metadata()?.modified().ok();
                (unpack::map(&file)?, None, written)
            }
            None => {
                let (bytes, error) = unpack::spool(&mut *input.into_stream())?;
                (bytes, error, None)
            }
        };
        let header = FileHeader::parse(&bytes)
            .map_err(|reason| io::Error::new(io::ErrorKind::InvalidData, reason))?;
        let mut recording = Self::new(bytes, &header);
        recording.written = written;
        recording.damage.extend(error.map(|error| format!("{error}")));
        if recording.features.is_directory {
            recording.open_others(path.as_deref());
        }
        recording.order_records()?;
        Ok(recording)
    }

    fn new(bytes: Mmap, header: &FileHeader) -> Self {
        let order = header.order;
        let mut features = Features::default();
        let mut tracing_data = Vec::new();
        for (feature, section) in &header.features {
            let section = slice(&bytes, section);
            features.add(*feature, section, order);
            if *feature == number::TRACING_DATA {
                tracing_data = section.to_vec();
            }
        }
        let mut events = Events::default();
        for (attr, ids) in header.attrs.iter().take(MOST_EVENTS) {
            events.add(*attr, ids.clone(), order);
        }
        events.describe(&features.events);
        let mut damage = Vec::new();
        let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let (start, end) = (at(header.data.start), at(header.data.end));
        if (end as u64) < header.data.end {
            let missing = header.data.end - end as u64;
            damage.push(format!("{missing} of {} bytes are missing", header.data.end));
        }
        Self {
            parts: vec![Part { bytes, start, end }],
            order,
            features,
            tracing_data,
            events,
            index: Vec::new(),
            deferred: HashMap::new(),
            kernel_start: None,
            damage,
            written: None,
        }
    }

    /// Opens the files beside the first that `perf record --threads` has written: `data.0` and so on.
    fn open_others(&mut self, path: Option<&Path>) {
        let Some(folder) = path.and_then(Path::parent) else {
            self.damage.push("the directory that the other files are in is not known".to_owned());
            return;
        };
        for number in 0.. {
            let path = folder.join(format!("data.{number}"));
            let Ok(file) = File::open(&path) else { break };
            // A CPU that had nothing to tell leaves an empty file, which cannot be mapped.
            if file.metadata().is_ok_and(|data| data.len() == 0) {
                continue;
            }
            match unpack::map(&file) {
                Ok(bytes) => {
                    let end = bytes.len();
                    self.parts.push(Part { bytes, start: 0, end });
                }
                Err(error) => self.damage.push(format!("{}: {error}", path.display())),
            }
        }
    }

    /// Goes through all records once, unpacking what is packed.
    fn order_records(&mut self) -> io::Result<()> {
        let mut index = Vec::new();
        for number in 0..self.parts.len() {
            if self.is_packed(number) {
                let part = &self.parts[number];
                let (bytes, damage) = unpack::unpack(part.records(), self.order)?;
                self.damage.extend(damage);
                let end = bytes.len();
                self.parts[number] = Part { bytes, start: 0, end };
            }
            self.index_part(number, &mut index);
        }
        // Each CPU's records are sorted, and the sort merges runs. Equal times keep their order.
        index.sort_by_key(|&(time, _)| time);
        self.index = index;
        Ok(())
    }

    fn is_packed(&self, part: usize) -> bool {
        let is_packed =
            |kind: u32| matches!(kind, records::COMPRESSED | records::COMPRESSED2);
        // They come after what is known from the start, and from then on nothing else does.
        const NEAR: usize = 100_000;
        let mut records = Records::new(self.parts[part].records(), self.order).take(NEAR);
        records.any(|record| is_packed(record.kind))
    }

    fn index_part(&mut self, number: usize, index: &mut Vec<(u64, u64)>) {
        let part = std::mem::replace(&mut self.parts[number].end, 0);
        let bytes: *const Part = &raw const self.parts[number];
        let _ = (part, bytes, index);
    }
}
