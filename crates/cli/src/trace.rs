//! `pyrograph trace`: system calls, one by one or as a table.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use pyrograph_analyze::{CallKey, call_table};
use pyrograph_cache::user_folder;
use pyrograph_format::thread_events;
use pyrograph_profile::{CallCount, CallCounts, ThreadAction, ThreadEvent};
use pyrograph_render::{CallStyle, write_call_table, write_thread_event};
use pyrograph_session::{
    Condition, CountedTime, Filters, LostCalls, PageFaults, Scope, TraceEnd, TracePlan,
    TracedEvent, Tracing, call_number, call_numbers, control_group, matches_pattern, names_event,
    traced_names,
};

use crate::ending;
use crate::live::{self, stop_on_signal};
use crate::say::{misuse, say};
use crate::streams::{Destination, open};
use crate::targets::{TargetArgs, target_or_machine};
use crate::units::{
    counted, grouped, one_of, parse_condition, parse_duration, parse_interval, parse_size,
};

/// Trace the system calls of a command, processes or the whole machine: one line each, or a table
#[derive(clap::Args)]
#[command(
    override_usage = "\
pyrograph trace [OPTIONS] [--] <COMMAND> [ARGUMENT]...
       \
       pyrograph trace [OPTIONS] -i <FILE>
       \
       pyrograph trace [OPTIONS] -p <PID,...>|-a|-C <CPUS>|--comm <NAME,...>|--cgroup <PATH> [-- <COMMAND>...]",
    after_help = "\
Examples:
  pyrograph trace -- ls                        a line for each call, as strace -f -tt -T -y has it
  pyrograph trace -s -- make                   a table of calls, errors and latencies, counted in the kernel
  pyrograph trace -e %file --failed -- ./app   which files does it not find?
  pyrograph trace -a --slower 10ms -d 5        slow calls of the machine
  pyrograph trace -e %file -e 'block:*' -- ls  tracepoints beside the calls, as they end
  pyrograph trace -e openat --stacks -- ls     from where is it called?
  pyrograph trace -F maj --no-syscalls -a      where does which program wait for pages of which file?
  pyrograph trace -s -i strace.txt             the table of what strace or perf has recorded

Lines and text tables go to standard error, or to the file that -o names; JSON and CSV, and what is read from a file,
to standard output."
)]
pub struct Args {
    /// Only these calls: names, patterns ('*at'), groups (%file %network %process %memory %desc %signal ...), and
    /// with ! before them all but these; and these events beside them: tracepoints (sched:sched_switch, 'block:*'),
    /// uprobe:FILE:FUNCTION, uprobe:FILE:FUNCTION:LINE, with values of variables behind a blank
    /// ('uprobe:FILE:main:9 n=req->len'), usdt:FILE:PROVIDER:NAME, kprobe:FUNCTION. If only events are named, no calls are shown. Can be
    /// given several times
    #[arg(short, long, value_name = "CALLS,EVENTS")]
    expr: Vec<String>,

    /// Only calls that fail
    #[arg(short = 'Z', long)]
    failed: bool,

    /// Only calls that take at least TIME (500us, 10ms)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    slower: Option<Duration>,

    /// Only calls and events for which this is true: 'ret < 0 && fd == 3', 'filename ~ "/etc/*"', 'duration > 1000000'
    /// (arguments by name, what is returned, nanoseconds); of events their fields and variables
    #[arg(long, value_name = "CONDITION", value_parser = parse_condition, conflicts_with_all = ["summary", "input"])]
    filter: Option<Condition>,

    /// The stack below each line, of the program and the kernel, with the names of functions, files and lines
    #[arg(long)]
    stacks: bool,

