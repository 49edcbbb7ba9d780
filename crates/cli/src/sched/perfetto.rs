//! Scheduler events as a Perfetto trace.

use std::path::Path;

use anyhow::bail;
use pyrograph_format::PerfettoTrace;
use pyrograph_profile::{SchedEvent, SchedTasks};

use crate::streams::write_output;

/// Callback for an event, with the tasks known so far.
pub type OnEvent<'a> = dyn FnMut(&SchedTasks, &SchedEvent) -> anyhow::Result<()> + 'a;

/// Writes a trace of the events that `read` passes to its callback, to `path` or to standard output. `read` returns all
/// tasks, and a value that is passed on to the caller.
///
/// # Errors
///
/// If `read` fails, or if the trace cannot be written.
pub fn write<T>(
    path: Option<&Path>,
    read: impl FnOnce(&mut OnEvent<'_>) -> anyhow::Result<(SchedTasks, T)>,
) -> anyhow::Result<T> {
    let mut done = None;
    let written = write_output(path, |out| {
        let mut trace = PerfettoTrace::new(out);
        match read(&mut |tasks, event| Ok(trace.push(tasks, event)?)) {
            Ok((tasks, end)) => {
                done = Some(Ok(end));
                trace.finish(&tasks)
            }
            Err(error) => {
                done = Some(Err(error));
                Err(std::io::Error::other("the input cannot be read"))
            }
        }
    });
    match done {
        // The read error is the cause of the write error.
        Some(Err(error)) => Err(error),
        Some(Ok(end)) => {
            written?;
            Ok(end)
        }
        None => {
            written?;
            bail!("nothing was read")
        }
    }
}
