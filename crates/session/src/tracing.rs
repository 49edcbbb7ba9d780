//! Tracing of system calls of a target, one line each or as counts; also of events and page faults.

mod by_ptrace;
mod decode;
mod events;
mod files;
mod in_kernel;
mod intervals;
mod lines;
mod mappings;
mod moments;
mod plan;
mod text;
mod tracer;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pyrograph_event::traced::{CallEnd, LostCalls, Traced};
use pyrograph_probe::Condition;
use pyrograph_profile::{CallCount, CallCounts, ThreadEvent};
use pyrograph_record::ptrace::{self, calls_in_progress};
use pyrograph_record::{
    Child, Event, Next, Rate, Recording, Session, StackMode, Stopper, Target, family, monotonic_now,
};

use self::decode::Decoder;
use self::events::events_of;
pub use self::events::{TracedEvent, names_event};
pub use self::intervals::CountedTime;
use self::intervals::Intervals;
pub(crate) use self::moments::{Moment, Moments, Placed};
pub use self::plan::{PageFaults, TracePlan};
use self::tracer::Tracer;
use crate::calls::call_numbers;
use crate::engine_error::EngineError;
use crate::error::Error;
use crate::lifetime::Lifetime;
use crate::values::call_filters;

/// Result of tracing.
#[derive(Debug)]
pub struct TraceEnd {
    /// Calls that could not be returned or counted.
    pub lost: LostCalls,
    /// Number of lost records of processes. Without them, stacks may be wrong.
    pub lost_records: u64,
    /// Counts of calls, if calls were counted. With intervals, those of the last one.
    pub counts: CountedTime,
    /// Calls that had not returned at the end, by name; they are in no count. Empty if calls are not counted, and for
    /// the whole machine.
    pub in_progress: BTreeMap<String, u64>,
    /// The command, if there is one whose end was not seen.
    pub child: Option<Child>,
    /// Exit code of the command, if its end was seen.
    pub exit_code: Option<u8>,
}

/// Time between two reads of calls, and of counts.
const LINES_EVERY: Duration = Duration::from_millis(50);
const COUNTS_EVERY: Duration = Duration::from_millis(500);

/// A running trace of system calls, events and page faults.
pub struct Tracing {
    tracer: Box<dyn Tracer>,
    decoder: Decoder,
    /// Events that wait for symbols, if stacks or places in code are requested.
    moments: Option<Moments<ThreadEvent>>,
    /// Recordings of the page-fault events.
    faults: Vec<Recording>,
    /// Calls that threads were in before they were traced, until they are returned.
    in_progress: Vec<ptrace::TracedCall>,
    /// Number of threads whose current call could not be read.
    unreadable: usize,
    /// Target processes, without those that they start.
    processes: Vec<i32>,
    /// Numbers of the calls to trace. `None` for all.
    calls: Option<Vec<u32>>,
    /// Calls that had not returned when counting ended, by name.
    unreturned: BTreeMap<String, u64>,
    counts: CallCounts,
    is_counted: bool,
    interval: Option<Duration>,
    intervals: Option<Intervals>,
    /// Counts of an interval, until they are returned.
    counted: Option<CountedTime>,
    /// Reason why eBPF programs do not trace, if ptrace is used.
    not_in_kernel: Option<EngineError>,
    life: Lifetime,
    elapsed: Duration,
}

