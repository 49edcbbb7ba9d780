//! Parser of the binary part of traces of versions 4 (one clock) and 5 (two clocks), which Android 16 writes on request.
//!
//! Numbers are little-endian. The header of 32 bytes is `SLOW`, the version (16 bits, with `0xf0` in a streamed trace) and the
//! start time in microseconds (64 bits). Items follow, each with its type in one byte:
//!
//! - 0, a thread: its ID (32 bits), the length of its name (16 bits), its name.
//! - 1, a method: its number (32 bits), the length of its line (16 bits), its line.
//! - 2, calls and returns of one thread: its ID (32 bits); the first of them, as in other versions (method and action, 32 bits;
//!   CPU time, time or both, 32 bits each); how many follow (16 bits) and how many bytes they take (16 bits). Each that follows
//!   has the difference of its method and action to the first (signed LEB128), and of its time and CPU time to the one before
//!   (LEB128 each). Buffers hold more than the 16 bits can say: both numbers are what is left of them, and a block ends where
//!   both agree and something follows that looks like an item.
//! - 3, the text that other traces begin with: its length (16 bits), the text.
//!
//! Source: `FlushEntriesFormatV2`, `EncodeEventBlockHeader`, `RecordMethodInfo` and `RecordThreadInfo` in `trace.cc` of ART.

use super::records::{Item, Record, number};

/// Bits of a method's number that hold the action.
const ACTION_BITS: u32 = 2;

/// Entries of a thread's buffer, of which a record takes two or more: a block has no more records.
const MOST_RECORDS: usize = 512 * 1024 / 2;

/// The kernel's limit of thread IDs (`PID_MAX_LIMIT`).
const MOST_THREADS: u32 = 1 << 22;

/// Iterator over the items, up to the first that is incomplete or unknown.
pub(super) struct Blocks<'a> {
    rest: &'a [u8],
    is_dual: bool,
    open: Option<Block>,
}

/// Records that are being read.
struct Block {
    thread: u32,
    /// Method and action of the first.
    first: u32,
    /// Time of the last one that was read, in microseconds.
    time: u32,
    /// Number of records read after the first, and of their bytes.
    records: usize,
    bytes: usize,
    /// Numbers of records and bytes after the first record, as its header has them: modulo 65,536.
    count: u16,
    size: u16,
}

impl Block {
    fn may_be_done(&self) -> bool {
        self.records as u16 == self.count && self.bytes as u16 == self.size
    }
}

impl<'a> Blocks<'a> {
    pub fn new(bytes: &'a [u8], is_dual: bool) -> Self {
        Self { rest: bytes, is_dual, open: None }
    }

