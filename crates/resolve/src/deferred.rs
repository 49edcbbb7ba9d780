//! Samples of a file: records are processed in one pass, and stacks are unwound by as many threads as there are CPUs.
//!
//! A sample needs its process's mappings and its thread from the records before it. Both are known at once; its stack
//! can be unwound later, on another thread. So one thread takes the records in the order of time and hands the samples
//! on in batches. Worker threads collect frames and number them in a shared table. Another thread takes their results
//! in the order of the samples and keeps the distinct stacks. At the end, frames are renumbered in the order of these
//! stacks, so that the result does not depend on the number of threads.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use hashbrown::HashMap;
use pyrograph_event::{Record, Sample};
use pyrograph_profile::{self as profile, StackId, ThreadId};
use pyrograph_unwind::{AddressSpace, Arch};

use crate::chains::{Builder, Chains, Row};
use crate::collect::{Collector, Extra, Place, Spaces};
use crate::files::Files;
use crate::frame_table::{Scratch, SharedFrames};
use crate::jit_code::{Code, JitCode};
use crate::lookups::{Lookups, Mappings};
use crate::resolver::{Present, Resolved, Resolver, Stats};
use crate::stacks::RawFrame;

/// Number of samples in a batch: large enough that the channel costs nothing, small enough that the last batch does not
/// keep one thread busy for long after the others.
const BATCH: usize = 512;

/// Number of processes whose last mappings are kept to detect changes.
const MOST_SPACES: usize = 1 << 10;

/// Access to the samples of a file.
pub trait SampleSource: Sync {
    /// Decodes the sample at a place and passes it, with further data about it, to `take`. `None` if it cannot be read.
    fn sample<T>(&self, place: u64, take: impl FnOnce(&Sample<'_>, Extra<'_>) -> T) -> Option<T>;

    /// Called when no more samples will be requested. Memory that only they need can be freed before symbolization
    /// needs its own.
    fn used_up(&self) {}
}

/// Accepts records in the order of time.
pub struct Feed<'a, F> {
    resolver: &'a mut Resolver<F>,
    sender: SyncSender<Batch>,
    batch: Batch,
    /// Current threads with the batch's process entries, valid until a record changes them.
    known: HashMap<(i32, i32), (ThreadId, u32), foldhash::fast::FixedState>,
    last: Option<((i32, i32), (ThreadId, u32))>,
    /// Last mappings of processes, with their numbers.
    spaces: HashMap<i32, (AddressSpace, u32), foldhash::fast::FixedState>,
    next_space: u32,
}

/// Samples whose stacks are to be collected.
#[derive(Default)]
struct Batch {
    number: u64,
    items: Vec<Item>,
    /// States of processes at the time of the samples.
    processes: Vec<Process>,
}

struct Process {
    present: Present,
    /// Number of the process's mappings; equal numbers mean equal mappings.
    space: u32,
    kernel: u32,
}

/// Key of the kernel's mappings in place of a process ID. No PID is negative, but for the PID of events outside of any
/// process.
const KERNEL_PID: i32 = i32::MIN;

struct Item {
    place: u64,
    value: u64,
    thread: ThreadId,
    process: u32,
}

impl<F: Files> Feed<'_, F> {
    /// Accepts a record that is not a sample.
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

    /// Accepts a sample: its process and thread, the field by which it is told apart with its value, its place in the
    /// source, and its value.
    pub fn sample(&mut self, pid: i32, tid: i32, field: Option<&str>, place: u64, value: u64) {
        let (thread, process) = match self.last {
            Some((last, found)) if last == (pid, tid) => found,
            _ => self.look_up(pid, tid),
        };
        let thread = match field {
            Some(field) => self.resolver.with_field(thread, field),
            None => thread,
        };
        self.batch.items.push(Item { place, value, thread, process });
        if self.batch.items.len() == BATCH {
            self.send();
        }
    }

    /// Sets the control group of a process, by the number in its samples.
    pub fn in_cgroup(&mut self, pid: i32, cgroup: u64) {
        if self.resolver.in_cgroup(pid, cgroup) {
            self.known.clear();
            self.last = None;
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

    /// Number of the current mappings of a process.
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
        // Fails only if all workers have panicked, which the scope then propagates.
        let _ = self.sender.send(std::mem::replace(&mut self.batch, next));
        self.known.clear();
        self.last = None;
    }
}

