//! Interpreters of the machine and of other versions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Interpreters of a language: that of the system, and those that `.ci/interpreters` has unpacked.
pub fn interpreters(language: &str, system: &str) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    if Command::new(system).arg("-v").stdin(Stdio::null()).output().is_ok() {
        found.push(("system".to_owned(), PathBuf::from(system)));
    }
    let unpacked = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../interpreters");
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
