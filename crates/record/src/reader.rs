//! The reader thread, which copies records out of the ring buffers and does nothing else.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pyrograph_event::clock::monotonic_now;

use crate::copy::Copier;
use crate::error::Error;
use crate::ring::Ring;
use crate::sys;
use crate::watch::Watched;

/// Maximum number of bytes of records that wait to be taken. Beyond that, records stay in the ring buffers; when these
/// are full, the kernel counts the records that it loses.
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
    /// Creates a handle for a recording that asks [`Self::is_asked`].
    ///
    /// # Errors
    ///
    /// If no file descriptor is available.
    pub fn new() -> Result<Self, Error> {
        let wake = sys::eventfd().map_err(Error::system("opening an eventfd"))?;
        Ok(Self(Arc::new(Stop { asked: AtomicBool::new(false), wake })))
    }

    /// Requests the end of the recording. Records that were sampled until now are still returned. Async-signal-safe.
    pub fn stop(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        sys::wake(&self.0.wake);
    }

    /// Returns true once [`Self::stop`] was called.
    pub fn is_asked(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }
}

impl AsFd for Stopper {
    /// Returns a descriptor that is readable once [`Self::stop`] was called.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.wake.as_fd()
    }
}

/// Changes the sample period of a clock during a recording, if its events are per CPU.
#[derive(Clone, Debug)]
pub struct Pacer(pub(crate) Arc<AtomicU64>);

impl Pacer {
    /// Sets the time between two samples. The kernel does not write the new period into samples.
    pub fn set(&self, period: Duration) {
        self.0.store(u64::try_from(period.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Reasons why a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// [`Stopper::stop`] was called, or the duration of the recording is over.
    Stopped,
    /// The command, or the last of the processes, has ended.
    TargetEnded,
}

/// Records of one CPU, copied out of its ring buffer.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub bytes: Vec<u8>,
    /// Sample period in nanoseconds if the event is a clock, else 0.
    pub period: u64,
    /// Index of the ring buffer.
    pub ring: usize,
    /// Time at which the ring buffer had room again, in nanoseconds of `CLOCK_MONOTONIC`.
    pub drained: u64,
    /// Number of bytes that this chunk has added to the pool's `on_its_way`.
    counted: usize,
    pool: Arc<Pool>,
}

/// Buffers for chunks: the number of bytes in chunks that are in use, and buffers that can be reused.
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

    /// Adds its length to the pool's count of bytes in use, until it is dropped.
    fn count(&mut self) {
        self.counted = self.bytes.len();
        self.pool.on_its_way.fetch_add(self.counted, Ordering::Relaxed);
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        /// Maximum size of reusable buffers, in bytes: enough for the chunks in use while the consumer keeps up.
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

/// Records of one pass over all ring buffers.
pub(crate) type Round = Vec<Chunk>;

/// Result of the reader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub ended: Ended,
    /// Number of lost records by the events' own counts, if the kernel has them (`PERF_FORMAT_LOST`, Linux 6.0).
    pub lost: Option<u64>,
    /// Sum of the events' counts.
    pub count: u64,
    /// The rate in Hz that samples were lowered to, if they were.
    pub lowered: Option<u64>,
}

/// Sums over events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Their counts.
    count: u64,
    /// Number of records that they lost, if the kernel counts these.
    lost: Option<u64>,
}

impl Counts {
    pub(crate) fn read(events: &[OwnedFd]) -> Self {
        let counts = events.iter().filter_map(sys::read_count);
        counts.fold(Self::default(), |sum, (count, lost)| Self {
            count: sum.count.saturating_add(count),
            lost: sum.lost.map_or(lost, |all| Some(all.saturating_add(lost.unwrap_or(0)))),
        })
    }
}

/// Losses until the last check. `lowered`: the rate in Hz that samples were lowered to.
#[derive(Debug)]
struct Losses {
    checked: Instant,
    lost: u64,
    lowered: Option<u64>,
}

impl Losses {
    /// Time between two checks for losses. While the rate is too high, samples are lost for this long before each time
    /// that it is halved.
    const WINDOW: Duration = Duration::from_millis(30);
    /// Upper limit in nanoseconds for the period, when the rate is lowered.
    const LONGEST_PERIOD: u64 = 1_100_000;
}

/// State of the reader thread.
#[derive(Debug)]
pub(crate) struct Reader {
    pub rings: Vec<Ring>,
    pub events: Vec<OwnedFd>,
    /// Events on CPUs that are not sampled. They write mmap, comm, fork and exit records until they are closed.
    pub others: Vec<OwnedFd>,
    pub watched: Vec<Watched>,
    pub stopper: Stopper,
    pub rounds: Sender<Round>,
    pub copier: Copier,
    /// Records that were copied out of each ring buffer before the thread started.
    pub early: Vec<Vec<u8>>,
    /// Maximum time to sleep.
    pub patience: Duration,
    /// New sample period in nanoseconds, if it is to change, else 0.
    pub period: Arc<AtomicU64>,
    /// Sample period in nanoseconds if the event is a clock, else 0.
    pub unit: u64,
    /// Lower the sample rate once samples are lost.
    pub yields: bool,
    /// The events are disabled, and enabled when the recording begins.
    pub enables: bool,
    /// Receives the time at which the recording began, in nanoseconds of `CLOCK_MONOTONIC`.
    pub begun: Sender<io::Result<u64>>,
    /// Time after which the recording ends.
    pub duration: Option<Duration>,
}

impl Reader {
    /// Copies records until the target ends, a stop is requested, or the time is over.
    pub(crate) fn run(mut self) -> Outcome {
        sys::become_reader();
        let pool = Arc::new(Pool::default());
        // Events of threads count, and fill the ring buffers, from the moment that they were opened: on a busy machine long
        // before this thread runs.
        self.round(&pool);
        let before = Counts::read(&self.events);
        let begun = Instant::now();
        let enabled = self.enable();
        let has_failed = enabled.is_err();
        let _ = self.begun.send(enabled);
        if has_failed {
            return Outcome { ended: Ended::Stopped, lost: None, count: 0, lowered: None };
        }
        let until = self.duration.and_then(|duration| begun.checked_add(duration));
        let has_targets = !self.watched.is_empty();
        let mut losses = Losses { checked: Instant::now(), lost: 0, lowered: None };
        loop {
            let timeout = self.timeout(until);
            self.wait(timeout);
            self.keep_pace();
            self.yield_to(&mut losses);
            let over = until.is_some_and(|until| Instant::now() >= until);
            let stopped = over || self.stopper.0.asked.load(Ordering::SeqCst);
            let all_gone = has_targets && self.watched.is_empty();
            if stopped || all_gone {
                self.disable(&pool);
                self.round(&pool);
                let ended = if stopped { Ended::Stopped } else { Ended::TargetEnded };
                let Counts { count, lost } = Counts::read(&self.events);
                return Outcome {
                    ended,
                    lost: lost.map(|lost| lost.saturating_sub(before.lost.unwrap_or(0))),
                    count: count.saturating_sub(before.count),
                    lowered: losses.lowered,
                };
            }
            if pool.on_its_way.load(Ordering::Relaxed) < MOST_WAITING {
                self.round(&pool);
            } else {
                // `poll` would return at once, because a ring buffer is above its watermark.
                std::thread::sleep(timeout);
            }
        }
    }

