//! Flags that select what is recorded.

use std::time::Duration;

use pyrograph_session::{
    Condition, Engine, Error, Measure, Question, Target, Trigger, Waits, WantedValues, capabilities,
};

use crate::filters::LEVELS;
use crate::say::misuse;
use crate::units::{parse_condition, parse_duration};

/// The flags. At most one question is asked; some can be measured in several ways.
#[derive(clap::Args)]
#[group(multiple = true)]
pub struct QuestionArgs {
    /// What to sample [default: cycles where the machine counts them, else cpu-clock]
    ///
    /// cycles, cpu-clock, task-clock, page-faults, context-switches, cpu-migrations, any hardware
    /// event name the kernel knows, or a tracepoint (sched:sched_switch). Modifiers as :u and :k.
    /// The options below are values, too: -e off-cpu is --off-cpu, -e syscalls=openat --syscalls=openat.
    /// uprobe:FILE:FUNCTION counts each time that a function of a program or library is called,
    /// uprobe:FILE:FUNCTION:LINE each time that a line of it begins, uretprobe:FILE:FUNCTION each time that it returns,
    /// usdt:FILE:PROVIDER:NAME each time that a program reaches a probe that its authors put into it,
    /// kprobe:FUNCTION and kretprobe:FUNCTION each call and return of a function of the kernel.
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

    /// Waits of the goroutines of a Go program: channels, mutexes, sleeps, the network (needs root)
    ///
    /// By the time from when a goroutine gives up its thread until a thread runs it again. The other waits are of threads,
    /// and a goroutine that waits has none. Goroutines that wait already when the recording begins are not seen until they
    /// have run, and those of Go's own runtime are left out. Each wait traps into the kernel twice.
    #[arg(long, group = "asked", conflicts_with = "frequency")]
    goroutines: bool,

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

    /// System calls, all or only some (names, %groups, and others as with trace -e), by their number, or by --time
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

    /// With -e: only events for which this is true, judged by the kernel: 'ret > 0 && name ~ "GET*"' (needs root)
    #[arg(long, value_name = "CONDITION", value_parser = parse_condition)]
    filter: Option<Condition>,

    /// With -e: add up a value of the events, a variable or a field, in place of counting them (needs root)
    #[arg(long, value_name = "VALUE")]
    value: Option<String>,

    /// What to measure of --file-io, --block-io and --syscalls
    #[arg(long, value_name = "WHAT", value_enum)]
    measure: Option<MeasureArg>,

    /// The same as --measure time
    #[arg(long, conflicts_with_all = ["bytes", "measure"])]
    time: bool,

    /// The same as --measure bytes
    #[arg(long, conflicts_with = "measure")]
    bytes: bool,
}

/// Values of `--measure`.
#[derive(Clone, Copy, clap::ValueEnum)]
enum MeasureArg {
    /// The time that they take
    Time,
    /// The bytes that are moved
    Bytes,
    /// Their number
    Count,
}

/// Options that are values of `-e`, too.
pub const QUESTIONS: [&str; 10] = [
    "off-cpu",
    "wall",
    "wakeup",
    "off-wake",
    "locks",
    "goroutines",
    "file-io",
    "block-io",
    "net",
    "alloc",
];

/// Returns the option that a value of `-e` stands for, if it is one of [`QUESTIONS`] or `syscalls[=NAMES]`.
pub fn named(value: &str) -> Option<String> {
    let is_calls = value == "syscalls" || value.starts_with("syscalls=");
    (is_calls || QUESTIONS.contains(&value)).then(|| format!("--{value}"))
}

impl QuestionArgs {
    /// The selected question. `count`: measure the number of events, unless another measure is requested. `by`: keep stacks
    /// apart by a value of the event.
    pub fn question(
        &self,
        count: bool,
        target: &Target,
        by: Option<&str>,
    ) -> anyhow::Result<Question> {
        let mut question = match self.by_values(by)? {
            Some(question) => question,
            None => self.asked(count, target)?,
        };
        let has_waits = matches!(question.waits(), Waits::Alone | Waits::WithWakers);
        if self.no_idle && !has_waits && *question.trigger() != Trigger::Locks {
            misuse!("--no-idle is for --off-cpu, --wall, --off-wake and --locks");
        }
        if let Some(min_block) = self.min_block {
            if question.waits() == Waits::None && !self.goroutines {
                misuse!(
                    "--min-block is for --off-cpu, --wall, --wakeup, --off-wake and --goroutines"
                );
            }
            question.min_block = min_block;
        }
        // With a value that keeps stacks apart, all are taken.
        if self.exact && !question.thins_stacks() && by.is_none() {
            misuse!("--exact is for --syscalls, --file-io, --alloc, tracepoints and probes");
        }
        question.no_idle = self.no_idle;
        question.exact = self.exact;
        Ok(question)
    }

    /// The question, if it is about values of an event.
    fn by_values(&self, by: Option<&str>) -> anyhow::Result<Option<Question>> {
        let (value, filter) = (self.value.clone(), self.filter.clone());
        let by = by.map(str::to_owned);
        let wanted = WantedValues { by, value, filter, ..WantedValues::default() };
        let Some(named) = &self.event else {
            if let Some(by) = &wanted.by {
                let levels = LEVELS.map(|(_, name, _)| name).join(", ");
                misuse!("--by {by}: levels are {levels}; values are of the event that -e names");
            }
            if !wanted.is_empty() {
                misuse!("--value and --filter are of values of the event that -e names");
            }
            return Ok(None);
        };
        if wanted.is_empty() {
            return Ok(None);
        }
        Ok(Some(Question::of_values(named, &wanted)?))
    }

