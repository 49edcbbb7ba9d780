//! Counting of events without stacks: tracepoints, and counters of `perf_event_open` attributed to the running thread.

mod layout;
mod point;
mod sums;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_rs::{Iter, Link, MapCore, MapFlags, Object, libbpf_sys};
use pyrograph_event::request::{Ends, Trigger};
use pyrograph_event::values::{EventValues, Sum};

use self::layout::{Config, Owner, RowKey, State};
pub use self::sums::{EventSum, SumKey};
use crate::error::{Error, Reason};
use crate::load::with_types;
use crate::object::{Packed, handle, program, run_on_cpus};
use crate::prepare::prepare;
use crate::rows::{Row as RowBytes, all_rows};
use crate::scope::Scope;
use crate::shared::Shared;
use crate::trigger::attach_places;

pub(crate) static PROGRAMS: Packed = Packed(include_bytes!("programs/counter.bpf.o.gz"));

/// An event that BPF programs count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CountedEvent {
    /// Entry of the system call with a number.
    Call(u32),
    /// Return of the system call with a number.
    Return(u32),
    /// A tracepoint, by its name without the category.
    Tracepoint(String),
    /// A place in a program: a function or instructions.
    Place(Trigger),
    /// A place in a program or a tracepoint, whose values are added up.
    Values {
        /// The place, or the tracepoint.
        trigger: Trigger,
        /// Its end, if its duration is added up.
        ends: Option<Box<Ends>>,
        /// Its values, and the filter.
        values: EventValues,
        /// Value and key of the sums.
        sum: Sum,
    },
}

/// Keys by which counts are separated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CountKey {
    /// No key. Counts of tracepoints and calls are kept per CPU all the same.
    #[default]
    None,
    /// CPUs.
    Cpu,
    /// Threads, by their IDs.
    Thread,
    /// Processes, by their IDs.
    Process,
    /// Control groups, by their IDs.
    Group,
    /// Named threads, by their indices, each with the threads and processes that it has started since.
    Root,
}

/// Options of an [`EventCounter`].
#[derive(Clone, Debug, Default)]
pub struct EventOptions {
    /// Tasks to count. Targets are named by [`EventCounter::add_threads`] and [`EventCounter::expect_command`].
    pub scope: Scope,
    /// Key by which counts are separated.
    pub key: CountKey,
    /// Events that are counted by BPF programs.
    pub events: Vec<CountedEvent>,
    /// For each counter of `perf_event_open`: true if it counts time, which idle CPUs do not have.
    pub counters: Vec<bool>,
}

/// A count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventCount {
    /// Index of the event; counters follow after the events.
    pub event: usize,
    /// Key of the count.
    pub key: u64,
    /// The CPU, for events if the key is [`CountKey::None`] or [`CountKey::Cpu`].
    pub cpu: Option<u32>,
    /// Value of the count.
    pub value: u64,
    /// Nanoseconds for which the counter was enabled; 0 for events.
    pub enabled: u64,
    /// Nanoseconds for which the counter was running; 0 for events.
    pub running: u64,
}

/// BPF programs that count events. They are unloaded when this is dropped, or when the process ends in any way.
pub struct EventCounter {
    // Fields are dropped in this order: first, no program runs any more.
    links: Vec<Link>,
    points: Vec<point::Point>,
    state: Shared<State>,
    options: EventOptions,
    cpus: u32,
    object: Object,
}

impl EventCounter {
    /// Maximum number of counters of `perf_event_open`.
    pub const MOST_COUNTERS: usize = layout::MAX_VALUES;

    /// Loads the programs. It is no error if a tracepoint is not available to programs: [`Self::attach`] returns the
    /// index of its event.
    ///
    /// # Errors
    ///
    /// If the user lacks permission, or the kernel lacks a feature.
    pub fn load(options: EventOptions) -> Result<Self, Error> {
        let cpus = libbpf_rs::num_possible_cpus().map_err(Error::load)?;
        let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
        let (object, state) = prepare(&options.scope, || load(&options, cpus))?;
        let counter = Self { links: Vec::new(), points: Vec::new(), state, options, cpus, object };
        counter.set_calls()?;
        sums::set_plans(&counter.object, &counter.options.events)?;
        Ok(counter)
    }

