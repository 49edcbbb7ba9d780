//! Traced events that wait for the symbols of their places and stacks. Processes are followed by the kernel's records,
//! and each stack is unwound with the mappings of its time.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyrograph_event::Layout;
use pyrograph_event::traced::{Action, Stack, ThreadStack, Traced};
use pyrograph_profile::{FrameKind, StackLine, ThreadAction, ThreadEvent};
use pyrograph_record::{
    Event, Next, Options, Rate, Recording, Session, StackMode, Target, monotonic_now,
};
use pyrograph_resolve::{
    CopiedStack, LiveFiles, Resolver, SampleStacks, SingleStacks, UnreadCode, UserPart,
};

use super::lines::Lines;
use super::mappings::Mappings;
use crate::error::Error;
use crate::scope::Scope;
use crate::targets::Targets;

/// Maximum size of copied stacks that wait to be unwound, in bytes. Beyond it, the oldest are unwound without waiting
/// for records.
const MOST_WAITING: usize = 256 << 20;

/// Maximum age of records of processes in the ring buffers.
const PATIENCE: Duration = Duration::from_millis(100);

/// Maximum delay in ns of a mapping record after a stack that was copied later. Records wait in the ring buffers for at
/// most [`PATIENCE`], and as long again until the records of all CPUs are in order.
const RECORDS_ARE_LATE_BY_NS: u64 = 300_000_000;

/// A traced event whose stack or place in code needs symbols.
pub trait Placed {
    /// IDs of the process and the thread.
    fn thread(&self) -> (i32, i32);

    /// Sets the stack, innermost frame first.
    fn set_stack(&mut self, stack: Vec<Arc<StackLine>>);

    /// Sets the name of the place in code.
    fn set_place(&mut self, _: String) {}

    /// Sets the description of the accessed address, by calling `describe` if no better description is known.
    fn set_target(&mut self, _: &mut dyn FnMut() -> String) {}
}

impl Placed for ThreadEvent {
    fn thread(&self) -> (i32, i32) {
        (self.process, self.thread)
    }

    fn set_stack(&mut self, stack: Vec<Arc<StackLine>>) {
        self.stack = stack;
    }

    fn set_place(&mut self, name: String) {
        if let ThreadAction::Fault { place, .. } = &mut self.action {
            *place = name;
        }
    }

    fn set_target(&mut self, describe: &mut dyn FnMut() -> String) {
        if let ThreadAction::Fault { target, .. } = &mut self.action
            && target.is_empty()
        {
            *target = describe();
        }
    }
}

/// Time, stack and place of a traced event.
pub struct Moment<'a> {
    /// Time in nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    pub stack: Stack<'a>,
    /// Address of an instruction, and the address that it accessed.
    pub place: Option<(u64, u64)>,
}

impl<'a> Moment<'a> {
    pub fn of(traced: &Traced<'a>) -> Self {
        let place = match traced.action {
            Action::Fault { ip, address, .. } => Some((ip, address)),
            _ => None,
        };
        Self { time: traced.time, stack: traced.stack, place }
    }
}

/// Traced events that wait for symbols.
pub struct Moments<T> {
    recording: Recording,
    layout: Layout,
    resolver: Resolver<LiveFiles>,
    mappings: Mappings,
    targets: Targets,
    /// Records that are newer than the events that were added until now.
    records: VecDeque<(u64, Vec<u8>)>,
    waiting: VecDeque<Waiting<T>>,
    /// Number of these that are unwound.
    unwound: usize,
    bytes: usize,
    singles: SingleStacks,
}

/// A traced event that waits.
struct Waiting<T> {
    event: T,
    /// Time at which its stack or place is looked up.
    time: u64,
    stack: Waits,
    /// Address of an instruction, and the address that it accessed.
    place: Option<(u64, u64)>,
    /// Indexes of its stack and place among those that wait for symbols.
    found: (Option<usize>, Option<usize>),
}

/// States of a stack that waits to be unwound.
enum Waits {
    None,
    Lost,
    /// A copied stack, and the part of it above the copy, read from the process.
    Copied(Box<ThreadStack>, Vec<u8>),
}

