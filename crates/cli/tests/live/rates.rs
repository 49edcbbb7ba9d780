//! Rates that a machine can keep to and those that it cannot: nothing is lost in silence, and a recording ends when it was
//! asked to.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::in_kernel::Running;
use crate::common::{
    Folded, as_nobody, binary_for_others, compile, cpu_time, is_root, pyrograph, sharp, slice,
    stolen, wait_for_threads, wait_until,
};

const C: &[&str] =
    &["gcc", "-O2", "-g", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-pthread"];

const RATES: [u64; 5] = [997, 60_000, 1_000_000, 99, 20_000];

fn engines(test: &str) -> Vec<&'static str> {
    let by_programs = is_root(&format!("{test}, by programs in the kernel"));
    ["perf", "ebpf"].into_iter().filter(|engine| *engine == "perf" || by_programs).collect()
}

/// The number before these words, with its digits grouped.
fn number_before(text: &str, words: &str) -> Option<f64> {
    let at = text.find(words)?;
    let start = text[..at].rfind([' ', '\n']).map_or(0, |space| space + 1);
    text[start..at].replace(',', "").parse().ok()
}

fn record(folder: &Path, flags: &[&str], target: &[&str]) -> (Folded, Output) {
    let out = folder.join("out.folded");
    let mut command = pyrograph();
    command.args(["record", "-v", "-o"]).arg(&out).args(flags).args(target);
    let output = command.output().expect("pyrograph runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (Folded::read(&out), output)
}

/// Sum of the values, in seconds, of stacks with one of these functions.
fn seconds_of(folded: &Folded, functions: &[&str]) -> f64 {
    let has = |stack: &[String]| stack.iter().any(|frame| functions.contains(&frame.as_str()));
    folded.stacks.iter().filter(|(stack, _)| has(stack)).map(|(_, value)| value).sum::<f64>() / 1e9
}

/// `taken`: the seconds for which the machine's CPUs were taken away meanwhile, which a single sample may stand for.
fn check_split(folded: &Folded, taken: f64, context: &str) {
    let (left, both) = (seconds_of(folded, &["left"]), seconds_of(folded, &["left", "right"]));
    let share = left / both;
    // Six standard deviations, and what the clocks that the program reads take.
    let samples = number_before(context, " samples of cpu-clock").expect("samples");
    let tolerance = 0.015 + 6.0 * (0.75 * 0.25 / samples).sqrt() + taken / both;
    assert!((share - 0.75).abs() < tolerance, "{share:.3} in left, not 0.75: {context}");
}

/// Samples of a program and the CPU time that it says it has used, for one rate.
fn check_cpu_time(folder: &Path, program: &str, engine: &str, rate: u64) {
    let asked = rate.to_string();
    let flags = ["--engine", engine, "-F", &asked];
    let before = stolen();
    // 0.6 s of CPU time, of two threads.
    let (folded, output) = record(folder, &flags, &["--", program, sharp("300", "800"), "2"]);
    let taken = (stolen() - before).as_secs_f64();
    let said = String::from_utf8_lossy(&output.stderr);
    let context = format!("--engine {engine} -F {rate}, {taken} s stolen: {said}");
    let used: f64 = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a time");
    let samples = number_before(&said, " samples of cpu-clock").expect("samples");
    let lost = number_before(&said, " lost").expect("how many were lost");
    // Lost samples are in it, as `[lost]`.
    let found = folded.total() / 1e9;
    let used = used / 1e9;
    // Six standard deviations, where every other tick finds another program on the CPU: at 99 Hz that is half of it, a factor in
    // the times is found at higher rates. Clocks of CPU time leave out what was stolen; whether a tick does, depends on the engine.
    let chance = 6.0 * (0.5 / (used * rate as f64)).sqrt();
    let most = (0.03 + chance) * used + taken + 0.01;
    assert!((found - used).abs() < most, "{found:.3} s of {used:.3} s ± {most:.3}: {context}");
    let skipped = number_before(&said, " skipped by the kernel").unwrap_or(0.0);
    let is_lowered = said.contains("times a second, not") || said.contains("lowered to");
    let known = samples + lost + skipped;
    let due = (0.93 * used - 0.5 * chance * used - taken) * rate as f64;
    assert!(is_lowered || known > due, "{due} samples are due: {context}");
    check_split(&folded, taken, &context);
}

#[test]
fn shares_of_samples_are_those_of_cpu_time_at_every_rate() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(C, "paced.c", folder.path());
    let program = program.to_str().expect("a plain path");
    for engine in engines("shares_of_samples_are_those_of_cpu_time_at_every_rate") {
        for &rate in slice(&RATES, 3) {
            check_cpu_time(folder.path(), program, engine, rate);
        }
    }
}

