//! Counting of events without stacks: tracepoints where they happen, and counters of perf_event_open by who runs.

mod layout;
mod point;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::PathBuf;

use libbpf_rs::{Iter, Link, MapCore, MapFlags, Object, ProgramInput, libbpf_sys};

use self::layout::{Config, Owner, RowKey, State};
use crate::error::{Error, Reason};
use crate::load::{Packed, with_types};
use crate::loader_log;
use crate::object::{handle, program, run_on_cpus};
use crate::rows::{Row as RowBytes, all_rows};
use crate::shared::Shared;

static PROGRAMS: Packed = Packed(include_bytes!("programs/counter.bpf.o.gz"));

/// An event that programs in the kernel count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CountedEvent {
    /// The begin of the system calls with a number.
    Call(u32),
    /// The return of the system calls with a number.
    Return(u32),
    /// A tracepoint, by its name without that of its system.
    Tracepoint(String),
}

/// Keys that keep counts apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CountKey {
    /// None, or CPUs: those of tracepoints are apart in any case.
    #[default]
    None,
    /// CPUs.
    Cpu,
    /// Threads, by their numbers.
    Thread,
    /// Processes, by their numbers.
    Process,
    /// Control groups, by their IDs.
    Group,
    /// The threads that were named, by their indexes, each with what it has started since.
    Root,
}

/// Options of an [`EventCounter`].
#[derive(Clone, Debug, Default)]
pub struct EventOptions {
    /// Only threads that [`EventCounter::add_threads`] and [`EventCounter::expect_command`] name, with threads that
    /// they start.
    pub members: bool,
    /// And processes that these start.
    pub inherit: bool,
    /// Only threads of these names, or of processes of these names; none for all.
    pub names: Vec<String>,
    /// Only threads in the control group with this ID, or in one inside of it.
    pub group: Option<u64>,
    /// Keys that keep counts apart.
    pub key: CountKey,
    /// Events that are counted where they happen.
    pub events: Vec<CountedEvent>,
    /// For each counter of perf_event_open that is read, true if it counts time, of which idle CPUs have none.
    pub counters: Vec<bool>,
    /// Below which folder (such as `~/.cache`) the kernel's types are kept for the next time; `None`: they are not.
    pub cache: Option<PathBuf>,
}

/// A count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventCount {
    /// Index of the event, or behind these, of the counter.
    pub event: usize,
    /// The key that it was counted for.
    pub key: u64,
    /// The CPU, for events where keys are none or CPUs.
    pub cpu: Option<u32>,
    /// The count.
    pub value: u64,
    /// Nanoseconds for which it was to count; 0 of events.
    pub enabled: u64,
    /// Nanoseconds for which it did; 0 of events.
    pub running: u64,
}

/// Programs in the kernel that count events. When this is dropped, or the process ends in any way, they are gone.
pub struct EventCounter {
    // In this order they go: first nothing runs any more.
    links: Vec<Link>,
    points: Vec<point::Point>,
    state: Shared<State>,
    options: EventOptions,
    cpus: u32,
    object: Object,
}

impl EventCounter {
    /// The most counters of perf_event_open.
    pub const MOST_COUNTERS: usize = layout::MAX_VALUES;

