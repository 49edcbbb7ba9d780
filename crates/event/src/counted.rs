//! Stacks that the in-kernel engine has unwound and counted, as it hands them to the code that builds a profile.
//!
//! Plain data: neither its transport out of the kernel nor its meaning for a profile is defined here.

use crate::interpreter::Calls;

/// One stack and its counts. `F` yields the frames of the user part, leaf first, as [`UserFrame`]s.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a, F> {
    /// ID of the process.
    pub pid: i32,
    /// ID of the thread.
    pub tid: i32,
    /// The process's name at the time of the event.
    pub process: &'a [u8],
    /// The thread's name at the time of the event.
    pub thread: &'a [u8],
    /// The CPU, if counts are kept per CPU.
    pub cpu: Option<u32>,
    /// Kind of event.
    pub kind: Kind,
    /// Number of events.
    pub events: u64,
    /// Sum of the events' values: nanoseconds, bytes, …
    pub value: u64,
    /// Kernel part of the stack, leaf first: the instruction pointer, then return addresses.
    pub kernel: &'a [u64],
    /// User part of the stack; `None` for kernel threads, or if it was not requested.
    pub user: Option<UserStack<'a, F>>,
    /// The thread that ended the wait, if it was recorded.
    pub waker: Option<Waker<'a, F>>,
    /// The value by which stacks of an event are kept apart, if they are.
    pub by: Option<ByValue<'a>>,
    /// Time of the event, in nanoseconds of `CLOCK_MONOTONIC`, if times are kept. The resolution is 16 microseconds. It
    /// is a millisecond if times are kept only for stacks in JIT-compiled code, where the time may decide which function
    /// was at an address.
    pub time: Option<u64>,
}

/// A value by which stacks are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByValue<'a> {
    /// A number.
    Number(u64),
    /// The beginning of a text, and the number of bytes of all that was read of it.
    Text(&'a [u8], usize),
    /// It could not be read.
    Unread,
}

/// User part of a stack.
#[derive(Clone, Copy, Debug)]
pub struct UserStack<'a, F> {
    /// Frames, leaf first.
    pub frames: F,
    /// Reason why the outer part is missing, if it is.
    pub cut: Option<Cut>,
    /// True if a caller was found by analysing instructions, because there was no unwind table.
    pub guessed: bool,
    /// Calls of interpreted languages in the stack.
    pub calls: Calls<'a>,
}

/// One frame of a user stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserFrame {
    /// Number of the file; `None` for code that is in no file.
    pub module: Option<u32>,
    /// Address of the code: a file offset, or an address in the process if there is no file. For a caller it is inside
    /// the call instruction.
    pub address: u64,
}

/// The thread that ended a wait.
#[derive(Clone, Copy, Debug)]
pub struct Waker<'a, F> {
    /// ID of the process; 0 if an interrupt ended the wait.
    pub pid: i32,
    /// The process's name; `[interrupt]` if an interrupt ended the wait.
    pub process: &'a [u8],
    /// The thread's name; `[interrupt]` if an interrupt ended the wait.
    pub thread: &'a [u8],
    /// Kernel part of the stack, as in [`Counted::kernel`].
    pub kernel: &'a [u64],
    /// User part of the stack.
    pub user: Option<UserStack<'a, F>>,
}

/// Flag in the number of a [`Kind::Call`]: the number is one of the 32-bit system call table. `COMPAT_CALL - 1`
/// represents all system calls with that or a higher number.
pub const COMPAT_CALL: u32 = 1 << 29;

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A perf event: the thread was running.
    Event,
    /// A wait: the thread was not running, for this reason.
    Wait(Wait),
    /// A tracepoint, or a probe in a program.
    Probe,
    /// A system call, by its number, with [`COMPAT_CALL`] if it belongs to the 32-bit table.
    Call(u32),
    /// A wait for a kernel lock. The value has the `LCB_F_` flags of `include/trace/events/lock.h`, which give the kind
    /// of lock.
    KernelLock(u32),
    /// Data that a socket sent.
    Sent(Socket),
    /// Data that a socket received.
    Received(Socket),
    /// A wait for a futex: a lock of a program, a condition variable or the like.
    Futex {
        /// True if it is a lock.
        lock: bool,
    },
    /// A wait of a goroutine, which has no thread.
    Goroutine,
    /// The thread was woken; the only stack is that of [`Counted::waker`].
    Woken,
}

/// Kind of a socket.
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
    /// It sleeps, for a reason other than the ones below.
    Sleep,
    /// It waits for a lock, in the system call `futex`.
    Lock,
    /// It waits for a condition variable, a semaphore, or the end of a thread, in the system call `futex`.
    Condition,
    /// It waits for a block device.
    Io,
    /// It waits for something else in the kernel, and signals do not wake it.
    Uninterruptible,
    /// It is runnable, but another thread has the CPU.
    Preempted,
}

/// Reasons why the outer part of a user stack is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The stack has more frames than are kept.
    TooManyFrames,
    /// The stack is larger than the copy in the sample.
    CopyTooSmall,
    /// The stack could not be read.
    Unreadable,
    /// A return address is not in mapped code.
    Unmapped,
    /// The unwind table of a file was not ready yet, and the stack was not copied to user space.
    TablePending,
    /// The unwind table of a file was left out for lack of memory.
    TableOmitted,
    /// There is no unwind table for the code, and the frame pointer does not lead to a caller.
    NoTable,
    /// The unwind table has a rule that cannot be followed.
    BadRule,
    /// The next frame is outside of the stack: on another stack that is not available, or the frame is damaged.
    OffStack,
    /// The program is a 32-bit program.
    Compat,
    /// The whole stack is missing: there were so many waits that stacks were taken for only a part of them.
    NotTaken,
    /// The code is in a file of a process that is not visible in this PID namespace.
    Invisible,
    /// The sample is of a precise event at a return instruction, so that its registers are already the caller's.
    Moved,
}

impl Cut {
    /// All reasons, in the order of their declaration.
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
