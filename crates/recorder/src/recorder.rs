//! A recording, from a plan to a profile.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pyrograph_event::interpreter::Language;
use pyrograph_profile::Profile;
use pyrograph_record::{Child, Event, Summary, monotonic_now};
use pyrograph_resolve::{LiveFiles, Resolved, Resolver};

use crate::by_perf;
use crate::error::Error;
use crate::in_kernel;
use crate::jvm::Jvms;
use crate::lost::{Losses, add_lost};
use crate::message::Message;
use crate::plan::{Engine, Plan};

/// Takes what is reported as it happens.
pub(crate) type Report = Box<dyn FnMut(Message)>;

/// One way to take stacks.
pub(crate) trait Sampler {
    /// Does what has come up, and waits if that is nothing; returns whether the recording goes on.
    fn step(
        &mut self,
        resolver: &mut Resolver<LiveFiles>,
        report: &mut Report,
    ) -> Result<bool, Error>;

    /// Ends the recording: the steps after this take what was sampled until now.
    fn stop(&mut self);

    /// Samples that were lost until now.
    fn lost(&self) -> u64;

    /// Says when samples were lost until `now`.
    fn losses(&mut self, losses: &mut Losses, now: u64) {
        losses.look(self.lost(), now);
    }

    /// Takes what was counted until now.
    fn collect(&mut self, resolver: &mut Resolver<LiveFiles>) -> Result<(), Error>;

    /// Takes what is held at this moment, for questions about memory that is not freed.
    fn hold(&mut self, _: &mut Resolver<LiveFiles>) -> Result<(), Error> {
        Ok(())
    }

    /// From now on drops what is sampled, or no longer.
    fn set_paused(&mut self, paused: bool, resolver: &mut Resolver<LiveFiles>)
    -> Result<(), Error>;

    /// Takes what is left when the recording is over.
    fn finish(
        self: Box<Self>,
        resolver: &mut Resolver<LiveFiles>,
        report: &mut Report,
    ) -> Result<Ended, Error>;
}

/// An engine that is ready.
pub(crate) struct Opened {
    pub sampler: Box<dyn Sampler>,
    pub resolver: Resolver<LiveFiles>,
    /// The event that is open.
    pub event: Event,
    /// Samples have times of `CLOCK_MONOTONIC`.
    pub monotonic_time: bool,
}

/// Result of a recording beside its stacks.
pub(crate) struct Ended {
    pub summary: Summary,
    pub child: Option<Child>,
    /// CPU time of this process when it began, and when it ended.
    pub cpu_time: (Duration, Duration),
    /// When it began, and when it ended.
    pub span: (Instant, Instant),
    /// What is kept for the next recording.
    pub kept: Kept,
}

/// Keeps what was made for this recording and serves the next one, at the latest when it is dropped: hold it until all else is
/// done.
#[derive(Debug, Default)]
pub struct Kept {
    #[cfg(feature = "bpf")]
    #[expect(dead_code, reason = "they are there to be dropped")]
    pub(crate) threads: [Option<pyrograph_bpf::Keeping>; 2],
}

/// A recording that is ready to begin, or goes on.
///
/// Open it on a thread that lives as long as the recording.
pub struct Recorder {
    sampler: Box<dyn Sampler>,
    resolver: Resolver<LiveFiles>,
    event: Event,
    engine: Engine,
    report: Report,
    jvms: Option<Jvms>,
    goes_on: bool,
    /// When samples were lost, if samples have times of `CLOCK_MONOTONIC`.
    losses: Option<Losses>,
    /// It takes samples of an event, and no waits, calls or allocations: each stands for about as much as any other.
    is_sampled: bool,
}

/// How far a recording has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Samples until now: waits, calls and the like, where these are counted.
    pub samples: u64,
    /// Samples that were lost.
    pub lost: u64,
}

