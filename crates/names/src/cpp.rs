//! Names of C++, C and what is written like them: paths with `::`, template arguments, a list of parameters, a result type.

use std::borrow::Cow;

use crate::scan::{digits, outside, path};
use crate::{Language, Name, parameters, suffix};

/// Template arguments up to this many characters are shown in short names: `vector<int>`.
const SHORT_ARGUMENTS: usize = 16;

/// Namespaces of standard libraries that say their version.
const VERSIONS: &[&str] = &["__cxx11", "__1", "_V2", "__ndk1", "__y1"];

/// Takes a name apart; `None` if all its forms are the name itself.
pub(crate) fn name(name: &str) -> Option<Name<'_>> {
    let bare = without_kind(suffix::without(name));
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if bare.len() == name.len() && name.bytes().all(is_plain) {
        return None;
    }
    // What the profiler says of code without a name: `libc.so.6+0x1f`, `[heap]`, `[unknown]`.
    if bare.starts_with('[') || bare.contains("+0x") {
        return None;
    }
    let (path, list) = match parameters::split(bare) {
        Some((before, _)) => (without_result(before), bare[before.len()..].trim_end()),
        None => (bare, ""),
    };
    let list = if list == "(void)" { "()" } else { list };
    let identity = without_numbers(&format!("{path}{list}"));
    let short = last_parts(path, true);
    let is_cpp = !list.is_empty() && path.contains("::")
        || ["(anonymous namespace)", "{lambda(", "'lambda", "operator", "~", "[abi:"]
            .iter()
            .any(|mark| bare.contains(mark));
    let same = |text: &str| text == name;
    if !is_cpp && same(&identity) && same(&short) {
        return None;
    }
    Some(Name {
        identity: identity.into(),
        short: short.into_owned().into(),
        full: name.into(),
        language: is_cpp.then_some(Language::Cpp),
        tier: None,
    })
}

/// Debuggers and older demanglers say which of its kinds a constructor or destructor is (`C1`, `C2`, `D0`, `D1`, `D2`).
fn without_kind(name: &str) -> &str {
    const KINDS: &[&str] = &[
        " [complete object constructor]",
        " [base object constructor]",
        " [complete object destructor]",
        " [base object destructor]",
        " [deleting destructor]",
        " [allocating object constructor]",
        "[in-charge]",
        "[not-in-charge]",
        "[in-charge deleting]",
    ];
    KINDS.iter().find_map(|kind| name.strip_suffix(*kind)).unwrap_or(name)
}

/// The name without the type that it returns, as demanglers write it before functions made of templates.
pub(crate) fn without_result(name: &str) -> &str {
    let operator = outside(name).find_map(|(at, byte)| {
        let is_one = byte == b'o' && name[at..].starts_with("operator");
        (is_one && name[..at].ends_with([':', ' '])).then_some(at)
    });
    let before = &name[..operator.unwrap_or(name.len())];
    let Some((at, _)) = outside(before).rfind(|&(_, byte)| byte == b' ') else { return name };
    // `non-virtual thunk to f`, `guard variable for f()::x`.
    if before[..at].ends_with(" to") || before[..at].ends_with(" for") {
        return name;
    }
    &name[at + 1..]
}

