//! Unwind tables that were made before, in files: one for each file by its build ID and shape.
//!
//! Reading a table back takes a fiftieth of the time that it takes to make it. Nothing is written while a
//! recording goes on: [`Cache::write`] comes after it. What cannot be read or written is passed over: tables
//! can be made anew at any time.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use pyrograph_unwind::{Table, TableKey, UnwindInfo};

/// Tables of smaller files are made in less than a third of a millisecond. Bytes of `.eh_frame`.
const SMALLEST_SOURCE: usize = 32 << 10;
/// The most bytes of tables that wait to be written.
const MOST_KEPT: usize = 32 << 20;
/// The most bytes of all files together; those go first that were not used for the longest time.
const MOST_STORED: u64 = 512 << 20;
/// Larger than the table of any program: what is larger is none.
const LARGEST: u64 = 256 << 20;
/// Files tell to within this when they were last used.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

const TABLE: &str = "table";
const UNFINISHED: &str = "unfinished";

/// A folder of tables.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    most: u64,
    /// To be written at the end, and how much that is.
    kept: Vec<(TableKey, Vec<u8>)>,
    kept_bytes: usize,
    /// Files that were used.
    used: Vec<PathBuf>,
}

impl Cache {
    /// A cache below a folder such as `~/.cache`, which is made if need be. `None` if it is not this user's
    /// alone to write to: whoever can write tables there decides what stacks look like, and root should
    /// leave nothing in the folders of others.
    pub fn open(base: &Path) -> Option<Self> {
        let existing = base.ancestors().find_map(|path| fs::metadata(path).ok())?;
        if !base.is_absolute() || !is_own(&existing) {
            return None;
        }
        let folder = base.join("pyrograph/tables");
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
        let are_own = folder.ancestors().take(2).all(|path| {
            fs::symlink_metadata(path).is_ok_and(|data| data.is_dir() && is_own_alone(&data))
        });
        let cache =
            Self { folder, most: MOST_STORED, kept: Vec::new(), kept_bytes: 0, used: Vec::new() };
        are_own.then_some(cache)
    }

    /// The table of a file, if it was kept; and under what it can be kept, if it is worth that.
    pub fn read(&mut self, info: &UnwindInfo) -> (Option<TableKey>, Option<Table>) {
        if info.table_source() < SMALLEST_SOURCE {
            return (None, None);
        }
        let key = info.table_key();
        let path = self.path(&key);
        let table = read_own(&path).ok().and_then(|bytes| Table::from_bytes(&bytes));
        // Its start is part of the shape of the file.
        let table = table.filter(|table| Some(table.start) == info.table_start());
        if table.is_some() {
            self.used.push(path);
        }
        (Some(key), table)
    }

    /// Keeps a table that was made, to be written later.
    pub fn keep(&mut self, key: TableKey, table: &Table) {
        let bytes = table.to_bytes();
        if self.kept_bytes + bytes.len() <= MOST_KEPT {
            self.kept_bytes += bytes.len();
            self.kept.push((key, bytes));
        }
    }

    /// Writes what was kept, and makes room. How many were written.
    pub fn write(self) -> usize {
        let now = SystemTime::now();
        for path in &self.used {
            let file = File::open(path);
            let is_old = |file: &File| {
                let modified = file.metadata().and_then(|data| data.modified());
                modified.is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > DAY))
            };
            // If it cannot be told, it is taken for older than it is.
            let _ =
                file.and_then(|file| if is_old(&file) { file.set_modified(now) } else { Ok(()) });
        }
        let write =
            |(key, bytes): &(TableKey, Vec<u8>)| write_whole(&self.path(key), bytes).is_ok();
        let written = self.kept.iter().filter(|kept| write(kept)).count();
        if written > 0 {
            make_room(&self.folder, self.most, now);
        }
        written
    }

    fn path(&self, key: &TableKey) -> PathBuf {
        self.folder.join(format!("{key}.{TABLE}"))
    }
}

/// Whether it belongs to this user.
fn is_own(data: &fs::Metadata) -> bool {
    // SAFETY: it takes nothing, and cannot fail.
    data.uid() == unsafe { libc::geteuid() }
}

/// Whether it belongs to this user, and nobody else can write to it.
fn is_own_alone(data: &fs::Metadata) -> bool {
    is_own(data) && data.mode() & 0o022 == 0
}

