//! Cache of unwind tables in files: one for each ELF file, by its build ID and shape.
//!
//! Reading a table from the cache takes a fiftieth of the time that it takes to make it. Nothing is written during a
//! recording: [`Cache::write`] is called after it. Read and write errors are ignored: tables can be made again at any
//! time.

use std::hash::BuildHasher;
use std::path::Path;
use std::time::SystemTime;

use foldhash::quality::FixedState;
use pyrograph_cache::{Folder, Kept, Stamp};
use pyrograph_unwind::{StoredTable, Table, TableKey, UnwindInfo};

/// Smallest `.eh_frame` whose table is kept, in bytes. Tables of smaller ones are made in less than a third of a
/// millisecond.
const SMALLEST_SOURCE: usize = 32 << 10;
/// Limit to the size of all cache files together, in bytes; the least recently used ones are deleted first.
const MOST_STORED: u64 = 512 << 20;
/// Limit to the size of one table, in bytes: no program's table is larger.
const LARGEST: usize = 256 << 20;

/// A folder of tables.
#[derive(Debug)]
pub struct Cache {
    folder: Folder,
    /// Tables to write at the end: key, module, and start address of each.
    kept: Vec<(TableKey, u32, u64)>,
    /// Names of the cache files that were used.
    used: Vec<String>,
}

impl Cache {
    /// Opens a cache below a folder such as `~/.cache`; see [`Folder::open`].
    pub fn open(base: &Path) -> Option<Self> {
        let folder = Folder::open(base, "tables")?;
        Some(Self { folder, kept: Vec::new(), used: Vec::new() })
    }

    /// Returns the table of a file, if it is in the cache, and the key under which it can be kept, if it is large
    /// enough.
    pub fn read(&mut self, info: &UnwindInfo) -> (Option<TableKey>, Option<StoredTable<Kept>>) {
        if info.table_source() < SMALLEST_SOURCE {
            return (None, None);
        }
        let key = info.table_key();
        let name = file_name(&key);
        let bytes = self.folder.read(&name, stamp(&key)).filter(|bytes| bytes.len() <= LARGEST);
        let table = bytes.and_then(StoredTable::new);
        if table.is_some() {
            self.used.push(name);
        }
        (Some(key), table)
    }

    /// Marks the table of a module to be written later.
    pub fn keep(&mut self, key: TableKey, module: u32, start: u64) {
        self.kept.push((key, module, start));
    }

    /// Writes the tables that are to be kept, and deletes old ones to make room. `read_back` returns the table of a
    /// module, given its start address: so no table is held here until then. Returns the number of tables written.
    pub fn write(self, read_back: impl Fn(u32, u64) -> Option<Table>) -> usize {
        let now = SystemTime::now();
        self.used.iter().for_each(|name| self.folder.used(name, now));
        let write = |(key, module, start): &&(TableKey, u32, u64)| {
            let table = read_back(*module, *start);
            let write =
                |table: Table| self.folder.write(&file_name(key), stamp(key), &table.to_bytes());
            table.is_some_and(|table| write(table).is_ok())
        };
        let written = self.kept.iter().filter(write).count();
        if written > 0 {
            self.folder.make_room(MOST_STORED, now);
        }
        written
    }
}

fn stamp(key: &TableKey) -> Stamp {
    Stamp { kind: *b"tables\0", version: Table::VERSION, of: FixedState::default().hash_one(key) }
}

fn file_name(key: &TableKey) -> String {
    format!("{key}.table")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    fn info() -> UnwindInfo {
        let own = std::env::current_exe().and_then(fs::read).expect("this test");
        UnwindInfo::from_bytes(own).expect("an ELF file")
    }

    /// The test's own program has a build ID and a table that is large enough.
    fn filled(base: &Path, info: &UnwindInfo) -> PathBuf {
        let mut cache = Cache::open(base).expect("our own folder");
        let (key, table) = cache.read(info);
        assert!(table.is_none(), "nothing was kept yet");
        let key = key.expect("its table is worth it");
        cache.keep(key.clone(), 7, info.table().start);
        let path = base.join("pyrograph/tables").join(file_name(&key));
        assert_eq!(cache.write(|_, _| Some(info.table())), 1);
        path
    }

    fn read(base: &Path, info: &UnwindInfo) -> Option<Table> {
        let stored = Cache::open(base).and_then(|mut cache| cache.read(info).1)?;
        let (rows, rules) = (stored.rows().collect(), stored.rules().to_vec());
        Some(Table { start: stored.start(), rows, rules })
    }

    #[test]
    fn a_table_is_found_again() {
        let (base, info) = (tempfile::tempdir().expect("a folder"), info());
        filled(base.path(), &info);
        let (read, made) = (read(base.path(), &info).expect("it was kept"), info.table());
        assert_eq!((read.start, read.rows, read.rules), (made.start, made.rows, made.rules));
    }

    #[test]
    fn a_damaged_file_is_passed_over_and_written_anew() {
        let (base, info) = (tempfile::tempdir().expect("a folder"), info());
        let path = filled(base.path(), &info);
        let whole = fs::read(&path).expect("it was written");
        let mut turned = whole.clone();
        turned[whole.len() / 2] ^= 1;
        for damaged in [&whole[..whole.len() / 2], &turned, b"", b"x"] {
            fs::write(&path, damaged).expect("it is ours");
            assert!(read(base.path(), &info).is_none());
            filled(base.path(), &info);
            assert_eq!(fs::read(&path).expect("it was written"), whole);
        }
        // A table of another file.
        let key = info.table_key();
        let other = Stamp { of: 1, ..stamp(&key) };
        let folder = Folder::open(base.path(), "tables").expect("our own folder");
        folder.write(&file_name(&key), other, &info.table().to_bytes()).expect("it is ours");
        assert!(read(base.path(), &info).is_none());
    }

    #[test]
    fn small_tables_are_not_worth_it() {
        let base = tempfile::tempdir().expect("a folder");
        let mut cache = Cache::open(base.path()).expect("our own folder");
        let small = fs::read("/bin/true").expect("a program");
        let small = UnwindInfo::from_bytes(small).expect("an ELF file");
        assert!(cache.read(&small).0.is_none());
    }
}
