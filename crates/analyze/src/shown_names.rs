//! Short names that views show, and the functions behind each.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use pyrograph_names::{Name, Tier, distinct, identity};
use pyrograph_profile::{Profile, StringId};

use crate::names::{functions, renamed};

/// Functions that views merge under one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsOne {
    /// Tiers of a function.
    Tiers,
    /// Functions with the same identity: also clones made by compilers, and names that differ only in numbers.
    Identity,
    /// Nothing: in a comparison, each function stays as it was compared.
    Nothing,
}

/// Short names for views, with as much of the full names as is needed to distinguish functions.
#[derive(Clone, Debug, Default)]
pub struct ShownNames {
    functions: BTreeMap<String, ShownFunction>,
    /// Short name by the function's own name.
    labels: BTreeMap<String, String>,
}

/// The functions behind a short name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownFunction {
    /// Names in filters and in other outputs.
    pub names: BTreeSet<String>,
    /// Full names, with everything that is known.
    pub full: BTreeSet<String>,
    /// Compilation tiers, as far as the names contain them.
    pub tiers: BTreeSet<Tier>,
}

impl ShownFunction {
    /// Name for other programs: the only name, or the identity of several.
    pub fn name(&self) -> Cow<'_, str> {
        match self.names.first() {
            Some(first) if self.names.len() > 1 => identity(first),
            first => first.map_or("", String::as_str).into(),
        }
    }

    /// Description of the merged tiers; empty if there are fewer than two.
    pub fn several_tiers(&self) -> String {
        let words: Vec<&str> = self.tiers.iter().map(|tier| tier.words()).collect();
        if words.len() > 1 { words.join(", ") } else { String::new() }
    }
}

impl ShownNames {
    /// Short names of all functions of a profile.
    pub fn new(profile: &Profile, as_one: AsOne) -> Self {
        let functions: Vec<(StringId, StringId)> = functions(profile).into_iter().collect();
        let pairs: Vec<(&str, &str)> = functions
            .iter()
            .map(|&(name, full)| (profile.strings.get(name), profile.strings.get(full)))
            .collect();
        Self::of(&pairs, as_one)
    }

    /// Short names of functions, given as pairs of their name in other outputs and their full name.
    pub fn of(functions: &[(&str, &str)], as_one: AsOne) -> Self {
        let labels = match as_one {
            AsOne::Identity => by_identity(functions),
            AsOne::Tiers | AsOne::Nothing => {
                distinct(&functions.iter().map(|of| of.0).collect::<Vec<_>>())
            }
        };
        let mut shared: BTreeMap<&str, usize> = BTreeMap::new();
        labels.iter().for_each(|label| *shared.entry(label).or_default() += 1);
        let mut names = Self::default();
        for (&(name, full), label) in functions.iter().zip(&labels) {
            let is_apart = as_one == AsOne::Nothing && shared[&**label] > 1;
            let label = if is_apart { name } else { label };
            let taken = Name::of(full);
            let of = names.functions.entry(label.to_owned()).or_default();
            of.names.insert(name.to_owned());
            of.full.insert(taken.full.into());
            of.tiers.extend(taken.tier.or_else(|| (name != full).then(|| Name::of(name).tier)?));
            names.labels.insert(name.to_owned(), label.to_owned());
        }
        names
    }

    /// Short name of a function, given its name in other outputs; an unknown name is returned unchanged.
    pub fn label<'a>(&'a self, name: &'a str) -> &'a str {
        self.labels.get(name).map_or(name, String::as_str)
    }

    /// Functions behind a short name; `None` if there are none.
    pub fn function(&self, label: &str) -> Option<&ShownFunction> {
        self.functions.get(label)
    }

    /// Full name behind a short name, with the number of further functions; the short name itself if nothing else is
    /// known.
    pub fn full<'a>(&'a self, label: &'a str) -> Cow<'a, str> {
        let Some(of) = self.functions.get(label) else { return label.into() };
        match (of.full.first(), of.full.len()) {
            (Some(full), 1) => full.into(),
            (Some(full), count) => format!("{full} and {} more", count - 1).into(),
            (None, _) => label.into(),
        }
    }

    /// Short names that differ in `other`, old to new, determined by the first function behind each.
    pub fn moved(&self, other: &Self) -> BTreeMap<String, String> {
        let moved = |(label, of): (&String, &ShownFunction)| {
            let new = other.labels.get(of.names.first()?)?;
            (new != label).then(|| (label.clone(), new.clone()))
        };
        self.functions.iter().filter_map(moved).collect()
    }

    /// Renames the functions of a profile to their short names. Functions with the same short name are merged.
    pub fn rename(&self, profile: Profile) -> Profile {
        let functions: Vec<(StringId, StringId)> = functions(&profile).into_iter().collect();
        let label = |&(name, _): &_| self.label(profile.strings.get(name)).to_owned();
        let forms: Vec<String> = functions.iter().map(label).collect();
        renamed(profile, &functions, &forms)
    }
}

