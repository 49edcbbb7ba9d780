//! What a recording is to answer: flags, and what they come to.

mod calls;
mod places;

#[cfg(feature = "bpf")]
pub use calls::call_name;
pub use places::NotThere;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use pyrograph_record::{Event, Target};
use pyrograph_symbol::StaticProbe;

use crate::capabilities::{is_refused, with_remedy};
use crate::needed;
use crate::say::misuse;
use crate::units::parse_duration;

/// The flags. At most one question is asked; some can be measured in several ways.
#[derive(clap::Args)]
#[group(multiple = true)]
pub struct QuestionArgs {
    /// What to sample [default: cycles where the machine counts them, else cpu-clock]
    ///
    /// cycles, cpu-clock, task-clock, page-faults, context-switches, cpu-migrations, any hardware
    /// event name the kernel knows, or a tracepoint (sched:sched_switch). Modifiers as :u and :k.
    /// uprobe:FILE:FUNCTION counts each time that a function of a program or library is called,
    /// uretprobe:FILE:FUNCTION each time that it returns, usdt:FILE:PROVIDER:NAME each time that a
    /// program reaches a probe that its authors put into it.
    #[arg(short, long, value_name = "EVENT", group = "asked")]
    event: Option<String>,

    /// Waits, by the time from when a thread stops to run until it runs again (needs root)
    #[arg(long, group = "asked", conflicts_with = "frequency")]
    off_cpu: bool,

    /// Elapsed time: waits, and samples of the CPU clock for threads that run (needs root)
    #[arg(long, group = "asked")]
    wall: bool,

    /// Wakers: stacks of the threads that wake others, by the time that those waited (needs root)
    #[arg(long, group = "asked", conflicts_with = "frequency")]
    wakeup: bool,

    /// Waits and, after a --, the stacks of the wakers (needs root)
    #[arg(long, group = "asked", conflicts_with = "frequency")]
    off_wake: bool,

    /// The shortest wait that counts [default: 1us]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    min_block: Option<Duration>,

    /// Waits for locks, in the kernel and in programs, by the time until the thread has the lock; waits for
    /// conditions are marked (needs root)
    #[arg(long, group = "asked", conflicts_with = "frequency")]
    locks: bool,

    /// With --off-cpu, --wall, --off-wake and --locks: leave out waits for work
    ///
    /// Waits for conditions in programs, and in system calls that wait for requests, events, signals and
    /// children: epoll_wait, poll, select, accept, wait4 and their variants.
    #[arg(long)]
    no_idle: bool,

    /// Take every stack of --syscalls, --alloc, tracepoints and probes, however many there are
    ///
    /// Otherwise a CPU with more than 2,000 a second samples their stacks, each of which stands for all events of
    /// its thread since the one before: sums of threads are exact.
    #[arg(long)]
    exact: bool,

    /// Reads and writes of files, by the time that they take, --bytes or --count (needs root)
    #[arg(long, group = "asked", conflicts_with = "frequency")]
    file_io: bool,

    /// Requests to block devices, by the time that they take, --bytes or --count (needs root)
    #[arg(long, group = "asked", conflicts_with = "frequency")]
    block_io: bool,

    /// Bytes sent and received through sockets (needs root)
    #[arg(long, group = "asked", conflicts_with = "frequency")]
    net: bool,

    /// System calls, all or only the named ones, by their number, or by --time
    #[arg(long, value_name = "NAMES", group = "asked", conflicts_with = "frequency",
        num_args = 0..=1, require_equals = true, default_missing_value = "")]
    syscalls: Option<String>,

    /// Memory allocations, by the bytes requested from malloc and similar functions (needs root)
    ///
    /// Each call traps into the kernel, which takes one to some microseconds whatever is recorded; the recording says
    /// how long on this machine. --page-faults shows which code touches new memory, and is cheap.
    #[arg(long, group = "asked", conflicts_with = "frequency")]
    alloc: bool,

    /// With --alloc: only memory that is not freed before the recording ends
    #[arg(long, requires = "alloc")]
    live: bool,

    /// Page faults, such as first accesses to memory. The same as -e page-faults
    #[arg(long, group = "asked")]
    page_faults: bool,

    /// Measure --file-io, --block-io or --syscalls by the time that they take
    #[arg(long, conflicts_with = "bytes")]
    time: bool,

    /// Measure --file-io or --block-io by the bytes that are moved
    #[arg(long)]
    bytes: bool,
}

