//! Sections, decompressed with a size limit.

use std::fmt;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use object::{CompressionFormat, Object, ObjectSection};

use crate::image::Image;

/// Maximum size of a decompressed section. Chromium's `.debug_info`, among the largest known, has about 2 GB. Without a
/// limit a small file could exhaust all memory.
const MAX_SECTION_SIZE: u64 = 4 << 30;

/// Contents of a section: a range of the file, or decompressed bytes. It borrows nothing from its [`Image`], so that
/// both can be kept together.
#[derive(Clone)]
pub enum Section {
    /// Range of the file.
    InFile(Range<usize>),
    /// Range of other memory.
    Elsewhere(Arc<dyn AsRef<[u8]> + Send + Sync>, Range<usize>),
}

impl fmt::Debug for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, range) = match self {
            Self::InFile(range) => ("InFile", range),
            Self::Elsewhere(_, range) => ("Elsewhere", range),
        };
        f.debug_tuple(name).field(range).finish()
    }
}

impl Section {
    /// A missing section.
    pub const EMPTY: Self = Self::InFile(0..0);

    /// Loads the section `name` of a file, decompressed; empty if there is none. The older form of compressed sections,
    /// `.zdebug_…`, is found as well.
    ///
    /// # Errors
    ///
    /// Returns an error if it is damaged, or compressed in an unknown way.
    pub fn load(image: &Image, name: &str) -> io::Result<Self> {
        let elf = image.elf();
        let older = || elf.section_by_name(&name.replacen(".debug_", ".zdebug_", 1));
        let Some(section) = elf.section_by_name(name).or_else(older) else {
            return Ok(Self::EMPTY);
        };
        let invalid = |error: &dyn fmt::Display| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{name}: {error}"))
        };
        let range = section.compressed_file_range().map_err(|error| invalid(&error))?;
        if range.format == CompressionFormat::None {
            let start = usize::try_from(range.offset).map_err(|error| invalid(&error))?;
            let size = usize::try_from(range.uncompressed_size).map_err(|error| invalid(&error))?;
            let end = start.checked_add(size).ok_or_else(|| invalid(&"size out of range"))?;
            return Ok(Self::InFile(start..end));
        }
        let compressed = section.compressed_data().map_err(|error| invalid(&error))?;
        let bytes = decompress(&compressed).map_err(|error| invalid(&error))?;
        let range = 0..bytes.len();
        Ok(Self::Elsewhere(Arc::new(bytes), range))
    }

    /// Returns true if it has no bytes.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::InFile(range) | Self::Elsewhere(_, range) => range.is_empty(),
        }
    }

    /// Returns its bytes. `image` must be the file that it was loaded from.
    pub fn bytes<'a>(&'a self, image: &'a Image) -> &'a [u8] {
        let (bytes, range) = match self {
            Self::InFile(range) => (image.bytes(), range),
            Self::Elsewhere(bytes, range) => ((**bytes).as_ref(), range),
        };
        bytes.get(range.clone()).unwrap_or_default()
    }
}

/// Decompresses data. The size in the header is only a hint: memory grows with the actual output.
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

/// Reads everything from `reader`.
///
/// # Errors
///
/// Returns an error if it cannot be read, or has more than `limit` bytes.
pub fn read_to(reader: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    // One allocation for plausible sizes, growth for the rest.
    let mut bytes = Vec::with_capacity(limit.min(16 << 20) as usize);
    reader.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "larger than it says"));
    }
    Ok(bytes)
}
