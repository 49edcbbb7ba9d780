//! Layout of a flame graph: which frames are wide enough to be drawn, and their positions.
//!
//! Siblings are in the order of `flamegraph.pl` and similar tools, which sort whole folded lines by byte: a frame
//! with callees compares as `name;`, one without as `name COUNT`. A function that both has samples of its own and
//! calls others is one frame here, while those tools may draw it twice (`foo 3`, `foo::bar 1`, `foo;x 2` in this
//! order).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use pyrograph_profile::{
    FrameKind, LabelOptions, Labels, Profile, StringId, Strings, Tree, ValueType,
};

use crate::calls::{self, Calls};
use crate::chart::time_chart;
use crate::start::start_nodes;

/// Options of the layout.
#[derive(Clone, Debug, Default)]
pub struct FlameOptions {
    /// Column that determines the widths.
    pub column: usize,
    /// Column to compare with, for a differential flame graph.
    pub baseline: Option<usize>,
    /// Frames below this share of the whole are left out and counted.
    pub min_share: f64,
    /// Total width, if it is more than the sum of the samples. In units of the value type, without regard to its
    /// decimals.
    pub total: Option<f64>,
    /// Draw the functions that start a thread as one row, the first of them; see [`StartPart`](crate::StartPart). Comparisons,
    /// reversed graphs and charts have all rows.
    pub fold_start: bool,
}

/// Reasons why nothing can be laid out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlameError {
    /// The values add up to 0.
    #[error("there is nothing to draw: the {0} add up to 0")]
    Empty(String),
    /// An option refers to a column that the profile does not have.
    #[error("value type {0} asked for, but the profile has {1}")]
    NoSuchColumn(usize, usize),
}

/// A flame graph with the positions of its frames.
#[derive(Clone, Debug)]
pub struct FlameGraph {
    /// Strings that frames refer to.
    pub names: Strings,
    /// Value type of the widths.
    pub value_type: ValueType,
    /// Frames row by row from the root, each row from left to right. The first is the whole, which has no name.
    pub frames: Vec<FlameFrame>,
    /// Value that the full width represents, at least 1.
    pub total: u64,
    /// Base of percentages; more than `total` if filters left out samples.
    pub whole: u64,
    /// Number of rows.
    pub rows: u32,
    /// Number of frames that were too narrow to be drawn.
    pub narrow: u64,
    /// Minimum value of a frame; frames below it are too narrow.
    pub narrow_below: u64,
    /// The baseline of a differential graph.
    pub comparison: Option<Comparison>,
    /// Full names with parameters, for details, by the short name of a frame; both in [`FlameGraph::names`].
    pub full_names: BTreeMap<StringId, StringId>,
    /// In a chart with a true time axis, whose values are nanoseconds, the first row of each thread's group of rows,
    /// which contains the thread's name. Otherwise empty.
    pub threads: Vec<u32>,
}

/// Scale of a differential flame graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Base of percentages of the baseline.
    pub total: u64,
    /// Largest absolute change of a function's self value, which gets the full colour.
    pub largest: u64,
}

/// A frame of a flame graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlameFrame {
    /// Label, in [`FlameGraph::names`].
    pub name: StringId,
    /// Module that contains the code, in [`FlameGraph::names`]; the first if there are several, empty if unknown.
    pub module: StringId,
    /// Number of modules: functions with the same name and the same caller are one frame.
    pub modules: u32,
    /// Kind of code.
    pub kind: FrameKind,
    /// Row; 0 is the whole.
    pub depth: u32,
    /// Index of the caller in [`FlameGraph::frames`]. The whole is its own parent.
    pub parent: u32,
    /// Left edge, as a value.
    pub start: u64,
    /// Width, as a value: the samples that end in this frame or in its callees.
    pub value: u64,
    /// Part of the value whose samples have a guessed frame here, because there was no unwind table.
    pub guessed: u64,
    /// Value in the baseline; 0 without a comparison.
    pub before: u64,
    /// Self value, in a graph that starts at the roots.
    pub own: Option<u64>,
    /// Change of the self value.
    pub self_change: i64,
    /// Number of rows that this one stands for in addition: functions that only start a thread.
    pub folded: u32,
}

