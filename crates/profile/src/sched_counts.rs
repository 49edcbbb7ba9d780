//! How long tasks ran, and how long they waited for a CPU, counted.

use crate::durations::Durations;

/// The times of a task, or of several that are added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedCount {
    /// The process's ID; −1 if it is not known.
    pub pid: i32,
    /// The thread's ID.
    pub tid: i32,
    /// The thread's name, the last one that is known.
    pub name: String,
    /// The CPU, where counts are kept apart by CPU.
    pub cpu: Option<u32>,
    /// How long it ran, in nanoseconds.
    pub run_time: u64,
    /// How often it was given a CPU.
    pub switches: u64,
    /// Delays: from when it could run (it was woken, started, or had to leave its CPU) to when it ran.
    pub delays: Durations,
    /// When the longest delay began, in nanoseconds on the recording's clock.
    pub longest_since: u64,
    /// For how long it had a CPU each time, from switch to switch, as far as that is known.
    pub on_cpu: Durations,
    /// For how long it had none between: it waited, for whatever.
    pub off_cpu: Durations,
}
