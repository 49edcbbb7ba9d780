//! What was read of code without unwind tables, in files: one for each file by its build ID and shape, for the next recording.
//!
//! What cannot be read or written is passed over: the code can be read anew at any time.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use pyrograph_cache::{Folder, Stamp};
use pyrograph_unwind::{TableKey, UnwindInfo};

/// The most bytes of all files together; those go first that were not used for the longest time.
const MOST_STORED: u64 = 256 << 20;
/// More of one file is not kept.
const MOST_OF_ONE: usize = 64 << 20;

/// A folder of such files, and those of this recording.
#[derive(Default)]
pub struct KeptCode {
    folder: Option<Folder>,
    /// Where files are that were looked for. (If another takes the place of one that is gone, its code is read anew.)
    seen: HashSet<usize>,
    /// Those that are worth it.
    known: Vec<(Arc<UnwindInfo>, TableKey)>,
}

impl KeptCode {
    /// Below a folder such as `~/.cache`.
    pub fn open(base: Option<&Path>) -> Self {
        let folder = base.and_then(|base| Folder::open(base, "code"));
        Self { folder, ..Self::default() }
    }

    /// Takes what is kept of files, once each.
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

    /// Writes what was read beside that, and makes room.
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
    // The same in every run of the same program.
    let of = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
    Stamp { kind: *b"code\0\0\0", version: UnwindInfo::GUESSES_VERSION, of }
}
