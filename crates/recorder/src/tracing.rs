//! Tracing system calls of a target, a line each or counts of them; and events and page faults beside them.

mod by_ptrace;
mod decode;
mod events;
mod files;
mod in_kernel;
mod intervals;
mod lines;
mod mappings;
mod moments;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pyrograph_event::traced::{self, CallEnd, LostCalls, Traced};
use pyrograph_profile::{CallCount, CallCounts, ThreadEvent};
use pyrograph_record::ptrace::{self, calls_in_progress};
use pyrograph_record::{
    Child, Event, Next, Rate, Recording, Session, StackMode, Stopper, Target, Waiting, Watch,
    descendants, monotonic_now,
};
use pyrograph_syscall::Descriptors;

use self::decode::Decoder;
use self::events::events_of;
pub use self::events::{TracedEvent, names_event};
pub use self::intervals::CountedTime;
use self::intervals::Intervals;
pub(crate) use self::moments::{Moment, Moments, MomentsPlan, Placed};
use crate::error::Error;
use crate::filters::Filters;
use crate::in_kernel::EngineError;

/// A plan of which system calls to trace, and for how long.
#[derive(Clone, Debug)]
pub struct TracePlan {
    /// Whose calls.
    pub target: Target,
    /// Trace the processes that the target starts, too.
    pub inherit: bool,
    /// Of the target, what is traced.
    pub filters: Filters,
    /// The numbers of the calls ([`traced_names`]); `None` for all. If there are none, neither signals nor ends of threads
    /// are handed out.
    pub calls: Option<Vec<u32>>,
    /// Events that are traced beside them.
    pub events: Vec<TracedEvent>,
    /// Page faults that are traced beside them.
    pub faults: PageFaults,
    /// Take the stack of all that is traced.
    pub stacks: bool,
    /// Only calls that fail.
    pub failed: bool,
    /// Only calls that take as long.
    pub slower: Duration,
    /// Calls are counted in the kernel, and no lines are made of them, nor of events.
    pub counts: bool,
    /// The control groups of counts are named. To find one, all of them are looked through.
    pub name_groups: bool,
    /// The longest text in a line, in bytes; paths are written whole.
    pub text: usize,
    /// Bytes of memory for calls that wait to be written.
    pub memory: u32,
    /// A command that runs beside the target, which is traced until this ends.
    pub beside: Option<Vec<OsString>>,
    /// Counts are handed out for each so long a time.
    pub interval: Option<Duration>,
    /// The longest time to trace.
    pub duration: Option<Duration>,
    /// A command's standard output is this process's standard error.
    pub output_to_stderr: bool,
    /// Below which folder the kernel's types are kept for the next time; `None`: they are not.
    pub cache: Option<PathBuf>,
}

/// Which page faults are traced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageFaults {
    /// Those for which a page had to be read.
    pub major: bool,
    /// Others.
    pub minor: bool,
}

impl PageFaults {
    /// Returns true if some are.
    pub fn any(self) -> bool {
        self.major || self.minor
    }
}

/// The end of tracing.
#[derive(Debug)]
pub struct TraceEnd {
    /// Calls that could not be handed out or counted.
    pub lost: LostCalls,
    /// Records of processes that were lost, without which stacks may be wrong.
    pub lost_records: u64,
    /// Counts of calls, where they were counted; with intervals, of the last one.
    pub counts: CountedTime,
    /// Calls that had not returned in the end, by name: they are in no count. Of lines, and of the machine, none.
    pub in_progress: BTreeMap<String, u64>,
    /// The command, if there is one whose end was not seen.
    pub child: Option<Child>,
    /// The exit code of the command, if its end was seen.
    pub exit_code: Option<u8>,
}

impl TracePlan {
    /// A plan to trace all calls of a target and of the processes that it starts, until it ends.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            inherit: true,
            filters: Filters::default(),
            calls: None,
            events: Vec::new(),
            faults: PageFaults::default(),
            stacks: false,
            failed: false,
            slower: Duration::ZERO,
            counts: false,
            name_groups: false,
            text: 32,
            memory: 64 << 20,
            beside: None,
            interval: None,
            duration: None,
            output_to_stderr: false,
            cache: None,
        }
    }

    /// Only some calls are handed out, and files have to be named in them.
    fn is_chosen(&self) -> bool {
        let with_files = pyrograph_syscall::group("desc").unwrap_or_default();
        let names_files = |calls: &[u32]| calls.iter().any(|call| with_files.contains(call));
        let is_chosen = self.calls.is_some() || self.failed || !self.slower.is_zero();
        !self.counts && is_chosen && self.calls.as_deref().is_none_or(names_files)
    }

    /// The numbers of the calls by which files are followed, though they are not handed out. Those of the whole machine
    /// are too many.
    #[cfg_attr(not(feature = "bpf"), expect(dead_code, reason = "ptrace hands out all calls"))]
    fn followed(&self) -> Vec<u32> {
        let of_target = !matches!(self.target, Target::System);
        if self.is_chosen() && of_target { Descriptors::followed() } else { Vec::new() }
    }

    fn is_followed_in_part(&self) -> bool {
        self.is_chosen() && matches!(self.target, Target::System)
    }
}

