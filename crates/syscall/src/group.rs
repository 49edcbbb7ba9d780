//! Groups of calls, with the names of `strace -e trace=%NAME`.

use crate::call::Call;
use crate::numbers::all;

/// Names of all groups.
pub const GROUPS: &[&str] = &[
    "file", "desc", "network", "net", "process", "memory", "signal", "ipc", "creds", "clock",
    "stat", "lstat", "fstat", "%stat", "statfs", "fstatfs", "%statfs", "pure",
];

/// Calls of a group that cannot be derived from the kinds of their arguments.
#[rustfmt::skip]
const NAMES: &[(&str, &[&str])] = &[
    // These take a path in a structure, or operate on one without taking it.
    ("file", &["getcwd", "quotactl", "mount", "swapon", "swapoff"]),
    ("desc", &[
        "bpf", "close_range", "epoll_pwait2", "fsconfig", "io_uring_enter", "pipe", "pipe2", "poll", "ppoll", "pselect6", "select", "socketpair",
    ]),
    ("network", &[
        "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "recvfrom", "recvmmsg", "recvmsg",
        "sendfile", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown", "socket", "socketpair",
    ]),
    ("process", &[
        "clone", "clone3", "execve", "execveat", "exit", "exit_group", "fork", "kill", "pidfd_send_signal", "rt_sigqueueinfo",
        "rt_tgsigqueueinfo", "tgkill", "tkill", "vfork", "wait4", "waitid",
    ]),
    ("memory", &[
        "brk", "get_mempolicy", "io_destroy", "io_setup", "io_uring_register", "madvise", "map_shadow_stack", "mbind", "migrate_pages", "mincore",
        "mlock", "mlock2", "mlockall", "mmap", "move_pages", "mprotect", "mremap", "mseal", "msync", "munlock", "munlockall", "munmap",
        "pkey_mprotect", "remap_file_pages", "set_mempolicy", "set_mempolicy_home_node", "shmat", "shmdt",
    ]),
    ("signal", &[
        "io_uring_enter", "kill", "pause", "pidfd_send_signal", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo",
        "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo", "sigaltstack", "signalfd", "signalfd4", "tgkill", "tkill",
    ]),
    ("ipc", &[
        "msgctl", "msgget", "msgrcv", "msgsnd", "semctl", "semget", "semop", "semtimedop", "shmat", "shmctl", "shmdt", "shmget",
    ]),
    ("creds", &[
        "capget", "capset", "getegid", "geteuid", "getgid", "getgroups", "getresgid", "getresuid", "getuid", "prctl", "setfsgid", "setfsuid",
        "setgid", "setgroups", "setregid", "setresgid", "setresuid", "setreuid", "setuid",
    ]),
    ("clock", &[
        "adjtimex", "clock_adjtime", "clock_getres", "clock_gettime", "clock_settime", "gettimeofday", "settimeofday", "time",
    ]),
    ("stat", &["stat"]),
    ("lstat", &["lstat"]),
    ("fstat", &["fstat", "newfstatat", "statx"]),
    ("%stat", &["stat", "lstat", "fstat", "newfstatat", "statx"]),
    ("statfs", &["statfs"]),
    ("fstatfs", &["fstatfs"]),
    ("%statfs", &["statfs", "fstatfs", "ustat"]),
    ("pure", &["getegid", "geteuid", "getgid", "getpgrp", "getpid", "getppid", "gettid", "getuid"]),
];

/// Returns the numbers of the calls of a group, such as `%file`, `%network`, `%process`, `%memory`, `%desc`; the first
/// `%` is optional.
pub fn group(name: &str) -> Option<Vec<u32>> {
    let name = name.strip_prefix('%').unwrap_or(name);
    let name = if name == "net" { "network" } else { name };
    let (_, names) = NAMES.iter().find(|(group, _)| *group == name)?;
    let derived = |call: &Call| match name {
        "file" => call.has_path(),
        "desc" => call.has_descriptor(),
        _ => false,
    };
    Some(
        all()
            .filter(|(_, call)| derived(call) || names.contains(&call.name))
            .map(|(number, _)| number)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::{GROUPS, group};
    use crate::by_number;

    #[test]
    fn groups_hold_calls_that_there_are() {
        for group_name in GROUPS {
            assert!(group(group_name).is_some_and(|calls| !calls.is_empty()), "{group_name}");
        }
        let named: Vec<&str> = group("%file")
            .into_iter()
            .flatten()
            .filter_map(by_number)
            .map(|call| call.name)
            .collect();
        assert!(
            named.contains(&"openat") && named.contains(&"execve") && !named.contains(&"read"),
            "{named:?}"
        );
        assert_eq!(group("%network"), group("net"));
        assert_eq!(group("%nonsense"), None);
    }
}
