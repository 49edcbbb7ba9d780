//! Iterates over the events of a recording, with their stacks.
//!
//! Records are read twice: first for the stacks, whose addresses are symbolized in one pass per file, then to deliver
//! the events. In between, a stack is kept only as the IDs of its locations, and equal stacks are kept once.

use std::ops::ControlFlow;

use pyrograph_event::{
    Callchain, Context, CpuMode, Entry, Record, Sample, flag, sample_type, type_id,
};
use pyrograph_profile::{
    EventClass, EventFilter, EventKind, FrameKind, Locations, SingleEvent, StackEntry,
};
use pyrograph_resolve::{Arch, Extra, Resolver, SampleSource, SampleStacks, Stats};

use crate::details::Details;
use crate::events::Event;
use crate::files::RecordedFiles;
use crate::group_counts::{Counts, members};
use crate::lost::Losses;
use crate::names::Names;
use crate::plain::PlainSample;
use crate::recording::{Place, Recording};
use crate::resolve::{ResolveOptions, arch, resolver_options, workers};
use crate::single_records::{event_record, single_record};
use crate::trace_events::Unread;
use crate::trace_text::TraceText;

/// Filtered events of a recording, with their stacks.
pub struct SingleEvents<'a> {
    recording: &'a Recording,
    filter: EventFilter,
    stacks: Option<SampleStacks>,
    /// True for the kinds whose events have stacks here.
    with_stacks: Vec<bool>,
    none: Locations,
}

impl Recording {
    /// Returns the kinds of events, and which fields each of them has.
    pub fn kinds(&self) -> Vec<EventKind> {
        self.events.list.iter().map(kind).collect()
    }

    /// Returns the times of the first and the last sample, in nanoseconds.
    pub fn time_span(&self) -> Option<(u64, u64)> {
        let time = |&(_, place): &(u64, u64)| {
            let place = Place::from_number(place);
            let (event, bytes) = (&self.events.list[place.event()], self.record_at(place));
            event.layout.time(bytes).filter(|_| event.is_sample(bytes))
        };
        let first = self.index.iter().find_map(time)?;
        Some((first, self.index.iter().rev().find_map(time)?))
    }

    /// Returns the events that a filter keeps. Only kinds for which `with_stacks` is true have stacks. The options
    /// about values, times and threads have no effect.
    pub fn single_events(
        &self,
        filter: EventFilter,
        with_stacks: &[bool],
        options: &ResolveOptions,
    ) -> SingleEvents<'_> {
        let kinds = self.events.list.iter().enumerate();
        // The samples of a group's leader count for its members, too.
        let is_any = with_stacks.contains(&true);
        let wanted = |kind, event: &Event| {
            with_stacks.get(kind) == Some(&true) || event.leads_group() && is_any
        };
        let with_stacks: Vec<bool> =
            kinds.map(|(kind, event)| event.samples > 0 && wanted(kind, event)).collect();
        let any = with_stacks.contains(&true);
        let stacks = any.then(|| stacks(self, &filter, &with_stacks, options));
        SingleEvents { recording: self, filter, stacks, with_stacks, none: Locations::default() }
    }
}

fn kind(event: &Event) -> EventKind {
    let has = |field| event.attr.sample_type & field != 0;
    let class = match event.attr.type_ {
        type_id::HARDWARE | type_id::HW_CACHE => EventClass::Hardware,
        type_id::SOFTWARE => EventClass::Software,
        type_id::TRACEPOINT => EventClass::Tracepoint,
        type_id::RAW => EventClass::Raw,
        type_id::BREAKPOINT => EventClass::Breakpoint,
        _ => EventClass::Other,
    };
    EventKind {
        name: event.name.clone(),
        class,
        stack: has(sample_type::CALLCHAIN | sample_type::STACK_USER),
        thread: has(sample_type::TID),
        time: has(sample_type::TIME),
        cpu: has(sample_type::CPU),
        ip: has(sample_type::IP),
        addr: has(sample_type::ADDR),
        period: has(sample_type::PERIOD) || !event.attr.has(flag::FREQ),
        weight: has(sample_type::WEIGHT | sample_type::WEIGHT_STRUCT),
        data_src: has(sample_type::DATA_SRC),
        phys_addr: has(sample_type::PHYS_ADDR),
        code_page_size: has(sample_type::CODE_PAGE_SIZE),
        data_page_size: has(sample_type::DATA_PAGE_SIZE),
        branches: has(sample_type::BRANCH_STACK) && !event.branches_are_calls(),
        user_registers: has(sample_type::REGS_USER),
        registers: has(sample_type::REGS_INTR),
    }
}

