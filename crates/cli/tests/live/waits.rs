//! How long threads wait: sums must be what the programs measure themselves, whatever stacks are taken.

use crate::common::in_kernel::{C, has_feature, record_command, value_of};
use crate::common::{Folded, compile, is_root, pyrograph, sharp, stolen};

// Sums scattered by 13 % with the stacks that were left to chance, and waits were lost where the kernel does not report
// of a switch.
#[test]
fn each_thread_has_its_shares_of_waits() {
    if !is_root("each_thread_has_its_shares_of_waits") {
        return;
    }
    if !has_feature("sched_exit") {
        eprintln!("skipped: the kernel does not report when threads go on");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(C, "ten_waits.c", folder.path());
    let file = folder.path().join("data");
    let arguments = [sharp("1", "1.5"), file.to_str().expect("the path is text")];
    let names = ["900ms", "10ms", "7ms", "3ms", "50us", "turns", "cond", "pipe", "pipe2", "sync"];
    for way in [&["--off-cpu"][..], &["--wall"], &["--off-wake"]] {
        let flags = [way, &["--by", "thread"]].concat();
        let before = stolen();
        let (folded, text) = record_command(&program, &arguments, &flags);
        let taken = (stolen() - before).as_nanos() as f64;
        for name in names {
            let measured = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            let measured: f64 =
                measured.and_then(|number| number.parse().ok()).expect("what it measured");
            let of_thread = |(stack, _): &&(Vec<String>, f64)| {
                let root = stack.first().is_some_and(|root| root.split('-').next() == Some(name));
                // Samples of the CPU clock have no such frame.
                root && stack.iter().any(|frame| WAITS.contains(&frame.as_str()))
            };
            let waited: f64 = folded.stacks.iter().filter(of_thread).map(|(_, value)| value).sum();
            // A thread that wants a CPU between its clocks and its waits waits on; and what a host takes is no CPU time.
            let most = 0.01 * measured + sharp(20e6 + taken, 0.0);
            assert!(
                (waited - measured).abs() <= most,
                "{way:?} {name}: {waited}, {taken} stolen: {text}"
            );
        }
    }
}

/// The frame that stands for a wait.
const WAITS: [&str; 6] = [
    "[sleeping]",
    "[preempted]",
    "[waiting for a lock]",
    "[waiting for a condition]",
    "[waiting for I/O]",
    "[waiting in the kernel]",
];

// So many waits that the stacks of a part stand for all.
#[test]
fn shares_of_many_waits_are_right() {
    if !is_root("shares_of_many_waits_are_right") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(C, "turns.c", folder.path());
    let out = folder.path().join("out.folded");
    for way in [&["--off-cpu"][..], &["--off-cpu", "--at-switches"]] {
        let output = pyrograph()
            .args(["record", "-o"])
            .arg(&out)
            .args(way)
            .arg("--")
            .arg(&program)
            .arg("30000")
            .output()
            .expect("pyrograph runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let text = String::from_utf8_lossy(&output.stdout);
        let waited = text.trim().strip_prefix("plays ").expect("nanoseconds");
        let waited: f64 = waited.parse().expect("a number");
        let folded = Folded::read(&out);
        let recorded = value_of(&folded, "plays") + value_of(&folded, "[stack not taken]");
        // Where stacks are taken when waits begin, it is not known when the kernel begins to count CPU time.
        let bounds = match way.len() {
            1 => sharp(0.9..=1.1, 0.97..=1.03),
            _ => sharp(0.7..=1.3, 0.8..=1.2),
        };
        let share = recorded / waited;
        assert!(bounds.contains(&share), "{way:?}: {share}, {said}, {:?}", folded.leaves());
    }
}
