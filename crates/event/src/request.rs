//! Requests to the in-kernel engine: what to count. The planner of a recording creates them; the results are in
//! [`crate::counted`]. Plain data.

use std::path::PathBuf;

use crate::values::{EventValues, Sum};

/// Triggers: the events for which the programs take a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trigger {
    /// Perf events, which the caller opens.
    #[default]
    PerfEvents,
    /// A tracepoint of the kernel.
    Tracepoint {
        /// Category: `sched`.
        category: String,
        /// Name: `sched_switch`.
        name: String,
    },
    /// A function of a program or library.
    Function {
        /// File of the program or library.
        path: PathBuf,
        /// Name of the function.
        name: String,
        /// Offset in the function, in bytes; 0 to trigger on its calls.
        offset: usize,
        /// True to trigger on each return of the function instead of its calls; `offset` is then 0.
        returns: bool,
    },
    /// Instructions in a program or library.
    Places {
        /// File of the program or library.
        path: PathBuf,
        /// The instructions.
        places: Vec<Place>,
        /// True to trigger on each return of the functions that begin there, instead of on the instructions.
        returns: bool,
    },
    /// Functions of the kernel.
    KernelFunctions {
        /// Their names.
        names: Vec<String>,
        /// True to trigger on each of their returns instead of their calls.
        returns: bool,
    },
    /// Memory allocation functions of a C library. The counted value is the number of requested bytes.
    Allocations {
        /// File of the library.
        path: PathBuf,
        /// Files that may have an allocator of their own beside the library's (`_rjem_malloc`, `mi_malloc`).
        others: Vec<PathBuf>,
        /// True to count only memory that is not freed before the end of the recording.
        live: bool,
    },
    /// System calls.
    Calls {
        /// Numbers of the system calls.
        numbers: Vec<u32>,
        /// Measured quantity of each call.
        measure: Measure,
        /// True to count only calls that read or write regular files.
        files: bool,
    },
    /// Requests to block devices, from submission to completion.
    BlockRequests {
        /// Measured quantity of each request.
        measure: Measure,
    },
    /// Waits for locks of the kernel and of programs, in nanoseconds.
    Locks,
    /// Waits of the goroutines of a Go program, in nanoseconds.
    Goroutines {
        /// File of the program.
        path: PathBuf,
        /// File offsets of the functions.
        functions: GoFunctions,
    },
    /// Data sent and received by sockets, in bytes.
    Sockets,
    /// A tracepoint, a function or places, by values that are read of its events.
    Values {
        /// The trigger.
        of: Box<Trigger>,
        /// The values, and which events are counted.
        values: EventValues,
        /// The value that is counted (without ranges), and the one by which stacks are kept apart.
        sum: Sum,
    },
    /// No trigger: only waits are counted.
    None,
}

impl Trigger {
    /// The trigger without the values of its events.
    pub fn without_values(&self) -> &Self {
        match self {
            Self::Values { of, .. } => of,
            other => other,
        }
    }
}

/// What ends the time that is measured from an event on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ends {
    /// The returns of the functions whose calls are the event.
    Returns(Trigger),
    /// Another event, with the value by which it is known that it ends the first.
    Event(Trigger, EventValues, Sum),
}

/// An instruction in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Offset of the instruction in the file.
    pub offset: u64,
    /// File offset of the USDT semaphore, a counter that is not 0 while a tracer is attached; 0 if there is none.
    pub semaphore: u64,
}

/// Functions of Go's runtime in a program, as file offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoFunctions {
    /// `runtime.gopark`, with which a goroutine gives up its thread.
    pub park: u64,
    /// `runtime.execute`, with which a thread runs a goroutine.
    pub execute: u64,
}

/// Measured quantities of calls and requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Measure {
    /// Their number.
    #[default]
    Count,
    /// Their duration in nanoseconds.
    Time,
    /// The number of bytes that they transfer.
    Bytes,
}

/// Waits to count: the time from when a thread stops running until it continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waits {
    /// Do not count waits.
    #[default]
    None,
    /// Count waits, with the stacks of the waiting threads.
    Alone,
    /// Count waits, with the stacks of the waiting threads and of the threads that wake them.
    WithWakers,
    /// Count waits, with the stacks of the waking threads only. A wait then ends at the wakeup, not when the thread runs
    /// again.
    Wakers,
}
