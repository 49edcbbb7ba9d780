//! Samples of a file: followed in one pass, unwound by as many threads as there are CPUs.
//!
//! What a sample needs from the records before it is its process's mappings and its thread. Both
//! are known at once; its stack can be unwound later and elsewhere. So one thread takes the records
//! in the order of time and hands the samples on in batches, and others collect frames, each with
//! a table of frames of its own. What they found goes to one more thread, which takes it in the order of
//! the samples and keeps the distinct stacks, so that the result does not depend on how many threads
//! there were.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use hashbrown::HashMap;
use pyrograph_event::{Record, Sample};
use pyrograph_profile::{self as profile, FrameId, StackId, ThreadId};
use pyrograph_unwind::{AddressSpace, Arch};

use crate::chains::{Builder, Chains, Row};
use crate::collect::{Collector, Extra, Place, Spaces};
use crate::files::Files;
use crate::frame_table::FrameTable;
use crate::lookups::Lookups;
use crate::resolver::{Present, Resolved, Resolver, Stats};
use crate::stacks::RawFrame;

/// Samples handed on at once: enough that the channel costs nothing, few enough that no thread is
/// left alone with the last batch for long.
const BATCH: usize = 512;

/// As many processes' mappings are remembered, to see whether they have changed.
const MOST_SPACES: usize = 1 << 10;

/// Where the samples are.
pub trait SampleSource: Sync {
    /// Decodes the sample at a place, and has `take` take it, with what else is known of it. `None` if it
    /// cannot be read.
    fn sample<T>(&self, place: u64, take: impl FnOnce(&Sample<'_>, Extra<'_>) -> T) -> Option<T>;

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
    /// The mappings of processes as they were last, with their numbers.
    spaces: HashMap<i32, (AddressSpace, u32), foldhash::fast::FixedState>,
    next_space: u32,
}

/// Samples whose stacks are to be collected.
#[derive(Default)]
struct Batch {
    number: u64,
    items: Vec<Item>,
    /// Processes as they were.
    processes: Vec<Process>,
}

struct Process {
    present: Present,
    /// Equal numbers are equal mappings.
    space: u32,
    kernel: u32,
}

/// In the place of a process: no PID is negative but that of what is in none.
const KERNEL_PID: i32 = i32::MIN;

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
                let space = self.number(pid, &present.process);
                let kernel = self.number(KERNEL_PID, &present.kernel);
                self.batch.processes.push(Process { present, space, kernel });
                let found = (thread, (self.batch.processes.len() - 1) as u32);
                self.known.insert((pid, tid), found);
                found
            }
        };
        self.last = Some(((pid, tid), found));
        found
    }

    /// The number of a process's mappings as they are now.
    fn number(&mut self, pid: i32, space: &AddressSpace) -> u32 {
        if let Some((known, number)) = self.spaces.get(&pid)
            && known.is_clone_of(space)
        {
            return *number;
        }
        if self.spaces.len() >= MOST_SPACES {
            self.spaces.clear();
        }
        let number = self.next_space;
        self.next_space = number.wrapping_add(1);
        self.spaces.insert(pid, (space.clone(), number));
        number
    }

    fn send(&mut self) {
        let next = Batch { number: self.batch.number + 1, ..Batch::default() };
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
        let (arch, user_only) = self.collecting();
        let workers = workers.max(1);
        let (sender, receiver) = sync_channel(4 * workers);
        let receiver = Mutex::new(receiver);
        let (collected, joined) = sync_channel(4 * workers);
        let (chains, stats, fed) = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..workers)
                .map(|number| {
                    let (batches, collected) = (&receiver, collected.clone());
                    let worker = Worker::new(number, arch, user_only);
                    scope.spawn(move || worker.run(source, batches, &collected))
                })
                .collect();
            // It ends when the last of those has.
            drop(collected);
            let joiner = scope.spawn(move || Joiner::new(workers).run(&joined));
            let mut feeder = Feed {
                resolver: &mut self,
                sender,
                batch: Batch::default(),
                known: HashMap::default(),
                last: None,
                spaces: HashMap::default(),
                next_space: 0,
            };
            let fed = feed(&mut feeder);
            feeder.send();
            drop(feeder);
            let mut stats = Stats::default();
            for thread in threads {
                let part = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                stats.add(&part);
            }
            let chains = joiner.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (chains, stats, fed)
        });
        // To unmap a gigabyte takes as long as to name its addresses.
        let resolved = std::thread::scope(|scope| {
            scope.spawn(|| source.used_up());
            self.finish_with(chains, &stats)
        });
        (resolved, fed)
    }
}

/// What a worker has found of a batch.
struct Collected {
    worker: usize,
    batch: u64,
    /// Frames that the worker has not handed on before; it numbers them one after the other.
    new: Vec<RawFrame>,
    rows: Vec<Row>,
    /// The frames of all rows, leaf first, in the worker's numbers.
    frames: Vec<u32>,
}

/// Collects the frames of samples.
struct Worker {
    number: usize,
    collector: Collector,
    stats: Stats,
    known: FrameTable,
    lookups: Lookups,
    /// Of the batch, those whose numbers are still to be found, and where they are to stand.
    open: Vec<RawFrame>,
    places: Vec<Open>,
}

