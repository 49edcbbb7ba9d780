//! The frames of functions that were seen before, found without parsing their lines.

use super::frame;
use crate::byte_cache::ByteCache;

/// Bytes of function names that are remembered.
const SYMBOLS: usize = 16 << 20;
/// Bytes of module names that are remembered.
const MODULES: usize = 4 << 20;

/// Frames by symbol and module. Most lines are new in their address only: there are a hundred
/// addresses to a function, and all functions together fit in the CPU's caches.
pub struct Functions<V> {
    symbols: ByteCache<V>,
    /// The number of each module.
    modules: ByteCache<u32>,
    next_module: u32,
    /// The module of the line before, with its brackets and the blank before it, and its number:
    /// mostly it is that of the next line, too.
    last: Vec<u8>,
    last_module: u32,
}

/// A line that is not known yet, as it can be remembered.
pub struct Place<'a> {
    hash: u64,
    module: u32,
    symbol: &'a [u8],
    after: &'a [u8],
    /// Where ` (module)` begins in `after`.
    split: usize,
}

impl<V: Copy> Functions<V> {
    pub fn new() -> Self {
        Self {
            symbols: ByteCache::new(SYMBOLS),
            modules: ByteCache::new(MODULES),
            next_module: 0,
            last: Vec::new(),
            last_module: 0,
        }
    }

    /// Looks up what stands on a line after the address: `symbol+0x7a (module)`. What is found
    /// depends on nothing else.
    #[inline]
    pub fn find<'a>(&mut self, after: &'a [u8]) -> Result<V, Option<Place<'a>>> {
        let split = if !self.last.is_empty() && after.ends_with(&self.last) {
            after.len() - self.last.len()
        } else {
            let split = last_bracket(after).ok_or(None)?;
            self.enter_module(&after[split..]);
            split
        };
        let symbol = frame::without_offset(&after[..split]);
        let hash = self.symbols.hash_tagged(self.last_module, symbol);
        self.symbols.get_tagged(hash, self.last_module, symbol).ok_or(Some(Place {
            hash,
            module: self.last_module,
            symbol,
            after,
            split,
        }))
    }

    /// Remembers what a line was parsed to, if it was parsed as `find` reads it: a name may hold
    /// brackets that do not match.
    pub fn remember(&mut self, place: &Place<'_>, value: V) {
        if frame::split_module(place.after).0.trim_ascii_end().len() == place.split {
            self.symbols.insert_tagged(place.hash, place.module, place.symbol, value);
        }
    }

    fn enter_module(&mut self, module: &[u8]) {
        self.last.clear();
        self.last.extend_from_slice(module);
        let hash = self.modules.hash(module);
        self.last_module = self.modules.get(hash, module).unwrap_or_else(|| {
            // A number is never used again, even if its module is forgotten; there are fewer than
            // 2^32 lines with a module of their own in any input that can be read in a day.
            self.next_module = self.next_module.wrapping_add(1);
            self.modules.insert(hash, module, self.next_module);
            self.next_module
        });
    }
}

/// Where the last ` (` stands in a text that ends with `)`.
fn last_bracket(text: &[u8]) -> Option<usize> {
    let mut end = text.strip_suffix(b")")?.len();
    loop {
        end = memchr::memrchr(b'(', &text[..end])?;
        if text[..end].ends_with(b" ") {
            return Some(end - 1);
        }
    }
}
