//! Tracing of the scheduler: each event, or counts of how long tasks run and wait for a CPU.

mod layout;

use std::cell::RefCell;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use libbpf_rs::{Iter, Link, MapCore, MapFlags, MapHandle, Object, RingBuffer, libbpf_sys};
use pyrograph_event::sched::{
    Extremes, Ranges, SchedChange, SchedCounts, SchedRecord, TaskNames, Wait,
};
use pyrograph_event::traced::Stack;

use self::layout::{Config, Counts, Record, Row, Spans, State, TaskRecord};
use crate::error::{Error, Reason};
use crate::kernel_text::KernelText;
use crate::load::with_types;
use crate::object::{Packed, handle, program, ring, run_on_cpus};
use crate::prepare::prepare;
use crate::scope::Scope;
use crate::shared::Shared;
use crate::tracer::{STACKS_A_CPU, Stacks};

static PROGRAMS: Packed = Packed(include_bytes!("programs/sched.bpf.o.gz"));

/// Keys by which counts are separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedKey {
    /// Tasks. Tasks that are not visible in this PID namespace are counted by CPU.
    Task,
    /// CPUs.
    Cpu,
}

/// Options of a [`SchedTracer`].
#[derive(Clone, Debug, Default)]
pub struct SchedOptions {
    /// Tasks to trace. Targets are named by [`SchedTracer::add_threads`].
    pub scope: Scope,
    /// Key of counts; `None` to report events.
    pub counts: Option<SchedKey>,
    /// Report the stack of a task that stops running, with that event. It begins with the caller of the scheduler.
    pub stacks: bool,
    /// Size of the ring buffer for records, in bytes, and the same for stacks; rounded up to a power of two.
    pub memory: u32,
}

/// BPF programs that follow the scheduler. They are unloaded when this is dropped, or when the process ends in any way.
pub struct SchedTracer {
    // Fields are dropped in this order: first, no program runs any more.
    links: Vec<Link>,
    events: Records,
    /// Ring buffer of stacks, which arrive before their events.
    stacks: Records,
    waiting: Stacks,
    text: KernelText,
    state: Shared<State>,
    options: SchedOptions,
    /// Number of times that a task found no room before counting began.
    lost_before: u64,
    cpus: u32,
    object: Object,
}

/// A ring buffer, and the records that were read from it.
struct Records {
    name: &'static str,
    ring: RingBuffer<'static>,
    batch: Rc<RefCell<Vec<u8>>>,
}

impl Records {
    fn open(object: &Object, name: &'static str) -> Result<Self, Error> {
        let batch = Rc::new(RefCell::new(Vec::new()));
        let records = Rc::clone(&batch);
        let ring = ring(object, name, move |bytes| {
            records.borrow_mut().extend_from_slice(bytes);
        })?;
        Ok(Self { name, ring, batch })
    }

    /// Takes at most `most` records; `None` if there are none.
    fn take(&self, most: usize) -> Result<Option<Vec<u8>>, Error> {
        let taken = self.ring.consume_raw_n(most);
        if taken < 0 {
            let error = io::Error::from_raw_os_error(-taken);
            return Err(Error::Map { map: self.name, reason: Reason::of(&error) });
        }
        Ok((taken > 0).then(|| self.batch.take()))
    }

    fn give_back(&self, mut batch: Vec<u8>) {
        batch.clear();
        *self.batch.borrow_mut() = batch;
    }
}

impl SchedOptions {
    /// Names of the programs to attach, in this order, each with true if some kernels lack its tracepoint.
    fn programs(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let counts = self.counts.is_some();
        let events = !counts;
        // If tasks are chosen, other events of their CPUs are not reported.
        let of_cpus = events && !self.scope.is_limited();
        let all = [
            (counts, "on_counted_start", false),
            (events, "on_start", false),
            (true, "on_rename", false),
            (true, "on_exec", false),
            (events, "on_exit", false),
            (events, "on_migrate", false),
            (of_cpus, "on_idle", true),
            (of_cpus, "on_frequency", true),
            (counts, "on_counted_new", false),
            (counts, "on_counted_wakeup", false),
            (counts, "on_counted_waking", false),
            (counts, "on_counted_switch", false),
            (events, "on_new", false),
            (events, "on_wakeup", false),
            (events, "on_waking", false),
            (events, "on_switch", false),
        ];
        all.into_iter()
            .filter(|(is_needed, ..)| *is_needed)
            .map(|(_, name, may_lack)| (name, may_lack))
    }

    /// Returns true if a program is to be loaded.
    fn loads(&self, program: &str) -> bool {
        match program {
            "prepare" => true,
            "on_named" => self.scope.only_targets,
            "on_existing" => !self.scope.only_targets,
            "on_reading" => self.counts.is_some(),
            "on_row" => self.counts == Some(SchedKey::Task),
            _ => self.programs().any(|(name, _)| name == program),
        }
    }
}

