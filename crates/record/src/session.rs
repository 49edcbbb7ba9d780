//! Recordings, from opening the events to the summary.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pyrograph_event::{Layout, flag};

use crate::attach::Attached;
use crate::batch::{Batch, Gap, Sorter};
use crate::command::{Child, Waiting};
use crate::copy::Copier;
use crate::error::{Error, Notice};
use crate::event::Event;
use crate::filter::Filter;
use crate::limits;
use crate::options::{Options, Rate};
use crate::plan::Plan;
use crate::procfs::{self, Initial};
use crate::reader::{Ended, Outcome, Pacer, Reader, Round, Stopper};
use crate::ring::Ring;
use crate::stack_mode::StackMode;
use crate::target::Target;
use crate::watch::Watched;

/// Events that are open and not yet started.
///
/// Open it on a thread that lives as long as the recording.
#[derive(Debug)]
pub struct Session {
    target: Target,
    plan: Plan,
    rings: Vec<Ring>,
    copier: Copier,
    events: Vec<OwnedFd>,
    others: Vec<OwnedFd>,
    /// Records that were copied out of the ring buffers while events were opened.
    early: Vec<Vec<u8>>,
    command: Option<Waiting>,
    stopper: Stopper,
    patience: Duration,
    initial_pids: Option<Vec<i32>>,
    inherit: bool,
    duration: Option<Duration>,
    threads: Option<Vec<i32>>,
    /// True if all CPUs are sampled, even if the target is processes.
    is_of_cpus: bool,
    /// Sample period that a [`Pacer`] has requested.
    period: Arc<AtomicU64>,
}

impl Session {
    /// Opens the events. A command is forked, but waits before its first instruction.
    ///
    /// # Errors
    ///
    /// If the event is not known or cannot be counted here, something is not permitted, a process does not exist, or
    /// the kernel lacks resources.
    pub fn open(options: &Options) -> Result<Self, Error> {
        check_cpus(options)?;
        let (mut plan, scope) = find_plan(options)?;
        let is_of_cpus = scope == Scope::Cpus;
        // The child is forked before limits are raised, so that it has the limits of its user.
        let command = match &options.target {
            Target::Command(argv) => Some(Waiting::fork(argv, &options.launch)?),
            Target::Processes(_) | Target::System => None,
        };
        let mut notices = std::mem::take(&mut plan.notices);
        let mut rings = limits::open_rings(options, &plan, &mut notices)?;
        plan.notices = notices;
        let is_default = options.stack == StackMode::Dwarf { bytes: StackMode::DEFAULT_BYTES };
        if scope == Scope::ManyThreads && is_default {
            limits::shorten_stacks(&mut plan, &rings);
        }

        let copier = Copier::new(&plan.layout, plan.attr.sample_regs_user);
        let mut denied = 0;
        let mut attached = Attached::new(&plan, &mut rings, copier, options.cpus.as_deref());
        match (&options.target, &command) {
            _ if is_of_cpus => attached.system()?,
            (Target::Processes(_), _) if options.threads.is_some() => {
                attached.threads(options.threads.as_deref().unwrap_or_default())?
            }
            (Target::System, _) => attached.system()?,
            (Target::Processes(pids), _) => denied = attached.processes(pids, options.inherit)?,
            (Target::Command(_), command) => {
                command.iter().try_for_each(|child| attached.command(child.pid()))?
            }
        }
        let Attached { events, others, early, .. } = attached;
        if denied > 0 {
            plan.notices.push(Notice::ChildrenNotPermitted { count: denied });
        }
        let (target, stopper) = (options.target.clone(), Stopper::new()?);
        let (patience, initial_pids) = (options.patience, options.initial.clone());
        let (inherit, duration) = (options.inherit, options.duration);
        Ok(Self {
            target,
            plan,
            rings,
            copier,
            events,
            others,
            early,
            command,
            stopper,
            patience,
            initial_pids,
            inherit,
            duration,
            threads: options.threads.clone(),
            is_of_cpus,
            period: Arc::default(),
        })
    }

    /// The event to sample.
    pub fn event(&self) -> &Event {
        &self.plan.event
    }

    /// Layout of the records, for decoding them.
    pub fn layout(&self) -> Layout {
        self.plan.layout
    }

    /// Returns true if times are of `CLOCK_MONOTONIC`; otherwise they are of the scheduler's clock.
    pub fn has_monotonic_time(&self) -> bool {
        self.plan.clock() == Some(libc::CLOCK_MONOTONIC)
    }

