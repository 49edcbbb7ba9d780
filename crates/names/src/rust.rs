//! Names of Rust, demangled or half demangled.

use std::borrow::Cow;

use crate::cpp::{is_types, last_parts};
use crate::scan::{digits, path};
use crate::{Language, Name, suffix};

/// What stands for signs in legacy names that were taken for C++.
const SIGNS: &[(&str, &str)] = &[
    ("$LT$", "<"),
    ("$GT$", ">"),
    ("$LP$", "("),
    ("$RP$", ")"),
    ("$C$", ","),
    ("$SP$", "@"),
    ("$BP$", "*"),
    ("$RF$", "&"),
    ("$u20$", " "),
    ("$u22$", "\""),
    ("$u27$", "'"),
    ("$u2b$", "+"),
    ("$u3b$", ";"),
    ("$u5b$", "["),
    ("$u5d$", "]"),
    ("$u7b$", "{"),
    ("$u7d$", "}"),
    ("$u7e$", "~"),
];

/// Takes a name apart; `None` if it shows no sign of Rust.
pub(crate) fn name(name: &str) -> Option<Name<'_>> {
    const MARKS: &[&str] = &[
        "{closure",
        "{{",
        "{impl#",
        "{shim:",
        "$LT$",
        "$u7b$",
        " as ",
        "{async",
        "{constant#",
        "::<",
        "::<",
    ];
    let bare = suffix::without(name);
    let without_hash = without_hash(bare);
    let is_hashed = without_hash.len() < bare.len();
    let crates = without_crate_hashes(without_hash);
    let is_marked = MARKS.iter().any(|mark| bare.contains(mark)) && bare.contains("::");
    if !is_hashed && !is_marked && matches!(crates, Cow::Borrowed(_)) {
        return None;
    }
    // C++ has these marks in lambdas of its own.
    if bare.contains("{lambda") || bare.contains("{unnamed type") {
        return None;
    }
    let full = readable(&crates);
    let identity = without_types(&without_numbers(&full));
    let short = last_parts(&full, true).into_owned();
    Some(Name {
        identity: identity.into(),
        short: short.into(),
        full: full.into(),
        language: Some(Language::Rust),
        tier: None,
    })
}

/// `sort::<u8>` and `<Vec<u8>>::len` of v0 names are `sort` and `Vec<u8>::len`, as legacy names have them.
fn without_types(name: &str) -> String {
    let parts = path(name);
    let mut all = parts.iter().copied();
    let first = all.next().unwrap_or_default();
    let inner = first.strip_prefix('<').and_then(|part| part.strip_suffix('>'));
    let first = inner.filter(|inner| !inner.contains(" as ")).unwrap_or(first);
    let is_kept = |part: &&str| !is_types(part);
    std::iter::once(first).chain(all.filter(is_kept)).collect::<Vec<_>>().join("::")
}

/// The name without the hash that ends Rust's legacy symbols, `::h` and 16 digits.
///
/// ```
/// # use pyrograph_names::without_hash;
/// assert_eq!(without_hash("core::fmt::write::h0123456789abcdef"), "core::fmt::write");
/// ```
pub fn without_hash(name: &str) -> &str {
    let hash = name.len().checked_sub(19).and_then(|at| Some((at, name.get(at..)?)));
    match hash {
        Some((at, hash))
            if hash.starts_with("::h") && hash[3..].bytes().all(|b| b.is_ascii_hexdigit()) =>
        {
            &name[..at]
        }
        _ => name,
    }
}

/// `core[9f2a3b4c5d6e7f80]::fmt::write`: v0 names with the numbers of their crates.
fn without_crate_hashes(name: &str) -> Cow<'_, str> {
    let mut text = String::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('[') {
        let hash = after.split(']').next().unwrap_or_default();
        let is_hash =
            (10..=16).contains(&hash.len()) && hash.bytes().all(|b| b.is_ascii_hexdigit());
        text.push_str(before);
        if is_hash && after[hash.len()..].starts_with("]::") {
            rest = &after[hash.len() + 1..];
        } else {
            text.push('[');
            rest = after;
        }
    }
    if text.len() + rest.len() == name.len() { name.into() } else { (text + rest).into() }
}

/// With the signs that are written out as words.
fn readable(name: &str) -> String {
    if !name.contains('$') {
        return name.to_owned();
    }
    let mut text = name.replace("::_$", "::$");
    if let Some(rest) = text.strip_prefix("_$") {
        text = format!("${rest}");
    }
    for (word, sign) in SIGNS {
        text = text.replace(word, sign);
    }
    text.replace("..", "::")
}

/// `{closure#2}` and `{{closure}}` are `{closure}`, `{impl#3}` is `{impl}`.
fn without_numbers(name: &str) -> String {
    let text = name.replace("{{", "{").replace("}}", "}");
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once('#') {
        out.push_str(before);
        let count = digits(after);
        if count > 0 && after[count..].starts_with('}') {
            rest = &after[count..];
        } else {
            out.push('#');
            rest = after;
        }
    }
    out + rest
}
