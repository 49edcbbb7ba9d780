//! Traced events, until the places and stacks that belong to them have names: processes are followed as the kernel's records
//! have them, and each stack is unwound with the mappings of its moment.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use pyrograph_event::Layout;
use pyrograph_event::traced::{Action, Stack, ThreadStack, Traced};
use pyrograph_profile::{FrameKind, StackLine, ThreadAction, ThreadEvent};
use pyrograph_record::{
    Event, Next, Options, Rate, Recording, Session, StackMode, Target, monotonic_now,
};
use pyrograph_resolve::{CopiedStack, LiveFiles, Resolver, SampleStacks, SingleStacks, UserPart};

use super::TracePlan;
use super::lines::Lines;
use super::mappings::Mappings;
use crate::error::Error;
use crate::targets::Targets;

/// Bytes of copies that wait to be unwound; then the oldest are, whatever records may still come.
const MOST_WAITING: usize = 256 << 20;

/// How old records of processes may get.
const PATIENCE: Duration = Duration::from_millis(100);

/// How long after a stack was copied a record of a mapping before it may still come: records wait in their buffers for
/// [`PATIENCE`] at most, and once more until all CPUs' are in order.
const RECORDS_ARE_LATE_BY_NS: u64 = 300_000_000;

/// Traced events that wait for names.
pub struct Moments {
    recording: Recording,
    layout: Layout,
    resolver: Resolver<LiveFiles>,
    mappings: Mappings,
    targets: Targets,
    /// Records that are newer than what was traced until now.
    records: VecDeque<(u64, Vec<u8>)>,
    waiting: VecDeque<Waiting>,
    /// How many of these are unwound.
    unwound: usize,
    bytes: usize,
    singles: SingleStacks,
}

/// Something that was traced.
struct Waiting {
    event: ThreadEvent,
    /// When its stack or place is to be looked up.
    time: u64,
    stack: Waits,
    /// The address of an instruction, and one that it accessed.
    place: Option<(u64, u64)>,
    /// The numbers of stack and place among those that wait for names.
    found: (Option<usize>, Option<usize>),
}

/// A stack that waits to be unwound.
enum Waits {
    None,
    Lost,
    /// With the part of it above the copy, as it was read.
    Copied(Box<ThreadStack>, Vec<u8>),
}

impl Waiting {
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

impl Moments {
    /// Begins to follow processes; `command` is the one that is the target.
    pub fn open(plan: &TracePlan, command: Option<i32>) -> Result<Self, Error> {
        let event = Event::parse("dummy")?;
        let session = Session::open(&Options {
            rate: Some(Rate::default_for(&Target::System, &event)),
            event: Some(event),
            stack: StackMode::None,
            patience: PATIENCE,
            data_mappings: plan.faults.any(),
            inherit: plan.inherit,
            initial: match &plan.target {
                Target::Processes(pids) => Some(pids.clone()),
                Target::Command(_) => Some(Vec::new()),
                Target::System => None,
            },
            ..Options::new(Target::System)
        })?;
        let pids = match &plan.target {
            Target::Processes(pids) => Some(pids.clone()),
            Target::Command(_) => Some(command.into_iter().collect()),
            Target::System => None,
        };
        let pids = pids.map(|mut pids| {
            if plan.inherit {
                pids.extend(pyrograph_record::descendants(&pids));
            }
            pids.into_iter().collect()
        });
        let layout = session.layout();
        let mut resolver = Resolver::new(LiveFiles, options(plan));
        resolver.expect_file("[vdso]");
        Ok(Self {
            recording: session.start()?,
            layout,
            resolver,
            mappings: Mappings::default(),
            targets: Targets { pids, inherit: plan.inherit },
            records: VecDeque::new(),
            waiting: VecDeque::new(),
            unwound: 0,
            bytes: 0,
            singles: SingleStacks::default(),
        })
    }

