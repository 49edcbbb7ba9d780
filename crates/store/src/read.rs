//! Reading segments.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrowPrimitiveType, BooleanArray, ListArray, PrimitiveArray, RecordBatch, StringArray,
    StructArray,
};
use bytes::Bytes;
use hashbrown::HashMap;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::ParquetMetaData;
use pyrograph_profile::{
    Address, Frame, FrameId, FrameKind, Profile, Sample, StackId, StringId, Thread, ValueType,
};

use crate::checksum;
use crate::error::SegmentError;
use crate::footer::{CODE_KEY, Event, Footer, KEY, LARGEST_SEGMENT};
use crate::schema::{self, ADDRESS_TEXTS, FRAME_TEXTS};
use crate::when::Range;

/// Rows that are read at once.
const ROWS_AT_ONCE: usize = 4096;

/// As many bytes may a segment take without compression, for each byte that it has, and besides.
const MOST_RATIO: u64 = 1024;
const LEAST_ROOM: u64 = 64 << 20;

/// A segment whose bytes are the ones that were written.
#[derive(Debug)]
pub struct Segment {
    bytes: Bytes,
    metadata: ArrowReaderMetadata,
    footer: Footer,
    code: Vec<String>,
}

impl Segment {
    /// Returns true if these are the first bytes of a Parquet file.
    pub fn is_parquet(head: &[u8]) -> bool {
        head.starts_with(b"PAR1")
    }

    /// Opens a segment, and checks all its bytes.
    ///
    /// # Errors
    ///
    /// If it is none, is damaged or cut off, of a newer version, or too large.
    pub fn open(bytes: Bytes) -> Result<Self, SegmentError> {
        let metadata = ArrowReaderMetadata::load(&bytes, Default::default())?;
        let file = metadata.metadata().file_metadata();
        let pairs = file.key_value_metadata().map_or(&[][..], Vec::as_slice);
        let text = |key: &str| pairs.iter().find(|of| of.key == key)?.value.as_deref();
        let footer = Footer::parse(text(KEY).ok_or(SegmentError::Foreign)?)?;
        let mut start = 0;
        for (number, (end, sum)) in footer.groups.iter().enumerate() {
            let range = usize::try_from(*end).ok().and_then(|end| bytes.get(start..end));
            if range.is_none_or(|bytes| !checksum::is_same(&checksum::of(bytes), sum.as_bytes())) {
                let why = format!("the checksum of row group {number} is another one");
                return Err(SegmentError::Damaged(why));
            }
            start += range.map_or(0, <[u8]>::len);
        }
        checksum::check(&bytes, start)?;
        let plain: u64 = metadata
            .metadata()
            .row_groups()
            .iter()
            .map(|group| u64::try_from(group.total_byte_size()).unwrap_or(u64::MAX))
            .fold(0, u64::saturating_add);
        let most = (bytes.len() as u64).saturating_mul(MOST_RATIO).saturating_add(LEAST_ROOM);
        if plain > most.min(LARGEST_SEGMENT) {
            return Err(SegmentError::TooLarge(format!("{plain} bytes without compression")));
        }
        check_places(metadata.metadata(), bytes.len() as u64)?;
        let code = match text(CODE_KEY) {
            Some(text) => serde_json::from_str(text)
                .map_err(|error| SegmentError::Damaged(error.to_string()))?,
            None => Vec::new(),
        };
        Ok(Self { bytes, metadata, footer, code })
    }

