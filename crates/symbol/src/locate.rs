//! Search for separate debug files.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use object::Object;
use pyrograph_elf::{Error, Image};

use crate::build_id::BuildId;
use crate::debuginfod::Debuginfod;
use crate::module::build_id_of;
use crate::symbolize::Warning;

/// Locations of debug files, and of the modules of recordings made on other machines.
#[derive(Clone, Debug)]
pub struct Locator {
    /// Global debug directories. Each has a `.build-id` directory and a copy of the tree of installed files.
    /// `/usr/lib/debug` by default.
    pub debug_dirs: Vec<PathBuf>,
    /// Copy of another machine's file system. Every path is looked up in it.
    pub symfs: Option<PathBuf>,
    /// Cache in which `perf record` stores the files that it saw running, by build ID: `~/.debug`.
    pub build_id_cache: Option<PathBuf>,
    /// Servers to ask for debug files that this machine does not have.
    pub debuginfod: Option<Debuginfod>,
}

impl Default for Locator {
    /// The usual directories of this machine and user, and the debuginfod servers from the environment.
    fn default() -> Self {
        Self {
            debug_dirs: vec!["/usr/lib/debug".into()],
            symfs: None,
            build_id_cache: std::env::home_dir().map(|home| home.join(".debug")),
            debuginfod: Debuginfod::from_env(),
        }
    }
}

/// Evidence that a file belongs to a module.
enum Proof<'a> {
    BuildId(&'a BuildId),
    /// CRC-32 of the whole file, from `.gnu_debuglink`.
    Crc(u32),
}

/// A module's references to its debug file.
pub(crate) struct Wanted<'a> {
    pub path: &'a Path,
    pub root: Option<&'a Path>,
    pub build_id: Option<&'a BuildId>,
    /// File name and CRC-32, from `.gnu_debuglink`.
    pub link: Option<(&'a [u8], u32)>,
}

