//! The header of a file.
//!
//! ```text
//! offset  file                                   pipe
//!      0  "PERFILE2"                             "PERFILE2"
//!      8  size of this header, 104               size of this header, 16
//!     16  size of an attribute entry             records
//!     24  attributes: offset, size
//!     40  data: offset, size
//!     56  event types (not used): offset, size
//!     72  256 bits: which features there are
//! ```
//!
//! An entry of the attributes is a `perf_event_attr` and the section of its event's IDs. After the data, there is the
//! offset and size of each feature's section. On a machine of the other byte order, the magic number and everything
//! else are in that order.
//!
//! Source: `tools/perf/Documentation/perf.data-file-format.txt` in the kernel's source.

use std::ops::Range;

use pyrograph_event::{Attr, ByteOrder, sample_type};

use crate::fields::{Fields, slice};

/// Magic number of a file. Versions before 2 have not been written for more than ten years.
const MAGIC: &[u8; 8] = b"PERFILE2";

/// The same in the other byte order.
const SWAPPED: &[u8; 8] = b"2ELIFREP";

/// Size of the header of data written to a pipe.
pub const PIPE_SIZE: u64 = 16;

/// Size of a section entry: offset and size.
const SECTION: usize = 16;

/// A file's header.
#[derive(Clone, Debug)]
pub struct FileHeader {
    /// Byte order of the whole file.
    pub order: ByteOrder,
    /// Attributes and IDs of each event. Empty for a pipe, which has them in records.
    pub attrs: Vec<(Attr, Vec<u64>)>,
    /// Range of the records.
    pub data: Range<u64>,
    /// Number and range of each feature.
    pub features: Vec<(u32, Range<u64>)>,
    /// Some features, or parts of them, are beyond the end of the file.
    pub lacks_features: bool,
    /// Damage in the table of events, and its consequence.
    pub table_flaw: Option<String>,
}

/// Returns true if a file that begins like this is `perf.data`.
pub fn detect(head: &[u8]) -> bool {
    head.starts_with(MAGIC) || head.starts_with(SWAPPED)
}

impl FileHeader {
    /// Reads the header of a file.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such header, or if it is truncated.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let order = match bytes.first_chunk() {
            Some(MAGIC) => ByteOrder::Little,
            Some(SWAPPED) => ByteOrder::Big,
            _ => return Err("it does not begin as perf.data does".to_owned()),
        };
        let mut from = Fields::new(&bytes[MAGIC.len()..], order);
        let size = from.u64().ok_or("it ends within its header")?;
        let all = bytes.len() as u64;
        if size == PIPE_SIZE {
            let (attrs, features) = (Vec::new(), Vec::new());
            return Ok(Self {
                order,
                attrs,
                data: size..all,
                features,
                lacks_features: false,
                table_flaw: None,
            });
        }
        Self::parse_file(bytes, from, order).ok_or_else(|| "it ends within its header".to_owned())
    }

    fn parse_file(bytes: &[u8], mut from: Fields<'_>, order: ByteOrder) -> Option<Self> {
        let all = bytes.len() as u64;
        let entry_size = usize::try_from(from.u64()?).ok()?;
        let attrs = from.section()?;
        let data = from.section()?;
        from.section()?;
        let words = [from.u64()?, from.u64()?, from.u64()?, from.u64()?];
        let (attrs_read, features) = (Vec::new(), Vec::new());
        let mut header = Self {
            order,
            attrs: attrs_read,
            data,
            features,
            lacks_features: false,
            table_flaw: None,
        };
        let attr_size = entry_size.checked_sub(SECTION)?;
        // The IDs of all events together cannot take more bytes than the file has: overlapping sections could otherwise
        // make a small file use much memory.
        let mut room = bytes.len();
        let table = slice(bytes, &attrs);
        let mut is_damaged = table.len() as u64 != attrs.end - attrs.start
            || !table.len().is_multiple_of(entry_size);
        let mut all_ids = Vec::new();
        for entry in table.chunks_exact(entry_size) {
            let section = Fields::new(&entry[attr_size..], order).section()?;
            let ids = slice(bytes, &section);
            is_damaged |= ids.len() as u64 != section.end - section.start
                || !ids.len().is_multiple_of(8)
                || !has_size(entry, attr_size, order);
            all_ids.extend(words_of(&ids[..ids.len().min(room)], order));
            let ids = &ids[..ids.len().min(room)];
            room -= ids.len();
            header.attrs.push((Attr::parse(&entry[..attr_size], order), words_of(ids, order)));
        }
        let count = all_ids.len();
        all_ids.sort_unstable();
        all_ids.dedup();
        is_damaged |= all_ids.len() < count;
        // Events without IDs cannot be distinguished; a single event needs none.
        is_damaged |= header.attrs.len() > 1 && header.attrs.iter().any(|(_, ids)| ids.is_empty());
        let id_at = |(attr, _): &(Attr, Vec<u64>)| attr.sample_type & sample_type::IDENTIFIER;
        is_damaged |= header.attrs.windows(2).any(|pair| id_at(&pair[0]) != id_at(&pair[1]));
        if is_damaged {
            let what = "the table of events contradicts itself: samples may be counted as those of \
                        another event";
            header.table_flaw = Some(what.to_owned());
        }
        // perf fills in the size when it ends. If it was killed, everything up to the end is data.
        if header.data.is_empty() && header.data.start < all {
            header.data.end = all;
            return Some(header);
        }
        let numbers = (0..256u32).filter(|bit| words[*bit as usize / 64] >> (bit % 64) & 1 != 0);
        let count = numbers.clone().count();
        let mut sections = Fields::new(slice(bytes, &(header.data.end..all)), order);
        // Sections beyond the end of a truncated file are missing.
        header.features = numbers.map_while(|bit| Some((bit, sections.section()?))).collect();
        header.lacks_features = header.features.len() < count
            || header.features.iter().any(|(_, section)| section.end > all);
        Some(header)
    }
}

/// Returns true if the size in the attributes at the start of an entry is possible.
fn has_size(entry: &[u8], attr_size: usize, order: ByteOrder) -> bool {
    let mut from = Fields::new(entry, order);
    from.u32();
    // The first version had 64 bytes.
    from.u32()
        .is_some_and(|size| size >= 64 && usize::try_from(size).is_ok_and(|size| size <= attr_size))
}

/// Decodes consecutive 64-bit numbers.
pub fn words_of(bytes: &[u8], order: ByteOrder) -> Vec<u64> {
    let mut from = Fields::new(bytes, order);
    std::iter::from_fn(|| from.u64()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_overlap_are_no_more_than_the_file() {
        const EVENTS: u64 = 5000;
        let (start, size) = (104, 16 * EVENTS);
        let mut words: Vec<u64> = vec![start, 16, start, size, start + size, 0, 0, 0, 0, 0, 0, 0];
        // Each event is no more than a section of IDs, and that is the whole file.
        words.extend([0, start + size].repeat(EVENTS as usize));
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        let hostile: Vec<u8> = MAGIC.iter().copied().chain(words).collect();
        let header = FileHeader::parse(&hostile).expect("a header");
        let ids: usize = header.attrs.iter().map(|(_, ids)| ids.len()).sum();
        assert_eq!(header.attrs.len(), EVENTS as usize);
        assert!(ids <= hostile.len() / 8, "{ids} IDs");
    }
}