    /// What is known of the segment as a whole.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Number of rows: stacks of one owner and event.
    pub fn rows(&self) -> u64 {
        u64::try_from(self.metadata.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// Returns the profile.
    ///
    /// # Errors
    ///
    /// If its columns contradict each other.
    pub fn profile(&self) -> Result<Profile, SegmentError> {
        self.profile_of(&Wanted::default())
    }

    /// Returns the profile of the samples that are wanted.
    ///
    /// # Errors
    ///
    /// If its columns contradict each other.
    pub fn profile_of(&self, wanted: &Wanted) -> Result<Profile, SegmentError> {
        let types = self.footer.columns.iter().map(|column| ValueType::from(column.value.clone()));
        let mut profile = Profile::new(types.collect());
        profile.about = self.footer.about();
        profile.shown = self.footer.shown.min(profile.value_types.len().saturating_sub(1));
        profile.rooted = self.footer.rooted;
        profile.unfiltered.clone_from(&self.footer.unfiltered);
        profile.code.clone_from(&self.code);
        let mut rows = Rows::new(&self.footer, wanted);
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(
            self.bytes.clone(),
            self.metadata.clone(),
        );
        // What is not known is not read.
        let known = schema::schema();
        let columns = builder.schema().fields().iter().enumerate();
        let known: Vec<usize> = columns
            .filter(|(_, field)| known.field_with_name(field.name()).is_ok())
            .map(|(index, _)| index)
            .collect();
        let mask = ProjectionMask::roots(builder.parquet_schema(), known);
        for batch in builder.with_projection(mask).with_batch_size(ROWS_AT_ONCE).build()? {
            rows.add(&mut profile, &batch?)?;
        }
        rows.finish(&mut profile);
        profile.check().map_err(|why| SegmentError::Damaged(why.to_string()))?;
        Ok(profile)
    }
}

/// Checks that all columns lie in the file: the library takes it for granted, and panics otherwise. Checksums do not say it of files that
/// somebody has made up.
fn check_places(metadata: &ParquetMetaData, length: u64) -> Result<(), SegmentError> {
    let outside = || SegmentError::Damaged("a column lies outside of the file".to_owned());
    for column in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        let place = |offset: i64| u64::try_from(offset).map_err(|_| outside());
        let data = place(column.data_page_offset())?;
        let start = match column.dictionary_page_offset() {
            Some(dictionary) => place(dictionary)?.min(data),
            None => data,
        };
        let size = place(column.compressed_size())?;
        place(column.uncompressed_size())?;
        place(column.num_values())?;
        if start.checked_add(size).is_none_or(|end| end > length) {
            return Err(outside());
        }
    }
    Ok(())
}

/// Samples that are wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Those of a range of time, on the wall clock.
    pub range: Range,
    /// Those of services that match a pattern; empty for all.
    pub service: String,
    /// Those of machines that match a pattern; empty for all.
    pub host: String,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { range: Range::ALL, service: String::new(), host: String::new() }
    }
}

