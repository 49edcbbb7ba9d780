//! `pyrograph report`: a report on any input as text, Markdown, CSV or JSON.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{ArgAction, ColorChoice};
use pyrograph_analyze::{
    AsOne, CallTreeOptions, Direction, Report, ReportOptions, ShownNames, report,
};
use pyrograph_annotate::SourceTexts;
use pyrograph_format::{Options, SymbolOptions};
use pyrograph_profile::LabelOptions;
use pyrograph_render::{ReportStyle, report_json, report_markdown, report_text, top_csv};

use crate::code::SourceArgs;
use crate::ending;
use crate::reading::ReadArgs;
use crate::say::{misuse, say};
use crate::streams::{inputs, say_nameless, write_output};
use crate::units::one_of;

/// Show where the time goes as text: functions by self and total, and the call tree
///
/// Self is what was spent in a function itself, total what was spent in it and in what it calls.
#[derive(clap::Args)]
#[command(
    args_override_self = true,
    after_help = "\
Examples:
  pyrograph report perf.data
  pyrograph report --focus parse --callers perf.data     callers of the slow parts of parse
  pyrograph report --lines --top 5 perf.data             the hot lines of the hottest functions
  pyrograph report --markdown --top 10 --depth 0 stacks.folded
  pyrograph report --json perf.data | jq '.functions[] | select(.module == \"\")'"
)]
pub struct Args {
    /// Inputs, `-` for standard input [default: standard input; on a terminal the last
    /// recording in the current folder: flamegraph.pb.gz or perf.data]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Where to write; the ending .md, .csv or .json chooses the format [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// How many functions to list; 0 for all
    #[arg(long, value_name = "N", default_value_t = 30)]
    top: usize,

    /// The order of functions
    #[arg(long, value_name = "BY", default_value = "self", action = ArgAction::Set, value_parser = one_of([
        (false, "self", "By what was spent in the function itself"),
        (true, "total", "By what was spent in it and in what it calls"),
    ]))]
    sort: bool,

    /// The source lines of each function, where the input or debug information tells them
    #[arg(long)]
    lines: bool,

    #[command(flatten)]
    sources: SourceArgs,

    /// The call tree from the root: below each function what it calls [the default]
    #[arg(long, conflicts_with = "callers")]
    callees: bool,

    /// The call tree from each function that was sampled: below it what calls it
    #[arg(long)]
    callers: bool,

    /// Leave out nodes of the tree and source lines below this share of the whole
    #[arg(long, value_name = "PERCENT", default_value = "0.5", value_parser = percent)]
    min: f64,

    /// How many levels of the tree to show; 0 for no tree [default: all]
    #[arg(long, value_name = "N")]
    depth: Option<u32>,

    /// As Markdown, for a comment or a page
    #[arg(long, conflicts_with = "json")]
    markdown: bool,

    /// The functions as CSV
    #[arg(long, conflicts_with_all = ["json", "markdown"])]
    csv: bool,

    /// As JSON
    #[arg(long)]
    json: bool,

    /// When to colour percentages [default: on a terminal, unless NO_COLOR is set]
    #[arg(long, alias = "colour", value_name = "WHEN", default_value = "auto", value_parser = one_of([
        (ColorChoice::Auto, "auto", "On a terminal"),
        (ColorChoice::Always, "always", "Also in files and pipes"),
        (ColorChoice::Never, "never", "Nowhere"),
    ]))]
    color: ColorChoice,

    #[command(flatten)]
    reading: ReadArgs,
}

/// Form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Markdown,
    Csv,
    Json,
}

/// Runs `pyrograph report`.
pub fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    let Args { json, csv, markdown, output, .. } = &mut args;
    ending::set_flag(output.as_deref(), &mut [("json", json), ("csv", csv), ("md", markdown)])?;
    if args.csv && args.lines {
        misuse!("--lines: CSV has functions alone; JSON has their lines");
    }
    let defaults = Options::default();
    let symbols = SymbolOptions { lines: args.lines, ..defaults.symbols.clone() };
    let options = Options { symbols, ..defaults };
    let (profile, _) =
        args.reading.read(inputs(&args.files)?, options).context("failed to report")?;
    if args.lines && profile.frames.iter().all(|frame| frame.file.is_empty()) {
        say!("no source lines: neither the input nor debug information has any");
    }
    if profile.samples.is_empty() {
        bail!("nothing to report: there is no sample");
    }
    // For a comparison, reports on the newer profile.
    let column = if profile.is_comparison() { 1 } else { profile.shown };
    let options = ReportOptions {
        labels: LabelOptions::default(),
        functions: (args.top > 0).then_some(args.top),
        by_total: args.sort,
        lines: args.lines,
        tree: CallTreeOptions {
            column,
            direction: if args.callers { Direction::Callers } else { Direction::Callees },
            min_share: args.min / 100.0,
            depth: args.depth,
        },
    };
    let output = args.output.as_deref();
    let form = form(&args);
    let is_short = matches!(form, Form::Text | Form::Markdown) && args.reading.names().is_none();
    let names = is_short.then(|| ShownNames::new(&profile, AsOne::Tiers));
    let mut report = match &names {
        Some(names) => report(&names.rename(profile.clone()), &options),
        None => report(&profile, &options),
    };
    if let Some(names) = &names {
        report.name_tiers(names);
    }
    let mut texts = SourceTexts::new(args.sources.sources(&args.reading.symbols()));
    for line in report.functions.iter_mut().flat_map(|row| &mut row.lines) {
        line.text = texts.line(&line.file, line.line).unwrap_or_default();
    }
    match form {
        Form::Json => write_output(output, |out| report_json(&report, out))?,
        Form::Csv => {
            write_output(output, |out| top_csv(&report.functions, &report.value_type, out))?;
        }
        Form::Markdown => write_output(output, |out| report_markdown(&report, out))?,
        Form::Text => write_text(&report, &args, output)?,
    }
    if is_shown(output) {
        if report.value_type.is_unnamed() {
            say!("--unit ns, bytes, samples … names the unit of the input");
        }
        say_nameless(&profile, column, &[]);
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns true if the report goes to a terminal.
fn is_shown(output: Option<&Path>) -> bool {
    output.is_none_or(|path| path.as_os_str() == "-") && std::io::stdout().is_terminal()
}

/// Writes text; on a terminal in its width and through a pager.
fn write_text(report: &Report, args: &Args, output: Option<&Path>) -> anyhow::Result<()> {
    let is_shown = is_shown(output);
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    let style = ReportStyle {
        width: output.is_none().then(pyrograph_terminal::width).flatten(),
        color: match args.color {
            ColorChoice::Auto => is_shown && !is_set("NO_COLOR") && !is_dumb,
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        },
        // If sorted by totals, functions without self time are meaningful.
        no_zeros: is_shown && !args.sort,
    };
    if !is_shown {
        return Ok(write_output(output, |out| report_text(report, style, out))?);
    }
    // Control characters were removed from names already; the remaining escape sequences are colours.
    let mut text = Vec::new();
    report_text(report, style, &mut text)?;
    crate::show::page(&text).context("failed to write standard output")
}

fn form(args: &Args) -> Form {
    match args {
        Args { json: true, .. } => Form::Json,
        Args { csv: true, .. } => Form::Csv,
        Args { markdown: true, .. } => Form::Markdown,
        _ => Form::Text,
    }
}

/// Parses a percentage, with or without the sign.
fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim_end().parse::<f64>() {
        Ok(share) if (0.0..=100.0).contains(&share) => Ok(share),
        _ => Err("not a share in percent".to_owned()),
    }
}
