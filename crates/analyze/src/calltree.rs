//! Call tree for text output: nodes in depth-first order, heaviest first, with light nodes left out.

use std::cmp::Reverse;

use pyrograph_profile::{FrameKind, LabelOptions, NodeId, Profile, Tree};

use crate::calls::Calls;

/// Direction of a call tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From the roots of stacks: below each function are its callees.
    #[default]
    Callees,
    /// From the leaves of stacks: below each function, with its self value, are its callers.
    Callers,
}

/// Options of a call tree.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallTreeOptions {
    /// Column of the value type.
    pub column: usize,
    /// Direction of the tree.
    pub direction: Direction,
    /// Nodes below this share of the whole (see [`Profile::whole`]) are left out and counted.
    pub min_share: f64,
    /// Maximum number of levels; unlimited if `None`.
    pub depth: Option<u32>,
}

/// A call tree.
#[derive(Clone, Debug, Default)]
pub struct CallTree {
    /// Direction of the tree.
    pub direction: Direction,
    /// Nodes in depth-first order, parents first; siblings by value, highest first, then by name.
    pub nodes: Vec<CallNode>,
    /// Nodes left out at the first level.
    pub left_out: LeftOut,
}

/// A node of a call tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallNode {
    /// Label of the function.
    pub name: String,
    /// Module that contains the code; empty if unknown.
    pub module: String,
    /// Kind of code.
    pub kind: FrameKind,
    /// Level, starting at 0.
    pub depth: u32,
    /// Value of the samples that end in this node; in a tree of callers, of the samples whose stack begins with it.
    pub self_value: u64,
    /// Value of the samples that end in this node or below it.
    pub total: u64,
    /// Number of kept child nodes.
    pub children: u32,
    /// Child nodes that were left out.
    pub left_out: LeftOut,
}

/// Nodes that were left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Number of nodes, not counting their descendants.
    pub count: u64,
    /// Sum of their values, saturated.
    pub value: u64,
}

/// Builds the call tree of a profile.
///
/// # Panics
///
/// Panics if there is no such column.
pub fn call_tree(profile: &Profile, labels: &LabelOptions, options: &CallTreeOptions) -> CallTree {
    let tree = Tree::new(profile, labels);
    match options.direction {
        Direction::Callees => callees(profile, &tree, options),
        Direction::Callers => Callers::new(profile, &tree, options).grow(),
    }
}

fn callees<C: Calls>(profile: &Profile, calls: &C, options: &CallTreeOptions) -> CallTree {
    let totals = calls.total_values(options.column);
    let own = calls.self_values(options.column);
    let least = options.min_share.max(0.0) * profile.whole(options.column) as f64;
    let deepest = options.depth.unwrap_or(u32::MAX);
    let mut children: Vec<Vec<u32>> = vec![Vec::new(); calls.len()];
    let mut left_out = vec![LeftOut::default(); calls.len()];
    let mut depth = vec![0u32; calls.len()];
    // Parents come before their children, and a child's value is never above its parent's.
    for node in 1..calls.len() {
        let parent = calls.parent(node);
        depth[node] = depth[parent].saturating_add(1);
        if totals[node] > 0 && totals[node] as f64 >= least && depth[node] <= deepest {
            children[parent].push(node as u32);
        } else if totals[node] > 0 {
            left_out[parent].count += 1;
            left_out[parent].value = left_out[parent].value.saturating_add(totals[node]);
        }
    }

    let mut grown =
        CallTree { direction: options.direction, nodes: Vec::new(), left_out: left_out[0] };
    let mut steps = vec![0u32];
    while let Some(step) = steps.pop() {
        let node = step as usize;
        let below = &mut children[node];
        // Ascending, because the last element is popped first.
        below.sort_by_key(|&child| {
            let child = child as usize;
            (totals[child], Reverse(calls.name(child)))
        });
        steps.extend_from_slice(below);
        if node == 0 {
            continue;
        }
        let module = calls.modules(node).first().copied();
        grown.nodes.push(CallNode {
            name: calls.name(node).to_owned(),
            module: module.map_or("", |id| profile.strings.get(id)).to_owned(),
            kind: calls.kind(node),
            depth: depth[node] - 1,
            self_value: own[node],
            total: totals[node],
            children: below.len() as u32,
            left_out: left_out[node],
        });
    }
    grown
}

/// Builder of a tree of callers that creates only the nodes to keep. The full tree would have a node for nearly every
/// frame of every stack.
///
/// The samples of a node are a contiguous range of `ends`. To find the node's callers, each entry is moved to its
/// caller, and the range is sorted by name; each group of equal names is a child node.
struct Callers<'a> {
    profile: &'a Profile,
    tree: &'a Tree,
    options: &'a CallTreeOptions,
    least: f64,
    ends: Vec<End>,
}

