//! Values of events as text.

use std::fmt::Write;

use pyrograph_probe::Shape;

use super::asking::NamedValue;

/// Appends values as `name=value`, separated by blanks. `data` is what programs in the kernel have read
/// ([`ReadValue`](pyrograph_event::values::ReadValue)); a value that could not be read is `?`.
pub(crate) fn text(values: &[NamedValue], data: &[u8], text: &mut String) {
    let mut rest = data;
    let missing = word(&mut rest).unwrap_or(u64::MAX);
    for (at, NamedValue { name, shape }) in values.iter().enumerate() {
        if at > 0 {
            text.push(' ');
        }
        let is_read = at < 64 && missing >> at & 1 == 0;
        let value = is_read.then(|| value(shape, &mut rest)).flatten();
        let _ = write!(text, "{name}={}", value.as_deref().unwrap_or("?"));
    }
}

/// The text of a value, or of the beginning of a text that has `all` bytes.
#[cfg(feature = "bpf")]
pub(crate) fn value_text(shape: &Shape, value: u64, bytes: &[u8], all: usize) -> String {
    let Shape::Text { .. } = shape else { return shape.text(value) };
    let text = String::from_utf8_lossy(bytes);
    format!("{text}{}", if all > bytes.len() { "..." } else { "" })
}

fn value(shape: &Shape, data: &mut &[u8]) -> Option<String> {
    let Shape::Text { .. } = shape else { return Some(shape.text(word(data)?)) };
    let lengths = word(data)?;
    let (read, all) = (lengths as u32 as usize, (lengths >> 32) as usize);
    let bytes = data.get(..read)?;
    *data = data.get(read.next_multiple_of(8).min(data.len())..)?;
    let text = String::from_utf8_lossy(bytes);
    let more = if all > read { "..." } else { "" };
    Some(format!("{text:?}{more}"))
}

fn word(data: &mut &[u8]) -> Option<u64> {
    let (word, rest) = data.split_first_chunk()?;
    *data = rest;
    Some(u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_by_their_kind() {
        let named = |name: &str, shape| NamedValue { name: name.to_owned(), shape };
        let values = [
            named("len", Shape::Number { signed: true, bits: (0, 32) }),
            named("gone", Shape::Address),
            named("name", Shape::Text { length: None }),
            named("flag", Shape::Number { signed: false, bits: (0, 3) }),
            named(
                "kind",
                Shape::Names { signed: false, bits: (0, 32), names: vec![(5, "GREEN".to_owned())] },
            ),
            named("body", Shape::Text { length: None }),
        ];
        let mut data = Vec::new();
        data.extend(2u64.to_le_bytes());
        data.extend((-7i64).to_le_bytes());
        data.extend([3u32.to_le_bytes(), 3u32.to_le_bytes()].concat());
        data.extend(b"a\"b\0\0\0\0\0");
        data.extend(7u64.to_le_bytes());
        data.extend(5u64.to_le_bytes());
        data.extend([2u32.to_le_bytes(), 900u32.to_le_bytes()].concat());
        data.extend(b"xy\0\0\0\0\0\0");
        let mut out = String::new();
        text(&values, &data, &mut out);
        assert_eq!(out, r#"len=-7 gone=? name="a\"b" flag=7 kind=GREEN body="xy"..."#);
        let mut short = String::new();
        text(&values[..1], &data[..8], &mut short);
        assert_eq!(short, "len=?");
    }
}
