//! Searches over a few dozen bytes, where a call to a vectorized search costs more than it saves; parsing of numbers.

use wide::u8x16;

/// Bytes that are examined in one step. Most words fit in one block: their lengths differ, and a branch on the number of
/// steps, which the CPU cannot predict, costs more than the steps themselves.
pub(crate) type Block = [u8; 16];

/// Returns a bit mask of the bytes that equal `byte`; the lowest bit is for the first byte.
#[inline]
pub(crate) fn equal(block: Block, byte: u8) -> u32 {
    u8x16::new(block).simd_eq(u8x16::splat(byte)).to_bitmask()
}

/// Number of hexadecimal digits at the start of a block.
#[inline]
pub(crate) fn hex_digits(block: Block) -> usize {
    // A value below the first wraps to far above the last.
    let is_among = |bytes: u8x16, first: u8, last: u8| {
        let from_first = bytes - u8x16::splat(first);
        from_first.simd_eq(from_first.min(u8x16::splat(last - first)))
    };
    let block = u8x16::new(block);
    let lower = block | u8x16::splat(0x20);
    let are_digits = is_among(block, b'0', b'9') | is_among(lower, b'a', b'f');
    are_digits.to_bitmask().trailing_ones() as usize
}

/// The block that begins at `at`, padded with zeros after the end of the text.
#[inline]
pub(crate) fn block(text: &[u8], at: usize) -> Block {
    let rest = text.get(at..).unwrap_or_default();
    match (rest.first_chunk(), text.last_chunk()) {
        (Some(block), _) => *block,
        // Loads the last 16 bytes and shifts out those before `at`.
        (None, Some(_)) if rest.is_empty() => [0; 16],
        (None, Some(last)) => (u128::from_le_bytes(*last) >> (8 * (16 - rest.len()))).to_le_bytes(),
        (None, None) => {
            let mut block = [0; 16];
            block[..rest.len()].copy_from_slice(rest);
            block
        }
    }
}

/// Index of the first `byte` at or after `at`; the length of `text` if there is none.
#[inline]
pub(crate) fn find(text: &[u8], at: usize, byte: u8) -> usize {
    let mut at = at;
    while at < text.len() {
        let found = equal(block(text, at), byte);
        if found != 0 {
            // The match may be in the padding after the end.
            return text.len().min(at + found.trailing_zeros() as usize);
        }
        at += 16;
    }
    text.len()
}

/// Returns true if two texts are equal. They are short: calling `memcmp` would cost as much as everything else.
///
/// Two blocks, the first and the last bytes, cover any text up to their combined length, so that only the rough length
/// causes a branch.
#[inline]
pub(crate) fn is_same(one: &[u8], other: &[u8]) -> bool {
    fn ends<const N: usize>(one: &[u8], other: &[u8]) -> Option<bool> {
        let (a, b) = (one.first_chunk::<N>()?, other.first_chunk::<N>()?);
        Some((a == b) & (one.last_chunk::<N>() == other.last_chunk::<N>()))
    }
    let ends = match one.len() {
        length if length != other.len() => Some(false),
        65.. => Some(one == other),
        32.. => ends::<32>(one, other),
        16.. => ends::<16>(one, other),
        8.. => ends::<8>(one, other),
        4.. => ends::<4>(one, other),
        _ => None,
    };
    ends.unwrap_or_else(|| one.iter().zip(other).all(|(a, b)| a == b))
}

/// Parses a number; `None` unless it consists of decimal digits only and fits in 64 bits.
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
        }

        #[test]
        fn blocks_are_what_they_hold(text in prop::collection::vec(any::<u8>(), 0..40), at in 0usize..50) {
            let mut plain = text.get(at..).unwrap_or_default().to_vec();
            plain.resize(16, 0);
            let block = block(&text, at);
            prop_assert_eq!(block.as_slice(), &plain[..]);
            for byte in block {
                let plain = block.iter().rev().fold(0, |bits, &b| bits << 1 | u32::from(b == byte));
                prop_assert_eq!(equal(block, byte), plain);
            }
        }

        #[test]
        fn digits_are_counted(digits in "[0-9a-fA-F]{0,17}", byte in any::<u8>()) {
            let mut text = digits.into_bytes();
            text.push(byte);
            let plain = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            prop_assert_eq!(hex_digits(block(&text, 0)), plain.min(16));
        }

        #[test]
        fn one_byte_makes_a_difference(
            text in prop::collection::vec(0u8..3, 0..70),
            at in 0usize..70,
        ) {
            let mut other = text.clone();
            prop_assert!(is_same(&text, &other));
            if let Some(byte) = other.get_mut(at) {
                *byte ^= 0x80;
                prop_assert!(!is_same(&text, &other));
            }
            prop_assert_eq!(is_same(&text, text.get(at..).unwrap_or(&text)), at == 0 || at > text.len());
        }
    }
}