/// Samples that end in one node of the top-down tree.
#[derive(Clone, Copy)]
struct End {
    /// The node that the samples end in.
    leaf: u32,
    /// The ancestor of `leaf` that has been reached; 0 beyond the outermost frame.
    at: u32,
    value: u64,
}

/// A node to be expanded: the range of its samples in `ends`, whose `at` is the node's function.
struct Branch {
    first: usize,
    end: usize,
    depth: u32,
    total: u64,
}

impl<'a> Callers<'a> {
    fn new(profile: &'a Profile, tree: &'a Tree, options: &'a CallTreeOptions) -> Self {
        let own = tree.self_values(options.column);
        let end = |leaf: NodeId| End { leaf: leaf.0, at: leaf.0, value: own[leaf.index()] };
        let ends = tree.nodes().map(end).filter(|end| end.value > 0).collect();
        let least = options.min_share.max(0.0) * profile.whole(options.column) as f64;
        Self { profile, tree, options, least, ends }
    }

    fn grow(mut self) -> CallTree {
        let direction = Direction::Callers;
        let mut grown = CallTree { direction, ..CallTree::default() };
        let mut branches = Vec::new();
        (_, grown.left_out) = self.branch(0, self.ends.len(), 0, &mut branches);
        while let Some(Branch { first, end, depth, total }) = branches.pop() {
            // Name, kind and module come from the first occurrence of the function in the tree.
            let seen = self.ends[first..end].iter().min_by_key(|end| end.leaf);
            let function = seen.map_or(NodeId::ROOT, |end| NodeId(end.at));
            let mut outermost = first;
            let mut self_value = 0u64;
            for at in first..end {
                let caller = self.tree.parent(NodeId(self.ends[at].at));
                self.ends[at].at = caller.0;
                if caller == NodeId::ROOT {
                    self_value = self_value.saturating_add(self.ends[at].value);
                    self.ends.swap(at, outermost);
                    outermost += 1;
                }
            }
            let (children, left_out) = self.branch(outermost, end, depth + 1, &mut branches);
            let module = self.tree.frame(function).map(|id| self.profile.frames.get(id).module);
            grown.nodes.push(CallNode {
                name: self.tree.name(function).to_owned(),
                module: module.map_or("", |id| self.profile.strings.get(id)).to_owned(),
                kind: self.tree.kind(function),
                depth,
                self_value,
                total,
                children,
                left_out,
            });
        }
        grown
    }

    /// Sorts a range by the functions of its samples, and appends a branch for each function to keep, heaviest last.
    /// Returns the number of kept functions, and what was left out.
    fn branch(
        &mut self,
        first: usize,
        end: usize,
        depth: u32,
        branches: &mut Vec<Branch>,
    ) -> (u32, LeftOut) {
        let tree = self.tree;
        let name = |end: &End| tree.name_id(NodeId(end.at));
        self.ends[first..end].sort_unstable_by_key(|end| (name(end), end.leaf));
        let deepest = self.options.depth.unwrap_or(u32::MAX);
        let (mut at, kept_from) = (first, branches.len());
        let mut left_out = LeftOut::default();
        for part in self.ends[first..end].chunk_by(|a, b| name(a) == name(b)) {
            let total = part.iter().fold(0u64, |sum, end| sum.saturating_add(end.value));
            if depth < deepest && total as f64 >= self.least {
                branches.push(Branch { first: at, end: at + part.len(), depth, total });
            } else {
                left_out.count += 1;
                left_out.value = left_out.value.saturating_add(total);
            }
            at += part.len();
        }
        let ends = &self.ends;
        let kept = &mut branches[kept_from..];
        kept.sort_by_key(|of| (of.total, Reverse(tree.name(NodeId(ends[of.first].at)))));
        (kept.len() as u32, left_out)
    }
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{Sample, ValueType};
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    const STACKS: &[(&str, u64)] =
        &[("main;a;c", 5), ("main;b;c", 3), ("main;b", 1), ("main;d", 1), ("idle", 10)];

    fn profile(stacks: &[(&str, u64)]) -> Profile {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        for (path, value) in stacks {
            let stack = profile.stack_of_names(path.split(';'));
            profile.push(Sample::new(stack), &[*value]);
        }
        profile
    }

