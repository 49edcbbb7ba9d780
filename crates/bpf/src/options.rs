//! Options of the engine.

use std::path::PathBuf;
use std::time::Duration;

use pyrograph_event::interpreter::Language;
use pyrograph_event::request::{Trigger, Waits};

use crate::trigger::Programs;

/// The programs that are attached for waits, but for that which lists the threads that wait already. `resumes`:
/// the kernel has a tracepoint for when a thread goes on.
pub(crate) fn wait_programs(waits: Waits, resumes: bool) -> &'static [&'static str] {
    match waits {
        Waits::None => &[],
        Waits::Alone if resumes => &["on_resume", "on_leave"],
        Waits::Alone => &["on_switch"],
        Waits::WithWakers if resumes => &["on_wake", "on_resume", "on_leave"],
        Waits::WithWakers => &["on_waking", "on_switch"],
        Waits::Wakers => &["on_waking", "on_sleep"],
    }
}

/// Options of an engine: what it counts, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The processes to record, to which [`crate::Engine::expect_command`] may add one; `None` for
    /// all.
    pub processes: Option<Vec<i32>>,
    /// Look at the processes that they start, too.
    pub inherit: bool,
    /// Take the user part of stacks.
    pub user: bool,
    /// Take the kernel part of stacks.
    pub kernel: bool,
    /// The events for which stacks are taken.
    pub trigger: Trigger,
    /// How often a second each CPU has a stack taken, where a clock triggers, and nothing else happens that
    /// counts: then less memory does.
    pub hertz: Option<u64>,
    /// Which waits are counted.
    pub waits: Waits,
    /// The shortest wait that counts.
    pub min_block: Duration,
    /// Events are counted, and not what they stand for.
    pub counts_events: bool,
    /// Leave out waits for something to do: for conditions, requests, events, children.
    pub no_idle: bool,
    /// Take the stack of each event, however many there are.
    pub exact: bool,
    /// Only threads of these names, or of processes of these names; none for all.
    pub names: Vec<String>,
    /// Only threads in the control group with this ID, or in one inside of it: the inode of its folder
    /// in the file system of type `cgroup2`.
    pub group: Option<u64>,
    /// Count CPUs apart.
    pub by_cpu: bool,
    /// Count stacks by when that is, to 16 microseconds; of events that come in greater numbers than there is room for, to a
    /// millisecond or a quarter of a second.
    pub times: bool,
    /// The most bytes of unwind tables.
    pub table_budget: usize,
    /// Take stacks of waits when threads stop to run, also where the kernel has a tracepoint for when they go on.
    pub at_switches: bool,
    /// Do not leave frames by their instructions, where there is no table.
    pub no_guess: bool,
    /// Find the calls of these languages.
    pub languages: Vec<Language>,
    /// Take the command line of each program that begins ([`crate::Engine::command_lines`]).
    pub command_lines: bool,
    /// Count different lines of an interpreted function as different places.
    pub lines: bool,
    /// Below which folder (such as `~/.cache`) it is kept for the next recording what tables were made, and
    /// where parts of the kernel are; none: it is not.
    pub cache: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            processes: None,
            inherit: true,
            user: true,
            kernel: true,
            trigger: Trigger::PerfEvents,
            hertz: None,
            waits: Waits::None,
            min_block: Duration::from_micros(1),
            counts_events: false,
            no_idle: false,
            exact: false,
            names: Vec::new(),
            group: None,
            by_cpu: false,
            times: false,
            table_budget: 256 << 20,
            at_switches: false,
            no_guess: false,
            languages: Vec::new(),
            command_lines: false,
            lines: false,
            cache: None,
        }
    }
}

/// Returns true if stacks that end early are copied out, to be unwound in user space. Where a stack is kept to be counted
/// many times over (memory that is held, wakers), each copy would be another.
pub(crate) fn copies_stacks(options: &Options) -> bool {
    let keeps_stacks = matches!(options.waits, Waits::WithWakers | Waits::Wakers)
        || matches!(options.trigger, Trigger::Allocations { live: true, .. });
    options.user && !keeps_stacks
}

/// Returns true if forks matter: where all processes are recorded, they do not.
pub(crate) fn follows_forks(options: &Options) -> bool {
    options.inherit && options.processes.is_some()
}

/// How it is chosen of which events stacks are taken, where there are very many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sampling {
    /// Each event has the same chance.
    ByEvents,
    /// Each byte has.
    ByValue,
}

impl Sampling {
    /// For so much one stack is taken when there are too many to take all.
    pub(crate) fn least_quantum(self) -> u64 {
        match self {
            Self::ByEvents => 2,
            Self::ByValue => 1024,
        }
    }
}

/// How stacks are chosen, if not all are taken.
pub(crate) fn sampling(options: &Options) -> Option<Sampling> {
    let by_value = options.trigger.is_sampled_by_value().filter(|_| !options.exact)?;
    Some(if by_value && !options.counts_events { Sampling::ByValue } else { Sampling::ByEvents })
}

/// Returns true if what waits already when the recording begins is looked for.
pub(crate) fn lists_waiting(options: &Options) -> bool {
    options.waits != Waits::None || options.trigger == Trigger::Locks
}

/// Returns true if all events are counted when their stacks are taken, and none is noted until it ends.
/// `resumes`: the kernel has a tracepoint for when a thread goes on.
pub(crate) fn counts_at_once(options: &Options, resumes: bool) -> bool {
    let waits = match options.waits {
        Waits::None => true,
        Waits::Alone | Waits::WithWakers => resumes,
        Waits::Wakers => false,
    };
    waits && options.trigger.counts_at_once()
}