    fn set_calls(&self) -> Result<(), Error> {
        let calls = handle(&self.object, "calls")?;
        for (index, event) in (1u32..).zip(&self.options.events) {
            let slot = match event {
                CountedEvent::Call(number) if *number < layout::MAX_CALLS => *number,
                CountedEvent::Return(number) if *number < layout::MAX_CALLS => {
                    number + layout::MAX_CALLS
                }
                _ => continue,
            };
            calls
                .update(&slot.to_ne_bytes(), &index.to_ne_bytes(), MapFlags::ANY)
                .map_err(Error::map("calls"))?;
        }
        Ok(())
    }

    /// Adds a counter of `perf_event_open`, by its index among the counters. It must be open on a CPU for all threads
    /// that run there.
    ///
    /// # Errors
    ///
    /// If the kernel does not make its value available to programs.
    pub fn add_counter(
        &self,
        index: usize,
        cpu: u32,
        counter: BorrowedFd<'_>,
    ) -> Result<(), Error> {
        let at = u32::try_from(index).unwrap_or(u32::MAX).saturating_mul(self.cpus) + cpu;
        handle(&self.object, "counters")?
            .update(&at.to_ne_bytes(), &counter.as_raw_fd().to_ne_bytes(), MapFlags::ANY)
            .map_err(Error::map("counters"))
    }

    /// Counts a process from the time when it executes a program.
    pub fn expect_command(&mut self, pid: i32) {
        self.state.write_field(std::mem::offset_of!(State, command), pid.cast_unsigned());
    }

    /// Attaches the programs. They count nothing yet, but follow the threads and processes that named threads start.
    /// Returns the indices of events that cannot be counted by programs.
    ///
    /// # Errors
    ///
    /// If a program cannot be attached.
    pub fn attach(&mut self) -> Result<Vec<usize>, Error> {
        let EventOptions { scope, counters, events, key } = &self.options;
        let has = |is_it: &dyn Fn(&CountedEvent) -> bool| events.iter().any(is_it);
        let follows = scope.only_targets || !counters.is_empty();
        let before = [
            (scope.only_targets, "on_new_task"),
            (follows || matches!(key, CountKey::Thread | CountKey::Process), "on_rename"),
            (has(&|event| matches!(event, CountedEvent::Call(_))), "on_call"),
            (has(&|event| matches!(event, CountedEvent::Return(_))), "on_return"),
            (!counters.is_empty(), "on_switch"),
        ];
        let mut refused = Vec::new();
        for (_, name) in before.into_iter().filter(|(is_needed, _)| *is_needed) {
            let link = program(&self.object, name)?.attach().map_err(Error::attach(name))?;
            self.links.push(link);
        }
        let template = point::Template::new(&self.object)?;
        for (index, event) in events.iter().enumerate() {
            let CountedEvent::Tracepoint(name) = event else { continue };
            match template.attach(index, name) {
                Ok(point) => self.points.push(point),
                Err(_) => refused.push(index),
            }
        }
        for (cookie, event) in (0u64..).zip(events) {
            if let CountedEvent::Place(trigger) = event {
                attach_places(&self.object, "on_place", trigger, |_| cookie, &mut self.links)?;
            }
        }
        sums::attach(&self.object, events, &mut self.links)?;
        // Attached after the programs that count the end of a thread.
        if follows {
            const NAME: &str = "on_end";
            let link = program(&self.object, NAME)?.attach().map_err(Error::attach(NAME))?;
            self.links.push(link);
        }
        Ok(refused)
    }