/// Source of samples whose pages are not released, because they are read again after their stacks are resolved.
struct Kept<'a>(&'a Recording);

impl SampleSource for Kept<'_> {
    fn sample<T>(&self, place: u64, take: impl FnOnce(&Sample<'_>, Extra<'_>) -> T) -> Option<T> {
        self.0.sample(place, take)
    }
}

fn stacks(
    recording: &Recording,
    filter: &EventFilter,
    with_stacks: &[bool],
    options: &ResolveOptions,
) -> SampleStacks {
    let files = RecordedFiles::new(recording, options.symbols.locator.clone());
    let monotonic = recording.events.list.iter().all(Event::has_monotonic_time);
    let options = ResolveOptions { keep_times: true, ..options.clone() };
    let resolver = Resolver::new(files, resolver_options(recording, &options, monotonic));
    let (stacks, ()) = resolver.resolve_stacks(&Kept(recording), workers(&options), |feed| {
        let mut names = Names::default();
        for &(_, number) in &recording.index {
            let place = Place::from_number(number);
            let bytes = recording.record_at(place);
            let event = &recording.events.list[place.event()];
            let keeps_all = filter.is_empty();
            if event.is_sample(bytes) {
                if !with_stacks[place.event()] {
                    continue;
                }
                let is_kept = keeps_all
                    || matches!(event.layout.decode(bytes), Ok(Record::Sample(sample))
                    if keeps_any(recording, filter, place, event, &sample,
                        single(place, event, bytes, &sample,
                            names.of(sample.id.pid, sample.id.tid))));
                if is_kept {
                    let (pid, tid) = event.pid_tid(bytes);
                    feed.sample(pid, tid, None, number, 1);
                }
                continue;
            }
            if let Ok(record) = event.layout.decode(bytes) {
                if filter.needs_names() {
                    names.follow(&record);
                }
                feed.record(&record);
            }
        }
    });
    stacks
}

fn single<'a>(
    place: Place,
    event: &Event,
    bytes: &[u8],
    sample: &Sample<'_>,
    comm: &'a str,
) -> SingleEvent<'a> {
    SingleEvent {
        kind: place.event(),
        comm,
        pid: sample.id.pid,
        tid: sample.id.tid,
        cpu: sample.id.cpu,
        time: sample.id.time,
        period: event.period(bytes),
        ip: sample.ip,
        addr: sample.addr,
        weight: sample.weight,
        data_src: sample.data_src,
        phys_addr: sample.phys_addr,
        ..SingleEvent::default()
    }
}

/// Returns true if the filter keeps a sample, or another event that it counts.
fn keeps_any(
    recording: &Recording,
    filter: &EventFilter,
    place: Place,
    event: &Event,
    sample: &Sample<'_>,
    one: SingleEvent<'_>,
) -> bool {
    filter.keeps(&one)
        || event.has_counts()
            && members(recording, place, sample)
                .any(|(kind, ..)| filter.keeps(&SingleEvent { kind, ..one }))
}

impl SingleEvents<'_> {
    /// Returns the locations that occur in stacks.
    pub fn locations(&self) -> &Locations {
        self.stacks.as_ref().map_or(&self.none, |stacks| &stacks.locations)
    }

    /// Returns counts of incomplete stacks; `None` if stacks are left out.
    pub fn stats(&self) -> Option<&Stats> {
        self.stacks.as_ref().map(|stacks| &stacks.stats)
    }

    /// Calls `on_event` for each event in order of time, until it returns `Break`. With `with_trace`, tracepoints have
    /// their fields as text.
    pub fn each(
        &self,
        with_trace: bool,
        on_event: &mut dyn FnMut(&SingleEvent<'_>) -> ControlFlow<()>,
    ) -> Unread {
        let recording = self.recording;
        let mut each = Each {
            events: self,
            texts: with_trace.then(|| TraceText::new(recording)),
            has_plain: !recording.defers_callchains(),
            all: self.filter.is_empty(),
            details: Details::default(),
            counts: Counts::default(),
            number: 0,
            entries: Vec::new(),
            text: String::new(),
            on_event,
        };
        let (mut names, mut losses, mut unreadable) = (Names::default(), Losses::default(), 0);
        for &(_, at) in &recording.index {
            let place = Place::from_number(at);
            let event = &recording.events.list[place.event()];
            let bytes = recording.record_at(place);
            if !event.is_sample(bytes) {
                let Ok(record) = event.layout.decode(bytes) else {
                    unreadable += 1;
                    continue;
                };
                if !losses.add(event, &record, recording.misc(bytes)) {
                    names.follow(&record);
                }
                if each.record(place, &record, &mut names).is_break() {
                    break;
                }
                continue;
            }
            match each.sample(place, event, bytes, &mut names) {
                None => unreadable += 1,
                Some(ControlFlow::Break(())) => break,
                Some(ControlFlow::Continue(())) => {}
            }
        }
        Unread { lost: losses.total(), unreadable }
    }
}

