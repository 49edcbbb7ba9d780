//! Tracing of system calls: each call with the data that its arguments point to, or counts of calls.

mod events;
mod layout;
mod stacks;

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Duration;

use libbpf_rs::{Iter, Link, MapCore, MapFlags, MapHandle, Object, RingBuffer, libbpf_sys};
use pyrograph_event::clock::monotonic_now;
use pyrograph_event::traced::{
    Action, Call, CallCount, CallEnd, EventSource, LostCalls, Stack, Traced,
};
use pyrograph_event::values::EventValues;
use pyrograph_syscall::{Copied, Extent, When, compat_alike};

pub use self::layout::STACKS_A_CPU;
use self::layout::{Config, ErrorKey, Plan, Record, Row, RowKey, State};
pub use self::stacks::Stacks;
use crate::error::{Error, Reason};
use crate::features;
use crate::load::with_types;
use crate::object::{Packed, handle, program, ring};
use crate::prepare::prepare;
use crate::rows::take_rows;
use crate::scope::Scope;
use crate::shared::Shared;
use crate::values;

pub(crate) static PROGRAMS: Packed = Packed(include_bytes!("programs/trace.bpf.o.gz"));

/// Options of a [`CallTracer`].
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    /// Tasks to trace. Targets are named by [`CallTracer::add_target`] and [`CallTracer::expect_command`].
    pub scope: Scope,
    /// Numbers of the calls to trace; `None` for all, including those of 32-bit programs.
    pub calls: Option<Vec<u32>>,
    /// Numbers of calls that are reported in any case if they succeed.
    pub followed: Vec<u32>,
    /// Report only calls that fail.
    pub failed: bool,
    /// Report only calls that take at least this long.
    pub slower: Duration,
    /// Trace only these calls, by number, each with its filter. `None` for all.
    pub filters: Option<Vec<(u32, EventValues)>>,
    /// Count calls instead of reporting them.
    pub counts: bool,
    /// Events that are reported in addition to calls.
    pub events: Vec<EventSource>,
    /// Page faults to report: major ones, which read a page, and others.
    pub faults: (bool, bool),
    /// Report the stack, too.
    pub stacks: bool,
    /// Limit to the copied part of a text, in bytes.
    pub text: u32,
    /// Size of the ring buffer, in bytes; rounded up to a power of two.
    pub memory: u32,
}

/// BPF programs that trace system calls. They are unloaded when this is dropped, or when the process ends in any way.
pub struct CallTracer {
    // Fields are dropped in this order: first, no program runs any more.
    links: Vec<Link>,
    ring: RingBuffer<'static>,
    batch: Rc<RefCell<Vec<u8>>>,
    rows: [MapHandle; 2],
    errors: [MapHandle; 2],
    targets: MapHandle,
    state: Shared<State>,
    options: CallOptions,
    stacks: Stacks,
    /// Value of [`Self::missed`] when tracing ended.
    missed: u64,
    object: Object,
}

impl CallOptions {
    /// Names of the programs that are needed, in the order in which they are attached.
    fn programs(&self) -> impl Iterator<Item = &'static str> {
        let follows = self.scope.follows_forks();
        let calls = self.calls.as_ref().is_none_or(|calls| !calls.is_empty());
        let lines = calls && !self.counts;
        let all = [
            (follows, "on_fork"),
            (true, "on_exec"),
            (lines, "on_signal"),
            (lines, "on_exit"),
            (lines, "on_child"),
            (self.counts, "on_counted_return"),
            (self.counts, "on_counted_call"),
            (lines, "on_return"),
            (lines, "on_call"),
        ];
        all.into_iter().filter(|(is_needed, _)| *is_needed).map(|(_, name)| name)
    }

    /// Returns true if a program is to be loaded.
    fn loads(&self, program: &str) -> bool {
        match program {
            "prepare" => true,
            "on_unfinished" => !self.counts,
            "on_event" => self.events.iter().any(events::is_tracepoint),
            "on_called" => self.events.iter().any(|event| event.values.need_call()),
            "on_probe" => !self.events.iter().all(events::is_tracepoint),
            "on_major_fault" => self.faults.0,
            "on_minor_fault" => self.faults.1,
            _ => self.programs().any(|name| name == program),
        }
    }
}

