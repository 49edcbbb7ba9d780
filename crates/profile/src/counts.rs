//! Counts of events without stacks, as they are read.

use std::time::Duration;

/// An event that is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Its name.
    pub name: String,
    /// It counts nanoseconds.
    pub is_time: bool,
    /// It counts in user mode only, since the kernel's is not permitted.
    pub user_only: bool,
}

/// A count that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountValue {
    /// The CPU or thread by which counts are kept apart; empty if by none.
    pub key: String,
    /// Index of the counter.
    pub counter: usize,
    /// The count.
    pub value: u64,
    /// Nanoseconds for which it was to count.
    pub enabled: u64,
    /// Nanoseconds for which it did.
    pub running: u64,
}

/// Resources of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandUsage {
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in kernel mode.
    pub system: Duration,
    /// The most memory, in bytes.
    pub peak_memory: u64,
}

/// Counts of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountRun {
    /// The counts.
    pub values: Vec<CountValue>,
    /// The time that passed.
    pub elapsed: Duration,
    /// Resources of the command, if it is one.
    pub usage: Option<CommandUsage>,
}

/// Events that are not counted, and the reason that they have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotCounted {
    /// Their names.
    pub names: Vec<String>,
    /// Why.
    pub reason: String,
}
