//! Inputs and outputs of verbs that read files and write one.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use pyrograph_analyze::nameless;
use pyrograph_format::{Input, check_writable};
pub use pyrograph_output::write_output;
use pyrograph_output::{Picture, WriteError, Written};
use pyrograph_profile::Profile;
use pyrograph_render::{Theme, nameless_advice};
use pyrograph_symbol::debug_package;
use pyrograph_terminal::{standard_error, standard_output};

use crate::found;
use crate::say::say;

/// Look of flame graphs that are written beside other formats.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct PictureArgs {
    /// A line below the title of flame graphs [default: what was counted, for how long, where and when]
    #[arg(long, value_name = "TEXT")]
    subtitle: Option<String>,

    /// Flame graphs with the root at the top
    #[arg(long)]
    inverted: bool,

    /// Flame graphs for light or dark pages, or for the reader's setting
    #[arg(long, value_name = "THEME", default_value = "auto")]
    theme: Theme,
}

impl From<PictureArgs> for Picture {
    fn from(PictureArgs { subtitle, inverted, theme }: PictureArgs) -> Self {
        Self { subtitle, inverted, theme, ..Self::default() }
    }
}

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
    match label_of(file) {
        Some((label, file)) => Ok(open(file)?.labelled(label)),
        None => open(file),
    }
}

/// Standard input. On a terminal, where somebody has to type it, a message says so.
fn standard_input() -> Input {
    if io::stdin().is_terminal() {
        say!("reading standard input; Ctrl-D ends it");
    }
    Input::stdin()
}

/// A file, or standard input, which `-` names.
pub fn open(file: &Path) -> anyhow::Result<Input> {
    match file.as_os_str() == "-" {
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

/// Where verbs that count and trace write: a file, or without one, standard error for a person, beside what the program
/// itself prints, and standard output for programs.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// The file; `-` is standard output.
    pub path: Option<&'a Path>,
    /// It is for a person.
    pub is_text: bool,
}

impl<'a> Destination<'a> {
    /// The file, unless it is standard output.
    fn file(self) -> Option<&'a Path> {
        self.path.filter(|path| path.as_os_str() != "-")
    }

    /// Returns true if it is standard error.
    pub fn is_standard_error(self) -> bool {
        self.path.is_none() && self.is_text
    }

    /// Returns true if it is standard output: a command's own goes to standard error then.
    pub fn is_standard_output(self) -> bool {
        self.file().is_none() && !self.is_standard_error()
    }

    /// Checks that the file can be written, before the command starts.
    pub fn check(self) -> anyhow::Result<()> {
        Ok(self.file().map_or(Ok(()), check_writable)?)
    }

    /// Opens it for what is written bit by bit.
    pub fn open(self) -> anyhow::Result<Box<dyn Write>> {
        if self.is_standard_error() {
            return Ok(Box::new(BufWriter::new(standard_error())));
        }
        let Some(path) = self.file() else { return Ok(Box::new(standard_output())) };
        let file = std::fs::File::create(path)
            .with_context(|| format!("failed to write {}", path.display()))?;
        Ok(Box::new(BufWriter::with_capacity(1 << 20, file)))
    }

    /// Writes a result: a file is whole or not there.
    pub fn write(self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
        if self.is_standard_error() {
            let mut out = BufWriter::new(standard_error());
            write(&mut out)?;
            return Ok(out.flush()?);
        }
        Ok(write_output(self.path, write)?)
    }
}

/// Writes a picture that `write` draws as SVG: as pixels, if the file's name ends in `.png`.
pub fn write_picture(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), WriteError> {
    say_written(pyrograph_output::write_picture(path, write)?);
    Ok(())
}

/// Says what would give names to code that has none, but for files of which it is said otherwise why.
pub fn say_nameless(profile: &Profile, column: usize, but: &[String]) {
    let servers = std::env::var_os("DEBUGINFOD_URLS").is_some_and(|urls| !urls.is_empty());
    let (mut nameless, whole) = (nameless(profile, column), profile.whole(column));
    nameless.modules.retain(|(path, _)| !but.contains(path));
    let advice = nameless_advice(&nameless, whole, servers, &debug_package);
    advice.iter().for_each(|line| say!("{line}"));
}

/// Says what a picture lacks.
pub fn say_written(written: Written) {
    if written.without_text {
        say!("the picture has no text, as this machine has no font");
    }
}
