//! Outputs with the time of each sample, by both engines: when, on which CPU, at which instruction.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::interpreters::write;
use crate::common::{Folded, compile, cpu_time, is_root, pyrograph, run, tolerance, wait_until};

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

/// What a program says of a function that it was in once: when it began and ended, and for how long it was away from its CPU at
/// most, in seconds of some clock.
struct Phase([f64; 3]);

impl Phase {
    /// From the lines of three numbers, in nanoseconds.
    fn all(printed: &str) -> Vec<Self> {
        let phase = |line: &str| {
            let numbers = line.split(' ').map(|number| number.parse::<f64>().map(|ns| ns / 1e9));
            Some(Self(numbers.collect::<Result<Vec<_>, _>>().ok()?.try_into().ok()?))
        };
        printed.lines().filter_map(phase).collect()
    }
}

/// All samples of `early` were taken before all of `late`, and those of each, and of both, lie as far apart as the program says.
fn check_times(page: &Path, phases: &[Phase], said: &str) {
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
    // Of some 200 by the CPU time of each; a hypervisor that takes the CPU away takes samples with it.
    assert!(early.len() > 20 && late.len() > 20, "{} {}: {said}", early.len(), late.len());
    // Both take as much CPU time: of 400, one standard deviation is 2.5 points.
    let all = (early.len() + late.len()) as f64;
    let share = 100.0 * early.len() as f64 / all;
    assert!((share - 50.0).abs() < tolerance(50.0, all), "{share} % of {all}: {said}");
    let (early, late) = (ends(&early), ends(&late));
    assert!(early.1 < late.0, "{early:?} {late:?}: {said}");
    let [first, second] = phases else { panic!("{said}") };
    for (found, begun, ended) in [
        (early, &first.0, &first.0),
        (late, &second.0, &second.0),
        ((early.0, late.1), &first.0, &second.0),
    ] {
        let (found, took) = (found.1 - found.0, ended[1] - begun[0]);
        // The first and the last sample are a period of 1 ms from the ends, of which some are missed among other programs; and
        // the program may be away there.
        let most = 0.03 + begun[2] + ended[2];
        assert!(found < took + 0.005 && found > took - most, "{found} s, not {took}: {said}");
    }
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
    let printed = String::from_utf8_lossy(&output.stdout);
    check_times(&page, &Phase::all(&printed), &said);
    // All that was said to be sampled is there.
    let samples = said.split(" samples of ").next().and_then(|text| text.rsplit(' ').next());
    let samples: usize = samples.expect("how many").replace(',', "").parse().expect("a number");
    let rows = text(pyrograph().args(["script", "-F", "time"]).arg(&page)).lines().count();
    assert_eq!(rows, samples, "{engine:?}: {said}");
    let cpus: Vec<&str> = printed.lines().next().unwrap_or_default().split(' ').collect();
    assert_eq!(cpus.len(), 2, "{printed}");
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
    check_phases(&program, &["--engine", "perf"]);
    if is_root("each_sample_has_its_time_cpu_and_instruction, by programs in the kernel") {
        check_phases(&program, &["--engine", "ebpf"]);
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
def spins(phase):
    end = time.thread_time() + 0.2
    phase[:] = [time.monotonic_ns(), time.monotonic_ns(), 0]
    while time.thread_time() < end:
        now = time.monotonic_ns()
        phase[2] = max(phase[2], now - phase[1]); phase[1] = now
def early(phase): spins(phase)
def late(phase): spins(phase)
first, second = [], []
early(first); late(second)
print(*first); print(*second)
",
    );
    let page = folder.path().join("page.html");
    let flags = ["record", "-F", "997", "-o"];
    let output = run(pyrograph().args(flags).arg(&page).args(["--", "python3"]).arg(&script));
    let all = fold(&page, &["--focus", "^(early|late)$"]);
    assert!(all.total_share("spins") > 95.0, "{:?}", all.leaves());
    let printed = String::from_utf8_lossy(&output.stdout);
    check_times(&page, &Phase::all(&printed), &String::from_utf8_lossy(&output.stderr));
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
import resource, time
def now():
    return time.monotonic_ns(), time.thread_time_ns(), resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
def early():
    start = now()
    time.sleep(0.6)
    return start, now()
def late():
    start = now()
    for i in range(60): time.sleep(0.01)
    return start, now()
for start, end in (early(), late()):
    used = end[1] - start[1]
    print(end[0] - start[0] - used, used, end[2] - start[2])
",
    );
    let page = folder.path().join("page.html");
    // What each function says of itself: how long it did not run and how long it did, in milliseconds, and how often it slept.
    let record = |flags: &[&str]| {
        let mut command = pyrograph();
        command.args(["record", "--off-cpu", "-o"]).arg(&page).args(flags);
        let output = run(command.args(["--", "python3"]).arg(&script));
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let numbers: Vec<f64> =
            printed.split_whitespace().map(|number| number.parse().expect("a number")).collect();
        let [waited, used, waits, late_waited, late_used, late_waits] = numbers[..] else {
            panic!("{printed}")
        };
        let measured = [
            ("early", waited / 1e6, used / 1e6, waits),
            ("late", late_waited / 1e6, late_used / 1e6, late_waits),
        ];
        (fold(&page, &[]), measured)
    };
    let value =
        |folded: &Folded, function: &str| folded.total_share(function) * folded.total() / 100.0;
    let (all, measured) = record(&[]);
    for (function, expected, ..) in measured {
        let waited = value(&all, function) / 1e6;
        // The clocks are read some microseconds before and after.
        assert!(
            (waited - expected).abs() < 0.01 * expected + 3.0,
            "{function}: {waited} ms and {expected}"
        );
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
    // Any 200 ms of its 600 have a third of it, and so have those of many short waits, but for the time in which it ran.
    for (function, from) in [("early", end - 0.55), ("early", end - 0.25), ("late", end + 0.1)] {
        let time = format!("{from:.6}..{:.6}", from + 0.2);
        let part = value(&fold(&page, &["--time", &time]), function) / 1e6;
        let ran = if function == "late" { measured[1].2 } else { 0.0 };
        assert!((180.0 - ran..220.0).contains(&part), "{function} {time}: {part} ms, {measured:?}");
    }
    let (waits, measured) = record(&["--count", "samples"]);
    for (function, _, _, slept) in measured {
        let is_sleep = |stack: &[String]| {
            stack.iter().any(|frame| frame == function)
                && stack.last().is_some_and(|frame| frame == "[sleeping]")
        };
        // By the kernel's count: a timer may go off before its thread sleeps, if another takes the CPU meanwhile.
        let found = (waits.share(is_sleep) * waits.total() / 100.0).round();
        assert!(slept <= if function == "early" { 1.0 } else { 60.0 }, "{measured:?}");
        assert!(slept >= if function == "early" { 1.0 } else { 50.0 }, "{measured:?}");
        assert_eq!(found, slept, "{function}: {measured:?}");
    }
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

/// Samples from before the end of the delay are left out, even if they are read later.
#[test]
fn the_beginning_is_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(C, "phases.c", folder.path());
    let out = folder.path().join("out.folded");
    let record = |engine: &str, delay: &str, script: &str| {
        let mut command = pyrograph();
        command.args(["record", "-u", "-F", "499", "--engine", engine, "--delay", delay, "-o"]);
        command.arg(&out).args(["--", "sh", "-c", script]).arg(&program);
        command.output().expect("it runs")
    };
    for engine in ["perf", "ebpf"] {
        if engine == "ebpf" && !is_root("the_beginning_is_left_out, by programs in the kernel") {
            continue;
        }
        let output = record(engine, "1.2", "\"$0\"; sleep 2; \"$0\"");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let phases = Phase::all(&String::from_utf8_lossy(&output.stdout));
        let [first @ .., early, _] = &phases[..] else { panic!("{said}") };
        let is_early = first.iter().all(|phase| phase.0[1] < early.0[0] - 1.5);
        assert!(first.len() == 2 && is_early, "{said}");
        // 0.2 s of CPU time each, of the second run alone; and what the first did beyond a second, where CPUs were wanted by others.
        let first = first[1].0[1] - first[0].0[0];
        let most = 0.48 + (first - 1.0).max(0.0);
        let folded = Folded::read(&out);
        let is_known = |stack: &[String]| stack.iter().any(|of| of == "early" || of == "late");
        let found = folded.share(is_known) / 100.0 * folded.total() / 1e9;
        assert!((0.32..most).contains(&found), "{found} s of {most}: {said}");
    }
    let output = record("perf", "5", ":");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("it has ended before --delay was over"), "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
}

