//! Outputs with the time of each sample, by both engines: when, on which CPU, at which instruction.

use std::path::Path;
use std::process::Command;

use crate::common::interpreters::write;
use crate::common::{Folded, compile, is_root, pyrograph, run, up_to_three_times};

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

/// A wait is a part of each moment that it lasts, below the functions of its language; each wait counts once.
#[test]
fn waits_have_their_part_of_each_moment() {
    if !is_root("waits_have_their_part_of_each_moment") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = write(
        folder.path(),
        "waits.py",
        "
import time
def early(): time.sleep(0.6)
def late():
    for i in range(60): time.sleep(0.01)
early(); late()
",
    );
    let page = folder.path().join("page.html");
    let record = |flags: &[&str]| {
        let mut command = pyrograph();
        command.args(["record", "--off-cpu", "-o"]).arg(&page).args(flags);
        run(command.args(["--", "python3"]).arg(&script));
        fold(&page, &[])
    };
    let value =
        |folded: &Folded, function: &str| folded.total_share(function) * folded.total() / 100.0;
    up_to_three_times(|| {
        let all = record(&[]);
        for function in ["early", "late"] {
            let waited = value(&all, function) / 1e6;
            assert!((590.0..900.0).contains(&waited), "{function}: {waited} ms");
        }
        // When `early` ended: its last row is of then.
        let printed = text(pyrograph().args(["script", "-F", "time,ip,sym"]).arg(&page));
        let rows = printed.split("\n\n").filter_map(|event| {
            let (time, rest) = event.split_once(':')?;
            let is_early = rest.lines().any(|line| line.split_whitespace().last() == Some("early"));
            Some((time.trim().parse::<f64>().ok()?, is_early))
        });
        let rows: Vec<(f64, bool)> = rows.collect();
        let first = rows.iter().map(|row| row.0).fold(f64::INFINITY, f64::min);
        let end = rows.iter().filter(|row| row.1).map(|row| row.0).fold(0.0, f64::max) - first;
        // Any 200 ms of its 600 have a third of it, and so have those of many short waits.
        for (function, from) in [("early", end - 0.55), ("early", end - 0.25), ("late", end + 0.1)]
        {
            let time = format!("{from:.6}..{:.6}", from + 0.2);
            let part = value(&fold(&page, &["--time", &time]), function) / 1e6;
            assert!((180.0..220.0).contains(&part), "{function} {time}: {part} ms");
        }
    });
    up_to_three_times(|| {
        let waits = record(&["--count", "samples"]);
        for (function, expected) in [("early", 1.0), ("late", 60.0)] {
            let is_sleep = |stack: &[String]| {
                stack.iter().any(|frame| frame == function)
                    && stack.last().is_some_and(|frame| frame == "[sleeping]")
            };
            assert_eq!((waits.share(is_sleep) * waits.total() / 100.0).round(), expected);
        }
    });
}

/// Of events that come faster than there is room for each with its time, none is lost: times are in longer steps.
#[test]
fn more_events_than_there_is_room_for_have_times() {
    if !is_root("more_events_than_there_is_room_for_have_times") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    // Each reads and writes as often, and little else.
    let copy = "dd if=/dev/zero of=/dev/null bs=1 count=300000 2>/dev/null";
    let mut command = pyrograph();
    command.args(["record", "--exact", "-e", "raw_syscalls:sys_enter", "-o"]).arg(&page);
    command.args(["--", "sh", "-c", &format!("{copy} & {copy}; wait")]);
    let said = run(&mut command).stderr;
    let said = String::from_utf8_lossy(&said);
    let all = fold(&page, &[]);
    let copied = all.share(|stack| stack.iter().any(|frame| frame == "dd")) * all.total() / 100.0;
    assert!((1_200_000.0..1_201_000.0).contains(&copied), "{copied}: {said}");
    assert!(said.contains(", 0 lost"), "{said}");
    let times = text(pyrograph().args(["script", "-F", "time"]).arg(&page));
    let times = times.lines().count();
    assert!((5_000..600_000).contains(&times), "{times} rows of {copied} events: {said}");
}
