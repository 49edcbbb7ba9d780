//! Quoted strings with escapes.

/// Writes bytes in quotes, at most `longest` of them. `...` follows if they are cut here, or were cut by the tracer
/// (`cut`).
pub(crate) fn quoted(bytes: &[u8], longest: usize, cut: bool, out: &mut String) {
    out.push('"');
    escaped(bytes.get(..longest).unwrap_or(bytes), out);
    out.push('"');
    if cut || bytes.len() > longest {
        out.push_str("...");
    }
}

/// Writes bytes as in a C string: printable ASCII unchanged, everything else escaped.
pub(crate) fn escaped(bytes: &[u8], out: &mut String) {
    for (index, &byte) in bytes.iter().enumerate() {
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            0x0b => out.push_str("\\v"),
            0x0c => out.push_str("\\f"),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => {
                // A digit after a short octal escape would become part of it.
                let digit = bytes.get(index + 1).is_some_and(|next| (b'0'..=b'7').contains(next));
                let at_least = if digit { 3 } else { 1 };
                crate::context::put(out, format_args!("\\{byte:0at_least$o}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    fn check(bytes: &[u8], longest: usize, cut: bool, expect: &str) {
        let mut out = String::new();
        quoted(bytes, longest, cut, &mut out);
        assert_eq!(out, expect);
    }

    #[test]
    fn strings() {
        check(b"plain", 32, false, r#""plain""#);
        check(b"a\"b\\c\n\t\r\x0b\x0c", 32, false, r#""a\"b\\c\n\t\r\v\f""#);
        check(b"\x7fELF\x02\x01\x00\x001", 32, false, r#""\177ELF\2\1\0\0001""#);
        check("ä".as_bytes(), 32, false, r#""\303\244""#);
        check(b"abcdef", 3, false, r#""abc"..."#);
        check(b"abc", 3, true, r#""abc"..."#);
        check(b"abc", 3, false, r#""abc""#);
        check(b"", 0, false, r#""""#);
    }
}
