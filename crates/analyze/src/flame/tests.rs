use pyrograph_profile::Sample;

use super::*;

/// Folded lines, one or two counts each, as a profile.
fn profile(lines: &str) -> Profile {
    let columns = lines.lines().next().map_or(1, |line| {
        line.split(' ').rev().take_while(|word| word.parse::<u64>().is_ok()).count()
    });
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

/// `depth name start+value`, a frame a line.
fn show(graph: &FlameGraph) -> String {
    graph
        .frames
        .iter()
        .map(|f| format!("{} {} {}+{}\n", f.depth, graph.names.get(f.name), f.start, f.value))
        .collect()
}

fn check(lines: &str, options: &FlameOptions, expect: &str) {
    let profile = profile(lines);
    let tree = Tree::new(&profile, &LabelOptions::default());
    let graph = flame(&profile, &tree, options).expect("something to draw");
    assert_eq!(show(&graph), expect, "{lines}");
}

#[test]
fn siblings_are_sorted_by_name_and_children_stand_on_their_parents() {
    check(
        "b;z 1\nb;y 2\na 3",
        &FlameOptions::default(),
        "0  0+6\n1 a 0+3\n1 b 3+3\n2 y 3+2\n2 z 5+1\n",
    );
}

#[test]
fn siblings_are_sorted_as_whole_lines() {
    // As sorted lines: `foo (x) 1`, `foo 3`, `foo::bar 2`; with callees `foo::bar 2`, `foo;a 3`.
    check(
        "foo 3\nfoo (x) 1\nfoo::bar 2",
        &FlameOptions::default(),
        "0  0+6\n1 foo (x) 0+1\n1 foo 1+3\n1 foo::bar 4+2\n",
    );
    check(
        "foo;a 3\nfoo::bar 2",
        &FlameOptions::default(),
        "0  0+5\n1 foo::bar 0+2\n1 foo 2+3\n2 a 2+3\n",
    );
}

#[test]
fn the_samples_that_end_in_a_function_stand_left_of_its_callees() {
    check("a;b 2\na 3", &FlameOptions::default(), "0  0+5\n1 a 0+5\n2 b 3+2\n");
}

#[test]
fn in_a_chart_they_stand_where_they_came() {
    let profile = profile("a 1\na;b 2\na 3\na;c 4");
    let graph =
        flame_chart(&profile, &LabelOptions::default(), &FlameOptions::default()).expect("a graph");
    assert_eq!(show(&graph), "0  0+10\n1 a 0+10\n2 b 1+2\n2 c 6+4\n");
}

#[test]
fn narrow_frames_are_left_out_counted_and_keep_their_place() {
    let options = FlameOptions { min_share: 0.1, ..Default::default() };
    let lines = "a;x 1\nb 50\nc 1\nd 48\ne 2";
    check(lines, &options, "0  0+102\n1 b 1+50\n1 d 52+48\n");
    let profile = profile(lines);
    let tree = Tree::new(&profile, &LabelOptions::default());
    let graph = flame(&profile, &tree, &options).expect("something to draw");
    assert_eq!((graph.narrow, graph.narrow_below, graph.rows), (4, 11, 2));
}

#[test]
fn a_larger_total_leaves_room_and_a_smaller_one_is_ignored() {
    let wide = FlameOptions { total: Some(30.0), ..Default::default() };
    check("a 3", &wide, "0  0+30\n1 a 0+3\n");
    let small = FlameOptions { total: Some(1.0), ..Default::default() };
    check("a 3", &small, "0  0+3\n1 a 0+3\n");
}

#[test]
fn reversed_stacks_start_at_the_leaves() {
    let profile = profile("main;a;read 1\nmain;b;read 2\nmain 4");
    let tree = Tree::new(&profile, &LabelOptions::default());
    let graph = flame_reversed(&profile, &tree, &FlameOptions::default()).expect("a graph");
    assert_eq!(
        show(&graph),
        "0  0+7\n1 main 0+4\n1 read 4+3\n2 a 4+1\n2 b 5+2\n3 main 4+1\n3 main 5+2\n"
    );
}

#[test]
fn a_chart_keeps_the_order_and_merges_neighbours_only() {
    let profile = profile("a;b 1\na;c 2\nz 3\na;b 4\na;b 5");
    let graph =
        flame_chart(&profile, &LabelOptions::default(), &FlameOptions::default()).expect("a graph");
    assert_eq!(show(&graph), "0  0+15\n1 a 0+3\n1 z 3+3\n1 a 6+9\n2 b 0+1\n2 c 1+2\n2 b 6+9\n");
}

#[test]
fn a_comparison_takes_its_widths_from_the_second_column() {
    let profile = profile("a;b 10 1\na;c 2 20\nz 3 3");
    let tree = Tree::new(&profile, &LabelOptions::default());
    let options = FlameOptions { column: 1, baseline: Some(0), ..Default::default() };
    let graph = flame(&profile, &tree, &options).expect("a graph");
    assert_eq!(show(&graph), "0  0+24\n1 a 0+21\n1 z 21+3\n2 b 0+1\n2 c 1+20\n");
    assert_eq!(graph.comparison, Some(Comparison { total: 15, largest: 18 }));
    let changes: Vec<i64> = graph.frames.iter().map(|f| f.self_change).collect();
    assert_eq!(changes, [0, 0, 0, -9, 18]);
    let before: Vec<u64> = graph.frames.iter().map(|f| f.before).collect();
    assert_eq!(before, [15, 12, 3, 10, 2]);
}

#[test]
fn nothing_to_draw_is_an_error_that_says_so() {
    let profile = profile("a 0");
    let tree = Tree::new(&profile, &LabelOptions::default());
    let error = flame(&profile, &tree, &FlameOptions::default()).expect_err("no value");
    assert_eq!(error.to_string(), "there is nothing to draw: the samples add up to 0");
    let options = FlameOptions { column: 1, ..Default::default() };
    let error = flame(&profile, &tree, &options).expect_err("no second column");
    assert_eq!(error, FlameError::NoSuchColumn(1, 1));
}

#[test]
fn sums_beyond_64_bits_saturate() {
    let profile = profile(&format!("a {0}\nb {0}\nc;d {0}", u64::MAX));
    let tree = Tree::new(&profile, &LabelOptions::default());
    let graph = flame(&profile, &tree, &FlameOptions::default()).expect("a graph");
    assert_eq!(graph.total, u64::MAX);
}
