//! Inputs and outputs of subcommands that read files and write one.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use pyrograph_analyze::nameless;
use pyrograph_export::{Picture, WriteError, Written};
use pyrograph_format::{Input, check_writable};
use pyrograph_profile::Profile;
use pyrograph_render::{Theme, nameless_advice};
use pyrograph_symbol::debug_package;
use pyrograph_terminal::{standard_error, standard_output};

use crate::found;
use crate::kept;
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

    /// Flame graphs with every row: also those of functions that only start a thread
    #[arg(long)]
    all_rows: bool,

    /// Flame graphs for light or dark pages, or for the reader's setting
    #[arg(long, value_name = "THEME", default_value = "auto")]
    theme: Theme,
}

impl From<PictureArgs> for Picture {
    fn from(PictureArgs { subtitle, inverted, all_rows, theme }: PictureArgs) -> Self {
        Self { subtitle, inverted, all_rows, theme, ..Self::default() }
    }
}

/// Inputs with profiles.
pub struct Inputs {
    /// The opened inputs.
    pub list: Vec<Input>,
    /// The recording in the current folder, if no input was named.
    pub found: Option<&'static Path>,
}

/// Opens the inputs named by `files`; `-` is standard input. Without files, the input is standard input, or the
/// [recording](crate::found) in the current folder if standard input is a terminal or `/dev/null`. `LABEL=FILE` is a
/// file with a label, unless a file with exactly this name exists.
pub fn inputs(files: &[PathBuf]) -> anyhow::Result<Inputs> {
    let found = if files.is_empty() { found::profile()? } else { None };
    Ok(Inputs { list: opened(files, found)?, found })
}

/// Same as [`inputs`], for inputs with single events.
pub fn event_inputs(files: &[PathBuf]) -> anyhow::Result<Vec<Input>> {
    opened(files, if files.is_empty() { found::events()? } else { None })
}

/// Opens the named inputs; if there are none, the recording that was found, or standard input.
fn opened(files: &[PathBuf], found: Option<&Path>) -> anyhow::Result<Vec<Input>> {
    match (files, found) {
        ([], Some(path)) => Ok(vec![open(path)?]),
        ([], None) => Ok(vec![standard_input()]),
        _ => files.iter().map(|file| input(file)).collect(),
    }
}

fn input(file: &Path) -> anyhow::Result<Input> {
    match label_of(file) {
        Some((label, file)) => Ok(open(file)?.labelled(label)),
        None => open(file),
    }
}

/// Opens standard input. If it is a terminal, prints a message, because the user has to type the input.
fn standard_input() -> Input {
    if io::stdin().is_terminal() {
        say!("reading standard input; Ctrl-D ends it");
    }
    Input::stdin()
}

/// Opens a file, standard input for `-`, or kept samples for `store:FOLDER`.
pub fn open(file: &Path) -> anyhow::Result<Input> {
    if let Some(samples) = kept::open(file) {
        return samples;
    }
    match file.as_os_str() == "-" {
        true => Ok(standard_input()),
        false => Input::open(file).with_context(|| format!("failed to open {}", file.display())),
    }
}

/// Splits `LABEL=FILE` into label and path. A label contains no slash: `./a=b` is always a file.
fn label_of(file: &Path) -> Option<(&str, &Path)> {
    let (label, path) = file.to_str()?.split_once('=')?;
    let is_label = !label.is_empty()
        && !label.contains('/')
        && !label.starts_with("store:")
        && !path.is_empty();
    (is_label && !file.exists()).then(|| (label, Path::new(path)))
}

/// Output of subcommands that count and trace: a file, or else standard error for text, apart from the target's own
/// output, and standard output for formats that programs read.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// Path of the file; `-` is standard output.
    pub path: Option<&'a Path>,
    /// True if the output is text for people.
    pub is_text: bool,
}

impl<'a> Destination<'a> {
    /// Path of the file; `None` for standard output and standard error.
    fn file(self) -> Option<&'a Path> {
        self.path.filter(|path| path.as_os_str() != "-")
    }

    /// Returns true if the output goes to standard error.
    pub fn is_standard_error(self) -> bool {
        self.path.is_none() && self.is_text
    }

    /// Returns true if the output goes to standard output: that of the command is then redirected to standard error.
    pub fn is_standard_output(self) -> bool {
        self.file().is_none() && !self.is_standard_error()
    }

    /// Checks that the file can be written, before the command starts.
    pub fn check(self) -> anyhow::Result<()> {
        Ok(self.file().map_or(Ok(()), check_writable)?)
    }

    /// Opens the output for incremental writing.
    pub fn open(self) -> anyhow::Result<Box<dyn Write>> {
        if self.is_standard_error() {
            return Ok(Box::new(BufWriter::new(standard_error())));
        }
        let Some(path) = self.file() else { return Ok(Box::new(standard_output())) };
        let file =
            File::create(path).with_context(|| format!("failed to write {}", path.display()))?;
        let file = BufWriter::with_capacity(1 << 20, file);
        Ok(Box::new(Announced { file, path: path.to_owned(), failed: false }))
    }

    /// Writes a complete result: a file appears whole or not at all.
    pub fn write(self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
        if self.is_standard_error() {
            let mut out = BufWriter::new(standard_error());
            write(&mut out)?;
            return Ok(out.flush()?);
        }
        Ok(write_output(self.path, write)?)
    }
}

/// A file that is written incrementally; the message that it was written follows when it is closed.
struct Announced {
    file: BufWriter<File>,
    path: PathBuf,
    failed: bool,
}

impl Write for Announced {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).inspect_err(|_| self.failed = true)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().inspect_err(|_| self.failed = true)
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        if !self.failed && self.file.flush().is_ok() {
            say_wrote(Some(&self.path));
        }
    }
}

/// Prints that a file was written; nothing for standard output and for what is no regular file, such as `/dev/null`.
pub fn say_wrote(path: Option<&Path>) {
    if let Some(path) = path.filter(|path| path.as_os_str() != "-" && path.is_file()) {
        say!("wrote {}", path.display());
    }
}

/// Writes a file atomically and prints that, or writes standard output for `None` or `-`.
pub fn write_output(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), WriteError> {
    pyrograph_export::write_output(path, write)?;
    say_wrote(path);
    Ok(())
}

/// Writes the picture that `write` draws as SVG; as PNG if the file's name ends in `.png`.
pub fn write_picture(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), WriteError> {
    say_written(pyrograph_export::write_picture(path, write)?);
    say_wrote(path);
    Ok(())
}

/// Prints advice for code without symbols, except in the files `but`, for which the reason was reported elsewhere.
pub fn say_nameless(profile: &Profile, column: usize, but: &[String]) {
    let servers = std::env::var_os("DEBUGINFOD_URLS").is_some_and(|urls| !urls.is_empty());
    let (mut nameless, whole) = (nameless(profile, column), profile.whole(column));
    nameless.modules.retain(|(path, _)| !but.contains(path));
    let advice = nameless_advice(&nameless, whole, servers, &debug_package);
    advice.iter().for_each(|line| say!("{line}"));
}

/// Reports what the written picture lacks.
pub fn say_written(written: Written) {
    if written.without_text {
        say!("the picture has no text, as this machine has no font");
    }
}
