//! Names at the roots of stacks that differ between the two sides although the programs are the same: `./old` and
//! `./new`, or names with process IDs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::Run;

/// A group of names that are compared under one common name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// Names before. They differ only in numbers.
    pub before: BTreeSet<String>,
    /// Names after. They differ only in numbers.
    pub after: BTreeSet<String>,
    /// Common name used in the comparison.
    pub name: String,
}

/// `oldapp before and newapp after`; for four or more names, the first and the number of names.
impl fmt::Display for Renamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |names: &BTreeSet<String>| match (names.len(), names.first()) {
            (len @ 4.., Some(first)) => format!("{first} … ({len} names)"),
            _ => names.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
        };
        write!(f, "{} before and {} after", names(&self.before), names(&self.after))
    }
}

/// Names that are compared under a common name, by the depth of their frame. Empty by default.
#[derive(Debug, Default)]
pub struct Alike {
    /// For each depth, and for before and after, the common name of each name.
    levels: Vec<[BTreeMap<String, String>; 2]>,
    /// All groups of names, as a list.
    pub renamed: Vec<Renamed>,
}

/// Names at one depth of one side, each with the names of its callees.
type Level<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

impl Alike {
    /// Finds names among the first `levels` frames of stacks that differ only in numbers, and pairs of names that are
    /// the only ones of their side without a counterpart.
    pub fn new(before: &[Run<'_>], after: &[Run<'_>], levels: usize) -> Self {
        let mut names = Self { levels: vec![Default::default(); levels], renamed: Vec::new() };
        // Callees first, because names are compared by their callees.
        for level in (0..levels).rev() {
            let sides = [before, after].map(|runs| level_of(runs, level));
            let renamed = compared_as_one(&sides, |after, name| {
                names.name(level + 1, after, name).unwrap_or(without_numbers(name)).to_owned()
            });
            let side = |of: fn(&Renamed) -> &BTreeSet<String>| {
                let each = |one: &Renamed| -> Vec<(String, String)> {
                    of(one).iter().map(|name| (name.clone(), one.name.clone())).collect()
                };
                renamed.iter().flat_map(each).collect()
            };
            names.levels[level] = [side(|one| &one.before), side(|one| &one.after)];
            names.renamed.splice(0..0, renamed);
        }
        names
    }

    /// Common name of a name at depth `level` of side `after` or before; `None` if it keeps its own name.
    pub(super) fn name(&self, level: usize, after: bool, name: &str) -> Option<&str> {
        self.levels.get(level)?[usize::from(after)].get(name).map(String::as_str)
    }

    /// Number of outermost frames of each stack that may be renamed.
    pub(super) fn levels(&self) -> usize {
        self.levels.len()
    }
}

/// Depth of each node of a run's tree, at most `most`; empty if `most` is 0.
pub(super) fn depths(run: &Run<'_>, most: usize) -> Vec<usize> {
    if most == 0 {
        return Vec::new();
    }
    let mut depths = vec![0; run.tree.len()];
    for node in run.tree.nodes() {
        let parent = run.tree.parent(node).index();
        // The root node has no frame; its children have depth 0.
        depths[node.index()] = if parent == 0 { 0 } else { (depths[parent] + 1).min(most) };
    }
    depths
}

fn level_of<'a>(runs: &[Run<'a>], level: usize) -> Level<'a> {
    let mut names = Level::new();
    for run in runs {
        let depths = depths(run, level + 2);
        for node in run.tree.nodes() {
            if depths[node.index()] == level {
                names.entry(run.tree.name(node)).or_default();
            } else if depths[node.index()] == level + 1 {
                let above = names.entry(run.tree.name(run.tree.parent(node))).or_default();
                above.insert(run.tree.name(node));
            }
        }
    }
    names
}

