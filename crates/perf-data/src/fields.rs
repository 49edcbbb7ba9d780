//! Reads numbers and strings from the front of a byte slice, in the file's byte order.

use std::ops::Range;

use pyrograph_event::ByteOrder;

/// Bytes that have not been read yet.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> Fields<'a> {
    pub fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Self { bytes, order }
    }

    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }

    pub fn rest(self) -> &'a [u8] {
        self.bytes
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.number(u16::from_le_bytes, u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.number(u32::from_le_bytes, u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.number(u64::from_le_bytes, u64::from_be_bytes)
    }

    fn number<const N: usize, T>(
        &mut self,
        little: fn([u8; N]) -> T,
        big: fn([u8; N]) -> T,
    ) -> Option<T> {
        let (bytes, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(match self.order {
            ByteOrder::Little => little(*bytes),
            ByteOrder::Big => big(*bytes),
        })
    }

    /// Reads the offset and size of a file section; `None` if it ends beyond 2^64.
    pub fn section(&mut self) -> Option<Range<u64>> {
        let (start, size) = (self.u64()?, self.u64()?);
        Some(start..start.checked_add(size)?)
    }

    /// Reads the bytes up to the next zero byte, and skips that.
    pub fn c_string(&mut self) -> Option<&'a [u8]> {
        let text = self.take(memchr::memchr(0, self.bytes)?)?;
        self.take(1)?;
        Some(text)
    }

    /// Reads a string that is preceded by its length and padded with zeros.
    pub fn string(&mut self) -> Option<String> {
        let len = self.u32()?;
        self.take(usize::try_from(len).ok()?).map(text)
    }
}

/// Returns the text before the first zero byte.
pub fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// Returns the part of `bytes` that a section covers, as far as it exists.
pub fn slice<'a>(bytes: &'a [u8], section: &Range<u64>) -> &'a [u8] {
    let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
    bytes.get(at(section.start)..at(section.end)).unwrap_or_default()
}