    /// True if there is nothing after the last complete item.
    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty() && self.open.as_ref().is_none_or(Block::may_be_done)
    }

    /// Takes an item other than the records of a block after the first.
    fn item(&mut self) -> Option<Item<'a>> {
        let mut rest = self.rest;
        let mut take = |count: usize| -> Option<&'a [u8]> {
            let (taken, after) = rest.split_at_checked(count)?;
            rest = after;
            Some(taken)
        };
        let item = match take(1)?[0] {
            0 => {
                let (thread, length) = (number(take(4)?), number(take(2)?) as usize);
                Item::Thread(thread, take(length)?)
            }
            1 => {
                let (method, length) = (number(take(4)?), number(take(2)?) as usize);
                Item::Method(Some(method << ACTION_BITS), take(length)?)
            }
            2 => {
                let (thread, first) = (number(take(4)?), number(take(4)?));
                if self.is_dual {
                    take(4)?;
                }
                let time = number(take(4)?);
                let (count, size) = (number(take(2)?) as u16, number(take(2)?) as u16);
                let (records, bytes) = (0, 0);
                self.open = Some(Block { thread, first, time, records, bytes, count, size });
                Item::Record(Record::new(thread, first, time))
            }
            3 => {
                let length = number(take(2)?) as usize;
                Item::Text(take(length)?)
            }
            _ => return None,
        };
        self.rest = rest;
        Some(item)
    }

    /// True if the rest looks like an item, or is empty.
    fn is_at_item(&self) -> bool {
        let Some((&kind, rest)) = self.rest.split_first() else { return true };
        let of_length = |from: usize| {
            let length = number(rest.get(from..from + 2)?) as usize;
            rest.get(from + 2..)?.get(..length)
        };
        match kind {
            0 => of_length(4).is_some_and(|name| name.iter().all(|&byte| byte >= b' ')),
            1 => of_length(4).is_some_and(|line| line.contains(&b'\t') && line.ends_with(b"\n")),
            2 => rest.get(..4).is_some_and(|thread| (1..=MOST_THREADS).contains(&number(thread))),
            3 => of_length(0).is_some_and(|text| text.starts_with(b"*")),
            _ => false,
        }
    }

    /// Takes the next record of a block.
    fn record(&mut self) -> Option<Item<'a>> {
        let block = self.open.as_mut()?;
        let mut rest = self.rest;
        let method = signed(&mut rest)?;
        block.time = block.time.wrapping_add(unsigned(&mut rest)?);
        if self.is_dual {
            unsigned(&mut rest)?;
        }
        block.records += 1;
        block.bytes += self.rest.len() - rest.len();
        self.rest = rest;
        let method = block.first.wrapping_add_signed(method);
        Some(Item::Record(Record::new(block.thread, method, block.time)))
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        match &self.open {
            Some(block) if block.may_be_done() && self.is_at_item() => self.open = None,
            Some(block) if block.records >= MOST_RECORDS => return None,
            Some(_) => return self.record(),
            None => {}
        }
        self.item()
    }
}

/// Decodes LEB128 of up to 32 bits.
fn unsigned(bytes: &mut &[u8]) -> Option<u32> {
    let (value, _) = leb128(bytes)?;
    Some(value)
}

/// Decodes signed LEB128 of up to 32 bits.
fn signed(bytes: &mut &[u8]) -> Option<i32> {
    let (value, bits) = leb128(bytes)?;
    let unused = 32_u32.saturating_sub(bits);
    Some((value << unused).cast_signed() >> unused)
}

/// The value, and the number of bits that it was given with.
fn leb128(bytes: &mut &[u8]) -> Option<(u32, u32)> {
    let (mut value, mut bits) = (0, 0);
    loop {
        let (&byte, rest) = bytes.split_first().filter(|_| bits < 35)?;
        *bytes = rest;
        value |= u32::from(byte & 0x7f) << bits;
        bits += 7;
        if byte & 0x80 == 0 {
            return Some((value, bits));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of tables 7.7 and 7.8 of DWARF 5, and the ends of 32 bits.
    #[test]
    fn numbers_are_those_of_the_standard() {
        for (bytes, value) in [
            (&[0x02][..], 2),
            (&[0x7e], -2),
            (&[0xff, 0], 127),
            (&[0x81, 0x7f], -127),
            (&[0x80, 0x01], 128),
            (&[0x80, 0x7f], -128),
            (&[0xff, 0x7e], -129),
            (&[0x80, 0x80, 0x80, 0x80, 0x78], i32::MIN),
            (&[0xff, 0xff, 0xff, 0xff, 0x07], i32::MAX),
        ] {
            assert_eq!(signed(&mut &*bytes), Some(value), "{bytes:x?}");
        }
        for (bytes, value) in [
            (&[0x7f][..], 127),
            (&[0x81, 0x01], 129),
            (&[0xb9, 0x64], 12857),
            (&[0xff, 0xff, 0xff, 0xff, 0x0f], u32::MAX),
        ] {
            assert_eq!(unsigned(&mut &*bytes), Some(value), "{bytes:x?}");
        }
        for cut in [&[][..], &[0x80], &[0x80, 0x80, 0x80, 0x80, 0x80, 0]] {
            assert_eq!(unsigned(&mut &*cut), None, "{cut:x?}");
        }
    }
}