/// Result of a recording.
#[derive(Debug)]
#[non_exhaustive]
pub struct Finished {
    /// The profile, and how its stacks and names came out.
    pub resolved: Resolved,
    /// How sampling went.
    pub summary: Summary,
    /// The event that was open.
    pub event: Event,
    /// The engine that took the stacks.
    pub engine: Engine,
    /// The command, if one was started; it may still run.
    pub child: Option<Child>,
    /// CPU time of this process when it began to record, and when it ended.
    pub cpu_time: (Duration, Duration),
    /// What is kept for the next recording.
    pub kept: Kept,
}

impl Recorder {
    /// Opens what the plan needs: loads programs into the kernel or opens events. A command is started, but waits
    /// before its first instruction. `report` is called with what the user may want to know, now and during all
    /// later calls.
    ///
    /// # Errors
    ///
    /// If something is not permitted or not there, or the kernel lacks something.
    pub fn open(plan: &Plan, report: impl FnMut(Message) + 'static) -> Result<Self, Error> {
        let mut report: Report = Box::new(report);
        let (engine, opened) = open(plan, &mut report)?;
        let Opened { sampler, mut resolver, event, monotonic_time } = opened;
        let losses = (plan.keep_times && monotonic_time).then(|| Losses::new(monotonic_now()));
        let reads_methods = engine == Engine::InKernel && plan.languages.contains(&Language::Java);
        let jvms = Jvms::new(plan, &mut resolver, reads_methods);
        let is_sampled = plan.question.noun() == "sample";
        Ok(Self {
            sampler,
            resolver,
            event,
            engine,
            report,
            jvms,
            goes_on: true,
            losses,
            is_sampled,
        })
    }

    /// The engine that takes the stacks.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// The event that is open.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Takes what was sampled and what processes did since the last call, and waits for a tenth of a second at most
    /// if there is nothing to do: call it again and again, until it returns false when the recording is over. The
    /// first call starts the command.
    ///
    /// # Errors
    ///
    /// If the command cannot be run, or the kernel refuses something.
    pub fn step(&mut self) -> Result<bool, Error> {
        self.goes_on = self.goes_on && self.sampler.step(&mut self.resolver, &mut self.report)?;
        if let Some(jvms) = &mut self.jvms {
            jvms.step(&mut self.resolver, &mut self.report);
        }
        let now = monotonic_now();
        if let Some(losses) = self.losses.as_mut().filter(|losses| losses.is_due(now)) {
            self.sampler.losses(losses, now);
        }
        Ok(self.goes_on)
    }

    /// Ends the recording. What was sampled until now is taken by the steps that follow, or by [`Self::finish`].
    pub fn stop(&mut self) {
        self.sampler.stop();
    }

    /// How far it has come.
    pub fn progress(&self) -> Progress {
        Progress { samples: self.resolver.stats().samples, lost: self.sampler.lost() }
    }

    /// Samples since the last call, or since the beginning, with names, as a profile of its own.
    /// [`Self::finish`] still returns everything. Memory that is not freed is known to [`Self::take_snapshot`] and
    /// [`Self::finish`] alone.
    ///
    /// # Errors
    ///
    /// If what was counted cannot be taken out of the kernel.
    pub fn snapshot(&mut self) -> Result<Profile, Error> {
        self.sampler.collect(&mut self.resolver)?;
        Ok(self.resolver.snapshot())
    }

    /// The same, and forgets them, threads included, so that memory stays as it is however long a recording is watched.
    /// [`Self::finish`] returns what comes after that.
    ///
    /// Where memory that is not freed is asked for, each is the whole: what is held at this moment, as
    /// [`Self::finish`] returns what is held at the end.
    ///
    /// # Errors
    ///
    /// If what was counted cannot be taken out of the kernel.
    pub fn take_snapshot(&mut self) -> Result<Profile, Error> {
        self.sampler.collect(&mut self.resolver)?;
        self.sampler.hold(&mut self.resolver)?;
        Ok(self.resolver.take_collected())
    }

    /// Drops what is sampled from now on, until [`Self::resume`]; processes and their files are still followed. A
    /// wait or call that ends after that counts in full. Memory that is not freed is held whenever it was allocated.
    ///
    /// # Errors
    ///
    /// If what was counted cannot be taken out of the kernel.
    pub fn pause(&mut self) -> Result<(), Error> {
        self.sampler.set_paused(true, &mut self.resolver)
    }