    /// Page faults beside the calls: those that read a page (maj), others (min), or all
    #[arg(short = 'F', long, value_name = "KIND", value_parser = one_of(FAULTS), num_args = 0..=1,
        default_missing_value = "all")]
    page_faults: Option<PageFaults>,

    /// No calls: events of -e and page faults alone
    #[arg(long)]
    no_syscalls: bool,

    /// The longest text in a line, in bytes; paths are written whole
    #[arg(long, value_name = "BYTES", default_value = "32", value_parser = clap::value_parser!(u32).range(..=1024))]
    string_limit: u32,

    /// A table of calls, errors and latencies in place of lines
    #[arg(short, long)]
    summary: bool,

    /// Tables for each
    #[arg(long, value_name = "WHAT", value_parser = one_of(KEYS), requires = "summary", default_value = "process")]
    by: CallKey,

    /// How many calls took how long, in powers of two
    #[arg(long, requires = "summary")]
    histogram: bool,

    /// Which errors there were, below each call
    #[arg(short, long)]
    verbose: bool,

    /// The table as JSON
    #[arg(long, requires = "summary", conflicts_with_all = ["csv", "markdown"])]
    json: bool,

    /// The table as CSV
    #[arg(long, requires = "summary", conflicts_with = "markdown")]
    csv: bool,

    /// The table in Markdown
    #[arg(long, requires = "summary")]
    markdown: bool,

    /// Read calls from a file in place of tracing: text of strace (-f -tt -T), or perf.data and text of perf script with
    /// raw_syscalls or syscalls tracepoints; - is standard input
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["pid", "all_cpus", "cpu", "command", "comm", "cgroup", "duration", "interval", "stacks", "page_faults", "no_syscalls"])]
    input: Option<PathBuf>,

    /// Tables for each so long a time (500ms, 10s)
    #[arg(short = 'I', long, value_name = "TIME", value_parser = parse_interval, requires = "summary")]
    interval: Option<Duration>,

    /// Where to write
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Memory for calls that wait to be written [default: 64M; 256M with --stacks]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    buffer: Option<usize>,

    #[command(flatten)]
    target: TargetArgs,

    /// Only processes and threads of these names; of the whole machine if nothing else is named
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    comm: Vec<String>,

    /// Only what is in this control group, or in one inside of it: its folder; of the whole machine if nothing else
    /// is named
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,

    /// Without the processes that the target starts
    #[arg(long)]
    no_inherit: bool,

    /// For how long: seconds, or with a unit (500ms, 10s, 5m) [default: until it ends, or Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
}

/// Kinds of page faults to trace.
const FAULTS: [(PageFaults, &str, &str); 3] = [
    (PageFaults { major: true, minor: true }, "all", "All"),
    (PageFaults { major: true, minor: false }, "maj", "Those for which a page is read"),
    (PageFaults { major: false, minor: true }, "min", "Those for which none is read"),
];

/// Keys of tables.
const KEYS: [(CallKey, &str, &str); 4] = [
    (CallKey::Thread, "thread", "Each thread"),
    (CallKey::Process, "process", "Each process"),
    (CallKey::Group, "cgroup", "Each control group"),
    (CallKey::None, "none", "All together"),
];

impl Args {
    fn style(&self) -> CallStyle {
        match self {
            Self { json: true, .. } => CallStyle::Json,
            Self { csv: true, .. } => CallStyle::Csv,
            Self { markdown: true, .. } => CallStyle::Markdown,
            _ => CallStyle::Text {
                errors: self.verbose,
                histogram: self.histogram,
                width: self.width(),
            },
        }
    }

    /// Width of the terminal that tables go to.
    fn width(&self) -> Option<usize> {
        match (&self.output, &self.input) {
            (Some(_), _) => None,
            (None, Some(_)) => pyrograph_terminal::width(),
            (None, None) => pyrograph_terminal::error_width(),
        }
    }

    fn plan(&mut self) -> anyhow::Result<TracePlan> {
        let filters = Filters {
            names: std::mem::take(&mut self.comm),
            group: self.cgroup.as_deref().map(control_group).transpose()?,
            by_cpu: false,
        };
        let launch = self.target.launch(self.destination().is_standard_output())?;
        let target = target_or_machine(self.target.take(), &filters, "trace")?;
        filters.check_names(&target, !self.no_inherit)?;
        if self.target.cpu.is_some() {
            misuse!("system calls are traced on all CPUs, for threads move: leave out -C");
        }
        let (mut calls, events) = traced_names(&self.expr, self.filter.as_ref())?;
        self.check_summary(&events)?;
        if self.no_syscalls {
            calls = Some(Vec::new());
        }
        let faults = self.page_faults.unwrap_or_default();
        if self.no_syscalls && events.is_empty() && !faults.any() {
            misuse!(
                "nothing to trace: with --no-syscalls, -e names events, or --page-faults which faults"
            );
        }
        let memory = self.buffer.unwrap_or(if self.stacks { 256 << 20 } else { 64 << 20 });
        let scope = Scope {
            inherit: !self.no_inherit,
            filters,
            beside: self.target.beside(),
            duration: self.duration,
            launch,
            cache: user_folder(),
            ..Scope::new(target)
        };
        Ok(TracePlan {
            scope,
            calls,
            events,
            faults,
            stacks: self.stacks,
            failed: self.failed,
            slower: self.slower.unwrap_or_default(),
            filter: self.filter.take(),
            counts: self.summary,
            name_groups: self.by == CallKey::Group,
            text: self.string_limit as usize,
            memory: u32::try_from(memory).unwrap_or(u32::MAX),
            interval: self.interval,
        })
    }

