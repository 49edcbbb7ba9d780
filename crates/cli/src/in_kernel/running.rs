//! A recording that goes on: what is told to the programs meanwhile, and what is taken from them.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pyrograph_bpf::{End, Engine, FileKey, Question as FileQuestion, What};
use pyrograph_event::Layout;
use pyrograph_record::{Child, Next, Recording, Session, Target, Waiting, descendants};
use pyrograph_resolve::{LiveFiles, Looked, Resolver};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::adder::Adder;
use super::copies::Copies;
use super::follower::Follower;
use super::pace::Pace;
use super::{Error, InKernel, tables};
use crate::cpu_time::cpu_time;
use crate::memory::{self, Pages};
use crate::say::say;

/// How often counts are taken out of the kernel.
const DRAIN: Duration = Duration::from_millis(500);

/// How often memory is given back that is free in pieces: what comes and goes with files and their tables.
const GIVE_BACK: Duration = Duration::from_secs(10);

/// How long to wait at most for the unwind tables of what runs already. Stacks without tables are copied out
/// meanwhile; where they cannot be, it is worth more, and most where one or a few programs are recorded.
const PATIENCE: Duration = Duration::from_millis(200);
const PATIENCE_WITHOUT_COPIES: Duration = Duration::from_secs(3);
const PATIENCE_WITH_FEW: Duration = Duration::from_secs(20);

/// How long to wait for questions of the programs before looking at records and signals: before it
/// counts and when that is over, and in between. Files that the programs ask for, and the end of what is
/// recorded, are told at once.
const TICK_AT_THE_RIM: Duration = Duration::from_millis(5);
const TICK: Duration = Duration::from_millis(100);

/// A recording that goes on.
pub struct Running<'a> {
    how: &'a InKernel<'a>,
    pub engine: Engine,
    /// How often the clock ticks that triggers, if that may be too often.
    pace: Option<Pace>,
    pub recording: Recording,
    layout: Layout,
    resolver: &'a mut Resolver<LiveFiles>,
    follower: Follower,
    copies: Copies,
    /// The command, until it runs; and then.
    waiting: Option<Waiting>,
    pub child: Option<Child>,
    opened: Instant,
    /// How many tables were asked for by what ran already.
    first: Option<usize>,
    pub begun: Option<Instant>,
    stopped: bool,
    drained: Instant,
    /// The time of the clock of copies until which the next drain has counts.
    counted_until: u64,
    given_back: Instant,
    pages: Pages,
    /// CPU time of this process until counting began.
    pub prepared: Duration,
}

impl<'a> Running<'a> {
    /// Attaches the programs, which count nothing yet.
    pub fn prepare(
        how: &'a InKernel<'a>,
        mut engine: Engine,
        session: Session,
        waiting: Option<Waiting>,
        resolver: &'a mut Resolver<LiveFiles>,
    ) -> Result<Self, Error> {
        engine.trigger(session.events())?;
        let period = session.tick();
        if let Some(period) = period {
            engine.expect_clock(period);
        }
        let pace = period
            .zip(session.interrupt())
            .map(|(period, interrupt)| Pace::new(period, interrupt, session.pacer()));
        engine.follow()?;
        // Those that started before their parents were followed.
        if let (Target::Processes(pids), true) = (how.target, how.inherit) {
            descendants(pids).into_iter().try_for_each(|pid| engine.add_target(pid))?;
        }
        let layout = session.layout();
        let recording = session.start()?;
        let now = Instant::now();
        Ok(Self {
            follower: Follower::new(how.target, how.inherit),
            copies: Copies::default(),
            how,
            engine,
            pace,
            recording,
            layout,
            resolver,
            waiting,
            child: None,
            opened: now,
            first: None,
            begun: None,
            stopped: false,
            drained: now,
            counted_until: 0,
            given_back: now,
            pages: Pages::new(),
            prepared: Duration::ZERO,
        })
    }