impl CallTracer {
    /// Loads the programs.
    ///
    /// # Errors
    ///
    /// If the user lacks permission, or the kernel lacks a feature.
    pub fn load(options: &CallOptions) -> Result<Self, Error> {
        let (object, state) = prepare(&options.scope, || load(options))?;
        let batch = Rc::new(RefCell::new(Vec::new()));
        let records = Rc::clone(&batch);
        let ring = ring(&object, "records", move |bytes| {
            records.borrow_mut().extend_from_slice(bytes);
        })?;
        let tracer = Self {
            links: Vec::new(),
            ring,
            batch,
            rows: [handle(&object, "rows_0")?, handle(&object, "rows_1")?],
            errors: [handle(&object, "errors_0")?, handle(&object, "errors_1")?],
            targets: handle(&object, "targets")?,
            state,
            options: options.clone(),
            stacks: Stacks::default(),
            missed: 0,
            object,
        };
        if !options.counts {
            tracer.set_plans()?;
        }
        events::set_plans(&tracer.object, options)?;
        Ok(tracer)
    }

    /// Tells the programs which data the arguments of each call point to, so that they copy it.
    fn set_plans(&self) -> Result<(), Error> {
        let plans = handle(&self.object, "plans")?;
        let set = |row: u32, copies: &[Option<pyrograph_syscall::Copy>]| {
            let mut plan = Plan::default();
            for (to, copy) in plan.copies.iter_mut().zip(copies) {
                // An argument number that no call has: nothing is copied.
                *to = copy
                    .map_or(layout::Copy { argument: u8::MAX, ..layout::Copy::default() }, planned);
                plan.count += 1;
            }
            if copies.iter().all(Option::is_none) {
                return Ok(());
            }
            plans
                .update(&row.to_ne_bytes(), bytemuck::bytes_of(&plan), MapFlags::ANY)
                .map_err(Error::map("plans"))
        };
        for (number, call) in pyrograph_syscall::all() {
            if number < layout::MAX_CALLS {
                set(number, &call.copies().into_iter().map(Some).collect::<Vec<_>>())?;
            }
        }
        for number in 0..layout::MAX_CALLS {
            let alike = compat_alike(number).and_then(pyrograph_syscall::by_number);
            if let Some(call) = alike {
                set(layout::MAX_CALLS + number, &call.compat_copies())?;
            }
        }
        Ok(())
    }

    /// Traces a process that already runs.
    ///
    /// # Errors
    ///
    /// If there is no room for it.
    pub fn add_target(&self, pid: i32) -> Result<(), Error> {
        let one = 1u32.to_ne_bytes();
        self.targets.update(&pid.to_ne_bytes(), &one, MapFlags::ANY).map_err(Error::map("targets"))
    }

    /// Traces a process from the call with which it executes a program.
    pub fn expect_command(&mut self, pid: i32) {
        self.state.write_field(std::mem::offset_of!(State, command), pid.cast_unsigned());
    }

    /// Attaches the programs, and starts tracing.
    ///
    /// # Errors
    ///
    /// If a program cannot be attached.
    pub fn start(&mut self) -> Result<(), Error> {
        for name in self.options.programs() {
            let link = program(&self.object, name)?.attach().map_err(Error::attach(name))?;
            self.links.push(link);
        }
        self.links.extend(events::attach(&self.object, &self.options.events)?);
        self.state.write_field(std::mem::offset_of!(State, on), 1u32);
        Ok(())
    }