impl Tracing {
    /// Prepares to trace. The first [`Self::step`] starts it, and the command: handlers of signals that are installed in
    /// between are not the command's, which is forked here.
    ///
    /// # Errors
    ///
    /// If the kernel rejects the programs and ptrace cannot be used.
    pub fn open(plan: &TracePlan) -> Result<Self, Error> {
        let mut life = Lifetime::open(&plan.scope)?;
        let processes = plan.scope.target.family(plan.scope.inherit);
        let (in_progress, unreadable) = in_progress(plan, processes.as_deref().unwrap_or_default());
        let calls = plan.calls.as_deref();
        let filters = plan.filter.as_ref().map(|of| call_filters(of, calls)).transpose()?;
        let (mut tracer, not_in_kernel) = match in_kernel::load(plan, filters, processes) {
            Ok(tracer) => (tracer, None),
            Err(error) if by_ptrace::can_trace(plan) => {
                (Box::new(by_ptrace::ByPtrace::new(plan)) as Box<dyn Tracer>, Some(error))
            }
            Err(error) => return Err(error.into()),
        };
        if not_in_kernel.is_some() {
            // ptrace reports the ends of threads itself.
            life.watch_no_process()?;
        }
        let command = life.target_command();
        let mut own = plan.scope.target.processes().unwrap_or_default();
        own.extend(command);
        let mut decoder = Decoder::new(plan);
        if !plan.counts {
            own.iter().for_each(|process| decoder.note_process(*process));
        }
        let needs_names = (plan.stacks || plan.faults.any()) && not_in_kernel.is_none();
        let moments = || Moments::open(&plan.scope, command, plan.faults.any());
        let moments = needs_names.then(moments).transpose()?;
        let faults = trace_faults(plan.faults, &mut *tracer)?;
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
            intervals: None,
            interval: plan.interval,
            counted: None,
            not_in_kernel,
            life,
            elapsed: Duration::ZERO,
        })
    }

    /// Starts tracing, and the command. The first [`Self::step`] does this if it was not done before.
    ///
    /// # Errors
    ///
    /// If the command cannot be run, or the kernel refuses an operation.
    pub fn start(&mut self) -> Result<(), Error> {
        if !self.life.start() {
            return Ok(());
        }
        self.intervals = self.interval.map(|every| Intervals::new(every, self.life.started()));
        let child = self.tracer.start(self.life.take_command(), self.life.is_command())?;
        self.life.set_child(child);
        if let Some(end) = self.tracer.end_of_lines() {
            self.life.end_in_time(|_| end());
        }
        Ok(())
    }

    /// Reason why ptrace is used, which stops a thread twice per call. `None` if eBPF programs trace.
    pub fn not_in_kernel(&self) -> Option<&EngineError> {
        self.not_in_kernel.as_ref()
    }

    /// Number of threads whose current call could not be read. Their calls are reported when they return.
    pub fn unreadable_threads(&self) -> usize {
        self.unreadable
    }

    /// Handle that ends tracing from any thread or signal handler.
    pub fn stopper(&self) -> Stopper {
        self.life.stopper()
    }

    /// Waits for a limited time, and passes what has happened since to `out`. Returns false when tracing is over.
    ///
    /// # Errors
    ///
    /// If the kernel refuses an operation, or `out` fails.
    pub fn step<E: From<Error>>(
        &mut self,
        out: &mut dyn FnMut(ThreadEvent) -> Result<(), E>,
    ) -> Result<bool, E> {
        if self.life.has_ended() {
            return Ok(false);
        }
        self.start()?;
        let every = if self.tracer.counts() { COUNTS_EVERY } else { LINES_EVERY };
        let now = Instant::now();
        let fd = self.tracer.fd();
        let tick = if fd.is_some() { now + every } else { now };
        let tick = self.intervals.as_ref().map_or(tick, |of| of.next().min(tick));
        self.life.wait(Some(tick), fd.filter(|_| !self.tracer.counts()));
        if self.tracer.is_done() {
            self.life.end();
        }
        let has_ended = self.life.has_ended();
        if has_ended {
            self.elapsed = self.life.started().elapsed();
            if self.is_counted {
                self.unreturned = unreturned(&self.processes, self.calls.as_deref());
            }
            self.tracer.stop()?;
        }
        self.take(out)?;
        if let Some(intervals) = self.intervals.as_mut().filter(|_| !has_ended)
            && let Some((elapsed, end)) = intervals.end(Instant::now())
        {
            let counts = std::mem::take(&mut self.counts).into_rows();
            self.counted = Some(CountedTime { elapsed, end: end - self.life.started(), counts });
        }
        Ok(true)
    }

    /// Returns the counts of an interval that has ended since the last call, with [`TracePlan::interval`].
    pub fn take_counted(&mut self) -> Option<CountedTime> {
        self.counted.take()
    }

    fn take<E: From<Error>>(
        &mut self,
        out: &mut dyn FnMut(ThreadEvent) -> Result<(), E>,
    ) -> Result<(), E> {
        let (decoder, counts) = (&mut self.decoder, &mut self.counts);
        let has_ended = self.life.has_ended();
        if self.tracer.counts() {
            for _ in 0..if has_ended { 2 } else { 1 } {
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
            // The eBPF programs attached to them return all the information.
            while let Next::Batch(_) = faults.next(Duration::ZERO) {}
        }
        let now = monotonic_now();
        let mut until = None;
        // Calls that arrive meanwhile are left for the next step, unless this is the last.
        for _ in 0..if has_ended { usize::MAX } else { 64 } {
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
            Some(moments) if has_ended => moments.hand_out(None, out),
            Some(moments) => moments.hand_out(Some(until.unwrap_or(0)), out),
            None => Ok(()),
        }
    }

    /// Ends tracing, and returns the result.
    pub fn finish(mut self) -> TraceEnd {
        let before = self.intervals.map_or(Duration::ZERO, |of| of.began() - self.life.started());
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
            child: self.life.into_child().or_else(|| self.tracer.take_command()),
        }
    }
}

