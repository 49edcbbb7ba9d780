//! The scheduler's events as programs in the kernel hand them out, one by one or counted. Plain data.

/// A task, as programs in the kernel number them: 0 are the idle tasks, and [`UNKNOWN`] is one for which there was no memory.
pub type TaskNumber = u32;

/// The number of tasks for which there was no memory.
pub const UNKNOWN: TaskNumber = u32::MAX;

/// Something that the scheduler did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedRecord {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The CPU on which it happened.
    pub cpu: u32,
    /// What happened.
    pub change: SchedChange,
}

/// What the scheduler did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedChange {
    /// A CPU went from one task to another.
    Switch {
        /// The task that stopped to run.
        previous: TaskNumber,
        /// Its state, in bits as include/linux/sched.h has them; 0: it could run on.
        state: u32,
        /// What is known of its wait.
        wait: Wait,
        /// The task that runs now.
        next: TaskNumber,
    },
    /// A task was woken, and is on a queue since.
    Wakeup {
        /// The task.
        task: TaskNumber,
        /// Who woke it.
        waker: TaskNumber,
        /// The CPU of the queue.
        target: u32,
        /// It has just been started.
        is_new: bool,
    },
    /// A task was moved to another CPU.
    Migrate {
        /// The task.
        task: TaskNumber,
        /// The CPU that it leaves.
        from: u32,
        /// The CPU that it moves to.
        to: u32,
    },
    /// A task started another one.
    Fork {
        /// The task that started it.
        parent: TaskNumber,
        /// The new task.
        child: TaskNumber,
    },
    /// A task has another name, or other IDs: it executed a program, and was not the first thread of its process.
    Rename {
        /// The task.
        task: TaskNumber,
        /// What it is called from now on.
        names: TaskNames,
    },
    /// A task has ended.
    Exit {
        /// The task.
        task: TaskNumber,
    },
    /// The CPU went into an idle state, or left it (`None`).
    Idle {
        /// The state's number.
        state: Option<u32>,
    },
    /// The CPU has another frequency.
    Frequency {
        /// In kHz.
        frequency: u32,
    },
    /// A number is that of this task. Comes before its first event in the buffer, but may be later in time.
    Task {
        /// The number.
        task: TaskNumber,
        /// What it is called.
        names: TaskNames,
        /// Who started it; 0 if that was not seen.
        parent: TaskNumber,
    },
}

/// The IDs and the name of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskNames {
    /// The process's ID; −1 if it cannot be seen from this PID namespace.
    pub pid: i32,
    /// The thread's ID; −1 if it cannot be seen from this PID namespace.
    pub tid: i32,
    /// The thread's name, up to the first zero.
    pub name: [u8; 16],
}

/// What is known of why a task waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// The system call that it is in.
    pub call: Option<u32>,
    /// The type of the file that it reads or writes: bits of `S_IFMT`; 0 if it does not, or the file has none.
    pub file: u16,
    /// The kernel counts it as waiting for a device.
    pub for_io: bool,
    /// It waits for no descriptor, but for time to pass.
    pub for_time: bool,
}

/// The times of a task or a CPU since the recording began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedCounts {
    /// The number of the task; 0 if it is of a CPU.
    pub task: TaskNumber,
    /// What the task is called.
    pub names: TaskNames,
    /// The CPU, if it is of one.
    pub cpu: Option<u32>,
    /// The task has ended.
    pub has_ended: bool,
    /// How long it ran, in nanoseconds.
    pub run_time: u64,
    /// How often it was given a CPU.
    pub switches: u64,
    /// The sum of its delays, in nanoseconds.
    pub delay: u64,
    /// The extremes of its delays in the last two intervals.
    pub extremes: [Extremes; 2],
    /// How many delays are in each range: four for each power of two, the first up to 2⁴ ns.
    pub ranges: Vec<u32>,
    /// For how long tasks had this CPU each time; nothing if it is of a task.
    pub on_cpu: Ranges,
    /// For how long those that came to this CPU had had none.
    pub off_cpu: Ranges,
}

/// Times, of which only their sum and how many are in each range is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    /// Their sum, in nanoseconds.
    pub total: u64,
    /// How many are in each range, as in [`SchedCounts::ranges`].
    pub counts: Vec<u32>,
}

/// The extremes of delays in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extremes {
    /// The number of the interval, from 1 on; 0 if there are none.
    pub interval: u32,
    /// The shortest delay, in nanoseconds.
    pub least: u64,
    /// The longest one.
    pub longest: u64,
    /// When that began: nanoseconds of `CLOCK_MONOTONIC`.
    pub longest_since: u64,
}
