//! A recording, from its opening to its end.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitStatus;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pyrograph_event::{Layout, flag, read_format};

use crate::attach::Attached;
use crate::batch::{Batch, Sorter};
use crate::command::{Child, Waiting};
use crate::copy::Copier;
use crate::error::{Error, Notice};
use crate::event::Event;
use crate::limits;
use crate::options::{Options, Rate, Target};
use crate::permission::sysctl;
use crate::plan::Plan;
use crate::procfs::{self, Initial};
use crate::reader::{Ended, Outcome, Reader, Round, Stopper, Watched};
use crate::ring::Ring;
use crate::sys;

/// Events that are open, and have not been started.
///
/// Open it on a thread that lives as long as the recording.
#[derive(Debug)]
pub struct Session {
    target: Target,
    plan: Plan,
    rings: Vec<Ring>,
    copier: Copier,
    events: Vec<OwnedFd>,
    /// What was copied out of the rings while events were opened.
    early: Vec<Vec<u8>>,
    command: Option<Waiting>,
    stopper: Stopper,
    patience: Duration,
    told: Option<Vec<i32>>,
    inherit: bool,
}

impl Session {
    /// Opens the events. A command is started, but waits before its first instruction.
    ///
    /// # Errors
    ///
    /// If the event is not known or not counted here, something is not permitted, a process does
    /// not exist, or the kernel lacks resources.
    pub fn open(options: &Options) -> Result<Self, Error> {
        let mut plan = Plan::find(options)?;
        // The child is made before limits are raised, so that it has those of its user.
        let command = match &options.target {
            Target::Command(argv) => Some(Waiting::fork(argv)?),
            Target::Processes(_) | Target::System => None,
        };
        let mut notices = std::mem::take(&mut plan.notices);
        let mut rings = limits::open_rings(options, &plan, &mut notices)?;
        plan.notices = notices;

        let copier = Copier::new(&plan.layout, plan.attr.sample_regs_user);
        let mut denied = 0;
        let mut attached = Attached::new(&plan, &mut rings, copier);
        match (&options.target, &command) {
            (Target::System, _) => attached.system()?,
            (Target::Processes(pids), _) => denied = attached.processes(pids, options.inherit)?,
            (Target::Command(_), command) => {
                command.iter().try_for_each(|child| attached.command(child.pid()))?
            }
        }
        let Attached { events, early, .. } = attached;
        if denied > 0 {
            plan.notices.push(Notice::ChildrenNotPermitted { count: denied });
        }
        let (target, stopper) = (options.target.clone(), Stopper::new()?);
        let (patience, told) = (options.patience, options.told.clone());
        let inherit = options.inherit;
        Ok(Self {
            target,
            plan,
            rings,
            copier,
            events,
            early,
            command,
            stopper,
            patience,
            told,
            inherit,
        })
    }

    /// The event that is sampled.
    pub fn event(&self) -> &Event {
        &self.plan.event
    }

    /// How to decode the records.
    pub fn layout(&self) -> Layout {
        self.plan.layout
    }

    /// Whether times are those of `CLOCK_MONOTONIC`; else, of the scheduler's clock.
    pub fn has_monotonic_time(&self) -> bool {
        self.plan.clock() == Some(libc::CLOCK_MONOTONIC)
    }

    /// How often it is sampled. With [`Rate::Every`] a sample that tells no period stands for this
    /// many.
    pub fn rate(&self) -> Rate {
        let rate = self.plan.attr.sample_period;
        if self.plan.attr.has(flag::FREQ) { Rate::Hertz(rate) } else { Rate::Every(rate) }
    }

    /// How many addresses a callchain has at most, markers not counted: one that has as many may
    /// be cut.
    pub fn longest_callchain(&self) -> usize {
        sysctl("perf_event_max_stack").unwrap_or(127)
    }

    /// Whether kernel mode is sampled: it was asked for, and is permitted.
    pub fn samples_kernel(&self) -> bool {
        !self.plan.attr.has(flag::EXCLUDE_KERNEL)
            && !self.plan.attr.has(flag::EXCLUDE_CALLCHAIN_KERNEL)
    }

    /// What the user should know.
    pub fn notices(&self) -> &[Notice] {
        &self.plan.notices
    }

    /// The open events: with [`Target::System`] one a CPU. A program in the kernel that is attached to
    /// all of them before the start gets each sample, and decides whether a buffer gets it, too.
    pub fn events(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.events.iter().map(AsFd::as_fd)
    }

