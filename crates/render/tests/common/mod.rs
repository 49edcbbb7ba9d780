//! Common parts of the tests: profiles from folded lines, and pictures of them.

use pyrograph_analyze::{FlameGraph, FlameOptions, flame};
use pyrograph_profile::{LabelOptions, Profile, Sample, Tree, ValueType};
use pyrograph_render::{SvgOptions, svg};

/// Folded lines, one or two counts each, as a profile.
pub fn profile(lines: &str, columns: usize) -> Profile {
    let mut profile = Profile::new(vec![ValueType::samples(); columns]);
    for line in lines.lines() {
        let mut words: Vec<&str> = line.rsplitn(columns + 1, ' ').collect();
        let stack = words.pop().expect("a stack");
        let values: Vec<u64> = words.iter().rev().map(|n| n.parse().expect("a count")).collect();
        let stack = profile.stack_of_names(stack.split(';'));
        profile.push(Sample::new(stack), &values);
    }
    profile
}

/// The graph of folded lines with one count, or of the change between two.
pub fn graph(lines: &str, columns: usize, options: &SvgOptions) -> FlameGraph {
    let profile = profile(lines, columns);
    let tree = Tree::new(&profile, &LabelOptions::default());
    let options = FlameOptions {
        column: columns - 1,
        baseline: (columns == 2).then_some(0),
        min_share: options.min_width.share(options.frames_width()),
        ..FlameOptions::default()
    };
    flame(&profile, &tree, &options).expect("something to draw")
}

/// The picture of a graph.
pub fn picture(graph: &FlameGraph, options: &SvgOptions) -> String {
    let mut out = Vec::new();
    svg(graph, options, &mut out).expect("writing to memory does not fail");
    String::from_utf8(out).expect("pictures are UTF-8")
}
