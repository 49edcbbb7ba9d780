//! How many waits, allocations, samples … stand behind each value: recordings carry both, and `diff` takes its noise
//! from the numbers.

use std::path::Path;
use std::process::Command;

use crate::common::in_kernel::C;
use crate::common::{Folded, compile, is_root, pyrograph, run};

const OFTEN: u32 = 1500;
const SELDOM: u32 = 60;

/// Records the program of known numbers in a folder. It runs as soon as its waits are over, whatever else runs: they are as long as
/// they are.
fn record(program: &Path, flags: &[&str], arguments: &[u32]) {
    let folder = program.parent().expect("its folder");
    run(pyrograph()
        .current_dir(folder)
        .arg("record")
        .args(flags)
        .args(["--", "chrt", "--fifo", "10"])
        .arg(program)
        .args(arguments.iter().map(u32::to_string)));
}

/// The values of a file, by stack.
fn values(folder: &Path, file: &str, of: &str) -> Folded {
    let output = run(pyrograph().current_dir(folder).args(["fold", "--value", of, file]));
    Folded::parse(&String::from_utf8_lossy(&output.stdout))
}

/// The sum of stacks with all of these frames.
fn sum(folded: &Folded, frames: &[&str]) -> f64 {
    let has = |stack: &[String]| frames.iter().all(|frame| stack.iter().any(|at| at == frame));
    folded.stacks.iter().filter(|(stack, _)| has(stack)).map(|(_, value)| value).sum()
}

#[test]
fn each_value_has_the_number_of_waits_or_allocations_behind_it() {
    if !is_root("each_value_has_the_number_of_waits_or_allocations_behind_it") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let program = compile(C, "counted.c", folder);
    for (flag, value, numbers, frames) in [
        ("--off-cpu", "off-cpu", "waits", &["[sleeping]"][..]),
        ("--alloc", "alloc", "allocations", &[]),
    ] {
        let outputs = ["a.pb.gz", "a.json", "a.speedscope.json"];
        let flags: Vec<&str> =
            std::iter::once(flag).chain(outputs.iter().flat_map(|name| ["-o", name])).collect();
        record(&program, &flags, &[OFTEN, SELDOM]);
        for file in outputs {
            let counted = values(folder, file, numbers);
            for (function, times) in [("often", OFTEN), ("seldom", SELDOM)] {
                let number = sum(&counted, &[&[function], frames].concat());
                // A timer may go off before its thread sleeps, if another thread takes the CPU meanwhile; and a wait
                // whose stack is not taken, as the first ones while tables are made, counts for the next one.
                let away = (number - f64::from(times)).abs();
                let most = if flag == "--alloc" { 0.0 } else { 0.05 * f64::from(times) + 8.0 };
                let is_right = away <= most;
                assert!(is_right, "{flag} {file} {function}: {number} and not {times}");
            }
            let times = values(folder, file, value);
            let (often, seldom) = (sum(&times, &["often"]), sum(&times, &["seldom"]));
            let least = if flag == "--alloc" { (64.0, 4096.0) } else { (2e5, 4e6) };
            assert!(often >= f64::from(OFTEN) * least.0, "{flag} {file}: {often}");
            assert!(seldom >= f64::from(SELDOM) * least.1, "{flag} {file}: {seldom}");
        }
    }
}

#[test]
fn the_file_beside_the_picture_has_both() {
    if !is_root("the_file_beside_the_picture_has_both") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let program = compile(C, "counted.c", folder);
    record(&program, &["--off-cpu"], &[OFTEN, SELDOM]);
    let waits = values(folder, "flamegraph.pb.gz", "waits");
    assert!((sum(&waits, &["seldom", "[sleeping]"]) - f64::from(SELDOM)).abs() <= 11.0);
    // The value that is shown is the time.
    let shown = run(pyrograph().current_dir(folder).args(["fold", "flamegraph.pb.gz"]));
    let shown = Folded::parse(&String::from_utf8_lossy(&shown.stdout));
    assert!(sum(&shown, &["seldom"]) >= 4e6 * f64::from(SELDOM));
}

