//! Interpreters of the machine and of other versions.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Folded, is_nightly, kept, package, pyrograph, run, sharp, tolerance};

/// The interpreters of a language to test with: nightly all, else that of the system or the newest of those that `.ci/interpreters`
/// has unpacked, by the test's name: some tests have the one, some the other. Versions differ in layouts, which are tables
/// that are compared with the sources elsewhere.
pub fn interpreters(language: &str, system: &str) -> Vec<(String, PathBuf)> {
    let mut found = all_interpreters(language, system);
    if is_nightly() {
        return found;
    }
    // `python-3.14` is newer than `pyenv-3.9`.
    let version = |name: &str| -> Option<Vec<u32>> {
        name.rsplit_once('-')?.1.split('.').map(|number| number.parse().ok()).collect()
    };
    found.sort_by_key(|(name, _)| version(name));
    let mut hasher = DefaultHasher::new();
    std::thread::current().name().unwrap_or_default().hash(&mut hasher);
    // The system's has no version, and is the first.
    let first = found.first().is_some_and(|(name, _)| name == "system");
    let chosen =
        if first && hasher.finish().is_multiple_of(2) { 0 } else { found.len().wrapping_sub(1) };
    found.drain(..).skip(chosen).take(1).collect()
}

/// Interpreters of a language of all versions that are there.
pub fn all_interpreters(language: &str, system: &str) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    if Command::new(system).arg("-v").stdin(Stdio::null()).output().is_ok() {
        found.push(("system".to_owned(), PathBuf::from(system)));
    }
    let unpacked = kept().join("../interpreters");
    for entry in fs::read_dir(unpacked).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let run = entry.path().join("run");
        let is_wanted = name.starts_with(&format!("{language}-"))
            || language == "python" && name.starts_with("pyenv-");
        if is_wanted && run.exists() {
            found.push((name, run));
        }
    }
    found.sort();
    if found.len() < 2 {
        eprintln!("skipped: {language} of other versions: .ci/interpreters unpacks them");
    }
    found
}

/// Writes a file, and returns its path.
pub fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).expect("a file");
    path
}

/// A copy of a program of `tests/languages`, beside which a test may write.
pub fn copy(name: &str, folder: &Path) -> PathBuf {
    let source = package().join("tests/languages").join(name);
    let copy = folder.join(name);
    fs::copy(source, &copy).expect("a copy");
    copy
}

/// Records a program; returns its stacks, what it printed, and what was said.
pub fn record(
    flags: &[&str],
    program: &Path,
    arguments: &[&str],
    out: &Path,
) -> (Folded, String, String) {
    let mut command = pyrograph();
    command.args(["record", "-v", "--engine", "ebpf", "-o"]).arg(out).args(flags).arg("--");
    let output = run(command.arg(program).args(arguments).stdin(Stdio::null()));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (Folded::read(out), text(&output.stdout), text(&output.stderr))
}

/// Checks that three functions have the shares of samples that the program has measured of its CPU time by its own clock, and
/// printed with the names, and returns how much of all that is, percent. The values must be numbers of samples.
pub fn check_measured(folded: &Folded, printed: &str, prefix: &str, context: &str) -> f64 {
    let measured: Vec<(&str, f64)> = printed
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, ns)| Some((name, ns.parse().ok()?)))
        .collect();
    assert_eq!(measured.len(), 3, "{context}: {printed}");
    let all: f64 = measured.iter().map(|(_, ns)| ns).sum();
    let share = |name: &str| folded.total_share(&format!("{prefix}{name}"));
    let known: f64 = measured.iter().map(|(name, _)| share(name)).sum();
    assert!(known > 80.0, "{context}: {known}, {:?}", folded.leaves());
    let samples = folded.total() * known / 100.0;
    for (name, ns) in &measured {
        let (found, expected) = (share(name) * 100.0 / known, ns * 100.0 / all);
        let most = sharp(tolerance(expected, samples) + 0.5, 2.0);
        assert!(
            (found - expected).abs() < most,
            "{name}: {found:.1} {expected:.1} ± {most:.1}, {context}"
        );
    }
    known
}

/// Checks that all functions had names, and that the calls of the interpreter and its native frames agree. They do not where a
/// stack ends early because the unwind tables of a file are not ready: on a busy machine that takes a while.
#[track_caller]
pub fn check_said(said: &str) {
    assert!(!said.contains("without a name"), "{said}");
    // `89 stacks (3.0 %) in which calls of an interpreter and its native frames do not agree`
    let Some((before, _)) = said.split_once(" %) in which calls of an interpreter") else {
        assert!(!said.contains("do not agree"), "{said}");
        return;
    };
    let percent: f64 = before.rsplit('(').next().unwrap_or_default().parse().expect(said);
    let is_late = said.contains("unwind tables were not ready");
    assert!(is_late && percent <= 10.0, "{said}");
}
