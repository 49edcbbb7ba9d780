//! `pyrograph record` of code that is compiled as the program runs.

use std::fs;
use std::process::{Command, Output};

use crate::common::{Folded, compile, pyrograph, run, tolerance};

#[test]
fn code_made_at_run_time_has_the_names_of_its_map() {
    let node = Command::new("node").arg("--version").output();
    if !node.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: code_made_at_run_time_has_the_names_of_its_map needs node");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.folded");
    let script = "function burn(n) { let s = 0; for (let i = 0; i < n; i++) s = (s * 31 + i) % 9973; return s; } \
                  while (process.cpuUsage().user < 0.8e6) burn(1e6);";
    run(pyrograph()
        .args(["record", "--lang", "none", "-o"])
        .arg(&out)
        .args(["--", "node", "--perf-basic-prof", "-e", script])
        .current_dir(folder.path()));
    let folded = Folded::read(&out);
    let burn = folded.share(|stack| stack.iter().any(|frame| frame.contains("burn")));
    assert!(burn > 50.0, "{burn}: {:?}", folded.leaves());
}

#[test]
fn code_made_at_run_time_has_names_and_lines_of_its_jitdump_file() {
    let node = Command::new("node").arg("--version").output();
    if !node.is_ok_and(|output| output.status.success()) {
        eprintln!(
            "skipped: code_made_at_run_time_has_names_and_lines_of_its_jitdump_file needs node"
        );
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.folded");
    let script = folder.path().join("burn.js");
    let text = "function burn(n) {\n  let s = 0;\n  for (let i = 0; i < n; i++)\n    s = (s * 31 + i) % 9973;\n  return s;\n}\n\
                while (process.cpuUsage().user < 0.8e6) burn(1e6);\n";
    fs::write(&script, text).expect("a script");
    run(pyrograph()
        // Otherwise names are those that Node has in memory.
        .args(["record", "--lang", "none", "-o"])
        .arg(&out)
        // Else it depends on other threads when the function is optimized.
        .args(["--", "node", "--no-concurrent-recompilation", "--perf-prof", "burn.js"])
        .current_dir(folder.path()));
    let folded = Folded::read(&out);
    // `*` is V8's sign for optimized code, after `JS:` or, to Node 18, `LazyCompile:`; no perf map was written.
    let burn = folded.share(|stack| stack.iter().any(|frame| frame.contains(":*burn")));
    assert!(burn > 50.0, "{burn}: {:?}", folded.leaves());
}

#[test]
fn code_that_takes_the_place_of_other_code_has_its_name_from_then_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.folded");
    let program = compile(&["gcc", "-O1", "-g"], "jit.c", folder.path());
    let output = run(pyrograph()
        .args(["record", "-u", "-F", "2999", "--count", "samples", "-o"])
        .arg(&out)
        .arg("--")
        .arg(&program)
        .current_dir(folder.path()));
    let folded = Folded::read(&out);
    check_first_and_second(&folded, folded.total(), &output);
}

/// Checks shares of `first` and `second` of `jit.c`, one after the other at one address, by the CPU times that it printed.
#[track_caller]
pub fn check_first_and_second(folded: &Folded, samples: f64, output: &Output) {
    let (first, second) = (folded.total_share("first"), folded.total_share("second"));
    assert!(first + second > 90.0, "{:?}", folded.leaves());
    let said = String::from_utf8_lossy(&output.stdout);
    let times: Vec<f64> =
        said.split_whitespace().map(|time| time.parse().expect("a time")).collect();
    let expected = 100.0 * times[0] / (times[0] + times[1]);
    let share = 100.0 * first / (first + second);
    let most = tolerance(expected, samples);
    let leaves = folded.leaves();
    assert!((share - expected).abs() < most, "{share}, not {expected} ± {most}: {leaves:?}");
}
