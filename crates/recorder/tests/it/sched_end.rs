//! The end of what is followed of the scheduler.

use std::process::{Child, Command};
use std::time::Duration;

use pyrograph_recorder::{SchedPlan, Target};

use crate::sched::{all, open, plan};

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

/// What comes after the time that was asked for was taken, too, where the thread that takes events was busy, with stacks or names.
#[test]
fn events_end_in_time_whoever_takes_them() {
    const TIME: Duration = Duration::from_millis(300);
    let naps = Naps::start();
    let target = Target::Processes(vec![naps.0.id().cast_signed()]);
    let recording = open(&SchedPlan { duration: Some(TIME), ..plan(target) });
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
