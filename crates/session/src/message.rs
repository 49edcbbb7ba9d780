//! Messages of a recorder during a recording.

use pyrograph_event::engine::{Feature, LostBy, TableStats};
use pyrograph_event::interpreter::Language;
use pyrograph_record::Notice;
use pyrograph_resolve::{FoundInterpreter, InterpreterVersion, StackMemory};
use std::time::Duration;

use crate::engine_error::EngineError;
use crate::jvm::report::JvmReport;
use crate::memory::Resident;
use crate::plan::Engine;

/// Messages for the user about a recording that goes on. Those marked "detail" are for users who inspect the recording
/// itself.
#[derive(Debug)]
pub enum Message {
    /// The in-kernel engine cannot be used; `perf_event_open` is used instead.
    FellBack(EngineError),
    /// Detail: the engine that takes the stacks.
    Engine(Engine),
    /// The kernel lacks an optional feature that this recording would use.
    Lacks(Feature),
    /// The kernel rejects the eBPF programs that read the calls of these languages.
    LanguagesRefused {
        /// The languages.
        languages: Vec<Language>,
        /// Error of loading the programs of all languages together.
        error: EngineError,
    },
    /// A notice about the events, or about a sample rate that was lowered during the recording.
    Notice(Notice),
    /// Measured time by which a call that allocates memory takes longer while it is recorded. `None` if it could not be
    /// measured.
    AllocationCost(Option<Duration>),
    /// Detail: counting has started, with these unwind tables.
    Started(TableStats),
    /// A Java virtual machine was asked for the names of its compiled code.
    Jvm(JvmReport),
    /// Detail: statistics of the in-kernel engine, at the end of the recording.
    InKernel(EngineReport),
    /// An interpreter was found. It is a detail if its calls can be read.
    Interpreter(FoundInterpreter),
    /// Interpreters in which samples were taken, whose calls this engine cannot read.
    InterpretersNotRead(Vec<InterpreterVersion>),
    /// There were too many files of interpreters. The calls in the rest of these were not read.
    InterpretersLeftOut {
        /// Number of files that were left out.
        files: usize,
        /// Maximum number of files that are read.
        limit: usize,
    },
    /// Some unwind tables did not fit in the memory for them, so that stacks end early.
    TablesLeftOut {
        /// Size of the tables in memory, in bytes.
        bytes: u64,
        /// Number of tables that are left out at the end.
        omitted: u64,
        /// Files in which stacks end for this reason, with the number of stacks, largest first.
        files: Vec<(String, u64)>,
    },
    /// Events that were not counted because of their values.
    ValuesLeftOut {
        /// Events of which a value could not be read: that of the filter, or the one that is added up.
        unread: u64,
        /// Events whose value, which is added up, is negative.
        negative: u64,
    },
    /// Waits of the Go runtime's own goroutines, which are left out.
    GoroutinesLeftOut(u64),
    /// Processes that the command has started and that still run after its end: process IDs and names.
    StillRun(Vec<(i32, String)>),
    /// Detail: memory of this process at the end, if samples were copied out.
    Memory(Resident),
    /// Detail: memory of stacks at the end.
    Stacks(StackMemory),
}

/// Statistics of the in-kernel engine.
#[derive(Clone, Copy, Debug)]
pub struct EngineReport {
    /// Unwind tables at the end of the recording.
    pub tables: TableStats,
    /// Lost events, by reason.
    pub lost: LostBy,
    /// Number of user stacks that were unwound in the kernel, completely or in part.
    pub unwound: u64,
    /// Number of user stacks that were copied out and unwound in user space.
    pub copied: u64,
    /// Number of user stacks that were not copied for lack of room.
    pub not_copied: u64,
    /// Memory of this process.
    pub resident: Resident,
    /// Memory in the kernel in bytes, including the unwind tables.
    pub kernel_bytes: u64,
}

/// Callback for messages during a recording.
pub(crate) type Report = Box<dyn FnMut(Message)>;
