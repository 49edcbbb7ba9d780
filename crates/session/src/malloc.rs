//! Finds the file whose `malloc` a target calls: a program's own, that of a library that takes precedence over the C library,
//! or the C library's.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pyrograph_elf::Image;
use pyrograph_event::request::Trigger;
use pyrograph_record::Target;
use pyrograph_resolve::in_root_of;

use crate::error::Error;
use crate::needed::{self, mapped_files};

/// Returns the trigger for allocations of the process or command: the file whose `malloc` it calls, and its other files, which
/// may have another allocator; for the whole machine, the C library. `live`: only what is not freed.
///
/// # Errors
///
/// If there are several processes, or the process or program does not exist.
pub fn trigger(target: &Target, live: bool) -> Result<Trigger, Error> {
    let (path, others) = match target {
        Target::Processes(pids) if pids.len() > 1 => return Err(Error::SeveralProcesses),
        Target::Processes(pids) => {
            of_process(&pids.first().map_or_else(|| "self".to_owned(), ToString::to_string))?
        }
        Target::System => (of_machine()?, Vec::new()),
        Target::Command(argv) => of_command(argv)?,
    };
    Ok(Trigger::Allocations { path, others, live })
}

/// Time that a process is given to map its libraries: it may have started just now.
const STARTING: Duration = Duration::from_secs(2);

