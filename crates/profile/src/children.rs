//! The edges of a growing tree: which child of a node has which key.

/// Finds a node's child by its key.
///
/// A tree of millions of nodes is larger than the CPU's caches, so that a look costs what it waits
/// for memory. Hence rows of eight bytes, of which the first looked at is mostly the right one; and
/// whoever knows several hashes in advance can have their rows [fetched](Self::fetch) all at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Children {
    /// A power of two of rows, three quarters of them taken at most. An edge is in the first row that
    /// was free from that of its hash on.
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
    /// The child whose edge has this hash and of which `is_it` is true, if there is one. If not,
    /// that is `new` from now on.
    #[inline]
    pub fn find_or_add(&mut self, hash: u32, new: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
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
        // Whatever their hashes; after the last row comes the first.
        let edges: Vec<u32> = (0..500).map(|n| if n % 3 == 0 { u32::MAX } else { n }).collect();
        for again in [false, true] {
            for (place, &hash) in edges.iter().enumerate() {
                let child = place as u32 + 1;
                let found = children.find_or_add(hash, child, |known| known == child);
                assert_eq!(found, again.then_some(child));
            }
        }
        assert_eq!(children.find_or_add(u32::MAX, 501, |_| false), None);
    }
}
