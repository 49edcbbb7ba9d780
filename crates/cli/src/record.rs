//! `pyrograph record`: samples, and writes what came of it.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use pyrograph_format::Detail;
use pyrograph_profile::{LabelOptions, ValueType};
use pyrograph_record::{
    Child, Error, Event, Next, Rate, Session, StackMode, Summary, Target, Unit, Waiting,
};
use pyrograph_resolve::{LiveFiles, NATIVE, Resolved, Resolver, Stats, SymbolOptions};

use crate::cpu_time::{children_cpu_time, cpu_time};
use crate::in_kernel::{self, Engine, InKernel, Recorded};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::Progress;
use crate::question::{NotThere, Question, QuestionArgs};
use crate::say::say;
use crate::tables::TableArgs;
use crate::units::{counted, grouped, parse_duration, percent};
use crate::whom::{Whom, WhomArgs};

/// Sample a command, running processes or the whole machine, and draw a flame graph
///
/// Stacks are right without frame pointers: registers and a copy of the stack are sampled and
/// unwound with the program's own tables. Ctrl-C ends the recording and writes the graph.
#[derive(clap::Args)]
#[expect(rustdoc::broken_intra_doc_links, reason = "clap shows these texts as they are")]
#[command(after_help = "\
Examples:
  pyrograph record -- ./app --its-flags       start it, follow its children and threads
  pyrograph record -p 1234,1235 -d 10         attach to running processes for 10 seconds
  sudo pyrograph record -a -F 99 -d 30        the whole machine
  pyrograph record -o app.folded -- ./app     folded stacks, for grep, sed and awk")]
pub struct Args {
    /// Processes to attach to, with all their threads and the children they start
    #[arg(short, long, value_name = "PID", value_delimiter = ',', conflicts_with_all = ["all_cpus", "command"])]
    pid: Vec<i32>,

    /// The whole machine
    #[arg(short, long, conflicts_with = "command")]
    all_cpus: bool,

    /// Samples a second [default: 997 of each thread; with -a 99 of each CPU]
    #[arg(short = 'F', long, value_name = "HZ", value_parser = clap::value_parser!(u64).range(1..))]
    frequency: Option<u64>,

    /// For how long: seconds, or with a unit (500ms, 10s, 5m) [default: until it ends, or Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,

    /// Where to write; the ending says what: .svg, .folded, .pb.gz (pprof) … (see convert). Can be
    /// given several times
    #[arg(short, long, value_name = "FILE", default_value = "flamegraph.svg")]
    output: Vec<PathBuf>,

    #[command(flatten)]
    question: QuestionArgs,

    #[command(flatten)]
    whom: WhomArgs,

    /// The program's part only, without the kernel's
    #[arg(short, long, conflicts_with = "kernel_only")]
    user_only: bool,

    /// The kernel's part only
    #[arg(short, long)]
    kernel_only: bool,

    /// Do not follow child processes
    #[arg(long)]
    no_inherit: bool,

    /// How stacks are found: dwarf[,BYTES] copies that many bytes of the stack, fp follows frame
    /// pointers alone (cheapest) [default: unwound in the kernel, else dwarf]
    #[arg(long, value_name = "HOW", value_parser = parse_stack_mode)]
    call_graph: Option<StackMode>,

    /// Who takes stacks: ebpf unwinds and counts them in the kernel, perf copies them out
    /// [default: ebpf with -a and -p where it is permitted, else perf]
    #[arg(long, value_name = "WHICH", value_enum)]
    engine: Option<EngineChoice>,

    #[command(flatten)]
    tables: TableArgs,

    /// Leave out the calls that the compiler inlined
    #[arg(long)]
    no_inline: bool,

    /// What a stack's value counts: samples, or the event itself (time, for a clock). Alone: samples,
    /// which are calls or requests where these are looked at
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Count::Period,
        num_args = 0..=1, default_missing_value = "samples")]
    count: Count,

    /// Mark the kernel's frames with _[k], inlined ones with _[i], those made at run time with _[j]
    #[arg(long)]
    annotate: bool,

    /// Say who takes the stacks, what was made for it, and what it cost
    #[arg(short, long)]
    verbose: bool,

    /// The graph's title
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    /// The command to run, and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Who takes the stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum EngineChoice {
    /// Programs in the kernel
    Ebpf,
    /// perf_event_open and its buffers
    Perf,
}

/// What a stack's value counts.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Count {
    /// Samples
    Samples,
    /// What the samples stand for
    Period,
}