    /// Returns a function that ends tracing at once, on any thread, even if the thread that takes calls is busy. That
    /// thread must still call [`Self::stop`].
    pub fn end_of_calls(&self) -> impl FnOnce() + Send + 'static {
        let mut state = self.state.clone();
        move || state.write_field(std::mem::offset_of!(State, on), 0u32)
    }

    /// Ends tracing. After that, [`Self::take`] also reports calls that have not returned.
    ///
    /// # Errors
    ///
    /// If the kernel cannot list its threads.
    pub fn stop(&mut self) -> Result<(), Error> {
        const NAME: &str = "on_unfinished";
        self.state.write_field(std::mem::offset_of!(State, on), 0u32);
        self.missed = self.missed();
        self.links.clear();
        if self.options.counts {
            return Ok(());
        }
        let link = program(&self.object, NAME)?.attach().map_err(Error::attach(NAME))?;
        let mut threads = Iter::new(&link).map_err(Error::attach(NAME))?;
        // The program writes nothing: reading from the iterator runs it.
        let read = io::copy(&mut threads, &mut io::sink());
        read.map_err(|error| Error::Attach { program: NAME, reason: Reason::of(&error) })?;
        Ok(())
    }

    /// Returns true if calls are counted instead of reported.
    pub fn counts(&self) -> bool {
        self.options.counts
    }

    /// Descriptor that is readable when many calls are waiting. They should be taken now and then in any case.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the buffer owns the descriptor, and outlives the returned borrow.
        unsafe { BorrowedFd::borrow_raw(self.ring.epoll_fd()) }
    }

    /// Reports the events since the last call, at most some thousand records: calls come in the order in which they
    /// returned. Returns false if there was nothing.
    ///
    /// # Errors
    ///
    /// If the ring buffer cannot be read.
    pub fn take(&mut self, out: &mut dyn FnMut(&Traced<'_>)) -> Result<bool, Error> {
        // Records with stacks are large.
        let most = if self.options.stacks { 256 } else { 8192 };
        let taken = self.ring.consume_raw_n(most);
        if taken < 0 {
            let error = io::Error::from_raw_os_error(-taken);
            return Err(Error::Map { map: "records", reason: Reason::of(&error) });
        }
        let mut batch = self.batch.take();
        let mut rest = &batch[..];
        while let Some((record, behind)) = rest.split_at_checked(size_of::<Record>()) {
            let record: Record = bytemuck::pod_read_unaligned(record);
            let used = usize::try_from(record.used).unwrap_or(0).min(behind.len());
            let (copies, next) = behind.split_at(used);
            rest = next;
            match record.kind {
                layout::RECORD_STACK => self.stacks.add(&record, copies),
                _ => {
                    let stack = self.stacks.take(&record);
                    hand_out(&record, copies, stacks::state(&record, stack.as_ref()), out);
                }
            }
        }
        batch.clear();
        *self.batch.borrow_mut() = batch;
        Ok(taken > 0)
    }

    /// Takes the counts up to the previous call. At the end, after [`Self::stop`], call it twice.
    ///
    /// # Errors
    ///
    /// If the maps cannot be read.
    pub fn take_counts(&mut self, out: &mut dyn FnMut(CallCount)) -> Result<(), Error> {
        let side = self.state.read(0).side & 1;
        let idle = 1 - side as usize;
        let mut errors: HashMap<(i32, u32), Vec<(i32, u64)>> = HashMap::new();
        for (key, count) in take_rows(&self.errors[idle], "errors")? {
            let key: ErrorKey = bytemuck::pod_read_unaligned(&key);
            let count: u64 = bytemuck::pod_read_unaligned(&count);
            errors.entry((key.pid, key.number)).or_default().push((key.error, count));
        }
        for (key, row) in take_rows(&self.rows[idle], "rows")? {
            let RowKey { pid, number } = bytemuck::pod_read_unaligned(&key);
            let row: Row = bytemuck::pod_read_unaligned(&row);
            let mut errors = errors.remove(&(pid, number)).unwrap_or_default();
            errors.sort_unstable();
            out(CallCount {
                process: row.tgid,
                thread: pid,
                name: name_of(&row.comm).to_vec(),
                group: row.group,
                number,
                compat: row.compat != 0,
                calls: row.calls,
                errors,
                total: row.total,
                least: row.least,
                longest: row.longest,
                latencies: row.buckets.to_vec(),
            });
        }
        self.state.write_field(std::mem::offset_of!(State, side), 1 - side);
        Ok(())
    }

    /// Numbers of calls that could not be reported or counted so far.
    pub fn lost(&self) -> LostCalls {
        let state = self.state.read(0);
        let (counts, memory) = (state.lost_rows, state.lost_threads);
        let nested = if self.links.is_empty() { self.missed } else { self.missed() };
        LostCalls { calls: state.lost, counts, memory, nested, unread: state.unread }
    }

    /// Traces page faults. `events` are perf events for faults of one kind, one for each CPU.
    ///
    /// # Errors
    ///
    /// If the program cannot be attached.
    pub fn trace_faults<'a>(
        &mut self,
        major: bool,
        events: impl Iterator<Item = BorrowedFd<'a>>,
    ) -> Result<(), Error> {
        self.links.extend(events::attach_faults(&self.object, major, events)?);
        Ok(())
    }

    /// Number of events that the kernel did not pass to the programs, because one of them was running.
    fn missed(&self) -> u64 {
        events::missed(&self.object, &self.options)
    }

    /// Current time as the programs record it: nanoseconds of `CLOCK_MONOTONIC`.
    pub fn now() -> u64 {
        monotonic_now()
    }
}