    /// Goes on after [`Self::pause`].
    ///
    /// # Errors
    ///
    /// If what was counted meanwhile cannot be taken out of the kernel.
    pub fn resume(&mut self) -> Result<(), Error> {
        self.sampler.set_paused(false, &mut self.resolver)
    }

    /// Ends the recording if it goes on, names what it has found, and returns the profile.
    ///
    /// # Errors
    ///
    /// If what was counted cannot be taken out of the kernel.
    pub fn finish(mut self) -> Result<Finished, Error> {
        self.stop();
        while self.step()? {}
        let Self {
            mut sampler,
            mut resolver,
            event,
            engine,
            mut report,
            jvms,
            mut losses,
            is_sampled,
            ..
        } = self;
        if let Some(losses) = &mut losses {
            sampler.losses(losses, monotonic_now());
        }
        let mut ended = sampler.finish(&mut resolver, &mut report)?;
        if let Some((losses, gap)) = losses.as_mut().zip(ended.summary.unreported) {
            losses.add(gap.from, gap.to, gap.lost);
        }
        if let Some(jvms) = jvms {
            jvms.finish(&mut resolver, &mut report);
        }
        let (start, duration) = times(ended.span);
        if let Some(child) = &mut ended.child
            && matches!(child.try_wait(), Ok(Some(_)))
        {
            let left = still_run(resolver.descendants(child.pid()));
            if !left.is_empty() {
                report(Message::StillRun(left));
            }
        }
        report(Message::Stacks(resolver.stack_memory()));
        let mut resolved = resolver.finish();
        let sums = resolved.stats.samples != resolved.profile.samples.len() as u64;
        if is_sampled {
            add_lost(&mut resolved.profile, ended.summary.lost, losses.as_ref());
        }
        let about = &mut resolved.profile.about;
        about.start = Some(start);
        about.duration = Some(duration);
        about.host = host();
        about.lost = ended.summary.lost;
        about.sums = sums;
        let Ended { summary, child, cpu_time, kept, .. } = ended;
        Ok(Finished { resolved, summary, event, engine, child, cpu_time, kept })
    }
}

/// Those of some processes that are there, and have not only to be waited for.
fn still_run(processes: Vec<(i32, Option<Arc<str>>)>) -> Vec<(i32, String)> {
    let runs = |(pid, name): (i32, Option<Arc<str>>)| {
        // After the name, which may have any characters, comes the state (proc(5)).
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let state = stat.rsplit_once(") ")?.1.chars().next()?;
        let name = name.map_or_else(|| "?".to_owned(), |name| name.to_string());
        (!matches!(state, 'Z' | 'X')).then_some((pid, name))
    };
    processes.into_iter().filter_map(runs).collect()
}

/// Opens the engine that suits the plan.
fn open(plan: &Plan, report: &mut Report) -> Result<(Engine, Opened), Error> {
    let by_perf = |report| Ok((Engine::Perf, by_perf::open(plan, report)?));
    let needs_in_kernel = plan.needs_in_kernel();
    match plan.engine {
        Some(Engine::Perf) if needs_in_kernel => return Err(Error::NeedsInKernel),
        Some(Engine::Perf) => return by_perf(report),
        _ => {}
    }
    match in_kernel::open(plan, report)? {
        Ok(opened) => Ok((Engine::InKernel, opened)),
        Err(error) if plan.engine.is_some() || needs_in_kernel => Err(error.into()),
        Err(error) => {
            report(Message::FellBack(error));
            by_perf(report)
        }
    }
}

/// Nanoseconds from 1970 to when a recording began, and from then to its end.
fn times((begun, ended): (Instant, Instant)) -> (u64, u64) {
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (nanoseconds(now.saturating_sub(begun.elapsed())), nanoseconds(ended - begun))
}

/// The name of this machine.
fn host() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}
