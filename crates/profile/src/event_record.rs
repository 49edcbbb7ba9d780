//! Records beside samples: what happened to threads, mappings, CPUs and the recording itself.

use std::borrow::Cow;

/// Records that are asked for together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordGroup {
    /// Threads that start, end and get names.
    Task,
    /// Files and memory that are mapped.
    Mmap,
    /// Switches of threads.
    Switch,
    /// Namespaces of threads.
    Namespace,
    /// Lost records.
    Lost,
    /// Control groups.
    Cgroup,
}

/// A record beside samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventRecord<'a> {
    /// A thread got a name.
    Comm {
        /// The process.
        pid: i32,
        /// The thread.
        tid: i32,
        /// The name.
        name: Cow<'a, str>,
        /// It changed by `exec`.
        exec: bool,
    },
    /// A thread or process started.
    Fork(TaskRecord),
    /// A thread or process ended.
    Exit(TaskRecord),
    /// A file was mapped.
    Mmap(MappingRecord<'a>),
    /// The thread of the event came to a CPU, or left it.
    Switch {
        /// It left.
        out: bool,
        /// It left while it could have run on.
        preempted: bool,
        /// Process and thread of the one that comes next, or was there before; known of whole CPUs.
        other: Option<(i32, i32)>,
    },
    /// Namespaces of a thread.
    Namespaces {
        /// The process.
        pid: i32,
        /// The thread.
        tid: i32,
        /// Device and inode of each: network, UTS, IPC, PID, user, mount, cgroup.
        links: Vec<(u64, u64)>,
    },
    /// Records were lost, since the buffer was full.
    Lost {
        /// How many.
        count: u64,
    },
    /// A control group came to be.
    Cgroup {
        /// Its number in samples.
        id: u64,
        /// Its path below the hierarchy's root.
        path: Cow<'a, str>,
    },
}

/// The thread that started or ended, and the one that started it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskRecord {
    /// Its process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// The parent's process.
    pub parent_pid: i32,
    /// The parent's thread.
    pub parent_tid: i32,
}

/// A mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingRecord<'a> {
    /// The process; −1 for the kernel itself.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// The first address.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// The offset in the file, in bytes.
    pub offset: u64,
    /// The file's path, or a name such as `[vdso]`.
    pub path: Cow<'a, str>,
    /// What else is recorded of it.
    pub details: MappingDetails,
}

/// What is recorded of a mapping beside its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappingDetails {
    /// `PERF_RECORD_MMAP`, which has no more than this.
    Short {
        /// It is executable.
        executable: bool,
    },
    /// `PERF_RECORD_MMAP2`.
    Long {
        /// Which file.
        file: MappedFile,
        /// `PROT_READ` (1), `PROT_WRITE` (2), `PROT_EXEC` (4).
        protection: u32,
        /// It is shared between processes.
        shared: bool,
    },
}

/// Which file is mapped.
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
        /// Which file of those that had this inode.
        generation: u64,
    },
    /// By its build ID.
    BuildId(Vec<u8>),
}

impl EventRecord<'_> {
    /// The records it is asked for with.
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

    /// Process and thread that it is about, if not those that it happened in.
    pub fn thread(&self) -> Option<(i32, i32)> {
        match self {
            Self::Comm { pid, tid, .. } | Self::Namespaces { pid, tid, .. } => Some((*pid, *tid)),
            Self::Fork(task) | Self::Exit(task) => Some((task.pid, task.tid)),
            Self::Mmap(mapping) => Some((mapping.pid, mapping.tid)),
            Self::Switch { .. } | Self::Lost { .. } | Self::Cgroup { .. } => None,
        }
    }
}
