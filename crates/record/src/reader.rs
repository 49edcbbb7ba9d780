//! The thread that copies the kernel's buffers out, and does nothing else.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::copy::Copier;
use crate::error::Error;
use crate::ring::Ring;
use crate::sys;

/// How many bytes of records may wait to be taken. Beyond that they stay in the rings, and when
/// these are full, the kernel tells how many it lost.
const MOST_WAITING: usize = 256 << 20;

/// Ends a recording, from any thread or signal handler.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Stop>);

#[derive(Debug)]
struct Stop {
    asked: AtomicBool,
    wake: OwnedFd,
}

impl Stopper {
    pub(crate) fn new() -> Result<Self, Error> {
        let wake = sys::eventfd().map_err(Error::system("opening an eventfd"))?;
        Ok(Self(Arc::new(Stop { asked: AtomicBool::new(false), wake })))
    }

    /// Asks for the end: what has been sampled until now is still handed out. Async-signal-safe.
    pub fn stop(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        sys::wake(&self.0.wake);
    }
}

/// Why a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// [`Stopper::stop`] was called.
    Stopped,
    /// The command, or the last of the processes, ended.
    TargetEnded,
}

/// A process whose end may end the recording.
#[derive(Debug)]
pub(crate) struct Watched {
    pid: i32,
    is_child: bool,
    /// Tells of the end at once; without it (before Linux 5.3) the process is asked for in each round.
    pidfd: Option<OwnedFd>,
}

impl Watched {
    pub(crate) fn new(pid: i32, is_child: bool) -> Self {
        Self { pid, is_child, pidfd: sys::pidfd_open(pid).ok() }
    }
}

/// Records of one CPU, copied out of its buffer.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub bytes: Vec<u8>,
    /// How much of the pool's account is its own.
    counted: usize,
    pool: Arc<Pool>,
}

/// Memory of chunks: that which is on its way, and that which is no longer needed.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    on_its_way: AtomicUsize,
    free: Mutex<Vec<Vec<u8>>>,
}

impl Chunk {
    pub(crate) fn new(pool: &Arc<Pool>) -> Self {
        let bytes = pool.free.lock().ok().and_then(|mut free| free.pop()).unwrap_or_default();
        Self { bytes, counted: 0, pool: Arc::clone(pool) }
    }

    /// Puts its bytes on the account, until it is dropped.
    fn count(&mut self) {
        self.counted = self.bytes.len();
        self.pool.on_its_way.fetch_add(self.counted, Ordering::Relaxed);
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        /// Enough for what is on its way while nobody lags behind.
        const KEPT: usize = 64 << 20;
        self.pool.on_its_way.fetch_sub(self.counted, Ordering::Relaxed);
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        if let Ok(mut free) = self.pool.free.lock()
            && free.iter().map(Vec::capacity).sum::<usize>() + bytes.capacity() <= KEPT
        {
            free.push(bytes);
        }
    }
}

/// What one pass over all buffers found.
pub(crate) type Round = Vec<Chunk>;

/// What the reader knows in the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub ended: Ended,
    /// How many records the events say were lost, where the kernel counts them (Linux 6.0).
    pub lost: Option<u64>,
}

/// All that the thread needs.
#[derive(Debug)]
pub(crate) struct Reader {
    pub rings: Vec<Ring>,
    pub events: Vec<OwnedFd>,
    pub watched: Vec<Watched>,
    pub stopper: Stopper,
    pub rounds: Sender<Round>,
    pub copier: Copier,
    /// What was copied out of each ring before the thread started.
    pub early: Vec<Vec<u8>>,
    /// How long to sleep at most.
    pub patience: Duration,
    /// Whether the events count what they lost.
    pub counts_lost: bool,
}

impl Reader {
    /// Copies until the target ends, or a stop is asked for.
    pub(crate) fn run(mut self) -> Outcome {
        sys::become_reader();
        let pool = Arc::new(Pool::default());
        let has_targets = !self.watched.is_empty();
        loop {
            self.wait();
            let stopped = self.stopper.0.asked.load(Ordering::SeqCst);
            let all_gone = has_targets && self.watched.is_empty();
            if stopped || all_gone {
                let _ = self.events.iter().try_for_each(sys::disable);
                self.round(&pool);
                let ended = if stopped { Ended::Stopped } else { Ended::TargetEnded };
                return Outcome { ended, lost: self.lost() };
            }
            if pool.on_its_way.load(Ordering::Relaxed) < MOST_WAITING {
                self.round(&pool);
            } else {
                // A ring above its watermark lets no poll sleep.
                std::thread::sleep(self.patience);
            }
        }
    }

    /// Sleeps until there is something to do, and forgets processes that have ended.
    fn wait(&mut self) {
        let mut fds = vec![sys::readable(Some(self.stopper.0.wake.as_fd()))];
        fds.extend(
            self.watched
                .iter()
                .map(|watched| sys::readable(watched.pidfd.as_ref().map(AsFd::as_fd))),
        );
        fds.extend(self.rings.iter().map(|ring| sys::readable(Some(ring.fd().as_fd()))));
        sys::poll(&mut fds, self.patience);
        // A ring's event belongs to the thread that opened the session. If that has ended, its
        // rings never wake us, but return at once.
        let rings = &fds[1 + self.watched.len()..];
        if rings.iter().any(|ring| ring.revents & libc::POLLHUP != 0) {
            sys::poll(&mut fds[..=self.watched.len()], self.patience);
        }
        let mut revents = fds[1..].iter().map(|fd| fd.revents);
        self.watched.retain(|watched| {
            let ready = revents.next().is_some_and(|revents| revents != 0);
            !ready && (watched.pidfd.is_some() || sys::is_running(watched.pid, watched.is_child))
        });
    }

    /// One pass over all rings.
    fn round(&mut self, pool: &Arc<Pool>) {
        let mut round = Round::new();
        let early = std::mem::take(&mut self.early);
        for (index, ring) in self.rings.iter_mut().enumerate() {
            let mut chunk = Chunk::new(pool);
            chunk.bytes.extend(early.get(index).into_iter().flatten());
            ring.drain(self.copier, &mut chunk.bytes);
            if !chunk.bytes.is_empty() {
                chunk.count();
                round.push(chunk);
            }
        }
        // Also an empty round is told: it completes the one before. If nobody takes it any more,
        // a stop has been asked for, too.
        let _ = self.rounds.send(round);
    }

    fn lost(&self) -> Option<u64> {
        if !self.counts_lost {
            return None;
        }
        Some(self.events.iter().filter_map(sys::read_lost).sum())
    }
}
