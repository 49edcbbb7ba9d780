//! The binary part of a trace: a header, and records of calls and returns.
//!
//! Numbers are little-endian. The header is `SLOW`, the version (16 bits), the length of the header (16 bits), the time at its
//! start in microseconds (64 bits), and, from version 3 on, the length of a record (16 bits). A record is a thread (16 bits,
//! in version 1 8 bits), a method with what happened in its two lowest bits (call, return, return by an exception; 32
//! bits), and microseconds since the start by each clock (32 bits): the thread's CPU time, the time, or both in this order.
//!
//! Of a streamed trace the version has `0xf0` in it. A thread 0 begins no record there, but one byte that says what follows:
//! 1 is a method (its line, and before that its length, 16 bits), 2 a thread (16 bits, and its name), 3 the text that other traces
//! begin with (its length has 32 bits).

/// The first bytes of the header.
pub(super) const MAGIC: &[u8] = b"SLOW";

/// Of a version, that the trace was streamed.
const STREAMED: u16 = 0xf0;

/// True if bytes begin with the header of a streamed trace.
pub(super) fn begins(head: &[u8]) -> bool {
    let version = head.strip_prefix(MAGIC).and_then(|rest| word(rest, 0));
    version.is_some_and(|version| version & !0xf == STREAMED && version & 0xf > 0)
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_le_bytes(*word))
}

/// All records.
pub(super) struct Records<'a> {
    /// Nanoseconds.
    pub start: u64,
    bytes: &'a [u8],
    /// Bytes of a record.
    size: usize,
    /// Bytes of a thread's number.
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

/// What stands in the binary part.
pub(super) enum Item<'a> {
    Record(&'a [u8]),
    /// A line of the table of methods.
    Method(&'a [u8]),
    Thread(u32, &'a [u8]),
    Text(&'a [u8]),
}

impl<'a> Records<'a> {
    /// The records behind a header, or why there are none. Versions before 3 do not say how long a record is.
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

    /// Everything, up to the first that is not whole.
    pub fn items(&self) -> impl Iterator<Item = Item<'a>> {
        let mut rest = self.bytes;
        std::iter::from_fn(move || self.item(&mut rest))
    }

    /// Takes the next one off `bytes`, if it is whole.
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

    /// True if there are bytes after the last whole record.
    pub fn has_rest(&self) -> bool {
        let mut rest = self.bytes;
        while self.item(&mut rest).is_some() {}
        !rest.is_empty()
    }

    /// Calls and returns, by the second of two clocks if there are.
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

/// A number of up to 32 bits.
fn number(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u32::from(byte))
}
