//! The call tree as text shows it: node after node, the heaviest first, light ones left out.

use std::cmp::Reverse;

use pyrograph_profile::{FrameKind, LabelOptions, Profile, Tree};

use crate::calls::{self, Calls};

/// Which way a call tree grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From the root of stacks: below each function stands what it calls.
    #[default]
    Callees,
    /// From the leaves: below each function, with its own value, stand those that call it.
    Callers,
}

/// What to keep of a call tree.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallTreeOptions {
    /// The value type.
    pub column: usize,
    /// Which way it grows.
    pub direction: Direction,
    /// Nodes below this share of the whole (see [`Profile::whole`]) are left out and counted.
    pub min_share: f64,
    /// How many levels are kept; all if there is no number.
    pub depth: Option<u32>,
}

/// A call tree.
#[derive(Clone, Debug, Default)]
pub struct CallTree {
    /// Which way it grows.
    pub direction: Direction,
    /// Each node before those below it; siblings by value, the highest first, then by name.
    pub nodes: Vec<CallNode>,
    /// What was left out beside the nodes of the first level.
    pub left_out: LeftOut,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallNode {
    /// The label.
    pub name: String,
    /// What holds the code; empty if not known.
    pub module: String,
    /// What sort of code it is.
    pub kind: FrameKind,
    /// The level, from 0.
    pub depth: u32,
    /// The value of the samples that end in this very node; among callers, of those whose stack
    /// begins with it.
    pub self_value: u64,
    /// The value of the samples that end in this node or below it.
    pub total: u64,
    /// How many nodes are kept right below it.
    pub children: u32,
    /// What was left out right below it.
    pub left_out: LeftOut,
}

/// Nodes that were left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// How many; those below them are not counted.
    pub count: u64,
    /// The sum of their values. Saturated.
    pub value: u64,
}

/// The call tree of a profile.
///
/// # Panics
///
/// When there is no such column.
pub fn call_tree(profile: &Profile, labels: &LabelOptions, options: &CallTreeOptions) -> CallTree {
    let tree = Tree::new(profile, labels);
    match options.direction {
        Direction::Callees => grow(profile, &tree, options),
        Direction::Callers => grow(profile, &calls::reversed(&tree), options),
    }
}

fn grow<C: Calls>(profile: &Profile, calls: &C, options: &CallTreeOptions) -> CallTree {
    let totals = calls.total_values(options.column);
    let own = calls.self_values(options.column);
    let least = options.min_share.max(0.0) * profile.whole(options.column) as f64;
    let deepest = options.depth.unwrap_or(u32::MAX);
    let mut children: Vec<Vec<u32>> = vec![Vec::new(); calls.len()];
    let mut left_out = vec![LeftOut::default(); calls.len()];
    let mut depth = vec![0u32; calls.len()];
    // Parents come before their children, whose values are not higher.
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
        // The last is taken first.
        below.sort_by_key(|&child| {
            let child = child as usize;
            (totals[child], Reverse(calls.name(child)))
        });
        steps.extend_from_slice(below);
        if node == 0 {
            continue;
        }
        let module = calls.frame(node).map(|id| profile.frames.get(id).module);
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

#[cfg(test)]
mod tests {
    use pyrograph_profile::{Sample, ValueType};

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
    fn a_share_is_one_of_the_whole() {
        let mut profile = profile(STACKS);
        profile.unfiltered = vec![2000];
        let options = CallTreeOptions { min_share: 0.005, ..CallTreeOptions::default() };
        let tree = call_tree(&profile, &LabelOptions::default(), &options);
        assert_eq!(tree.nodes.len(), 2);
        assert_eq!(tree.left_out, LeftOut::default());
    }
}
