//! `pyrograph flamegraph`: draws any input as an interactive SVG.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use pyrograph_analyze::{
    FlameError, FlameGraph, FlameOptions, flame, flame_chart, flame_reversed, origin,
};
use pyrograph_export::{Output, Picture};
use pyrograph_format::{Detail, Options, SymbolOptions, ThreadDetail, write_file};
use pyrograph_profile::{LabelOptions, Profile, Tree};
use pyrograph_render::{
    Background, Encoding, MinWidth, NameAttributes, Palette, PaletteMap, SvgOptions, Theme, Tone,
    subtitle, svg, svg_message,
};

use crate::code::CodeArgs;
use crate::ending;
use crate::reading::ReadArgs;
use crate::say::{misuse, say};
use crate::streams::{inputs, say_wrote, write_picture};
use crate::units::above_zero;
use crate::view;

/// File in which `--cp` stores colours.
const PALETTE_MAP: &str = "palette.map";

/// Draw any input that `fold` reads as an interactive SVG
///
/// The options have the names and meanings that flame graph users know; `-title X`, `--title=X`
/// and any beginning of a name that is not ambiguous are taken too.
#[derive(clap::Args)]
#[command(
    args_override_self = true,
    after_help = "\
Examples:
  pyrograph flamegraph perf.data -o graph.svg      what `perf record -g` wrote
  pyrograph flamegraph perf.txt > graph.svg        `perf script` text, or folded stacks
  perf script | pyrograph flamegraph -o graph.svg
  pyrograph flamegraph --colors java --title 'Checkout' stacks.folded.gz > graph.svg
  pyrograph flamegraph --embed stacks.folded       for a blog: no script, paste it anywhere"
)]
pub struct Args {
    /// Inputs, `-` for standard input; text or .gz or .zst [default: standard input; on a terminal the last
    /// recording in the current folder: flamegraph.pb.gz or perf.data]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Where to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// The heading [default: Flame Graph, Icicle Graph or Flame Chart]
    #[arg(long, value_name = "TEXT", help_heading = "Text")]
    title: Option<String>,

    /// A second line below the heading [default: what is counted, for how long, where and when]
    #[arg(long, value_name = "TEXT", help_heading = "Text")]
    subtitle: Option<String>,

    /// The unit in details [default: the input's, else samples]
    #[arg(long, value_name = "TEXT", help_heading = "Text")]
    countname: Option<String>,

    /// The word before a function's name in details
    #[arg(long, value_name = "TEXT", help_heading = "Text")]
    nametype: Option<String>,

    /// A comment in the file
    #[arg(long, value_name = "TEXT", help_heading = "Text")]
    notes: Option<String>,

    /// The font family [default: the reader's interface font]
    #[arg(long, value_name = "FONT", help_heading = "Text")]
    fonttype: Option<String>,

    /// The font size in pixels
    #[arg(long, value_name = "PX", default_value_t = 12.0, value_parser = above_zero, help_heading = "Text")]
    fontsize: f64,

    /// The mean width of a character as a share of the font size [default: usual proportions]
    #[arg(long, value_name = "SHARE", value_parser = above_zero, help_heading = "Text")]
    fontwidth: Option<f64>,

    /// The encoding that the file declares
    #[arg(long, value_name = "NAME", default_value = "UTF-8", help_heading = "Text")]
    encoding: Encoding,

    /// The width of the picture in pixels [default: the window's; 1200 where no script runs]
    #[arg(long, value_name = "PX", value_parser = above_zero, help_heading = "Layout")]
    width: Option<f64>,

    /// The height of a frame in pixels
    #[arg(long, value_name = "PX", default_value_t = 18.0, value_parser = above_zero, help_heading = "Layout")]
    height: f64,

    /// Leave out narrower functions: pixels, or percent of the whole (0.5%)
    #[arg(long, value_name = "WIDTH", default_value = "0.1", help_heading = "Layout")]
    minwidth: MinWidth,

    /// The root at the top
    #[arg(long, help_heading = "Layout")]
    inverted: bool,

    /// Start at the leaves: each function with its callers above it
    #[arg(long, help_heading = "Layout")]
    reverse: bool,

    /// Every row: also those of functions that only start a thread, before the program's own code
    #[arg(long, help_heading = "Layout")]
    all_rows: bool,

    /// In true time, where the input has it: gaps stay gaps, and each thread has rows of its own.
    /// Else one sample after the other. Only neighbours are merged
    #[arg(long, conflicts_with = "reverse", help_heading = "Layout")]
    flamechart: bool,

    /// A frame for each line of a function that calls or runs, where the input or debug information has lines:
    /// work (app.c:12)
    #[arg(long, help_heading = "Layout")]
    lines: bool,

