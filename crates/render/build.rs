//! Joins the modules of the viewer's script, and makes them smaller.

#[path = "build/squeeze.rs"]
mod squeeze;

use std::path::Path;
use std::{env, fs};

/// The modules which need no page: they run in a worker, too.
const CORE: [&str; 7] = [
    "script/search.js",
    "view/1-decode.js",
    "view/2-tree.js",
    "view/3-values.js",
    "view/4-functions.js",
    "view/4-verdicts.js",
    "view/5-state.js",
];

/// Their functions that the page calls.
const CORE_NAMES: &str = "decode, steps, build, slice, bySecond, sums, layout, rowsOf, findHits, matcherOf, functions, neighbours, reversed, \
                          callersOf, verdicts, leads, partsOf, nodeOf, defaults, toHash, fromHash, commandLine, regexpOf, \
                          ignoresCase, reasonOf, withoutMark";

/// The modules of the page.
const PAGE: [&str; 8] = [
    "script/scale.js",
    "script/names.js",
    "script/unpack.js",
    "view/6-page.js",
    "view/7-flame.js",
    "view/8-timeline.js",
    "view/9-lists.js",
    "view/10-start.js",
];

fn main() {
    println!("cargo::rerun-if-changed=build");
    let read = |name: &&str| {
        let path = Path::new("src").join(name);
        println!("cargo::rerun-if-changed={}", path.display());
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let [core, page] = [&CORE[..], &PAGE[..]].map(|of| of.iter().map(read).collect::<String>());
    let script = format!(
        "(function(){{\n\"use strict\";\nfunction makeCore(){{\n{core}return {{ {CORE_NAMES} }};\n}}\n{page}}})();\n"
    );
    let out = env::var_os("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join("view.js"), squeeze::squeeze(&script))
        .expect("a folder of cargo's");
}
