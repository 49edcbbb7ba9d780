//! Stacks, as a tree of (parent stack, frame) pairs.

use crate::children::Children;
use crate::{FrameId, StackId};

/// Interned stacks: equal stacks have equal [`StackId`]s, and a stack shares its callers with all
/// stacks that have the same. A parent's identifier is always below its children's.
#[derive(Clone, Debug)]
pub struct Stacks {
    parent: Vec<StackId>,
    frame: Vec<FrameId>,
    children: Children,
}

impl Default for Stacks {
    fn default() -> Self {
        // Row 0 is the root; its frame is never read.
        Self {
            parent: vec![StackId::ROOT],
            frame: vec![FrameId(u32::MAX)],
            children: Children::default(),
        }
    }
}

impl Stacks {
    /// The stack that has `frame` called from `parent`, which is added if it is new.
    pub fn intern(&mut self, parent: StackId, frame: FrameId) -> StackId {
        let new = StackId::from_index(self.parent.len());
        if let Some(known) = self.children.find_or_add(parent.0, frame.0, new.0) {
            return StackId(known);
        }
        self.parent.push(parent);
        self.frame.push(frame);
        new
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
