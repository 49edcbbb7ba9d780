//! States of tasks that stop running, and reasons of their waits.

use pyrograph_event::sched::Wait;
use pyrograph_profile::{TaskState, WaitReason};

/// Bits of a task's state, include/linux/sched.h.
mod state {
    pub const INTERRUPTIBLE: u32 = 1;
    pub const UNINTERRUPTIBLE: u32 = 2;
    pub const STOPPED: u32 = 4;
    pub const TRACED: u32 = 8;
    /// Tasks that have ended: `EXIT_DEAD`, `EXIT_ZOMBIE`, `TASK_DEAD`.
    pub const DEAD: u32 = 0x10 | 0x20 | 0x80;
    pub const PARKED: u32 = 0x40;
    /// The wait does not count as load.
    pub const NOLOAD: u32 = 0x400;
    /// Waits for locks on kernels with PREEMPT_RT, and frozen tasks.
    pub const LIKE_UNINTERRUPTIBLE: u32 = 0x1000 | 0x8000;
}

/// Types of files, include/uapi/linux/stat.h.
mod file {
    pub const FIFO: u16 = 0o010_000;
    pub const CHARACTER: u16 = 0o020_000;
    pub const DIRECTORY: u16 = 0o040_000;
    pub const BLOCK: u16 = 0o060_000;
    pub const REGULAR: u16 = 0o100_000;
    pub const SOCKET: u16 = 0o140_000;
}

/// Returns the state for its bits.
pub fn state_of(bits: u32) -> TaskState {
    let has = |bit: u32| bits & bit != 0;
    match bits {
        0 => TaskState::Runnable,
        _ if has(state::DEAD) => TaskState::Dead,
        _ if has(state::INTERRUPTIBLE) => TaskState::Sleeping,
        _ if has(state::UNINTERRUPTIBLE) && has(state::NOLOAD) => TaskState::IdleKernel,
        _ if has(state::UNINTERRUPTIBLE | state::LIKE_UNINTERRUPTIBLE) => {
            TaskState::Uninterruptible
        }
        _ if has(state::STOPPED) => TaskState::Stopped,
        _ if has(state::TRACED) => TaskState::Traced,
        _ if has(state::PARKED) => TaskState::Parked,
        _ => TaskState::Runnable,
    }
}

/// Reasons of waits, by system call.
#[derive(Debug)]
pub struct Reasons {
    /// Indexed by the number of the call.
    calls: Vec<Waited>,
}

/// Reason of waits in a system call.
#[derive(Clone, Copy, Debug, Default)]
enum Waited {
    #[default]
    Unknown,
    Known(WaitReason),
    /// Depends on the type of the file.
    File,
}

const CALLS: [(WaitReason, &[&str]); 6] = [
    (WaitReason::Sleep, &["nanosleep", "clock_nanosleep"]),
    (
        WaitReason::Disk,
        &[
            "fsync",
            "fdatasync",
            "sync",
            "syncfs",
            "sync_file_range",
            "msync",
            "pread64",
            "pwrite64",
            "preadv",
            "pwritev",
        ],
    ),
    (
        WaitReason::Lock,
        &["futex", "futex_wait", "futex_waitv", "flock", "fcntl", "semop", "semtimedop"],
    ),
    (
        WaitReason::Network,
        &[
            "accept", "accept4", "connect", "recvfrom", "recvmsg", "recvmmsg", "sendto", "sendmsg",
            "sendmmsg",
        ],
    ),
    (
        WaitReason::Pipe,
        &[
            "poll",
            "ppoll",
            "select",
            "pselect6",
            "epoll_wait",
            "epoll_pwait",
            "epoll_pwait2",
            "msgrcv",
            "msgsnd",
            "mq_timedreceive",
            "mq_timedsend",
            "pause",
            "rt_sigsuspend",
            "rt_sigtimedwait",
        ],
    ),
    (WaitReason::Child, &["wait4", "waitid", "vfork", "clone", "clone3"]),
];

