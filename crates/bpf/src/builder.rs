//! The thread that makes unwind tables, so that samples do not wait for them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use pyrograph_event::engine::TableStats;
use pyrograph_unwind::UnwindInfo;

use crate::cache::Cache;
use crate::error::Error;
use crate::tables::{Count, Tables};

/// Interval at which hit counts are read, if there is no room for all tables. Reading them takes a small part of the
/// time.
const PAUSE: Duration = Duration::from_millis(500);

/// A module's number and its unwind information.
type Work = (u32, Option<Arc<UnwindInfo>>);

/// Modules that wait for their tables. Modules with the highest hit count come first. Without hits, small ones come
/// first: then most of the code that runs is ready at once, while the largest tables take as long as all others
/// together.
#[derive(Default)]
struct Waiting {
    by_size: BTreeMap<(usize, u32), Option<Arc<UnwindInfo>>>,
    /// True if a table was made since free memory was last returned to the kernel.
    made: bool,
}

impl Waiting {
    /// Removes and returns the next module. Waits for one, but not longer than `patience`. `hits`: hit count of a
    /// module.
    fn next(
        &mut self,
        queue: &Receiver<Work>,
        patience: Option<Duration>,
        hits: impl Fn(u32) -> u32,
    ) -> Result<Work, RecvTimeoutError> {
        queue.try_iter().for_each(|work| self.add(work));
        if self.by_size.is_empty() {
            if std::mem::take(&mut self.made) {
                give_memory_back();
            }
            self.add(match patience {
                Some(patience) => queue.recv_timeout(patience)?,
                None => queue.recv().map_err(|_| RecvTimeoutError::Disconnected)?,
            });
        }
        queue.try_iter().for_each(|work| self.add(work));
        self.made = true;
        // `max_by_key` returns the last of equal elements, which is the smallest table.
        let most = self.by_size.keys().rev().max_by_key(|(_, module)| hits(*module)).copied();
        let next = most.and_then(|key| self.by_size.remove_entry(&key));
        next.map(|((_, module), info)| (module, info)).ok_or(RecvTimeoutError::Timeout)
    }

    fn add(&mut self, (module, info): Work) {
        let size = info.as_ref().map_or(0, |info| info.table_source());
        self.by_size.insert((size, module), info);
    }
}

/// Passes files to the thread.
#[derive(Debug)]
pub struct Builder {
    work: Option<Sender<Work>>,
    asked: Cell<usize>,
    made: Arc<AtomicUsize>,
    stats: Arc<Mutex<(TableStats, Option<Error>)>>,
    /// True if the recording is over: tables that are still waiting are of no use to it.
    over: Arc<AtomicBool>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
    keeping: Option<Keeping>,
}

/// Guard that lets a thread save its results for the next recording. When it is dropped, unfinished results are
/// abandoned. Hold it as long as the program has other work to do.
#[derive(Debug)]
pub struct Keeping {
    given_up: Arc<AtomicBool>,
    ended: Receiver<()>,
}

/// The thread's side of a [`Keeping`], which it drops when everything is saved.
#[derive(Debug)]
pub struct Keeper {
    given_up: Arc<AtomicBool>,
    _ends: Sender<()>,
}

impl Keeper {
    /// Returns true as long as the results are waited for.
    pub fn goes_on(&self) -> bool {
        !self.given_up.load(Ordering::Acquire)
    }
}

impl Keeping {
    /// Time to wait when the guard is dropped: some megabytes are written, on a machine that may be busy.
    const PATIENCE: Duration = Duration::from_secs(1);

    /// Creates a guard and the side for a thread.
    pub fn new() -> (Self, Keeper) {
        let given_up = Arc::new(AtomicBool::new(false));
        let (ends, ended) = mpsc::channel();
        (Self { given_up: Arc::clone(&given_up), ended }, Keeper { given_up, _ends: ends })
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.given_up.store(true, Ordering::Release);
        let _ = self.ended.recv_timeout(Self::PATIENCE);
    }
}

/// Time that the end of a recording waits for tables that are being made, because the next recording may need them.
const GRACE: Duration = Duration::from_millis(150);

impl Builder {
    /// Starts the thread. `cache`: tables from earlier recordings.
    pub fn start(mut tables: Tables, mut cache: Option<Cache>) -> std::io::Result<Self> {
        let (work, queue) = mpsc::channel::<Work>();
        let made = Arc::new(AtomicUsize::new(0));
        let stats = Arc::new(Mutex::new((TableStats::default(), None)));
        let (done, report) = (Arc::clone(&made), Arc::clone(&stats));
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let (ends, ended) = mpsc::channel::<()>();
        let (keeping, keeper) = Keeping::new();
        let mut waiting = Waiting::default();
        let run = move || {
            let _ends = ends;
            let goes_on = || keeper.goes_on();
            prefer_this_thread();
            // For tables that are left out and may be made again.
            let mut infos = HashMap::new();
            let mut pause = PAUSE;
            while !is_over.load(Ordering::Acquire) {
                let patience = tables.lacks_some().then_some(pause);
                let (module, is_new) =
                    match waiting.next(&queue, patience, |module| tables.hits(module)) {
                        Ok((module, info)) => {
                            infos.insert(module, info);
                            (module, true)
                        }
                        Err(RecvTimeoutError::Timeout) => match tables.wanted() {
                            Some(module) => (module, false),
                            None => continue,
                        },
                        Err(RecvTimeoutError::Disconnected) => break,
                    };
                let started = Instant::now();
                let info = infos.get(&module).and_then(Option::as_deref);
                let published =
                    publish(&mut tables, module, info, cache.as_mut(), is_new, &goes_on);
                let Some((published, was_made)) = published else { break };
                let took = started.elapsed();
                pause = PAUSE.max(10 * took);
                let Count { tables: count, rows, omitted } = tables.count();
                let mut report = report.lock().unwrap_or_else(|error| error.into_inner());
                report.1 = published.err().or(report.1.take());
                report.0 = TableStats {
                    tables: count as u64,
                    rows: rows as u64,
                    bytes: tables.bytes() as u64,
                    omitted: omitted as u64,
                    cached: report.0.cached + u64::from(was_made && is_new),
                    time: report.0.time + took,
                };
                done.fetch_add(usize::from(is_new), Ordering::Release);
            }
            // There will be no more work: the recording is over.
            cache.map(|cache| cache.write(|module, start| tables.read_back(module, start)));
        };
        std::thread::Builder::new().name("tables".to_owned()).spawn(run)?;
        let keeping = Some(keeping);
        Ok(Self { work: Some(work), asked: Cell::new(0), made, stats, over, ended, keeping })
    }

