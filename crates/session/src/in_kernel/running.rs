//! A running recording: gives the programs files and processes, and takes their counts.

use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use pyrograph_bpf::{Counted, Engine};
use pyrograph_event::Layout;
use pyrograph_record::{
    Child, Next, Notice, Recording, Session, Stopper, Summary, Target, Waiting, Watch, descendants,
};
use pyrograph_resolve::{LiveFiles, Resolver};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::copies::Copies;
use super::feed::{add_files, answer};
use super::follower::{Follower, mapped_file};
use super::labels::Labels;
use super::pace::Pace;
use super::report::{engine_report, interpreters_left_out, left_out, values_left_out};
use crate::cpu_time::cpu_time;
use crate::error::Error;
use crate::malloc;
use crate::memory::{self, Pages};
use crate::message::{Message, Report};
use crate::plan::Plan;
use crate::sampler::{Ended, Kept, Sampler};

/// Time between two reads of the counts.
const DRAIN: Duration = Duration::from_millis(500);

/// Time between two calls that return free memory between smaller blocks, which comes and goes with files and their
/// tables.
const GIVE_BACK: Duration = Duration::from_secs(10);

/// Maximum time to wait for the unwind tables of processes that already run. Meanwhile, stacks without tables are
/// copied out, but without the calls of interpreters. If stacks cannot be copied, waiting is worth more, most of all if
/// one or a few programs are recorded.
const PATIENCE: Duration = Duration::from_millis(200);
const PATIENCE_WITH_PROCESSES: Duration = Duration::from_secs(2);
const PATIENCE_WITHOUT_COPIES: Duration = Duration::from_secs(3);
const PATIENCE_WITH_FEW: Duration = Duration::from_secs(20);

/// Maximum time to wait for questions of the programs before records and signals are handled: before counting begins
/// and after it has ended (`AT_THE_RIM`), and in between. Files that the programs ask for, and the end of the target,
/// end the wait at once.
const TICK_AT_THE_RIM: Duration = Duration::from_millis(5);
const TICK: Duration = Duration::from_millis(100);

/// A running recording.
pub struct Running {
    target: Target,
    duration: Option<Duration>,
    labels: Labels,
    engine: Engine,
    /// Lowers the clock rate, if the trigger is a clock whose rate may be too high.
    pace: Option<Pace>,
    recording: Recording,
    layout: Layout,
    follower: Follower,
    copies: Copies,
    /// The command, until it runs (`waiting`) and from then on (`child`).
    waiting: Option<Waiting>,
    child: Option<Child>,
    opened: Instant,
    /// Number of tables that were requested for processes that already ran.
    first: Option<usize>,
    begun: Option<Instant>,
    stopper: Stopper,
    stopped: bool,
    /// True while counts are dropped.
    paused: bool,
    drained: Instant,
    /// Time, in the clock of stack copies, up to which the next drain has counts.
    counted_until: u64,
    given_back: Instant,
    pages: Pages,
    /// CPU time of this process until counting began.
    prepared: Duration,
}

impl Running {
    /// Attaches the programs, which do not count yet.
    pub fn prepare(
        plan: &Plan,
        mut engine: Engine,
        session: Session,
        waiting: Option<Waiting>,
    ) -> Result<Self, Error> {
        engine.trigger(session.events())?;
        let period = session.tick();
        if let Some(period) = period {
            engine.set_period(period);
        }
        let pace = period
            .zip(session.interrupt())
            .map(|(period, interrupt)| Pace::new(period, interrupt, session.pacer()));
        engine.follow()?;
        // Processes that started before their parents were followed.
        if let (Target::Processes(pids), true) = (&plan.scope.target, plan.scope.inherit) {
            descendants(pids).into_iter().try_for_each(|pid| engine.add_target(pid))?;
        }
        let layout = session.layout();
        let recording = session.start()?;
        let now = Instant::now();
        Ok(Self {
            follower: Follower::new(&plan.scope.target, plan.scope.inherit),
            target: plan.scope.target.clone(),
            duration: plan.scope.duration,
            labels: Labels::new(&plan.question),
            copies: Copies::new(plan.scope.cache.clone()),
            engine,
            pace,
            recording,
            layout,
            waiting,
            child: None,
            opened: now,
            first: None,
            begun: None,
            stopper: Stopper::new()?,
            stopped: false,
            paused: false,
            drained: now,
            counted_until: 0,
            given_back: now,
            pages: Pages::default(),
            prepared: Duration::ZERO,
        })
    }

