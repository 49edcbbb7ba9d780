//! The string table: each distinct string once, in one buffer.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::StringId;

/// Interned strings: equal strings have equal [`StringId`]s. The empty string is always
/// [`StringId::EMPTY`].
#[derive(Clone, Debug)]
pub struct Strings {
    text: String,
    /// Where string `i` ends; it starts where its predecessor ends.
    ends: Vec<usize>,
    index: HashTable<Row>,
    // A fixed seed: the tables of two runs over the same input are equal.
    hasher: FixedState,
}

/// A string's place in the text, so that it is compared without a look at `ends`. By default, the empty string.
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
    /// The identifier of `text`, which is added if it is new.
    ///
    /// # Panics
    ///
    /// When `text` has 4 GiB or more.
    pub fn intern(&mut self, text: &str) -> StringId {
        self.intern_hashed(text, hash(&self.hasher, text))
    }

    /// The identifiers of `texts`, in their order, appended to `ids`: a few hundred at once take less time than
    /// one by one.
    ///
    /// # Panics
    ///
    /// When one of them has 4 GiB or more.
    pub fn intern_all<'a>(
        &mut self,
        texts: impl Iterator<Item = &'a str> + Clone,
        ids: &mut Vec<StringId>,
    ) {
        // Looks at the memory that will be needed. Nothing waits for these looks, so that the CPU goes on to
        // the next one meanwhile.
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
        // Rows have no room for longer texts.
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

    /// The identifier of `text`, if it was interned.
    pub fn find(&self, text: &str) -> Option<StringId> {
        let hash = hash(&self.hasher, text);
        self.index.find(hash, |row| row.is(text, &self.text)).map(|row| row.id)
    }

    /// The string with this identifier.
    pub fn get(&self, id: StringId) -> &str {
        let start = id.index().checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[id.index()]]
    }

    /// Number of distinct strings, the empty one included.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there is no string but the empty one.
    pub fn is_empty(&self) -> bool {
        self.ends.len() == 1
    }

    /// Bytes of memory that the table takes.
    pub fn bytes(&self) -> usize {
        self.text.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.index.allocation_size()
    }

    /// All strings, in the order in which they were first seen; the empty one is the first.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|index| self.get(StringId::from_index(index)))
    }
}

/// The hash of nothing but the bytes: `str` has itself hashed with an end.
fn hash(hasher: &FixedState, text: &str) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write(text.as_bytes());
    hasher.finish()
}

impl Row {
    /// The string of a row of `text`.
    fn of(self, text: &str) -> &str {
        &text[self.start..self.start + self.length as usize]
    }

    #[inline]
    fn is(self, other: &str, text: &str) -> bool {
        // As bytes, which need no look at where characters end.
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