fn load(options: &CallOptions) -> Result<Object, Error> {
    let as_needed = features::has_map_memory();
    with_types(&PROGRAMS, "types of calls", options.scope.cache.as_deref(), |mut open, _| {
        for mut program in open.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            program.set_autoload(options.loads(&name));
        }
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            match &*name {
                "records" => {
                    let bytes = if options.counts { 4096 } else { options.memory };
                    let bytes = bytes.clamp(4096, 1 << 30).next_power_of_two();
                    map.set_max_entries(bytes).map_err(Error::load)?;
                }
                "event_plans" => {
                    let rows = u32::try_from(options.events.len()).unwrap_or(u32::MAX).max(1);
                    map.set_max_entries(rows).map_err(Error::load)?;
                }
                "probe_plans" => {
                    map.set_max_entries(values::rows(events::plans(options).0))
                        .map_err(Error::load)?;
                }
                "called" if !options.loads("on_called") => {
                    map.set_max_entries(1).map_err(Error::load)?;
                }
                "patterns" => {
                    map.set_max_entries(values::rows(events::plans(options).1))
                        .map_err(Error::load)?;
                }
                "stacks" if options.stacks => {
                    let cpus = libbpf_rs::num_possible_cpus().map_err(Error::load)?;
                    let rows = u32::try_from(cpus).unwrap_or(u32::MAX);
                    let rows = rows.saturating_mul(STACKS_A_CPU);
                    map.set_max_entries(rows).map_err(Error::load)?;
                }
                "rows_0" | "rows_1" | "errors_0" | "errors_1" if !options.counts => {
                    map.set_max_entries(1).map_err(Error::load)?;
                }
                "rows_0" | "rows_1" | "errors_0" | "errors_1" | "targets" if as_needed => {
                    map.set_map_flags(libbpf_sys::BPF_F_NO_PREALLOC).map_err(Error::load)?;
                }
                name if name.ends_with(".rodata") => {
                    let config = config(options);
                    map.set_initial_value(bytemuck::bytes_of(&config)).map_err(Error::load)?;
                }
                _ => {}
            }
        }
        open.load().map_err(Error::load)
    })
}

/// Bit set of numbers.
fn bits(numbers: &[u32]) -> [u64; 8] {
    let mut bits = [0; 8];
    for number in numbers.iter().filter(|number| **number < layout::MAX_CALLS) {
        bits[(number / 64) as usize] |= 1 << (number % 64);
    }
    bits
}

fn config(options: &CallOptions) -> Config {
    let followed = bits(&options.followed);
    let calls = options.calls.as_deref().map_or([u64::MAX; 8], bits);
    Config {
        calls: std::array::from_fn(|index| calls[index] | followed[index]),
        followed,
        shown: calls,
        slower: u64::try_from(options.slower.as_nanos()).unwrap_or(u64::MAX),
        group: options.scope.group.unwrap_or(0),
        filter: options.scope.only_targets.into(),
        inherit: options.scope.inherit.into(),
        names: (!options.scope.names.is_empty()).into(),
        failed: options.failed.into(),
        filtered: options.filters.is_some().into(),
        most: options.text,
        wake: options.memory / 4,
        compat: options.calls.as_ref().is_none_or(|calls| !calls.is_empty()).into(),
        stacks: options.stacks.into(),
        pad: 0,
    }
}

