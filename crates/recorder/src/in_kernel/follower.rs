//! Who runs, as far as it has to be known beside what the programs find out.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use pyrograph_bpf::Engine;
use pyrograph_event::Record;
use pyrograph_record::Target;
use pyrograph_resolve::{LiveFiles, Resolver};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, test_kill_process};

use crate::targets::Targets;

/// Follows processes: their names, and the code that they make as they run.
pub struct Follower {
    targets: Targets,
    /// Those that were asked for and still run, with descriptors that are readable once they have ended (Linux 5.3).
    asked: Vec<(i32, Option<OwnedFd>)>,
    /// A command was asked for: its parent knows better when it ends.
    command: bool,
    /// Descriptor of the command that limits the recording.
    beside: Option<OwnedFd>,
    gone: Vec<i32>,
}

impl Follower {
    pub fn new(target: &Target, inherit: bool) -> Self {
        let pids = match target {
            Target::Processes(pids) => &pids[..],
            Target::System | Target::Command(_) => &[],
        };
        let asked = pids.iter().map(|pid| (*pid, pidfd(*pid))).collect();
        let recorded = (*target != Target::System).then(|| pids.iter().copied().collect());
        let targets = Targets { pids: recorded, inherit };
        let command = matches!(target, Target::Command(_));
        Self { targets, asked, command, beside: None, gone: Vec::new() }
    }

    /// Adds the command, which runs now.
    pub fn add_command(&mut self, pid: i32) {
        self.targets.pids.get_or_insert_default().insert(pid);
        self.asked.push((pid, pidfd(pid)));
    }

    /// Watches the command that limits the recording, if it is no target itself.
    pub fn watch(&mut self, pid: i32) {
        self.beside = pidfd(pid).filter(|_| !self.command);
    }

    /// Descriptors that are readable once one of those that were asked for has ended.
    pub fn ends(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let asked = self.asked.iter().filter_map(|(_, pidfd)| pidfd.as_ref());
        asked.chain(&self.beside).map(AsFd::as_fd)
    }

    /// Takes a record of the kernel.
    pub fn record(&mut self, record: &Record<'_>, resolver: &mut Resolver<LiveFiles>) {
        if !self.targets.follow(record) {
            return;
        }
        resolver.record(record);
        if let Record::Exit(task) = record
            && !resolver.runs(task.pid)
        {
            self.gone.push(task.pid);
        }
    }

    /// Forgets processes that are gone.
    pub fn forget_gone(&mut self, engine: &mut Engine) {
        for pid in self.gone.drain(..) {
            engine.forget_process(pid);
            if let Some(pids) = &mut self.targets.pids {
                pids.remove(&pid);
            }
        }
    }

    /// Returns true if all processes that were asked for have ended.
    pub fn all_gone(&mut self) -> bool {
        self.asked.retain(|(pid, pidfd)| match pidfd {
            Some(pidfd) => !has_ended(pidfd),
            None => is_running(*pid),
        });
        self.targets.pids.is_some() && !self.command && self.asked.is_empty()
    }
}

fn has_ended(pidfd: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Descriptor that is readable once the process has ended.
fn pidfd(pid: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// Returns true if a process with this number runs.
pub fn is_running(pid: i32) -> bool {
    let sent = Pid::from_raw(pid).map(test_kill_process);
    // It may be another user's, which this one may not send a signal.
    matches!(sent, Some(Ok(()) | Err(Errno::PERM)))
}
