//! Lookup of frame description entries (FDEs) by address.

use gimli::{BaseAddresses, CieOrFde, UnwindOffset, UnwindSection};

use crate::elf::Mapped;
use crate::info::Slice;

/// Binary search table that linkers write to `.eh_frame_hdr` (Linux Standard Base Core, 10.6.2), in the only
/// encoding that they use: pairs of 32-bit offsets from the section's address.
#[derive(Debug)]
pub(crate) struct HeaderTable {
    /// File offset of the first pair.
    start: usize,
    len: usize,
    svma: u64,
    eh_frame_svma: u64,
}

impl HeaderTable {
    const PAIR: usize = 8;

    /// Parses the section; `None` if it has no table in this encoding, or an empty one.
    pub(crate) fn parse(file: &[u8], section: &Mapped, eh_frame_svma: u64) -> Option<Self> {
        let bytes = file.get(section.range.clone())?;
        // Version; encodings of the pointer to .eh_frame (pcrel sdata4), of the number of pairs (udata4) and of the
        // table (datarel sdata4); the pointer; the number.
        let (head, pairs) = bytes.split_at_checked(12)?;
        if head[..4] != [1, 0x1b, 0x03, 0x3b] {
            return None;
        }
        let len = u32::from_le_bytes(*head[8..].first_chunk()?) as usize;
        let len = len.min(pairs.len() / Self::PAIR);
        let start = section.range.start + head.len();
        (len > 0).then_some(Self { start, len, svma: section.svma, eh_frame_svma })
    }

    /// Returns the pairs, and the number of them that begin at or below the address.
    fn search<'a>(&self, file: &'a [u8], svma: u64) -> Option<(&'a [[u8; Self::PAIR]], usize)> {
        let pairs = file.get(self.start..)?.get(..self.len * Self::PAIR)?;
        let (pairs, _) = pairs.as_chunks();
        let relative = svma.wrapping_sub(self.svma).cast_signed();
        let after = pairs.partition_point(|pair| i64::from(field(pair, 0)) <= relative);
        Some((pairs, after))
    }

    /// Start of the first FDE after an address.
    pub(crate) fn next_start(&self, file: &[u8], svma: u64) -> Option<u64> {
        let (pairs, after) = self.search(file, svma)?;
        Some(self.svma.wrapping_add_signed(field(pairs.get(after)?, 0).into()))
    }

    /// Offset in `.eh_frame` of the last FDE that begins at or below the address.
    pub(crate) fn lookup(&self, file: &[u8], svma: u64) -> Option<usize> {
        let (pairs, after) = self.search(file, svma)?;
        let pair = pairs.get(after.checked_sub(1)?)?;
        let fde = self.svma.wrapping_add_signed(field(pair, 4).into());
        usize::try_from(fde.wrapping_sub(self.eh_frame_svma)).ok()
    }
}

fn field(pair: &[u8; HeaderTable::PAIR], at: usize) -> i32 {
    i32::from_le_bytes([pair[at], pair[at + 1], pair[at + 2], pair[at + 3]])
}

/// FDEs of a section, sorted by start address, for sections without a search table.
#[derive(Debug, Default)]
pub(crate) struct FdeIndex {
    /// (start address, offset in the section), sorted.
    entries: Vec<(u64, usize)>,
}

impl FdeIndex {
    /// Reads the whole section; entries after a damaged one are left out.
    pub(crate) fn new<'a, U>(section: &U, bases: &BaseAddresses) -> Self
    where
        U: UnwindSection<Slice<'a>>,
    {
        let mut entries = Vec::new();
        let mut iter = section.entries(bases);
        // Thousands of consecutive entries have the same CIE.
        let mut last_cie = None;
        while let Ok(Some(entry)) = iter.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            let fde = partial.parse(|section, bases, offset| {
                let at: usize = UnwindOffset::into(offset);
                match &last_cie {
                    Some((last, cie)) if *last == at => Ok(Clone::clone(cie)),
                    _ => {
                        let cie = section.cie_from_offset(bases, offset)?;
                        last_cie = Some((at, cie.clone()));
                        Ok(cie)
                    }
                }
            });
            // Functions that the linker discarded remain in `.debug_frame` with address 0.
            if let Ok(fde) = fde
                && fde.initial_address() != 0
                && fde.len() != 0
            {
                entries.push((fde.initial_address(), fde.offset()));
            }
        }
        entries.sort_unstable();
        Self { entries }
    }

    /// Start of the first FDE after an address.
    pub(crate) fn next_start(&self, svma: u64) -> Option<u64> {
        let after = self.entries.partition_point(|&(start, _)| start <= svma);
        self.entries.get(after).map(|&(start, _)| start)
    }

    /// Offset of the last FDE that begins at or below the address.
    pub(crate) fn lookup(&self, svma: u64) -> Option<usize> {
        let after = self.entries.partition_point(|&(start, _)| start <= svma);
        self.entries.get(after.checked_sub(1)?).map(|&(_, offset)| offset)
    }
}