    /// Sample rate. With [`Rate::Every`], a sample without a period field has this period.
    pub fn rate(&self) -> Rate {
        let rate = self.plan.attr.sample_period;
        if self.plan.attr.has(flag::FREQ) { Rate::Hertz(rate) } else { Rate::Every(rate) }
    }

    /// With [`Target::System`]: sample period of the clock on each sampled CPU, if eBPF programs attached to
    /// [`Self::events`] see its ticks in both user and kernel mode.
    pub fn tick(&self) -> Option<Duration> {
        self.plan.tick().filter(|_| self.is_of_cpus)
    }

    /// Time that the kernel needs for a sample, without the time in which eBPF programs take its stack. Measured for
    /// rates above 5,000 Hz.
    pub fn interrupt(&self) -> Option<Duration> {
        self.plan.interrupt
    }

    /// Handle that changes the sample period of a clock during the recording.
    pub fn pacer(&self) -> Pacer {
        Pacer(Arc::clone(&self.period))
    }

    /// Returns true if kernel mode is sampled: it was requested and is permitted.
    pub fn samples_kernel(&self) -> bool {
        !self.plan.attr.has(flag::EXCLUDE_KERNEL)
            && !self.plan.attr.has(flag::EXCLUDE_CALLCHAIN_KERNEL)
    }

    /// Notices for the user.
    pub fn notices(&self) -> &[Notice] {
        &self.plan.notices
    }

    /// The open events; with [`Target::System`], one for each CPU. An eBPF program that is attached to all of them
    /// before the start runs for each sample, and decides whether the sample is written to the ring buffer.
    pub fn events(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.events.iter().map(AsFd::as_fd)
    }

    /// Handle that ends the recording, once it is started.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Starts the command, or enables the events of CPUs, and reads the initial state from `/proc`.
    ///
    /// # Errors
    ///
    /// If the command cannot be run.
    pub fn start(self) -> Result<Recording, Error> {
        let (sender, rounds) = mpsc::channel();
        let (answer, begun) = mpsc::channel();
        let watched = match (&self.target, &self.command) {
            (Target::Processes(pids), _) => {
                let watched = self.threads.as_ref().unwrap_or(pids);
                watched.iter().map(|pid| Watched::new(*pid, false)).collect()
            }
            (Target::Command(_), command) => {
                command.iter().map(|child| Watched::new(child.pid(), true)).collect()
            }
            (Target::System, _) => Vec::new(),
        };
        let weights = self.plan.weights();
        let reader = Reader {
            rings: self.rings,
            events: self.events,
            others: self.others,
            watched,
            stopper: self.stopper.clone(),
            rounds: sender,
            copier: self.copier,
            early: self.early,
            patience: self.patience,
            period: self.period,
            yields: self.is_of_cpus && weights.is_some() && self.plan.was_measured(),
            unit: weights.map_or(0, |weights| weights.unit()),
            enables: self.is_of_cpus,
            begun: answer,
            duration: self.duration,
        };
        let thread = std::thread::Builder::new().name("reader".to_owned());
        let reader = thread.spawn(|| reader.run()).map_err(Error::system("starting the reader"))?;
        let begun = begun.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        let from = begun.map_err(Error::system("enabling the events"))?;
        let inherit = self.inherit && self.threads.is_none();
        let family = |pids: &[i32]| procfs::family(pids, inherit);
        let filter = match &self.target {
            Target::Processes(pids) if self.is_of_cpus => {
                Filter::of(&family(pids), inherit, &self.plan.layout)
            }
            _ => Filter::all(),
        };
        // Attaching to many threads, and detaching from them, takes time. Samples from before and after are dropped.
        let filter = match self.plan.clock() {
            Some(libc::CLOCK_MONOTONIC) => {
                let duration = self.duration.and_then(|time| u64::try_from(time.as_nanos()).ok());
                filter.between(from..from.saturating_add(duration.unwrap_or(u64::MAX)))
            }
            _ => filter,
        };
        let mut recording = Recording {
            sorter: Sorter::new(self.plan.layout, weights, filter),
            lost_time: weights.map(|weights| weights.unit()),
            counts_all: self.plan.counts_all(),
            is_of_threads: !self.is_of_cpus,
            initial: None,
            rounds: Some(rounds),
            flushed: false,
            reader: Some(reader),
            stopper: self.stopper,
            notices: Vec::new(),
            child: None,
        };
        let initial = match (&self.target, self.command) {
            (Target::Command(_), command) => {
                recording.child = command.map(Waiting::run).transpose()?;
                return Ok(recording);
            }
            (Target::Processes(pids), _) => Initial::read(&self.plan.layout, Some(&family(pids))),
            (Target::System, _) => {
                let initial_pids = self.initial_pids.as_deref().map(family);
                Initial::read(&self.plan.layout, initial_pids.as_deref())
            }
        };
        if initial.unreadable > 0 {
            recording.notices.push(Notice::ProcessesUnreadable { count: initial.unreadable });
        }
        recording.initial = Some(recording.sorter.initial(initial.bytes));
        Ok(recording)
    }
}

