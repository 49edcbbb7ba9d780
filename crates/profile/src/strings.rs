//! String table: stores each distinct string once, in one buffer.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::StringId;

/// Interned strings: equal strings have equal [`StringId`]s. The empty string is always
/// [`StringId::EMPTY`].
#[derive(Clone, Debug)]
pub struct Strings {
    text: String,
    /// End of string `i` in the buffer; it starts at the end of the string before it.
    ends: Vec<usize>,
    index: HashTable<Row>,
    // Fixed seed: two runs over the same input build equal tables.
    hasher: FixedState,
}

/// Position of a string in the buffer, stored here so that a comparison does not have to read `ends`. The default is the
/// empty string.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    start: usize,
    length: u32,
    id: StringId,
}

impl Default for Strings {
    fn default() -> Self {
        let mut strings = Self {
            text: String::new(),
            ends: Vec::new(),
            index: HashTable::new(),
            hasher: FixedState::with_seed(0),
        };
        strings.intern("");
        strings
    }
}

impl Strings {
    /// Returns the identifier of `text`, which is added if it is new. Text is cut off at 4 GiB.
    ///
    /// # Panics
    ///
    /// If there are more than 2^32 distinct strings.
    pub fn intern(&mut self, text: &str) -> StringId {
        self.intern_hashed(text, hash(&self.hasher, text))
    }

    /// Appends the identifiers of `texts` to `ids`, in order. Interning a few hundred at once is faster than one by one.
    ///
    /// # Panics
    ///
    /// If there are more than 2^32 distinct strings.
    pub fn intern_all<'a>(
        &mut self,
        texts: impl Iterator<Item = &'a str> + Clone,
        ids: &mut Vec<StringId>,
    ) {
        // Prefetches the memory that will be needed. The reads do not depend on each other, so that the CPU overlaps
        // their cache misses.
        let look_up = |text| {
            let hash = hash(&self.hasher, text);
            (hash, self.index.find(hash, |_| true).copied().unwrap_or_default())
        };
        let near: Vec<(u64, Row)> = texts.clone().map(look_up).collect();
        let first = |row: &Row| self.text.as_bytes().get(row.start).copied().unwrap_or_default();
        std::hint::black_box(near.iter().fold(0, |seen, (_, row)| seen ^ first(row)));
        for (text, (hash, row)) in texts.zip(near) {
            let is_it = row.is(text, &self.text);
            ids.push(if is_it { row.id } else { self.intern_hashed(text, hash) });
        }
    }

    fn intern_hashed(&mut self, text: &str, hash: u64) -> StringId {
        // A row's length has 32 bits.
        let text = &text[..text.floor_char_boundary(u32::MAX as usize)];
        let buffer = &self.text;
        if let Some(row) = self.index.find(hash, |row| row.is(text, buffer)) {
            return row.id;
        }
        let id = StringId::from_index(self.ends.len());
        let row = Row { start: self.text.len(), length: text.len() as u32, id };
        self.text.push_str(text);
        self.ends.push(self.text.len());
        let (buffer, hasher) = (&self.text, &self.hasher);
        self.index.insert_unique(hash, row, |row| self::hash(hasher, row.of(buffer)));
        id
    }

    /// Returns the identifier of `text`, if it is in the table.
    pub fn find(&self, text: &str) -> Option<StringId> {
        let hash = hash(&self.hasher, text);
        self.index.find(hash, |row| row.is(text, &self.text)).map(|row| row.id)
    }

    /// Returns the string with this identifier.
    pub fn get(&self, id: StringId) -> &str {
        let start = id.index().checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[id.index()]]
    }

    /// Number of distinct strings, including the empty one.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there are no strings except the empty one.
    pub fn is_empty(&self) -> bool {
        self.ends.len() == 1
    }

    /// Memory of the table in bytes.
    pub fn bytes(&self) -> usize {
        self.text.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.index.allocation_size()
    }

    /// Iterates over all strings, in the order in which they were added. The first one is the empty string.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|index| self.get(StringId::from_index(index)))
    }
}

/// Hash of the bytes alone: the implementation of `Hash` for `str` also hashes a terminator.
fn hash(hasher: &FixedState, text: &str) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write(text.as_bytes());
    hasher.finish()
}

impl Row {
    /// Returns the string of the row; `text` is the buffer.
    fn of(self, text: &str) -> &str {
        &text[self.start..self.start + self.length as usize]
    }

    #[inline]
    fn is(self, other: &str, text: &str) -> bool {
        // Compares bytes, which needs no check of character boundaries.
        let place = self.start..self.start + self.length as usize;
        self.length as usize == other.len() && text.as_bytes().get(place) == Some(other.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_are_one() {
        let mut strings = Strings::default();
        let a = strings.intern("main");
        let b = strings.intern("メイン");
        assert_eq!(strings.intern("main"), a);
        assert_ne!(a, b);
        assert_eq!(strings.intern(""), StringId::EMPTY);
        assert_eq!(strings.iter().collect::<Vec<_>>(), ["", "main", "メイン"]);
        assert_eq!(strings.find("メイン"), Some(b));
        assert_eq!(strings.find("other"), None);
    }

    #[test]
    fn many_at_once_are_as_one_by_one() {
        let texts: Vec<String> = (0..500u32).map(|n| "x".repeat((n * n % 97) as usize)).collect();
        let texts = || texts.iter().map(String::as_str);
        let (mut strings, mut ids) = (Strings::default(), Vec::new());
        strings.intern_all(texts(), &mut ids);
        assert!(texts().eq(ids.iter().map(|&id| strings.get(id))));
        let mut one_by_one = Strings::default();
        assert!(texts().map(|text| one_by_one.intern(text)).eq(ids.iter().copied()));
        strings.intern_all(texts(), &mut ids);
        assert_eq!(ids[..500], ids[500..]);
    }
}
