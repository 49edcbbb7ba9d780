//! Waiting for the end of the recorded, counted or traced processes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::reader::{Ended, Stopper};
use crate::sys;
use crate::target::Target;

/// A process whose end may end the recording.
#[derive(Debug)]
pub(crate) struct Watched {
    pid: i32,
    is_child: bool,
    /// Becomes readable when the process ends. `None` before Linux 5.3: then the process is polled in each round.
    pidfd: Option<OwnedFd>,
}

impl Watched {
    pub(crate) fn new(pid: i32, is_child: bool) -> Self {
        Self { pid, is_child, pidfd: sys::pidfd_open(pid).ok() }
    }

    /// Returns true if the process runs. A zombie does not.
    pub(crate) fn is_running(&self) -> bool {
        if self.pidfd.is_none() || self.is_child {
            return sys::is_running(self.pid, self.is_child);
        }
        let mut ended = [self.readable()];
        sys::poll(&mut ended, Duration::ZERO);
        ended[0].revents == 0
    }

    /// Descriptor for [`sys::poll`], which is never ready if there is no pidfd.
    pub(crate) fn readable(&self) -> libc::pollfd {
        sys::readable(self.pidfd.as_ref().map(AsFd::as_fd))
    }

    /// Returns true if there is a pidfd, so that the kernel reports the end.
    pub(crate) fn has_handle(&self) -> bool {
        self.pidfd.is_some()
    }
}

/// Waits for the end of the target, of a command beside it, or for a request to stop.
#[derive(Debug)]
pub struct Watch {
    /// Processes that still run.
    watched: Vec<Watched>,
    stopper: Stopper,
    /// True if it ends when the last of these processes does. The whole machine as a target has no end.
    has_end: bool,
}

impl Watch {
    /// Calls `end` with the result of [`Self::wait`], on a new thread, at the end or at a given time, even if the
    /// current thread is busy. The current thread gets the same result from its own call of `wait`.
    pub fn end_in_time(
        &self,
        until: Option<Instant>,
        end: impl FnOnce(Option<Ended>) + Send + 'static,
    ) {
        let again = |of: &Watched| Watched::new(of.pid, of.is_child);
        let mut other = Self {
            watched: self.watched.iter().map(again).collect(),
            stopper: self.stopper(),
            has_end: self.has_end,
        };
        let wait = move || end(other.wait(until, None));
        // If no thread can be created, the current thread still ends in its own `wait`.
        thread::Builder::new().name("end".to_owned()).spawn(wait).ok();
    }

    /// Watches no process: only requests to stop end it.
    ///
    /// # Errors
    ///
    /// If no file descriptor is available.
    pub fn new() -> Result<Self, Error> {
        Ok(Self { watched: Vec::new(), stopper: Stopper::new()?, has_end: false })
    }

    /// Watches the command, which is a child of this process, or else the processes of the target.
    ///
    /// # Errors
    ///
    /// As [`Watch::new`].
    pub fn of(target: &Target, command: Option<i32>) -> Result<Self, Error> {
        let mut watch = Self::new()?;
        match (target, command) {
            (_, Some(command)) => watch.child(command),
            (Target::Processes(pids), None) => watch.processes(pids),
            (Target::Command(_) | Target::System, None) => {}
        }
        Ok(watch)
    }

    /// Handle that ends the wait from any thread or signal handler.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Watches processes that run already.
    pub fn processes(&mut self, pids: &[i32]) {
        self.watched = pids.iter().map(|pid| Watched::new(*pid, false)).collect();
        self.has_end = true;
    }

    /// Watches a child of this process, and no other process.
    pub fn child(&mut self, pid: i32) {
        self.watched = vec![Watched::new(pid, true)];
        self.has_end = true;
    }

    /// Waits until the end. Returns `None` if the time is over or the descriptor is readable before that.
    pub fn wait(&mut self, until: Option<Instant>, or: Option<BorrowedFd<'_>>) -> Option<Ended> {
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if self.stopper.is_asked() {
                return Some(Ended::Stopped);
            }
            self.watched.retain(Watched::is_running);
            if self.watched.is_empty() && self.has_end {
                return Some(Ended::TargetEnded);
            }
            if left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            let mut fds = vec![sys::readable(Some(self.stopper.as_fd())), sys::readable(or)];
            fds.extend(self.watched.iter().map(Watched::readable));
            let most = match self.watched.iter().all(Watched::has_handle) {
                true => Duration::from_secs(3600),
                false => Duration::from_millis(10),
            };
            // `poll` may return up to a millisecond early.
            let wait = left.unwrap_or(most).min(most) + Duration::from_millis(1);
            sys::poll(&mut fds, wait);
            if fds[1].revents != 0 {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Its parent may wait for it later, or never.
    #[test]
    fn a_process_that_nobody_waits_for_has_ended() {
        let mut child = Command::new("true").spawn().expect("a child");
        let mut watch = Watch::new().expect("a watch");
        watch.processes(&[child.id().cast_signed()]);
        let until = Instant::now() + Duration::from_secs(60);
        assert!(matches!(watch.wait(Some(until), None), Some(Ended::TargetEnded)));
        assert!(child.wait().expect("it ends").success());
    }
}
