//! Cache of frames by function, which avoids parsing lines of functions that were seen before.

use crate::callees::{Callees, Function};
use crate::perf_frame as frame;

/// Capacity of the cache: total bytes of function and module names.
const NAMES: usize = 32 << 20;

/// Frames by symbol and module. Most new lines differ from earlier ones in their address only: there are about a
/// hundred addresses per function.
pub struct Functions<V> {
    known: Callees<V>,
    /// Function of the previous line. Frames come leaf first, so it is the callee of the next line. A callee mostly
    /// has the same caller as before, which makes the lookup fast.
    before: Function,
}

/// Key for a line that is not in the cache yet.
pub struct Place<'a> {
    symbol: &'a [u8],
    after: &'a [u8],
    /// Offset of ` (module)` in `after`.
    split: usize,
}

impl<V: Copy> Functions<V> {
    pub fn new() -> Self {
        Self { known: Callees::new(NAMES), before: Function::NONE }
    }

    /// Looks up the text after the address of a line: `symbol+0x7a (module)`. The result depends on this text only.
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

    /// Caches the parsed value of a line, if the parser splits the line at the same place as `find`. It may not: a
    /// name may contain unbalanced brackets.
    pub fn remember(&mut self, place: &Place<'_>, value: V) {
        let Place { symbol, after, split } = *place;
        if frame::split_module(after).0.trim_ascii_end().len() == split {
            self.before = self.known.add(self.before, symbol, &after[split..], value);
        }
    }
}

/// Returns the offset of the last ` (` in a text that ends with `)`.
fn last_bracket(text: &[u8]) -> Option<usize> {
    let mut end = text.strip_suffix(b")")?.len();
    loop {
        end = memchr::memrchr(b'(', &text[..end])?;
        if text[..end].ends_with(b" ") {
            return Some(end - 1);
        }
    }
}
