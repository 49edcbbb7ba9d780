//! `pyrograph stat`: counts events, and compares commands by them.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use pyrograph_analyze::{compare_counts, summarize};
use pyrograph_recorder::{
    CountPlan, Counted, CountedRuns, CounterOptions, Counting, Error, Event, KeyKind, Target,
    count_by_turns,
};
use pyrograph_render::{CountStyle, IntervalTable, not_counted, write_count_changes, write_counts};
use pyrograph_terminal::{Interrupt, standard_output};

use crate::say::{misuse, say};
use crate::streams::write_output;
use crate::targets::TargetArgs;
use crate::units::{one_of, parse_duration};

/// Count events of a command, processes or the whole machine: time, faults, cycles, tracepoints
#[derive(clap::Args)]
#[command(
    override_usage = "\
pyrograph stat [OPTIONS] [--] <COMMAND> [ARGUMENT]...
       \
       pyrograph stat [OPTIONS] -r <RUNS> -- <COMMAND>... --vs <COMMAND>...
       \
       pyrograph stat [OPTIONS] -p <PID,...>|-a|-C <CPUS> [-- <COMMAND>...]",
    after_help = "\
Examples:
  pyrograph stat -- ./app                     CPU time, faults, and what the CPU counts
  pyrograph stat -r 20 -- ./old --vs ./new    do they differ beyond noise?
  pyrograph stat -e 'sched:*' -a -d 5         tracepoints of the machine, by a pattern
  pyrograph stat -I 1000 --by cpu -a          a line each second, each CPU for itself

The table goes to standard error, JSON and CSV to standard output. `pyrograph list` lists events."
)]
pub struct Args {
    /// Events: `a,b`, groups `{a,b}`, patterns `'sched:*'`, modifiers `cycles:u`, raw `r01c2` and
    /// `cpu/event=0x3c/`. Can be given several times [default: CPU time, switches, migrations, page faults, cycles,
    /// instructions, branches and their misses]
    #[arg(short, long, value_name = "EVENTS")]
    event: Vec<String>,

    /// Keep counts apart by
    #[arg(long, value_name = "WHAT", value_parser = one_of(KINDS))]
    by: Option<KeyKind>,

    /// A line for each interval: milliseconds, or with a unit (1s)
    #[arg(short = 'I', long, value_name = "TIME", value_parser = parse_interval,
        conflicts_with_all = ["repeat", "markdown"])]
    interval: Option<Duration>,

    /// Run the command so many times: means with intervals of 95 %
    #[arg(short = 'r', long, value_name = "RUNS", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,

    /// With --vs, the exit code is 1 if a counter is more by over PERCENT beyond noise
    #[arg(long, value_name = "PERCENT")]
    fail_over: Option<f64>,

    /// JSON
    #[arg(long, conflicts_with_all = ["csv", "markdown"])]
    json: bool,

    /// CSV
    #[arg(long, conflicts_with = "markdown")]
    csv: bool,

    /// A Markdown table
    #[arg(long)]
    markdown: bool,

    /// Where to write
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    target: TargetArgs,

    /// Without the processes that the target starts
    #[arg(long)]
    no_inherit: bool,

    /// For how long: seconds, or with a unit (500ms, 10s, 5m) [default: until it ends, or Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
}

impl Args {
    fn style(&self) -> CountStyle {
        match self {
            Self { json: true, .. } => CountStyle::Json,
            Self { csv: true, .. } => CountStyle::Csv,
            Self { markdown: true, .. } => CountStyle::Markdown,
            _ => CountStyle::Text,
        }
    }
}

/// Keys that keep counts apart.
const KINDS: [(KeyKind, &str, &str); 6] = [
    (KeyKind::Cpu, "cpu", "Each CPU"),
    (KeyKind::Core, "core", "Each core, with its hardware threads"),
    (KeyKind::Socket, "socket", "Each socket"),
    (KeyKind::Node, "node", "Each NUMA node"),
    (KeyKind::Thread, "thread", "Each thread of the processes, with what it has started since"),
    (KeyKind::Process, "process", "Each process, with what it has started since"),
];