/// Where a number of a frame is missing.
struct Open {
    at: usize,
    /// Its address, and the number of its mappings, if it is of any.
    of: Option<(u32, u64)>,
}

impl Worker {
    fn new(number: usize, arch: Arch, user_only: bool) -> Self {
        Self {
            number,
            collector: Collector::new(arch, user_only),
            stats: Stats::default(),
            known: FrameTable::default(),
            lookups: Lookups::default(),
            open: Vec::new(),
            places: Vec::new(),
        }
    }

    fn run<S: SampleSource>(
        mut self,
        source: &S,
        batches: &Mutex<Receiver<Batch>>,
        to: &SyncSender<Collected>,
    ) -> Stats {
        loop {
            let batch = batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(batch) = batch else { return self.stats };
            // Fails only if the one who takes it has panicked, which the scope then tells.
            let _ = to.send(self.collect(source, &batch));
        }
    }

    fn collect<S: SampleSource>(&mut self, source: &S, batch: &Batch) -> Collected {
        let mut collected = Collected {
            worker: self.number,
            batch: batch.number,
            new: Vec::new(),
            rows: Vec::with_capacity(batch.items.len()),
            frames: Vec::with_capacity(8 * batch.items.len()),
        };
        for item in &batch.items {
            let process = &batch.processes[item.process as usize];
            let row = source.sample(item.place, |sample, extra| {
                self.sample(sample, extra, (item, process), &mut collected.frames)
            });
            match row {
                Some(row) => collected.rows.push(row),
                None => self.stats.unreadable += 1,
            }
        }
        self.number_open(&mut collected);
        collected
    }

    fn sample(
        &mut self,
        sample: &Sample<'_>,
        extra: Extra<'_>,
        (item, process): (&Item, &Process),
        frames: &mut Vec<u32>,
    ) -> Row {
        self.stats.samples += 1;
        let Process { present, space, kernel } = process;
        let collected = self.collector.collect(sample, &present.process, extra, None);
        self.stats.count_stack(collected);
        let spaces = Spaces { process: &present.process, kernel: &present.kernel };
        let places = self.collector.places();
        for &place in places {
            let of = match place {
                Place::Process(address) => Some((*space, address)),
                Place::Kernel(address) => Some((*kernel, address)),
                Place::Frame(_) => None,
            };
            let known = of.and_then(|(space, address)| self.lookups.get(space, address));
            if known.is_none() {
                self.open.push(place.frame(spaces));
                self.places.push(Open { at: frames.len(), of });
            }
            frames.push(known.unwrap_or_default());
        }
        let (cpu, time) = (sample.id.cpu, sample.id.time);
        let sample = profile::Sample { stack: StackId::ROOT, thread: item.thread, cpu, time };
        let (len, value) = (places.len(), item.value);
        Row { sample, len, value, keep_time: present.keep_time }
    }

    /// Finds the numbers that are missing: all at once, since most are in memory that is far.
    fn number_open(&mut self, batch: &mut Collected) {
        self.known.fetch(&self.open);
        for (frame, Open { at, of }) in self.open.drain(..).zip(self.places.drain(..)) {
            let (number, is_new) = self.known.intern(frame);
            if is_new {
                batch.new.push(frame);
            }
            if let Some((space, address)) = of {
                self.lookups.put(space, address, number);
            }
            batch.frames[at] = number;
        }
    }
}

/// Takes what all workers have found, in the order of the samples.
struct Joiner {
    chains: Builder,
    /// By worker, and by its number of a frame, ours.
    numbers: Vec<Vec<FrameId>>,
    /// The batch to come, and those that came before it.
    next: u64,
    early: BTreeMap<u64, Collected>,
}

impl Joiner {
    fn new(workers: usize) -> Self {
        let numbers = vec![Vec::new(); workers];
        Self { chains: Builder::default(), numbers, next: 0, early: BTreeMap::new() }
    }

    fn run(mut self, from: &Receiver<Collected>) -> Chains {
        for batch in from {
            self.early.insert(batch.batch, batch);
            while let Some(batch) = self.early.remove(&self.next) {
                self.next += 1;
                self.add(batch);
            }
        }
        self.chains.finish()
    }

    /// A worker's batches are in the order in which it has handed them on.
    fn add(&mut self, mut batch: Collected) {
        let numbers = &mut self.numbers[batch.worker];
        self.chains.fetch_frames(&batch.new);
        // Frames have the numbers that one worker alone would give them: in the order of the stacks,
        // each from its root on.
        numbers.extend(batch.new.iter().map(|_| UNKNOWN));
        let first = numbers.len() - batch.new.len();
        let mut rest = &mut batch.frames[..];
        for row in &batch.rows {
            let (own, others) = rest.split_at_mut(row.len);
            for frame in own.iter_mut().rev() {
                let number = &mut numbers[*frame as usize];
                if *number == UNKNOWN {
                    *number = self.chains.frame(batch.new[*frame as usize - first]);
                }
                *frame = number.0;
            }
            rest = others;
        }
        self.chains.add(&batch.rows, &batch.frames);
    }
}

/// In the place of a number of a frame.
const UNKNOWN: FrameId = FrameId(u32::MAX);
