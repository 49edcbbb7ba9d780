//! Folded text of two sides by whole lines, checked against the same by trees.

use std::path::PathBuf;

use pyrograph_analyze::{Run, to_total_after, two_columns};
use pyrograph_format::{FoldedColumns, Input, Options, demangled, read, write_folded};
use pyrograph_profile::{LabelOptions, Tree};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn by_trees(sides: &[Vec<u8>; 2], normalize: bool) -> String {
    let sides = sides.each_ref().map(|text| {
        let input = Input::bytes("x", text.as_slice());
        let (profile, _) = read(vec![input], &Options::default()).expect("folded text");
        let profile = demangled(profile);
        let tree = Tree::new(&profile, &LabelOptions::default());
        (profile, tree)
    });
    let [before, after] = sides.each_ref().map(|(profile, tree)| Run { profile, tree, column: 0 });
    let profile = two_columns(&[before], &[after], normalize, false).expect("both count the same");
    let mut out = Vec::new();
    write_folded(&Tree::new(&profile, &LabelOptions::default()), &mut out).expect("to memory");
    String::from_utf8(out).expect("UTF-8")
}

/// Compares lines with trees. False where lines do not apply.
fn is_plain(sides: &[Vec<u8>; 2], normalize: bool) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = ["a", "b"].map(|name| vec![folder.path().join(name)]);
    for (text, path) in sides.iter().zip(&paths) {
        std::fs::write(&path[0], text).expect("a temporary file");
    }
    let [before, after]: [Vec<PathBuf>; 2] = paths;
    let Some(mut stacks) = FoldedColumns::of_files(&before, &after) else { return false };
    if normalize {
        stacks.map_before(to_total_after(stacks.totals(), 0));
    }
    let mut out = Vec::new();
    stacks.write(&mut out).expect("to memory");
    let out = String::from_utf8(out).expect("UTF-8");
    let inputs = sides.each_ref().map(|side| side.escape_ascii().to_string());
    assert_eq!(out, by_trees(sides, normalize), "{inputs:?}");
    true
}

#[test]
fn lines_give_what_trees_give() {
    let mut generator = StdRng::seed_from_u64(11);
    let mut random = |below: usize| generator.random_range(0..below);
    // The first are plain, the others seldom come.
    let names = [
        "a",
        "b",
        "a b",
        "a 1",
        "é",
        "a.b",
        "f(int, char)",
        "[unknown]",
        "#x",
        "x_[k]",
        "::head",
        "_x",
        "_Z",
        "_ZN3foo3barEv",
        "p::h0123456789abcdef",
        "",
        " a",
        "a ",
        "a\t",
        "\u{1}",
    ];
    let counts = ["1", "2", "7", "0", "30", "1.5", "", "x", "18446744073709551615", "1 "];
    let mut plain = 0;
    for round in 0..1500 {
        let (odd_names, odd_counts) = (random(12) == 0, random(12) == 0);
        let mut sides = [(); 2].map(|()| b"main;a 3\n".to_vec());
        for text in &mut sides {
            for _ in 0..random(12) {
                let known = if odd_names { names.len() } else { 12 };
                let path: Vec<&str> = (0..=random(3)).map(|_| names[random(known)]).collect();
                let known = if odd_counts { counts.len() } else { 5 };
                let end = if random(200) == 0 { "\r\n" } else { "\n" };
                let line = format!("{} {}{end}", path.join(";"), counts[random(known)]);
                text.extend_from_slice(line.as_bytes());
            }
            if random(50) == 0 {
                text.extend_from_slice(b"\xff;b 1\n");
            }
        }
        plain += usize::from(is_plain(&sides, round % 3 == 0));
    }
    assert!((500..1400).contains(&plain), "{plain} of 1,500 were plain");
}
