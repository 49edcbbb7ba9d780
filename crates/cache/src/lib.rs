//! Cache of files that can be rebuilt at any time, for the next recording. Files are written atomically; files that
//! other users may have written, that are damaged or out of date are not read.
//!
//! Files that cannot be read or written are ignored: [`Folder::read`] returns `None`, and the caller rebuilds the
//! contents.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod kept;

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use memmap2::Mmap;

pub use kept::{Kept, Stamp};

/// Resolution of the time of a file's last use.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

const UNFINISHED: &str = "unfinished";

/// Returns the user's cache directory (XDG Base Directory Specification). A home directory that does not exist, as those of
/// users for services, is not to be created: `None`.
pub fn user_folder() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || folder("HOME").filter(|home| home.is_dir());
    folder("XDG_CACHE_HOME").or_else(|| Some(home()?.join(".cache")))
}

/// A directory of cached files.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Opens the directory `pyrograph/NAME` below one such as `~/.cache`, creating it if necessary. `None` if other
    /// users can write to it: they could falsify recordings. root should leave nothing in the directories of other
    /// users.
    pub fn open(base: &Path, name: &str) -> Option<Self> {
        let existing = base.ancestors().find_map(|path| fs::metadata(path).ok())?;
        if !base.is_absolute() || !is_own(&existing) {
            return None;
        }
        let path = base.join("pyrograph").join(name);
        DirBuilder::new().recursive(true).mode(0o700).create(&path).ok()?;
        let are_own = path.ancestors().take(2).all(|path| {
            fs::symlink_metadata(path).is_ok_and(|data| data.is_dir() && is_own_alone(&data))
        });
        are_own.then_some(Self { path })
    }

    /// Reads the contents of a file that [`Self::write`] has written with this stamp. `None` if there is none, if it
    /// has another stamp or is damaged, or if another user may have written it.
    pub fn read(&self, name: &str, stamp: Stamp) -> Option<Kept> {
        self.map(name).ok().and_then(|map| Kept::new(map, stamp))
    }

    fn map(&self, name: &str) -> io::Result<Mmap> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = File::options().read(true).custom_flags(flags).open(self.path.join(name))?;
        let data = file.metadata()?;
        if !data.is_file() || !is_own_alone(&data) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // SAFETY: the mapping is only read. Files in this directory are replaced and never changed, and only this user
        // can do otherwise.
        unsafe { Mmap::map(&file) }
    }

    /// Writes a file atomically, even if two processes write it at the same time.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be written; then no part of it remains.
    pub fn write(&self, name: &str, stamp: Stamp, contents: &[u8]) -> io::Result<()> {
        let path = self.path.join(name);
        let unfinished = self.path.join(format!("{name}.{}.{UNFINISHED}", std::process::id()));
        let written = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)
            .and_then(|mut file| {
                file.write_all(&stamp.header(contents))?;
                file.write_all(contents)
            })
            .and_then(|()| fs::rename(&unfinished, path));
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        written
    }

    /// Records that a file was used.
    pub fn used(&self, name: &str, now: SystemTime) {
        let file = File::open(self.path.join(name));
        let is_old = |file: &File| {
            let modified = file.metadata().and_then(|data| data.modified());
            modified.is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > DAY))
        };
        // If this fails, the file is considered older than it is.
        let _ = file.and_then(|file| if is_old(&file) { file.set_modified(now) } else { Ok(()) });
    }

    /// Removes the least recently used files until the rest has at most `most` bytes; also removes unfinished files of
    /// writers that were killed.
    pub fn make_room(&self, most: u64, now: SystemTime) {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let (path, data) = (entry.path(), entry.metadata());
            let Ok((used, len)) = data.and_then(|data| Ok((data.modified()?, data.len()))) else {
                continue;
            };
            let age = now.duration_since(used).unwrap_or_default();
            if path.extension().is_none_or(|extension| extension != UNFINISHED) {
                files.push((used, len, path));
            } else if age > DAY {
                let _ = fs::remove_file(path);
            }
        }
        files.sort_by(|a, b| b.cmp(a));
        let mut sum = 0u64;
        for (_, len, path) in files {
            sum = sum.saturating_add(len);
            if sum > most {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Returns true if this user owns it.
fn is_own(data: &fs::Metadata) -> bool {
    // SAFETY: takes no arguments, and cannot fail.
    data.uid() == unsafe { libc::geteuid() }
}

/// Returns true if this user owns it, and nobody else can write to it.
fn is_own_alone(data: &fs::Metadata) -> bool {
    is_own(data) && data.mode() & 0o022 == 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    const STAMP: Stamp = Stamp { kind: *b"things\0", version: 1, of: 7 };

    /// A folder with the file `a`.
    fn filled(base: &Path) -> (Folder, PathBuf) {
        let folder = Folder::open(base, "things").expect("our own folder");
        folder.write("a", STAMP, b"bytes").expect("it is ours");
        let path = folder.path.join("a");
        (folder, path)
    }

    #[test]
    fn what_was_written_is_read() {
        let base = tempfile::tempdir().expect("a folder");
        let (folder, path) = filled(base.path());
        assert_eq!(folder.read("a", STAMP).expect("it was written").as_ref(), b"bytes");
        assert!(folder.read("b", STAMP).is_none());
        assert_eq!(path, base.path().join("pyrograph/things/a"));
        assert_eq!(fs::read_dir(&folder.path).unwrap().count(), 1, "nothing else is left there");
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(&folder.path)), (0o600, 0o700));
        // A file that is being read stays as it is.
        let before = folder.read("a", STAMP).expect("it was written");
        folder.write("a", STAMP, b"others").expect("it is ours");
        assert_eq!(
            (before.as_ref(), folder.read("a", STAMP).unwrap().as_ref()),
            (&b"bytes"[..], &b"others"[..])
        );
        folder.write("a", STAMP, b"").expect("it is ours");
        assert_eq!(folder.read("a", STAMP).expect("it was written").as_ref(), b"");
    }

    #[test]
    fn what_is_damaged_or_out_of_date_is_not_read() {
        let base = tempfile::tempdir().expect("a folder");
        let (folder, path) = filled(base.path());
        assert!(folder.read("a", Stamp { of: 8, ..STAMP }).is_none());
        assert!(folder.read("a", Stamp { kind: *b"thing\0\0", ..STAMP }).is_none());
        assert!(folder.read("a", Stamp { version: 2, ..STAMP }).is_none());
        let whole = fs::read(&path).expect("it was written");
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                fs::write(&path, &damaged).expect("it is ours");
                assert!(folder.read("a", STAMP).is_none(), "byte {at}, bit {bit}");
            }
            fs::write(&path, &whole[..at]).expect("it is ours");
            assert!(folder.read("a", STAMP).is_none(), "cut at {at}");
        }
        fs::write(&path, [&whole[..], b"x"].concat()).expect("it is ours");
        assert!(folder.read("a", STAMP).is_none());
        fs::write(&path, &whole).expect("it is ours");
        assert!(folder.read("a", STAMP).is_some());
    }

    #[test]
    fn what_others_can_write_is_not_read() {
        let base = tempfile::tempdir().expect("a folder");
        let (folder, path) = filled(base.path());
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
        };
        set(&path, 0o620);
        assert!(folder.read("a", STAMP).is_none());
        set(&path, 0o600);
        assert!(folder.read("a", STAMP).is_some());
        set(&folder.path, 0o702);
        assert!(Folder::open(base.path(), "things").is_none());
        set(&folder.path, 0o700);
        // A link leads anywhere.
        let elsewhere = base.path().join("elsewhere");
        fs::rename(&path, &elsewhere).expect("it is ours");
        symlink(&elsewhere, &path).expect("a link");
        assert!(folder.read("a", STAMP).is_none());
        assert!(Folder::open(Path::new("relative"), "things").is_none());
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
        assert!(Folder::open(&base.path().join(".cache"), "things").is_none());
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_least_used_go_first() {
        let base = tempfile::tempdir().expect("a folder");
        let (folder, path) = filled(base.path());
        let len = fs::metadata(&path).unwrap().len();
        let now = SystemTime::now();
        let old = |name: &str, days: u32| {
            let path = folder.path.join(name);
            let file = File::create(&path).expect("it is ours");
            file.set_len(len)
                .and_then(|()| file.set_modified(now - days * DAY))
                .expect("it is ours");
            path
        };
        let [older, oldest] = [old("b", 2), old("c", 3)];
        let [left, unfinished] = [old("c.9.unfinished", 2), old("d.9.unfinished", 0)];
        folder.make_room(2 * len, now);
        let exist = [&path, &older, &oldest, &left, &unfinished].map(|path| path.exists());
        assert_eq!(exist, [true, true, false, false, true]);

        // A file that is used is young again.
        let modified = || fs::metadata(&older).unwrap().modified().unwrap();
        assert!(modified() < now - DAY);
        folder.used("b", now);
        assert!(modified() >= now - DAY);
    }
}
