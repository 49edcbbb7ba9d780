//! The folded projection of a profile: one label per frame, with equal paths merged.

use std::collections::BTreeMap;

use crate::children::{self, Children};
use crate::{
    FrameId, FrameKind, LabelOptions, Labels, Marker, NodeId, Profile, StackId, StringId, Strings,
    ValueType,
};

/// A profile as labelled paths with values: the content of folded text, as a tree.
///
/// A node represents all stacks that begin with its path. Nodes are numbered from 0, the root; a parent's number is
/// smaller than its children's. Siblings are not sorted: they are in the order in which they first occur in the profile.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The distinct labels.
    pub names: Strings,
    /// Types of the columns of values.
    pub value_types: Vec<ValueType>,
    parent: Vec<NodeId>,
    name: Vec<StringId>,
    /// First of the profile's frames at each node, or [`NO_FRAME`].
    frame: Vec<FrameId>,
    /// Kind of each of the profile's frames.
    kinds: Vec<FrameKind>,
    /// Module of each of the profile's frames.
    modules: Vec<StringId>,
    /// For a node whose frames are in several modules: the modules other than the first frame's.
    other_modules: BTreeMap<u32, Vec<StringId>>,
    /// For each value type and node: sum of the samples whose frame at the node was guessed. Empty if no frame was
    /// guessed.
    guessed: Vec<Vec<u64>>,
    /// For each value type and node: sum of the samples that end at the node.
    self_values: Vec<Vec<u64>>,
}

/// Value that means "no frame": at the root and at process nodes.
const NO_FRAME: FrameId = FrameId(u32::MAX);

impl Tree {
    /// Removes all columns of values except one. Does nothing if there is no such column.
    pub fn keep_column(&mut self, column: usize) {
        if column < self.value_types.len() {
            self.value_types = vec![self.value_types.swap_remove(column)];
            self.self_values = vec![self.self_values.swap_remove(column)];
            if !self.guessed.is_empty() {
                self.guessed = vec![self.guessed.swap_remove(column)];
            }
        }
    }

    /// Builds the tree of `profile`.
    pub fn new(profile: &Profile, options: &LabelOptions) -> Self {
        Builder::new(profile, options).build()
    }

    /// Number of nodes, including the root.
    pub fn len(&self) -> usize {
        self.parent.len()
    }

    /// Returns true if there are no nodes except the root.
    pub fn is_empty(&self) -> bool {
        self.parent.len() == 1
    }

    /// Iterates over all nodes except the root, parents before children.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (1..self.parent.len()).map(NodeId::from_index)
    }

    /// The node's parent, its caller. The root is its own parent.
    pub fn parent(&self, node: NodeId) -> NodeId {
        self.parent[node.index()]
    }

    /// Label of the node; empty for the root.
    pub fn name(&self, node: NodeId) -> &str {
        self.names.get(self.name_id(node))
    }

    /// Label of the node, as a string of [`Tree::names`].
    pub fn name_id(&self, node: NodeId) -> StringId {
        self.name[node.index()]
    }

    /// Kind of the node's first frame.
    pub fn kind(&self, node: NodeId) -> FrameKind {
        match self.frame(node) {
            Some(frame) => self.kinds[frame.index()],
            None if node == NodeId::ROOT => FrameKind::Marker(Marker::Remark),
            None => FrameKind::User,
        }
    }

    /// First of the profile's frames at this node, for its module and source; `None` for the root and for processes.
    pub fn frame(&self, node: NodeId) -> Option<FrameId> {
        Some(self.frame[node.index()]).filter(|&frame| frame != NO_FRAME)
    }

    /// Iterates over the known modules of the profile's frames at this node, as strings of the profile.
    pub fn modules(&self, node: NodeId) -> impl Iterator<Item = StringId> + '_ {
        let first = self.frame(node).map(|frame| self.modules[frame.index()]);
        let others = self.other_modules.get(&node.0).into_iter().flatten().copied();
        first.into_iter().filter(|module| !module.is_empty()).chain(others)
    }

    /// Self values: for each node, the sum of the samples that end there. The sums saturate.
    pub fn self_values(&self, column: usize) -> &[u64] {
        &self.self_values[column]
    }

    /// Total values: for each node, the sum of the samples that end there or at a descendant. The sums saturate.
    pub fn total_values(&self, column: usize) -> Vec<u64> {
        let mut totals = self.self_values[column].clone();
        for node in self.nodes().rev() {
            let parent = self.parent(node).index();
            totals[parent] = totals[parent].saturating_add(totals[node.index()]);
        }
        totals
    }

    /// Sum of the samples whose frame at this node was found by a guess ([`Frame::guessed`](crate::Frame::guessed)).
    pub fn guessed_value(&self, column: usize, node: NodeId) -> u64 {
        self.guessed.get(column).map_or(0, |values| values[node.index()])
    }

    /// Sum of a column. Saturates.
    pub fn total(&self, column: usize) -> u64 {
        self.self_values[column].iter().fold(0, |sum, &value| sum.saturating_add(value))
    }

    /// Adds the module of another frame at this node.
    fn add_module(&mut self, node: NodeId, frame: FrameId) {
        if frame == NO_FRAME || self.frame[node.index()] == frame {
            return;
        }
        let module = self.modules[frame.index()];
        if !module.is_empty() && self.modules(node).all(|known| known != module) {
            self.other_modules.entry(node.0).or_default().push(module);
        }
    }

    /// Iterates over the labels on the node's path, leaf first.
    pub fn path(&self, node: NodeId) -> impl Iterator<Item = &str> {
        let mut at = node;
        std::iter::from_fn(move || {
            (at != NodeId::ROOT).then(|| {
                let name = self.name(at);
                at = self.parent(at);
                name
            })
        })
    }
}

