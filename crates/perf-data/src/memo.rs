//! Cache of formatted texts.

use std::ops::Range;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Texts by a number and its context.
#[derive(Debug, Default)]
pub struct Memo {
    known: HashMap<(u32, i64), Range<u32>, FixedState>,
    texts: String,
}

/// Maximum number of cached texts: where caching helps, there are few.
const MOST: usize = 1 << 14;

/// Maximum number of bytes of cached texts.
const MOST_BYTES: usize = 1 << 24;

impl Memo {
    /// Appends the text of a number, which `make` formats the first time.
    #[inline]
    pub fn write(&mut self, key: (u32, i64), out: &mut String, make: impl FnOnce(&mut String)) {
        match self.known.get(&key) {
            Some(text) => out.push_str(&self.texts[text.start as usize..text.end as usize]),
            None => self.make(key, out, make),
        }
    }

    #[cold]
    fn make(&mut self, key: (u32, i64), out: &mut String, make: impl FnOnce(&mut String)) {
        let start = out.len();
        make(out);
        let (from, made) = (self.texts.len(), &out[start..]);
        if self.known.len() < MOST && from + made.len() <= MOST_BYTES {
            self.texts.push_str(made);
            self.known.insert(key, from as u32..self.texts.len() as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_made_once() {
        let mut memo = Memo::default();
        let (mut out, mut made) = (String::new(), 0);
        for _ in 0..3 {
            for (of, number) in [(0, 1), (0, -1), (1, 1)] {
                memo.write((of, number), &mut out, |out| {
                    made += 1;
                    out.push_str(&format!("{of}:{number} "));
                });
            }
        }
        assert_eq!((made, &out[..]), (3, &"0:1 0:-1 1:1 ".repeat(3)[..]));
    }

    #[test]
    fn its_size_is_limited() {
        let mut memo = Memo::default();
        for number in 0..2 * MOST as i64 {
            let mut out = String::new();
            memo.write((0, number), &mut out, |out| out.push_str("text"));
            assert_eq!(out, "text");
        }
        assert_eq!(memo.known.len(), MOST);
    }
}