    /// The value of the whole width, if more than the input adds up to
    #[arg(long, value_name = "COUNT", value_parser = above_zero, help_heading = "Layout")]
    total: Option<f64>,

    /// Multiply shown counts
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = above_zero, help_heading = "Layout")]
    factor: f64,

    /// The palette: default (one hue a meaning), wall, hot, mem, io, wakeup, chain, java, js, perl, python, rust;
    /// classic-hot and so on for the colours of the established tools; red, green, blue, yellow, purple, aqua,
    /// orange
    #[arg(long, value_name = "PALETTE", default_value = "default", help_heading = "Colours")]
    colors: Palette,

    /// For light or dark pages, or for the reader's setting
    #[arg(long, value_name = "THEME", default_value = "auto", help_heading = "Colours")]
    theme: Theme,

    /// The background: yellow, blue, green, grey, or #rrggbb [default: that of the theme]
    #[arg(long, value_name = "COLOUR", help_heading = "Colours")]
    bgcolors: Option<Background>,

    /// Like colours for names that begin alike
    #[arg(long, help_heading = "Colours")]
    hash: bool,

    /// Colours by place, not by name; still the same in every run
    #[arg(long, conflicts_with = "hash", help_heading = "Colours")]
    random: bool,

    /// Keep the colours of functions in the file palette.map, from picture to picture
    #[arg(long, help_heading = "Colours")]
    cp: bool,

    /// Blue for more and red for less in a differential graph
    #[arg(long, help_heading = "Colours")]
    negate: bool,

    /// A file of attributes for the frames of particular functions
    #[arg(long, value_name = "FILE", help_heading = "Colours")]
    nameattr: Option<PathBuf>,

    /// Without XML prolog and script: a still picture with tooltips, to paste into any page
    #[arg(long, help_heading = "Layout")]
    embed: bool,

    /// Options of other renderers that have no effect here, which is said
    #[arg(long, hide = true, value_name = "COLOUR")]
    search_color: Option<String>,
    #[arg(long, hide = true, value_name = "COLOUR")]
    stroke_color: Option<String>,
    #[arg(long, hide = true, value_name = "COLOUR")]
    uicolor: Option<String>,

    #[command(flatten)]
    reading: ReadArgs,
}

/// Runs `pyrograph flamegraph`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    ending::check(args.output.as_deref(), &["svg", "png", "html", "htm"])?;
    if ending::is_page(args.output.as_deref()) {
        return write_page(&args);
    }
    let mut options = svg_options(&args)?;
    for (option, given, why) in [
        (
            "--search-color",
            &args.search_color,
            "what is found keeps its colour, and the rest fades",
        ),
        ("--stroke-color", &args.stroke_color, "frames have gaps and no outlines"),
        ("--uicolor", &args.uicolor, "controls have the colour of the text"),
    ] {
        if given.is_some() {
            say!("{option} has no effect: {why}");
        }
    }
    // A flame chart needs each sample with its time and thread; everything else is drawn from totals.
    let symbols = SymbolOptions { lines: args.lines, ..SymbolOptions::default() };
    let mut reading = Options { symbols, ..Options::default() };
    if args.flamechart {
        (reading.detail, reading.threads) = (Detail::Samples, ThreadDetail::Thread);
    }
    let (profile, _) = match args.reading.read(inputs(&args.files)?, reading) {
        Ok(read) => read,
        Err(error) => return refuse(&args, &options, &format!("failed to draw: {error:#}")),
    };
    if args.lines && profile.frames.iter().all(|frame| frame.line == 0) {
        say!("--lines has no effect: neither the input nor debug information has source lines");
    }
    if args.subtitle.is_none()
        && !profile.is_comparison()
        && let Some(origin) = origin(&profile, profile.shown)
    {
        options.subtitle = subtitle(&origin, args.countname.as_deref(), args.factor);
    }
    match lay_out(&args, &profile, &options) {
        Ok(graph) => {
            let unit = 10f64.powi(graph.value_type.decimals.into());
            if let Some(total) = args.total
                && graph.threads.is_empty()
                && total * unit < graph.total as f64
            {
                say!("--total {total} is ignored: it is less than all stacks together");
            }
            write_graph(&args, &graph, options)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => refuse(&args, &options, &error.to_string()),
    }
}