impl FlameFrame {
    /// Number of rows that it stands for in addition, as text: `+8 rows`.
    pub fn folded_text(&self) -> Option<String> {
        match self.folded {
            0 => None,
            1 => Some("+1 row".to_owned()),
            more => Some(format!("+{more} rows")),
        }
    }
}

/// Lays out a tree from the root. `profile` is the profile of `tree`.
///
/// # Errors
///
/// Fails if there is nothing to draw, or if the options refer to a missing column.
pub fn flame(
    profile: &Profile,
    tree: &Tree,
    options: &FlameOptions,
) -> Result<FlameGraph, FlameError> {
    let folds = options.fold_start && options.baseline.is_none();
    let start = if folds { start_nodes(profile, tree) } else { Vec::new() };
    lay_out(profile, tree, Order::ByName, true, &start, options)
}

/// Lays out a tree from its leaves: each function with its callers above it.
///
/// # Errors
///
/// As [`flame`].
pub fn flame_reversed(
    profile: &Profile,
    tree: &Tree,
    options: &FlameOptions,
) -> Result<FlameGraph, FlameError> {
    lay_out(profile, &calls::reversed(tree), Order::ByName, false, &[], options)
}

/// Lays out samples on a true time axis, with a group of rows per thread, if all samples have times; see
/// [`GAP`](crate::GAP) for gaps. Otherwise lays out the samples in sequence. Only adjacent samples are merged.
///
/// # Errors
///
/// As [`flame`].
pub fn flame_chart(
    profile: &Profile,
    labels: &LabelOptions,
    options: &FlameOptions,
) -> Result<FlameGraph, FlameError> {
    if options.column < profile.value_types.len()
        && let Some(chart) = time_chart(profile, labels, options)
    {
        return Ok(chart);
    }
    let labels = Labels::new(profile, labels);
    lay_out(profile, &calls::in_order(profile, &labels), Order::AsGiven, true, &[], options)
}

/// Order of siblings.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    ByName,
    AsGiven,
}

/// Slot of a node that was left out.
const LEFT_OUT: u32 = u32::MAX;

/// A callee with its left edge, and the number of folded rows between it and the frame below.
struct Placed {
    child: Child,
    start: u64,
    folded: u32,
}