/// What makes the in-kernel engine count a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// The event that is opened.
    Event,
    /// A tracepoint.
    Tracepoint { category: String, name: String },
    /// A function of a file, and how far behind its start; or that it returns.
    Function { path: PathBuf, name: String, offset: usize, returns: bool },
    /// The probes of this name that stand in a file.
    Places { path: PathBuf, places: Vec<StaticProbe> },
    /// The functions of a C library that give memory; `live`: only what is not given back.
    Allocations { path: PathBuf, live: bool },
    /// System calls by their numbers; `files`: only those that read or write regular files.
    Calls { numbers: Vec<u32>, measure: Measure, files: bool },
    /// Requests to block devices.
    BlockRequests { measure: Measure },
    /// Waits for locks.
    Locks,
    /// What sockets send and receive.
    Sockets,
    /// Nothing but waits.
    Nothing,
}

/// What calls and requests are measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// How many there are.
    Count,
    /// How long they take.
    Time,
    /// How many bytes they move.
    Bytes,
}

/// Which waits are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// Where threads wait.
    Alone,
    /// Where they wait, and who wakes them.
    WithWakers,
    /// Who wakes them.
    Wakers,
}

/// What the flags come to.
#[derive(Clone, Debug)]
pub struct Question {
    /// The event, if one was named.
    pub event: Option<Event>,
    /// What the in-kernel engine is to look at.
    pub probe: Probe,
    /// Waits count, if they are as long as this.
    pub waits: Option<(Waits, Duration)>,
    /// Events are counted, and not what they stand for.
    pub counts_events: bool,
    /// Waits for something to do are left out.
    pub no_idle: bool,
    /// The stack of each event is taken, however many there are.
    pub exact: bool,
    /// Nothing but the in-kernel engine can answer.
    pub in_kernel_only: bool,
    /// What is counted and its unit, where it is not the event.
    shown: Option<(String, &'static str)>,
    /// What happens, one of them.
    noun: &'static str,
}

impl Question {
    /// Reads the flags; `count`: how often things happen is asked for.
    ///
    /// # Errors
    ///
    /// If what is named is not there.
    pub fn new(args: &QuestionArgs, count: bool, target: &Target) -> anyhow::Result<Self> {
        let mut question = Self::asked(args, count, target)?;
        let waits = question.waits.is_some_and(|(waits, _)| waits != Waits::Wakers);
        if args.no_idle && !waits && question.probe != Probe::Locks {
            misuse!("--no-idle is for --off-cpu, --wall, --off-wake and --locks");
        }
        if args.min_block.is_some() && question.waits.is_none() {
            misuse!("--min-block is for --off-cpu, --wall, --wakeup and --off-wake");
        }
        let has_each = !matches!(
            question.probe,
            Probe::Event
                | Probe::BlockRequests { .. }
                | Probe::Locks
                | Probe::Sockets
                | Probe::Nothing
        );
        if args.exact && !has_each {
            misuse!("--exact is for --syscalls, --file-io, --alloc, tracepoints and probes");
        }
        question.counts_events = count;
        question.no_idle = args.no_idle;
        question.exact = args.exact;
        Ok(question)
    }

    fn asked(args: &QuestionArgs, count: bool, target: &Target) -> anyhow::Result<Self> {
        let measured = args.file_io || args.block_io || args.syscalls.is_some();
        if (args.time || args.bytes) && !measured {
            misuse!("--time and --bytes say how to measure --file-io, --block-io or --syscalls");
        }
        let measure = |default| match args {
            _ if args.bytes => Measure::Bytes,
            _ if args.time => Measure::Time,
            _ if count => Measure::Count,
            _ => default,
        };
        if let Some((waits, name)) = args.waits() {
            let mut question = Self::named(name, "ns", "wait", Probe::Nothing);
            let shortest = args.min_block.unwrap_or(Duration::from_micros(1));
            question.waits = Some((waits, shortest));
            if args.wall {
                question.event = Some(Event::parse("cpu-clock")?);
                question.probe = Probe::Event;
                question.noun = "sample";
            }
            return Ok(question);
        }
        if args.alloc {
            let (live, name) = (args.live, if args.live { "live" } else { "alloc" });
            // Where it may not even be looked for, probes are not permitted either.
            let unknown = Probe::Allocations { path: PathBuf::new(), live };
            let path = c_library(target).map_err(|error| match is_refused(&error) {
                true => NotThere::new(format!("{:#}", with_remedy(error, &unknown))).into(),
                false => error,
            })?;
            let probe = Probe::Allocations { path, live };
            return Ok(Self::named(name, "bytes", "allocation", probe));
        }
        if args.locks {
            return Ok(Self::named("locks", "ns", "wait", Probe::Locks));
        }
        if args.net {
            return Ok(Self::named("net", "bytes", "transfer", Probe::Sockets));
        }
        if args.file_io {
            let measure = measure(Measure::Time);
            let numbers = calls::of_files();
            let probe = Probe::Calls { numbers, measure, files: true };
            return Ok(Self::named("file-io", measure.unit("calls"), "system call", probe));
        }
        if args.block_io {
            let measure = measure(Measure::Time);
            let probe = Probe::BlockRequests { measure };
            return Ok(Self::named("block-io", measure.unit("requests"), "request", probe));
        }
        if let Some(names) = &args.syscalls {
            return Self::calls(names, measure(Measure::Count));
        }
        match args.event.as_deref() {
            _ if args.page_faults => Self::event("page-faults"),
            Some(named) => Self::event(named),
            None => Ok(Self { in_kernel_only: false, ..Self::unnamed() }),
        }
    }

