//! Edges of a growing tree, from a node and a key to the node's child.

/// Index of a tree's edges that finds a node's child by its key.
///
/// A tree of millions of nodes is larger than the CPU's caches, so the cost of a lookup is its cache misses. But most
/// nodes have a single child, which was added right after its parent. Such an edge is found in the tree's own rows, next
/// to the parent's row, and is not stored here. The other edges are a fraction of the nodes. They are in a hash table
/// with rows of eight bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Children {
    /// Hash table with linear probing. The number of rows is a power of two; at most three quarters are in use. An edge
    /// is in the first row, starting at its hash, that was free when it was added.
    rows: Vec<Edge>,
    len: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Edge {
    hash: u32,
    /// Child node; 0 if the row is free: node 0 is the root, which is no node's child.
    child: u32,
}

impl Children {
    /// Finds the child of `parent` with a certain key. If there is none, adds `new`, which must be the tree's next row,
    /// as that child and returns `None`.
    ///
    /// `hash` returns the hash of the edge. `is_it` returns true for the wanted child only; it may be called with any
    /// node below `new`.
    #[inline]
    pub fn find_or_add(
        &mut self,
        parent: u32,
        new: u32,
        hash: impl Fn() -> u32,
        is_it: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let next = parent + 1;
        if next == new {
            return None;
        }
        if is_it(next) {
            return Some(next);
        }
        self.other(hash(), new, is_it)
    }

    /// Finds the child of `parent` with a certain key, as [`Self::find_or_add`] does, without adding it. `is_it` may also
    /// be called with the number after the last node.
    pub fn find(
        &self,
        parent: u32,
        hash: impl Fn() -> u32,
        is_it: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        if is_it(parent + 1) {
            return Some(parent + 1);
        }
        let hash = hash();
        let mask = self.rows.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        while self.rows[at].child != 0 {
            let edge = self.rows[at];
            if edge.hash == hash && is_it(edge.child) {
                return Some(edge.child);
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// Memory of the table in bytes.
    pub fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Edge>()
    }

    fn other(&mut self, hash: u32, new: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        if self.len >= self.rows.len() / 4 * 3 {
            self.grow();
        }
        let mask = self.rows.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let edge = &mut self.rows[at];
            if edge.child == 0 {
                *edge = Edge { hash, child: new };
                self.len += 1;
                return None;
            }
            if edge.hash == hash && is_it(edge.child) {
                return Some(edge.child);
            }
            at = (at + 1) & mask;
        }
    }

    /// Reads the row at which the search for an edge with this hash begins. Returns its child, or 0.
    #[inline]
    pub fn fetch(&self, hash: u32) -> u32 {
        self.rows.get(hash as usize & self.rows.len().wrapping_sub(1)).map_or(0, |row| row.child)
    }

    /// Doubles the number of rows in place. Only the new half is memory that is touched for the first time.
    #[cold]
    fn grow(&mut self) {
        let half = self.rows.len();
        self.rows.resize((half * 2).max(64), Edge::default());
        let mask = self.rows.len() - 1;
        // An edge moves to the row for its hash in the upper half, or to a row that has become free. The loop starts at a
        // free row, so that no edge is placed beyond one that still has to be moved.
        let free = self.rows[..half].iter().position(|edge| edge.child == 0).unwrap_or(0);
        for from in (free..half).chain(0..free) {
            let edge = std::mem::take(&mut self.rows[from]);
            if edge.child != 0 {
                let mut at = edge.hash as usize & mask;
                while self.rows[at].child != 0 {
                    at = (at + 1) & mask;
                }
                self.rows[at] = edge;
            }
        }
    }
}

/// Hash of the edge with `key` below a node with the hash `parent`: a multiplication, whose halves are folded into one.
#[inline]
pub(crate) fn hash(parent: u32, key: u32) -> u32 {
    let pair = u64::from(parent) << 32 | u64::from(key);
    let wide = u128::from(pair ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
    let folded = (wide >> 64) as u64 ^ wide as u64;
    (folded >> 32) as u32 ^ folded as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_found_again() {
        let mut children = Children::default();
        // Parents before their children, which seldom come right after them; whatever their hashes: after the
        // last row comes the first.
        let parent = |child: u32| (child - 1) / 3;
        let hash = |child: u32| if child.is_multiple_of(3) { u32::MAX } else { child };
        for again in [false, true] {
            for child in 1..500 {
                let new = if again { 500 } else { child };
                let is_it = |known| known == child;
                let found = children.find_or_add(parent(child), new, || hash(child), is_it);
                assert_eq!(found, again.then_some(child));
            }
        }
        assert_eq!(children.find_or_add(7, 500, || hash(24), |_| false), None);
        assert_eq!(children.find_or_add(7, 501, || hash(24), |known| known == 500), Some(500));
    }

    #[test]
    fn a_node_that_comes_right_after_its_parent_takes_no_room() {
        let mut children = Children::default();
        for child in 1..100 {
            assert_eq!(children.find_or_add(child - 1, child, || 0, |_| false), None);
        }
        assert_eq!(children.find_or_add(50, 100, || 0, |known| known == 51), Some(51));
        assert!(children.rows.is_empty());
    }
}
