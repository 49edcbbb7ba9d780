//! Demangling of C++ and Rust names.
//!
//! The results are the names that `perf` and `c++filt --no-params` print, so that they agree with other tools:
//!
//! - C++ (Itanium ABI): everything but the function's own parameter list and return type.
//!   `std::function<void ()>::operator()`, `foo(int)::{lambda(int)#1}::operator()`.
//! - Rust (v0 and legacy): without the hash that ends legacy names and the disambiguators of v0.
//! - A suffix for a part or variant of a function stays, as in C: `main.cold`, `walk.part.0`,
//!   `sort.constprop.0.isra.0`. ThinLTO's `.llvm.1234` is a random number and is removed.
//! - All other names (C, Go, Swift, …) stay as they are.

use std::borrow::Cow;
use std::fmt::{self, Write};

use cpp_demangle::{DemangleOptions, ParseOptions};

/// Maximum length of a demangled name in bytes; longer ones are left mangled. The longest names in real C++
/// programs (expression templates) have some ten thousand bytes; a short mangled name can expand to gigabytes.
const MAX_DEMANGLED: usize = 1 << 16;

/// Maximum length of a mangled name in bytes; longer ones are not demangled.
const MAX_MANGLED: usize = 1 << 16;

/// Maximum nesting of C++ types, in both parsing and printing. Real names need less than 100; this many levels fit
/// in the 2 MB stack of a thread, even without optimization.
const MAX_DEPTH: u32 = 192;

/// Returns the readable form of `name`, or `name` itself if it is not mangled or too large to be real.
///
/// ```
/// use pyrograph_symbol::demangle;
///
/// assert_eq!(demangle("_ZNSt6vectorIiSaIiEE9push_backERKi"), "std::vector<int, std::allocator<int> >::push_back");
/// assert_eq!(demangle("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
/// assert_eq!(demangle("main.cold"), "main.cold");
/// ```
pub fn demangle(name: &str) -> Cow<'_, str> {
    let name = without_llvm_suffix(name);
    let readable = readable(name, Parameters::LeftOut);
    readable.map_or(Cow::Borrowed(name), Cow::Owned)
}

/// Like [`demangle`], but with the parameters of C++ functions, which distinguish overloads. `None` if the
/// parameters are unknown.
///
/// ```
/// use pyrograph_symbol::demangle_with_parameters;
///
/// assert_eq!(demangle_with_parameters("_ZN4shop5priceEd.cold").as_deref(), Some("shop::price(double).cold"));
/// assert_eq!(demangle_with_parameters("main"), None);
/// ```
pub fn demangle_with_parameters(name: &str) -> Option<String> {
    readable(without_llvm_suffix(name), Parameters::Shown)
}

/// Selects whether a name includes the parameters of the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parameters {
    LeftOut,
    Shown,
}

fn readable(name: &str, parameters: Parameters) -> Option<String> {
    if name.len() > MAX_MANGLED {
        return None;
    }
    // On macOS, every C name has one more leading `_`.
    let mangled =
        if name.starts_with("__Z") || name.starts_with("__R") { &name[1..] } else { name };
    if mangled.starts_with("_R") {
        rust_v0(mangled).filter(|_| parameters == Parameters::LeftOut)
    } else if mangled.starts_with("_Z") {
        match rust_legacy(mangled) {
            Some(rust) => Some(rust).filter(|_| parameters == Parameters::LeftOut),
            None => cpp(mangled, parameters),
        }
    } else {
        None
    }
}

fn rust_v0(name: &str) -> Option<String> {
    let (mangled, suffix) = split_suffix(name);
    rust(mangled, suffix)
}

/// Demangles a legacy Rust name. These are valid C++ names, too: the hash in the last part identifies them. They
/// contain dots (`..` is `::`), so the hash also shows where a suffix starts.
fn rust_legacy(name: &str) -> Option<String> {
    let hash = name.rfind("17h")? + "17h".len();
    let end = hash + 16;
    let is_hash = name.get(hash..end)?.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let suffix = name[end..].strip_prefix('E')?;
    (is_hash && (suffix.is_empty() || suffix.starts_with('.'))).then_some(())?;
    rust(&name[..=end], suffix)
}

fn rust(mangled: &str, suffix: &str) -> Option<String> {
    let demangled = rustc_demangle::try_demangle(mangled).ok()?;
    let mut text = Limited::default();
    write!(text, "{demangled:#}{suffix}").ok()?;
    Some(text.0)
}

