//! The lifetime of a count, a trace or a recording of the scheduler: its command, start, deadline and end.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use pyrograph_record::{Child, Ended, Stopper, Waiting, Watch};

use crate::error::Error;
use crate::scope::Scope;

/// The lifetime of a recording. It ends with the target or the command beside it, at the deadline, or when it is
/// stopped.
pub(crate) struct Lifetime {
    watch: Watch,
    /// The command, until it runs (`command`) and from then on (`child`).
    command: Option<Waiting>,
    child: Option<Child>,
    /// True if the command is the target.
    is_target: bool,
    /// Start of the recording. Until it has started, the time at which it was opened.
    started: Instant,
    has_started: bool,
    duration: Option<Duration>,
    ended: Option<Ended>,
}

impl Lifetime {
    /// Checks that the target exists, and forks the command, which waits. Call this first of all: until the command
    /// runs, Ctrl-C ends it, too, and it has the resource limits of its user.
    pub fn open(scope: &Scope) -> Result<Self, Error> {
        scope.target.check()?;
        let command = scope.target.fork(scope.beside.as_ref(), &scope.launch)?;
        let watch = Watch::of(&scope.target, command.as_ref().map(Waiting::pid))?;
        Ok(Self {
            watch,
            command,
            child: None,
            is_target: scope.is_command(),
            started: Instant::now(),
            has_started: false,
            duration: scope.duration,
            ended: None,
        })
    }

    /// Stops watching processes, for a tracer that learns of their ends itself.
    pub fn watch_no_process(&mut self) -> Result<(), Error> {
        self.watch = Watch::new()?;
        Ok(())
    }

    /// Handle that ends the recording from any thread or signal handler.
    pub fn stopper(&self) -> Stopper {
        self.watch.stopper()
    }

    /// Process ID of the command, if there is one.
    pub fn command(&self) -> Option<i32> {
        let waiting = self.command.as_ref().map(Waiting::pid);
        waiting.or_else(|| self.child.as_ref().map(Child::pid))
    }

    /// Returns true if the target is a command.
    pub fn is_command(&self) -> bool {
        self.is_target
    }

    /// Process ID of the command, if it is the target.
    pub fn target_command(&self) -> Option<i32> {
        self.command().filter(|_| self.is_target)
    }

    /// Starts the recording now, unless it has started. Returns true if it has not.
    pub fn start(&mut self) -> bool {
        let is_first = !std::mem::replace(&mut self.has_started, true);
        if is_first {
            self.started = Instant::now();
        }
        is_first
    }

    /// Returns true if the recording has started.
    pub fn has_started(&self) -> bool {
        self.has_started
    }

    /// Runs the command, if there is one.
    pub fn run_command(&mut self) -> Result<(), Error> {
        self.child = self.take_command().map(Waiting::run).transpose()?;
        Ok(())
    }

    /// Takes the command, for a tracer that runs it itself.
    pub fn take_command(&mut self) -> Option<Waiting> {
        self.command.take()
    }

    /// Start of the recording.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// The deadline, if there is one.
    pub fn deadline(&self) -> Option<Instant> {
        self.duration.map(|duration| self.started + duration)
    }

    /// Calls `end` on a new thread at the end of the recording, even if the current thread is busy.
    pub fn end_in_time(&self, end: impl FnOnce(Option<Ended>) + Send + 'static) {
        self.watch.end_in_time(self.deadline(), end);
    }

    /// Waits until `tick`, until the descriptor is readable, or until the recording is over. Without `tick`, waits for
    /// the end. Returns the end, once it is over.
    pub fn wait(&mut self, tick: Option<Instant>, fd: Option<BorrowedFd<'_>>) -> Option<Ended> {
        let deadline = self.deadline();
        let until = tick.into_iter().chain(deadline).min();
        let is_over = || deadline.is_some_and(|deadline| deadline <= Instant::now());
        let ended = self.watch.wait(until, fd);
        self.ended = ended.or_else(|| is_over().then_some(Ended::Stopped));
        self.ended
    }

    /// Returns true if the recording is over.
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Ends the recording, for a tracer that learns of its end itself.
    pub fn end(&mut self) {
        self.ended.get_or_insert(Ended::TargetEnded);
    }

    /// Sets the command that a tracer has run itself.
    pub fn set_child(&mut self, child: Option<Child>) {
        self.child = child;
    }

    /// Returns the command, if it runs or has run.
    pub fn into_child(self) -> Option<Child> {
        self.child
    }
}
