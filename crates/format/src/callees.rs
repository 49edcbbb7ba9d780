//! Cache of functions in call trees, by module and name. A function is looked up first among the functions that its
//! caller called before.
//!
//! A function calls few others, mostly the same ones. The most recent callees are stored with their caller, which was
//! accessed for the previous frame, and are therefore in the CPU's first-level cache, unlike a table of all functions.
//! Names are compared in full in either case; but because that comparison nearly always succeeds, the CPU predicts it
//! and does not wait for the memory of the name.

use std::hash::{BuildHasher, Hasher};
use std::num::NonZeroU32;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::bytes;

/// A known function, used as a caller of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Function(u32);

impl Function {
    /// Caller of the outermost functions; also used for functions that are not cached.
    pub const NONE: Self = Self(0);
}

/// The functions seen so far, each with a value, and the recent callees of each.
///
/// When the names exceed the limit, everything is removed. A [`Function`] from before may then refer to another
/// function; the only effect is that its list of callees is of no use.
pub(crate) struct Callees<V> {
    /// The most recent callees of each function, the last one first.
    called: Vec<Called<V>>,
    /// For each function: the lengths of its name and its module, then both texts.
    names: Vec<u8>,
    /// All functions; their keys are a part of the hash of name and module.
    index: HashTable<Known<V>>,
    hasher: RandomState,
    limit: usize,
}

/// With values of four bytes, this is one cache line.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Called<V>([Option<Known<V>>; 4]);

/// A called function. Contains everything that is needed to recognize it and to continue, so that only one other place
/// in memory is accessed, the name, and nothing waits for it.
#[derive(Clone, Copy)]
struct Known<V> {
    /// Equal for equal names.
    key: u32,
    function: Function,
    value: V,
    /// Offset in `names` plus 1, so that `None` takes no extra space.
    name: NonZeroU32,
}

impl<V: Copy> Callees<V> {
    /// An empty cache for about `limit` bytes of names; at most 1 GiB.
    pub fn new(limit: usize) -> Self {
        Self {
            called: vec![Called([None; 4])],
            names: Vec::new(),
            index: HashTable::new(),
            hasher: RandomState::default(),
            limit: limit.min(1 << 30),
        }
    }

    /// Finds the function with this name in a module (`""` if unknown), called by `caller`, and its value; adds it with
    /// the value that `new` returns if it is not cached.
    #[inline]
    pub fn find_or_add(
        &mut self,
        caller: Function,
        name: &[u8],
        module: &[u8],
        new: impl FnOnce() -> V,
    ) -> (Function, V) {
        self.find(caller, name, module).unwrap_or_else(|| {
            let value = new();
            (self.add(caller, name, module, value), value)
        })
    }

    /// Finds the function with this name in a module, called by `caller`, if it is cached.
    #[inline]
    pub fn find(&mut self, caller: Function, name: &[u8], module: &[u8]) -> Option<(Function, V)> {
        let key = fingerprint(name);
        if let Some(Called(called)) = self.called.get(caller.0 as usize) {
            for known in called.iter().flatten() {
                if known.key == key && is_named(&self.names, known.name, name, module) {
                    return Some((known.function, known.value));
                }
            }
        }
        let known = self.look_up(name, module)?;
        self.remember(caller, Known { key, ..known });
        Some((known.function, known.value))
    }

    /// Looks up a function in the table of all functions.
    fn look_up(&self, name: &[u8], module: &[u8]) -> Option<Known<V>> {
        let key = self.hash(name, module);
        let is_same =
            |known: &Known<V>| known.key == key && is_named(&self.names, known.name, name, module);
        self.index.find(wide(key), is_same).copied()
    }

