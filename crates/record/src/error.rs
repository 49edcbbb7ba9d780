//! Errors, and notices that the user should know though nothing failed.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::event::EventError;
use crate::permission::NotPermitted;

/// Why nothing can be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The event's name is not known.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The kernel or the machine does not count this event.
    #[error("event '{event}' is not counted on this machine: {}", why_unsupported(.source))]
    Unsupported {
        /// The event.
        event: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Not allowed.
    #[error(transparent)]
    NotPermitted(#[from] NotPermitted),
    /// Neither user nor kernel mode is to be sampled.
    #[error("nothing to sample: both user and kernel mode are excluded")]
    NothingToSample,
    /// An option's value is out of its range.
    #[error("{option} {value} is out of range: {range}")]
    OutOfRange {
        /// Which.
        option: &'static str,
        /// Its value.
        value: u64,
        /// The range that can be asked for.
        range: String,
    },
    /// No process has this number.
    #[error("no process has the PID {pid}")]
    NoSuchProcess {
        /// The number.
        pid: i32,
    },
    /// No thread has this number.
    #[error("no thread has the TID {tid}")]
    NoSuchThread {
        /// The number.
        tid: i32,
    },
    /// The machine has no such CPU, or it is offline.
    #[error("CPU {cpu} is not online; those that are: {online}")]
    NoSuchCpu {
        /// The number.
        cpu: u32,
        /// Those that are, as a list.
        online: String,
    },
    /// The command is empty.
    #[error("no command to run")]
    NoCommand,
    /// The command could not be started.
    #[error("failed to run '{program}'")]
    Command {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// One file descriptor is needed for each thread and CPU.
    #[error(
        "too many files: {threads} threads on {cpus} CPUs need {needed} file descriptors, {limit} are allowed; \
         to permit it: ulimit -n {needed} (as root), or sample fewer processes, or the whole machine"
    )]
    TooManyFiles {
        /// How many threads are sampled.
        threads: usize,
        /// How many CPUs there are.
        cpus: usize,
        /// How many file descriptors this takes.
        needed: u64,
        /// `RLIMIT_NOFILE`.
        limit: u64,
    },
    /// Not even the smallest buffers could be had.
    #[error(
        "not enough memory for buffers of {bytes} bytes for each of {cpus} CPUs: kernel.perf_event_mlock_kb is \
         {mlock_kb}; to permit more: sudo sysctl kernel.perf_event_mlock_kb={permit_kb}"
    )]
    Buffer {
        /// Size of one buffer.
        bytes: usize,
        /// How many CPUs there are.
        cpus: usize,
        /// Memory that a user may lock for each CPU, in KiB.
        mlock_kb: u64,
        /// The value that would do.
        permit_kb: u64,
    },
    /// A system call failed that should not.
    #[error("{doing}")]
    System {
        /// Actions that need a permission.
        doing: String,
        /// Why it was not.
        source: io::Error,
    },
}

impl Error {
    /// `doing` failed for the reason in `errno`.
    pub(crate) fn last_os(doing: impl Into<String>) -> Self {
        Self::System { doing: doing.into(), source: io::Error::last_os_error() }
    }

    /// `doing` failed.
    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::System { doing, source }
    }
}

/// ENOENT and EOPNOTSUPP are what the kernel answers where there is no counter.
fn why_unsupported(source: &io::Error) -> String {
    match source.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
            "it has no counter for it, as is usual in virtual machines (cpu-clock is always there)"
                .to_owned()
        }
        _ => source.to_string(),
    }
}

/// Notices that the user should know, though the recording goes on. Each is one line of text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// There is no hardware counter for cycles: the kernel's timer is used.
    ClockForCycles,
    /// Kernel mode is left out, since it is not permitted.
    KernelExcluded(NotPermitted),
    /// The kernel allows fewer samples a second than asked for.
    RateLowered {
        /// Asked for.
        asked: u64,
        /// Allowed.
        allowed: u64,
    },
    /// Samples would take too much of this machine.
    RateTooHigh {
        /// How many samples a second were asked for.
        asked: u64,
        /// How many are taken.
        possible: u64,
        /// Time of each, as was measured.
        cost: Duration,
    },
    /// There are so many threads that one event for each would miss much: each CPU is sampled, and samples of
    /// others are dropped.
    ManyThreads {
        /// How many.
        threads: usize,
    },
    /// There are so many threads that one event for each misses much, and sampling all CPUs is not permitted.
    ManyThreadsApart {
        /// How many.
        threads: usize,
        /// How many samples a second of each are taken.
        rate: u64,
    },
    /// The buffers are smaller than they should be, so that more may be lost.
    BufferReduced {
        /// How many bytes each should have had.
        wanted: usize,
        /// How many it has.
        bytes: usize,
        /// Memory that a user may lock for each CPU, in KiB.
        mlock_kb: u64,
    },
    /// Threads that start later are not followed: the kernel (before 5.13) can only follow
    /// both threads and processes.
    ThreadsNotFollowed,
    /// So many processes that the sampled ones have started belong to other users.
    ChildrenNotPermitted {
        /// How many.
        count: usize,
    },
    /// The mappings of so many processes could not be read, so that their frames have no names.
    ProcessesUnreadable {
        /// How many.
        count: usize,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClockForCycles => {
                write!(f, "this machine has no counter for cycles: sampling cpu-clock")
            }
            Self::KernelExcluded(reason) => write!(f, "kernel frames are left out: {reason}"),
            Self::RateLowered { asked, allowed } => write!(
                f,
                "sampling {allowed} times a second, not {asked}: kernel.perf_event_max_sample_rate is {allowed}; \
                 to permit more: sudo sysctl kernel.perf_event_max_sample_rate={asked}"
            ),
            Self::RateTooHigh { asked, possible, cost } => write!(
                f,
                "sampling {possible} times a second, not {asked}: a sample takes {:.1} µs on this machine, and all \
                 samples together are to take a quarter of its time at most",
                cost.as_secs_f64() * 1e6
            ),
            Self::ManyThreads { threads } => write!(
                f,
                "{threads} threads: sampling all CPUs and keeping the samples of these threads, since most of them \
                 run for less than the time between two samples"
            ),
            Self::ManyThreadsApart { threads, rate } => write!(
                f,
                "{threads} threads: each is sampled on each CPU once it has run there for {:.1} ms, and what it runs \
                 for before is in no sample; to sample all CPUs instead: sudo sysctl kernel.perf_event_paranoid=0 \
                 (or run as root)",
                1e3 / *rate as f64
            ),
            Self::BufferReduced { wanted, bytes, mlock_kb } => write!(
                f,
                "each CPU's buffer has {} KiB, not {}: kernel.perf_event_mlock_kb is {mlock_kb}; \
                 to permit more: sudo sysctl kernel.perf_event_mlock_kb={}",
                bytes / 1024,
                wanted / 1024,
                wanted / 1024 + 4
            ),
            Self::ThreadsNotFollowed => {
                write!(
                    f,
                    "threads that start later are not sampled: this needs Linux 5.13, or children to be followed"
                )
            }
            Self::ChildrenNotPermitted { count } => write!(
                f,
                "{count} of the processes that were started by the recorded ones belong to other users and are not \
                 recorded; run as root to record them, too"
            ),
            Self::ProcessesUnreadable { count: 1 } => {
                f.write_str("the mappings of 1 process could not be read: its frames have no names")
            }
            Self::ProcessesUnreadable { count } => {
                write!(
                    f,
                    "the mappings of {count} processes could not be read: their frames have no names"
                )
            }
        }
    }
}
