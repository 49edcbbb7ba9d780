//! What verbs that read files and write one have in common.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use pyrograph_format::{Input, write_file};

/// The inputs that `files` name; `-`, or no file, is standard input.
pub fn inputs(files: &[PathBuf]) -> anyhow::Result<Vec<Input>> {
    if files.is_empty() {
        return Ok(vec![Input::stdin()]);
    }
    let open = |file: &PathBuf| match file.as_os_str() == "-" {
        true => Ok(Input::stdin()),
        false => Input::open(file).with_context(|| format!("failed to open {}", file.display())),
    };
    files.iter().map(open).collect()
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