    /// Waits until there is something to do, and does what came up; returns whether the recording goes on.
    pub fn step(&mut self) -> Result<bool, Error> {
        self.wait();
        // Files that nobody has seen before are looked at as soon as code in them is met.
        for question in self.engine.questions()? {
            answer(&question, &mut self.engine, self.resolver);
        }
        self.copies.receive(&mut self.engine, self.resolver)?;
        let goes_on = self.take_records()?;
        tell_files(&mut self.engine, self.resolver);
        // Tables are made of whole files, which are not needed afterwards.
        self.pages.keep_few(|| self.resolver.give_pages_back());
        if self.resolver.has_timed_code() {
            self.engine.tell_times();
        }
        if !goes_on {
            return Ok(false);
        }
        if self.begun.is_none() && self.is_ready() {
            self.begin()?;
        }
        if !self.stopped && self.is_over() {
            self.engine.stop()?;
            self.recording.stopper().stop();
            self.stopped = true;
        }
        if let Some(pace) = &mut self.pace {
            pace.keep(&mut self.engine);
        }
        if self.drained.elapsed() >= DRAIN {
            self.drain()?;
        }
        Ok(true)
    }

    /// Sleeps until a file is asked for, one of those that were asked for ends, a signal comes, or a tick is
    /// over.
    fn wait(&self) {
        let tick = match (self.begun, self.how.duration) {
            _ if self.stopped => TICK_AT_THE_RIM,
            (None, _) => TICK_AT_THE_RIM,
            (Some(_), None) => TICK,
            (Some(at), Some(limit)) => limit.saturating_sub(at.elapsed()).min(TICK),
        };
        // All are below a second.
        let timeout = Timespec { tv_sec: 0, tv_nsec: tick.subsec_nanos().into() };
        let rings = [self.engine.questions_fd(), self.engine.copies_fd()];
        let fds = rings.into_iter().chain(self.follower.ends());
        let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // A signal wakes it, too; what else can fail does not matter: then it looks too early.
        let _ = poll(&mut fds, Some(&timeout));
    }

    /// Takes what the kernel has told of processes; returns whether there can be more.
    fn take_records(&mut self) -> Result<bool, Error> {
        loop {
            match self.recording.next(Duration::ZERO) {
                Next::Waiting => {
                    self.copies.unwind_settled(&mut self.engine, self.resolver)?;
                    return Ok(true);
                }
                Next::End => return Ok(false),
                Next::Batch(batch) => {
                    for record in batch.iter() {
                        // Stacks are unwound with the mappings that were there when they were copied.
                        let time = self.layout.time(record).unwrap_or(0);
                        self.copies.unwind_until(time, &mut self.engine, self.resolver)?;
                        match self.layout.decode(record) {
                            Ok(record) => self.follower.record(&record, self.resolver),
                            Err(_) => self.resolver.unreadable(),
                        }
                    }
                    self.follower.tell(&mut self.engine);
                }
            }
        }
    }

    /// Whether the tables are made of what ran already, of which the first records tell; or have taken too
    /// long.
    fn is_ready(&mut self) -> bool {
        let patience = match self.how.target {
            _ if self.engine.copies_stacks() => PATIENCE,
            Target::System => PATIENCE_WITHOUT_COPIES,
            Target::Processes(_) | Target::Command(_) => PATIENCE_WITH_FEW,
        };
        let (asked, made) = self.engine.tables();
        made >= *self.first.get_or_insert(asked) || self.opened.elapsed() > patience
    }

    /// Begins to count, and lets the command go.
    fn begin(&mut self) -> Result<(), Error> {
        if let (Target::Command(_), Some(command)) = (self.how.target, &self.waiting) {
            self.engine.expect_command(command.pid());
            self.follower.add_command(command.pid());
        }
        if let Some(duration) = self.how.duration {
            self.engine.end_after(duration);
        }
        self.engine.start()?;
        self.prepared = cpu_time();
        self.begun = Some(Instant::now());
        if self.how.verbose {
            say!("recording; {}", tables(&self.engine));
        }
        self.child = self.waiting.take().map(Waiting::run).transpose()?;
        if let Some(child) = &self.child {
            self.follower.watch(child.pid());
        }
        let beside = self.follower.beside().and_then(|fd| fd.try_clone_to_owned().ok());
        if beside.is_some() || self.how.duration.is_some() {
            end_in_time(self.engine.end(), beside, self.how.duration);
        }
        Ok(())
    }