fn parse_stack_mode(text: &str) -> Result<StackMode, String> {
    match text.split_once(',') {
        None if text == "fp" => Ok(StackMode::FramePointers),
        None if text == "dwarf" => Ok(StackMode::Dwarf { bytes: StackMode::DEFAULT_BYTES }),
        Some(("dwarf", bytes)) => match bytes.parse::<u32>() {
            Ok(bytes) if (1..=StackMode::MOST_BYTES).contains(&bytes) => {
                Ok(StackMode::Dwarf { bytes: bytes.next_multiple_of(8) })
            }
            _ => Err(format!("the stack copy can have 1 to {} bytes", StackMode::MOST_BYTES)),
        },
        _ => Err("use fp, dwarf, or dwarf,BYTES".to_owned()),
    }
}

/// What the flags come to.
struct Plan {
    options: pyrograph_record::Options,
    outputs: Vec<Output>,
    duration: Option<Duration>,
    count: Count,
    engine: Option<EngineChoice>,
    question: Question,
    whom: Whom,
    tables: TableArgs,
    verbose: bool,
    inlines: bool,
    labels: LabelOptions,
    title: String,
}

impl Plan {
    fn new(args: Args) -> anyhow::Result<Self> {
        let outputs = args.output.iter().map(|path| Output::new(path)).collect::<Result<_, _>>()?;
        let target = if args.all_cpus {
            Target::System
        } else if !args.pid.is_empty() {
            Target::Processes(args.pid)
        } else if !args.command.is_empty() {
            Target::Command(args.command)
        } else {
            bail!(
                "nothing to record: give a command after --, processes with -p, or the machine with -a"
            );
        };
        let counts = args.count == Count::Samples;
        let question = Question::new(&args.question, counts, &target)?;
        let whom = Whom::new(args.whom)?;
        Ok(Self {
            title: args.title.unwrap_or_else(|| title(&target)),
            options: pyrograph_record::Options {
                event: question.event.clone(),
                rate: args.frequency.map(Rate::Hertz),
                stack: args
                    .call_graph
                    .unwrap_or(StackMode::Dwarf { bytes: StackMode::DEFAULT_BYTES }),
                user: !args.kernel_only,
                kernel: !args.user_only,
                inherit: !args.no_inherit,
                ..pyrograph_record::Options::new(target)
            },
            outputs,
            duration: args.duration,
            count: args.count,
            // Who says how stacks are to be found wants it done so.
            engine: args
                .engine
                .or(args.call_graph.map(|_| EngineChoice::Perf))
                .or((question.in_kernel_only || !whom.is_all()).then_some(EngineChoice::Ebpf)),
            question,
            whom,
            tables: args.tables,
            verbose: args.verbose,
            inlines: !args.no_inline,
            labels: LabelOptions {
                mark_kernel: args.annotate,
                mark_jit: args.annotate,
                mark_inlined: args.annotate,
                ..LabelOptions::default()
            },
        })
    }

    fn resolve_options(&self, event: &Event) -> pyrograph_resolve::Options {
        let unit = self.question.unit().unwrap_or(match event.unit() {
            Unit::Nanoseconds => "ns",
            Unit::Count => "count",
        });
        let value_type = match self.count {
            Count::Samples if self.question.unit().is_none() => ValueType::samples(),
            Count::Samples => {
                let noun = format!("{}s", self.question.noun());
                ValueType::new(self.question.name(event), &noun)
            }
            Count::Period => ValueType::new(self.question.name(event), unit),
        };
        pyrograph_resolve::Options {
            value_type,
            count_samples: self.count == Count::Samples,
            keep_time: self.outputs.iter().any(|output| output.detail() == Detail::Samples),
            threads: self
                .outputs
                .iter()
                .map(Output::threads)
                .chain([self.whom.threads()])
                .max()
                .unwrap_or_default(),
            // What the kernel has counted has no times.
            monotonic_time: false,
            user_only: !self.options.kernel,
            addresses: true,
            arch: NATIVE,
            symbols: SymbolOptions {
                inlines: self.inlines,
                lines: self.outputs.iter().any(Output::holds_sources),
                cache: self.tables.cache(),
                ..SymbolOptions::default()
            },
        }
    }
}

/// The title of a recording's graph: what was recorded.
fn title(target: &Target) -> String {
    match target {
        Target::Command(command) => {
            let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
            shortened(&words.join(" "))
        }
        Target::Processes(pids) => {
            let names: Vec<String> = pids.iter().map(|pid| process_name(*pid)).collect();
            names.join(", ")
        }
        Target::System => "Whole machine".to_owned(),
    }
}

