//! Functions whose names differ between builds and runs although they are the same: `Shop$$Lambda$14/0x0000000800066840.apply`
//! and `Shop$$Lambda$15/0x0000000801000c40.apply`, `sort.constprop.0` and `sort`, `f (app.py:120)` and `f (app.py:123)`.

use std::collections::{BTreeMap, BTreeSet};

use pyrograph_names::identity;
use pyrograph_profile::{FrameKind, StringId};

use super::Run;

/// The names that functions of several names are compared under.
#[derive(Debug, Default)]
pub(super) struct Identities {
    /// By the name in a run.
    names: BTreeMap<String, String>,
    /// Names with parameters of functions whose name has none in one run, where overloads had to be told apart in another.
    overloads: BTreeSet<String>,
}

impl Identities {
    /// Those of all functions of some runs. A name that no other is the same as stays as it is.
    pub(super) fn new(runs: &[Run<'_>]) -> Self {
        let overloads = overloads(runs);
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for run in runs {
            for id in functions(run) {
                let name = run.tree.names.get(id);
                let name = full(run, id, &overloads).unwrap_or(name);
                all.entry(identity(name).into_owned()).or_default().insert(name.to_owned());
            }
        }
        let shared = all.into_iter().filter(|(_, names)| names.len() > 1);
        let names = shared.flat_map(|(identity, names)| {
            names.into_iter().map(move |name| (name, identity.clone()))
        });
        Self { names: names.collect(), overloads }
    }

    /// The name that a label of a run is compared under.
    pub(super) fn name<'a>(&'a self, run: &Run<'a>, id: StringId, label: &'a str) -> &'a str {
        let label = full(run, id, &self.overloads).unwrap_or(label);
        self.names.get(label).map_or(label, String::as_str)
    }
}

/// The labels of a run that functions have; those of processes and threads are none.
fn functions(run: &Run<'_>) -> BTreeSet<StringId> {
    let is_function = |&node: &_| {
        run.tree.frame(node).is_some() && !matches!(run.tree.kind(node), FrameKind::Marker(_))
    };
    run.tree.nodes().filter(is_function).map(|node| run.tree.name_id(node)).collect()
}

/// Names with parameters that frames of some run have, and those of others have without.
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

/// The name with parameters of a label, if overloads are told apart by it in another run.
fn full<'a>(run: &Run<'a>, id: StringId, overloads: &BTreeSet<String>) -> Option<&'a str> {
    if overloads.is_empty() {
        return None;
    }
    let strings = &run.profile.strings;
    let function = strings.find(run.tree.names.get(id))?;
    let full = strings.get(run.profile.full_names.get(function)?);
    overloads.contains(full).then_some(full)
}
