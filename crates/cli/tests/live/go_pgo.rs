//! Profiles of Go programs for Go's compiler: `go build -pgo` takes what is recorded, and decides by it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{program_source, pyrograph, run};

/// Go's compiler if it takes profiles, as it does since 1.21: the one that the variable `GO` names, or `go`.
fn go(test: &str) -> Option<PathBuf> {
    let named = std::env::var_os("GO").map(PathBuf::from);
    let found = named.into_iter().chain([PathBuf::from("go")]).find(|go| takes_profiles(go));
    if found.is_none() {
        eprintln!("skipped: {test} needs Go 1.21 or later, as `go` or in the variable GO");
    }
    found
}

fn takes_profiles(go: &Path) -> bool {
    let Ok(output) = Command::new(go).env("GOTOOLCHAIN", "local").arg("version").output() else {
        return false;
    };
    // `go version go1.27.3 linux/amd64`
    let version = String::from_utf8_lossy(&output.stdout);
    let minor = version.split(" go1.").nth(1).and_then(|rest| rest.split(['.', ' ']).next());
    minor.and_then(|minor| minor.parse::<u32>().ok()).is_some_and(|minor| minor >= 21)
}

/// Builds the program and returns what the compiler says of its decisions.
fn build(go: &Path, program: &Path, flags: &[&str]) -> String {
    let output = run(Command::new(go)
        .envs([("GO111MODULE", "off"), ("GOTOOLCHAIN", "local")])
        .args(["build", "-gcflags=-m"])
        .args(flags)
        .arg("-o")
        .arg(program)
        .arg(program_source("pgo.go")));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The lines that say what was done with a hot call.
fn hot(said: &str) -> Vec<&str> {
    let is_hot = |line: &&str| {
        line.contains("inlining call to mix") || line.contains("PGO devirtualizing interface call")
    };
    said.lines().filter(is_hot).collect()
}

#[test]
fn the_compiler_of_go_takes_what_is_recorded() {
    let Some(go) = go("the_compiler_of_go_takes_what_is_recorded") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("program");
    let without = build(&go, &program, &["-pgo=off"]);
    assert_eq!(hot(&without), [""; 0], "{without}");

    // Then that of what was built with the profile, in which the calls are inlined; it is stripped.
    let better = folder.path().join("better");
    for recorded in [&program, &better] {
        let profile = folder.path().join("default.pgo");
        run(pyrograph()
            .args(["record", "-e", "cpu-clock", "-F", "997", "-o"])
            .arg(&profile)
            .arg("--")
            .arg(recorded)
            .arg("3000"));
        let flag = format!("-pgo={}", profile.display());
        let with = build(&go, &better, &[&flag, "-ldflags=-s -w"]);
        // The four calls of `mix` in `work`, and the interface's.
        let found = hot(&with);
        let inlined = found.iter().filter(|line| line.contains("inlining call to mix")).count();
        assert!(inlined >= 4, "{recorded:?}: {found:?}\n{with}");
        assert!(found.iter().any(|line| line.contains("devirtualizing")), "{found:?}\n{with}");
    }
}