fn planned(copy: pyrograph_syscall::Copy) -> layout::Copy {
    let (extent, other, size, filled) = match copy.extent {
        Extent::Text => (layout::EXTENT_TEXT, 0, 0, false),
        Extent::Fixed(size) => (layout::EXTENT_FIXED, 0, size, false),
        Extent::UpTo(size) => (layout::EXTENT_UP_TO, 0, size, false),
        Extent::Argument { argument, times } => (layout::EXTENT_ARGUMENT, argument, times, false),
        Extent::Result { times } => (layout::EXTENT_RESULT, 0, times, false),
        Extent::Pointed { argument } => (layout::EXTENT_POINTED, argument, 1, false),
        Extent::Strings => (layout::EXTENT_STRINGS, 0, 0, false),
        Extent::Vector { argument, filled } => (layout::EXTENT_VECTOR, argument, 0, filled),
        // Words up to the first 0, which user space finds.
        Extent::Pointers => (layout::EXTENT_UP_TO, 0, 1024, false),
        Extent::Message => (layout::EXTENT_MESSAGE, 0, 0, false),
        Extent::Messages { .. } => (layout::EXTENT_MESSAGE, 0, 0, false),
    };
    layout::Copy {
        argument: copy.argument,
        at_exit: (copy.when == When::Exit).into(),
        extent,
        other,
        text: copy.text.into(),
        filled: filled.into(),
        pad: 0,
        size,
    }
}

fn name_of(comm: &[u8; 16]) -> &[u8] {
    let end = comm.iter().position(|byte| *byte == 0).unwrap_or(comm.len());
    &comm[..end]
}

fn hand_out(
    record: &Record,
    mut copies: &[u8],
    stack: Stack<'_>,
    out: &mut dyn FnMut(&Traced<'_>),
) {
    let data = copies;
    let mut copied = [const { Copied { copy: 0, bytes: &[], length: 0 } }; layout::MAX_COPIES];
    let mut count = 0;
    while let Some((header, behind)) = copies.split_at_checked(size_of::<layout::Copied>())
        && count < copied.len()
    {
        let header: layout::Copied = bytemuck::pod_read_unaligned(header);
        let len = usize::from(header.bytes);
        let Some(bytes) = behind.get(..len) else { break };
        let length = header.length.into();
        copied[count] = Copied { copy: header.copy.into(), bytes, length };
        count += 1;
        copies = behind.get(len.next_multiple_of(8)..).unwrap_or_default();
    }
    let end = match record.kind {
        layout::RECORD_LAST_CALL => CallEnd::Never,
        layout::RECORD_UNFINISHED => CallEnd::Unfinished { after: record.duration },
        layout::RECORD_RETURN => CallEnd::Late { result: record.result },
        _ => CallEnd::Returned { result: record.result, duration: record.duration },
    };
    let number = usize::try_from(record.number).unwrap_or(usize::MAX);
    let action = match record.kind {
        layout::RECORD_SIGNAL => {
            let [first, second, ..] = record.arguments;
            let (number, code) = (record.number.cast_signed(), record.result as i32);
            Action::Signal { number, code, fields: [first, second] }
        }
        layout::RECORD_FORK => Action::Fork { child: record.result as i32 },
        layout::RECORD_EXIT => Action::Exit { status: record.result as i32 },
        layout::RECORD_EVENT if data.is_empty() => {
            Action::Event { number, data: bytemuck::bytes_of(&record.result) }
        }
        layout::RECORD_EVENT => Action::Event { number, data },
        layout::RECORD_FAULT => {
            let [ip, address, heap, ..] = record.arguments;
            Action::Fault { major: record.number == 1, ip, address, heap: heap != 0 }
        }
        _ => Action::Call(Call {
            number: record.number,
            compat: record.compat != 0,
            is_wanted: record.only_followed == 0,
            arguments: record.arguments,
            copied: &copied[..count],
            end,
        }),
    };
    out(&Traced {
        time: record.time,
        process: record.tgid,
        thread: record.pid,
        name: name_of(&record.comm),
        action,
        stack,
    });
}
