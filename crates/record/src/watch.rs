//! Waiting for the end of what is recorded, counted or traced.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::reader::{Ended, Stopper};
use crate::sys;

/// A process whose end may end the recording.
#[derive(Debug)]
pub(crate) struct Watched {
    pid: i32,
    is_child: bool,
    /// Becomes readable at the end; without it (before Linux 5.3) the process is asked for in each round.
    pidfd: Option<OwnedFd>,
}

impl Watched {
    pub(crate) fn new(pid: i32, is_child: bool) -> Self {
        Self { pid, is_child, pidfd: sys::pidfd_open(pid).ok() }
    }

    /// One that has ended and is not waited for by its parent does not run.
    pub(crate) fn is_running(&self) -> bool {
        if self.pidfd.is_none() || self.is_child {
            return sys::is_running(self.pid, self.is_child);
        }
        let mut ended = [self.readable()];
        sys::poll(&mut ended, Duration::ZERO);
        ended[0].revents == 0
    }

    /// Descriptor for [`sys::poll`], which is never ready where there is no handle.
    pub(crate) fn readable(&self) -> libc::pollfd {
        sys::readable(self.pidfd.as_ref().map(AsFd::as_fd))
    }

    /// True if the kernel reports the end.
    pub(crate) fn has_handle(&self) -> bool {
        self.pidfd.is_some()
    }
}

/// Waits for the end of the target, of a command beside it, or for a request to end.
#[derive(Debug)]
pub struct Watch {
    /// The processes that run still.
    watched: Vec<Watched>,
    stopper: Stopper,
    /// It ends when the last of these processes has; the machine does not end by itself.
    has_end: bool,
}

impl Watch {
    /// Calls `end` at the end, or at a time, on a thread of its own, with the reason ([`Self::wait`]), however busy this thread is,
    /// which learns the same when it comes to it.
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
        // Without a thread it ends when this one comes to it.
        thread::Builder::new().name("end".to_owned()).spawn(wait).ok();
    }

    /// Watches nothing but requests to end.
    ///
    /// # Errors
    ///
    /// If the kernel has no descriptor left.
    pub fn new() -> Result<Self, Error> {
        Ok(Self { watched: Vec::new(), stopper: Stopper::new()?, has_end: false })
    }

    /// Handle that ends it from any thread or signal handler.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Waits for the end of processes that run already.
    pub fn processes(&mut self, pids: &[i32]) {
        self.watched = pids.iter().map(|pid| Watched::new(*pid, false)).collect();
        self.has_end = true;
    }

    /// Waits for the end of a child of this process, and of nothing else.
    pub fn child(&mut self, pid: i32) {
        self.watched = vec![Watched::new(pid, true)];
        self.has_end = true;
    }

    /// Waits until the end, or until the time is over or a descriptor is readable, for which it returns `None`.
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
            // A poll ends up to a millisecond early.
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
