//! Options of the engine.

use std::time::Duration;

use pyrograph_event::interpreter::Language;
use pyrograph_event::request::{Trigger, Waits};

use crate::scope::Scope;
use crate::trigger::Programs;

/// Names of the programs that are attached for waits, without the one that lists threads that already wait. `resumes`:
/// the kernel has a tracepoint for threads that resume.
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

/// Options of an engine: the events to count, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Tasks to record. Targets are named by [`crate::Engine::add_target`] and [`crate::Engine::expect_command`].
    pub scope: Scope,
    /// Take the user part of stacks.
    pub user: bool,
    /// Take the kernel part of stacks.
    pub kernel: bool,
    /// Events for which stacks are taken.
    pub trigger: Trigger,
    /// Rate at which a clock triggers on each CPU, in hertz, if nothing else is counted: then less memory is needed.
    pub hertz: Option<u64>,
    /// Waits to count.
    pub waits: Waits,
    /// Shortest wait that is counted.
    pub min_block: Duration,
    /// Count events, not their values.
    pub counts_events: bool,
    /// Leave out waits for work: for conditions, requests, events, children.
    pub no_idle: bool,
    /// Take the stack of each event, even if there are very many.
    pub exact: bool,
    /// Keep separate counts for each CPU.
    pub by_cpu: bool,
    /// Count stacks by time, with a resolution of 16 microseconds. If there are more events than there is room for, the
    /// resolution is a millisecond or a quarter of a second.
    pub keep_times: bool,
    /// Limit to the size of unwind tables, in bytes.
    pub table_memory: usize,
    /// Take the stacks of waits when threads stop running, even if the kernel has a tracepoint for threads that resume.
    pub at_switches: bool,
    /// For code without an unwind table, find callers by analysing its instructions.
    pub guessing: bool,
    /// Languages whose calls are found.
    pub languages: Vec<Language>,
    /// Take the command line of each program that is executed ([`crate::Engine::command_lines`]).
    pub command_lines: bool,
    /// Count different lines of an interpreted function separately.
    pub lines: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scope: Scope::default(),
            user: true,
            kernel: true,
            trigger: Trigger::PerfEvents,
            hertz: None,
            waits: Waits::None,
            min_block: Duration::from_micros(1),
            counts_events: false,
            no_idle: false,
            exact: false,
            by_cpu: false,
            keep_times: false,
            table_memory: 256 << 20,
            at_switches: false,
            guessing: true,
            languages: Vec::new(),
            command_lines: false,
            lines: false,
        }
    }
}

/// Returns true if stacks that end early are copied, to be unwound in user space. Stacks that are kept and counted many
/// times (live allocations, wakers) are not copied: each copy would be a different stack.
pub(crate) fn copies_stacks(options: &Options) -> bool {
    let keeps_stacks = matches!(options.waits, Waits::WithWakers | Waits::Wakers)
        || matches!(options.trigger, Trigger::Allocations { live: true, .. });
    options.user && !keeps_stacks
}

/// Method of choosing the events whose stacks are taken, if there are very many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sampling {
    /// Each event has the same chance.
    ByEvents,
    /// Each byte has the same chance.
    ByValue,
}

impl Sampling {
    /// Smallest number of events or bytes for which one stack is taken, if there are too many to take all.
    pub(crate) fn least_quantum(self) -> u64 {
        match self {
            Self::ByEvents => 2,
            Self::ByValue => 1024,
        }
    }
}

/// Method of choosing stacks; `None` if all are taken.
pub(crate) fn sampling(options: &Options) -> Option<Sampling> {
    let by_value = options.trigger.is_sampled_by_value().filter(|_| !options.exact)?;
    Some(if by_value && !options.counts_events { Sampling::ByValue } else { Sampling::ByEvents })
}

/// Returns true if threads that already wait when the recording begins are listed.
pub(crate) fn lists_waiting(options: &Options) -> bool {
    options.waits != Waits::None || options.trigger == Trigger::Locks
}

/// Returns true if all events are counted when their stacks are taken, and none is kept until it ends. `resumes`: the
/// kernel has a tracepoint for threads that resume.
pub(crate) fn counts_at_once(options: &Options, resumes: bool) -> bool {
    let waits = match options.waits {
        Waits::None => true,
        Waits::Alone | Waits::WithWakers => resumes,
        Waits::Wakers => false,
    };
    waits && options.trigger.counts_at_once()
}
