//! `pyrograph diff`: compares two profiles, or two groups of profiles.

mod sides;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use pyrograph_analyze::{
    Alike, Diff, DiffError, DiffOptions, Measure, NameForm, Renamed, SampleBasis, Scale, Side,
    ViewNames, diff, to_total_after, two_columns, view_data,
};
use pyrograph_format::{FoldedColumns, counts_of_folded, write_folded};
use pyrograph_profile::{LabelOptions, Tree};
use pyrograph_render::{
    Background, ChangeColors, DiffHints, DiffStyle, DiffTable, MinWidth, SvgOptions, Theme, View,
    ViewLook, diff_svg, svg_message, view_html,
};

pub use self::sides::Sides;
use crate::reading::ReadArgs;
use crate::say::{misuse, say};
use crate::streams::{write_output, write_picture};
use crate::units::{above_zero, one_of};

/// Exit code if a function takes more than `--fail-over` allows.
const REGRESSED: u8 = 1;
/// Exit code with `--fail-over` if the comparison failed.
const NOT_COMPARED: u8 = 2;

const HINTS: DiffHints = DiffHints {
    all_rows: "--limit 0",
    each: "--each",
    samples: "several runs a side (--before, --after) or --sample",
};

/// Heading of the flags for pictures.
const PICTURE: &str = "Picture";

/// Compare profiles: what changed beyond noise, as a table, a picture, or folded stacks
///
/// Any inputs that `fold` reads, one file a run. A change counts if chance does not explain it.
#[derive(clap::Args)]
#[command(
    args_override_self = true,
    override_usage = "pyrograph diff [OPTIONS] [BEFORE] [AFTER]\n       \
                      pyrograph diff [OPTIONS] --before <FILE>... --after <FILE>...",
    after_help = "\
Examples:
  pyrograph diff before.perf.data after.perf.data            a table of what changed
  pyrograph diff before.folded after.folded -o diff.svg      a differential flame graph
  pyrograph diff before.folded after.folded -o diff.html     a page with all views of both
  pyrograph diff --before b1 b2 b3 --after a1 a2 a3 -o diff.svg    several runs of each
  pyrograph diff --absolute --fail-over 2% before after      for continuous integration
  pyrograph diff --folded -n before.folded after.folded | pyrograph flamegraph > diff.svg

Exit codes: 0 done; 1 failed; 2 bad usage. With --fail-over, as diff(1) has them: 0 nothing takes
more, 1 something does, 2 they could not be compared."
)]
pub struct Args {
    /// The profile before, and the one after; or one file of folded stacks with two counts [default: the last
    /// recording in the current folder, and the one before it]
    #[arg(value_name = "FILE", num_args = 1..=2)]
    files: Vec<PathBuf>,

