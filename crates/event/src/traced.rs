//! System calls as they are traced, one by one or counted, by programs in the kernel or by ptrace. Plain data.

use pyrograph_syscall::Copied;

use crate::request::Trigger;

/// Something that a traced thread did.
#[derive(Clone, Copy, Debug)]
pub struct Traced<'a> {
    /// When it began: nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// ID of the process.
    pub process: i32,
    /// ID of the thread.
    pub thread: i32,
    /// Name of the thread, of which the kernel keeps 15 bytes.
    pub name: &'a [u8],
    /// What it did.
    pub action: Action<'a>,
    /// Its stack at that time.
    pub stack: Stack<'a>,
}

/// What a traced thread did.
#[derive(Clone, Copy, Debug)]
pub enum Action<'a> {
    /// It made a system call.
    Call(Call<'a>),
    /// It was given a signal.
    Signal {
        /// The number of the signal.
        number: i32,
        /// Why it was sent: `si_code` of sigaction(2).
        code: i32,
        /// What follows in `siginfo_t` from its 16th byte on: the sender's process and user, and a status; or an address.
        fields: [u64; 2],
    },
    /// It started a process, which has a copy of its descriptors.
    Fork {
        /// ID of the process.
        child: i32,
    },
    /// It came to an event that is traced beside calls.
    Event {
        /// The number of the event: its place among those that were asked for.
        number: usize,
        /// The data of a tracepoint; of the return of a function, what it returned.
        data: &'a [u8],
    },
    /// It accessed memory that was not mapped yet, or not there.
    Fault {
        /// A page had to be read.
        major: bool,
        /// The address of the instruction.
        ip: u64,
        /// The address that it accessed.
        address: u64,
        /// That is of the heap.
        heap: bool,
    },
    /// It ended; the status is that of wait(2).
    Exit {
        /// The status.
        status: i32,
    },
}

/// The stack of a traced thread.
#[derive(Clone, Copy, Debug, Default)]
pub enum Stack<'a> {
    /// It was not asked for, or there is none.
    #[default]
    NotTaken,
    /// There was no room for it.
    Lost,
    /// It was copied.
    Taken(&'a ThreadStack),
}

/// A thread's stack as it was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadStack {
    /// When it was copied: nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The general registers by DWARF number, and the instruction pointer; all are 0 in threads of the kernel.
    pub registers: [u64; 17],
    /// The bytes from the stack pointer on.
    pub bytes: Vec<u8>,
    /// The thread's first frames, where these are further up than the bytes reach: an address, and what was there.
    pub root: Option<(u64, Vec<u8>)>,
    /// How many bytes of the stack there are above the copied ones.
    pub missing: u64,
    /// The kernel's part: addresses, the innermost first.
    pub kernel: Vec<u64>,
    /// It is of a 32-bit program.
    pub compat: bool,
}

/// An event that is traced beside calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSource {
    /// A tracepoint, a function, or places in a program.
    pub trigger: Trigger,
    /// Of a tracepoint: how many bytes all of its events have.
    pub size: u32,
    /// Of a tracepoint: the fields that hold the places of others.
    pub places: Vec<DataPlace>,
}

/// A field that holds length and place of another (16 bits each).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataPlace {
    /// Where it is in the data, in bytes.
    pub offset: u16,
    /// The place counts from behind this field, and not from the beginning of the data.
    pub relative: bool,
}

/// A system call.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Its number.
    pub number: u32,
    /// A 32-bit program made it: the numbers of its calls are others.
    pub compat: bool,
    /// Its arguments, as words.
    pub arguments: [u64; 6],
    /// What was copied of the program's memory, by the call's [`copies`](pyrograph_syscall::Call::copies).
    pub copied: &'a [Copied<'a>],
    /// How it ended.
    pub end: CallEnd,
}

/// The end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// It returned.
    Returned {
        /// Its result: an error number where it is from -4095 to -1.
        result: i64,
        /// How long it took, in nanoseconds.
        duration: u64,
    },
    /// It returned, and had begun before tracing did.
    Late {
        /// Its result.
        result: i64,
    },
    /// It never returns: the thread has ended in it.
    Never,
    /// It had begun before tracing did, and had not returned then.
    InProgress,
    /// It had not returned when tracing ended, after so many nanoseconds.
    Unfinished {
        /// The nanoseconds.
        after: u64,
    },
}

impl CallEnd {
    /// The result, if the call has returned.
    pub fn result(&self) -> Option<i64> {
        match self {
            Self::Returned { result, .. } | Self::Late { result } => Some(*result),
            Self::Never | Self::InProgress | Self::Unfinished { .. } => None,
        }
    }
}

/// Calls of one number that a thread made, counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallCount {
    /// ID of the process.
    pub process: i32,
    /// ID of the thread.
    pub thread: i32,
    /// Name of the thread.
    pub name: Vec<u8>,
    /// ID of the control group: the inode of its folder.
    pub group: u64,
    /// The number of the call.
    pub number: u32,
    /// A 32-bit program made them.
    pub compat: bool,
    /// How many returned.
    pub calls: u64,
    /// How many of these failed, by error number.
    pub errors: Vec<(i32, u64)>,
    /// The time that they took, in nanoseconds.
    pub total: u64,
    /// The shortest time.
    pub least: u64,
    /// The longest time.
    pub longest: u64,
    /// How many took how long: the first for less than 16 ns, then four for each power of two, and the last
    /// for all that took longer.
    pub latencies: Vec<u32>,
}

/// Calls that could not be handed out or counted, for lack of room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostCalls {
    /// Calls that were not handed out: others were not taken fast enough.
    pub calls: u64,
    /// Calls that were not counted: too many threads made too many kinds of calls at the same time.
    pub counts: u64,
    /// Calls for which the kernel had no memory.
    pub memory: u64,
    /// Events that came while another was taken on the same CPU, of whichever thread.
    pub nested: u64,
}
