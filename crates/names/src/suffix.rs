//! Suffixes of symbols that say which clone or part of a function the compiler or linker made.

use crate::scan::{digits, is_number};

/// Suffixes that a number may follow.
const NAMED: &[&str] = &[
    "cold",
    "warm",
    "unlikely",
    "hot",
    "startup",
    "exit",
    "part",
    "constprop",
    "isra",
    "lto_priv",
    "llvm",
    "localalias",
    "lto",
    "__uniq",
    "specialized",
    "extracted",
    "outlined",
    "content",
    "__part",
    "abi0",
    "abiinternal",
    "ipa_ra",
    "simdclone",
    "thinlto",
];

/// The name without what follows it: ` [clone .cold]`, `.constprop.0.isra.0`, `.llvm.1234`, `/1` of BOLT, `.7` of GCC's
/// nested and static functions, `@@GLIBC_2.2.5`.
///
/// ```text
/// walk.part.0                       walk
/// f(int) [clone .cold]              f(int)
/// init.__uniq.4120987236.llvm.99    init
/// memcpy@@GLIBC_2.14                memcpy
/// ```
pub(crate) fn without(name: &str) -> &str {
    let mut rest = name;
    loop {
        let shorter = clone(rest)
            .or_else(|| dotted(rest))
            .or_else(|| version(rest))
            .or_else(|| of_bolt(rest));
        match shorter {
            Some(shorter) if !shorter.is_empty() => rest = shorter,
            _ => return rest,
        }
    }
}

fn clone(name: &str) -> Option<&str> {
    name.strip_suffix(']').and_then(|name| Some(name.rsplit_once(" [clone ")?.0))
}

/// `f.cold`, `f.part.0`, `f.12`.
fn dotted(name: &str) -> Option<&str> {
    let (rest, last) = name.rsplit_once('.')?;
    if NAMED.contains(&last) {
        return Some(rest);
    }
    if !is_number(last) {
        return None;
    }
    if let Some((rest, kind)) = rest.rsplit_once('.')
        && NAMED.contains(&kind)
    {
        return Some(rest);
    }
    // `libc.so.6` and `main.init.0` are no C identifiers with a number behind them.
    let is_c = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let is_identifier = rest.bytes().all(is_c) && digits(rest) == 0;
    is_identifier.then_some(rest)
}

fn version(name: &str) -> Option<&str> {
    let (rest, version) = name.split_once('@')?;
    let version = version.trim_start_matches('@');
    let is_version = version.contains('_') && version.bytes().any(|b| b.is_ascii_digit());
    let is_one = |b: u8| b.is_ascii_alphanumeric() || b"._+-".contains(&b);
    (is_version && version.bytes().all(is_one)).then_some(rest)
}

/// `resize/1`, of a function that is local to its file.
fn of_bolt(name: &str) -> Option<&str> {
    let (rest, number) = name.rsplit_once('/')?;
    let is_c = |b: u8| b.is_ascii_alphanumeric() || b"_.$".contains(&b);
    // Erlang writes how many arguments a function takes like this, behind a module.
    (is_number(number) && rest.bytes().all(is_c) && !rest.is_empty()).then_some(rest)
}
