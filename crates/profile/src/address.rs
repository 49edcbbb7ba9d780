//! Addresses of instructions: the file, and the offset in it, of the instruction that was sampled.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::{AddressId, StringId};

/// Location of an instruction. Text that is not known is [`StringId::EMPTY`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Address {
    /// Path of the file that holds the code, `[kernel.kallsyms]`, or the jitdump file of code made at run time.
    pub module: StringId,
    /// Build ID of the module, in hexadecimal digits.
    pub build_id: StringId,
    /// Name of the function that contains it, as in frames. It is the function with machine code of its own, not one
    /// inlined into it.
    pub function: StringId,
    /// File offset for an ELF file; otherwise the address in memory.
    pub offset: u64,
}

/// Interned addresses: equal addresses have equal [`AddressId`]s.
#[derive(Clone, Debug)]
pub struct Addresses {
    rows: Vec<Address>,
    index: HashTable<AddressId>,
    hasher: FixedState,
}

impl Default for Addresses {
    fn default() -> Self {
        Self { rows: Vec::new(), index: HashTable::new(), hasher: FixedState::with_seed(0) }
    }
}

impl Addresses {
    /// Returns the identifier of `address`, which is added if it is new.
    pub fn intern(&mut self, address: Address) -> AddressId {
        let hash = self.hasher.hash_one(address);
        let rows = &self.rows;
        if let Some(&id) = self.index.find(hash, |&id| rows[id.index()] == address) {
            return id;
        }
        let id = AddressId::from_index(self.rows.len());
        self.rows.push(address);
        let (rows, hasher) = (&self.rows, &self.hasher);
        self.index.insert_unique(hash, id, |&id| hasher.hash_one(rows[id.index()]));
        id
    }

    /// Replaces the function of each address. An address is left unchanged if the result exists already.
    pub(crate) fn set_functions(&mut self, function: impl Fn(StringId) -> StringId) {
        for row in 0..self.rows.len() {
            let old = self.rows[row];
            let new = Address { function: function(old.function), ..old };
            let hash = self.hasher.hash_one(new);
            if old == new || self.index.find(hash, |id| self.rows[id.index()] == new).is_some() {
                continue;
            }
            let id = AddressId::from_index(row);
            let is_it = |known: &AddressId| *known == id;
            if let Ok(entry) = self.index.find_entry(self.hasher.hash_one(old), is_it) {
                entry.remove();
            }
            self.rows[row] = new;
            let (rows, hasher) = (&self.rows, &self.hasher);
            self.index.insert_unique(hash, id, |&id| hasher.hash_one(rows[id.index()]));
        }
    }

    /// Returns the address with this identifier.
    pub fn get(&self, id: AddressId) -> Address {
        self.rows[id.index()]
    }

    /// Number of distinct addresses.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if there are no addresses.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Iterates over all addresses, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = Address> + '_ {
        self.rows.iter().copied()
    }

    /// Memory of the table in bytes.
    pub fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Address>() + self.index.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_addresses_are_one() {
        let mut addresses = Addresses::default();
        let [a, b] = [7, 8].map(|offset| Address { offset, ..Address::default() });
        let ids = [a, b, a].map(|address| addresses.intern(address));
        assert_eq!(ids, [AddressId(0), AddressId(1), AddressId(0)]);
        assert_eq!(addresses.iter().collect::<Vec<_>>(), [a, b]);
    }
}
