//! Counts of events, without stacks.

use std::time::Duration;

/// A counted event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Name of the event.
    pub name: String,
    /// True if the event counts nanoseconds.
    pub is_time: bool,
    /// True if the event counts in user mode only, because counting in the kernel is not permitted.
    pub user_only: bool,
}

/// A count of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountValue {
    /// CPU or thread of the count, if counts are kept per CPU or thread; otherwise empty.
    pub key: String,
    /// Index of the counter.
    pub counter: usize,
    /// Value of the counter. Only sums of values are below 0.
    pub value: i64,
    /// Time for which the counter was enabled, in nanoseconds.
    pub enabled: u64,
    /// Time for which the counter actually counted, in nanoseconds.
    pub running: u64,
}

/// Number of events whose value is in a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeCount {
    /// Key, as in [`CountValue::key`].
    pub key: String,
    /// Index of the counter.
    pub counter: usize,
    /// The first value of the range; the least number if it has none.
    pub first: i64,
    /// The last value of the range; the greatest number if it has none.
    pub last: i64,
    /// True if the values are times in nanoseconds.
    pub is_time: bool,
    /// Number of events.
    pub count: u64,
}

/// Resource usage of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandUsage {
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in kernel mode.
    pub system: Duration,
    /// Peak memory usage in bytes.
    pub peak_memory: u64,
}

/// Counts of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountRun {
    /// Counts of all events.
    pub values: Vec<CountValue>,
    /// Ranges of values, if they are counted.
    pub ranges: Vec<RangeCount>,
    /// Elapsed time.
    pub elapsed: Duration,
    /// Resource usage, if a command was run.
    pub usage: Option<CommandUsage>,
}

/// Events that could not be counted for a common reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotCounted {
    /// Names of the events.
    pub names: Vec<String>,
    /// The reason.
    pub reason: String,
}
