//! Searches over a few dozen bytes, where a call into a vectorized search costs more than it saves.

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Where `byte` is first found from `at` on; the length of `text` if it is not.
///
/// Eight bytes at a time: a byte of `word ^ pattern` is 0 where it is found, and only then does
/// taking 1 from it set its highest bit. What borrows from it is further on, so that the first hit
/// is exact.
#[inline]
pub(crate) fn find(text: &[u8], at: usize, byte: u8) -> usize {
    let pattern = LOW * u64::from(byte);
    let Some(rest) = text.get(at..) else { return text.len() };
    let (words, tail) = rest.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let differs = u64::from_le_bytes(*word) ^ pattern;
        let found = differs.wrapping_sub(LOW) & !differs & HIGH;
        if found != 0 {
            return at + index * 8 + (found.trailing_zeros() / 8) as usize;
        }
    }
    let in_tail = tail.iter().position(|&candidate| candidate == byte);
    in_tail.map_or(text.len(), |index| at + words.len() * 8 + index)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn finds_what_a_plain_search_finds(
            text in prop::collection::vec(prop::sample::select(vec![0u8, 1, 9, 10, 11, 32, 0x80, 0x8a, 255]), 0..40),
            at in 0usize..50,
            byte in prop::sample::select(vec![0u8, 10, 11, 32, 0x8a, 255]),
        ) {
            let plain = (at..text.len()).find(|&at| text[at] == byte).unwrap_or(text.len());
            prop_assert_eq!(find(&text, at, byte), plain);
        }
    }
}
