//! The edges of a growing tree: which child of a node has which key.

use hashbrown::HashTable;

/// Finds a node's child by its key.
///
/// Most nodes have one child, so the first one stands with its parent, where a depth-first input
/// finds it in the CPU's cache; only the others are hashed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Children {
    /// Key and identifier of each node's first child; identifier 0 is the root's, and nobody's
    /// child.
    first: Vec<(u32, u32)>,
    /// With the whole edge in it, so that no look at a node is needed to tell them apart.
    others: HashTable<Edge>,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    parent: u32,
    key: u32,
    child: u32,
}

impl Children {
    /// The child of `parent` with this key, if there is one. If not, that is `new` from now on.
    #[inline]
    pub fn find_or_add(&mut self, parent: u32, key: u32, new: u32) -> Option<u32> {
        if let Some(&(first_key, first)) = self.first.get(parent as usize)
            && first != 0
        {
            return if first_key == key { Some(first) } else { self.other(parent, key, new) };
        }
        if self.first.len() <= parent as usize {
            self.first.resize(parent as usize + 1, (0, 0));
        }
        self.first[parent as usize] = (key, new);
        None
    }

    fn other(&mut self, parent: u32, key: u32, new: u32) -> Option<u32> {
        let hash = hash(parent, key);
        let found = self.others.find(hash, |edge| edge.parent == parent && edge.key == key);
        if let Some(edge) = found {
            return Some(edge.child);
        }
        let edge = Edge { parent, key, child: new };
        self.others.insert_unique(hash, edge, |edge| self::hash(edge.parent, edge.key));
        None
    }
}

/// A multiplicative hash of the pair; its high bits, which `hashbrown` uses to tell entries of a
/// group apart, are folded into the low ones that choose the group.
fn hash(parent: u32, key: u32) -> u64 {
    let pair = u64::from(parent) << 32 | u64::from(key);
    let wide = u128::from(pair ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
    (wide >> 64) as u64 ^ wide as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_child_and_the_others_are_found_again() {
        let mut children = Children::default();
        let mut next = 1;
        let mut add = |parent, key| {
            let found = children.find_or_add(parent, key, next);
            found.unwrap_or_else(|| {
                next += 1;
                next - 1
            })
        };
        assert_eq!([add(0, 7), add(0, 8), add(0, 9), add(3, 7)], [1, 2, 3, 4]);
        assert_eq!([add(0, 9), add(3, 8), add(0, 7), add(3, 7), add(0, 8)], [3, 5, 1, 4, 2]);
    }
}
