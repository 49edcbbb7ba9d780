//! Reasons why a recording cannot be made.

use std::io;
use std::path::PathBuf;

use pyrograph_record::EventError;

use crate::goroutines::GoError;
use crate::in_kernel::EngineError;
use crate::places::PlaceError;

/// Reasons why a recording cannot be made or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Error of the events, the processes, or the command.
    #[error(transparent)]
    Record(#[from] pyrograph_record::Error),
    /// The event's name could not be parsed.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The place in a program cannot be recorded.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The goroutines of the target cannot be followed.
    #[error(transparent)]
    Go(#[from] GoError),
    /// The in-kernel engine, which was requested or is required, cannot be used.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// [`Engine::Perf`](crate::Engine::Perf) was requested, but cannot answer the question or apply the filters.
    #[error("only the in-kernel engine can record this")]
    NeedsInKernel,
    /// The recording has not been started, or starting it has failed.
    #[error("the recording was not started")]
    NotStarted,
    /// No system call has this name.
    #[error("no system call is called '{name}'{}", similar(.near))]
    UnknownCall {
        /// The name.
        name: String,
        /// Similar names, nearest first.
        near: Vec<String>,
    },
    /// The tracepoint cannot be traced, since the tracer itself waits for kernel locks.
    #[error(
        "{name} cannot be traced: the tracer takes locks of the kernel itself; record --locks has the waits for them, \
         with stacks"
    )]
    OwnLocks {
        /// The tracepoint.
        name: String,
    },
    /// Allocations of several processes were requested. The processes may have several C libraries.
    #[error("allocations are recorded of one process, or of all that use this machine's C library")]
    SeveralProcesses,
    /// The mappings of a process, among which its C library is searched, cannot be read.
    #[error("the mappings of process {process}")]
    Mappings {
        /// The process, by its ID or other name in `/proc`.
        process: String,
        /// The error of reading them.
        source: io::Error,
    },
    /// No process or thread of the target has one of the names.
    #[error(
        "no process or thread{} has the name {}",
        if *.all { "" } else { " of these" },
        .names.join(" or ")
    )]
    NoSuchName {
        /// The names.
        names: Vec<String>,
        /// True if the target is the whole machine, false if it is certain processes.
        all: bool,
    },
    /// There is no such control group.
    #[error("there is no control group {}", path.display())]
    NoSuchGroup {
        /// Path of its directory.
        path: PathBuf,
        /// The error of opening it.
        source: io::Error,
    },
    /// The path is not one of a control group.
    #[error("{} is not a folder of control groups (version 2)", path.display())]
    NotAGroup {
        /// The path.
        path: PathBuf,
    },
}

impl Error {
    /// Returns true if the request is invalid on any machine.
    pub fn is_misuse(&self) -> bool {
        match self {
            Self::Event(_) | Self::UnknownCall { .. } | Self::OwnLocks { .. } => true,
            Self::Go(error) => matches!(error, GoError::SeveralPrograms),
            Self::Record(error) => matches!(error, pyrograph_record::Error::Event(_)),
            Self::Place(error) => matches!(
                error,
                PlaceError::Function { .. }
                    | PlaceError::Probe { .. }
                    | PlaceError::OffsetOfReturn { .. }
            ),
            _ => false,
        }
    }

    /// Returns true if the cause is a missing permission, which another user, or this user with more capabilities,
    /// would have.
    pub fn is_refusal(&self) -> bool {
        use pyrograph_record::Error as Record;
        let is_refused = |source: &io::Error| source.kind() == io::ErrorKind::PermissionDenied;
        match self {
            Self::Record(Record::NotPermitted(_)) => true,
            Self::Record(
                Record::System { source, .. } | Record::Unsupported { answer: source, .. },
            )
            | Self::Mappings { source, .. } => is_refused(source),
            Self::Engine(error) => error.is_refusal(),
            _ => false,
        }
    }
}

/// Returns the suggestion of similar names, to be appended to an error message. Empty if there are none.
pub(crate) fn similar(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!(": did you mean {}?", near.join(", ")) }
}