/// Lays out calls. Nodes for which `start` is true are drawn in the row of the first of them.
fn lay_out<C: Calls>(
    profile: &Profile,
    calls: &C,
    order: Order,
    own_known: bool,
    start: &[bool],
    options: &FlameOptions,
) -> Result<FlameGraph, FlameError> {
    let columns = calls.value_types().len();
    for column in [Some(options.column), options.baseline].into_iter().flatten() {
        if column >= columns {
            return Err(FlameError::NoSuchColumn(column, columns));
        }
    }
    let value_type = calls.value_types()[options.column].clone();
    let totals = calls.total_values(options.column);
    let total = totals[0].max(scaled(options.total, value_type.decimals));
    if totals[0] == 0 {
        let compared = options.baseline.is_some();
        return Err(FlameError::Empty(if compared {
            "second counts".to_owned()
        } else {
            value_type.name
        }));
    }

    let least = options.min_share.max(0.0) * total as f64;
    let kept: Vec<u32> = (0..calls.len())
        .filter(|&node| node == 0 || totals[node] > 0 && totals[node] as f64 >= least)
        .map(|node| node as u32)
        .collect();
    let families = Families::new(calls, &totals, &kept, order);

    let before = options.baseline.map(|column| calls.total_values(column));
    let mut graph = FlameGraph {
        names: Strings::default(),
        value_type,
        frames: Vec::with_capacity(kept.len()),
        total,
        whole: total.max(profile.whole(options.column)),
        rows: 0,
        narrow: (calls.len() - kept.len()) as u64,
        narrow_below: least.ceil() as u64,
        comparison: None,
        full_names: BTreeMap::new(),
        threads: Vec::new(),
    };
    let (mut names, mut modules) = (Moved::default(), Moved::default());
    let mut nodes = Vec::with_capacity(kept.len());
    graph.frames.push(FlameFrame {
        name: StringId::EMPTY,
        module: StringId::EMPTY,
        modules: 0,
        kind: FrameKind::User,
        depth: 0,
        parent: 0,
        start: 0,
        value: total,
        guessed: 0,
        before: before.as_ref().map_or(0, |before| before[0]),
        own: None,
        self_change: 0,
        folded: 0,
    });
    nodes.push(0);
    // The leftmost is the last.
    let mut waiting: Vec<Placed> = Vec::new();
    let is_start = |node: usize| start.get(node) == Some(&true);
    let mut at = 0;
    while at < graph.frames.len() {
        let parent = graph.frames[at];
        let own = |slot: u32| calls.self_values(options.column)[kept[slot as usize] as usize];
        let place_callees = |slot: u32, start: u64, folded: u32, waiting: &mut Vec<Placed>| {
            let first = waiting.len();
            // In folded text, the line of the samples that end here sorts before the lines of the callees.
            let mut start = start.saturating_add(own(slot));
            for &child in families.children(slot) {
                let node = child.node as usize;
                start = start.saturating_add(child.gap);
                start = calls.start(options.column, node).unwrap_or(start);
                waiting.push(Placed { child, start, folded });
                start = start.saturating_add(totals[node]);
            }
            waiting[first..].reverse();
        };
        place_callees(nodes[at], parent.start, 0, &mut waiting);
        while let Some(Placed { child, start, folded }) = waiting.pop() {
            let node = child.node as usize;
            if is_start(node) && is_start(calls.parent(node)) {
                let frame = &mut graph.frames[at];
                frame.folded = frame.folded.max(folded + 1);
                frame.own = frame.own.map(|sum| sum.saturating_add(own(child.slot)));
                place_callees(child.slot, start, folded + 1, &mut waiting);
                continue;
            }
            let all = calls.modules(node);
            let module = all.first().map_or(StringId::EMPTY, |&module| {
                modules.of(module, || graph.names.intern(profile.strings.get(module)))
            });
            let name = names.of(calls.name_id(node), || graph.names.intern(calls.name(node)));
            graph.frames.push(FlameFrame {
                name,
                module,
                modules: all.len() as u32,
                kind: calls.kind(node),
                depth: parent.depth + 1,
                parent: at as u32,
                start,
                value: totals[node],
                guessed: calls.guessed(options.column, node),
                before: before.as_ref().map_or(0, |before| before[node]),
                own: own_known.then(|| own(child.slot)),
                self_change: 0,
                folded: 0,
            });
            nodes.push(child.slot);
        }
        at += 1;
    }
    graph.full_names = full_names(profile, &mut graph.names);
    graph.rows = graph.frames.last().map_or(0, |frame| frame.depth + 1);
    if let Some(baseline) = options.baseline {
        let kept: Vec<u32> = nodes.iter().map(|&slot| kept[slot as usize]).collect();
        compare(&mut graph, calls, &kept, (baseline, options.column));
        if let Some(comparison) = &mut graph.comparison {
            comparison.total = comparison.total.max(profile.whole(baseline));
        }
    }
    Ok(graph)
}

/// Full names with parameters of the functions in `names` that have one.
pub(crate) fn full_names(profile: &Profile, names: &mut Strings) -> BTreeMap<StringId, StringId> {
    let mut full_names = BTreeMap::new();
    for (function, full) in profile.full_names.iter() {
        if let Some(name) = names.find(profile.strings.get(function)) {
            full_names.insert(name, names.intern(profile.strings.get(full)));
        }
    }
    full_names
}

/// String IDs in another table, by their ID in the first: each string is looked up only once.
#[derive(Default)]
struct Moved(Vec<Option<StringId>>);

impl Moved {
    fn of(&mut self, id: StringId, move_it: impl FnOnce() -> StringId) -> StringId {
        if self.0.len() <= id.index() {
            self.0.resize(id.index() + 1, None);
        }
        *self.0[id.index()].get_or_insert_with(move_it)
    }
}

/// Converts a value in units to the column's fixed-point representation.
fn scaled(units: Option<f64>, decimals: u8) -> u64 {
    // A float outside of the range saturates; NaN becomes 0.
    units.map_or(0, |units| (units * 10f64.powi(decimals.into())).round() as u64)
}