    fn hash(&self, name: &[u8], module: &[u8]) -> u32 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(name);
        hasher.write(module);
        (hasher.finish() >> 32) as u32
    }

    fn remember(&mut self, caller: Function, known: Known<V>) {
        if let Some(Called(called)) = self.called.get_mut(caller.0 as usize) {
            called.copy_within(..3, 1);
            called[0] = Some(known);
        }
    }

    /// Adds a function that is not cached, called by `caller`. Not cached if its name is longer than a quarter of the
    /// limit.
    pub fn add(&mut self, caller: Function, name: &[u8], module: &[u8], value: V) -> Function {
        let length = LENGTHS + name.len() + module.len();
        if length > self.limit / 4 {
            return Function::NONE;
        }
        if self.names.len() + length > self.limit {
            self.called.truncate(1);
            self.called[0] = Called([None; 4]);
            self.index.clear();
            self.names.clear();
        }
        // Both fit in 32 bits: the limit is at most 1 GiB.
        let function = Function(self.called.len() as u32);
        let key = self.hash(name, module);
        let known = Known {
            key,
            function,
            value,
            name: NonZeroU32::MIN.saturating_add(self.names.len() as u32),
        };
        self.called.push(Called([None; 4]));
        self.names.extend_from_slice(&lengths(name, module).to_le_bytes());
        self.names.extend_from_slice(name);
        self.names.extend_from_slice(module);
        self.index.insert_unique(wide(key), known, |known| wide(known.key));
        self.remember(caller, Known { key: fingerprint(name), ..known });
        function
    }
}

/// Number of bytes of the lengths before a name.
const LENGTHS: usize = 8;

/// The lengths of a name and its module, as stored before them.
fn lengths(name: &[u8], module: &[u8]) -> u64 {
    (name.len() as u64) << 32 | module.len() as u64
}

/// Returns true if the function at `at` has this name and module.
#[inline]
fn is_named(names: &[u8], at: NonZeroU32, name: &[u8], module: &[u8]) -> bool {
    let Some((length, text)) =
        names.get(at.get() as usize - 1..).and_then(<[u8]>::split_first_chunk)
    else {
        return false;
    };
    u64::from_le_bytes(*length) == lengths(name, module)
        && bytes::is_same(&text[..name.len()], name)
        && bytes::is_same(&text[name.len()..][..module.len()], module)
}

/// Expands the stored part of a hash for the table, whose lowest bits select a slot and whose highest bits distinguish
/// neighbours.
fn wide(part: u32) -> u64 {
    u64::from(part) << 32 | u64::from(part)
}

/// A key that differs for most names, made from a name's first and last bytes and its length. Names with equal keys are
/// then compared in full.
#[inline]
fn fingerprint(name: &[u8]) -> u32 {
    let (first, last) = match (name.first_chunk(), name.last_chunk()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => (0, name.iter().fold(0, |word, &byte| word << 8 | u64::from(byte))),
    };
    let mixed = (first ^ last.rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32 ^ name.len() as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use pyrograph_profile::FrameId;

    use super::*;

    #[test]
    fn equal_fingerprints_do_not_make_equal_names() {
        let (one, other) = (b"std::a::one::push_it", b"std::a::two::push_it");
        assert_eq!(fingerprint(one), fingerprint(other));
        let mut callees = Callees::new(1000);
        for _ in 0..2 {
            let mut get =
                |name, frame| callees.find_or_add(Function::NONE, name, b"", || FrameId(frame)).1;
            assert_eq!([get(one, 1), get(other, 2)], [FrameId(1), FrameId(2)]);
        }
    }

    proptest! {
        /// A caller of many functions, names and modules that begin alike, and a memory that is full.
        #[test]
        fn names_are_told_apart(
            calls in prop::collection::vec(("[ab]{0,3}|long name [ab]{9,12} end of it", "[ab]{0,2}"), 1..200),
            limit in 50usize..400,
        ) {
            let mut callees = Callees::new(limit);
            let mut known: Vec<(String, String)> = Vec::new();
            let mut caller = Function::NONE;
            for (name, module) in calls {
                let call = (name, module);
                let expected = known.iter().position(|of| *of == call).unwrap_or_else(|| {
                    known.push(call.clone());
                    known.len() - 1
                });
                let expected = FrameId::from_index(expected);
                let (name, module) = (call.0.as_bytes(), call.1.as_bytes());
                let (function, frame) = callees.find_or_add(caller, name, module, || expected);
                prop_assert_eq!(frame, expected);
                prop_assert!(callees.names.len() <= limit);
                caller = function;
            }
        }
    }
}