impl Locator {
    /// Opens the file of a recording with this `path` and `build_id`: in `symfs` if that is set, else at its own
    /// path. If the file is missing there or is of another build, it is taken from the build ID cache.
    ///
    /// # Errors
    ///
    /// The error from opening `path`, or [`io::ErrorKind::NotFound`] if only another build was found.
    pub fn open_module(&self, path: &Path, build_id: Option<&BuildId>) -> io::Result<File> {
        let is_it = |file: &File| {
            build_id.is_none_or(|wanted| {
                let found = Image::map(file).ok().and_then(|image| build_id_of(&image));
                found.is_some_and(|found| found.agrees_with(wanted))
            })
        };
        let path = self.symfs.as_deref().map_or_else(|| path.to_owned(), |fs| below(fs, path));
        let result = File::open(&path);
        if let Ok(file) = &result
            && is_it(file)
        {
            return result;
        }
        let cached = build_id.and_then(|id| self.cached(id, "elf"));
        match (cached.and_then(|path| File::open(path).ok()).filter(is_it), result) {
            (Some(file), _) => Ok(file),
            (None, Err(error)) => Err(error),
            (None, Ok(_)) => Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("{} is of another build than the one that ran", path.display()),
            )),
        }
    }

    /// Opens the debug file of a build whose executable is not on this machine. It has the function names and their
    /// addresses.
    pub fn open_debug_file(&self, build_id: &BuildId) -> Option<File> {
        let wanted =
            Wanted { path: Path::new(""), root: None, build_id: Some(build_id), link: None };
        let (path, _) = self.debug_file(&wanted, &mut Vec::new())?;
        File::open(path).ok()
    }

    /// Finds the debug file of a module. Candidates of another build are reported in `warnings`.
    pub(crate) fn debug_file(
        &self,
        wanted: &Wanted<'_>,
        warnings: &mut Vec<Warning>,
    ) -> Option<(PathBuf, Image)> {
        let by_build_id =
            wanted.build_id.into_iter().flat_map(|id| self.build_id_paths(id, wanted.root));
        let mut try_path = |path: PathBuf, proof: &Proof<'_>| {
            accept(path, proof, warnings).filter(|(_, image)| holds_symbols(image))
        };
        if let Some(id) = wanted.build_id
            && let Some(found) =
                by_build_id.into_iter().find_map(|path| try_path(path, &Proof::BuildId(id)))
        {
            return Some(found);
        }
        let proof = match (wanted.build_id, wanted.link) {
            (Some(id), _) => Proof::BuildId(id),
            (None, Some((_, crc))) => Proof::Crc(crc),
            // Nothing would distinguish the right file from a wrong one.
            (None, None) => return None,
        };
        let linked = self.link_paths(wanted).into_iter().find_map(|path| try_path(path, &proof));
        linked.or_else(|| {
            let fetched = self.debuginfod.as_ref()?.debug_file(wanted.build_id?)?;
            try_path(fetched, &proof)
        })
    }

    /// Finds the supplementary file named by `.gnu_debugaltlink` of the debug file `of`.
    pub(crate) fn supplementary_file(
        &self,
        of: &Path,
        root: Option<&Path>,
        link: &Path,
        build_id: &BuildId,
        warnings: &mut Vec<Warning>,
    ) -> Option<Image> {
        let directory = of.parent().unwrap_or(Path::new("/"));
        let mut paths = vec![directory.join(link)];
        paths.extend(self.prefixes(root).map(|prefix| below(prefix, link)));
        paths.extend(self.build_id_paths(build_id, root));
        let found =
            paths.into_iter().find_map(|path| accept(path, &Proof::BuildId(build_id), warnings));
        found.map(|(_, image)| image)
    }

    /// Directories to use as `/`, the most likely first.
    fn prefixes<'a>(&'a self, root: Option<&'a Path>) -> impl Iterator<Item = &'a Path> {
        root.into_iter().chain(self.symfs.as_deref()).chain([Path::new("/")])
    }

    fn build_id_paths(&self, id: &BuildId, root: Option<&Path>) -> Vec<PathBuf> {
        let Some(fan_out) = id.fan_out() else { return Vec::new() };
        let file = format!(".build-id/{fan_out}.debug");
        let mut paths = Vec::new();
        for prefix in self.prefixes(root) {
            paths.extend(self.debug_dirs.iter().map(|dir| below(prefix, dir).join(&file)));
        }
        paths.extend(self.cached(id, "debug"));
        paths.extend(self.cached(id, "elf"));
        paths
    }

    /// Path of a file in perf's cache, which has a directory for each build: `.build-id/xx/yyy/{elf,debug,vdso}`.
    fn cached(&self, id: &BuildId, file: &str) -> Option<PathBuf> {
        let cache = self.build_id_cache.as_ref()?;
        let place = cache.join(".build-id").join(id.fan_out()?);
        // Before Linux 4.13, and in archives of such versions (`perf archive`), this path is the file itself.
        Some(if place.is_file() { place } else { place.join(file) })
    }

    /// Paths where GDB searches for a debug link ("Separate Debug Files" in its manual): in the module's directory,
    /// in `.debug` below it, and in the same directory below each debug directory. Then the paths that
    /// distributions use without a link.
    fn link_paths(&self, wanted: &Wanted<'_>) -> Vec<PathBuf> {
        let directory = wanted.path.parent().unwrap_or(Path::new("/"));
        let link = wanted.link.and_then(|(name, _)| std::str::from_utf8(name).ok());
        // A debug link is a plain file name. A path would lead outside of these directories.
        let link = link.filter(|name| !name.contains('/') && !matches!(*name, "" | "." | ".."));
        let mut paths = Vec::new();
        for prefix in self.prefixes(wanted.root) {
            if let Some(link) = link {
                paths.push(below(prefix, directory).join(link));
                paths.push(below(prefix, directory).join(".debug").join(link));
            }
            for dir in &self.debug_dirs {
                let dir = below(prefix, dir);
                paths.extend(link.map(|link| below(&dir, directory).join(link)));
                let same = below(&dir, wanted.path);
                let mut with_ending = same.clone().into_os_string();
                with_ending.push(".debug");
                paths.push(with_ending.into());
                paths.push(same);
            }
        }
        paths
    }
}

/// Joins `path`, which may be absolute, to `prefix`. Only tools that are given a file by hand pass relative paths:
/// these are relative to the current directory.
fn below(prefix: &Path, path: &Path) -> PathBuf {
    if path.is_relative() && prefix == Path::new("/") {
        return path.to_owned();
    }
    prefix.join(path.strip_prefix("/").unwrap_or(path))
}

/// Opens the file at `path`; `None` if it does not exist. A file that fails `proof` is reported in `warnings`.
fn accept(
    path: PathBuf,
    proof: &Proof<'_>,
    warnings: &mut Vec<Warning>,
) -> Option<(PathBuf, Image)> {
    let image = match Image::open(&path) {
        Err(Error::Map(_)) => return None,
        image => image,
    };
    let reason = match (proof, image) {
        (_, Err(error)) => error.to_string(),
        (Proof::BuildId(wanted), Ok(image)) => match build_id_of(&image) {
            Some(found) if found.agrees_with(wanted) => return Some((path, image)),
            Some(found) => format!("its build ID is {found}, not {wanted}"),
            None => format!("it has no build ID, but {wanted} is wanted"),
        },
        (Proof::Crc(wanted), Ok(image)) => {
            let mut crc = flate2::Crc::new();
            crc.update(image.bytes());
            if crc.sum() == *wanted {
                return Some((path, image));
            }
            format!("its CRC is {:08x}, not {wanted:08x}", crc.sum())
        }
    };
    warnings.push(Warning::NotTheDebugFile { path, reason });
    None
}

/// Returns true if a file has a symbol table or DWARF. The stripped module, to which a link may lead back, has neither.
fn holds_symbols(image: &Image) -> bool {
    let has = |name| image.elf().section_by_name(name).is_some();
    has(".symtab") || has(".debug_info") || has(".zdebug_info")
}