    /// Checks that the requested options are possible with a table.
    fn check_summary(&self, events: &[TracedEvent]) -> anyhow::Result<()> {
        if !self.summary {
            return Ok(());
        }
        if self.failed || self.slower.is_some() {
            misuse!(
                "--failed and --slower choose lines; the table of -s has errors and latencies of all"
            );
        }
        if self.stacks {
            misuse!(
                "the table of -s has no stacks: pyrograph record --syscalls counts calls by stack"
            );
        }
        if self.page_faults.is_some() {
            misuse!(
                "-s counts system calls: pyrograph stat -e minor-faults,major-faults counts page faults"
            );
        }
        if self.no_syscalls {
            misuse!("-s counts system calls, and --no-syscalls leaves them out");
        }
        if let Some(event) = events.first() {
            let name = event.name();
            misuse!(
                "-s counts system calls, and {name} is none: pyrograph stat -e {name} counts it"
            );
        }
        Ok(())
    }

    /// Returns the only word of the command if it is a file that is not executable, as the input to read.
    fn file_of_command(&mut self) -> Option<PathBuf> {
        let [word] = &self.target.command[..] else { return None };
        let path = PathBuf::from(word);
        let is_program =
            |of: std::fs::Metadata| !of.is_file() || of.permissions().mode() & 0o111 != 0;
        if path.metadata().is_ok_and(is_program) || !path.exists() {
            return None;
        }
        self.target.command.clear();
        Some(path)
    }

    /// Destination of the output. If the input is a file, there is no traced program whose output could be mixed with
    /// it.
    fn destination(&self) -> Destination<'_> {
        let is_text = matches!(self.style(), CallStyle::Text { .. }) && self.input.is_none();
        Destination { path: self.output.as_deref(), is_text }
    }

    fn write_table(&self, counts: &[CallCount], elapsed: Option<Duration>) -> anyhow::Result<()> {
        let table = call_table(counts, self.by, elapsed);
        self.destination().write(|out| write_call_table(self.style(), &table, out))
    }

    /// Writes the table of one interval.
    fn write_interval(&self, of: &CountedTime, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut table = call_table(&of.counts, self.by, Some(of.elapsed));
        table.end = Some(of.end);
        write_call_table(self.style(), &table, out)?;
        Ok(out.flush()?)
    }
}

/// Runs `pyrograph trace`.
///
/// # Errors
///
/// If nothing can be traced, or the result cannot be written.
pub fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    let Args { json, csv, markdown, output, summary, .. } = &mut args;
    let mut tables = [("json", json), ("csv", csv), ("md", markdown)];
    match summary {
        true => ending::set_flag(output.as_deref(), &mut tables)?,
        false => ending::check(output.as_deref(), &["txt"])?,
    }
    args.input = args.input.take().or_else(|| args.file_of_command());
    if let Some(path) = &args.input {
        return read(&args, path);
    }
    let plan = args.plan()?;
    args.destination().check()?;
    let mut out = match args.summary && args.interval.is_none() {
        true => Box::new(io::sink()) as Box<dyn Write>,
        false => args.destination().open()?,
    };
    let mut tracing = Tracing::open(&plan)?;
    let (interrupt, _stops) = stop_on_signal(tracing.stopper())?;
    if let Some(reason) = tracing.not_in_kernel() {
        say!(
            "{reason}: calls are traced by ptrace, which stops the program twice at each, as strace does"
        );
    }
    if tracing.unreadable_threads() > 0 {
        say!(
            "calls that {} are in are shown when they return: to show them now takes CAP_SYS_PTRACE",
            counted(tracing.unreadable_threads() as u64, "thread")
        );
    }
    if args.stacks && tracing.not_in_kernel().is_some() {
        say!(
            "no stacks are taken by ptrace: that needs programs in the kernel (Linux 5.15, root or CAP_BPF and CAP_PERFMON)"
        );
    }
    let offset = pyrograph_terminal::local_offset();
    loop {
        let more = tracing.step(&mut |event: ThreadEvent| -> anyhow::Result<()> {
            Ok(write_thread_event(&event, offset, &mut out)?)
        })?;
        out.flush()?;
        if let Some(counted) = tracing.take_counted() {
            args.write_interval(&counted, &mut *out)?;
        }
        if !more {
            break;
        }
    }
    let TraceEnd { lost, lost_records, counts, in_progress, child, exit_code } = tracing.finish();
    let is_call = plan.events.is_empty() && !plan.faults.any();
    say_lost(lost, if is_call { "call" } else { "call or event" });
    if lost_records > 0 {
        say!(
            "{} of processes were lost: stacks and places behind them may be wrong",
            counted(lost_records, "record")
        );
    }
    if args.summary {
        match args.interval {
            Some(_) => args.write_interval(&counts, &mut *out)?,
            None => args.write_table(&counts.counts, Some(counts.elapsed))?,
        }
        say_in_progress(&in_progress);
    }
    match exit_code {
        Some(code) => Ok(ExitCode::from(code)),
        None => live::exit_code(child, &interrupt, plan.scope.is_command()),
    }
}

