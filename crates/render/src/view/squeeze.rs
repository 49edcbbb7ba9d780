//! The page's script without what only its readers need: comments, indentation, blanks around signs.
//!
//! It knows as much of the language as our modules use: statements end in semicolons, comments have lines of their own, and
//! there are no template literals.

/// The same script, smaller.
pub(super) fn squeeze(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '"' => literal(rest, '"'),
            '/' if rest.starts_with("//") => {
                rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
                continue;
            }
            '/' if begins_regexp(&out) => literal(rest, '/'),
            c if c.is_whitespace() => {
                rest = rest.trim_start();
                if needs_blank(&out, rest) {
                    out.push(' ');
                }
                continue;
            }
            c => c.len_utf8(),
        };
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out
}

/// The length of a string or a regular expression. In brackets, a slash does not end the latter.
fn literal(text: &str, quote: char) -> usize {
    let (mut escaped, mut in_brackets) = (false, false);
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' if quote == '/' => in_brackets = true,
            ']' => in_brackets = false,
            c if c == quote && !in_brackets => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// True if a slash begins a regular expression behind this text, and does not divide.
fn begins_regexp(before: &str) -> bool {
    before.ends_with(['(', ',', '=', ':', '[', '!', '&', '|', '?', '{', '}', ';'])
        || before.ends_with("return")
}

/// True if two words, or two signs that would become another one, have nothing but a blank between them.
fn needs_blank(before: &str, after: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    let (Some(last), Some(next)) = (before.chars().next_back(), after.chars().next()) else {
        return false;
    };
    // `return /x/` would do without, but then that slash would be a division to the rule above.
    is_word(last) && is_word(next) || last == next && matches!(last, '+' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_run_stays() {
        let source = "  // A remark.\n  function a(b, c) {\n    return b / c + +b - -c; // no\n  }\n\n  const d = /[/ \"]  \\//u\
                      .test(\"a  // \\\" b\") ? 1 : in e;\n  if (x) { return /  /; }\n";
        let expect = "function a(b,c){return b/c+ +b- -c;}const d=/[/ \"]  \\//u.test(\"a  // \\\" b\")?1:in e;if(x){return/  /;}";
        assert_eq!(squeeze(source), expect);
    }
}
