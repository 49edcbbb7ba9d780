//! Where a profile goes: files, whose endings say what is written.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::bail;
use pyrograph_analyze::{FlameError, FlameOptions, flame, origin, top};
use pyrograph_format::{
    Detail, WRITERS, Warnings, WriteOptions, Writer, check_writable, counts_of_folded, not_held,
    similar_endings, writer_for, writer_named,
};
use pyrograph_profile::{LabelOptions, Profile, ThreadDetail, Tree, ValueType};
use pyrograph_render::{Palette, SvgOptions, Theme, subtitle, svg, svg_message, top_csv};

use crate::say::misuse;
use crate::streams::{check_png, write_output, write_png};

/// Content of a file.
#[derive(Clone, Copy, Debug)]
enum Format {
    /// A flame graph.
    Svg,
    /// The same as pixels.
    Png,
    /// The table of functions.
    Csv,
    /// A profile, to be read again.
    Profile(&'static dyn Writer),
}

/// Options of flame graphs that are written beside other formats.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct PictureArgs {
    /// A line below the title of flame graphs [default: what was counted, for how long, where and when]
    #[arg(long, value_name = "TEXT")]
    subtitle: Option<String>,

    /// Flame graphs with the root at the top
    #[arg(long)]
    inverted: bool,

    /// Flame graphs for light or dark pages, or for the reader's setting
    #[arg(long, value_name = "THEME", default_value = "auto")]
    theme: Theme,
}

/// Something to write.
#[derive(Clone, Debug)]
pub struct Output {
    /// Standard output if there is none.
    path: Option<PathBuf>,
    format: Format,
    /// True if a flag gives the format, and not the ending.
    named: bool,
    /// True if nobody asked for it: then it must not make a recording dearer.
    kept: bool,
}

