//! Flags of `record`, and the plan that they make.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ArgAction;
use pyrograph_analyze::{Level, NameForm, StackView};
use pyrograph_export::{Output, Picture};
use pyrograph_format::{Detail, SymbolOptions};
use pyrograph_profile::LabelOptions;
use pyrograph_session::{Engine, Question, Scope, StackMode, Target};

use super::filters::{Asked, FilterArgs, check_names};
use super::question::{QuestionArgs, possible_engine};
use super::sampling::SamplingArgs;
use crate::code::CodeArgs;
use crate::found;
use crate::languages::LanguageArgs;
use crate::names::NameArgs;
use crate::say::{be_quiet, misuse, say};
use crate::streams::PictureArgs;
use crate::tables::TableArgs;
use crate::targets::target_or_machine;
use crate::units::{one_of, parse_duration, parse_size};

/// Sample a command, running processes or the whole machine, and draw a flame graph
///
/// Stacks are right without frame pointers: registers and a copy of the stack are sampled and
/// unwound with the program's own tables. Ctrl-C ends the recording and writes the graph.
#[derive(clap::Args)]
#[expect(rustdoc::broken_intra_doc_links, reason = "clap shows these texts as they are")]
#[command(
    override_usage = "\
pyrograph record [OPTIONS] [--] <COMMAND> [ARGUMENT]...
       \
       pyrograph record [OPTIONS] -p <PID,...>|-t <TID,...> [-- <COMMAND>...]
       \
       pyrograph record [OPTIONS] -a|-C <CPUS> [-- <COMMAND>...]",
    after_help = "\
Examples:
  pyrograph record -- ./app --its-flags       start it, follow its children and threads
  pyrograph record -p 1234,1235 -d 10         attach to running processes for 10 seconds
  sudo pyrograph record -a -F 99 -d 30        the whole machine
  pyrograph record -o app.folded -- ./app     folded stacks, for grep, sed and awk"
)]
pub struct Args {
    #[command(flatten)]
    sampling: SamplingArgs,

    /// For how long: seconds, or with a unit (500ms, 10s, 5m) [default: until it ends, or Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,

    /// Leave out the beginning: what happens in the first TIME, within a tenth of a second; -d counts from there
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    delay: Option<Duration>,

    #[command(flatten)]
    question: QuestionArgs,

    /// Where to write, `-` for standard output; the ending says what: .svg, .folded, .pb.gz (pprof) … (see
    /// convert). Can be given several times [default: flamegraph.svg, and flamegraph.pb.gz for report, diff and
    /// the other verbs]
    #[arg(short, long, value_name = "FILE")]
    output: Vec<PathBuf>,

    /// The format to write [default: by the output's ending]; `pyrograph formats` lists them. Without -o to
    /// standard output; what the command prints goes to standard error then
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,

    /// Show the flame graph in the browser when it is written ($BROWSER, or xdg-open)
    #[arg(long)]
    open: bool,

    #[command(flatten)]
    filters: FilterArgs,

    /// The program's part only, without the kernel's
    #[arg(short, long, conflicts_with = "kernel_only")]
    user_only: bool,

    /// The kernel's part only
    #[arg(short, long)]
    kernel_only: bool,

    /// Do not record child processes
    #[arg(long)]
    no_inherit: bool,

    /// How stacks are unwound: dwarf[,BYTES] copies that many bytes of the stack, fp follows frame
    /// pointers alone (cheapest) [default: unwound in the kernel, else dwarf]
    #[arg(long, value_name = "HOW")]
    call_graph: Option<StackMode>,