/// Builds a tree from a profile.
struct Builder<'a> {
    profile: &'a Profile,
    /// Label of each frame.
    labels: Vec<StringId>,
    /// Label of each thread.
    roots: Vec<StringId>,
    /// By label: true if several frames have it.
    is_shared: Vec<bool>,
    /// By node: true if the node represents a single stack. Its children need no lookup then, except those whose label
    /// several frames share.
    is_alone: Vec<bool>,
    /// Stacks without a node, on the path up to a stack that has one.
    missing: Vec<(StackId, FrameId)>,
    children: Children,
    tree: Tree,
}

impl<'a> Builder<'a> {
    fn new(profile: &'a Profile, options: &LabelOptions) -> Self {
        let Labels { names, frames: labels, threads: roots } = Labels::new(profile, options);
        let columns = profile.samples.columns();
        let has_guesses = profile.frames.iter().any(|frame| frame.guessed);
        let mut is_known = vec![false; names.len()];
        let mut is_shared = is_known.clone();
        for label in &labels {
            is_shared[label.index()] |= std::mem::replace(&mut is_known[label.index()], true);
        }
        let tree = Tree {
            names,
            value_types: profile.value_types.clone(),
            parent: vec![NodeId::ROOT],
            name: vec![StringId::EMPTY],
            frame: vec![NO_FRAME],
            kinds: profile.frames.iter().map(|frame| frame.kind).collect(),
            modules: profile.frames.iter().map(|frame| frame.module).collect(),
            other_modules: BTreeMap::new(),
            guessed: vec![vec![0]; if has_guesses { columns } else { 0 }],
            self_values: vec![vec![0]; columns],
        };
        let (is_alone, children) = (vec![false], Children::default());
        let missing = Vec::new();
        Self { profile, labels, roots, is_shared, is_alone, missing, children, tree }
    }

    fn build(mut self) -> Tree {
        let profile = self.profile;
        if self.is_whole() {
            return self.take_stacks();
        }
        let roots = std::mem::take(&mut self.roots);
        let mut distinct = roots.clone();
        distinct.sort_unstable();
        distinct.dedup();

        // Handles one root label after the other, so that a single table from stacks to nodes is enough.
        let mut nodes = NodeOfStack::new(profile.stacks.len());
        let mut rows_of: Vec<Vec<usize>> = vec![Vec::new(); distinct.len()];
        for (row, sample) in profile.samples.iter().enumerate() {
            let label = roots[sample.thread.index()];
            let place = distinct.binary_search(&label).unwrap_or_default();
            rows_of[place].push(row);
        }
        let families = distinct.into_iter().zip(rows_of).filter(|(_, rows)| !rows.is_empty());
        let families: Vec<_> = families.collect();
        // Stacks without a root label are added to the root, among the other root labels.
        let is_alone = families.len() == 1 || families.iter().all(|(label, _)| !label.is_empty());
        for (label, rows) in families {
            nodes.clear();
            let root = if label.is_empty() {
                NodeId::ROOT
            } else {
                self.child(NodeId::ROOT, label, NO_FRAME)
            };
            nodes.set(StackId::ROOT, root);
            self.is_alone[root.index()] = is_alone;
            for row in rows {
                let node = self.node(profile.samples.get(row).stack, &mut nodes);
                self.count(row, node);
            }
        }
        self.tree
    }

