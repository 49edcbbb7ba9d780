//! Permissions of this user, and the changes that would grant them.
//!
//! Sources: `Documentation/admin-guide/sysctl/kernel.rst` (`perf_event_paranoid`),
//! `Documentation/admin-guide/perf-security.rst`, capabilities(7), proc_pid_status(5).

use std::fmt;
use std::fs;

use pyrograph_event::{is_in_first_user_namespace, proc_text};

/// An action that is not permitted, with the cause as far as it can be determined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} is not permitted: {cause}")]
pub struct NotPermitted {
    /// The action.
    pub what: Wanted,
    /// The cause.
    pub cause: Cause,
}

/// Actions that need a permission.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "Display words it")]
pub enum Wanted {
    User,
    Kernel,
    KernelEvent { event: String },
    System,
    Process { pid: i32 },
}

/// Causes of a missing permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The setting `kernel.perf_event_paranoid`.
    Paranoid {
        /// Its value.
        value: i32,
        /// The highest value that would permit it.
        needed: i32,
    },
    /// The process belongs to another user.
    OtherUser,
    /// Filter on system calls (seccomp), as container runtimes install it.
    Filter,
    /// The kernel has no such system call.
    NoPerfEvents,
    /// Another cause: a security module, or kernel lockdown.
    SecurityModule,
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User => write!(f, "sampling"),
            Self::Kernel => write!(f, "sampling kernel mode"),
            Self::KernelEvent { event } => {
                write!(f, "sampling {event}, which happens in the kernel,")
            }
            Self::System => write!(f, "sampling the whole machine"),
            Self::Process { pid } => write!(f, "sampling process {pid}"),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paranoid { value, needed } => write!(
                f,
                "kernel.perf_event_paranoid is {value}; \
                 to permit it: sudo sysctl kernel.perf_event_paranoid={needed} (or run as root)"
            ),
            Self::OtherUser => write!(f, "it belongs to another user; run as that user or as root"),
            Self::Filter => write!(
                f,
                "the system call perf_event_open is filtered, as container runtimes do; to permit it: start the \
                 container with --cap-add PERFMON, or with --security-opt seccomp=PROFILE that allows it"
            ),
            Self::NoPerfEvents => {
                write!(
                    f,
                    "the system call perf_event_open is not there: kernel without CONFIG_PERF_EVENTS, or a sandbox"
                )
            }
            Self::SecurityModule => {
                write!(
                    f,
                    "the kernel refuses it though the user may: see its security module or lockdown"
                )
            }
        }
    }
}

/// Facts that determine permissions, read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    /// `kernel.perf_event_paranoid`, if it can be read.
    pub paranoid: Option<i32>,
    /// True if the capability to sample everything is held in the initial user namespace, where it takes effect.
    pub privileged: bool,
    /// True if a seccomp filter is active.
    pub filtered: bool,
}

impl Rights {
    pub(crate) fn read() -> Self {
        let status = proc_text("/proc/self/status").unwrap_or_default();
        Self {
            paranoid: sysctl("perf_event_paranoid"),
            privileged: may_sample_all(&status) && is_in_first_user_namespace(),
            filtered: field(&status, "Seccomp:") == Some("2"),
        }
    }

    /// Returns the likely cause for which the kernel answered `errno` to `what`.
    pub(crate) fn explain(&self, what: Wanted, errno: i32) -> NotPermitted {
        let needed = match what {
            Wanted::User | Wanted::Process { .. } => 2,
            Wanted::Kernel | Wanted::KernelEvent { .. } => 1,
            Wanted::System => 0,
        };
        let cause = match self.paranoid {
            _ if errno == libc::ENOSYS => Cause::NoPerfEvents,
            Some(value) if !self.privileged && value > needed => Cause::Paranoid { value, needed },
            _ if self.filtered => Cause::Filter,
            _ if !self.privileged && matches!(what, Wanted::Process { .. }) => Cause::OtherUser,
            _ => Cause::SecurityModule,
        };
        NotPermitted { what, cause }
    }
}

/// Reads a number in `/proc/sys/kernel`. `None` if it cannot be read or parsed.
pub(crate) fn sysctl<T: std::str::FromStr>(name: &str) -> Option<T> {
    fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?.trim().parse().ok()
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Returns true if CAP_PERFMON (38) or CAP_SYS_ADMIN (21) is in the effective set.
fn may_sample_all(status: &str) -> bool {
    let effective = field(status, "CapEff:").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    effective.is_some_and(|bits| bits & (1 << 38 | 1 << 21) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Rights = Rights { paranoid: Some(2), privileged: true, filtered: false };
    const USER: Rights = Rights { paranoid: Some(2), privileged: false, filtered: false };

    fn check(rights: Rights, what: Wanted, errno: i32, expect: &str) {
        assert_eq!(rights.explain(what, errno).to_string(), expect);
    }

    #[test]
    fn the_setting_its_value_and_the_command_are_named() {
        check(
            USER,
            Wanted::System,
            libc::EACCES,
            "sampling the whole machine is not permitted: kernel.perf_event_paranoid is 2; \
             to permit it: sudo sysctl kernel.perf_event_paranoid=0 (or run as root)",
        );
        check(
            Rights { paranoid: Some(3), ..USER },
            Wanted::User,
            libc::EACCES,
            "sampling is not permitted: kernel.perf_event_paranoid is 3; \
             to permit it: sudo sysctl kernel.perf_event_paranoid=2 (or run as root)",
        );
    }

    #[test]
    fn what_no_setting_forbids_has_another_cause() {
        let process = Wanted::Process { pid: 1 };
        assert_eq!(USER.explain(process.clone(), libc::EACCES).cause, Cause::OtherUser);
        assert_eq!(ROOT.explain(process, libc::EACCES).cause, Cause::SecurityModule);
        assert_eq!(ROOT.explain(Wanted::User, libc::ENOSYS).cause, Cause::NoPerfEvents);
        let filtered = Rights { filtered: true, ..ROOT };
        assert_eq!(filtered.explain(Wanted::Kernel, libc::EPERM).cause, Cause::Filter);
    }

    #[test]
    fn capabilities_that_permit_sampling() {
        assert!(may_sample_all("Name:\tx\nCapEff:\t0000004000000000\n"));
        assert!(may_sample_all("CapEff:\t000001fffeffffff\n"));
        assert!(!may_sample_all("CapEff:\t0000000000003000\n"));
    }
}
