//! Stacks, as a tree of (parent stack, frame) pairs.

use crate::children::{self, Children};
use crate::{FrameId, StackId};

/// Interned stacks: equal stacks have equal [`StackId`]s, and a stack shares its callers with all
/// stacks that have the same. A parent's identifier is always below its children's.
#[derive(Clone, Debug)]
pub struct Stacks {
    /// Caller and leaf of each.
    rows: Vec<(StackId, FrameId)>,
    /// Of all frames of the stack, so that it is known before the identifiers of its callers are.
    hashes: Vec<u32>,
    children: Children,
}

impl Default for Stacks {
    fn default() -> Self {
        // Row 0 is the root; its frame is never read.
        Self {
            rows: vec![(StackId::ROOT, FrameId(u32::MAX))],
            hashes: vec![0],
            children: Children::default(),
        }
    }
}

impl Stacks {
    /// The stack that has `frame` called from `parent`, which is added if it is new.
    #[inline]
    pub fn intern(&mut self, parent: StackId, frame: FrameId) -> StackId {
        let hash = |hashes: &[u32]| children::hash(hashes[parent.index()], frame.0);
        self.intern_hashed(parent, frame, hash)
    }

    /// The same; `hash` has the hash of all frames, if need be from those of the stacks so far.
    #[inline]
    fn intern_hashed(
        &mut self,
        parent: StackId,
        frame: FrameId,
        hash: impl Fn(&[u32]) -> u32,
    ) -> StackId {
        let Self { rows, hashes, children } = self;
        let new = StackId::from_index(rows.len());
        let is_it = |known: u32| rows[known as usize] == (parent, frame);
        if let Some(known) = children.find_or_add(parent.0, new.0, || hash(hashes), is_it) {
            return StackId(known);
        }
        rows.push((parent, frame));
        hashes.push(hash(hashes));
        new
    }

    /// The stack that has `frame` called from `parent`, if it was interned.
    pub fn find(&self, parent: StackId, frame: FrameId) -> Option<StackId> {
        let hash = || children::hash(self.hashes[parent.index()], frame.0);
        let is_it = |known: u32| self.rows.get(known as usize) == Some(&(parent, frame));
        self.children.find(parent.0, hash, is_it).map(StackId)
    }

    /// Bytes of memory that the table takes.
    pub fn bytes(&self) -> usize {
        let row = size_of::<(StackId, FrameId)>();
        self.rows.capacity() * row
            + self.hashes.capacity() * size_of::<u32>()
            + self.children.bytes()
    }

    /// The stacks of a walk's steps, in their order, appended to `found`; then there are no steps. About
    /// [`Walk::LONG`] steps at once take less time than one by one.
    pub fn intern_walk(&mut self, walk: &mut Walk, found: &mut Vec<StackId>) {
        self.fetch(walk.steps.iter().map(|step| step.hash));
        for step in walk.steps.drain(..) {
            walk.path.truncate(step.depth);
            let parent = walk.path.last().copied().unwrap_or(StackId::ROOT);
            let stack = self.intern_hashed(parent, step.frame, |_| step.hash);
            walk.path.push(stack);
            found.push(stack);
        }
    }

    /// Looks at the memory that will be needed for stacks with these hashes. Nothing waits for these
    /// looks, so that the CPU goes on to the next one meanwhile.
    fn fetch(&self, hashes: impl Iterator<Item = u32>) {
        let near: Vec<u32> = hashes.map(|hash| self.children.fetch(hash)).collect();
        let callers = near.iter().map(|&known| self.rows[known as usize].0.0);
        std::hint::black_box(callers.fold(0, |sum, caller| sum ^ caller));
    }

    /// The stacks of the nodes of a tree, by node, the root with them, which is node 0. Given are, of all
    /// others in order, the parent, whose number is below the node's own, and the frame.
    pub fn intern_tree(
        &mut self,
        nodes: impl IntoIterator<Item = (usize, FrameId)>,
    ) -> Vec<StackId> {
        let (mut stacks, mut hashes) = (vec![StackId::ROOT], vec![0]);
        let (mut nodes, mut batch) = (nodes.into_iter(), Vec::with_capacity(Walk::LONG));
        loop {
            batch.extend(nodes.by_ref().take(Walk::LONG));
            if batch.is_empty() {
                return stacks;
            }
            let known = stacks.len();
            for &(parent, frame) in &batch {
                hashes.push(children::hash(hashes[parent], frame.0));
            }
            self.fetch(hashes[known..].iter().copied());
            for ((parent, frame), &hash) in batch.drain(..).zip(&hashes[known..]) {
                stacks.push(self.intern_hashed(stacks[parent], frame, |_| hash));
            }
        }
    }

