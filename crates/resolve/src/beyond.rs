//! The part of a stack above a sample's copy, read from the process while it lives.

use std::cell::{Cell, RefCell};

use pyrograph_unwind::LiveMemory;

use crate::files::Files;

/// Number of bytes at the copy's outer end that must be unchanged before memory above the copy is trusted. Frames that
/// have returned since were most likely overwritten by later ones.
pub const CHECKED: usize = 2048;

const PAGE: u64 = 4096;

/// Limit to the size of a sample, in bytes, and so to the stack copy in it.
const LARGEST_COPY: u64 = 1 << 16;

/// Reads memory that is not in a copy, a page at a time.
pub struct Beyond<'a> {
    files: &'a dyn Files,
    tid: i32,
    /// Address of the first copied byte, and the copied bytes.
    copy: (u64, &'a [u8]),
    unchanged: Cell<Option<bool>>,
    still_left: Cell<Option<bool>>,
    pages: RefCell<Vec<(u64, Vec<u8>)>>,
}

impl<'a> Beyond<'a> {
    /// Creates a reader for a copy of thread `tid`'s stack that starts at `start`.
    pub fn new(files: &'a dyn Files, tid: i32, start: u64, bytes: &'a [u8]) -> Self {
        let copy = (start, bytes);
        Self {
            files,
            tid,
            copy,
            unchanged: Cell::new(None),
            still_left: Cell::new(None),
            pages: RefCell::default(),
        }
    }

    fn read(&self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        for (index, byte) in word.iter_mut().enumerate() {
            *byte = self.byte(address.checked_add(index as u64)?)?;
        }
        Some(u64::from_le_bytes(word))
    }

    /// Returns true if the outer end of the copy is unchanged in memory.
    fn is_unchanged(&self) -> bool {
        self.unchanged.get().unwrap_or_else(|| {
            let same = self.reads_the_same(self.copy.1.len().saturating_sub(CHECKED));
            self.unchanged.set(Some(same));
            self.touch_rest();
            same
        })
    }

    /// Returns true if the copied stack is unchanged at the address where it was left for another stack: a signal
    /// frame, or the like.
    fn is_still_left_at(&self, address: u64) -> bool {
        let from = usize::try_from(address.wrapping_sub(self.copy.0)).unwrap_or(usize::MAX);
        if from >= self.copy.1.len() {
            // It is beyond the copy itself.
            return self.is_unchanged();
        }
        self.still_left.get().unwrap_or_else(|| {
            let same = self.reads_the_same(from);
            self.still_left.set(Some(same));
            same
        })
    }

    /// Returns true if memory still equals the copy from an offset on, as far as is checked.
    fn reads_the_same(&self, from: usize) -> bool {
        let (start, bytes) = self.copy;
        let then = &bytes[from..bytes.len().min(from + CHECKED)];
        let mut now = vec![0; then.len()];
        self.files.read_memory(self.tid, start.wrapping_add(from as u64), &mut now) && now == then
    }

    /// Touches the stack pages beyond a copy that ends early although it is not full, so that the next copy does not
    /// end there.
    ///
    /// The kernel copies only pages that are in memory, and a function with a large array may never touch some pages in
    /// the middle of it: musl's `printf` has such an array, x264 has many. The array belongs to the running frame,
    /// which changes all the time, so memory beyond it can seldom be trusted. But a page that was read is in memory (as
    /// the page of zeros, which takes none).
    fn touch_rest(&self) {
        let (start, bytes) = self.copy;
        let mut at = start.saturating_add(bytes.len() as u64);
        // A full copy ends anywhere.
        while at.is_multiple_of(PAGE)
            && at - start < LARGEST_COPY
            && self.files.read_memory(self.tid, at, &mut [0])
        {
            at = at.saturating_add(PAGE);
        }
    }

    fn byte(&self, address: u64) -> Option<u8> {
        let start = address & !(PAGE - 1);
        let offset = (address - start) as usize;
        let mut pages = self.pages.borrow_mut();
        if let Some((_, page)) = pages.iter().find(|(at, _)| *at == start) {
            return page.get(offset).copied();
        }
        let mut page = vec![0; PAGE as usize];
        if !self.files.read_memory(self.tid, start, &mut page) {
            page.clear();
        }
        let byte = page.get(offset).copied();
        pages.push((start, page));
        byte
    }
}

impl LiveMemory for Beyond<'_> {
    fn beyond(&self, address: u64) -> Option<u64> {
        self.is_unchanged().then(|| self.read(address))?
    }

    fn elsewhere(&self, address: u64, left: u64) -> Option<u64> {
        self.is_still_left_at(left).then(|| self.read(address))?
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::files::MappedFile;

    /// A process whose memory holds, at each multiple of 8, that address.
    struct Memory {
        changed: bool,
    }

    impl Files for Memory {
        fn open(&mut self, _: &MappedFile<'_>) -> Option<(File, bool)> {
            None
        }

        fn perf_map(&mut self, _: i32) -> Option<File> {
            None
        }

        fn read_memory(&self, _: i32, address: u64, bytes: &mut [u8]) -> bool {
            for (index, byte) in bytes.iter_mut().enumerate() {
                let at = address + index as u64;
                let word = (at & !7) + u64::from(self.changed);
                *byte = word.to_le_bytes()[(at & 7) as usize];
            }
            address < 0x20_000
        }
    }

    #[test]
    fn what_lies_beyond_is_read_if_the_copy_still_holds() {
        let copy: Vec<u8> = (0..512u64).flat_map(|n| (0x1000 + 8 * n).to_le_bytes()).collect();
        let same = Memory { changed: false };
        let beyond = Beyond::new(&same, 1, 0x1000, &copy);
        assert_eq!(beyond.beyond(0x3008), Some(0x3008));
        assert_eq!(beyond.beyond(0x3ffc), Some(0x4000 << 32), "across two pages");
        assert_eq!(beyond.beyond(0x30_000), None, "not mapped");
        assert_eq!(beyond.beyond(u64::MAX), None);

        assert_eq!(beyond.elsewhere(0x8008, 0x1100), Some(0x8008));

        let changed = Memory { changed: true };
        let beyond = Beyond::new(&changed, 1, 0x1000, &copy);
        assert_eq!(beyond.beyond(0x3008), None);
        assert_eq!(beyond.elsewhere(0x8008, 0x1100), None, "another signal came since");
    }

    /// A process of which pages are read.
    #[derive(Default)]
    struct Untouched(RefCell<Vec<u64>>);

    impl Files for Untouched {
        fn open(&mut self, _: &MappedFile<'_>) -> Option<(File, bool)> {
            None
        }

        fn perf_map(&mut self, _: i32) -> Option<File> {
            None
        }

        fn read_memory(&self, _: i32, address: u64, bytes: &mut [u8]) -> bool {
            self.0.borrow_mut().push(address);
            bytes.fill(0);
            address < 0x9000
        }
    }

    #[test]
    fn pages_that_ended_a_copy_are_touched_for_the_next() {
        let read_above = |len: usize| {
            let files = Untouched::default();
            let copy = vec![1; len];
            assert_eq!(
                Beyond::new(&files, 1, 0x1800, &copy).beyond(0x7008),
                None,
                "it has changed"
            );
            let read = files.0.borrow();
            read.iter()
                .copied()
                .filter(|address| *address >= 0x1800 + len as u64)
                .collect::<Vec<_>>()
        };
        let pages: Vec<_> = (4..=9).map(|page| page << 12).collect();
        assert_eq!(read_above(0x2800), pages, "up to where the stack ends");
        assert_eq!(read_above(0x2008), [], "a full copy");
    }
}
