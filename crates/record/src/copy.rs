//! Copying of records out of a ring buffer, without the unused space of stack copies.
//!
//! In each sample the kernel reserves as many bytes for the user stack as were requested, and writes behind them the
//! number that it could copy: of 32 KiB, 3 to 10 KiB in most programs. The unused rest is left out here, and so takes
//! no further memory.

use pyrograph_event::{Header, Layout, kind, sample_type};

/// The unread bytes between tail and head. `second` is the part that wraps around to the start of the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unread<'a> {
    pub first: &'a [u8],
    pub second: &'a [u8],
}

impl Unread<'_> {
    pub(crate) fn len(&self) -> usize {
        self.first.len() + self.second.len()
    }

    /// Appends the bytes from `start` to `end`, or those of them that exist.
    fn copy(&self, start: usize, end: usize, out: &mut Vec<u8>) {
        let part = |bytes: &[u8], start: usize, end: usize, out: &mut Vec<u8>| {
            out.extend_from_slice(
                bytes.get(start.min(bytes.len())..end.min(bytes.len())).unwrap_or_default(),
            );
        };
        let turn = self.first.len();
        part(self.first, start, end, out);
        part(self.second, start.saturating_sub(turn), end.saturating_sub(turn), out);
    }

    /// Returns the word at `start`. Records and their words are aligned, so that no word wraps around the end of the
    /// buffer.
    fn word(&self, start: usize) -> Option<[u8; 8]> {
        let turn = self.first.len();
        let bytes =
            if start < turn { self.first.get(start..) } else { self.second.get(start - turn..) };
        bytes?.first_chunk().copied()
    }

    fn number(&self, start: usize) -> Option<usize> {
        self.word(start).and_then(|word| usize::try_from(u64::from_ne_bytes(word)).ok())
    }
}

/// Methods of copying records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copier {
    /// Copy records unchanged.
    Whole,
    /// Leave the unused space of stack copies out of samples.
    Trimmed {
        /// Size of the fields before the callchain, in bytes, with the header.
        prefix: usize,
        /// Size of the registers in bytes, if a sample has any.
        regs: usize,
    },
}

/// The user stack of a sample. Offsets are in bytes from the sample's start.
struct Stack {
    /// Offset of its size field.
    start: usize,
    /// Offset of the end of its bytes, where the number of copied bytes is written.
    end: usize,
    /// Number of bytes to keep.
    keep: usize,
}

impl Copier {
    /// Returns the trimming method for samples whose last fields are the callchain, user registers and user stack,
    /// otherwise [`Self::Whole`].
    pub(crate) fn new(layout: &Layout, regs_mask: u64) -> Self {
        let before = sample_type::IP
            | sample_type::TID
            | sample_type::TIME
            | sample_type::CPU
            | sample_type::PERIOD
            | sample_type::READ;
        let stack = sample_type::CALLCHAIN | sample_type::REGS_USER | sample_type::STACK_USER;
        let fields = layout.sample_type();
        if fields & stack != stack || fields & !(before | stack) != 0 {
            return Self::Whole;
        }
        let has_lost = fields & sample_type::READ != 0 && layout.read_format() != 0;
        let words = (fields & before).count_ones() + u32::from(has_lost);
        let prefix = Header::SIZE + 8 * words as usize;
        Self::Trimmed { prefix, regs: 8 * regs_mask.count_ones() as usize }
    }

    /// Appends all records to `out`.
    pub(crate) fn copy(self, unread: Unread<'_>, out: &mut Vec<u8>) {
        let Self::Trimmed { prefix, regs } = self else {
            out.reserve(unread.len());
            return unread.copy(0, unread.len(), out);
        };
        let mut at = 0;
        while let Some(header) = unread.word(at) {
            let [k0, k1, k2, k3, misc0, misc1, size0, size1] = header;
            let size = usize::from(u16::from_ne_bytes([size0, size1]));
            let end = at + size;
            if size < Header::SIZE || end > unread.len() {
                return;
            }
            let is_sample = u32::from_ne_bytes([k0, k1, k2, k3]) == kind::SAMPLE;
            let stack = if is_sample { find_stack(unread, at, size, prefix, regs) } else { None };
            match stack {
                Some(stack) => {
                    let trimmed = (stack.start + 8 + stack.keep + 8) as u16;
                    let [size0, size1] = trimmed.to_ne_bytes();
                    out.extend([k0, k1, k2, k3, misc0, misc1, size0, size1]);
                    unread.copy(at + Header::SIZE, at + stack.start, out);
                    out.extend((stack.keep as u64).to_ne_bytes());
                    unread.copy(at + stack.start + 8, at + stack.start + 8 + stack.keep, out);
                    unread.copy(at + stack.end, at + stack.end + 8, out);
                }
                None => unread.copy(at, end, out),
            }
            at = end;
        }
    }
}