    fn unnamed() -> Self {
        Self {
            event: None,
            probe: Probe::Event,
            waits: None,
            counts_events: false,
            no_idle: false,
            exact: false,
            in_kernel_only: false,
            shown: None,
            noun: "sample",
        }
    }

    /// One that only the in-kernel engine can answer.
    fn named(name: &str, unit: &'static str, noun: &'static str, probe: Probe) -> Self {
        let shown = Some((name.to_owned(), unit));
        Self { probe, in_kernel_only: true, shown, noun, ..Self::unnamed() }
    }

    fn calls(names: &str, measure: Measure) -> anyhow::Result<Self> {
        if measure == Measure::Bytes {
            misuse!(
                "system calls are counted, or measured with --time; bytes are for --file-io and --net"
            );
        }
        let numbers = calls::numbers(names)?;
        let probe = Probe::Calls { numbers, measure, files: false };
        let mut question = Self::named("syscalls", measure.unit("calls"), "system call", probe);
        // Where it is only to be counted, perf_event can do it, too, but does not tell which calls. It cannot where
        // the tracepoint's number may not be read: without root.
        if measure == Measure::Count
            && names.is_empty()
            && let Ok(event) = Event::parse("raw_syscalls:sys_enter")
        {
            question.in_kernel_only = false;
            question.event = Some(event);
        }
        Ok(question)
    }

    /// The event of this name, or a place in a program.
    fn event(named: &str) -> anyhow::Result<Self> {
        for (prefix, returns) in [("uprobe:", false), ("uretprobe:", true)] {
            if let Some(place) = named.strip_prefix(prefix) {
                return Ok(Self::named(named, "count", "hit", places::function(place, returns)?));
            }
        }
        if let Some(place) = named.strip_prefix("usdt:") {
            return Ok(Self::named(named, "count", "hit", places::static_probe(place)?));
        }
        let event = Event::parse(named)?;
        let mut question = Self::unnamed();
        if let Some((category, name)) =
            event.name().split_once(':').filter(|_| event.is_tracepoint())
        {
            question.shown = Some((event.name().to_owned(), "count"));
            question.probe =
                Probe::Tracepoint { category: category.to_owned(), name: name.to_owned() };
        }
        question.event = Some(event);
        Ok(question)
    }

    /// The event to be opened for the in-kernel engine: where a probe triggers, it only tells of
    /// processes.
    pub fn event_beside_probe(&self) -> anyhow::Result<Option<Event>> {
        match self.probe {
            Probe::Event => Ok(self.event.clone()),
            _ => Ok(Some(Event::parse("dummy")?)),
        }
    }

    /// An error, with the flag that asked for it and what would permit it, if it was not permitted.
    pub fn refused(&self, error: anyhow::Error) -> anyhow::Error {
        if !is_refused(&error) {
            return error;
        }
        let error = with_remedy(error, &self.probe);
        match self.shown.as_ref().map(|(name, _)| name.as_str()) {
            Some(event) if event.contains(':') => error.context(format!("-e {event}")),
            Some("live") => error.context("--alloc --live"),
            Some(name) => error.context(format!("--{name}")),
            None => error,
        }
    }

    /// What is counted, as the user asked for it; `event` is what is open.
    pub fn name<'a>(&'a self, event: &'a Event) -> &'a str {
        self.shown.as_ref().map_or_else(|| event.name(), |(name, _)| name)
    }

    /// Its unit, where it is not the event's.
    pub fn unit(&self) -> Option<&'static str> {
        self.shown.as_ref().map(|(_, unit)| *unit)
    }

