//! The frames of functions that were seen before, found without parsing their lines.

use crate::callees::{Callees, Function};
use crate::perf_frame as frame;

/// Bytes of the names of functions and their modules that are remembered.
const NAMES: usize = 32 << 20;

/// Frames by symbol and module. Most lines are new in their address only: there are a hundred
/// addresses to a function.
pub struct Functions<V> {
    known: Callees<V>,
    /// That of the line before. Frames come leaf first, so that it is the next one's callee: by whom a
    /// function is called is mostly as before, too.
    before: Function,
}

/// A line that is not known yet, as it can be remembered.
pub struct Place<'a> {
    symbol: &'a [u8],
    after: &'a [u8],
    /// Where ` (module)` begins in `after`.
    split: usize,
}

impl<V: Copy> Functions<V> {
    pub fn new() -> Self {
        Self { known: Callees::new(NAMES), before: Function::NONE }
    }

    /// Looks up what stands on a line after the address: `symbol+0x7a (module)`. What is found
    /// depends on nothing else.
    #[inline]
    pub fn find<'a>(&mut self, after: &'a [u8]) -> Result<V, Option<Place<'a>>> {
        let split = last_bracket(after).ok_or(None)?;
        let (symbol, module) = after.split_at(split);
        let symbol = frame::without_offset(symbol);
        match self.known.find(self.before, symbol, module) {
            Some((function, value)) => {
                self.before = function;
                Ok(value)
            }
            None => Err(Some(Place { symbol, after, split })),
        }
    }

    /// Remembers what a line was parsed to, if it was parsed as `find` reads it: a name may hold
    /// brackets that do not match.
    pub fn remember(&mut self, place: &Place<'_>, value: V) {
        let Place { symbol, after, split } = *place;
        if frame::split_module(after).0.trim_ascii_end().len() == split {
            self.before = self.known.add(self.before, symbol, &after[split..], value);
        }
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