    /// Begins the recording, and returns the time in nanoseconds of `CLOCK_MONOTONIC`.
    fn enable(&self) -> io::Result<u64> {
        let begun = monotonic_now();
        if self.enables {
            self.events.iter().chain(&self.others).try_for_each(sys::enable)?;
        }
        Ok(begun)
    }

    /// Returns the maximum time to sleep.
    fn timeout(&self, until: Option<Instant>) -> Duration {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        left.map_or(self.patience, |left| left.min(self.patience))
    }

    /// Disables the events. With thousands of events this takes time, so the ring buffers are drained meanwhile.
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

    /// Halves the sample rate if more than 2 % of the samples were lost since the last check.
    fn yield_to(&mut self, losses: &mut Losses) {
        let passed = losses.checked.elapsed();
        if !self.yields || passed < Losses::WINDOW {
            return;
        }
        let lost = Counts::read(&self.events).lost.unwrap_or(0);
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

    /// Sleeps until there is something to do, and removes processes that have ended.
    fn wait(&mut self, timeout: Duration) {
        let mut fds = vec![sys::readable(Some(self.stopper.0.wake.as_fd()))];
        fds.extend(self.watched.iter().map(Watched::readable));
        fds.extend(self.rings.iter().map(|ring| sys::readable(Some(ring.fd().as_fd()))));
        sys::poll(&mut fds, timeout);
        // A ring buffer's event belongs to the thread that opened the session. If that thread has ended, polling its
        // ring buffers returns at once, so only the other descriptors are polled.
        let rings = &fds[1 + self.watched.len()..];
        if rings.iter().any(|ring| ring.revents & libc::POLLHUP != 0) {
            sys::poll(&mut fds[..=self.watched.len()], timeout);
        }
        let mut revents = fds[1..].iter().map(|fd| fd.revents);
        self.watched.retain(|watched| {
            let ready = revents.next().is_some_and(|revents| revents != 0);
            !ready && (watched.has_handle() || watched.is_running())
        });
    }

    /// Makes one pass over all ring buffers.
    fn round(&mut self, pool: &Arc<Pool>) {
        let mut round = Round::new();
        let early = std::mem::take(&mut self.early);
        for (index, ring) in self.rings.iter_mut().enumerate() {
            let mut chunk = Chunk::new(pool);
            chunk.period = self.unit;
            chunk.ring = index;
            chunk.bytes.extend(early.get(index).into_iter().flatten());
            ring.drain(self.copier, &mut chunk.bytes);
            chunk.drained = monotonic_now();
            if !chunk.bytes.is_empty() {
                chunk.count();
                round.push(chunk);
            }
        }
        // Empty rounds are sent, too: each completes the one before. If the receiver is gone, a stop has been requested
        // as well.
        let _ = self.rounds.send(round);
    }
}