impl SchedTracer {
    /// Loads the programs.
    ///
    /// # Errors
    ///
    /// If the user lacks permission, or the kernel lacks a feature.
    pub fn load(options: &SchedOptions) -> Result<Self, Error> {
        let cpus = libbpf_rs::num_possible_cpus().map_err(Error::load)?;
        let (object, mut state) = prepare::<State>(&options.scope, || load(options))?;
        state.write_field(std::mem::offset_of!(State, interval), 1u32);
        Ok(Self {
            links: Vec::new(),
            events: Records::open(&object, "events")?,
            stacks: Records::open(&object, "records")?,
            waiting: Stacks::default(),
            text: match options.stacks {
                true => KernelText::of_this_kernel(options.scope.cache.as_deref()),
                false => KernelText::default(),
            },
            state,
            options: options.clone(),
            lost_before: 0,
            cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
            object,
        })
    }

    /// Attaches the programs. They follow the threads and processes that named threads start, and do nothing else yet.
    ///
    /// # Errors
    ///
    /// If a program cannot be attached.
    pub fn attach(&mut self) -> Result<(), Error> {
        for (name, may_lack) in self.options.programs() {
            match program(&self.object, name)?.attach() {
                Ok(link) => self.links.push(link),
                Err(_) if may_lack => {}
                Err(error) => return Err(Error::attach(name)(error)),
            }
        }
        Ok(())
    }

    /// Follows threads that already run.
    ///
    /// # Errors
    ///
    /// If there is no room for them, or the kernel cannot list its threads.
    pub fn add_threads(&self, threads: &[i32]) -> Result<(), Error> {
        let targets = handle(&self.object, "targets")?;
        for thread in threads {
            targets
                .update(&thread.to_ne_bytes(), &1u32.to_ne_bytes(), MapFlags::ANY)
                .map_err(Error::map("targets"))?;
        }
        // The program writes nothing: reading from the iterator runs it.
        self.run_for_tasks("on_named", &mut io::sink())
    }

    /// Runs an iterator program for each task, and writes its output to `to`.
    fn run_for_tasks(&self, name: &'static str, to: &mut dyn io::Write) -> Result<(), Error> {
        let link = program(&self.object, name)?.attach().map_err(Error::attach(name))?;
        let mut tasks = Iter::new(&link).map_err(Error::attach(name))?;
        let read = io::copy(&mut tasks.by_ref(), to);
        read.map_err(|error| Error::Attach { program: name, reason: Reason::of(&error) })?;
        Ok(())
    }

