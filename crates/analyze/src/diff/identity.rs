//! Functions whose names differ between builds and runs although they are the same function:
//! `Shop$$Lambda$14/0x0000000800066840.apply` and `Shop$$Lambda$15/0x0000000801000c40.apply`, `sort.constprop.0` and
//! `sort`, `f (app.py:120)` and `f (app.py:123)`.

use std::collections::{BTreeMap, BTreeSet};

use pyrograph_names::{identity, without_parameters};
use pyrograph_profile::{FrameKind, StringId};

use super::Run;

/// Common names for functions that have several names.
#[derive(Debug, Default)]
pub(super) struct Identities {
    /// Common name by the function's name in a run.
    names: BTreeMap<String, String>,
    /// Overloads: full names that some runs show as labels while others show the plain name.
    overloads: BTreeSet<String>,
}

impl Identities {
    /// Finds the common names of all functions of `runs`, the first `before` of which are the runs before. A name
    /// without an equivalent keeps its own name. So does a group of names that both sides have in full: then the
    /// numbers in the names have kept their meaning.
    pub(super) fn new(runs: &[Run<'_>], before: usize) -> Self {
        let overloads = overloads(runs);
        let bare: BTreeSet<&str> = runs.iter().flat_map(without_full_name).collect();
        let mut all: BTreeMap<String, [BTreeSet<String>; 2]> = BTreeMap::new();
        for (at, run) in runs.iter().enumerate() {
            let side = usize::from(at >= before);
            for id in functions(run) {
                let name = run.tree.names.get(id);
                let name = full(run, id, &overloads).unwrap_or(name);
                // A run that has only plain names merges all overloads.
                let plain = without_parameters(name);
                let known = if bare.contains(plain) { plain } else { name };
                let sides = all.entry(identity(known).into_owned()).or_default();
                sides[side].insert(name.to_owned());
            }
        }
        let differ = all.into_iter().filter(|(_, [before, after])| before != after);
        let names = differ.flat_map(|(identity, [before, after])| {
            let names = before.into_iter().chain(after).collect::<BTreeSet<String>>();
            // A group of a single name, which only one side has, is not renamed.
            let names = Some(names).filter(|names| names.len() > 1).into_iter().flatten();
            names.map(move |name| (name, identity.clone()))
        });
        Self { names: names.collect(), overloads }
    }

    /// Name under which a label of a run is compared.
    pub(super) fn name<'a>(&'a self, run: &Run<'a>, id: StringId, label: &'a str) -> &'a str {
        let label = full(run, id, &self.overloads).unwrap_or(label);
        self.names.get(label).map_or(label, String::as_str)
    }
}

/// Labels of a run that are functions; labels of processes, threads and markers are not.
fn functions(run: &Run<'_>) -> BTreeSet<StringId> {
    let is_function = |&node: &_| {
        run.tree.frame(node).is_some() && !matches!(run.tree.kind(node), FrameKind::Marker(_))
    };
    run.tree.nodes().filter(is_function).map(|node| run.tree.name_id(node)).collect()
}

/// Function names for which the run has no parameters.
fn without_full_name<'a>(run: &Run<'a>) -> Vec<&'a str> {
    let strings = &run.profile.strings;
    let is_known = |name: &str| {
        let function = strings.find(name);
        function.is_some_and(|function| run.profile.full_names.get(function).is_some())
    };
    let names = functions(run).into_iter().map(|id| run.tree.names.get(id));
    names.filter(|name| without_parameters(name) == *name && !is_known(name)).collect()
}