    /// Counts threads that already run, each with the index for [`CountKey::Root`]. Threads that are already followed
    /// keep theirs.
    ///
    /// # Errors
    ///
    /// If there is no room for them, or the kernel cannot list its threads.
    pub fn add_threads(&self, threads: &[(i32, u32)]) -> Result<(), Error> {
        const NAME: &str = "on_named";
        let targets = handle(&self.object, "targets")?;
        for (thread, index) in threads {
            targets
                .update(&thread.to_ne_bytes(), &(index + 1).to_ne_bytes(), MapFlags::ANY)
                .map_err(Error::map("targets"))?;
        }
        let link = program(&self.object, NAME)?.attach().map_err(Error::attach(NAME))?;
        let mut all = Iter::new(&link).map_err(Error::attach(NAME))?;
        // The program writes nothing: reading from the iterator runs it.
        let read = io::copy(&mut all, &mut io::sink());
        read.map_err(|error| Error::Attach { program: NAME, reason: Reason::of(&error) })?;
        Ok(())
    }

    /// Starts counting.
    ///
    /// # Errors
    ///
    /// If the counters cannot be read.
    pub fn start(&mut self) -> Result<(), Error> {
        self.settle()?;
        self.points.iter_mut().for_each(point::Point::forget_missed);
        self.state.write_field(std::mem::offset_of!(State, on), 1u32);
        Ok(())
    }

    /// Reads the counters on each CPU, and attributes what they have counted so far to the thread that runs there.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn settle(&self) -> Result<(), Error> {
        if self.options.counters.is_empty() {
            return Ok(());
        }
        run_on_cpus(&self.object, "on_reading", self.cpus)
    }

    /// Returns the counts so far.
    ///
    /// # Errors
    ///
    /// If the maps cannot be read.
    pub fn read(&self) -> Result<Vec<EventCount>, Error> {
        self.settle()?;
        let mut all = Vec::new();
        match self.options.key {
            CountKey::None | CountKey::Cpu => self.read_by_cpu(&mut all)?,
            _ => self.read_rows(&mut all)?,
        }
        let first = self.options.events.len();
        for (key, owner) in self.owners()? {
            for (index, value) in owner.values.iter().enumerate().take(self.options.counters.len())
            {
                all.push(EventCount {
                    event: first + index,
                    key,
                    cpu: None,
                    value: value.count,
                    enabled: value.enabled,
                    running: value.running,
                });
            }
        }
        Ok(all)
    }

    fn read_by_cpu(&self, all: &mut Vec<EventCount>) -> Result<(), Error> {
        let counts = handle(&self.object, "counts")?;
        let is_summed = |event: &CountedEvent| matches!(event, CountedEvent::Values { .. });
        let events = self.options.events.iter().enumerate();
        for (event, _) in events.filter(|(_, event)| !is_summed(event)) {
            let key = u32::try_from(event).unwrap_or(u32::MAX).to_ne_bytes();
            let values = counts.lookup_percpu(&key, MapFlags::ANY).map_err(Error::map("counts"))?;
            for (cpu, value) in (0u32..).zip(values.into_iter().flatten()) {
                let value = bytemuck::pod_read_unaligned(value.get(..8).unwrap_or(&[0; 8]));
                all.push(EventCount {
                    event,
                    key: 0,
                    cpu: Some(cpu),
                    value,
                    enabled: 0,
                    running: 0,
                });
            }
        }
        Ok(())
    }

    fn read_rows(&self, all: &mut Vec<EventCount>) -> Result<(), Error> {
        for (key, value) in all_rows(&handle(&self.object, "rows")?, "rows")? {
            let key: RowKey = bytemuck::pod_read_unaligned(&key);
            all.push(EventCount {
                event: usize::try_from(key.event).unwrap_or(usize::MAX),
                key: key.key,
                cpu: None,
                value: bytemuck::pod_read_unaligned(&value),
                enabled: 0,
                running: 0,
            });
        }
        Ok(())
    }

    /// Returns the sums of values so far.
    ///
    /// # Errors
    ///
    /// If the maps cannot be read.
    pub fn sums(&self) -> Result<Vec<EventSum>, Error> {
        sums::read(&self.object, &self.options.events)
    }

    /// Number of events whose value could not be read.
    pub fn unread(&self) -> u64 {
        self.state.read(0).unread
    }

    fn owners(&self) -> Result<Vec<(u64, Owner)>, Error> {
        let rows = all_rows(&handle(&self.object, "owners")?, "owners")?;
        let owner = |(key, owner): RowBytes| {
            (bytemuck::pod_read_unaligned(&key), bytemuck::pod_read_unaligned(&owner))
        };
        Ok(rows.into_iter().map(owner).collect())
    }

    /// Last name of the thread or process of each key.
    ///
    /// # Errors
    ///
    /// If the maps cannot be read.
    pub fn names(&self) -> Result<HashMap<u64, Vec<u8>>, Error> {
        let name = |comm: [u8; 16]| comm.split(|byte| *byte == 0).next().unwrap_or(&[]).to_vec();
        Ok(self.owners()?.into_iter().map(|(key, owner)| (key, name(owner.comm))).collect())
    }

    /// Number of times that there was no room for a count or a thread.
    pub fn lost(&self) -> u64 {
        self.state.read(0).lost
    }

    /// For each event, the number of hits, by any thread, that were not counted because the event's program was running
    /// on the same CPU.
    pub fn missed(&self) -> Vec<(usize, u64)> {
        let missed = self.points.iter().map(|point| (point.event, point.missed()));
        missed.filter(|(_, missed)| *missed > 0).collect()
    }
}

