//! Code without unwind tables is read on a thread of its own, for stacks that wait meanwhile: of a browser, that takes a second
//! and more, in which nothing else would be taken from the kernel.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use pyrograph_bpf::{CopiedStack, Keeper, Keeping};
use pyrograph_resolve::{Arch, CodeReader, Unread};

use super::kept_code::KeptCode;

/// More stacks do not wait for the thread: they ask again.
const MOST_ASKED: usize = 1024;

/// A stack that was copied.
pub struct Copied {
    pub stack: CopiedStack,
    /// Part of the stack above the copy, as it was read.
    pub rest: Vec<u8>,
    is_read: AtomicBool,
}

impl Copied {
    /// Nothing above it was read.
    pub fn new(stack: CopiedStack) -> Self {
        Self { stack, rest: Vec::new(), is_read: AtomicBool::new(false) }
    }

    /// How much memory it takes.
    pub fn bytes(&self) -> usize {
        let root = self.stack.root.as_ref().map_or(0, |(_, bytes)| bytes.len());
        size_of::<Self>() + self.stack.bytes.len() + self.rest.len() + root
    }

    /// Returns true if the code that it leads through was read.
    pub fn is_read(&self) -> bool {
        self.is_read.load(Ordering::Acquire)
    }

    /// The same for a resolver.
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

/// A stack, and where it leads to code that is to be read.
type Job = (Arc<Copied>, Unread);

/// The thread, once it was asked for something. It ends when this is dropped.
#[derive(Default)]
pub struct CodeAhead {
    /// The folder below which results are kept.
    cache: Option<PathBuf>,
    jobs: Option<SyncSender<Job>>,
    keeping: Option<Keeping>,
}

impl CodeAhead {
    /// A reader that keeps its results below a folder such as `~/.cache`.
    pub fn new(cache: Option<PathBuf>) -> Self {
        Self { cache, ..Self::default() }
    }

    /// Asks for the code that a stack leads through; returns false if the thread has too much to do.
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
            // Without a thread nobody receives, and stacks go on without.
            thread::Builder::new().name("code-ahead".into()).spawn(run).ok();
            to
        });
        jobs.try_send((Arc::clone(copied), unread)).is_ok()
    }

    /// Ends the thread. The guard has the results written by the time that it is dropped.
    pub fn keep(self) -> Option<Keeping> {
        self.keeping
    }
}

fn read_all(jobs: &Receiver<Job>, keeper: &Keeper, kept: &mut KeptCode) {
    // The programs are for this architecture alone.
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
