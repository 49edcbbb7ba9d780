//! Outputs of a profile; the file extension determines the format.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use pyrograph_analyze::{
    Annotation, FlameError, FlameOptions, ViewNames, flame, origin, top, view_data,
};
use pyrograph_format::{
    Capabilities, Detail, NotWritable, PERFETTO_ENDINGS, WRITERS, Warnings, WriteOptions, Writer,
    check_writable, counts_of_folded, not_held, similar_endings, writer_for, writer_named,
};
use pyrograph_profile::{LabelOptions, Profile, ThreadDetail, Tree, ValueType};
use pyrograph_render::{
    Palette, SvgOptions, Theme, ViewLook, subtitle, svg, svg_message, top_csv, view_html,
};

use crate::destination::{WriteError, Written, check_png, write_output, write_png};

/// Format of a file.
#[derive(Clone, Copy, Debug)]
enum Format {
    /// A view of the profile.
    View(&'static View),
    /// A profile that can be read again.
    Profile(&'static dyn Writer),
}

/// A format that shows a profile: a picture, a page or a table.
#[derive(Debug)]
struct View {
    kind: ViewKind,
    /// Ending of file names, which is also its name.
    ending: &'static str,
    /// Content of a file, for the list of formats.
    content: &'static str,
    /// The detail that it shows.
    shows: Capabilities,
}

/// Kinds of views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ViewKind {
    Svg,
    Png,
    Page,
    Csv,
}

/// All views.
static VIEWS: [View; 4] = [
    View {
        kind: ViewKind::Svg,
        ending: "svg",
        content: "a flame graph",
        shows: Capabilities::NAMES,
    },
    View {
        kind: ViewKind::Png,
        ending: "png",
        content: "a flame graph",
        shows: Capabilities::NAMES,
    },
    View {
        kind: ViewKind::Page,
        ending: "html",
        content: "a page with all views, for browsers",
        shows: Capabilities {
            times: true,
            thread_ids: true,
            instructions: true,
            ..Capabilities::NAMES
        },
    },
    View {
        kind: ViewKind::Csv,
        ending: "csv",
        content: "the table of functions",
        shows: Capabilities::NAMES,
    },
];

/// Reason why an output is rejected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// No format has this extension.
    #[error("{}: unknown format; use a name that ends in {}", .0.display(), endings())]
    UnknownEnding(PathBuf),
    /// No format has this name.
    #[error("{0}: unknown format; these can be written: {names}", names = names())]
    UnknownFormat(String),
    /// PNG pictures are not supported.
    #[error(transparent)]
    NoPng(#[from] WriteError),
    /// The file cannot exist.
    #[error(transparent)]
    NotWritable(#[from] NotWritable),
}

impl OutputError {
    /// Returns true if the format is not known.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::UnknownEnding(_) | Self::UnknownFormat(_))
    }
}

/// Options for pictures and pages that are not options of other formats.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// Line below the title; the default is what was counted, for how long, where and when.
    pub subtitle: Option<String>,
    /// The root is at the top.
    pub inverted: bool,
    /// Draw every row, also those of functions that only start a thread.
    pub all_rows: bool,
    /// Theme for light or dark pages.
    pub theme: Theme,
    /// Start pages with a map of the samples' times within periods of this many nanoseconds.
    pub second: Option<u64>,
    /// Functions with source and instructions, hottest first, for pages.
    pub code: Vec<Annotation>,
    /// Show full names of functions in pages instead of short ones.
    pub keeps_names: bool,
}

/// An output of a profile.
#[derive(Clone, Debug)]
pub struct Output {
    /// Path; `None` for standard output.
    path: Option<PathBuf>,
    format: Format,
    /// True if a flag sets the format, instead of the extension.
    named: bool,
    /// True if it was not requested: then it must not make a recording more expensive.
    kept: bool,
}

