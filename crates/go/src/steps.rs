//! Decoder of pc-value tables.

use std::ops::Range;

/// Iterates over values and their address ranges: the table has pairs of a value delta and a length in bytes of code.
#[derive(Clone, Debug)]
pub(crate) struct Steps<'a> {
    bytes: &'a [u8],
    address: u64,
    value: i32,
    quantum: u64,
    is_first: bool,
}

impl<'a> Steps<'a> {
    pub fn new(bytes: &'a [u8], start: u64, quantum: u64) -> Self {
        Self { bytes, address: start, value: -1, quantum, is_first: true }
    }

    /// Returns the value at an address.
    pub fn at(self, address: u64) -> Option<i32> {
        self.take_while(|(range, _)| range.start <= address)
            .find(|(range, _)| range.contains(&address))
            .map(|(_, value)| value)
    }

    /// Decodes a varint: 7 bits a byte, lowest first.
    fn number(&mut self) -> Option<u32> {
        let mut number = 0;
        for shift in (0..35).step_by(7) {
            let (byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            number |= u32::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

impl Iterator for Steps<'_> {
    type Item = (Range<u64>, i32);

    fn next(&mut self) -> Option<Self::Item> {
        let change = self.number()?;
        if change == 0 && !self.is_first {
            self.bytes = &[];
            return None;
        }
        self.is_first = false;
        // Zigzag encoding: the lowest bit is the sign.
        let change = (change >> 1) as i32 ^ -((change & 1) as i32);
        self.value = self.value.wrapping_add(change);
        let start = self.address;
        self.address = start.checked_add(u64::from(self.number()?) * self.quantum)?;
        Some((start..self.address, self.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_change_by_signed_numbers() {
        // -1 + 1 = 0 for 4 bytes, + 24 for 200, - 24 for 1, and the end.
        let bytes = [2, 4, 48, 0xc8, 1, 47, 1, 0, 9, 9];
        let steps = Steps::new(&bytes, 0x1000, 1);
        let found: Vec<_> = steps.clone().collect();
        assert_eq!(found, [(0x1000..0x1004, 0), (0x1004..0x10cc, 24), (0x10cc..0x10cd, 0)]);
        assert_eq!(steps.clone().at(0x1004), Some(24));
        assert_eq!(steps.at(0x10cd), None);
    }

    #[test]
    fn what_is_cut_ends() {
        for bytes in [&[][..], &[2], &[0x80; 9], &[2, 0x80]] {
            assert_eq!(Steps::new(bytes, u64::MAX, 4).count(), 0, "{bytes:?}");
        }
    }
}
