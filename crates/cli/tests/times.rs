//! Outputs with the time of each sample, by both engines: when, on which CPU, at which instruction.

mod common;

use std::path::Path;
use std::process::Command;

use common::interpreters::write;
use common::{Folded, compile, is_root, pyrograph, run, up_to_three_times};

const C: &[&str] = &["gcc", "-O2", "-g", "-fomit-frame-pointer"];

fn text(command: &mut Command) -> String {
    String::from_utf8(run(command).stdout).expect("UTF-8")
}

/// The stacks of a page after filters.
fn fold(page: &Path, flags: &[&str]) -> Folded {
    let out = page.with_extension("folded");
    run(pyrograph().arg("fold").arg(page).args(flags).arg("-o").arg(&out));
    Folded::read(&out)
}

/// All samples of `early` were taken before all of `late`, and both took 0.4 s.
fn check_times(page: &Path, said: &str) {
    let printed = text(pyrograph().args(["script", "-F", "time,ip,sym"]).arg(page));
    let time_of = |event: &str| event.split_once(':')?.0.trim().parse::<f64>().ok();
    let times = |function: &str| -> Vec<f64> {
        let is_in = |event: &&str| {
            event.lines().any(|line| line.split_whitespace().last() == Some(function))
        };
        let times = printed.split("\n\n").filter(is_in).filter_map(time_of);
        times.collect()
    };
    let ends = |times: &[f64]| {
        let least = times.iter().copied().fold(f64::INFINITY, f64::min);
        (least, times.iter().copied().fold(0.0, f64::max))
    };
    let (early, late) = (times("early"), times("late"));
    assert!(early.len() > 20 && late.len() > 20, "{} {}: {said}", early.len(), late.len());
    let (early, late) = (ends(&early), ends(&late));
    assert!(early.1 < late.0, "{early:?} {late:?}: {said}");
    let took = late.1 - early.0;
    assert!((0.6..0.9).contains(&took), "{took} s: {said}");
}

/// Records a program whose functions say when and where they run.
fn check_phases(program: &Path, engine: &[&str]) {
    let page = program.with_extension("html");
    let output = run(pyrograph()
        .args(["record", "-F", "997", "-o"])
        .arg(&page)
        .args(engine)
        .arg("--")
        .arg(program));
    let said = String::from_utf8_lossy(&output.stderr);
    check_times(&page, &said);
    // All that was said to be sampled is there.
    let samples = said.split(" samples of ").next().and_then(|text| text.rsplit(' ').next());
    let samples: usize = samples.expect("how many").replace(',', "").parse().expect("a number");
    let rows = text(pyrograph().args(["script", "-F", "time"]).arg(&page)).lines().count();
    assert_eq!(rows, samples, "{engine:?}: {said}");
    let cpus = String::from_utf8_lossy(&output.stdout);
    let cpus: Vec<&str> = cpus.split_whitespace().collect();
    for (stack, _) in &fold(&page, &["--by", "cpu"]).stacks {
        for (function, cpu) in ["early", "late"].into_iter().zip(&cpus) {
            let is_leaf = stack.last().is_some_and(|frame| frame == function);
            assert!(!is_leaf || stack[0] == format!("CPU {cpu}"), "{engine:?}: {stack:?}");
        }
    }
    let annotated = text(pyrograph().args(["annotate", "--asm", "early"]).arg(&page));
    assert!(annotated.contains("hottest: "), "{engine:?}: {annotated}");
}

#[test]
fn each_sample_has_its_time_cpu_and_instruction() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(C, "phases.c", folder.path());
    up_to_three_times(|| check_phases(&program, &["--engine", "perf"]));
    if is_root("each_sample_has_its_time_cpu_and_instruction, by programs in the kernel") {
        up_to_three_times(|| check_phases(&program, &["--engine", "ebpf"]));
        up_to_three_times(|| check_phases(&program, &[]));
    }
}

/// In pages, too, interpreted functions stand among native ones, each sample with its time.
#[test]
fn pages_have_functions_of_interpreters() {
    if !is_root("pages_have_functions_of_interpreters") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = write(
        folder.path(),
        "phases.py",
        "
import time
def spins(end):
    while time.monotonic() < end: pass
def early(end): spins(end)
def late(end): spins(end)
start = time.monotonic()
early(start + 0.4); late(start + 0.8)
",
    );
    let page = folder.path().join("page.html");
    let flags = ["record", "-F", "997", "-o"];
    let record = || run(pyrograph().args(flags).arg(&page).args(["--", "python3"]).arg(&script));
    up_to_three_times(|| {
        let output = record();
        let all = fold(&page, &["--focus", "^(early|late)$"]);
        // By the clock on the wall: on a busy machine one may have had more of the CPU.
        assert!((all.total_share("early") - 50.0).abs() < 30.0, "{:?}", all.leaves());
        assert!(all.total_share("spins") > 95.0, "{:?}", all.leaves());
        check_times(&page, &String::from_utf8_lossy(&output.stderr));
    });
}
