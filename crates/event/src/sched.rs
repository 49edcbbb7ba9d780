//! Scheduler events as the kernel programs emit them, one by one or counted. Plain data.

/// Number of a task, assigned by the kernel programs. 0 is the number of all idle tasks, [`UNKNOWN`] of all tasks for
/// which there was no memory.
pub type TaskNumber = u32;

/// Number of all tasks for which there was no memory.
pub const UNKNOWN: TaskNumber = u32::MAX;

/// A scheduler event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedRecord {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The CPU on which it happened.
    pub cpu: u32,
    /// The kind of event and its details.
    pub change: SchedChange,
}

/// Kinds of scheduler events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedChange {
    /// A CPU switched from one task to another.
    Switch {
        /// The task that stopped running.
        previous: TaskNumber,
        /// State of that task, in the bits of include/linux/sched.h; 0 if it was still runnable.
        state: u32,
        /// Details of its wait.
        wait: Wait,
        /// The task that started running.
        next: TaskNumber,
    },
    /// A task was woken and put on a run queue.
    Wakeup {
        /// The task.
        task: TaskNumber,
        /// The task that woke it.
        waker: TaskNumber,
        /// The CPU of the run queue.
        target: u32,
        /// True if the task has just been created.
        is_new: bool,
    },
    /// A task was migrated to another CPU.
    Migrate {
        /// The task.
        task: TaskNumber,
        /// The CPU from which it was moved.
        from: u32,
        /// The CPU to which it was moved.
        to: u32,
    },
    /// A task created another one.
    Fork {
        /// The task that created it.
        parent: TaskNumber,
        /// The new task.
        child: TaskNumber,
    },
    /// A task got a new name, or new IDs: it called `execve` and was not the first thread of its process.
    Rename {
        /// The task.
        task: TaskNumber,
        /// The new IDs and name.
        names: TaskNames,
    },
    /// A task exited.
    Exit {
        /// The task.
        task: TaskNumber,
    },
    /// The CPU entered an idle state, or left it (`None`).
    Idle {
        /// Number of the idle state.
        state: Option<u32>,
    },
    /// The CPU changed its frequency.
    Frequency {
        /// Frequency in kHz.
        frequency: u32,
    },
    /// Description of a task. It comes before the task's first event in the buffer, but its time may be later.
    Task {
        /// Number of the task.
        task: TaskNumber,
        /// IDs and name of the task.
        names: TaskNames,
        /// The task that created it; 0 if its creation was not seen.
        parent: TaskNumber,
    },
}

/// The IDs and the name of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskNames {
    /// Process ID; −1 if it is not visible in this PID namespace.
    pub pid: i32,
    /// Thread ID; −1 if it is not visible in this PID namespace.
    pub tid: i32,
    /// Name of the thread, up to the first NUL.
    pub name: [u8; 16],
}

/// Details of a task's wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// Number of the system call that the task is in.
    pub call: Option<u32>,
    /// Type of the file that the task reads or writes, bits of `S_IFMT`. 0 if it reads or writes none, or if the file has
    /// no type.
    pub file: u16,
    /// True if the kernel counts the wait as I/O wait.
    pub for_io: bool,
    /// True if the task called poll, select or the like without descriptors, so that it waits for time to pass.
    pub for_time: bool,
}

/// Times of a task or a CPU since the start of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedCounts {
    /// Number of the task; 0 for a CPU.
    pub task: TaskNumber,
    /// IDs and name of the task.
    pub names: TaskNames,
    /// The CPU; `None` for a task.
    pub cpu: Option<u32>,
    /// True if the task has exited.
    pub has_ended: bool,
    /// Time spent running, in nanoseconds.
    pub run_time: u64,
    /// Number of times that the task was switched to a CPU.
    pub switches: u64,
    /// Sum of the scheduling delays, in nanoseconds.
    pub delay: u64,
    /// Shortest and longest delay in each of the last two intervals.
    pub extremes: [Extremes; 2],
    /// Histogram of the delays: number of delays in each range. The first range ends at 2⁴ ns; then there are four for
    /// each power of two.
    pub ranges: Vec<u32>,
    /// Lengths of the time slices on this CPU, from switch to switch; empty for a task.
    pub on_cpu: Ranges,
    /// For tasks that were switched to this CPU: time since they last left a CPU. Empty for a task.
    pub off_cpu: Ranges,
}

/// Durations, of which only the sum and a histogram are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    /// Sum of the durations, in nanoseconds.
    pub total: u64,
    /// Number of durations in each range, as in [`SchedCounts::ranges`].
    pub counts: Vec<u32>,
}

/// Shortest and longest delay in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extremes {
    /// Number of the interval, from 1; 0 if there were no delays.
    pub interval: u32,
    /// Shortest delay, in nanoseconds.
    pub least: u64,
    /// Longest delay, in nanoseconds.
    pub longest: u64,
    /// Start of the longest delay, in nanoseconds of `CLOCK_MONOTONIC`.
    pub longest_since: u64,
}
