//! Free list of the memory for tables.

use std::collections::BTreeMap;

use crate::layout::BLOCK_WORDS;

/// Free words, in blocks: an allocation does not cross the end of a block.
#[derive(Debug, Default)]
pub struct FreeList {
    /// Number of free words from each place on.
    free: BTreeMap<u32, u32>,
}

impl FreeList {
    /// Releases words.
    pub fn release(&mut self, place: u32, words: u32) {
        let (mut place, mut words) = (place, words);
        if let Some((&before, &len)) = self.free.range(..place).next_back()
            && before + len == place
            && block(before) == block(place)
        {
            self.free.remove(&before);
            (place, words) = (before, len + words);
        }
        let end = place + words;
        if block(end) == block(place)
            && let Some(len) = self.free.remove(&end)
        {
            words += len;
        }
        self.free.insert(place, words);
    }

    /// Allocates words at the first place with enough free ones.
    pub fn allocate(&mut self, words: u32) -> Option<u32> {
        let (&place, &len) = self.free.iter().find(|(_, len)| **len >= words)?;
        self.free.remove(&place);
        if len > words {
            self.free.insert(place + words, len - words);
        }
        Some(place)
    }

    /// Number of free words.
    pub fn words(&self) -> usize {
        self.free.values().map(|words| *words as usize).sum()
    }
}

fn block(place: u32) -> u32 {
    place / BLOCK_WORDS as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u32 = BLOCK_WORDS as u32;

    #[test]
    fn what_is_given_back_is_whole_again() {
        let mut list = FreeList::default();
        list.release(0, BLOCK);
        list.release(BLOCK, BLOCK);
        assert_eq!(list.allocate(BLOCK + 1), None);
        let places: Vec<_> = (0..4).map(|_| list.allocate(BLOCK / 2).expect("room")).collect();
        assert_eq!(places, [0, BLOCK / 2, BLOCK, BLOCK / 2 * 3]);
        assert_eq!((list.allocate(1), list.words()), (None, 0));
        for place in [1, 3, 0, 2].map(|at| places[at]) {
            list.release(place, BLOCK / 2);
        }
        // The blocks did not become one.
        assert_eq!((list.allocate(BLOCK + 1), list.words()), (None, 2 * BLOCK_WORDS));
        assert_eq!((list.allocate(BLOCK), list.allocate(BLOCK)), (Some(0), Some(BLOCK)));
    }
}