    /// How stacks are taken: ebpf unwinds and counts them in the kernel, perf copies each one out [default: ebpf
    /// where it is permitted, else perf]
    #[arg(long, value_name = "WHICH", value_parser = one_of([
        (Engine::InKernel, "ebpf", "Programs in the kernel"),
        (Engine::Perf, "perf", "perf_event_open and its buffers"),
    ]))]
    engine: Option<Engine>,

    #[command(flatten)]
    languages: LanguageArgs,

    #[command(flatten)]
    tables: TableArgs,

    /// The most memory for stacks and their names: once it is full, new ones end where they leave those that
    /// are known. Outputs with the time of each sample have no limit
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_stack_memory)]
    stack_memory: usize,

    /// Do not ask Java virtual machines for the names of the methods that they compile. Those of JDK 17 and newer are
    /// asked while they are recorded, as jcmd does it
    #[arg(long)]
    no_attach: bool,

    /// Leave out the calls that the compiler inlined
    #[arg(long)]
    no_inline: bool,

    /// The values of stacks: samples, or the event itself (time, for a clock). Alone: samples,
    /// which are calls or requests where these are looked at
    #[arg(long, value_name = "WHAT", default_value = "period", num_args = 0..=1, default_missing_value = "samples",
        action = ArgAction::Set,
        value_parser = one_of([(true, "samples", "Samples"), (false, "period", "What the samples stand for")]))]
    count: bool,

    #[command(flatten)]
    names: NameArgs,

    /// Mark the kernel's frames with _[k], inlined ones with _[i], those made at run time with _[j]
    #[arg(long)]
    annotate: bool,

    /// Mark frames that were found by a guess, for want of an unwind table, with _[g]
    #[arg(long)]
    mark_guesses: bool,

    /// Report how stacks are taken, which unwind tables were made, and the cost in CPU time and memory
    #[arg(short, long)]
    verbose: bool,

    /// Print errors only
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,

    /// Stacks are always recorded: for the habit of perf's users
    #[arg(short, hide = true)]
    graph: bool,

    /// The graph's title
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    #[command(flatten)]
    picture: PictureArgs,

    #[command(flatten)]
    code: CodeArgs,
}

fn parse_stack_memory(text: &str) -> Result<usize, String> {
    match parse_size(text)? {
        size @ 0x10_0000.. => Ok(size),
        _ => Err("must be 1M at least".to_owned()),
    }
}
/// A recording, and what is done with its result.
pub(super) struct Plan {
    pub recording: pyrograph_session::Plan,
    pub outputs: Vec<Output>,
    /// Names of the outputs that no option names.
    pub unnamed: Vec<&'static str>,
    /// Open the picture after it is written.
    pub open: bool,
    /// Length of the beginning that is left out.
    pub delay: Option<Duration>,
    /// Levels of frames at the root.
    pub levels: Vec<Level>,
    /// Frames to show if functions of interpreted languages are known.
    pub view: StackView,
    pub verbose: bool,
    pub labels: LabelOptions,
    /// The requested form of names.
    pub names: Option<NameForm>,
    pub title: String,
    pub picture: Picture,
    /// Options for source and instructions in pages.
    pub code: CodeArgs,
}

impl Plan {
    pub fn new(mut args: Args) -> anyhow::Result<Self> {
        if args.quiet {
            be_quiet();
        }
        if args.graph && args.verbose {
            say!("-g does nothing: stacks are always recorded");
        }
        let (outputs, unnamed) = outputs(&args)?;
        let Asked { filters, levels, value } = std::mem::take(&mut args.filters).read()?;
        let launch = args.sampling.target.launch(outputs.iter().any(Output::is_standard))?;
        let target = target_or_machine(args.sampling.take_target()?, &filters, "record")?;
        check_names(&filters, &target, !args.no_inherit)?;
        let question = args.question.question(args.count, &target, value.as_deref())?;
        let is_filtered = !filters.is_all() || !levels.is_empty();
        let rate = args.sampling.rate(&question);
        refuse_what_has_no_effect(&args, &question, &target, is_filtered)?;
        let engine = engine(&args, &question, is_filtered)?;
        let title = args.title.unwrap_or_else(|| target.title());
        let scope = Scope {
            inherit: !args.no_inherit,
            filters,
            beside: args.sampling.target.beside(),
            duration: args.duration.map(|time| time + args.delay.unwrap_or_default()),
            launch,
            cache: args.tables.cache(),
            ..Scope::new(target)
        };
        Ok(Self {
            title,
            open: args.open,
            delay: args.delay,
            picture: Picture { keeps_names: args.names.form().is_some(), ..args.picture.into() },
            names: args.names.form(),
            code: args.code,
            recording: pyrograph_session::Plan {
                threads: args.sampling.threads(),
                cpus: args.sampling.target.cpu.take().map(|cpus| cpus.0),
                question,
                rate,
                user: !args.kernel_only,
                kernel: !args.user_only,
                engine,
                stack: args
                    .call_graph
                    .unwrap_or(StackMode::Dwarf { bytes: StackMode::DEFAULT_BYTES }),
                languages: args.languages.languages()?,
                lines: args.languages.lines,
                guessing: !args.tables.no_guess,
                table_memory: args.tables.budget(),
                at_switches: args.tables.at_switches,
                attach: !args.no_attach,
                count_samples: args.count,
                instructions: outputs.iter().any(Output::holds_instructions),
                keep_times: outputs.iter().any(|output| output.detail() == Detail::Samples),
                thread_detail: outputs
                    .iter()
                    .map(Output::threads)
                    .chain(levels.iter().map(Level::thread_detail))
                    .max()
                    .unwrap_or_default(),
                stack_memory: args.stack_memory,
                symbols: SymbolOptions {
                    inlines: !args.no_inline,
                    lines: args.languages.lines || outputs.iter().any(Output::holds_sources),
                    ..SymbolOptions::default()
                },
                ..pyrograph_session::Plan::new(scope)
            },
            outputs,
            unnamed,
            levels,
            view: args.languages.view(),
            verbose: args.verbose,
            labels: LabelOptions {
                mark_kernel: args.annotate,
                mark_jit: args.annotate,
                mark_inlined: args.annotate,
                mark_guessed: args.mark_guesses,
                lines: args.languages.lines,
                ..LabelOptions::default()
            },
        })
    }

