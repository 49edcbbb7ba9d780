//! Flags of `top`, and the plan built from them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ArgAction;
use pyrograph_profile::ThreadDetail;
use pyrograph_session::{Engine, Question, Scope, Target, Trigger};
use pyrograph_tui::{Code, Grouping};

use crate::languages::LanguageArgs;
use crate::record::filters::{ChoiceArgs, check_names};
use crate::record::question::{QuestionArgs, possible_engine};
use crate::record::sampling::SamplingArgs;
use crate::say::{be_quiet, misuse};
use crate::tables::TableArgs;
use crate::units::{
    one_of, one_of_or, parse_count, parse_duration, parse_interval, value_of_event,
};

/// Watch where the time goes: functions, a flame graph, callers and callees, on the terminal
///
/// Without a terminal, a table is printed each interval.
#[derive(clap::Args)]
#[command(
    override_usage = "\
pyrograph top [OPTIONS]
       \
       pyrograph top [OPTIONS] -p <PID,...>|-t <TID,...>|-a|-C <CPUS>
       \
       pyrograph top [OPTIONS] -- <COMMAND> [ARGUMENT]...",
    after_help = "\
Examples:
  sudo pyrograph top                          the whole machine
  sudo pyrograph top --off-cpu -p 1234        where a process waits
  pyrograph top -- ./app --its-flags          a command
  sudo pyrograph top -i 10 -n 6 | tee top.txt a table each ten seconds, for a minute

Keys are shown below the view: s sorts, / filters, p, t and c keep processes, threads and control groups apart, k hides
the kernel's functions or the program's, f is the flame graph, Enter shows callers and callees, w writes an SVG."
)]
pub struct Args {
    #[command(flatten)]
    sampling: SamplingArgs,

    /// For how long: seconds, or with a unit (500ms, 10s, 5m) [default: until it ends, q, or Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,

    /// How often to show what is new [default: 500ms; without a terminal 2s]
    #[arg(short, long, value_name = "TIME", value_parser = parse_interval)]
    interval: Option<Duration>,

    #[command(flatten)]
    question: QuestionArgs,

    /// Print tables, as without a terminal
    #[arg(long)]
    batch: bool,

    /// Print so many tables, one each interval, and end
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = parse_count)]
    iterations: Option<u64>,

    /// Functions in a printed table; 0 for all
    #[arg(short = 'E', long, value_name = "COUNT", default_value_t = 20)]
    entries: usize,

    /// Print tables as JSON, an object in a line each
    #[arg(long)]
    json: bool,

    /// The order of functions
    #[arg(short, long, value_name = "BY", default_value = "self", action = ArgAction::Set, value_parser = one_of([
        (false, "self", "By what was spent in the function itself"),
        (true, "total", "By what was spent in it and in what it calls"),
    ]))]
    sort: bool,

    /// Keep functions apart by; another word is a value of the event of -e: a variable, a field, comm
    #[arg(long, value_name = "WHAT", default_value = "none", hide_default_value = true, value_parser = one_of_or([
        (By::Group(Grouping::None), "none", "Nothing"),
        (By::Group(Grouping::Process), "process", "Process"),
        (By::Group(Grouping::Thread), "thread", "Thread"),
        (By::Group(Grouping::ControlGroup), "cgroup", "Control group"),
    ], By::value))]
    by: By,

    /// Do not show the kernel's functions
    #[arg(short = 'K', long, alias = "hide_kernel_symbols", conflicts_with = "hide_user_symbols")]
    hide_kernel_symbols: bool,

    /// Do not show the functions of programs
    #[arg(short = 'U', long, alias = "hide_user_symbols")]
    hide_user_symbols: bool,

    /// The values of stacks: samples, or the event itself (time, for a clock). Alone: samples
    #[arg(long, value_name = "WHAT", default_value = "period", num_args = 0..=1, default_missing_value = "samples",
        action = ArgAction::Set,
        value_parser = one_of([(true, "samples", "Samples"), (false, "period", "What the samples stand for")]))]
    count: bool,

    #[command(flatten)]
    filters: ChoiceArgs,

    /// Record the program's part only, without the kernel's
    #[arg(short, long, conflicts_with = "kernel_only")]
    user_only: bool,

    /// Record the kernel's part only
    #[arg(short, long)]
    kernel_only: bool,

    /// Do not record child processes
    #[arg(long)]
    no_inherit: bool,

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

    /// Do not ask Java virtual machines for the names of the methods that they compile
    #[arg(long)]
    no_attach: bool,

    /// The file that w writes; others of its name get a number
    #[arg(short, long, value_name = "FILE", default_value = "top.svg")]
    output: PathBuf,

    /// Report how stacks are taken, when it is over
    #[arg(short, long)]
    verbose: bool,

    /// Print errors only
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,

    /// Stacks are always recorded: for the habit of perf's users
    #[arg(short, hide = true)]
    graph: bool,
}