/// Returns true if a text matches a pattern with `*` and `?`, or the pattern is empty.
fn matches(pattern: &str, text: &str) -> bool {
    if pattern.is_empty() {
        return true;
    }
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut read, mut star) = (0, 0, None);
    while read < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(&part) if part == '?' || part == text[read] => {
                at += 1;
                read += 1;
            }
            _ => match star {
                Some((place, from)) => {
                    (at, read) = (place + 1, from + 1);
                    star = Some((place, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|part| *part == '*')
}

/// Samples that are read, by their places.
struct Rows<'a> {
    wanted: &'a Wanted,
    /// See [`Footer::hosts`].
    hosts: bool,
    first: u64,
    events: Vec<Event>,
    columns: usize,
    /// The samples with their places, and their values one behind the other.
    samples: Vec<(u64, Sample)>,
    values: Vec<u64>,
    /// By their places, if several events have values of a sample.
    by_place: HashMap<u64, usize>,
    /// Next place of samples that say none.
    next: u64,
    stacks: HashMap<Vec<u8>, StackId>,
}

impl<'a> Rows<'a> {
    fn new(footer: &Footer, wanted: &'a Wanted) -> Self {
        Self {
            wanted,
            hosts: footer.hosts,
            first: footer.first,
            events: footer.events(),
            columns: footer.columns.len(),
            samples: Vec::new(),
            values: Vec::new(),
            by_place: HashMap::new(),
            next: 0,
            stacks: HashMap::new(),
        }
    }

    fn add(&mut self, profile: &mut Profile, batch: &RecordBatch) -> Result<(), SegmentError> {
        let (events, units) = (texts(batch, "event")?, texts(batch, "unit")?);
        let owner = |name: &str| texts(batch, name);
        /// Index of the machine.
        const HOST: usize = 2;
        let owners = [
            owner("comm")?,
            owner("thread")?,
            owner("host")?,
            owner("cgroup")?,
            owner("cmdline")?,
            owner("field")?,
        ];
        let (pids, tids) =
            (numbers::<Int32Type>(batch, "pid")?, numbers::<Int32Type>(batch, "tid")?);
        let values = list::<UInt64Type>(batch, "values")?;
        let (counts, order) =
            (list::<UInt64Type>(batch, "counts")?, list::<UInt32Type>(batch, "order")?);
        let (at, cpus) = (list::<Int64Type>(batch, "at")?, list::<UInt32Type>(batch, "cpus")?);
        let hashes = batch.column_by_name("stack").and_then(|of| of.as_fixed_size_binary_opt());
        let hashes = hashes.ok_or_else(|| other_type("stack"))?;
        let services = owner("service")?;
        let frames = FrameColumns::of(batch)?;
        let addresses = AddressColumns::of(batch)?;
        for row in 0..batch.num_rows() {
            let (name, unit) = (events.get(row), units.get(row));
            let is_it = |of: &&Event| (&*of.value.name, &*of.value.unit) == (name, unit);
            let event = self.events.iter().find(is_it);
            let Some(&Event { counts: counts_column, values: values_column, .. }) = event else {
                continue;
            };
            if !matches(&self.wanted.service, services.get(row))
                || !matches(&self.wanted.host, owners[HOST].get(row))
            {
                continue;
            }
            let [process, thread, host, cgroup, command_line, field] =
                owners.each_ref().map(|texts| profile.strings.intern(texts.get(row)));
            let host = if self.hosts { host } else { StringId::EMPTY };
            let number = |of: &Option<&PrimitiveArray<Int32Type>>| {
                of.filter(|of| of.is_valid(row)).map(|of| of.value(row))
            };
            let thread = profile.threads.intern(Thread {
                pid: number(&pids),
                tid: number(&tids),
                process,
                name: thread,
                host,
                cgroup,
                command_line,
                field,
            });
            let hash = hashes.value(row).to_vec();
            let stack = match self.stacks.get(&hash) {
                Some(stack) => *stack,
                None => {
                    let stack = frames.stack(profile, row)?;
                    self.stacks.insert(hash, stack);
                    stack
                }
            };
            let address = addresses.as_ref().and_then(|of| of.get(profile, row));
            let Some(values) = values.row(row) else {
                return Err(SegmentError::Damaged(format!("row {row} has no values")));
            };
            let (at, cpus) = (at.row(row), cpus.row(row));
            let (counts, order) = (counts.row(row), order.row(row));
            let fits = |length: Option<usize>| length.is_none_or(|length| length == values.len());
            let lengths = [
                at.as_ref().map(PrimitiveArray::len),
                cpus.as_ref().map(PrimitiveArray::len),
                counts.as_ref().map(PrimitiveArray::len),
                order.as_ref().map(PrimitiveArray::len),
            ];
            if !lengths.into_iter().all(fits) {
                let why = format!("the lists of row {row} are not of the same length");
                return Err(SegmentError::Damaged(why));
            }
            for index in 0..values.len() {
                let place = match &order {
                    Some(order) => order.value(index).into(),
                    None => self.next,
                };
                self.next = self.next.max(place.saturating_add(1));
                let time = optional(at.as_ref(), index);
                let time = time.map(|at| self.first.wrapping_add(at.cast_unsigned()));
                if time.is_some_and(|time| !self.wanted.range.contains(time)) {
                    continue;
                }
                let known = match self.events.len() {
                    1 => None,
                    _ => self.by_place.get(&place).copied(),
                };
                let row = known.unwrap_or_else(|| {
                    let cpu = optional(cpus.as_ref(), index);
                    let row = self.samples.len();
                    self.samples.push((place, Sample { stack, thread, cpu, time, address }));
                    self.values.resize(self.values.len() + self.columns, 0);
                    if self.events.len() > 1 {
                        self.by_place.insert(place, row);
                    }
                    row
                });
                let sums = &mut self.values[row * self.columns..][..self.columns];
                sums[values_column] = values.value(index);
                if let (Some(column), Some(counts)) = (counts_column, &counts) {
                    sums[column] = counts.value(index);
                }
            }
        }
        Ok(())
    }

    fn finish(self, profile: &mut Profile) {
        let mut rows: Vec<usize> = (0..self.samples.len()).collect();
        rows.sort_by_key(|row| self.samples[*row].0);
        for row in rows {
            let values = &self.values[row * self.columns..][..self.columns];
            profile.push(self.samples[row].1, values);
        }
    }
}

/// A column of texts, that may not be there.
struct Texts<'a>(Option<&'a StringArray>);

