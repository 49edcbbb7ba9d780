//! Shared code of readers of JSON.

use std::fmt;
use std::io::Read;

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, Visitor};

use crate::input::Head;
use crate::reader::ReadError;
use crate::warnings::Warnings;

/// True if a text begins with an object. A byte order mark is ignored.
pub(crate) fn begins_object(head: &[u8]) -> bool {
    first_byte(head) == Some(b'{')
}

/// True if a text begins with a list. A byte order mark is ignored.
pub(crate) fn begins_list(head: &[u8]) -> bool {
    first_byte(head) == Some(b'[')
}

fn first_byte(head: &[u8]) -> Option<u8> {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    text.trim_ascii_start().first().copied()
}

/// True if the text contains `"key":`, with or without whitespace before the colon.
pub(crate) fn has_key(head: &[u8], key: &str) -> bool {
    let quoted = format!("\"{key}\"");
    memchr::memmem::find_iter(head, &quoted)
        .any(|at| head[at + quoted.len()..].trim_ascii_start().first() == Some(&b':'))
}

/// Parses the whole input as one value. Fails if it is nested more than 128 levels deep.
pub(crate) fn parse<T: DeserializeOwned>(input: Head) -> Result<(T, Warnings), ReadError> {
    let name = input.name().to_owned();
    let value = serde_json::from_slice(&text(input)?)
        .map_err(|error| ReadError::Malformed { name, reason: error.to_string() })?;
    Ok((value, Warnings::default()))
}

/// Reads the whole input, without a byte order mark.
pub(crate) fn text(input: Head) -> Result<Vec<u8>, ReadError> {
    let name = input.name().to_owned();
    let mut text = Vec::new();
    input.into_stream().read_to_end(&mut text).map_err(|source| ReadError::Io { name, source })?;
    if text.starts_with(b"\xef\xbb\xbf") {
        text.drain(..3);
    }
    Ok(text)
}

/// Deserializes a number, which some writers put in quotation marks.
pub(crate) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    struct Number;
    impl Visitor<'_> for Number {
        type Value = f64;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a number")
        }
        fn visit_f64<E>(self, number: f64) -> Result<f64, E> {
            Ok(number)
        }
        fn visit_u64<E>(self, number: u64) -> Result<f64, E> {
            Ok(number as f64)
        }
        fn visit_i64<E>(self, number: i64) -> Result<f64, E> {
            Ok(number as f64)
        }
        fn visit_unit<E>(self) -> Result<f64, E> {
            Ok(0.0)
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<f64, E> {
            text.trim().parse().map_err(E::custom)
        }
    }
    deserializer.deserialize_any(Number)
}

/// Deserializes a field, treating `null` like a missing one: py-spy writes `null` for all unknown values.
pub(crate) fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