/// Grouping of functions.
#[derive(Clone, Debug)]
enum By {
    Group(Grouping),
    /// A value of the event.
    Value(String),
}

impl By {
    fn value(text: &str) -> Option<Self> {
        value_of_event(text).map(Self::Value)
    }
}

/// What to record, and how to show it.
pub struct Plan {
    pub recording: pyrograph_session::Plan,
    /// Name of the target.
    pub title: String,
    pub interval: Option<Duration>,
    /// Tables to print; `None` to use the terminal, if there is one.
    pub tables: Option<Tables>,
    pub entries: usize,
    pub by_total: bool,
    pub code: Code,
    pub grouping: Grouping,
    /// File that the key `w` writes.
    pub output: PathBuf,
    pub verbose: bool,
}

/// Options for printed tables.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tables {
    /// Number of tables; `None` for no limit.
    pub count: Option<u64>,
    /// Print JSON.
    pub json: bool,
}

impl Plan {
    pub fn new(mut args: Args) -> anyhow::Result<Self> {
        if args.quiet {
            be_quiet();
        }
        let filters = std::mem::take(&mut args.filters).read()?;
        // Tables go to standard output.
        let launch = args.sampling.target.launch(true)?;
        let target = args.sampling.take_target()?.unwrap_or(Target::System);
        check_names(&filters, &target, !args.no_inherit)?;
        let (grouping, value) = match std::mem::replace(&mut args.by, By::Group(Grouping::None)) {
            By::Group(grouping) => (grouping, None),
            By::Value(value) => (Grouping::Value, Some(value)),
        };
        let question = args.question.question(args.count, &target, value.as_deref())?;
        let rate = args.sampling.rate(&question);
        refuse_what_has_no_effect(&args, &question, !filters.is_all())?;
        let is_of_perf = args.sampling.needs_perf(&question);
        let engine = possible_engine(
            args.engine.or(is_of_perf.then_some(Engine::Perf)),
            question.needs_in_kernel() || !filters.is_all(),
        )?;
        let tables = args.batch || args.iterations.is_some() || args.json;
        let title = target.title();
        let scope = Scope {
            inherit: !args.no_inherit,
            filters,
            beside: args.sampling.target.beside(),
            duration: args.duration,
            launch,
            cache: args.tables.cache(),
            ..Scope::new(target)
        };
        Ok(Self {
            title,
            interval: args.interval,
            tables: tables.then_some(Tables { count: args.iterations, json: args.json }),
            entries: if args.entries == 0 { usize::MAX } else { args.entries },
            by_total: args.sort,
            code: match (args.hide_kernel_symbols, args.hide_user_symbols) {
                (true, _) => Code::User,
                (_, true) => Code::Kernel,
                _ => Code::All,
            },
            grouping,
            output: args.output,
            verbose: args.verbose,
            recording: pyrograph_session::Plan {
                threads: args.sampling.threads(),
                cpus: args.sampling.target.cpu.take().map(|cpus| cpus.0),
                question,
                rate,
                user: !args.kernel_only,
                kernel: !args.user_only,
                engine,
                languages: args.languages.languages()?,
                lines: args.languages.lines,
                guessing: !args.tables.no_guess,
                table_memory: args.tables.budget(),
                at_switches: args.tables.at_switches,
                attach: !args.no_attach,
                value_is_field: value.is_some(),
                count_samples: args.count,
                thread_detail: ThreadDetail::Thread,
                ..pyrograph_session::Plan::new(scope)
            },
        })
    }

    /// Returns true if each snapshot contains all memory held at its time, rather than what was recorded since the last
    /// one.
    pub fn is_held(&self) -> bool {
        matches!(self.recording.question.trigger(), Trigger::Allocations { live: true, .. })
    }

    /// Interval between updates.
    pub fn interval(&self, default: Duration) -> Duration {
        self.interval.unwrap_or(default)
    }
}

/// Target of the recording: the whole machine if none is given.
fn refuse_what_has_no_effect(
    args: &Args,
    question: &Question,
    is_filtered: bool,
) -> anyhow::Result<()> {
    args.sampling.check(question, args.engine, is_filtered)?;
    if args.output.extension() != Some("svg".as_ref()) || args.output == Path::new("-") {
        misuse!(
            "-o {}: w writes a flame graph: give a file that ends in .svg",
            args.output.display()
        );
    }
    Ok(())
}
