//! Events of the scheduler: which thread had a CPU, which one it took it from, and who woke it.

use std::sync::Arc;

use crate::calls::StackLine;

/// The number of a task in [`SchedTasks`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

impl TaskId {
    /// The idle tasks of all CPUs, which are one here.
    pub const IDLE: Self = Self(0);

    /// Its index in a table of tasks.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A thread, from its start to its end: another one with the same number is another task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedTask {
    /// The process's ID; −1 if it is not known, 0 for idle tasks.
    pub pid: i32,
    /// The thread's ID.
    pub tid: i32,
    /// The thread's name, the last one that is known.
    pub name: String,
    /// The task that started it, where that was seen.
    pub parent: Option<TaskId>,
}

/// The tasks of a trace. The first one is [`TaskId::IDLE`].
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
    /// Adds a task.
    pub fn add(&mut self, task: SchedTask) -> TaskId {
        let id = TaskId(u32::try_from(self.rows.len()).unwrap_or(u32::MAX));
        self.rows.push(task);
        id
    }

    /// The task with this number.
    pub fn get(&self, id: TaskId) -> &SchedTask {
        &self.rows[id.index()]
    }

    /// The task with this number, to be changed.
    pub fn get_mut(&mut self, id: TaskId) -> &mut SchedTask {
        &mut self.rows[id.index()]
    }

    /// How many there are, idle ones included.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True if there is none but the idle one.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// All tasks, by number.
    pub fn iter(&self) -> impl Iterator<Item = (TaskId, &SchedTask)> {
        (0..).map(TaskId).zip(&self.rows)
    }
}

/// The state in which a task left its CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TaskState {
    /// `R`, `R+`: it could have run on.
    #[default]
    Runnable,
    /// `S`: it waits, and signals wake it.
    Sleeping,
    /// `D`: it waits, and signals do not wake it.
    Uninterruptible,
    /// `I`: an idle thread of the kernel.
    IdleKernel,
    /// `T`: it was stopped.
    Stopped,
    /// `t`: its tracer stopped it.
    Traced,
    /// `X`, `Z`: it has ended.
    Dead,
    /// `P`: it is parked.
    Parked,
}

impl TaskState {
    /// The state of its letters as the kernel prints them: `S`, `R+`, `D|K`, `t`. One that is not known is one in which a
    /// task waits.
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

    /// The state of its bits in the event `sched_switch`, as kernels since 4.14 have them.
    pub fn from_bits(bits: u64) -> Self {
        const LETTERS: [&str; 8] = ["S", "D", "T", "t", "X", "Z", "P", "I"];
        let letter = LETTERS.get(bits.trailing_zeros() as usize);
        letter.map_or(Self::Runnable, |letter| Self::from_text(letter))
    }

    /// Its letter, as `ps` and perf have it.
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

/// What a task waits for after it has left its CPU, as far as that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WaitReason {
    /// Nothing more is known than the state.
    #[default]
    Unknown,
    /// A timer.
    Sleep,
    /// A block device, a file.
    Disk,
    /// A lock, a condition.
    Lock,
    /// A socket.
    Network,
    /// A pipe, a terminal, an event of another program, one of several descriptors.
    Pipe,
    /// The end of another process.
    Child,
}

/// Something that the scheduler did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedEvent {
    /// Nanoseconds on the recording's clock.
    pub time: u64,
    /// The CPU on which it happened.
    pub cpu: u32,
    /// What happened.
    pub action: SchedAction,
    /// The stack of the task that ran there, the innermost frame first; empty if it was not taken.
    pub stack: Arc<[Arc<StackLine>]>,
}

/// What the scheduler did. Names are of the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedAction {
    /// A CPU went from one task to another.
    Switch {
        /// The task that stopped to run.
        previous: TaskId,
        /// Its state then.
        state: TaskState,
        /// The reason for the wait.
        reason: WaitReason,
        /// The task that runs now.
        next: TaskId,
    },
    /// A task may run again, or for the first time.
    Wakeup {
        /// The task.
        task: TaskId,
        /// The task that ran on this CPU, or that it interrupted: the waker.
        waker: TaskId,
        /// The CPU on which it is to run.
        target: u32,
        /// It has just been started.
        is_new: bool,
        /// The event is `sched_waking`: the waker's moment, before the task is on a queue.
        is_waking: bool,
    },
    /// A task was moved to another CPU.
    Migrate {
        /// The task.
        task: TaskId,
        /// The CPU that it leaves.
        from: u32,
        /// The CPU that it moves to.
        to: u32,
    },
    /// A task started another one.
    Fork {
        /// The task that started it.
        parent: TaskId,
        /// The new task.
        child: TaskId,
    },
    /// A task has another name.
    Rename {
        /// The task.
        task: TaskId,
        /// Its name from now on.
        name: String,
    },
    /// A task has ended.
    Exit {
        /// The task.
        task: TaskId,
    },
    /// A task has run for some time: what the kernel itself counts, a part of which may lie before the last event.
    Runtime {
        /// The task.
        task: TaskId,
        /// How long, in nanoseconds.
        time: u64,
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
}
