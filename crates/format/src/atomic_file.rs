//! Output files that appear whole or not at all.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Access, AtFlags, CWD, OFlags, access, linkat, unlink};
use rustix::io::Errno;

/// Permissions of a new file, before the process's umask is applied.
const MODE: u32 = 0o666;

/// Writes a file atomically: `write` gets a buffered writer to a temporary file, which replaces `path` only after
/// everything was written. Until then the file has no name (`O_TMPFILE`), if the file system supports that, so a process
/// that is killed leaves nothing behind.
///
/// An existing file keeps its permissions and, if permitted, its owner. Under sudo, a new file belongs to the user who
/// called sudo, if that user may write to the folder. A symbolic link stays a link. A path that is not a regular file,
/// such as `/dev/stdout` or a named pipe, is written directly.
///
/// # Errors
///
/// If the file system or `write` reports an error. A regular file at `path` is then unchanged.
pub fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let existing = fs::metadata(path).ok();
    if existing.as_ref().is_some_and(|metadata| !metadata.is_file()) {
        return finish(OpenOptions::new().write(true).open(path)?, write).map(drop);
    }
    let target = match existing {
        Some(_) => fs::canonicalize(path)?,
        None => path.to_owned(),
    };
    let folder = match target.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut named = tempfile::Builder::new();
    named.prefix(".pyrograph-");
    let (file, temporary) = match without_name(&folder) {
        Some(file) => (file, None),
        None => {
            let temporary = named.permissions(Permissions::from_mode(MODE)).tempfile_in(&folder)?;
            let (file, path) = temporary.into_parts();
            let unfinished = Unfinished::new(&path);
            (file, Some((path, unfinished)))
        }
    };
    let file = finish(file, write)?;
    let owner = existing.as_ref().map(|old| (old.uid(), old.gid())).or_else(|| of_sudo(&folder));
    if let Some((user, group)) = owner {
        // Fails unless we are root: the file then belongs to the current user.
        fchown(&file, Some(user), Some(group)).ok();
    }
    if let Some(existing) = existing {
        file.set_permissions(existing.permissions())?;
    }
    let temporary = match temporary {
        Some((path, _unfinished)) => path,
        None => named.make_in(folder, |path| give_name(&file, path))?.into_temp_path(),
    };
    temporary.persist(&target).map_err(|failed| failed.error)
}

/// User and group of the caller of sudo (`SUDO_UID` and `SUDO_GID`, sudo(8)), if that user may write to this folder: a
/// file in `/etc` still belongs to root.
fn of_sudo(folder: &Path) -> Option<(u32, u32)> {
    let number = |name| std::env::var(name).ok()?.parse().ok();
    let (user, group) = (number("SUDO_UID")?, number("SUDO_GID")?);
    let folder = fs::metadata(folder).ok()?;
    let may_write = folder.uid() == user
        || folder.mode() & 0o020 != 0 && folder.gid() == group
        || folder.mode() & 0o002 != 0;
    may_write.then_some((user, group))
}

/// Reasons why a file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum NotWritable {
    /// The path is a folder.
    #[error("{} is a folder", .0.display())]
    Folder(PathBuf),
    /// The folder of the file does not exist.
    #[error("{}: the folder {} does not exist", path.display(), folder.display())]
    NoFolder {
        /// Path of the file.
        path: PathBuf,
        /// The missing folder.
        folder: PathBuf,
    },
    /// The file exists, but this process may not write to it.
    #[error("{} is not writable", .0.display())]
    File(PathBuf),
    /// No new file can be created in the folder.
    #[error("{}: nothing can be written into the folder {}: {error}", path.display(), folder.display())]
    InFolder {
        /// Path of the file.
        path: PathBuf,
        /// Folder of the file.
        folder: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
}