/// The beginning of a long text: a command may have thousands of arguments.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 90;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// `name (PID)`, as long as the process lives.
fn process_name(pid: i32) -> String {
    match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("{} ({pid})", name.trim_end()),
        Err(_) => format!("process {pid}"),
    }
}

/// The exit code for a command that could not be run, as shells have it.
const COMMAND_NOT_RUN: u8 = 127;

/// How long to wait for records before looking at the clock and for signals.
const TICK: Duration = Duration::from_millis(50);

/// Runs `pyrograph record`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let plan = match Plan::new(args) {
        Ok(plan) => plan,
        Err(error) => {
            say!("{error:#}");
            return Ok(ExitCode::from(if error.is::<NotThere>() { 1 } else { 2 }));
        }
    };
    match sample(&plan) {
        Err(error) if matches!(error.downcast_ref(), Some(Error::Command { .. })) => {
            say!("{error}");
            Ok(ExitCode::from(COMMAND_NOT_RUN))
        }
        sampled => {
            let Sampled { resolver, summary, event, child, interrupt, in_kernel, cpu_time } =
                sampled?;
            let mut resolved = resolver.finish();
            resolved.profile = plan.whom.put_levels(resolved.profile)?;
            closing_line(&resolved, &summary, plan.question.name(&event), plan.question.noun());
            let written = write_all(&plan, &resolved);
            if plan.verbose {
                say!("{}", cost(cpu_time));
            }
            let code = exit_code(child, &interrupt)?;
            written?;
            if !in_kernel {
                too_short(&resolved, &plan);
            }
            Ok(code)
        }
    }
}

/// What the recording cost beside what the kernel did: `own CPU time: 0.09 s to prepare, 0.01 s while it
/// recorded, 0.12 s for names and writing`. The arguments are those of [`Sampled::cpu_time`].
fn cost((begun, ended): (Duration, Duration)) -> String {
    let seconds = |from: Duration, to: Duration| to.saturating_sub(from).as_secs_f64();
    format!(
        "own CPU time: {:.2} s to prepare, {:.2} s while it recorded, {:.2} s for names and writing",
        seconds(Duration::ZERO, begun),
        seconds(begun, ended),
        seconds(ended, cpu_time())
    )
}

/// Writes every output, whatever becomes of the others; the first error is returned.
fn write_all(plan: &Plan, resolved: &Resolved) -> anyhow::Result<()> {
    let mut result = Ok(());
    for output in &plan.outputs {
        match output.write(&resolved.profile, &plan.labels, &plan.title) {
            Ok(()) => {
                if output.holds_sources() {
                    output
                        .not_held(&resolved.profile)
                        .iter()
                        .for_each(|lost| say!("{output}: {lost}"));
                }
                say!("wrote {output}");
                if let Some(which) = output.which() {
                    say!("{which}");
                }
            }
            Err(error) if result.is_ok() => result = Err(error),
            Err(error) => say!("{error:#}"),
        }
    }
    result
}

/// Says if much of the command's time was not sampled. Each thread has a period of its own: one that
/// ends before its first is over is never seen.
fn too_short(resolved: &Resolved, plan: &Plan) {
    let is_time = resolved.profile.value_types.first().is_some_and(|value| value.unit == "ns");
    let is_whole = plan.options.user && plan.options.kernel && plan.options.inherit;
    if !matches!(plan.options.target, Target::Command(_)) || !is_time || !is_whole {
        return;
    }
    let sampled = resolved.profile.samples.total(0) as f64 / 1e9;
    let used = children_cpu_time().as_secs_f64();
    if plan.duration.is_none() && used > 0.1 && sampled < 0.7 * used {
        say!(
            "{sampled:.2} s of the command's {used:.2} s of CPU time were sampled: its processes are too \
             short for this rate; -F raises it, and -a samples whatever runs"
        );
    }
}

/// What a recording leaves.
struct Sampled {
    resolver: Resolver<LiveFiles>,
    summary: Summary,
    event: Event,
    child: Option<Child>,
    interrupt: Interrupt,
    in_kernel: bool,
    /// CPU time of this process when the recording began, and when it ended.
    cpu_time: (Duration, Duration),
}

