//! Reasons why a recording cannot be made.

use std::io;
use std::num::ParseIntError;
use std::path::PathBuf;

use pyrograph_record::EventError;

use crate::engine_error::EngineError;

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
                    | PlaceError::LineOfReturn { .. }
                    | PlaceError::ValuesOfPlace { .. }
                    | PlaceError::SeveralEvents { .. }
                    | PlaceError::NoCall { .. }
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

#[cfg(feature = "bpf")]
impl From<pyrograph_bpf::Error> for Error {
    fn from(error: pyrograph_bpf::Error) -> Self {
        EngineError::from(error).into()
    }
}

/// Reasons why a place in a program cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The text is not `FILE:FUNCTION`.
    #[error(
        "{prefix}:{place}: use {prefix}:FILE:FUNCTION, for example {prefix}:/bin/bash:readline"
    )]
    Function {
        /// `uprobe` or `uretprobe`.
        prefix: &'static str,
        /// The text after the prefix.
        place: String,
    },
    /// The text is not `FILE:PROVIDER:NAME`.
    #[error("usdt:{place}: use usdt:FILE:PROVIDER:NAME; readelf -n FILE lists a file's probes")]
    Probe {
        /// The text after `usdt:`.
        place: String,
    },
    /// The offset in a function is not a number.
    #[error("{prefix}:{place}: '{offset}' is no offset")]
    Offset {
        /// `uprobe` or `uretprobe`.
        prefix: &'static str,
        /// The text after the prefix.
        place: String,
        /// The offset.
        offset: String,
        /// The error of parsing it.
        source: ParseIntError,
    },
    /// An offset was given for the returns of a function.
    #[error("{prefix}:{place}: a return has no offset in the function: leave it out")]
    OffsetOfReturn {
        /// `uretprobe`.
        prefix: &'static str,
        /// The text after the prefix.
        place: String,
    },
    /// The file cannot be opened.
    #[error("{0}")]
    File(pyrograph_symbol::Error),
    /// The file has no symbol tables, or none with functions.
    #[error("no function '{name}' in {}: its symbol tables name none at all", path.display())]
    NoFunctions {
        /// The function.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// The file has no function with this name.
    #[error("no function '{name}' in {}{}", path.display(), similar(.near))]
    NoFunction {
        /// The function.
        name: String,
        /// The file.
        path: PathBuf,
        /// Similar names, nearest first.
        near: Vec<String>,
    },
    /// The text is not the name of a function of the kernel.
    #[error("kprobe:{name}: use kprobe:FUNCTION, for example kprobe:vfs_read")]
    KernelFunction {
        /// The text after the prefix.
        name: String,
    },
    /// The kernel has no function with this name.
    #[error("the kernel has no function '{name}'{}", similar(.near))]
    NoKernelFunction {
        /// The function.
        name: String,
        /// Similar names, nearest first.
        near: Vec<String>,
    },
    /// The kernel was built without probes.
    #[error(
        "this kernel has no probes (CONFIG_KPROBE_EVENTS): its tracepoints can be recorded, `pyrograph list tracepoint` names them"
    )]
    NoKernelProbes,
    /// No function of the file is of this source file.
    #[error("no code of {} is of the source file '{name}'{}", path.display(), similar(.near))]
    NoSource {
        /// The source file.
        name: String,
        /// The file.
        path: PathBuf,
        /// Similar names, nearest first.
        near: Vec<String>,
    },
    /// No code begins at the line.
    #[error("no code of {what} in {} begins at line {line}{}", path.display(), with_code(.lines))]
    NoLine {
        /// The file.
        path: PathBuf,
        /// The function or source file.
        what: String,
        /// The line.
        line: u32,
        /// Lines near it at which code begins.
        lines: Vec<u32>,
    },
    /// The function has no code of its own to return from.
    #[error(
        "'{name}' in {} is inlined into its callers, and does not return: uprobe: has its calls",
        path.display()
    )]
    InlinedOnly {
        /// The function.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// A line was given for the returns of a function.
    #[error("{prefix}:{place}: a return has no line: leave it out")]
    LineOfReturn {
        /// `uretprobe`.
        prefix: &'static str,
        /// The text after the prefix.
        place: String,
    },
    /// A value cannot be read in the kernel.
    #[error("'{expression}' cannot be read: {why}")]
    Value {
        /// The expression.
        expression: String,
        /// The reason.
        why: &'static str,
    },
    /// Values behind a place where none are read.
    #[error(
        "{place}: what is wanted of the values? `pyrograph stat` and `pyrograph record` have --by, --value and --filter for them, `pyrograph trace -e` shows them"
    )]
    ValuesOfPlace {
        /// The place with its values.
        place: String,
    },
    /// More values than are read of one event.
    #[error("at most {most} values are read of one event, those of its filter included")]
    TooManyValues {
        /// As many are read.
        most: usize,
    },
    /// The filter has too many steps.
    #[error("the filter is too long: it has more than {most} comparisons, &&, || and !")]
    LongFilter {
        /// As many are permitted.
        most: usize,
    },
    /// A tracepoint has no such field.
    #[error("{tracepoint} has no field '{name}'{}; it has {fields}", similar(.near))]
    NoField {
        /// The field.
        name: String,
        /// The tracepoint.
        tracepoint: String,
        /// Similar names, nearest first.
        near: Vec<String>,
        /// The fields that it has.
        fields: String,
    },
    /// No system call has such an argument.
    #[error("no call has an argument '{name}'; besides arguments there are ret and duration (ns)")]
    NoArgument {
        /// The argument.
        name: String,
    },
    /// Values or a filter of an event that has none.
    #[error("{event}: values are read of functions, lines and tracepoints, not of this event")]
    NoValues {
        /// The event.
        event: String,
    },
    /// The time until something returns that does not.
    #[error("{place}: only calls of functions return: uprobe:FILE:FUNCTION")]
    NoCall {
        /// The place.
        place: String,
    },
    /// One event, or more than two, where the time from one to another is measured.
    #[error(
        "--key is of two events, of which the first begins what the second ends; there are {count} in -e"
    )]
    NotTwoEvents {
        /// As many are there.
        count: usize,
    },
    /// No function or probe has such a name.
    #[error("{pattern} matches nothing; `pyrograph list` takes the same pattern")]
    NoMatch {
        /// The pattern.
        pattern: String,
    },
    /// A pattern stands for too many functions.
    #[error(
        "{pattern} matches {count} functions or probes, and at most {most} are watched at once"
    )]
    ManyMatches {
        /// The pattern.
        pattern: String,
        /// Number of what it matches.
        count: usize,
        /// As many are watched.
        most: usize,
    },
    /// Stacks of several events by their values.
    #[error("stacks are recorded by the values of one event, not of {}", several(events))]
    SeveralEvents {
        /// The events.
        events: Vec<String>,
    },
    /// The debug information cannot be read.
    #[error(transparent)]
    Source(#[from] pyrograph_probe::Error),
    /// The offset is beyond the end of the function.
    #[error("{name}+{offset:#x} is not in the function, which has {len} bytes")]
    Outside {
        /// The function.
        name: String,
        /// The offset.
        offset: usize,
        /// Length of the function in bytes.
        len: usize,
    },
    /// The offset is inside an instruction: a breakpoint there would corrupt the program.
    #[error(
        "{name}+{offset:#x} is inside of an instruction, which would break the program: it begins at \
         {}, and the next at {name}+{next:#x}",
        if *.start == 0 { name.clone() } else { format!("{name}+{start:#x}") }
    )]
    Inside {
        /// The function.
        name: String,
        /// The offset.
        offset: usize,
        /// Offset of the start of the instruction.
        start: usize,
        /// Offset of the start of the next instruction.
        next: usize,
    },
    /// The file has no probes.
    #[error("{} has no probes of its own (USDT)", path.display())]
    NoProbes {
        /// The file.
        path: PathBuf,
    },
    /// The file has no probe with this name.
    #[error("no probe '{name}' in {}{}", path.display(), similar(.near))]
    NoProbe {
        /// Provider and name of the probe.
        name: String,
        /// The file.
        path: PathBuf,
        /// Similar names, nearest first.
        near: Vec<String>,
    },
}

/// Reasons why the goroutines of a target cannot be followed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GoError {
    /// The target is not a single program.
    #[error("goroutines are recorded of a command or of one process")]
    SeveralPrograms,
    /// The program is not a Go program.
    #[error("{} is not a program of Go (1.2 or newer, for x86-64)", path.display())]
    NotGo {
        /// File of the program.
        path: PathBuf,
    },
    /// The program was built by a Go that passes arguments on the stack.
    #[error("{} was built by a Go older than 1.17, which kept its goroutines elsewhere", path.display())]
    TooOld {
        /// File of the program.
        path: PathBuf,
    },
}

/// Returns the suggestion of similar names, to be appended to an error message. Empty if there are none.
pub(crate) fn similar(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!(": did you mean {}?", near.join(", ")) }
}

/// The first few of some names, and how many more there are.
fn several(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 if names.is_empty() => "none".to_owned(),
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Returns the suggestion of lines, to be appended to an error message. Empty if there are none.
fn with_code(lines: &[u32]) -> String {
    let lines: Vec<String> = lines.iter().map(u32::to_string).collect();
    if lines.is_empty() { String::new() } else { format!(": it does at {}", lines.join(", ")) }
}
