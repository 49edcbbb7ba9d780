//! Output of scheduler views as text, JSON and CSV.

mod latency;
mod map;
mod script;
mod summary;
mod timehist;

use pyrograph_profile::{SchedTask, StackLine};

use crate::text::one_line;

pub use latency::{LatencyStyle, write_latency};
pub use map::{MapLook, write_map_line};
pub use script::{SchedScriptStyle, write_sched_event};
pub use summary::{write_sched_summary, write_sched_waits};
pub use timehist::{TimehistLook, TimehistStyle, TimehistWriter};

/// Formats a task as perf does: `name[tid/pid]`, or `name[tid]` if both are equal or the process is unknown.
fn task_name(task: &SchedTask) -> String {
    let (name, tid) = (one_line(&task.name), task.tid);
    match (task.tid, task.pid) {
        (0, _) => "<idle>".to_owned(),
        (_, pid) if pid == tid || pid < 0 => format!("{name}[{tid}]"),
        (_, pid) => format!("{name}[{tid}/{pid}]"),
    }
}

/// Formats a task without its process: `name[tid]`; `swapper/CPU[0]` for the idle task of a CPU.
fn short_name(task: &SchedTask, cpu: u32) -> String {
    match task.tid {
        0 => format!("swapper/{cpu}[0]"),
        tid => format!("{}[{tid}]", one_line(&task.name)),
    }
}

/// Name of a frame: its function, or module and offset.
fn frame_name(line: &StackLine) -> String {
    match (line.function.is_empty(), line.offset) {
        (false, _) => one_line(&line.function).into_owned(),
        (true, Some(offset)) if !line.module.is_empty() => {
            format!("{}+{offset:#x}", one_line(&line.module))
        }
        (true, _) => "[unknown]".to_owned(),
    }
}

/// Formats nanoseconds as milliseconds with three decimals, truncated as perf does.
fn milliseconds(time: u64) -> String {
    let micros = time / 1000;
    format!("{}.{:03}", micros / 1000, micros % 1000)
}

/// Formats nanoseconds as seconds with six decimals, truncated as perf does.
fn seconds(time: u64) -> String {
    let micros = time / 1000;
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}
