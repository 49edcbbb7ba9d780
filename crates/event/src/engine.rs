//! Facts about the in-kernel engine, for those who report them: features of the kernel that it makes use of, and
//! its unwind tables.

use std::time::Duration;

/// Unwind tables in the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableStats {
    /// Files that have a table, which is there.
    pub tables: u64,
    /// Their rows.
    pub rows: u64,
    /// Bytes that these take.
    pub bytes: u64,
    /// Files whose table is left out: there is no room for it.
    pub omitted: u64,
    /// Files whose table was read from the cache.
    pub cached: u64,
    /// How long it took to make them, or to read them.
    pub time: Duration,
}

/// Events that were not counted, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostBy {
    /// The table of counts was full.
    pub counts: u64,
    /// There was no room to hand their stack out.
    pub stacks: u64,
    /// The CPU was at work on others.
    pub busy: u64,
    /// They were counted, but their stack was never handed out.
    pub unknown: u64,
}

impl LostBy {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.counts + self.stacks + self.busy + self.unknown
    }
}

/// Features of the kernel that the in-kernel engine makes use of, by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feature {
    /// Descriptions of its types (BTF).
    Types,
    /// Ring buffers of BPF programs.
    RingBuffers,
    /// Values that BPF programs keep for each thread.
    ThreadStorage,
    /// Numbers that are given to a program where it is attached.
    AttachCookies,
    /// The user registers of a thread.
    UserRegisters,
    /// Loops in BPF programs.
    Loops,
    /// Reading the memory of a thread that does not run.
    OtherThreads,
    /// Tracepoints of waits for the kernel's own locks.
    KernelLocks,
    /// Mappings in maple trees.
    MapleTrees,
    /// Memory for rows of maps that are made while a program runs.
    MapMemory,
    /// Tracepoints of what sockets send and receive.
    Sockets,
    /// Tracepoints of requests to block devices when they are made.
    BlockRequests,
    /// A tracepoint of when a thread goes on.
    Resume,
}

impl Feature {
    /// All of them, by age. What programs need that is older than all of these is not among them.
    pub const ALL: [Self; 13] = [
        Self::Types,
        Self::RingBuffers,
        Self::ThreadStorage,
        Self::AttachCookies,
        Self::UserRegisters,
        Self::Loops,
        Self::OtherThreads,
        Self::KernelLocks,
        Self::MapleTrees,
        Self::MapMemory,
        Self::Sockets,
        Self::BlockRequests,
        Self::Resume,
    ];

    /// Its name in the kernel, or what it is.
    pub fn name(self) -> &'static str {
        match self {
            Self::Types => "descriptions of its types",
            Self::RingBuffers => "ring buffers",
            Self::ThreadStorage => "storage of threads",
            Self::AttachCookies => "attach cookies",
            Self::UserRegisters => "task_pt_regs",
            Self::Loops => "loops",
            Self::OtherThreads => "copy_from_user_task",
            Self::KernelLocks => "contention_begin",
            Self::MapleTrees => "maple trees of mappings",
            Self::MapMemory => "memory for rows of maps",
            Self::Sockets => "sock_send_length",
            Self::BlockRequests => "block_io_start",
            Self::Resume => "sched_exit",
        }
    }

    /// The first kernel that has it, or the setting that it is built with.
    pub fn since(self) -> &'static str {
        match self {
            Self::Types => "CONFIG_DEBUG_INFO_BTF",
            Self::RingBuffers => "Linux 5.8",
            Self::ThreadStorage => "Linux 5.11",
            Self::AttachCookies | Self::UserRegisters => "Linux 5.15",
            Self::Loops => "Linux 5.17",
            Self::OtherThreads => "Linux 5.18",
            Self::KernelLocks => "Linux 5.19",
            Self::MapleTrees | Self::MapMemory => "Linux 6.1",
            Self::Sockets => "Linux 6.3",
            Self::BlockRequests => "Linux 6.5",
            Self::Resume => "Linux 6.16",
        }
    }

    /// Nothing can be recorded in the kernel without it.
    pub fn is_required(self) -> bool {
        matches!(self, Self::Types | Self::RingBuffers | Self::ThreadStorage | Self::UserRegisters)
    }
}
