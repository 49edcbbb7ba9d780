//! Reports about Java virtual machines.

use std::time::Duration;

use super::error::JvmError;

/// Reports about a virtual machine.
#[derive(Debug)]
pub enum JvmReport {
    /// Detail: the machine has named its code for the first time.
    Named {
        /// Its process ID.
        pid: i32,
        /// Version of its JDK, if it is known.
        release: Option<String>,
        /// Number of named pieces of code: methods, and the machine's own stubs.
        names: usize,
        /// Duration of the request, once the machine could be asked.
        took: Duration,
    },
    /// The machine has not named its code, and is not asked any more.
    Failed {
        /// Its process ID.
        pid: i32,
        /// Reason of the failure.
        error: JvmError,
    },
    /// Detail: the recording or the process has ended.
    Done {
        /// Its process ID.
        pid: i32,
        /// Number of named pieces of code at the end.
        names: usize,
        /// Number of successful requests.
        times: u32,
        /// Total duration of the requests.
        took: Duration,
    },
}