/// How often calls are taken, and counts.
const LINES_EVERY: Duration = Duration::from_millis(50);
const COUNTS_EVERY: Duration = Duration::from_millis(500);

/// An engine that hands out calls.
trait Tracer {
    /// Begins. The command, if it is the target, is traced from when it executes a program.
    fn start(&mut self, command: Option<Waiting>, is_target: bool) -> Result<Option<Child>, Error>;

    /// Ends what is handed out one by one at once, on any thread; [`Self::stop`] comes later. `None` where this cannot be.
    fn end_of_lines(&self) -> Option<Box<dyn FnOnce() + Send>> {
        None
    }

    /// Ends; what has not returned is handed out, too.
    fn stop(&mut self) -> Result<(), Error>;

    /// Descriptor that is readable when calls should be taken soon; `None` if they should be always.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// Returns true if it knows that the target has ended.
    fn is_done(&self) -> bool;

    /// Calls are counted in the kernel, where that was asked for.
    fn counts(&self) -> bool;

    /// Hands out what has happened since the last call, or a part of it. Returns false if there is nothing more.
    fn take(&mut self, out: &mut dyn FnMut(&Traced<'_>)) -> Result<bool, Error>;

    /// Traces page faults: `events` are one a CPU for each fault of a kind.
    fn trace_faults(&mut self, _major: bool, _events: &Session) -> Result<(), Error> {
        Err(Error::NotStarted)
    }

    /// Hands out counts.
    fn take_counts(&mut self, out: &mut dyn FnMut(traced::CallCount)) -> Result<(), Error>;

    /// Calls and events that could not be handed out.
    fn lost(&self) -> LostCalls;

    /// The command that it has followed, and that runs on.
    fn take_command(&mut self) -> Option<Child> {
        None
    }

    /// The exit code of the command, if its end was seen.
    fn exit_code(&self) -> Option<u8>;
}

/// A running trace of system calls, events and page faults.
pub struct Tracing {
    tracer: Box<dyn Tracer>,
    decoder: Decoder,
    /// Where stacks or places in code are shown.
    moments: Option<Moments<ThreadEvent>>,
    /// Events of page faults.
    faults: Vec<Recording>,
    /// Calls that threads were in before they were traced, until they are handed out.
    in_progress: Vec<ptrace::TracedCall>,
    /// How many threads may not be asked for the calls that they are in.
    unreadable: usize,
    /// The processes that are targets, without those that they start.
    processes: Vec<i32>,
    /// The numbers of the calls that are traced; `None` for all.
    calls: Option<Vec<u32>>,
    /// Calls that had not returned when counting ended, by name.
    unreturned: BTreeMap<String, u64>,
    counts: CallCounts,
    is_counted: bool,
    intervals: Option<Intervals>,
    /// The counts of a part of the time, until they are handed out.
    counted: Option<CountedTime>,
    /// Why programs in the kernel do not trace, if they do not.
    not_in_kernel: Option<EngineError>,
    watch: Watch,
    child: Option<Child>,
    started: Instant,
    elapsed: Duration,
    until: Option<Instant>,
    has_ended: bool,
}

impl Tracing {
    /// Begins to trace.
    ///
    /// # Errors
    ///
    /// If the kernel does not take the programs, or the command cannot be run.
    pub fn open(plan: &TracePlan) -> Result<Self, Error> {
        let command = match &plan.target {
            Target::Command(argv) => Some(argv),
            Target::Processes(_) | Target::System => plan.beside.as_ref(),
        };
        let command = command.map(|argv| Waiting::fork(argv, plan.output_to_stderr)).transpose()?;
        let processes = processes_of(plan)?;
        let (in_progress, unreadable) = in_progress(plan, processes.as_deref().unwrap_or_default());
        let (mut tracer, not_in_kernel) = match in_kernel::load(plan, processes) {
            Ok(tracer) => (tracer, None),
            Err(error) if by_ptrace::can_trace(plan) => {
                (Box::new(by_ptrace::ByPtrace::new(plan)) as Box<dyn Tracer>, Some(error))
            }
            Err(error) => return Err(error.into()),
        };
        let mut watch = Watch::new()?;
        match (&plan.target, &command) {
            // ptrace reports the ends of threads itself.
            _ if not_in_kernel.is_some() => {}
            (_, Some(command)) => watch.child(command.pid()),
            (Target::Processes(pids), None) => watch.processes(pids),
            _ => {}
        }
        let own = match (&plan.target, &command) {
            (Target::Command(_), Some(command)) => vec![command.pid()],
            (Target::Processes(pids), _) => pids.clone(),
            _ => Vec::new(),
        };
        let mut decoder = Decoder::new(plan);
        if !plan.counts {
            own.iter().for_each(|process| decoder.note_process(*process));
        }
        let needs_names = (plan.stacks || plan.faults.any()) && not_in_kernel.is_none();
        let command_pid = command.as_ref().map(Waiting::pid);
        let names = MomentsPlan {
            target: &plan.target,
            inherit: plan.inherit,
            data_mappings: plan.faults.any(),
            cache: plan.cache.as_deref(),
        };
        let moments = needs_names.then(|| Moments::open(&names, command_pid)).transpose()?;
        let faults = trace_faults(plan.faults, &mut *tracer)?;
        let started = Instant::now();
        let until = plan.duration.map(|duration| started + duration);
        let child = tracer.start(command, matches!(plan.target, Target::Command(_)))?;
        if let Some(end) = tracer.end_of_lines() {
            watch.end_in_time(until, |_| end());
        }
        Ok(Self {
            tracer,
            decoder,
            moments,
            faults,
            in_progress,
            unreadable,
            processes: own,
            calls: plan.calls.clone(),
            unreturned: BTreeMap::new(),
            counts: CallCounts::default(),
            is_counted: plan.counts,
            intervals: plan.interval.map(|every| Intervals::new(every, started)),
            counted: None,
            not_in_kernel,
            watch,
            child,
            started,
            elapsed: Duration::ZERO,
            until,
            has_ended: false,
        })
    }

    /// Why ptrace has to serve, which stops a thread twice at each call; `None` if programs in the kernel trace.
    pub fn not_in_kernel(&self) -> Option<&EngineError> {
        self.not_in_kernel.as_ref()
    }

    /// How many threads may not be asked for the calls that they are in: these are shown when they return.
    pub fn unreadable_threads(&self) -> usize {
        self.unreadable
    }

    /// Handle that ends tracing from any thread or signal handler.
    pub fn stopper(&self) -> Stopper {
        self.watch.stopper()
    }

    /// Waits a while, and hands out what has happened since; returns false when tracing is over.
    ///
    /// # Errors
    ///
    /// If the kernel cannot be asked, or `out` fails.
    pub fn step<E: From<Error>>(
        &mut self,
        out: &mut dyn FnMut(ThreadEvent) -> Result<(), E>,
    ) -> Result<bool, E> {
        if self.has_ended {
            return Ok(false);
        }
        let every = if self.tracer.counts() { COUNTS_EVERY } else { LINES_EVERY };
        let now = Instant::now();
        let fd = self.tracer.fd();
        let tick = if fd.is_some() { now + every } else { now };
        let tick = self.intervals.as_ref().map_or(tick, |of| of.next().min(tick));
        let next = self.until.map_or(tick, |until| until.min(tick));
        let ended = self.watch.wait(Some(next), fd.filter(|_| !self.tracer.counts()));
        let is_over = self.until.is_some_and(|until| until <= Instant::now());
        if ended.is_some() || is_over || self.tracer.is_done() {
            self.has_ended = true;
            self.elapsed = self.started.elapsed();
            if self.is_counted {
                self.unreturned = unreturned(&self.processes, self.calls.as_deref());
            }
            self.tracer.stop()?;
        }
        self.take(out)?;
        if let Some(intervals) = self.intervals.as_mut().filter(|_| !self.has_ended)
            && let Some((elapsed, end)) = intervals.end(Instant::now())
        {
            let counts = std::mem::take(&mut self.counts).into_rows();
            self.counted = Some(CountedTime { elapsed, end: end - self.started, counts });
        }
        Ok(true)
    }

    /// The counts of a part of the time that has ended since this was last called, with [`TracePlan::interval`].
    pub fn take_counted(&mut self) -> Option<CountedTime> {
        self.counted.take()
    }

    fn take<E: From<Error>>(
        &mut self,
        out: &mut dyn FnMut(ThreadEvent) -> Result<(), E>,
    ) -> Result<(), E> {
        let (decoder, counts) = (&mut self.decoder, &mut self.counts);
        if self.tracer.counts() {
            for _ in 0..if self.has_ended { 2 } else { 1 } {
                self.tracer.take_counts(&mut |count| {
                    decoder.count(&count).into_iter().for_each(|count| counts.add(count));
                })?;
            }
            return Ok(());
        }
        let mut result = Ok(());
        for call in self.in_progress.drain(..) {
            let name = thread_name(call.thread).unwrap_or_default();
            by_ptrace::hand_out_call(&call, CallEnd::InProgress, &name, &mut |traced| {
                if let Some(event) = decoder.event(traced).filter(|_| result.is_ok()) {
                    result = out(event);
                }
            });
        }
        for faults in &mut self.faults {
            // Their programs hand out all that there is to know.
            while let Next::Batch(_) = faults.next(Duration::ZERO) {}
        }
        let now = monotonic_now();
        let mut until = None;
        // Those that come meanwhile are for the next step, unless this is the last.
        for _ in 0..if self.has_ended { usize::MAX } else { 64 } {
            let more = self.tracer.take(&mut |traced: &Traced<'_>| {
                let Some(event) = decoder.event(traced) else { return };
                if let Some(moments) = &mut self.moments {
                    moments.add(event, &Moment::of(traced));
                } else if self.is_counted {
                    CallCount::of(&event).into_iter().for_each(|count| counts.add(count));
                } else if result.is_ok() {
                    result = out(event);
                }
            })?;
            if !more || result.is_err() {
                until = Some(now);
                break;
            }
        }
        result?;
        match &mut self.moments {
            Some(moments) if self.has_ended => moments.hand_out(None, out),
            Some(moments) => moments.hand_out(Some(until.unwrap_or(0)), out),
            None => Ok(()),
        }
    }

    /// Ends tracing.
    pub fn finish(mut self) -> TraceEnd {
        let before = self.intervals.map_or(Duration::ZERO, |of| of.began() - self.started);
        let counts = CountedTime {
            elapsed: self.elapsed.saturating_sub(before),
            end: self.elapsed,
            counts: self.counts.into_rows(),
        };
        TraceEnd {
            in_progress: self.unreturned,
            lost: self.tracer.lost(),
            lost_records: self.moments.as_ref().map_or(0, Moments::lost_records),
            exit_code: self.tracer.exit_code(),
            counts,
            child: self.child.take().or_else(|| self.tracer.take_command()),
        }
    }
}

/// The processes that are traced, as far as they run; `None` for all.
fn processes_of(plan: &TracePlan) -> Result<Option<Vec<i32>>, Error> {
    match &plan.target {
        Target::Processes(pids) => {
            if let Some(pid) = pids.iter().find(|pid| !is_there(**pid)) {
                return Err(pyrograph_record::Error::NoSuchProcess { pid: *pid }.into());
            }
            let children = if plan.inherit { descendants(pids) } else { Vec::new() };
            Ok(Some(pids.iter().copied().chain(children).collect()))
        }
        Target::Command(_) => Ok(Some(Vec::new())),
        Target::System => Ok(None),
    }
}

/// Opens the events of page faults, and attaches the programs that hand them out.
fn trace_faults(faults: PageFaults, tracer: &mut dyn Tracer) -> Result<Vec<Recording>, Error> {
    let kinds = [(faults.major, true, "major-faults"), (faults.minor, false, "minor-faults")];
    let mut recordings = Vec::new();
    for (_, major, name) in kinds.into_iter().filter(|(is_wanted, ..)| *is_wanted) {
        let session = Session::open(&pyrograph_record::Options {
            event: Some(Event::parse(name)?),
            rate: Some(Rate::Every(1)),
            stack: StackMode::None,
            initial: Some(Vec::new()),
            ..pyrograph_record::Options::new(Target::System)
        })?;
        tracer.trace_faults(major, &session)?;
        recordings.push(session.start()?);
    }
    Ok(recordings)
}

/// The calls that threads of processes are in before they are traced, and how many threads may not be asked for theirs.
fn in_progress(plan: &TracePlan, processes: &[i32]) -> (Vec<ptrace::TracedCall>, usize) {
    // It is not known how long they have taken, or will, and whether they fail.
    if plan.counts || plan.failed || !plan.slower.is_zero() || plan.filters.chooses() {
        return (Vec::new(), 0);
    }
    let text = u32::try_from(plan.text).unwrap_or(u32::MAX);
    let (mut calls, unreadable) = calls_in_progress(processes, text);
    calls.retain(|call| plan.calls.as_ref().is_none_or(|wanted| wanted.contains(&call.number)));
    (calls, unreadable)
}

/// How many threads of processes, and of those that they have started, are in which call.
fn unreturned(processes: &[i32], wanted: Option<&[u32]>) -> BTreeMap<String, u64> {
    let mut all = processes.to_vec();
    all.extend(descendants(processes));
    let mut counts = BTreeMap::new();
    for call in calls_in_progress(&all, 0).0 {
        if wanted.is_none_or(|wanted| wanted.contains(&call.number)) {
            let name = decode::name_of(call.number, call.number == u32::MAX).into_owned();
            *counts.entry(name).or_default() += 1;
        }
    }
    counts
}

/// The name of a thread, unless it has ended.
fn thread_name(thread: i32) -> Option<Vec<u8>> {
    let text = std::fs::read(format!("/proc/{thread}/comm")).ok()?;
    text.strip_suffix(b"\n").map(<[u8]>::to_vec)
}

fn is_there(pid: i32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

/// Finds what is named: calls, as [`call_numbers`] has them, and events: tracepoints (`sched:sched_switch`, `block:*`) and places
/// in programs ([`Question::event`](crate::Question::event)). If only events are, no calls are.
///
/// # Errors
///
/// If there is no such call, group or event.
pub fn traced_names(words: &[String]) -> Result<(Option<Vec<u32>>, Vec<TracedEvent>), Error> {
    let words = words.iter().flat_map(|words| words.split(',')).map(str::trim);
    let (events, calls): (Vec<_>, Vec<_>) = words.partition(|word| names_event(word));
    let mut found: Vec<TracedEvent> = Vec::new();
    for word in &events {
        for event in events_of(word)? {
            if found.iter().all(|known| known.name() != event.name()) {
                found.push(event);
            }
        }
    }
    let calls: Vec<String> = calls.into_iter().map(str::to_owned).collect();
    let numbers = call_numbers(&calls)?;
    Ok((if calls.is_empty() && !found.is_empty() { Some(Vec::new()) } else { numbers }, found))
}

/// The numbers of calls by names, groups (`%file`), and these with `!` before them, which are left out; all others then
/// are in. `None` for all.
///
/// # Errors
///
/// If there is no such call or group.
pub fn call_numbers(words: &[String]) -> Result<Option<Vec<u32>>, Error> {
    let mut wanted: Option<Vec<u32>> = None;
    let mut unwanted = Vec::new();
    for word in words.iter().flat_map(|words| words.split(',')).map(str::trim) {
        let (word, is_unwanted) = match word.strip_prefix('!') {
            Some(word) => (word, true),
            None => (word, false),
        };
        let numbers = numbers_of(word)?;
        match is_unwanted {
            true => unwanted.extend(numbers),
            false => wanted.get_or_insert_default().extend(numbers),
        }
    }
    if unwanted.is_empty() {
        return Ok(wanted);
    }
    let mut wanted =
        wanted.unwrap_or_else(|| pyrograph_syscall::all().map(|(number, _)| number).collect());
    wanted.retain(|number| !unwanted.contains(number));
    Ok(Some(wanted))
}

/// The number of a call by its name.
pub fn call_number(name: &str) -> Option<u32> {
    pyrograph_syscall::number_of(name)
}

fn numbers_of(word: &str) -> Result<Vec<u32>, Error> {
    let plain = word.trim_start_matches("sys_");
    if plain == "all" {
        return Ok(pyrograph_syscall::all().map(|(number, _)| number).collect());
    }
    if let Some(numbers) = plain.strip_prefix('%').and_then(pyrograph_syscall::group) {
        return Ok(numbers);
    }
    if plain.contains(['*', '?']) {
        let matching: Vec<u32> = pyrograph_syscall::all()
            .filter(|(_, call)| pyrograph_record::matches_pattern(plain, call.name))
            .map(|(number, _)| number)
            .collect();
        if !matching.is_empty() {
            return Ok(matching);
        }
    }
    pyrograph_syscall::number_of(plain).map(|number| vec![number]).ok_or_else(|| {
        let calls = pyrograph_syscall::all().map(|(_, call)| call.name.to_owned());
        let groups = pyrograph_syscall::GROUPS.iter().map(|name| format!("%{name}"));
        let near = pyrograph_record::nearest(plain, calls.chain(groups));
        Error::UnknownCall { name: word.to_owned(), near }
    })
}
