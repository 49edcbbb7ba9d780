//! Recordings, from a plan to a profile.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pyrograph_event::interpreter::Language;
use pyrograph_event::proc_text;
use pyrograph_event::request::Trigger;
use pyrograph_profile::Profile;
use pyrograph_record::{Child, Event, Stopper, Summary, monotonic_now};
use pyrograph_resolve::{LiveFiles, Resolved, Resolver};

use crate::by_perf;
use crate::error::Error;
use crate::goroutines::remove_those_of_runtime;
use crate::in_kernel;
use crate::jvm::Jvms;
use crate::lost::{Losses, add_lost};
use crate::message::{Message, Report};
use crate::plan::{Engine, Plan};
use crate::sampler::{Ended, Kept, Opened, Sampler};

/// A recording that is ready to start, or is running.
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
    /// Times at which samples were lost, if samples have times of `CLOCK_MONOTONIC`.
    losses: Option<Losses>,
    /// True for samples of an event; false for waits, calls or allocations. Only samples represent about equal values,
    /// so that a value can be assigned to lost ones.
    is_sampled: bool,
    /// True if waits of goroutines are recorded: those of Go's runtime are left out.
    of_goroutines: bool,
    /// Name of the target, for the profile's metadata.
    title: String,
}

/// Progress of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Number of samples until now, or of the waits, calls and so on that are counted.
    pub samples: u64,
    /// Number of lost samples.
    pub lost: u64,
}

/// Result of a recording.
#[derive(Debug)]
#[non_exhaustive]
pub struct Finished {
    /// The profile, and statistics about its stacks and names.
    pub resolved: Resolved,
    /// Statistics of the sampling.
    pub summary: Summary,
    /// The event that was opened.
    pub event: Event,
    /// The engine that took the stacks.
    pub engine: Engine,
    /// The command, if one was started; it may still run.
    pub child: Option<Child>,
    /// CPU time of this process at the beginning and at the end of the recording.
    pub cpu_time: (Duration, Duration),
    /// Guard for results that are kept for the next recording.
    pub kept: Kept,
}

/// Carries out a plan: records until the target ends, or the plan's duration is over. [`Recorder`] does the same step by
/// step, and reports messages.
///
/// # Errors
///
/// As [`Recorder::open`], [`Recorder::step`] and [`Recorder::finish`].
pub fn record(plan: &Plan) -> Result<Finished, Error> {
    let mut recorder = Recorder::open(plan, |_| {})?;
    while recorder.step()? {}
    recorder.finish()
}

