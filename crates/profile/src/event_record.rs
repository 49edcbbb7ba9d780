//! Records other than samples: events of threads, mappings, CPUs and the recording itself.

use std::borrow::Cow;

/// Groups of records that are requested together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordGroup {
    /// Threads that start, exit or are named.
    Task,
    /// Mappings of files and memory.
    Mmap,
    /// Context switches.
    Switch,
    /// Namespaces of threads.
    Namespace,
    /// Records of lost records.
    Lost,
    /// Control groups.
    Cgroup,
}

/// A record other than a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventRecord<'a> {
    /// The name of a thread was set.
    Comm {
        /// The process.
        pid: i32,
        /// The thread.
        tid: i32,
        /// The name.
        name: Cow<'a, str>,
        /// True if `exec` changed the name.
        exec: bool,
    },
    /// A thread or process started.
    Fork(TaskRecord),
    /// A thread or process exited.
    Exit(TaskRecord),
    /// A file was mapped.
    Mmap(MappingRecord<'a>),
    /// The event's thread was switched to a CPU or away from it.
    Switch {
        /// True if the thread left the CPU.
        out: bool,
        /// True if it left the CPU although it was runnable.
        preempted: bool,
        /// Process and thread that run next, or ran before; known only for events that count whole CPUs.
        other: Option<(i32, i32)>,
    },
    /// Namespaces of a thread.
    Namespaces {
        /// The process.
        pid: i32,
        /// The thread.
        tid: i32,
        /// Device and inode of each namespace: network, UTS, IPC, PID, user, mount, cgroup.
        links: Vec<(u64, u64)>,
    },
    /// Records were lost because the buffer was full.
    Lost {
        /// Number of lost records.
        count: u64,
    },
    /// A control group was created.
    Cgroup {
        /// ID of the control group, as in samples.
        id: u64,
        /// Path relative to the root of the hierarchy.
        path: Cow<'a, str>,
    },
}

/// Thread that started or exited, and its parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskRecord {
    /// Process of the thread.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// Process of the parent.
    pub parent_pid: i32,
    /// Thread of the parent.
    pub parent_tid: i32,
}

/// A mapping of a file or of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingRecord<'a> {
    /// The process; −1 if the mapping is the kernel's own.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// The first address.
    pub start: u64,
    /// Size in bytes.
    pub len: u64,
    /// The offset in the file, in bytes.
    pub offset: u64,
    /// The file's path, or a name such as `[vdso]`.
    pub path: Cow<'a, str>,
    /// The other fields, which depend on the record's type.
    pub details: MappingDetails,
}

/// Fields of a mapping that depend on the record's type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappingDetails {
    /// `PERF_RECORD_MMAP`, which has only this field.
    Short {
        /// True if the mapping is executable.
        executable: bool,
    },
    /// `PERF_RECORD_MMAP2`.
    Long {
        /// The mapped file.
        file: MappedFile,
        /// `PROT_READ` (1), `PROT_WRITE` (2), `PROT_EXEC` (4).
        protection: u32,
        /// True if the mapping is shared between processes (`MAP_SHARED`).
        shared: bool,
    },
}

/// Identity of a mapped file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappedFile {
    /// By device and inode.
    Inode {
        /// Major number of the device.
        major: u32,
        /// Minor number of the device.
        minor: u32,
        /// The inode; 0 if no file is mapped.
        inode: u64,
        /// Generation of the inode, which distinguishes successive files with the same inode number.
        generation: u64,
    },
    /// By its build ID.
    BuildId(Vec<u8>),
}

impl EventRecord<'_> {
    /// Group to which the record belongs.
    pub fn group(&self) -> RecordGroup {
        match self {
            Self::Comm { .. } | Self::Fork(_) | Self::Exit(_) => RecordGroup::Task,
            Self::Mmap(_) => RecordGroup::Mmap,
            Self::Switch { .. } => RecordGroup::Switch,
            Self::Namespaces { .. } => RecordGroup::Namespace,
            Self::Lost { .. } => RecordGroup::Lost,
            Self::Cgroup { .. } => RecordGroup::Cgroup,
        }
    }

    /// Process and thread that the record is about, if the record names them.
    pub fn thread(&self) -> Option<(i32, i32)> {
        match self {
            Self::Comm { pid, tid, .. } | Self::Namespaces { pid, tid, .. } => Some((*pid, *tid)),
            Self::Fork(task) | Self::Exit(task) => Some((task.pid, task.tid)),
            Self::Mmap(mapping) => Some((mapping.pid, mapping.tid)),
            Self::Switch { .. } | Self::Lost { .. } | Self::Cgroup { .. } => None,
        }
    }
}
