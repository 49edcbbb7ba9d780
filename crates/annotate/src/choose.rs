//! Selects a function by name.

use std::collections::BTreeMap;

use pyrograph_profile::{FrameKind, Profile, StringId};

use crate::Error;

/// The address of an instruction, with the values of its samples, one for each value type.
pub(crate) type Located = (u64, Vec<u64>);

/// A function of a profile with samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Name, as in frames.
    pub name: StringId,
    /// Name of the module.
    pub(crate) module: String,
    /// Build ID in hexadecimal digits; empty if it is not known.
    pub(crate) build_id: String,
    /// Offsets of the samples' instructions, sorted, with the samples' values, one for each value type.
    pub(crate) offsets: Vec<Located>,
    /// Self value in the shown column.
    pub self_value: u64,
}

/// Returns the functions of samples that have addresses, highest value first.
pub fn functions(profile: &Profile) -> Vec<Function> {
    let columns = profile.samples.columns();
    let mut by_address = vec![vec![0u64; columns]; profile.addresses.len()];
    for (row, sample) in profile.samples.iter().enumerate() {
        let Some(address) = sample.address else { continue };
        for (column, sum) in by_address[address.index()].iter_mut().enumerate() {
            *sum = sum.saturating_add(profile.samples.values(column)[row]);
        }
    }
    let mut found: BTreeMap<(StringId, StringId, StringId), Vec<Located>> = BTreeMap::new();
    for (address, values) in profile.addresses.iter().zip(by_address) {
        // Filters may have removed all samples of it.
        if values.iter().any(|&value| value > 0) && !address.function.is_empty() {
            let of = found.entry((address.function, address.module, address.build_id)).or_default();
            of.push((address.offset, values));
        }
    }
    let text = |id| profile.strings.get(id).to_owned();
    let function = |((name, module, build_id), mut offsets): ((_, _, _), Vec<Located>)| {
        offsets.sort_unstable();
        let own = offsets.iter().map(|(_, values)| values[profile.shown]);
        let self_value = own.fold(0, u64::saturating_add);
        Function { name, module: text(module), build_id: text(build_id), offsets, self_value }
    };
    let mut functions: Vec<Function> = found.into_iter().map(function).collect();
    functions.sort_by_key(|of| std::cmp::Reverse(of.self_value));
    functions
}

/// Returns the functions of samples that have addresses, highest value first, at least one.
///
/// # Errors
///
/// If there is none.
pub fn named_functions(profile: &Profile) -> Result<Vec<Function>, Error> {
    let functions = functions(profile);
    if functions.is_empty() {
        let has_any = profile.samples.iter().any(|sample| sample.address.is_some());
        return Err(if has_any { Error::NoNames } else { Error::NoAddresses });
    }
    Ok(functions)
}

/// Returns the function selected by `wanted`, and notes about the choice.
pub(crate) fn choose(profile: &Profile, wanted: &str) -> Result<(Function, Vec<String>), Error> {
    let functions = named_functions(profile)?;
    let name = |of: &Function| profile.strings.get(of.name);
    for form in [whole as fn(&str) -> &str, without_parameters, last_part] {
        let mut found = functions.iter().filter(|of| form(name(of)) == wanted);
        if let Some(first) = found.next() {
            let others: Vec<String> =
                found.map(|of| format!("{} in {}", name(of), of.module)).collect();
            return Ok((first.clone(), others_note(&others)));
        }
    }
    if let Some(name) = container(profile, wanted)
        && let Some(first) = functions.into_iter().find(|of| of.name == name)
    {
        let outer = profile.strings.get(name);
        let note = format!("{wanted} is inlined: this is {outer}, which has most of its samples");
        return Ok((first, vec![note]));
    }
    let functions = self::functions(profile);
    let names = functions.iter().map(|of| profile.strings.get(of.name));
    let alike: Vec<&str> = names.clone().filter(|name| name.contains(wanted)).collect();
    let similar = if alike.is_empty() { names.collect() } else { alike };
    let mut similar: Vec<String> = similar.into_iter().map(str::to_owned).collect();
    similar.dedup();
    similar.truncate(5);
    Err(Error::NoFunction { name: wanted.to_owned(), similar })
}

fn others_note(others: &[String]) -> Vec<String> {
    match others {
        [] => Vec::new(),
        [other] => vec![format!("there is also {other}, with fewer samples")],
        [other, more @ ..] => {
            vec![format!("there are also {other} and {} more, with fewer samples", more.len())]
        }
    }
}

/// Returns the function into which most samples of an inlined function are inlined.
fn container(profile: &Profile, wanted: &str) -> Option<StringId> {
    let mut values: BTreeMap<StringId, u64> = BTreeMap::new();
    for (row, sample) in profile.samples.iter().enumerate() {
        let Some(address) = sample.address else { continue };
        let frames = profile.stacks.leaf_first(sample.stack).map(|id| profile.frames.get(id));
        let mut inlined = frames.take_while(|frame| frame.kind == FrameKind::Inlined);
        let is_it =
            |name| [whole, without_parameters, last_part].iter().any(|form| form(name) == wanted);
        if inlined.any(|frame| is_it(profile.strings.get(frame.function))) {
            let sum = values.entry(profile.addresses.get(address).function).or_default();
            *sum = sum.saturating_add(profile.samples.values(profile.shown)[row]);
        }
    }
    values.into_iter().max_by_key(|(_, value)| *value).map(|(name, _)| name)
}

fn whole(name: &str) -> &str {
    name
}

/// `ns::f(int) const` → `ns::f`.
fn without_parameters(name: &str) -> &str {
    let mut depth = 0usize;
    for (at, c) in name.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 && at > 0 && !name[..at].ends_with("operator") => return &name[..at],
            _ => {}
        }
    }
    name
}

/// `<a::B as c::D>::f` → `f`.
fn last_part(name: &str) -> &str {
    let name = without_parameters(name);
    let mut depth = 0usize;
    let mut start = 0;
    for (at, c) in name.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            ':' if depth == 0 => start = at + 1,
            _ => {}
        }
    }
    &name[start..]
}

/// Text for an error: names that could have been meant.
pub(crate) fn similar_text(similar: &[String]) -> String {
    match similar {
        [] => String::new(),
        names => format!("; there are samples in {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_parameters_and_paths() {
        for (name, plain, last) in [
            ("main", "main", "main"),
            ("ns::f(int) const", "ns::f", "f"),
            (
                "std::vector<int (*)(char)>::at(unsigned long)",
                "std::vector<int (*)(char)>::at",
                "at",
            ),
            ("<a::B as c::D>::f", "<a::B as c::D>::f", "f"),
            (
                "core::ops::FnOnce::call_once<main::{closure#0}>",
                "core::ops::FnOnce::call_once<main::{closure#0}>",
                "call_once<main::{closure#0}>",
            ),
            ("F::operator()(int)", "F::operator()", "operator()"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f", "f"),
        ] {
            assert_eq!((without_parameters(name), last_part(name)), (plain, last));
        }
    }
}
