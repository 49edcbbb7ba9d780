//! Changes of functions, summed over all stacks that they are on.

use pyrograph_profile::{FrameKind, NodeId, Profile, StringId, Tree};

use super::noise::Sampling;
use super::verdict::{Family, Judge, Verdict};
use super::{DiffOptions, Estimate, Measure, Rows, total_squares};

/// Change of one function.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionChange {
    /// Label of the function.
    pub name: String,
    /// Module that contains the code; empty if unknown.
    pub module: String,
    /// Kind of code.
    pub kind: FrameKind,
    /// Sum of the compared value over the runs before. With [`Measure::Total`], a stack that contains the function
    /// several times counts once.
    pub before: u64,
    /// Sum over the runs after; see [`FunctionChange::before`].
    pub after: u64,
    /// Change with its confidence interval.
    pub estimate: Estimate,
    /// Verdict: more, less, or noise.
    pub verdict: Verdict,
}

/// Compares the functions of a tree. Returns their changes, sorted by name, and the test results of the family. The
/// whole, whose name is empty, is included.
pub(super) fn functions(
    tree: &Tree,
    squares: &[f64],
    profile: &Profile,
    sampling: &Sampling,
    options: &DiffOptions,
) -> (Vec<FunctionChange>, Family) {
    let rows = match options.measure {
        Measure::OwnSelf => own(tree, squares),
        Measure::Total => totals(tree, squares),
    };
    let judge = Judge::new(sampling.clone(), &rows, options);
    let verdicts = judge.verdicts(&rows);
    // First node of each name.
    let mut first: Vec<Option<NodeId>> = vec![None; rows.len()];
    for node in std::iter::once(NodeId::ROOT).chain(tree.nodes()) {
        first[tree.name_id(node).index()].get_or_insert(node);
    }
    let mut found: Vec<FunctionChange> = first
        .iter()
        .enumerate()
        .filter_map(|(name, node)| {
            let node = (*node)?;
            let row = rows.row(name);
            let (before, after) = rows.sums(name, sampling.before());
            let module = tree
                .frame(node)
                .map_or("", |frame| profile.strings.get(profile.frames.get(frame).module));
            Some(FunctionChange {
                name: tree.names.get(StringId::from_index(name)).to_owned(),
                module: module.to_owned(),
                kind: tree.kind(node),
                before,
                after,
                estimate: judge.estimate(row),
                verdict: verdicts[name],
            })
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    (found, judge.family)
}

/// Self values of each function, by name ID.
fn own(tree: &Tree, squares: &[f64]) -> Rows {
    let runs = tree.value_types.len();
    let mut rows = Rows::new(tree.names.len(), runs, !squares.is_empty());
    for run in 0..runs {
        for (node, &value) in tree.self_values(run).iter().enumerate() {
            let name = tree.name_id(NodeId::from_index(node));
            let sum = &mut rows.row_mut(name.index())[run];
            *sum = sum.saturating_add(value);
        }
    }
    for (node, &square) in squares.iter().enumerate() {
        rows.squares[tree.name_id(NodeId::from_index(node)).index()] += square;
    }
    rows
}

/// Total values of each function, by name ID: the samples whose stack contains it.
fn totals(tree: &Tree, squares: &[f64]) -> Rows {
    let runs = tree.value_types.len();
    let columns: Vec<Vec<u64>> = (0..runs).map(|run| tree.total_values(run)).collect();
    let mut rows = Rows::new(tree.names.len(), runs, !squares.is_empty());
    let outermost = outermost(tree);
    let squares = total_squares(tree, squares);
    for node in (0..tree.len()).filter(|&node| outermost[node]) {
        let name = tree.name_id(NodeId::from_index(node));
        for (sum, column) in rows.row_mut(name.index()).iter_mut().zip(&columns) {
            *sum = sum.saturating_add(column[node]);
        }
        if let Some(square) = squares.get(node) {
            rows.squares[name.index()] += square;
        }
    }
    rows
}

/// For each node, true if no ancestor has the same name.
fn outermost(tree: &Tree) -> Vec<bool> {
    let mut starts = vec![0u32; tree.len() + 1];
    for node in tree.nodes() {
        starts[tree.parent(node).index()] += 1;
    }
    // End of each node's children; after the loop below, which fills backwards, their start.
    let mut end = 0;
    for start in &mut starts {
        end += *start;
        *start = end;
    }
    let mut children = vec![NodeId::ROOT; tree.len() - 1];
    for node in tree.nodes().rev() {
        let start = &mut starts[tree.parent(node).index()];
        *start -= 1;
        children[*start as usize] = node;
    }

    let mut outermost = vec![false; tree.len()];
    let mut open = vec![0u32; tree.names.len()];
    // An explicit stack instead of recursion, because the depth of stacks depends on the input.
    let mut steps = vec![(NodeId::ROOT, false)];
    while let Some((node, done)) = steps.pop() {
        let open = &mut open[tree.name_id(node).index()];
        if done {
            *open -= 1;
            continue;
        }
        outermost[node.index()] = *open == 0;
        *open += 1;
        steps.push((node, true));
        let range = starts[node.index()] as usize..starts[node.index() + 1] as usize;
        steps.extend(children[range].iter().map(|&child| (child, false)));
    }
    outermost
}
