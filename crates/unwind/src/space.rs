//! Where a process has mapped code.

use std::ops::Range;
use std::sync::Arc;

use crate::info::UnwindInfo;

/// One mapping of code in a process.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// Addresses in the process.
    pub range: Range<u64>,
    /// Offset in the mapped file of the first byte; 0 for anonymous memory.
    pub file_offset: u64,
    /// The mapped file's unwind information; none for code made at run time.
    pub info: Option<Arc<UnwindInfo>>,
    /// The caller's own number for what is mapped; nothing is read from it here.
    pub tag: u32,
    /// What to subtract from an address in the process to get the file's virtual address.
    bias: u64,
}

impl Mapping {
    /// The address as the file's own tables name it (its ELF virtual address).
    #[inline]
    pub fn svma(&self, address: u64) -> u64 {
        address.wrapping_sub(self.bias)
    }
}

/// The executable mappings of one process. A clone costs nothing until one of the two changes, so a
/// forked child starts with its parent's.
#[derive(Clone, Debug, Default)]
pub struct AddressSpace {
    /// Sorted, without overlaps.
    mappings: Arc<Vec<Mapping>>,
}

impl AddressSpace {
    /// No mappings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Add a mapping. What it overlaps gives way, as in the kernel's `mmap` with `MAP_FIXED`.
    pub fn map(
        &mut self,
        range: Range<u64>,
        file_offset: u64,
        info: Option<Arc<UnwindInfo>>,
        tag: u32,
    ) {
        if range.is_empty() {
            return;
        }
        let len = range.end - range.start;
        let svma = info.as_ref().and_then(|info| info.svma_of_offset(file_offset, len));
        let bias = range.start.wrapping_sub(svma.unwrap_or(file_offset));
        let at = self.make_room(&range);
        Arc::make_mut(&mut self.mappings)
            .insert(at, Mapping { range, file_offset, info, tag, bias });
    }

    /// Remove what is mapped in a range, as `munmap` does: mappings at its ends are cut.
    pub fn unmap(&mut self, range: Range<u64>) {
        if !range.is_empty() {
            self.make_room(&range);
        }
    }

    /// Cut or remove what overlaps `range`; the index at which a mapping of it belongs.
    fn make_room(&mut self, range: &Range<u64>) -> usize {
        let first = self.mappings.partition_point(|old| old.range.end <= range.start);
        let last = self.mappings.partition_point(|old| old.range.start < range.end);
        if first == last {
            return first;
        }
        let mappings = Arc::make_mut(&mut self.mappings);
        let below = mappings[first].range.start < range.start;
        let mut head = mappings[first].clone();
        head.range.end = range.start;
        let mut tail = mappings[last - 1].clone();
        let above = tail.range.end > range.end;
        tail.file_offset =
            tail.file_offset.wrapping_add(range.end - tail.range.start.min(range.end));
        tail.range.start = range.end;
        let kept = below.then_some(head).into_iter().chain(above.then_some(tail));
        mappings.splice(first..last, kept);
        first + usize::from(below)
    }

    /// The mapping that holds an address.
    #[inline]
    pub fn lookup(&self, address: u64) -> Option<&Mapping> {
        self.find(address).map(|at| &self.mappings[at])
    }

    /// All mappings, by address.
    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    #[inline]
    fn find(&self, address: u64) -> Option<usize> {
        let at = self.mappings.partition_point(|mapping| mapping.range.end <= address);
        (self.mappings.get(at)?.range.start <= address).then_some(at)
    }

    /// [`lookup`](Self::lookup) with a guess: consecutive frames are often in the same mapping.
    #[inline]
    pub(crate) fn lookup_near(&self, guess: &mut usize, address: u64) -> Option<&Mapping> {
        if let Some(mapping) = self.mappings.get(*guess)
            && mapping.range.contains(&address)
        {
            return Some(mapping);
        }
        *guess = self.find(address)?;
        self.mappings.get(*guess)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Map the ranges in order; what is left is (start, end, file offset).
    fn check(ranges: &[(u64, u64)], expect: &[(u64, u64, u64)]) {
        let mut space = AddressSpace::new();
        for &(start, end) in ranges {
            space.map(start..end, 0x100 * start, None, 0);
        }
        let left: Vec<_> = space
            .mappings()
            .iter()
            .map(|mapping| (mapping.range.start, mapping.range.end, mapping.file_offset))
            .collect();
        assert_eq!(left, expect);
        for address in 0..100 {
            let want = expect.iter().position(|e| e.0 <= address && address < e.1);
            assert_eq!(space.find(address), want, "{address}");
        }
    }

    #[test]
    fn new_mappings_cut_old_ones() {
        check(&[(10, 20), (30, 40)], &[(10, 20, 0xa00), (30, 40, 0x1e00)]);
        check(&[(30, 40), (10, 20)], &[(10, 20, 0xa00), (30, 40, 0x1e00)]);
        check(&[(10, 40), (20, 30)], &[(10, 20, 0xa00), (20, 30, 0x1400), (30, 40, 0xa14)]);
        check(&[(10, 20), (5, 15)], &[(5, 15, 0x500), (15, 20, 0xa05)]);
        check(&[(10, 20), (15, 25)], &[(10, 15, 0xa00), (15, 25, 0xf00)]);
        check(
            &[(10, 20), (30, 40), (50, 60), (15, 55)],
            &[(10, 15, 0xa00), (15, 55, 0xf00), (55, 60, 0x3205)],
        );
        check(&[(10, 20), (10, 20)], &[(10, 20, 0xa00)]);
        check(&[(10, 20), (20, 20)], &[(10, 20, 0xa00)]);
    }

    #[test]
    fn unmapping_cuts_too_and_leaves_clones_alone() {
        let mut space = AddressSpace::new();
        space.map(10..20, 0, None, 0);
        let before = space.clone();
        space.unmap(0..15);
        assert_eq!(space.mappings()[0].range, 15..20);
        assert_eq!(space.mappings()[0].file_offset, 5);
        assert_eq!(space.mappings()[0].svma(16), 6);
        assert_eq!(before.mappings()[0].range, 10..20);
    }
}
