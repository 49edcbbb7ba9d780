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
//!
//! Versions 4 and 5 are in [blocks](super::blocks).

use super::blocks::Blocks;

/// Magic bytes at the start of the header.
pub(super) const MAGIC: &[u8] = b"SLOW";

/// Bits of the version that mark a streamed trace.
const STREAMED: u16 = 0xf0;

/// Length of the header of versions 4 and 5.
const BLOCKS_FROM: usize = 32;

/// True if `head` begins with the header of a streamed trace.
pub(super) fn begins(head: &[u8]) -> bool {
    let version = head.strip_prefix(MAGIC).and_then(|rest| word(rest, 0));
    version.is_some_and(|version| version & !0xf == STREAMED && version & 0xf > 0)
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_le_bytes(*word))
}

/// Start times below are no dates, but times since the machine was started, in microseconds: 20 years. Newer versions of Android
/// have these.
const EARLIEST: u64 = 20 * 365 * 86_400 * 1_000_000;

/// The binary part, for iterating over its records.
pub(super) struct Records<'a> {
    /// Start time in nanoseconds since 1970, if it is known.
    pub start: Option<u64>,
    /// Version of the format.
    version: u16,
    bytes: &'a [u8],
    /// Bytes per record, before version 4.
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

impl Record {
    /// A record by its time in microseconds.
    pub fn new(thread: u32, method: u32, time: u32) -> Self {
        Self { thread, method, time: u64::from(time) * 1000 }
    }
}

/// An item of the binary part.
pub(super) enum Item<'a> {
    Record(Record),
    /// A line of the method table, which begins with the method's number unless that stands beside it.
    Method(Option<u32>, &'a [u8]),
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
        let date = |start: u64| (start >= EARLIEST).then(|| start.saturating_mul(1000));
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
            let start = date(start);
            is_known.then_some(Self { start, version, bytes, size, thread, is_streamed })
        };
        let in_blocks = || -> Option<Self> {
            let start = date(u64::from_le_bytes(*header.get(2..)?.first_chunk()?));
            let bytes = bytes.get(BLOCKS_FROM..)?;
            Some(Self { start, version, bytes, size: 0, thread: 4, is_streamed })
        };
        match version {
            2 | 3 => known().ok_or_else(unknown),
            1 if !is_streamed => known().ok_or_else(unknown),
            4 | 5 => in_blocks().ok_or_else(unknown),
            6..=15 => {
                Err(format!("its records of calls are of version {version}, which is not read"))
            }
            _ => Err(unknown()),
        }
    }

    /// True if a record has two clocks, or is long enough for them.
    pub fn has_two_clocks(&self) -> bool {
        match self.version {
            ..4 => self.size >= self.thread + 12,
            version => version == 5,
        }
    }

    fn is_in_blocks(&self) -> bool {
        self.version >= 4
    }

    /// Iterates over all items, up to the first incomplete one. If records have two clocks, their time is that of the second.
    pub fn items(&self, is_dual: bool) -> impl Iterator<Item = Item<'a>> {
        let mut rest = self.bytes;
        let mut blocks = Blocks::new(self.bytes, self.has_two_clocks());
        std::iter::from_fn(move || match self.is_in_blocks() {
            true => blocks.next(),
            false => self.item(&mut rest, is_dual),
        })
    }

    /// Takes the next item off `bytes`, if it is complete.
    fn item(&self, bytes: &mut &'a [u8], is_dual: bool) -> Option<Item<'a>> {
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
                    Item::Method(None, take(length)?)
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
            let record = take(self.size)?;
            let at = |from: usize| number(&record[from..from + 4]);
            let time = at(self.thread + if is_dual { 8 } else { 4 });
            Item::Record(Record::new(number(&record[..self.thread]), at(self.thread), time))
        };
        *bytes = rest;
        Some(item)
    }

    /// True if there are bytes after the last complete item.
    pub fn has_rest(&self) -> bool {
        if self.is_in_blocks() {
            let mut blocks = Blocks::new(self.bytes, self.has_two_clocks());
            while blocks.next().is_some() {}
            return !blocks.is_at_end();
        }
        let mut rest = self.bytes;
        while self.item(&mut rest, false).is_some() {}
        !rest.is_empty()
    }

    /// Iterates over calls and returns; see [`Records::items`].
    pub fn iter(&self, is_dual: bool) -> impl Iterator<Item = Record> {
        self.items(is_dual).filter_map(|item| match item {
            Item::Record(record) => Some(record),
            _ => None,
        })
    }
}

/// Decodes a number of up to 32 bits.
pub(super) fn number(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u32::from(byte))
}
