//! Parser of Ruby's marshal format 4.8, restricted to numbers, strings, symbols, arrays and hashes.
//!
//! ```text
//! 04 08                      version
//! 7b 10                      a hash of 11 entries: small numbers are stored plus 5
//! 3a 0c 76 65 72 …           a symbol of 7 letters; 3b 00 is that symbol again
//! 49 22 06 61 06 3a 06 45 54 a text with one instance variable: E, its encoding
//! 40 06                      the object with number 1 again
//! ```
//!
//! Source: "Marshal Format" in Ruby's documentation. Memory use is limited to some dozen bytes per byte of input: a
//! length is checked against the remaining input before the allocation, and referenced objects are shared.

use crate::read::marshalled::{Cursor, Damage, MOST_NESTED, Value, referred};

/// Reads the single value of a file.
pub(super) fn read(bytes: &[u8]) -> Result<Value, Damage> {
    let mut bytes = Cursor::new(bytes);
    match bytes.take()? {
        [4, 8] => {}
        [major, minor] => return Err(format!("version {major}.{minor} of Ruby's marshal")),
    }
    Marshal { bytes, symbols: Vec::new(), objects: Vec::new(), depth: 0 }.value()
}

struct Marshal<'a> {
    bytes: Cursor<'a>,
    symbols: Vec<Value>,
    /// Objects other than numbers, booleans and symbols, in the order in which they began; [`Value::None`] for
    /// objects that have not ended yet.
    objects: Vec<Value>,
    depth: usize,
}

impl Marshal<'_> {
    fn value(&mut self) -> Result<Value, Damage> {
        let at = self.bytes.at;
        let [code] = self.bytes.take()?;
        if self.depth == MOST_NESTED {
            return Err(format!("values are nested too deeply at byte {at}"));
        }
        self.depth += 1;
        let value = self.content(code, at);
        self.depth -= 1;
        value
    }

    fn content(&mut self, code: u8, at: usize) -> Result<Value, Damage> {
        Ok(match code {
            b'0' => Value::None,
            b'T' => Value::Int(1),
            b'F' => Value::Int(0),
            b'i' => Value::Int(self.number()?),
            b':' => {
                let symbol = self.text()?;
                self.symbols.push(symbol.clone());
                symbol
            }
            b';' => {
                let number = self.number()?;
                referred(&self.symbols, number, at)?
            }
            b'@' => {
                let number = self.number()?;
                referred(&self.objects, number, at)?
            }
            b'I' => {
                let value = self.value()?;
                for _ in 0..self.length()? {
                    self.value()?;
                    self.value()?;
                }
                value
            }
            b'"' | b'f' | b'l' | b'[' | b'{' | b'}' => {
                let slot = self.objects.len();
                self.objects.push(Value::None);
                let value = self.object(code, at)?;
                self.objects[slot] = value.clone();
                value
            }
            _ => return Err(format!("no value that profiles hold at byte {at}")),
        })
    }

    fn object(&mut self, code: u8, at: usize) -> Result<Value, Damage> {
        Ok(match code {
            b'"' => self.text()?,
            b'f' => {
                let text = self.text()?;
                let number = text.text().and_then(|text| text.parse().ok());
                Value::Float(number.ok_or_else(|| format!("no number at byte {at}"))?)
            }
            b'l' => self.long()?,
            b'[' => {
                let count = self.length()?;
                let mut list = Vec::with_capacity(count.min(self.bytes.left()).min(4096));
                for _ in 0..count {
                    list.push(self.value()?);
                }
                Value::new_list(list)?
            }
            _ => {
                let mut entries = Vec::new();
                for _ in 0..self.length()? {
                    entries.push((self.value()?, self.value()?));
                }
                if code == b'}' {
                    // The default value of a hash.
                    self.value()?;
                }
                Value::new_dict(entries)?
            }
        })
    }

    /// Reads an integer that does not fit in 31 bits: its sign, then the number of 16-bit words that follow.
    /// Saturates if it does not fit in 63 bits.
    fn long(&mut self) -> Result<Value, Damage> {
        let [sign] = self.bytes.take()?;
        let pairs = self.length()?;
        let bytes = self.bytes.slice(pairs.saturating_mul(2))?;
        let number = bytes
            .iter()
            .rev()
            .try_fold(0i64, |number, &byte| number.checked_mul(256)?.checked_add(i64::from(byte)));
        let number = number.unwrap_or(i64::MAX);
        Ok(Value::Int(if sign == b'-' { -number } else { number }))
    }

    /// Reads a number of one to five bytes.
    fn number(&mut self) -> Result<i64, Damage> {
        let [first] = self.bytes.take()?;
        let count = i64::from(first as i8);
        if !(-4..=4).contains(&count) {
            return Ok(count - 5 * count.signum());
        }
        let bytes = self.bytes.slice(count.unsigned_abs() as usize)?;
        let number = bytes.iter().rev().fold(0, |number, &byte| number << 8 | i64::from(byte));
        Ok(if count < 0 { number - (1 << (8 * -count)) } else { number })
    }

    fn length(&mut self) -> Result<usize, Damage> {
        let at = self.bytes.at;
        let length = self.number()?;
        usize::try_from(length).map_err(|_| format!("a length below 0 at byte {at}"))
    }

    fn text(&mut self) -> Result<Value, Damage> {
        let length = self.length()?;
        Ok(Value::Text(self.bytes.text(length)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expect: &str) {
        let shown = match read(&[b"\x04\x08", bytes].concat()) {
            Ok(value) => format!("{value:?}"),
            Err(damage) => damage,
        };
        assert_eq!(shown, expect);
    }

    #[test]
    fn values_as_ruby_writes_them() {
        // `Marshal.dump` of 0, 1, 122, 123, -123, -124, 300, -129, 65536, 2**31, -(2**40).
        let numbers: [(&[u8], i64); 11] = [
            (b"i\0", 0),
            (b"i\x06", 1),
            (b"i\x7f", 122),
            (b"i\x01\x7b", 123),
            (b"i\x80", -123),
            (b"i\xff\x84", -124),
            (b"i\x02\x2c\x01", 300),
            (b"i\xff\x7f", -129),
            (b"i\x03\0\0\x01", 65536),
            (b"l+\x07\0\0\0\x80", 1 << 31),
            (b"l-\x08\0\0\0\0\0\x01", -(1 << 40)),
        ];
        for (bytes, number) in numbers {
            check(bytes, &format!("Int({number})"));
        }
        check(
            b"[\x08:\x06a;\0I\"\x06b\x06:\x06ET",
            "List([Text(\"a\"), Text(\"a\"), Text(\"b\")])",
        );
        check(b"[\x07\"\x06b@\x06", "List([Text(\"b\"), Text(\"b\")])");
        check(b"{\x06:\x06af\x081.5", "Dict([(Text(\"a\"), Float(1.5))])");
    }

    #[test]
    fn lengths_depths_and_references_are_not_believed() {
        check(b"[\x04\xff\xff\xff\x7f0", "its last value is not whole");
        check(b"\"\x04\xff\xff\xff\x7f", "a text at byte 8 is not whole");
        check(b"[\xfa", "a length below 0 at byte 3");
        check(b"@\x06", "a reference at byte 2 leads nowhere");
        check(&[b'[', 6].repeat(100_000), "values are nested too deeply at byte 34");
        check(b"o:\x06a", "no value that profiles hold at byte 2");
    }
}
