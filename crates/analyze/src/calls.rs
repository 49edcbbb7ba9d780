//! Call trees that flame graphs are laid out from: folded, reversed (leaf first), or in sample order.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use pyrograph_profile::{
    Frame, FrameKind, Labels, NodeId, Profile, StackId, StringId, Strings, Tree, ValueType,
};

/// A call tree, as far as the layout needs it. Node 0 is the root; a parent's number is below those of its children.
pub(crate) trait Calls {
    fn len(&self) -> usize;
    fn parent(&self, node: usize) -> usize;
    fn name(&self, node: usize) -> &str;
    /// ID of the node's name; equal for equal names, in a table that depends on the tree.
    fn name_id(&self, node: usize) -> StringId;
    fn kind(&self, node: usize) -> FrameKind;
    /// Modules of the node's frames, as far as they are known, as strings of the profile.
    fn modules(&self, node: usize) -> Vec<StringId>;
    /// Self value of each node: the sum over the samples that end in it.
    fn self_values(&self, column: usize) -> &[u64];
    fn value_types(&self) -> &[ValueType];

    /// Value of the samples whose frame in this node was found by a guess, not from a table.
    fn guessed(&self, _column: usize, _node: usize) -> u64 {
        0
    }

    /// Sum of a column's values before the node's first sample, if the tree is in sample order.
    fn start(&self, _column: usize, _node: usize) -> Option<u64> {
        None
    }

    /// Total value of each node: the sum over the samples that end in it or below it, saturated.
    fn total_values(&self, column: usize) -> Vec<u64> {
        let mut totals = self.self_values(column).to_vec();
        for node in (1..totals.len()).rev() {
            let parent = self.parent(node);
            totals[parent] = totals[parent].saturating_add(totals[node]);
        }
        totals
    }
}

impl Calls for Tree {
    fn len(&self) -> usize {
        self.len()
    }

    fn parent(&self, node: usize) -> usize {
        self.parent(NodeId::from_index(node)).index()
    }

    fn name(&self, node: usize) -> &str {
        self.name(NodeId::from_index(node))
    }

    fn name_id(&self, node: usize) -> StringId {
        self.name_id(NodeId::from_index(node))
    }

    fn kind(&self, node: usize) -> FrameKind {
        self.kind(NodeId::from_index(node))
    }

    fn modules(&self, node: usize) -> Vec<StringId> {
        self.modules(NodeId::from_index(node)).collect()
    }

    fn self_values(&self, column: usize) -> &[u64] {
        self.self_values(column)
    }

    fn value_types(&self) -> &[ValueType] {
        &self.value_types
    }

    fn guessed(&self, column: usize, node: usize) -> u64 {
        self.guessed_value(column, NodeId::from_index(node))
    }
}

/// A newly built call tree over the labels of a [`Tree`] or profile.
pub(crate) struct Regrown<'a> {
    names: &'a Strings,
    value_types: &'a [ValueType],
    parent: Vec<u32>,
    label: Vec<Label>,
    /// Additional modules of nodes that have several.
    modules: BTreeMap<u32, Vec<StringId>>,
    values: Vec<Vec<u64>>,
    /// Starts by node, then by column; empty if the tree is not in sample order.
    starts: Vec<Vec<u64>>,
}

/// Label of a node.
#[derive(Clone, Copy, Default)]
struct Label {
    name: StringId,
    kind: FrameKind,
    module: StringId,
}

impl<'a> Regrown<'a> {
    fn new(names: &'a Strings, value_types: &'a [ValueType]) -> Self {
        let values = vec![vec![0]; value_types.len()];
        let (parent, label) = (vec![0], vec![Label::default()]);
        let (modules, starts) = (BTreeMap::new(), Vec::new());
        Self { names, value_types, parent, label, modules, values, starts }
    }

    fn push(&mut self, parent: u32, label: Label) -> u32 {
        let node = NodeId::from_index(self.parent.len()).0;
        self.parent.push(parent);
        self.label.push(label);
        for column in &mut self.values {
            column.push(0);
        }
        node
    }

    fn add_modules(&mut self, node: u32, modules: impl Iterator<Item = StringId>) {
        let first = self.label[node as usize].module;
        for module in modules.filter(|&module| module != first) {
            let others = self.modules.entry(node).or_default();
            if !others.contains(&module) {
                others.push(module);
            }
        }
    }

    fn add(&mut self, column: usize, node: u32, value: u64) {
        let sum = &mut self.values[column][node as usize];
        *sum = sum.saturating_add(value);
    }
}

