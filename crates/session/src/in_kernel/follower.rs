//! Follows the target processes, as far as the programs in the kernel do not do it themselves.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pyrograph_bpf::Engine;
use pyrograph_event::Record;
use pyrograph_record::Target;
use pyrograph_resolve::{LiveFiles, Resolver, in_root_of};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, test_kill_process};

use crate::targets::Targets;

/// Follows processes: their names, and the code that they generate at run time.
pub struct Follower {
    targets: Targets,
    /// Target processes that still run, with pidfds (Linux 5.3).
    asked: Vec<(i32, Option<OwnedFd>)>,
    /// True if the target is a command. Its end is detected by its parent, which is this process.
    command: bool,
    /// Pidfd of the command that limits the recording.
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

    /// Adds the command, which is about to run.
    pub fn add_command(&mut self, pid: i32) {
        self.targets.pids.get_or_insert_default().insert(pid);
        self.asked.push((pid, pidfd(pid)));
    }

    /// Watches the command that limits the recording, unless it is the target itself.
    pub fn watch(&mut self, pid: i32) {
        self.beside = pidfd(pid).filter(|_| !self.command);
    }

    /// Returns descriptors that are readable once a target process, or the command that limits the recording, has
    /// ended.
    pub fn ends(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let asked = self.asked.iter().filter_map(|(_, pidfd)| pidfd.as_ref());
        asked.chain(&self.beside).map(AsFd::as_fd)
    }

    /// Handles a record of the kernel. Returns true if it is of a process that is recorded.
    pub fn record(&mut self, record: &Record<'_>, resolver: &mut Resolver<LiveFiles>) -> bool {
        if !self.targets.follow(record) {
            return false;
        }
        resolver.record(record);
        if let Record::Exit(task) = record
            && !resolver.runs(task.pid)
        {
            self.gone.push(task.pid);
        }
        true
    }

    /// Removes processes that have ended.
    pub fn forget_gone(&mut self, engine: &mut Engine) {
        for pid in self.gone.drain(..) {
            engine.forget_process(pid);
            if let Some(pids) = &mut self.targets.pids {
                pids.remove(&pid);
            }
        }
    }

    /// Returns true if all target processes have ended. Always false for a command and for the whole machine.
    pub fn all_gone(&mut self) -> bool {
        self.asked.retain(|(pid, pidfd)| match pidfd {
            Some(pidfd) => !has_ended(pidfd),
            None => is_running(*pid),
        });
        self.targets.pids.is_some() && !self.command && self.asked.is_empty()
    }
}

/// Returns the path by which this process can open a file that a process has mapped. `None` for other records.
pub fn mapped_file(record: &Record<'_>) -> Option<PathBuf> {
    let (pid, path) = match record {
        Record::Mmap(mapping) => (mapping.pid, mapping.path),
        Record::Mmap2(mapping) => (mapping.pid, mapping.path),
        _ => return None,
    };
    let path = Path::new(OsStr::from_bytes(path));
    path.is_absolute().then(|| in_root_of(pid, path))
}

fn has_ended(pidfd: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Returns a descriptor that is readable once the process has ended.
fn pidfd(pid: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// Returns true if a process with this ID exists.
fn is_running(pid: i32) -> bool {
    let sent = Pid::from_raw(pid).map(test_kill_process);
    // EPERM: it belongs to another user, and this one may not send it a signal.
    matches!(sent, Some(Ok(()) | Err(Errno::PERM)))
}