/// Short names by identity: a function with a unique identity gets its own short name, others the short name of their
/// identity.
fn by_identity<'a>(functions: &[(&'a str, &str)]) -> Vec<Cow<'a, str>> {
    let names: Vec<Name<'a>> = functions.iter().map(|(name, _)| Name::of(name)).collect();
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, name) in names.iter().enumerate() {
        groups.entry(&name.identity).or_default().push(at);
    }
    let texts: Vec<Cow<'a, str>> = groups
        .values()
        .map(|of| match of.iter().all(|&at| names[at].full == names[of[0]].full) {
            true => functions[of[0]].0.into(),
            false => names[of[0]].identity.clone(),
        })
        .collect();
    let labels = distinct(&texts.iter().map(|text| &**text).collect::<Vec<_>>());
    let mut all: Vec<Cow<'a, str>> = vec![Cow::Borrowed(""); functions.len()];
    for (of, label) in groups.values().zip(labels) {
        of.iter().for_each(|&at| all[at] = label.clone().into_owned().into());
    }
    all
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{Sample, ValueType};

    use super::*;
    use crate::folded::folded;

    const STACKS: &[(&str, u64)] = &[
        ("main;JS:*parse /srv/app.js:12;shop::Cart::add", 1),
        ("main;JS:~parse /srv/app.js:12;shop::Cart::add", 2),
        ("main;JS:~parse /srv/app.js:12;depot::Cart::add", 4),
        ("main;a.Shop$$Lambda$14/0x0000000800066840.apply;walk.part.0", 8),
        ("main;a.Shop$$Lambda$15/0x0000000800066c40.apply;walk", 16),
    ];

    fn profile() -> Profile {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        for (stack, value) in STACKS {
            let stack = profile.stack_of_names(stack.split(';'));
            profile.push(Sample::new(stack), &[*value]);
        }
        profile
    }

    #[test]
    fn tiers_were_several_functions() {
        let names = ShownNames::new(&profile(), AsOne::Tiers);
        let expect = [
            "main;Shop$$Lambda$14.apply;walk.part.0 8",
            "main;Shop$$Lambda$15.apply;walk 16",
            "main;parse;depot::Cart::add 4",
            "main;parse;shop::Cart::add 3",
        ];
        assert_eq!(folded(&names.rename(profile())), expect);
        let parse = names.function("parse").expect("a function");
        let all = ["JS:*parse /srv/app.js:12", "JS:~parse /srv/app.js:12"];
        assert!(parse.names.iter().eq(all) && parse.full.iter().eq(["parse /srv/app.js:12"]));
        assert!(parse.tiers.iter().eq(&[Tier::Interpreted, Tier::Optimized]));
        assert_eq!(names.full("parse"), "parse /srv/app.js:12");
        assert_eq!(
            (&*parse.name(), &*parse.several_tiers()),
            ("parse app.js", "interpreted, optimized")
        );
        assert_eq!(names.label(all[1]), "parse");
        assert_eq!(
            (names.label("[truncated]"), &*names.full("[truncated]")),
            ("[truncated]", "[truncated]")
        );
    }

    #[test]
    fn functions_of_one_identity_are_one_on_request() {
        let names = ShownNames::new(&profile(), AsOne::Identity);
        let expect = [
            "main;Shop$$Lambda.apply;walk 24",
            "main;parse;depot::Cart::add 4",
            "main;parse;shop::Cart::add 3",
        ];
        assert_eq!(folded(&names.rename(profile())), expect);
        let full = "a.Shop$$Lambda$14/0x0000000800066840.apply and 1 more";
        assert_eq!(names.full("Shop$$Lambda.apply"), full);
        // What numbers alone tell apart, but of which there is one, is shown as it is.
        let one = [("a.Shop$$Lambda$14.apply", "a.Shop$$Lambda$14.apply")];
        assert_eq!(ShownNames::of(&one, AsOne::Identity).label(one[0].0), "Shop$$Lambda$14.apply");
    }

    #[test]
    fn in_a_comparison_each_stays_one_of_its_own() {
        let names = ShownNames::new(&profile(), AsOne::Nothing);
        let renamed = names.rename(profile());
        assert_eq!(folded(&renamed).len(), STACKS.len());
        assert_eq!(names.label("JS:*parse /srv/app.js:12"), "JS:*parse /srv/app.js:12");
        assert_eq!(
            names.label("a.Shop$$Lambda$14/0x0000000800066840.apply"),
            "Shop$$Lambda$14.apply"
        );
    }

    #[test]
    fn a_name_that_comes_later_moves_others() {
        let alone = ShownNames::of(&[("shop::Cart::add", "shop::Cart::add(int)")], AsOne::Tiers);
        let both = ShownNames::new(&profile(), AsOne::Tiers);
        let moved = alone.moved(&both);
        assert_eq!(moved, BTreeMap::from([("Cart::add".to_owned(), "shop::Cart::add".to_owned())]));
        assert_eq!(both.moved(&both), BTreeMap::new());
    }
}
