//! An open file: its header, its records in order of time, and the locations of its samples.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use hashbrown::HashMap;
use memmap2::{Advice, Mmap, UncheckedAdvice};
use pyrograph_event::{Attr, ByteOrder, Callchain, Header, Record, Sample, kind};
use pyrograph_resolve::{Extra, SampleSource};

use crate::damage;
use crate::events::Events;
use crate::features::{EventDescription, Features, number};
use crate::fields::{Fields, slice, text};
use crate::header::{FileHeader, words_of};
use crate::records::{self, RawRecord, Records};
use crate::tracing;
use crate::unpack;

/// Location of a record: 12 bits of the file in a directory, 12 bits of the event's index, and 40 bits of offset in the
/// file.
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

/// Mapped bytes with records.
struct Part {
    bytes: Mmap,
    /// Range of the records in it.
    start: usize,
    end: usize,
}

impl Part {
    fn records(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Populates the second half of the mapping. The first pass over a large file spends most of its time in page
    /// faults; this halves them.
    fn map_second_half(&self) {
        const LARGE: usize = 16 << 20;
        let half = self.end / 2;
        if half > LARGE {
            // Kernels before 5.14 do not have this advice, and work without it.
            let _ = self.bytes.advise_range(Advice::PopulateRead, half, self.end - half);
        }
    }

    /// Releases the pages that have been read. They are page cache, and are mapped again when needed.
    fn release(&self) {
        // SAFETY: The mapping is shared and only read, so that no data is lost.
        let _ = unsafe { self.bytes.unchecked_advise(UncheckedAdvice::DontNeed) };
    }
}

/// An open recording: the records of a file, in order of time.
pub struct Recording {
    parts: Vec<Part>,
    order: ByteOrder,
    /// perf's description of the machine.
    pub(crate) features: Features,
    /// The formats of tracepoints.
    pub(crate) tracing_data: Vec<u8>,
    /// The events.
    pub(crate) events: Events,
    /// Time and place of each record that is used, in order of time.
    pub(crate) index: Vec<(u64, u64)>,
    /// Places of deferred user callchains, by thread and cookie.
    deferred: HashMap<(i32, u64), u64>,
    /// Address of the kernel's first symbol, which differs from boot to boot.
    pub(crate) kernel_start: Option<u64>,
    /// Damage in the file.
    pub(crate) damage: Vec<String>,
    /// Contradictions in the file, and how they were handled.
    pub(crate) flaws: Vec<String>,
    /// Number of records that cannot have been written as they are. They were left out.
    pub(crate) impossible: u64,
    /// Number of samples of events that are not in the table of events. They were left out.
    of_no_event: u64,
    /// Number of events beyond the most that are told apart. Their samples are of no event.
    events_left_out: usize,
    /// Modification time of the file, if it is known.
    pub(crate) written: Option<std::time::SystemTime>,
}

/// Maximum number of events that a [`Place`] has bits for.
const MOST_EVENTS: usize = 1 << Place::EVENT_BITS;

impl Recording {
    /// Opens a file, and the files beside it that `perf record --threads` writes.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be mapped, or does not begin like `perf.data`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let written = file.metadata()?.modified().ok();
        let recording = Self::from_bytes(unpack::map(&file)?, None, Some(path))?;
        Ok(Self { written, ..recording })
    }

    /// Reads a recording from a stream into a temporary file.
    ///
    /// # Errors
    ///
    /// Returns the errors of the temporary file, or an error if the data does not begin like `perf.data`.
    pub fn read(source: &mut dyn Read) -> io::Result<Self> {
        let (bytes, error) = unpack::spool(source)?;
        Self::from_bytes(bytes, error, None)
    }

    fn from_bytes(bytes: Mmap, error: Option<io::Error>, path: Option<&Path>) -> io::Result<Self> {
        let header = FileHeader::parse(&bytes)
            .map_err(|reason| io::Error::new(io::ErrorKind::InvalidData, reason))?;
        let mut recording = Self::new(bytes, &header);
        recording.damage.extend(error.map(|error| format!("{error}")));
        if recording.features.is_directory {
            recording.open_others(path);
        }
        recording.order_records()?;
        let formats = || tracing::parse(&recording.tracing_data, recording.order);
        if !recording.events.name_tracepoints(formats) {
            let what =
                "names and fields of tracepoints are missing, which perf writes when it ends";
            recording.damage.push(what.to_owned());
        }
        Ok(recording)
    }

    /// Returns the names of the events, with the number of their samples.
    pub fn events(&self) -> impl Iterator<Item = (&str, u64)> {
        self.events.list.iter().map(|event| (event.name.as_str(), event.samples))
    }

    /// Returns the index of the event of this name, or of the first that has samples; `None` if there is none.
    pub fn choose_event(&self, wanted: Option<&str>) -> Option<usize> {
        self.events.choose(wanted)
    }

    /// Returns descriptions of damage in the file.
    pub fn damage(&self) -> &[String] {
        &self.damage
    }

    /// Returns descriptions of contradictions in the file, and of how they were handled.
    pub fn contradictions(&self) -> &[String] {
        &self.flaws
    }

