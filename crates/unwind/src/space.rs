//! Mappings of code in a process.

use std::ops::Range;
use std::sync::Arc;

use crate::info::UnwindInfo;

/// One mapping of code in a process.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// Addresses in the process.
    pub range: Range<u64>,
    /// File offset of the first byte; 0 for anonymous memory.
    pub file_offset: u64,
    /// Unwind information of the mapped file; `None` for JIT-compiled code without any.
    pub info: Option<Arc<UnwindInfo>>,
    /// Number chosen by the caller to identify the mapping; it is not interpreted here.
    pub tag: u32,
    /// Difference between an address in the process and the file's virtual address.
    bias: u64,
}

impl Mapping {
    /// Converts an address in the process to the ELF virtual address that the file's own tables use.
    #[inline]
    pub fn svma(&self, address: u64) -> u64 {
        address.wrapping_sub(self.bias)
    }
}

/// Position of a mapping: index of its chunk, and index in the chunk.
pub(crate) type Place = (usize, usize);

/// Maximum number of mappings in one chunk. Nearly all processes have fewer mappings.
const CHUNK: usize = 512;

/// Executable mappings of one process. Cloning is free until one of the two changes, so a forked child starts with
/// a clone of its parent's mappings; a change then copies only the mappings near it. This stays cheap for a process
/// that maps code a hundred thousand times, in any order, with samples in between.
#[derive(Clone, Debug, Default)]
pub struct AddressSpace {
    /// Sorted, without overlaps; no chunk is empty.
    chunks: Arc<Vec<Arc<Vec<Mapping>>>>,
}

impl AddressSpace {
    /// Creates an address space without mappings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns true if one is a clone of the other, and neither has changed since.
    pub fn is_clone_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.chunks, &other.chunks)
    }

    /// Adds a mapping. It replaces the parts of mappings that it overlaps, as in the kernel's `mmap` with `MAP_FIXED`.
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
        self.replace(&range.clone(), Some(Mapping { range, file_offset, info, tag, bias }));
    }

    /// Removes all mappings in a range, as `munmap` does: mappings at its ends are cut.
    pub fn unmap(&mut self, range: Range<u64>) {
        if !range.is_empty() {
            self.replace(&range, None);
        }
    }

    /// Replaces everything that overlaps `range` with `new`.
    fn replace(&mut self, range: &Range<u64>, new: Option<Mapping>) {
        let first = self.chunks.partition_point(|chunk| end_of(chunk) <= range.start);
        let last = self.chunks.partition_point(|chunk| chunk[0].range.start < range.end);
        if first == last {
            if let Some(new) = new {
                self.insert_between(first, new);
            }
            return;
        }
        let from = self.chunks[first].partition_point(|old| old.range.end <= range.start);
        let to = self.chunks[last - 1].partition_point(|old| old.range.start < range.end);
        if first + 1 == last && from == to && new.is_none() {
            return;
        }
        let head = self.chunks[first].get(from).and_then(|old| before(old, range.start));
        let tail = to.checked_sub(1).and_then(|at| after(&self.chunks[last - 1][at], range.end));
        let pieces = head.into_iter().chain(new).chain(tail);

        let chunks = Arc::make_mut(&mut self.chunks);
        if first + 1 == last {
            Arc::make_mut(&mut chunks[first]).splice(from..to, pieces);
        } else {
            Arc::make_mut(&mut chunks[last - 1]).drain(..to);
            let chunk = Arc::make_mut(&mut chunks[first]);
            chunk.truncate(from);
            chunk.extend(pieces);
            chunks.drain(first + 1..last - 1);
            if chunks[first + 1].is_empty() {
                chunks.remove(first + 1);
            }
        }
        self.split(first);
    }

    /// Adds a mapping that lies before chunk `at` and after the chunk before it.
    fn insert_between(&mut self, at: usize, new: Mapping) {
        let chunks = Arc::make_mut(&mut self.chunks);
        if let Some(below) = at.checked_sub(1) {
            Arc::make_mut(&mut chunks[below]).push(new);
            self.split(below);
        } else if let Some(chunk) = chunks.first_mut() {
            Arc::make_mut(chunk).insert(0, new);
            self.split(0);
        } else {
            chunks.push(Arc::new(vec![new]));
        }
    }

    /// Removes a chunk if it is empty; splits it in two if it is too large.
    fn split(&mut self, at: usize) {
        let chunks = Arc::make_mut(&mut self.chunks);
        let len = chunks[at].len();
        if len == 0 {
            chunks.remove(at);
        } else if len > CHUNK {
            let rest = Arc::make_mut(&mut chunks[at]).split_off(len / 2);
            chunks.insert(at + 1, Arc::new(rest));
        }
    }

    /// Finds the mapping that holds an address.
    #[inline]
    pub fn lookup(&self, address: u64) -> Option<&Mapping> {
        self.find(address).map(|(chunk, at)| &self.chunks[chunk][at])
    }

    /// All mappings, by address.
    pub fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// Number of mappings.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len()).sum()
    }

    /// Returns true if nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    #[inline]
    fn find(&self, address: u64) -> Option<Place> {
        let number = self.chunks.partition_point(|chunk| end_of(chunk) <= address);
        let chunk = self.chunks.get(number)?;
        let at = chunk.partition_point(|mapping| mapping.range.end <= address);
        (chunk.get(at)?.range.start <= address).then_some((number, at))
    }

    /// Like [`lookup`](Self::lookup), but tries the mapping at `guess` first: consecutive frames are often in the
    /// same mapping.
    #[inline]
    pub(crate) fn lookup_near(&self, guess: &mut Place, address: u64) -> Option<&Mapping> {
        let at = |(chunk, at): Place| self.chunks.get(chunk)?.get(at);
        if let Some(mapping) = at(*guess)
            && mapping.range.contains(&address)
        {
            return Some(mapping);
        }
        *guess = self.find(address)?;
        at(*guess)
    }
}

