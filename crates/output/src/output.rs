//! Where a profile goes: files, whose endings say what is written.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use pyrograph_analyze::{
    Annotation, FlameError, FlameOptions, ViewNames, flame, origin, top, view_data,
};
use pyrograph_format::{
    Detail, NotWritable, PERFETTO_ENDINGS, WRITERS, Warnings, WriteOptions, Writer, check_writable,
    counts_of_folded, not_held, similar_endings, writer_for, writer_named,
};
use pyrograph_profile::{LabelOptions, Profile, ThreadDetail, Tree, ValueType};
use pyrograph_render::{
    Palette, SvgOptions, Theme, ViewLook, subtitle, svg, svg_message, top_csv, view_html,
};

use crate::destination::{WriteError, Written, check_png, write_output, write_png};

/// Content of a file.
#[derive(Clone, Copy, Debug)]
enum Format {
    /// A flame graph.
    Svg,
    /// The same as pixels.
    Png,
    /// The table of functions.
    Csv,
    /// A page with all views.
    Page,
    /// A profile, to be read again.
    Profile(&'static dyn Writer),
}

/// Why nothing can be written there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// No format has files that end like this one.
    #[error("{}: unknown format; use a name that ends in {}", .0.display(), endings())]
    UnknownEnding(PathBuf),
    /// No format is called so.
    #[error("{0}: unknown format; these can be written: {names}, svg, png, html, csv", names = names())]
    UnknownFormat(String),
    /// There are no such pictures.
    #[error(transparent)]
    NoPng(#[from] WriteError),
    /// There cannot be such a file.
    #[error(transparent)]
    NotWritable(#[from] NotWritable),
}

impl OutputError {
    /// True if the format is not known.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::UnknownEnding(_) | Self::UnknownFormat(_))
    }
}

/// Look of flame graphs that are written beside other formats.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// A line below the title; the default is what was counted, for how long, where and when.
    pub subtitle: Option<String>,
    /// The root is at the top.
    pub inverted: bool,
    /// For light or dark pages.
    pub theme: Theme,
    /// Pages open with the map of when within so many nanoseconds samples were taken.
    pub second: Option<u64>,
    /// Functions with source and instructions, the hottest first, for pages.
    pub code: Vec<Annotation>,
    /// Pages show names of functions as they are, not short ones.
    pub keeps_names: bool,
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
    /// If no format has this ending, or the file's folder is not there: an error before a long
    /// recording is better than one after it.
    pub fn new(path: &Path) -> Result<Self, OutputError> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let format = format_of(name).ok_or_else(|| OutputError::UnknownEnding(path.to_owned()))?;
        Self { path: Some(path.to_owned()), format, named: false, kept: false }.checked()
    }

    /// A file that is written beside what was asked for: totals, without source lines.
    ///
    /// # Errors
    ///
    /// As [`Output::new`].
    pub fn kept(path: &Path) -> Result<Self, OutputError> {
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
    pub fn named(path: Option<&Path>, format: &str) -> Result<Self, OutputError> {
        let by_ending = || format_of(&format!("x.{format}"));
        let found = writer_named(format).map(Format::Profile).or_else(by_ending);
        let found = found.ok_or_else(|| OutputError::UnknownFormat(format.to_owned()))?;
        Self { path: path.map(Path::to_owned), format: found, named: true, kept: false }.checked()
    }

    /// The same, if it can be written.
    fn checked(self) -> Result<Self, OutputError> {
        if matches!(self.format, Format::Png) {
            check_png(self.path.as_deref())?;
        }
        self.path.as_deref().map_or(Ok(()), check_writable)?;
        Ok(self)
    }

    /// The file of a picture that a browser shows.
    pub fn picture(&self) -> Option<&Path> {
        let is_shown = matches!(self.format, Format::Svg | Format::Png | Format::Page);
        self.path.as_deref().filter(|_| is_shown)
    }

    /// True if it goes to standard output.
    pub fn is_standard(&self) -> bool {
        self.path.is_none()
    }

    /// Detail of a profile that the format has room for: single samples if it holds their times.
    pub fn detail(&self) -> Detail {
        match self.format {
            Format::Page => Detail::Samples,
            Format::Profile(writer) if writer.capabilities().times && !self.kept => Detail::Samples,
            _ => Detail::Totals,
        }
    }

    /// True if it is a page with all views.
    pub fn is_page(&self) -> bool {
        matches!(self.format, Format::Page)
    }

    /// True if the format holds which instruction each sample was taken at.
    pub fn holds_instructions(&self) -> bool {
        match self.format {
            Format::Page => true,
            Format::Profile(writer) => writer.capabilities().instructions,
            Format::Svg | Format::Png | Format::Csv => false,
        }
    }

    /// Detail by which the format distinguishes threads.
    pub fn threads(&self) -> ThreadDetail {
        match self.format {
            Format::Page => ThreadDetail::Thread,
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
            Format::Svg | Format::Png | Format::Csv | Format::Page => Warnings::default(),
        }
    }

    /// True if the format holds one of the profile's values alone.
    pub fn leaves_out_values(&self, profile: &Profile) -> bool {
        matches!(self.format, Format::Profile(writer)
            if !writer.capabilities().values_left_out(profile).is_empty())
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
    ///
    /// # Errors
    ///
    /// If the format cannot hold it, or it cannot be written.
    pub fn write(
        &self,
        profile: &Profile,
        labels: &LabelOptions,
        title: &str,
        picture: &Picture,
    ) -> Result<Written, WriteError> {
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
                    return Err(WriteError::Refused { output: self.to_string(), reason });
                }
                let options = WriteOptions { labels: labels.clone(), title: title.to_owned() };
                write_output(path, |out| writer.write(profile, &options, out))?;
            }
            Format::Svg => write_output(path, |out| write_svg(profile, labels, &options(), out))?,
            Format::Page => write_output(path, |out| write_page(profile, title, picture, out))?,
            Format::Csv => {
                let rows = top(profile, labels, profile.shown);
                let of = profile.value_types.get(profile.shown).cloned();
                let of = of.unwrap_or_else(ValueType::samples);
                write_output(path, |out| top_csv(&rows, &of, out))?;
            }
            Format::Png => {
                return write_png(path, |out| write_svg(profile, labels, &options(), out));
            }
        }
        Ok(Written::default())
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

