//! Iterates over the records of a file.

use pyrograph_event::{ByteOrder, Header, kind};

use crate::fields::Fields;

/// Attributes and IDs of an event, in a pipe.
pub const HEADER_ATTR: u32 = 64;
/// Formats of tracepoints, in a pipe. They follow the record.
pub const HEADER_TRACING_DATA: u32 = 66;
/// Build ID of a file, in a pipe.
pub const HEADER_BUILD_ID: u32 = 67;
/// Data of a hardware trace, which follows the record.
pub const AUXTRACE: u32 = 71;
/// Name or unit of an event.
pub const EVENT_UPDATE: u32 = 78;
/// A feature, in a pipe.
pub const HEADER_FEATURE: u32 = 80;
/// Compressed records.
pub const COMPRESSED: u32 = 81;
/// The same, padded to a multiple of 8 bytes; since Linux 6.16.
pub const COMPRESSED2: u32 = 83;

/// An undecoded record.
#[derive(Clone, Copy, Debug)]
pub struct RawRecord<'a> {
    /// Record type.
    pub kind: u32,
    /// Offset at which it begins.
    pub offset: usize,
    /// The whole record, including its header.
    pub bytes: &'a [u8],
    /// Data that belongs to the record and follows it, but is not included in its size.
    pub payload: &'a [u8],
}

/// Iterator that ends at the end of the data or at the first damage.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
    offset: usize,
    damage: Option<String>,
}

impl<'a> Records<'a> {
    /// Iterates over the records in `bytes`.
    pub fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Self { bytes, order, offset: 0, damage: None }
    }

    /// Returns the offset of the next record.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the damage at that offset, if there is any.
    pub fn damage(&self) -> Option<String> {
        self.damage.clone()
    }

    #[inline]
    fn read(&mut self) -> Result<RawRecord<'a>, &'static str> {
        let rest = &self.bytes[self.offset..];
        let (kind, size) = match (self.order, rest.first_chunk::<8>()) {
            (_, None) => return Err("it ends within a record's header"),
            (ByteOrder::Little, Some(&[a, b, c, d, _, _, e, f])) => {
                (u32::from_le_bytes([a, b, c, d]), u16::from_le_bytes([e, f]))
            }
            (ByteOrder::Big, Some(&[a, b, c, d, _, _, e, f])) => {
                (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f]))
            }
        };
        let size = usize::from(size);
        if size < Header::SIZE {
            return Err("a record's size is less than that of its header");
        }
        let bytes = rest.get(..size).ok_or("it ends within a record")?;
        let mut payload: &[u8] = &[];
        if kind >= kind::FIRST_OF_PERF && matches!(kind, HEADER_TRACING_DATA | AUXTRACE) {
            let follows = payload_size(kind, bytes, self.order);
            let follows = follows.ok_or("a record is too short for its fields")?;
            payload = rest[size..].get(..follows).ok_or("it ends within what follows a record")?;
        }
        Ok(RawRecord { kind, offset: self.offset, bytes, payload })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = RawRecord<'a>;

    #[inline]
    fn next(&mut self) -> Option<RawRecord<'a>> {
        if self.offset >= self.bytes.len() || self.damage.is_some() {
            return None;
        }
        match self.read() {
            Ok(record) => {
                self.offset += record.bytes.len() + record.payload.len();
                Some(record)
            }
            Err(reason) => {
                self.damage = Some(reason.to_owned());
                None
            }
        }
    }
}

/// Returns the size of the data that follows a record but is not included in its size.
fn payload_size(kind: u32, record: &[u8], order: ByteOrder) -> Option<usize> {
    let mut from = Fields::new(&record[Header::SIZE..], order);
    match kind {
        HEADER_TRACING_DATA => usize::try_from(from.u32()?).ok()?.checked_next_multiple_of(8),
        _ => usize::try_from(from.u64()?).ok(),
    }
}
