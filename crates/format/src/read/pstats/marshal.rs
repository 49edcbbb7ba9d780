//! Parser of Python's marshal format, restricted to numbers, strings, tuples, lists and dictionaries.
//!
//! ```text
//! 7b                          a dictionary: keys and values up to a 0x30
//! a9 03                       a tuple of three; the high bit says that it can be referred to
//! fa 07 77 6f 72 6b 2e 70 79  a text of seven bytes, with a number to refer to
//! 72 00 00 00 00              what has number 0
//! ```
//!
//! Source: "marshal" in Python's library reference, `Python/marshal.c`. Versions 0 to 5 are supported. Memory use is
//! limited to some dozen bytes per byte of input: a length is checked against the remaining input before the
//! allocation, and referenced objects are shared.

use std::rc::Rc;

use crate::read::marshalled::{Cursor, Damage, MOST_NESTED, Value, referred};

/// Reads values one after the other.
pub(super) struct Marshal<'a> {
    bytes: Cursor<'a>,
    /// Objects that can be referenced, in the order in which they began; [`Value::None`] for objects that have not
    /// ended yet.
    marked: Vec<Value>,
    /// Interned strings, which Python before 3.4 numbers separately.
    interned: Vec<Value>,
    depth: usize,
}

impl<'a> Marshal<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes: Cursor::new(bytes), marked: Vec::new(), interned: Vec::new(), depth: 0 }
    }

    /// Begins a dictionary, whose keys and values follow; returns `false` if the next value is not one.
    pub fn begin_dict(&mut self) -> Result<bool, Damage> {
        let [code] = self.bytes.take()?;
        if code & MARK != 0 {
            self.marked.push(Value::None);
        }
        Ok(code & !MARK == b'{')
    }

    /// Reads the next key of a dictionary; `None` at its end.
    pub fn key(&mut self) -> Result<Option<Value>, Damage> {
        if self.bytes.peek() == Some(b'0') {
            self.bytes.at += 1;
            return Ok(None);
        }
        self.value().map(Some)
    }

    /// Reads the next value.
    pub fn value(&mut self) -> Result<Value, Damage> {
        let at = self.bytes.at;
        let [code] = self.bytes.take()?;
        let slot = (code & MARK != 0).then(|| {
            self.marked.push(Value::None);
            self.marked.len() - 1
        });
        if self.depth == MOST_NESTED {
            return Err(format!("values are nested too deeply at byte {at}"));
        }
        self.depth += 1;
        let value = self.content(code & !MARK, at);
        self.depth -= 1;
        let value = value?;
        if let Some(slot) = slot {
            self.marked[slot] = value.clone();
        }
        Ok(value)
    }

    fn content(&mut self, code: u8, at: usize) -> Result<Value, Damage> {
        Ok(match code {
            b'N' => Value::None,
            b'F' => Value::Int(0),
            b'T' => Value::Int(1),
            b'i' => Value::Int(i64::from(i32::from_le_bytes(self.bytes.take()?))),
            b'I' => Value::Int(i64::from_le_bytes(self.bytes.take()?)),
            b'l' => self.long()?,
            b'g' => Value::Float(f64::from_le_bytes(self.bytes.take()?)),
            b'f' => {
                let [length] = self.bytes.take()?;
                let text = self.bytes.text(usize::from(length))?;
                let number = text.parse().map_err(|_| format!("no number at byte {at}"))?;
                Value::Float(number)
            }
            b'z' | b'Z' => {
                let [length] = self.bytes.take()?;
                Value::Text(self.bytes.text(usize::from(length))?)
            }
            b's' | b'u' | b'a' | b'A' => Value::Text(self.long_text()?),
            b't' => {
                let text = Value::Text(self.long_text()?);
                self.interned.push(text.clone());
                text
            }
            b'R' => {
                let number = self.length()?;
                referred(&self.interned, number, at)?
            }
            b'r' => {
                let number = self.length()?;
                referred(&self.marked, number, at)?
            }
            b')' => {
                let [count] = self.bytes.take()?;
                self.list(usize::from(count))?
            }
            b'(' | b'[' => {
                let count = self.length()?;
                self.list(count)?
            }
            b'{' => self.dict()?,
            _ => return Err(format!("no value of Python's marshal at byte {at}")),
        })
    }

    fn list(&mut self, count: usize) -> Result<Value, Damage> {
        let mut list = Vec::with_capacity(count.min(16));
        for _ in 0..count {
            list.push(self.value()?);
        }
        Value::new_list(list)
    }

    fn dict(&mut self) -> Result<Value, Damage> {
        let mut entries = Vec::new();
        while let Some(key) = self.key()? {
            entries.push((key, self.value()?));
        }
        Value::new_dict(entries)
    }

    /// Reads an integer in digits of 15 bits; saturates if it does not fit.
    fn long(&mut self) -> Result<Value, Damage> {
        let count = i32::from_le_bytes(self.bytes.take()?);
        let mut number = 0i64;
        for place in 0..count.unsigned_abs() {
            let digit = i64::from(u16::from_le_bytes(self.bytes.take()?) & 0x7fff);
            let fits = place < 4;
            number = if fits { number | digit << (15 * place) } else { i64::MAX };
        }
        Ok(Value::Int(if count < 0 { -number } else { number }))
    }

    fn length(&mut self) -> Result<usize, Damage> {
        Ok(u32::from_le_bytes(self.bytes.take()?) as usize)
    }

    fn long_text(&mut self) -> Result<Rc<str>, Damage> {
        let length = self.length()?;
        self.bytes.text(length)
    }
}

/// Flag of objects that can be referenced.
const MARK: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expect: &str) {
        let shown = match Marshal::new(bytes).value() {
            Ok(value) => format!("{value:?}"),
            Err(damage) => damage,
        };
        assert_eq!(shown, expect);
    }

    #[test]
    fn values_of_all_versions() {
        check(b"i\x07\0\0\0", "Int(7)");
        check(b"I\xff\xff\xff\xff\xff\xff\xff\xff", "Int(-1)");
        check(b"l\x02\0\0\0\x01\0\x02\0", "Int(65537)");
        check(b"l\xff\xff\xff\xff\x05\0", "Int(-5)");
        check(b"f\x041.25", "Float(1.25)");
        check(b")\x02t\x01\0\0\0aR\0\0\0\0", "List([Text(\"a\"), Text(\"a\")])");
        check(b"(\x02\0\0\0\xda\x01ar\0\0\0\0", "List([Text(\"a\"), Text(\"a\")])");
        check(b"{z\x01aN0", "Dict([(Text(\"a\"), None)])");
    }

    #[test]
    fn lengths_depths_and_references_are_not_believed() {
        check(b"s\xff\xff\xff\xff", "a text at byte 5 is not whole");
        check(b"(\xff\xff\xff\xffN", "its last value is not whole");
        check(&[b')', 1].repeat(100_000), "values are nested too deeply at byte 32");
        check(b"r\x01\0\0\0", "a reference at byte 0 leads nowhere");
        // Each list holds the one before it: freeing a million of them would take a stack of a million calls.
        let list = |number: u32| [b"\xa9\x01r".as_slice(), &number.to_le_bytes()].concat();
        let nested: Vec<u8> =
            (0..40).flat_map(|number: u32| list(number.saturating_sub(1))).collect();
        check(
            &[b")\x28".as_slice(), &nested].concat(),
            "values are nested too deeply by references",
        );
        // A container that has not ended yet is empty.
        check(b"\xa9\x01r\0\0\0\0", "List([None])");
    }
}
