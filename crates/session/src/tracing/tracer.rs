//! What an engine that traces system calls has to do.

use std::os::fd::BorrowedFd;

use pyrograph_event::traced::{self, LostCalls, Traced};
use pyrograph_record::{Child, Session, Waiting};

use crate::error::Error;

/// An engine that traces calls.
pub(super) trait Tracer {
    /// Starts tracing. If the command is the target, it is traced from when it executes its program.
    fn start(&mut self, command: Option<Waiting>, is_target: bool) -> Result<Option<Child>, Error>;

    /// Returns a function that ends the output of single calls at once, from any thread, before [`Self::stop`] is
    /// called. `None` if the engine cannot do that.
    fn end_of_lines(&self) -> Option<Box<dyn FnOnce() + Send>> {
        None
    }

    /// Ends tracing. Calls that have not returned are returned as unfinished.
    fn stop(&mut self) -> Result<(), Error>;

    /// Descriptor that is readable when calls should be taken soon. `None` if they should be taken continuously.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// Returns true if the engine knows that the target has ended.
    fn is_done(&self) -> bool;

    /// Returns true if calls are counted in the kernel.
    fn counts(&self) -> bool;

    /// Passes what has happened since the last call, or a part of it, to `out`. Returns false if there is nothing more.
    fn take(&mut self, out: &mut dyn FnMut(&Traced<'_>)) -> Result<bool, Error>;

    /// Traces page faults. `events` are the events for one kind of fault, one for each CPU.
    fn trace_faults(&mut self, _major: bool, _events: &Session) -> Result<(), Error> {
        Err(Error::NotStarted)
    }

    /// Passes counts to `out`.
    fn take_counts(&mut self, out: &mut dyn FnMut(traced::CallCount)) -> Result<(), Error>;

    /// Calls and events that were lost.
    fn lost(&self) -> LostCalls;

    /// Returns the command, if the engine has followed it and it still runs.
    fn take_command(&mut self) -> Option<Child> {
        None
    }

    /// Exit code of the command, if its end was seen.
    fn exit_code(&self) -> Option<u8>;
}
