//! Container format of cached files.
//!
//! ```text
//! kind      7 bytes   kind of the contents
//! version   1 byte    version of the layout of the contents
//! of        8 bytes   identity of the source of the contents
//! check     8 bytes   hash of the contents
//! contents
//! ```
//!
//! Numbers are little-endian.

use std::fmt;
use std::hash::BuildHasher;
use std::ops::Deref;

use foldhash::quality::FixedState;
use memmap2::Mmap;

const HEADER: usize = 24;

/// Identifies the contents of a file, to detect files with other contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Kind of the contents.
    pub kind: [u8; 7],
    /// Version of their layout, and of the code that creates them.
    pub version: u8,
    /// Identity of their source: files with another identity are out of date.
    pub of: u64,
}

impl Stamp {
    /// Returns the header of a file with these contents.
    pub(crate) fn header(self, contents: &[u8]) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..7].copy_from_slice(&self.kind);
        header[7] = self.version;
        header[8..16].copy_from_slice(&self.of.to_le_bytes());
        header[16..].copy_from_slice(&checksum(contents).to_le_bytes());
        header
    }
}

/// Detects damage, but not manipulation: anyone who can write the file can write its checksum.
fn checksum(contents: &[u8]) -> u64 {
    FixedState::default().hash_one(contents)
}

/// Contents of a file, mapped into memory.
pub struct Kept(Mmap);

impl Kept {
    /// Returns `None` if the file has another stamp, or is damaged.
    pub(crate) fn new(map: Mmap, stamp: Stamp) -> Option<Self> {
        let (header, contents) = map.split_at_checked(HEADER)?;
        (header == stamp.header(contents)).then_some(Self(map))
    }
}

impl Deref for Kept {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0[HEADER..]
    }
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kept({} bytes)", self.len())
    }
}
