//! Cache of analysed code that has no unwind tables, for the next recording: one cache file for each file, by its build
//! ID and shape.
//!
//! Files that cannot be read or written are skipped: the code can be analysed again at any time.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use pyrograph_cache::{Folder, Stamp};
use pyrograph_unwind::{TableKey, UnwindInfo};

/// Maximum total size of the cache files in bytes. The least recently used are removed.
const MOST_STORED: u64 = 256 << 20;
/// Maximum size of one cache file in bytes; larger ones are not written.
const MOST_OF_ONE: usize = 64 << 20;

/// The cache directory, and the files with code in this recording.
#[derive(Default)]
pub struct KeptCode {
    folder: Option<Folder>,
    /// Addresses of the files that were looked up. (If another file is later allocated at the same address, its code is
    /// analysed again.)
    seen: HashSet<usize>,
    /// Files that have a cache key.
    known: Vec<(Arc<UnwindInfo>, TableKey)>,
}

impl KeptCode {
    /// Opens the cache below a directory such as `~/.cache`.
    pub fn open(base: Option<&Path>) -> Self {
        let folder = base.and_then(|base| Folder::open(base, "code"));
        Self { folder, ..Self::default() }
    }

    /// Reads the cache entries of these files, once for each file.
    pub fn look_for<'a>(&mut self, files: impl Iterator<Item = &'a Arc<UnwindInfo>>) {
        let Some(folder) = &self.folder else { return };
        for info in files {
            if !self.seen.insert(Arc::as_ptr(info).addr()) {
                continue;
            }
            let Some(key) = info.guesses_key() else { continue };
            if let Some(bytes) = folder.read(&file_name(&key), stamp(&key))
                && info.take_guesses(bytes) > 0
            {
                folder.used(&file_name(&key), SystemTime::now());
            }
            self.known.push((Arc::clone(info), key));
        }
    }

    /// Writes the results that were added in this recording, and removes old files beyond the limit.
    pub fn write(self) {
        let Some(folder) = self.folder else { return };
        let mut written = false;
        for (info, key) in &self.known {
            let bytes = info.guesses_to_bytes().filter(|bytes| bytes.len() <= MOST_OF_ONE);
            if let Some(bytes) = bytes {
                written |= folder.write(&file_name(key), stamp(key), &bytes).is_ok();
            }
        }
        if written {
            folder.make_room(MOST_STORED, SystemTime::now());
        }
    }
}

fn file_name(key: &TableKey) -> String {
    format!("{key}.code")
}

fn stamp(key: &TableKey) -> Stamp {
    // This hasher gives the same hash in every run of the same program.
    let of = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
    Stamp { kind: *b"code\0\0\0", version: UnwindInfo::GUESSES_VERSION, of }
}