/// Opens the events of page faults, and attaches the programs that report them.
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

/// Returns the calls that threads of processes are in before they are traced, and the number of threads whose calls
/// could not be read.
fn in_progress(plan: &TracePlan, processes: &[i32]) -> (Vec<ptrace::TracedCall>, usize) {
    // The duration of these calls is not known, nor if they fail.
    let is_filtered = plan.failed || !plan.slower.is_zero() || plan.filter.is_some();
    if plan.counts || is_filtered || plan.scope.filters.chooses() {
        return (Vec::new(), 0);
    }
    let text = u32::try_from(plan.text).unwrap_or(u32::MAX);
    let (mut calls, unreadable) = calls_in_progress(processes, text);
    calls.retain(|call| plan.calls.as_ref().is_none_or(|wanted| wanted.contains(&call.number)));
    (calls, unreadable)
}

/// Counts the threads of processes, and of their descendants, by the call that they are in.
fn unreturned(processes: &[i32], wanted: Option<&[u32]>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for call in calls_in_progress(&family(processes, true), 0).0 {
        if wanted.is_none_or(|wanted| wanted.contains(&call.number)) {
            let name = decode::name_of(call.number, call.number == u32::MAX).into_owned();
            *counts.entry(name).or_default() += 1;
        }
    }
    counts
}

/// Returns the name of a thread. `None` if it has ended.
fn thread_name(thread: i32) -> Option<Vec<u8>> {
    let text = std::fs::read(format!("/proc/{thread}/comm")).ok()?;
    text.strip_suffix(b"\n").map(<[u8]>::to_vec)
}

/// Parses names of calls, as [`call_numbers`] does, and of events: tracepoints (`sched:sched_switch`, `block:*`) and
/// places in programs ([`Question::of_event`](crate::Question::of_event)). If there are only events, the list of calls is
/// empty. `filter` leaves out events for which it is false.
///
/// # Errors
///
/// If there is no such call, group or event, or an event has not the values of the filter.
pub fn traced_names(
    words: &[String],
    filter: Option<&Condition>,
) -> Result<(Option<Vec<u32>>, Vec<TracedEvent>), Error> {
    let words = words.iter().flat_map(|words| words.split(',')).map(str::trim);
    let (events, calls): (Vec<_>, Vec<_>) = words.partition(|word| names_event(word));
    let mut found: Vec<TracedEvent> = Vec::new();
    for word in &events {
        for event in events_of(word, filter)? {
            if found.iter().all(|known| !known.is_same(&event)) {
                found.push(event);
            }
        }
    }
    let calls: Vec<String> = calls.into_iter().map(str::to_owned).collect();
    let numbers = call_numbers(&calls)?;
    Ok((if calls.is_empty() && !found.is_empty() { Some(Vec::new()) } else { numbers }, found))
}
