//! Tokenizer for a `print fmt`.

use std::borrow::Cow;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub enum Token<'a> {
    /// An identifier.
    Name(&'a str),
    /// A number.
    Number(i64),
    /// A string literal.
    Text(String),
    /// An operator or punctuation.
    Sign(&'static str),
}

/// Longest first.
const SIGNS: [&str; 28] = [
    "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "(", ")", "{", "}", "[", "]", ",", "?",
    ":", "+", "-", "*", "/", "%", "&", "|", "^", "<", ">",
];

/// Splits a text into tokens; `None` if it contains anything else.
pub fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let mut rest = text.trim();
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            let (literal, after) = literal(&rest[1..])?;
            match tokens.last_mut() {
                // Adjacent string literals are concatenated.
                Some(Token::Text(before)) => before.push_str(&literal),
                _ => tokens.push(Token::Text(literal.into_owned())),
            }
            rest = after;
        } else if first == '\'' {
            let mut chars = rest.chars().skip(1);
            let (shown, end) = (chars.next()?, chars.next()?);
            (end == '\'').then_some(())?;
            tokens.push(Token::Number(i64::from(u32::from(shown))));
            rest = &rest[2 + shown.len_utf8()..];
        } else if first.is_ascii_alphanumeric() || first == '_' {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let (word, after) = rest.split_at(rest.find(|c| !is_part(c)).unwrap_or(rest.len()));
            tokens.push(match first.is_ascii_digit() {
                true => Token::Number(number(word)?),
                false => Token::Name(word),
            });
            rest = after;
        } else {
            let others = ["!", "~", "."];
            let sign = SIGNS.into_iter().chain(others).find(|sign| rest.starts_with(sign))?;
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        }
        rest = rest.trim_start();
    }
    Some(tokens)
}

/// Parses a string literal after its opening quote; returns it and the rest.
fn literal(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let mut literal = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((Cow::Owned(literal), &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => literal.push('\n'),
                't' => literal.push('\t'),
                other => literal.push(other),
            },
            c => literal.push(c),
        }
    }
    None
}

/// Parses `1`, `0x10UL`, `017`.
fn number(word: &str) -> Option<i64> {
    let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
    let number = match (digits.strip_prefix("0x").or(digits.strip_prefix("0X")), digits) {
        (Some(hex), _) => u64::from_str_radix(hex, 16),
        (None, "0") => Ok(0),
        (None, digits) => match digits.strip_prefix('0') {
            Some(octal) => u64::from_str_radix(octal, 8),
            None => digits.parse(),
        },
    };
    number.ok().map(u64::cast_signed)
}
