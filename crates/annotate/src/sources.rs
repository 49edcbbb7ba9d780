//! Finds source lines by the paths in debug information.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use pyrograph_analyze::{Annotation, SourcePlace};
use pyrograph_symbol::Options as SymbolOptions;

use crate::code::Code;

/// Places in which to look for sources, in addition to the paths in debug information.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Replacements for path prefixes.
    pub dirs: Vec<SourceDir>,
    /// Copy of another machine's file system, in which every path is looked for.
    pub symfs: Option<PathBuf>,
}

/// Replacement of a path prefix: `FROM=TO`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceDir {
    /// Prefix of paths in debug information.
    pub from: PathBuf,
    /// Directory that replaces it.
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

/// Maximum number of bytes read of a source file.
const MOST_BYTES: u64 = 16 << 20;

/// Maximum number of characters of a line: lines of generated files can have megabytes.
const LONGEST_LINE: usize = 400;

/// Maximum number of trailing path components to look for below /usr/src.
const MOST_PARTS: usize = 12;

/// Number of source lines before and after a function that may be shown.
const MARGIN: u32 = 20;

impl Sources {
    /// Adds the text of the lines that the annotation may show.
    pub(crate) fn add_texts(
        &self,
        annotation: &mut Annotation,
        code: &Code,
        options: &SymbolOptions,
    ) {
        let embedded = match &code.module {
            Some(module) => module.embedded_sources(code.start, options),
            None => Vec::new(),
        };
        let wanted = wanted_lines(annotation);
        let (mut missing, mut younger) = (Vec::new(), Vec::new());
        for (file, lines) in annotation.files.iter_mut().zip(wanted) {
            if lines.is_empty() {
                continue;
            }
            let inside = embedded.iter().find(|(path, _)| **path == *file.path);
            if let Some((_, text)) = inside {
                file.lines = lines_of(text, &lines);
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
        let is_of_rust = |path: &String| path.starts_with("/rustc/");
        let (of_rust, missing): (Vec<_>, Vec<_>) = missing.into_iter().partition(is_of_rust);
        annotation.notes.extend(files_note(
            &of_rust,
            "not found",
            "`rustup component add rust-src` installs Rust's own sources",
        ));
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

    /// Reads a file; returns its text and the path at which it was found.
    fn read(&self, path: &str) -> Option<(String, PathBuf)> {
        self.candidates(path).into_iter().find_map(|path| Some((read_text(&path)?, path)))
    }

    /// Returns the paths at which a file may be, most likely first.
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
        found.extend(toolchain_paths(path, &self.toolchains()));
        found.extend(registry_paths(path, &self.registries()));
        found.extend(below_src(path, &self.root().join("usr/src")));
        found
    }

    fn root(&self) -> PathBuf {
        self.symfs.clone().unwrap_or_else(|| PathBuf::from("/"))
    }

    /// Returns the directories of Rust toolchains.
    fn toolchains(&self) -> Vec<PathBuf> {
        let home = std::env::home_dir().unwrap_or_default();
        let rustup =
            std::env::var_os("RUSTUP_HOME").map_or_else(|| home.join(".rustup"), PathBuf::from);
        let mut found = folders(&rustup.join("toolchains"));
        found.push(self.root().join("usr"));
        found.push(self.root().join("usr/local"));
        found
    }

    /// Returns the directories of the packages that Cargo has unpacked.
    fn registries(&self) -> Vec<PathBuf> {
        let home = std::env::home_dir().unwrap_or_default();
        let cargo =
            std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
        folders(&cargo.join("registry/src"))
    }
}

fn folders(of: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(of).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// Paths for `/rustc/1159e78c…/library/core/src/iter/range.rs`, rustc's form for its standard library. rustup installs
/// these sources as the component rust-src.
fn toolchain_paths(path: &Path, toolchains: &[PathBuf]) -> Vec<PathBuf> {
    let Ok(rest) = path.strip_prefix("/rustc") else { return Vec::new() };
    let mut parts = rest.components();
    parts.next();
    let place = |of: &PathBuf| of.join("lib/rustlib/src/rust").join(parts.as_path());
    toolchains.iter().map(place).collect()
}

/// Paths for `/home/ci/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/memchr-2.7.4/src/lib.rs`, from another
/// machine, and for `memchr-2.7.4/src/lib.rs`, to which Cargo's `trim-paths` shortens that.
fn registry_paths(path: &Path, registries: &[PathBuf]) -> Vec<PathBuf> {
    let text = path.to_string_lossy();
    let package = match text.split_once("/registry/src/").and_then(|(_, rest)| rest.split_once('/'))
    {
        Some((_, package)) => package.to_owned(),
        None if path.is_relative() => text.into_owned(),
        None => return Vec::new(),
    };
    registries.iter().map(|of| of.join(&package)).collect()
}

/// Paths below a directory such as /usr/src, by trailing components: `/build/glibc-6iIyft/glibc-2.36/malloc/malloc.c`
/// as `glibc-2.36/malloc/malloc.c`. The file name alone is not enough.
fn below_src(path: &Path, src: &Path) -> Vec<PathBuf> {
    let parts: Vec<_> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect();
    let first = parts.len().saturating_sub(MOST_PARTS);
    let tails =
        (first..parts.len().saturating_sub(1)).map(|at| parts[at..].iter().collect::<PathBuf>());
    tails.flat_map(|tail| [src.join(&tail), src.join("debug").join(&tail)]).collect()
}

/// Cache of source lines; each file is read once.
#[derive(Debug)]
pub struct SourceTexts {
    sources: Sources,
    files: HashMap<String, Vec<String>>,
}

impl SourceTexts {
    /// Creates an empty cache.
    pub fn new(sources: Sources) -> Self {
        Self { sources, files: HashMap::new() }
    }

    /// Returns the text of a line, from 1; `None` if the file is not found, or has no such line.
    pub fn line(&mut self, path: &str, line: u32) -> Option<String> {
        let at = usize::try_from(line).ok()?.checked_sub(1)?;
        if !self.files.contains_key(path) {
            let text = self.sources.read(path).map(|(text, _)| text).unwrap_or_default();
            self.files.insert(path.to_owned(), text.lines().map(expanded).collect());
        }
        self.files.get(path)?.get(at).cloned()
    }
}

fn files_note(paths: &[String], defect: &str, remedy: &str) -> Option<String> {
    match paths {
        [] => None,
        [path] => Some(format!("{path} is {defect}: {remedy}")),
        [path, more @ ..] => {
            let files = if more.len() == 1 { "file" } else { "files" };
            Some(format!("{path} and {} more source {files} are {defect}: {remedy}", more.len()))
        }
    }
}

/// Returns, by file, the lines that views may show: lines of instructions and calls, and the lines between those of the
/// function itself.
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
    // Opening a FIFO could block, and reading a device could be endless.
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

/// Replaces tabs by spaces, up to the next multiple of eight columns.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn dirs(texts: &[&str]) -> Sources {
        let dirs = texts.iter().map(|text| text.parse().expect("FROM=TO")).collect();
        Sources { dirs, symfs: None }
    }

    #[test]
    fn folders_are_given_as_from_and_to() {
        let of = |text: &str| text.parse::<SourceDir>();
        let expect = SourceDir { from: "/build".into(), to: "/src".into() };
        assert_eq!(of("/build=/src"), Ok(expect));
        assert_eq!(of("/src").expect("a folder").from, PathBuf::new());
        assert!(of("/build=").is_err());
    }

    #[test]
    fn paths_are_looked_for_where_they_were_moved_to() {
        let first = |of: &Sources, path: &str| of.candidates(path)[0].clone();
        let of = dirs(&["/build/app=/src", "./=/here"]);
        assert_eq!(first(&of, "/build/app/a/b.c"), PathBuf::from("/src/a/b.c"));
        // Not in the middle of a name.
        assert_eq!(first(&of, "/build/application/b.c"), PathBuf::from("/build/application/b.c"));
        assert_eq!(first(&dirs(&["/only"]), "b.c"), PathBuf::from("/only/b.c"));
        let symfs = Sources { symfs: Some("/other".into()), ..Sources::default() };
        assert_eq!(first(&symfs, "/a/b.c"), PathBuf::from("/other/a/b.c"));
    }

    #[test]
    fn remapped_paths_of_rust_lead_to_its_sources() {
        let toolchains = [PathBuf::from("/t")];
        let path =
            Path::new("/rustc/1159e78c4747b02ef996e55082b704c09b970588/library/core/src/a.rs");
        let expect = ["/t/lib/rustlib/src/rust/library/core/src/a.rs"].map(PathBuf::from);
        assert_eq!(toolchain_paths(path, &toolchains), expect);
        assert!(toolchain_paths(Path::new("/home/library/core/src/a.rs"), &toolchains).is_empty());
        let registries = [PathBuf::from("/r/index")];
        for path in [
            "/home/ci/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/memchr-2.7.4/src/lib.rs",
            "memchr-2.7.4/src/lib.rs",
        ] {
            let expect = [PathBuf::from("/r/index/memchr-2.7.4/src/lib.rs")];
            assert_eq!(registry_paths(Path::new(path), &registries), expect);
        }
        assert!(registry_paths(Path::new("/src/lib.rs"), &registries).is_empty());
    }

    #[test]
    fn packages_of_distributions_are_below_usr_src() {
        let found = below_src(Path::new("/build/x/glibc-2.36/./malloc/malloc.c"), Path::new("/s"));
        assert!(found.contains(&PathBuf::from("/s/glibc-2.36/malloc/malloc.c")));
        assert!(found.contains(&PathBuf::from("/s/debug/malloc/malloc.c")));
        assert!(!found.contains(&PathBuf::from("/s/malloc.c")), "any package may have one");
    }

    #[test]
    fn tabs_stop_at_every_eighth_column() {
        assert_eq!(expanded("\tif (x)\t{ \r"), "        if (x)  {");
        assert_eq!(expanded(&"x".repeat(1000)).chars().count(), LONGEST_LINE + 1);
    }

    #[test]
    fn what_is_no_file_is_not_read() {
        assert_eq!(read_text(Path::new("/dev/zero")), None);
        assert_eq!(read_text(Path::new("/")), None);
    }
}
