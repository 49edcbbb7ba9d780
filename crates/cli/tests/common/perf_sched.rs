//! Events of the scheduler in a recording by `perf sched record`, parsed from the text of `perf script`, without our readers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use super::perf::run_perf;
use super::text;

/// A run for the shell in which programs wait for each other, for time and for a CPU.
pub const BUSY: &str = "for i in 1 2 3; do (for k in $(seq 60); do sleep 0.002; done) & done; \
                        for i in 1 2; do (for k in $(seq 20000); do :; done) & done; \
                        seq 3000 | cat | sort -n | wc -l; wait";

/// Output of a command of perf for a recording.
pub fn perf(data: &Path, arguments: &[&str]) -> String {
    let mut perf = Command::new("perf");
    perf.args(arguments).arg("-i").arg(data);
    text(&run_perf(&mut perf).stdout)
}

/// An event of the scheduler, as `perf script` shows it.
#[derive(Clone, Debug)]
pub enum Event {
    /// Of a CPU: the thread that left it, its state, and the thread that has it now.
    Switch(String, i32, String, i32),
    /// `sched_waking`.
    Waking(i32),
    /// `sched_wakeup_new`: a thread that was started.
    New(i32),
    /// `sched_process_fork`: who starts a thread, and the thread.
    Fork(i32, i32),
    /// `sched_stat_runtime`: nanoseconds.
    Runtime(i32, u64),
}

/// The events of a recording and when they were, in nanoseconds.
pub fn events(data: &Path) -> Vec<(u64, Event)> {
    let event = |line: &str| {
        let (cpu, rest) = line.trim().strip_prefix('[')?.split_once(']')?;
        let (time, rest) = rest.trim().split_once(": ")?;
        let (name, fields) = rest.trim().split_once(": ")?;
        let (seconds, nanos) = time.split_once('.')?;
        let time = seconds.parse::<u64>().ok()? * 1_000_000_000 + nanos.parse::<u64>().ok()?;
        let text = |key: &str| fields.split_once(key)?.1.split(' ').next();
        let number = |key: &str| text(key)?.parse::<i32>().ok();
        let event = match name {
            "sched:sched_switch" => {
                let (previous, next) = (number(" prev_pid=")?, number(" next_pid=")?);
                Event::Switch(cpu.to_owned(), previous, text(" prev_state=")?.to_owned(), next)
            }
            "sched:sched_waking" => Event::Waking(number(" pid=")?),
            "sched:sched_wakeup_new" => Event::New(number(" pid=")?),
            "sched:sched_process_fork" => Event::Fork(number(" pid=")?, number(" child_pid=")?),
            "sched:sched_stat_runtime" => {
                Event::Runtime(number(" pid=")?, text(" runtime=")?.parse().ok()?)
            }
            _ => return None,
        };
        Some((time, event))
    };
    let script = perf(data, &["script", "--ns", "-F", "cpu,time,event,trace"]);
    script.lines().filter_map(event).collect()
}

/// True if tasks are switched from that were never switched to.
pub fn hides_switches(events: &[(u64, Event)]) -> bool {
    let mut on_cpu: BTreeMap<&str, i32> = BTreeMap::new();
    let (mut all, mut missing) = (0, 0);
    for (_, event) in events {
        if let Event::Switch(cpu, previous, _, next) = event {
            all += 1;
            missing +=
                usize::from(on_cpu.insert(cpu, *next).is_some_and(|known| known != *previous));
        }
    }
    missing * 50 > all
}

/// Threads that came to a CPU although nothing had woken them. Now and then this kernel reports no event to perf that
/// happens while a CPU's idle task is the current one, and then who was woken there has no known delay in perf's file.
pub fn woken_by_nothing(events: &[(u64, Event)]) -> BTreeSet<i32> {
    let (mut can_run, mut threads) = (BTreeSet::new(), BTreeSet::new());
    for (_, event) in events {
        match event {
            Event::Waking(thread) | Event::New(thread) => {
                can_run.insert(*thread);
            }
            Event::Switch(_, previous, state, next) => {
                if state.starts_with('R') {
                    can_run.insert(*previous);
                } else {
                    can_run.remove(previous);
                }
                if !can_run.remove(next) {
                    threads.insert(*next);
                }
            }
            Event::Runtime(..) | Event::Fork(..) => (),
        }
    }
    threads
}