    /// Files of an earlier recording that this one would replace though they were not named.
    pub fn files_of_before(&self) -> Vec<&'static str> {
        self.unnamed.iter().copied().filter(|name| Path::new(name).is_file()).collect()
    }

    /// Returns true if an option names the outputs: the data beside them are not worth an error.
    pub fn has_names(&self) -> bool {
        !self.unnamed.contains(&found::DEFAULT_PICTURE)
    }

    /// The outputs, for messages.
    pub fn names_of_outputs(&self) -> String {
        let names: Vec<String> = self.outputs.iter().map(Output::to_string).collect();
        names.join(" and ")
    }
}

/// The engine, if the flags determine it.
fn engine(args: &Args, question: &Question, is_filtered: bool) -> anyhow::Result<Option<Engine>> {
    // Choosing how stacks are unwound implies an engine.
    let is_of_perf = args.sampling.needs_perf(question) || args.call_graph.is_some();
    let engine = args.engine.or(is_of_perf.then_some(Engine::Perf));
    possible_engine(engine, question.needs_in_kernel() || is_filtered)
}

/// The outputs for the profile, and the names of those that no option names. One of them has the whole recording, for the
/// subcommands that read it.
fn outputs(args: &Args) -> anyhow::Result<(Vec<Output>, Vec<&'static str>)> {
    let output = |path: &PathBuf| match (path.as_os_str() == "-", &args.to) {
        (true, Some(format)) => Ok(Output::named(None, format)?),
        (true, None) => misuse!("-o - needs --to FORMAT: standard output has no ending"),
        (false, Some(format)) => Ok(Output::named(Some(path), format)?),
        (false, None) => Ok(Output::new(path)?),
    };
    let kept = || Output::kept(Path::new(found::KEPT));
    let mut unnamed = Vec::new();
    let mut outputs: Vec<Output> = match &args.to {
        Some(format) if args.output.is_empty() => vec![Output::named(None, format)?],
        None if args.output.is_empty() => {
            unnamed = vec![found::DEFAULT_PICTURE, found::KEPT];
            vec![Output::new(Path::new(found::DEFAULT_PICTURE))?, kept()?]
        }
        _ => args.output.iter().map(output).collect::<anyhow::Result<_>>()?,
    };
    if !outputs.iter().any(Output::is_data) {
        match kept() {
            Ok(kept) => {
                unnamed.push(found::KEPT);
                outputs.push(kept);
            }
            // The outputs that were asked for can be written.
            Err(error) => say!("{error}: only what -o names is written"),
        }
    }
    if args.open && !outputs.iter().any(|output| output.picture().is_some()) {
        misuse!("--open shows a picture: give one, as -o flamegraph.svg");
    }
    Ok((outputs, unnamed))
}

/// Rejects options that would have no effect: a user who gives one expects an effect.
fn refuse_what_has_no_effect(
    args: &Args,
    question: &Question,
    target: &Target,
    is_filtered: bool,
) -> anyhow::Result<()> {
    args.sampling.check(question, args.engine, is_filtered)?;
    if args.no_inherit && *target == Target::System {
        misuse!("--no-inherit has no effect where the whole machine is recorded");
    }
    if args.no_inherit && args.sampling.threads().is_some() {
        misuse!("--no-inherit has no effect with -t: what a thread starts is not recorded");
    }
    if args.call_graph.is_some() && args.engine == Some(Engine::InKernel) {
        misuse!("--call-graph is for --engine perf: in the kernel, stacks are unwound with tables");
    }
    let is_of_perf = args.engine == Some(Engine::Perf) || args.call_graph.is_some();
    if is_of_perf && let Some(flag) = args.languages.needs_in_kernel() {
        misuse!(
            "{flag} is for the in-kernel engine (--engine ebpf): it finds functions of interpreted languages"
        );
    }
    if is_of_perf && args.tables.is_of_tables() {
        misuse!("--table-memory is for the in-kernel engine (--engine ebpf)");
    }
    Ok(())
}