/// Checks whether [`write_file`] can write a file, before its content is computed.
///
/// # Errors
///
/// If the path is a folder, or if its parent folder does not exist or is not writable.
pub fn check_writable(path: &Path) -> Result<(), NotWritable> {
    if path.is_dir() {
        return Err(NotWritable::Folder(path.to_owned()));
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let (path, folder) = (path.to_owned(), folder.to_owned());
    if !folder.is_dir() {
        return Err(NotWritable::NoFolder { path, folder });
    }
    let existing = fs::metadata(&path).ok();
    if existing.is_some() && access(&path, Access::WRITE_OK).is_err() {
        return Err(NotWritable::File(path));
    }
    // Files that are not regular are written in place; regular files are created anew in the folder.
    match existing.is_none_or(|existing| existing.is_file()).then(|| try_folder(&folder)) {
        Some(Err(error)) => Err(NotWritable::InFolder { path, folder, error }),
        _ => Ok(()),
    }
}

/// Creates a file in a folder and removes it: root passes permission checks, but not every file system is writable.
fn try_folder(folder: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(OFlags::TMPFILE.bits().cast_signed());
    match options.open(folder).map(drop) {
        Err(error) if !is_refusal(&error) => {
            // The file system does not support `O_TMPFILE`.
            let name = folder.join(format!(".pyrograph-{}", std::process::id()));
            OpenOptions::new().write(true).create_new(true).open(&name)?;
            fs::remove_file(name)
        }
        done => done,
    }
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::ACCESS | Errno::PERM | Errno::ROFS))
}

/// Paths of temporary files that have a name; further ones are not registered.
static UNFINISHED: Mutex<[Option<CString>; 8]> = Mutex::new([const { None }; 8]);

/// Removes the temporary files that have a name, for programs that exit without unwinding. Does not allocate memory.
pub fn remove_unfinished() {
    if let Ok(paths) = UNFINISHED.try_lock() {
        paths.iter().flatten().for_each(|path| unlink(path.as_c_str()).unwrap_or_default());
    }
}

/// Slot in [`UNFINISHED`]; freed on drop.
struct Unfinished(Option<usize>);

impl Unfinished {
    fn new(path: &Path) -> Self {
        let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return Self(None) };
        let mut paths = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        let free = paths.iter().position(Option::is_none);
        if let Some(free) = free {
            paths[free] = Some(path);
        }
        Self(free)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let mut paths = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.0.and_then(|at| paths[at].take());
        drop(paths);
        drop(path);
    }
}

/// Opens a new file without a name (`O_TMPFILE`), which disappears when it is closed. `None` if the file system does not
/// support this, or if the file could not be linked to a name afterwards (no `/proc`).
fn without_name(folder: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    options.write(true).mode(MODE).custom_flags(OFlags::TMPFILE.bits().cast_signed());
    options.open(folder).ok().filter(|file| descriptor(file).exists())
}

fn give_name(file: &File, path: &Path) -> io::Result<()> {
    Ok(linkat(CWD, descriptor(file), CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

fn descriptor(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

fn finish(file: File, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<File> {
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        write_file(&path, |out| out.write_all(b"old")).expect("a new file");
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("own file");
        let failed = write_file(&path, |out| {
            out.write_all(b"new")?;
            Err(io::Error::other("no"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).expect("still there"), b"old");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);

        write_file(&path, |out| out.write_all(b"new")).expect("the file is replaced");
        assert_eq!(fs::read(&path).expect("there"), b"new");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }

    #[test]
    fn who_is_killed_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        let names = || fs::read_dir(folder.path()).expect("a folder").count();
        let can = without_name(folder.path()).is_some();
        write_file(&path, |out| {
            out.write_all(&[1; 100_000])?;
            out.flush()?;
            // Whatever happens now.
            assert_eq!(names(), usize::from(!can));
            Ok(())
        })
        .expect("a new file");
        assert_eq!(fs::read(&path).expect("there").len(), 100_000);
        assert_eq!(names(), 1);
        let fresh = fs::metadata(&path).expect("there").permissions().mode() & 0o777;
        fs::write(folder.path().join("plain"), "x").expect("a file");
        let plain = fs::metadata(folder.path().join("plain")).expect("there").permissions();
        assert_eq!(fresh, plain.mode() & 0o777);
    }

    #[test]
    fn links_stay_links() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, link) = (folder.path().join("out"), folder.path().join("link"));
        fs::write(&path, "old").expect("a file");
        std::os::unix::fs::symlink("out", &link).expect("a link");
        write_file(&link, |out| out.write_all(b"new")).expect("written through the link");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::read(&path).expect("there"), b"new");
    }

    #[test]
    fn devices_are_written_directly() {
        write_file(Path::new("/dev/null"), |out| out.write_all(b"x")).expect("a device");
    }
}