#[test]
fn recordings_end_in_time_at_every_rate() {
    const TIME: f64 = 0.6;
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(C, "paced.c", folder.path());
    let mut spinning = Command::new(&program);
    let spinning = spinning.args(["1", "2", "endless"]).stdout(Stdio::null()).spawn();
    let spinning = Running(spinning.expect("it runs"));
    let pid = spinning.0.id().to_string();
    for engine in engines("recordings_end_in_time_at_every_rate") {
        for &rate in slice(&["1000000", "997", "20000"], 2) {
            let before = stolen();
            let flags = ["--engine", engine, "-F", rate, "-d", "0.6"];
            let (folded, output) = record(folder.path(), &flags, &["-p", &pid]);
            let taken = (stolen() - before).as_secs_f64();
            let said = String::from_utf8_lossy(&output.stderr);
            // Two threads have no more CPU time than this, however long they are looked at.
            let most = 2.0 * (TIME + 0.2);
            let found = folded.total() / 1e9;
            assert!(found > 0.0 && found < most, "{found:.3} s: {engine} {rate}: {said}");
            check_split(&folded, taken, &format!("--engine {engine} -F {rate} : {said}"));
        }
    }
}

/// Each sample of one recording has its time: none is older or newer than asked for.
#[test]
fn no_sample_is_taken_after_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(C, "paced.c", folder.path());
    let mut spinning = Command::new(&program);
    let spinning = spinning.args(["1", "2", "endless"]).stdout(Stdio::null()).spawn();
    let spinning = Running(spinning.expect("it runs"));
    let pid = spinning.0.id().to_string();
    for &rate in slice(&["1000000", "997", "20000"], 2) {
        let out = folder.path().join("out.json");
        let mut command = pyrograph();
        command.args(["record", "-F", rate, "-d", "0.5", "-p", &pid, "-o"]).arg(&out);
        let output = command.output().expect("pyrograph runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = std::fs::read_to_string(&out).expect("samples with their times");
        let profile: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let times: Vec<f64> = profile["threads"]
            .as_array()
            .expect("threads")
            .iter()
            .flat_map(|thread| thread["samples"]["time"].as_array().expect("times"))
            .map(|time| time.as_f64().expect("milliseconds"))
            .collect();
        let first = times.iter().copied().fold(f64::INFINITY, f64::min);
        let last = times.iter().copied().fold(0.0, f64::max);
        // By far the most of what it gets in half a second comes in the second after it, if it is sampled then.
        assert!(times.len() > 10, "{} samples at {rate} Hz", times.len());
        assert!(last - first < 600.0, "{} ms at {rate} Hz", last - first);
    }
}

/// Where no thread runs for a whole period, the closing line said that the target used too little.
#[test]
fn threads_that_run_for_too_little_each_are_said() {
    const TEST: &str = "threads_that_run_for_too_little_each_are_said";
    if !is_root(TEST) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let pyrograph = binary_for_others(folder.path(), 0o777);
    let program = compile(C, "crowd.c", folder.path());
    let crowd = Running(as_nobody(&program).args(["900", "300"]).spawn().expect("it runs"));
    let pid = crowd.0.id().to_string();
    wait_for_threads(crowd.0.id(), 900);
    let out = folder.path().join("none.folded");
    let mut recording = as_nobody(&pyrograph);
    recording.current_dir(folder.path());
    recording.args(["record", "--engine", "perf", "-F", "99", "-d", "1", "-p", &pid, "-o"]);
    let output = recording.arg(&out).output().expect("setpriv runs");
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("not permitted: ") && !said.contains("kernel mode") {
        return eprintln!("skipped: {TEST}: {said}");
    }
    assert!(said.contains("threads: each is sampled on each CPU once"), "{said}");
    // A thread whose CPU is taken away runs for longer by its event's clock.
    let samples = std::fs::read_to_string(&out).unwrap_or_default().lines().count();
    let is_said = said.contains("no thread ran on one CPU for as long");
    assert!(is_said || (1..20).contains(&samples), "{samples} stacks: {said}");
}

