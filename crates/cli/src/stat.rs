//! `pyrograph stat`: counts events, and compares commands by them.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use pyrograph_analyze::{
    CommandUsage, CountRun, CountValue, Counter, Verdict, compare_counts, summarize,
};
use pyrograph_format::write_file;
use pyrograph_recorder::{
    Count, CountPlan, Counted, CounterOptions, Counting, Error, Event, KeyKind, Keys, Target, Unit,
};
use pyrograph_render::{CountStyle, IntervalTable, NotCounted, write_count_changes, write_counts};
use pyrograph_terminal::{Interrupt, standard_output};

use crate::say::{misuse, say};
use crate::targets::{Chosen, TargetArgs};
use crate::units::parse_duration;

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
    #[arg(long, value_name = "WHAT", value_enum)]
    by: Option<By>,

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

/// What counts are kept apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// Each CPU
    Cpu,
    /// Each core, with its hardware threads
    Core,
    /// Each socket
    Socket,
    /// Each NUMA node
    Node,
    /// Each thread of the processes, with what it has started since
    Thread,
    /// Each process, with what it has started since
    Process,
}

/// Events where none are named.
const DEFAULT: &str = "task-clock,context-switches,cpu-migrations,page-faults,cycles,instructions,branches,\
                       branch-misses";

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
    let texts = match args.event.is_empty() {
        true => vec![DEFAULT.to_owned()],
        false => std::mem::take(&mut args.event),
    };
    let mut groups = Vec::new();
    for text in texts {
        groups.extend(Event::parse_list(&text).map_err(Error::Event)?);
    }
    if groups.is_empty() {
        misuse!("no events in -e");
    }
    let other = split_command(&mut args.target.command)?;
    let duration = args.target.duration;
    let output_to_stderr = args.style() != CountStyle::Text && args.output.is_none();
    let target = std::mem::take(&mut args.target).choose()?;
    check(&args, &target, other.is_some())?;
    let by_cpu = matches!(args.by, Some(By::Cpu | By::Core | By::Socket | By::Node));
    let counters = CounterOptions {
        target: target.target.clone(),
        groups,
        inherit: target.inherit,
        cpus: target.cpus.clone(),
        by_cpu,
        output_to_stderr,
    };
    let plan =
        CountPlan { counters, beside: target.beside.clone(), duration, interval: args.interval };
    let session = Session { keys: keys(args.by), args, interrupt: Interrupt::catch()? };
    match other {
        Some(other) => session.compare(&plan, other, &target),
        None => session.count(&plan, &target),
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

fn check(args: &Args, chosen: &Chosen, is_compared: bool) -> anyhow::Result<()> {
    let is_command = matches!(chosen.target, Target::Command(_));
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
    if matches!(args.by, Some(By::Thread | By::Process))
        && !matches!(chosen.target, Target::Processes(_))
    {
        misuse!(
            "--by thread and --by process need -p: the threads of a command are counted together"
        );
    }
    Ok(())
}

fn keys(by: Option<By>) -> Keys {
    Keys::new(match by {
        None => KeyKind::None,
        Some(By::Cpu) => KeyKind::Cpu,
        Some(By::Core) => KeyKind::Core,
        Some(By::Socket) => KeyKind::Socket,
        Some(By::Node) => KeyKind::Node,
        Some(By::Thread) => KeyKind::Thread,
        Some(By::Process) => KeyKind::Process,
    })
}

struct Session {
    args: Args,
    keys: Keys,
    interrupt: Interrupt,
}

/// One run: its counts, what was not counted, and how its command ended.
struct Done {
    run: CountRun,
    counters: Vec<Counter>,
    not_counted: Vec<NotCounted>,
    code: ExitCode,
    failed: bool,
}

impl Session {
    fn count(&self, plan: &CountPlan, chosen: &Chosen) -> anyhow::Result<ExitCode> {
        let (mut runs, mut last, mut failed) = (Vec::new(), None, 0);
        let mut table = IntervalTable::new(self.args.style());
        let mut out = match self.args.interval {
            Some(_) => self.output()?,
            None => Box::new(io::sink()),
        };
        for _ in 0..self.args.repeat.unwrap_or(1) {
            if self.interrupt.asked() {
                break;
            }
            let mut done = self.once(plan, &mut table, &mut *out)?;
            failed += usize::from(done.failed);
            runs.push(std::mem::take(&mut done.run));
            last = Some(done);
        }
        let Some(done) = last else { return Ok(ExitCode::FAILURE) };
        if self.args.interval.is_some() {
            self.refusals(&done.not_counted);
            out.flush()?;
            return Ok(done.code);
        }
        if runs.len() > 1 {
            say_failed(&chosen.title, failed, runs.len());
        }
        let summary = summarize(done.counters, &runs);
        let (title, refused) = (&chosen.title, &done.not_counted[..]);
        self.write(|out| write_counts(self.args.style(), &summary, title, refused, out))?;
        Ok(done.code)
    }

    /// Two commands by turns, so that what else runs disturbs both alike.
    fn compare(
        &self,
        plan: &CountPlan,
        other: Vec<OsString>,
        chosen: &Chosen,
    ) -> anyhow::Result<ExitCode> {
        let mut second = plan.clone();
        let words: Vec<_> = other.iter().map(|word| word.to_string_lossy()).collect();
        let title = format!("'{}'", words.join(" "));
        second.counters.target = Target::Command(other);
        let runs = self.args.repeat.unwrap_or(10);
        let (mut before, mut after, mut last) = (Vec::new(), Vec::new(), None);
        let mut failed = [0, 0];
        let mut table = IntervalTable::new(CountStyle::Text);
        for _ in 0..runs {
            let sides = [(plan, &mut before), (&second, &mut after)];
            for ((plan, runs), failed) in sides.into_iter().zip(&mut failed) {
                if self.interrupt.asked() {
                    continue;
                }
                let mut done = self.once(plan, &mut table, &mut io::sink())?;
                *failed += usize::from(done.failed);
                runs.push(std::mem::take(&mut done.run));
                last = Some(done);
            }
        }
        let Some(done) = last else { return Ok(ExitCode::FAILURE) };
        say_failed(&chosen.title, failed[0], before.len());
        say_failed(&title, failed[1], after.len());
        let changes = compare_counts(&done.counters, &before, &after);
        let changes: Vec<_> = changes
            .into_iter()
            .filter(|change| !done.not_counted.iter().any(|of| of.names.contains(&change.name)))
            .collect();
        let (titles, refused) = ([&chosen.title[..], &title[..]], &done.not_counted[..]);
        self.write(|out| write_count_changes(self.args.style(), &changes, titles, refused, out))?;
        let is_over = |limit: f64| {
            changes.iter().any(|change| {
                let share = change.change.map_or(f64::INFINITY, |[change, ..]| change);
                change.verdict == Verdict::More && share * 100.0 > limit
            })
        };
        Ok(match self.args.fail_over.is_some_and(is_over) {
            true => ExitCode::FAILURE,
            false => ExitCode::SUCCESS,
        })
    }

    /// Counts until the target ends, the time is over, or the user has seen enough.
    fn once(
        &self,
        plan: &CountPlan,
        table: &mut IntervalTable,
        out: &mut dyn Write,
    ) -> anyhow::Result<Done> {
        let mut counting = Counting::open(plan)?;
        let stopper = counting.stopper();
        let _stops = self.interrupt.on_signal(move || stopper.stop())?;
        let counters: Vec<Counter> =
            plan.counters.groups.iter().flatten().map(|event| counter(event, false)).collect();
        while let Some(reading) = counting.step()? {
            let run = self.run_of(&reading.interval, reading.elapsed);
            table.line(reading.elapsed.as_secs_f64(), &summarize(counters.clone(), &[run]), out)?;
            out.flush()?;
        }
        let counted = counting.finish()?;
        self.done(plan, counted)
    }

    fn run_of(&self, counts: &[Count], elapsed: Duration) -> CountRun {
        let value = |count: &Count| CountValue {
            key: self.keys.of(count),
            counter: count.event,
            value: count.value,
            enabled: count.enabled,
            running: count.running,
        };
        CountRun { values: counts.iter().map(value).collect(), elapsed, usage: None }
    }

    fn done(&self, plan: &CountPlan, counted: Counted) -> anyhow::Result<Done> {
        let events: Vec<&Event> = plan.counters.groups.iter().flatten().collect();
        let mut reasons: Vec<NotCounted> = Vec::new();
        for (event, refusal) in events.iter().zip(&counted.refused) {
            let Some(refusal) = refusal else { continue };
            let reason = refusal.to_string();
            match reasons.iter_mut().find(|known| known.reason == reason) {
                Some(known) => known.names.push(event.name().to_owned()),
                None => reasons.push(NotCounted { names: vec![event.name().to_owned()], reason }),
            }
        }
        let mut run = self.run_of(&counted.last.counts, counted.last.elapsed);
        let counters =
            events.iter().zip(&counted.user_only).map(|(event, user)| counter(event, *user));
        let (mut code, mut failed) = (ExitCode::SUCCESS, false);
        if let Some(mut child) = counted.child {
            if self.interrupt.only_us() {
                child.signal(libc::SIGTERM).ok();
            }
            let status = child.wait()?;
            let number = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
            failed = number != Some(0);
            if matches!(plan.counters.target, Target::Command(_)) {
                run.usage = child.usage().map(|usage| CommandUsage {
                    user: usage.user,
                    system: usage.system,
                    peak_memory: usage.peak_memory,
                });
            }
            code = ExitCode::from(number.and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
        }
        let counters = counters.collect();
        Ok(Done { run, counters, not_counted: reasons, code, failed })
    }

    /// Where the result goes: a file, standard output for what programs read, else standard error, as with perf.
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

    /// Writes the result, to a file whole or not at all.
    fn write(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
        if let Some(path) = self.args.output.as_ref().filter(|path| path.as_os_str() != "-") {
            return write_file(path, write)
                .with_context(|| format!("failed to write {}", path.display()));
        }
        let mut out = self.output()?;
        write(&mut *out)?;
        Ok(out.flush()?)
    }

    fn refusals(&self, refused: &[NotCounted]) {
        for events in refused {
            say!("not counted: {}: {}", events.names.join(", "), events.reason);
        }
    }
}

/// Counts of runs that failed may be of something else.
fn say_failed(title: &str, failed: usize, runs: usize) {
    if failed > 0 {
        say!("{title} ended with an error in {failed} of {runs} runs, which are counted, too");
    }
}

fn counter(event: &Event, user_only: bool) -> Counter {
    let name = match event.modifiers_text() {
        text if text.is_empty() => event.name().to_owned(),
        text => format!("{}:{text}", event.name()),
    };
    Counter { name, is_time: event.unit() == Unit::Nanoseconds, user_only }
}