fn load(options: &EventOptions, cpus: u32) -> Result<Object, Error> {
    let unused: BTreeSet<&str> = [
        ("on_fork", true),
        ("on_switch", options.counters.is_empty()),
        ("on_reading", options.counters.is_empty()),
        ("on_named", !options.scope.only_targets),
        ("on_new_task", !options.scope.only_targets),
        ("on_place", !options.events.iter().any(|event| matches!(event, CountedEvent::Place(_)))),
        ("on_place_values", !options.events.iter().any(sums::is_place)),
        ("on_called", !options.events.iter().any(sums::is_of_call)),
        ("on_tracepoint_values", !options.events.iter().any(sums::is_tracepoint)),
    ]
    .into_iter()
    .chain(sums::programs_of_times(&options.events).map(|(name, is_used)| (name, !is_used)))
    .filter_map(|(name, is_unused)| is_unused.then_some(name))
    .collect();
    let keyed = !matches!(options.key, CountKey::None | CountKey::Cpu);
    let (events, counters) = (options.events.len(), options.counters.len());
    let cache = options.scope.cache.as_deref();
    with_types(&PROGRAMS, "types of counters", cache, |mut open, as_needed| {
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            let entries = match &*name {
                "counts" if !keyed => Some(events),
                "rows" if !keyed => Some(1),
                "targets" if !options.scope.only_targets => Some(1),
                "counters" => Some(counters * cpus as usize),
                name => sums::rows(name, &options.events),
            };
            if let Some(entries) = entries {
                let entries = u32::try_from(entries.max(1)).unwrap_or(u32::MAX);
                map.set_max_entries(entries).map_err(Error::load)?;
            }
            if as_needed && matches!(&*name, "rows" | "owners" | "targets" | "sums" | "key_texts") {
                map.set_map_flags(libbpf_sys::BPF_F_NO_PREALLOC).map_err(Error::load)?;
            }
            if name.ends_with(".rodata") {
                let config = config(options, cpus);
                map.set_initial_value(bytemuck::bytes_of(&config)).map_err(Error::load)?;
            }
        }
        for mut program in open.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            program.set_autoload(!unused.contains(&*name));
        }
        open.load().map_err(Error::load)
    })
}

fn config(options: &EventOptions, cpus: u32) -> Config {
    let clocks = (0..).zip(&options.counters).filter(|(_, is_time)| **is_time);
    Config {
        group: options.scope.group.unwrap_or(0),
        // `members` takes the place of this.
        filter: 0,
        inherit: options.scope.inherit.into(),
        names: (!options.scope.names.is_empty()).into(),
        members: options.scope.only_targets.into(),
        key: options.key as u32,
        values: u32::try_from(options.counters.len()).unwrap_or(u32::MAX),
        clocks: clocks.fold(0, |all, (index, _): (u32, _)| all | 1 << (index & 31)),
        cpus,
    }
}
