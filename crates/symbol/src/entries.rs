//! Where functions begin and end, as the unwind tables say it: by that a label, which has no size, ends.
//!
//! Only `.eh_frame` with the table that is searched in it, `.eh_frame_hdr` (Linux Standard Base Core, 10.6). Nothing is
//! unwound here.

use gimli::{
    BaseAddresses, EhFrame, EhFrameHdr, EhFrameOffset, EndianSlice, RunTimeEndian, UnwindSection,
};
use object::{Object, ObjectSection};

type Reader<'a> = EndianSlice<'a, RunTimeEndian>;

/// The unwind tables of a file.
pub(crate) struct Entries<'a> {
    entries: EhFrame<Reader<'a>>,
    header: gimli::ParsedEhFrameHdr<Reader<'a>>,
    bases: BaseAddresses,
}

impl<'a> Entries<'a> {
    /// Those of `elf`, if it has any.
    pub fn read(elf: &object::File<'a>) -> Option<Self> {
        let endian =
            if elf.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        let section = |name| {
            let section = elf.section_by_name(name)?;
            Some((section.data().ok()?, section.address()))
        };
        let (entries, entries_at) = section(".eh_frame")?;
        let (header, header_at) = section(".eh_frame_hdr")?;
        let bases = BaseAddresses::default().set_eh_frame(entries_at).set_eh_frame_hdr(header_at);
        // Linkers write the number of entries in 4 bytes; gimli's search overflows with a larger one.
        if header.get(2) != Some(&gimli::DW_EH_PE_udata4.0) {
            return None;
        }
        let address_size = if elf.is_64() { 8 } else { 4 };
        let header = EhFrameHdr::new(header, endian).parse(&bases, address_size).ok()?;
        Some(Self { entries: EhFrame::new(entries, endian), header, bases })
    }

    /// True if a function begins behind `start` and not behind `address`, or the one at `start` ends before
    /// `address`: then both are not of one function. What is in no table may be anything.
    pub fn divide(&self, start: u64, address: u64) -> bool {
        let Some((first, end)) = self.function_before(address) else { return false };
        first > start || (start < end && end <= address)
    }

    /// The last function that does not begin behind `address`.
    fn function_before(&self, address: u64) -> Option<(u64, u64)> {
        let table = self.header.table()?;
        let pointer = table.lookup(address, &self.bases).ok()?;
        // `pointer_to_offset` subtracts unchecked.
        let section = self.header.eh_frame_ptr().direct().ok()?;
        let offset = usize::try_from(pointer.direct().ok()?.checked_sub(section)?).ok()?;
        let offset = EhFrameOffset(offset);
        let entry =
            self.entries.fde_from_offset(&self.bases, offset, EhFrame::cie_from_offset).ok()?;
        let first = entry.initial_address();
        (first <= address).then(|| (first, first.saturating_add(entry.len())))
    }
}