fn parse_interval(text: &str) -> Result<Duration, String> {
    let unit = if text.bytes().all(|byte| byte.is_ascii_digit()) { "ms" } else { "" };
    match parse_duration(&format!("{text}{unit}"))? {
        short if short < Duration::from_millis(1) => Err("must be 1 ms at least".to_owned()),
        interval => Ok(interval),
    }
}

/// Runs `pyrograph stat`.
///
/// # Errors
///
/// If nothing can be counted, or the result cannot be written.
pub fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    let mut groups = Vec::new();
    if args.event.is_empty() {
        args.event.push(CountPlan::USUAL_EVENTS.to_owned());
    }
    for text in &args.event {
        groups.extend(Event::parse_list(text).map_err(Error::Event)?);
    }
    if groups.is_empty() {
        misuse!("no events in -e");
    }
    let other = split_command(&mut args.target.command)?;
    let Some(target) = args.target.take() else {
        misuse!(
            "nothing to count: give a command after --, processes with -p, or the machine with -a"
        )
    };
    check(&args, &target, other.is_some())?;
    let counters = CounterOptions {
        target,
        groups,
        inherit: !args.no_inherit,
        cpus: args.target.cpu.take().map(|cpus| cpus.0),
        by_cpu: args.by.is_some_and(KeyKind::is_of_cpus),
        output_to_stderr: args.style() != CountStyle::Text && args.output.is_none(),
    };
    let (by, duration, interval) = (args.by, args.duration, args.interval);
    let plan = CountPlan { counters, by, beside: args.target.beside(), duration, interval };
    let session = Session { args, interrupt: Interrupt::catch()? };
    match other {
        Some(other) => session.compare(&plan, other),
        None => session.count(&plan),
    }
}

/// Takes what is behind `--vs` off a command.
fn split_command(command: &mut Vec<OsString>) -> anyhow::Result<Option<Vec<OsString>>> {
    let Some(place) = command.iter().position(|word| word == "--vs") else { return Ok(None) };
    let other = command.split_off(place + 1);
    command.pop();
    if other.is_empty() || command.is_empty() {
        misuse!("--vs stands between two commands: pyrograph stat -r 20 -- ./old --vs ./new");
    }
    Ok(Some(other))
}

fn check(args: &Args, target: &Target, is_compared: bool) -> anyhow::Result<()> {
    let is_command = matches!(target, Target::Command(_));
    if is_compared && !is_command {
        misuse!("--vs compares two commands, without -a, -C and -p");
    }
    if is_compared && (args.interval.is_some() || args.by.is_some()) {
        misuse!("--vs compares the whole runs, without -I and --by");
    }
    if args.fail_over.is_some() && !is_compared {
        misuse!("--fail-over needs --vs and a second command");
    }
    if args.repeat.is_some() && !is_command {
        misuse!("-r repeats a command, without -a, -C and -p");
    }
    let by_task = args.by.is_some_and(|kind| !kind.is_of_cpus());
    if by_task && !matches!(target, Target::Processes(_)) {
        misuse!(
            "--by thread and --by process need -p: the threads of a command are counted together"
        );
    }
    Ok(())
}

struct Session {
    args: Args,
    interrupt: Interrupt,
}

impl Session {
    fn count(&self, plan: &CountPlan) -> anyhow::Result<ExitCode> {
        let mut table = IntervalTable::new(self.args.style());
        let mut out = match self.args.interval {
            Some(_) => self.output()?,
            None => Box::new(io::sink()),
        };
        let [runs] = count_by_turns([plan], self.args.repeat.unwrap_or(1), |plan| {
            self.once(plan, &mut table, &mut *out)
        })?;
        if runs.runs.is_empty() {
            return Ok(ExitCode::FAILURE);
        }
        if self.args.interval.is_some() {
            not_counted(&runs.not_counted).for_each(|line| say!("{line}"));
            out.flush()?;
            return Ok(ExitCode::from(runs.code));
        }
        let title = plan.title();
        if runs.runs.len() > 1 {
            say_failed(&title, &runs);
        }
        let CountedRuns { counters, runs, not_counted, code, .. } = runs;
        let summary = summarize(counters, &runs);
        self.write(|out| write_counts(self.args.style(), &summary, &title, &not_counted, out))?;
        Ok(ExitCode::from(code))
    }