/// One recording a side must show that `often` has a quarter of what it had, which was twice `times`. Each of its waits lasts for
/// two milliseconds, to which a busy machine adds little.
fn diff_shows_that_there_is_less(source: &str, times: u32, flag: &str, numbers: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let program = compile(C, source, folder);
    // That JSON has the numbers, too, is tested above.
    for output in if flag == "--off-cpu" { &["pb.gz", "json"][..] } else { &["pb.gz"] } {
        let [before, after] = ["before", "after"].map(|name| format!("{name}.{output}"));
        record(&program, &[flag, "-o", &before], &[2 * times, SELDOM, 2000]);
        record(&program, &[flag, "-o", &after], &[times / 2, SELDOM, 2000]);
        let output = run(pyrograph().current_dir(folder).args(["diff", &before, &after]));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(numbers), "{text}");
        let less = |line: &str| line.starts_with('-') && line.ends_with(" often");
        assert!(text.lines().any(less), "{text}");
    }
}

// 100,000 waits counted as 20 samples, since their number was not known.
#[test]
fn one_recording_a_side_shows_that_waits_were_halved() {
    if is_root("one_recording_a_side_shows_that_waits_were_halved") {
        diff_shows_that_there_is_less("counted.c", 300, "--off-cpu", " waits\n");
    }
}

#[test]
fn one_recording_a_side_shows_that_there_are_fewer_allocations() {
    if is_root("one_recording_a_side_shows_that_there_are_fewer_allocations") {
        diff_shows_that_there_is_less("counted.c", 300, "--alloc", " allocations\n");
    }
}

#[test]
fn one_recording_a_side_shows_that_locks_are_waited_for_less() {
    if is_root("one_recording_a_side_shows_that_locks_are_waited_for_less") {
        diff_shows_that_there_is_less("waits_for_lock.c", 300, "--locks", " waits\n");
    }
}

#[test]
fn a_recording_is_opened_with_its_threads_and_totals() {
    if Command::new("go").arg("version").output().is_err() {
        return eprintln!("skipped: a_recording_is_opened_with_its_threads_and_totals needs go");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let outputs = ["-o", "r.pb.gz", "-o", "r.folded"];
    let command = ["--", "perl", "-e", "for ($i = 0; $i < 2e6; $i++) { $x .= $i }"];
    let record = ["record", "-e", "cpu-clock", "-F", "997"];
    run(pyrograph().current_dir(folder).args(record).args(outputs).args(command));
    let shown =
        run(Command::new("go").current_dir(folder).args(["tool", "pprof", "-raw", "r.pb.gz"]));
    let shown = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.contains("cpu-clock/nanoseconds"), "{shown}");
    assert!(shown.contains("comm:[perl]"), "{shown}");
    // The same stacks in both.
    let folded = ["convert", "--to", "folded", "r.pb.gz"];
    let folded = run(pyrograph().current_dir(folder).args(folded)).stdout;
    let recorded = std::fs::read(folder.join("r.folded")).expect("folded text");
    assert_eq!(String::from_utf8_lossy(&folded), String::from_utf8_lossy(&recorded));
}

// Two counts a line are those of a comparison, to us and to flamegraph.pl.
#[test]
fn folded_text_has_the_value_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let flags = ["record", "-o", "x.pb.gz", "-o", "x.folded", "--", "perl", "-e"];
    run(pyrograph().current_dir(folder).args(flags).arg("$i++ while $i < 5_000_000"));
    run(pyrograph().current_dir(folder).args(["convert", "x.pb.gz", "-o", "y.folded"]));
    for file in ["x.folded", "y.folded"] {
        let folded = Folded::read(&folder.join(file));
        // Nanoseconds, of which the shortest sample has more than any recording has samples.
        assert!(
            folded.stacks.iter().all(|(_, value)| *value > 1000.0),
            "{file}: {:?}",
            folded.stacks
        );
        let last = |stack: &[String]| stack.last().is_some_and(|frame| frame.contains(' '));
        assert!(!folded.stacks.iter().any(|(stack, _)| last(stack)), "{file}: {:?}", folded.stacks);
    }
}
