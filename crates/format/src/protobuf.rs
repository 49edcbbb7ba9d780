//! The wire format of Protocol Buffers, as far as profile files need it.
//!
//! Source: "Encoding" in the documentation of Protocol Buffers. Messages are read in place, field by field: nothing is
//! copied, and a length in the input never causes an allocation. This is why no code generator is used: the samples of a
//! profile go straight into columns.

/// Error: the message is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

/// Content of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// Wire type 0 (varint, integers of all sizes), and the fixed-size types 1 and 5.
    Number(u64),
    /// Wire type 2: a string, a nested message, or packed numbers.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The number; 0 if the field contains bytes.
    pub fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            Self::Bytes(_) => 0,
        }
    }

    /// The bytes; empty if the field contains a number.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Number(_) => &[],
            Self::Bytes(bytes) => bytes,
        }
    }

    /// The content as a nested message.
    pub fn message(self) -> Message<'a> {
        Message(self.bytes())
    }

    /// Appends the numbers of a repeated field, packed or not, to a list.
    pub fn numbers(self, list: &mut Vec<u64>) -> Result<(), Damaged> {
        match self {
            Self::Number(number) => list.push(number),
            Self::Bytes(mut bytes) => {
                while !bytes.is_empty() {
                    list.push(varint(&mut bytes)?);
                }
            }
        }
        Ok(())
    }

    /// Same for 64-bit numbers of fixed size.
    pub fn fixed_numbers(self, list: &mut Vec<u64>) -> Result<(), Damaged> {
        match self {
            Self::Number(number) => list.push(number),
            Self::Bytes(bytes) => {
                let (words, rest) = bytes.as_chunks::<8>();
                list.extend(words.iter().map(|word| u64::from_le_bytes(*word)));
                if !rest.is_empty() {
                    return Err(Damaged);
                }
            }
        }
        Ok(())
    }
}

/// The part of a message that was not read yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a>(pub &'a [u8]);

impl<'a> Message<'a> {
    /// Reads the number and content of the next field; `None` at the end.
    #[inline]
    pub fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Damaged> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = varint(&mut self.0)?;
        let number = u32::try_from(key >> 3).map_err(|_| Damaged)?;
        if number == 0 {
            return Err(Damaged);
        }
        let value = match key & 7 {
            0 => Value::Number(varint(&mut self.0)?),
            1 => Value::Number(u64::from_le_bytes(*self.split::<8>()?)),
            2 => {
                let length = usize::try_from(varint(&mut self.0)?).map_err(|_| Damaged)?;
                let (bytes, rest) = self.0.split_at_checked(length).ok_or(Damaged)?;
                self.0 = rest;
                Value::Bytes(bytes)
            }
            5 => Value::Number(u32::from_le_bytes(*self.split::<4>()?).into()),
            // Groups (3 and 4) were deprecated before profiles were written.
            _ => return Err(Damaged),
        };
        Ok(Some((number, value)))
    }

    fn split<const N: usize>(&mut self) -> Result<&'a [u8; N], Damaged> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Damaged)?;
        self.0 = rest;
        Ok(bytes)
    }
}

/// Decodes a varint: one to ten bytes of seven bits each, lowest first.
#[inline]
fn varint(bytes: &mut &[u8]) -> Result<u64, Damaged> {
    if let [byte @ 0..0x80, rest @ ..] = *bytes {
        *bytes = rest;
        return Ok(u64::from(*byte));
    }
    let mut number = 0u64;
    for (index, &byte) in bytes.iter().take(10).enumerate() {
        // Bits of the tenth byte beyond 64 are dropped, as other decoders do.
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *bytes = &bytes[index + 1..];
            return Ok(number);
        }
    }
    Err(Damaged)
}

/// Encoder of a message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writer {
    pub bytes: Vec<u8>,
}

impl Writer {
    /// Writes a number. 0 is not written: it is the default of an absent field.
    pub fn number(&mut self, field: u32, number: u64) {
        if number != 0 {
            self.key(field, 0);
            push_varint(&mut self.bytes, number);
        }
    }

    /// Writes a number even if it is 0, for a field of a `oneof`.
    pub fn explicit_number(&mut self, field: u32, number: u64) {
        self.key(field, 0);
        push_varint(&mut self.bytes, number);
    }

