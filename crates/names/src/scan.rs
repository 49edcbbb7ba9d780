//! Brackets in names.

/// The bytes of a name that are outside all brackets, with where they are. Arrows (`->`) and the brackets of `operator<`,
/// `operator>>`, `operator()` … are no brackets.
pub(crate) fn outside(name: &str) -> impl DoubleEndedIterator<Item = (usize, u8)> {
    let bytes = name.as_bytes();
    let (mut depth, mut at) = (0usize, 0);
    let mut found = Vec::new();
    while let Some(&byte) = bytes.get(at) {
        if byte == b'o'
            && let Some(end) = operator(name, at)
        {
            if depth == 0 {
                found.extend((at..end).map(|at| (at, b'o')));
            }
            at = end;
            continue;
        }
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' | b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ if depth == 0 => found.push((at, byte)),
            _ => {}
        }
        at += 1;
    }
    found.into_iter()
}

/// Where `operator<<` ends, if it begins here.
fn operator(name: &str, at: usize) -> Option<usize> {
    let rest = name[at..].strip_prefix("operator")?;
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if at > 0 && is_word(name.as_bytes()[at - 1]) {
        return None;
    }
    let signs = ["()", "[]", "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "<", ">"];
    let sign = signs.iter().find(|sign| rest.starts_with(**sign))?;
    Some(at + "operator".len() + sign.len())
}

/// The parts of a path between `::`, outside brackets.
pub(crate) fn path(name: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut from = 0;
    let mut last: Option<usize> = None;
    for (at, byte) in outside(name) {
        if byte != b':' {
            continue;
        }
        if last == Some(at.wrapping_sub(1)) && at > from {
            parts.push(&name[from..at - 1]);
            from = at + 1;
            last = None;
        } else {
            last = Some(at);
        }
    }
    parts.push(&name[from..]);
    parts
}

/// How many ASCII digits the text begins with.
pub(crate) fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// True if it is a number, and not empty.
pub(crate) fn is_number(text: &str) -> bool {
    !text.is_empty() && digits(text) == text.len()
}

/// True if it is a word of a programming language: letters, digits, `_` and `$`.
pub(crate) fn is_word(text: &str) -> bool {
    let first = text.chars().next();
    first.is_some_and(|c| c.is_alphabetic() || c == '_' || c == '$')
        && text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '$')
}