impl<F: Files> Resolver<F> {
    /// Resolves the samples of a file with `workers` threads in addition to this one. `feed` supplies records and
    /// samples in the order of time.
    pub fn resolve<S: SampleSource, T>(
        self,
        source: &S,
        workers: usize,
        feed: impl FnOnce(&mut Feed<'_, F>) -> T,
    ) -> (Resolved, T) {
        self.resolve_to(source, workers, feed, Self::finish_with)
    }

    /// Like [`Resolver::resolve`], but `finish` makes the result from the collected stacks.
    pub(crate) fn resolve_to<S: SampleSource, T, R>(
        mut self,
        source: &S,
        workers: usize,
        feed: impl FnOnce(&mut Feed<'_, F>) -> T,
        finish: impl FnOnce(Self, Chains, &Stats) -> R,
    ) -> (R, T) {
        let (arch, user_only) = self.collecting();
        let workers = workers.max(1);
        let (sender, receiver) = sync_channel(4 * workers);
        let receiver = Mutex::new(receiver);
        let (collected, joined) = sync_channel(4 * workers);
        let frames = SharedFrames::default();
        let (chains, stats, fed) = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..workers)
                .map(|number| {
                    let (batches, collected) = (&receiver, collected.clone());
                    let worker = Worker::new(number, arch, user_only, &frames);
                    scope.spawn(move || worker.run(source, batches, &collected))
                })
                .collect();
            // The joiner ends when the last of the workers has ended.
            drop(collected);
            let joiner = scope.spawn(move || Joiner::default().run(&joined));
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
        let chains = chains.finish(&frames.into_frames());
        // To unmap a gigabyte takes as long as to symbolize its addresses.
        let resolved = std::thread::scope(|scope| {
            scope.spawn(|| source.used_up());
            finish(self, chains, &stats)
        });
        (resolved, fed)
    }
}

/// Result of a worker for one batch.
struct Collected {
    batch: u64,
    rows: Vec<Row>,
    /// Numbers of the frames of all rows, leaf first.
    frames: Vec<u32>,
}

/// Collects the frames of samples.
struct Worker<'a> {
    number: usize,
    collector: Collector,
    stats: Stats,
    known: &'a SharedFrames,
    lookups: Lookups,
    mappings: Mappings,
    jit_code: JitCode,
    /// Frames of the batch whose numbers are not known yet, and their positions in the batch's list of numbers.
    open: Vec<RawFrame>,
    places: Vec<Open>,
    scratch: Scratch,
    /// Last samples of some threads in the batch.
    recent: [Recent; RECENT],
}

const RECENT: usize = 8;

/// Last sample of a thread: the next one mostly has the same outer frames.
#[derive(Default)]
struct Recent {
    /// Numbers of the process's mappings and of the kernel's.
    spaces: (u32, u32),
    places: Vec<Place>,
    /// End of its frames in the batch's list of numbers.
    end: usize,
}

/// Placeholder for the number of a frame that is not known yet.
const OPEN: u32 = u32::MAX;

/// Position of a placeholder.
struct Open {
    at: usize,
    /// Number of the mappings and address of the frame, if it is to be put into the lookup cache.
    of: Option<(u32, u64)>,
}