impl Recorder {
    /// Prepares what the plan needs: loads programs into the kernel, or opens events. A command is forked, but waits
    /// before its first instruction. `report` is called with messages for the user, now and during all later calls.
    ///
    /// # Errors
    ///
    /// If something is not permitted or does not exist, or the kernel lacks a feature.
    pub fn open(plan: &Plan, report: impl FnMut(Message) + 'static) -> Result<Self, Error> {
        let mut report: Report = Box::new(report);
        let (engine, opened) = open(plan, &mut report)?;
        let Opened { sampler, mut resolver, event, monotonic_time } = opened;
        let losses = (plan.keep_times && monotonic_time).then(|| Losses::new(monotonic_now()));
        let reads_methods = engine == Engine::InKernel && plan.languages.contains(&Language::Java);
        let jvms = Jvms::new(plan, &mut resolver, reads_methods);
        let is_sampled = plan.question.noun() == "sample";
        let of_goroutines = matches!(plan.question.trigger(), Trigger::Goroutines { .. });
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
            of_goroutines,
            title: plan.scope.target.title(),
        })
    }

    /// The engine that takes the stacks.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// The event that was opened.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Takes the samples and the records of processes since the last call. If there are none, waits for at most a tenth
    /// of a second. Call it repeatedly until it returns false, when the recording is over. The first call starts the
    /// command.
    ///
    /// # Errors
    ///
    /// If the command cannot be run, or the kernel refuses an operation.
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

    /// Ends the recording. Samples until now are taken by the following steps, or by [`Self::finish`].
    pub fn stop(&mut self) {
        self.stopper().stop();
    }

    /// Handle that ends the recording, as [`Self::stop`] does, from any thread or signal handler.
    pub fn stopper(&self) -> Stopper {
        self.sampler.stopper()
    }

    /// Progress of the recording.
    pub fn progress(&self) -> Progress {
        Progress { samples: self.resolver.stats().samples, lost: self.sampler.lost() }
    }

    /// Returns the samples since the last call, or since the beginning, with names, as a separate profile.
    /// [`Self::finish`] still returns everything. Memory that is not freed is reported by [`Self::take_snapshot`] and
    /// [`Self::finish`] only.
    ///
    /// # Errors
    ///
    /// If the counts cannot be read from the kernel.
    pub fn snapshot(&mut self) -> Result<Profile, Error> {
        self.sampler.collect(&mut self.resolver)?;
        let profile = self.resolver.snapshot();
        Ok(self.without_runtime(profile))
    }

    /// Returns the samples as [`Self::snapshot`] does, and then removes them, including their threads, so that memory
    /// does not grow however long a recording is watched. [`Self::finish`] returns the samples after that.
    ///
    /// For memory that is not freed, each snapshot has all the memory that is allocated now, as [`Self::finish`] has
    /// all the memory that is allocated at the end.
    ///
    /// # Errors
    ///
    /// If the counts cannot be read from the kernel.
    pub fn take_snapshot(&mut self) -> Result<Profile, Error> {
        self.sampler.collect(&mut self.resolver)?;
        self.sampler.hold(&mut self.resolver)?;
        let profile = self.resolver.take_collected();
        Ok(self.without_runtime(profile))
    }

    fn without_runtime(&self, mut profile: Profile) -> Profile {
        if self.of_goroutines {
            remove_those_of_runtime(&mut profile);
        }
        profile
    }

    /// Drops samples from now on, until [`Self::resume`]. Processes and their files are still followed. A wait or call
    /// that ends after `resume` counts in full. For memory that is not freed, allocations during the pause are
    /// included.
    ///
    /// # Errors
    ///
    /// If the counts cannot be read from the kernel.
    pub fn pause(&mut self) -> Result<(), Error> {
        self.sampler.set_paused(true, &mut self.resolver)
    }

    /// Ends the pause that [`Self::pause`] has begun.
    ///
    /// # Errors
    ///
    /// If the counts of the pause cannot be read from the kernel.
    pub fn resume(&mut self) -> Result<(), Error> {
        self.sampler.set_paused(false, &mut self.resolver)
    }

    /// Ends the recording if it still runs, symbolizes its addresses, and returns the profile.
    ///
    /// # Errors
    ///
    /// If the counts cannot be read from the kernel.
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
            of_goroutines,
            title,
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
        if of_goroutines {
            let left_out = remove_those_of_runtime(&mut resolved.profile);
            resolved.stats.samples = resolved.stats.samples.saturating_sub(left_out);
            report(Message::GoroutinesLeftOut(left_out));
        }
        if is_sampled {
            add_lost(&mut resolved.profile, ended.summary.lost, losses.as_ref());
        }
        let about = &mut resolved.profile.about;
        about.start = Some(start);
        about.duration = Some(duration);
        about.host = host_name();
        about.command = Some(title);
        about.lost = ended.summary.lost;
        about.sums = sums;
        let Ended { summary, child, cpu_time, kept, .. } = ended;
        Ok(Finished { resolved, summary, event, engine, child, cpu_time, kept })
    }
}

/// Returns the processes that still run, without zombies.
fn still_run(processes: Vec<(i32, Option<Arc<str>>)>) -> Vec<(i32, String)> {
    let runs = |(pid, name): (i32, Option<Arc<str>>)| {
        // The state follows the name in parentheses, which may contain any characters (proc(5)).
        let stat = proc_text(format!("/proc/{pid}/stat")).ok()?;
        let state = stat.rsplit_once(") ")?.1.chars().next()?;
        let name = name.map_or_else(|| "?".to_owned(), |name| name.to_string());
        (!matches!(state, 'Z' | 'X')).then_some((pid, name))
    };
    processes.into_iter().filter_map(runs).collect()
}

/// Opens the engine for the plan.
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

/// Returns the time from 1970 to the beginning of the recording, and the recording's duration, both in nanoseconds.
fn times((begun, ended): (Instant, Instant)) -> (u64, u64) {
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (nanoseconds(now.saturating_sub(begun.elapsed())), nanoseconds(ended - begun))
}

/// Returns the host name of this machine. `None` if it has none.
pub fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}
