//! Finds the files that a program maps when it starts (itself, its interpreter, and the libraries that these need), so
//! that their unwind tables can be made before it runs.
//!
//! The list is a guess and may be incomplete: a program may load any other file.
//!
//! Sources: ld.so(8) for the search paths of libraries, execve(2) for scripts.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use pyrograph_elf::{Image, Linked};

use crate::error::Error;

/// Maximum number of files, beyond what any program has.
const MOST_FILES: usize = 512;

/// Returns the files of a program that is given as in a shell, the program first. Empty if there is no such program.
pub fn files(program: &OsStr) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = find_program(program).into_iter().collect();
    let mut at = 0;
    while let Some(path) = found.get(at).filter(|_| at < MOST_FILES) {
        let Ok(file) = File::open(path) else {
            at += 1;
            continue;
        };
        let more = match interpreter_of_script(&file) {
            Some(interpreter) => find_program(&interpreter).into_iter().collect(),
            None => {
                let image = Image::map(&file).ok();
                let asks = image.as_ref().map(Image::linked).unwrap_or_default();
                let folders = folders(&asks, path.parent().unwrap_or(Path::new("/")));
                let library = |name: &&[u8]| find_library(OsStr::from_bytes(name), &folders);
                let interpreter = asks.interpreter.map(|path| OsStr::from_bytes(path).into());
                interpreter.into_iter().chain(asks.needed.iter().filter_map(library)).collect()
            }
        };
        let more: Vec<PathBuf> = more;
        for path in more.into_iter().filter_map(|path| path.canonicalize().ok()) {
            if !found.contains(&path) {
                found.push(path);
            }
        }
        at += 1;
    }
    found
}

/// Returns the libraries that the loader maps into every program: those named in `LD_PRELOAD`, and in `/etc/ld.so.preload`.
pub fn preloaded(names: Option<&OsStr>) -> Vec<PathBuf> {
    let everywhere = std::fs::read("/etc/ld.so.preload").unwrap_or_default();
    let names = names.map(OsStr::as_bytes).into_iter().chain([&everywhere[..]]);
    let is_between = |byte: &u8| *byte == b':' || byte.is_ascii_whitespace();
    let names = names.flat_map(|names| names.split(is_between)).filter(|name| !name.is_empty());
    let folders = folders(&Linked::default(), Path::new("/"));
    names.filter_map(|name| find_library(OsStr::from_bytes(name), &folders)).collect()
}

/// Returns true if a program is run by a dynamic loader.
pub fn has_loader(program: &Path) -> bool {
    Image::open(program).is_ok_and(|image| image.linked().interpreter.is_some())
}

/// Error for a command that does not exist: the same as if it were run.
pub fn missing(argv: &[OsString]) -> pyrograph_record::Error {
    pyrograph_record::Error::Command {
        program: argv.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        source: io::Error::from_raw_os_error(libc::ENOENT),
    }
}

/// Returns true if a shell would find a program of this name.
pub fn is_program(name: &OsStr) -> bool {
    find_program(name).is_some()
}

fn find_program(name: &OsStr) -> Option<PathBuf> {
    let is_file = |path: &PathBuf| path.is_file();
    let path = if name.as_bytes().contains(&b'/') {
        Some(PathBuf::from(name)).filter(is_file)
    } else {
        let folders = std::env::var_os("PATH")?;
        std::env::split_paths(&folders).map(|folder| folder.join(name)).find(is_file)
    };
    path?.canonicalize().ok()
}

/// Parses the interpreter in the first line of a script: `#!/usr/bin/env python3`.
fn interpreter_of_script(mut file: &File) -> Option<OsString> {
    // Maximum length of the line that the kernel reads.
    let mut start = [0; 256];
    let len = file.read(&mut start).ok()?;
    let line = start[..len].strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let interpreter = words.next()?;
    let named = match interpreter.ends_with(b"/env") {
        true => words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='))?,
        false => interpreter,
    };
    Some(OsString::from_vec(named.to_vec()))
}

/// Returns the directories in which the libraries of a file in `origin` are searched.
fn folders(asks: &Linked<'_>, origin: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let run_path = asks.run_path.map(OsStr::from_bytes);
    for folder in run_path.iter().flat_map(std::env::split_paths) {
        let rest = ["$ORIGIN", "${ORIGIN}"].iter().find_map(|mark| folder.strip_prefix(mark).ok());
        folders.push(rest.map_or_else(|| folder.clone(), |rest| origin.join(rest)));
    }
    folders.extend(std::env::var_os("LD_LIBRARY_PATH").iter().flat_map(std::env::split_paths));
    let more = std::fs::read_dir("/etc/ld.so.conf.d").into_iter().flatten().flatten();
    let mut configured: Vec<_> = more.map(|entry| entry.path()).collect();
    configured.sort_unstable();
    configured.push("/etc/ld.so.conf".into());
    for file in configured {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        folders.extend(text.lines().filter(|line| line.starts_with('/')).map(PathBuf::from));
    }
    folders.extend(["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(PathBuf::from));
    folders
}

fn find_library(name: &OsStr, folders: &[PathBuf]) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(name.into());
    }
    folders.iter().map(|folder| folder.join(name)).find(|path| is_for_64_bit(path))
}

/// Returns true for a 64-bit ELF file. The list also contains directories with 32-bit libraries.
fn is_for_64_bit(path: &Path) -> bool {
    let mut start = [0; 5];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *b"\x7fELF\x02"
}

/// Returns the files that a process (by its name in `/proc`) has mapped, with their paths in its own mount namespace,
/// once for each mapping.
pub(crate) fn mapped_files(process: &str) -> Result<Vec<PathBuf>, Error> {
    let mappings = pyrograph_record::mappings(process).map_err(|source| {
        match (source.kind(), process.parse()) {
            (io::ErrorKind::NotFound, Ok(pid)) => {
                pyrograph_record::Error::NoSuchProcess { pid }.into()
            }
            _ => Error::Mappings { process: process.to_owned(), source },
        }
    })?;
    let files = mappings.into_iter().filter(pyrograph_record::Mapping::is_of_file);
    Ok(files.map(|mapping| OsString::from_vec(mapping.path).into()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(program: &str) -> Vec<String> {
        let name = |path: PathBuf| Some(path.file_name()?.to_string_lossy().into_owned());
        files(OsStr::new(program)).into_iter().filter_map(name).collect()
    }

    #[test]
    fn a_program_brings_its_linker_and_libraries() {
        let own = std::env::current_exe().expect("this test");
        let names = names(own.to_str().expect("a plain path"));
        let maps = std::fs::read_to_string("/proc/self/maps").expect("own mappings");
        let mapped = maps.lines().filter(|line| line.contains(" r-xp "));
        for path in mapped.filter_map(|line| Some(&line[line.find('/')?..])) {
            let name = path.rsplit('/').next().expect("a name");
            assert!(names.iter().any(|found| found == name), "{name} is not in {names:?}");
        }
    }

    #[test]
    fn a_script_brings_its_interpreter() {
        let folder = tempfile::tempdir().expect("a folder");
        for line in ["#!/bin/sh -e\n", "#! /usr/bin/env sh\n", "#!/usr/bin/env -S A=1 sh"] {
            let path = folder.path().join("script");
            std::fs::write(&path, line).expect("a file");
            let names = names(path.to_str().expect("a plain path"));
            assert!(names.len() > 2 && names[0] == "script", "{line}: {names:?}");
        }
        assert!(names("no-such-program").is_empty());
    }
}
