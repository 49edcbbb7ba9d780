//! Appending of text and numbers to a buffer.

/// Appends a name as one line: line ends and NUL bytes become blanks.
pub fn one_line(text: &mut Vec<u8>, name: &str) {
    let start = text.len();
    text.extend_from_slice(name.as_bytes());
    if memchr::memchr3(b'\n', b'\r', 0, &text[start..]).is_none() {
        return;
    }
    for byte in &mut text[start..] {
        if matches!(byte, b'\n' | b'\r' | 0) {
            *byte = b' ';
        }
    }
}

pub fn blanks(text: &mut Vec<u8>, count: usize) {
    text.resize(text.len() + count, b' ');
}

/// Appends a number, right-aligned.
pub fn number(text: &mut Vec<u8>, number: impl itoa::Integer, width: usize) {
    padded(text, number, width, b' ');
}

pub fn zeros(text: &mut Vec<u8>, number: impl itoa::Integer, width: usize) {
    padded(text, number, width, b'0');
}

fn padded(text: &mut Vec<u8>, number: impl itoa::Integer, width: usize, fill: u8) {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(number);
    text.resize(text.len() + width.saturating_sub(digits.len()), fill);
    text.extend_from_slice(digits.as_bytes());
}

/// Appends a hexadecimal number, right-aligned.
pub fn hex(text: &mut Vec<u8>, number: u64, width: usize) {
    let digits = (16 - number.leading_zeros() as usize / 4).max(1);
    blanks(text, width.saturating_sub(digits));
    let digit = |at: usize| b"0123456789abcdef"[(number >> (4 * at) & 15) as usize];
    text.extend((0..digits).rev().map(digit));
}

/// Number of bytes that must follow the last text that [`piece`] copies from.
pub const MARGIN: usize = 128;

/// Appends a part of a text. Most parts are short: copying a larger, fixed number of bytes takes a CPU only a few
/// instructions.
#[inline]
pub fn piece(text: &mut Vec<u8>, from: &[u8], start: usize, len: usize) {
    let rest = &from[start..];
    if len <= 64
        && let Some(bytes) = rest.first_chunk::<64>()
    {
        text.extend_from_slice(bytes);
        text.truncate(text.len() - 64 + len);
    } else if len <= MARGIN
        && let Some(bytes) = rest.first_chunk::<MARGIN>()
    {
        text.extend_from_slice(bytes);
        text.truncate(text.len() - MARGIN + len);
    } else {
        text.extend_from_slice(&rest[..len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_length() {
        let from: Vec<u8> = (0..=255).collect();
        for (start, len) in (0..200).flat_map(|start| (0..56).map(move |len| (start, len))).chain([
            (0, 64),
            (0, 65),
            (100, 128),
            (3, 129),
            (0, 256),
            (250, 6),
        ]) {
            let mut text = b"x".to_vec();
            piece(&mut text, &from, start, len);
            assert_eq!(text[0], b'x');
            assert_eq!(text[1..], from[start..start + len]);
        }
    }

    #[test]
    fn what_would_end_a_line_is_a_blank() {
        let mut text = Vec::new();
        one_line(&mut text, "a\nb\rc\0d e");
        assert_eq!(text, b"a b c d e");
    }

    #[test]
    fn numbers_are_aligned() {
        let mut text = Vec::new();
        number(&mut text, -7, 5);
        zeros(&mut text, 7, 3);
        hex(&mut text, 0, 2);
        hex(&mut text, 0xabc, 0);
        assert_eq!(text, b"   -7007 0abc");
    }
}