/// What was lost has the time at which the recorder stood still.
#[test]
fn what_was_lost_is_where_it_was_lost() {
    check_lost(false);
}

/// The kernel writes that samples were lost with the next one on their CPU, of which there is none.
#[test]
fn what_was_lost_on_a_cpu_that_the_program_left_is_where_it_was_lost() {
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
        check_lost(true);
    }
}

/// Has a process run on one CPU.
fn pin(pid: u32, cpu: usize) {
    // SAFETY: a set of CPUs is a bit mask, and empty as zeros; the kernel reads as many bytes as it has.
    unsafe {
        let mut cpus: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut cpus);
        let done = libc::sched_setaffinity(pid.cast_signed(), size_of_val(&cpus), &raw const cpus);
        assert_eq!(done, 0, "CPU {cpu}");
    }
}

fn check_lost(leaves: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    let mut target =
        Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell");
    let works = |time: f64| {
        let until = cpu_time(target.id()).as_secs_f64() + time;
        wait_until("it works", || cpu_time(target.id()).as_secs_f64() >= until);
    };
    let mut command = pyrograph();
    command.args(["record", "-u", "--engine", "perf", "-F", "3999", "-o"]).arg(&page);
    command.args(["-p", &target.id().to_string()]);
    let recorder = command.stderr(Stdio::piped()).spawn().expect("it runs");
    let files = format!("/proc/{}/fd", recorder.id());
    let is_event = |entry: std::io::Result<std::fs::DirEntry>| {
        let file = entry.and_then(|entry| std::fs::read_link(entry.path()));
        file.is_ok_and(|file| file.as_os_str() == "anon_inode:[perf_event]")
    };
    wait_until("it records", || {
        Path::new(&files).read_dir().is_ok_and(|mut all| all.any(is_event))
    });
    let send = |signal| {
        let pid = recorder.id().cast_signed();
        // SAFETY: the call takes numbers.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    };
    // The clock of samples, on a machine that was never suspended.
    let now = || {
        let uptime = std::fs::read_to_string("/proc/uptime").expect("the kernel has it");
        uptime.split(' ').next().and_then(|time| time.parse::<f64>().ok()).expect("a time")
    };
    if leaves {
        pin(target.id(), 0);
    }
    works(0.4);
    send(libc::SIGSTOP);
    let stopped = now();
    works(1.5);
    if leaves {
        pin(target.id(), 1);
    }
    let gone_on = now();
    send(libc::SIGCONT);
    works(0.4);
    send(libc::SIGINT);
    let said = recorder.wait_with_output().expect("it ends").stderr;
    let said = String::from_utf8_lossy(&said);
    target.kill().expect("it runs");
    target.wait().expect("it ends");
    let printed = text(pyrograph().args(["script", "-F", "time,ip,sym"]).arg(&page));
    let lost = printed.split("\n\n").filter(|event| event.contains("[lost]"));
    let times = lost.filter_map(|event| event.split_once(':')?.0.trim().parse::<f64>().ok());
    let times: Vec<f64> = times.collect();
    assert!(times.len() >= 10, "{times:?} {said}");
    // A sample that is taken may be read up to a tenth of a second later.
    let is_there = |time: &f64| (stopped - 0.1..gone_on + 0.1).contains(time);
    assert!(times.iter().all(is_there), "{stopped} {times:?} {gone_on} {said}");
}

/// In a time namespace (containers, `unshare -T`) the clock of processes is ahead of the one that records have: by perf events no
/// sample was within the recording, and the in-kernel engine's were a day off.
#[test]
fn a_time_namespace_moves_no_sample() {
    if !is_root("a_time_namespace_moves_no_sample") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(C, "calls.c", folder.path());
    let ahead = ["-T", "--monotonic", "100000", "--fork"];
    if !Command::new("unshare").args(ahead).arg("true").status().is_ok_and(|of| of.success()) {
        return eprintln!("skipped: a_time_namespace_moves_no_sample needs time namespaces");
    }
    let first = |mut command: Command, engine: &str, name: &str| {
        let page = folder.path().join(name);
        let record = ["record", "-F", "997", "--engine", engine, "-o"];
        run(command.args(record).arg(&page).arg("--").arg(&program).arg("300"));
        let printed = text(pyrograph().args(["script", "-F", "time,sym"]).arg(&page));
        let times = printed.lines().filter_map(|line| line.trim().strip_suffix(':')?.parse().ok());
        let times: Vec<f64> = times.collect();
        assert!(times.len() > 20, "{engine}: {printed}");
        times[0]
    };
    for engine in ["ebpf", "perf"] {
        let outside = first(pyrograph(), engine, "outside.html");
        let mut command = Command::new("unshare");
        command.args(ahead).arg(pyrograph().get_program()).current_dir(folder.path());
        let inside = first(command, engine, "inside.html");
        let later = inside - outside;
        assert!((0.0..120.0).contains(&later), "{engine}: {later} s later");
    }
}
