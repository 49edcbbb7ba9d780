//! Options of recordings.

use std::str::FromStr;
use std::time::Duration;

use crate::event::Event;
use crate::launch::Launch;
use crate::stack_mode::StackMode;
use crate::target::Target;

/// Options of a session.
#[derive(Clone, Debug)]
pub struct Options {
    /// Target of the samples.
    pub target: Target,
    /// Event to sample. `None` for `cycles` if the machine has a counter for it, else `cpu-clock`.
    pub event: Option<Event>,
    /// Sample rate. `None` for the default of the target and event ([`Rate::default_for`]).
    pub rate: Option<Rate>,
    /// Method of sampling the user part of a stack.
    pub stack: StackMode,
    /// Sample user mode.
    pub user: bool,
    /// Sample kernel mode.
    pub kernel: bool,
    /// Follow the processes that the target starts. (Its new threads are always followed on Linux 5.13 or newer.)
    pub inherit: bool,
    /// Sample idle CPUs, too: clock events tick there. Only with [`Target::System`].
    pub idle: bool,
    /// Size of each CPU's ring buffer in bytes, rounded up to a power of two number of pages. `None` for a size that
    /// suits the stack mode and the user's limits.
    pub buffer: Option<usize>,
    /// Maximum time that records wait in a ring buffer. It is short because the subject of a record (a process, a file,
    /// the outer part of a stack) should still exist when it is read.
    pub patience: Duration,
    /// With [`Target::System`]: the processes, among those that run already, for which initial records are synthesized,
    /// with their [descendants](crate::descendants) if [`Self::inherit`] is set. `None` for all.
    pub initial: Option<Vec<i32>>,
    /// Record all mappings, and not only executable ones (`mmap_data`).
    pub data_mappings: bool,
    /// Sample only these threads of the target processes, and nothing that they start. `None` for all threads. Only
    /// with [`Target::Processes`].
    pub threads: Option<Vec<i32>>,
    /// Sample only these CPUs. `None` for all. Only with [`Target::System`].
    pub cpus: Option<Vec<u32>>,
    /// How the command is started.
    pub launch: Launch,
    /// Duration of the recording. `None`: it lasts until the target ends or it is [stopped](crate::Stopper).
    pub duration: Option<Duration>,
}

impl Options {
    /// Returns the defaults for a target: user and kernel stacks, with up to 64 KiB of the user stack copied, and child
    /// processes followed.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            event: None,
            rate: None,
            stack: StackMode::Dwarf { bytes: StackMode::DEFAULT_BYTES },
            user: true,
            kernel: true,
            inherit: true,
            idle: false,
            buffer: None,
            patience: Duration::from_millis(10),
            initial: None,
            data_mappings: false,
            threads: None,
            cpus: None,
            launch: Launch::default(),
            duration: None,
        }
    }
}

/// Sample rate.
///
/// Every sample has a period, the number of events that it represents, so that the sum of the periods is the event's
/// count. The defaults:
///
/// - Hardware counters and clocks are sampled 997 times a second for a command or processes, and 99 times a second on
///   each CPU for the whole machine. These numbers avoid lockstep with timers.
/// - Events that the kernel counts one by one (page faults, context switches, tracepoints …) are sampled each time, so
///   that the counts are exact. With [`Rate::Hertz`] the kernel estimates the period from the last few events: 10,000
///   page faults within 10 ms came out as 27,396 at 99 Hz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Frequency in samples per second: the kernel adapts the period, and writes it into each sample.
    Hertz(u64),
    /// Fixed period: one sample for every this many events. Samples may lack a period field, since the period is known.
    Every(u64),
}

impl Rate {
    /// Returns the default rate for a target and event.
    pub fn default_for(target: &Target, event: &Event) -> Self {
        match target {
            _ if event.is_counted_by_kernel() => Self::Every(1),
            Target::System => Self::Hertz(99),
            Target::Command(_) | Target::Processes(_) => Self::Hertz(997),
        }
    }
}

/// Numbers of CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus(pub Vec<u32>);

/// Parses a list with ranges: `0-3,8`.
impl FromStr for Cpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        /// Upper limit, beyond the number of CPUs that any kernel is built for.
        const MOST: u32 = 1 << 16;
        let mut cpus = Vec::new();
        for range in text.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            match (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
                (Ok(first), Ok(last)) if first <= last && last < MOST => cpus.extend(first..=last),
                _ => {
                    return Err(format!(
                        "'{range}' is neither a CPU nor a range of CPUs such as 0-3"
                    ));
                }
            }
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Self(cpus))
    }
}