    /// Runs before, one a file
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "after", conflicts_with = "files")]
    before: Vec<PathBuf>,

    /// Runs after, one a file
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "before", conflicts_with = "files")]
    after: Vec<PathBuf>,

    /// Where to write: .svg, .html (a page with all views), .folded, .txt, .md, .csv or .json; may be repeated
    /// [default: a table on standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Vec<PathBuf>,

    /// Write folded stacks with two counts on standard output
    #[arg(long, group = "form")]
    folded: bool,

    /// Write the picture on standard output
    #[arg(long, group = "form")]
    svg: bool,

    /// Write the table as Markdown
    #[arg(long, group = "form")]
    markdown: bool,

    /// Write the table as CSV
    #[arg(long, group = "form")]
    csv: bool,

    /// Write the table as JSON
    #[arg(long, group = "form")]
    json: bool,

    /// Compare functions with their callees (total) or by themselves (self)
    #[arg(long, value_name = "WHAT", default_value = "total", help_heading = "Comparison", value_parser = one_of([
        (Measure::Total, "total", "The samples that end in it or in what it calls"),
        (Measure::OwnSelf, "self", "The samples that end in it"),
    ]))]
    change: Measure,

    /// Compare values as they are: for runs that did the same work [default: shares of the whole]
    #[arg(long, help_heading = "Comparison")]
    absolute: bool,

    /// How sure to be, in percent
    #[arg(long, value_name = "PERCENT", default_value = "95", value_parser = confidence, help_heading = "Comparison")]
    confidence: f64,

    /// Judge each frame as if it were the only one: of those that did not change, 1 in 20 is called
    /// changed at 95 %
    #[arg(long, help_heading = "Comparison")]
    each: bool,

    /// The value of one sample [default: from the inputs]
    #[arg(long, value_name = "VALUE", value_parser = above_zero, help_heading = "Comparison")]
    sample: Option<f64>,

    /// Fail if a function takes more, beyond noise, by over this part of the whole before: 2%
    #[arg(long, value_name = "PERCENT", value_parser = percent, help_heading = "Comparison")]
    fail_over: Option<f64>,

    /// Rows of the table at most; 0 for all
    #[arg(long, value_name = "ROWS", default_value_t = 30, help_heading = "Comparison")]
    limit: usize,

    /// Compare processes, threads and other rows at the root by their names as they are [default: those that differ
    /// only in numbers, or that alone have no counterpart, as ./old and ./new, are compared as one, but for --folded]
    #[arg(long, help_heading = "Comparison")]
    keep_names: bool,

    /// Take all hexadecimal numbers in names (0x…) for the same one
    #[arg(short, long, help_heading = "Comparison")]
    strip_hex: bool,

    /// Bring the first counts of folded output to the total of the second
    #[arg(short, long, help_heading = "Comparison")]
    normalize: bool,

    /// The heading
    #[arg(long, value_name = "TEXT", default_value = "Differential Flame Graph", help_heading = PICTURE)]
    title: String,

    /// A second line below the heading [default: the files]
    #[arg(long, value_name = "TEXT", help_heading = PICTURE)]
    subtitle: Option<String>,

    /// The unit in details [default: the input's]
    #[arg(long, value_name = "TEXT", help_heading = PICTURE)]
    countname: Option<String>,

    /// The side that gives the widths at first
    #[arg(long, value_name = "SIDE", default_value = "after", help_heading = PICTURE,
        value_parser = one_of([(View::Before, "before", ""), (View::After, "after", "")]))]
    view: View,

    /// The colours for more and for less: red-blue, or orange-blue for the colour-blind
    #[arg(long, value_name = "PAIR", default_value = "red-blue", help_heading = PICTURE)]
    colors: ChangeColors,

    /// The colours the other way round
    #[arg(long, help_heading = PICTURE)]
    negate: bool,

    /// For light or dark pages, or for the reader's setting
    #[arg(long, value_name = "THEME", default_value = "auto", help_heading = PICTURE)]
    theme: Theme,

    /// The background: yellow, blue, green, grey, or #rrggbb [default: the reader's, light or dark]
    #[arg(long, value_name = "COLOUR", help_heading = PICTURE)]
    bgcolors: Option<Background>,

    /// The width in pixels [default: the window's; 1200 where no script runs]
    #[arg(long, value_name = "PX", value_parser = above_zero, help_heading = PICTURE)]
    width: Option<f64>,

    /// The height of a frame in pixels
    #[arg(long, value_name = "PX", default_value_t = 18.0, value_parser = above_zero, help_heading = PICTURE)]
    height: f64,

    /// Leave out functions that are narrower on both sides: pixels, or percent of the whole (0.5%)
    #[arg(long, value_name = "WIDTH", default_value = "0.1", help_heading = PICTURE)]
    minwidth: MinWidth,

    /// The root at the top
    #[arg(long, help_heading = PICTURE)]
    inverted: bool,

    /// Without XML prolog and script: a still picture with tooltips, to paste into any page
    #[arg(long, help_heading = PICTURE)]
    embed: bool,

    #[command(flatten)]
    reading: ReadArgs,
}

/// Form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A picture: SVG, or PNG if the file's name ends in `.png`.
    Svg,
    /// A page with all views.
    Page,
    Folded,
    Text,
    Markdown,
    Csv,
    Json,
}

impl Form {
    /// Form of a file by its ending.
    fn of(path: &Path) -> anyhow::Result<Self> {
        Ok(match path.extension().and_then(|ending| ending.to_str()) {
            Some("svg" | "png") => Self::Svg,
            Some("html") => Self::Page,
            Some("folded") => Self::Folded,
            Some("txt") => Self::Text,
            Some("md") => Self::Markdown,
            Some("csv") => Self::Csv,
            Some("json") => Self::Json,
            _ => misuse!(
                "{}: unknown format; use a name that ends in .svg, .png, .html, .folded, .txt, .md, .csv or .json",
                path.display()
            ),
        })
    }
}

/// Runs `pyrograph diff`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match compare(&args) {
        Err(error) if args.fail_over.is_some() && !crate::is_broken_pipe(&error) => {
            say!("{error:#}");
            Ok(ExitCode::from(NOT_COMPARED))
        }
        done => done,
    }
}

