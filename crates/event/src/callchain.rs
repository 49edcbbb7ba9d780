//! Callchains: addresses, innermost first, with markers of the context that they belong to.

use crate::cursor::{ByteOrder, word};

/// Context of the addresses that follow it in a callchain (`enum perf_callchain_context`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Context {
    /// The hypervisor.
    Hypervisor,
    /// The kernel.
    Kernel,
    /// User space.
    User,
    /// User space, whose addresses follow in a [`crate::CallchainDeferred`] record. The next word is the cookie of that
    /// record.
    UserDeferred,
    /// A guest.
    Guest,
    /// A guest's kernel.
    GuestKernel,
    /// A guest's user space.
    GuestUser,
    /// A marker that this crate does not know: the word in the record.
    Unknown(u64),
}

impl Context {
    /// Smallest word that is a marker and not an address: `PERF_CONTEXT_MAX`, −4095.
    const FIRST: u64 = 4095_u64.wrapping_neg();

    /// Decodes a marker; `None` if `word` is an address.
    #[inline]
    pub fn from_word(word: u64) -> Option<Self> {
        if word < Self::FIRST {
            return None;
        }
        Some(match word.cast_signed() {
            -32 => Self::Hypervisor,
            -128 => Self::Kernel,
            -512 => Self::User,
            -640 => Self::UserDeferred,
            -2048 => Self::Guest,
            -2176 => Self::GuestKernel,
            -2560 => Self::GuestUser,
            _ => Self::Unknown(word),
        })
    }
}

/// A callchain: 64-bit words, innermost first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Callchain<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> Callchain<'a> {
    /// Creates a callchain from its words. `bytes` need not be aligned; an incomplete last word is ignored.
    pub fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Self { bytes, order }
    }

    /// Number of words, markers included.
    pub fn len(&self) -> usize {
        self.bytes.len() / 8
    }

    /// Returns true if there are no words.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the words as the kernel wrote them, markers included.
    pub fn iter(&self) -> CallchainIter<'a> {
        CallchainIter { chunks: self.bytes.as_chunks().0.iter(), order: self.order }
    }

    /// Iterates over the words, classified as marker, address, or cookie.
    pub fn entries(&self) -> Entries<'a> {
        Entries { words: self.iter(), cookie_next: false }
    }
}

impl<'a> IntoIterator for Callchain<'a> {
    type Item = u64;
    type IntoIter = CallchainIter<'a>;

    fn into_iter(self) -> CallchainIter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &Callchain<'a> {
    type Item = u64;
    type IntoIter = CallchainIter<'a>;

    fn into_iter(self) -> CallchainIter<'a> {
        self.iter()
    }
}

/// Iterator over the words of a [`Callchain`].
#[derive(Clone, Debug)]
pub struct CallchainIter<'a> {
    chunks: std::slice::Iter<'a, [u8; 8]>,
    order: ByteOrder,
}

impl Iterator for CallchainIter<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.chunks.next().map(|chunk| word(*chunk, self.order))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.chunks.size_hint()
    }
}

impl DoubleEndedIterator for CallchainIter<'_> {
    fn next_back(&mut self) -> Option<u64> {
        self.chunks.next_back().map(|chunk| word(*chunk, self.order))
    }
}

impl ExactSizeIterator for CallchainIter<'_> {}

/// One word of a callchain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// The context of the addresses that follow.
    Context(Context),
    /// An address: the instruction pointer or a return address.
    Address(u64),
    /// Cookie of the [`crate::CallchainDeferred`] record that holds the user part.
    Cookie(u64),
}

/// Iterator over the classified words of a [`Callchain`].
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    words: CallchainIter<'a>,
    cookie_next: bool,
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    #[inline]
    fn next(&mut self) -> Option<Entry> {
        let word = self.words.next()?;
        if std::mem::take(&mut self.cookie_next) {
            return Some(Entry::Cookie(word));
        }
        Some(match Context::from_word(word) {
            Some(context) => {
                self.cookie_next = context == Context::UserDeferred;
                Entry::Context(context)
            }
            None => Entry::Address(word),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_differ_from_addresses_at_any_alignment() {
        let words = [-128_i64, 0x7fff, -512, 0x40_0000, -640, -1, -7].map(i64::cast_unsigned);
        let mut bytes = vec![0];
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        let chain = Callchain::new(&bytes[1..], ByteOrder::Little);
        assert_eq!(chain.iter().collect::<Vec<_>>(), words);
        assert_eq!(
            chain.entries().collect::<Vec<_>>(),
            [
                Entry::Context(Context::Kernel),
                Entry::Address(0x7fff),
                Entry::Context(Context::User),
                Entry::Address(0x40_0000),
                Entry::Context(Context::UserDeferred),
                Entry::Cookie(u64::MAX),
                Entry::Context(Context::Unknown(7_u64.wrapping_neg())),
            ]
        );
    }

    #[test]
    fn a_foreign_byte_order_is_read() {
        let bytes = [0_u64.wrapping_sub(128), 0x1234].map(u64::to_be_bytes).concat();
        let chain = Callchain::new(&bytes, ByteOrder::Big);
        assert_eq!(chain.entries().last(), Some(Entry::Address(0x1234)));
        assert_eq!(chain.iter().next_back(), Some(0x1234));
    }
}