    fn compare(&self, plan: &CountPlan, other: Vec<OsString>) -> anyhow::Result<ExitCode> {
        let mut second = plan.clone();
        second.counters.target = Target::Command(other);
        let mut table = IntervalTable::new(CountStyle::Text);
        let rounds = self.args.repeat.unwrap_or(10);
        let [before, after] = count_by_turns([plan, &second], rounds, |plan| {
            self.once(plan, &mut table, &mut io::sink())
        })?;
        if before.runs.is_empty() {
            return Ok(ExitCode::FAILURE);
        }
        let titles = [plan.title(), second.title()];
        say_failed(&titles[0], &before);
        say_failed(&titles[1], &after);
        let mut changes = compare_counts(&before.counters, &before.runs, &after.runs);
        let last = if after.runs.is_empty() { &before } else { &after };
        let refused = &last.not_counted[..];
        changes.retain(|change| !refused.iter().any(|of| of.names.contains(&change.name)));
        let titles = titles.each_ref().map(|title| &title[..]);
        self.write(|out| write_count_changes(self.args.style(), &changes, titles, refused, out))?;
        let is_over = |limit| changes.iter().any(|change| change.is_over(limit));
        Ok(match self.args.fail_over.is_some_and(is_over) {
            true => ExitCode::FAILURE,
            false => ExitCode::SUCCESS,
        })
    }

    /// Counts until the target ends, the time is over, or the user has seen enough; `None` if that is so already.
    fn once(
        &self,
        plan: &CountPlan,
        table: &mut IntervalTable,
        out: &mut dyn Write,
    ) -> anyhow::Result<Option<Counted>> {
        if self.interrupt.asked() {
            return Ok(None);
        }
        let mut counting = Counting::open(plan)?;
        let stopper = counting.stopper();
        let _stops = self.interrupt.on_signal(move || stopper.stop())?;
        while let Some(run) = counting.step()? {
            let elapsed = run.elapsed.as_secs_f64();
            table.line(elapsed, &summarize(plan.named_counters(), &[run]), out)?;
            out.flush()?;
        }
        let counted = counting.finish()?;
        if let Some(child) = &counted.child
            && self.interrupt.only_us()
        {
            child.signal(libc::SIGTERM).ok();
        }
        Ok(Some(counted))
    }

    /// Where intervals go: a file, standard output for what programs read, else standard error, as with perf.
    fn output(&self) -> anyhow::Result<Box<dyn Write>> {
        Ok(match &self.args.output {
            Some(path) if path.as_os_str() != "-" => {
                let file = std::fs::File::create(path)
                    .with_context(|| format!("failed to write {}", path.display()))?;
                Box::new(io::BufWriter::new(file))
            }
            Some(_) => Box::new(standard_output()),
            None if self.args.style() != CountStyle::Text => Box::new(standard_output()),
            None => Box::new(io::stderr()),
        })
    }

    /// Writes the result: text without a place to standard error, as perf does.
    fn write(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
        match &self.args.output {
            None if self.args.style() == CountStyle::Text => Ok(write(&mut io::stderr())?),
            path => Ok(write_output(path.as_deref(), write)?),
        }
    }
}

/// Counts of runs that failed may be of something else.
fn say_failed(title: &str, CountedRuns { runs, failed, .. }: &CountedRuns) {
    let runs = runs.len();
    if *failed > 0 {
        say!("{title} ended with an error in {failed} of {runs} runs, which are counted, too");
    }
}
