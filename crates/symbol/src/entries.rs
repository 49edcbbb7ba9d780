//! Function boundaries from the unwind tables: they end labels, which have no size.
//!
//! Only `.eh_frame` with its search table, `.eh_frame_hdr`, is used (Linux Standard Base Core, 10.6). Nothing is
//! unwound here.

use gimli::{
    BaseAddresses, EhFrame, EhFrameHdr, EhFrameOffset, EndianSlice, RunTimeEndian, UnwindSection,
};
use object::{Object, ObjectSection};

type Reader<'a> = EndianSlice<'a, RunTimeEndian>;

/// Unwind tables of a file.
pub(crate) struct Entries<'a> {
    entries: EhFrame<Reader<'a>>,
    header: gimli::ParsedEhFrameHdr<Reader<'a>>,
    bases: BaseAddresses,
}

impl<'a> Entries<'a> {
    /// Reads the tables of `elf`; `None` if it has none.
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
        // Linkers encode the number of entries in 4 bytes; gimli's search overflows with a larger encoding.
        if header.get(2) != Some(&gimli::DW_EH_PE_udata4.0) {
            return None;
        }
        let address_size = if elf.is_64() { 8 } else { 4 };
        let header = EhFrameHdr::new(header, endian).parse(&bases, address_size).ok()?;
        Some(Self { entries: EhFrame::new(entries, endian), header, bases })
    }

    /// Returns true if a function begins after `start` and at or before `address`, or if the function at `start`
    /// ends at or before `address`: then the two are in different functions. Returns false if the tables do not
    /// cover these addresses.
    pub fn divide(&self, start: u64, address: u64) -> bool {
        let Some((first, end)) = self.function_before(address) else { return false };
        first > start || (start < end && end <= address)
    }

    /// Start and end of the last function that begins at or before `address`.
    fn function_before(&self, address: u64) -> Option<(u64, u64)> {
        let table = self.header.table()?;
        let pointer = table.lookup(address, &self.bases).ok()?;
        // `pointer_to_offset` subtracts without a check.
        let section = self.header.eh_frame_ptr().direct().ok()?;
        let offset = usize::try_from(pointer.direct().ok()?.checked_sub(section)?).ok()?;
        let offset = EhFrameOffset(offset);
        let entry =
            self.entries.fde_from_offset(&self.bases, offset, EhFrame::cie_from_offset).ok()?;
        let first = entry.initial_address();
        (first <= address).then(|| (first, first.saturating_add(entry.len())))
    }
}
