//! Files appear whole or not at all.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Writes a file: `write` gets a buffered writer to a temporary file beside it, which takes its
/// place only when all is written. An existing file keeps its permissions, and a symbolic link
/// stays one. What is no regular file, such as `/dev/stdout` or a named pipe, is written directly.
///
/// # Errors
///
/// Those of the file system and of `write`. The file at `path` is as it was then.
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
    // The process's umask is taken off, as for any new file.
    let mode = Permissions::from_mode(0o666);
    let temporary =
        tempfile::Builder::new().prefix(".pyrograph-").permissions(mode).tempfile_in(folder)?;
    let (file, temporary) = temporary.into_parts();
    let file = finish(file, write)?;
    if let Some(existing) = existing {
        file.set_permissions(existing.permissions())?;
    }
    temporary.persist(&target).map_err(|failed| failed.error)
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
