//! Layout of an event's records, derived from the event's attributes.

use crate::attr::{Attr, flag, sample_type};
use crate::cursor::{ByteOrder, Cursor, DecodeError, word};
use crate::header::{Header, kind};
use crate::record::{Record, SampleId};

/// Layout of the records of an event, for decoding them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) branch_sample_type: u64,
    pub(crate) regs_user: u64,
    pub(crate) regs_intr: u64,
    /// Period of all samples, if it is fixed and samples do not contain it.
    pub(crate) period: Option<u64>,
    pub(crate) sample_id_all: bool,
    pub(crate) build_id: bool,
    pub(crate) order: ByteOrder,
}

/// Fields at the end of all records except samples, in their order.
const TRAILER: u64 = sample_type::TID
    | sample_type::TIME
    | sample_type::ID
    | sample_type::STREAM_ID
    | sample_type::CPU
    | sample_type::IDENTIFIER;

impl Layout {
    /// Layout of records that this machine's kernel writes.
    pub fn new(attr: &Attr) -> Self {
        let order = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };
        Self::with_order(attr, order)
    }

    /// Layout of records that were written on a machine with this byte order.
    pub fn with_order(attr: &Attr, order: ByteOrder) -> Self {
        Self {
            sample_type: attr.sample_type,
            read_format: attr.read_format,
            branch_sample_type: attr.branch_sample_type,
            regs_user: attr.sample_regs_user,
            regs_intr: attr.sample_regs_intr,
            period: (!attr.has(flag::FREQ) && attr.sample_type & sample_type::PERIOD == 0)
                .then_some(attr.sample_period.max(1)),
            sample_id_all: attr.has(flag::SAMPLE_ID_ALL),
            build_id: attr.has(flag::BUILD_ID),
            order,
        }
    }

    /// Period of all samples, if it is fixed and samples do not contain it.
    pub fn fixed_period(&self) -> Option<u64> {
        self.period
    }

    /// Byte order of the records.
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// Contents of a sample, bits of [`sample_type`].
    pub fn sample_type(&self) -> u64 {
        self.sample_type
    }

    /// Contents of the counts in a sample, bits of [`read_format`](crate::read_format).
    pub fn read_format(&self) -> u64 {
        self.read_format
    }

    /// Returns the layout with support for build IDs in MMAP2 records, even if this event does not request them. Needed
    /// if another event in the same file does: the records that `perf record` itself writes for mappings from before the
    /// recording belong to no event.
    #[must_use]
    pub fn with_build_ids(mut self) -> Self {
        self.build_id = true;
        self
    }

    /// Decodes the record at the start of `bytes`. Bytes after its end are ignored.
    ///
    /// # Errors
    ///
    /// If `bytes` are fewer than the size in the header, or if the record is too short for its contents.
    pub fn decode<'a>(&self, bytes: &'a [u8]) -> Result<Record<'a>, DecodeError> {
        let header = Header::parse(bytes, self.order)?;
        let record = &bytes[..usize::from(header.size)];
        if header.kind == kind::SAMPLE {
            return self.decode_sample(header, record).map(Record::Sample);
        }
        self.decode_other(header, record)
    }

    /// Time of the record in nanoseconds, without decoding the rest. `None` if the event's records have no time, and for
    /// records that perf itself writes (type 64 and up).
    ///
    /// `record` is one whole record.
    #[inline]
    pub fn time(&self, record: &[u8]) -> Option<u64> {
        let before = sample_type::IDENTIFIER | sample_type::IP | sample_type::TID;
        let after =
            sample_type::ID | sample_type::STREAM_ID | sample_type::CPU | sample_type::IDENTIFIER;
        self.peek(record, sample_type::TIME, before, after)
    }

    /// ID of the event that wrote the record, without decoding the rest. If several events share a buffer, it selects the
    /// layout of the record. `None` if records have no ID.
    ///
    /// `record` is one whole record.
    #[inline]
    pub fn event_id(&self, record: &[u8]) -> Option<u64> {
        if self.sample_type & sample_type::IDENTIFIER != 0 {
            return self.peek(record, sample_type::IDENTIFIER, 0, 0);
        }
        let before = sample_type::IP | sample_type::TID | sample_type::TIME | sample_type::ADDR;
        self.peek(record, sample_type::ID, before, sample_type::STREAM_ID | sample_type::CPU)
    }

    /// Reads the word `field`. In a sample it follows the words `before`; in other records it precedes the words `after`,
    /// which are at the end.
    #[inline]
    fn peek(&self, record: &[u8], field: u64, before: u64, after: u64) -> Option<u64> {
        if self.sample_type & field == 0 {
            return None;
        }
        let words = |fields: u64| (self.sample_type & fields).count_ones() as usize;
        let kind = Cursor::new(record, self.order).u32()?;
        let start = if kind == kind::SAMPLE {
            Header::SIZE + 8 * words(before)
        } else if self.sample_id_all && kind < kind::FIRST_OF_PERF {
            record
                .len()
                .checked_sub(8 * (words(after) + 1))
                .filter(|start| *start >= Header::SIZE)?
        } else {
            return None;
        };
        record.get(start..)?.first_chunk().map(|chunk| word(*chunk, self.order))
    }

    /// Number of bytes of the [`SampleId`] at the end of all records except samples.
    pub(crate) fn trailer_len(&self) -> usize {
        if self.sample_id_all { 8 * (self.sample_type & TRAILER).count_ones() as usize } else { 0 }
    }

    /// Splits a record's body (the bytes after the header) into its own fields and its [`SampleId`].
    pub(crate) fn split_trailer<'a>(&self, body: &'a [u8]) -> Option<(Cursor<'a>, SampleId)> {
        let (own, trailer) = body.split_at_checked(body.len().checked_sub(self.trailer_len())?)?;
        let mut from = Cursor::new(trailer, self.order);
        let mut id = SampleId::default();
        if !self.sample_id_all {
            return Some((Cursor::new(own, self.order), id));
        }
        if self.sample_type & sample_type::TID != 0 {
            (id.pid, id.tid) = (Some(from.i32()?), Some(from.i32()?));
        }
        if self.sample_type & sample_type::TIME != 0 {
            id.time = Some(from.u64()?);
        }
        if self.sample_type & sample_type::ID != 0 {
            id.id = Some(from.u64()?);
        }
        if self.sample_type & sample_type::STREAM_ID != 0 {
            id.stream_id = Some(from.u64()?);
        }
        if self.sample_type & sample_type::CPU != 0 {
            id.cpu = Some(from.u32()?);
            from.u32()?;
        }
        if self.sample_type & sample_type::IDENTIFIER != 0 {
            id.id = Some(from.u64()?);
        }
        Some((Cursor::new(own, self.order), id))
    }
}
