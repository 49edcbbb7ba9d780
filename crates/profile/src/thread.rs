//! Threads, in which samples are taken.

use hashbrown::HashMap;

use crate::{StringId, ThreadId};

/// A thread as the source identifies it. The known fields depend on the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Thread {
    /// Process ID. Negative if the source has it so: `perf` writes −1 for "none".
    pub pid: Option<i32>,
    /// Thread ID.
    pub tid: Option<i32>,
    /// Name of the process, or of the thread if the source has only that. Empty if not known.
    pub process: StringId,
    /// Name of the thread. Empty if not known.
    pub name: StringId,
    /// Name of the machine, or another name that distinguishes profiles of several sources. Empty if there is only one.
    pub host: StringId,
    /// Control group of the process, as in `/proc/PID/cgroup`: `/system.slice/nginx.service`. Empty if not known.
    pub cgroup: StringId,
    /// Command line of the process, quoted for a shell: `python3 /srv/mailer.py 'a b'`. Empty if not known, and for
    /// kernel threads.
    pub command_line: StringId,
    /// A field of the thread's events with its value, if events were told apart by it: `addr=0x10`. Else empty.
    pub field: StringId,
}

impl Thread {
    /// Returns all strings of the thread.
    pub fn texts(self) -> [StringId; 6] {
        [self.process, self.name, self.host, self.cgroup, self.command_line, self.field]
    }

    /// Returns the thread with the identifiers of its strings replaced.
    pub fn map_texts(self, map: impl FnMut(StringId) -> StringId) -> Self {
        let [process, name, host, cgroup, command_line, field] = self.texts().map(map);
        Self { process, name, host, cgroup, command_line, field, ..self }
    }
}

/// Level of detail at which threads are distinguished, in ascending order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadDetail {
    /// By names only.
    #[default]
    Name,
    /// By names, process ID, and control group and command line of the process.
    Process,
    /// By names, process ID, thread ID, and control group and command line of the process.
    Thread,
}

impl ThreadDetail {
    /// Returns the IDs that are kept at this level.
    pub fn numbers(self, pid: Option<i32>, tid: Option<i32>) -> (Option<i32>, Option<i32>) {
        match self {
            Self::Name => (None, None),
            Self::Process => (pid, None),
            Self::Thread => (pid, tid),
        }
    }

    /// Returns the thread with only the fields that are kept at this level.
    pub fn keep(self, thread: Thread) -> Thread {
        let (pid, tid) = self.numbers(thread.pid, thread.tid);
        let of_process = |text| if self == Self::Name { StringId::EMPTY } else { text };
        let (cgroup, command_line) = (of_process(thread.cgroup), of_process(thread.command_line));
        Thread { pid, tid, cgroup, command_line, ..thread }
    }
}

/// Interned threads. [`ThreadId::UNKNOWN`] is the thread of which nothing is known.
#[derive(Clone, Debug)]
pub struct Threads {
    rows: Vec<Thread>,
    index: HashMap<Thread, ThreadId, foldhash::fast::FixedState>,
}

impl Default for Threads {
    fn default() -> Self {
        let mut threads = Self { rows: Vec::new(), index: HashMap::default() };
        threads.intern(Thread::default());
        threads
    }
}

impl Threads {
    /// Returns the identifier of `thread`, which is added if it is new.
    pub fn intern(&mut self, thread: Thread) -> ThreadId {
        *self.index.entry(thread).or_insert_with(|| {
            let id = ThreadId::from_index(self.rows.len());
            self.rows.push(thread);
            id
        })
    }

    /// Returns the identifier of `thread`, if it is in the table.
    pub fn find(&self, thread: Thread) -> Option<ThreadId> {
        self.index.get(&thread).copied()
    }

    /// Memory of the table in bytes.
    pub fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Thread>() + self.index.allocation_size()
    }

    /// Returns the thread with this identifier.
    pub fn get(&self, id: ThreadId) -> Thread {
        self.rows[id.index()]
    }

    /// Number of distinct threads, including the unknown one.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if there are no threads except the unknown one.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// Iterates over all threads, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = Thread> + '_ {
        self.rows.iter().copied()
    }
}
