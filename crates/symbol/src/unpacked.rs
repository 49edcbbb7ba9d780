//! Cache of decompressed debug sections: one cache file for each ELF file with compressed sections.
//!
//! Debian's debug information of the C library takes 20 ms to decompress, and another 6 ms to index its units by
//! address; reading both back takes a tenth of that.
//!
//! ```text
//! index      8 bytes   offset of the index
//! sections  16 bytes each: offset and length of a section
//! …                    the sections
//! index                index from addresses to units
//! ```
//!
//! All numbers are little-endian.

use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use foldhash::quality::FixedState;
use object::{CompressionFormat, Object, ObjectSection};
use pyrograph_cache::{Folder, Kept, Stamp};
use pyrograph_elf::{Image, Section};

use crate::debug::DwarfFile;
use crate::dwarf::{DebugSections, READ, UnitIndex};

const TABLE: usize = 8;
const BODY: usize = TABLE + 16 * READ.len();

/// Size limit in bytes of all decompressed sections of a file. The C library's take 8 MiB. Most of a larger file is
/// never needed, so it is decompressed again instead.
const LARGEST: u64 = 128 << 20;
/// Size limit in bytes of all cache files together. The least recently used files are removed first.
const MOST_STORED: u64 = 512 << 20;

/// Loads the debug information of a file; `None` if it has none. If it is compressed, the decompressed sections are
/// stored below `cache`, a folder such as `~/.cache`. `lowest` is the lowest address of code.
pub(crate) fn load(
    image: &Image,
    lowest: u64,
    cache: Option<&Path>,
) -> io::Result<Option<DwarfFile>> {
    let of = cache.and_then(|_| identity(image, lowest));
    let folder = cache.and_then(|cache| Folder::open(cache, "debug"));
    let Some((of, folder)) = of.zip(folder) else {
        let sections = DebugSections::load(image)?;
        return Ok(sections.map(|sections| DwarfFile { sections, index: OnceLock::new() }));
    };
    let (name, now) = (format!("{of:016x}.sections"), SystemTime::now());
    let stamp = Stamp { kind: *b"debug\0\0", version: 2, of };
    if let Some(file) = folder.read(&name, stamp).and_then(|kept| read(image, kept)) {
        folder.used(&name, now);
        return Ok(Some(file));
    }
    let Some((file, bytes)) = decompress(image, lowest)? else { return Ok(None) };
    // If the file cannot be written, the sections are decompressed again the next time.
    if folder.write(&name, stamp, &bytes).is_ok() {
        folder.make_room(MOST_STORED, now);
    }
    Ok(Some(file))
}

/// Hash of the sections as stored in the file, and of `lowest`, on which the index depends as well. `None` if no
/// section is compressed, or if they are too large. All bytes are hashed: a user whose file is recorded must not be
/// able to affect the names in other files.
fn identity(image: &Image, lowest: u64) -> Option<u64> {
    let mut ranges = Vec::with_capacity(READ.len());
    for id in READ {
        let section = image.elf().section_by_name(id.name());
        ranges.push(section.map(|section| section.compressed_file_range()).transpose().ok()?);
    }
    let present = || ranges.iter().flatten();
    let is_compressed = present().any(|range| range.format != CompressionFormat::None);
    let size = present().fold(0u64, |size, range| size.saturating_add(range.uncompressed_size));
    // Hashing hundreds of megabytes that will not be cached takes longer than everything else.
    if !is_compressed || size > LARGEST {
        return None;
    }
    let mut hasher = FixedState::default().build_hasher();
    for range in ranges {
        let Some(range) = range else {
            hasher.write_u64(u64::MAX);
            continue;
        };
        let start = usize::try_from(range.offset).ok()?;
        let end = start.checked_add(usize::try_from(range.compressed_size).ok()?)?;
        hasher.write_u64(range.uncompressed_size);
        hasher.write(image.bytes().get(start..end)?);
    }
    hasher.write_u64(lowest);
    Some(hasher.finish())
}

/// Decompresses all sections and builds the contents of the cache file.
fn decompress(image: &Image, lowest: u64) -> io::Result<Option<(DwarfFile, Vec<u8>)>> {
    let mut bytes = vec![0; BODY];
    let mut sections = Vec::with_capacity(READ.len());
    let mut table = Vec::with_capacity(BODY - TABLE);
    for id in READ {
        let section = Section::load(image, id.name())?;
        let start = bytes.len() as u64;
        bytes.extend_from_slice(section.bytes(image));
        table.extend([start, bytes.len() as u64 - start].into_iter().flat_map(u64::to_le_bytes));
        sections.push(section);
    }
    let index_at = bytes.len() as u64;
    let take = |position: usize| std::mem::replace(&mut sections[position], Section::EMPTY);
    let Some(sections) = DebugSections::new(image, take) else { return Ok(None) };
    let index = UnitIndex::build(&sections.dwarf(image), lowest).unwrap_or_default();
    index.to_bytes(&mut bytes);
    bytes[TABLE..BODY].copy_from_slice(&table);
    bytes[..TABLE].copy_from_slice(&index_at.to_le_bytes());
    Ok(Some((DwarfFile { sections, index: OnceLock::from(index) }, bytes)))
}

/// Reads a cache file; `None` if it is damaged.
fn read(image: &Image, kept: Kept) -> Option<DwarfFile> {
    let index = UnitIndex::from_bytes(kept.get(word(&kept, 0)?..)?)?;
    let kept = Arc::new(kept);
    let section = |position: usize| {
        let at = TABLE + 16 * position;
        let bounds = word(&kept, at).zip(word(&kept, at + 8));
        let (start, len) = bounds.unwrap_or_default();
        Section::Elsewhere(kept.clone(), start..start.saturating_add(len))
    };
    let sections = DebugSections::new(image, section)?;
    Some(DwarfFile { sections, index: OnceLock::from(index) })
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..)?.first_chunk().copied().map(u64::from_le_bytes);
    word.and_then(|word| word.try_into().ok())
}