/// Finds the stack of the sample at `at`. `None` if there is nothing to leave out.
fn find_stack(
    unread: Unread<'_>,
    at: usize,
    size: usize,
    prefix: usize,
    regs: usize,
) -> Option<Stack> {
    let words = |count: usize| count.checked_mul(8).filter(|bytes| *bytes <= size);
    let addresses = unread.number(at + prefix)?;
    let mut start = prefix + 8 + words(addresses)?;
    let abi = unread.number(at + start)?;
    start += 8 + if abi == 0 { 0 } else { regs };
    let room = unread.number(at + start).filter(|room| *room > 0 && *room <= size)?;
    let end = start + 8 + room;
    if end + 8 != size {
        return None;
    }
    // Keep one word more than was copied: a size above the number of copied bytes means that the stack is complete.
    let keep = unread.number(at + end)?.checked_next_multiple_of(8)?.checked_add(8)?;
    (keep < room).then_some(Stack { start, end, keep })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use pyrograph_event::{Attr, Record, regs};

    use super::*;

    const FIELDS: u64 = sample_type::IP
        | sample_type::TID
        | sample_type::TIME
        | sample_type::CPU
        | sample_type::PERIOD
        | sample_type::CALLCHAIN
        | sample_type::REGS_USER
        | sample_type::STACK_USER;

    fn layout() -> Layout {
        Layout::new(&Attr { sample_type: FIELDS, sample_regs_user: regs::UNWIND, ..Attr::new() })
    }

    /// A sample with `addresses` in its callchain and `copied` of `room` bytes of stack.
    fn sample(addresses: usize, with_regs: bool, room: usize, copied: usize) -> Vec<u8> {
        let mut words = vec![0, 0x1000, 7 | 8 << 32, 1000, 3, 99, addresses as u64];
        words.extend((0..addresses as u64).map(|address| 0x4000 + address));
        words.push(if with_regs { 2 } else { 0 });
        if with_regs {
            words.extend((0..u64::from(regs::UNWIND.count_ones())).map(|value| 500 + value));
        }
        words.push(room as u64);
        if room > 0 {
            words.extend((0..room as u64 / 8).map(|word| word * 0x0101));
            words.push(copied as u64);
        }
        let size = words.len() as u64 * 8;
        words[0] = u64::from(kind::SAMPLE) | 2 << 32 | size << 48;
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    proptest! {
        /// However the ring turns, a trimmed sample decodes to the same as the whole one.
        #[test]
        fn trimmed_samples_say_the_same(
            shapes in prop::collection::vec((0..9_usize, any::<bool>(), 0..40_usize, 0..=320_usize), 1..8),
            turn in 0..400_usize,
        ) {
            let samples: Vec<Vec<u8>> = shapes
                .iter()
                .map(|(addresses, regs, words, copied)| sample(*addresses, *regs, words * 8, (*copied).min(words * 8)))
                .collect();
            let bytes = samples.concat();
            let (first, second) = bytes.split_at((turn * 8).min(bytes.len()));
            let mut out = Vec::new();
            Copier::new(&layout(), regs::UNWIND).copy(Unread { first, second }, &mut out);
            let mut rest = &out[..];
            for whole in &samples {
                let Ok(Record::Sample(mut expect)) = layout().decode(whole) else { panic!() };
                let Ok(Record::Sample(mut found)) = layout().decode(rest) else { panic!() };
                if let (Some(expect), Some(found)) = (&mut expect.user_stack, &mut found.user_stack) {
                    prop_assert_eq!(expect.is_cut(), found.is_cut());
                    prop_assert!(found.capacity <= found.bytes.len().next_multiple_of(8) + 8);
                    found.capacity = expect.capacity;
                }
                prop_assert_eq!(expect, found);
                let size = Header::parse(rest, layout().order()).unwrap().size;
                rest = &rest[usize::from(size)..];
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn any_bytes_are_survived(words in prop::collection::vec(prop_oneof![0..99_u64, any::<u64>()], 0..40), turn in 0..40_usize) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let (first, second) = bytes.split_at((turn * 8).min(bytes.len()));
            let mut out = Vec::new();
            Copier::new(&layout(), regs::UNWIND).copy(Unread { first, second }, &mut out);
            prop_assert!(out.len() <= bytes.len());
        }
    }

    #[test]
    fn other_records_are_copied_whole() {
        let mut comm = Vec::new();
        let id = pyrograph_event::SampleId::default();
        pyrograph_event::Comm { pid: 1, tid: 1, name: b"a", exec: false, id }
            .encode(&layout(), &mut comm);
        let mut out = Vec::new();
        Copier::new(&layout(), regs::UNWIND).copy(Unread { first: &comm, second: &[] }, &mut out);
        assert_eq!(out, comm);
        let whole = Layout::new(&Attr { sample_type: sample_type::IP, ..Attr::new() });
        assert_eq!(Copier::new(&whole, 0), Copier::Whole);
    }
}
