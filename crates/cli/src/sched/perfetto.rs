//! The scheduler's events as a trace for Perfetto.

use std::path::Path;

use anyhow::bail;
use pyrograph_format::PerfettoTrace;
use pyrograph_profile::{SchedEvent, SchedTasks};

use crate::streams::write_output;

/// Takes an event, and the tasks that are known so far.
pub type OnEvent<'a> = dyn FnMut(&SchedTasks, &SchedEvent) -> anyhow::Result<()> + 'a;

/// Writes the events that `read` hands over, or standard output where there is no path; `read` returns all tasks, and what is
/// passed on.
///
/// # Errors
///
/// Those of `read`, and if the trace cannot be written.
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
        // What could not be read is the cause of what could not be written.
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
