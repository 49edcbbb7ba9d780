//! Errors, and notices for the user about recordings that go on.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::event::EventError;
use crate::permission::NotPermitted;
use crate::stack_mode::StackMode;

/// Reasons why a recording cannot be made or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The event's name is not known.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The kernel or the machine has no counter for this event.
    #[error("event '{event}' is not counted on this machine: {}", why_unsupported(.answer))]
    Unsupported {
        /// The event.
        event: String,
        /// The kernel's answer. Its own text would mislead: "No such file or directory".
        answer: io::Error,
    },
    /// The recording is not permitted.
    #[error(transparent)]
    NotPermitted(#[from] NotPermitted),
    /// Neither user nor kernel mode is sampled.
    #[error("nothing to sample: both user and kernel mode are excluded")]
    NothingToSample,
    /// The value of an option is out of range.
    #[error("{option} {value} is out of range: {range}")]
    OutOfRange {
        /// Name of the option.
        option: &'static str,
        /// Its value.
        value: u64,
        /// Permitted range.
        range: String,
    },
    /// No process has this ID.
    #[error("no process has the PID {pid}")]
    NoSuchProcess {
        /// Process ID.
        pid: i32,
    },
    /// No thread has this ID.
    #[error("no thread has the TID {tid}")]
    NoSuchThread {
        /// Thread ID.
        tid: i32,
    },
    /// The machine has no such CPU, or it is offline.
    #[error("CPU {cpu} is not online; those that are: {online}")]
    NoSuchCpu {
        /// Number of the CPU.
        cpu: u32,
        /// List of the CPUs that are online.
        online: String,
    },
    /// There is no such user.
    #[error("no user in /etc/passwd is called '{name}'; a number is taken as it is")]
    NoSuchUser {
        /// The name.
        name: String,
    },
    /// Only root can run a command as another user.
    #[error(
        "failed to run the command as {name}: only root may; sudo -u {name} runs all of it as that user"
    )]
    OtherUser {
        /// Name of the user.
        name: String,
    },
    /// The command is empty.
    #[error("no command to run")]
    NoCommand,
    /// The command could not be started.
    #[error("failed to run '{program}'")]
    Command {
        /// The program.
        program: String,
        /// The error of `execvp`, or of converting the arguments.
        source: io::Error,
    },
    /// Too many file descriptors are needed: one for each thread and CPU, and for each thread and counter.
    #[error(
        "too many files: {threads} threads need {needed} file descriptors, {limit} are allowed; \
         to permit it: ulimit -n {needed} (as root), or choose fewer processes, or the whole machine (-a)"
    )]
    TooManyFiles {
        /// Number of threads to sample or count.
        threads: usize,
        /// Number of file descriptors needed.
        needed: u64,
        /// Current limit, `RLIMIT_NOFILE`.
        limit: u64,
    },
    /// Not even the smallest ring buffers could be allocated.
    #[error(
        "not enough memory for buffers of {bytes} bytes for each of {cpus} CPUs: kernel.perf_event_mlock_kb is \
         {mlock_kb}; to permit more: sudo sysctl kernel.perf_event_mlock_kb={permit_kb}"
    )]
    Buffer {
        /// Size of one ring buffer in bytes.
        bytes: usize,
        /// Number of CPUs.
        cpus: usize,
        /// Memory that a user may lock per CPU, in KiB (`kernel.perf_event_mlock_kb`).
        mlock_kb: u64,
        /// Smallest sufficient value, in KiB.
        permit_kb: u64,
    },
    /// A system call failed unexpectedly.
    #[error("{doing}")]
    System {
        /// Action that failed.
        doing: String,
        /// Error of the system call.
        source: io::Error,
    },
}

impl Error {
    /// Error for the action `doing`, with the current value of `errno`.
    pub(crate) fn last_os(doing: impl Into<String>) -> Self {
        Self::System { doing: doing.into(), source: io::Error::last_os_error() }
    }

    /// Returns a function that wraps the error of the action `doing`.
    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::System { doing, source }
    }
}

/// Explains the kernel's answer. It is ENOENT, ENODEV or EOPNOTSUPP if there is no counter for the event.
fn why_unsupported(source: &io::Error) -> String {
    match source.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
            "it has no counter for that, as is usual in virtual machines (cpu-clock is always there)"
                .to_owned()
        }
        _ => source.to_string(),
    }
}

/// Notices for the user about a recording that goes on. Each is one line of text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// There is no hardware counter for cycles: the `cpu-clock` event is used.
    ClockForCycles,
    /// Kernel mode is excluded because it is not permitted.
    KernelExcluded(NotPermitted),
    /// The kernel's limit on the sample rate is below the requested rate.
    RateLowered {
        /// Requested rate in Hz.
        asked: u64,
        /// Maximum rate in Hz.
        allowed: u64,
    },
    /// Samples at the requested rate would take too much of the machine's time.
    RateTooHigh {
        /// Requested rate in Hz.
        asked: u64,
        /// Actual rate in Hz.
        possible: u64,
        /// Measured time of each sample.
        cost: Duration,
    },
    /// There are so many threads that one event for each would miss much of their time. All CPUs are sampled, and
    /// samples of other processes are dropped.
    ManyThreads {
        /// Number of threads.
        threads: usize,
    },
    /// There are so many threads that one event for each misses much of their time, and sampling all CPUs is not
    /// permitted.
    ManyThreadsApart {
        /// Number of threads.
        threads: usize,
        /// Sample rate of each thread in Hz.
        rate: u64,
    },
    /// The ring buffers are smaller than wanted, so that more records may be lost.
    BufferReduced {
        /// Wanted size of each ring buffer in bytes.
        wanted: usize,
        /// Actual size of each ring buffer in bytes.
        bytes: usize,
        /// Memory that a user may lock per CPU, in KiB.
        mlock_kb: u64,
    },
    /// Less is copied of each stack than by default: the ring buffers are small, and the samples of many threads come in
    /// bursts.
    StacksShortened {
        /// Number of bytes that are copied of each stack.
        bytes: u32,
    },
    /// Threads that start later are not sampled: kernels before 5.13 cannot inherit events to new threads without
    /// inheriting them to new processes.
    ThreadsNotFollowed,
    /// Some processes that the sampled ones have started belong to other users, and are not recorded.
    ChildrenNotPermitted {
        /// Number of these processes.
        count: usize,
    },
    /// The mappings of some processes could not be read, so that their frames have no names.
    ProcessesUnreadable {
        /// Number of these processes.
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
            Self::StacksShortened { bytes } => write!(
                f,
                "{} KiB are copied of each stack, so that the buffers hold the samples of so many threads; deeper \
                 stacks are cut, and --call-graph dwarf,{} copies more",
                bytes / 1024,
                StackMode::MOST_BYTES
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
