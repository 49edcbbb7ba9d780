//! Parser of the binary part of a trace: a header, and records of calls and returns.
//!
//! Numbers are little-endian. The header is `SLOW`, the version (16 bits), the length of the header (16 bits), the
//! start time in microseconds (64 bits), and, since version 3, the length of a record (16 bits). A record is a thread
//! ID (16 bits, 8 bits in version 1), a method ID whose two lowest bits are the action (call, return, return by an
//! exception; 32 bits), and microseconds since the start on each clock (32 bits): the thread's CPU time, wall-clock
//! time, or both in this order.
//!
//! The version of a streamed trace has `0xf0` in it. There, a thread ID of 0 does not begin a record, but is followed
//! by one byte with the type of item: 1 is a method (16-bit length, then its line), 2 a thread (16-bit ID, then its
//! name), 3 the text which other traces begin with (with a 32-bit length).

/// Magic bytes at the start of the header.
pub(super) const MAGIC: &[u8] = b"SLOW";

/// Bits of the version that mark a streamed trace.
const STREAMED: u16 = 0xf0;

/// True if `head` begins with the header of a streamed trace.
pub(super) fn begins(head: &[u8]) -> bool {
    let version = head.strip_prefix(MAGIC).and_then(|rest| word(rest, 0));
    version.is_some_and(|version| version & !0xf == STREAMED && version & 0xf > 0)
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_le_bytes(*word))
}

/// The binary part, for iterating over its records.
pub(super) struct Records<'a> {
    /// Start time in nanoseconds since 1970.
    pub start: u64,
    bytes: &'a [u8],
    /// Bytes per record.
    size: usize,
    /// Bytes of a thread ID.
    thread: usize,
    is_streamed: bool,
}

/// A call or a return.
pub(super) struct Record {
    pub thread: u32,
    pub method: u32,
    /// Nanoseconds since the start.
    pub time: u64,
}

/// An item of the binary part.
pub(super) enum Item<'a> {
    Record(&'a [u8]),
    /// A line of the method table.
    Method(&'a [u8]),
    Thread(u32, &'a [u8]),
    Text(&'a [u8]),
}

impl<'a> Records<'a> {
    /// Parses the header; fails with a message if the version is unknown. Before version 3 the header does not
    /// contain the length of a record.
    pub fn read(bytes: &'a [u8], is_streamed: bool, is_dual: bool) -> Result<Self, String> {
        let unknown = || "its records of calls are of no known version".to_owned();
        let header = bytes.strip_prefix(MAGIC).ok_or_else(unknown)?;
        let version = word(header, 0).ok_or_else(unknown)?;
        let version = if is_streamed { version ^ STREAMED } else { version };
        let thread = if version == 1 { 1 } else { 2 };
        let known = || -> Option<Self> {
            let offset = usize::from(word(header, 2)?);
            let start = u64::from_le_bytes(*header.get(4..)?.first_chunk()?);
            let clocks = if is_dual { 8 } else { 4 };
            let size = match version {
                3 => usize::from(word(header, 12)?),
                _ => thread + 4 + clocks,
            };
            let bytes = bytes.get(offset..)?;
            let is_known = size >= thread + 8 && offset >= 16;
            let start = start.saturating_mul(1000);
            is_known.then_some(Self { start, bytes, size, thread, is_streamed })
        };
        match version {
            2 | 3 => known().ok_or_else(unknown),
            1 if !is_streamed => known().ok_or_else(unknown),
            4..=15 => {
                Err(format!("its records of calls are of version {version}, which is not read"))
            }
            _ => Err(unknown()),
        }
    }

    /// True if a record is long enough for two clocks.
    pub fn has_two_clocks(&self) -> bool {
        self.size >= self.thread + 12
    }

    /// Iterates over all items, up to the first incomplete one.
    pub fn items(&self) -> impl Iterator<Item = Item<'a>> {
        let mut rest = self.bytes;
        std::iter::from_fn(move || self.item(&mut rest))
    }

    /// Takes the next item off `bytes`, if it is complete.
    fn item(&self, bytes: &mut &'a [u8]) -> Option<Item<'a>> {
        let mut rest = *bytes;
        let mut take = |count: usize| -> Option<&'a [u8]> {
            let (taken, after) = rest.split_at_checked(count)?;
            rest = after;
            Some(taken)
        };
        let item = if self.is_streamed && bytes.starts_with(&[0, 0]) {
            match take(3)?[2] {
                1 => {
                    let length = number(take(2)?) as usize;
                    Item::Method(take(length)?)
                }
                2 => {
                    let (thread, length) = (number(take(2)?), number(take(2)?) as usize);
                    Item::Thread(thread, take(length)?)
                }
                3 => {
                    let length = number(take(4)?) as usize;
                    Item::Text(take(length)?)
                }
                _ => return None,
            }
        } else {
            Item::Record(take(self.size)?)
        };
        *bytes = rest;
        Some(item)
    }

    /// True if there are bytes after the last complete item.
    pub fn has_rest(&self) -> bool {
        let mut rest = self.bytes;
        while self.item(&mut rest).is_some() {}
        !rest.is_empty()
    }

    /// Iterates over calls and returns, with the time of the second clock if there are two.
    pub fn iter(&self, is_dual: bool) -> impl Iterator<Item = Record> {
        let time_at = self.thread + if is_dual { 8 } else { 4 };
        self.items().filter_map(move |item| match item {
            Item::Record(record) => Some(Record {
                thread: number(&record[..self.thread]),
                method: number(&record[self.thread..self.thread + 4]),
                time: u64::from(number(&record[time_at..time_at + 4])) * 1000,
            }),
            _ => None,
        })
    }
}

/// Decodes a number of up to 32 bits.
fn number(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u32::from(byte))
}