impl Calls for Regrown<'_> {
    fn len(&self) -> usize {
        self.parent.len()
    }

    fn parent(&self, node: usize) -> usize {
        self.parent[node] as usize
    }

    fn name(&self, node: usize) -> &str {
        self.names.get(self.label[node].name)
    }

    fn name_id(&self, node: usize) -> StringId {
        self.label[node].name
    }

    fn kind(&self, node: usize) -> FrameKind {
        self.label[node].kind
    }

    fn modules(&self, node: usize) -> Vec<StringId> {
        let first = Some(self.label[node].module).filter(|module| !module.is_empty());
        let others = self.modules.get(&(node as u32)).into_iter().flatten().copied();
        first.into_iter().chain(others).collect()
    }

    fn self_values(&self, column: usize) -> &[u64] {
        &self.values[column]
    }

    fn value_types(&self) -> &[ValueType] {
        self.value_types
    }

    fn start(&self, column: usize, node: usize) -> Option<u64> {
        self.starts.get(node).map(|starts| starts[column])
    }
}

/// Builds the reversed tree (leaf first): below each function are its callers.
pub(crate) fn reversed(tree: &Tree) -> Regrown<'_> {
    let columns = tree.value_types.len();
    let mut calls = Regrown::new(&tree.names, &tree.value_types);
    let mut index: HashTable<u32> = HashTable::new();
    let hasher = FixedState::with_seed(0);
    for leaf in std::iter::once(NodeId::ROOT).chain(tree.nodes()) {
        if (0..columns).all(|column| tree.self_values(column)[leaf.index()] == 0) {
            continue;
        }
        let (mut at, mut node) = (leaf, 0);
        while at != NodeId::ROOT {
            let key = (node, tree.name_id(at));
            let key_of = |&n: &u32| (calls.parent[n as usize], calls.label[n as usize].name);
            let found = index.find(hasher.hash_one(key), |n| key_of(n) == key).copied();
            node = found.unwrap_or_else(|| {
                let module = tree.modules(at).next().unwrap_or_default();
                let label = Label { name: key.1, kind: tree.kind(at), module };
                let child = calls.push(node, label);
                let key_of = |&n: &u32| (calls.parent[n as usize], calls.label[n as usize].name);
                index.insert_unique(hasher.hash_one(key), child, |n| hasher.hash_one(key_of(n)));
                child
            });
            calls.add_modules(node, tree.modules(at));
            at = tree.parent(at);
        }
        for column in 0..columns {
            calls.add(column, node, tree.self_values(column)[leaf.index()]);
        }
    }
    calls
}

/// Builds a tree in sample order, in which consecutive samples share their common outer frames.
pub(crate) fn in_order<'a>(profile: &'a Profile, labels: &'a Labels) -> Regrown<'a> {
    let mut calls = Regrown::new(&labels.names, &profile.value_types);
    let columns = profile.value_types.len();
    let mut sums = vec![0u64; columns];
    calls.starts.push(sums.clone());
    let mut before: Vec<(StringId, u32)> = Vec::new();
    let mut path: Vec<Label> = Vec::new();
    for (row, sample) in profile.samples.iter().enumerate() {
        stack_labels(profile, labels, sample.stack, &mut path);
        let root = labels.threads[sample.thread.index()];
        if !root.is_empty() {
            path.push(Label { name: root, kind: FrameKind::User, module: StringId::EMPTY });
        }
        path.reverse();
        let same =
            before.iter().zip(&path).take_while(|(before, label)| before.0 == label.name).count();
        before.truncate(same);
        for (&(_, node), label) in before.iter().zip(&path) {
            let known = Some(label.module).filter(|module| !module.is_empty());
            calls.add_modules(node, known.into_iter());
        }
        for &label in &path[same..] {
            let parent = before.last().map_or(0, |&(_, node)| node);
            before.push((label.name, calls.push(parent, label)));
            calls.starts.push(sums.clone());
        }
        let node = before.last().map_or(0, |&(_, node)| node);
        for (column, sum) in sums.iter_mut().enumerate() {
            let value = profile.samples.values(column)[row];
            calls.add(column, node, value);
            *sum = sum.saturating_add(value);
        }
    }
    calls
}

/// Collects the labels of a stack's frames, leaf first.
fn stack_labels(profile: &Profile, labels: &Labels, stack: StackId, path: &mut Vec<Label>) {
    path.clear();
    path.extend(profile.stacks.leaf_first(stack).map(|id| {
        let Frame { kind, module, .. } = profile.frames.get(id);
        Label { name: labels.frames[id.index()], kind, module }
    }));
}
