//! Code that a program has moved to memory of its own, at the same addresses: so it gets into huge pages (BOLT's `--hugify`, HHVM,
//! Node's `--use-largepages`, libraries that do this for others). It is still the code of the file that was mapped there.

use std::ops::Range;

use pyrograph_unwind::{AddressSpace, Mapping};

use crate::collect::module_of_tag;

/// Huge pages begin and end at multiples of this. A library that is gone may have left its mapping in the records, and memory of
/// a compiler may lie there now: hardly ever exactly so.
const HUGE: u64 = 2 << 20;

/// More pieces of a file's code are not moved.
const MOST: usize = 64;

/// A mapping whose code is that of a file, after all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub range: Range<u64>,
    /// Where its first byte is in the file.
    pub offset: u64,
    /// The tag of the file's mapping.
    pub tag: u32,
}

/// Finds the file in whose place executable memory without a file is mapped.
pub fn in_place_of(space: &AddressSpace, range: Range<u64>) -> Option<Moved> {
    let file = space.lookup(range.start).filter(|mapping| is_file(mapping))?;
    let is_huge = range.start.is_multiple_of(HUGE) && range.end.is_multiple_of(HUGE);
    // The offset is whatever a file of records says.
    let offset = file.file_offset.checked_add(range.start - file.range.start)?;
    (is_huge && range.end <= file.range.end).then_some(Moved { offset, tag: file.tag, range })
}

/// The mappings between two parts of one file, of which the second was mapped last, as they are found where a program runs
/// already: what was between these parts was moved.
pub fn before(space: &AddressSpace, second: &Range<u64>) -> Vec<Moved> {
    let mut between = Vec::new();
    let Some(file) = space.lookup(second.start).filter(|mapping| is_file(mapping)) else {
        return between;
    };
    let mut end = second.start;
    while between.len() < MOST
        && let Some(address) = end.checked_sub(1)
        && let Some(mapping) = space.lookup(address)
    {
        if is_file(mapping) {
            let is_whole = mapping.tag == file.tag
                && file.file_offset.checked_sub(mapping.file_offset)
                    == Some(file.range.start - mapping.range.start);
            if !is_whole {
                break;
            }
            return between;
        }
        let back = file.range.start - mapping.range.start;
        let Some(offset) = file.file_offset.checked_sub(back) else { break };
        between.push(Moved { range: mapping.range.clone(), offset, tag: file.tag });
        end = mapping.range.start;
    }
    Vec::new()
}

fn is_file(mapping: &Mapping) -> bool {
    module_of_tag(mapping.tag).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::mapping_tag;
    use crate::modules::ModuleId;

    const FILE: u64 = 0x40_0000;

    /// A file of 16 MiB, from offset 0x1000.
    fn space() -> AddressSpace {
        let mut space = AddressSpace::new();
        space.map(FILE..FILE + (16 << 20), 0x1000, None, mapping_tag(ModuleId(7), true));
        space
    }

    #[test]
    fn huge_pages_in_the_place_of_a_file_are_its_code() {
        let found = in_place_of(&space(), FILE + HUGE..FILE + 3 * HUGE);
        let tag = mapping_tag(ModuleId(7), true);
        assert_eq!(
            found,
            Some(Moved { range: FILE + HUGE..FILE + 3 * HUGE, offset: 0x1000 + HUGE, tag })
        );
        assert_eq!(in_place_of(&space(), FILE + 0x1000..FILE + HUGE), None, "not huge");
        assert_eq!(in_place_of(&space(), FILE + HUGE..FILE + 9 * HUGE), None, "beyond it");
        assert_eq!(in_place_of(&space(), 0..HUGE), None);
        let mut hostile = AddressSpace::new();
        hostile.map(FILE..FILE + (16 << 20), u64::MAX - 1, None, tag);
        assert_eq!(in_place_of(&hostile, FILE + HUGE..FILE + 3 * HUGE), None, "no such offset");
        let mut space = space();
        space.map(0..4 * HUGE, 0, None, mapping_tag(ModuleId(1), false));
        assert_eq!(in_place_of(&space, 0..HUGE), None, "no file");
    }

    #[test]
    fn what_is_between_two_parts_of_a_file_is_its_code() {
        let tag = mapping_tag(ModuleId(7), true);
        let mut space = space();
        let (first, second) = (FILE + 0x5000..FILE + 0x9000, FILE + 0x9000..FILE + 0xb000);
        for range in [&first, &second] {
            space.map(range.clone(), 0, None, mapping_tag(ModuleId(1), false));
        }
        let rest = FILE + 0xb000..FILE + (16 << 20);
        let found = before(&space, &rest);
        let expect = [(second, 0xa000), (first, 0x6000)];
        assert_eq!(found, expect.map(|(range, offset)| Moved { range, offset, tag }));
        // Another file, another place in it, or a gap.
        for (module, offset) in [(8, 0x1000), (7, 0x2000)] {
            let mut other = space.clone();
            other.map(FILE..FILE + 0x5000, offset, None, mapping_tag(ModuleId(module), true));
            assert_eq!(before(&other, &rest), []);
        }
        space.unmap(FILE + 0x8000..FILE + 0x9000);
        assert_eq!(before(&space, &rest), []);
    }
}
