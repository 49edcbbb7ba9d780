//! Stacks, as a tree of (parent stack, frame) pairs.

use hashbrown::HashTable;

use crate::{FrameId, StackId};

/// Interned stacks: equal stacks have equal [`StackId`]s, and a stack shares its callers with all
/// stacks that have the same. A parent's identifier is always below its children's.
#[derive(Clone, Debug)]
pub struct Stacks {
    parent: Vec<StackId>,
    frame: Vec<FrameId>,
    index: HashTable<Entry>,
}

/// A row again, beside its identifier: large tables do not fit in the CPU's caches, and so each look
/// at a row from the index would wait for memory.
#[derive(Clone, Copy, Debug)]
struct Entry {
    parent: StackId,
    frame: FrameId,
    id: StackId,
}

impl Default for Stacks {
    fn default() -> Self {
        // Row 0 is the root; its frame is never read.
        Self {
            parent: vec![StackId::ROOT],
            frame: vec![FrameId(u32::MAX)],
            index: HashTable::new(),
        }
    }
}

impl Stacks {
    /// The stack that has `frame` called from `parent`, which is added if it is new.
    pub fn intern(&mut self, parent: StackId, frame: FrameId) -> StackId {
        let hash = hash(parent, frame);
        let found = self.index.find(hash, |entry| entry.parent == parent && entry.frame == frame);
        if let Some(entry) = found {
            return entry.id;
        }
        let id = StackId::from_index(self.parent.len());
        self.parent.push(parent);
        self.frame.push(frame);
        let entry = Entry { parent, frame, id };
        self.index.insert_unique(hash, entry, |entry| self::hash(entry.parent, entry.frame));
        id
    }

    /// The stack of `frames`, root first.
    pub fn intern_path(&mut self, frames: impl IntoIterator<Item = FrameId>) -> StackId {
        frames.into_iter().fold(StackId::ROOT, |parent, frame| self.intern(parent, frame))
    }

    /// The caller's stack and the last (leaf) frame; `None` for the root.
    pub fn get(&self, id: StackId) -> Option<(StackId, FrameId)> {
        (id != StackId::ROOT).then(|| (self.parent[id.index()], self.frame[id.index()]))
    }

    /// The frames of a stack, **leaf first**.
    pub fn leaf_first(&self, id: StackId) -> impl Iterator<Item = FrameId> + '_ {
        let mut at = id;
        std::iter::from_fn(move || {
            let (parent, frame) = self.get(at)?;
            at = parent;
            Some(frame)
        })
    }

    /// How many distinct stacks there are, the root and all shared callers included.
    pub fn len(&self) -> usize {
        self.parent.len()
    }

    /// Whether there is no stack but the root.
    pub fn is_empty(&self) -> bool {
        self.parent.len() == 1
    }
}

/// A multiplicative hash of the pair; its high bits, which `hashbrown` uses to tell entries of a
/// group apart, are folded into the low ones that choose the group.
fn hash(parent: StackId, frame: FrameId) -> u64 {
    let pair = u64::from(parent.0) << 32 | u64::from(frame.0);
    let wide = u128::from(pair ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
    (wide >> 64) as u64 ^ wide as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_stacks_are_one_and_share_their_callers() {
        let mut stacks = Stacks::default();
        let a = stacks.intern_path([FrameId(0), FrameId(1)]);
        let b = stacks.intern_path([FrameId(0), FrameId(2)]);
        assert_eq!(stacks.intern_path([FrameId(0), FrameId(1)]), a);
        assert_ne!(a, b);
        assert_eq!(stacks.len(), 4);
        assert_eq!(stacks.leaf_first(b).collect::<Vec<_>>(), [FrameId(2), FrameId(0)]);
        assert_eq!(stacks.get(StackId::ROOT), None);
    }
}