/// Delivers one sample after another.
struct Each<'a, 'b> {
    events: &'a SingleEvents<'a>,
    texts: Option<TraceText<'a>>,
    /// Samples of the usual form can be read on the fast path.
    has_plain: bool,
    /// All events are wanted.
    all: bool,
    details: Details,
    counts: Counts,
    /// Number of samples with stacks so far.
    number: usize,
    entries: Vec<StackEntry>,
    text: String,
    on_event: &'b mut dyn FnMut(&SingleEvent<'_>) -> ControlFlow<()>,
}

impl<'a> Each<'a, '_> {
    /// Delivers a sample; `None` if it cannot be read.
    #[inline]
    fn sample(
        &mut self,
        place: Place,
        event: &Event,
        bytes: &[u8],
        names: &mut Names,
    ) -> Option<ControlFlow<()>> {
        let layout = event.plain.filter(|_| self.has_plain);
        if let Some(sample) = layout.and_then(|layout| layout.read(bytes)) {
            return Some(self.plain(place, event.period(bytes), &sample, names));
        }
        let recording = self.events.recording;
        recording.sample(place.number(), |sample, extra| {
            let comm = names.of(sample.id.pid, sample.id.tid);
            let one = single(place, event, bytes, sample, comm);
            let counted: Vec<(usize, u64)> = match event.has_counts() {
                true => self.counts.growth(recording, place, event, sample).collect(),
                false => Vec::new(),
            };
            let filter = &self.events.filter;
            if !keeps_any(recording, filter, place, event, sample, one) {
                return ControlFlow::Continue(());
            }
            self.entries.clear();
            if let Some(stacks) = self.stacks(place) {
                add_entries(stacks, self.number, sample, &extra, &mut self.entries);
                if let Some(ip) = copied_ip(recording, sample) {
                    mark_system_call(&stacks.locations, ip, &mut self.entries);
                }
                self.number += 1;
            }
            let mut memory = std::mem::take(&mut self.details);
            let details = memory.of(sample, arch(recording));
            let one = SingleEvent { details: details.as_ref(), ..one };
            let next = match counted.is_empty() {
                true => self.hand_over(&one, sample.raw),
                false => self.counted(&counted, &one, sample.raw),
            };
            self.details = memory;
            next
        })
    }

    /// Delivers a sample once for each event whose count has grown, with the increase as its period, as perf does.
    fn counted(
        &mut self,
        counted: &[(usize, u64)],
        one: &SingleEvent<'_>,
        raw: Option<&[u8]>,
    ) -> ControlFlow<()> {
        for &(kind, period) in counted.iter().filter(|&&(_, growth)| growth > 0) {
            // The fields of a tracepoint belong to the event that took the sample.
            let raw = raw.filter(|_| kind == one.kind);
            let one = SingleEvent { kind, period, ..*one };
            if self.events.filter.keeps(&one) {
                self.hand_over(&one, raw)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Delivers a record other than a sample, if it is wanted.
    fn record(&mut self, place: Place, record: &Record<'_>, names: &mut Names) -> ControlFlow<()> {
        let filter = &self.events.filter;
        if filter.records.is_empty() {
            return ControlFlow::Continue(());
        }
        let Some((record, id)) = event_record(record) else { return ControlFlow::Continue(()) };
        let one = single_record(place.event(), &record, id);
        let (pid, tid) = record.thread().unzip();
        let comm = names.of(pid.or(one.pid), tid.or(one.tid));
        let one = SingleEvent { comm, ..one };
        match filter.keeps(&one) {
            true => (self.on_event)(&one),
            false => ControlFlow::Continue(()),
        }
    }

    #[inline]
    fn plain(
        &mut self,
        place: Place,
        period: u64,
        sample: &PlainSample<'_>,
        names: &mut Names,
    ) -> ControlFlow<()> {
        let one = SingleEvent {
            kind: place.event(),
            comm: names.of(sample.pid, sample.tid),
            pid: sample.pid,
            tid: sample.tid,
            cpu: sample.cpu,
            time: sample.time,
            period,
            ip: sample.ip,
            addr: sample.addr,
            ..SingleEvent::default()
        };
        if !self.all && !self.events.filter.keeps(&one) {
            return ControlFlow::Continue(());
        }
        self.entries.clear();
        if let Some(stacks) = self.stacks(place) {
            self.entries.extend(entries_of(stacks, self.number));
            mark_returns(sample.mode, sample.callchain, None, true, &mut self.entries);
            self.number += 1;
        }
        self.hand_over(&one, sample.raw)
    }

    fn stacks(&self, place: Place) -> Option<&'a SampleStacks> {
        self.events.stacks.as_ref().filter(|_| self.events.with_stacks[place.event()])
    }

    #[inline]
    fn hand_over(&mut self, one: &SingleEvent<'_>, raw: Option<&[u8]>) -> ControlFlow<()> {
        self.text.clear();
        let raw = raw.unwrap_or_default();
        if let Some(texts) = &mut self.texts {
            texts.write(one.kind, raw, &mut self.text);
        }
        (self.on_event)(&SingleEvent { stack: &self.entries, trace: &self.text, raw, ..*one })
    }
}

/// Returns the locations of a sample's stack.
fn entries_of(stacks: &SampleStacks, number: usize) -> impl Iterator<Item = StackEntry> {
    stacks.of(number).map(|id| StackEntry { location: id.0, returns: false })
}

/// Appends the locations of a sample's stack.
fn add_entries(
    stacks: &SampleStacks,
    number: usize,
    sample: &Sample<'_>,
    extra: &Extra<'_>,
    entries: &mut Vec<StackEntry>,
) {
    entries.extend(entries_of(stacks, number));
    let has_copy = sample.user_stack.is_some() && sample.user_regs.is_some();
    let by_branches = extra.branches_are_calls && sample.branches.is_some();
    let with_user = !has_copy && !by_branches;
    mark_returns(sample.mode, sample.callchain, extra.deferred, with_user, entries);
}

/// Marks the locations that the kernel reported as return addresses: all entries of a callchain except the first of
/// each part. Locations from copied stacks, which follow, are unchanged.
fn mark_returns(
    mode: CpuMode,
    callchain: Callchain<'_>,
    deferred: Option<Callchain<'_>>,
    with_user: bool,
    entries: &mut [StackEntry],
) {
    let mut places = entries.iter_mut();
    let mut is_user = matches!(mode, CpuMode::User);
    let (mut is_known, mut first) = (true, true);
    let later = deferred.iter().flat_map(|chain| chain.entries());
    for entry in callchain.entries().chain(later) {
        match entry {
            Entry::Context(context) => {
                is_user = matches!(context, Context::User | Context::UserDeferred);
                is_known = !matches!(context, Context::Unknown(_));
                first = true;
            }
            Entry::Address(_) => {
                if is_known
                    && (with_user || !is_user)
                    && let Some(place) = places.next()
                {
                    place.returns = !first;
                }
                first = false;
            }
            Entry::Cookie(_) => {}
        }
    }
}

/// Returns the instruction pointer of the program when its stack was copied while it was in the kernel.
fn copied_ip(recording: &Recording, sample: &Sample<'_>) -> Option<u64> {
    const X86_64: u32 = 8;
    const AARCH64: u32 = 32;
    sample.user_stack.filter(|_| sample.mode != CpuMode::User)?;
    let register = match arch(recording) {
        Arch::Aarch64 => AARCH64,
        Arch::X86_64 => X86_64,
    };
    sample.user_regs?.get(register)
}

/// Marks the program's innermost location if it is a system call instruction that returns to the copied address. Only
/// the offset in a page is compared, which mappings preserve.
fn mark_system_call(locations: &Locations, ip: u64, entries: &mut [StackEntry]) {
    let returns = |entry: &&mut StackEntry| {
        let location = locations.list.get(entry.location as usize);
        location.is_some_and(|location| location.address.wrapping_add(1) & 0xfff == ip & 0xfff)
    };
    let is_kernel = |entry: &StackEntry| {
        let location = locations.list.get(entry.location as usize);
        let row = location.and_then(|location| locations.frames_of(location).first());
        row.is_some_and(|&row| locations.frames.get(row).kind == FrameKind::Kernel)
    };
    let first = entries.iter_mut().find(|entry| !is_kernel(entry));
    if let Some(entry) = first.filter(returns) {
        entry.returns = true;
    }
}
