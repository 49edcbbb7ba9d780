//! Samples of a file: followed in one pass, unwound by as many threads as there are CPUs.
//!
//! What a sample needs from the records before it is its process's mappings and its thread. Both
//! are known at once; its stack can be unwound later and elsewhere. So one thread takes the records
//! in the order of time and hands the samples on in batches, and others collect frames, each with
//! tables of its own. In the end those are put together in the order of the samples, so that the
//! result does not depend on how many threads there were.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use hashbrown::HashMap;
use pyrograph_event::{Record, Sample};
use pyrograph_profile::{self as profile, StackId, ThreadId};
use pyrograph_unwind::Arch;

use crate::collect::{Collector, Extra, Spaces};
use crate::files::Files;
use crate::resolver::{Present, Resolved, Resolver, Stats};
use crate::stacks::{RawSample, RawStacks};

/// Samples handed on at once: enough that the channel costs nothing, few enough that no thread is
/// left alone with the last batch for long.
const BATCH: usize = 512;

/// Where the samples are.
pub trait SampleSource: Sync {
    /// Decodes the sample at a place, and says what else is known of it. `None` if it cannot be
    /// read.
    fn sample(&self, place: u64) -> Option<(Sample<'_>, Extra<'_>)>;

    /// Called when no sample will be asked for any more: memory can go that only they need, while
    /// symbols begin to need theirs.
    fn used_up(&self) {}
}

/// Takes records in the order of time.
pub struct Feed<'a, F> {
    resolver: &'a mut Resolver<F>,
    sender: SyncSender<Batch>,
    batch: Batch,
    /// Who the present threads are, as long as no record changes that.
    known: HashMap<(i32, i32), (ThreadId, u32), foldhash::fast::FixedState>,
    last: Option<((i32, i32), (ThreadId, u32))>,
    count: u64,
}

/// Samples whose stacks are to be collected.
#[derive(Default)]
struct Batch {
    /// The number of its first sample.
    first: u64,
    items: Vec<Item>,
    /// Processes as they were.
    processes: Vec<Present>,
}

struct Item {
    place: u64,
    value: u64,
    thread: ThreadId,
    process: u32,
}

impl<F: Files> Feed<'_, F> {
    /// Takes a record that is no sample.
    pub fn record(&mut self, record: &Record<'_>) {
        if matches!(
            record,
            Record::Mmap(_)
                | Record::Mmap2(_)
                | Record::Comm(_)
                | Record::Fork(_)
                | Record::Exit(_)
                | Record::Ksymbol(_)
        ) {
            self.known.clear();
            self.last = None;
        }
        self.resolver.record(record);
    }

    /// Takes a sample: whose it is, where its source has it, and what it counts for.
    pub fn sample(&mut self, pid: i32, tid: i32, place: u64, value: u64) {
        let (thread, process) = match self.last {
            Some((last, found)) if last == (pid, tid) => found,
            _ => self.look_up(pid, tid),
        };
        self.batch.items.push(Item { place, value, thread, process });
        self.count += 1;
        if self.batch.items.len() == BATCH {
            self.send();
        }
    }

    /// Counts a record that could not be read.
    pub fn unreadable(&mut self) {
        self.resolver.unreadable();
    }

    fn look_up(&mut self, pid: i32, tid: i32) -> (ThreadId, u32) {
        let found = match self.known.get(&(pid, tid)) {
            Some(&found) => found,
            None => {
                let (thread, present) = self.resolver.at_present(pid, tid);
                self.batch.processes.push(present);
                let found = (thread, (self.batch.processes.len() - 1) as u32);
                self.known.insert((pid, tid), found);
                found
            }
        };
        self.last = Some(((pid, tid), found));
        found
    }

    fn send(&mut self) {
        let next = Batch { first: self.count, ..Batch::default() };
        // Fails only if all workers have panicked, which the scope then tells.
        let _ = self.sender.send(std::mem::replace(&mut self.batch, next));
        self.known.clear();
        self.last = None;
    }
}