/// The file whose `malloc` a process calls, and its other files.
fn of_process(process: &str) -> Result<(PathBuf, Vec<PathBuf>), Error> {
    let program = PathBuf::from(format!("/proc/{process}/exe"));
    let until = Instant::now() + STARTING;
    loop {
        let mut paths = mapped_files(process)?;
        // One mapping of a file follows the other.
        paths.dedup();
        let outside = |path: &Path| in_root_of(process, path);
        if let Some(path) = among(&paths, outside) {
            return Ok((outside(path), paths.iter().map(|path| outside(path)).collect()));
        }
        let is_static = !paths.iter().any(|path| is_loader(path)) && !needed::has_loader(&program);
        if is_static || Instant::now() > until {
            return Ok((program, Vec::new()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The C library that programs use here: this one's, or, if this one is linked statically, the shell's.
fn of_machine() -> Result<PathBuf, Error> {
    let own = mapped_files("self")?;
    let library =
        own.into_iter().chain(needed::files(OsStr::new("/bin/sh"))).find(|path| is_c_library(path));
    library.ok_or_else(|| needed::missing(&["/bin/sh".into()]).into())
}

/// The file whose `malloc` a command calls, and its other files.
fn of_command(argv: &[OsString]) -> Result<(PathBuf, Vec<PathBuf>), Error> {
    let (program, preloaded) = without_env(argv);
    let files: Vec<PathBuf> =
        program.into_iter().flat_map(|program| needed::files(program)).collect();
    // In the order in which the loader searches them: the program, what is preloaded, libraries.
    let names = preloaded.or_else(|| std::env::var_os("LD_PRELOAD"));
    let preloaded = needed::preloaded(names.as_deref());
    let (first, rest) = files.split_at(files.len().min(1));
    let has_loader = first.iter().any(|program| needed::has_loader(program))
        || rest.iter().any(|path| is_loader(path));
    let preloaded = if has_loader { preloaded } else { Vec::new() };
    let all: Vec<PathBuf> = [first, &preloaded, rest].concat();
    let found = among(&all, Path::to_owned).or(files.first());
    let found = found.cloned().ok_or_else(|| needed::missing(argv))?;
    Ok((found, files))
}

/// The program of a command, and what `env` preloads into it: `env LD_PRELOAD=libjemalloc.so.2 ./app`.
fn without_env(argv: &[OsString]) -> (Option<&OsString>, Option<OsString>) {
    let mut words = argv.iter();
    let first = words.next();
    let is_env =
        first.is_some_and(|program| Path::new(program).file_name() == Some(OsStr::new("env")));
    if !is_env {
        return (first, None);
    }
    let mut preloaded = None;
    for word in words {
        match word.as_bytes().strip_prefix(b"LD_PRELOAD=") {
            Some(names) => preloaded = Some(OsStr::from_bytes(names).to_owned()),
            None if word.as_bytes().contains(&b'=') => {}
            // With options, it could be the value of one.
            None if word.as_bytes().starts_with(b"-") => return (first, None),
            None => return (Some(word), preloaded),
        }
    }
    (first, None)
}

/// Finds the file among these whose `malloc` is called: the first with one, the C library last. `outside`: the path of a file
/// for this process.
fn among(paths: &[PathBuf], outside: impl Fn(&Path) -> PathBuf) -> Option<&PathBuf> {
    const ALLOCATORS: [&str; 3] = ["libjemalloc.so", "libtcmalloc", "libmimalloc.so"];
    let is_named = |path: &&PathBuf| ALLOCATORS.iter().any(|name| name_of(path).starts_with(name));
    let is_other = |path: &&PathBuf| !is_loader(path) && !is_c_library(path);
    paths
        .iter()
        .find(is_named)
        .or_else(|| paths.iter().filter(is_other).find(|path| has_malloc(&outside(path))))
        .or_else(|| paths.iter().find(|path| is_c_library(path)))
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn is_c_library(path: &Path) -> bool {
    ["libc.so", "libc-", "ld-musl"].iter().any(|name| name_of(path).starts_with(name))
}

/// Returns true for the dynamic loader: `ld-linux-x86-64.so.2`, `ld-2.31.so`. Some have a `malloc` for their own start.
pub fn is_loader(path: &Path) -> bool {
    let name = name_of(path);
    name.starts_with("ld") && name.contains(".so") && !is_c_library(path)
}

/// Returns true if a file defines `malloc` for others, too.
fn has_malloc(path: &Path) -> bool {
    Image::open(path).is_ok_and(|image| image.has_global("malloc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file whose `malloc` a target calls.
    fn file(target: &Target) -> Result<PathBuf, Error> {
        match trigger(target, false)? {
            Trigger::Allocations { path, .. } => Ok(path),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_process_has_a_c_library() {
        let pid = i32::try_from(std::process::id()).expect("a small number");
        let path = file(&Target::Processes(vec![pid])).expect("its mappings can be read");
        assert!(path.exists(), "{}", path.display());
        let machines = file(&Target::System).expect("a C library");
        assert!(is_c_library(&machines) && machines.exists(), "{}", machines.display());
    }

    /// It was taken for a program with an allocator of its own.
    #[test]
    fn a_process_that_starts_has_a_c_library_soon() {
        for _ in 0..20 {
            let mut child = std::process::Command::new("sleep").arg("9").spawn().expect("it runs");
            let pid = i32::try_from(child.id()).expect("a small number");
            let path = file(&Target::Processes(vec![pid]));
            child.kill().and_then(|()| child.wait()).expect("it ends");
            assert!(!path.expect("its mappings can be read").ends_with("exe"));
        }
    }

    /// A library that defines `malloc`, whatever its name is; nothing was seen of its allocations.
    #[test]
    fn a_preloaded_library_takes_precedence() {
        let folder = tempfile::tempdir().expect("a folder");
        let (source, library) = (folder.path().join("own.c"), folder.path().join("libown.so"));
        std::fs::write(&source, "#include <stddef.h>\nvoid *malloc(size_t n) { return 0; }\n")
            .expect("a file");
        let compiled = std::process::Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .status()
            .expect("a compiler");
        assert!(compiled.success());
        let command = |words: &[&str]| {
            let argv = words.iter().map(OsString::from).collect();
            file(&Target::Command(argv)).expect("a program")
        };
        let preload = format!("LD_PRELOAD={}", library.display());
        assert_eq!(command(&["env", &preload, "A=b", "sleep", "9"]), library);
        assert_eq!(command(&["env", &format!("{preload}:libc.so.6"), "sleep"]), library);
        assert!(is_c_library(&command(&["sleep", "9"])));
        assert!(is_c_library(&command(&["env", "A=b", "sleep"])));
        assert!(is_c_library(&command(&["env", "-u", "A", "sleep"])));
    }
}
