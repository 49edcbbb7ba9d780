//! One ELF file, as some process has it mapped.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use object::Object;
use pyrograph_elf::{Image, Segment};
use thiserror::Error;

use crate::build_id::BuildId;
use crate::debug::{DebugFile, DebugInfo};
use crate::dwarf::DebugSections;
use crate::kept::Kept;
use crate::locate::{Locator, Wanted};

/// Why a file cannot be used as a module.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be mapped into memory.
    #[error("map {}: {error}", path.display())]
    Map {
        /// The module's path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file is no ELF file, or a damaged one.
    #[error("{} is not an ELF file that can be read: {reason}", path.display())]
    Elf {
        /// The module's path.
        path: PathBuf,
        /// The defect.
        reason: String,
    },
    /// The file is of another build than the one that ran.
    #[error("{} has build ID {}, but what ran had {expected}: the file was replaced",
        path.display(), found.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string))]
    BuildId {
        /// The module's path.
        path: PathBuf,
        /// The build ID of what ran.
        expected: BuildId,
        /// The build ID of the file.
        found: Option<BuildId>,
    },
}

/// Facts about a module beside its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Source<'a> {
    /// Path of the file as the process sees it. Debug files are looked for relative to it. What
    /// the kernel appends to the path of a deleted file, ` (deleted)`, may be left on.
    pub path: &'a str,
    /// The build ID that the file must have, from the mapping's record.
    pub build_id: Option<&'a BuildId>,
    /// The root directory of the process, such as `/proc/PID/root`, if it may be another than
    /// ours. Debug files are looked for in it first, then in ours.
    pub root: Option<&'a Path>,
}

impl Error {
    fn of(path: &Path, error: pyrograph_elf::Error) -> Self {
        let path = path.to_owned();
        match error {
            pyrograph_elf::Error::Map(error) => Self::Map { path, error },
            error => Self::Elf { path, reason: error.to_string() },
        }
    }
}

/// Maps the file at `path`.
///
/// # Errors
///
/// If it cannot be opened or mapped, or is not ELF.
pub fn open_image(path: &Path) -> Result<Image, Error> {
    Image::open(path).map_err(|error| Error::of(path, error))
}

/// One ELF file: addresses in it, and what they mean. Opening reads headers only; symbol tables
/// and debug information are read when an address asks for them. What was found and decompressed
/// for the first pass stays for later ones; drop the module to free it. Modules can be sent to, and
/// shared by, threads.
///
/// An address here is always one of the file itself (what `nm` prints, st_value), not of a process;
/// [`Module::file_offset_to_address`] leads to it.
#[derive(Debug)]
pub struct Module {
    pub(crate) image: Arc<Image>,
    pub(crate) path: PathBuf,
    pub(crate) root: Option<PathBuf>,
    build_id: Option<BuildId>,
    /// Found when it is asked for, and kept, as what follows.
    debug_file: OnceLock<DebugFile>,
    /// Kept for later passes.
    debug: Mutex<Option<Arc<DebugInfo>>>,
    pub(crate) kept: Mutex<Kept>,
}

impl Module {
    /// Gives back the memory of the file's pages, and of its debug file's. It is used as before.
    pub fn give_pages_back(&self) {
        self.image.give_pages_back();
        if let Some((_, image)) = self.debug_file.get().and_then(|debug| debug.file.as_ref()) {
            image.give_pages_back();
        }
    }

    /// A module from an open file, which is mapped. `file` may come from `/proc/PID/map_files`, so
    /// that it is the very file that runs even if another has taken its path.
    ///
    /// # Errors
    ///
    /// If it cannot be mapped, is not ELF, or has another build ID than `source` says.
    pub fn open(file: &File, source: Source<'_>) -> Result<Self, Error> {
        Self::new(Image::map(file), source)
    }

    /// A module from bytes in memory, such as the vDSO read from a process, or a fuzzer's input.
    ///
    /// # Errors
    ///
    /// If they are not ELF, or have another build ID than `source` says.
    pub fn from_bytes(bytes: Vec<u8>, source: Source<'_>) -> Result<Self, Error> {
        Self::new(Image::from_bytes(bytes), source)
    }

    fn new(image: Result<Image, pyrograph_elf::Error>, source: Source<'_>) -> Result<Self, Error> {
        let path = PathBuf::from(source.path.strip_suffix(" (deleted)").unwrap_or(source.path));
        let image = Arc::new(image.map_err(|error| Error::of(&path, error))?);
        let build_id = build_id_of(&image);
        if let Some(expected) = source.build_id
            && !build_id.as_ref().is_some_and(|found| found.agrees_with(expected))
        {
            return Err(Error::BuildId { path, expected: expected.clone(), found: build_id });
        }
        let root = source.root.map(Path::to_owned);
        let (debug_file, debug, kept) = Default::default();
        Ok(Self { image, path, root, build_id, debug_file, debug, kept })
    }

    pub(crate) fn debug(&self, locator: &Locator) -> Arc<DebugInfo> {
        let mut debug = self.kept_debug();
        Arc::clone(debug.get_or_insert_with(|| Arc::new(DebugInfo::find(self, locator))))
    }

    /// Lets go of what passes over it have read of debug information, which can be as large as the largest of files.
    pub fn forget_debug(&self) {
        self.kept_debug().take();
    }

    fn kept_debug(&self) -> MutexGuard<'_, Option<Arc<DebugInfo>>> {
        self.debug.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path that it was opened with.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The build ID in its notes.
    pub fn build_id(&self) -> Option<&BuildId> {
        self.build_id.as_ref()
    }

    /// Parts of the file that are mapped, and where, in the file's order.
    pub fn segments(&self) -> &[Segment] {
        self.image.segments()
    }

    /// The file itself.
    pub fn image(&self) -> &Arc<Image> {
        &self.image
    }

    /// Its separate debug file, where it has one and no debug information of its own. Symbolization looks for that
    /// file itself: this is for its `.debug_frame`.
    pub fn debug_image(&self, locator: &Locator) -> Option<&Arc<Image>> {
        self.debug_file(locator).file.as_ref().map(|(_, image)| image)
    }

    /// Whether it or its separate debug file has DWARF, of whatever functions.
    pub fn has_debug_information(&self, locator: &Locator) -> bool {
        self.debug_image(locator).is_some() || DebugSections::are_in(&self.image)
    }

    pub(crate) fn debug_file(&self, locator: &Locator) -> &DebugFile {
        self.debug_file.get_or_init(|| DebugFile::find(self, locator))
    }

    /// The references that identify its debug file.
    pub(crate) fn wanted(&self) -> Wanted<'_> {
        let link = self.image.elf().gnu_debuglink().ok().flatten();
        Wanted { path: &self.path, root: self.root.as_deref(), build_id: self.build_id(), link }
    }

    /// The address of the byte at `offset` of the file, or nothing if no segment maps it. Where
    /// two do, the executable one is meant.
    pub fn file_offset_to_address(&self, offset: u64) -> Option<u64> {
        self.image.address_of(offset)
    }
}

pub(crate) fn build_id_of(image: &Image) -> Option<BuildId> {
    BuildId::new(image.build_id()?)
}