/// Records until the target ends, the time is over, or the user has seen enough.
fn sample(plan: &Plan) -> anyhow::Result<Sampled> {
    match load_engine(plan)? {
        Some(engine) => {
            if plan.verbose {
                say!("stacks are taken by the in-kernel engine");
                in_kernel::say_features();
            } else {
                in_kernel::say_lacks(&engine);
            }
            sample_in_kernel(plan, engine)
        }
        None => {
            if plan.verbose {
                say!("stacks are taken by perf_event_open");
            }
            Ok(sample_by_perf(plan)?)
        }
    }
}

/// The in-kernel engine, if it is to serve.
fn load_engine(plan: &Plan) -> anyhow::Result<Option<Engine>> {
    let is_command = matches!(plan.options.target, Target::Command(_));
    let load = || {
        let engine = in_kernel::load(&plan.options, &plan.question, &plan.whom, plan.tables);
        engine.inspect_err(|error| {
            let details = error.details().filter(|_| plan.verbose).unwrap_or_default();
            details.lines().for_each(|line| say!("{line}"));
        })
    };
    match plan.engine {
        Some(EngineChoice::Perf) if plan.question.in_kernel_only || !plan.whom.is_all() => {
            bail!(
                "only the in-kernel engine can tell this: leave out --engine perf and --call-graph"
            )
        }
        Some(EngineChoice::Perf) => Ok(None),
        Some(EngineChoice::Ebpf) => Ok(Some(load()?)),
        None if is_command && !plan.question.tells_more_in_kernel() => Ok(None),
        None => match load() {
            Ok(engine) => Ok(Some(engine)),
            // Then it needs no word: perf_event says what it may not.
            Err(error) if error.is_permission() => Ok(None),
            Err(error) => {
                say!("{error}; recording with perf_event instead");
                Ok(None)
            }
        },
    }
}

/// With programs in the kernel that unwind and count.
fn sample_in_kernel(plan: &Plan, engine: Engine) -> anyhow::Result<Sampled> {
    let target = &plan.options.target;
    if let Target::Processes(pids) = target
        && let Some(pid) = pids.iter().find(|pid| !in_kernel::is_running(**pid))
    {
        return Err(Error::NoSuchProcess { pid: *pid }.into());
    }
    // The child is made before limits are raised, so that it has those of its user.
    let command = match target {
        Target::Command(argv) => Some(Waiting::fork(argv)?),
        Target::Processes(_) | Target::System => None,
    };
    // The programs choose among all that runs.
    let rate = |event| Rate::default_for(target, event);
    let event = plan.question.event_beside_probe()?;
    let options = pyrograph_record::Options {
        target: Target::System,
        stack: StackMode::Untold,
        rate: plan.options.rate.or_else(|| event.as_ref().map(rate)),
        event,
        patience: in_kernel::PATIENCE_WITH_RECORDS,
        told: match target {
            Target::Processes(pids) => Some(pids.clone()),
            Target::Command(_) => Some(Vec::new()),
            Target::System => None,
        },
        ..plan.options.clone()
    };
    let session = Session::open(&options)?;
    for notice in session.notices() {
        say!("{notice}");
    }
    let event = session.event().clone();
    let mut resolver = Resolver::new(LiveFiles, plan.resolve_options(&event));
    let interrupt = Interrupt::catch()
        .map_err(|source| Error::System { doing: "catching signals".to_owned(), source })?;
    let interrupted = || interrupt.asked();
    let recording = InKernel {
        target,
        inherit: plan.options.inherit,
        duration: plan.duration,
        interrupted: &interrupted,
        verbose: plan.verbose,
        returned: plan.question.returned(),
    };
    let Recorded { summary, child, cpu_time } =
        recording.record(engine, session, command, &mut resolver)?;
    Ok(Sampled { resolver, summary, event, child, interrupt, in_kernel: true, cpu_time })
}

