//! Rules of the workspace as a whole: which crate may use which, and under which licences.

use std::process::Command;

use serde_json::Value;

/// The crates and which of ours each may use, as in ARCHITECTURE.md. `cli` may use all.
const MAY_USE: &[(&str, &[&str])] = &[
    ("profile", &[]),
    ("annotate", &["analyze", "disassemble", "elf", "profile", "symbol"]),
    ("disassemble", &[]),
    ("cache", &[]),
    ("bpf", &["cache", "elf", "event", "syscall", "unwind"]),
    ("elf", &[]),
    ("event", &["syscall"]),
    ("go", &[]),
    ("memory", &[]),
    ("names", &[]),
    ("syscall", &[]),
    ("terminal", &["memory"]),
    ("unwind", &["elf", "go"]),
    ("symbol", &["cache", "elf", "go"]),
    ("language", &["elf", "event"]),
    ("resolve", &["elf", "event", "language", "unwind", "symbol", "profile"]),
    ("record", &["event", "syscall"]),
    (
        "recorder",
        &[
            "bpf",
            "cache",
            "elf",
            "event",
            "perf-data",
            "profile",
            "record",
            "resolve",
            "symbol",
            "syscall",
            "unwind",
        ],
    ),
    ("perf-data", &["event", "profile", "resolve", "symbol"]),
    ("format", &["names", "perf-data", "profile", "symbol", "syscall"]),
    ("analyze", &["names", "profile"]),
    ("render", &["analyze", "names", "profile"]),
    ("output", &["analyze", "format", "profile", "render", "terminal"]),
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