    /// Whether the in-kernel engine tells more where others can answer, too: the names of calls.
    pub fn tells_more_in_kernel(&self) -> bool {
        matches!(self.probe, Probe::Calls { .. })
    }

    /// The function whose returns are counted, if that was asked for.
    pub fn returned(&self) -> Option<&str> {
        match &self.probe {
            Probe::Function { name, returns: true, .. } => Some(name),
            _ => None,
        }
    }

    /// Whether requests for memory are counted.
    pub fn is_of_allocations(&self) -> bool {
        matches!(self.probe, Probe::Allocations { .. })
    }

    /// What the things are of that were counted, as the closing line has it: ` of cpu-clock`, ` for locks`.
    pub fn of(&self, event: &str) -> String {
        match self.probe {
            _ if self.waits.is_some() && self.probe == Probe::Nothing => String::new(),
            Probe::Event if self.waits.is_some() => " of the CPU clock and of waits".to_owned(),
            Probe::Locks => " for locks".to_owned(),
            Probe::Sockets => " through sockets".to_owned(),
            Probe::Allocations { .. } => String::new(),
            Probe::Calls { files: true, .. } => " that read or write files".to_owned(),
            Probe::Calls { .. } => String::new(),
            Probe::BlockRequests { .. } => " to block devices".to_owned(),
            _ => format!(" of {event}"),
        }
    }

    /// What happens, one of them: a sample, a wait, a call.
    pub fn noun(&self) -> &'static str {
        self.noun
    }
}

impl QuestionArgs {
    /// Which waits are asked for, and what they are called.
    fn waits(&self) -> Option<(Waits, &'static str)> {
        match self {
            Self { off_cpu: true, .. } => Some((Waits::Alone, "off-cpu")),
            Self { wall: true, .. } => Some((Waits::Alone, "wall")),
            Self { wakeup: true, .. } => Some((Waits::Wakers, "wakeup")),
            Self { off_wake: true, .. } => Some((Waits::WithWakers, "off-wake")),
            _ => None,
        }
    }
}

impl Measure {
    /// In what it is measured, where `things` are counted.
    fn unit(self, things: &'static str) -> &'static str {
        match self {
            Self::Count => things,
            Self::Time => "ns",
            Self::Bytes => "bytes",
        }
    }
}

/// The C library of the process, or this machine's; the program itself if it has none.
fn c_library(target: &Target) -> anyhow::Result<PathBuf> {
    let process = match target {
        Target::Processes(pids) if pids.len() > 1 => {
            bail!("--alloc records one process, or with -a all that use this machine's C library")
        }
        Target::Processes(pids) => {
            pids.first().map_or_else(|| "self".to_owned(), ToString::to_string)
        }
        Target::System => "self".to_owned(),
        Target::Command(argv) => {
            let files: Vec<_> =
                argv.first().into_iter().flat_map(|program| needed::files(program)).collect();
            let library = allocator(&files).or(files.first());
            // As it will be said when it is to be run.
            let missing = || pyrograph_record::Error::Command {
                program: argv
                    .first()
                    .map(|name| name.to_string_lossy().into_owned())
                    .unwrap_or_default(),
                source: std::io::Error::from_raw_os_error(libc::ENOENT),
            };
            return Ok(library.cloned().ok_or_else(missing)?);
        }
    };
    let maps = match std::fs::read_to_string(format!("/proc/{process}/maps")) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!(NotThere::new(format!("no process has the PID {process}")))
        }
        maps => maps.with_context(|| format!("the mappings of process {process}"))?,
    };
    let paths: Vec<PathBuf> =
        maps.lines().filter_map(|line| Some(line[line.find('/')?..].into())).collect();
    Ok(match allocator(&paths) {
        Some(path) => format!("/proc/{process}/root{}", path.display()).into(),
        None => format!("/proc/{process}/exe").into(),
    })
}

/// The library among these whose `malloc` is called: one that was put before the C library, or that.
fn allocator(paths: &[PathBuf]) -> Option<&PathBuf> {
    const LIBRARIES: [&str; 6] =
        ["libjemalloc.so", "libtcmalloc", "libmimalloc.so", "libc.so", "libc-", "ld-musl"];
    let is_named = |path: &PathBuf, library: &str| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(library))
    };
    LIBRARIES.iter().find_map(|library| paths.iter().find(|path| is_named(path, library)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_process_has_a_c_library() {
        let pid = i32::try_from(std::process::id()).expect("a small number");
        let path = c_library(&Target::Processes(vec![pid])).expect("its mappings can be read");
        assert!(path.exists(), "{}", path.display());
    }
}
