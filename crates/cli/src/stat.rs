//! `pyrograph stat`: counts events, and compares commands by them.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use pyrograph_analyze::{compare_counts, summarize};
use pyrograph_cache::user_folder;
use pyrograph_render::{CountStyle, IntervalTable, not_counted, write_count_changes, write_counts};
use pyrograph_session::{
    Condition, CountGaps, CountPlan, Counted, CountedRuns, Counting, Engine, Error, Filters,
    KeyKind, Ranges, Scope, Target, ValuedEvents, WantedValues, control_group, count_by_turns,
    counted_events, valued_events,
};
use pyrograph_terminal::{Interrupt, error_width};

use crate::ending;
use crate::live::forward_signal;
use crate::other_rights;
use crate::say::{misuse, say};
use crate::streams::Destination;
use crate::targets::{TargetArgs, target_or_machine};
use crate::units::{counted, one_of, parse_condition, parse_duration, value_of_event};

/// Count events of a command, processes or the whole machine: time, faults, cycles, tracepoints
#[derive(clap::Args)]
#[command(
    override_usage = "\
pyrograph stat [OPTIONS] [--] <COMMAND> [ARGUMENT]...
       \
       pyrograph stat [OPTIONS] -r <RUNS> -- <COMMAND>... --vs <COMMAND>...
       \
       pyrograph stat [OPTIONS] -p <PID,...>|-a|-C <CPUS>|--comm <NAME,...>|--cgroup <PATH> [-- <COMMAND>...]",
    after_help = "\
Examples:
  pyrograph stat -- ./app                     CPU time, faults, and what the CPU counts
  pyrograph stat -r 20 -- ./old --vs ./new    do they differ beyond noise?
  pyrograph stat -e 'sched:*' -a -d 5         tracepoints of the machine, by a pattern
  pyrograph stat -I 1 --by cpu -a             a line each second, each CPU for itself
  pyrograph stat --by cgroup -a -d 5          who uses the machine?
  pyrograph stat -e syscalls:sys_exit_read --hist ret --by comm -a -d 5     how much is read at once, by whom?
  pyrograph stat -e 'uprobe:./app:handle len=req->len' --value len --by req->kind -- ./app

The table goes to standard error, JSON and CSV to standard output. `pyrograph list` lists events."
)]
pub struct Args {
    /// Events: `a,b`, groups `{a,b}`, patterns `'sched:*'`, modifiers `cycles:u`, raw `r01c2` and
    /// `cpu/event=0x3c/`, places in programs as record -e takes them. Can be given several times [default: CPU time, switches, migrations, page faults, cycles,
    /// instructions, branches and their misses]
    #[arg(short, long, value_name = "EVENTS")]
    event: Vec<String>,

    /// Keep counts apart by cpu, core (with its hardware threads), socket, node (NUMA), thread or process (with -p
    /// including what it has started since), cgroup (version 2), comm (the thread's name); or by a value of the events: a
    /// field of a tracepoint, a variable at a place in a program
    #[arg(long, value_name = "WHAT")]
    by: Option<By>,

    /// Add up a value of the events in place of counting them
    #[arg(long, value_name = "VALUE", conflicts_with_all = ["hist", "lhist"])]
    value: Option<String>,

    /// Count events in ranges of a value, of powers of two
    #[arg(long, value_name = "VALUE", conflicts_with = "lhist")]
    hist: Option<String>,

    /// The same in ranges of equal size: ret,0,1000,100 has ten from 0 to 1000, and what is below and above
    #[arg(long, value_name = "VALUE,MIN,MAX,STEP", value_parser = parse_ranges)]
    lhist: Option<(String, Ranges)>,

    /// How long functions take, from their calls to their returns: their calls in ranges of nanoseconds, of powers of two.
    /// With --key, the same from one event of -e to another
    #[arg(long, conflicts_with_all = ["value", "hist", "lhist"])]
    latency: bool,

    /// A value that two events have: what the first begins, the second ends (sector of block:block_rq_issue and
    /// block:block_rq_complete), in whatever thread
    #[arg(long, value_name = "VALUE", requires = "latency")]
    key: Option<String>,

    /// Count only events for which this is true: 'ret > 0 && comm ~ "ng*"'
    #[arg(long, value_name = "CONDITION", value_parser = parse_condition)]
    filter: Option<Condition>,

    /// Only the first so many of what --by keeps apart
    #[arg(long, value_name = "N", requires = "by")]
    top: Option<usize>,

    /// A line for each interval: 1, 500ms
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

    /// Only processes and threads of these names; of the whole machine if nothing else is named
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    comm: Vec<String>,