    /// Waits until the programs ask for a file, a target process ends, a signal arrives, or the time is over.
    fn wait(&self) {
        let tick = match (self.begun, self.duration) {
            _ if self.stopped => TICK_AT_THE_RIM,
            (None, _) => TICK_AT_THE_RIM,
            // A program that begins may call other functions for memory.
            _ if self.engine.records_allocations() => TICK_AT_THE_RIM,
            (Some(_), None) => TICK,
            (Some(at), Some(limit)) => limit.saturating_sub(at.elapsed()).min(TICK),
        };
        // All ticks are below a second.
        let timeout = Timespec { tv_sec: 0, tv_nsec: tick.subsec_nanos().into() };
        let rings = [self.engine.questions_fd(), self.engine.copies_fd()];
        // Until it has stopped.
        let stopper = (!self.stopped).then(|| self.stopper.as_fd());
        let fds = rings.into_iter().chain(self.follower.ends()).chain(stopper);
        let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // A signal ends the wait, too. Other errors do not matter: the wait only ends too early.
        let _ = poll(&mut fds, Some(&timeout));
    }

    /// Takes the kernel's records of processes. Returns true if there can be more.
    fn take_records(&mut self, resolver: &mut Resolver<LiveFiles>) -> Result<bool, Error> {
        for line in self.engine.command_lines()? {
            resolver.add_command_line(line.pid, line.time, &line.words);
        }
        loop {
            match self.recording.next(Duration::ZERO) {
                Next::Waiting => {
                    self.copies.unwind_settled(&mut self.engine, resolver)?;
                    return Ok(true);
                }
                Next::End => return Ok(false),
                Next::Batch(batch) => {
                    for record in batch.iter() {
                        // Stacks are unwound with the mappings at the time when they were copied.
                        let time = self.layout.time(record).unwrap_or(0);
                        self.copies.unwind_until(time, &mut self.engine, resolver)?;
                        match self.layout.decode(record) {
                            Ok(record) => {
                                if self.follower.record(&record, resolver)
                                    && self.engine.records_allocations()
                                    && let Some(path) = mapped_file(&record)
                                    && !malloc::is_loader(&path)
                                {
                                    self.engine.look_for_allocators(&path);
                                }
                            }
                            Err(_) => resolver.unreadable(),
                        }
                    }
                    self.follower.forget_gone(&mut self.engine);
                }
            }
        }
    }

    /// Returns true if the tables for processes that already run are made, as far as the first records list them, or if
    /// that has taken too long.
    fn is_ready(&mut self) -> bool {
        let patience = match self.target {
            Target::Processes(_) if self.engine.copies_stacks() => PATIENCE_WITH_PROCESSES,
            _ if self.engine.copies_stacks() => PATIENCE,
            Target::System => PATIENCE_WITHOUT_COPIES,
            Target::Processes(_) | Target::Command(_) => PATIENCE_WITH_FEW,
        };
        let (asked, made) = self.engine.tables();
        made >= *self.first.get_or_insert(asked) || self.opened.elapsed() > patience
    }

    /// Starts counting, and runs the command.
    fn begin(&mut self, report: &mut Report) -> Result<(), Error> {
        if let (Target::Command(_), Some(command)) = (&self.target, &self.waiting) {
            self.engine.expect_command(command.pid());
            self.follower.add_command(command.pid());
        }
        if let Some(duration) = self.duration {
            self.engine.end_after(duration);
        }
        self.engine.start()?;
        self.prepared = cpu_time();
        self.begun = Some(Instant::now());
        report(Message::Started(self.engine.table_stats()));
        // Before the command runs, since it may end before this thread has the CPU again.
        if let Some(waiting) = &self.waiting {
            self.follower.watch(waiting.pid());
        }
        self.end_in_time()?;
        self.child = self.waiting.take().map(Waiting::run).transpose()?;
        Ok(())
    }