    /// Whether it has gone on for long enough, or there is nobody left to record.
    fn is_over(&mut self) -> bool {
        let over =
            self.how.duration.zip(self.begun).is_some_and(|(limit, at)| at.elapsed() >= limit);
        // If it cannot be waited for, nobody will tell when it has ended.
        let has_ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        over || (self.how.interrupted)()
            || self.follower.all_gone()
            || self.child.as_mut().is_some_and(has_ended)
    }

    fn drain(&mut self) -> Result<(), Error> {
        // What is taken now was counted before the last time: its stacks have to be known.
        self.copies.receive(&mut self.engine, self.resolver)?;
        let last = std::mem::replace(&mut self.counted_until, Engine::now());
        self.copies.unwind_until(last, &mut self.engine, self.resolver)?;
        let mut adder = Adder { resolver: self.resolver, returned: self.how.returned };
        self.engine.drain(&mut |counted| adder.add(counted))?;
        self.drained = Instant::now();
        if self.resolver.settle() || self.given_back.elapsed() >= GIVE_BACK {
            memory::give_back();
            self.given_back = self.drained;
        }
        Ok(())
    }

    /// Takes what is left when the recording is over.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.engine.stop()?;
        self.copies.receive(&mut self.engine, self.resolver)?;
        self.copies.unwind_until(u64::MAX, &mut self.engine, self.resolver)?;
        // Each call takes what was counted before the one before.
        self.drain()?;
        self.drain()?;
        let mut adder = Adder { resolver: self.resolver, returned: self.how.returned };
        self.engine.unfinished(&mut |counted| adder.add(counted))?;
        self.engine.held(&mut |counted| adder.add(counted))?;
        Ok(())
    }

    /// Samples until now.
    pub fn samples(&self) -> u64 {
        self.resolver.stats().samples
    }
}

/// Ends counting when the command ends that says for how long to record, or after a time, however busy the thread is
/// that takes the counts. That thread finds the same when it comes to it, and has more to do then.
fn end_in_time(end: Arc<End>, beside: Option<OwnedFd>, after: Option<Duration>) {
    let at = after.map(|after| Instant::now() + after);
    let wait = move || {
        loop {
            let left = at.map(|at| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                break;
            }
            let timeout = left.and_then(|left| Timespec::try_from(left).ok());
            let mut fds: Vec<_> = beside.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
            if poll(&mut fds, timeout.as_ref()).is_ok_and(|ready| ready > 0) {
                break;
            }
        }
        // If it fails, it fails again where the error is reported.
        end.end().ok();
    };
    // Without a thread it ends as soon as somebody looks.
    thread::Builder::new().name("end".to_owned()).spawn(wait).ok();
}

/// Looks at a file that the programs have met.
fn answer(question: &FileQuestion, engine: &mut Engine, resolver: &mut Resolver<LiveFiles>) {
    let FileQuestion { pid, range, .. } = question;
    let link = match range.is_empty() {
        true => format!("/proc/{pid}/exe"),
        false => format!("/proc/{pid}/map_files/{:x}-{:x}", range.start, range.end),
    };
    let looked = match std::fs::read_link(link) {
        Ok(path) => resolver.look_at(*pid, range.clone(), &path.to_string_lossy()),
        Err(_) => Looked::Gone,
    };
    match looked {
        Looked::File(file) => {
            engine.answer(question, Some((What::Module(file.module), file.unwind.as_ref())));
        }
        Looked::Anonymous => engine.answer(question, Some((What::Anonymous, None))),
        Looked::Gone => engine.answer(question, None),
    }
}

/// Tells the programs of files that were opened meanwhile.
pub fn tell_files(engine: &mut Engine, resolver: &mut Resolver<LiveFiles>) {
    for file in resolver.opened_files() {
        let key = file.key.map_or(FileKey::VDSO, |key| {
            let device = (libc::major(key.device), libc::minor(key.device));
            FileKey::new(device, key.inode, key.size, key.changed)
        });
        engine.add_file(key, file.module, file.unwind.as_ref());
    }
}
