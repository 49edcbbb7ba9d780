//! The bytes of one ELF file, and its sections, decompressed within limits.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use memmap2::{Mmap, UncheckedAdvice};
use object::{CompressionFormat, Object, ObjectSection};
use pyrograph_cache::Kept;

/// No decompressed section is larger: Chromium's `.debug_info`, among the largest known, has about
/// 2 GB. Without a limit a small file could ask for all memory.
const MAX_SECTION_SIZE: u64 = 4 << 30;

/// The bytes of an ELF file.
#[derive(Debug)]
pub(crate) enum Image {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl Image {
    pub fn map(file: &File) -> io::Result<Self> {
        // A directory or a FIFO cannot be mapped, and the error would not say so.
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        if metadata.len() == 0 {
            return Ok(Self::Owned(Vec::new()));
        }
        // SAFETY: the mapping is private and read-only. What the type system cannot promise is
        // that nobody truncates the file meanwhile, which would end us with SIGBUS. Linkers and
        // package managers replace a file that is in use by a new one under its name, and the old
        // one, which we hold, keeps its bytes.
        Ok(Self::Mapped(unsafe { Mmap::map(file)? }))
    }

    pub fn open(path: &Path) -> io::Result<Self> {
        Self::map(&File::open(path)?)
    }

    /// Gives back the pages of the file that were read: those that are needed again are read again, most often from
    /// the kernel's page cache.
    pub fn give_pages_back(&self) {
        if let Self::Mapped(map) = self {
            // SAFETY: nobody writes to the mapping: its pages have nothing that the file has not.
            let _ = unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed) };
        }
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Owned(bytes) => bytes,
        }
    }

    /// Reads headers and section table; cheap enough to do again for each use, which keeps the
    /// parsed file from having to live beside the bytes that it borrows.
    pub fn elf(&self) -> object::Result<object::File<'_>> {
        object::File::parse(self.bytes())
    }
}

impl AsRef<[u8]> for Image {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

/// A section's bytes: where they are in the file, or what they decompressed to.
#[derive(Debug)]
pub(crate) enum Section {
    InFile {
        start: usize,
        end: usize,
    },
    Decompressed(Vec<u8>),
    /// Decompressed before, in a file of ours.
    Kept {
        kept: Arc<Kept>,
        start: usize,
        end: usize,
    },
}

impl Section {
    pub const EMPTY: Self = Self::InFile { start: 0, end: 0 };

    /// The section `name` of `elf`, which is `image` parsed; empty if it is not there. `.zdebug_…`,
    /// the older way to compress, is looked for too.
    pub fn load(elf: &object::File<'_>, name: &str) -> Result<Self, String> {
        let older = || elf.section_by_name(&name.replacen(".debug_", ".zdebug_", 1));
        let Some(section) = elf.section_by_name(name).or_else(older) else {
            return Ok(Self::EMPTY);
        };
        let fail = |error: &dyn std::fmt::Display| format!("{name}: {error}");
        let range = section.compressed_file_range().map_err(|e| fail(&e))?;
        if range.format == CompressionFormat::None {
            let start = usize::try_from(range.offset).map_err(|e| fail(&e))?;
            let size = usize::try_from(range.uncompressed_size).map_err(|e| fail(&e))?;
            let end = start.checked_add(size).ok_or_else(|| fail(&"size out of range"))?;
            return Ok(Self::InFile { start, end });
        }
        let compressed = section.compressed_data().map_err(|e| fail(&e))?;
        decompress(&compressed).map(Self::Decompressed).map_err(|e| fail(&e))
    }

    pub fn is_empty(&self) -> bool {
        match self {
            Self::InFile { start, end } | Self::Kept { start, end, .. } => start == end,
            Self::Decompressed(bytes) => bytes.is_empty(),
        }
    }

    pub fn bytes<'a>(&'a self, image: &'a Image) -> &'a [u8] {
        match self {
            Self::InFile { start, end } => image.bytes().get(*start..*end).unwrap_or_default(),
            Self::Decompressed(bytes) => bytes,
            Self::Kept { kept, start, end } => kept.get(*start..*end).unwrap_or_default(),
        }
    }
}

/// The size in the header is only a hint: memory grows with what really comes out.
fn decompress(compressed: &object::CompressedData<'_>) -> io::Result<Vec<u8>> {
    let limit = compressed.uncompressed_size.min(MAX_SECTION_SIZE);
    match compressed.format {
        CompressionFormat::Zlib => read_to(flate2::read::ZlibDecoder::new(compressed.data), limit),
        CompressionFormat::Zstandard => {
            read_to(zstd::stream::read::Decoder::with_buffer(compressed.data)?, limit)
        }
        _ => Err(io::Error::new(io::ErrorKind::Unsupported, "unknown compression")),
    }
}

/// All that `reader` has; an error if that is more than `limit` bytes.
pub(crate) fn read_to(reader: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    // One allocation for what is plausible, growth for the rest.
    let mut bytes = Vec::with_capacity(limit.min(16 << 20) as usize);
    reader.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "larger than it says"));
    }
    Ok(bytes)
}
