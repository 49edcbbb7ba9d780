//! Targets of recordings: a command, processes, or the whole machine.

use std::ffi::OsString;

use pyrograph_event::proc_text;

use crate::command::Waiting;
use crate::error::Error;
use crate::launch::Launch;
use crate::procfs::{family, process_of};
use crate::sys;

/// Targets of samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A program to start: its name or path, and its arguments.
    Command(Vec<OsString>),
    /// Running processes with all their threads and, if children are followed, all processes that they have started.
    Processes(Vec<i32>),
    /// The whole machine.
    System,
}

impl Target {
    /// Returns the processes that threads belong to.
    ///
    /// # Errors
    ///
    /// If there is no such thread.
    pub fn of_threads(tids: &[i32]) -> Result<Self, Error> {
        let process = |tid: &i32| process_of(*tid).ok_or(Error::NoSuchThread { tid: *tid });
        let mut pids = tids.iter().map(process).collect::<Result<Vec<_>, _>>()?;
        pids.sort_unstable();
        pids.dedup();
        Ok(Self::Processes(pids))
    }

    /// Forks the command of a recording, which then waits: the target, or one that runs beside another target.
    ///
    /// # Errors
    ///
    /// As [`Waiting::fork`].
    pub fn fork(
        &self,
        beside: Option<&Vec<OsString>>,
        launch: &Launch,
    ) -> Result<Option<Waiting>, Error> {
        let command = match self {
            Self::Command(command) => Some(command),
            Self::Processes(_) | Self::System => beside,
        };
        command.map(|command| Waiting::fork(command, launch)).transpose()
    }

    /// Checks that all processes of the target exist.
    ///
    /// # Errors
    ///
    /// If one does not.
    pub fn check(&self) -> Result<(), Error> {
        let Self::Processes(pids) = self else { return Ok(()) };
        match pids.iter().find(|pid| !sys::is_running(**pid, false)) {
            Some(pid) => Err(Error::NoSuchProcess { pid: *pid }),
            None => Ok(()),
        }
    }

    /// Returns the processes that were named: none for a command, which has no process of its own yet. `None` for the
    /// whole machine.
    pub fn processes(&self) -> Option<Vec<i32>> {
        self.family(false)
    }

    /// Returns the processes that were named and, with `inherit`, all that they have [started](crate::descendants).
    /// `None` for the whole machine.
    pub fn family(&self, inherit: bool) -> Option<Vec<i32>> {
        match self {
            Self::Command(_) => Some(Vec::new()),
            Self::Processes(pids) => Some(family(pids, inherit)),
            Self::System => None,
        }
    }

    /// Title for pictures: the beginning of the command, or the names of the processes that still run.
    pub fn title(&self) -> String {
        match self {
            Self::Command(command) => {
                let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
                shortened(&words.join(" "))
            }
            Self::Processes(pids) => {
                let names: Vec<String> = pids.iter().map(|pid| process_name(*pid)).collect();
                names.join(", ")
            }
            Self::System => "Whole machine".to_owned(),
        }
    }
}

/// Returns the beginning of a long text: a command may have thousands of arguments.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 90;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns `name (PID)`, or `process PID` if the process has ended.
fn process_name(pid: i32) -> String {
    match proc_text(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("{} ({pid})", name.trim_end()),
        Err(_) => format!("process {pid}"),
    }
}