impl<F: Files> Resolver<F> {
    /// Resolves the samples of a file with `workers` threads beside this one. `feed` gives
    /// records and samples, in the order of time.
    pub fn resolve<S: SampleSource, T>(
        mut self,
        source: &S,
        workers: usize,
        feed: impl FnOnce(&mut Feed<'_, F>) -> T,
    ) -> (Resolved, T) {
        let (arch, user_only, keep_time) = self.collecting();
        let (sender, receiver) = sync_channel(4 * workers.max(1));
        let receiver = Mutex::new(receiver);
        let (parts, fed) = std::thread::scope(|scope| {
            let work = || Worker::new(arch, user_only).run(source, &receiver);
            let threads: Vec<_> = (0..workers.max(1)).map(|_| scope.spawn(work)).collect();
            let mut feeder = Feed {
                resolver: &mut self,
                sender,
                batch: Batch::default(),
                known: HashMap::default(),
                last: None,
                count: 0,
            };
            let fed = feed(&mut feeder);
            feeder.send();
            drop(feeder);
            let parts: Vec<Worker> = threads
                .into_iter()
                .map(|thread| {
                    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect();
            (parts, fed)
        });
        // To unmap a gigabyte takes as long as to name its addresses.
        let resolved = std::thread::scope(|scope| {
            scope.spawn(|| source.used_up());
            let (raw, stats) = join(parts, keep_time);
            self.finish_with(raw, &stats)
        });
        (resolved, fed)
    }
}

/// One thread's tables.
struct Worker {
    collector: Collector,
    stats: Stats,
    raw: RawStacks,
    /// The distinct stacks of samples, each with the number of the first sample that has it.
    firsts: Vec<(u64, StackId)>,
    /// By stack: whether it is among these.
    seen: Vec<bool>,
    /// For each sample of `raw`, the number of its first sample.
    numbers: Vec<u64>,
}

impl Worker {
    fn new(arch: Arch, user_only: bool) -> Self {
        Self {
            collector: Collector::new(arch, user_only),
            stats: Stats::default(),
            raw: RawStacks::default(),
            firsts: Vec::new(),
            seen: Vec::new(),
            numbers: Vec::new(),
        }
    }

    fn run<S: SampleSource>(mut self, source: &S, batches: &Mutex<Receiver<Batch>>) -> Self {
        loop {
            let batch = batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(batch) = batch else { return self };
            for (number, item) in (batch.first..).zip(&batch.items) {
                self.sample(source, number, item, &batch.processes[item.process as usize]);
            }
        }
    }

    fn sample<S: SampleSource>(&mut self, source: &S, number: u64, item: &Item, present: &Present) {
        let Some((sample, extra)) = source.sample(item.place) else {
            self.stats.unreadable += 1;
            return;
        };
        self.stats.samples += 1;
        let spaces = Spaces { process: &present.process, kernel: &present.kernel };
        let collected = self.collector.collect(&sample, spaces, extra, None);
        self.stats.count_stack(collected);
        let stack = self.raw.intern(self.collector.frames());
        if stack.index() >= self.seen.len() {
            self.seen.resize(self.raw.stacks.len(), false);
        }
        if !std::mem::replace(&mut self.seen[stack.index()], true) {
            self.firsts.push((number, stack));
        }
        let (cpu, time) = (sample.id.cpu, sample.id.time);
        let row = profile::Sample { stack, thread: item.thread, cpu, time };
        if present.keep_time {
            self.raw.push(row, item.value);
        } else {
            self.raw.add(row, item.value);
        }
        if self.raw.len() > self.numbers.len() {
            self.numbers.push(number);
        }
    }
}

/// Puts the tables of all threads together, as one thread alone would have made them.
fn join(mut parts: Vec<Worker>, keep_time: bool) -> (RawStacks, Stats) {
    let mut stats = Stats::default();
    for part in &parts {
        stats.add(&part.stats);
    }
    if parts.len() == 1 {
        return (parts.remove(0).raw, stats);
    }
    let mut raw = RawStacks::default();
    let mut firsts: Vec<(u64, usize, StackId)> = Vec::new();
    let mut rows: Vec<(u64, usize, RawSample)> = Vec::new();
    for (index, part) in parts.iter_mut().enumerate() {
        firsts.extend(part.firsts.iter().map(|&(number, stack)| (number, index, stack)));
        let samples = part.raw.take_samples();
        let numbers = part.numbers.iter().copied();
        rows.extend(numbers.zip(samples).map(|(number, row)| (number, index, row)));
    }
    // Numbers are distinct: every sample is one thread's.
    firsts.sort_unstable_by_key(|&(number, ..)| number);
    rows.sort_unstable_by_key(|&(number, ..)| number);
    let mut moved: Vec<Vec<Option<StackId>>> =
        parts.iter().map(|part| vec![None; part.raw.stacks.len()]).collect();
    for (_, index, stack) in firsts {
        raw.copy(&parts[index].raw, stack, &mut moved[index]);
    }
    for (_, index, row) in rows {
        let stack = moved[index][row.sample.stack.index()].unwrap_or_default();
        let sample = profile::Sample { stack, ..row.sample };
        // A sample that was kept alone, or the total of several.
        if keep_time || sample.time.is_some() {
            raw.push(sample, row.value);
        } else {
            raw.add(sample, row.value);
        }
    }
    (raw, stats)
}
