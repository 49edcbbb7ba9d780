//! Names as text.

/// Formats a name as text, with control characters such as newlines in octal (`\33`), as in strings.
pub fn printable(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for c in String::from_utf8_lossy(name).chars() {
        match c.is_control() {
            true => text.push_str(&format!("\\{:o}", u32::from(c))),
            false => text.push(c),
        }
    }
    text
}
