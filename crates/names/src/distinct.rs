//! Labels that tell the names of a list apart.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::cpp::{with_last_types, without_result};
use crate::{Name, marks, parameters};

/// For each name the shortest of its forms that no other function of the list has: the short one, with parameters, with the last
/// parts of the arguments of templates, with its whole path, or the full one. Tiers of one function have one label.
///
/// ```
/// # use pyrograph_names::distinct;
/// let names = ["shop::Cart::add(int)", "shop::Cart::add(char const*)", "std::vector<int>::push_back"];
/// assert_eq!(distinct(&names), ["Cart::add(int)", "Cart::add(char const*)", "vector<int>::push_back"]);
/// ```
pub fn distinct<'a>(names: &[&'a str]) -> Vec<Cow<'a, str>> {
    let all: Vec<Name<'a>> = names.iter().map(|name| Name::of(name)).collect();
    let mut levels = vec![0; names.len()];
    let mut labels: Vec<Cow<'a, str>> = all.iter().map(|name| name.short.clone()).collect();
    for _ in 0..LAST {
        let mut seen: BTreeMap<&str, (&str, bool)> = BTreeMap::new();
        for (label, name) in labels.iter().zip(&all) {
            // Tiers of one function have one full name, and one label.
            let (first, is_shared) = seen.entry(label).or_insert((&*name.full, false));
            *is_shared |= *first != name.full;
        }
        let shared: Vec<usize> = (0..names.len())
            .filter(|&row| seen.get(&*labels[row]).is_some_and(|of| of.1))
            .collect();
        if shared.is_empty() {
            break;
        }
        for row in shared {
            levels[row] += 1;
            labels[row] = form(&all[row], names[row], levels[row]);
        }
    }
    labels
}

const LAST: usize = 4;

fn form<'a>(name: &Name<'a>, raw: &'a str, level: usize) -> Cow<'a, str> {
    // Tiers of one function have one label, whatever their marks are.
    let (raw, _, is_kernel) = marks::split(raw);
    let mark = if is_kernel { marks::KERNEL } else { "" };
    let split = parameters::split(raw);
    let list = split.map_or("", |(before, _)| raw[before.len()..].trim_end());
    let path = || without_result(parameters::without_parameters(raw));
    match level {
        // Where the short form has `…` for arguments.
        2 if name.short.contains("<…>") => {
            format!("{}{list}{mark}", with_last_types(path())).into()
        }
        1 | 2 => {
            let short = name.short.strip_suffix(mark).unwrap_or(&name.short);
            format!("{short}{list}{mark}").into()
        }
        // Other names in brackets are places: `f (app.py:7)`.
        3 if split.is_some() || raw.contains("::") && !raw.ends_with(')') => {
            format!("{}{mark}", path()).into()
        }
        _ => name.full.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions that differ only in template arguments.
    #[test]
    fn arguments_of_templates_have_their_last_parts_first() {
        let names = [
            "core::ptr::drop_in_place<pyrograph_format::read::ahead::Ahead>",
            "core::ptr::drop_in_place<alloc::vec::Vec<alloc::string::String>>",
            "core::ptr::drop_in_place<<some::Long as other::Trait>::Result>",
            "void std::sort<__gnu_cxx::__normal_iterator<int*, std::vector<int> > >(int, int)",
            "void std::sort<__gnu_cxx::__normal_iterator<long*, std::vector<long> > >(int, int)",
            // These differ in more.
            "core::ptr::drop_in_place<a::long::path::of::Type>",
            "core::ptr::drop_in_place<b::long::path::of::Type>",
        ];
        let expect = [
            "ptr::drop_in_place<Ahead>",
            "ptr::drop_in_place<Vec<String>>",
            "ptr::drop_in_place<<Long as Trait>::Result>",
            "std::sort<__normal_iterator<int*, vector<int> > >(int, int)",
            "std::sort<__normal_iterator<long*, vector<long> > >(int, int)",
            "core::ptr::drop_in_place<a::long::path::of::Type>",
            "core::ptr::drop_in_place<b::long::path::of::Type>",
        ];
        assert_eq!(distinct(&names), expect);
    }

    #[test]
    fn marks_are_no_part_of_what_tells_functions_apart() {
        let names = [
            "shop::Cart::add",
            "shop::Cart::add_[j]",
            "depot::Cart::add_[i]",
            "depot::Cart::add_[k]",
        ];
        let expect = ["shop::Cart::add", "shop::Cart::add", "depot::Cart::add", "Cart::add_[k]"];
        assert_eq!(distinct(&names), expect);
        let names = ["a::C::f(int)_[k]", "a::C::f(long)_[k]", "a::C::f(int)_[i]"];
        assert_eq!(distinct(&names), ["C::f(int)_[k]", "C::f(long)_[k]", "C::f"]);
    }
}
