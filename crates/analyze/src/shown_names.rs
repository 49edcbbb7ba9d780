//! Names that views show, and what each of them stands for.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use pyrograph_names::{Name, Tier, distinct, identity};
use pyrograph_profile::{Profile, StringId};

use crate::names::{functions, renamed};

/// Functions that views show as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsOne {
    /// The tiers of a function.
    Tiers,
    /// Functions of one identity: also clones that compilers make, and what only numbers tell apart.
    Identity,
    /// None: in a comparison each stays what it was compared as.
    Nothing,
}

/// The short names that views show, as far as these tell functions apart.
#[derive(Clone, Debug, Default)]
pub struct ShownNames {
    functions: BTreeMap<String, ShownFunction>,
    /// By each of the functions' names, what is shown for it.
    labels: BTreeMap<String, String>,
}

/// The functions behind a short name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownFunction {
    /// The names that filters and other outputs have.
    pub names: BTreeSet<String>,
    /// Those with all that is known.
    pub full: BTreeSet<String>,
    /// How far the compiler at run time had got, where names say it.
    pub tiers: BTreeSet<Tier>,
}

impl ShownFunction {
    /// The name for other programs: that of the only one, or the identity.
    pub fn name(&self) -> Cow<'_, str> {
        match self.names.first() {
            Some(first) if self.names.len() > 1 => identity(first),
            first => first.map_or("", String::as_str).into(),
        }
    }

    /// The tiers that are one here, in words; empty if there are no several.
    pub fn several_tiers(&self) -> String {
        let words: Vec<&str> = self.tiers.iter().map(|tier| tier.words()).collect();
        if words.len() > 1 { words.join(", ") } else { String::new() }
    }
}

impl ShownNames {
    /// The names of all functions of a profile.
    pub fn new(profile: &Profile, as_one: AsOne) -> Self {
        let functions: Vec<(StringId, StringId)> = functions(profile).into_iter().collect();
        let pairs: Vec<(&str, &str)> = functions
            .iter()
            .map(|&(name, full)| (profile.strings.get(name), profile.strings.get(full)))
            .collect();
        Self::of(&pairs, as_one)
    }

    /// The names of functions, of which the names in other outputs and the full ones are known.
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

    /// The short name of a function, given its name in other outputs; any other name as it is.
    pub fn label<'a>(&'a self, name: &'a str) -> &'a str {
        self.labels.get(name).map_or(name, String::as_str)
    }

    /// The functions behind a short name; `None` if there are none.
    pub fn function(&self, label: &str) -> Option<&ShownFunction> {
        self.functions.get(label)
    }

    /// The full name of what a short name stands for, with the number of others; itself where that is all there is to say.
    pub fn full<'a>(&'a self, label: &'a str) -> Cow<'a, str> {
        let Some(of) = self.functions.get(label) else { return label.into() };
        match (of.full.first(), of.full.len()) {
            (Some(full), 1) => full.into(),
            (Some(full), count) => format!("{full} and {} more", count - 1).into(),
            (None, _) => label.into(),
        }
    }

    /// The short names that differ in `other`, old to new; decided by the first function behind each.
    pub fn moved(&self, other: &Self) -> BTreeMap<String, String> {
        let moved = |(label, of): (&String, &ShownFunction)| {
            let new = other.labels.get(of.names.first()?)?;
            (new != label).then(|| (label.clone(), new.clone()))
        };
        self.functions.iter().filter_map(moved).collect()
    }

    /// The profile with these names. Functions that have one of them are one.
    pub fn rename(&self, profile: Profile) -> Profile {
        let functions: Vec<(StringId, StringId)> = functions(&profile).into_iter().collect();
        let label = |&(name, _): &_| self.label(profile.strings.get(name)).to_owned();
        let forms: Vec<String> = functions.iter().map(label).collect();
        renamed(profile, &functions, &forms)
    }
}

/// A function that is the only one of its identity has its own short name, others that of the identity.
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
