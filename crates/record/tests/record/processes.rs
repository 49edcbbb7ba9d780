//! Whose samples they are: commands, their threads and children, running processes, the machine.

use std::collections::BTreeSet;
use std::process::{Child as Process, Command};

use pyrograph_record::*;

use crate::recorded::{clock, open, pid, record, shell, to_the_end, wait_until};
use crate::subject::{
    LATER, attach, check_time, read_times, sampled_time, start_subject, subject_command,
};

#[test]
fn a_busy_command_is_sampled_for_all_of_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let times = dir.path().join("times");
    let script =
        format!("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; times > {}", times.display());
    let Some(recorded) = to_the_end(&shell(&script)) else { return };
    assert_eq!(recorded.summary.ended, Ended::TargetEnded);
    assert!(recorded.summary.status.is_some_and(|status| status.success()));
    assert_eq!(recorded.periods.len(), 1, "one process, one thread");
    assert!(matches!(&recorded.execs[..], [(_, name)] if name == "sh"), "{:?}", recorded.execs);

    // `0m0.23s 0m0.01s`: its user and system time.
    let text = std::fs::read_to_string(times).unwrap();
    let own = text.lines().next().unwrap().split(' ').map(|time| {
        let (minutes, seconds) = time.trim_end_matches('s').split_once('m').unwrap();
        60.0 * minutes.parse::<f64>().unwrap() + seconds.parse::<f64>().unwrap()
    });
    let used: f64 = own.sum();
    let clock = recorded.periods.values().sum::<u64>() as f64 / 1e9;
    // As wide as in `check_time`; the shell's clock counts in hundredths of a second.
    if recorded.summary.lost == 0 {
        assert!(
            (0.5 * used - 0.02..1.5 * used + 0.02).contains(&clock),
            "{clock} s sampled of {used} s"
        );
    }
    assert!(recorded.stacks > 10);
    let (all, known) = recorded.user_ips;
    assert_eq!(all, known, "instruction pointers outside of all mappings");
}

#[test]
fn the_threads_of_a_command_are_sampled() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let Some(recorded) = to_the_end(&subject_command("threads", &out)) else { return };
    let reported = read_times(&out);
    assert_eq!(reported.len(), 3);
    for (tid, used) in reported {
        assert!(recorded.forked.contains(&tid));
        check_time(&recorded, tid, used);
    }
}

#[test]
fn short_lived_children_are_followed() {
    let script = "i=0; while [ $i -lt 40 ]; do /bin/true; i=$((i+1)); done";
    let count = |options: &Options| {
        let recorded = to_the_end(options)?;
        assert_eq!(recorded.summary.lost, 0);
        let pids: BTreeSet<i32> =
            recorded.execs.iter().filter(|(_, name)| name == "true").map(|(pid, _)| *pid).collect();
        Some(pids.len())
    };
    let Some(followed) = count(&shell(script)) else { return };
    assert_eq!(followed, 40);
    let alone = Options { inherit: false, ..shell(script) };
    assert_eq!(count(&alone), Some(0));
}

#[test]
fn without_children_threads_are_still_followed() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let options = Options { inherit: false, ..subject_command("threads", &out) };
    let Some(recorded) = to_the_end(&options) else { return };
    for (tid, used) in read_times(&out) {
        check_time(&recorded, tid, used);
    }
}

#[test]
fn an_exec_is_recorded() {
    let Some(recorded) = to_the_end(&shell("exec sleep 0.01")) else { return };
    let names: Vec<&str> = recorded.execs.iter().map(|(_, name)| &name[..]).collect();
    assert_eq!(names, ["sh", "sleep"]);
    assert_eq!(recorded.execs[0].0, recorded.execs[1].0);
}