fn cpp(name: &str, parameters: Parameters) -> Option<String> {
    let (mangled, suffix) = split_suffix(name);
    let parse = ParseOptions::default().recursion_limit(MAX_DEPTH);
    let (symbol, tail) =
        cpp_demangle::BorrowedSymbol::with_tail_and_options(mangled.as_bytes(), &parse).ok()?;
    // The name comes first; the types of the parameters and of the return value, which are left out, come last. The
    // parser fails on some types that GCC emits (`enable_if_t` in `std::swap`); then the part that was parsed must
    // end in template arguments.
    if !tail.is_empty() && !mangled[..mangled.len() - tail.len()].ends_with('E') {
        return None;
    }
    let print = DemangleOptions::new().no_return_type().recursion_limit(MAX_DEPTH);
    let print = if parameters == Parameters::Shown { print } else { print.no_params() };
    let mut text = Limited::default();
    symbol.structured_demangle(&mut text, &print).ok()?;
    let mut text = tidy(&text.0);
    // Qualifiers of `this` belong to the parameter list: `str() &&`, and the call operators of lambdas,
    // `_ZZ…NK…clE…`, are const. A conversion to `char const` is not a local name, so its `const` stays.
    let qualifiers: &[&str] =
        if mangled.starts_with("_ZZ") { &[" &&", " &", " const"] } else { &[" &&", " &"] };
    for qualifier in qualifiers.iter().filter(|_| parameters == Parameters::LeftOut) {
        if let Some(stripped) = text.strip_suffix(qualifier) {
            text.truncate(stripped.len());
        }
    }
    text.push_str(suffix);
    Some(text)
}

/// Prefixes of thunks: as `cpp_demangle` prints them, and as other tools do.
const SPECIAL: &[(&str, &str)] = &[
    ("{virtual override thunk({offset(", "non-virtual thunk to "),
    ("{virtual override thunk({virtual offset(", "virtual thunk to "),
];

/// Integer types of template arguments as `cpp_demangle` prints them, and the equivalent suffix.
const LITERALS: &[(&str, &str)] = &[
    ("(unsigned int)", "u"),
    ("(unsigned long)", "ul"),
    ("(unsigned long long)", "ull"),
    ("(long)", "l"),
    ("(long long)", "ll"),
];

/// Converts the output of `cpp_demangle` to the form of other demanglers: `Array<(unsigned long)16, >` → `Array<16ul>`.
fn tidy(text: &str) -> String {
    let mut tidied = String::with_capacity(text.len());
    let mut rest = text;
    for (theirs, ours) in SPECIAL {
        if let Some((offset, target)) = text.strip_prefix(theirs).and_then(|t| t.split_once("}, "))
            && !offset.contains('{')
        {
            tidied.push_str(ours);
            rest = target.strip_suffix(")}").unwrap_or(target);
        }
    }
    while let Some(at) = rest.find(['(', ',', '<']) {
        tidied.push_str(&rest[..at]);
        rest = &rest[at..];
        let taken = literal(rest, &mut tidied).or_else(|| empty_pack(rest, &mut tidied));
        rest = &rest[taken.unwrap_or_else(|| {
            tidied.push_str(&rest[..1]);
            1
        })..];
    }
    tidied.push_str(rest);
    tidied
}

/// Writes a number with a type before it in the short form; returns its length in `text`.
fn literal(text: &str, tidied: &mut String) -> Option<usize> {
    let (kind, suffix) = LITERALS.iter().find(|(kind, _)| text.starts_with(kind))?;
    let number = &text[kind.len()..];
    let sign = usize::from(number.starts_with('-'));
    let digits = number[sign..].bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return None;
    }
    tidied.push_str(&number[..sign + digits]);
    tidied.push_str(suffix);
    Some(kind.len() + sign + digits)
}

/// Skips the separator that is left of an empty template argument pack: `, ` with nothing after it. Returns its
/// length in `text`.
fn empty_pack(text: &str, tidied: &mut String) -> Option<usize> {
    if text.starts_with(", , ") || text.starts_with(", >") {
        return Some(2);
    }
    if text.starts_with("<, ") {
        tidied.push('<');
        return Some(3);
    }
    None
}

/// Splits `name` at its first dot: neither C++ nor Rust v0 names contain dots.
fn split_suffix(name: &str) -> (&str, &str) {
    name.split_at(name.find('.').unwrap_or(name.len()))
}

fn without_llvm_suffix(name: &str) -> &str {
    match name.rsplit_once(".llvm.") {
        Some((rest, number)) if number.bytes().all(|b| b.is_ascii_digit()) => rest,
        _ => name,
    }
}

/// Text of at most [`MAX_DEMANGLED`] bytes; writing more is an error.
#[derive(Default)]
struct Limited(String);

impl Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_DEMANGLED {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}