    /// Returns the number of records that cannot have been written as they are. They were left out.
    pub fn impossible_records(&self) -> u64 {
        self.impossible
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
            events.add(*attr, ids, order);
        }
        events.describe(&features.events);
        let mut damage = Vec::new();
        let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let (start, end) = (at(header.data.start), at(header.data.end));
        if (end as u64) < header.data.end {
            let missing = header.data.end - end as u64;
            damage.push(format!("{missing} of {} bytes are missing", header.data.end));
        }
        if header.lacks_features {
            let what = "what perf tells at the end about events, programs and machine is missing";
            damage.push(what.to_owned());
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
            flaws: header.table_flaw.clone().into_iter().collect(),
            impossible: 0,
            of_no_event: 0,
            events_left_out: header.attrs.len().saturating_sub(MOST_EVENTS),
            written: None,
        }
    }

    /// Opens the files that `perf record --threads` has written beside the first: `data.0` and so on.
    fn open_others(&mut self, path: Option<&Path>) {
        let Some(folder) = path.and_then(Path::parent) else {
            self.damage.push("the directory that the other files are in is not known".to_owned());
            return;
        };
        for number in 0.. {
            let path = folder.join(format!("data.{number}"));
            let Ok(file) = File::open(&path) else { break };
            // A CPU without records leaves an empty file, which cannot be mapped.
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

    /// Reads all records once, decompressing them if necessary.
    fn order_records(&mut self) -> io::Result<()> {
        let mut index = Vec::new();
        // Taken out of `self`, because indexing the records changes all other fields.
        let mut parts = std::mem::take(&mut self.parts);
        for (number, part) in parts.iter_mut().enumerate() {
            let was_packed = is_packed(part.records(), self.order);
            if was_packed {
                let (bytes, damage) = unpack::unpack(part.records(), self.order)?;
                self.damage.extend(damage);
                let end = bytes.len();
                *part = Part { bytes, start: 0, end };
            }
            std::thread::scope(|scope| {
                scope.spawn(|| part.map_second_half());
                self.index_part(number, part, was_packed, &mut index);
            });
        }
        self.parts = parts;
        self.check_events();
        self.events.describe(&std::mem::take(&mut self.features.events));
        // The records of each CPU are sorted, and the sort merges runs. It is stable.
        index.sort_by_key(|&(time, _)| time);
        self.index = index;
        Ok(())
    }

    /// Checks that different parts of the file agree about its events.
    fn check_events(&mut self) {
        let (listed, described) = (self.events.list.len(), self.features.events.len());
        if described > listed {
            self.flaws.push(format!(
                "{described} events were recorded, and {listed} of them are in the table of events: \
                 their samples cannot be told apart"
            ));
        }
        if self.events_left_out > 0 {
            self.flaws.push(format!(
                "{} events are beyond the first {MOST_EVENTS}, and were left out",
                self.events_left_out
            ));
        }
        if self.of_no_event > 0 {
            self.flaws.push(format!(
                "{} samples are of no event that is in the table of events, and were left out",
                self.of_no_event
            ));
        }
    }

    fn index_part(
        &mut self,
        number: usize,
        part: &Part,
        was_packed: bool,
        index: &mut Vec<(u64, u64)>,
    ) {
        let mut records = Records::new(part.records(), self.order);
        // A record without a time takes the time of the record before it.
        let mut last = 0;
        for record in &mut records {
            if damage::is_impossible(record.bytes, record.kind) {
                self.impossible += 1;
                continue;
            }
            if record.kind >= kind::FIRST_OF_PERF {
                self.record_of_perf(&record);
                continue;
            }
            let known = self.events.of(record.bytes);
            if record.kind == kind::SAMPLE && self.events.is_foreign(record.bytes, known) {
                self.of_no_event += 1;
                continue;
            }
            let Some(event) = known.or(self.events.any()) else { continue };
            if was_packed && damage::is_garbled(&self.events.list[event], record.bytes, self.order)
            {
                self.impossible += 1;
                continue;
            }
            let layout = &self.events.list[event].layout;
            last = layout.time(record.bytes).unwrap_or(last);
            let Some(place) = Place::new(number, part.start + record.offset, event) else {
                self.damage.push("the file is too large".to_owned());
                break;
            };
            match record.kind {
                kind::SAMPLE => self.count_sample(event, record.bytes),
                kind::CALLCHAIN_DEFERRED => self.keep_deferred(event, record.bytes, place),
                kind::MMAP => self.find_kernel(event, record.bytes),
                _ => {}
            }
            index.push((last, place.number()));
        }
        if let Some(reason) = records.damage() {
            let at = part.start + records.offset();
            self.damage.push(format!("{reason}, at byte {at} of {}", part.end));
        }
    }

    /// Counts a sample, for all events whose counts it contains.
    fn count_sample(&mut self, event: usize, record: &[u8]) {
        self.events.list[event].samples += 1;
        if !self.events.list[event].leads_group() {
            return;
        }
        let layout = self.events.list[event].layout;
        let Ok(Record::Sample(sample)) = layout.decode(record) else { return };
        for value in sample.read.iter().flat_map(|values| values.iter()) {
            if let Some(other) = value.id.and_then(|id| self.events.index(id)) {
                self.events.list[other].samples += u64::from(other != event);
            }
        }
    }

    fn keep_deferred(&mut self, event: usize, record: &[u8], place: Place) {
        let layout = &self.events.list[event].layout;
        if let Ok(Record::CallchainDeferred(deferred)) = layout.decode(record) {
            let thread = deferred.id.tid.unwrap_or(-1);
            self.deferred.insert((thread, deferred.cookie), place.number());
        }
    }

    /// Takes the kernel's address from the mapping of `[kernel.kallsyms]_text`, which starts at that symbol.
    fn find_kernel(&mut self, event: usize, record: &[u8]) {
        let layout = &self.events.list[event].layout;
        if let Ok(Record::Mmap(mapping)) = layout.decode(record)
            && mapping.pid == -1
            && mapping.path.starts_with(b"[kernel.kallsyms]_")
        {
            self.kernel_start = Some(mapping.offset);
        }
    }

    /// Processes a record that perf wrote itself.
    fn record_of_perf(&mut self, record: &RawRecord<'_>) -> Option<()> {
        let order = self.order;
        let mut from = Fields::new(&record.bytes[Header::SIZE..], order);
        match record.kind {
            records::HEADER_ATTR if self.events.list.len() >= MOST_EVENTS => {
                self.events_left_out += 1;
            }
            records::HEADER_ATTR => {
                // The second word of the attributes is their size; IDs follow.
                let size = Fields::new(from.rest().get(4..)?, order).u32()?;
                let attr = from.take(usize::try_from(size).ok()?)?;
                let ids = words_of(from.rest(), order);
                self.events.add(Attr::parse(attr, order), &ids, order);
            }
            records::HEADER_TRACING_DATA => self.tracing_data = record.payload.to_vec(),
            records::HEADER_BUILD_ID => self.features.add_build_ids(record.bytes, order),
            records::EVENT_UPDATE => {
                const NAME: u64 = 2;
                let (what, id) = (from.u64()?, from.u64()?);
                if what == NAME {
                    let name = text(from.rest());
                    self.events.describe(&[EventDescription { name, ids: vec![id] }]);
                }
            }
            records::HEADER_FEATURE => {
                let feature = u32::try_from(from.u64()?).ok()?;
                self.features.add(feature, from.rest(), order);
            }
            _ => {}
        }
        Some(())
    }

    /// Returns the byte order of the file.
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// Returns the `misc` flags in a record's header.
    pub fn misc(&self, record: &[u8]) -> u16 {
        Header::parse(record, self.order).map_or(0, |header| header.misc)
    }

    /// Returns the record at a place.
    pub fn record_at(&self, place: Place) -> &[u8] {
        let part = &self.parts[place.part()];
        let rest = part.bytes.get(place.offset()..part.end).unwrap_or_default();
        let size = rest.get(6..8).map_or(0, |size| match self.order {
            ByteOrder::Little => u16::from_le_bytes([size[0], size[1]]),
            ByteOrder::Big => u16::from_be_bytes([size[0], size[1]]),
        });
        rest.get(..usize::from(size)).unwrap_or_default()
    }

    /// Returns true if some callchains have their user part in a separate record.
    pub fn defers_callchains(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Returns the deferred user part of a sample's callchain, if it has one.
    fn deferred(&self, sample: &Sample<'_>) -> Option<Callchain<'_>> {
        if self.deferred.is_empty() {
            return None;
        }
        let cookie = sample.callchain.entries().find_map(|entry| match entry {
            pyrograph_event::Entry::Cookie(cookie) => Some(cookie),
            _ => None,
        })?;
        let place = *self.deferred.get(&(sample.id.tid.unwrap_or(-1), cookie))?;
        let place = Place::from_number(place);
        match self.events.list[place.event()].layout.decode(self.record_at(place)) {
            Ok(Record::CallchainDeferred(deferred)) => Some(deferred.callchain),
            _ => None,
        }
    }
}

impl SampleSource for Recording {
    fn sample<T>(&self, place: u64, take: impl FnOnce(&Sample<'_>, Extra<'_>) -> T) -> Option<T> {
        let place = Place::from_number(place);
        let event = &self.events.list[place.event()];
        // The decoded sample is large: take a reference instead of moving it.
        let Ok(Record::Sample(sample)) = &event.layout.decode(self.record_at(place)) else {
            return None;
        };
        let deferred = self.deferred(sample);
        let branches_are_calls = event.branches_are_calls();
        Some(take(sample, Extra { deferred, branches_are_calls }))
    }

    fn used_up(&self) {
        self.parts.iter().for_each(Part::release);
    }
}

/// Returns true if records are compressed: then all samples are.
fn is_packed(bytes: &[u8], order: ByteOrder) -> bool {
    let first = Records::new(bytes, order).find(|record| {
        matches!(record.kind, kind::SAMPLE | records::COMPRESSED | records::COMPRESSED2)
    });
    first.is_some_and(|record| record.kind != kind::SAMPLE)
}
