//! Analysis of code without unwind tables on a separate thread, while the stacks that need it wait. For a browser this
//! takes a second or more, during which otherwise no data would be taken from the kernel.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use pyrograph_bpf::{CopiedStack, Keeper, Keeping};
use pyrograph_resolve::{Arch, CodeReader, Unread};

use super::kept_code::KeptCode;

/// Maximum number of stacks in the thread's queue. Further stacks have to ask again later.
const MOST_ASKED: usize = 1024;

/// A copied stack.
pub struct Copied {
    pub stack: CopiedStack,
    /// Part of the stack above the copy, read from the process.
    pub rest: Vec<u8>,
    is_read: AtomicBool,
}

impl Copied {
    /// Makes it without the part above the copy.
    pub fn new(stack: CopiedStack) -> Self {
        Self { stack, rest: Vec::new(), is_read: AtomicBool::new(false) }
    }

    /// Size in memory in bytes.
    pub fn bytes(&self) -> usize {
        let root = self.stack.root.as_ref().map_or(0, |(_, bytes)| bytes.len());
        size_of::<Self>() + self.stack.bytes.len() + self.rest.len() + root
    }

    /// Returns true if the code that the stack leads through has been analysed.
    pub fn is_read(&self) -> bool {
        self.is_read.load(Ordering::Acquire)
    }

    /// Returns the stack in the form that the resolver takes.
    pub fn as_copied(&self) -> pyrograph_resolve::CopiedStack<'_> {
        pyrograph_resolve::CopiedStack {
            pid: self.stack.pid,
            tid: self.stack.tid,
            registers: &self.stack.registers,
            bytes: &self.stack.bytes,
            root: self.stack.root.as_ref().map(|(address, bytes)| (*address, bytes.as_slice())),
            missing: self.stack.missing(),
            rest: &self.rest,
        }
    }
}

/// A stack, and the code to be analysed for it.
type Job = (Arc<Copied>, Unread);

/// The thread, which is started with the first job and ends when this is dropped.
#[derive(Default)]
pub struct CodeAhead {
    /// Directory below which results are cached.
    cache: Option<PathBuf>,
    jobs: Option<SyncSender<Job>>,
    keeping: Option<Keeping>,
}

impl CodeAhead {
    /// Makes a reader that caches its results below a directory such as `~/.cache`.
    pub fn new(cache: Option<PathBuf>) -> Self {
        Self { cache, ..Self::default() }
    }

    /// Requests the code that a stack leads through. Returns false if the thread's queue is full.
    pub fn ask(&mut self, copied: &Arc<Copied>, unread: Unread) -> bool {
        let Self { cache, jobs, keeping } = self;
        let jobs = jobs.get_or_insert_with(|| {
            let (to, jobs) = sync_channel(MOST_ASKED);
            let (guard, keeper) = Keeping::new();
            *keeping = Some(guard);
            let cache = cache.take();
            let run = move || {
                let mut kept = KeptCode::open(cache.as_deref());
                read_all(&jobs, &keeper, &mut kept);
                kept.write();
            };
            // If no thread can be created, there is no receiver, and stacks are unwound without it.
            thread::Builder::new().name("code-ahead".into()).spawn(run).ok();
            to
        });
        jobs.try_send((Arc::clone(copied), unread)).is_ok()
    }

    /// Ends the thread. When the returned guard is dropped, the results have been written.
    pub fn keep(self) -> Option<Keeping> {
        self.keeping
    }
}

fn read_all(jobs: &Receiver<Job>, keeper: &Keeper, kept: &mut KeptCode) {
    // The in-kernel engine exists for this architecture only.
    let mut reader = CodeReader::new(Arch::X86_64);
    for (copied, unread) in jobs {
        if !keeper.goes_on() {
            return;
        }
        kept.look_for(unread.files());
        reader.read(&copied.as_copied(), &unread);
        copied.is_read.store(true, Ordering::Release);
    }
}
