//! Recording with `perf_event_open`: the kernel copies samples out, which are unwound in user space.

use std::time::{Duration, Instant};

use pyrograph_event::{Layout, Record};
use pyrograph_record::{Child, Next, Recording, Session, Stopper, Waiting};
use pyrograph_resolve::{LiveFiles, Options, Resolver};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::cpu_time::cpu_time;
use crate::error::Error;
use crate::lost::Losses;
use crate::memory::{self, Resident};
use crate::message::{Message, Report};
use crate::plan::{Engine, Plan};
use crate::sampler::{Ended, Kept, Opened, Sampler};

/// Maximum time that a step waits for records.
const TICK: Duration = Duration::from_millis(50);

/// A recording by copied samples.
struct ByPerf {
    layout: Layout,
    stopper: Stopper,
    /// The session, until the first step.
    session: Option<Session>,
    /// The command that runs beside the target, until the first step.
    waiting: Option<Waiting>,
    running: Option<Running>,
    /// True while samples are dropped.
    paused: bool,
    /// Samples before this time are dropped, since they were taken in the pause but read later. In the samples' clock;
    /// 0 if that is not `CLOCK_MONOTONIC`.
    resumed: u64,
    /// True if samples have times of `CLOCK_MONOTONIC`.
    monotonic_time: bool,
}

struct Running {
    recording: Recording,
    beside: Option<Child>,
    began: Instant,
    /// CPU time of this process until the start.
    prepared: Duration,
    ended: Option<Instant>,
}

/// Opens the events.
pub(crate) fn open(plan: &Plan, report: &mut Report) -> Result<Opened, Error> {
    report(Message::Engine(Engine::Perf));
    // The child is forked before limits are raised, so that it has the limits of its user.
    let beside = plan.scope.beside.as_ref();
    let waiting = beside.map(|argv| Waiting::fork(argv, &plan.scope.launch)).transpose()?;
    let session = Session::open(&plan.events())?;
    session.notices().iter().for_each(|notice| report(Message::Notice(notice.clone())));
    let event = session.event().clone();
    let monotonic_time = session.has_monotonic_time();
    let options = Options { monotonic_time, ..plan.resolve_options(&event) };
    let sampler = ByPerf {
        layout: session.layout(),
        stopper: session.stopper(),
        session: Some(session),
        waiting,
        running: None,
        paused: false,
        resumed: 0,
        monotonic_time,
    };
    let resolver = Resolver::new(LiveFiles, options);
    Ok(Opened { sampler: Box::new(sampler), resolver, event, monotonic_time })
}

impl ByPerf {
    /// Starts the commands and the sampling, unless they are started.
    fn running(&mut self) -> Result<&mut Running, Error> {
        if let Some(session) = self.session.take() {
            let recording = session.start()?;
            let beside = self.waiting.take().map(Waiting::run).transpose()?;
            if let Some(child) = &beside {
                stop_with(child.pid(), self.stopper.clone());
            }
            let (began, prepared) = (Instant::now(), cpu_time());
            self.running = Some(Running { recording, beside, began, prepared, ended: None });
        }
        self.running.as_mut().ok_or(Error::NotStarted)
    }
}

impl Sampler for ByPerf {
    fn step(&mut self, resolver: &mut Resolver<LiveFiles>, _: &mut Report) -> Result<bool, Error> {
        let (layout, paused, resumed) = (self.layout, self.paused, self.resumed);
        let running = self.running()?;
        match running.recording.next(TICK) {
            Next::End => {
                running.ended.get_or_insert_with(Instant::now);
                return Ok(false);
            }
            Next::Waiting => {}
            Next::Batch(batch) => {
                for record in batch.iter() {
                    match layout.decode(record) {
                        Ok(Record::Sample(_))
                            if paused || layout.time(record).is_some_and(|time| time < resumed) => {
                        }
                        Ok(record) => resolver.record(&record),
                        Err(_) => resolver.unreadable(),
                    }
                }
                if resolver.settle() {
                    memory::give_back();
                }
            }
        }
        Ok(true)
    }

    fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    fn lost(&self) -> u64 {
        self.running.as_ref().map_or(0, |running| running.recording.lost())
    }

    /// The times are in the kernel's LOST records, which arrive after the losses.
    fn losses(&mut self, losses: &mut Losses, now: u64) {
        losses.looked(now);
        let gaps = self.running.as_mut().map(|running| running.recording.take_gaps());
        gaps.into_iter().flatten().for_each(|gap| losses.add(gap.from, gap.to, gap.lost));
    }

    fn collect(&mut self, _: &mut Resolver<LiveFiles>) -> Result<(), Error> {
        Ok(())
    }

    fn set_paused(&mut self, paused: bool, _: &mut Resolver<LiveFiles>) -> Result<(), Error> {
        if self.paused && !paused && self.monotonic_time {
            self.resumed = pyrograph_record::monotonic_now();
        }
        self.paused = paused;
        Ok(())
    }

    fn finish(
        self: Box<Self>,
        resolver: &mut Resolver<LiveFiles>,
        report: &mut Report,
    ) -> Result<Ended, Error> {
        let interpreters = resolver.sampled_interpreters();
        if !interpreters.is_empty() {
            report(Message::InterpretersNotRead(interpreters));
        }
        let running = self.running.ok_or(Error::NotStarted)?;
        let Running { mut recording, beside, began, prepared, ended } = running;
        recording.notices().iter().for_each(|notice| report(Message::Notice(notice.clone())));
        report(Message::Memory(Resident::now()));
        let child = recording.take_child().or(beside);
        let (summary, cpu_time) = (recording.finish(), (prepared, cpu_time()));
        let span = (began, ended.unwrap_or_else(Instant::now));
        Ok(Ended { summary, child, cpu_time, span, kept: Kept::default() })
    }
}

/// Stops a recording as soon as a child ends, even if the current thread is busy.
fn stop_with(pid: i32, stopper: Stopper) {
    let wait = move || {
        if let Some(pid) = Pid::from_raw(pid) {
            // The recording ends even if this fails. With NOWAIT the parent can still reap the child.
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        }
        stopper.stop();
    };
    // If no thread can be created, the recording ends after its duration, or when it is stopped.
    std::thread::Builder::new().name("child".to_owned()).spawn(wait).ok();
}