/// With the samples that the kernel copies out.
fn sample_by_perf(plan: &Plan) -> Result<Sampled, Error> {
    let session = Session::open(&plan.options)?;
    for notice in session.notices() {
        say!("{notice}");
    }
    let event = session.event().clone();
    let layout = session.layout();
    let monotonic_time = session.has_monotonic_time();
    let options = pyrograph_resolve::Options { monotonic_time, ..plan.resolve_options(&event) };
    let mut resolver = Resolver::new(LiveFiles, options);
    let interrupt = Interrupt::catch()
        .map_err(|source| Error::System { doing: "catching signals".to_owned(), source })?;
    let mut recording = session.start()?;

    let (start, begun) = (Instant::now(), cpu_time());
    let stopper = recording.stopper();
    let progress = Progress::start();
    loop {
        match recording.next(TICK) {
            Next::End => break,
            Next::Waiting => {}
            Next::Batch(batch) => {
                for record in batch.iter() {
                    match layout.decode(record) {
                        Ok(record) => resolver.record(&record),
                        Err(_) => resolver.unreadable(),
                    }
                }
            }
        }
        if interrupt.asked() || plan.duration.is_some_and(|limit| start.elapsed() >= limit) {
            stopper.stop();
        }
        progress.say(|| {
            let samples = counted(resolver.stats().samples, "sample");
            format!("{samples}, {} lost", grouped(recording.lost()))
        });
    }
    progress.end();

    for notice in recording.notices() {
        say!("{notice}");
    }
    let child = recording.take_child();
    let (summary, cpu_time) = (recording.finish(), (begun, cpu_time()));
    Ok(Sampled { resolver, summary, event, child, interrupt, in_kernel: false, cpu_time })
}

/// Says what was sampled, and everything that makes the result less than whole.
fn closing_line(resolved: &Resolved, summary: &Summary, event: &str, noun: &str) {
    let Stats { samples, user_stacks, truncated, completed, broken, .. } = resolved.stats;
    let mut parts = Vec::new();
    if samples == 0 {
        parts.push(match noun {
            "sample" => format!("no samples of {event}: the target used too little of it"),
            _ => format!("no {noun}s: what was recorded had none"),
        });
    } else {
        parts.push(format!("{} of {event}", counted(samples, noun)));
    }
    parts.push(format!("{} lost", grouped(summary.lost)));
    let mut say = |count: u64, text: String| {
        if count > 0 {
            parts.push(text);
        }
    };
    say(summary.throttled, format!("throttled {}", counted(summary.throttled, "time")));
    let stacks =
        |count: u64| format!("{} ({})", counted(count, "stack"), percent(count, user_stacks));
    say(truncated, format!("{} truncated", stacks(truncated)));
    say(completed, format!("{} completed from the running process", stacks(completed)));
    say(broken, format!("{} not unwound to the end", stacks(broken)));
    let gone = resolved.stats.unreadable_stacks;
    say(gone, format!("{} gone with an exec or paged out", counted(gone, "user stack")));
    let names = &resolved.stats.names;
    say(
        names.unknown,
        format!(
            "{} of {} addresses without a symbol",
            grouped(names.unknown),
            grouped(names.addresses)
        ),
    );
    say(resolved.stats.unreadable, counted(resolved.stats.unreadable, "unreadable record"));
    say!("{}", parts.join(", "));

    if names.kernel_hidden {
        say!(
            "the kernel hides its symbols from this user; to permit them: \
             sudo sysctl kernel.kptr_restrict=0"
        );
    }
    let missing = &resolved.stats.missing_files;
    if !missing.is_empty() {
        const NAMED: usize = 3;
        let first = missing.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if missing.len() > NAMED { ", …" } else { "" };
        say!(
            "{} could not be opened or had been replaced, so that functions in it have no \
             names: {first}{more}",
            counted(missing.len() as u64, "mapped file")
        );
    }
    for warning in &names.warnings {
        say!("{warning}");
    }
}

/// The command's own exit code; 128 and the signal's number if one ended it, as shells have it. A
/// command that still runs is waited for: recording is over, but it is still the user's program.
fn exit_code(child: Option<Child>, interrupt: &Interrupt) -> anyhow::Result<ExitCode> {
    let Some(mut child) = child else { return Ok(ExitCode::SUCCESS) };
    if interrupt.only_us() {
        child.signal(libc::SIGTERM).ok();
    }
    let status = match child.try_wait()? {
        Some(status) => status,
        None => {
            say!("the command goes on (PID {})", child.pid());
            child.wait()?
        }
    };
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stack_modes() {
        let dwarf = |bytes| Ok(StackMode::Dwarf { bytes });
        assert_eq!(parse_stack_mode("fp"), Ok(StackMode::FramePointers));
        assert_eq!(parse_stack_mode("dwarf"), dwarf(StackMode::DEFAULT_BYTES));
        assert_eq!(parse_stack_mode("dwarf,8192"), dwarf(8192));
        assert_eq!(parse_stack_mode("dwarf,8189"), dwarf(8192));
        for text in ["", "lbr", "fp,1", "dwarf,", "dwarf,0", "dwarf,65536", "dwarf,-8"] {
            assert!(parse_stack_mode(text).is_err(), "{text}");
        }
    }
}