/// Reads a file of this user's, all of it.
fn read_own(path: &Path) -> io::Result<Vec<u8>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut file = File::options().read(true).custom_flags(flags).open(path)?;
    let data = file.metadata()?;
    if !data.is_file() || !is_own_alone(&data) || data.len() > LARGEST {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut bytes = Vec::with_capacity(data.len() as usize);
    Read::by_ref(&mut file).take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a file that others see whole or not at all, also if two write it at once.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = path.with_extension(format!("{}.{UNFINISHED}", std::process::id()));
    let options = || File::options().write(true).create_new(true).mode(0o600).open(&unfinished);
    let written = options()
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

/// Removes what was not used for the longest time, until the rest has at most so many bytes; and what was
/// left behind by who was killed while writing.
fn make_room(folder: &Path, most: u64, now: SystemTime) {
    let mut tables = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, data) = (entry.path(), entry.metadata());
        let Ok((used, len)) = data.and_then(|data| Ok((data.modified()?, data.len()))) else {
            continue;
        };
        let extension = path.extension().and_then(|extension| extension.to_str());
        let age = now.duration_since(used).unwrap_or_default();
        match extension {
            Some(TABLE) => tables.push((used, len, path)),
            Some(UNFINISHED) if age > DAY => drop(fs::remove_file(path)),
            _ => {}
        }
    }
    tables.sort_by(|a, b| b.cmp(a));
    let mut sum = 0u64;
    for (_, len, path) in tables {
        sum = sum.saturating_add(len);
        if sum > most {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn info() -> UnwindInfo {
        let own = std::env::current_exe().and_then(fs::read).expect("this test");
        UnwindInfo::from_elf(own, None::<&[u8]>).expect("an ELF file")
    }

    /// The test's own program has a build ID and a table that is large enough.
    fn filled(base: &Path, info: &UnwindInfo) -> PathBuf {
        let mut cache = Cache::open(base).expect("our own folder");
        let (key, table) = cache.read(info);
        assert!(table.is_none(), "nothing was kept yet");
        let key = key.expect("its table is worth it");
        cache.keep(key.clone(), &info.table());
        let path = cache.path(&key);
        assert_eq!(cache.write(), 1);
        path
    }

    fn read(base: &Path, info: &UnwindInfo) -> Option<Table> {
        Cache::open(base).and_then(|mut cache| cache.read(info).1)
    }

    #[test]
    fn a_table_is_found_again() {
        let (base, info) = (tempfile::tempdir().expect("a folder"), info());
        let path = filled(base.path(), &info);
        let (read, made) = (read(base.path(), &info).expect("it was kept"), info.table());
        assert_eq!((read.start, read.rows, read.rules), (made.start, made.rows, made.rules));
        let files = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(files, 1, "nothing else is left there");
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
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
        // A table of another file: what it is of is not written in it, but where it begins is.
        let other = Table { start: 1 << 40, ..info.table() };
        fs::write(&path, other.to_bytes()).expect("it is ours");
        assert!(read(base.path(), &info).is_none());
    }

    #[test]
    fn what_others_can_write_is_not_read() {
        let (base, info) = (tempfile::tempdir().expect("a folder"), info());
        let path = filled(base.path(), &info);
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
        };
        set(&path, 0o620);
        assert!(read(base.path(), &info).is_none());
        set(&path, 0o600);
        assert!(read(base.path(), &info).is_some());
        let folder = path.parent().unwrap();
        set(folder, 0o702);
        assert!(Cache::open(base.path()).is_none());
        set(folder, 0o700);
        // A link leads anywhere.
        let elsewhere = base.path().join("elsewhere");
        fs::rename(&path, &elsewhere).expect("it is ours");
        std::os::unix::fs::symlink(&elsewhere, &path).expect("a link");
        assert!(read(base.path(), &info).is_none());
        assert!(Cache::open(Path::new("relative")).is_none());
    }

    #[test]
    fn folders_of_other_users_are_left_alone() {
        // SAFETY: it takes nothing.
        if unsafe { libc::geteuid() } != 0 {
            eprintln!("skipped: only root can give a folder away");
            return;
        }
        let base = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::chown(base.path(), Some(65534), None).expect("root may do this");
        assert!(Cache::open(&base.path().join(".cache")).is_none());
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_least_used_go_first() {
        let (base, info) = (tempfile::tempdir().expect("a folder"), info());
        let path = filled(base.path(), &info);
        let folder = path.parent().unwrap();
        let len = fs::metadata(&path).unwrap().len();
        let now = SystemTime::now();
        let old = |name: &str, days: u32| {
            let path = folder.join(name);
            let file = File::create(&path).expect("it is ours");
            file.set_len(len)
                .and_then(|()| file.set_modified(now - days * DAY))
                .expect("it is ours");
            path
        };
        let [older, oldest] = [old("a.table", 2), old("b.table", 3)];
        let [left, unfinished] = [old("c.9.unfinished", 2), old("d.9.unfinished", 0)];
        make_room(folder, 2 * len, now);
        let exist = [&path, &older, &oldest, &left, &unfinished].map(|path| path.exists());
        assert_eq!(exist, [true, true, false, false, true]);

        // What is used is young again.
        let modified = || fs::metadata(&path).unwrap().modified().unwrap();
        File::open(&path).and_then(|file| file.set_modified(now - 9 * DAY)).expect("it is ours");
        let mut cache = Cache::open(base.path()).expect("our own folder");
        assert!(cache.read(&info).1.is_some());
        assert!(modified() < now - 8 * DAY, "nothing is written before the end");
        assert_eq!(cache.write(), 0);
        assert!(modified() >= now - DAY);
    }

    #[test]
    fn small_tables_are_not_worth_it() {
        let base = tempfile::tempdir().expect("a folder");
        let mut cache = Cache::open(base.path()).expect("our own folder");
        let small = fs::read("/bin/true").expect("a program");
        let small = UnwindInfo::from_elf(small, None::<&[u8]>).expect("an ELF file");
        assert_eq!(cache.read(&small).0, None);
    }
}
