//! Stacks, stored as a tree of (parent stack, frame) pairs.

use crate::children::{self, Children};
use crate::{FrameId, StackId};

/// Interned stacks: equal stacks have equal [`StackId`]s, and stacks with the same callers share them. A parent's
/// identifier is always smaller than its children's.
#[derive(Clone, Debug)]
pub struct Stacks {
    /// Caller and leaf of each stack.
    rows: Vec<(StackId, FrameId)>,
    /// Hash of each stack. It depends on the frames only, so that it is known before the callers have identifiers.
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
    /// Returns the stack in which `parent` calls `frame`. Adds it if it is new.
    #[inline]
    pub fn intern(&mut self, parent: StackId, frame: FrameId) -> StackId {
        let hash = |hashes: &[u32]| children::hash(hashes[parent.index()], frame.0);
        self.intern_hashed(parent, frame, hash)
    }

    /// Like [`Self::intern`]. `hash` returns the hash of the new stack; its argument is the hashes of all stacks so far.
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

    /// Returns the stack in which `parent` calls `frame`, if it is in the table.
    pub fn find(&self, parent: StackId, frame: FrameId) -> Option<StackId> {
        let hash = || children::hash(self.hashes[parent.index()], frame.0);
        let is_it = |known: u32| self.rows.get(known as usize) == Some(&(parent, frame));
        self.children.find(parent.0, hash, is_it).map(StackId)
    }

    /// Memory of the table in bytes.
    pub fn bytes(&self) -> usize {
        let row = size_of::<(StackId, FrameId)>();
        self.rows.capacity() * row
            + self.hashes.capacity() * size_of::<u32>()
            + self.children.bytes()
    }

    /// Interns the stacks of the steps of a walk, appends them to `found` in order, and clears the steps. Interning about
    /// [`Walk::LONG`] steps at once is faster than one by one.
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

    /// Prefetches the memory needed to look up stacks with these hashes. The reads do not depend on each other, so that
    /// the CPU overlaps their cache misses.
    fn fetch(&self, hashes: impl Iterator<Item = u32>) {
        let near: Vec<u32> = hashes.map(|hash| self.children.fetch(hash)).collect();
        let callers = near.iter().map(|&known| self.rows[known as usize].0.0);
        std::hint::black_box(callers.fold(0, |sum, caller| sum ^ caller));
    }

    /// Interns the stacks of all nodes of a tree and returns them by node. Node 0 is the root. `nodes` yields parent and
    /// frame of all other nodes, in order; a parent's number is smaller than the node's own.
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

    /// Returns the stack of `frames`, root first. Adds it if it is new.
    pub fn intern_path(&mut self, frames: impl IntoIterator<Item = FrameId>) -> StackId {
        frames.into_iter().fold(StackId::ROOT, |parent, frame| self.intern(parent, frame))
    }

    /// Returns the caller's stack and the leaf frame; `None` for the root.
    pub fn get(&self, id: StackId) -> Option<(StackId, FrameId)> {
        (id != StackId::ROOT).then(|| self.rows[id.index()])
    }

    /// Iterates over the caller's stack and the leaf frame of all stacks except the root, which is row 0. Callers come
    /// before callees.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = (StackId, FrameId)> + Clone + '_ {
        self.rows[1..].iter().copied()
    }

    /// Iterates over the frames of a stack, **leaf first**.
    pub fn leaf_first(&self, id: StackId) -> impl Iterator<Item = FrameId> + '_ {
        let mut at = id;
        std::iter::from_fn(move || {
            let (parent, frame) = self.get(at)?;
            at = parent;
            Some(frame)
        })
    }

    /// Adds a row without checking it.
    #[cfg(test)]
    pub(crate) fn push_unchecked(&mut self, caller: StackId, frame: FrameId) {
        self.rows.push((caller, frame));
    }

    /// Number of distinct stacks, including the root and all shared callers.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if there are no stacks except the root.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }
}

/// A walk through a tree of stacks, one frame per step. [`Stacks::intern_walk`] interns the stacks on it in batches.
#[derive(Clone, Debug, Default)]
pub struct Walk {
    steps: Vec<Step>,
    /// Hashes of the stacks on the path to the last step.
    hashes: Vec<u32>,
    /// Stacks on the path to the last interned step.
    path: Vec<StackId>,
}

#[derive(Clone, Debug)]
struct Step {
    depth: usize,
    frame: FrameId,
    hash: u32,
}

impl Walk {
    /// Batch size above which larger batches are not faster. It is large enough for many memory accesses to overlap, and
    /// small enough for the prefetched memory to be still in the cache when it is needed.
    pub const LONG: usize = 256;

    /// Goes back to the first `depth` frames of the current path, if it is longer, then on to `frame`.
    pub fn step(&mut self, depth: usize, frame: FrameId) {
        self.hashes.truncate(depth);
        let hash = children::hash(self.hashes.last().copied().unwrap_or(0), frame.0);
        self.steps.push(Step { depth: self.hashes.len(), frame, hash });
        self.hashes.push(hash);
    }

    /// Number of steps that have not been interned yet.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns true if all steps have been interned.
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
