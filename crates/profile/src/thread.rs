//! Threads: who ran.

use hashbrown::HashMap;

use crate::{StringId, ThreadId};

/// A thread as the source names it. Which parts are known depends on the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Thread {
    /// Process identifier. Negative where the source says so: `perf` writes −1 for "none".
    pub pid: Option<i32>,
    /// Thread identifier.
    pub tid: Option<i32>,
    /// The process's name, or the thread's where a source has only that. Empty if not known.
    pub process: StringId,
    /// The thread's name. Empty if not known.
    pub name: StringId,
    /// The machine it ran on, or what else distinguishes the profiles of several sources.
    /// Empty if there is only one.
    pub host: StringId,
    /// The control group that its process was in, as in `/proc/PID/cgroup`: `/system.slice/nginx.service`. Empty if not known.
    pub cgroup: StringId,
    /// The command line of its process, its words as a shell reads them: `python3 /srv/mailer.py 'a b'`. Empty if not known,
    /// and for threads of the kernel.
    pub command_line: StringId,
}

impl Thread {
    /// All its texts.
    pub fn texts(self) -> [StringId; 5] {
        [self.process, self.name, self.host, self.cgroup, self.command_line]
    }

    /// The same thread with other numbers for its texts.
    pub fn map_texts(self, map: impl FnMut(StringId) -> StringId) -> Self {
        let [process, name, host, cgroup, command_line] = self.texts().map(map);
        Self { process, name, host, cgroup, command_line, ..self }
    }
}

/// Detail by which threads are distinguished; a later one has more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadDetail {
    /// By name only.
    #[default]
    Name,
    /// By name, process, its control group and command line.
    Process,
    /// By name, process, its control group and command line, and thread.
    Thread,
}

impl ThreadDetail {
    /// Which of the numbers of a process and a thread are kept.
    pub fn numbers(self, pid: Option<i32>, tid: Option<i32>) -> (Option<i32>, Option<i32>) {
        match self {
            Self::Name => (None, None),
            Self::Process => (pid, None),
            Self::Thread => (pid, tid),
        }
    }

    /// The parts of a thread that are kept.
    pub fn keep(self, thread: Thread) -> Thread {
        let (pid, tid) = self.numbers(thread.pid, thread.tid);
        let of_process = |text| if self == Self::Name { StringId::EMPTY } else { text };
        let (cgroup, command_line) = (of_process(thread.cgroup), of_process(thread.command_line));
        Thread { pid, tid, cgroup, command_line, ..thread }
    }
}

/// Interned threads. [`ThreadId::UNKNOWN`] is a thread of which nothing is known.
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
    /// The identifier of `thread`, which is added if it is new.
    pub fn intern(&mut self, thread: Thread) -> ThreadId {
        *self.index.entry(thread).or_insert_with(|| {
            let id = ThreadId::from_index(self.rows.len());
            self.rows.push(thread);
            id
        })
    }

    /// The identifier of `thread`, if it was interned.
    pub fn find(&self, thread: Thread) -> Option<ThreadId> {
        self.index.get(&thread).copied()
    }

    /// Bytes of memory that the table takes.
    pub fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Thread>() + self.index.allocation_size()
    }

    /// The thread with this identifier.
    pub fn get(&self, id: ThreadId) -> Thread {
        self.rows[id.index()]
    }

    /// Number of distinct threads, the unknown one included.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True if there is none but the unknown one.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// All threads, in the order in which they were first seen.
    pub fn iter(&self) -> impl Iterator<Item = Thread> + '_ {
        self.rows.iter().copied()
    }
}
