//! Reasons why a virtual machine does not name its code.

use std::io;

/// Why a Java virtual machine has not named the code that it compiled. Where there is a remedy, the text names it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JvmError {
    /// It has ended.
    #[error("it ended before it could be asked")]
    Gone,
    /// HotSpot's library is another one, or damaged.
    #[error("its libjvm.so is not that of HotSpot")]
    NotHotSpot,
    /// There is no virtual machine in it, or not yet.
    #[error("it has not started a virtual machine")]
    NotStarted,
    /// It is stopped by a signal or a debugger.
    #[error("it is stopped")]
    Stopped,
    /// The JDK cannot name its code.
    #[error("JDK {} has no command for it; JDK 17 and newer have one", .0.as_deref().unwrap_or("10 or older"))]
    TooOld(Option<String>),
    /// It runs with `-XX:+DisableAttachMechanism`.
    #[error(
        "it was started with -XX:+DisableAttachMechanism; -XX:+DumpPerfMapAtExit names it at its end (JDK 17)"
    )]
    Disabled,
    /// It runs with `-Xrs` (no handler for SIGQUIT) and has no socket.
    #[error("it was started with -Xrs, and does not listen; without that it can be asked")]
    ReducedSignals,
    /// It cannot be seen whether it may be asked.
    #[error("its flags cannot be read ({0}); root may read them")]
    Unreadable(&'static str),
    /// It runs as another user.
    #[error("it runs as user {user}, group {group}; that user and root can ask it")]
    OtherUser {
        /// Its effective user.
        user: u32,
        /// Its effective group.
        group: u32,
    },
    /// An agent in it writes a map, over which its own would be written.
    #[error("an agent in it writes a map already")]
    OtherMap,
    /// The file that it would write is no file of its own.
    #[error("/tmp/perf-{0}.map is there and not its own; once that is removed it can be asked")]
    ForeignMap(i32),
    /// It has not written the map.
    #[error("it has not written /tmp/perf-{0}.map")]
    NoMap(i32),
    /// It does not answer.
    #[error("it has not answered within {0} seconds")]
    NoAnswer(u64),
    /// It refused.
    #[error("{0}")]
    Refused(String),
    /// A system call failed.
    #[error("{doing}: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// The error.
        source: io::Error,
    },
}

impl JvmError {
    /// Returns true if nothing is wrong with it: it had no time to be asked, or there is nobody to ask.
    pub fn is_expected(&self) -> bool {
        matches!(self, Self::Gone | Self::NotHotSpot | Self::NotStarted | Self::OtherMap)
    }

    /// Returns true if asking again later may do.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self, Self::NotStarted | Self::Stopped | Self::NoAnswer(_) | Self::System { .. })
    }

    pub(super) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { doing, source }
    }
}