impl Output {
    /// Creates an output to a file in the format of its extension.
    ///
    /// # Errors
    ///
    /// Returns an error if no format has this extension, or if the file's directory does not exist: an error before a
    /// long recording is better than one after it.
    pub fn new(path: &Path) -> Result<Self, OutputError> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let format = format_of(name).ok_or_else(|| OutputError::UnknownEnding(path.to_owned()))?;
        Self { path: Some(path.to_owned()), format, named: false, kept: false }.checked()
    }

    /// Creates an output that is written in addition to requested ones: totals, without source lines.
    ///
    /// # Errors
    ///
    /// As [`Output::new`].
    pub fn kept(path: &Path) -> Result<Self, OutputError> {
        Ok(Self { kept: true, ..Self::new(path)? })
    }

    /// Returns true if it was created by [`Output::kept`].
    pub fn is_kept(&self) -> bool {
        self.kept
    }

    /// Returns true if it is a file that has everything of a recording that can be read again, except source lines.
    pub fn is_data(&self) -> bool {
        self.path.is_some() && self.writer().is_some_and(|writer| writer.name() == "pprof")
    }

    /// Creates an output to a file, or to standard output, in a named format.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such format, or if the file's directory does not exist.
    pub fn named(path: Option<&Path>, format: &str) -> Result<Self, OutputError> {
        let by_ending = || format_of(&format!("x.{format}"));
        let found = writer_named(format).map(Format::Profile).or_else(by_ending);
        let found = found.ok_or_else(|| OutputError::UnknownFormat(format.to_owned()))?;
        Self { path: path.map(Path::to_owned), format: found, named: true, kept: false }.checked()
    }

    /// Checks that it can be written.
    fn checked(self) -> Result<Self, OutputError> {
        if self.view() == Some(ViewKind::Png) {
            check_png(self.path.as_deref())?;
        }
        self.path.as_deref().map_or(Ok(()), check_writable)?;
        Ok(self)
    }

    fn view(&self) -> Option<ViewKind> {
        match self.format {
            Format::View(view) => Some(view.kind),
            Format::Profile(_) => None,
        }
    }

    fn writer(&self) -> Option<&'static dyn Writer> {
        match self.format {
            Format::View(_) => None,
            Format::Profile(writer) => Some(writer),
        }
    }

    /// Returns the detail that the format can represent.
    fn capabilities(&self) -> Capabilities {
        match self.format {
            Format::View(view) => view.shows,
            Format::Profile(writer) => writer.capabilities(),
        }
    }

    /// Returns the path of a picture or page that a browser can show.
    pub fn picture(&self) -> Option<&Path> {
        let is_shown = self.view().is_some_and(|view| view != ViewKind::Csv);
        self.path.as_deref().filter(|_| is_shown)
    }

    /// Returns true if it goes to the file of this path.
    pub fn goes_to(&self, path: impl AsRef<Path>) -> bool {
        self.path.as_deref() == Some(path.as_ref())
    }

    /// Returns true if it goes to standard output.
    pub fn is_standard(&self) -> bool {
        self.path.is_none()
    }

    /// Returns the detail that the format can represent: single samples if it has their times.
    pub fn detail(&self) -> Detail {
        let has_times = self.capabilities().times && !self.kept;
        if has_times { Detail::Samples } else { Detail::Totals }
    }

    /// Returns true if it is a page with all views.
    pub fn is_page(&self) -> bool {
        self.view() == Some(ViewKind::Page)
    }

    /// Returns true if the format has the instruction at which each sample was taken.
    pub fn holds_instructions(&self) -> bool {
        self.capabilities().instructions
    }

    /// Returns the level of detail at which the format distinguishes threads.
    pub fn threads(&self) -> ThreadDetail {
        let has_ids = self.capabilities().thread_ids;
        if has_ids { ThreadDetail::Thread } else { ThreadDetail::Name }
    }

    /// Returns true if the format has source lines, as all do except pictures and plain text.
    pub fn holds_sources(&self) -> bool {
        self.capabilities().files && !self.kept
    }

    /// Returns the parts of the profile that the format cannot represent. Nothing is expected of views.
    pub fn not_held(&self, profile: &Profile) -> Warnings {
        self.writer().map_or_else(Warnings::default, |writer| not_held(profile, writer))
    }

    /// Returns true if the format has only one of the profile's values.
    pub fn leaves_out_values(&self, profile: &Profile) -> bool {
        let left_out = self.writer().map(|writer| writer.capabilities().values_left_out(profile));
        left_out.is_some_and(|left_out| !left_out.is_empty())
    }

    /// Returns a description of the counts, if the format does not have one.
    pub fn counts(&self, profile: &Profile) -> Option<String> {
        let is_folded = self.writer().is_some_and(|writer| writer.name() == "folded");
        is_folded.then(|| counts_of_folded(profile))?
    }

    /// Returns a message about the format written, and how to get others, if several formats share the extension, such
    /// as `.json`.
    pub fn which(&self) -> Option<String> {
        let (Some(chosen), Some(path), false) = (self.writer(), &self.path, self.named) else {
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

    /// Writes the profile atomically.
    ///
    /// # Errors
    ///
    /// Returns an error if the format cannot represent it, or if it cannot be written.
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
        let svg =
            |out: &mut dyn Write| write_svg(profile, labels, &options(), picture.all_rows, out);
        match self.format {
            Format::Profile(writer) => {
                if let Some(reason) = writer.refuses(profile) {
                    return Err(WriteError::Refused { output: self.to_string(), reason });
                }
                let options = WriteOptions { labels: labels.clone(), title: title.to_owned() };
                write_output(path, |out| writer.write(profile, &options, out))?;
            }
            Format::View(view) => match view.kind {
                ViewKind::Svg => write_output(path, svg)?,
                ViewKind::Png => return write_png(path, svg),
                ViewKind::Page => {
                    write_output(path, |out| write_page(profile, title, picture, out))?
                }
                ViewKind::Csv => {
                    let rows = top(profile, labels, profile.shown);
                    let of = profile.value_types.get(profile.shown).cloned();
                    let of = of.unwrap_or_else(ValueType::samples);
                    write_output(path, |out| top_csv(&rows, &of, out))?;
                }
            },
        }
        Ok(Written::default())
    }
}