impl Output {
    /// A file of the format that its ending names.
    ///
    /// # Errors
    ///
    /// If no format has this ending, or the file's folder is not there: better said before a long
    /// recording than after it.
    pub fn new(path: &Path) -> anyhow::Result<Self> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(format) = format_of(name) else {
            misuse!("{}: unknown format; use a name that ends in {}", path.display(), endings());
        };
        if matches!(format, Format::Png) {
            check_png(Some(path))?;
        }
        check_writable(path)?;
        Ok(Self { path: Some(path.to_owned()), format, named: false, kept: false })
    }

    /// A file that is written beside what was asked for: totals, without source lines.
    ///
    /// # Errors
    ///
    /// As [`Output::new`].
    pub fn kept(path: &Path) -> anyhow::Result<Self> {
        Ok(Self { kept: true, ..Self::new(path)? })
    }

    /// True if it is written beside what was asked for.
    pub fn is_kept(&self) -> bool {
        self.kept
    }

    /// A file, or standard output, of the format that is called so.
    ///
    /// # Errors
    ///
    /// If none is; if the file's folder is not there.
    pub fn named(path: Option<&Path>, format: &str) -> anyhow::Result<Self> {
        let format = match writer_named(format) {
            Some(writer) => Format::Profile(writer),
            None => match format_of(&format!("x.{format}")) {
                Some(format) => format,
                None => {
                    let names: Vec<&str> = WRITERS.iter().map(|writer| writer.name()).collect();
                    misuse!(
                        "{format}: unknown format; these can be written: {}, svg, png, csv",
                        names.join(", ")
                    )
                }
            },
        };
        if matches!(format, Format::Png) {
            check_png(path)?;
        }
        if let Some(path) = path {
            check_writable(path)?;
        }
        Ok(Self { path: path.map(Path::to_owned), format, named: true, kept: false })
    }

    /// The file of a picture that a browser shows.
    pub fn picture(&self) -> Option<&Path> {
        self.path.as_deref().filter(|_| matches!(self.format, Format::Svg | Format::Png))
    }

    /// True if it goes to standard output.
    pub fn is_standard(&self) -> bool {
        self.path.is_none()
    }

    /// Detail of a profile that the format has room for: single samples if it holds their times.
    pub fn detail(&self) -> Detail {
        match self.format {
            Format::Profile(writer) if writer.capabilities().times && !self.kept => Detail::Samples,
            _ => Detail::Totals,
        }
    }

    /// Detail by which the format distinguishes threads.
    pub fn threads(&self) -> ThreadDetail {
        match self.format {
            Format::Profile(writer) if writer.capabilities().thread_ids => ThreadDetail::Thread,
            _ => ThreadDetail::Name,
        }
    }

    /// True if the format holds source lines, as all do but pictures and plain text.
    pub fn holds_sources(&self) -> bool {
        matches!(self.format, Format::Profile(writer) if writer.capabilities().files && !self.kept)
    }

    /// Parts of the profile that the format has no place for.
    pub fn not_held(&self, profile: &Profile) -> Warnings {
        match self.format {
            Format::Profile(writer) => not_held(profile, writer),
            Format::Svg | Format::Png | Format::Csv => Warnings::default(),
        }
    }

    /// Says what the counts are, if the format does not.
    pub fn counts(&self, profile: &Profile) -> Option<String> {
        match self.format {
            Format::Profile(writer) if writer.name() == "folded" => counts_of_folded(profile),
            _ => None,
        }
    }

    /// Says which format was written if the ending is one that several have, as `.json`, and how to
    /// get the others.
    pub fn which(&self) -> Option<String> {
        let (Format::Profile(chosen), Some(path), false) = (self.format, &self.path, self.named)
        else {
            return None;
        };
        let others = similar_endings(path.file_name()?.to_str()?);
        let others: Vec<String> = others
            .iter()
            .map(|(ending, writer)| format!(".{ending} for {}", writer.name()))
            .collect();
        (!others.is_empty()).then(|| {
            let others = others.join(", ");
            format!("{self} is in the {} format; end its name in {others}", chosen.name())
        })
    }

    /// Writes the profile, whole or not at all.
    pub fn write(
        &self,
        profile: &Profile,
        labels: &LabelOptions,
        title: &str,
        picture: &PictureArgs,
    ) -> anyhow::Result<()> {
        let path = self.path.as_deref();
        let options = || SvgOptions {
            title: title.to_owned(),
            palette: profile.value_types.get(profile.shown).map(Palette::of).unwrap_or_default(),
            subtitle: picture.subtitle.clone().unwrap_or_else(|| {
                origin(profile, profile.shown).map(|o| subtitle(&o, None, 1.0)).unwrap_or_default()
            }),
            inverted: picture.inverted,
            theme: picture.theme,
            ..SvgOptions::default()
        };
        match self.format {
            Format::Profile(writer) => {
                if let Some(reason) = writer.refuses(profile) {
                    bail!("failed to write {self}: {reason}");
                }
                let options = WriteOptions { labels: labels.clone(), title: title.to_owned() };
                write_output(path, |out| writer.write(profile, &options, out))
            }
            Format::Svg => write_output(path, |out| write_svg(profile, labels, &options(), out)),
            Format::Csv => {
                let rows = top(profile, labels, profile.shown);
                let of = profile.value_types.get(profile.shown).cloned();
                let of = of.unwrap_or_else(ValueType::samples);
                write_output(path, |out| top_csv(&rows, &of, out))
            }
            Format::Png => write_png(path, |out| write_svg(profile, labels, &options(), out)),
        }
    }
}

fn write_svg(
    profile: &Profile,
    labels: &LabelOptions,
    options: &SvgOptions,
    mut out: &mut dyn Write,
) -> io::Result<()> {
    let layout = FlameOptions {
        column: profile.shown,
        min_share: options.min_width.share(options.frames_width()),
        ..FlameOptions::default()
    };
    match flame(profile, &Tree::new(profile, labels), &layout) {
        Ok(graph) => svg(&graph, options, &mut out),
        Err(error @ (FlameError::Empty(_) | FlameError::NoSuchColumn(..))) => {
            svg_message(&error.to_string(), options, &mut out)
        }
    }
}

/// The format of a file of this name.
fn format_of(name: &str) -> Option<Format> {
    match name.rsplit_once('.') {
        Some((_, "svg")) => Some(Format::Svg),
        Some((_, "png")) => Some(Format::Png),
        Some((_, "csv")) => Some(Format::Csv),
        _ => writer_for(name).map(Format::Profile),
    }
}

/// The usual ending of each format, for messages.
fn endings() -> String {
    let endings: Vec<String> = [".svg", ".png", ".csv"]
        .map(str::to_owned)
        .into_iter()
        .chain(WRITERS.iter().filter_map(|writer| Some(format!(".{}", writer.endings().first()?))))
        .collect();
    match endings.split_last() {
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => path.display().fmt(f),
            None => f.write_str("standard output"),
        }
    }
}