    /// Adds a sample to the node at which its stack ends, and to the nodes of its guessed frames.
    fn count(&mut self, row: usize, node: NodeId) {
        let profile = self.profile;
        let values = |column| profile.samples.values(column)[row];
        for (column, sums) in self.tree.self_values.iter_mut().enumerate() {
            let sum = &mut sums[node.index()];
            *sum = sum.saturating_add(values(column));
        }
        if self.tree.guessed.is_empty() {
            return;
        }
        let mut at = node;
        for frame in profile.stacks.leaf_first(profile.samples.get(row).stack) {
            if profile.frames.get(frame).guessed {
                for (column, sums) in self.tree.guessed.iter_mut().enumerate() {
                    let sum = &mut sums[at.index()];
                    *sum = sum.saturating_add(values(column));
                }
            }
            at = self.tree.parent(at);
        }
    }

    /// Returns true if the tree of stacks can be used as it is: there are no process labels, and no two frames have the
    /// same label. This holds for folded text.
    fn is_whole(&self) -> bool {
        !self.is_shared.contains(&true) && self.roots.iter().all(|label| label.is_empty())
    }

    fn take_stacks(mut self) -> Tree {
        let (profile, tree) = (self.profile, &mut self.tree);
        let stacks = profile.stacks.rows();
        tree.parent.extend(stacks.clone().map(|(parent, _)| NodeId(parent.0)));
        tree.name.extend(stacks.clone().map(|(_, frame)| self.labels[frame.index()]));
        tree.frame.extend(stacks.map(|(_, frame)| frame));
        for sums in tree.self_values.iter_mut().chain(&mut tree.guessed) {
            sums.resize(tree.parent.len(), 0);
        }
        for (row, sample) in profile.samples.iter().enumerate() {
            self.count(row, NodeId(sample.stack.0));
        }
        self.tree
    }

    /// Returns the node of a stack, which is added if it is new. `nodes` contains the nodes found so far.
    fn node(&mut self, stack: StackId, nodes: &mut NodeOfStack) -> NodeId {
        let stacks = &self.profile.stacks;
        let mut at = stack;
        let mut node = loop {
            if let Some(node) = nodes.get(at) {
                break node;
            }
            let Some((parent, frame)) = stacks.get(at) else { break NodeId::ROOT };
            self.missing.push((at, frame));
            at = parent;
        };
        while let Some((stack, frame)) = self.missing.pop() {
            node = self.child(node, self.labels[frame.index()], frame);
            nodes.set(stack, node);
        }
        node
    }

    fn child(&mut self, parent: NodeId, name: StringId, frame: FrameId) -> NodeId {
        let node = NodeId::from_index(self.tree.parent.len());
        let is_alone = self.is_alone[parent.index()] && !self.is_shared[name.index()];
        if !is_alone {
            let tree = &self.tree;
            let is_it = |known: u32| {
                (tree.parent[known as usize], tree.name[known as usize]) == (parent, name)
            };
            let hash = || children::hash(parent.0, name.0);
            if let Some(known) = self.children.find_or_add(parent.0, node.0, hash, is_it) {
                self.tree.add_module(NodeId(known), frame);
                return NodeId(known);
            }
        }
        self.is_alone.push(is_alone);
        self.tree.parent.push(parent);
        self.tree.name.push(name);
        self.tree.frame.push(frame);
        for column in self.tree.self_values.iter_mut().chain(&mut self.tree.guessed) {
            column.push(0);
        }
        node
    }
}

/// Node of each stack under the current root label. Clearing takes constant time: a row is valid only if it was written
/// in the current round.
struct NodeOfStack {
    rows: Vec<(u32, NodeId)>,
    round: u32,
}

impl NodeOfStack {
    fn new(stacks: usize) -> Self {
        Self { rows: vec![(0, NodeId::ROOT); stacks], round: 0 }
    }

    fn clear(&mut self) {
        self.round += 1;
    }

    fn get(&self, stack: StackId) -> Option<NodeId> {
        let (round, node) = self.rows[stack.index()];
        (round == self.round).then_some(node)
    }

