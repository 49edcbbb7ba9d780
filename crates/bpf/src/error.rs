//! Errors of the engine.

use std::path::{Path, PathBuf};

use pyrograph_event::{is_in_first_user_namespace, proc_text};

use crate::features;
use crate::loader_log;

/// Message from the kernel or the loader, in one line, and true if permission was denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    text: String,
    is_refusal: bool,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self { text, is_refusal: false }
    }
}

impl Reason {
    /// Makes a message of an error and its causes.
    pub(crate) fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut reason = Self { text: error.to_string(), is_refusal: is_refusal(error) };
        let mut cause = error.source();
        while let Some(error) = cause {
            reason.text = format!("{}: {error}", reason.text);
            reason.is_refusal |= is_refusal(error);
            cause = error.source();
        }
        reason
    }
}

/// Returns true if the kernel denied permission: EPERM or EACCES.
fn is_refusal(error: &(dyn std::error::Error + 'static)) -> bool {
    let io = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    let loader = error.downcast_ref::<libbpf_rs::Error>().map(libbpf_rs::Error::kind);
    io == Some(std::io::ErrorKind::PermissionDenied)
        || loader == Some(libbpf_rs::ErrorKind::PermissionDenied)
}

/// Reasons why the in-kernel engine cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The programs could not be loaded.
    #[error("the kernel does not take the in-kernel programs ({reason})")]
    Load {
        /// Message from the kernel or the loader.
        reason: Reason,
        /// End of the loader's and verifier's log, in many lines.
        details: String,
    },
    /// The kernel lacks the tracepoint of the requested event.
    #[error("the kernel lacks {what}")]
    Lacks {
        /// Name of the tracepoint.
        what: &'static str,
    },
    /// A program could not be attached.
    #[error("the program '{program}' cannot be attached ({reason})")]
    Attach {
        /// Name of the program.
        program: &'static str,
        /// Message from the kernel or the loader.
        reason: Reason,
    },
    /// A tracepoint cannot be traced.
    #[error("the tracepoint {name} cannot be traced ({reason})")]
    Tracepoint {
        /// Name of the tracepoint.
        name: String,
        /// Message from the kernel or the loader.
        reason: Reason,
    },
    /// A function of the kernel cannot be watched.
    #[error("cannot watch the kernel's '{name}': {reason}")]
    KernelFunction {
        /// Name of the function.
        name: String,
        /// Message from the kernel or the loader.
        reason: Reason,
    },
    /// A function of a program cannot be watched.
    #[error("cannot watch '{function}' in {}: {reason}", path.display())]
    Function {
        /// Path of the file.
        path: PathBuf,
        /// Name of the function.
        function: String,
        /// Reason of the failure.
        reason: Reason,
    },
    /// Memory could not be shared with the programs.
    #[error("the memory '{map}' cannot be shared with the kernel ({reason})")]
    Map {
        /// Name of the map.
        map: &'static str,
        /// Message from the kernel or the loader.
        reason: Reason,
    },
    /// The kernel's data structures of mappings differ from those that the programs know.
    #[error(
        "the kernel's trees of mappings are not as the in-kernel engine knows them (Linux 5.15 and newer)"
    )]
    Mappings,
    /// The programs support only the registers and stacks of x86-64.
    #[error("the in-kernel engine is for x86-64")]
    UnsupportedArch,
    /// The user may not load BPF programs.
    #[error(
        "loading programs into the kernel is for root outside of user namespaces, or with the capabilities CAP_BPF \
         and CAP_PERFMON"
    )]
    NotPermitted,
}

impl Error {
    /// Returns true if it would work for another user.
    pub fn is_permission(&self) -> bool {
        matches!(self, Self::NotPermitted)
    }

    /// Returns true if the kernel or a file system denied permission.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Load { reason, .. }
            | Self::Attach { reason, .. }
            | Self::Tracepoint { reason, .. }
            | Self::Function { reason, .. }
            | Self::KernelFunction { reason, .. }
            | Self::Map { reason, .. } => reason.is_refusal,
            Self::NotPermitted => true,
            Self::Lacks { .. } | Self::Mappings | Self::UnsupportedArch => false,
        }
    }

    /// Log of the loader and the verifier, in many lines.
    pub fn details(&self) -> Option<&str> {
        match self {
            Self::Load { details, .. } => Some(details),
            _ => None,
        }
    }

    pub(crate) fn load(error: libbpf_rs::Error) -> Self {
        let details = loader_log::take();
        let missing = features::missing();
        let reason = match missing.is_empty() {
            true => Reason::of(&error),
            false => format!("it lacks {}", missing.join(", ")).into(),
        };
        Self::Load { reason, details }
    }

    /// The compiled object has no such map or program.
    pub(crate) fn missing(what: &str, name: &str) -> Self {
        Self::Load { reason: format!("no {what} '{name}'").into(), details: String::new() }
    }

    pub(crate) fn attach(program: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |error| Self::Attach { program, reason: Reason::of(&error) }
    }

    pub(crate) fn function(path: &Path, function: &str, error: &libbpf_rs::Error) -> Self {
        let reason = match error.kind() {
            libbpf_rs::ErrorKind::NotFound if path.exists() => {
                "it has no function of this name in its symbol tables".to_owned().into()
            }
            libbpf_rs::ErrorKind::NotFound => "there is no such file".to_owned().into(),
            _ => Reason::of(error),
        };
        Self::Function { path: path.to_owned(), function: function.to_owned(), reason }
    }

    pub(crate) fn map<E: std::error::Error + 'static>(map: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Map { map, reason: Reason::of(&error) }
    }
}

/// Returns true if this process has the capabilities that loading requires (include/uapi/linux/capability.h), in the
/// initial user namespace, the only one in which they count.
pub(crate) fn may_load() -> bool {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    const CAP_PERFMON: u64 = 1 << 38;
    const CAP_BPF: u64 = 1 << 39;
    if !is_in_first_user_namespace() {
        return false;
    }
    let status = proc_text("/proc/self/status").unwrap_or_default();
    let has = status
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok())
        .unwrap_or(0);
    has & CAP_SYS_ADMIN != 0 || has & (CAP_BPF | CAP_PERFMON) == CAP_BPF | CAP_PERFMON
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_the_kernel_differ_from_other_errors() {
        let of = |errno| {
            let io = std::io::Error::from_raw_os_error(errno);
            let io_too = std::io::Error::from_raw_os_error(errno);
            [
                Error::map("events")(io).is_refusal(),
                Error::attach("on_event")(libbpf_rs::Error::from(io_too)).is_refusal(),
            ]
        };
        assert_eq!(of(libc::EPERM), [true, true]);
        assert_eq!(of(libc::EACCES), [true, true]);
        assert_eq!(of(libc::ENOENT), [false, false]);
        assert!(Error::NotPermitted.is_refusal());
    }
}
