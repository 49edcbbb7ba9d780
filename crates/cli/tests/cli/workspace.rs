//! Rules of the workspace as a whole: which crate may use which, under which licences, and how large circles of files are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The crates and which of ours each may use, as in ARCHITECTURE.md. `cli` may use all.
const MAY_USE: &[(&str, &[&str])] = &[
    ("profile", &[]),
    ("annotate", &["analyze", "disassemble", "elf", "profile", "symbol"]),
    ("disassemble", &[]),
    ("cache", &[]),
    ("bpf", &["cache", "elf", "event", "probe", "syscall", "unwind"]),
    ("elf", &[]),
    ("event", &["syscall"]),
    ("go", &[]),
    ("memory", &[]),
    ("names", &[]),
    ("syscall", &[]),
    ("terminal", &["memory"]),
    ("unwind", &["elf", "go"]),
    ("symbol", &["cache", "elf", "go"]),
    ("probe", &["elf", "symbol"]),
    ("language", &["elf", "event"]),
    ("resolve", &["elf", "event", "language", "unwind", "symbol", "profile"]),
    ("record", &["event", "syscall"]),
    (
        "session",
        &[
            "bpf",
            "cache",
            "elf",
            "event",
            "perf-data",
            "probe",
            "profile",
            "record",
            "resolve",
            "symbol",
            "syscall",
            "unwind",
        ],
    ),
    ("perf-data", &["event", "profile", "resolve", "symbol"]),
    ("store", &["profile"]),
    ("format", &["names", "perf-data", "profile", "store", "symbol", "syscall"]),
    ("analyze", &["names", "profile"]),
    ("render", &["analyze", "names", "profile"]),
    ("export", &["analyze", "format", "profile", "render", "terminal"]),
    ("tui", &["analyze", "profile", "render", "terminal"]),
];

/// Licences that ask no more than attribution, as `cargo deny` has them. An expression passes if one of its alternatives
/// consists of these alone.
fn is_allowed(licence: &str) -> bool {
    let list = include_str!("../../../../deny.toml").split_once("allow = [").expect("a list").1;
    let list = list.split_once(']').expect("an end of the list").0;
    list.split('"').skip(1).step_by(2).any(|allowed| allowed == licence)
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo prints JSON")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn crates_use_only_what_the_architecture_allows() {
    let metadata = metadata();
    let mut seen = 0;
    for package in list(&metadata, "packages") {
        let Some(name) = text(package, "name").strip_prefix("pyrograph-") else { continue };
        let (_, allowed) = MAY_USE
            .iter()
            .find(|(crate_name, _)| *crate_name == name)
            .unwrap_or_else(|| panic!("crate {name} is not in the table"));
        seen += 1;
        for dependency in list(package, "dependencies") {
            // A test may compare with anything.
            if text(dependency, "kind") == "dev" {
                continue;
            }
            if let Some(used) = text(dependency, "name").strip_prefix("pyrograph-") {
                assert_ne!(
                    text(dependency, "req"),
                    "*",
                    "{name} can be published: {used} has a version"
                );
                assert!(allowed.contains(&used), "{name} must not use {used}");
            }
        }
    }
    assert_eq!(seen, MAY_USE.len(), "every crate of the table is in the workspace");
}

#[test]
fn licences_ask_no_more_than_attribution() {
    let metadata = metadata();
    let packages = list(&metadata, "packages");
    assert!(packages.len() > 10);
    for package in packages {
        let licence = text(package, "license");
        assert!(permissive(licence), "{}: licence '{licence}'", text(package, "id"));
    }
}

/// Returns true if an SPDX expression leaves a choice of permissive licences alone. Reads the flat forms
/// that packages use: alternatives of conjunctions, or conjunctions of bracketed alternatives.
fn permissive(expression: &str) -> bool {
    let expression = expression.trim();
    let all_of = |text: &str| text.split(" AND ").all(|one| is_allowed(one.trim()));
    let any_of = |text: &str| text.replace('/', " OR ").split(" OR ").any(|one| all_of(one.trim()));
    if expression.contains('(') {
        expression.split(" AND ").all(|part| any_of(part.trim_matches(['(', ')', ' '])))
    } else {
        any_of(expression)
    }
}

