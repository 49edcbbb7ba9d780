//! Which words of the memory for tables are free.

use std::collections::BTreeMap;

use crate::layout::BLOCK_WORDS;

/// Free words, in blocks: what is taken in one piece is in one block.
#[derive(Debug, Default)]
pub struct Room {
    /// How many are free from a place on.
    free: BTreeMap<u32, u32>,
}

impl Room {
    /// These words are free from now on.
    pub fn give(&mut self, place: u32, words: u32) {
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

    /// The first place where so many are free; they are so no more.
    pub fn take(&mut self, words: u32) -> Option<u32> {
        let (&place, &len) = self.free.iter().find(|(_, len)| **len >= words)?;
        self.free.remove(&place);
        if len > words {
            self.free.insert(place + words, len - words);
        }
        Some(place)
    }

    /// How many are free.
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
        let mut room = Room::default();
        room.give(0, BLOCK);
        room.give(BLOCK, BLOCK);
        assert_eq!(room.take(BLOCK + 1), None);
        let places: Vec<_> = (0..4).map(|_| room.take(BLOCK / 2).expect("room")).collect();
        assert_eq!(places, [0, BLOCK / 2, BLOCK, BLOCK / 2 * 3]);
        assert_eq!((room.take(1), room.words()), (None, 0));
        for place in [1, 3, 0, 2].map(|at| places[at]) {
            room.give(place, BLOCK / 2);
        }
        // The blocks did not become one.
        assert_eq!((room.take(BLOCK + 1), room.words()), (None, 2 * BLOCK_WORDS));
        assert_eq!((room.take(BLOCK), room.take(BLOCK)), (Some(0), Some(BLOCK)));
    }
}
