//! A bounded cache of the results of parsing texts.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// Maps texts to the results of parsing them. When it exceeds its limit, it is cleared, so that its size depends neither
/// on the size of the input nor on its variety.
///
/// Texts are compared in full: equal hashes are not enough.
pub(crate) struct ByteCache<V> {
    text: Vec<u8>,
    index: HashTable<Entry<V>>,
    hasher: RandomState,
    limit: usize,
}

struct Entry<V> {
    hash: u64,
    tag: u32,
    start: u32,
    length: u32,
    value: V,
}

impl<V: Copy> ByteCache<V> {
    /// An empty cache for about `limit` bytes of text; at most 2 GiB.
    pub fn new(limit: usize) -> Self {
        Self {
            text: Vec::new(),
            index: HashTable::new(),
            hasher: RandomState::default(),
            limit: limit.min(1 << 31),
        }
    }

    /// The hash of a text, for both `get` and `insert`.
    pub fn hash(&self, text: &[u8]) -> u64 {
        self.hasher.hash_one(text)
    }

    /// The hash of a text whose meaning depends on `tag`, for `get_tagged` and `insert_tagged`.
    pub fn hash_tagged(&self, tag: u32, text: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u32(tag);
        hasher.write(text);
        hasher.finish()
    }

    /// Returns the result of parsing `text` if it is cached.
    pub fn get(&self, hash: u64, text: &[u8]) -> Option<V> {
        self.get_tagged(hash, 0, text)
    }

    /// Returns the result of parsing `text` under `tag` if it is cached.
    #[inline]
    pub fn get_tagged(&self, hash: u64, tag: u32, text: &[u8]) -> Option<V> {
        let found = self.index.find(hash, |entry| {
            let start = entry.start as usize;
            entry.hash == hash
                && entry.tag == tag
                && self.text.get(start..start + entry.length as usize) == Some(text)
        });
        found.map(|entry| entry.value)
    }

    /// Caches the result of parsing `text`, unless the text is longer than a quarter of the limit.
    pub fn insert(&mut self, hash: u64, text: &[u8], value: V) {
        self.insert_tagged(hash, 0, text, value);
    }

    /// Caches the result of parsing `text` under `tag`.
    pub fn insert_tagged(&mut self, hash: u64, tag: u32, text: &[u8], value: V) {
        if text.len() > self.limit / 4 {
            return;
        }
        if self.text.len() + text.len() > self.limit {
            self.text.clear();
            self.index.clear();
        }
        // Both fit in 32 bits: the limit is at most 2 GiB.
        let (start, length) = (self.text.len() as u32, text.len() as u32);
        self.text.extend_from_slice(text);
        let entry = Entry { hash, tag, start, length, value };
        self.index.insert_unique(hash, entry, |entry| entry.hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_cache_forgets_and_goes_on() {
        let mut cache = ByteCache::new(40);
        for n in 0..100u32 {
            let text = format!("text{n:04}");
            let hash = cache.hash(text.as_bytes());
            assert_eq!(cache.get(hash, text.as_bytes()), None);
            cache.insert(hash, text.as_bytes(), n);
            assert_eq!(cache.get(hash, text.as_bytes()), Some(n));
            assert!(cache.text.len() <= 40);
        }
        let long = [b'x'; 11];
        let hash = cache.hash(&long);
        cache.insert(hash, &long, 1);
        assert_eq!(cache.get(hash, &long), None);
    }

    #[test]
    fn equal_hashes_do_not_make_equal_texts() {
        let mut cache = ByteCache::new(1000);
        cache.insert(7, b"one", 1);
        assert_eq!(cache.get(7, b"two"), None);
        cache.insert(7, b"two", 2);
        assert_eq!((cache.get(7, b"one"), cache.get(7, b"two")), (Some(1), Some(2)));
    }
}