/// End of the last mapping of a chunk.
#[inline]
fn end_of(chunk: &[Mapping]) -> u64 {
    chunk.last().map_or(0, |mapping| mapping.range.end)
}

/// Part of a mapping before an address; `None` if there is none.
fn before(mapping: &Mapping, address: u64) -> Option<Mapping> {
    let Range { start, .. } = mapping.range;
    (start < address).then(|| Mapping { range: start..address, ..mapping.clone() })
}

/// Part of a mapping from an address on; `None` if there is none.
fn after(mapping: &Mapping, address: u64) -> Option<Mapping> {
    let Range { start, end } = mapping.range;
    let file_offset = mapping.file_offset.wrapping_add(address.saturating_sub(start));
    (address < end).then(|| Mapping { range: address..end, file_offset, ..mapping.clone() })
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// Map the ranges in order; what is left is (start, end, file offset).
    fn check(ranges: &[(u64, u64)], expect: &[(u64, u64, u64)]) {
        let mut space = AddressSpace::new();
        for &(start, end) in ranges {
            space.map(start..end, 0x100 * start, None, 0);
        }
        let left: Vec<_> = space
            .mappings()
            .map(|mapping| (mapping.range.start, mapping.range.end, mapping.file_offset))
            .collect();
        assert_eq!(left, expect);
        for address in 0..100 {
            let want = expect.iter().position(|e| e.0 <= address && address < e.1);
            assert_eq!(space.find(address), want.map(|at| (0, at)), "{address}");
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
        let [left] = space.mappings().collect::<Vec<_>>()[..] else { panic!("one is left") };
        assert_eq!((left.range.clone(), left.file_offset, left.svma(16)), (15..20, 5, 6));
        assert_eq!(before.mappings().next().map(|mapping| mapping.range.clone()), Some(10..20));
        space.unmap(0..100);
        assert!(space.is_empty() && space.lookup(16).is_none());
        assert_eq!((before.len(), before.is_empty()), (1, false));
    }

    /// A change copies the table of chunks and one or two of them, whatever there is beside.
    #[test]
    fn a_change_among_many_mappings_copies_few() {
        const MANY: usize = 100_000;
        let mut space = AddressSpace::new();
        let mut random = StdRng::seed_from_u64(1);
        for count in 0..MANY {
            let before = space.clone();
            let page = random.random::<u64>() & !0xfff;
            space.map(page..page.saturating_add(0x1000), 0, None, 0);
            if count % 512 == 0 {
                let shared = |chunk: &&Arc<Vec<Mapping>>| {
                    before.chunks.iter().any(|other| Arc::ptr_eq(chunk, other))
                };
                let copied = space.chunks.len() - space.chunks.iter().filter(shared).count();
                assert!(copied <= 2, "{copied}");
            }
        }
        assert_eq!(space.len(), MANY);
        assert!(space.chunks.iter().all(|chunk| (1..=CHUNK).contains(&chunk.len())));
        assert!(space.chunks.len() <= 2 * MANY / CHUNK + 1, "{}", space.chunks.len());
    }

    /// The same as a table of every address.
    #[test]
    fn ranges_over_several_chunks() {
        const ADDRESSES: u64 = 16_000;
        let mut space = AddressSpace::new();
        let mut table = vec![None; ADDRESSES as usize];
        let (mut random, mut most_chunks) = (StdRng::seed_from_u64(7), 0);
        for tag in 0..20_000 {
            let start = random.random::<u64>() % ADDRESSES;
            // Mostly small, now and then over many others.
            let most = if random.random::<u64>().is_multiple_of(1024) { 3000 } else { 4 };
            let end = (start + random.random::<u64>() % most).min(ADDRESSES);
            let is_new = !random.random::<u64>().is_multiple_of(4);
            match is_new {
                true => space.map(start..end, 0, None, tag),
                false => space.unmap(start..end),
            }
            let what = is_new.then_some((tag, start));
            table[start as usize..end.max(start) as usize].fill(what);
            most_chunks = most_chunks.max(space.chunks.len());
            if tag % 256 == 0 {
                for (address, want) in (0..).zip(&table) {
                    let found = space.lookup(address);
                    let found = found.map(|it| (it.tag, it.range.start - it.file_offset));
                    assert_eq!(found, *want, "{address} after {tag}");
                }
            }
        }
        assert!(most_chunks > 4, "{most_chunks}");
        let ends: Vec<_> = space.mappings().map(|mapping| mapping.range.clone()).collect();
        assert!(ends.windows(2).all(|pair| pair[0].end <= pair[1].start));
    }
}