    /// Writes a 64-bit number of fixed size, unless it is 0.
    pub fn fixed(&mut self, field: u32, number: u64) {
        if number != 0 {
            self.key(field, 1);
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Writes a string or message, even an empty one.
    pub fn put(&mut self, field: u32, bytes: &[u8]) {
        self.key(field, 2);
        push_varint(&mut self.bytes, bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes a nested message whose content `fill` writes.
    pub fn message(&mut self, field: u32, fill: impl FnOnce(&mut Self)) {
        self.key(field, 2);
        self.with_length(fill);
    }

    /// Writes packed numbers; nothing if there are none.
    pub fn packed(&mut self, field: u32, numbers: impl IntoIterator<Item = u64>) {
        let mut numbers = numbers.into_iter().peekable();
        if numbers.peek().is_some() {
            self.key(field, 2);
            self.with_length(|out| numbers.for_each(|number| push_varint(&mut out.bytes, number)));
        }
    }

    /// Same for 64-bit numbers of fixed size.
    pub fn packed_fixed(&mut self, field: u32, numbers: impl IntoIterator<Item = u64>) {
        let packed: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
        if !packed.is_empty() {
            self.put(field, &packed);
        }
    }

    /// Writes the length of the content that `fill` writes, and the content. One byte is reserved for the length; if it
    /// needs more, the content is moved.
    fn with_length(&mut self, fill: impl FnOnce(&mut Self)) {
        let at = self.bytes.len();
        self.bytes.push(0);
        fill(self);
        let start = at + 1;
        let end = self.bytes.len();
        let mut length = end - start;
        let more = length.checked_ilog2().unwrap_or(0) as usize / 7;
        if more > 0 {
            self.bytes.resize(end + more, 0);
            self.bytes.copy_within(start..end, start + more);
        }
        for byte in &mut self.bytes[at..at + more] {
            *byte = length as u8 | 0x80;
            length >>= 7;
        }
        self.bytes[at + more] = length as u8;
    }

    fn key(&mut self, field: u32, wire_type: u64) {
        push_varint(&mut self.bytes, u64::from(field) << 3 | wire_type);
    }
}

fn push_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn damage_is_found_and_lengths_are_not_believed() {
        let next = |bytes: &[u8]| Message(bytes).next().map(|field| field.is_some());
        assert_eq!(next(b""), Ok(false));
        assert_eq!(next(&[0x08, 0x01]), Ok(true));
        // No content; a number that does not end; a field 0; a group; too few bytes.
        for damaged in [
            &[0x08][..],
            &[0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1],
            &[0x00, 0x01],
            &[0x0b],
            &[0x09, 1, 2, 3, 4, 5, 6, 7],
            &[0x0d, 1, 2, 3],
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1],
        ] {
            assert_eq!(next(damaged), Err(Damaged), "{damaged:x?}");
        }
    }

    /// One byte holds lengths to 127; messages are within each other.
    #[test]
    fn lengths_of_one_byte_and_of_several() {
        for length in [0, 1, 126, 127, 128, 129, 16_383, 16_384, 2_097_151, 2_097_152] {
            let inner = vec![7; length];
            let mut out = Writer::default();
            out.message(1, |out| {
                out.message(2, |out| out.put(3, &inner));
                out.number(4, 9);
            });
            let mut outer = Message(&out.bytes);
            let (field, value) = outer.next().expect("a message").expect("a field");
            assert_eq!((field, outer.next()), (1, Ok(None)), "{length}");
            let mut message = value.message();
            let (field, value) = message.next().expect("a message").expect("a field");
            let inside = value.message().next();
            assert_eq!((field, inside), (2, Ok(Some((3, Value::Bytes(&inner))))), "{length}");
            assert_eq!(message.next(), Ok(Some((4, Value::Number(9)))), "{length}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(numbers in prop::collection::vec(any::<u64>(), 0..20), one: u64) {
            let mut writer = Writer::default();
            writer.packed(1, numbers.iter().copied());
            writer.number(2, one);
            writer.message(3, |inner| inner.fixed(536_870_911, one));
            let (mut read, mut message) = (Vec::new(), Message(&writer.bytes));
            while let Some((field, value)) = message.next().expect("well formed") {
                match field {
                    1 => value.numbers(&mut read).expect("numbers"),
                    2 => prop_assert_eq!(value, Value::Number(one)),
                    _ => {
                        let expected = (one != 0).then_some((536_870_911, Value::Number(one)));
                        prop_assert_eq!(value.message().next(), Ok(expected));
                    }
                }
            }
            prop_assert_eq!(read, numbers);
        }
    }
}
