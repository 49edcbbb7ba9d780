//! The end of what is handed out one by one.

use std::process::{Child, Command};
use std::time::{Duration, SystemTime};

use pyrograph_session::{Error, Scope, Target, TracePlan, Tracing};

use crate::scheduled::{all, open, plan};

/// A shell that sleeps and wakes until it is dropped, whatever fails.
struct Naps(Child);

impl Naps {
    fn start() -> Self {
        let mut shell = Command::new("sh");
        Self(shell.args(["-c", "while :; do sleep 0.01; done"]).spawn().expect("a shell"))
    }
}

impl Drop for Naps {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const TIME: Duration = Duration::from_millis(300);

/// Events after the deadline were recorded, too, if the thread that takes them was busy with stacks or names.
#[test]
fn events_of_the_scheduler_end_in_time_whoever_takes_them() {
    let naps = Naps::start();
    let target = Target::Processes(vec![naps.0.id().cast_signed()]);
    let recording = open(&plan(Scope { duration: Some(TIME), ..Scope::new(target) }));
    let Some(recording) = recording else { return };
    let started = recording.started();
    std::thread::sleep(5 * TIME);
    let (events, end) = all(recording);
    let after = |time: u64| Duration::from_nanos(time.saturating_sub(started));
    let last = events.iter().map(|event| after(event.time)).max().expect("events");
    // The thread that ends them waits for a CPU, as others do.
    assert!(last > TIME / 2 && last < 3 * TIME, "{last:?}");
    assert!(end.elapsed >= TIME && end.elapsed < 3 * TIME, "{:?}", end.elapsed);
    assert!(after(end.ended) + Duration::from_millis(50) >= last, "{last:?}");
}

#[test]
fn calls_end_in_time_whoever_takes_them() {
    let naps = Naps::start();
    let target = Target::Processes(vec![naps.0.id().cast_signed()]);
    let plan = TracePlan::new(Scope { duration: Some(TIME), ..Scope::new(target) });
    let mut tracing = match Tracing::open(&plan) {
        Err(error) if error.is_refusal() => {
            return eprintln!("skipped: tracing system calls needs root: {error}");
        }
        tracing => tracing.expect("a trace"),
    };
    if tracing.not_in_kernel().is_some() {
        return eprintln!("skipped: calls are traced by ptrace, which ends with its steps");
    }
    tracing.start().expect("it starts");
    let started = SystemTime::now();
    std::thread::sleep(5 * TIME);
    let mut last = Duration::ZERO;
    let since = started.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let mut take = |event: pyrograph_profile::ThreadEvent| {
        last = last.max(Duration::from_nanos(event.time).saturating_sub(since));
        Ok::<(), Error>(())
    };
    while tracing.step(&mut take).expect("a step") {}
    assert_eq!(tracing.finish().lost.calls, 0);
    assert!(last > TIME / 2 && last < 3 * TIME, "{last:?}");
}