    fn asked(&self, count: bool, target: &Target) -> anyhow::Result<Question> {
        let measured = self.file_io || self.block_io || self.syscalls.is_some();
        if (self.time || self.bytes || self.measure.is_some()) && !measured {
            misuse!("--measure, --time and --bytes are for --file-io, --block-io and --syscalls");
        }
        let measure = |default| match self.measure {
            Some(MeasureArg::Bytes) => Measure::Bytes,
            Some(MeasureArg::Time) => Measure::Time,
            Some(MeasureArg::Count) => Measure::Count,
            None if self.bytes => Measure::Bytes,
            None if self.time => Measure::Time,
            None if count => Measure::Count,
            None => default,
        };
        Ok(match self {
            Self { off_cpu: true, .. } => Question::waiting(Waits::Alone),
            Self { wall: true, .. } => Question::elapsed(),
            Self { wakeup: true, .. } => Question::waiting(Waits::Wakers),
            Self { off_wake: true, .. } => Question::waiting(Waits::WithWakers),
            Self { alloc: true, .. } => Question::allocations(target, self.live)
                .map_err(|error| not_found(error, self.live))?,
            Self { locks: true, .. } => Question::locks(),
            Self { goroutines: true, .. } => Question::goroutines(target)?,
            Self { net: true, .. } => Question::sockets(),
            Self { file_io: true, .. } => Question::file_io(measure(Measure::Time)),
            Self { block_io: true, .. } => Question::block_io(measure(Measure::Time)),
            Self { syscalls: Some(names), .. } => {
                let measure = measure(Measure::Count);
                if measure == Measure::Bytes {
                    misuse!(
                        "system calls are counted, or measured by time; bytes are for --file-io and --net"
                    );
                }
                Question::system_calls(names, measure)?
            }
            Self { page_faults: true, .. } => Question::of_event("page-faults")?,
            Self { event: Some(named), .. } => Question::of_event(named)?,
            _ => Question::default(),
        })
    }
}

/// Error for a C library of the target that was not found. If not even looking for it is permitted, probes are not
/// permitted either.
fn not_found(error: Error, live: bool) -> anyhow::Error {
    let unknown =
        Trigger::Allocations { path: std::path::PathBuf::new(), others: Vec::new(), live };
    match error {
        Error::SeveralProcesses => anyhow::anyhow!(
            "--alloc records one process, or with -a all that use this machine's C library"
        ),
        error => with_remedy(error, &unknown),
    }
}

/// Adds the command that grants the missing permission to an error. Errors that are not about permissions are unchanged.
fn with_remedy(error: Error, trigger: &Trigger) -> anyhow::Error {
    if !error.is_refusal() || rustix::process::geteuid().is_root() {
        return error.into();
    }
    let text = format!("{:#}", anyhow::Error::from(error));
    let Some(capabilities) = capabilities(trigger) else {
        return anyhow::anyhow!(
            "{text}; probes in programs (--alloc, uprobe:, uretprobe:, usdt:) need root: no capability permits them but \
             cap_sys_admin, which is as good as root"
        );
    };
    let program = std::env::current_exe().unwrap_or_else(|_| "pyrograph".into());
    anyhow::anyhow!("{text}; without root: sudo setcap {capabilities}=ep {}", program.display())
}

/// Adds to an error the flag that caused it, and what would permit it if permission was denied.
pub fn refused(error: Error, question: &Question) -> anyhow::Error {
    if matches!(error, Error::NeedsInKernel) {
        return needs_in_kernel();
    }
    if !error.is_refusal() {
        return error.into();
    }
    let error = with_remedy(error, question.trigger());
    match question.own_name() {
        Some(event) if event.contains(':') => error.context(format!("-e {event}")),
        Some("live") => error.context("--alloc --live"),
        Some(name) => error.context(format!("--{name}")),
        None => error,
    }
}

/// The requested engine if it supports the question; the in-kernel engine if only that one does.
pub fn possible_engine(
    asked: Option<Engine>,
    needs_kernel: bool,
) -> anyhow::Result<Option<Engine>> {
    match asked {
        Some(Engine::Perf) if needs_kernel => Err(needs_in_kernel()),
        None if needs_kernel => Ok(Some(Engine::InKernel)),
        engine => Ok(engine),
    }
}

/// Error for flags that need the in-kernel engine combined with flags that need the other one.
fn needs_in_kernel() -> anyhow::Error {
    let text =
        "only the in-kernel engine can record this: leave out --engine perf and --call-graph";
    crate::say::Usage(text.to_owned()).into()
}

/// Object of the question for the closing line: ` of cpu-clock`, ` for locks`.
pub fn of(question: &Question, event: &str) -> String {
    match question.trigger() {
        Trigger::None if question.waits() != Waits::None => String::new(),
        Trigger::PerfEvents if question.waits() != Waits::None => {
            " of the CPU clock and of waits".to_owned()
        }
        Trigger::Locks => " for locks".to_owned(),
        Trigger::Goroutines { .. } => " of goroutines".to_owned(),
        Trigger::Sockets => " through sockets".to_owned(),
        Trigger::Allocations { .. } => String::new(),
        Trigger::Calls { files: true, .. } => " that read or write files".to_owned(),
        Trigger::Calls { .. } => String::new(),
        Trigger::BlockRequests { .. } => " to block devices".to_owned(),
        _ => format!(" of {}", question.summed().unwrap_or(event)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_event_are_options() {
        let program = crate::command();
        let record = program.find_subcommand("record").expect("a subcommand");
        for name in QUESTIONS.iter().chain(&["syscalls"]) {
            assert!(record.get_arguments().any(|option| option.get_long() == Some(name)), "{name}");
        }
        assert_eq!(named("syscalls=openat").as_deref(), Some("--syscalls=openat"));
        assert_eq!(named("cycles"), None);
    }
}
