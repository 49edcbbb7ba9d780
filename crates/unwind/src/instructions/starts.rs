//! Where functions start in a piece of code.

use std::collections::BTreeSet;
use std::ops::Range;

/// Offsets of functions, as far as they are known.
pub(super) struct Starts {
    all: BTreeSet<usize>,
    /// A bit for each offset: whether it is one is asked at every instruction.
    bits: Vec<u64>,
}

impl Starts {
    /// In so many bytes of code; none is known.
    pub(super) fn new(len: usize) -> Self {
        Self { all: BTreeSet::new(), bits: vec![0; len.div_ceil(64)] }
    }

    #[inline]
    pub(super) fn contains(&self, at: usize) -> bool {
        self.bits.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Returns whether it is new.
    pub(super) fn insert(&mut self, at: usize) -> bool {
        if let Some(word) = self.bits.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
        self.all.insert(at)
    }

    pub(super) fn first_in(&self, range: Range<usize>) -> Option<usize> {
        self.all.range(range).next().copied()
    }

    pub(super) fn last_up_to(&self, at: usize) -> Option<usize> {
        self.all.range(..=at).next_back().copied()
    }
}