/// The name with one spelling of brackets, and without numbers that a compiler counts lambdas and types by:
/// `f()::{lambda(int)#2}::operator()` is `f()::{lambda(int)}::operator()`.
fn without_numbers(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find(['#', '\'', '$', ' ', '.', '[']) {
        let (before, from) = rest.split_at(at);
        text.push_str(before);
        let after = &from[1..];
        let number = digits(after);
        rest = match from.as_bytes()[0] {
            b'#' if number > 0 && after[number..].starts_with('}') => &after[number..],
            b' ' if before.ends_with('>') && after.starts_with('>') => after,
            // Clang: `'lambda0'(int)`, `$_0`.
            b'\'' if after.starts_with("lambda") => {
                let count = digits(&after["lambda".len()..]);
                text.push_str("'lambda");
                &after["lambda".len() + count..]
            }
            b'$' if after.starts_with('_') && digits(&after[1..]) > 0 => {
                text.push_str("$_");
                &after[1 + digits(&after[1..])..]
            }
            // `._anon.0`, `._anon_12`: structures without a name.
            b'.' if after.starts_with("_anon") => {
                let end = after["_anon".len()..].trim_start_matches(['_', '.']);
                text.push_str("._anon");
                &end[digits(end)..]
            }
            // `f[abi:cxx11]`: a tag that says no more than the types.
            b'[' if after.starts_with("abi:") => after.split_once(']').map_or("", |(_, rest)| rest),
            sign => {
                text.push(char::from(sign));
                after
            }
        };
    }
    text + rest
}

/// The last parts of a path: the function and what it is in. A lambda or closure is shown with the function around it.
pub(crate) fn last_parts(name: &str, elide: bool) -> Cow<'_, str> {
    let all = path(name);
    let is_noise = |part: &str| part == "(anonymous namespace)" || VERSIONS.contains(&part);
    let parts: Vec<&str> = all.iter().copied().filter(|part| !is_noise(part)).collect();
    // `sort::<u8>` is one part of the path as people read it.
    let ends_with_types = parts.len() > 1 && parts.last().is_some_and(|part| is_types(part));
    let mut wanted = if ends_with_types { 3 } else { 2 };
    while let Some(first) = parts.len().checked_sub(wanted)
        && first > 0
        && (parts[first].starts_with(['{', '(', '\'', '$']) || parts[first].starts_with("<("))
    {
        wanted += 1;
    }
    let from = parts.len().saturating_sub(wanted);
    let is_whole = from == 0 && parts.len() == all.len();
    if is_whole && !name.contains('<') {
        return name.into();
    }
    let mut shown: Vec<Cow<'_, str>> =
        parts[from..].iter().map(|part| part_of(part, elide)).collect();
    // `<core::str::pattern::StrSearcher>::new`: what v0 names of Rust have for methods of a type.
    if let Some(first) =
        parts.get(from).filter(|part| from == 0 && parts.len() > 1 && is_types(part))
    {
        let inner = &first[1..first.len() - 1];
        let is_name = inner.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let last = last_type(inner, elide);
        shown[0] = if is_name { last } else { format!("<{last}>").into() };
    }
    shown.join("::").into()
}

/// `<u8>` behind a function of Rust.
pub(crate) fn is_types(part: &str) -> bool {
    part.starts_with('<')
        && part.ends_with('>')
        && !part.starts_with("<impl ")
        && !part.contains(" as ")
}

fn part_of(part: &str, elide: bool) -> Cow<'_, str> {
    if elide && is_types(part) && part.chars().count() > SHORT_ARGUMENTS + 2 {
        return "<…>".into();
    }
    if let Some(inner) = part.strip_prefix('<').and_then(|part| part.strip_suffix('>')) {
        let types: Vec<Cow<'_, str>> =
            inner.splitn(2, " as ").map(|of| last_type(of, elide)).collect();
        return format!("<{}>", types.join(" as ")).into();
    }
    if elide { elide_arguments(part) } else { part.into() }
}

/// `alloc::vec::Vec<u8>` is `Vec<u8>`; `&mut [T]` stays.
fn last_type(of: &str, elide: bool) -> Cow<'_, str> {
    let last = path(of).pop().unwrap_or(of);
    if elide { elide_arguments(last) } else { last.into() }
}