    /// Arranges that counting ends in time: when the command beside the target ends, or after the duration. It is done
    /// on another thread, since the thread that takes the counts may be busy then.
    fn end_in_time(&self) -> Result<(), Error> {
        let beside = self.waiting.as_ref().filter(|_| !matches!(self.target, Target::Command(_)));
        if beside.is_none() && self.duration.is_none() {
            return Ok(());
        }
        let mut watch = Watch::new()?;
        if let Some(command) = beside {
            watch.child(command.pid());
        }
        let end = self.engine.end();
        // If this fails, it fails again in a place where the error is reported.
        watch.end_in_time(self.duration.map(|after| Instant::now() + after), move |_| {
            end.end().ok();
        });
        Ok(())
    }

    /// Returns true if the duration is over, a stop was requested, or there is no target left.
    fn is_over(&mut self) -> bool {
        let over = self.duration.zip(self.begun).is_some_and(|(limit, at)| at.elapsed() >= limit);
        // If waiting for the child fails, its end can never be detected.
        let has_ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        over || self.stopper.is_asked()
            || self.follower.all_gone()
            || self.child.as_mut().is_some_and(has_ended)
    }

    fn drain(&mut self, resolver: &mut Resolver<LiveFiles>) -> Result<(), Error> {
        // The counts that are taken now may refer to stacks from before the last drain, which must have been unwound.
        self.copies.receive(&mut self.engine, resolver)?;
        let last = std::mem::replace(&mut self.counted_until, Engine::now());
        self.copies.unwind_until(last, &mut self.engine, resolver)?;
        self.name_functions(resolver)?;
        let paused = self.paused;
        let mut add = adder(&self.labels, resolver);
        self.engine.drain(&mut |counted| {
            if !paused {
                add(counted)
            }
        })?;
        drop(add);
        self.drained = Instant::now();
        if resolver.settle() || self.given_back.elapsed() >= GIVE_BACK {
            memory::give_back();
            self.given_back = self.drained;
        }
        Ok(())
    }

    /// Takes all counts until now.
    fn drain_until_now(&mut self, resolver: &mut Resolver<LiveFiles>) -> Result<(), Error> {
        // Each call takes the counts from before the previous call. Counting that is in progress takes microseconds.
        self.drain(resolver)?;
        thread::sleep(Duration::from_millis(2));
        self.copies.receive(&mut self.engine, resolver)?;
        self.copies.unwind_until(self.counted_until, &mut self.engine, resolver)?;
        self.copies.unwind_rest(&mut self.engine, resolver)?;
        self.drain(resolver)
    }

    /// Names the functions of interpreters that stacks contain.
    fn name_functions(&mut self, resolver: &mut Resolver<LiveFiles>) -> Result<(), Error> {
        for function in self.engine.functions()? {
            resolver.add_function(&function);
        }
        Ok(())
    }

    /// Takes the remaining counts after the end of the recording.
    fn drain_all(&mut self, resolver: &mut Resolver<LiveFiles>) -> Result<(), Error> {
        self.engine.stop()?;
        self.copies.receive(&mut self.engine, resolver)?;
        self.copies.unwind_until(u64::MAX, &mut self.engine, resolver)?;
        self.copies.unwind_rest(&mut self.engine, resolver)?;
        // Each call takes the counts from before the previous call.
        self.drain(resolver)?;
        self.drain(resolver)?;
        self.name_functions(resolver)?;
        let mut add = adder(&self.labels, resolver);
        if !self.paused {
            self.engine.unfinished(&mut add)?;
        }
        self.engine.held(&mut add)?;
        Ok(())
    }
}