#[test]
fn licence_expressions() {
    for yes in ["MIT", "MIT OR Apache-2.0", "MIT/Apache-2.0", "GPL-2.0 OR MIT", "MIT AND ISC"] {
        assert!(permissive(yes), "{yes}");
    }
    assert!(permissive("(MIT OR Apache-2.0) AND Unicode-3.0"));
    for no in ["", "GPL-2.0", "MIT AND GPL-3.0", "(MIT OR Apache-2.0) AND MPL-2.0"] {
        assert!(!permissive(no), "{no}");
    }
}

/// Largest circle of files in each crate's sources, by what they import of each other; of 1 for all others.
const CIRCLES: &[(&str, usize)] = &[
    ("analyze", 2),
    ("annotate", 3),
    ("bpf", 2),
    ("cli", 2),
    ("event", 3),
    ("format", 2),
    ("go", 2),
    ("language", 8),
    ("perf-data", 2),
    ("profile", 4),
    ("record", 2),
    ("render", 5),
    ("resolve", 2),
    ("session", 3),
    ("symbol", 12),
    ("syscall", 5),
    ("unwind", 10),
];

#[test]
fn circles_of_files_do_not_grow() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of the crates");
    let mut found = Vec::new();
    for folder in std::fs::read_dir(crates).expect("crates").flatten() {
        let name = folder.file_name().to_string_lossy().into_owned();
        let files = Files::read(&folder.path().join("src"));
        let largest = files.circles().into_iter().max_by_key(Vec::len).unwrap_or_default();
        let largest: Vec<String> = largest.into_iter().map(str::to_owned).collect();
        if largest.len() > 1 {
            found.push((name, largest));
        }
    }
    found.sort();
    let sizes: Vec<(&str, usize)> =
        found.iter().map(|(name, circle)| (&name[..], circle.len())).collect();
    assert_eq!(sizes, CIRCLES, "{found:#?}");
}

/// All files in a folder and in those below it.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files
}

/// The files of a crate as modules: `a::b`, with the source of each, without tests.
struct Files(BTreeMap<String, String>);

