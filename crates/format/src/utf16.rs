//! Conversion of UTF-16, as PowerShell writes it, to UTF-8 while it is read.

use std::io::{self, Read};

/// Number of bytes that are converted at once.
const PIECE: usize = 64 << 10;

/// Reads UTF-16 with a byte order mark as UTF-8. Invalid code units become U+FFFD.
pub(crate) struct Utf16 {
    source: Box<dyn Read + Send>,
    order: Option<fn([u8; 2]) -> u16>,
    /// Bytes of an incomplete character at the end of the last piece.
    carry: Vec<u8>,
    text: String,
    /// Offset in `text` up to which it was returned.
    at: usize,
    ended: bool,
}

impl Utf16 {
    pub fn new(source: Box<dyn Read + Send>) -> Self {
        let (carry, text) = (Vec::new(), String::new());
        Self { source, order: None, carry, text, at: 0, ended: false }
    }

    /// Converts the next piece.
    fn piece(&mut self) -> io::Result<()> {
        let mut bytes = std::mem::take(&mut self.carry);
        let read = (&mut self.source).take(PIECE as u64).read_to_end(&mut bytes)?;
        self.ended = read < PIECE;
        let mut units = bytes.as_chunks::<2>().0;
        let order = match (self.order, units.split_first()) {
            (Some(order), _) => order,
            (None, Some((mark, rest))) => {
                units = rest;
                if *mark == [0xff, 0xfe] { u16::from_le_bytes } else { u16::from_be_bytes }
            }
            (None, None) => u16::from_le_bytes,
        };
        self.order = Some(order);
        // The first half of a surrogate pair waits for the second half.
        let is_half = |unit: &[u8; 2]| matches!(order(*unit), 0xd800..0xdc00);
        let waits = usize::from(!self.ended && units.last().is_some_and(is_half));
        let odd = bytes.len() % 2;
        units = &units[..units.len() - waits];
        self.carry =
            if self.ended { Vec::new() } else { bytes[bytes.len() - odd - 2 * waits..].to_vec() };
        self.text.clear();
        self.at = 0;
        let characters = char::decode_utf16(units.iter().map(|unit| order(*unit)));
        self.text.extend(characters.map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)));
        if self.ended && odd > 0 {
            self.text.push(char::REPLACEMENT_CHARACTER);
        }
        Ok(())
    }
}

impl Read for Utf16 {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.text.len() && !self.ended {
            self.piece()?;
        }
        let rest = &self.text.as_bytes()[self.at..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn check(bytes: Vec<u8>, expect: &str) {
        let mut text = String::new();
        Utf16::new(Box::new(Cursor::new(bytes))).read_to_string(&mut text).expect("UTF-8");
        assert!(text == expect, "{:?} for {:?}", text.get(..99), expect.get(..99));
    }

    #[test]
    fn both_orders_in_pieces_of_any_size() {
        // A pair lies across each place where a piece may end.
        for before in 0..3 {
            let text = "x".repeat(before) + &"größe;🦀 1\n".repeat(20_000);
            let units = || std::iter::once('\u{feff}').chain(text.chars()).collect::<String>();
            let units: Vec<u16> = units().encode_utf16().collect();
            check(units.iter().flat_map(|unit| unit.to_le_bytes()).collect(), &text);
            check(units.iter().flat_map(|unit| unit.to_be_bytes()).collect(), &text);
        }
    }

    #[test]
    fn what_is_no_character_is_replaced() {
        check(b"\xff\xfea\0\x00\xd8b\0\n".to_vec(), "a\u{fffd}b\u{fffd}");
        check(b"\xff\xfe\x00\xd8".to_vec(), "\u{fffd}");
        check(b"\xfe\xff".to_vec(), "");
        check(b"\xff".to_vec(), "\u{fffd}");
    }
}
