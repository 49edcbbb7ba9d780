//! The text of source lines, by the paths that compilers wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use pyrograph_analyze::{Annotation, SourcePlace};

use crate::code::Code;

/// Where sources are looked for, beside the paths that compilers wrote.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Paths that are somewhere else.
    pub dirs: Vec<SourceDir>,
    /// A copy of another machine's file system, in which to look for every path.
    pub symfs: Option<PathBuf>,
}

/// Paths that begin with one folder are below another: `FROM=TO`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceDir {
    /// The beginning of paths, as compilers wrote them.
    pub from: PathBuf,
    /// The folder that is there instead.
    pub to: PathBuf,
}

impl FromStr for SourceDir {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once('=').unwrap_or(("", text));
        if to.is_empty() {
            return Err("must be FROM=TO, or a folder to look in".to_owned());
        }
        Ok(Self { from: from.into(), to: to.into() })
    }
}

/// Larger files are no sources.
const MOST_BYTES: u64 = 16 << 20;

/// Longer lines are cut: those of generated files can have megabytes.
const LONGEST_LINE: usize = 400;

/// Source lines around a function's own that may be shown.
const MARGIN: u32 = 20;

impl Sources {
    /// Gives files the text of the lines that the annotation may show.
    pub(crate) fn add_texts(&self, annotation: &mut Annotation, code: &Code) {
        let wanted = wanted_lines(annotation);
        let (mut missing, mut younger) = (Vec::new(), Vec::new());
        for (file, lines) in annotation.files.iter_mut().zip(wanted) {
            if lines.is_empty() {
                continue;
            }
            let Some((text, found)) = self.read(&file.path) else {
                missing.push(file.path.clone());
                continue;
            };
            file.lines = lines_of(&text, &lines);
            let modified = fs::metadata(&found).and_then(|data| data.modified()).ok();
            if modified.zip(code.modified).is_some_and(|(source, program)| source > program) {
                younger.push(file.path.clone());
            }
        }
        annotation.notes.extend(files_note(
            &missing,
            "not found",
            "--source-dir FROM=TO says where sources are",
        ));
        annotation.notes.extend(files_note(
            &younger,
            "younger than the program",
            "its text may be of other lines",
        ));
    }

    /// The text of a file, and where it was found.
    fn read(&self, path: &str) -> Option<(String, PathBuf)> {
        self.candidates(path).into_iter().find_map(|path| Some((read_text(&path)?, path)))
    }

    /// Where a file may be, the likeliest place first.
    fn candidates(&self, path: &str) -> Vec<PathBuf> {
        let path = Path::new(path);
        let mut found = Vec::new();
        for SourceDir { from, to } in &self.dirs {
            if let Ok(rest) = path.strip_prefix(from) {
                found.push(to.join(rest.strip_prefix("/").unwrap_or(rest)));
            }
        }
        if let Some(symfs) = &self.symfs {
            found.push(symfs.join(path.strip_prefix("/").unwrap_or(path)));
        }
        found.push(path.to_owned());
        found
    }
}

fn files_note(paths: &[String], defect: &str, remedy: &str) -> Option<String> {
    match paths {
        [] => None,
        [path] => Some(format!("{path} is {defect}: {remedy}")),
        [path, more @ ..] => {
            Some(format!("{path} and {} more source files are {defect}: {remedy}", more.len()))
        }
    }
}

/// By file, the lines that views may show: those of instructions and calls, and what is between the function's own.
fn wanted_lines(annotation: &Annotation) -> Vec<BTreeSet<u32>> {
    let mut wanted = vec![BTreeSet::new(); annotation.files.len()];
    let mut add = |place: SourcePlace| {
        wanted[place.file].insert(place.line);
    };
    annotation.instructions.iter().filter_map(|of| of.place).for_each(&mut add);
    annotation.start.into_iter().for_each(&mut add);
    let calls = annotation.scopes.iter().flat_map(|of| &of.inlined);
    calls.filter_map(|(_, place)| *place).for_each(&mut add);
    for lines in &mut wanted {
        let known: Vec<u32> = lines.iter().copied().collect();
        for pair in known.windows(2).filter(|pair| pair[1] - pair[0] <= MARGIN) {
            lines.extend(pair[0]..pair[1]);
        }
    }
    wanted
}

fn read_text(path: &Path) -> Option<String> {
    // A FIFO or a device would wait, or never end.
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn lines_of(text: &str, wanted: &BTreeSet<u32>) -> BTreeMap<u32, String> {
    let lines = (1u32..).zip(text.lines()).filter(|(line, _)| wanted.contains(line));
    lines.map(|(line, text)| (line, expanded(text))).collect()
}

/// The line with spaces in place of tabs, which stop at every eighth column.
fn expanded(line: &str) -> String {
    let mut out = String::new();
    for (column, c) in line.trim_end().chars().take(LONGEST_LINE).enumerate() {
        match c {
            '\t' => out.push_str(&" ".repeat(8 - out.chars().count() % 8)),
            c => out.push(c),
        }
        if column + 1 == LONGEST_LINE {
            out.push('…');
        }
    }
    out
}
