//! The edges of a growing tree that its rows do not hold: which child of a node has which key.

/// Finds a node's child by its key.
///
/// A tree of millions of nodes is larger than the CPU's caches, so that a look costs what it waits for
/// memory. But most nodes have one child, which came right after its parent: that is seen in the tree's own
/// rows, next to the parent's, and is not in here. What is left is a fraction of the nodes, in a table with rows
/// of eight bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Children {
    /// A power of two of rows, three quarters of them taken at most. An edge is in the first row that was
    /// free from that of its hash on.
    rows: Vec<Edge>,
    len: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Edge {
    hash: u32,
    /// 0 if the row is free: that is the root, and nobody's child.
    child: u32,
}

impl Children {
    /// The child of `parent` with some key: its edge has this hash, and of it alone `is_it` is true, which may
    /// be asked of any node below `new`. If there is none, that is `new` from now on, the tree's next row.
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

    /// The child of `parent` with some key, if there is one, as in [`Self::find_or_add`]; `is_it` may be asked
    /// of the number after the last node's, too.
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

    /// Bytes of memory that it takes.
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

    /// Looks at the row where an edge with this hash is, or would be, and returns who is there.
    #[inline]
    pub fn fetch(&self, hash: u32) -> u32 {
        self.rows.get(hash as usize & self.rows.len().wrapping_sub(1)).map_or(0, |row| row.child)
    }

    /// Doubles the rows, in place: the new half is all the memory that is touched for the first time.
    #[cold]
    fn grow(&mut self) {
        let half = self.rows.len();
        self.rows.resize((half * 2).max(64), Edge::default());
        let mask = self.rows.len() - 1;
        // An edge moves to where its row in the upper half is, or back to a row that was left. Begun
        // after a free row, no edge goes past one that is still to be moved.
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

/// The hash of what has `key` below what has the hash `parent`: a multiplication, whose halves are
/// folded into one.
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
