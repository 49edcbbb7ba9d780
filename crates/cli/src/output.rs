//! Where a profile goes: files, whose endings say what is written.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use pyrograph_analyze::{FlameError, FlameOptions, flame};
use pyrograph_format::{write_file, write_folded};
use pyrograph_profile::{LabelOptions, Profile, Tree};
use pyrograph_render::{Hue, Palette, SvgOptions, svg, svg_message};

/// What is written into a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Svg,
    Folded,
}

/// A file to write.
#[derive(Clone, Debug)]
pub struct Output {
    path: PathBuf,
    format: Format,
}

impl Output {
    /// A file of the format that its ending names.
    ///
    /// # Errors
    ///
    /// If no format has this ending, or the file's folder is not there: better said before a long
    /// recording than after it.
    pub fn new(path: &Path) -> anyhow::Result<Self> {
        let format = match path.extension().and_then(|ending| ending.to_str()) {
            Some("svg") => Format::Svg,
            Some("folded") => Format::Folded,
            _ => {
                bail!("{}: unknown format; use a name that ends in .svg or .folded", path.display())
            }
        };
        if path.is_dir() {
            bail!("{} is a folder", path.display());
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            bail!("{}: the folder {} is not there", path.display(), folder.display());
        }
        if !path.exists() && !may_write(folder) {
            bail!("{}: the folder {} may not be written", path.display(), folder.display());
        }
        Ok(Self { path: path.to_owned(), format })
    }

    /// Writes the profile, whole or not at all.
    pub fn write(
        &self,
        profile: &Profile,
        labels: &LabelOptions,
        title: &str,
    ) -> anyhow::Result<()> {
        let tree = Tree::new(profile, labels);
        write_file(&self.path, |mut out| match self.format {
            Format::Folded => write_folded(&tree, &mut out),
            Format::Svg => {
                let options = SvgOptions {
                    title: title.to_owned(),
                    palette: palette(profile),
                    ..SvgOptions::default()
                };
                let layout = FlameOptions {
                    min_share: options.min_width.share(options.frames_width()),
                    ..FlameOptions::default()
                };
                match flame(profile, &tree, &layout) {
                    Ok(graph) => svg(&graph, &options, &mut out),
                    Err(error @ (FlameError::Empty(_) | FlameError::NoSuchColumn(..))) => {
                        svg_message(&error.to_string(), &options, &mut out)
                    }
                }
            }
        })
        .with_context(|| format!("failed to write {}", self.path.display()))
    }
}

/// Blue for waits, so that nobody takes the graph for one of what ran.
fn palette(profile: &Profile) -> Palette {
    match profile.value_types.first() {
        Some(value) if value.name == "off-cpu" => Palette::Hue(Hue::Blue),
        _ => Palette::default(),
    }
}

/// Whether this process may make files in a folder.
fn may_write(folder: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;

    let Ok(folder) = std::ffi::CString::new(folder.as_os_str().as_bytes()) else { return false };
    // SAFETY: The call reads a C string, which lives through it.
    unsafe { libc::access(folder.as_ptr(), libc::W_OK) == 0 }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}
