//! What verbs that read files and write one have in common.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use pyrograph_format::{Input, write_file};

/// The inputs that `files` name; `-`, or no file, is standard input. `LABEL=FILE` is a file with a
/// label, unless there is a file of that very name.
pub fn inputs(files: &[PathBuf]) -> anyhow::Result<Vec<Input>> {
    if files.is_empty() {
        return Ok(vec![Input::stdin()]);
    }
    files.iter().map(|file| input(file)).collect()
}

fn input(file: &Path) -> anyhow::Result<Input> {
    if let Some((label, file)) = label_of(file) {
        return Ok(open(file)?.labelled(label));
    }
    open(file)
}

fn open(file: &Path) -> anyhow::Result<Input> {
    match file.as_os_str() == "-" {
        true => Ok(Input::stdin()),
        false => Input::open(file).with_context(|| format!("failed to open {}", file.display())),
    }
}

/// Label and path of `LABEL=FILE`. A label has no slash: `./a=b` is a file in any case.
fn label_of(file: &Path) -> Option<(&str, &Path)> {
    let (label, path) = file.to_str()?.split_once('=')?;
    let is_label = !label.is_empty() && !label.contains('/') && !path.is_empty();
    (is_label && !file.exists()).then(|| (label, Path::new(path)))
}

/// Writes a file, whole or not at all, or standard output.
pub fn write_output(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    match path {
        Some(path) => {
            write_file(path, write).with_context(|| format!("failed to write {}", path.display()))
        }
        None => {
            let mut out = io::stdout().lock();
            write(&mut out).and_then(|()| out.flush()).context("failed to write standard output")
        }
    }
}
