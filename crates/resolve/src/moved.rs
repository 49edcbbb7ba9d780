//! Code that a program has moved to anonymous memory at the same addresses, to get it into huge pages (BOLT's
//! `--hugify`, HHVM, Node's `--use-largepages`, libraries that do this for others). It is still the code of the file
//! that was mapped there.

use std::ops::Range;

use pyrograph_unwind::{AddressSpace, Mapping};

use crate::module_ids::module_of_tag;

/// Size of a huge page, in bytes. Moved code begins and ends at multiples of it. This tells it apart from memory of a
/// JIT compiler in place of an unloaded library whose mapping is still in the records: that is hardly ever so aligned.
const HUGE: u64 = 2 << 20;

/// Number of pieces of a file's code that are recognized as moved.
const MOST: usize = 64;

/// An anonymous mapping whose code belongs to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub range: Range<u64>,
    /// File offset of its first byte.
    pub offset: u64,
    /// Tag of the file's mapping.
    pub tag: u32,
}

/// Finds the file in whose place executable anonymous memory is mapped.
pub fn in_place_of(space: &AddressSpace, range: Range<u64>) -> Option<Moved> {
    let file = space.lookup(range.start).filter(|mapping| is_file(mapping))?;
    let is_huge = range.start.is_multiple_of(HUGE) && range.end.is_multiple_of(HUGE);
    // The offset comes from the input and may be any number.
    let offset = file.file_offset.checked_add(range.start - file.range.start)?;
    (is_huge && range.end <= file.range.end).then_some(Moved { offset, tag: file.tag, range })
}

/// Returns the anonymous mappings between two parts of one file as moved code. `second` was mapped last. Mappings come
/// in this order when a program already runs at the start of a recording.
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
    use crate::module_ids::{ModuleId, mapping_tag};

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
