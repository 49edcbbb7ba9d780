//! Starts of functions in a piece of code.

use std::collections::BTreeSet;
use std::ops::Range;

/// Offsets at which functions are known to start.
pub(super) struct Starts {
    all: BTreeSet<usize>,
    /// One bit for each offset: membership is tested at every instruction.
    bits: Vec<u64>,
}

impl Starts {
    /// Creates an empty set for `len` bytes of code.
    pub(super) fn new(len: usize) -> Self {
        Self { all: BTreeSet::new(), bits: vec![0; len.div_ceil(64)] }
    }

    #[inline]
    pub(super) fn contains(&self, at: usize) -> bool {
        self.bits.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Adds an offset; returns true if it is new.
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
