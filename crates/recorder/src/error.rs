//! Reasons why nothing can be recorded.

use std::io;
use std::path::PathBuf;

use pyrograph_record::EventError;

use crate::in_kernel::EngineError;
use crate::places::PlaceError;

/// Why nothing can be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Events, processes, the command.
    #[error(transparent)]
    Record(#[from] pyrograph_record::Error),
    /// The event is not known.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The place in a program is not known.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The in-kernel engine, which was asked for or is needed, cannot be used.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// [`Engine::Perf`](crate::Engine::Perf) was asked for, and cannot answer the question or apply the filters.
    #[error("only the in-kernel engine can record this")]
    NeedsInKernel,
    /// The recording was not started, or that failed.
    #[error("the recording was not started")]
    NotStarted,
    /// No system call has this name.
    #[error("no system call is called '{name}'{}", similar(.near))]
    UnknownCall {
        /// The name.
        name: String,
        /// Names like it, nearest first.
        near: Vec<String>,
    },
    /// The tracer itself waits for locks.
    #[error(
        "{name} cannot be traced: the tracer takes locks of the kernel itself; record --locks has the waits for them, \
         with stacks"
    )]
    OwnLocks {
        /// The tracepoint.
        name: String,
    },
    /// Allocations of several processes, which may have several C libraries.
    #[error("allocations are recorded of one process, or of all that use this machine's C library")]
    SeveralProcesses,
    /// The mappings of a process cannot be read, to find its C library.
    #[error("the mappings of process {process}")]
    Mappings {
        /// The process, by its name in `/proc`.
        process: String,
        /// Why.
        source: io::Error,
    },
    /// Nothing of what is to be recorded has one of the names.
    #[error(
        "no process or thread{} has the name {}",
        if *.all { "" } else { " of these" },
        .names.join(" or ")
    )]
    NoSuchName {
        /// The names.
        names: Vec<String>,
        /// The whole machine is to be recorded, and not certain processes.
        all: bool,
    },
    /// There is no such control group.
    #[error("there is no control group {}", path.display())]
    NoSuchGroup {
        /// The folder.
        path: PathBuf,
        /// Why not.
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
    /// Returns true if what was asked for makes no sense, whatever the machine is like.
    pub fn is_misuse(&self) -> bool {
        match self {
            Self::Event(_) | Self::UnknownCall { .. } | Self::OwnLocks { .. } => true,
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

    /// Returns true if a permission is missing that another user, or this one with more capabilities, would have.
    pub fn is_refusal(&self) -> bool {
        use pyrograph_record::Error as Record;
        let is_refused = |source: &io::Error| source.kind() == io::ErrorKind::PermissionDenied;
        match self {
            Self::Record(Record::NotPermitted(_)) => true,
            Self::Record(Record::System { source, .. } | Record::Unsupported { source, .. })
            | Self::Mappings { source, .. } => is_refused(source),
            Self::Engine(error) => error.is_refusal(),
            _ => false,
        }
    }
}

/// Names like one that is not known, as the rest of a sentence.
pub(crate) fn similar(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!(": did you mean {}?", near.join(", ")) }
}
