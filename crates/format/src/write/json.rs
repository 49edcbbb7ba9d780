//! Streaming writer for JSON: output is too large to be built in memory.

use std::fmt::Display;
use std::io::{self, Write};

/// Writes JSON with commas where they are needed. After an error nothing more is written; [`finish`](Json::finish)
/// returns the error.
pub(super) struct Json<'a> {
    out: &'a mut dyn Write,
    result: io::Result<()>,
    /// True if the next item needs a comma before it.
    follows: bool,
}

impl<'a> Json<'a> {
    pub fn new(out: &'a mut dyn Write) -> Self {
        Self { out, result: Ok(()), follows: false }
    }

    /// Returns the first error.
    pub fn finish(self) -> io::Result<()> {
        self.result
    }

    /// Writes a key of an object; its value must follow.
    pub fn key(&mut self, name: &str) -> &mut Self {
        self.value(format_args!("\"{name}\":"));
        self.follows = false;
        self
    }

    /// Writes a quoted string.
    pub fn string(&mut self, text: &str) -> &mut Self {
        self.item();
        if self.result.is_ok() {
            self.result = serde_json::to_writer(&mut *self.out, text).map_err(io::Error::from);
        }
        self
    }

    /// Writes a number, a boolean, or literal JSON.
    pub fn value(&mut self, value: impl Display) -> &mut Self {
        self.item();
        if self.result.is_ok() {
            self.result = write!(self.out, "{value}");
        }
        self
    }

    /// Writes a value, or `null`.
    pub fn option(&mut self, value: Option<impl Display>) -> &mut Self {
        match value {
            Some(value) => self.value(value),
            None => self.value("null"),
        }
    }

    /// Writes `value` · 10^-`decimals`.
    pub fn decimal(&mut self, value: u64, decimals: u8) -> &mut Self {
        let mut text = Vec::new();
        super::folded::push_decimal(&mut text, value, decimals);
        self.item();
        self.put(&text)
    }

    pub fn object(&mut self, content: impl FnOnce(&mut Self)) -> &mut Self {
        self.nested(b"{", content, b"}")
    }

    pub fn array(&mut self, content: impl FnOnce(&mut Self)) -> &mut Self {
        self.nested(b"[", content, b"]")
    }

    /// Writes `"name":[…]`, one entry per row.
    pub fn column<T>(
        &mut self,
        name: &str,
        rows: &[T],
        mut entry: impl for<'b> FnMut(&'b mut Self, &T) -> &'b mut Self,
    ) {
        self.key(name).array(|json| {
            for row in rows {
                entry(json, row);
            }
        });
    }

    /// Begins a new line for the next item.
    pub fn line(&mut self) -> &mut Self {
        self.item();
        self.follows = false;
        self.end_line()
    }

    /// Ends the line after the last item.
    pub fn end_line(&mut self) -> &mut Self {
        self.put(b"\n")
    }

    fn nested(&mut self, open: &[u8], content: impl FnOnce(&mut Self), close: &[u8]) -> &mut Self {
        self.item();
        self.put(open);
        self.follows = false;
        content(self);
        self.follows = true;
        self.put(close)
    }

    /// Writes the comma before an item that follows another one.
    fn item(&mut self) {
        if std::mem::replace(&mut self.follows, true) {
            self.put(b",");
        }
    }

    fn put(&mut self, text: &[u8]) -> &mut Self {
        if self.result.is_ok() {
            self.result = self.out.write_all(text);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_are_between_items() {
        let mut out = Vec::new();
        let mut json = Json::new(&mut out);
        json.object(|json| {
            json.key("a").array(|json| {
                json.line().value(1).line().option(None::<u32>).end_line();
            });
            json.key("b").object(|_| {}).key("c").string("\"").line().key("d").decimal(15, 1);
        });
        json.finish().expect("to memory");
        assert_eq!(out, b"{\"a\":[\n1,\nnull\n],\"b\":{},\"c\":\"\\\"\",\n\"d\":1.5}");
    }

    #[test]
    fn the_first_error_ends_it() {
        let mut room = [0; 3];
        let mut out = &mut room[..];
        let mut json = Json::new(&mut out);
        json.array(|json| {
            for number in 0..9 {
                json.value(number);
            }
        });
        assert!(json.finish().is_err());
        assert_eq!(&room, b"[0,");
    }
}
