//! Search in a flame graph or a table: a regular expression, as in the page and on the command line.

use regex::RegexBuilder;

use crate::shown::Shown;

/// A search; empty if there is no text.
#[derive(Clone, Debug, Default)]
pub struct Search(Option<regex::Regex>);

impl Search {
    /// Compiles a regular expression. It is case-insensitive unless it contains an upper-case letter; a leading `(?i)`
    /// or `(?-i)` overrides that. An invalid expression, for example while it is typed, is searched literally; an empty
    /// one matches nothing.
    pub fn new(text: &str) -> Self {
        let build = |pattern: &str| {
            let ignores_case = !has_upper_case(pattern);
            RegexBuilder::new(pattern).case_insensitive(ignores_case).size_limit(1 << 20).build()
        };
        let regex = || build(text).or_else(|_| build(&regex::escape(text))).ok();
        Self((!text.is_empty()).then(regex).flatten())
    }

    /// Returns true if the text is empty.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Returns true if any form of a function's name matches: the displayed one, the full one, or the names in other
    /// outputs.
    pub fn finds(&self, name: &str, shown: &Shown) -> bool {
        let label = shown.label(name);
        let of = shown.names().function(label);
        self.is_in(label)
            || of.is_some_and(|of| of.names.iter().chain(&of.full).any(|form| self.is_in(form)))
    }

    /// Returns true if a name matches.
    pub fn is_in(&self, name: &str) -> bool {
        self.0.as_ref().is_some_and(|regex| regex.is_match(name))
    }
}

/// Returns true if an expression contains a literal upper-case letter, unlike `\S`, `\PL` or `\p{Lu}`.
fn has_upper_case(pattern: &str) -> bool {
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        if c.is_uppercase() {
            return true;
        }
        let is_class = c == '\\' && matches!(rest.next(), Some('p' | 'P'));
        if is_class && rest.next() == Some('{') {
            rest.find(|&c| c == '}');
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_and_what_is_none_yet() {
        let check = |text: &str, name: &str, expect: bool| {
            assert_eq!(Search::new(text).is_in(name), expect, "{text} in {name}");
        };
        check("", "main", false);
        check("^re(ad|cv)$", "read", true);
        check("^re(ad|cv)$", "pread", false);
        check("vec<", "alloc::Vec<u8>", true);
        check("Vec<", "alloc::vec<u8>", false);
        check("Vec<", "alloc::Vec<u8>", true);
        check("(?i)Vec<", "alloc::vec<u8>", true);
        check("(?-i)vec<", "alloc::Vec<u8>", false);
        check(r"\Sec<", "alloc::Vec<u8>", true);
        check(r"\p{Lu}EC<", "alloc::vec<u8>", false);
        check(r"\p{L}ec<", "alloc::VEC<u8>", true);
        check("operator(", "operator()(int)", true);
        check("[k", "do_syscall_[k]", true);
    }
}
