//! Inputs and outputs of verbs that read files and write one.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use pyrograph_format::{Input, check_writable, write_file};
#[cfg(feature = "png")]
use pyrograph_render::png;
use pyrograph_terminal::standard_output;

use crate::found;
use crate::say::say;

/// The inputs that `files` name; `-` is standard input; with no file it is that, too, or where nothing can come from
/// there the [recording](crate::found) of the current folder. `LABEL=FILE` is a file with a
/// label, unless there is a file of that very name.
pub fn inputs(files: &[PathBuf]) -> anyhow::Result<Vec<Input>> {
    if files.is_empty() {
        return Ok(vec![match found::input()? {
            Some(path) => open(&path)?,
            None => standard_input(),
        }]);
    }
    files.iter().map(|file| input(file)).collect()
}

fn input(file: &Path) -> anyhow::Result<Input> {
    if let Some((label, file)) = label_of(file) {
        return Ok(open(file)?.labelled(label));
    }
    open(file)
}

/// A file, or standard input, which `-` names. Who is to type on a terminal should know.
fn standard_input() -> Input {
    if io::stdin().is_terminal() {
        say!("reading standard input; Ctrl-D ends it");
    }
    Input::stdin()
}

pub fn open(file: &Path) -> anyhow::Result<Input> {
    match is_standard(file) {
        true => Ok(standard_input()),
        false => Input::open(file).with_context(|| format!("failed to open {}", file.display())),
    }
}

/// Label and path of `LABEL=FILE`. A label has no slash: `./a=b` is a file in any case.
fn label_of(file: &Path) -> Option<(&str, &Path)> {
    let (label, path) = file.to_str()?.split_once('=')?;
    let is_label = !label.is_empty() && !label.contains('/') && !path.is_empty();
    (is_label && !file.exists()).then(|| (label, Path::new(path)))
}

/// Returns true if a name stands for standard input or output.
fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Writes a file, whole or not at all, or standard output, which `-` names, too.
pub fn write_output(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    match path.filter(|path| !is_standard(path)) {
        Some(path) => {
            check_writable(path)?;
            write_file(path, write).with_context(|| format!("failed to write {}", path.display()))
        }
        None => {
            let mut out = standard_output();
            write(&mut *out).and_then(|()| out.flush()).context("failed to write standard output")
        }
    }
}

/// Writes a picture that `write` draws as SVG: as pixels, if the file's name ends in `.png`.
pub fn write_picture(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    match path {
        Some(path) if is_png(path) => write_png(Some(path), write),
        _ => write_output(path, write),
    }
}

/// Says that this program writes no pixels, and what does.
#[cfg(not(feature = "png"))]
pub fn write_png(
    path: Option<&Path>,
    _: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    check_png(path)
}

/// Checks that PNG pictures can be written.
///
/// # Errors
///
/// If this program was built without that.
pub fn check_png(path: Option<&Path>) -> anyhow::Result<()> {
    if cfg!(feature = "png") {
        return Ok(());
    }
    let name = path.map_or_else(|| "png".to_owned(), |path| path.display().to_string());
    bail!(
        "{name}: this Pyrograph was built without PNG pictures (cargo install --path crates/cli --features png has \
         them); write an SVG, which rsvg-convert, Inkscape and browsers turn into one"
    )
}

/// Writes a picture that `write` draws as SVG as pixels.
#[cfg(feature = "png")]
pub fn write_png(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let mut svg = Vec::new();
    write(&mut svg).context("failed to draw")?;
    let picture = png(&String::from_utf8_lossy(&svg)).context("failed to draw a PNG picture")?;
    if picture.without_text {
        say!("the picture has no text, as this machine has no font");
    }
    write_output(path, |out| out.write_all(&picture.bytes))
}

/// Returns true if a file is to hold pixels.
fn is_png(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("png"))
}
