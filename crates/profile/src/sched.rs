//! Scheduler events: which thread ran on a CPU, which one it replaced, and which thread woke it.

use std::sync::Arc;

use crate::calls::StackLine;

/// Number of a task in [`SchedTasks`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

impl TaskId {
    /// The idle tasks of all CPUs, which are a single task here.
    pub const IDLE: Self = Self(0);

    /// Index of the task in a table of tasks.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A thread, from its creation to its exit. A later thread with the same ID is another task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedTask {
    /// Process ID; −1 if not known, 0 for idle tasks.
    pub pid: i32,
    /// Thread ID.
    pub tid: i32,
    /// Last known name of the thread.
    pub name: String,
    /// The task that created it, if that was seen.
    pub parent: Option<TaskId>,
}

/// Tasks of a trace. The first one is [`TaskId::IDLE`].
#[derive(Clone, Debug)]
pub struct SchedTasks {
    rows: Vec<SchedTask>,
}

impl Default for SchedTasks {
    fn default() -> Self {
        let idle = SchedTask { name: "swapper".to_owned(), ..SchedTask::default() };
        Self { rows: vec![idle] }
    }
}

impl SchedTasks {
    /// Adds a task and returns its number.
    pub fn add(&mut self, task: SchedTask) -> TaskId {
        let id = TaskId(u32::try_from(self.rows.len()).unwrap_or(u32::MAX));
        self.rows.push(task);
        id
    }

    /// Returns the task with this number.
    pub fn get(&self, id: TaskId) -> &SchedTask {
        &self.rows[id.index()]
    }

    /// Returns the task with this number, for modification.
    pub fn get_mut(&mut self, id: TaskId) -> &mut SchedTask {
        &mut self.rows[id.index()]
    }

    /// Number of tasks, including [`TaskId::IDLE`].
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if there are no tasks except [`TaskId::IDLE`].
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// Iterates over all tasks, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (TaskId, &SchedTask)> {
        (0..).map(TaskId).zip(&self.rows)
    }
}

/// State of a task when it left its CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TaskState {
    /// `R`, `R+`: runnable.
    #[default]
    Runnable,
    /// `S`: waiting; a signal wakes it.
    Sleeping,
    /// `D`: waiting; signals do not wake it.
    Uninterruptible,
    /// `I`: an idle kernel thread.
    IdleKernel,
    /// `T`: stopped.
    Stopped,
    /// `t`: stopped by its tracer.
    Traced,
    /// `X`, `Z`: exited.
    Dead,
    /// `P`: parked.
    Parked,
}

impl TaskState {
    /// Parses a state as the kernel prints it: `S`, `R+`, `D|K`, `t`. Unknown letters are treated as states in which the
    /// task waits ([`Self::Uninterruptible`]).
    pub fn from_text(text: &str) -> Self {
        match text.chars().next() {
            Some('R') => Self::Runnable,
            Some('S') => Self::Sleeping,
            Some('I') => Self::IdleKernel,
            Some('T') => Self::Stopped,
            Some('t') => Self::Traced,
            Some('X' | 'x' | 'Z') => Self::Dead,
            Some('P') => Self::Parked,
            _ => Self::Uninterruptible,
        }
    }

    /// Decodes the state bits of the event `sched_switch`, as in kernels since 4.14.
    pub fn from_bits(bits: u64) -> Self {
        const LETTERS: [&str; 8] = ["S", "D", "T", "t", "X", "Z", "P", "I"];
        let letter = LETTERS.get(bits.trailing_zeros() as usize);
        letter.map_or(Self::Runnable, |letter| Self::from_text(letter))
    }

    /// Letter of the state, as in `ps` and perf.
    pub fn letter(self) -> char {
        match self {
            Self::Runnable => 'R',
            Self::Sleeping => 'S',
            Self::Uninterruptible => 'D',
            Self::IdleKernel => 'I',
            Self::Stopped => 'T',
            Self::Traced => 't',
            Self::Dead => 'X',
            Self::Parked => 'P',
        }
    }
}

/// Reason why a task waits after it has left its CPU, as far as known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WaitReason {
    /// Only the state is known.
    #[default]
    Unknown,
    /// A timer.
    Sleep,
    /// A block device or a file.
    Disk,
    /// A lock or a condition variable.
    Lock,
    /// A socket.
    Network,
    /// A pipe, a terminal, an event of another program, or one of several descriptors.
    Pipe,
    /// The exit of another process.
    Child,
}

/// A scheduler event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedEvent {
    /// Nanoseconds of the recording's clock.
    pub time: u64,
    /// The CPU on which it happened.
    pub cpu: u32,
    /// The kind of event and its details.
    pub action: SchedAction,
    /// Stack of the task that was running on the CPU, innermost frame first; empty if it was not taken.
    pub stack: Arc<[Arc<StackLine>]>,
}

/// Kinds of scheduler events. Names are those at the time of the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedAction {
    /// A CPU switched from one task to another.
    Switch {
        /// The task that stopped running.
        previous: TaskId,
        /// State of that task.
        state: TaskState,
        /// Reason for its wait.
        reason: WaitReason,
        /// The task that started running.
        next: TaskId,
    },
    /// A task became runnable, for the first time or again.
    Wakeup {
        /// The task.
        task: TaskId,
        /// The waker: the task that was running on the CPU. If the wakeup is from an interrupt, it is the interrupted
        /// task.
        waker: TaskId,
        /// The CPU on which the task is to run.
        target: u32,
        /// True if the task has just been created.
        is_new: bool,
        /// True for `sched_waking`: the time at which the waker acts, before the task is put on a run queue.
        is_waking: bool,
    },
    /// A task was migrated to another CPU.
    Migrate {
        /// The task.
        task: TaskId,
        /// The CPU from which it was moved.
        from: u32,
        /// The CPU to which it was moved.
        to: u32,
    },
    /// A task created another one.
    Fork {
        /// The task that created it.
        parent: TaskId,
        /// The new task.
        child: TaskId,
    },
    /// A task got a new name.
    Rename {
        /// The task.
        task: TaskId,
        /// The new name.
        name: String,
    },
    /// A task exited.
    Exit {
        /// The task.
        task: TaskId,
    },
    /// Run time of a task, as counted by the kernel. Part of it may be from before the previous event.
    Runtime {
        /// The task.
        task: TaskId,
        /// Run time in nanoseconds.
        time: u64,
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
}