/// Full names that are labels in some runs, and full names of a plain label in others.
fn overloads(runs: &[Run<'_>]) -> BTreeSet<String> {
    let text = |run: &Run<'_>, id: StringId| run.profile.strings.get(id).to_owned();
    let known: BTreeSet<String> = runs
        .iter()
        .flat_map(|run| run.profile.full_names.iter().map(|(_, full)| text(run, full)))
        .collect();
    if known.is_empty() {
        return known;
    }
    let labels = runs.iter().flat_map(|run| run.tree.names.iter());
    labels.filter(|label| known.contains(*label)).map(str::to_owned).collect()
}

/// Full name of a label, if another run shows it as the label of an overload.
fn full<'a>(run: &Run<'a>, id: StringId, overloads: &BTreeSet<String>) -> Option<&'a str> {
    if overloads.is_empty() {
        return None;
    }
    let strings = &run.profile.strings;
    let function = strings.find(run.tree.names.get(id))?;
    let full = strings.get(run.profile.full_names.get(function)?);
    overloads.contains(full).then_some(full)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pyrograph_profile::{Frame, LabelOptions, Profile, Sample, Tree, ValueType};

    use super::super::alike::Alike;
    use super::super::union::{NameRules, unite};
    use super::*;

    /// Stacks of functions; of one as `f|f(int)` the name with parameters is known, too.
    fn profile(stacks: &[&str]) -> Profile {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        for stack in stacks {
            let mut at = pyrograph_profile::StackId::ROOT;
            for name in stack.split(';') {
                let function = match name.split_once('|') {
                    Some((plain, full)) => profile.function_named(plain, full),
                    None => profile.strings.intern(name),
                };
                let frame = profile.frames.intern(Frame::named(function, FrameKind::User));
                at = profile.stacks.intern(at, frame);
            }
            profile.push(Sample::new(at), &[1]);
        }
        profile.tell_overloads_apart();
        profile
    }

    fn check(before: &[&str], after: &[&str], expect: &[(&str, (u64, u64))]) {
        let profiles = [before, after].map(profile);
        let trees = profiles.each_ref().map(|of| Tree::new(of, &LabelOptions::default()));
        let runs = [0, 1].map(|at| Run { profile: &profiles[at], tree: &trees[at], column: 0 });
        let alike = &Alike::default();
        let rules = NameRules { alike, before: 1, strip_addresses: false, by_identity: true };
        let (both, _) = unite(&runs, vec![ValueType::samples(); 2], |run| run, &rules);
        let tree = Tree::new(&both, &LabelOptions::default());
        let counts = |node: usize| (tree.self_values(0)[node], tree.self_values(1)[node]);
        let found: BTreeMap<String, (u64, u64)> = tree
            .nodes()
            .map(|node| {
                let mut path: Vec<&str> = tree.path(node).collect();
                path.reverse();
                (path.join(";"), counts(node.index()))
            })
            .filter(|(_, counts)| *counts != (0, 0))
            .collect();
        let expect = expect.iter().map(|&(path, counts)| (path.to_owned(), counts)).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn numbering_was_a_change() {
        for (before, after, name) in [
            (
                "Shop$$Lambda$14/0x0000000800066840.apply",
                "Shop$$Lambda$9/0x000000080006c040.apply",
                "Shop$$Lambda.apply",
            ),
            ("sort.constprop.0", "sort", "sort"),
            ("LazyCompile:*f /a.js:1", "JS:~f /a.js:3", "f a.js"),
            ("f (app.py:120)", "f (app.py:123)", "f (app.py)"),
            ("app::run::{closure#0}", "app::run::{{closure}}", "app::run::{closure}"),
            ("main.sum[go.shape.int]", "main.sum[...]", "main.sum[...]"),
            ("void [A] A::f()[Tier0]", "void [A] A::f()[OptimizedTier1]", "A::f()"),
            ("java/util/List.get_[j]", "java.util.List.get", "java.util.List.get"),
        ] {
            let (a, b) = (format!("main;{before};x"), format!("main;{after};x"));
            check(&[&a], &[&b], &[(&format!("main;{name};x"), (1, 1))]);
            // A name that no other is the same as stays as it is.
            check(&[&a], &[&a], &[(&a, (1, 1))]);
            let both = [a.as_str(), b.as_str()];
            check(&both, &both, &[(&a, (1, 1)), (&b, (1, 1))]);
        }
    }

    #[test]
    fn functions_that_differ_stay_apart() {
        check(&["a;f(int)"], &["a;f(long)"], &[("a;f(int)", (1, 0)), ("a;f(long)", (0, 1))]);
        check(&["a;b.c"], &["a;b.d"], &[("a;b.c", (1, 0)), ("a;b.d", (0, 1))]);
    }

    #[test]
    fn overloads_that_one_side_alone_tells_apart() {
        // The side before has one of them, and knows which.
        let both = ["f|f(int)", "f|f(long)"];
        check(&["f|f(int)"], &both, &[("f(int)", (1, 1)), ("f(long)", (0, 1))]);
        // It does not know that there are several.
        check(&["f"], &both, &[("f", (1, 2))]);
    }
}