    /// Only what is in this control group, or in one inside of it: its folder; of the whole machine if nothing else
    /// is named
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,

    /// Engine that counts tracepoints [default: ebpf where it is permitted, and gives the same counts, else perf]
    #[arg(long, value_name = "WHICH", value_parser = one_of([
        (Engine::InKernel, "ebpf", "Programs in the kernel"),
        (Engine::Perf, "perf", "perf_event_open"),
    ]))]
    engine: Option<Engine>,

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

    fn destination(&self) -> Destination<'_> {
        Destination { path: self.output.as_deref(), is_text: self.style() == CountStyle::Text }
    }

    /// Takes what is wanted of the events' values.
    fn wanted_values(&mut self) -> WantedValues {
        let (value, ranges) = match (self.value.take(), self.hist.take(), self.lhist.take()) {
            (Some(value), ..) => (Some(value), Ranges::None),
            (_, Some(value), _) => (Some(value), Ranges::Powers),
            (_, _, Some((value, ranges))) => (Some(value), ranges),
            _ if self.latency => (None, Ranges::Powers),
            _ => (None, Ranges::None),
        };
        let by = match &self.by {
            Some(By::Value(by)) => Some(by.clone()),
            _ => None,
        };
        let (filter, key) = (self.filter.take(), self.key.take());
        WantedValues { by, value, ranges, filter, latency: self.latency, key }
    }

    /// Keys of counts, if they are not values.
    fn kind(&self) -> Option<KeyKind> {
        match self.by {
            Some(By::Kind(kind)) => Some(kind),
            _ => None,
        }
    }

    fn filters(&mut self) -> anyhow::Result<Filters> {
        let group = self.cgroup.as_deref().map(control_group).transpose()?;
        Ok(Filters { names: std::mem::take(&mut self.comm), group, by_cpu: false })
    }
}

/// Keys by which counts are kept apart.
const KINDS: [(KeyKind, &str); 7] = [
    (KeyKind::Cpu, "cpu"),
    (KeyKind::Core, "core"),
    (KeyKind::Socket, "socket"),
    (KeyKind::Node, "node"),
    (KeyKind::Thread, "thread"),
    (KeyKind::Process, "process"),
    (KeyKind::Group, "cgroup"),
];

/// Keys of counts.
#[derive(Clone, Debug)]
enum By {
    /// One of the keys that all events have.
    Kind(KeyKind),
    /// A value of the events.
    Value(String),
}

impl FromStr for By {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kind = KINDS.iter().find(|(_, name)| *name == text);
        match kind {
            Some((kind, _)) => Ok(Self::Kind(*kind)),
            None => value_of_event(text)
                .map(Self::Value)
                .ok_or("a key or a value is missing".to_owned()),
        }
    }
}

/// Parses `VALUE,MIN,MAX,STEP`.
fn parse_ranges(text: &str) -> Result<(String, Ranges), String> {
    let parts: Vec<&str> = text.rsplitn(4, ',').collect();
    let [step, most, least, value] = parts[..] else {
        return Err("VALUE,MIN,MAX,STEP is expected: ret,0,1000,100".to_owned());
    };
    let number = |text: &str| {
        let parsed = text.trim().parse::<i64>();
        parsed.map_err(|_| format!("'{text}' is not a whole number"))
    };
    let (least, most, step) = (number(least)?, number(most)?, number(step)?);
    let span = i128::from(most) - i128::from(least);
    if step < 1 || span < 1 {
        return Err("MIN must be below MAX, and STEP above 0".to_owned());
    }
    let count = u32::try_from((span + i128::from(step) - 1) / i128::from(step)).ok();
    let Some(count) = count.filter(|count| *count <= MOST_RANGES) else {
        return Err(format!("more than {MOST_RANGES} ranges: take a larger STEP"));
    };
    Ok((value.trim().to_owned(), Ranges::Equal { least, size: step.unsigned_abs(), count }))
}

/// Maximum number of ranges of equal size, which all have room in the kernel's table.
const MOST_RANGES: u32 = 10_000;