/// Samples in a page; of more, those of a stack are added up in short spans of time.
const MOST_SAMPLES: usize = 4_000_000;

/// Writes the page with all views.
fn write_page(
    profile: &Profile,
    title: &str,
    picture: &Picture,
    out: &mut dyn Write,
) -> io::Result<()> {
    let look = ViewLook {
        title: title.to_owned(),
        subtitle: picture.subtitle.clone(),
        theme: picture.theme,
        second: picture.second,
        palette: profile.value_types.get(profile.shown).map(Palette::of).unwrap_or_default(),
        code: &picture.code,
        ..ViewLook::default()
    };
    let names = if picture.keeps_names { ViewNames::AsTheyAre } else { ViewNames::Short };
    view_html(&view_data(profile, MOST_SAMPLES, names), &look, out)
}

/// The format of a file of this name.
fn format_of(name: &str) -> Option<Format> {
    match name.rsplit_once('.') {
        Some((_, "svg")) => Some(Format::Svg),
        Some((_, "png")) => Some(Format::Png),
        Some((_, "csv")) => Some(Format::Csv),
        Some((_, "html")) => Some(Format::Page),
        _ => writer_for(name).map(Format::Profile),
    }
}

/// The usual ending of each format, for messages.
fn endings() -> String {
    let endings: Vec<String> = [".svg", ".png", ".html", ".csv"]
        .map(str::to_owned)
        .into_iter()
        .chain(WRITERS.iter().filter_map(|writer| Some(format!(".{}", writer.endings().first()?))))
        .collect();
    match endings.split_last() {
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

/// The names of the formats of profiles, for messages.
fn names() -> String {
    WRITERS.iter().map(|writer| writer.name()).collect::<Vec<_>>().join(", ")
}

/// The formats that can be written, each with the endings of its files and what they are for.
pub fn formats() -> Vec<(&'static str, String)> {
    let profile = |writer: &&dyn Writer| {
        let endings = writer.endings().iter().map(|ending| format!(".{ending}"));
        let endings = endings.collect::<Vec<_>>().join(" ");
        (writer.name(), format!("{endings}: for {}", writer.opened_by()))
    };
    let mut formats: Vec<_> = WRITERS.iter().map(profile).collect();
    formats.extend(["svg", "png"].map(|name| (name, format!(".{name}: a flame graph"))));
    formats.push(("html", ".html: a page with all views, for browsers".to_owned()));
    formats.push(("csv", ".csv: the table of functions".to_owned()));
    let endings = PERFETTO_ENDINGS.map(|ending| format!(".{ending}")).join(" ");
    formats.push(("Perfetto", format!("{endings}: events of the scheduler, for ui.perfetto.dev")));
    formats
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => path.display().fmt(f),
            None => f.write_str("standard output"),
        }
    }
}
