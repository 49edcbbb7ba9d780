//! Output to files and standard output.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use pyrograph_format::{NotWritable, check_writable, write_file};
use pyrograph_terminal::standard_output;

/// Reason why something was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The file cannot exist.
    #[error(transparent)]
    NotWritable(#[from] NotWritable),
    /// The file cannot be written.
    #[error("failed to write {}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
    /// Standard output cannot be written.
    #[error("failed to write standard output")]
    StandardOutput(#[source] io::Error),
    /// The picture cannot be drawn.
    #[error("failed to draw")]
    Draw(#[source] io::Error),
    /// The picture cannot be drawn as pixels.
    #[cfg(feature = "png")]
    #[error("failed to draw a PNG picture")]
    Png(#[from] pyrograph_render::PngError),
    /// This program was built without PNG support.
    #[error(
        "{0}: this Pyrograph was built without PNG pictures (cargo install --path crates/cli --features png has \
         them); write an SVG, which rsvg-convert, Inkscape and browsers turn into one"
    )]
    NoPng(String),
    /// The format cannot represent the profile.
    #[error("failed to write {output}: {reason}")]
    Refused {
        /// Name of the output.
        output: String,
        /// Reason.
        reason: &'static str,
    },
}

/// Remarks about a file that was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// A picture has no text, because this machine has no font.
    pub without_text: bool,
}

/// Writes a file atomically, or standard output for `None` or `-`.
///
/// # Errors
///
/// Returns an error if it cannot be written.
pub fn write_output(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), WriteError> {
    match path.filter(|path| path.as_os_str() != "-") {
        Some(path) => {
            check_writable(path)?;
            let error = |source| WriteError::File { path: path.to_owned(), source };
            write_file(path, write).map_err(error)
        }
        None => {
            let mut out = standard_output();
            write(&mut *out).and_then(|()| out.flush()).map_err(WriteError::StandardOutput)
        }
    }
}

/// Writes the SVG picture that `write` draws, converted to pixels if the file's name ends in `.png`.
///
/// # Errors
///
/// Returns an error if it cannot be drawn or written.
pub fn write_picture(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<Written, WriteError> {
    let is_png = |path: &Path| path.extension().is_some_and(|of| of.eq_ignore_ascii_case("png"));
    match path {
        Some(path) if is_png(path) => write_png(Some(path), write),
        _ => write_output(path, write).map(|()| Written::default()),
    }
}

/// Checks that this program was built with PNG support.
pub(crate) fn check_png(path: Option<&Path>) -> Result<(), WriteError> {
    let name = path.map_or_else(|| "png".to_owned(), |path| path.display().to_string());
    if cfg!(feature = "png") { Ok(()) } else { Err(WriteError::NoPng(name)) }
}

/// Writes the SVG picture that `write` draws, converted to pixels.
pub(crate) fn write_png(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<Written, WriteError> {
    check_png(path)?;
    let mut svg = Vec::new();
    write(&mut svg).map_err(WriteError::Draw)?;
    #[cfg(feature = "png")]
    {
        let picture = pyrograph_render::png(&String::from_utf8_lossy(&svg))?;
        write_output(path, |out| out.write_all(&picture.bytes))?;
        Ok(Written { without_text: picture.without_text })
    }
    #[cfg(not(feature = "png"))]
    Ok(Written::default())
}