/// Fills in the changes. `nodes` are the nodes of the frames.
fn compare(
    graph: &mut FlameGraph,
    calls: &impl Calls,
    nodes: &[u32],
    (baseline, column): (usize, usize),
) {
    let (old, new) = (calls.self_values(baseline), calls.self_values(column));
    let change = |node: usize| {
        let change = i128::from(new[node]) - i128::from(old[node]);
        i64::try_from(change).unwrap_or(if change > 0 { i64::MAX } else { -i64::MAX })
    };
    for (frame, &node) in graph.frames.iter_mut().zip(nodes) {
        frame.self_change = change(node as usize);
    }
    graph.comparison = Some(Comparison {
        total: graph.frames[0].before,
        largest: (0..calls.len()).map(|node| change(node).unsigned_abs()).max().unwrap_or(0),
    });
}

/// Kept children of each kept node, from left to right.
pub(crate) struct Families {
    /// Index of the first child of each kept node; one more element at the end.
    first: Vec<u32>,
    children: Vec<Child>,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Child {
    pub(crate) node: u32,
    /// Index among the kept nodes.
    pub(crate) slot: u32,
    /// Width of the omitted siblings between the left neighbour and this child.
    pub(crate) gap: u64,
}

impl Families {
    pub(crate) fn new<C: Calls>(calls: &C, totals: &[u64], kept: &[u32], order: Order) -> Self {
        let mut slot = vec![LEFT_OUT; calls.len()];
        let mut has_children = vec![false; calls.len()];
        for (index, &node) in kept.iter().enumerate() {
            slot[node as usize] = index as u32;
        }
        let mut first = vec![0; kept.len() + 1];
        for node in 1..calls.len() {
            let parent = calls.parent(node);
            has_children[parent] = true;
            if slot[node] != LEFT_OUT {
                first[slot[parent] as usize + 1] += 1;
            }
        }
        for index in 1..first.len() {
            first[index] += first[index - 1];
        }
        let mut next = first.clone();
        let mut children = vec![Child::default(); kept.len() - 1];
        for (index, &node) in kept.iter().enumerate().skip(1) {
            let place = &mut next[slot[calls.parent(node as usize)] as usize];
            children[*place as usize] = Child { node, slot: index as u32, gap: 0 };
            *place += 1;
        }
        let mut families = Self { first, children };

        let compare = |a: u32, b: u32| match order {
            Order::AsGiven => a.cmp(&b),
            Order::ByName => compare_lines(calls, totals, &has_children, a as usize, b as usize),
        };
        for family in 0..kept.len() {
            let range = families.range(family as u32);
            families.children[range].sort_unstable_by(|a, b| compare(a.node, b.node));
        }
        // Frames that were left out still take up their width.
        for node in 1..calls.len() {
            let parent = slot[calls.parent(node)];
            if slot[node] != LEFT_OUT || parent == LEFT_OUT {
                continue;
            }
            let siblings = &mut families.children[first_range(&families.first, parent)];
            let right = siblings.partition_point(|child| compare(child.node, node as u32).is_lt());
            if let Some(right) = siblings.get_mut(right) {
                right.gap = right.gap.saturating_add(totals[node]);
            }
        }
        families
    }

    fn range(&self, slot: u32) -> std::ops::Range<usize> {
        first_range(&self.first, slot)
    }

    pub(crate) fn children(&self, slot: u32) -> &[Child] {
        &self.children[self.range(slot)]
    }
}

fn first_range(first: &[u32], slot: u32) -> std::ops::Range<usize> {
    first[slot as usize] as usize..first[slot as usize + 1] as usize
}

/// Compares two siblings by the folded lines that begin with them.
fn compare_lines(
    calls: &impl Calls,
    totals: &[u64],
    has_children: &[bool],
    a: usize,
    b: usize,
) -> Ordering {
    let (x, y) = (calls.name(a).as_bytes(), calls.name(b).as_bytes());
    let common = x.len().min(y.len());
    // Fast path: the names nearly always differ.
    x[..common].cmp(&y[..common]).then_with(|| {
        let line = |node: usize, name: &[u8]| {
            let mut rest = name[common..].to_vec();
            if has_children[node] {
                rest.push(b';');
            } else {
                rest.extend(format!(" {}", totals[node]).bytes());
            }
            rest
        };
        line(a, x).cmp(&line(b, y)).then(a.cmp(&b))
    })
}

#[cfg(test)]
mod tests;