/// Groups the names of one depth. `callee` returns the common name of a callee, on the side `after` or before.
fn compared_as_one(sides: &[Level<'_>; 2], callee: impl Fn(bool, &str) -> String) -> Vec<Renamed> {
    let [before, after] = sides;
    let alone = |side: &Level<'_>, other: &Level<'_>| {
        let mut bases: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for name in side.keys().filter(|name| !other.contains_key(*name)) {
            bases.entry(without_numbers(name).to_owned()).or_default().insert((*name).to_owned());
        }
        bases
    };
    let (mut old, mut new) = (alone(before, after), alone(after, before));
    let both: Vec<String> = old.keys().filter(|base| new.contains_key(*base)).cloned().collect();
    let mut renamed: Vec<Renamed> = both
        .into_iter()
        .filter_map(|name| {
            Some(Renamed { before: old.remove(&name)?, after: new.remove(&name)?, name })
        })
        .collect();
    // With several candidates on a side, there is no telling which one corresponds to which.
    if let (1, 1, Some((a, before_names)), Some((b, after_names))) =
        (old.len(), new.len(), old.pop_first(), new.pop_first())
    {
        let below = |is_after: bool, names: &BTreeSet<String>| -> BTreeSet<String> {
            let side = if is_after { after } else { before };
            let names = names.iter().filter_map(|name| side.get(name.as_str()));
            names.flatten().map(|name| callee(is_after, name)).collect()
        };
        // Without a common callee, the two are different programs.
        if !below(false, &before_names).is_disjoint(&below(true, &after_names)) {
            let name = format!("{a} → {b}");
            renamed.push(Renamed { before: before_names, after: after_names, name });
        }
    }
    renamed
}

/// Removes process and thread IDs: `postgres` for `postgres-1234` and `postgres-1234/1240`.
fn without_numbers(name: &str) -> &str {
    let Some((base, numbers)) = name.rsplit_once('-') else { return name };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let fits = match numbers.split_once('/') {
        Some((pid, tid)) => is_number(pid) && is_number(tid),
        None => is_number(numbers),
    };
    if fits && !base.is_empty() { base } else { name }
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{LabelOptions, Profile, Sample, Tree, ValueType};
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::super::union::{NameRules, unite};
    use super::*;

    type Stacks = BTreeMap<String, u64>;

    fn profile(stacks: &Stacks) -> Profile {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        for (stack, &count) in stacks {
            let stack = profile.stack_of_names(stack.split(';'));
            profile.push(Sample::new(stack), &[count]);
        }
        profile
    }

    /// Every stack of the comparison, with its two counts.
    fn compare(before: &Stacks, after: &Stacks, levels: usize) -> BTreeMap<String, (u64, u64)> {
        let profiles = [before, after].map(profile);
        let trees = profiles.each_ref().map(|of| Tree::new(of, &LabelOptions::default()));
        let run = |side: usize| [Run { profile: &profiles[side], tree: &trees[side], column: 0 }];
        let (before, after) = (run(0), run(1));
        let alike = Alike::new(&before, &after, levels);
        let types = vec![ValueType::samples(); 2];
        let names =
            NameRules { alike: &alike, before: 1, strip_addresses: false, by_identity: false };
        let (both, _) = unite(&[before, after].concat(), types, |run| run, &names);
        let tree = Tree::new(&both, &LabelOptions::default());
        let counts = |column: usize| tree.self_values(column);
        let rows = tree.nodes().map(|node| {
            let mut path: Vec<&str> = tree.path(node).collect();
            path.reverse();
            (path.join(";"), (counts(0)[node.index()], counts(1)[node.index()]))
        });
        rows.filter(|(_, counts)| *counts != (0, 0)).collect()
    }

    fn stacks(of: &[(&str, u64)]) -> Stacks {
        of.iter().map(|&(stack, count)| (stack.to_owned(), count)).collect()
    }

    #[test]
    fn two_commands_of_different_names_were_gone_and_new() {
        let before =
            stacks(&[("old;_start;main;work", 7), ("old;_start;old", 2), ("sh;_start", 1)]);
        let after = stacks(&[("new;_start;main;work", 5), ("sh;_start", 2)]);
        let expect = [
            ("old → new;_start;main;work", (7, 5)),
            // Other names stay.
            ("old → new;_start;old", (2, 0)),
            ("sh;_start", (1, 2)),
        ];
        let expect: BTreeMap<_, _> = expect.map(|(path, counts)| (path.to_owned(), counts)).into();
        assert_eq!(compare(&before, &after, 1), expect);
        assert_eq!(compare(&before, &after, 0).len(), 4);
        // Of two it cannot be said which became the other; and these have nothing in common.
        let two = stacks(&[("new;_start;main;work", 5), ("other;_start", 3)]);
        assert!(compare(&before, &two, 1).keys().all(|path| !path.contains('→')));
        let unlike = stacks(&[("new;begin;main;work", 5), ("sh;_start", 2)]);
        assert!(compare(&before, &unlike, 1).keys().all(|path| !path.contains('→')));
    }

    #[test]
    fn the_comparison_is_that_of_names_put_in_by_hand() {
        let mut generator = StdRng::seed_from_u64(7);
        let mut random = |below: u64| generator.random_range(0..below);
        for round in 0..200 {
            let commands = [["old", "new"], ["same", "same"]];
            let pairs = 1 + random(2) as usize;
            let mut sides = [Stacks::new(), Stacks::new()];
            let mut expect: BTreeMap<String, (u64, u64)> = BTreeMap::new();
            for _ in 0..30 {
                let command = commands[random(pairs as u64) as usize];
                let (process, frame, leaf) = (random(3), random(2), random(4));
                let path = format!("_start;f{frame};g{leaf}");
                for side in [0, 1] {
                    // Every process is on both sides, and calls the same.
                    let count = 1 + random(9);
                    let pid = 100 * (side as u64 + 1) + process;
                    let name = format!("{}-{pid}", command[side]);
                    let thread = format!("{name}/{}", pid + 50);
                    *sides[side].entry(format!("{name};{thread};{path}")).or_default() += count;
                    let one = match command {
                        ["same", _] => "same",
                        _ => "old → new",
                    };
                    let counts = expect.entry(format!("{one};{one};{path}")).or_default();
                    *(if side == 0 { &mut counts.0 } else { &mut counts.1 }) += count;
                }
            }
            assert_eq!(compare(&sides[0], &sides[1], 2), expect, "round {round}");
        }
    }

    #[test]
    fn numbers_are_left_out() {
        let check = |name, expect| assert_eq!(without_numbers(name), expect);
        check("postgres-1234", "postgres");
        check("postgres-1234/1240", "postgres");
        check("pool-1-thread-2", "pool-1-thread");
        check("gcc-x", "gcc-x");
        check("a-1/", "a-1/");
        check("-12", "-12");
        check("worker 0", "worker 0");
    }

    #[test]
    fn few_names_are_listed_and_many_counted() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let of = |before: &[&str], after: &[&str]| {
            let name = String::new();
            Renamed { before: names(before), after: names(after), name }.to_string()
        };
        assert_eq!(of(&["old"], &["new"]), "old before and new after");
        let many = of(&["a-1", "a-2", "a-3", "a-4"], &["a-5", "a-6"]);
        assert_eq!(many, "a-1 … (4 names) before and a-5, a-6 after");
    }
}