#[test]
fn a_running_process_is_attached_to_until_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let mut subject = start_subject("attached", &out);
    let pid = pid(&subject);
    let recorded = attach(&subject, &out);
    subject.wait().unwrap();
    let Some(recorded) = recorded else { return };
    assert_eq!(recorded.summary.ended, Ended::TargetEnded);
    assert!(recorded.initial.contains(&pid), "{:?}", recorded.initial);
    assert!(recorded.periods.keys().all(|(process, _)| *process == pid));
    let reported = read_times(&out);
    assert_eq!(reported.len(), 3);
    for (tid, used) in reported {
        assert!(recorded.initial.contains(&tid), "{:?}", recorded.initial);
        let sampled = sampled_time(&recorded, tid);
        let lost = recorded.summary.lost > 0;
        assert!(lost || sampled >= used / 2, "thread {tid}: {sampled} ns sampled of {used}");
    }
    let (all, known) = recorded.user_ips;
    assert!(
        known * 100 >= all * 99,
        "{known} of {all} instruction pointers are in a known mapping"
    );
}

/// Threads that start while we attach either inherit the events or get their own, never both.
#[test]
fn threads_that_start_meanwhile_are_sampled_once() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let mut subject = start_subject("many", &out);
    let recorded = attach(&subject, &out);
    subject.wait().unwrap();
    let Some(recorded) = recorded else { return };
    let reported = read_times(&out);
    assert!(reported.len() > LATER, "some were started before");
    for (tid, used) in &reported {
        let sampled = sampled_time(&recorded, *tid);
        assert!(
            sampled <= used * 3 / 2 + 4_000_000,
            "thread {tid}: {sampled} ns sampled of {used}"
        );
    }
    for (tid, used) in &reported[reported.len() - LATER..] {
        check_time(&recorded, *tid, *used);
    }
}

/// Events of threads count and fill the buffers as soon as they are open, which is before the recording where a program has
/// many threads.
#[test]
fn what_came_before_the_start_is_neither_used_nor_lost() {
    let busy = Endless(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap());
    let pid = pid(&busy.0);
    let mut clock_of_child = 0;
    // SAFETY: the kernel writes a clock's number.
    unsafe { libc::clock_getcpuclockid(pid, &raw mut clock_of_child) };
    let options = Options {
        rate: Some(Rate::Hertz(1000)),
        buffer: Some(64 << 10),
        stack: StackMode::Dwarf { bytes: 8192 },
        ..Options::new(Target::Processes(vec![pid]))
    };
    let Some(session) = open(&options) else { return };
    let opened = clock(clock_of_child);
    wait_until("0.4 s were used", || clock(clock_of_child) > opened + 400_000_000);
    let started = clock(clock_of_child);
    let summary = session.start().unwrap().finish();
    let used = summary.used.expect("the clock of a thread").as_nanos() as u64;
    let most = clock(clock_of_child) - started + 200_000_000;
    assert!(used < most, "{used} ns used after the start, of {most}");
    // Of 400 samples that were due before, the buffer held 7.
    let due = used / 1_000_000 + 1;
    assert!(summary.lost <= due, "{} lost, of {due} that were due after the start", summary.lost);
}

/// A process that never ends by itself, and so must not outlive a test that fails.
struct Endless(Process);

impl Drop for Endless {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_whole_machine() {
    let busy = Endless(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap());
    let child = &busy.0;
    // Half a second of its time gives 50 samples, however long it takes the machine.
    let mut clock_of_child = 0;
    // SAFETY: the kernel writes a clock's number.
    unsafe { libc::clock_getcpuclockid(pid(child), &raw mut clock_of_child) };
    let start = clock(clock_of_child);
    let recorded =
        record(&Options::new(Target::System), |_| clock(clock_of_child) - start > 500_000_000);
    let Some(recorded) = recorded else { return };
    let pid = pid(child);
    assert_eq!(recorded.summary.ended, Ended::Stopped);
    assert!(recorded.initial.contains(&pid) && recorded.initial.contains(&1));
    assert!(recorded.periods.contains_key(&(pid, pid)), "{:?}", recorded.periods);
    assert!(recorded.periods.keys().all(|(pid, _)| *pid != 0), "the idle task is left out");
    assert!(recorded.user_ips.1 > 0);
}
