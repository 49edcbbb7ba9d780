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