/// Parses an interval. Numbers without a unit are seconds, as everywhere; those of `perf stat` are milliseconds, and begin at 100
/// in practice.
fn parse_interval(text: &str) -> Result<Duration, String> {
    if text.parse::<u64>().is_ok_and(|number| number >= 100) {
        return Err(format!(
            "a number without a unit is seconds here, and milliseconds in perf: {text}ms or {text}s"
        ));
    }
    match parse_duration(text)? {
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
    let Args { json, csv, markdown, output, .. } = &mut args;
    ending::set_flag(output.as_deref(), &mut [("json", json), ("csv", csv), ("md", markdown)])?;
    let wanted = args.wanted_values();
    if !wanted.is_empty() && args.event.is_empty() {
        let by = wanted.by.as_ref().map(|by| format!("--by {by}"));
        let option = by.unwrap_or_else(|| "--value, --hist, --latency or --filter".to_owned());
        let kinds = KINDS.map(|(_, name)| name).join(", ");
        misuse!("{option} is of values of events, which -e names (--by also takes {kinds})");
    }
    let (mut groups, mut values) = (Vec::new(), ValuedEvents::default());
    if args.event.is_empty() {
        args.event.push(CountPlan::USUAL_EVENTS.to_owned());
    }
    match wanted.is_empty() {
        true => {
            for text in &args.event {
                groups.extend(counted_events(text)?);
            }
        }
        false => {
            values = valued_events(&args.event, &wanted)?;
            groups.extend(values.events().iter().map(|event| vec![event.clone()]));
        }
    }
    if groups.is_empty() {
        misuse!("no events in -e");
    }
    let launch = args.target.launch(args.destination().is_standard_output())?;
    let other = split_command(&mut args.target.command)?;
    let filters = args.filters()?;
    let target = target_or_machine(args.target.take(), &filters, "count")?;
    filters.check_names(&target, !args.no_inherit)?;
    check(&args, &target, other.is_some())?;
    let scope = Scope {
        inherit: !args.no_inherit,
        filters,
        beside: args.target.beside(),
        duration: args.duration,
        launch,
        cache: user_folder(),
        ..Scope::new(target)
    };
    let plan = CountPlan {
        groups,
        values,
        cpus: args.target.cpu.take().map(|cpus| cpus.0),
        by: args.kind(),
        engine: args.engine,
        interval: args.interval,
        ..CountPlan::new(scope, [])
    };
    if plan.is_by_who_runs() && plan.cpus.is_some() {
        misuse!("-C counts CPUs, whatever runs there: leave it out, or --by, --comm and --cgroup");
    }
    args.destination().check()?;
    if let Some(reason) = other_rights::of_target(&plan.scope.target) {
        say!("{reason}");
    }
    let has_names = !plan.scope.filters.names.is_empty();
    let session = Session { args, has_names, interrupt: OnceCell::new() };
    match other {
        Some(other) => session.compare(&plan, other),
        None => session.count(&plan),
    }
}

/// Splits off the second command after `--vs`.
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
    Ok(())
}

struct Session {
    args: Args,
    /// True if `--comm` is given.
    has_names: bool,
    /// Signal handlers, installed once the first run has started: until then, Ctrl-C ends this program and the command
    /// immediately.
    interrupt: OnceCell<Interrupt>,
}

impl Session {
    fn count(&self, plan: &CountPlan) -> anyhow::Result<ExitCode> {
        let destination = self.args.destination();
        let width = error_width().filter(|_| destination.is_standard_error());
        let mut table = IntervalTable::new(self.args.style(), width);
        let mut out = match self.args.interval {
            Some(_) => destination.open()?,
            None => Box::new(io::sink()),
        };
        let title = plan.title();
        let [runs] = count_by_turns([plan], self.args.repeat.unwrap_or(1), |plan| {
            self.once(plan, &mut table, &mut *out)
        })?;
        if runs.runs.is_empty() {
            return Ok(ExitCode::FAILURE);
        }
        say_gaps(&runs.gaps);
        if self.args.interval.is_some() {
            not_counted(&runs.not_counted).for_each(|line| say!("{line}"));
            out.flush()?;
            return Ok(ExitCode::from(runs.code));
        }
        if runs.runs.len() > 1 {
            say_failed(&title, &runs);
        }
        let CountedRuns { counters, runs, not_counted, code, .. } = runs;
        let mut summary = summarize(counters, &runs);
        if self.args.by.is_some() && !self.args.kind().is_some_and(KeyKind::is_of_cpus) {
            summary.order_by_value();
        }
        if let Some(top) = self.args.top {
            let left_out = summary.keep_keys(top);
            if left_out > 0 {
                say!("{} more left out (--top {top})", counted(left_out as u64, "key"));
            }
        }
        destination
            .write(|out| write_counts(self.args.style(), &summary, &title, &not_counted, out))?;
        Ok(ExitCode::from(code))
    }