/// The name with `…` for long arguments of templates: what is left tells more in the room that a label has.
///
/// ```
/// # use pyrograph_names::elide_arguments;
/// let name = "std::_Rb_tree<std::string, std::pair<std::string const, int> >::find";
/// assert_eq!(elide_arguments(name), "std::_Rb_tree<…>::find");
/// ```
pub fn elide_arguments(name: &str) -> Cow<'_, str> {
    if !name.contains('<') {
        return name.into();
    }
    let bytes = name.as_bytes();
    let plain: Vec<usize> = outside(name).map(|(at, _)| at).collect();
    let mut text = String::with_capacity(name.len());
    let mut kept = 0;
    // What is between two bytes outside all brackets is a group of brackets, or several.
    for (at, next) in plain.iter().copied().zip(plain.iter().copied().skip(1).chain([name.len()])) {
        // The byte may be one of several of a letter.
        let Some(group) = name.get(at + 1..next) else { continue };
        let follows = bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_' || bytes[at] == b':';
        let Some(end) = group.starts_with('<').then(|| closing(group)).flatten() else { continue };
        if follows && group[1..end].chars().count() > SHORT_ARGUMENTS {
            text.push_str(&name[kept..at + 1]);
            text.push_str("<…>");
            kept = at + 1 + end + 1;
        }
    }
    if kept == 0 {
        return name.into();
    }
    text.push_str(&name[kept..]);
    text.into()
}

/// The last parts of a name, with those of the types in its brackets: `ptr::drop_in_place<Vec<u8>>`.
pub(crate) fn with_last_types(name: &str) -> String {
    let short = last_parts(name, false);
    let mut text = String::with_capacity(short.len());
    let mut depth = 0usize;
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let mut rest = &*short;
    while let Some(first) = rest.chars().next() {
        let length = match is_path(first) {
            true => rest.find(|c| !is_path(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        rest = after;
        match first {
            '<' => depth += 1,
            '>' if !text.ends_with('-') => depth = depth.saturating_sub(1),
            _ => {}
        }
        // `>::E` goes on with what is before it.
        let is_type = depth > 0 && first != ':';
        let last = token.rfind("::").map_or(0, |at| at + 2);
        let is_name = last < token.len();
        text.push_str(if is_type && is_name { &token[last..] } else { token });
    }
    text
}

/// Where the bracket that the text begins with is closed.
fn closing(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut depth = 0usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' if bytes[at - 1] == b'-' => {}
            b'>' | b')' | b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_of_types_have_the_type() {
        for (name, expect) in [
            ("<core::str::pattern::StrSearcher>::new", "StrSearcher::new"),
            (
                "<alloc::raw_vec::RawVecInner<alloc::alloc::Global>>::deallocate",
                "RawVecInner<…>::deallocate",
            ),
            ("<[T]>::sort_by::<foo::bar::Long, baz>", "<[T]>::sort_by::<…>"),
            ("<&str as core::str::Pattern>::is", "<&str as Pattern>::is"),
        ] {
            assert_eq!(last_parts(name, true), expect);
        }
    }

    #[test]
    fn results_go_and_names_stay() {
        for (name, expect) in [
            ("void shop::sum<long>", "shop::sum<long>"),
            ("unsigned long f<int>", "f<int>"),
            ("std::enable_if<(a > b), void>::type swap<int>", "swap<int>"),
            ("C::operator new", "C::operator new"),
            ("C::operator unsigned long", "C::operator unsigned long"),
            ("int C::operator()<int>", "C::operator()<int>"),
            ("bool operator< <int>", "operator< <int>"),
            ("non-virtual thunk to C::f", "non-virtual thunk to C::f"),
            ("f", "f"),
        ] {
            assert_eq!(without_result(name), expect);
        }
    }

    #[test]
    fn parts_of_paths_are_outside_brackets() {
        assert_eq!(path("a::b<c::d>::e(f::g)::h"), ["a", "b<c::d>", "e(f::g)", "h"]);
        assert_eq!(path("C::operator<<"), ["C", "operator<<"]);
        assert_eq!(path("<fn() -> u8 as a::T>::f"), ["<fn() -> u8 as a::T>", "f"]);
        assert_eq!(path("a:b"), ["a:b"]);
        assert_eq!(path(""), [""]);
    }
}
