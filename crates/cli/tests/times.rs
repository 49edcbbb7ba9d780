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
    let share = |folded: &Folded, function: &str| {
        let of = |name: &str| folded.total_share(name);
        of(function) / (of("early") + of("late"))
    };
    // The program's own start takes some milliseconds at most.
    let (early, late) = (fold(&page, &["--time", "0..0.35"]), fold(&page, &["--time", "0.45.."]));
    assert_eq!(share(&early, "early"), 1.0, "{engine:?}: {said}");
    assert_eq!(share(&late, "late"), 1.0, "{engine:?}: {said}");
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
        record();
        let all = fold(&page, &["--focus", "^(early|late)$"]);
        // By the clock on the wall: on a busy machine one may have had more of the CPU.
        assert!((all.total_share("early") - 50.0).abs() < 30.0, "{:?}", all.leaves());
        assert!(all.total_share("spins") > 95.0, "{:?}", all.leaves());
        // The interpreter starts first, in some tens of milliseconds.
        let end = fold(&page, &["--focus", "^(early|late)$", "--time", "0.6.."]);
        assert!(end.total_share("late") > 99.0, "{:?}", end.leaves());
    });
}