    /// Guard that keeps tables when the recording is over; returned once.
    pub fn keeping(&mut self) -> Option<Keeping> {
        self.keeping.take()
    }

    /// Builds the table of a file; JIT-compiled code has none.
    pub fn add(&self, module: u32, info: Option<Arc<UnwindInfo>>) {
        if self.work.as_ref().is_some_and(|work| work.send((module, info)).is_ok()) {
            self.asked.set(self.asked.get() + 1);
        }
    }

    /// Number of tables that were requested, and number of these that are made.
    pub fn progress(&self) -> (usize, usize) {
        (self.asked.get(), self.made.load(Ordering::Acquire))
    }

    /// Counts of the tables so far.
    pub fn stats(&self) -> TableStats {
        self.stats.lock().unwrap_or_else(|error| error.into_inner()).0
    }
}

/// Publishes the table of a file. Returns true with the result if the table came from the cache; `None` if it was
/// abandoned. `keep`: a table that was not in the cache is added to it.
fn publish(
    tables: &mut Tables,
    module: u32,
    info: Option<&UnwindInfo>,
    cache: Option<&mut Cache>,
    keep: bool,
    goes_on: &dyn Fn() -> bool,
) -> Option<(Result<(), Error>, bool)> {
    let mut make = |info: &UnwindInfo| {
        let table = info.table_while(goes_on)?;
        Some((tables.publish(module, &table.rules, table.rows.into_iter()), table.start))
    };
    Some(match (info, cache) {
        (None, _) => (tables.publish(module, &[], std::iter::empty()), false),
        (Some(info), None) => (make(info)?.0, false),
        (Some(info), Some(cache)) => match cache.read(info) {
            (_, Some(kept)) => (tables.publish(module, kept.rules(), kept.rows()), true),
            (key, None) => {
                let (published, start) = make(info)?;
                if let Some(key) = key.filter(|_| keep) {
                    cache.keep(key, module, start);
                }
                (published, false)
            }
        },
    })
}

/// Returns free memory to the kernel: making the table of a large program takes tens of megabytes, which the allocator
/// would keep for the next one.
fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it may be called at any time, by any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Raises the scheduling priority of the calling thread, if that is permitted: its work is little, and on a busy
/// machine stacks are incomplete until it is done.
pub fn prefer_this_thread() {
    // SAFETY: it affects only this thread's priority.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -10) };
}

impl Drop for Builder {
    /// Does not wait for a table that is being made for longer than [`GRACE`]: the thread goes on beside the work that
    /// follows the recording, and writes its tables for the next one.
    fn drop(&mut self) {
        self.work = None;
        let _ = self.ended.recv_timeout(GRACE);
        self.over.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    /// Those of large compilers take seconds, and a recording is to end when it was asked to.
    #[test]
    fn tables_that_wait_when_the_recording_ends_are_not_made() {
        let memory = Memory::of_this_process(1);
        let own = std::env::current_exe().and_then(std::fs::read).expect("this test");
        let own = Arc::new(UnwindInfo::from_bytes(own).expect("an ELF file"));
        let builder = Builder::start(Tables::new(memory, Arc::default()), None).expect("a thread");
        for module in 2..2000 {
            builder.add(module, Some(Arc::clone(&own)));
        }
        let made = Arc::clone(&builder.made);
        drop(builder);
        // The one that is being made is finished.
        let until_now = made.load(Ordering::Acquire);
        std::thread::sleep(10 * GRACE);
        assert!(made.load(Ordering::Acquire) <= until_now + 1, "it went on");
        assert!(until_now < 1998);
    }

    /// The next recording found nothing that was made, where a table was being made when the program ended.
    #[test]
    fn tables_that_were_made_are_kept_whatever_is_being_made() {
        let base = tempfile::tempdir().expect("a folder");
        let cache = Cache::open(base.path());
        let memory = Memory::of_this_process(1);
        let own = std::env::current_exe().and_then(std::fs::read).expect("this test");
        let own = Arc::new(UnwindInfo::from_bytes(own).expect("an ELF file"));
        let builder = Builder::start(Tables::new(memory, Arc::default()), cache).expect("a thread");
        for module in 2..2000 {
            builder.add(module, Some(Arc::clone(&own)));
        }
        while builder.progress().1 == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(builder);
        let again = Cache::open(base.path()).and_then(|mut cache| cache.read(&own).1);
        assert!(again.is_some(), "it is written by now");
    }
}
