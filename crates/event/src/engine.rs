//! Facts about the in-kernel engine, for reports: the kernel features that it uses, and its unwind tables.

use std::time::Duration;

/// Statistics of the unwind tables in the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableStats {
    /// Number of files whose table is loaded.
    pub tables: u64,
    /// Number of rows in these tables.
    pub rows: u64,
    /// Memory of these tables, in bytes.
    pub bytes: u64,
    /// Number of files whose table was left out because there was no room for it.
    pub omitted: u64,
    /// Number of files whose table was read from the cache.
    pub cached: u64,
    /// Time spent building the tables or reading them from the cache.
    pub time: Duration,
}

/// Number of events that were not counted, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostBy {
    /// The table of counts was full.
    pub counts: u64,
    /// There was no room to emit the stack to user space.
    pub stacks: u64,
    /// The programs were already handling another event on the same CPU.
    pub busy: u64,
    /// The event was counted, but its stack was never emitted to user space.
    pub unknown: u64,
}

impl LostBy {
    /// Number of events that were not counted, for any reason.
    pub fn total(&self) -> u64 {
        self.counts + self.stacks + self.busy + self.unknown
    }
}

/// Features of the kernel that the in-kernel engine uses, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feature {
    /// Type information of the kernel (BTF).
    Types,
    /// BPF ring buffers.
    RingBuffers,
    /// Values that BPF programs store per thread (task local storage).
    ThreadStorage,
    /// A number that is passed to a BPF program for each of its attachments.
    AttachCookies,
    /// Access to the user registers of a thread.
    UserRegisters,
    /// The helper for loops in BPF programs.
    Loops,
    /// Access to the memory of a thread that is not running.
    OtherThreads,
    /// Tracepoints for waits for the kernel's own locks.
    KernelLocks,
    /// Mappings of a process in a maple tree.
    MapleTrees,
    /// Memory for entries of BPF maps that is allocated while a program runs.
    MapMemory,
    /// Tracepoints for data that sockets send and receive.
    Sockets,
    /// Tracepoints for requests to block devices at the time when they are made.
    BlockRequests,
    /// A tracepoint for a thread that continues to run.
    Resume,
}

impl Feature {
    /// All features, oldest first. Features that the programs need and that are older than all of these are not listed.
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

    /// The feature's name in the kernel, or a description.
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

    /// First kernel version that has the feature, or the kernel configuration option that enables it.
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

    /// Returns true if the in-kernel engine does not work without the feature.
    pub fn is_required(self) -> bool {
        matches!(self, Self::Types | Self::RingBuffers | Self::ThreadStorage | Self::UserRegisters)
    }
}