/// Reads system calls from a file.
fn read(args: &Args, path: &Path) -> anyhow::Result<ExitCode> {
    let words = args.expr.iter().flat_map(|words| words.split(',')).map(str::trim);
    let (events, calls): (Vec<_>, Vec<_>) = words.partition(|word| names_event(word));
    let calls: Vec<String> = calls.into_iter().map(str::to_owned).collect();
    let only_events = calls.is_empty() && !events.is_empty();
    let numbers = match only_events {
        true => Some(Vec::new()),
        false => call_numbers(&calls)?,
    };
    let is_named = |name: &str| match (&numbers, call_number(name)) {
        (None, _) => true,
        (Some(numbers), Some(number)) => numbers.contains(&number),
        (Some(_), None) => false,
    };
    let is_wanted = |event: &ThreadEvent| match &event.action {
        ThreadAction::Call(call) => {
            let took = Duration::from_nanos(call.duration.unwrap_or(0));
            is_named(&call.name)
                && (!args.failed || call.value.is_some_and(|value| (-4095..0).contains(&value)))
                && args.slower.is_none_or(|slower| took >= slower)
        }
        ThreadAction::Event { name, .. } => {
            args.expr.is_empty() || events.iter().any(|event| matches_pattern(event, name))
        }
        ThreadAction::Fault { .. } => args.expr.is_empty(),
        _ => !only_events && !args.failed && args.slower.is_none(),
    };
    let mut out = match args.summary {
        true => Box::new(io::sink()) as Box<dyn Write>,
        false => args.destination().open()?,
    };
    let mut counts = CallCounts::default();
    let mut span: Option<(u64, u64)> = None;
    let mut written = Ok(());
    let warnings = thread_events(open(path)?, &mut |event| {
        let end = match &event.action {
            ThreadAction::Call(call) => event.time + call.duration.unwrap_or(0),
            _ => event.time,
        };
        if event.time > 0 {
            let (first, last) = span.unwrap_or((event.time, end));
            span = Some((first.min(event.time), last.max(end)));
        }
        if !is_wanted(&event) || written.is_err() {
            return;
        }
        match args.summary {
            true => CallCount::of(&event).into_iter().for_each(|count| counts.add(count)),
            false => written = write_thread_event(&event, 0, &mut out),
        }
    })?;
    written?;
    out.flush()?;
    for (_, line) in warnings.lines() {
        say!("{line}");
    }
    if args.summary {
        let elapsed = span.map(|(first, last)| Duration::from_nanos(last - first));
        args.write_table(&counts.into_rows(), elapsed.filter(|time| !time.is_zero()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reports calls that have not returned. Without this, a program that only waits would have an empty table.
fn say_in_progress(calls: &BTreeMap<String, u64>) {
    if calls.is_empty() {
        return;
    }
    let mut names: Vec<_> = calls.iter().collect();
    names.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let (shown, others) = names.split_at(names.len().min(4));
    let mut text: Vec<_> = shown.iter().map(|(name, count)| format!("{name} {count}")).collect();
    if !others.is_empty() {
        text.push(format!("others {}", others.iter().map(|(_, count)| **count).sum::<u64>()));
    }
    let all = calls.values().sum();
    let all = counted(all, "call");
    say!("not in the table: {all} that had not returned in the end ({})", text.join(", "));
}

fn say_lost(LostCalls { calls, counts, memory, nested, unread }: LostCalls, one: &str) {
    let several = |count: u64| match count {
        1 => format!("1 {one}"),
        _ => format!(
            "{} {}",
            grouped(count),
            one.replace("call", "calls").replace("event", "events")
        ),
    };
    if calls > 0 {
        say!(
            "{} were lost: they came faster than they were written; --buffer gives more memory, -e fewer calls, -s counts \
             without lines",
            several(calls)
        );
    }
    if counts > 0 {
        say!(
            "{} were not counted: too many threads made too many kinds of calls",
            counted(counts, "call")
        );
    }
    if memory > 0 {
        say!("{} were not seen: the kernel had no memory for them", counted(memory, "call"));
    }
    if nested > 0 {
        say!(
            "up to {} were not seen: on the same CPU, another was just being taken",
            several(nested)
        );
    }
    if unread > 0 {
        say!(
            "{} left out: a value of --filter could not be read, for its memory was not there yet",
            several(unread)
        );
    }
}
