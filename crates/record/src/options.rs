//! Options of recordings.

use std::ffi::OsString;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use pyrograph_event::proc_text;

use crate::command::Waiting;
use crate::error::Error;
use crate::event::Event;
use crate::launch::Launch;
use crate::procfs::{family, process_of};

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

/// Targets of samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A program to start: its name or path, and its arguments.
    Command(Vec<OsString>),
    /// Running processes with all their threads and, if children are followed, all processes that they have started.
    Processes(Vec<i32>),
    /// The whole machine.
    System,
}

impl Target {
    /// Returns the processes that threads belong to.
    ///
    /// # Errors
    ///
    /// If there is no such thread.
    pub fn of_threads(tids: &[i32]) -> Result<Self, Error> {
        let process = |tid: &i32| process_of(*tid).ok_or(Error::NoSuchThread { tid: *tid });
        let mut pids = tids.iter().map(process).collect::<Result<Vec<_>, _>>()?;
        pids.sort_unstable();
        pids.dedup();
        Ok(Self::Processes(pids))
    }

    /// Forks the command of a recording, which then waits: the target, or one that runs beside another target.
    ///
    /// # Errors
    ///
    /// As [`Waiting::fork`].
    pub fn fork(
        &self,
        beside: Option<&Vec<OsString>>,
        launch: &Launch,
    ) -> Result<Option<Waiting>, Error> {
        let command = match self {
            Self::Command(command) => Some(command),
            Self::Processes(_) | Self::System => beside,
        };
        command.map(|command| Waiting::fork(command, launch)).transpose()
    }

    /// Checks that all processes of the target exist.
    ///
    /// # Errors
    ///
    /// If one does not.
    pub fn check(&self) -> Result<(), Error> {
        let Self::Processes(pids) = self else { return Ok(()) };
        let is_there = |pid: &&i32| Path::new(&format!("/proc/{pid}")).exists();
        match pids.iter().find(|pid| !is_there(pid)) {
            Some(pid) => Err(Error::NoSuchProcess { pid: *pid }),
            None => Ok(()),
        }
    }

    /// Returns the processes that are recorded from the beginning: none of a command, which has no process of its own yet; `None`
    /// for all of the machine.
    pub fn family(&self, inherit: bool) -> Option<Vec<i32>> {
        match self {
            Self::Command(_) => Some(Vec::new()),
            Self::Processes(pids) => Some(family(pids, inherit)),
            Self::System => None,
        }
    }

    /// Title for pictures: the beginning of the command, or the names of the processes that still run.
    pub fn title(&self) -> String {
        match self {
            Self::Command(command) => {
                let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
                shortened(&words.join(" "))
            }
            Self::Processes(pids) => {
                let names: Vec<String> = pids.iter().map(|pid| process_name(*pid)).collect();
                names.join(", ")
            }
            Self::System => "Whole machine".to_owned(),
        }
    }
}

/// Returns the beginning of a long text: a command may have thousands of arguments.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 90;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns `name (PID)`, or `process PID` if the process has ended.
fn process_name(pid: i32) -> String {
    match proc_text(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("{} ({pid})", name.trim_end()),
        Err(_) => format!("process {pid}"),
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

/// Methods of sampling the user part of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackMode {
    /// No stacks, neither user nor kernel part, for example because an eBPF program takes them.
    None,
    /// Callchain by frame pointers, in the kernel: cheap, and wrong for code without frame pointers.
    FramePointers,
    /// Registers and a copy of the top of the stack, to be unwound with the program's own unwind tables. The callchain
    /// has the kernel part only.
    Dwarf {
        /// Maximum number of bytes of the stack; a multiple of 8, up to [`StackMode::MOST_BYTES`].
        bytes: u32,
    },
}

impl StackMode {
    /// Default size of the stack copy in bytes: the maximum. The kernel copies no more than the stack has, and few
    /// stacks are deep; of `cargo build`'s, which are, 13 % do not fit in 32 KiB, and 8 % do not fit in this.
    pub const DEFAULT_BYTES: u32 = Self::MOST_BYTES;
    /// Maximum size of the stack copy in bytes: a record's size has 16 bits, and the kernel requires a multiple of 8
    /// below 65,535.
    pub const MOST_BYTES: u32 = 65_528;
}

/// Parses `fp`, `dwarf`, or `dwarf,BYTES`.
impl FromStr for StackMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(',') {
            None if text == "fp" => Ok(Self::FramePointers),
            None if text == "dwarf" => Ok(Self::Dwarf { bytes: Self::DEFAULT_BYTES }),
            Some(("dwarf", bytes)) => match bytes.parse::<u32>() {
                Ok(bytes) if (1..=Self::MOST_BYTES).contains(&bytes) => {
                    Ok(Self::Dwarf { bytes: bytes.next_multiple_of(8) })
                }
                _ => Err(format!("the stack copy can have 1 to {} bytes", Self::MOST_BYTES)),
            },
            _ => Err("use fp, dwarf, or dwarf,BYTES".to_owned()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stack_modes() {
        let dwarf = |bytes| Ok(StackMode::Dwarf { bytes });
        assert_eq!(StackMode::from_str("fp"), Ok(StackMode::FramePointers));
        assert_eq!(StackMode::from_str("dwarf"), dwarf(StackMode::DEFAULT_BYTES));
        assert_eq!(StackMode::from_str("dwarf,8192"), dwarf(8192));
        assert_eq!(StackMode::from_str("dwarf,8189"), dwarf(8192));
        for text in ["", "lbr", "fp,1", "dwarf,", "dwarf,0", "dwarf,65536", "dwarf,-8"] {
            assert!(text.parse::<StackMode>().is_err(), "{text}");
        }
    }
}
