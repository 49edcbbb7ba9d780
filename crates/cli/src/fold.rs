//! `pyrograph fold`: any input to folded stacks.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::ValueEnum;
use pyrograph_format::{Call, Count, Options, WarningKind, Warnings, expand_inlined, write_folded};
use pyrograph_profile::{LabelOptions, ProcessLabel, Profile, Quantity, Tree, UnitKind, ValueType};
use pyrograph_symbol::{Module, Options as SymbolOptions, Source};

use crate::reading::ReadArgs;
use crate::say::say;
use crate::streams::{inputs, write_output};

/// Exit code when input had to be skipped and `--strict` was asked for.
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

    /// Add the file and line that `perf script -F +srcline` printed to names
    #[arg(long)]
    srcline: bool,

    /// Leave out the names of processes and threads, as of a Java thread dump
    #[arg(long)]
    no_include_tname: bool,

    /// Begin stacks with the names of processes and threads; so it is anyway
    #[arg(long, hide = true, conflicts_with = "no_include_tname")]
    include_tname: bool,

    /// Options of other collapsers that have no effect here, which is said
    #[arg(long, hide = true)]
    includeoffset: bool,
    #[arg(long, hide = true)]
    no_modules: bool,

    /// The value of a sample
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = CountWhat::Period)]
    count: CountWhat,

    /// Exit with code 3 if any of the input had to be skipped
    #[arg(long)]
    strict: bool,

    #[command(flatten)]
    reading: ReadArgs,
}

/// The counts of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CountWhat {
    /// One.
    Samples,
    /// Its period where one is printed, else one.
    Period,
}

/// Folds.
///
/// # Errors
///
/// When no input can be read, or the output not be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
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
        true => expand_inlined(&profile, |path, addresses| {
            calls(Path::new(path), addresses, args.context).unwrap_or_else(|error| {
                say!("no inlined calls of {path}: {error:#}");
                Vec::new()
            })
        }),
        false => profile,
    };
    let inputs = inputs(&args.files)?;
    let (mut profile, warnings) =
        args.reading.read_with(inputs, options, inlined).context("failed to fold")?;
    if let Some(counts) = counts_of_folded(&profile) {
        let numbers = profile.numbers_beside(profile.shown).map(|at| &profile.value_types[at].name);
        let way = match numbers {
            Some(name) => format!("; --value {name} counts {name}"),
            None if args.count == CountWhat::Period
                && profile.value_types.len() == 1
                && !args.reading.names_unit() =>
            {
                "; --count samples counts samples".to_owned()
            }
            None => String::new(),
        };
        say!("{counts}{way}");
    }
    profile.keep_shown();
    let tree = Tree::new(&profile, &labels);
    write_output(args.output.as_deref(), |out| write_folded(&tree, out))?;
    let skipped = args.strict && warnings.any_loss();
    Ok(if skipped { ExitCode::from(SKIPPED) } else { ExitCode::SUCCESS })
}

/// Says what the counts of folded text are, which names no unit; nothing where they are samples, as its
/// readers expect, or where it is not known.
pub fn counts_of_folded(profile: &Profile) -> Option<String> {
    let of = match profile.is_comparison() {
        true => profile.value_types.first()?,
        false => profile.value_types.get(profile.shown)?,
    };
    let (name, unit) = (&of.name, &of.unit);
    match (of.quantity(), of.unit_kind()) {
        _ if of.is_unnamed() || *of == ValueType::samples() => None,
        (Quantity::Before | Quantity::After, UnitKind::Count) => None,
        (_, UnitKind::Count | UnitKind::Unknown) => Some(format!("counts are {name}")),
        (Quantity::Before | Quantity::After, _) => Some(format!("counts are {unit}")),
        _ => Some(format!("counts are {unit} of {name}")),
    }
}

fn read_options(args: &Args) -> Options {
    Options {
        count: match args.count {
            CountWhat::Samples => Count::Samples,
            CountWhat::Period => Count::Period,
        },
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
    }
}

/// The calls at each address of a file, outermost first. perf prints addresses in files as offsets,
/// but those of programs that are not position-independent, in old versions, as they were linked.
fn calls(path: &Path, addresses: &[u64], lines: bool) -> anyhow::Result<Vec<Vec<Call>>> {
    let file = File::open(path)?;
    let module =
        Module::open(&file, Source { path: &path.to_string_lossy(), ..Source::default() })?;
    let linked: Vec<u64> = addresses
        .iter()
        .map(|&address| module.file_offset_to_address(address).unwrap_or(address))
        .collect();
    let found = module.symbolize(&linked, &SymbolOptions { lines, ..SymbolOptions::default() });
    let mut warnings = Warnings::default();
    for warning in &found.warnings {
        warnings.add(WarningKind::Symbols(warning.to_string()), 1, []);
    }
    for (_, line) in warnings.lines() {
        say!("{line}");
    }
    let call = |frame: &pyrograph_symbol::Frame| Call {
        function: frame.function.to_string(),
        file: frame.file.as_deref().map(file_name).unwrap_or_default().to_owned(),
        line: frame.line,
    };
    let outermost_first = |symbolized: &pyrograph_symbol::Symbolized| {
        symbolized.frames.iter().rev().map(call).collect()
    };
    Ok(found.addresses.iter().map(outermost_first).collect())
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inlined_calls_are_found_in_debug_information() {
        // This test's own code.
        let program = std::env::current_exe().expect("a path");
        let file = File::open(&program).expect("a file");
        let path = program.to_string_lossy();
        let module = Module::open(&file, Source { path: &path, ..Source::default() }).expect("ELF");
        let code = module.segments().iter().find(|segment| segment.executable).expect("code");
        let offsets: Vec<u64> = (0..4000).map(|n| code.file_offset + n * 16).collect();
        let found = calls(&program, &offsets, true).expect("symbols");
        assert_eq!(found.len(), offsets.len());
        let inlined = found.iter().find(|calls| calls.len() > 1).expect("something is inlined");
        assert!(inlined.iter().all(|call| !call.function.is_empty()));
        assert!(found.iter().flatten().any(|call| call.file.ends_with(".rs") && call.line > 0));
    }
}
