//! Profiles as folded text, for tests.

use pyrograph_profile::{LabelOptions, NodeId, Profile, Tree};

/// The stacks of a profile with their values, sorted.
pub(crate) fn folded(profile: &Profile) -> Vec<String> {
    let tree = Tree::new(profile, &LabelOptions::default());
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
