//! The module data, `runtime.moduledata` (runtime/symtab.go), with information that the linker does not write to the
//! table.

use object::elf::{SHF_ALLOC, SHF_EXECINSTR, SHT_PROGBITS};
use object::{Object, ObjectSection, RelocationFlags, RelocationTarget, SectionFlags};

/// Number of words to read: all known fields up to Go 1.27, with a margin.
const WORDS: usize = 56;

/// Index of the field `text`, the start of code, since Go 1.16.
const TEXT: usize = 22;

/// The first words of the module data, relocated for the addresses in the file.
pub(crate) struct Module([u64; WORDS]);

impl Module {
    /// Finds it by its first two words: the address of the table, and the address of the table's names, which is
    /// `names` higher.
    pub(crate) fn find(elf: &object::File<'_>, table: u64, names: usize) -> Option<Self> {
        let begin = [table, table.checked_add(names as u64)?];
        Self::in_data(elf, begin).or_else(|| Self::in_relocations(elf, begin))
    }

    /// Returns the start address of code.
    pub(crate) fn text(&self) -> u64 {
        self.0[TEXT]
    }

    /// Returns the words of fields whose position depends on the release.
    pub(crate) fn words(&self, fields: std::ops::Range<usize>) -> &[u64] {
        self.0.get(fields).unwrap_or_default()
    }

    fn in_data(elf: &object::File<'_>, begin: [u64; 2]) -> Option<Self> {
        // Skip the table itself, which is the largest section.
        let mut others = data_sections(elf).filter(|&(address, _)| address != begin[0]);
        let begin = begin.map(u64::to_le_bytes);
        others.find_map(|(_, data)| {
            let words = data.as_chunks::<8>().0;
            let at = words.windows(2).position(|pair| *pair == begin)?;
            let words = words.get(at..)?.first_chunk::<WORDS>()?;
            Some(Self(words.map(u64::from_le_bytes)))
        })
    }

    /// In position-independent files, the addresses are in the relocations.
    fn in_relocations(elf: &object::File<'_>, begin: [u64; 2]) -> Option<Self> {
        let made = || {
            let all = elf.dynamic_relocations().into_iter().flatten();
            all.filter(|(_, of)| {
                of.target() == RelocationTarget::Absolute
                    && matches!(of.flags(), RelocationFlags::Elf { .. })
            })
        };
        let value = |of: &object::Relocation| of.addend() as u64;
        let mut places = made().filter(|(_, of)| value(of) == begin[0]);
        let place = places.find_map(|(place, _)| {
            let next = place.checked_add(8)?;
            made().any(|(at, of)| at == next && value(&of) == begin[1]).then_some(place)
        })?;
        let mut words = data_sections(elf).find_map(|(address, data)| {
            let at = usize::try_from(place.checked_sub(address)?).ok()?;
            let words = data.get(at..)?.as_chunks::<8>().0.first_chunk::<WORDS>()?;
            Some(words.map(u64::from_le_bytes))
        })?;
        for (at, of) in made() {
            let word = at.checked_sub(place).map(|distance| distance / 8);
            if let Some(word) = word.and_then(|word| words.get_mut(usize::try_from(word).ok()?)) {
                *word = value(&of);
            }
        }
        Some(Self(words))
    }
}

/// Returns the loaded data sections with their addresses.
fn data_sections<'a>(elf: &object::File<'a>) -> impl Iterator<Item = (u64, &'a [u8])> {
    elf.sections().filter_map(|section| {
        let SectionFlags::Elf { sh_type, sh_flags, .. } = section.flags() else { return None };
        let is_data = sh_flags.contains(SHF_ALLOC) && !sh_flags.contains(SHF_EXECINSTR);
        if sh_type != SHT_PROGBITS || !is_data {
            return None;
        }
        Some((section.address(), section.data().ok()?))
    })
}
