//! Two folded texts compared by whole lines: where lines apply, they give what trees give.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrograph_analyze::{Run, two_columns};
use pyrograph_format::{FoldedColumns, Input, Options, read, write_folded};
use pyrograph_profile::{LabelOptions, Tree};

/// By whole lines; `None` where they do not apply.
fn by_lines(sides: [&[u8]; 2]) -> Option<Vec<u8>> {
    let folder = std::env::temp_dir();
    // Lines are of regular files.
    let paths = [0, 1].map(|side| folder.join(format!("pyrograph-columns-{}-{side}", std::process::id())));
    for (path, text) in paths.iter().zip(sides) {
        std::fs::write(path, text).expect("a temporary file");
    }
    let columns = FoldedColumns::of_files(&paths[..1], &paths[1..])?;
    let mut out = Vec::new();
    columns.write(&mut out).expect("to memory");
    Some(out)
}

fn by_trees(sides: [&[u8]; 2]) -> Vec<u8> {
    let sides = sides.map(|text| {
        let (profile, _) = read(vec![Input::bytes("x", text)], &Options::default()).expect("folded text");
        let tree = Tree::new(&profile, &LabelOptions::default());
        (profile, tree)
    });
    let [before, after] = sides.each_ref().map(|(profile, tree)| Run { profile, tree, column: 0 });
    let columns = two_columns(&[before], &[after], false, false).expect("both count the same");
    let mut out = Vec::new();
    write_folded(&Tree::new(&columns, &LabelOptions::default()), &mut out).expect("to memory");
    out
}

fuzz_target!(|bytes: &[u8]| {
    // The first zero byte divides the two.
    let at = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let sides = [&bytes[..at], bytes.get(at + 1..).unwrap_or_default()];
    if let Some(lines) = by_lines(sides) {
        assert_eq!(lines.escape_ascii().to_string(), by_trees(sides).escape_ascii().to_string());
    }
});
