//! Reads numbers from the front of a record.

use crate::header::kind;

/// Byte order of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first: x86-64, aarch64 and nearly all others.
    #[default]
    Little,
    /// Most significant byte first: s390x, and `perf.data` files from such machines.
    Big,
}

/// Reason why a record could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// There are fewer bytes than a header has.
    #[error("record of {len} bytes is shorter than its header")]
    Header {
        /// Number of bytes available.
        len: usize,
    },
    /// The size in the header is below the header's own size, or larger than the bytes available.
    #[error("{} record says it has {size} bytes where {len} are", kind::name(*.kind))]
    Size {
        /// The record's type.
        kind: u32,
        /// The size in the record's header.
        size: u16,
        /// Number of bytes available.
        len: usize,
    },
    /// The record is too short for the contents that the event's attributes request.
    #[error("{} record of {size} bytes ends within its {field}", kind::name(*.kind))]
    Truncated {
        /// The record's type.
        kind: u32,
        /// Its size in bytes.
        size: u16,
        /// The part that is incomplete.
        field: &'static str,
    },
}

/// Reader over the unread rest of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Self { bytes, order }
    }

    /// Takes the next `len` bytes; `None` if there are fewer.
    #[inline]
    pub(crate) fn take(&mut self, len: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(usize::try_from(len).ok()?)?;
        self.bytes = rest;
        Some(taken)
    }

    /// Takes the next `count` 64-bit words, as bytes; `None` if there are fewer.
    #[inline]
    pub(crate) fn words(&mut self, count: u64) -> Option<&'a [u8]> {
        self.take(count.checked_mul(8)?)
    }

    /// Returns all unread bytes.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.bytes
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>()?;
        self.bytes = rest;
        Some(*taken)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(|bytes| match self.order {
            ByteOrder::Little => u16::from_le_bytes(bytes),
            ByteOrder::Big => u16::from_be_bytes(bytes),
        })
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(|bytes| match self.order {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        })
    }

    #[inline]
    pub(crate) fn i32(&mut self) -> Option<i32> {
        self.u32().map(u32::cast_signed)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(|bytes| word(bytes, self.order))
    }
}

/// Decodes one 64-bit number.
#[inline]
pub(crate) fn word(bytes: [u8; 8], order: ByteOrder) -> u64 {
    match order {
        ByteOrder::Little => u64::from_le_bytes(bytes),
        ByteOrder::Big => u64::from_be_bytes(bytes),
    }
}

/// Decodes the 64-bit number at index `index` of `bytes`, which need not be aligned.
#[inline]
pub(crate) fn word_at(bytes: &[u8], index: usize, order: ByteOrder) -> Option<u64> {
    let start = index.checked_mul(8)?;
    bytes.get(start..)?.first_chunk().map(|chunk| word(*chunk, order))
}
