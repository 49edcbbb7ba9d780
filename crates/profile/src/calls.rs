//! System calls of threads: one by one, with their arguments as text, and counted.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::durations::Durations;
use crate::frame::FrameKind;

/// Something that a traced thread did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadEvent {
    /// When it began: nanoseconds since 1970-01-01 UTC; 0 if that is not known.
    pub time: u64,
    /// The process's ID; 0 if it is not known.
    pub process: i32,
    /// The thread's ID; 0 if it is not known.
    pub thread: i32,
    /// The thread's name; empty if it is not known.
    pub thread_name: String,
    /// What it did.
    pub action: ThreadAction,
    /// Its stack at that time, the innermost frame first; empty if it is not known.
    pub stack: Vec<Arc<StackLine>>,
}

/// A frame of a stack as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackLine {
    /// The function's name; of a marker, its text in brackets.
    pub function: String,
    /// How many bytes it is from the function's start, or from the start of the file if the function is not known; `None`
    /// in an inlined one.
    pub offset: Option<u64>,
    /// The file that holds it; empty if there is none.
    pub module: String,
    /// The file and line of its source: `main.c:12`; empty if it is not known.
    pub source: String,
    /// Its kind.
    pub kind: FrameKind,
    /// It was found by a guess.
    pub guessed: bool,
}

/// What a traced thread did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadAction {
    /// It made a system call.
    Call(TracedCall),
    /// It was given a signal.
    Signal {
        /// The signal's name: `SIGCHLD`.
        name: String,
        /// Why it was sent, by whom: `si_code=CLD_EXITED, si_pid=1234`; empty if that is not known.
        details: String,
    },
    /// It came to an event: a tracepoint, or a place in a program.
    Event {
        /// The event's name: `sched:sched_switch`.
        name: String,
        /// What is known of it; may be empty.
        text: String,
    },
    /// It accessed memory that was not mapped yet, or not there.
    Fault {
        /// A page had to be read.
        major: bool,
        /// Where in the code: `memset+0x1d`.
        place: String,
        /// The address that it accessed.
        address: u64,
        /// What is there: a file and an offset in it, `heap`, `stack`, `anon`; empty if it is not known.
        target: String,
    },
    /// It ended by itself, with an exit code.
    Exited {
        /// The exit code.
        code: i32,
    },
    /// A signal ended it.
    Killed {
        /// The signal's name.
        signal: String,
        /// Its memory was written into a file.
        dumped: bool,
    },
}

/// A system call as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracedCall {
    /// The call's name.
    pub name: Cow<'static, str>,
    /// Name and value of each argument; names are empty where they are not known.
    pub arguments: Vec<(Cow<'static, str>, String)>,
    /// The result: `3</etc/passwd>`, `-1 ENOENT (No such file or directory)`, `?`.
    pub result: String,
    /// The number that it returned; `None` if it has not returned.
    pub value: Option<i64>,
    /// The error's name, if it failed.
    pub error: Option<Cow<'static, str>>,
    /// How long it took, or had taken when tracing ended, in nanoseconds; `None` if that is not known.
    pub duration: Option<u64>,
    /// It had not returned when tracing ended, or, where the duration is not known, when tracing began.
    pub unfinished: bool,
}

/// Calls of one name that a thread made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallCount {
    /// The process's ID.
    pub process: i32,
    /// The process's name.
    pub process_name: String,
    /// The thread's ID.
    pub thread: i32,
    /// The thread's name.
    pub thread_name: String,
    /// The control group's path; empty if it is not known, or not asked for.
    pub group: String,
    /// The call's name.
    pub name: String,
    /// How many there were.
    pub calls: u64,
    /// How many of these failed, by the error's name: `ENOENT`.
    pub errors: BTreeMap<String, u64>,
    /// The time that they took, as far as it is known.
    pub times: Durations,
}

impl CallCount {
    /// The count of a call that has returned; `None` for what else a thread does.
    pub fn of(event: &ThreadEvent) -> Option<Self> {
        let ThreadAction::Call(call) = &event.action else { return None };
        call.value?;
        let mut times = Durations::default();
        if let Some(duration) = call.duration {
            times.add(duration);
        }
        Some(Self {
            process: event.process,
            process_name: event.thread_name.clone(),
            thread: event.thread,
            thread_name: event.thread_name.clone(),
            group: String::new(),
            name: call.name.clone().into_owned(),
            calls: 1,
            errors: call.error.iter().map(|error| (error.clone().into_owned(), 1)).collect(),
            times,
        })
    }
}

/// Counts of calls that are added up.
#[derive(Clone, Debug, Default)]
pub struct CallCounts {
    rows: BTreeMap<(i32, i32, String), CallCount>,
}

impl CallCounts {
    /// Adds a count to that of the same calls of the same thread.
    pub fn add(&mut self, count: CallCount) {
        let known = self.rows.entry((count.process, count.thread, count.name.clone()));
        let known = known.or_insert_with(|| CallCount {
            process: count.process,
            thread: count.thread,
            name: count.name,
            ..CallCount::default()
        });
        known.calls += count.calls;
        known.times.merge(&count.times);
        for (error, failed) in count.errors {
            *known.errors.entry(error).or_default() += failed;
        }
        // Names are the last ones: a program that was executed gives another.
        (known.process_name, known.thread_name) = (count.process_name, count.thread_name);
        known.group = count.group;
    }

    /// The counts, by process and thread.
    pub fn into_rows(self) -> Vec<CallCount> {
        self.rows.into_values().collect()
    }
}