impl Files {
    fn read(source: &Path) -> Self {
        let mut files = BTreeMap::new();
        for path in files_below(source) {
            let is_test = path.components().any(|part| part.as_os_str() == "tests")
                || path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("tests"));
            if is_test || path.extension().is_none_or(|ending| ending != "rs") {
                continue;
            }
            let name = path.strip_prefix(source).expect("below it").with_extension("");
            let name = name.to_string_lossy().replace('/', "::");
            let text = std::fs::read_to_string(&path).expect("a source");
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let is_code = |line: &&str| !line.trim_start().starts_with("//");
            let text: Vec<&str> = text.lines().filter(is_code).collect();
            files.insert(name, text.join("\n"));
        }
        Self(files)
    }

    /// The modules that a module names by `crate::`, `self::` or `super::`; an item that the root re-exports counts for its module.
    fn imports(&self, module: &str) -> BTreeSet<&str> {
        let text = &self.0[module];
        let mut found = BTreeSet::new();
        for (at, _) in text.match_indices("::") {
            let before = &text[..at];
            let start = before.rfind(|c: char| !is_of_name(c)).map_or(0, |at| at + 1);
            let here = match (&before[start..], before[..start].ends_with(':')) {
                ("crate", false) => String::new(),
                ("self", false) => module.to_owned(),
                ("super", false) => parent_of(module).to_owned(),
                _ => continue,
            };
            for path in paths(&text[at + 2..]) {
                found.extend(self.module_of(&here, &path).filter(|of| *of != module));
            }
        }
        found
    }

    fn module_of(&self, here: &str, path: &str) -> Option<&str> {
        let mut here = here.to_owned();
        let mut path = path;
        while let Some(rest) = path.strip_prefix("super::") {
            (here, path) = (parent_of(&here).to_owned(), rest);
        }
        let full = if here.is_empty() { path.to_owned() } else { format!("{here}::{path}") };
        let mut name = &full[..];
        loop {
            if let Some((known, _)) = self.0.get_key_value(name) {
                return Some(known);
            }
            match name.rsplit_once("::") {
                Some((above, _)) => name = above,
                None => return self.handed_on(name),
            }
        }
    }

    /// The module of an item that the root hands on: `pub use plan::{Engine, Plan};`.
    fn handed_on(&self, item: &str) -> Option<&str> {
        let root = self.0.get("lib")?;
        let line =
            root.split("pub use ").skip(1).map(|rest| rest.split(';').next().unwrap_or_default());
        let has_it =
            |line: &&str| line.split(|c: char| !is_of_name(c)).skip(1).any(|name| name == item);
        let module = line.into_iter().find(has_it)?.split("::").next()?;
        self.0.get_key_value(module).map(|(name, _)| &name[..])
    }

    /// Modules that lead to each other: each in one circle, with all that it can reach and that can reach it.
    fn circles(&self) -> Vec<Vec<&str>> {
        let of_root = |name: &&String| !matches!(&name[..], "lib" | "main");
        let names: Vec<&str> = self.0.keys().filter(of_root).map(String::as_str).collect();
        let imports: BTreeMap<&str, BTreeSet<&str>> =
            names.iter().map(|&name| (name, self.imports(name))).collect();
        let reach = |from: &str| {
            let mut seen = BTreeSet::new();
            let mut open: Vec<&str> = imports[from].iter().copied().collect();
            while let Some(name) = open.pop() {
                if imports.contains_key(name) && seen.insert(name) {
                    open.extend(&imports[name]);
                }
            }
            seen
        };
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            names.iter().map(|&name| (name, reach(name))).collect();
        let circle = |&name: &&str| {
            reached[name].iter().copied().filter(|other| reached[other].contains(name)).collect()
        };
        names.iter().map(circle).collect()
    }
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn parent_of(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(parent, _)| parent)
}

/// The paths at the beginning of a text: `a::{b, c::d}` is `a::b`, `a::c::d`.
fn paths(text: &str) -> Vec<String> {
    let end = text.find(|c: char| !is_of_name(c) && c != ':').unwrap_or(text.len());
    let start = text[..end].trim_end_matches(':');
    let Some(inside) = text[end..].strip_prefix('{') else { return vec![start.to_owned()] };
    let mut all = Vec::new();
    let (mut depth, mut from) = (0, 0);
    for (at, c) in inside.char_indices() {
        let is_end = depth == 0 && matches!(c, ',' | '}');
        if is_end {
            let part = inside[from..at].trim();
            all.extend(paths(part).into_iter().map(|path| format!("{}{path}", &text[..end])));
            from = at + 1;
        }
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            _ => {}
        }
    }
    all
}

/// Files that the ways through the code in ARCHITECTURE.md lead to are there.
#[test]
fn ways_through_the_code_lead_to_files() {
    let text = include_str!("../../../../ARCHITECTURE.md");
    let ways = text.split("## Four ways through the code").nth(1).expect("the chapter");
    let ways = ways.split("\n## ").next().expect("its end");
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of the crates");
    let all = files_below(crates);
    let all: Vec<_> = all.iter().map(|path| path.to_string_lossy()).collect();
    let mut seen = 0;
    for name in ways.split('`').skip(1).step_by(2) {
        let (start, ending) = name.rsplit_once('.').unwrap_or((name, ""));
        if !["rs", "js", "h", "c"].contains(&ending) || start.ends_with('*') {
            continue;
        }
        let is_there = all.iter().any(|path| path.ends_with(&format!("/{name}")));
        assert!(is_there, "{name} is nowhere");
        seen += 1;
    }
    assert!(seen > 30, "{seen} files");
}
