//! The thread that copies the kernel's buffers out, and does nothing else.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::copy::Copier;
use crate::error::Error;
use crate::ring::Ring;
use crate::sys;
use crate::watch::Watched;

/// How many bytes of records may wait to be taken. Beyond that they stay in the rings, and when
/// these are full, the kernel counts the records that it loses.
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

    /// Returns true once the end was asked for.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }
}

impl AsFd for Stopper {
    /// Readable once the end was asked for.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.wake.as_fd()
    }
}

/// Changes how often a clock ticks, where events are those of CPUs.
#[derive(Clone, Debug)]
pub struct Pacer(pub(crate) Arc<AtomicU64>);

impl Pacer {
    /// Sets the time between two ticks. The kernel does not write it into samples.
    pub fn set(&self, period: Duration) {
        self.0.store(u64::try_from(period.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
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

/// Records of one CPU, copied out of its buffer.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub bytes: Vec<u8>,
    /// Nanoseconds between two samples, if they are a clock's.
    pub period: u64,
    /// The number of its buffer.
    pub ring: usize,
    /// When there was room in the buffer again, of `CLOCK_MONOTONIC`.
    pub drained: u64,
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
        Self { bytes, period: 0, ring: 0, drained: 0, counted: 0, pool: Arc::clone(pool) }
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

/// Records of one pass over all buffers.
pub(crate) type Round = Vec<Chunk>;

/// Result of the reader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub ended: Ended,
    /// Lost records by the events' own counts, where the kernel has them (Linux 6.0).
    pub lost: Option<u64>,
    /// Sum of the events' counts.
    pub count: u64,
    /// To how many a second samples were lowered.
    pub lowered: Option<u64>,
}

/// Losses until the last check.
#[derive(Debug)]
struct Losses {
    checked: Instant,
    lost: u64,
    lowered: Option<u64>,
}

impl Losses {
    /// How often losses are checked. Until the rate is low enough, that much of the time is lost.
    const WINDOW: Duration = Duration::from_millis(30);
    /// Nanoseconds: more than this is not lowered.
    const LONGEST_PERIOD: u64 = 1_100_000;
}

/// All that the thread needs.
#[derive(Debug)]
pub(crate) struct Reader {
    pub rings: Vec<Ring>,
    pub events: Vec<OwnedFd>,
    /// Events with records of processes on other CPUs until this ends.
    pub _others: Vec<OwnedFd>,
    pub watched: Vec<Watched>,
    pub stopper: Stopper,
    pub rounds: Sender<Round>,
    pub copier: Copier,
    /// Records that were copied out of each ring before the thread started.
    pub early: Vec<Vec<u8>>,
    /// How long to sleep at most.
    pub patience: Duration,
    /// Nanoseconds between two ticks, once they are to change; 0 before.
    pub period: Arc<AtomicU64>,
    /// Nanoseconds between two samples of a clock; else 0.
    pub unit: u64,
    /// Fewer samples are taken once some are lost.
    pub yields: bool,
    /// When to end.
    pub until: Option<Instant>,
}

impl Reader {
    /// Copies until the target ends, or a stop is asked for.
    pub(crate) fn run(mut self) -> Outcome {
        sys::become_reader();
        let pool = Arc::new(Pool::default());
        let has_targets = !self.watched.is_empty();
        let mut losses = Losses { checked: Instant::now(), lost: 0, lowered: None };
        loop {
            self.wait();
            self.keep_pace();
            self.yield_to(&mut losses);
            let over = self.until.is_some_and(|until| Instant::now() >= until);
            let stopped = over || self.stopper.0.asked.load(Ordering::SeqCst);
            let all_gone = has_targets && self.watched.is_empty();
            if stopped || all_gone {
                self.disable(&pool);
                self.round(&pool);
                let ended = if stopped { Ended::Stopped } else { Ended::TargetEnded };
                let (count, lost) = self.counts();
                return Outcome { ended, lost, count, lowered: losses.lowered };
            }
            if pool.on_its_way.load(Ordering::Relaxed) < MOST_WAITING {
                self.round(&pool);
            } else {
                // A ring above its watermark lets no poll sleep.
                std::thread::sleep(self.timeout());
            }
        }
    }

    /// How long to sleep at most.
    fn timeout(&self) -> Duration {
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        left.map_or(self.patience, |left| left.min(self.patience))
    }

    /// Ends the sampling. That takes its time where there are thousands of events.
    fn disable(&mut self, pool: &Arc<Pool>) {
        const AT_ONCE: usize = 64;
        for start in (0..self.events.len()).step_by(AT_ONCE) {
            let events = self.events.iter().skip(start).take(AT_ONCE);
            let _ = events.map(sys::disable).collect::<Vec<_>>();
            if self.events.len() > AT_ONCE {
                self.round(pool);
            }
        }
    }

    /// Lowers the rate if samples are lost.
    fn yield_to(&mut self, losses: &mut Losses) {
        let passed = losses.checked.elapsed();
        if !self.yields || passed < Losses::WINDOW {
            return;
        }
        let lost = self.counts().1.unwrap_or(0);
        let taken = passed.as_nanos() * self.events.len() as u128 / u128::from(self.unit.max(1));
        let are_many = u128::from(lost - losses.lost.min(lost)) * 50 > taken;
        (losses.checked, losses.lost) = (Instant::now(), lost);
        if are_many && self.unit * 2 <= Losses::LONGEST_PERIOD {
            self.unit *= 2;
            losses.lowered = Some(1_000_000_000 / self.unit);
            let _ = self.events.iter().try_for_each(|event| sys::set_period(event, self.unit));
        }
    }

    fn keep_pace(&self) {
        let period = self.period.swap(0, Ordering::Relaxed);
        if period > 0 {
            let _ = self.events.iter().try_for_each(|event| sys::set_period(event, period));
        }
    }

    /// Sleeps until there is something to do, and forgets processes that have ended.
    fn wait(&mut self) {
        let mut fds = vec![sys::readable(Some(self.stopper.0.wake.as_fd()))];
        fds.extend(self.watched.iter().map(Watched::readable));
        fds.extend(self.rings.iter().map(|ring| sys::readable(Some(ring.fd().as_fd()))));
        sys::poll(&mut fds, self.timeout());
        // A ring's event belongs to the thread that opened the session. If that has ended, its
        // rings never wake us, but return at once.
        let rings = &fds[1 + self.watched.len()..];
        if rings.iter().any(|ring| ring.revents & libc::POLLHUP != 0) {
            sys::poll(&mut fds[..=self.watched.len()], self.timeout());
        }
        let mut revents = fds[1..].iter().map(|fd| fd.revents);
        self.watched.retain(|watched| {
            let ready = revents.next().is_some_and(|revents| revents != 0);
            !ready && (watched.has_handle() || watched.is_running())
        });
    }

    /// One pass over all rings.
    fn round(&mut self, pool: &Arc<Pool>) {
        let mut round = Round::new();
        let early = std::mem::take(&mut self.early);
        for (index, ring) in self.rings.iter_mut().enumerate() {
            let mut chunk = Chunk::new(pool);
            chunk.period = self.unit;
            chunk.ring = index;
            chunk.bytes.extend(early.get(index).into_iter().flatten());
            ring.drain(self.copier, &mut chunk.bytes);
            chunk.drained = sys::monotonic_now();
            if !chunk.bytes.is_empty() {
                chunk.count();
                round.push(chunk);
            }
        }
        // Also an empty round is sent: it completes the one before. If nobody takes it any more,
        // a stop has been asked for, too.
        let _ = self.rounds.send(round);
    }

    /// Sum of all events' counts, and how many records they lost.
    fn counts(&self) -> (u64, Option<u64>) {
        let counts = self.events.iter().filter_map(sys::read_count);
        counts.fold((0, None), |(sum, all), (count, lost)| {
            let all = all.map_or(lost, |all: u64| Some(all.saturating_add(lost.unwrap_or(0))));
            (sum.saturating_add(count), all)
        })
    }
}