impl Sampler for Running {
    fn step(
        &mut self,
        resolver: &mut Resolver<LiveFiles>,
        report: &mut Report,
    ) -> Result<bool, Error> {
        self.wait();
        // New files are opened as soon as a stack reaches code in them.
        for question in self.engine.questions()? {
            answer(&question, &mut self.engine, resolver);
        }
        self.copies.receive(&mut self.engine, resolver)?;
        let goes_on = self.take_records(resolver)?;
        add_files(&mut self.engine, resolver);
        for interpreter in resolver.found_interpreters() {
            report(Message::Interpreter(interpreter));
        }
        // Making a table reads the whole file, whose pages are not needed afterwards.
        self.pages.keep_few(|| resolver.give_pages_back());
        if resolver.has_timed_code() {
            self.engine.keep_times();
        }
        if !goes_on {
            return Ok(false);
        }
        if self.begun.is_none() && self.is_ready() {
            self.begin(report)?;
        }
        if !self.stopped && self.is_over() {
            self.engine.stop()?;
            self.recording.stopper().stop();
            self.stopped = true;
        }
        if let Some(notice) = self.pace.as_mut().and_then(|pace| pace.keep(&mut self.engine)) {
            report(Message::Notice(notice));
        }
        if self.drained.elapsed() >= DRAIN {
            self.drain(resolver)?;
        }
        Ok(true)
    }

    fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    fn lost(&self) -> u64 {
        self.engine.stats().lost.total()
    }

    fn collect(&mut self, resolver: &mut Resolver<LiveFiles>) -> Result<(), Error> {
        self.drain_until_now(resolver)
    }

    fn hold(&mut self, resolver: &mut Resolver<LiveFiles>) -> Result<(), Error> {
        let mut add = adder(&self.labels, resolver);
        Ok(self.engine.held(&mut add)?)
    }

    fn set_paused(
        &mut self,
        paused: bool,
        resolver: &mut Resolver<LiveFiles>,
    ) -> Result<(), Error> {
        if paused != self.paused {
            self.drain_until_now(resolver)?;
            self.paused = paused;
        }
        Ok(())
    }

    fn finish(
        mut self: Box<Self>,
        resolver: &mut Resolver<LiveFiles>,
        report: &mut Report,
    ) -> Result<Ended, Error> {
        self.drain_all(resolver)?;
        let ended = self.engine.end().at().unwrap_or_else(Instant::now);
        let Self { mut engine, recording, child, prepared, begun, copies, .. } = *self;
        report(Message::InKernel(engine_report(&engine)));
        values_left_out(&engine).into_iter().for_each(&mut *report);
        let left_out = [left_out(&engine, resolver), interpreters_left_out(&engine)];
        left_out.into_iter().flatten().for_each(&mut *report);
        let cpu_time = (prepared, cpu_time());
        let summary = summary(recording, &engine, report);
        let kept = Kept { threads: [engine.keeping(), copies.keep()] };
        let span = (begun.unwrap_or(ended), ended);
        Ok(Ended { summary, child, cpu_time, span, kept })
    }
}

fn summary(recording: Recording, engine: &Engine, report: &mut Report) -> Summary {
    for notice in recording.notices() {
        // These processes were just ending. The programs look up mappings themselves.
        if !matches!(notice, Notice::ProcessesUnreadable { .. }) {
            report(Message::Notice(notice.clone()));
        }
    }
    let mut summary = recording.finish();
    let stats = engine.stats();
    summary.lost = summary.lost.saturating_add(stats.lost.total());
    // It concerns records of processes, and not samples.
    summary.unreported = None;
    summary.skipped = stats.skipped;
    summary.skipped_time = Some(stats.skipped_time);
    summary
}

/// Returns a function that adds counts to a profile.
fn adder(labels: &Labels, resolver: &mut Resolver<LiveFiles>) -> impl FnMut(Counted<'_>) {
    move |counted| {
        let (leaf, root) = (labels.leaf(counted.kind), labels.root(counted.by));
        resolver.counted(counted, &leaf, root.as_deref());
    }
}
