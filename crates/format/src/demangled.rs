//! Readable forms of mangled names that other tools printed.
//!
//! Names of symbols that Pyrograph looks up itself are readable already. Text has the names that another tool wrote:
//! mangled ones, or the result of demangling a Rust name as C++.

use std::borrow::Cow;
use std::fmt::Write;

use pyrograph_profile::{Profile, StringId};
use pyrograph_symbol::{demangle, demangle_with_parameters};

/// The profile with mangled names of functions (C++, Rust) replaced by readable ones.
pub fn demangled(mut profile: Profile) -> Profile {
    // Readable form by name, once it was computed.
    let mut names: Vec<Option<StringId>> = vec![None; profile.strings.len()];
    let mut any_is_mangled = false;
    let functions: Vec<StringId> = profile.frames.iter().map(|frame| frame.function).collect();
    for function in functions {
        if names[function.index()].is_none() {
            let text = profile.strings.get(function);
            let (name, full) = (readable(text), demangle_with_parameters(text));
            any_is_mangled |= name.is_some();
            names[function.index()] = Some(match (name, full) {
                (Some(name), Some(full)) => profile.function_named(&name, &full),
                (Some(name), None) => profile.strings.intern(&name),
                (None, _) => function,
            });
        }
    }
    if !any_is_mangled {
        return profile;
    }
    let names: Vec<StringId> = names
        .into_iter()
        .enumerate()
        .map(|(name, readable)| readable.unwrap_or(StringId::from_index(name)))
        .collect();
    profile.rename_functions(&names);
    profile.tell_overloads_apart();
    profile
}

/// Readable form of a name that is mangled, wholly or in part; `None` if it is not. An annotation of folded stacks, such
/// as `_[k]`, is kept.
fn readable(name: &str) -> Option<String> {
    let (mangled, mark) = match name.len().checked_sub("_[k]".len()) {
        Some(at)
            if name.ends_with(']') && name.get(at..).is_some_and(|end| end.starts_with("_[")) =>
        {
            name.split_at(at)
        }
        _ => (name, ""),
    };
    let whole = match demangle(mangled) {
        Cow::Owned(whole) => whole,
        Cow::Borrowed(_) => half_demangled(mangled)?,
    };
    Some(whole + mark)
}

/// A legacy Rust name that was demangled as C++, which leaves its hash and the escapes of special characters:
/// `core::ptr::drop_in_place$LT$alloc..string..String$GT$::h0123456789abcdef`.
fn half_demangled(name: &str) -> Option<String> {
    const LONGEST: usize = 1 << 16;
    let (path, hash) = name.rsplit_once("::h")?;
    let is_hash = hash.len() == 16 && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if !is_hash || path.is_empty() || name.len() > LONGEST {
        return None;
    }
    let mut mangled = String::from("_ZN");
    for part in path.split("::") {
        write!(mangled, "{}{part}", part.len()).ok()?;
    }
    write!(mangled, "17h{hash}E").ok()?;
    match demangle(&mangled) {
        Cow::Owned(whole) => Some(whole),
        Cow::Borrowed(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{Sample, ValueType};

    use super::*;

    #[test]
    fn names_in_text_stayed_mangled() {
        let check = |name, expect: Option<&str>| assert_eq!(readable(name).as_deref(), expect);
        check("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", Some("core::fmt::Formatter::pad"));
        check("_RNvC6_123foo3bar", Some("123foo::bar"));
        check("_ZN3foo3barEv", Some("foo::bar"));
        // As on macOS.
        check("__ZN3foo3barEv", Some("foo::bar"));
        check("__Znot_mangled", None);
        check("_ZN3foo3barEv_[i]", Some("foo::bar_[i]"));
        check("core::fmt::Formatter::pad::h0123456789abcdef", Some("core::fmt::Formatter::pad"));
        check(
            "core::ptr::drop_in_place$LT$alloc..string..String$GT$::h0123456789abcdef_[k]",
            Some("core::ptr::drop_in_place<alloc::string::String>_[k]"),
        );
        check(
            "_$LT$std..io..Stdin$u20$as$u20$std..io..Read$GT$::read::h0123456789abcdef",
            Some("<std::io::Stdin as std::io::Read>::read"),
        );
        for name in ["main", "", "_Z", "_R", "a::h123", "::h0123456789abcdef", "_[k]", "é_[k]"] {
            check(name, None);
        }
    }

    #[test]
    fn overloads_in_text_stay_apart() {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        for name in ["_ZN4shop5priceEi", "_ZN4shop5priceEd", "_ZN4shop3addEi"] {
            let stack = profile.stack_of_names(["main", name]);
            profile.push(Sample::new(stack), &[1]);
        }
        let profile = demangled(profile);
        let names = profile.frames.iter().map(|frame| profile.strings.get(frame.function));
        let names: Vec<&str> = names.collect();
        assert_eq!(names, ["main", "shop::price(int)", "shop::price(double)", "shop::add"]);
    }

    #[test]
    fn stacks_of_names_that_become_the_same_count_as_one() {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        for (hash, count) in [("0123456789abcdef", 2), ("fedcba9876543210", 3)] {
            let name = format!("_ZN3foo3bar17h{hash}E");
            let stack = profile.stack_of_names(["main", &name, "leaf"]);
            profile.push(Sample::new(stack), &[count]);
        }
        let profile = demangled(profile);
        assert_eq!((profile.frames.len(), profile.stacks.len()), (3, 4));
        assert_eq!(profile.samples.total(0), 5);
    }
}
