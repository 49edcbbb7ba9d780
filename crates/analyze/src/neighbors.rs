//! Callers and callees of one function, over all its call sites.

use pyrograph_profile::{FrameKind, LabelOptions, Labels, Profile};

use crate::functions::{Functions, ends};

/// Identifies a function: frames with the same label in the same module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionName {
    /// Root label of its stacks; `None` for all.
    pub root: Option<String>,
    /// Label of the function.
    pub name: String,
    /// Module, as named by the source; empty if unknown.
    pub module: String,
}

/// A function with its callers and callees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbors {
    /// Kind of code.
    pub kind: FrameKind,
    /// Value of the samples that end in the function. Saturated sum.
    pub self_value: u64,
    /// Value of the samples whose stack contains the function, each stack once. Saturated sum.
    pub total: u64,
    /// Value of the samples in which it is the outermost frame.
    pub outermost: u64,
    /// Functions that call it.
    pub callers: Vec<Neighbor>,
    /// Functions that it calls.
    pub callees: Vec<Neighbor>,
}

/// A caller or callee, with the value of the samples in which one calls the other. A stack counts once, even if it
/// contains the call several times. If a stack contains the function with several callers, as in recursion, the
/// values of all callers exceed the total.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// Label of the function.
    pub name: String,
    /// Module of the function.
    pub module: String,
    /// Kind of code.
    pub kind: FrameKind,
    /// Value. Saturated sum.
    pub value: u64,
}

/// Finds the callers and callees of a function, highest value first, equal values by name and module. Returns `None`
/// if no sample contains the function.
///
/// # Panics
///
/// Panics if there is no such column.
pub fn neighbors(
    profile: &Profile,
    labels: &LabelOptions,
    column: usize,
    of: &FunctionName,
) -> Option<Neighbors> {
    let labels = Labels::new(profile, labels);
    let functions = Functions::new(profile, &labels);
    let found = (0..functions.list.len()).find(|&function| {
        let id = functions.list[function];
        labels.names.get(labels.frames[id.index()]) == of.name
            && profile.strings.get(profile.frames.get(id).module) == of.module
    })?;
    let (.., kind) = functions.name(profile, &labels, found);
    let mut sums = Neighbors {
        kind,
        self_value: 0,
        total: 0,
        outermost: 0,
        callers: Vec::new(),
        callees: Vec::new(),
    };
    let mut callers = Edges::new(functions.list.len());
    let mut callees = Edges::new(functions.list.len());
    let mut path = Vec::new();
    for (number, end) in (1u32..).zip(ends(profile, &labels, column)) {
        if of.root.as_ref().is_some_and(|root| labels.names.get(end.root) != root) {
            continue;
        }
        path.clear();
        path.extend(functions.of_stack(profile, end.stack));
        let add = |sum: &mut u64, is: bool| {
            *sum = if is { sum.saturating_add(end.value) } else { *sum };
        };
        add(&mut sums.total, path.contains(&found));
        add(&mut sums.self_value, path.first() == Some(&found));
        add(&mut sums.outermost, path.last() == Some(&found));
        for pair in path.windows(2) {
            if pair[0] == found {
                callers.add(pair[1], number, end.value);
            }
            if pair[1] == found {
                callees.add(pair[0], number, end.value);
            }
        }
    }
    sums.callers = callers.list(profile, &labels, &functions);
    sums.callees = callees.list(profile, &labels, &functions);
    (sums.total > 0).then_some(sums)
}

/// Values of callers or of callees, by function.
struct Edges {
    sums: Vec<u64>,
    /// Number of the last stack that was counted for each function, starting at 1.
    last: Vec<u32>,
}

impl Edges {
    fn new(functions: usize) -> Self {
        Self { sums: vec![0; functions], last: vec![0; functions] }
    }

    fn add(&mut self, function: usize, stack: u32, value: u64) {
        if std::mem::replace(&mut self.last[function], stack) != stack {
            self.sums[function] = self.sums[function].saturating_add(value);
        }
    }

