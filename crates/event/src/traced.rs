//! Traced system calls, one by one or counted, as kernel programs or ptrace report them. Plain data.

use pyrograph_syscall::Copied;

use crate::request::Trigger;
use crate::values::EventValues;

/// An action of a traced thread.
#[derive(Clone, Copy, Debug)]
pub struct Traced<'a> {
    /// Start of the action, in nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// ID of the process.
    pub process: i32,
    /// ID of the thread.
    pub thread: i32,
    /// Name of the thread; the kernel keeps 15 bytes.
    pub name: &'a [u8],
    /// The action and its details.
    pub action: Action<'a>,
    /// Stack of the thread at that time.
    pub stack: Stack<'a>,
}

/// Kinds of actions of a traced thread.
#[derive(Clone, Copy, Debug)]
pub enum Action<'a> {
    /// The thread made a system call.
    Call(Call<'a>),
    /// The thread received a signal.
    Signal {
        /// Number of the signal.
        number: i32,
        /// Reason for the signal: `si_code` of sigaction(2).
        code: i32,
        /// The two words of `siginfo_t` from its 16th byte on: PID and user ID of the sender, and a status; or an
        /// address.
        fields: [u64; 2],
    },
    /// The thread started a process, which has a copy of its file descriptors.
    Fork {
        /// ID of the new process.
        child: i32,
    },
    /// The thread reached an event that is traced in addition to system calls.
    Event {
        /// Index of the event in the list of requested events.
        number: usize,
        /// Raw data of a tracepoint; for the return of a function, its return value.
        data: &'a [u8],
    },
    /// The thread accessed memory that was not mapped yet, or not in memory (a page fault).
    Fault {
        /// True for a major fault: the page had to be read from a file or device.
        major: bool,
        /// Address of the instruction.
        ip: u64,
        /// The accessed address.
        address: u64,
        /// True if the accessed address is in the heap.
        heap: bool,
    },
    /// The thread exited. The status is encoded as in wait(2).
    Exit {
        /// Exit status.
        status: i32,
    },
}

/// Stack of a traced thread.
#[derive(Clone, Copy, Debug, Default)]
pub enum Stack<'a> {
    /// The stack was not requested, or there is none.
    #[default]
    NotTaken,
    /// The stack was lost, because there was no room for it.
    Lost,
    /// A copy of the stack.
    Taken(&'a ThreadStack),
}

/// Copy of a thread's stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadStack {
    /// Time of the copy, in nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// General registers by DWARF number, then the instruction pointer; all 0 for kernel threads.
    pub registers: [u64; 17],
    /// Bytes of the stack, from the stack pointer on.
    pub bytes: Vec<u8>,
    /// The outermost frames of the thread, if `bytes` do not reach them: an address and the bytes there.
    pub root: Option<(u64, Vec<u8>)>,
    /// Number of bytes from the end of `bytes` to the end of the stack.
    pub missing: u64,
    /// Kernel part of the stack: addresses, innermost first.
    pub kernel: Vec<u64>,
    /// True for a 32-bit program.
    pub compat: bool,
}

/// An event that is traced in addition to system calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSource {
    /// A tracepoint, a function, or instructions in a program.
    pub trigger: Trigger,
    /// Tracepoint: size in bytes of the fixed part of its data.
    pub size: u32,
    /// Tracepoint: fields that hold length and position of another field (`__data_loc`, `__rel_loc`).
    pub places: Vec<DataPlace>,
    /// Its values: of a place in a program those that are read there, of a tracepoint those of its filter.
    pub values: EventValues,
}

/// A field of a tracepoint that holds length and position of another field, 16 bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataPlace {
    /// Offset of the field in the data, in bytes.
    pub offset: u16,
    /// True if the position is relative to the end of this field (`__rel_loc`), false if relative to the start of the
    /// data.
    pub relative: bool,
}

/// A system call.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Number of the call.
    pub number: u32,
    /// True if a 32-bit program made it; the number is then one of the 32-bit table.
    pub compat: bool,
    /// False if it is only returned so that open files can be followed.
    pub is_wanted: bool,
    /// Arguments, as words.
    pub arguments: [u64; 6],
    /// Copies of the program's memory, as planned by the call's [`copies`](pyrograph_syscall::Call::copies).
    pub copied: &'a [Copied<'a>],
    /// End of the call.
    pub end: CallEnd,
}

/// The end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// The call returned.
    Returned {
        /// Result; an error number if it is between -4095 and -1.
        result: i64,
        /// Duration in nanoseconds.
        duration: u64,
    },
    /// The call returned, but it had begun before tracing started.
    Late {
        /// Result, as in [`Self::Returned`].
        result: i64,
    },
    /// The call never returns: the thread exited in it.
    Never,
    /// The call was already in progress when tracing started.
    InProgress,
    /// The call had not returned when tracing ended.
    Unfinished {
        /// Time from its start to the end of tracing, in nanoseconds.
        after: u64,
    },
}

impl CallEnd {
    /// Result of the call, if it has returned.
    pub fn result(&self) -> Option<i64> {
        match self {
            Self::Returned { result, .. } | Self::Late { result } => Some(*result),
            Self::Never | Self::InProgress | Self::Unfinished { .. } => None,
        }
    }
}

/// Statistics of the calls of one number that a thread made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallCount {
    /// ID of the process.
    pub process: i32,
    /// ID of the thread.
    pub thread: i32,
    /// Name of the thread.
    pub name: Vec<u8>,
    /// ID of the control group: the inode number of its directory.
    pub group: u64,
    /// Number of the call.
    pub number: u32,
    /// True if a 32-bit program made the calls.
    pub compat: bool,
    /// Number of calls that returned.
    pub calls: u64,
    /// Number of failed calls, by error number.
    pub errors: Vec<(i32, u64)>,
    /// Total duration in nanoseconds.
    pub total: u64,
    /// Shortest duration in nanoseconds.
    pub least: u64,
    /// Longest duration in nanoseconds.
    pub longest: u64,
    /// Histogram of durations: number of calls in each range. The first range is below 16 ns, then there are four for
    /// each power of two; the last range has all longer calls.
    pub latencies: Vec<u32>,
}

/// Calls that could not be emitted or counted, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostCalls {
    /// Calls that were not emitted because the reader was too slow, so that the buffer was full.
    pub calls: u64,
    /// Calls that were not counted because too many threads made too many kinds of calls at the same time.
    pub counts: u64,
    /// Calls for which the kernel could not allocate memory.
    pub memory: u64,
    /// Events that occurred while another event was being handled on the same CPU, in any thread.
    pub nested: u64,
    /// Calls and events that were left out because a value of the filter could not be read.
    pub unread: u64,
}