impl<'a> Texts<'a> {
    fn get(&self, row: usize) -> &'a str {
        self.0.filter(|of| of.is_valid(row)).map_or("", |of| of.value(row))
    }
}

/// A column of lists of numbers, that may not be there.
struct Numbers<'a, T: ArrowPrimitiveType> {
    lists: Option<&'a ListArray>,
    items: Option<&'a PrimitiveArray<T>>,
}

impl<T: ArrowPrimitiveType> Numbers<'_, T> {
    /// The list of a row, if it has one.
    fn row(&self, row: usize) -> Option<PrimitiveArray<T>> {
        let lists = self.lists.filter(|lists| lists.is_valid(row))?;
        let offsets = lists.value_offsets();
        let range = |at: usize| offsets.get(at).and_then(|of| usize::try_from(*of).ok());
        let (start, end) = (range(row)?, range(row + 1)?);
        Some(self.items?.slice(start, end.checked_sub(start)?))
    }
}

fn optional<T: ArrowPrimitiveType>(
    of: Option<&PrimitiveArray<T>>,
    index: usize,
) -> Option<T::Native> {
    of.filter(|of| of.is_valid(index)).map(|of| of.value(index))
}

fn other_type(column: &str) -> SegmentError {
    SegmentError::Damaged(format!("the column {column} has another type"))
}

fn texts<'a>(batch: &'a RecordBatch, name: &str) -> Result<Texts<'a>, SegmentError> {
    match batch.column_by_name(name) {
        Some(column) => {
            column.as_string_opt().map(|of| Texts(Some(of))).ok_or_else(|| other_type(name))
        }
        None => Ok(Texts(None)),
    }
}

fn numbers<'a, T: ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    name: &str,
) -> Result<Option<&'a PrimitiveArray<T>>, SegmentError> {
    match batch.column_by_name(name) {
        Some(column) => column.as_primitive_opt().map(Some).ok_or_else(|| other_type(name)),
        None => Ok(None),
    }
}

fn list<'a, T: ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    name: &str,
) -> Result<Numbers<'a, T>, SegmentError> {
    let Some(column) = batch.column_by_name(name) else {
        return Ok(Numbers { lists: None, items: None });
    };
    let lists = column.as_list_opt::<i32>().ok_or_else(|| other_type(name))?;
    let items = lists.values().as_primitive_opt::<T>().ok_or_else(|| other_type(name))?;
    Ok(Numbers { lists: Some(lists), items: Some(items) })
}

fn field_texts<'a>(of: &'a StructArray, name: &str) -> Texts<'a> {
    Texts(of.column_by_name(name).and_then(|column| column.as_string_opt()))
}

fn field_numbers<'a, T: ArrowPrimitiveType>(
    of: &'a StructArray,
    name: &str,
) -> Option<&'a PrimitiveArray<T>> {
    of.column_by_name(name).and_then(|column| column.as_primitive_opt())
}

/// The columns of addresses.
struct AddressColumns<'a> {
    whole: &'a StructArray,
    texts: [Texts<'a>; 3],
    offset: Option<&'a PrimitiveArray<UInt64Type>>,
}