impl<T> Waiting<T> {
    fn bytes(&self) -> usize {
        match &self.stack {
            Waits::Copied(stack, rest) => {
                let root = stack.root.as_ref().map_or(0, |(_, bytes)| bytes.len());
                size_of::<Self>() + size_of::<ThreadStack>() + stack.bytes.len() + rest.len() + root
            }
            _ => size_of::<Self>(),
        }
    }
}

impl<T: Placed> Moments<T> {
    /// Starts to follow processes, and their mappings of code. `command` is the process of the command that is the target.
    /// With `data`, mappings of data are followed, too.
    pub fn open(scope: &Scope, command: Option<i32>, data: bool) -> Result<Self, Error> {
        let event = Event::parse("dummy")?;
        let session = Session::open(&Options {
            rate: Some(Rate::default_for(&Target::System, &event)),
            event: Some(event),
            stack: StackMode::None,
            patience: PATIENCE,
            data_mappings: data,
            inherit: scope.inherit,
            initial: scope.target.processes(),
            ..Options::new(Target::System)
        })?;
        let pids = scope.target.family(scope.inherit);
        let pids = pids.map(|pids| pids.into_iter().chain(command).collect());
        let layout = session.layout();
        let mut resolver = Resolver::new(LiveFiles, options(scope.cache.clone()));
        resolver.expect_file("[vdso]");
        Ok(Self {
            recording: session.start()?,
            layout,
            resolver,
            mappings: Mappings::default(),
            targets: Targets { pids, inherit: scope.inherit },
            records: VecDeque::new(),
            waiting: VecDeque::new(),
            unwound: 0,
            bytes: 0,
            singles: SingleStacks::default(),
        })
    }

    /// Adds a traced event.
    pub fn add(&mut self, event: T, moment: &Moment<'_>) {
        let mut time = moment.time;
        let stack = match moment.stack {
            Stack::NotTaken => Waits::None,
            Stack::Lost => Waits::Lost,
            Stack::Taken(stack) => {
                time = stack.time;
                let rest = match stack.compat || stack.bytes.is_empty() {
                    true => Vec::new(),
                    false => {
                        let copied = copied(event.thread(), stack, &[]);
                        self.resolver.read_missing(&copied, UnreadCode::Read).0
                    }
                };
                Waits::Copied(Box::new(stack.clone()), rest)
            }
        };
        let waiting = Waiting { event, time, stack, place: moment.place, found: (None, None) };
        self.bytes += waiting.bytes();
        self.waiting.push_back(waiting);
        while self.bytes > MOST_WAITING && self.unwound < self.waiting.len() {
            self.unwind_next();
        }
    }

    /// Takes records of processes, unwinds the stacks from before them, and passes the events with symbols to `out`.
    /// `until`: all events before this time have been added; `None` if no more events follow.
    pub fn hand_out<E: From<Error>>(
        &mut self,
        until: Option<u64>,
        out: &mut dyn FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        self.take_records(until.is_none());
        let newest = self.waiting.back().map_or(0, |waiting| waiting.time);
        let until = until.map(|until| until.max(newest));
        while let Some((time, bytes)) =
            self.records.pop_front_if(|(time, _)| until.is_none_or(|until| *time <= until))
        {
            self.unwind_until(time);
            self.record(&bytes);
        }
        let settled = until.map_or(u64::MAX, |until| {
            until.min(monotonic_now()).saturating_sub(RECORDS_ARE_LATE_BY_NS)
        });
        self.unwind_until(settled);
        self.name(out)
    }

    /// Number of lost records of processes.
    pub fn lost_records(&self) -> u64 {
        self.recording.lost()
    }

    fn take_records(&mut self, is_last: bool) {
        if is_last {
            self.recording.stopper().stop();
        }
        let timeout = if is_last { PATIENCE } else { Duration::ZERO };
        loop {
            match self.recording.next(timeout) {
                Next::Waiting if is_last => {}
                Next::Waiting | Next::End => return,
                Next::Batch(batch) => {
                    for bytes in batch.iter() {
                        let time = self.layout.time(bytes).unwrap_or(0);
                        self.records.push_back((time, bytes.to_vec()));
                    }
                }
            }
        }
    }

