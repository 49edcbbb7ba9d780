//! The edges of a growing tree: which child of a node has which key.

/// Finds a node's child by its key.
///
/// A tree of millions of nodes is larger than the CPU's caches, so that a look costs what it waits for
/// memory. Most nodes have one child, so the first one stands with its parent, where a depth-first input
/// finds it. The others are in one table, with rows of eight bytes, of which the first looked at is mostly the
/// right one. Whoever knows many hashes in advance can have their rows [fetched](Self::fetch) all at once,
/// and is best served if all children are in the table.
#[derive(Clone, Debug)]
pub(crate) struct Children {
    /// Key and identifier of each node's first child; 0 if it has none. `None`: they are in the table, too.
    first: Option<Vec<(u32, u32)>>,
    /// The others: a power of two of rows, three quarters of them taken at most. An edge is in the first
    /// row that was free from that of its hash on.
    rows: Vec<Edge>,
    len: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Edge {
    hash: u32,
    /// 0 if the row is free: that is the root, and nobody's child.
    child: u32,
}

impl Default for Children {
    fn default() -> Self {
        Self { first: Some(Vec::new()), rows: Vec::new(), len: 0 }
    }
}

impl Children {
    /// From the first child on, puts all into the table.
    pub fn fetch_mostly(&mut self) {
        if self.first.as_ref().is_some_and(Vec::is_empty) {
            self.first = None;
        }
    }

    /// The child of `parent` with this key, if there is one; its edge has this hash, and of it alone
    /// `is_it` is true. If there is none, that is `new` from now on.
    #[inline]
    pub fn find_or_add(
        &mut self,
        (parent, key): (u32, u32),
        hash: u32,
        new: u32,
        is_it: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let Some(all) = &mut self.first else { return self.other(hash, new, is_it) };
        if let Some(&(first_key, first)) = all.get(parent as usize)
            && first != 0
        {
            return if first_key == key { Some(first) } else { self.other(hash, new, is_it) };
        }
        if all.len() <= parent as usize {
            all.resize(parent as usize + 1, (0, 0));
        }
        all[parent as usize] = (key, new);
        None
    }

    /// The child of `parent` with this key, if there is one, as in [`Self::find_or_add`].
    pub fn find(
        &self,
        (parent, key): (u32, u32),
        hash: u32,
        is_it: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        if let Some(all) = &self.first {
            let &(first_key, first) = all.get(parent as usize).filter(|(_, first)| *first != 0)?;
            if first_key == key {
                return Some(first);
            }
        }
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
        let first = self.first.as_ref().map_or(0, Vec::capacity) * size_of::<(u32, u32)>();
        first + self.rows.capacity() * size_of::<Edge>()
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
        for fetch in [false, true] {
            let mut children = Children::default();
            if fetch {
                children.fetch_mostly();
            }
            // Whatever their hashes; after the last row comes the first.
            let edge = |child: u32| {
                let hash = if child.is_multiple_of(3) { u32::MAX } else { child };
                ((child / 9, child % 9), hash)
            };
            for again in [false, true] {
                for child in 1..500 {
                    let (edge, hash) = edge(child);
                    let found = children.find_or_add(edge, hash, child, |known| known == child);
                    assert_eq!(found, again.then_some(child));
                }
            }
            let (edge, hash) = edge(498);
            assert_eq!(children.find_or_add((edge.0, 9), hash, 500, |_| false), None);
            // It has children: they stay where they are.
            children.fetch_mostly();
            assert_eq!(children.find_or_add(edge, hash, 501, |known| known == 498), Some(498));
        }
    }
}
