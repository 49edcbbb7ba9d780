//! `pyrograph fold`: converts any input to folded stacks.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use pyrograph_format::{
    Count, Options, SymbolOptions, counts_of_folded, expand_inlined, write_folded,
};
use pyrograph_profile::{Frame, FrameKind, LabelOptions, ProcessLabel, Profile, Tree};

use crate::ending;
use crate::reading::ReadArgs;
use crate::say::say;
use crate::streams::{inputs, write_output};
use crate::units::one_of;

/// Exit code if some of the input was skipped and `--strict` is set.
const SKIPPED: u8 = 3;

/// Turn any input into folded stacks: one line a stack, sorted
///
/// Inputs are told apart by their content: `pyrograph formats` lists what is read. They may be
/// compressed with gzip or zstd. Options that the established collapsers have mean the same here.
#[derive(clap::Args)]
#[expect(rustdoc::broken_intra_doc_links, reason = "clap shows these texts as they are")]
#[command(
    args_override_self = true,
    after_help = "\
Examples:
  pyrograph fold perf.data > stacks.folded
  perf script | pyrograph fold > stacks.folded
  pyrograph fold --all perf.txt.gz | grep malloc | pyrograph flamegraph > malloc.svg
  pyrograph fold --event-filter page-faults monday.txt tuesday.txt -o faults.folded"
)]
pub struct Args {
    /// Inputs, `-` for standard input [default: standard input; on a terminal the last
    /// recording in the current folder: flamegraph.pb.gz or perf.data]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Where to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Mark kernel functions with _[k]
    #[arg(long)]
    kernel: bool,

    /// Mark functions compiled at run time with _[j], and those inlined into them with _[i]
    #[arg(long)]
    jit: bool,

    /// All marks: --kernel --jit
    #[arg(long)]
    all: bool,

    /// Name functions without a symbol by their address: [libc.so.6 <1f3a0>]
    #[arg(long)]
    addrs: bool,

    /// Mark frames that were found by a guess, for want of an unwind table, with _[g]
    #[arg(long)]
    mark_guesses: bool,

    /// Look up inlined calls in the programs' debug information, where perf did not
    #[arg(long)]
    inline: bool,

    /// With --inline, add file and line to names
    #[arg(long)]
    context: bool,

    /// Add file and line to names, where the input or debug information has them: work (app.c:12)
    #[arg(long)]
    lines: bool,

    /// The same as work:/src/app.c:12, for lines that `perf script -F +srcline` printed
    #[arg(long)]
    srcline: bool,

    /// Leave out the names of processes and threads, as of a Java thread dump
    #[arg(long)]
    no_include_tname: bool,

    /// Begin stacks with the names of processes and threads (the default)
    #[arg(long, hide = true, conflicts_with = "no_include_tname")]
    include_tname: bool,

    /// Options of other collapsers that have no effect here, which is said
    #[arg(long, hide = true)]
    includeoffset: bool,
    #[arg(long, hide = true)]
    no_modules: bool,

    /// The value of a sample
    #[arg(long, value_name = "WHAT", default_value = "period", value_parser = one_of([
        (Count::Samples, "samples", "One"),
        (Count::Period, "period", "Its period where one is printed, else one"),
    ]))]
    count: Count,

    /// Exit with code 3 if any of the input had to be skipped
    #[arg(long)]
    strict: bool,

    #[command(flatten)]
    reading: ReadArgs,
}

/// Runs `pyrograph fold`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    ending::check(args.output.as_deref(), &["folded", "collapsed", "txt"])?;
    let (options, labels) = (read_options(&args), label_options(&args));
    if args.includeoffset {
        say!(
            "--includeoffset has no effect: frames of one function are one, wherever in it they are"
        );
    }
    if args.no_modules {
        say!(
            "--no-modules has no effect: names have no modules, but those of code without symbols"
        );
    }
    let inlined = |profile: Profile| match args.inline {
        true => {
            if profile.frames.iter().all(|frame| frame.address == 0) {
                say!(
                    "--inline has no effect: no frame of this input has an address in a file that could be looked up"
                );
            }
            expand_inlined(&profile, args.context, |warning| say!("{warning}"))
        }
        false => profile,
    };
    let inputs = inputs(&args.files)?;
    let (mut profile, warnings) =
        args.reading.read_with(inputs, options, inlined).context("failed to fold")?;
    if let Some(counts) = counts_of_folded(&profile) {
        let numbers = profile.numbers_beside(profile.shown).map(|at| &profile.value_types[at].name);
        let way = match numbers {
            Some(name) => format!("; --value {name} counts {name}"),
            None if args.count == Count::Period
                && profile.value_types.len() == 1
                && !args.reading.names_unit() =>
            {
                "; --count samples counts samples".to_owned()
            }
            None => String::new(),
        };
        say!("{counts}{way}");
    }
    say_without_effect(&args, &profile);
    profile.keep_shown();
    let tree = Tree::new(&profile, &labels);
    write_output(args.output.as_deref(), |out| write_folded(&tree, out))?;
    let skipped = args.strict && warnings.any_loss();
    Ok(if skipped { ExitCode::from(SKIPPED) } else { ExitCode::SUCCESS })
}

/// Reports options that have no effect on this input.
fn say_without_effect(args: &Args, profile: &Profile) {
    let none = |has: &dyn Fn(&Frame) -> bool| !profile.frames.iter().any(|frame| has(&frame));
    let is_compiled = |frame: &Frame| matches!(frame.kind, FrameKind::Jit | FrameKind::Inlined);
    let asked = [
        (
            args.kernel,
            none(&|of| of.kind == FrameKind::Kernel),
            "--kernel",
            "no kernel function is in it",
        ),
        (
            args.jit,
            none(&is_compiled),
            "--jit",
            "no function compiled at run time is in it, and no inlined one",
        ),
        (
            args.addrs,
            none(&|of| of.address != 0),
            "--addrs",
            "no function without a symbol has an address in it",
        ),
        (
            args.srcline,
            none(&|of| of.line != 0),
            "--srcline",
            "no source lines are in it, as `perf script -F +srcline` prints them",
        ),
        (
            args.lines,
            none(&|of| of.line != 0),
            "--lines",
            "neither the input nor debug information has source lines",
        ),
    ];
    for (is_asked, is_vain, option, why) in asked {
        if is_asked && is_vain {
            say!("{option} has no effect: {why}");
        }
    }
}

fn read_options(args: &Args) -> Options {
    let lines = args.lines || args.srcline || (args.inline && args.context);
    Options {
        symbols: SymbolOptions { lines, ..SymbolOptions::default() },
        count: args.count,
        unknown_addresses: args.addrs,
        addresses: args.inline,
        ..Options::default()
    }
}

fn label_options(args: &Args) -> LabelOptions {
    LabelOptions {
        process: match args.no_include_tname {
            true => ProcessLabel::None,
            false => ProcessLabel::default(),
        },
        mark_kernel: args.kernel || args.all,
        mark_jit: args.jit || args.all,
        mark_inlined: args.jit || args.all,
        mark_guessed: args.mark_guesses,
        source: args.srcline || (args.inline && args.context),
        lines: args.lines && !args.srcline,
    }
}
