//! Reasons why a virtual machine does not name its code.

use std::io;

/// Reasons why a Java virtual machine has not named its compiled code. If there is a remedy, the message contains it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JvmError {
    /// The process has ended.
    #[error("it ended before it could be asked")]
    Gone,
    /// Its `libjvm.so` is not HotSpot's, or is damaged.
    #[error("its libjvm.so is not that of HotSpot")]
    NotHotSpot,
    /// The process has no virtual machine, or has not started it yet.
    #[error("it has not started a virtual machine")]
    NotStarted,
    /// The process is stopped by a signal or a debugger.
    #[error("it is stopped")]
    Stopped,
    /// The JDK has no command for it. The version, if it is known.
    #[error("JDK {} has no command for it; JDK 17 and newer have one", .0.as_deref().unwrap_or("10 or older"))]
    TooOld(Option<String>),
    /// It runs with `-XX:+DisableAttachMechanism`.
    #[error(
        "it was started with -XX:+DisableAttachMechanism; -XX:+DumpPerfMapAtExit names it at its end (JDK 17)"
    )]
    Disabled,
    /// It runs with `-Xrs` (no handler for SIGQUIT), and has no socket.
    #[error("it was started with -Xrs, and does not listen; without that it can be asked")]
    ReducedSignals,
    /// The machine's flags could not be read, so it is not known if it may be asked. Contains the file or call that
    /// failed.
    #[error("its flags cannot be read ({0}); root may read them")]
    Unreadable(&'static str),
    /// It runs as another user, and this process may not act as that user.
    #[error("it runs as user {user}, group {group}; that user and root can ask it")]
    OtherUser {
        /// Its effective user ID.
        user: u32,
        /// Its effective group ID.
        group: u32,
    },
    /// An agent in it already writes a perf map, which its own map would overwrite.
    #[error("an agent in it writes a map already")]
    OtherMap,
    /// The file that it would write exists, and does not belong to it.
    #[error("/tmp/perf-{0}.map is there and not its own; once that is removed it can be asked")]
    ForeignMap(i32),
    /// It has not written the perf map.
    #[error("it has not written /tmp/perf-{0}.map")]
    NoMap(i32),
    /// It has not answered within this number of seconds.
    #[error("it has not answered within {0} seconds")]
    NoAnswer(u64),
    /// It has refused the command, with this message.
    #[error("{0}")]
    Refused(String),
    /// A system call failed.
    #[error("{doing}: {source}")]
    System {
        /// Action that failed.
        doing: &'static str,
        /// Error of the system call.
        source: io::Error,
    },
}

impl JvmError {
    /// Returns true if nothing is wrong: the process ended too early, or has no machine to ask.
    pub fn is_expected(&self) -> bool {
        matches!(self, Self::Gone | Self::NotHotSpot | Self::NotStarted | Self::OtherMap)
    }

    /// Returns true if a later request may succeed.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self, Self::NotStarted | Self::Stopped | Self::NoAnswer(_) | Self::System { .. })
    }

    pub(super) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { doing, source }
    }
}
