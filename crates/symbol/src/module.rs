//! One ELF file, as some process has it mapped.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use object::{Object, ObjectSegment};
use thiserror::Error;

use crate::build_id::BuildId;
use crate::debug::DebugInfo;
use crate::image::Image;
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

/// A program header that maps a part of the file (`PT_LOAD`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Virtual address that the file was linked for.
    pub address: u64,
    /// Size in memory, bytes.
    pub size: u64,
    /// Where it starts in the file.
    pub file_offset: u64,
    /// Size in the file, bytes; not more than `size` in a sound file.
    pub file_size: u64,
    /// True if it holds code.
    pub executable: bool,
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
    pub(crate) image: Image,
    pub(crate) path: PathBuf,
    pub(crate) root: Option<PathBuf>,
    build_id: Option<BuildId>,
    segments: Vec<Segment>,
    /// Found when it is asked for, and kept for later passes.
    debug: Mutex<Option<Arc<DebugInfo>>>,
}

impl Module {
    /// Gives back the memory of the file's pages, and of its debug file's. It is used as before.
    pub fn give_pages_back(&self) {
        self.image.give_pages_back();
        let debug = self.debug.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, image)) = debug.as_ref().and_then(|debug| debug.file.as_ref()) {
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
        let image = Image::map(file)
            .map_err(|error| Error::Map { path: PathBuf::from(source.path), error })?;
        Self::new(image, source)
    }

    /// A module from bytes in memory, such as the vDSO read from a process, or a fuzzer's input.
    ///
    /// # Errors
    ///
    /// If they are not ELF, or have another build ID than `source` says.
    pub fn from_bytes(bytes: Vec<u8>, source: Source<'_>) -> Result<Self, Error> {
        Self::new(Image::Owned(bytes), source)
    }

    fn new(image: Image, source: Source<'_>) -> Result<Self, Error> {
        let path = PathBuf::from(source.path.strip_suffix(" (deleted)").unwrap_or(source.path));
        let (build_id, segments) = match image.elf() {
            Ok(elf) => (build_id_of(&elf), segments_of(&elf).collect()),
            Err(error) => return Err(Error::Elf { path, reason: error.to_string() }),
        };
        if let Some(expected) = source.build_id
            && !build_id.as_ref().is_some_and(|found| found.agrees_with(expected))
        {
            return Err(Error::BuildId { path, expected: expected.clone(), found: build_id });
        }
        let root = source.root.map(Path::to_owned);
        Ok(Self { image, path, root, build_id, segments, debug: Mutex::default() })
    }

    pub(crate) fn debug(&self, locator: &Locator) -> Arc<DebugInfo> {
        let mut debug = self.kept_debug();
        Arc::clone(debug.get_or_insert_with(|| Arc::new(DebugInfo::find(self, locator))))
    }

    /// Lets go of what passes over it have found and read of debug information, which can be as large as the
    /// largest of files.
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
        &self.segments
    }

    /// The bytes of its separate debug file, where it has one and no debug information of its own.
    /// Symbolization looks for that file itself: this is for its `.debug_frame`.
    pub fn debug_file(
        &self,
        locator: &Locator,
    ) -> Option<impl AsRef<[u8]> + Send + Sync + 'static + use<>> {
        let elf = self.image.elf().ok()?;
        if elf.section_by_name(".debug_info").is_some() {
            return None;
        }
        locator.debug_file(&self.wanted(&elf), &mut Vec::new()).map(|(_, image)| image)
    }

    /// The references that identify its debug file.
    pub(crate) fn wanted<'a>(&'a self, elf: &object::File<'a>) -> Wanted<'a> {
        let link = elf.gnu_debuglink().ok().flatten();
        Wanted { path: &self.path, root: self.root.as_deref(), build_id: self.build_id(), link }
    }

    /// The address of the byte at `offset` of the file, or nothing if no segment maps it. Where
    /// two do, the executable one is meant.
    pub fn file_offset_to_address(&self, offset: u64) -> Option<u64> {
        let holds = |segment: &&Segment| {
            offset.checked_sub(segment.file_offset).is_some_and(|at| at < segment.file_size)
        };
        let segment = (self.segments.iter().filter(|segment| segment.executable).find(holds))
            .or_else(|| self.segments.iter().find(holds))?;
        segment.address.checked_add(offset - segment.file_offset)
    }
}

pub(crate) fn build_id_of(elf: &object::File<'_>) -> Option<BuildId> {
    BuildId::new(elf.build_id().ok()??)
}

pub(crate) fn segments_of(elf: &object::File<'_>) -> impl Iterator<Item = Segment> {
    elf.segments().map(|segment| {
        let (file_offset, file_size) = segment.file_range();
        Segment {
            address: segment.address(),
            size: segment.size(),
            file_offset,
            file_size,
            executable: segment.permissions().executable(),
        }
    })
}