    /// Loads the programs. An event whose tracepoint the kernel does not give to programs is no error: [`Self::attach`]
    /// returns its index.
    ///
    /// # Errors
    ///
    /// If the user may not, or the kernel lacks something.
    pub fn load(options: EventOptions) -> Result<Self, Error> {
        if !cfg!(target_arch = "x86_64") {
            return Err(Error::UnsupportedArch);
        }
        loader_log::start();
        let cpus = libbpf_rs::num_possible_cpus().map_err(Error::load)?;
        let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
        let object = load(&options, cpus)?;
        program(&object, "prepare")?
            .test_run(ProgramInput::default())
            .map_err(Error::attach("prepare"))?;
        let state = Shared::map(&handle(&object, ".bss")?, "state", 1)?;
        crate::targets::set_names(&handle(&object, "names")?, &options.names)?;
        let counter = Self { links: Vec::new(), points: Vec::new(), state, options, cpus, object };
        counter.set_calls()?;
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

    /// Has a counter of perf_event_open read, by its index among them, that is open on a CPU for all that runs there.
    ///
    /// # Errors
    ///
    /// If the kernel does not give its value to programs.
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

    /// Counts this process, too, from when it executes a program.
    pub fn expect_command(&mut self, pid: i32) {
        self.state.write_field(std::mem::offset_of!(State, command), pid.cast_unsigned());
    }

    /// Attaches the programs, which count nothing yet, but follow what the named threads start. Returns the events that
    /// cannot be counted so.
    ///
    /// # Errors
    ///
    /// If a program cannot be attached.
    pub fn attach(&mut self) -> Result<Vec<usize>, Error> {
        let EventOptions { members, counters, events, key, .. } = &self.options;
        let has = |is_it: &dyn Fn(&CountedEvent) -> bool| events.iter().any(is_it);
        let follows = *members || !counters.is_empty();
        let before = [
            (*members, "on_new_task"),
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
        // Behind those that count the end of a thread.
        if follows {
            const NAME: &str = "on_end";
            let link = program(&self.object, NAME)?.attach().map_err(Error::attach(NAME))?;
            self.links.push(link);
        }
        Ok(refused)
    }

    /// Counts threads that run, too, each with the index by which [`CountKey::Root`] keeps it apart. Those that were
    /// followed already stay what they are.
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
        // It writes nothing: reading it makes it run.
        let read = io::copy(&mut all, &mut io::sink());
        read.map_err(|error| Error::Attach { program: NAME, reason: Reason::of(&error) })?;
        Ok(())
    }

    /// Begins to count.
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

    /// Has what counters have counted until now added to whom it belongs: to what runs at the time, on each CPU.
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

    /// The counts until now.
    ///
    /// # Errors
    ///
    /// If the kernel's tables cannot be read.
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
        for event in 0..self.options.events.len() {
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

    fn owners(&self) -> Result<Vec<(u64, Owner)>, Error> {
        let rows = all_rows(&handle(&self.object, "owners")?, "owners")?;
        let owner = |(key, owner): RowBytes| {
            (bytemuck::pod_read_unaligned(&key), bytemuck::pod_read_unaligned(&owner))
        };
        Ok(rows.into_iter().map(owner).collect())
    }

    /// The name of the thread or process of each key, as it was last.
    ///
    /// # Errors
    ///
    /// If the kernel's tables cannot be read.
    pub fn names(&self) -> Result<HashMap<u64, Vec<u8>>, Error> {
        let name = |comm: [u8; 16]| comm.split(|byte| *byte == 0).next().unwrap_or(&[]).to_vec();
        Ok(self.owners()?.into_iter().map(|(key, owner)| (key, name(owner.comm))).collect())
    }

    /// How often there was no room for a count, or for a thread.
    pub fn lost(&self) -> u64 {
        self.state.read(0).lost
    }

    /// For each event, how often it happened, whoever did it, while the program that counts it was at work on the same CPU,
    /// so that it could not be counted.
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
        ("on_named", !options.members),
        ("on_new_task", !options.members),
    ]
    .into_iter()
    .filter_map(|(name, is_unused)| is_unused.then_some(name))
    .collect();
    let keyed = !matches!(options.key, CountKey::None | CountKey::Cpu);
    let (events, counters) = (options.events.len(), options.counters.len());
    with_types(&PROGRAMS, "types of counters", options.cache.as_deref(), |mut open, as_needed| {
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            let entries = match &*name {
                "counts" if !keyed => Some(events),
                "rows" if !keyed => Some(1),
                "targets" if !options.members => Some(1),
                "counters" => Some(counters * cpus as usize),
                _ => None,
            };
            if let Some(entries) = entries {
                let entries = u32::try_from(entries.max(1)).unwrap_or(u32::MAX);
                map.set_max_entries(entries).map_err(Error::load)?;
            }
            if as_needed && matches!(&*name, "rows" | "owners" | "targets") {
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
        group: options.group.unwrap_or(0),
        // Members take the place of this.
        filter: 0,
        inherit: options.inherit.into(),
        names: (!options.names.is_empty()).into(),
        members: options.members.into(),
        key: options.key as u32,
        values: u32::try_from(options.counters.len()).unwrap_or(u32::MAX),
        clocks: clocks.fold(0, |all, (index, _): (u32, _)| all | 1 << (index & 31)),
        cpus,
    }
}
