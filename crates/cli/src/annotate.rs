//! `pyrograph annotate`: instructions and source lines of a function, with their shares.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::ColorChoice;
use pyrograph_analyze::Annotation;
use pyrograph_annotate::{
    Annotator, Error as AnnotateError, Options as AnnotateOptions, named_functions,
};
use pyrograph_format::Options;
use pyrograph_profile::Profile;
use pyrograph_render::{
    AnnotationParts, AnnotationStyle, annotation_html, annotation_json, annotation_text,
};

use crate::code::SourceArgs;
use crate::ending;
use crate::reading::ReadArgs;
use crate::say::say;
use crate::streams::{inputs, write_output};
use crate::units::percent;

/// Show the instructions and source lines of a function, each with its share of the function's samples
///
/// Reads what has addresses: perf.data, pprof with mappings, and the pprof files and pages of `pyrograph record`.
#[derive(clap::Args)]
#[command(
    args_override_self = true,
    after_help = "\
Examples:
  pyrograph annotate perf.data                            the function with the most samples
  pyrograph annotate parse perf.data
  pyrograph annotate --source 'Parser::next' perf.data    only source lines
  pyrograph annotate --asm memcpy perf.data               only instructions
  pyrograph annotate parse app.html -o parse.html
  pyrograph annotate --source-dir /build/app=. parse perf.data"
)]
pub struct Args {
    /// The function: its whole name, its name without parameters, or the last part of its path [default: the one with the most
    /// samples]
    #[arg(value_name = "FUNCTION")]
    function: Option<String>,

    /// Inputs, `-` for standard input [default: standard input; on a terminal the last
    /// recording in the current folder: flamegraph.pb.gz or perf.data]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Where to write; the ending .json or .html chooses the format [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Only source lines, each with the sum of its instructions
    #[arg(long, conflicts_with = "asm")]
    source: bool,

    /// Only instructions
    #[arg(long)]
    asm: bool,

    /// All instructions, also long runs without samples
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    sources: SourceArgs,

    /// Write JSON
    #[arg(long, conflicts_with = "html")]
    json: bool,

    /// Write a page
    #[arg(long)]
    html: bool,

    /// Colour what is hot
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,

    #[command(flatten)]
    reading: ReadArgs,
}

enum Form {
    Text,
    Json,
    Html,
}

/// Runs `pyrograph annotate`.
pub fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    let Args { json, html, output, .. } = &mut args;
    ending::set_flag(output.as_deref(), &mut [("json", json), ("html", html)])?;
    // A single word may be the input.
    if let (Some(word), true) = (&args.function, args.files.is_empty())
        && Path::new(word).is_file()
    {
        args.files = args.function.take().map(PathBuf::from).into_iter().collect();
    }
    // A file, then the function.
    if let (Some(first), [second]) = (&mut args.function, &mut args.files[..])
        && Path::new(first).is_file()
        && !second.exists()
        && let Some(name) = second.to_str().map(str::to_owned)
    {
        *second = PathBuf::from(std::mem::replace(first, name));
    }
    let options = Options { instructions: true, ..Options::default() };
    let inputs = inputs(&args.files)?;
    let profile = args.reading.read_events(inputs, options).context("failed to annotate")?;
    if profile.samples.is_empty() {
        bail!("nothing to annotate: there is no sample");
    }
    let symbols = args.reading.symbols();
    let sources = args.sources.sources(&symbols);
    let options = AnnotateOptions { symbols, sources };
    let mut annotator = Annotator::new(&profile, options);
    let annotation = match &args.function {
        Some(name) => {
            annotator.named(name).with_context(|| format!("failed to annotate {name}"))?
        }
        None => hottest(&mut annotator, &profile)?,
    };
    write(&annotation, &args, profile.shown)?;
    Ok(ExitCode::SUCCESS)
}

/// Annotates the function with the most samples whose code is there.
fn hottest(annotator: &mut Annotator<'_>, profile: &Profile) -> anyhow::Result<Annotation> {
    /// Functions to try.
    const MOST: usize = 20;
    let mut refusal = None;
    for function in named_functions(profile)?.iter().take(MOST) {
        let name = profile.strings.get(function.name);
        match annotator.function(function) {
            Ok(annotation) => {
                let share = percent(function.self_value, profile.whole(profile.shown));
                say!("{name} has the most samples of those with code: {share}");
                return Ok(annotation);
            }
            Err(error) => refusal = refusal.or(Some((name, error))),
        }
    }
    match refusal {
        Some((name, error)) => Err(error).with_context(|| format!("failed to annotate {name}")),
        None => Err(AnnotateError::NoNames.into()),
    }
}

fn write(annotation: &Annotation, args: &Args, column: usize) -> anyhow::Result<()> {
    let output = args.output.as_deref();
    let is_shown =
        output.is_none_or(|path| path.as_os_str() == "-") && std::io::stdout().is_terminal();
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    let style = AnnotationStyle {
        parts: match (args.source, args.asm) {
            (true, _) => AnnotationParts::Source,
            (_, true) => AnnotationParts::Instructions,
            _ => AnnotationParts::Both,
        },
        column,
        all: args.all,
        color: match args.color {
            ColorChoice::Auto => is_shown && !is_set("NO_COLOR") && !is_dumb,
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        },
    };
    match form(args) {
        Form::Json => write_output(output, |out| annotation_json(annotation, out))?,
        Form::Html => write_output(output, |out| annotation_html(annotation, style, out))?,
        Form::Text if is_shown => {
            let mut text = Vec::new();
            annotation_text(annotation, style, &mut text)?;
            crate::show::page(&text).context("failed to write standard output")?;
        }
        Form::Text => write_output(output, |out| annotation_text(annotation, style, out))?,
    }
    Ok(())
}

fn form(args: &Args) -> Form {
    match (args.json, args.html) {
        (true, _) => Form::Json,
        (_, true) => Form::Html,
        _ => Form::Text,
    }
}
