//! Texts by which stacks of events are kept apart: keys have their hashes.

use hashbrown::HashMap;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use pyrograph_event::counted::ByValue;

use crate::layout::{BY_NUMBER, BY_TEXT, BY_UNREAD, KIND_PROBE, Key};
use crate::values::KeyText;

/// The texts that were seen so far. The programs' map has room for as many.
#[derive(Debug, Default)]
pub struct KeyTexts {
    map: Option<MapHandle>,
    known: HashMap<u64, KeyText>,
}

impl KeyTexts {
    /// Texts of the programs' map.
    pub fn new(map: MapHandle) -> Self {
        Self { map: Some(map), known: HashMap::new() }
    }

    /// Reads the text of a key, if it has one that was not seen before.
    pub fn read(&mut self, key: &Key) {
        if key.kind != KIND_PROBE || key.detail != BY_TEXT || self.known.contains_key(&key.waker) {
            return;
        }
        let bytes = self
            .map
            .as_ref()
            .and_then(|map| map.lookup(&key.waker.to_ne_bytes(), MapFlags::ANY).ok()?);
        if let Some(bytes) = bytes {
            self.known.insert(key.waker, bytemuck::pod_read_unaligned(&bytes));
        }
    }

    /// The value by which the stacks of a key are kept apart. Its text was read.
    pub fn by(&self, key: &Key) -> Option<ByValue<'_>> {
        if key.kind != KIND_PROBE {
            return None;
        }
        match key.detail {
            BY_NUMBER => Some(ByValue::Number(key.waker)),
            BY_TEXT => Some(match self.known.get(&key.waker) {
                Some(text) => ByValue::Text(text.bytes(), text.all as usize),
                None => ByValue::Unread,
            }),
            BY_UNREAD => Some(ByValue::Unread),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_values() {
        let mut texts = KeyTexts::default();
        let mut text = KeyText { length: 2, all: 70, bytes: [0; 64] };
        text.bytes[..3].copy_from_slice(b"abc");
        texts.known.insert(9, text);
        let by = |kind, detail, waker| {
            let key = Key { kind, detail, waker, ..bytemuck::Zeroable::zeroed() };
            texts.by(&key)
        };
        assert_eq!(by(KIND_PROBE, BY_NUMBER, 9), Some(ByValue::Number(9)));
        assert_eq!(by(KIND_PROBE, BY_TEXT, 9), Some(ByValue::Text(b"ab", 70)));
        assert_eq!(by(KIND_PROBE, BY_TEXT, 8), Some(ByValue::Unread), "there was no room");
        assert_eq!(by(KIND_PROBE, BY_UNREAD, 9), Some(ByValue::Unread));
        assert_eq!(by(KIND_PROBE, 0, 9), None);
        assert_eq!(by(KIND_PROBE + 1, BY_NUMBER, 9), None);
    }
}
