//! The files of this crate and who uses whom: a circle of many files can only be understood, and changed, as a whole.
//!
//! A file uses another one if it names it, or something that the other one hands on from it, in a path. Tests are not
//! looked at, nor is `lib.rs`, which hands on everything.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use regex::Regex;

/// The files of the largest circle that is allowed.
const LARGEST: usize = 3;

/// `["read", "text"]` is `read/text.rs`; `lib.rs` is the empty path.
type Module = Vec<String>;

/// The paths in each module's code, with what it hands on by `pub use`.
#[derive(Default)]
struct Sources {
    paths: BTreeMap<Module, BTreeSet<Module>>,
    exports: BTreeMap<Module, Module>,
}

impl Sources {
    fn read(folder: &Path) -> Self {
        let mut texts = BTreeMap::new();
        read_folder(folder, &Module::new(), &mut texts);
        let modules: BTreeSet<Module> = texts.keys().cloned().collect();
        let mut sources = Self::default();
        for (module, text) in texts {
            let mut paths = BTreeSet::new();
            for (is_export, path) in paths_of(&text) {
                let Some(path) = absolute(&module, &path, &modules) else { continue };
                if is_export && let Some(name) = path.last() {
                    let exported = [&module[..], std::slice::from_ref(name)].concat();
                    sources.exports.insert(exported, path.clone());
                }
                paths.insert(path);
            }
            sources.paths.insert(module, paths);
        }
        sources
    }

    /// The module that a path leads to, through what others hand on.
    fn module_of(&self, path: &[String]) -> Module {
        let mut path = path.to_vec();
        // No chain of exports is longer.
        for _ in 0..10 {
            let length = (0..=path.len()).rev().find(|&at| self.paths.contains_key(&path[..at]));
            let module = path[..length.unwrap_or(0)].to_vec();
            let Some(name) = path.get(module.len()) else { return module };
            let exported = [&module[..], std::slice::from_ref(name)].concat();
            let Some(target) = self.exports.get(&exported) else { return module };
            path = [&target[..], &path[exported.len()..]].concat();
        }
        path
    }

    fn uses(&self) -> BTreeMap<Module, BTreeSet<Module>> {
        let of = |(module, paths): (&Module, &BTreeSet<Module>)| {
            let used = paths.iter().map(|path| self.module_of(path));
            let used = used.filter(|used| !used.is_empty() && used != module).collect();
            (module.clone(), used)
        };
        self.paths.iter().filter(|(module, _)| !module.is_empty()).map(of).collect()
    }
}

/// The code of each module, without comments and tests.
fn read_folder(folder: &Path, module: &Module, texts: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        let name = |name: &str| [&module[..], &[name.to_owned()]].concat();
        if path.is_dir() {
            read_folder(&path, &name(stem), texts);
        } else if stem != "tests" {
            let text = fs::read_to_string(&path).expect("source text");
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
            let module = if stem == "lib" { Module::new() } else { name(stem) };
            texts.insert(module, lines.collect::<Vec<_>>().join("\n"));
        }
    }
}

/// The paths in a text, and whether they are exported.
fn paths_of(text: &str) -> Vec<(bool, Module)> {
    let uses = Regex::new(r"(?m)^[ \t]*(pub(?:\([a-z]+\))? )?use ([^;]+);").expect("a pattern");
    let in_code = Regex::new(r"\b[a-z_][a-z0-9_]*(::\w+)+").expect("a pattern");
    let mut paths = Vec::new();
    for of in uses.captures_iter(text) {
        let mut expanded = Vec::new();
        expand("", &of[2].replace(['\n', ' '], ""), &mut expanded);
        let split = |path: String| path.split("::").map(str::to_owned).collect();
        paths.extend(expanded.into_iter().map(|path| (of.get(1).is_some(), split(path))));
    }
    let code = uses.replace_all(text, "");
    let split = |path: regex::Match<'_>| path.as_str().split("::").map(str::to_owned).collect();
    paths.extend(in_code.find_iter(&code).map(|path| (false, split(path))));
    paths
}

/// `a::{b, c::{d}}` is `a::b` and `a::c::d`.
fn expand(before: &str, tree: &str, paths: &mut Vec<String>) {
    let Some((head, inner)) = tree.split_once('{') else {
        return paths.push(format!("{before}{tree}"));
    };
    let inner = inner.strip_suffix('}').unwrap_or(inner);
    let (mut depth, mut start) = (0, 0);
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if at > start {
                    expand(&format!("{before}{head}"), &inner[start..at], paths);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// A path from the crate's root on; `None` if it leads out of the crate.
fn absolute(module: &[String], path: &[String], modules: &BTreeSet<Module>) -> Option<Module> {
    let ups = path.iter().take_while(|part| *part == "super").count();
    if ups > 0 {
        return Some([&module[..module.len().checked_sub(ups)?], &path[ups..]].concat());
    }
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([module, &path[1..]].concat()),
        child => {
            let is_child = modules.contains(&[module, &[child.to_owned()]].concat());
            is_child.then(|| [module, path].concat())
        }
    }
}

/// All that a module uses, itself or by others.
fn reach<'a>(
    from: &'a Module,
    uses: &'a BTreeMap<Module, BTreeSet<Module>>,
) -> BTreeSet<&'a Module> {
    let (mut found, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        next.extend(uses.get(module).into_iter().flatten().filter(|used| found.insert(*used)));
    }
    found
}

#[test]
fn no_circle_of_files_is_large() {
    let sources = Sources::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let uses = sources.uses();
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        uses.keys().map(|module| (module, reach(module, &uses))).collect();
    let table = &reached[&vec!["read".to_owned()]];
    assert!(table.len() > 70, "the table of readers uses them all, and not only {}", table.len());
    for (module, used) in &reached {
        let circle: Vec<String> = used
            .iter()
            .filter(|other| reached.get(**other).is_some_and(|used| used.contains(module)))
            .map(|module| module.join("/"))
            .collect();
        assert!(circle.len() <= LARGEST, "a circle of {}: {circle:?}", circle.len());
    }
}

#[test]
fn paths_are_found_in_code() {
    let text = "use super::{a::{B, c}, d};\npub use e::F;\nfn g() { h::i(crate::j::K) }\n";
    let found = paths_of(text);
    let found: Vec<(bool, String)> =
        found.into_iter().map(|(is_export, path)| (is_export, path.join("::"))).collect();
    let expect = [
        (false, "super::a::B"),
        (false, "super::a::c"),
        (false, "super::d"),
        (true, "e::F"),
        (false, "h::i"),
        (false, "crate::j::K"),
    ];
    assert_eq!(found, expect.map(|(is_export, path)| (is_export, path.to_owned())));
}
