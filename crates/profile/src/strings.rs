//! The string table: each distinct string once, in one buffer.

use std::hash::BuildHasher;

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
    index: HashTable<StringId>,
    // A fixed seed: the tables of two runs over the same input are equal.
    hasher: FixedState,
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
    pub fn intern(&mut self, text: &str) -> StringId {
        let hash = self.hasher.hash_one(text);
        let (buffer, ends) = (&self.text, &self.ends);
        if let Some(&id) = self.index.find(hash, |&id| slice(buffer, ends, id) == text) {
            return id;
        }
        let id = StringId::from_index(self.ends.len());
        self.text.push_str(text);
        self.ends.push(self.text.len());
        let (buffer, ends, hasher) = (&self.text, &self.ends, &self.hasher);
        self.index.insert_unique(hash, id, |&id| hasher.hash_one(slice(buffer, ends, id)));
        id
    }

    /// The identifier of `text`, if it was interned.
    pub fn find(&self, text: &str) -> Option<StringId> {
        let hash = self.hasher.hash_one(text);
        self.index.find(hash, |&id| self.get(id) == text).copied()
    }

    /// The string with this identifier.
    pub fn get(&self, id: StringId) -> &str {
        slice(&self.text, &self.ends, id)
    }

    /// How many distinct strings there are, the empty one included.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no string but the empty one.
    pub fn is_empty(&self) -> bool {
        self.ends.len() == 1
    }

    /// All strings, in the order in which they were first seen; the empty one is the first.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|index| self.get(StringId::from_index(index)))
    }
}

fn slice<'a>(text: &'a str, ends: &[usize], id: StringId) -> &'a str {
    let start = id.index().checked_sub(1).map_or(0, |before| ends[before]);
    &text[start..ends[id.index()]]
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
}
