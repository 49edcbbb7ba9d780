//! Interpreters, JIT compilers and hand-written assembly, with bounds on what
//! `benches/stacks` measures of them: how far a known share is off, and how many stacks are whole.

use std::process::{Command, Stdio};

use crate::common::{binary, is_root, package, sharp, tolerance};

/// So many samples are taken at least: of these, one standard deviation of a share of a quarter is 0.9 points.
const SAMPLES: f64 = 2500.0;

/// Records one of the programs of `benches/stacks` with each engine that can be used here. A known share, if there is one,
/// may be off by `max_error` percentage points; `min_whole` percent of the user stacks must begin where a program or thread starts.
fn check(program: &str, max_error: f64, min_whole: f64) {
    let engines = if is_root("the in-kernel engine's part") { "perf,ebpf" } else { "perf" };
    let output = Command::new(package().join("../../benches/stacks"))
        .env("PYROGRAPH", binary())
        .args(["--engines", engines, "--targets=command"])
        .args(["-F", "4999", "-d", "1", "--samples", sharp("2500", "10000")])
        .args([format!("--max-error={max_error}"), format!("--min-whole={min_whole}")])
        .arg(program)
        .stderr(Stdio::inherit())
        .output()
        .expect("Python 3 runs benches/stacks");
    let text = String::from_utf8_lossy(&output.stdout);
    if let Some((_, reason)) = text.split_once("left out: ") {
        eprintln!("skipped: {program}: {reason}");
        return;
    }
    assert!(output.status.success(), "out of bounds, or not recorded:\n{text}");
    // Should the script ever measure nothing, this test would pass of itself.
    assert_eq!(text.matches(" whole ").count(), engines.split(',').count(), "{text}");
}

#[test]
#[ignore = "nightly: Java is recorded by other tests each time"]
fn java_without_frame_pointers_is_whole() {
    // In its first seconds the compiler replaces code that runs.
    check("java", 0.0, 97.0);
}

#[test]
#[ignore = "nightly: LuaJIT is recorded by other tests each time"]
fn luajit_is_whole() {
    check("luajit", 0.0, 99.0);
}

#[test]
#[ignore = "nightly: Perl is recorded by other tests each time"]
fn perl_is_whole() {
    check("perl", 0.0, 99.0);
}

#[test]
#[ignore = "nightly: nine seconds; other assembly is recorded each time"]
fn shares_of_whole_stacks_of_x264_in_its_assembly() {
    // By perf_event, what lies beyond the copy of a stack is read later, by a recorder that is not optimized: 85 to 99 %.
    check("x264 (ffmpeg)", 0.0, sharp(75.0, 95.0));
}

#[test]
fn node_with_a_perf_map_has_its_shares() {
    check("node --perf-basic-prof", sharp(tolerance(25.0, SAMPLES), 2.5), 99.0);
}