/// Writes the page of `pyrograph view`, which draws flame charts and reversed graphs by itself.
fn write_page(args: &Args) -> anyhow::Result<ExitCode> {
    let of_pictures = [
        ("--flamechart", args.flamechart),
        ("--reverse", args.reverse),
        ("--embed", args.embed),
        ("--cp", args.cp),
        ("--nameattr", args.nameattr.is_some()),
        ("--width", args.width.is_some()),
    ];
    if let Some((option, _)) = of_pictures.into_iter().find(|(_, given)| *given) {
        misuse!("{option} is for SVG pictures: a page is drawn by its reader's browser");
    }
    let output = Output::named(args.output.as_deref(), "html")?;
    let picture = Picture {
        subtitle: args.subtitle.clone(),
        inverted: args.inverted,
        theme: args.theme,
        ..Picture::default()
    };
    let title = args.title.as_deref().unwrap_or("Profile");
    let code = CodeArgs::default();
    view::write(&output, &args.files, &args.reading, title, picture, &code, "failed to draw")?;
    say_wrote(args.output.as_deref());
    Ok(ExitCode::SUCCESS)
}

fn svg_options(args: &Args) -> anyhow::Result<SvgOptions> {
    let attributes = match &args.nameattr {
        Some(path) => name_attributes(path)?,
        None => NameAttributes::default(),
    };
    let usual = match (args.flamechart, args.inverted) {
        (true, _) => "Flame Chart",
        (false, true) => "Icicle Graph",
        (false, false) => "Flame Graph",
    };
    Ok(SvgOptions {
        title: args.title.clone().unwrap_or_else(|| usual.to_owned()),
        subtitle: args.subtitle.clone().unwrap_or_default(),
        width: args.width,
        row_height: args.height,
        min_width: args.minwidth,
        font: args.fonttype.clone().unwrap_or_default(),
        font_size: args.fontsize,
        font_width: args.fontwidth,
        count_name: args.countname.clone(),
        name_type: args.nametype.clone().unwrap_or_default(),
        palette: args.colors,
        tone: match (args.hash, args.random) {
            (true, _) => Tone::Prefix,
            (false, true) => Tone::Place,
            (false, false) => Tone::Name,
        },
        palette_map: None,
        theme: args.theme,
        background: args.bgcolors,
        inverted: args.inverted,
        negate: args.negate,
        notes: args.notes.clone().unwrap_or_default(),
        attributes,
        factor: args.factor,
        encoding: args.encoding.clone(),
        embed: args.embed,
    })
}

fn name_attributes(path: &Path) -> anyhow::Result<NameAttributes> {
    let bytes =
        std::fs::read(path).with_context(|| format!("failed to read {}", path.display()))?;
    let (attributes, refused) = NameAttributes::parse(&String::from_utf8_lossy(&bytes));
    for refused in refused {
        say!("{}: {refused}", path.display());
    }
    Ok(attributes)
}

fn lay_out(args: &Args, profile: &Profile, options: &SvgOptions) -> Result<FlameGraph, FlameError> {
    let labels = LabelOptions { lines: args.lines, ..LabelOptions::default() };
    let compared = profile.is_comparison();
    let flame_options = FlameOptions {
        column: if compared { 1 } else { profile.shown },
        baseline: compared.then_some(0),
        min_share: options.min_width.share(options.frames_width()),
        total: args.total,
        fold_start: !args.all_rows,
    };
    if args.flamechart {
        return flame_chart(profile, &labels, &flame_options);
    }
    let tree = Tree::new(profile, &labels);
    if args.reverse {
        flame_reversed(profile, &tree, &flame_options)
    } else {
        flame(profile, &tree, &flame_options)
    }
}

fn write_graph(args: &Args, graph: &FlameGraph, mut options: SvgOptions) -> anyhow::Result<()> {
    if args.cp {
        let mut map = match std::fs::read(PALETTE_MAP) {
            Ok(bytes) => PaletteMap::parse(&String::from_utf8_lossy(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => PaletteMap::default(),
            Err(error) => return Err(error).context(format!("failed to read {PALETTE_MAP}")),
        };
        map.add(graph, &options);
        write_file(Path::new(PALETTE_MAP), |out| out.write_all(map.to_text().as_bytes()))
            .with_context(|| format!("failed to write {PALETTE_MAP}"))?;
        options.palette_map = Some(map);
    }
    Ok(write_picture(args.output.as_deref(), |out| svg(graph, &options, out))?)
}

/// Reports on standard error, and in the picture as flamegraph.pl does, that there is nothing to draw. An existing
/// picture is not replaced.
fn refuse(args: &Args, options: &SvgOptions, why: &str) -> anyhow::Result<ExitCode> {
    let output = args.output.as_deref();
    match output.filter(|path| path.is_file()) {
        Some(path) => say!("{} stays as it is", path.display()),
        None => write_picture(output, |out| svg_message(why, options, out))?,
    }
    bail!("{why}")
}