    fn list(self, profile: &Profile, labels: &Labels, functions: &Functions) -> Vec<Neighbor> {
        let sums = self.sums.into_iter().enumerate().filter(|(_, value)| *value > 0);
        let mut list: Vec<Neighbor> = sums
            .map(|(function, value)| {
                let (name, module, kind) = functions.name(profile, labels, function);
                Neighbor { name, module, kind, value }
            })
            .collect();
        list.sort_by(|a, b| {
            let names = || (&a.name, &a.module).cmp(&(&b.name, &b.module));
            b.value.cmp(&a.value).then_with(names)
        });
        list
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pyrograph_profile::{Sample, ValueType};
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    fn of(name: &str) -> FunctionName {
        FunctionName { name: name.to_owned(), ..FunctionName::default() }
    }

    fn profile(stacks: &[(Vec<String>, u64)]) -> Profile {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        for (path, value) in stacks {
            let stack = profile.stack_of_names(path.iter().map(String::as_str));
            profile.push(Sample::new(stack), &[*value]);
        }
        profile
    }

    /// The same by going through the folded lines.
    fn by_hand(stacks: &[(Vec<String>, u64)], name: &str) -> (u64, u64, [Vec<(String, u64)>; 2]) {
        let (mut own, mut total) = (0, 0);
        let mut sides = [BTreeMap::<String, u64>::new(), BTreeMap::new()];
        for (path, value) in stacks {
            total += if path.iter().any(|frame| frame == name) { *value } else { 0 };
            own += if path.last().is_some_and(|leaf| leaf == name) { *value } else { 0 };
            for (caller_side, sums) in [true, false].into_iter().zip(&mut sides) {
                let pairs = path.windows(2);
                let found = pairs.filter_map(|pair| match caller_side {
                    true => (pair[1] == name).then(|| pair[0].clone()),
                    false => (pair[0] == name).then(|| pair[1].clone()),
                });
                let distinct: std::collections::BTreeSet<String> = found.collect();
                for other in distinct {
                    *sums.entry(other).or_default() += value;
                }
            }
        }
        let sorted = sides.map(|sums| {
            let mut list: Vec<_> = sums.into_iter().filter(|(_, value)| *value > 0).collect();
            list.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            list
        });
        (own, total, sorted)
    }

    #[test]
    fn they_are_those_of_the_folded_lines() {
        let mut generator = StdRng::seed_from_u64(3);
        for _ in 0..300 {
            let stacks: Vec<(Vec<String>, u64)> = (0..generator.random_range(1..30))
                .map(|_| {
                    let depth = generator.random_range(0..8);
                    let name = |_| format!("f{}", generator.random_range(0..4));
                    let path: Vec<String> = (0..depth).map(name).collect();
                    (path, generator.random_range(0..9))
                })
                .collect();
            let profile = profile(&stacks);
            for name in ["f0", "f1", "f2", "f3"] {
                let (own, total, [callers, callees]) = by_hand(&stacks, name);
                let found = neighbors(&profile, &LabelOptions::default(), 0, &of(name));
                assert_eq!(found.is_some(), total > 0);
                let Some(found) = found else { continue };
                assert_eq!((found.self_value, found.total), (own, total));
                let list = |of: &[Neighbor]| {
                    of.iter().map(|it| (it.name.clone(), it.value)).collect::<Vec<_>>()
                };
                assert_eq!(list(&found.callers), callers);
                assert_eq!(list(&found.callees), callees);
            }
        }
    }

    #[test]
    fn nobody_calls_what_begins_a_stack() {
        let path = |text: &str| text.split(';').map(str::to_owned).collect::<Vec<_>>();
        let profile = profile(&[(path("main;a"), 3), (path("x;main"), 2)]);
        let found = neighbors(&profile, &LabelOptions::default(), 0, &of("main")).expect("main");
        assert_eq!((found.outermost, found.total, found.self_value), (3, 5, 2));
        assert_eq!(neighbors(&profile, &LabelOptions::default(), 0, &of("gone")), None);
    }
}