    /// Two blanks a level, name, total, own value; what was left out as `…`, count and value.
    fn check(options: &CallTreeOptions, expect: &[&str]) {
        let tree = call_tree(&profile(STACKS), &LabelOptions::default(), options);
        let mut lines = Vec::new();
        for node in &tree.nodes {
            let indent = "  ".repeat(node.depth as usize);
            let left_out = match node.left_out {
                LeftOut { count: 0, value: 0 } => String::new(),
                LeftOut { count, value } => format!(" … {count} {value}"),
            };
            let CallNode { name, total, self_value, .. } = node;
            lines.push(format!("{indent}{name} {total} {self_value}{left_out}"));
        }
        assert_eq!(lines, expect);
        for (index, node) in tree.nodes.iter().enumerate() {
            let below = tree.nodes[index + 1..].iter().take_while(|of| of.depth > node.depth);
            let children = below.filter(|of| of.depth == node.depth + 1).count();
            assert_eq!(node.children as usize, children, "{}", node.name);
        }
    }

    #[test]
    fn from_the_root() {
        let lines = ["idle 10 10", "main 10 0", "  a 5 0", "    c 5 5", "  b 4 1", "    c 3 3"];
        let all = [&lines[..], &["  d 1 1"]].concat();
        check(&CallTreeOptions::default(), &all);
        let options = CallTreeOptions { min_share: 0.15, ..CallTreeOptions::default() };
        let mut without = lines;
        without[1] = "main 10 0 … 1 1";
        check(&options, &without);
        let options = CallTreeOptions { depth: Some(1), ..CallTreeOptions::default() };
        check(&options, &["idle 10 10", "main 10 0 … 3 10"]);
    }

    #[test]
    fn from_the_leaves() {
        let options =
            CallTreeOptions { direction: Direction::Callers, ..CallTreeOptions::default() };
        let expect = [
            "idle 10 10",
            "c 8 0",
            "  a 5 0",
            "    main 5 5",
            "  b 3 0",
            "    main 3 3",
            "b 1 0",
            "  main 1 1",
            "d 1 0",
            "  main 1 1",
        ];
        check(&options, &expect);
    }

    #[test]
    fn what_calls_is_left_out_where_it_is_light_or_deep() {
        let callers = CallTreeOptions { direction: Direction::Callers, ..Default::default() };
        check(
            &CallTreeOptions { min_share: 0.2, ..callers },
            &["idle 10 10", "c 8 0 … 1 3", "  a 5 0", "    main 5 5"],
        );
        let lines = ["idle 10 10", "c 8 0", "  a 5 0 … 1 5", "  b 3 0 … 1 3"];
        let all = [&lines[..], &["b 1 0", "  main 1 1", "d 1 0", "  main 1 1"]].concat();
        check(&CallTreeOptions { depth: Some(2), ..callers }, &all);
        let tree = call_tree(
            &profile(STACKS),
            &LabelOptions::default(),
            &CallTreeOptions { min_share: 0.2, ..callers },
        );
        assert_eq!(tree.left_out, LeftOut { count: 2, value: 2 });
    }

    /// It is the tree of the reversed stacks, which flame graphs draw, without what is left out.
    #[test]
    fn callers_are_those_of_the_reversed_stacks() {
        let mut generator = StdRng::seed_from_u64(1);
        let mut next = |below: u64| generator.random_range(0..below);
        for _ in 0..50 {
            let stacks: Vec<(String, u64)> = (0..next(40) + 1)
                .map(|_| {
                    let names = (0..next(8) + 1).map(|_| format!("f{}", next(4)));
                    (names.collect::<Vec<_>>().join(";"), next(20))
                })
                .collect();
            let stacks: Vec<(&str, u64)> = stacks.iter().map(|(s, v)| (&s[..], *v)).collect();
            let profile = profile(&stacks);
            let tree = Tree::new(&profile, &LabelOptions::default());
            for (min_share, depth) in [(0.0, None), (0.03, None), (0.0, Some(2)), (0.1, Some(3))] {
                let direction = Direction::Callers;
                let options = CallTreeOptions { direction, min_share, depth, column: 0 };
                let whole = callees(&profile, &crate::calls::reversed(&tree), &options);
                let pruned = Callers::new(&profile, &tree, &options).grow();
                assert_eq!(pruned.nodes, whole.nodes, "{stacks:?}");
                assert_eq!(pruned.left_out, whole.left_out);
            }
        }
    }

    #[test]
    fn a_share_is_one_of_the_whole() {
        let mut profile = profile(STACKS);
        profile.unfiltered = vec![2000];
        let options = CallTreeOptions { min_share: 0.005, ..CallTreeOptions::default() };
        let tree = call_tree(&profile, &LabelOptions::default(), &options);
        assert_eq!(tree.nodes.len(), 2);
        assert_eq!(tree.left_out, LeftOut::default());
    }
}
