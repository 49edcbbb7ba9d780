//! A module: one ELF file that a process maps.

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

/// Error from opening a file as a module.
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
    /// The file is not an ELF file, or it is damaged.
    #[error("{} is not an ELF file that can be read: {reason}", path.display())]
    Elf {
        /// The module's path.
        path: PathBuf,
        /// The defect.
        reason: String,
    },
    /// The file's build ID differs from the expected one: it is another build than the one that ran.
    #[error("{} has build ID {}, but what ran had {expected}: the file was replaced",
        path.display(), found.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string))]
    BuildId {
        /// The module's path.
        path: PathBuf,
        /// Build ID of the code that ran.
        expected: BuildId,
        /// Build ID of the file; `None` if it has none.
        found: Option<BuildId>,
    },
}

/// Facts about a module that are not in its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Source<'a> {
    /// Path of the file as the process sees it. Debug files are searched relative to it. The suffix ` (deleted)`,
    /// which the kernel appends to the path of a deleted file, is ignored.
    pub path: &'a str,
    /// Build ID that the file must have, from the mapping's record; `None` to accept any build.
    pub build_id: Option<&'a BuildId>,
    /// Root directory of the process, such as `/proc/PID/root`, if it may differ from ours. Debug files are
    /// searched below it first, then below our own root.
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

/// Maps the ELF file at `path` into memory.
///
/// # Errors
///
/// If it cannot be opened or mapped, or is not ELF.
pub fn open_image(path: &Path) -> Result<Image, Error> {
    Image::open(path).map_err(|error| Error::of(path, error))
}

/// An ELF file whose addresses can be symbolized. Opening it reads only headers; symbol tables and debug
/// information are read when an address first needs them. Data that was found and decompressed in the first pass is
/// kept for later passes; drop the module to free it. Modules can be sent to, and shared between, threads.
///
/// An address here is always an address of the file itself (as printed by `nm`, the `st_value` of a symbol), not of
/// a process. [`Module::file_offset_to_address`] computes one from a file offset.
#[derive(Debug)]
pub struct Module {
    pub(crate) image: Arc<Image>,
    pub(crate) path: PathBuf,
    pub(crate) root: Option<PathBuf>,
    build_id: Option<BuildId>,
    /// Separate debug file, searched at the first use.
    debug_file: OnceLock<DebugFile>,
    /// Debug information, loaded at the first use and kept for later passes.
    debug: Mutex<Option<Arc<DebugInfo>>>,
    pub(crate) kept: Mutex<Kept>,
}

impl Module {
    /// Releases the memory of the pages of the mapped file and of its debug file. Both stay usable: pages are read
    /// again on access.
    pub fn give_pages_back(&self) {
        self.image.give_pages_back();
        if let Some((_, image)) = self.debug_file.get().and_then(|debug| debug.file.as_ref()) {
            image.give_pages_back();
        }
    }

    /// Maps an open file as a module. `file` may come from `/proc/PID/map_files`: then it is the very file that
    /// runs, even if another file has taken its path.
    ///
    /// # Errors
    ///
    /// If the file cannot be mapped, is not ELF, or has another build ID than `source` expects.
    pub fn open(file: &File, source: Source<'_>) -> Result<Self, Error> {
        Self::new(Image::map(file), source)
    }

    /// Creates a module from bytes in memory, such as the vDSO read from a process, or a fuzzer's input.
    ///
    /// # Errors
    ///
    /// If the bytes are not ELF, or have another build ID than `source` expects.
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

    /// Frees the debug information that earlier passes have loaded. It can be very large.
    pub fn forget_debug(&self) {
        self.kept_debug().take();
    }

    fn kept_debug(&self) -> MutexGuard<'_, Option<Arc<DebugInfo>>> {
        self.debug.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Path that the module was opened with, without ` (deleted)`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Build ID from the ELF notes of the file; `None` if it has none.
    pub fn build_id(&self) -> Option<&BuildId> {
        self.build_id.as_ref()
    }

    /// Loadable segments: file offsets and addresses, in the order of the program headers.
    pub fn segments(&self) -> &[Segment] {
        self.image.segments()
    }

    /// The mapped ELF file.
    pub fn image(&self) -> &Arc<Image> {
        &self.image
    }

    /// Separate debug file, if the module has one and no debug information of its own. Symbolization finds this
    /// file by itself; the method exists for readers of its `.debug_frame`.
    pub fn debug_image(&self, locator: &Locator) -> Option<&Arc<Image>> {
        self.debug_file(locator).file.as_ref().map(|(_, image)| image)
    }

    /// Returns true if the module has DWARF sections or a separate debug file, whatever functions these describe.
    pub fn has_debug_information(&self, locator: &Locator) -> bool {
        self.debug_image(locator).is_some() || DebugSections::are_in(&self.image)
    }

    pub(crate) fn debug_file(&self, locator: &Locator) -> &DebugFile {
        self.debug_file.get_or_init(|| DebugFile::find(self, locator))
    }

    /// References that identify the module's debug file.
    pub(crate) fn wanted(&self) -> Wanted<'_> {
        let link = self.image.elf().gnu_debuglink().ok().flatten();
        Wanted { path: &self.path, root: self.root.as_deref(), build_id: self.build_id(), link }
    }

    /// Address of the byte at `offset` in the file; `None` if no segment maps it. If several segments do, an
    /// executable one is preferred.
    pub fn file_offset_to_address(&self, offset: u64) -> Option<u64> {
        self.image.address_of(offset)
    }
}

pub(crate) fn build_id_of(image: &Image) -> Option<BuildId> {
    BuildId::new(image.build_id()?)
}