/// The clock of a thread took its first sample after a period, on each CPU: of threads that run for less nothing was seen.
#[test]
fn five_thousand_threads_that_run_for_little_each_are_all_sampled() {
    if !is_root("five_thousand_threads_that_run_for_little_each_are_all_sampled") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(C, "crowd.c", folder.path());
    let mut crowd = Command::new(&program);
    let crowd = Running(crowd.args(["5000", "1500"]).spawn().expect("it runs"));
    let pid = crowd.0.id();
    wait_for_threads(crowd.0.id(), 5000);
    let (before, stolen_before) = (cpu_time(pid), stolen());
    let out = folder.path().join("out.folded");
    let mut recording = pyrograph();
    recording
        .args(["record", "--engine", "perf", "-d", "2", "-p", &pid.to_string(), "-o"])
        .arg(&out);
    let recording = recording.stderr(Stdio::piped()).spawn().expect("pyrograph runs");
    // It has opened its events when it reads them: the kernel's account is read from then on.
    let events = format!("/proc/{}/fdinfo", recording.id());
    wait_until("events are open", || {
        std::fs::read_dir(&events).is_ok_and(|events| events.count() > 6)
    });
    let opened = cpu_time(pid);
    let output = recording.wait_with_output().expect("it ends");
    let (ended, taken) = (cpu_time(pid), (stolen() - stolen_before).as_secs_f64());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let folded = Folded::read(&out);
    let lost = seconds_of(&folded, &["[lost]"]);
    let found = folded.total() / 1e9;
    let [most, least] = [before, opened].map(|from| (ended - from).as_secs_f64());
    // After the end names are looked up, for as long as that takes on this machine: what runs then is in no sample. A clock that
    // takes its first sample after a period finds a tenth.
    assert!(found < 1.1 * most + taken + 0.1, "{found:.2} s of {most:.2} s: {said}");
    assert!(found > 0.25 * least - taken, "{found:.2} s of {least:.2} s: {said}");
    assert!(lost < 0.1 * found, "{said}");
    assert!(said.contains("threads: sampling all CPUs"), "{said}");
    check_split(&folded, taken, &said);
}

/// Seconds since the machine started for which its CPUs were not idle, by the kernel's account.
fn busy_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").expect("it is there");
    let line = text.lines().next().expect("all CPUs");
    let ticks: Vec<f64> =
        line.split_whitespace().skip(1).map(|of| of.parse().expect("ticks")).collect();
    // user nice system idle iowait irq softirq steal
    let [user, nice, system, _, _, irq, softirq, steal, ..] = ticks[..] else { panic!("{line}") };
    (user + nice + system + irq + softirq + steal) / 100.0
}

/// By perf events at a high rate, the idle time of a CPU was counted for who ran next: 24 s for 16 on 16 CPUs.
#[test]
fn idle_time_is_nobodys_at_high_rates() {
    if !is_root("idle_time_is_nobodys_at_high_rates") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for engine in engines("idle_time_is_nobodys_at_high_rates") {
        let before = busy_seconds();
        let flags = ["--engine", engine, "-F", "9999", "-d", "1"];
        let (folded, output) = record(folder.path(), &flags, &["-a"]);
        let used = busy_seconds() - before;
        let said = String::from_utf8_lossy(&output.stderr);
        // The kernel accounts whole ticks.
        let most = 1.05 * used + 0.15;
        let sum = folded.total() / 1e9;
        assert!(sum < most, "{engine}: {sum:.3} s of {used:.3}: {said}");
    }
}
