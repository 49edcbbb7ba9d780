//! The records of a file, one after the other.

use pyrograph_event::{ByteOrder, Header, kind};

use crate::fields::Fields;

/// An event's attributes and IDs, in a pipe.
pub const HEADER_ATTR: u32 = 64;
/// The formats of tracepoints, in a pipe. What they are follows the record.
pub const HEADER_TRACING_DATA: u32 = 66;
/// A file's build ID, in a pipe.
pub const HEADER_BUILD_ID: u32 = 67;
/// Data of a hardware trace. It follows the record.
pub const AUXTRACE: u32 = 71;
/// An event's name or unit.
pub const EVENT_UPDATE: u32 = 78;
/// A feature, in a pipe.
pub const HEADER_FEATURE: u32 = 80;
/// Packed records.
pub const COMPRESSED: u32 = 81;
/// The same, filled up to a multiple of 8 bytes; since Linux 6.16.
pub const COMPRESSED2: u32 = 83;

/// A record where it is.
#[derive(Clone, Copy, Debug)]
pub struct RawRecord<'a> {
    /// Its type.
    pub kind: u32,
    /// Where it begins.
    pub offset: usize,
    /// All of it, its header included.
    pub bytes: &'a [u8],
    /// The bytes behind it that belong to it, though its size does not say so.
    pub payload: &'a [u8],
}

/// Goes through records up to the end or the first damage.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
    offset: usize,
    damage: Option<String>,
}

impl<'a> Records<'a> {
    /// The records of `bytes`.
    pub fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Self { bytes, order, offset: 0, damage: None }
    }

    /// Where the next record is.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The damage at that place, after the last record.
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

/// Number of bytes that follow a record though its size does not count them.
fn payload_size(kind: u32, record: &[u8], order: ByteOrder) -> Option<usize> {
    let mut from = Fields::new(&record[Header::SIZE..], order);
    match kind {
        HEADER_TRACING_DATA => usize::try_from(from.u32()?).ok()?.checked_next_multiple_of(8),
        _ => usize::try_from(from.u64()?).ok(),
    }
}