impl<'a> AddressColumns<'a> {
    fn of(batch: &'a RecordBatch) -> Result<Option<Self>, SegmentError> {
        let Some(column) = batch.column_by_name("address") else { return Ok(None) };
        let whole = column.as_struct_opt().ok_or_else(|| other_type("address"))?;
        let texts = ADDRESS_TEXTS.map(|name| field_texts(whole, name));
        Ok(Some(Self { whole, texts, offset: field_numbers(whole, "offset") }))
    }

    fn get(&self, profile: &mut Profile, row: usize) -> Option<pyrograph_profile::AddressId> {
        if !self.whole.is_valid(row) {
            return None;
        }
        let [module, build_id, function] =
            self.texts.each_ref().map(|texts| profile.strings.intern(texts.get(row)));
        let offset = self.offset.map_or(0, |of| of.value(row));
        Some(profile.addresses.intern(Address { module, build_id, function, offset }))
    }
}

/// The columns of frames.
struct FrameColumns<'a> {
    lists: &'a ListArray,
    texts: [Texts<'a>; 6],
    offset: Option<&'a PrimitiveArray<UInt64Type>>,
    line: Option<&'a PrimitiveArray<UInt32Type>>,
    start_line: Option<&'a PrimitiveArray<UInt32Type>>,
    kind: Option<&'a PrimitiveArray<UInt8Type>>,
    guessed: Option<&'a BooleanArray>,
}

impl<'a> FrameColumns<'a> {
    fn of(batch: &'a RecordBatch) -> Result<Self, SegmentError> {
        let lists = batch.column_by_name("frames").and_then(|column| column.as_list_opt::<i32>());
        let lists = lists.ok_or_else(|| other_type("frames"))?;
        let frames = lists.values().as_struct_opt().ok_or_else(|| other_type("frames"))?;
        let guessed = frames.column_by_name("guessed");
        Ok(Self {
            lists,
            texts: FRAME_TEXTS.map(|name| field_texts(frames, name)),
            offset: field_numbers(frames, "offset"),
            line: field_numbers(frames, "line"),
            start_line: field_numbers(frames, "start_line"),
            kind: field_numbers(frames, "kind"),
            guessed: guessed.and_then(|column| column.as_boolean_opt()),
        })
    }

    /// The stack of a row, which has its frames leaf first.
    fn stack(&self, profile: &mut Profile, row: usize) -> Result<StackId, SegmentError> {
        let offsets = self.lists.value_offsets();
        let place = |at: usize| offsets.get(at).and_then(|of| usize::try_from(*of).ok());
        let (Some(start), Some(end)) = (place(row), place(row + 1)) else {
            return Err(other_type("frames"));
        };
        let ids = (start..end).rev().map(|at| self.frame(profile, at));
        let ids = ids.collect::<Result<Vec<FrameId>, SegmentError>>()?;
        Ok(profile.stacks.intern_path(ids))
    }

    fn frame(&self, profile: &mut Profile, at: usize) -> Result<FrameId, SegmentError> {
        let ids: [StringId; 6] =
            self.texts.each_ref().map(|texts| profile.strings.intern(texts.get(at)));
        let [module, _, function, full, plain, file] = ids;
        if full != StringId::EMPTY {
            profile.full_names.insert(function, full);
        }
        if plain != StringId::EMPTY {
            profile.full_names.insert_overload(function, plain);
        }
        let code = self.kind.map_or(0, |of| of.value(at));
        let kind = FrameKind::of_code(code)
            .ok_or_else(|| SegmentError::Damaged(format!("there is no kind {code} of frames")))?;
        let number = |of: Option<&PrimitiveArray<UInt32Type>>| of.map_or(0, |of| of.value(at));
        let frame = Frame {
            function,
            module,
            file,
            line: number(self.line),
            start_line: number(self.start_line),
            address: self.offset.map_or(0, |of| of.value(at)),
            kind,
            guessed: self.guessed.is_some_and(|of| of.value(at)),
        };
        Ok(profile.frames.intern(frame))
    }
}
