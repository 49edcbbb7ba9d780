//! Views of the scheduler as text, JSON and CSV.

mod latency;

use pyrograph_profile::SchedTask;

pub use latency::{LatencyStyle, write_latency};

/// A task as perf has it: `name[tid/pid]`, and `name[tid]` where both are the same or the process is not known.
fn task_name(task: &SchedTask) -> String {
    let (name, tid) = (&task.name, task.tid);
    match (task.tid, task.pid) {
        (0, _) => "<idle>".to_owned(),
        (_, pid) if pid == tid || pid < 0 => format!("{name}[{tid}]"),
        (_, pid) => format!("{name}[{tid}/{pid}]"),
    }
}
