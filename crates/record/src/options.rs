//! Plans of recordings.

use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use crate::error::Error;
use crate::event::Event;
use crate::procfs::process_of;

/// Options of a session.
#[derive(Clone, Debug)]
pub struct Options {
    /// Target of the samples.
    pub target: Target,
    /// Event to count; `None` for `cycles` where the machine counts them, else `cpu-clock`.
    pub event: Option<Event>,
    /// How often to sample; `None` for what suits the target and event ([`Rate`]).
    pub rate: Option<Rate>,
    /// How the user part of a stack is sampled.
    pub stack: StackMode,
    /// Sample user mode.
    pub user: bool,
    /// Sample kernel mode.
    pub kernel: bool,
    /// Follow the processes that the target starts. (Its threads are always followed, where the
    /// kernel is 5.13 or newer.)
    pub inherit: bool,
    /// Sample idle CPUs, too: the clocks tick there. Only with [`Target::System`].
    pub idle: bool,
    /// Size of each CPU's buffer in bytes, rounded up to a power of two of pages; `None` for what
    /// suits the stack mode and the user's limits.
    pub buffer: Option<usize>,
    /// How old records may get that wait in a buffer. Short, since the subject of a record (a process, a
    /// file, the outer part of a stack) should still be there.
    pub patience: Duration,
    /// With [`Target::System`]: which of the processes that run already have records at the start, with their
    /// [descendants](crate::descendants) if these are followed; `None` for all.
    pub initial: Option<Vec<i32>>,
    /// There are records of all mappings, and not only of those with code.
    pub data_mappings: bool,
    /// Sample these threads only, of the processes that are the target, and nothing that they start; `None` for
    /// all threads. Only with [`Target::Processes`].
    pub threads: Option<Vec<i32>>,
    /// Sample these CPUs only; `None` for all. Only with [`Target::System`].
    pub cpus: Option<Vec<u32>>,
    /// The command writes to standard error what it would write to standard output, which is needed for
    /// something else.
    pub output_to_stderr: bool,
    /// For how long to record; `None` until the target ends, or it is [stopped](crate::Stopper).
    pub duration: Option<Duration>,
}

impl Options {
    /// The defaults for a target: user and kernel stacks, with 64 KiB of the user stack copied,
    /// children followed.
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
            output_to_stderr: false,
            duration: None,
        }
    }
}

/// Targets of samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A program that is started: its name or path, and its arguments.
    Command(Vec<OsString>),
    /// Running processes with all their threads and, if children are followed, all that they have started.
    Processes(Vec<i32>),
    /// The whole machine.
    System,
}

impl Target {
    /// The processes of threads.
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

    /// A title for pictures: the beginning of the command, the names of processes as long as they live.
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

/// The beginning of a long text: a command may have thousands of arguments.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 90;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// `name (PID)`, as long as the process lives.
fn process_name(pid: i32) -> String {
    match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("{} ({pid})", name.trim_end()),
        Err(_) => format!("process {pid}"),
    }
}

/// How often to sample.
///
/// Every sample has the part of the event that it stands for (its period), so that the sum of the
/// periods is the event's count. Without a choice:
///
/// - what ticks (cycles, clocks, other hardware counters) is sampled 997 times a second for a command
///   or processes, and 99 times a second on each CPU for the whole machine: never in lockstep with
///   a timer;
/// - what the kernel counts one by one (page faults, context switches, tracepoints …) is sampled
///   each time it happens, so that the counts are exact. With [`Rate::Hertz`] the kernel guesses the
///   period from the last few: 10,000 page faults within 10 ms came out as 27,396 at 99 Hz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// So many samples a second: the kernel adapts the period, and each sample has it.
    Hertz(u64),
    /// One sample for every so many of the event. Samples need not have a period: it is this.
    Every(u64),
}

impl Rate {
    /// The rate that suits the target and event.
    pub fn default_for(target: &Target, event: &Event) -> Self {
        match target {
            _ if event.is_counted_by_kernel() => Self::Every(1),
            Target::System => Self::Hertz(99),
            Target::Command(_) | Target::Processes(_) => Self::Hertz(997),
        }
    }
}

/// How the user part of a stack is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackMode {
    /// Not at all, and neither is the kernel part: somebody else takes the stacks.
    None,
    /// The kernel follows frame pointers: cheap, and wrong for code that keeps none.
    FramePointers,
    /// The registers and a copy of the top of the stack, to be unwound with the program's own
    /// tables. The callchain holds the kernel part only.
    Dwarf {
        /// How many bytes of the stack at most; a multiple of 8, up to [`StackMode::MOST_BYTES`].
        bytes: u32,
    },
}

impl StackMode {
    /// Bytes of the stack where nothing else is asked for: as many as can be. The kernel copies no
    /// more than there is, and few stacks are deep; of `cargo build`'s, whose are, 13 % do not fit in
    /// 32 KiB, 8 % not in this.
    pub const DEFAULT_BYTES: u32 = Self::MOST_BYTES;
    /// The most bytes of the stack: a record's size has 16 bits, and the kernel asks for less
    /// than 65,535 and a multiple of 8.
    pub const MOST_BYTES: u32 = 65_528;
}

/// `fp`, `dwarf`, or `dwarf,BYTES`.
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

/// A list with ranges: `0-3,8`.
impl FromStr for Cpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        /// More than any kernel is built for.
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