impl Reasons {
    pub fn new() -> Self {
        let mut calls = Vec::new();
        let mut set = |name: &str, waited| {
            let Some(number) = pyrograph_syscall::number_of(name) else { return };
            let number = number as usize;
            if calls.len() <= number {
                calls.resize(number + 1, Waited::default());
            }
            calls[number] = waited;
        };
        for (reason, names) in CALLS {
            names.iter().for_each(|name| set(name, Waited::Known(reason)));
        }
        ["read", "write", "readv", "writev"].iter().for_each(|name| set(name, Waited::File));
        Self { calls }
    }

    /// Returns the reason for which a task in this state waits.
    pub fn of(&self, wait: &Wait, state: TaskState) -> WaitReason {
        if !matches!(state, TaskState::Sleeping | TaskState::Uninterruptible) {
            return WaitReason::Unknown;
        }
        if wait.for_io {
            return WaitReason::Disk;
        }
        if wait.for_time {
            return WaitReason::Sleep;
        }
        let call = wait.call.and_then(|call| self.calls.get(call as usize));
        match call.copied().unwrap_or_default() {
            Waited::Unknown => WaitReason::Unknown,
            Waited::Known(reason) => reason,
            Waited::File => of_file(wait.file, state),
        }
    }
}

/// Returns the reason for which a read or write of a file waits. Waits for disks are uninterruptible.
fn of_file(kind: u16, state: TaskState) -> WaitReason {
    match kind {
        file::SOCKET => WaitReason::Network,
        // The type is 0 for files that exist as descriptors only: eventfd, signalfd and the like.
        file::FIFO | file::CHARACTER | 0 => WaitReason::Pipe,
        file::REGULAR | file::BLOCK | file::DIRECTORY if state == TaskState::Uninterruptible => {
            WaitReason::Disk
        }
        _ => WaitReason::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_those_that_ps_shows() {
        let letters = |bits: &[u32]| bits.iter().map(|bits| state_of(*bits).letter()).collect();
        let all: String = letters(&[0, 1, 2, 4, 8, 0x10, 0x20, 0x80, 0x40, 0x402, 0x102, 0x1000]);
        assert_eq!(all, "RSDTtXXXPIDD");
        // Killable, freezable, and others with marks.
        assert_eq!(letters(&[0x2001, 0x2102, 0x8000, 0x100]), "SDDR".to_owned());
    }

    #[test]
    fn reasons_are_those_of_the_call_and_its_file() {
        let reasons = Reasons::new();
        let check = |call: &str, file, state, expect| {
            let wait = Wait { call: pyrograph_syscall::number_of(call), file, ..Wait::default() };
            assert_eq!(reasons.of(&wait, state), expect, "{call} {file:o} {state:?}");
        };
        use TaskState::{Dead, Runnable, Sleeping, Uninterruptible};
        check("futex", 0, Sleeping, WaitReason::Lock);
        check("clock_nanosleep", 0, Sleeping, WaitReason::Sleep);
        check("epoll_wait", 0, Sleeping, WaitReason::Pipe);
        check("recvfrom", 0, Sleeping, WaitReason::Network);
        check("wait4", 0, Sleeping, WaitReason::Child);
        check("read", file::SOCKET, Sleeping, WaitReason::Network);
        check("read", file::FIFO, Sleeping, WaitReason::Pipe);
        check("write", file::CHARACTER, Sleeping, WaitReason::Pipe);
        check("read", 0, Sleeping, WaitReason::Pipe);
        check("read", file::REGULAR, Uninterruptible, WaitReason::Disk);
        check("read", file::REGULAR, Sleeping, WaitReason::Unknown);
        check("getpid", 0, Sleeping, WaitReason::Unknown);
        check("futex", 0, Runnable, WaitReason::Unknown);
        check("futex", 0, Dead, WaitReason::Unknown);
        let none = Wait::default();
        assert_eq!(reasons.of(&none, Sleeping), WaitReason::Unknown);
        let io = Wait { for_io: true, ..none };
        assert_eq!(reasons.of(&io, Uninterruptible), WaitReason::Disk);
        let time = Wait { for_time: true, call: pyrograph_syscall::number_of("poll"), ..none };
        assert_eq!(reasons.of(&time, Sleeping), WaitReason::Sleep);
        assert_eq!(
            reasons.of(&Wait { call: Some(u32::MAX), ..none }, Sleeping),
            WaitReason::Unknown
        );
    }
}
