//! Searches over a few dozen bytes, where a call into a vectorized search costs more than it saves,
//! and numbers.

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
    let mut at = at;
    while let Some(word) = text.get(at..).and_then(<[u8]>::first_chunk) {
        let differs = u64::from_le_bytes(*word) ^ pattern;
        let found = differs.wrapping_sub(LOW) & !differs & HIGH;
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while text.get(at).is_some_and(|&candidate| candidate != byte) {
        at += 1;
    }
    at.min(text.len())
}

/// The same for texts of a hundred bytes or so: 32 of them are one step.
#[inline]
pub(crate) fn find_far(text: &[u8], byte: u8) -> usize {
    let blocks = text.as_chunks::<32>().0.iter();
    let is_without = |block: &&[u8; 32]| !block.iter().fold(false, |any, &b| any | (b == byte));
    find(text, 32 * blocks.take_while(is_without).count(), byte)
}

/// Reads a number that is nothing but decimal digits.
#[inline]
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    let number = digits.iter().try_fold(0u64, |number, &digit| {
        let value = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(value)
    });
    number.filter(|_| !digits.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn finds_what_a_plain_search_finds(
            text in prop::collection::vec(prop::sample::select(vec![0u8, 1, 9, 10, 11, 32, 0x80, 0x8a, 255]), 0..90),
            at in 0usize..100,
            byte in prop::sample::select(vec![0u8, 10, 11, 32, 0x8a, 255]),
        ) {
            let plain = (at..text.len()).find(|&at| text[at] == byte).unwrap_or(text.len());
            prop_assert_eq!(find(&text, at, byte), plain);
            let plain = text.iter().position(|&b| b == byte).unwrap_or(text.len());
            prop_assert_eq!(find_far(&text, byte), plain);
        }
    }
}