/// Checks that the CPUs to be sampled are online.
fn check_cpus(options: &Options) -> Result<(), Error> {
    let Some(cpus) = &options.cpus else { return Ok(()) };
    let online = limits::online_cpus()?;
    match cpus.iter().find(|cpu| !online.contains(cpu)) {
        Some(cpu) => {
            let online = online.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            Err(Error::NoSuchCpu { cpu: *cpu, online })
        }
        None => Ok(()),
    }
}

/// What the events are opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// Each thread, on each CPU.
    Threads,
    /// The same, of so many threads that all CPUs would be sampled instead if that were permitted.
    ManyThreads,
    /// Each CPU.
    Cpus,
}

/// Finds the attributes of the events. They are per CPU for the whole machine, or if the processes have so many threads
/// that one event for each would miss much of their time. An event of a thread takes its first sample on each CPU after
/// one period; the time that the thread runs there before that is in no sample.
fn find_plan(options: &Options) -> Result<(Plan, Scope), Error> {
    let Target::Processes(pids) = &options.target else {
        let is_system = options.target == Target::System;
        return Ok((Plan::find(options)?, if is_system { Scope::Cpus } else { Scope::Threads }));
    };
    let plan = Plan::find(options)?;
    if options.threads.is_some() {
        return Ok((plan, Scope::Threads));
    }
    let family = procfs::family(pids, options.inherit);
    let threads: usize = family.iter().map(|pid| procfs::count_threads(*pid)).sum();
    let are_there = pids.iter().all(|pid| procfs::count_threads(*pid) > 0);
    let rate = plan.attr.sample_period;
    // Together, the first periods of all threads on a CPU are more than a tenth of a second.
    let are_many = plan.attr.has(flag::FREQ) && (threads as u64).saturating_mul(10) > rate;
    if !(are_many && are_there) {
        return Ok((plan, Scope::Threads));
    }
    // Keep the default rate for processes, rather than the one for the whole machine.
    let rate = options.rate.unwrap_or(Rate::Hertz(rate));
    let of_cpus = Options { target: Target::System, rate: Some(rate), ..options.clone() };
    match Plan::find(&of_cpus) {
        Ok(mut plan) => {
            plan.notices.push(Notice::ManyThreads { threads });
            Ok((plan, Scope::Cpus))
        }
        // It is not permitted.
        Err(_) => {
            let mut plan = plan;
            plan.notices.push(Notice::ManyThreadsApart { threads, rate: plan.attr.sample_period });
            Ok((plan, Scope::ManyThreads))
        }
    }
}

/// A running recording.
#[derive(Debug)]
pub struct Recording {
    sorter: Sorter,
    /// Time in nanoseconds that a lost sample represents, if the event is a clock.
    lost_time: Option<u64>,
    /// True if the events count in both modes, so that their counts are the CPU time of the target.
    counts_all: bool,
    /// True if each thread has an event of its own.
    is_of_threads: bool,
    /// Records of the initial state.
    initial: Option<Batch>,
    /// Receiver of rounds. `None` once the recording is to be dropped, so that sending fails in the reader.
    rounds: Option<Receiver<Round>>,
    flushed: bool,
    reader: Option<JoinHandle<Outcome>>,
    stopper: Stopper,
    notices: Vec<Notice>,
    child: Option<Child>,
}

/// Result of [`Recording::next`].
#[derive(Debug)]
pub enum Next {
    /// Records.
    Batch(Batch),
    /// No records yet.
    Waiting,
    /// The recording has ended, and all records have been returned.
    End,
}