fn write_svg(
    profile: &Profile,
    labels: &LabelOptions,
    options: &SvgOptions,
    all_rows: bool,
    mut out: &mut dyn Write,
) -> io::Result<()> {
    let layout = FlameOptions {
        fold_start: !all_rows,
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

/// Maximum number of samples in a page; if there are more, samples of the same stack are merged within short time
/// spans.
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
        all_rows: picture.all_rows,
        palette: profile.value_types.get(profile.shown).map(Palette::of).unwrap_or_default(),
        code: &picture.code,
        ..ViewLook::default()
    };
    let names = if picture.keeps_names { ViewNames::AsTheyAre } else { ViewNames::Short };
    view_html(&view_data(profile, MOST_SAMPLES, names), &look, out)
}

/// Returns the format for a file name.
fn format_of(name: &str) -> Option<Format> {
    let (_, last) = name.rsplit_once('.')?;
    let view = VIEWS.iter().find(|view| view.ending == last).map(Format::View);
    view.or_else(|| writer_for(name).map(Format::Profile))
}

/// Returns the usual extension of each format, for messages.
fn endings() -> String {
    let views = VIEWS.iter().map(|view| view.ending);
    let profiles = WRITERS.iter().filter_map(|writer| writer.endings().first().copied());
    let endings: Vec<String> = views.chain(profiles).map(|ending| format!(".{ending}")).collect();
    match endings.split_last() {
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

/// Returns the names of all formats, for messages.
fn names() -> String {
    let profiles = WRITERS.iter().map(|writer| writer.name());
    profiles.chain(VIEWS.iter().map(|view| view.ending)).collect::<Vec<_>>().join(", ")
}

/// Returns the formats that can be written, each with its extensions and purpose.
pub fn formats() -> Vec<(&'static str, String)> {
    let profiles = WRITERS.iter().map(|writer| {
        let endings = writer.endings().iter().map(|ending| format!(".{ending}"));
        let endings = endings.collect::<Vec<_>>().join(" ");
        (writer.name(), format!("{endings}: for {}", writer.opened_by()))
    });
    let view = |view: &View| (view.ending, format!(".{}: {}", view.ending, view.content));
    let endings = PERFETTO_ENDINGS.map(|ending| format!(".{ending}")).join(" ");
    let perfetto = format!("{endings}: events of the scheduler, for ui.perfetto.dev");
    profiles.chain(VIEWS.iter().map(view)).chain([("Perfetto", perfetto)]).collect()
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => path.display().fmt(f),
            None => f.write_str("standard output"),
        }
    }
}