    /// The stack of `frames`, root first.
    pub fn intern_path(&mut self, frames: impl IntoIterator<Item = FrameId>) -> StackId {
        frames.into_iter().fold(StackId::ROOT, |parent, frame| self.intern(parent, frame))
    }

    /// The caller's stack and the last (leaf) frame; `None` for the root.
    pub fn get(&self, id: StackId) -> Option<(StackId, FrameId)> {
        (id != StackId::ROOT).then(|| self.rows[id.index()])
    }

    /// Caller's stack and leaf of all stacks but the root, which is the first, in their order: callers
    /// come first.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = (StackId, FrameId)> + Clone + '_ {
        self.rows[1..].iter().copied()
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

    /// Adds a row that may be wrong.
    #[cfg(test)]
    pub(crate) fn push_unchecked(&mut self, caller: StackId, frame: FrameId) {
        self.rows.push((caller, frame));
    }

    /// Number of distinct stacks, the root and all shared callers included.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True if there is no stack but the root.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }
}

/// A way through a tree of stacks, a frame a step; what it meets is interned many steps at once, by
/// [`Stacks::intern_walk`].
#[derive(Clone, Debug, Default)]
pub struct Walk {
    steps: Vec<Step>,
    /// The hashes of the stacks on the way to the last step.
    hashes: Vec<u32>,
    /// The stacks on the way to the last step that was interned.
    path: Vec<StackId>,
}

#[derive(Clone, Debug)]
struct Step {
    depth: usize,
    frame: FrameId,
    hash: u32,
}

impl Walk {
    /// So many steps at once that more would take no less time: enough for the memory of many to be on its
    /// way, and few enough for it to be there still when it is needed.
    pub const LONG: usize = 256;

    /// Goes back to the first `depth` frames of where it is, if there are more, and on to `frame`.
    pub fn step(&mut self, depth: usize, frame: FrameId) {
        self.hashes.truncate(depth);
        let hash = children::hash(self.hashes.last().copied().unwrap_or(0), frame.0);
        self.steps.push(Step { depth: self.hashes.len(), frame, hash });
        self.hashes.push(hash);
    }

    /// Number of steps that are not interned yet.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// True if all steps are interned.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
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

    #[test]
    fn a_stack_is_found_only_if_it_is_there() {
        let mut stacks = Stacks::default();
        assert_eq!(stacks.find(StackId::ROOT, FrameId(0)), None);
        let a = stacks.intern(StackId::ROOT, FrameId(0));
        let [b, c] = [1, 2].map(|frame| stacks.intern(a, FrameId(frame)));
        assert_eq!(stacks.find(StackId::ROOT, FrameId(0)), Some(a));
        assert_eq!([1, 2, 3].map(|frame| stacks.find(a, FrameId(frame))), [Some(b), Some(c), None]);
        assert_eq!(stacks.find(c, FrameId(0)), None);
        assert_eq!(stacks.len(), 4);
    }

    #[test]
    fn a_tree_is_met_again() {
        let mut stacks = Stacks::default();
        // Two children each, in the order of a heap; some frames come up again and again.
        let tree = || (1..1000).map(|node| ((node - 1) / 2, FrameId(node as u32 % 7)));
        let all = stacks.intern_tree(tree());
        assert_eq!(all.len(), 1000);
        for (node, (parent, frame)) in (1..).zip(tree()) {
            assert_eq!(stacks.intern(all[parent], frame), all[node]);
        }
        assert_eq!(stacks.intern_tree(tree()), all);
        assert_eq!(stacks.intern_tree([]), [StackId::ROOT]);
    }

    #[test]
    fn a_walk_meets_what_was_interned_otherwise() {
        let (a, b, c) = (FrameId(0), FrameId(1), FrameId(2));
        let mut stacks = Stacks::default();
        let [ab, ac] = [stacks.intern_path([a, b]), stacks.intern_path([a, c])];
        let mut walk = Walk::default();
        let mut found = Vec::new();
        walk.step(0, a);
        walk.step(1, b);
        walk.step(2, c);
        stacks.intern_walk(&mut walk, &mut found);
        assert!(walk.is_empty());
        walk.step(1, c);
        walk.step(9, b);
        walk.step(0, c);
        assert_eq!(walk.len(), 3);
        stacks.intern_walk(&mut walk, &mut found);
        assert_eq!(found[1], ab);
        assert_eq!(found[3], ac);
        let paths = [vec![a, b, c], vec![a, c, b], vec![c]];
        assert_eq!([found[2], found[4], found[5]], paths.map(|path| stacks.intern_path(path)));
    }
}
