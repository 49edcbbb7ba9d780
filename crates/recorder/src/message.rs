//! Reports of a recorder as it goes.

use pyrograph_event::engine::{Feature, LostBy, TableStats};
use pyrograph_event::interpreter::Language;
use pyrograph_record::Notice;
use pyrograph_resolve::{FoundInterpreter, InterpreterVersion, StackMemory};
use std::time::Duration;

use crate::in_kernel::EngineError;
use crate::jvm::JvmReport;
use crate::memory::Resident;
use crate::plan::Engine;

/// Reports that a user may want to know though the recording goes on. Those called details are for users
/// who inspect the recording itself.
#[derive(Debug)]
#[non_exhaustive]
pub enum Message {
    /// The in-kernel engine cannot be used; `perf_event_open` is used instead.
    FellBack(EngineError),
    /// Detail: the engine that takes the stacks.
    Engine(Engine),
    /// The kernel lacks a feature of use for what is recorded, which is done without it.
    Lacks(Feature),
    /// The kernel does not take the programs that find the calls of these languages.
    LanguagesRefused {
        /// The languages.
        languages: Vec<Language>,
        /// The error of loading all languages together.
        error: EngineError,
    },
    /// Something about the events, or a rate that was lowered while it was recorded.
    Notice(Notice),
    /// Calls that allocate memory take this much longer while they are recorded, as was measured; `None`: it
    /// could not be measured.
    AllocationCost(Option<Duration>),
    /// Detail: it is counted from now on, with these unwind tables.
    Started(TableStats),
    /// A Java virtual machine was asked for the names of its code.
    Jvm(JvmReport),
    /// Detail: how stacks were taken in the kernel, when it is over.
    InKernel(EngineReport),
    /// An interpreter was found; detail, if its calls can be read.
    Interpreter(FoundInterpreter),
    /// Interpreters that samples were taken in, whose calls this engine does not read.
    InterpretersNotRead(Vec<InterpreterVersion>),
    /// Files of interpreters that were too many: the calls in these were not read.
    InterpretersLeftOut {
        /// How many of these files.
        files: usize,
        /// How many are read.
        limit: usize,
    },
    /// Unwind tables did not fit in their memory, and stacks end early for it.
    TablesLeftOut {
        /// Bytes of tables that are there.
        bytes: u64,
        /// Tables that are left out at the end.
        omitted: u64,
        /// Files in which stacks end for this, and how many, most first.
        files: Vec<(String, u64)>,
    },
    /// The command has ended, and these processes that it started still run: numbers and names.
    StillRun(Vec<(i32, String)>),
    /// Detail: the memory of this process when it is over, where samples were copied out.
    Memory(Resident),
    /// Detail: the memory of stacks when it is over.
    Stacks(StackMemory),
}

/// How stacks were taken in the kernel.
#[derive(Clone, Copy, Debug)]
pub struct EngineReport {
    /// The unwind tables at the end.
    pub tables: TableStats,
    /// Events that were not counted.
    pub lost: LostBy,
    /// User stacks that were unwound in the kernel, whole or in part.
    pub unwound: u64,
    /// User stacks that were copied out and unwound in user space.
    pub copied: u64,
    /// User stacks that were not copied, for want of room.
    pub not_copied: u64,
    /// Memory of this process.
    pub resident: Resident,
    /// Bytes in the kernel, tables included.
    pub kernel_bytes: u64,
}
