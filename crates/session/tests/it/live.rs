//! Recordings that are read while they run, with both engines.

use std::process::{Child, Command, Stdio};

use pyrograph_profile::Profile;
use pyrograph_session::{Engine, Error, Plan, Rate, Recorder, Target};

#[path = "../../examples/itself.rs"]
mod itself;

/// Samples a second of CPU time.
const RATE: u64 = 997;

/// A shell that computes until this is dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
        Self(shell.spawn().expect("a shell"))
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).expect("a small number")
    }

    /// Nanoseconds of CPU time so far, by the kernel's account. The others of its numbers are nanoseconds of waiting for a CPU,
    /// and how often it was given one.
    fn used(&self) -> u64 {
        let account = std::fs::read_to_string(format!("/proc/{}/schedstat", self.pid()));
        let account = account.expect("the process runs");
        account.split(' ').next().and_then(|used| used.parse().ok()).expect("a number")
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A recorder of a busy process; `None`, and a word about it, where that is not permitted.
fn recorder(engine: Engine, busy: &Busy) -> Option<Recorder> {
    let target = Target::Processes(vec![busy.pid()]);
    let rate = Some(Rate::Hertz(RATE));
    let plan = Plan { engine: Some(engine), rate, ..Plan::new(target) };
    match Recorder::open(&plan, |_| {}) {
        Err(error) if error.is_refusal() => {
            eprintln!("skipped: {error}");
            None
        }
        recorder => Some(recorder.expect("a recorder")),
    }
}

/// Records until the process has used so much CPU time: on a busy machine that takes longer. Returns what it had used before the
/// last step.
fn record(recorder: &mut Recorder, busy: &Busy, milliseconds: u64) -> u64 {
    let mut used = busy.used();
    let until = used + milliseconds * 1_000_000;
    loop {
        assert!(recorder.step().expect("it goes on"), "the process still runs");
        let now = busy.used();
        if now >= until {
            return used;
        }
        used = now;
    }
}

/// Records until there are samples: the kernel counts once unwind tables are made, which takes a while on a busy machine.
fn first(recorder: &mut Recorder, busy: &Busy) -> u64 {
    for _ in 0..300 {
        record(recorder, busy, 100);
        let found = sum(&recorder.snapshot().expect("a snapshot"));
        if found > 0 {
            return found;
        }
    }
    panic!("no sample in half a minute of CPU time");
}

/// How many samples a profile has: one may stand for all the time for which a CPU was taken away.
fn sum(profile: &Profile) -> u64 {
    profile.check().expect("a sound profile");
    let all = profile.samples.total(profile.column("samples/count").expect("a column"));
    let process = |thread| profile.strings.get(profile.threads.get(thread).process).to_owned();
    // Those that are lost on the way are nobody's.
    assert!(
        profile.samples.iter().all(|sample| ["sh", ""].contains(&process(sample.thread).as_str()))
    );
    all
}

fn snapshots_add_up(engine: Engine) {
    let busy = Busy::start();
    let Some(mut recorder) = recorder(engine, &busy) else { return };
    let mut total = first(&mut recorder, &busy);
    let mut last = 0;
    for _ in 0..3 {
        last = record(&mut recorder, &busy, 300);
        let since = sum(&recorder.snapshot().expect("a snapshot"));
        assert!(since > 0, "{engine:?}: it ran since the last snapshot");
        total += since;
    }
    recorder.stop();
    // Samples that are copied are held back until no CPU can have an earlier one.
    let most = RATE * (busy.used() - last + 100_000_000) / 1_000_000_000;
    while recorder.step().expect("it ends") {}
    let finished = recorder.finish().expect("a profile");
    let all = sum(&finished.resolved.profile);
    assert!(all >= total, "{engine:?}: {all} in all, {total} in snapshots");
    let after = all - total;
    assert!(after <= most, "{engine:?}: {after} after the last snapshot, of {most} at most");
}

fn nothing_is_sampled_in_a_pause(engine: Engine) {
    let busy = Busy::start();
    let Some(mut recorder) = recorder(engine, &busy) else { return };
    let take = |recorder: &mut Recorder| sum(&recorder.snapshot().expect("a snapshot"));
    first(&mut recorder, &busy);
    recorder.pause().expect("a pause");
    take(&mut recorder);
    record(&mut recorder, &busy, 500);
    assert_eq!(take(&mut recorder), 0, "{engine:?}: it is paused");
    recorder.resume().expect("no pause");
    record(&mut recorder, &busy, 500);
    assert!(take(&mut recorder) > 0, "{engine:?}: it goes on");
}

#[test]
fn snapshots_of_copied_samples_add_up() {
    snapshots_add_up(Engine::Perf);
}

#[test]
fn snapshots_of_what_the_kernel_counts_add_up() {
    snapshots_add_up(Engine::InKernel);
}

#[test]
fn no_samples_are_copied_in_a_pause() {
    nothing_is_sampled_in_a_pause(Engine::Perf);
}

#[test]
fn the_kernel_counts_nothing_in_a_pause() {
    nothing_is_sampled_in_a_pause(Engine::InKernel);
}

#[test]
fn a_recorder_that_takes_no_step_starts_no_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ran");
    let command = ["touch".into(), file.clone().into_os_string()];
    let plan = Plan { engine: Some(Engine::Perf), ..Plan::new(Target::Command(command.to_vec())) };
    match Recorder::open(&plan, |_| {}) {
        Err(error) if error.is_refusal() => eprintln!("skipped: {error}"),
        recorder => drop(recorder.expect("a recorder")),
    }
    assert!(!file.exists());
}

#[test]
fn the_example_records_itself() {
    let Err(error) = itself::main() else { return };
    let error: Box<Error> = error.downcast().expect("an error of the recorder");
    assert!(error.is_refusal(), "{error}");
    eprintln!("skipped: {error}");
}
