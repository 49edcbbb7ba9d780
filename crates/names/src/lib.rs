#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod code;
mod cpp;
mod d;
mod distinct;
mod dotnet;
mod go;
mod haskell;
mod java;
mod javascript;
mod marks;
mod native;
mod ocaml;
mod parameters;
mod place;
mod rust;
mod scan;
mod suffix;
mod swift;

use std::borrow::Cow;

pub use code::{CodeKind, kind_by_form, marked_kind};
pub use cpp::elide_arguments;
pub use distinct::distinct;
pub use parameters::without_parameters;
pub use rust::without_hash;

/// A language that a name shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Language {
    /// C++.
    Cpp,
    /// Rust.
    Rust,
    /// Go.
    Go,
    /// Java and other languages of its virtual machine.
    Java,
    /// JavaScript.
    JavaScript,
    /// C# and other languages of .NET.
    DotNet,
    /// Python.
    Python,
    /// Ruby.
    Ruby,
    /// PHP.
    Php,
    /// Perl.
    Perl,
    /// Lua.
    Lua,
    /// OCaml.
    OCaml,
    /// Haskell.
    Haskell,
    /// D.
    D,
    /// Swift.
    Swift,
    /// Julia.
    Julia,
}

/// How far a compiler at run time has got with a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// It is interpreted.
    Interpreted,
    /// Compiled quickly.
    Baseline,
    /// Compiled with the help of what earlier tiers have seen.
    Optimized,
    /// Compiled before the program ran.
    Ahead,
}

impl Tier {
    /// In a word or two.
    pub fn words(self) -> &'static str {
        match self {
            Self::Interpreted => "interpreted",
            Self::Baseline => "compiled quickly",
            Self::Optimized => "optimized",
            Self::Ahead => "compiled ahead of time",
        }
    }
}

/// A name taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// The same in every build and run.
    pub identity: Cow<'a, str>,
    /// The form for labels.
    pub short: Cow<'a, str>,
    /// The form for details.
    pub full: Cow<'a, str>,
    /// The language, where the name shows it.
    pub language: Option<Language>,
    /// The tier, where the name says it.
    pub tier: Option<Tier>,
}

/// The name without those of other functions with the same code, as `pyrograph-symbol` writes them:
/// `f(int) [same code as g(int)]`.
pub(crate) fn without_others(name: &str) -> &str {
    let split = name.split_once(" [same code as ").filter(|_| name.ends_with(']'));
    split.map_or(name, |(alone, _)| alone)
}

/// Longer names are what they are: no compiler writes them.
const LONGEST: usize = 1 << 16;

impl<'a> Name<'a> {
    /// Takes a name apart, in whatever language.
    pub fn of(name: &'a str) -> Self {
        let plain = || Self {
            identity: name.into(),
            short: name.into(),
            full: name.into(),
            language: None,
            tier: None,
        };
        if name.len() > LONGEST || name.is_empty() {
            return plain();
        }
        let alone = without_others(name);
        if alone.len() < name.len() && !alone.is_empty() {
            return Self { full: name.into(), ..Self::of(alone) };
        }
        let (bare, mark, is_kernel) = marks::split(name);
        let found = native::name(bare)
            .or_else(|| javascript::name(bare))
            .or_else(|| dotnet::name(bare))
            .or_else(|| java::name(bare))
            .or_else(|| place::name(bare))
            .or_else(|| go::name(bare))
            .or_else(|| rust::name(bare))
            .or_else(|| cpp::name(bare));
        let mut found = match found {
            Some(mut found) => {
                found.tier = found.tier.or(mark);
                found
            }
            None if bare.len() == name.len() => return plain(),
            None => Self {
                identity: bare.into(),
                short: bare.into(),
                full: bare.into(),
                language: mark.and(Some(Language::Java)),
                tier: mark,
            },
        };
        if is_kernel {
            for form in [&mut found.identity, &mut found.short, &mut found.full] {
                form.to_mut().push_str(marks::KERNEL);
            }
        }
        found
    }
}

/// The identity alone.
pub fn identity(name: &str) -> Cow<'_, str> {
    Name::of(name).identity
}

/// The form for labels alone.
pub fn short(name: &str) -> Cow<'_, str> {
    Name::of(name).short
}