    /// Starts tracing or counting.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn start(&mut self) -> Result<(), Error> {
        if !self.options.scope.only_targets {
            self.run_for_tasks("on_existing", &mut io::sink())?;
        }
        self.lost_before = self.lost().1;
        self.state.write_field(std::mem::offset_of!(State, on), 1u32);
        // Time of the running tasks is counted from now on.
        self.settle()
    }

    /// Stops tracing or counting.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn stop(&mut self) -> Result<(), Error> {
        let settled = self.settle();
        self.state.write_field(std::mem::offset_of!(State, on), 0u32);
        self.links.clear();
        settled
    }

    /// Returns a function that ends events at once, on any thread, even if the thread that takes them is busy. That
    /// thread must still call [`Self::stop`].
    pub fn end_of_events(&self) -> impl FnOnce() + Send + 'static {
        let mut state = self.state.clone();
        move || state.write_field(std::mem::offset_of!(State, on), 0u32)
    }

    /// Adds the time of the task that runs on each CPU to the counts.
    fn settle(&self) -> Result<(), Error> {
        if self.options.counts.is_none() {
            return Ok(());
        }
        run_on_cpus(&self.object, "on_reading", self.cpus)
    }

    /// Descriptor that is readable when many records are waiting. They should be taken now and then in any case.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the buffer owns the descriptor, and outlives the returned borrow.
        unsafe { BorrowedFd::borrow_raw(self.events.ring.epoll_fd()) }
    }

    /// Takes at most some thousand records; `None` if there are none.
    fn take_batch(&mut self) -> Result<Option<Vec<u8>>, Error> {
        self.state.write_field(std::mem::offset_of!(State, is_woken), 0u32);
        // Records with stacks are large.
        let most = if self.options.stacks { 256 } else { 8192 };
        let batch = self.events.take(most)?;
        // Stacks were sent before their events.
        while let Some(stacks) = self.stacks.take(256)? {
            self.waiting.add_all(&stacks);
            self.stacks.give_back(stacks);
        }
        Ok(batch)
    }

    /// Reports the events since the last call, at most some thousand records, nearly in the order of time: records of
    /// several CPUs may be interchanged, and a wakeup comes when the task is on a queue. Returns false if there was
    /// nothing.
    ///
    /// # Errors
    ///
    /// If the ring buffers cannot be read.
    pub fn take(&mut self, out: &mut dyn FnMut(SchedRecord, Stack<'_>)) -> Result<bool, Error> {
        let Some(batch) = self.take_batch()? else { return Ok(false) };
        let mut rest = &batch[..];
        while let Some((bytes, behind)) = rest.split_at_checked(size_of::<Record>()) {
            let record: Record = bytemuck::pod_read_unaligned(bytes);
            rest = behind;
            let mut names = TaskNames::default();
            if matches!(record.kind, layout::SCHED_TASK | layout::SCHED_RENAME) {
                const NAMES: usize = size_of::<TaskRecord>() - size_of::<Record>();
                let Some((_, behind)) = rest.split_at_checked(NAMES) else { break };
                let whole = &batch[batch.len() - rest.len() - bytes.len()..];
                let task: TaskRecord =
                    bytemuck::pod_read_unaligned(&whole[..size_of::<TaskRecord>()]);
                names = task_names(task.tgid, task.tid, task.comm);
                rest = behind;
            }
            let change = change(&record, names);
            let has_stack =
                record.kind == layout::SCHED_SWITCH && record.flags & layout::HAS_STACK != 0;
            let of = (record.task.cast_signed(), record.time);
            let mut stack = has_stack.then(|| self.waiting.take_of(of)).flatten();
            if let Some(stack) = &mut stack {
                stack.kernel = self.text.without_scheduler(&stack.kernel).to_vec();
            }
            let stack = match &stack {
                Some(stack) => Stack::Taken(stack),
                None if has_stack => Stack::Lost,
                None => Stack::NotTaken,
            };
            out(SchedRecord { time: record.time, cpu: record.cpu.into(), change }, stack);
        }
        self.events.give_back(batch);
        Ok(true)
    }

    /// Takes the counts of tasks that have ended since the last call, at most some thousand. Returns false if there
    /// were none.
    ///
    /// # Errors
    ///
    /// If the ring buffers cannot be read.
    pub fn take_ended(&mut self, out: &mut dyn FnMut(SchedCounts)) -> Result<bool, Error> {
        let Some(batch) = self.take_batch()? else { return Ok(false) };
        rows(&batch, true, out);
        self.events.give_back(batch);
        Ok(true)
    }

    /// Ends an interval, and takes the counts so far. The first interval has the number 1.
    ///
    /// # Errors
    ///
    /// If the maps cannot be read.
    pub fn take_counts(&mut self, out: &mut dyn FnMut(SchedCounts)) -> Result<(), Error> {
        if self.state.read(0).on != 0 {
            self.settle()?;
        }
        let interval = self.state.read(0).interval;
        self.state.write_field(std::mem::offset_of!(State, interval), interval.wrapping_add(1));
        while self.take_ended(out)? {}
        if self.options.counts == Some(SchedKey::Task) {
            let mut bytes = Vec::new();
            self.run_for_tasks("on_row", &mut bytes)?;
            rows(&bytes, false, out);
        }
        self.read_cpus(out)
    }

    fn read_cpus(&self, out: &mut dyn FnMut(SchedCounts)) -> Result<(), Error> {
        let of_cpus = |name: &'static str| -> Result<Vec<Vec<u8>>, Error> {
            let map: MapHandle = handle(&self.object, name)?;
            let values = map.lookup_percpu(&[0; 4], MapFlags::ANY).map_err(Error::map(name))?;
            Ok(values.unwrap_or_default())
        };
        let spans = of_cpus("spans")?;
        for (cpu, (value, spans)) in (0u32..).zip(of_cpus("cpus")?.into_iter().zip(spans)) {
            let Some(bytes) = value.get(..size_of::<Counts>()) else { continue };
            let Some(spans) = spans.get(..size_of::<Spans>()) else { continue };
            let counts: Counts = bytemuck::pod_read_unaligned(bytes);
            let spans: Spans = bytemuck::pod_read_unaligned(spans);
            if counts.run_time > 0 || counts.switches > 0 {
                let on_cpu = Ranges { total: spans.on_time, counts: spans.on.to_vec() };
                let off_cpu = Ranges { total: spans.off_time, counts: spans.off.to_vec() };
                out(SchedCounts { cpu: Some(cpu), on_cpu, off_cpu, ..counted(&counts) });
            }
        }
        Ok(())
    }

    /// Number of events, or counts of ended tasks, for which there was no room, and number of times that a task found
    /// no room.
    pub fn lost(&self) -> (u64, u64) {
        let state = self.state.read(0);
        (state.lost, state.lost_threads - self.lost_before.min(state.lost_threads))
    }
}