    /// Adds something that was traced.
    pub fn add(&mut self, event: ThreadEvent, traced: &Traced<'_>) {
        let mut time = traced.time;
        let stack = match traced.stack {
            Stack::NotTaken => Waits::None,
            Stack::Lost => Waits::Lost,
            Stack::Taken(stack) => {
                time = stack.time;
                let rest = match stack.compat || stack.bytes.is_empty() {
                    true => Vec::new(),
                    false => self.resolver.read_missing(&copied(&event, stack, &[])),
                };
                Waits::Copied(Box::new(stack.clone()), rest)
            }
        };
        let place = match traced.action {
            Action::Fault { ip, address, .. } => Some((ip, address)),
            _ => None,
        };
        let waiting = Waiting { event, time, stack, place, found: (None, None) };
        self.bytes += waiting.bytes();
        self.waiting.push_back(waiting);
        while self.bytes > MOST_WAITING && self.unwound < self.waiting.len() {
            self.unwind_next();
        }
    }

    /// Takes records of processes, unwinds what came before them, and hands out what has names. `until`: all that was traced
    /// before this time was added; `None` if there is nothing more to come.
    pub fn hand_out<E: From<Error>>(
        &mut self,
        until: Option<u64>,
        out: &mut dyn FnMut(ThreadEvent) -> Result<(), E>,
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

    /// How many records of processes were lost.
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
        let moment = (waiting.event.process, waiting.time);
        if let Waits::Copied(stack, rest) = std::mem::replace(&mut waiting.stack, Waits::None) {
            let copied = copied(&waiting.event, &stack, rest.as_slice());
            let user = match &*stack {
                _ if stack.registers[16] == 0 => UserPart::None,
                ThreadStack { compat: true, .. } => UserPart::Compat,
                _ => UserPart::Copied(&copied),
            };
            waiting.found.0 = Some(resolver.add_single(moment, &stack.kernel, user, singles));
        } else if let Waits::Lost = waiting.stack {
            waiting.event.stack = vec![Arc::new(lost())];
        }
        if let Some((ip, address)) = waiting.place {
            waiting.found.1 = Some(resolver.add_place(moment, ip, singles));
            if let ThreadAction::Fault { target, .. } = &mut waiting.event.action
                && target.is_empty()
            {
                *target = self.mappings.describe(waiting.event.process, address);
            }
        }
    }

    /// Names what was unwound, and hands it out.
    fn name<E: From<Error>>(
        &mut self,
        out: &mut dyn FnMut(ThreadEvent) -> Result<(), E>,
    ) -> Result<(), E> {
        let named: Option<SampleStacks> =
            (!self.singles.is_empty()).then(|| self.resolver.name_singles(&mut self.singles));
        let mut lines = named.as_ref().map(|named| Lines::new(&named.locations));
        for mut waiting in self.waiting.drain(..std::mem::take(&mut self.unwound)) {
            if let (Some(named), Some(lines)) = (&named, &mut lines) {
                let (stack, place) = waiting.found;
                if let Some(stack) = stack {
                    waiting.event.stack =
                        named.of(stack).flat_map(|place| lines.of(place).to_vec()).collect();
                }
                if let (Some(number), ThreadAction::Fault { place, .. }) =
                    (place, &mut waiting.event.action)
                    && let Some(line) = named.of(number).next().map(|at| lines.outermost(at))
                {
                    *place = line;
                }
            }
            out(waiting.event)?;
        }
        Ok(())
    }
}

fn copied<'a>(event: &ThreadEvent, stack: &'a ThreadStack, rest: &'a [u8]) -> CopiedStack<'a> {
    CopiedStack {
        pid: event.process,
        tid: event.thread,
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

fn options(plan: &TracePlan) -> pyrograph_resolve::Options {
    pyrograph_resolve::Options {
        value_type: pyrograph_profile::ValueType::samples(),
        count_samples: true,
        number_of: None,
        keep_time: true,
        stack_memory: None,
        monotonic_time: true,
        threads: pyrograph_profile::ThreadDetail::Name,
        user_only: false,
        addresses: true,
        guessing: true,
        languages: Vec::new(),
        arch: pyrograph_resolve::NATIVE,
        symbols: pyrograph_resolve::SymbolOptions {
            cache: plan.cache.clone(),
            ..pyrograph_resolve::SymbolOptions::default()
        },
    }
}
