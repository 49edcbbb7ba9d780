//! Whole pictures, byte for byte. After a change that is meant, look at the new ones and keep them:
//!
//! ```text
//! PYROGRAPH_BLESS=1 cargo test -p pyrograph-render
//! ```

use std::path::Path;

use pyrograph_analyze::{Alike, DiffOptions, Run, diff};
use pyrograph_profile::{
    Frame, FrameKind, LabelOptions, Marker, Profile, Sample, StringId, Thread, Tree, ValueType,
};
use pyrograph_render::{
    ChangeColors, DiffStyle, Palette, Rule, SvgOptions, View, diff_svg, svg_message,
};

const LINES: &str = "\
app;main;std::vec::Vec::push 4
app;main;parse;read;vfs_read_[k] 20
app;main;parse;read;vfs_read_[k];ext4_file_read_iter_[k] 30
app;main;parse;std::str::from_utf8_[i] 12
app;main;run (job.py:7) 9
app;[unknown] 3
app;main;parse 11";

fn check(name: &str, picture: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("PYROGRAPH_BLESS").is_some() {
        std::fs::write(&path, picture).expect("the golden directory can be written");
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let different = kept.lines().zip(picture.lines()).position(|(kept, new)| kept != new);
    assert!(
        kept == picture,
        "{} differs, first in line {:?}; if that is meant: PYROGRAPH_BLESS=1 cargo test -p pyrograph-render",
        path.display(),
        different.map(|line| line + 1)
    );
}

#[test]
fn a_small_graph() {
    let options = SvgOptions { title: "Parsing".into(), embed: true, ..Default::default() };
    check(
        "small.svg",
        &crate::common::picture(&crate::common::graph(LINES, 1, &options), &options),
    );
}

#[test]
fn a_small_graph_with_its_script() {
    let options = SvgOptions { subtitle: "one run".into(), ..Default::default() };
    check(
        "script.svg",
        &crate::common::picture(&crate::common::graph(LINES, 1, &options), &options),
    );
}

#[test]
fn an_icicle_in_established_colours_and_sizes() {
    let options = SvgOptions {
        width: Some(600.0),
        row_height: 16.0,
        font: "Verdana".into(),
        font_width: Some(0.59),
        palette: Palette::Even(Rule::Java),
        background: Some("yellow".parse().expect("a background")),
        inverted: true,
        embed: true,
        ..Default::default()
    };
    check(
        "icicle.svg",
        &crate::common::picture(&crate::common::graph(LINES, 1, &options), &options),
    );
}

#[test]
fn a_comparison() {
    let lines = "main;a 10 5\nmain;b 5 20\nmain;c 7 7\nmain;gone 3 0";
    let options = SvgOptions { embed: true, ..Default::default() };
    check(
        "comparison.svg",
        &crate::common::picture(&crate::common::graph(lines, 2, &options), &options),
    );
}

/// The sides of one comparison: what is new on the one is a box on the other.
#[test]
fn a_differential_flame_graph_of_both_sides() {
    let runs = [
        "main;parse;lex 2200\nmain;parse;read 4000\nmain;old_cache;lookup 900\nmain;render 5900",
        "main;parse;lex 2250\nmain;parse;read 5500\nmain;new_index 700\nmain;render 5920",
    ];
    let profiles = runs.map(|lines| crate::common::profile(lines, 1));
    let trees = profiles.each_ref().map(|of| Tree::new(of, &LabelOptions::default()));
    let run = |side: usize| [Run { profile: &profiles[side], tree: &trees[side], column: 0 }];
    let diff = diff(&run(0), &run(1), &Alike::default(), &DiffOptions::default())
        .expect("they can be compared");
    for (name, view, colors, width) in [
        ("difference.svg", View::After, ChangeColors::default(), None),
        ("difference-before.svg", View::Before, ChangeColors::OrangeBlue, Some(420.0)),
    ] {
        let options = SvgOptions {
            title: "Parsing".into(),
            subtitle: "before: a, after: b".into(),
            embed: true,
            width,
            ..Default::default()
        };
        let mut out = Vec::new();
        diff_svg(&diff.graph(0.0), &options, DiffStyle { colors, view }, &mut out)
            .expect("writing to memory does not fail");
        check(name, &String::from_utf8(out).expect("pictures are UTF-8"));
    }
}

#[test]
fn times_with_modules_and_a_cut_off_stack() {
    let mut profile = Profile::new(vec![ValueType::new("cpu", "ns")]);
    let mut frame = |name: &str, module: &str, kind| {
        let function = profile.strings.intern(name);
        let module = profile.strings.intern(module);
        profile.frames.intern(Frame { function, module, kind, ..Frame::default() })
    };
    let cut = frame("[truncated]", "", FrameKind::Marker(Marker::Truncated));
    let work = frame("work", "/usr/bin/app", FrameKind::User);
    let read = frame("ksys_read", "[kernel.kallsyms]", FrameKind::Kernel);
    let process = profile.strings.intern("app");
    let thread = profile.threads.intern(Thread { process, ..Thread::default() });
    for (path, value) in [(vec![cut, work], 1_200_000), (vec![work, read], 34_000_000)] {
        let stack = profile.stacks.intern_path(path);
        profile.push(Sample { thread, ..Sample::new(stack) }, &[value]);
    }
    assert_ne!(process, StringId::EMPTY);
    let tree = Tree::new(&profile, &LabelOptions::default());
    let graph = pyrograph_analyze::flame(&profile, &tree, &Default::default()).expect("a graph");
    let options = SvgOptions { embed: true, ..Default::default() };
    check("times.svg", &crate::common::picture(&graph, &options));
}

#[test]
fn nothing_to_draw() {
    let mut out = Vec::new();
    svg_message(
        "there is nothing to draw: the samples add up to 0",
        &SvgOptions::default(),
        &mut out,
    )
    .expect("writing to memory does not fail");
    check("nothing.svg", &String::from_utf8(out).expect("pictures are UTF-8"));
}