fn load(options: &SchedOptions) -> Result<Object, Error> {
    let cache = options.scope.cache.as_deref();
    with_types(&PROGRAMS, "types of the scheduler", cache, |mut open, as_needed| {
        for mut program in open.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            program.set_autoload(options.loads(&name));
        }
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            let entries = match &*name {
                "events" => Some(ring_size(options)),
                "records" if options.stacks => Some(ring_size(options)),
                // The kernel requires a ring buffer to have a page.
                "records" => Some(4096),
                "stacks" if options.stacks => {
                    let cpus = libbpf_rs::num_possible_cpus().map_err(Error::load)?;
                    Some(u32::try_from(cpus).unwrap_or(u32::MAX).saturating_mul(STACKS_A_CPU))
                }
                "targets" if !options.scope.only_targets => Some(1),
                _ => None,
            };
            if let Some(entries) = entries {
                map.set_max_entries(entries).map_err(Error::load)?;
            }
            if as_needed && name == "targets" {
                map.set_map_flags(libbpf_sys::BPF_F_NO_PREALLOC).map_err(Error::load)?;
            }
            if name.ends_with(".rodata") {
                let config = config(options);
                map.set_initial_value(bytemuck::bytes_of(&config)).map_err(Error::load)?;
            }
        }
        open.load().map_err(Error::load)
    })
}

fn ring_size(options: &SchedOptions) -> u32 {
    options.memory.clamp(4096, 1 << 30).next_power_of_two()
}

fn config(options: &SchedOptions) -> Config {
    Config {
        group: options.scope.group.unwrap_or(0),
        // `members` takes the place of this.
        filter: 0,
        inherit: options.scope.inherit.into(),
        names: (!options.scope.names.is_empty()).into(),
        members: options.scope.only_targets.into(),
        key: match options.counts {
            Some(SchedKey::Cpu) => layout::KEY_CPU,
            _ => layout::KEY_TASK,
        },
        wake: ring_size(options) / 4,
        events: options.counts.is_none().into(),
        stacks: options.stacks.into(),
    }
}

fn task_names(tgid: u32, tid: u32, name: [u8; 16]) -> TaskNames {
    TaskNames { pid: tgid.cast_signed(), tid: tid.cast_signed(), name }
}

fn change(record: &Record, names: TaskNames) -> SchedChange {
    let Record { task, other, detail, more, .. } = *record;
    match record.kind {
        layout::SCHED_TASK => SchedChange::Task { task, names, parent: other },
        layout::SCHED_SWITCH => {
            let wait = Wait {
                call: (record.call != layout::NO_CALL).then_some(record.call.into()),
                file: record.flags & layout::FILE_TYPE,
                for_io: record.flags & layout::WAITS_FOR_IO != 0,
                for_time: record.flags & layout::WAITS_FOR_TIME != 0,
            };
            SchedChange::Switch { previous: task, state: detail, wait, next: other }
        }
        layout::SCHED_WAKEUP | layout::SCHED_NEW => SchedChange::Wakeup {
            task,
            waker: other,
            target: detail,
            is_new: record.kind == layout::SCHED_NEW,
        },
        layout::SCHED_MIGRATE => SchedChange::Migrate { task, from: detail, to: more },
        layout::SCHED_FORK => SchedChange::Fork { parent: other, child: task },
        layout::SCHED_RENAME => SchedChange::Rename { task, names },
        layout::SCHED_IDLE => SchedChange::Idle { state: (detail != u32::MAX).then_some(detail) },
        layout::SCHED_FREQUENCY => SchedChange::Frequency { frequency: detail },
        _ => SchedChange::Exit { task },
    }
}

/// Reports the rows of tasks in `bytes`, which are contiguous.
fn rows(bytes: &[u8], has_ended: bool, out: &mut dyn FnMut(SchedCounts)) {
    for bytes in bytes.chunks_exact(size_of::<Row>()) {
        let row: Row = bytemuck::pod_read_unaligned(bytes);
        let names = task_names(row.tgid, row.tid, row.comm);
        // Other tasks are counted by CPU.
        if names.tid >= 0 {
            out(SchedCounts { task: row.record.task, names, has_ended, ..counted(&row.counts) });
        }
    }
}

fn counted(counts: &Counts) -> SchedCounts {
    SchedCounts {
        run_time: counts.run_time,
        switches: counts.switches,
        delay: counts.delay,
        extremes: counts.extremes.map(|extremes| Extremes {
            interval: extremes.interval,
            least: extremes.least,
            longest: extremes.longest,
            longest_since: extremes.longest_since,
        }),
        ranges: counts.buckets.to_vec(),
        ..SchedCounts::default()
    }
}
