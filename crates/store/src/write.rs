//! Writing a profile as a segment.

use std::sync::Arc;

use arrow_array::ArrowPrimitiveType;
use arrow_array::types::{Int32Type, Int64Type, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeBinaryArray, ListArray, PrimitiveArray, RecordBatch,
    StringArray, StructArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::DataType;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;
use pyrograph_profile::{Frame, FrameId, FrameKind, Profile, StringId};

use crate::checksum;
use crate::error::SegmentError;
use crate::footer::{CODE_KEY, Event, Footer, KEY, Kept};
use crate::groups::{Group, groups};
use crate::owner::{Owner, owner};
use crate::schema::{self, STEPS};

/// Rows of a row group at most.
const MOST_ROWS: usize = 65_536;
/// Frames of a row group at most, so that it fits in memory.
const MOST_FRAMES: usize = 4 << 20;

/// Returns a profile as the bytes of a segment.
///
/// # Errors
///
/// If it is larger than the format allows.
pub fn write_segment(profile: &Profile) -> Result<Vec<u8>, SegmentError> {
    write_kept(profile, None)
}

/// Same as [`write_segment`], for a store.
pub fn write_kept(profile: &Profile, kept: Option<Kept>) -> Result<Vec<u8>, SegmentError> {
    let mut footer = Footer { kept, ..Footer::of(profile) };
    let mut writer = ArrowWriter::try_new(Vec::new(), schema::schema(), Some(properties()?))?;
    let groups = groups(profile);
    let mut start = 0;
    for event in footer.events() {
        let rows = Rows { profile, first: footer.first, hosts: footer.hosts, event };
        let mut rest = &groups[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rows_of_group(profile, rest));
            writer.write(&rows.batch(now)?)?;
            writer.flush()?;
            let written = writer.inner();
            let end = written.len();
            footer.groups.push((end as u64, checksum::of(&written[start..])));
            (start, rest) = (end, later);
        }
    }
    let text = serde_json::to_string(&footer);
    let text = text.map_err(|error| SegmentError::Damaged(error.to_string()))?;
    writer.append_key_value_metadata(KeyValue::new(KEY.to_owned(), text));
    if !profile.code.is_empty() {
        let code = serde_json::to_string(&profile.code);
        let code = code.map_err(|error| SegmentError::Damaged(error.to_string()))?;
        writer.append_key_value_metadata(KeyValue::new(CODE_KEY.to_owned(), code));
    }
    let (key, digits) = checksum::placeholder();
    writer.append_key_value_metadata(KeyValue::new(key, digits));
    let mut bytes = writer.into_inner()?;
    checksum::seal(&mut bytes, start)?;
    Ok(bytes)
}

fn properties() -> Result<WriterProperties, SegmentError> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_max_row_group_row_count(Some(MOST_ROWS))
        .set_created_by(format!("pyrograph {}", env!("CARGO_PKG_VERSION")));
    for column in STEPS {
        let path = ColumnPath::from(column.split('.').map(str::to_owned).collect::<Vec<_>>());
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    Ok(properties.build())
}

/// Number of the first groups that make up a row group.
fn rows_of_group(profile: &Profile, groups: &[Group]) -> usize {
    let mut frames = 0;
    let fits = |group: &&Group| {
        frames += profile.stacks.leaf_first(group.stack).count() + group.samples.len();
        frames <= MOST_FRAMES
    };
    groups.iter().take(MOST_ROWS).take_while(fits).count().max(1)
}

/// What the rows of an event have in common.
struct Rows<'a> {
    profile: &'a Profile,
    first: u64,
    /// See [`Footer::hosts`].
    hosts: bool,
    event: Event,
}

