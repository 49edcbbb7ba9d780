//! Stacks that programs in the kernel have unwound and counted: the in-kernel engine returns them, and what
//! makes a profile takes them.
//!
//! Plain data: how it leaves the kernel is the engine's matter, and what it means for a profile the taker's.

use crate::interpreter::Calls;

/// One stack, and how often it was counted. `F`: the frames of its user part, leaf first, as [`UserFrame`]s.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a, F> {
    /// The process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// The process's name at that moment.
    pub process: &'a [u8],
    /// The thread's name at that moment.
    pub thread: &'a [u8],
    /// The CPU that it was on, where CPUs are kept apart.
    pub cpu: Option<u32>,
    /// The kind of event.
    pub kind: Kind,
    /// How often it happened.
    pub events: u64,
    /// Sum of what the events stand for: nanoseconds, bytes, …
    pub value: u64,
    /// The kernel part of the stack, leaf first: the address where it was, then return addresses.
    pub kernel: &'a [u64],
    /// The user part of the stack; `None` for threads of the kernel, and where it was not asked for.
    pub user: Option<UserStack<'a, F>>,
    /// The thread that ended the wait.
    pub waker: Option<Waker<'a, F>>,
    /// When it happened, if times are kept: nanoseconds of `CLOCK_MONOTONIC`, to 16 microseconds; or to a millisecond, if
    /// they are kept of JIT-compiled code alone: which function was at an address may depend on it.
    pub time: Option<u64>,
}

/// The user part of a stack.
#[derive(Clone, Copy, Debug)]
pub struct UserStack<'a, F> {
    /// Its frames, leaf first.
    pub frames: F,
    /// The reason why its outer part is missing, if it is.
    pub cut: Option<Cut>,
    /// A caller in it was found by what instructions say, for want of an unwind table.
    pub guessed: bool,
    /// Calls of interpreted languages in it.
    pub calls: Calls<'a>,
}

/// One frame of a user stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserFrame {
    /// Number of the file; `None` for code that is in no file.
    pub module: Option<u32>,
    /// Place of the code, inside of a call: a file offset, or an address in the process.
    pub address: u64,
}

/// The thread that ended a wait.
#[derive(Clone, Copy, Debug)]
pub struct Waker<'a, F> {
    /// The process; 0 if it was none.
    pub pid: i32,
    /// The process's name; `[interrupt]` if it was none.
    pub process: &'a [u8],
    /// The thread's name.
    pub thread: &'a [u8],
    /// The kernel part of its stack, as in [`Counted::kernel`].
    pub kernel: &'a [u64],
    /// The user part of its stack.
    pub user: Option<UserStack<'a, F>>,
}

/// In the number of a [`Kind::Call`]: it is one of those that 32-bit programs have. One less stands for all that are not smaller.
pub const COMPAT_CALL: u32 = 1 << 29;

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A perf event: the thread ran.
    Event,
    /// A wait: the thread did not run, for this reason.
    Wait(Wait),
    /// A tracepoint, or a probe in a program.
    Probe,
    /// A system call, by its number, with [`COMPAT_CALL`] if that is one of 32-bit programs.
    Call(u32),
    /// A wait for a lock of the kernel, whose kind the `LCB_F_` flags of `include/trace/events/lock.h` say.
    KernelLock(u32),
    /// A socket has sent this.
    Sent(Socket),
    /// A socket has received this.
    Received(Socket),
    /// A wait for a lock of a program, or for a condition or the like.
    Futex {
        /// It is a lock.
        lock: bool,
    },
    /// The thread was woken: the only stack is that of [`Counted::waker`].
    Woken,
}

/// Kinds of sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// Address family (`AF_INET`).
    pub family: u16,
    /// Protocol (`IPPROTO_TCP`).
    pub protocol: u16,
}

/// Reasons why a thread does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It sleeps until something happens that is none of the others.
    Sleep,
    /// It is in the system call `futex`, and waits for a lock.
    Lock,
    /// It is in the system call `futex`, and waits for a condition, a semaphore, the end of a thread.
    Condition,
    /// It waits for a block device.
    Io,
    /// It waits for something else in the kernel, and no signal wakes it.
    Uninterruptible,
    /// It is runnable, and another thread has the CPU.
    Preempted,
}

/// Reasons why the outer part of a user stack is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It has more frames than are kept.
    TooManyFrames,
    /// It is larger than the copy that a sample has of it.
    CopyTooSmall,
    /// It could not be read.
    Unreadable,
    /// A return address leads to no code that is mapped.
    Unmapped,
    /// The unwind table of a file was not ready yet, and its stack was not copied.
    TablePending,
    /// The unwind table of a file was left out for want of memory.
    TableOmitted,
    /// Code without an unwind table, and without a frame pointer that leads on.
    NoTable,
    /// The unwind table says what cannot be followed.
    BadRule,
    /// It leads off the stack: to another one that is not at hand, or to a damaged frame.
    OffStack,
    /// A 32-bit program.
    Compat,
    /// All of it: of so many waits, only a part had their stacks taken.
    NotTaken,
    /// In a file of a process that cannot be seen from this PID namespace.
    Invisible,
    /// A precise event at a return: its registers are the caller's already.
    Moved,
}

impl Cut {
    /// All reasons, in the order in which they are declared.
    pub const ALL: [Self; 13] = [
        Self::TooManyFrames,
        Self::CopyTooSmall,
        Self::Unreadable,
        Self::Unmapped,
        Self::TablePending,
        Self::TableOmitted,
        Self::NoTable,
        Self::BadRule,
        Self::OffStack,
        Self::Compat,
        Self::NotTaken,
        Self::Invisible,
        Self::Moved,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_reasons_are_listed_in_their_order() {
        assert!(Cut::ALL.iter().enumerate().all(|(at, cut)| *cut as usize == at));
    }
}