fn compare(args: &Args) -> anyhow::Result<ExitCode> {
    let outputs = outputs(args)?;
    let is_folded = |form: &Form| *form == Form::Folded;
    if args.normalize && !outputs.iter().any(|(_, form)| is_folded(form)) {
        misuse!(
            "--normalize is for folded output (--folded, -o FILE.folded); else shares are compared"
        );
    }
    let only_folded = outputs.iter().all(|(_, form)| is_folded(form)) && args.fail_over.is_none();
    if only_folded && let Some(stacks) = by_lines(args) {
        for (path, _) in &outputs {
            write_output(path.as_deref(), |out| stacks.write(out))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let sides = Sides::read(args)?;
    let (before, after) = sides.runs();
    for (path, _) in outputs.iter().filter(|(_, form)| is_folded(form)) {
        let profile = two_columns(&before, &after, args.normalize, args.strip_hex)
            .map_err(|error| way_out(error, "--normalize"))?;
        if let Some(counts) = counts_of_folded(&profile) {
            say!("{counts}");
        }
        let tree = Tree::new(&profile, &LabelOptions::default());
        write_output(path.as_deref(), |out| write_folded(&tree, out))?;
    }
    if only_folded {
        return Ok(ExitCode::SUCCESS);
    }
    let levels = if args.keep_names { 0 } else { args.reading.levels().max(1) };
    let alike = Alike::new(&before, &after, levels);
    if let Some(renamed) = renamed(&alike.renamed) {
        say!("{renamed}");
    }
    let diff = match diff(&before, &after, &alike, &options(args)) {
        Ok(diff) => diff,
        Err(error) => return refuse(args, &outputs, &sides, error),
    };
    for (name, side) in [("before", &diff.before), ("after", &diff.after)] {
        say_samples(name, side);
    }
    let taken_for_samples = |side: &&Side| {
        side.value_type.is_unnamed() && side.basis == SampleBasis::Counted && side.total > 0
    };
    if let Some(side) = [&diff.before, &diff.after].into_iter().find(taken_for_samples) {
        let which = if std::ptr::eq(side, &diff.after) { " after" } else { "" };
        say!(
            "the values{which} name no unit and are taken for samples; --unit ns, bytes, samples … says it"
        );
    }
    if let Some(unlike) = diff.before.unlike(&diff.after) {
        say!("{unlike}");
    }
    let names = sides.names();
    let table = DiffTable::new(&diff, &names, args.fail_over, args.limit, HINTS);
    for (path, form) in &outputs {
        let path = path.as_deref();
        match form {
            Form::Folded => {}
            Form::Svg => write_picture(path, |out| picture(args, &diff, &sides, out))?,
            Form::Page => write_output(path, |out| page(args, &diff, &sides, out))?,
            Form::Text => {
                let width = path.is_none().then(pyrograph_terminal::width).flatten();
                write_output(path, |out| table.text(width, out))?;
            }
            Form::Markdown => write_output(path, |out| table.markdown(out))?,
            Form::Csv => write_output(path, |out| table.csv(out))?,
            Form::Json => write_output(path, |out| table.json(out))?,
        }
    }
    if args.fail_over.is_some() && (diff.before.total == 0 || diff.after.total == 0) {
        bail!("failed to compare: one side has no samples");
    }
    let regressed = args.fail_over.is_some() && !table.is_empty();
    Ok(if regressed { ExitCode::from(REGRESSED) } else { ExitCode::SUCCESS })
}

/// Merges both sides line by line, if that gives the same result: both must be plain folded text in files, and no option
/// may change names or select stacks.
fn by_lines(args: &Args) -> Option<FoldedColumns> {
    let (before, after): (&[PathBuf], &[PathBuf]) = match &args.files[..] {
        [before, after] => (std::slice::from_ref(before), std::slice::from_ref(after)),
        [] => (&args.before, &args.after),
        _ => return None,
    };
    if before.is_empty() || args.strip_hex || !args.reading.keeps_all() {
        return None;
    }
    args.reading.limit_memory();
    let mut stacks = FoldedColumns::of_files(before, after)?;
    if args.normalize {
        stacks.map_before(to_total_after(stacks.totals(), 0));
    }
    Some(stacks)
}

/// Message: `compared as one: oldapp before and newapp after; --keep-names compares them apart`.
fn renamed(all: &[Renamed]) -> Option<String> {
    const MOST: usize = 3;
    let mut pairs: Vec<_> = all.iter().take(MOST).map(Renamed::to_string).collect();
    if all.len() > MOST {
        pairs.push(format!("{} more", all.len() - MOST));
    }
    let pairs = pairs.join("; ");
    let line = format!("compared as one: {pairs}; --keep-names compares them apart");
    (!all.is_empty()).then_some(line)
}

/// Paths and forms of all outputs; `None` is standard output.
fn outputs(args: &Args) -> anyhow::Result<Vec<(Option<PathBuf>, Form)>> {
    let mut outputs = Vec::new();
    for path in &args.output {
        outputs.push((Some(path.clone()), Form::of(path)?));
    }
    let asked = match args {
        Args { folded: true, .. } => Some(Form::Folded),
        Args { svg: true, .. } => Some(Form::Svg),
        Args { markdown: true, .. } => Some(Form::Markdown),
        Args { csv: true, .. } => Some(Form::Csv),
        Args { json: true, .. } => Some(Form::Json),
        _ if outputs.is_empty() || args.fail_over.is_some() => Some(Form::Text),
        _ => None,
    };
    outputs.extend(asked.map(|form| (None, form)));
    Ok(outputs)
}

fn options(args: &Args) -> DiffOptions {
    DiffOptions {
        measure: args.change,
        scale: if args.absolute { Scale::Values } else { Scale::Shares },
        confidence: args.confidence,
        each: args.each,
        sample: args.sample,
        strip_addresses: args.strip_hex,
        by_identity: args.reading.names() != Some(NameForm::Raw),
    }
}

/// Reports unexpected facts about the number of samples.
fn say_samples(name: &str, side: &Side) {
    if side.total == 0 {
        say!("there are no samples {name}");
    } else if matches!(side.basis, SampleBasis::Spread | SampleBasis::Totals) && side.runs == 1 {
        let samples = side.samples.round();
        say!(
            "the number of samples {name} is unknown: noise is estimated as of {samples}, \
             by their spread; --sample VALUE says what one counts for"
        );
    }
}

fn svg_options(args: &Args, sides: &Sides) -> SvgOptions {
    let subtitle = args.subtitle.clone().unwrap_or_else(|| {
        let (before, after) = sides.names();
        format!("before: {before}, after: {after}")
    });
    SvgOptions {
        title: args.title.clone(),
        subtitle,
        width: args.width,
        row_height: args.height,
        min_width: args.minwidth,
        count_name: args.countname.clone(),
        theme: args.theme,
        background: args.bgcolors,
        inverted: args.inverted,
        negate: args.negate,
        embed: args.embed,
        ..SvgOptions::default()
    }
}

fn picture(args: &Args, diff: &Diff, sides: &Sides, out: &mut dyn Write) -> io::Result<()> {
    let options = svg_options(args, sides);
    let graph = diff.graph(options.min_width.share(options.frames_width()));
    diff_svg(&graph, &options, DiffStyle { colors: args.colors, view: args.view }, out)
}

/// Writes the page with both sides, and the verdict on each frame and function.
fn page(args: &Args, diff: &Diff, sides: &Sides, out: &mut dyn Write) -> io::Result<()> {
    let SvgOptions { title, subtitle, theme, .. } = svg_options(args, sides);
    let look = ViewLook {
        title,
        subtitle: Some(subtitle),
        theme,
        compared: Some(diff),
        ..ViewLook::default()
    };
    let names = match args.reading.names() {
        Some(_) => ViewNames::AsTheyAre,
        None => ViewNames::Short,
    };
    view_html(&view_data(&diff.sides(), usize::MAX, names), &look, out)
}

/// Reports that there is nothing to compare, also in pictures.
fn refuse(
    args: &Args,
    outputs: &[(Option<PathBuf>, Form)],
    sides: &Sides,
    error: DiffError,
) -> anyhow::Result<ExitCode> {
    let (options, message) = (svg_options(args, sides), error.to_string());
    for (path, _) in outputs.iter().filter(|(_, form)| *form == Form::Svg) {
        write_picture(path.as_deref(), |out| svg_message(&message, &options, out))?;
    }
    Err(way_out(error, "no --absolute"))
}

/// Adds to an error what could be done about it. `shares` is the option for comparing shares.
fn way_out(error: DiffError, shares: &str) -> anyhow::Error {
    let way = match error {
        DiffError::OnlyShares(..) => format!("; with {shares} they are"),
        DiffError::DifferentValues(..) => "; --value or --event-filter chooses what of them".into(),
        _ => String::new(),
    };
    anyhow::anyhow!("failed to compare: {error}{way}")
}

/// Parses `2%`, `2`, `0.5 %` to a share.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(value) if (0.0..=1e6).contains(&value) => Ok(value / 100.0),
        _ => Err("not a percentage, such as 2%".to_owned()),
    }
}

/// Parses a percentage from 50 to below 100 to a share.
fn confidence(text: &str) -> Result<f64, String> {
    match percent(text) {
        Ok(share) if (0.5..1.0).contains(&share) => Ok(share),
        _ => Err("not a percentage from 50 to below 100".to_owned()),
    }
}
