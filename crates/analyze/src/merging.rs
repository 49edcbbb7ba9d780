//! Unified names of functions in merged profiles, for functions whose names have different numbers in each run or
//! build.

use std::collections::{BTreeMap, BTreeSet};

use pyrograph_names::identity;
use pyrograph_profile::{Profile, StringId};

use crate::names::{functions, keep_kinds};

/// Names of the functions of an input.
pub fn function_names(profile: &Profile) -> BTreeSet<String> {
    functions(profile).into_keys().map(|id| profile.strings.get(id).to_owned()).collect()
}

/// Replaces names in the merged profile of inputs with these function names: functions that have different names in
/// different inputs, such as `Shop$$Lambda$14/0x0000000800066840.apply` and
/// `Shop$$Lambda$9/0x000000080006c040.apply`, get their identity as their name. If at most one input has names that
/// others lack, the numbers mean the same in all inputs, and names are kept.
pub fn merged_by_identity(mut profile: Profile, inputs: &[BTreeSet<String>]) -> Profile {
    let mut of_inputs: BTreeMap<String, Vec<BTreeSet<&str>>> = BTreeMap::new();
    for (at, names) in inputs.iter().enumerate() {
        for name in names {
            let known = of_inputs.entry(identity(name).into_owned()).or_default();
            known.resize_with(known.len().max(at + 1), BTreeSet::new);
            known[at].insert(name);
        }
    }
    let mut other_names: BTreeMap<&str, &str> = BTreeMap::new();
    for (identity, inputs) in &of_inputs {
        let inputs = || inputs.iter().filter(|names| !names.is_empty());
        let own = |names: &&BTreeSet<&str>| {
            names.iter().any(|name| inputs().any(|other| !other.contains(name)))
        };
        if inputs().filter(own).count() > 1 {
            other_names.extend(inputs().flatten().map(|&name| (name, identity.as_str())));
        }
    }
    if other_names.is_empty() {
        return profile;
    }
    keep_kinds(&mut profile);
    let mut names: Vec<StringId> = (0..profile.strings.len()).map(StringId::from_index).collect();
    for function in functions(&profile).into_keys() {
        if let Some(other) = other_names.get(profile.strings.get(function)) {
            names[function.index()] = profile.strings.intern(other);
        }
    }
    profile.rename_functions(&names);
    profile
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{Sample, ValueType};

    use super::*;
    use crate::folded::folded;

    fn check(inputs: &[&[(&str, u64)]], expect: &[&str]) {
        let mut merged = Profile::new(vec![ValueType::samples()]);
        let mut names = Vec::new();
        for input in inputs {
            let mut profile = Profile::new(vec![ValueType::samples()]);
            for (path, value) in *input {
                let stack = profile.stack_of_names(path.split(';'));
                profile.push(Sample::new(stack), &[*value]);
            }
            names.push(function_names(&profile));
            merged.merge(&profile).expect("the same values");
        }
        let merged = merged_by_identity(merged, &names);
        merged.check().expect("a whole profile");
        assert_eq!(folded(&merged), expect);
    }

    #[test]
    fn functions_that_runs_number_were_several() {
        check(
            &[
                &[("main;Shop$$Lambda$14/0x0000000800066840.apply;a.b", 1)],
                &[("main;Shop$$Lambda$9/0x000000080006c040.apply;a.b", 2), ("main;other", 4)],
                &[("main;Shop$$Lambda$9/0x000000080006c040.apply", 8)],
            ],
            &["main;Shop$$Lambda.apply 8", "main;Shop$$Lambda.apply;a.b 3", "main;other 4"],
        );
    }

    #[test]
    fn names_that_others_have_stay_as_they_are() {
        let (f, g) = (("f (app.py:3)", 1), ("f (app.py:30)", 2));
        check(&[&[f, g], &[f]], &["f (app.py:3) 2", "f (app.py:30) 2"]);
        check(&[&[f, g], &[f, g]], &["f (app.py:3) 2", "f (app.py:30) 4"]);
        check(&[&[f], &[("x", 1)]], &["f (app.py:3) 1", "x 1"]);
        check(&[&[f], &[g]], &["f (app.py) 3"]);
    }
}