    fn set(&mut self, stack: StackId, node: NodeId) {
        self.rows[stack.index()] = (self.round, node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Frame, ProcessLabel, Sample, Thread};

    fn folded(profile: &Profile, options: &LabelOptions) -> Vec<String> {
        let tree = Tree::new(profile, options);
        let mut lines: Vec<String> = std::iter::once(NodeId::ROOT)
            .chain(tree.nodes())
            .filter(|node| tree.self_values(0)[node.index()] > 0)
            .map(|node| {
                let mut path: Vec<&str> = tree.path(node).collect();
                path.reverse();
                format!("{} {}", path.join(";"), tree.self_values(0)[node.index()])
            })
            .collect();
        lines.sort();
        lines
    }

    fn two_processes() -> Profile {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        let (app, main, read) = (
            profile.strings.intern("app"),
            profile.strings.intern("main"),
            profile.strings.intern("read"),
        );
        let module = profile.strings.intern("/usr/lib/libx.so");
        let main = profile.frames.intern(Frame::named(main, FrameKind::User));
        let read = profile.frames.intern(Frame::named(read, FrameKind::Kernel));
        let bare = profile.frames.intern(Frame { module, address: 0x10, ..Frame::default() });
        let reading = profile.stacks.intern_path([main, read]);
        let unknown = profile.stacks.intern_path([main, bare]);
        for pid in [1, 2] {
            let thread =
                Thread { pid: Some(pid), tid: Some(pid + 10), process: app, ..Thread::default() };
            let thread = profile.threads.intern(thread);
            profile.push(Sample { thread, ..Sample::new(reading) }, &[2]);
            profile.push(Sample { thread, ..Sample::new(unknown) }, &[3]);
        }
        profile
    }

    #[test]
    fn processes_of_one_name_are_merged_or_told_apart() {
        let profile = two_processes();
        let by_name = folded(&profile, &LabelOptions::default());
        assert_eq!(by_name, ["app;main;libx.so+0x10 6", "app;main;read 4"]);
        let options =
            LabelOptions { process: ProcessLabel::PidTid, mark_kernel: true, ..Default::default() };
        assert_eq!(
            folded(&profile, &options),
            [
                "app-1/11;main;libx.so+0x10 3",
                "app-1/11;main;read_[k] 2",
                "app-2/12;main;libx.so+0x10 3",
                "app-2/12;main;read_[k] 2",
            ]
        );
        let options = LabelOptions { process: ProcessLabel::None, ..Default::default() };
        assert_eq!(folded(&profile, &options), ["main;libx.so+0x10 6", "main;read 4"]);
    }

    #[test]
    fn guesses_are_added_up_by_node_and_do_not_split_it() {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        let [main, work] = ["main", "work"].map(|name| profile.strings.intern(name));
        let sure = [main, work].map(|name| Frame::named(name, FrameKind::User));
        let [main, work] = sure.map(|frame| profile.frames.intern(frame));
        let guessed = Frame { guessed: true, ..sure[0] };
        let guessed = profile.frames.intern(guessed);
        for (path, value) in [(vec![main, work], 3), (vec![guessed, work], 2), (vec![guessed], 1)] {
            let stack = profile.stacks.intern_path(path);
            profile.push(Sample::new(stack), &[value]);
        }
        let tree = Tree::new(&profile, &LabelOptions::default());
        let values: Vec<_> = tree
            .nodes()
            .map(|node| {
                (tree.name(node), tree.total_values(0)[node.index()], tree.guessed_value(0, node))
            })
            .collect();
        assert_eq!(values, [("main", 6, 3), ("work", 5, 0)]);
        let marked = LabelOptions { mark_guessed: true, ..LabelOptions::default() };
        assert_eq!(folded(&profile, &marked), ["main;work 3", "main_[g] 1", "main_[g];work 2"]);
    }

    #[test]
    fn a_name_in_several_modules_has_all_of_them() {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        let main = profile.strings.intern("main");
        for module in ["", "/bin/a", "/bin/b", "/bin/a"] {
            let module = profile.strings.intern(module);
            let frame = Frame { module, ..Frame::named(main, FrameKind::User) };
            let frame = profile.frames.intern(frame);
            let stack = profile.stacks.intern_path([frame]);
            profile.push(Sample::new(stack), &[1]);
        }
        let tree = Tree::new(&profile, &LabelOptions::default());
        let node = tree.nodes().next().expect("main");
        let modules: Vec<&str> = tree.modules(node).map(|of| profile.strings.get(of)).collect();
        assert_eq!((tree.len(), &modules[..]), (2, &["/bin/a", "/bin/b"][..]));
    }

    #[test]
    fn totals_are_those_of_the_children_and_the_node_itself() {
        let tree = Tree::new(&two_processes(), &LabelOptions::default());
        let totals = tree.total_values(0);
        assert_eq!(totals[NodeId::ROOT.index()], 10);
        let main = tree.nodes().find(|&node| tree.name(node) == "main").expect("main is there");
        assert_eq!(totals[main.index()], 10);
    }
}
