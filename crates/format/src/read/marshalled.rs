//! Values in languages' serialization formats, restricted to the types that occur in profiles.

use std::rc::Rc;

/// Maximum nesting of values; those in profiles have a depth of five.
pub(crate) const MOST_NESTED: usize = 16;

/// A value. Values with several references are shared.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    None,
    Int(i64),
    Float(f64),
    Text(Rc<str>),
    List(Nested<Value>),
    Dict(Nested<(Value, Value)>),
}

/// The elements of a list or a dictionary.
#[derive(Clone)]
pub(crate) struct Nested<T> {
    entries: Rc<[T]>,
    /// Depth of nesting: 1 if it contains no lists or dictionaries.
    depth: usize,
}

impl<T> std::ops::Deref for Nested<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.entries
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Nested<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.entries.fmt(f)
    }
}

impl Value {
    /// Creates a list. Fails if it is nested too deeply, which is possible even in a flat file by back references;
    /// values are freed recursively, so depth must be limited.
    pub fn new_list(list: Vec<Self>) -> Result<Self, Damage> {
        let depth = one_deeper(list.iter().map(Self::depth))?;
        Ok(Self::List(Nested { entries: list.into(), depth }))
    }

    /// Creates a dictionary. Fails if it is nested too deeply, like a list.
    pub fn new_dict(entries: Vec<(Self, Self)>) -> Result<Self, Damage> {
        let depths = entries.iter().map(|(key, value)| key.depth().max(value.depth()));
        let depth = one_deeper(depths)?;
        Ok(Self::Dict(Nested { entries: entries.into(), depth }))
    }

    fn depth(&self) -> usize {
        match self {
            Self::List(list) => list.depth,
            Self::Dict(entries) => entries.depth,
            _ => 0,
        }
    }

    /// Returns the elements, if this is a list.
    pub fn list(&self) -> Option<&[Value]> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }

    /// Returns the entries, if this is a dictionary.
    pub fn dict(&self) -> Option<&[(Value, Value)]> {
        match self {
            Self::Dict(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the text, if this is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the number, if this is a non-negative integer.
    pub fn count(&self) -> Option<u64> {
        match self {
            Self::Int(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// Returns the value of a text key, if this is a dictionary with this key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.dict()?.iter().find(|(of, _)| of.text() == Some(key)).map(|(_, value)| value)
    }
}

fn one_deeper(depths: impl Iterator<Item = usize>) -> Result<usize, Damage> {
    let depth = 1 + depths.max().unwrap_or(0);
    if depth > MOST_NESTED {
        return Err("values are nested too deeply by references".to_owned());
    }
    Ok(depth)
}

/// Resolves a back reference by its number. `at` is the offset of the reference, for the error.
pub(crate) fn referred(
    to: &[Value],
    number: impl TryInto<usize>,
    at: usize,
) -> Result<Value, Damage> {
    let value = number.try_into().ok().and_then(|number| to.get(number)).cloned();
    value.ok_or_else(|| format!("a reference at byte {at} leads nowhere"))
}

/// Error message with the offset.
pub(crate) type Damage = String;

/// A read position in bytes.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Number of bytes left.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Returns the next byte without consuming it.
    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Takes the next `N` bytes.
    pub fn take<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        let bytes = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk());
        let bytes = bytes.ok_or_else(|| "its last value is not whole".to_owned())?;
        self.at += N;
        Ok(*bytes)
    }

    /// Takes the next `length` bytes.
    pub fn slice(&mut self, length: usize) -> Result<&'a [u8], Damage> {
        let bytes = self.bytes.get(self.at..).and_then(|rest| rest.get(..length));
        let bytes = bytes.ok_or_else(|| format!("a text at byte {} is not whole", self.at))?;
        self.at += length;
        Ok(bytes)
    }

    /// Takes the next `length` bytes as text.
    pub fn text(&mut self, length: usize) -> Result<Rc<str>, Damage> {
        Ok(String::from_utf8_lossy(self.slice(length)?).into())
    }
}
