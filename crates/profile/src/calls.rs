//! System calls of threads, one by one with their arguments as text, or counted.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::durations::Durations;
use crate::frame::FrameKind;

/// An action of a traced thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadEvent {
    /// Start of the action, in nanoseconds since 1970-01-01 UTC; 0 if not known.
    pub time: u64,
    /// Process ID; 0 if not known.
    pub process: i32,
    /// Thread ID; 0 if not known.
    pub thread: i32,
    /// Name of the thread; empty if not known.
    pub thread_name: String,
    /// The action and its details.
    pub action: ThreadAction,
    /// Stack of the thread at that time, innermost frame first; empty if not known.
    pub stack: Vec<Arc<StackLine>>,
}

/// A stack frame as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackLine {
    /// Name of the function; for a marker, its label in brackets.
    pub function: String,
    /// Offset from the start of the function in bytes, or from the start of the file if the function is not known. `None`
    /// for an inlined function.
    pub offset: Option<u64>,
    /// File that contains the code; empty if there is none.
    pub module: String,
    /// Source file and line: `main.c:12`; empty if not known.
    pub source: String,
    /// Kind of the frame.
    pub kind: FrameKind,
    /// True if the frame was found by a guess.
    pub guessed: bool,
}

/// Kinds of actions of a traced thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadAction {
    /// The thread made a system call.
    Call(TracedCall),
    /// The thread received a signal.
    Signal {
        /// Name of the signal: `SIGCHLD`.
        name: String,
        /// Reason and sender: `si_code=CLD_EXITED, si_pid=1234`; empty if not known.
        details: String,
    },
    /// The thread reached a traced event: a tracepoint, or an instruction in a program.
    Event {
        /// Name of the event: `sched:sched_switch`.
        name: String,
        /// Fields of the event; may be empty.
        text: String,
    },
    /// The thread accessed memory that was not mapped yet, or not in memory (a page fault).
    Fault {
        /// True for a major fault: the page had to be read from a file or device.
        major: bool,
        /// Location of the instruction: `memset+0x1d`.
        place: String,
        /// The accessed address.
        address: u64,
        /// The memory at that address: a file and an offset in it, `heap`, `stack`, `anon`; empty if not known.
        target: String,
    },
    /// The thread exited by itself.
    Exited {
        /// Exit code.
        code: i32,
    },
    /// The thread was killed by a signal.
    Killed {
        /// Name of the signal.
        signal: String,
        /// True if a core dump was written.
        dumped: bool,
    },
}

/// A system call as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracedCall {
    /// Name of the call.
    pub name: Cow<'static, str>,
    /// Name and value of each argument; the name is empty if not known.
    pub arguments: Vec<(Cow<'static, str>, String)>,
    /// Result as text: `3</etc/passwd>`, `-1 ENOENT (No such file or directory)`, `?`.
    pub result: String,
    /// Result as a number; `None` if the call has not returned.
    pub value: Option<i64>,
    /// Name of the error, if the call failed.
    pub error: Option<Cow<'static, str>>,
    /// Duration in nanoseconds, up to the end of tracing if the call had not returned; `None` if not known.
    pub duration: Option<u64>,
    /// True if the call had not returned when tracing ended or, if the duration is not known, when tracing started.
    pub unfinished: bool,
}

/// Statistics of the calls of one name that a thread made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallCount {
    /// Process ID.
    pub process: i32,
    /// Name of the process.
    pub process_name: String,
    /// Thread ID.
    pub thread: i32,
    /// Name of the thread.
    pub thread_name: String,
    /// Path of the control group; empty if not known or not requested.
    pub group: String,
    /// Name of the call.
    pub name: String,
    /// Number of calls.
    pub calls: u64,
    /// Number of failed calls, by name of the error: `ENOENT`.
    pub errors: BTreeMap<String, u64>,
    /// Durations of the calls, as far as known.
    pub times: Durations,
}

impl CallCount {
    /// Statistics of a single call that has returned; `None` for all other events.
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

/// Sums of call statistics, by thread and call.
#[derive(Clone, Debug, Default)]
pub struct CallCounts {
    rows: BTreeMap<(i32, i32, String), CallCount>,
}

impl CallCounts {
    /// Adds a count to the sum of the same calls of the same thread.
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
        // The last names are kept: executing a program changes them.
        (known.process_name, known.thread_name) = (count.process_name, count.thread_name);
        known.group = count.group;
    }

    /// Returns the sums, ordered by process, thread and name of the call.
    pub fn into_rows(self) -> Vec<CallCount> {
        self.rows.into_values().collect()
    }
}