impl<'a> Worker<'a> {
    fn new(number: usize, arch: Arch, user_only: bool, known: &'a SharedFrames) -> Self {
        Self {
            number,
            collector: Collector::new(arch, user_only),
            stats: Stats::default(),
            known,
            lookups: Lookups::default(),
            mappings: Mappings::default(),
            jit_code: JitCode::default(),
            open: Vec::new(),
            places: Vec::new(),
            scratch: Scratch::default(),
            recent: Default::default(),
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
            // Fails only if the receiver has panicked, which the scope then propagates.
            let _ = to.send(self.collect(source, &batch));
        }
    }

    fn collect<S: SampleSource>(&mut self, source: &S, batch: &Batch) -> Collected {
        let mut collected = Collected {
            batch: batch.number,
            rows: Vec::with_capacity(batch.items.len()),
            frames: Vec::with_capacity(8 * batch.items.len()),
        };
        self.recent.iter_mut().for_each(|recent| recent.places.clear());
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
        let dump = present.dump.as_ref();
        // The thread only matters for live processes.
        let code = Code { dump, time: sample.id.time, thread: (0, 0), guessing: false };
        let (process, collector) = (&present.process, &mut self.collector);
        let collected = self.jit_code.walk(None, &code, process, collector, |it, space, live| {
            it.collect(sample, space, extra, live)
        });
        self.stats.count_stack(collected);
        let spaces = Spaces { process: &present.process, kernel: &present.kernel };
        let places = self.collector.places();
        let recent = &mut self.recent[item.thread.0 as usize % RECENT];
        let same = if recent.spaces == (*space, *kernel) {
            let outwards = places.iter().rev().zip(recent.places.iter().rev());
            outwards.take_while(|(place, before)| place == before).count()
        } else {
            0
        };
        let mut before = recent.end - same;
        for (at, &place) in places.iter().enumerate() {
            let of = match place {
                Place::Process(address) => Some((*space, address)),
                Place::Kernel(address) => Some((*kernel, address)),
                Place::Guessed(_) | Place::Frame(_) => None,
            };
            let mut number = OPEN;
            if at + same >= places.len() {
                number = frames[before];
                before += 1;
            } else if let Some((space, address)) = of {
                number = self.lookups.get(space, address).unwrap_or(OPEN);
            }
            if number == OPEN {
                self.open.push(match place {
                    Place::Process(address) => {
                        self.mappings.frame(*space, &present.process, address)
                    }
                    place => place.frame(spaces),
                });
                self.places.push(Open { at: frames.len(), of });
            }
            frames.push(number);
        }
        recent.spaces = (*space, *kernel);
        recent.places.clear();
        recent.places.extend_from_slice(places);
        recent.end = frames.len();
        let (cpu, time) = (sample.id.cpu, sample.id.time);
        let sample = profile::Sample {
            thread: item.thread,
            cpu,
            time,
            ..profile::Sample::new(StackId::ROOT)
        };
        let (len, value) = (places.len(), item.value);
        Row { sample, len, value, keep_times: present.keep_times }
    }

    /// Fills in the missing numbers: all at once, because most lookups are cache misses.
    fn number_open(&mut self, batch: &mut Collected) {
        let numbers = self.known.intern(&self.open, self.number, &mut self.scratch);
        self.open.clear();
        for (Open { at, of }, &number) in self.places.drain(..).zip(numbers) {
            if let Some((space, address)) = of {
                self.lookups.put(space, address, number);
            }
            batch.frames[at] = number;
        }
    }
}

/// Joins the results of all workers in the order of the samples.
#[derive(Default)]
struct Joiner {
    chains: Builder,
    /// Number of the next batch, and the batches that arrived before it.
    next: u64,
    early: BTreeMap<u64, Collected>,
}

impl Joiner {
    fn run(mut self, from: &Receiver<Collected>) -> Builder {
        for batch in from {
            self.early.insert(batch.batch, batch);
            while let Some(batch) = self.early.remove(&self.next) {
                self.next += 1;
                self.chains.add(&batch.rows, &batch.frames);
            }
        }
        self.chains
    }
}
