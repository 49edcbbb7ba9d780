//! JSON, written as it comes: what is written is far too much to be held twice.

use std::io::{self, Write};

/// A string, quoted.
pub(super) fn string(out: &mut dyn Write, text: &str) -> io::Result<()> {
    Ok(serde_json::to_writer(out, text)?)
}

/// A number of 10^-`decimals`.
pub(super) fn decimal(out: &mut dyn Write, value: u64, decimals: u8) -> io::Result<()> {
    let mut text = Vec::new();
    super::folded::push_decimal(&mut text, value, decimals);
    out.write_all(&text)
}

/// `"name":[…]`, one entry a row.
pub(super) fn column<T>(
    out: &mut dyn Write,
    name: &str,
    rows: &[T],
    mut entry: impl FnMut(&mut dyn Write, &T) -> io::Result<()>,
) -> io::Result<()> {
    write!(out, "\"{name}\":[")?;
    for (index, row) in rows.iter().enumerate() {
        out.write_all(if index == 0 { b"" } else { b"," })?;
        entry(out, row)?;
    }
    out.write_all(b"]")
}
