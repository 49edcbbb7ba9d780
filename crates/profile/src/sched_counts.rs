//! Statistics of the times that tasks ran or waited for a CPU.

use crate::durations::Durations;

/// Times of a task, or sums over several tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedCount {
    /// Process ID; −1 if not known.
    pub pid: i32,
    /// Thread ID.
    pub tid: i32,
    /// Last known name of the thread.
    pub name: String,
    /// The CPU, if counts are kept per CPU.
    pub cpu: Option<u32>,
    /// Time spent running, in nanoseconds.
    pub run_time: u64,
    /// Number of times that the task was switched to a CPU.
    pub switches: u64,
    /// Scheduling delays: times from when the task became runnable (it was woken, created, or preempted) until it ran.
    pub delays: Durations,
    /// Start of the longest delay, in nanoseconds of the recording's clock.
    pub longest_since: u64,
    /// Lengths of the time slices on a CPU, from switch to switch, as far as known.
    pub on_cpu: Durations,
    /// Times between these slices, in which the task waited for whatever reason.
    pub off_cpu: Durations,
}