impl Rows<'_> {
    fn batch(&self, groups: &[Group]) -> Result<RecordBatch, SegmentError> {
        let mut columns: Vec<ArrayRef> = vec![
            texts(groups.iter().map(|_| Some(&*self.event.value.name))),
            texts(groups.iter().map(|_| Some(&*self.event.value.unit))),
        ];
        columns.extend(self.owners(groups));
        columns.push(Arc::new(FixedSizeBinaryArray::try_from_iter(
            groups.iter().map(|group| group.hash.to_be_bytes()),
        )?));
        columns.extend(self.sums(groups));
        columns.extend(self.lists(groups)?);
        columns.push(self.addresses(groups)?);
        columns.push(self.frames(groups)?);
        Ok(RecordBatch::try_new(schema::schema(), columns)?)
    }

    fn owners(&self, groups: &[Group]) -> Vec<ArrayRef> {
        let thread = |group: &Group| self.profile.threads.get(group.thread);
        let text = |of: fn(pyrograph_profile::Thread) -> StringId| {
            texts(groups.iter().map(|group| self.text(of(thread(group)))))
        };
        let none = || texts(groups.iter().map(|_| None));
        let owners: Vec<Owner> = groups
            .iter()
            .map(|group| {
                let of = thread(group);
                owner(self.profile.strings.get(of.cgroup), self.profile.strings.get(of.process))
            })
            .collect();
        let owner = |part: fn(&Owner) -> &str| {
            texts(owners.iter().map(|of| Some(part(of)).filter(|text| !text.is_empty())))
        };
        vec![
            none(),
            texts(groups.iter().map(|group| {
                let one = self.profile.about.host.as_deref().filter(|_| !self.hosts);
                self.text(thread(group).host).or(one)
            })),
            owner(|of| &of.service),
            owner(|of| &of.container),
            owner(|of| &of.pod),
            text(|of| of.process),
            none(),
            text(|of| of.name),
            text(|of| of.cgroup),
            text(|of| of.command_line),
            text(|of| of.field),
            numbers::<Int32Type>(groups.iter().map(|group| thread(group).pid)),
            numbers::<Int32Type>(groups.iter().map(|group| thread(group).tid)),
        ]
    }

    fn sums(&self, groups: &[Group]) -> Vec<ArrayRef> {
        let sum = |column: usize| {
            let values = self.profile.samples.values(column);
            let sum = |group: &Group| {
                group
                    .samples
                    .iter()
                    .fold(0u64, |sum, row| sum.saturating_add(values[*row as usize]))
            };
            groups.iter().map(sum).map(Some).collect::<Vec<_>>()
        };
        let period = self.profile.about.period.as_ref();
        let period = period.filter(|(of, _)| of.name == self.event.value.name && of.decimals == 0);
        let counts = match self.event.counts {
            Some(column) => sum(column),
            None => vec![None; groups.len()],
        };
        vec![
            numbers::<UInt64Type>(groups.iter().map(|_| period.map(|(_, length)| *length))),
            numbers::<UInt64Type>(counts),
            numbers::<UInt64Type>(sum(self.event.values)),
        ]
    }

    fn lists(&self, groups: &[Group]) -> Result<Vec<ArrayRef>, SegmentError> {
        let samples = &self.profile.samples;
        let rows = || groups.iter().flat_map(|group| &group.samples).map(|row| *row as usize);
        let lengths = || groups.iter().map(|group| group.samples.len());
        let column = |column: usize| {
            let values = samples.values(column);
            numbers::<UInt64Type>(rows().map(|row| Some(values[row])))
        };
        let at = rows().map(|row| {
            samples.get(row).time.map(|time| time.wrapping_sub(self.first).cast_signed())
        });
        let has_times = rows().any(|row| samples.get(row).time.is_some());
        let has_cpus = rows().any(|row| samples.get(row).cpu.is_some());
        let at = numbers::<Int64Type>(at);
        let cpus = numbers::<UInt32Type>(rows().map(|row| samples.get(row).cpu));
        let order = numbers::<UInt32Type>(rows().map(|row| u32::try_from(row).ok()));
        Ok(vec![
            list(has_times.then_some(at), DataType::Int64, true, lengths())?,
            list(self.event.counts.map(column), DataType::UInt64, false, lengths())?,
            list(Some(column(self.event.values)), DataType::UInt64, false, lengths())?,
            list(has_cpus.then_some(cpus), DataType::UInt32, true, lengths())?,
            list(Some(order), DataType::UInt32, false, lengths())?,
        ])
    }

    fn addresses(&self, groups: &[Group]) -> Result<ArrayRef, SegmentError> {
        let of = |group: &Group| group.address.map(|id| self.profile.addresses.get(id));
        let text = |part: fn(pyrograph_profile::Address) -> StringId| {
            texts(groups.iter().map(|group| self.text(part(of(group)?))))
        };
        let columns = vec![
            text(|of| of.module),
            text(|of| of.build_id),
            text(|of| of.function),
            numbers::<UInt64Type>(
                groups.iter().map(|group| Some(of(group).map_or(0, |of| of.offset))),
            ),
        ];
        let known: NullBuffer =
            groups.iter().map(|group| group.address.is_some()).collect::<Vec<_>>().into();
        Ok(Arc::new(StructArray::try_new(schema::address_fields(), columns, Some(known))?))
    }

    fn frames(&self, groups: &[Group]) -> Result<ArrayRef, SegmentError> {
        let profile = self.profile;
        let ids: Vec<FrameId> =
            groups.iter().flat_map(|group| profile.stacks.leaf_first(group.stack)).collect();
        let lengths = groups.iter().map(|group| profile.stacks.leaf_first(group.stack).count());
        let frame = |id: &FrameId| profile.frames.get(*id);
        let text =
            |part: fn(Frame) -> StringId| texts(ids.iter().map(|id| self.text(part(frame(id)))));
        let full = |id: &FrameId| self.text(profile.full_names.get(frame(id).function)?);
        let plain = |id: &FrameId| self.text(profile.full_names.plain(frame(id).function)?);
        let is = |of: fn(Frame) -> bool| -> ArrayRef {
            Arc::new(BooleanArray::from(ids.iter().map(|id| of(frame(id))).collect::<Vec<_>>()))
        };
        let columns = vec![
            text(|of| of.module),
            texts(ids.iter().map(|_| None)),
            text(|of| of.function),
            texts(ids.iter().map(full)),
            texts(ids.iter().map(plain)),
            text(|of| of.file),
            numbers::<UInt64Type>(ids.iter().map(|id| Some(frame(id).address))),
            numbers::<UInt32Type>(ids.iter().map(|id| Some(frame(id).line))),
            numbers::<UInt32Type>(ids.iter().map(|id| Some(frame(id).start_line))),
            is(|of| of.kind == FrameKind::Inlined),
            is(|of| of.guessed),
            numbers::<UInt8Type>(ids.iter().map(|id| Some(frame(id).kind.code()))),
        ];
        let fields = schema::frame_fields();
        let items: ArrayRef = Arc::new(StructArray::try_new(fields.clone(), columns, None)?);
        list(Some(items), DataType::Struct(fields), false, lengths)
    }

    fn text(&self, id: StringId) -> Option<&str> {
        Some(self.profile.strings.get(id)).filter(|text| !text.is_empty())
    }
}

fn texts<'a>(all: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    Arc::new(all.collect::<StringArray>())
}

fn numbers<T: ArrowPrimitiveType>(all: impl IntoIterator<Item = Option<T::Native>>) -> ArrayRef {
    Arc::new(all.into_iter().collect::<PrimitiveArray<T>>())
}

/// A column of lists, one behind the other in `items`; `None`: they are not known.
fn list(
    items: Option<ArrayRef>,
    of: DataType,
    nullable: bool,
    lengths: impl Iterator<Item = usize>,
) -> Result<ArrayRef, SegmentError> {
    let item = schema::item(of, nullable);
    let Some(items) = items else {
        return Ok(Arc::new(ListArray::new_null(item, lengths.count())));
    };
    if i32::try_from(items.len()).is_err() {
        return Err(SegmentError::TooLarge(format!("{} samples or frames", items.len())));
    }
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::try_new(item, offsets, items, None)?))
}
