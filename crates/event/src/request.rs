//! Requests to count in the kernel: the in-kernel engine is given this, and whoever plans a recording
//! makes it. Plain data, as [`crate::counted`] is, which comes of it.

use std::path::PathBuf;

/// Triggers: events for which the programs take a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trigger {
    /// Perf events, which the caller opens.
    #[default]
    PerfEvents,
    /// A tracepoint of the kernel.
    Tracepoint {
        /// Its category: `sched`.
        category: String,
        /// Its name: `sched_switch`.
        name: String,
    },
    /// A function of a program or library.
    Function {
        /// Its file.
        path: PathBuf,
        /// Its name.
        name: String,
        /// How far behind its start; 0 where its calls trigger.
        offset: usize,
        /// Each time that it returns, not that it is called; then there is no offset.
        returns: bool,
    },
    /// Places in a program or library.
    Places {
        /// Their file.
        path: PathBuf,
        /// The places.
        places: Vec<Place>,
    },
    /// The functions of a C library that allocate memory: counted are the bytes that are requested.
    Allocations {
        /// The library's file.
        path: PathBuf,
        /// Only memory that is not freed before the end.
        live: bool,
    },
    /// System calls.
    Calls {
        /// Their numbers.
        numbers: Vec<u32>,
        /// Measure of each of them.
        measure: Measure,
        /// Only those that read or write regular files.
        files: bool,
    },
    /// Requests to block devices, from when they are made until they are done.
    BlockRequests {
        /// Measure of each of them.
        measure: Measure,
    },
    /// Waits for locks, of the kernel and of programs, in nanoseconds.
    Locks,
    /// Data that sockets send and receive, in bytes.
    Sockets,
    /// Nothing: waits alone are counted.
    None,
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Offset in the file.
    pub offset: u64,
    /// Offset of a counter that is not 0 while someone listens; 0 if there is none.
    pub semaphore: u64,
}

/// Measures of calls and requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Measure {
    /// How many there are.
    #[default]
    Count,
    /// How long they take, in nanoseconds.
    Time,
    /// How many bytes they move.
    Bytes,
}

/// Waits that are counted: the time from when a thread stops to run until it goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waits {
    /// None.
    #[default]
    None,
    /// With the stacks of the threads that wait.
    Alone,
    /// With these, and the stacks of the threads that wake them.
    WithWakers,
    /// With the stacks of the threads that wake them alone. A wait ends when it is ended, and not only when
    /// the thread goes on.
    Wakers,
}
