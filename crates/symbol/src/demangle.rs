//! Readable names for mangled ones.
//!
//! What comes out is what `perf` and `c++filt --no-params` print, so that names agree with those
//! of other tools:
//!
//! - C++ (Itanium ABI): everything but the function's own parameter list and return type.
//!   `std::function<void ()>::operator()`, `foo(int)::{lambda(int)#1}::operator()`.
//! - Rust (v0 and legacy): without the hash that ends legacy names and the disambiguators of v0.
//! - A suffix that says which part or variant of a function the compiler made stays, as it does
//!   for C: `main.cold`, `walk.part.0`, `sort.constprop.0.isra.0`. ThinLTO's `.llvm.1234` is a
//!   random number and goes.
//! - All other names (C, Go, Swift, …) stay as they are.

use std::borrow::Cow;
use std::fmt::{self, Write};

use cpp_demangle::{DemangleOptions, ParseOptions};

/// Longer names are left mangled. The longest that real C++ programs have (expression templates)
/// are some ten thousand bytes; a short mangled name can stand for gigabytes.
const MAX_DEMANGLED: usize = 1 << 16;

/// Mangled names longer than this are not even tried.
const MAX_MANGLED: usize = 1 << 16;

/// How deep C++ types may nest, in both parsing and printing. Real names need less than 100; this
/// many levels fit in the 2 MB stack of a thread, without optimization too.
const MAX_DEPTH: u32 = 192;

/// The readable form of `name`, or `name` if it is not mangled or too large to be real.
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
    if name.len() > MAX_MANGLED {
        return Cow::Borrowed(name);
    }
    let readable = if name.starts_with("_R") {
        rust(name)
    } else if name.starts_with("_Z") {
        rust_legacy(name).or_else(|| cpp(name))
    } else {
        None
    };
    readable.map_or(Cow::Borrowed(name), Cow::Owned)
}

fn rust(name: &str) -> Option<String> {
    let (mangled, suffix) = split_suffix(name);
    let demangled = rustc_demangle::try_demangle(mangled).ok()?;
    let mut text = Limited::default();
    write!(text, "{demangled:#}{suffix}").ok()?;
    Some(text.0)
}

/// Legacy Rust names are valid C++ names, too: a hash as the last part tells them.
fn rust_legacy(name: &str) -> Option<String> {
    let (mangled, _) = split_suffix(name);
    let hash = mangled.strip_suffix('E')?.get(mangled.len().checked_sub(21)?..)?;
    let is_hash = hash.strip_prefix("17h")?.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if is_hash && hash.len() == 19 { rust(name) } else { None }
}

fn cpp(name: &str) -> Option<String> {
    let (mangled, suffix) = split_suffix(name);
    let parse = ParseOptions::default().recursion_limit(MAX_DEPTH);
    let symbol = cpp_demangle::BorrowedSymbol::new_with_options(mangled.as_bytes(), &parse).ok()?;
    let print = DemangleOptions::new().no_params().no_return_type().recursion_limit(MAX_DEPTH);
    let mut text = Limited::default();
    symbol.structured_demangle(&mut text, &print).ok()?;
    text.write_str(suffix).ok()?;
    Some(text.0)
}

/// `name` and what follows the first dot: neither mangling has dots in it.
fn split_suffix(name: &str) -> (&str, &str) {
    name.split_at(name.find('.').unwrap_or(name.len()))
}

fn without_llvm_suffix(name: &str) -> &str {
    match name.rsplit_once(".llvm.") {
        Some((rest, number)) if number.bytes().all(|b| b.is_ascii_digit()) => rest,
        _ => name,
    }
}

/// Text that refuses to grow beyond all measure.
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