    fn compare(&self, plan: &CountPlan, other: Vec<OsString>) -> anyhow::Result<ExitCode> {
        let mut second = plan.clone();
        second.scope.target = Target::Command(other);
        let mut table = IntervalTable::new(CountStyle::Text, None);
        let titles = [plan.title(), second.title()];
        let rounds = self.args.repeat.unwrap_or(10);
        let [before, after] = count_by_turns([plan, &second], rounds, |plan| {
            self.once(plan, &mut table, &mut io::sink())
        })?;
        if before.runs.is_empty() {
            return Ok(ExitCode::FAILURE);
        }
        say_failed(&titles[0], &before);
        say_failed(&titles[1], &after);
        say_gaps(&after.gaps);
        let mut changes = compare_counts(&before.counters, &before.runs, &after.runs);
        let last = if after.runs.is_empty() { &before } else { &after };
        let refused = &last.not_counted[..];
        changes.retain(|change| !refused.iter().any(|of| of.names.contains(&change.name)));
        let titles = titles.each_ref().map(|title| &title[..]);
        self.args
            .destination()
            .write(|out| write_count_changes(self.args.style(), &changes, titles, refused, out))?;
        let is_over = |limit| changes.iter().any(|change| change.is_over(limit));
        Ok(match self.args.fail_over.is_some_and(is_over) {
            true => ExitCode::FAILURE,
            false => ExitCode::SUCCESS,
        })
    }

    /// Counts once until the target ends, the time is over, or the user stops it; `None` if the user has stopped it
    /// already.
    fn once(
        &self,
        plan: &CountPlan,
        table: &mut IntervalTable,
        out: &mut dyn Write,
    ) -> anyhow::Result<Option<Counted>> {
        if self.interrupt.get().is_some_and(Interrupt::asked) {
            return Ok(None);
        }
        let mut counting = Counting::open(plan).map_err(|error| self.explain(error))?;
        let interrupt = match self.interrupt.get() {
            Some(interrupt) => interrupt,
            None => {
                let interrupt = Interrupt::catch()?;
                self.interrupt.get_or_init(|| interrupt)
            }
        };
        let stopper = counting.stopper();
        let _stops = interrupt.on_signal(move || stopper.stop())?;
        while let Some(run) = counting.step()? {
            let elapsed = run.elapsed.as_secs_f64();
            table.line(elapsed, &summarize(plan.named_counters(), &[run]), out)?;
            out.flush()?;
        }
        let counted = counting.finish()?;
        if let Some(child) = &counted.child {
            forward_signal(child, interrupt);
        }
        Ok(Some(counted))
    }

    /// Adds to an error the flags that need what the kernel does not permit.
    fn explain(&self, error: Error) -> anyhow::Error {
        let flags = [
            (self.args.cgroup.is_some(), "--cgroup"),
            (self.has_names, "--comm"),
            (self.args.kind().is_some_and(|by| !by.is_of_cpus()), "--by"),
            (self.args.engine == Some(Engine::InKernel), "--engine ebpf"),
        ];
        let flags: Vec<&str> =
            flags.into_iter().filter(|(is_given, _)| *is_given).map(|(_, name)| name).collect();
        match &error {
            Error::Engine(_) if !flags.is_empty() => anyhow::Error::from(error)
                .context(format!("{} needs programs in the kernel", flags.join(", "))),
            Error::NeedsInKernel => crate::say::Usage(format!(
                "{} needs programs in the kernel: leave out --engine perf",
                flags.join(", ")
            ))
            .into(),
            _ => error.into(),
        }
    }
}

/// Reports events that are missing in the counts.
fn say_gaps(CountGaps { denied, lost, missed, unread }: &CountGaps) {
    if *unread > 0 {
        say!(
            "{} not counted: a value could not be read, for its memory was not there yet",
            counted(*unread, "event")
        );
    }
    if *denied > 0 {
        say!(
            "{} that the target has started {} not counted: another user's, or of a program that may not be read; as root \
             (sudo) all are",
            counted(*denied as u64, "process"),
            if *denied == 1 { "is" } else { "are" }
        );
    }
    if *lost > 0 {
        say!(
            "{} had no room in the kernel's tables and are not counted: too many threads, processes or groups",
            counted(*lost, "event")
        );
    }
    for (event, missed) in missed {
        say!(
            "{event}: {} came in the middle of counting another one and may be missing; --engine perf counts them, too",
            counted(*missed, "event")
        );
    }
}

/// Reports failed runs: their counts may be of other work.
fn say_failed(title: &str, CountedRuns { runs, failed, .. }: &CountedRuns) {
    let runs = runs.len();
    if *failed > 0 {
        say!("{title} ended with an error in {failed} of {runs} runs, which are counted, too");
    }
}