/// Summary of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Reason why it ended.
    pub ended: Ended,
    /// Number of lost records.
    pub lost: u64,
    /// Interval of those losses for which the kernel has written no LOST record.
    pub unreported: Option<Gap>,
    /// Number of times that the kernel throttled sampling because there were too many samples.
    pub throttled: u64,
    /// Number of samples that the kernel skipped because its timer was late. Their time is part of the next sample's
    /// weight. Known for clocks that are sampled more than 5,000 times a second.
    pub skipped: u64,
    /// Time of the skipped samples, if eBPF programs have measured it.
    pub skipped_time: Option<Duration>,
    /// The rate in Hz that samples were lowered to, since some had been lost.
    pub lowered: Option<u64>,
    /// CPU time that is neither in samples nor lost: the time that each thread ran before its first sample and after
    /// its last. Known for clocks, if processes are sampled in both modes and each thread has an event.
    pub unsampled: Option<Duration>,
    /// CPU time of the sampled threads, including modes that were left out. Known for clocks, if each thread has an
    /// event.
    pub used: Option<Duration>,
    /// Exit status of the command, if it has ended.
    pub status: Option<ExitStatus>,
}

impl Recording {
    /// Returns the next records. Waits for them for at most `timeout`. Records are returned some 20 milliseconds after
    /// they were written, since records of other CPUs may have to go before them.
    pub fn next(&mut self, timeout: Duration) -> Next {
        if let Some(initial) = self.initial.take() {
            return Next::Batch(initial);
        }
        let Some(rounds) = &self.rounds else { return Next::End };
        let until = Instant::now() + timeout;
        loop {
            let batch = match rounds.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(round) => self.sorter.add(round),
                Err(RecvTimeoutError::Timeout) => return Next::Waiting,
                Err(RecvTimeoutError::Disconnected) if self.flushed => return Next::End,
                Err(RecvTimeoutError::Disconnected) => {
                    self.flushed = true;
                    self.sorter.finish()
                }
            };
            if !batch.is_empty() {
                return Next::Batch(batch);
            }
        }
    }

    /// Handle that ends the recording. Records that were sampled until then are still returned.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Notices for the user that were not known before the start.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// Number of lost records until now, by the kernel's LOST records.
    pub fn lost(&self) -> u64 {
        self.sorter.lost
    }

    /// Returns the times of these losses since the last call.
    pub fn take_gaps(&mut self) -> Vec<Gap> {
        std::mem::take(&mut self.sorter.gaps)
    }

    /// The command, if one was started.
    pub fn child(&mut self) -> Option<&mut Child> {
        self.child.as_mut()
    }

    /// Returns the command, so that the caller can wait for it after the recording has ended.
    pub fn take_child(&mut self) -> Option<Child> {
        self.child.take()
    }

    /// Ends the recording, if it has not ended, and returns its summary. Records that were not taken are dropped. A
    /// command that still runs continues.
    pub fn finish(mut self) -> Summary {
        let outcome = self.end();
        let ended = outcome.map_or(Ended::Stopped, |outcome| outcome.ended);
        let counted = outcome.and_then(|outcome| outcome.lost).unwrap_or(0);
        let lost = counted.max(self.sorter.lost);
        let used = outcome.filter(|_| self.lost_time.is_some() && self.is_of_threads);
        let used = used.map(|outcome| Duration::from_nanos(outcome.count));
        let lost_time = Duration::from_nanos(lost.saturating_mul(self.lost_time.unwrap_or(0)));
        let known = Duration::from_nanos(self.sorter.account.time) + lost_time;
        let unsampled = used.filter(|_| self.counts_all).map(|used| used.saturating_sub(known));
        Summary {
            ended,
            skipped: self.sorter.account.skipped,
            skipped_time: None,
            lowered: outcome.and_then(|outcome| outcome.lowered),
            unsampled,
            used,
            // The kernel writes a LOST record together with the next record on its CPU: the last may be missing.
            lost,
            unreported: self.sorter.gap_without_record(lost - self.sorter.lost),
            throttled: self.sorter.throttled,
            status: self.child.as_mut().and_then(|child| child.try_wait().ok().flatten()),
        }
    }

    fn end(&mut self) -> Option<Outcome> {
        self.stopper.stop();
        if let Some(rounds) = self.rounds.take() {
            // Let the reader end by itself: it reads the number of lost records at its end.
            rounds.iter().for_each(|round| drop(self.sorter.add(round)));
        }
        self.reader.take()?.join().ok()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.end();
    }
}