    fn record(&mut self, bytes: &[u8]) {
        let Ok(record) = self.layout.decode(bytes) else { return };
        if self.targets.follow(&record) {
            self.resolver.record(&record);
            self.mappings.record(&record);
        }
    }

    fn unwind_until(&mut self, time: u64) {
        while self.waiting.get(self.unwound).is_some_and(|waiting| waiting.time < time) {
            self.unwind_next();
        }
    }

    fn unwind_next(&mut self) {
        let Some(waiting) = self.waiting.get_mut(self.unwound) else { return };
        self.unwound += 1;
        self.bytes = self.bytes.saturating_sub(waiting.bytes());
        let (resolver, singles) = (&mut self.resolver, &mut self.singles);
        let thread = waiting.event.thread();
        let moment = (thread.0, waiting.time);
        if let Waits::Copied(stack, rest) = std::mem::replace(&mut waiting.stack, Waits::None) {
            let copied = copied(thread, &stack, rest.as_slice());
            let user = match &*stack {
                _ if stack.registers[16] == 0 => UserPart::None,
                ThreadStack { compat: true, .. } => UserPart::Compat,
                _ => UserPart::Copied(&copied),
            };
            waiting.found.0 = Some(resolver.add_single(moment, &stack.kernel, user, singles));
        } else if let Waits::Lost = waiting.stack {
            waiting.event.set_stack(vec![Arc::new(lost())]);
        }
        if let Some((ip, address)) = waiting.place {
            waiting.found.1 = Some(resolver.add_place(moment, ip, singles));
            let mappings = &mut self.mappings;
            waiting.event.set_target(&mut || mappings.describe(thread.0, address));
        }
    }

    /// Symbolizes the stacks that were unwound, and passes their events to `out`.
    fn name<E: From<Error>>(&mut self, out: &mut dyn FnMut(T) -> Result<(), E>) -> Result<(), E> {
        let named: Option<SampleStacks> =
            (!self.singles.is_empty()).then(|| self.resolver.name_singles(&mut self.singles));
        let mut lines = named.as_ref().map(|named| Lines::new(&named.locations));
        for mut waiting in self.waiting.drain(..std::mem::take(&mut self.unwound)) {
            if let (Some(named), Some(lines)) = (&named, &mut lines) {
                let (stack, place) = waiting.found;
                if let Some(stack) = stack {
                    let stack = named.of(stack).flat_map(|place| lines.of(place).to_vec());
                    waiting.event.set_stack(stack.collect());
                }
                if let Some(number) = place
                    && let Some(line) = named.of(number).next().map(|at| lines.outermost(at))
                {
                    waiting.event.set_place(line);
                }
            }
            out(waiting.event)?;
        }
        Ok(())
    }
}

fn copied<'a>((pid, tid): (i32, i32), stack: &'a ThreadStack, rest: &'a [u8]) -> CopiedStack<'a> {
    CopiedStack {
        pid,
        tid,
        registers: &stack.registers,
        bytes: &stack.bytes,
        root: stack.root.as_ref().map(|(address, bytes)| (*address, bytes.as_slice())),
        missing: stack.missing,
        rest,
    }
}

fn lost() -> StackLine {
    StackLine {
        function: "[stack lost: there was no room for it; --buffer gives more]".to_owned(),
        kind: FrameKind::Marker(pyrograph_profile::Marker::Remark),
        ..StackLine::default()
    }
}

fn options(cache: Option<PathBuf>) -> pyrograph_resolve::Options {
    pyrograph_resolve::Options {
        value_type: pyrograph_profile::ValueType::samples(),
        count_samples: true,
        number_of: None,
        keep_times: true,
        instructions: false,
        stack_memory: None,
        monotonic_time: true,
        threads: pyrograph_profile::ThreadDetail::Name,
        root_is_field: false,
        user_only: false,
        unknown_addresses: true,
        guessing: true,
        languages: Vec::new(),
        arch: pyrograph_resolve::NATIVE,
        symbols: pyrograph_resolve::SymbolOptions {
            cache,
            ..pyrograph_resolve::SymbolOptions::default()
        },
    }
}