    /// Ends the recording that will be started.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Starts the command, or the sampling of the machine, and reads from `/proc` what was there
    /// before.
    ///
    /// # Errors
    ///
    /// If the command cannot be run.
    pub fn start(self) -> Result<Recording, Error> {
        let (sender, rounds) = mpsc::channel();
        let watched = match (&self.target, &self.command) {
            (Target::Processes(pids), _) => {
                pids.iter().map(|pid| Watched::new(*pid, false)).collect()
            }
            (Target::Command(_), command) => {
                command.iter().map(|child| Watched::new(child.pid(), true)).collect()
            }
            (Target::System, _) => Vec::new(),
        };
        if self.target == Target::System {
            self.events
                .iter()
                .try_for_each(sys::enable)
                .map_err(Error::system("enabling the events"))?;
        }
        let reader = Reader {
            rings: self.rings,
            events: self.events,
            watched,
            stopper: self.stopper.clone(),
            rounds: sender,
            copier: self.copier,
            early: self.early,
            patience: self.patience,
            counts_lost: self.plan.attr.read_format == read_format::LOST,
        };
        let thread = std::thread::Builder::new().name("reader".to_owned());
        let reader = thread.spawn(|| reader.run()).map_err(Error::system("starting the reader"))?;
        let sorter = Sorter::new(self.plan.layout);
        let mut recording = Recording {
            sorter,
            initial: None,
            rounds: Some(rounds),
            flushed: false,
            reader: Some(reader),
            stopper: self.stopper,
            notices: Vec::new(),
            child: None,
        };
        let inherit = self.inherit;
        let family = |pids: &[i32]| {
            let children = if inherit { procfs::descendants(pids) } else { Vec::new() };
            [pids.to_vec(), children].concat()
        };
        let initial = match (&self.target, self.command) {
            (Target::Command(_), command) => {
                recording.child = command.map(Waiting::run).transpose()?;
                return Ok(recording);
            }
            (Target::Processes(pids), _) => Initial::read(&self.plan.layout, Some(&family(pids))),
            (Target::System, _) => {
                let told = self.told.as_deref().map(family);
                Initial::read(&self.plan.layout, told.as_deref())
            }
        };
        if initial.unreadable > 0 {
            recording.notices.push(Notice::ProcessesUnreadable { count: initial.unreadable });
        }
        recording.initial = Some(recording.sorter.initial(initial.bytes));
        Ok(recording)
    }
}

/// A recording that runs.
#[derive(Debug)]
pub struct Recording {
    sorter: Sorter,
    /// What was there before.
    initial: Option<Batch>,
    /// `None` once the recording is to be dropped, which the reader then notices.
    rounds: Option<Receiver<Round>>,
    flushed: bool,
    reader: Option<JoinHandle<Outcome>>,
    stopper: Stopper,
    notices: Vec<Notice>,
    child: Option<Child>,
}

/// What [`Recording::next`] found.
#[derive(Debug)]
pub enum Next {
    /// Records.
    Batch(Batch),
    /// Nothing yet.
    Waiting,
    /// The recording has ended, and all records have been handed out.
    End,
}

/// What is known when all is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Why it ended.
    pub ended: Ended,
    /// How many records were lost.
    pub lost: u64,
    /// How often the kernel stopped sampling for a while, since there were too many samples.
    pub throttled: u64,
    /// How the command ended, if it has.
    pub status: Option<ExitStatus>,
}

impl Recording {
    /// The next records; waits for them at most `timeout`. Records reach the caller some
    /// 20 milliseconds after they were written, since those of other CPUs may have to go before them.
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

    /// Ends the recording: what has been sampled until now is still handed out.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// What the user should know, and could not be known before the start.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// How many records the kernel has said it lost, until now.
    pub fn lost(&self) -> u64 {
        self.sorter.lost
    }

    /// The command, if one was started.
    pub fn child(&mut self) -> Option<&mut Child> {
        self.child.as_mut()
    }

    /// Gives the command away, to be waited for after the recording's end.
    pub fn take_child(&mut self) -> Option<Child> {
        self.child.take()
    }

    /// Ends the recording, if it has not ended, and tells how it went. Records that were not taken
    /// are dropped. A command that still runs goes on running.
    pub fn finish(mut self) -> Summary {
        let outcome = self.end();
        let ended = outcome.map_or(Ended::Stopped, |outcome| outcome.ended);
        let counted = outcome.and_then(|outcome| outcome.lost).unwrap_or(0);
        Summary {
            ended,
            // LOST records are written once there is room again: the last may be missing.
            lost: counted.max(self.sorter.lost),
            throttled: self.sorter.throttled,
            status: self.child.as_mut().and_then(|child| child.try_wait().ok().flatten()),
        }
    }

    fn end(&mut self) -> Option<Outcome> {
        self.stopper.stop();
        if let Some(rounds) = self.rounds.take() {
            // Let the reader come to its end by itself, which tells what was lost.
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
