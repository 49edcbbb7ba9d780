//! The scheduler: files of `perf sched record` beside perf's own tables, and what runs.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::perf::{run_perf, with_perf_as_root};
use common::{compile, is_root, pyrograph, run, text};
use serde_json::Value;

/// Records the machine while programs wait for each other, for time and for a CPU.
fn record(folder: &Path) -> PathBuf {
    let data = folder.join("perf.data");
    let busy = "for i in 1 2 3; do (for k in $(seq 60); do sleep 0.002; done) & done; \
                for i in 1 2; do (for k in $(seq 20000); do :; done) & done; \
                seq 3000 | cat | sort -n | wc -l; wait";
    let mut perf = Command::new("perf");
    perf.args(["sched", "record", "-o"]).arg(&data).args(["--", "sh", "-c", busy]);
    run_perf(&mut perf);
    data
}

fn perf(data: &Path, arguments: &[&str]) -> String {
    let mut perf = Command::new("perf");
    perf.args(arguments).arg("-i").arg(data);
    text(&run_perf(&mut perf).stdout)
}

fn ours(data: &Path, arguments: &[&str]) -> String {
    text(&run(pyrograph().arg("sched").args(arguments).arg("-i").arg(data)).stdout)
}

/// Run time, the longest delay and the number of switches by thread, as perf prints them: milliseconds.
fn perf_latency(data: &Path) -> BTreeMap<i32, (f64, f64, u64)> {
    let mut rows = BTreeMap::new();
    for line in perf(data, &["sched", "latency", "-p"]).lines() {
        let columns: Vec<&str> = line.split('|').collect();
        let [task, run_time, switches, _, longest, ..] = columns[..] else { continue };
        let number = |column: &str| {
            let digits = column.trim().trim_start_matches("max:").trim_end_matches("ms").trim();
            digits.parse().ok()
        };
        let tid = task.trim().rsplit_once(':').and_then(|(_, tid)| tid.parse().ok());
        let row = (tid, number(run_time), number(longest), switches.trim().parse().ok());
        if let (Some(tid), Some(run_time), Some(longest), Some(switches)) = row {
            rows.insert(tid, (run_time, longest, switches));
        }
    }
    rows
}

/// By thread, how often it was given a CPU: counted in the text of the events, by the switch that gave it, or where that is
/// missing, by the one that took it away.
fn switches(data: &Path) -> BTreeMap<i32, u64> {
    let mut counts = BTreeMap::new();
    let mut on_cpu: BTreeMap<String, i32> = BTreeMap::new();
    for line in perf(data, &["script", "-F", "cpu,event,trace"]).lines() {
        let number = |key: &str| -> Option<i32> {
            let (_, rest) = line.split_once(key)?;
            rest.split(' ').next()?.parse().ok()
        };
        let (Some(previous), Some(next)) = (number(" prev_pid="), number(" next_pid=")) else {
            continue;
        };
        let cpu = line.split_once(']').expect("a CPU").0.trim().to_owned();
        if on_cpu.insert(cpu, next).is_some_and(|known| known != previous) {
            *counts.entry(previous).or_default() += 1;
        }
        *counts.entry(next).or_default() += 1;
    }
    counts
}

#[test]
fn latencies_are_those_of_perf() {
    with_perf_as_root("latencies_are_those_of_perf", |folder| {
        let data = record(folder);
        let theirs = perf_latency(&data);
        let switches = switches(&data);
        let ours: Value =
            serde_json::from_str(&ours(&data, &["latency", "--pids", "--json"])).expect("JSON");
        let ours = ours["rows"].as_array().expect("rows");
        let mut compared = 0;
        for row in ours {
            let tid = i32::try_from(row["tid"].as_i64().expect("a number")).expect("a thread");
            let milliseconds = |key: &str| row[key].as_u64().expect(key) as f64 / 1e6;
            assert_eq!(
                row["switches"].as_u64(),
                Some(switches.get(&tid).copied().unwrap_or(0)),
                "switches of {row}"
            );
            let Some(&(run_time, longest, counted)) = theirs.get(&tid) else { continue };
            // perf 6.1 does not take `prev_state=R+` for a task that could run on, so that the delay after it is missing,
            // and the switch with it.
            let found = row["switches"].as_u64().expect("a number");
            assert!(counted <= found, "{counted} and {row}");
            let near =
                |found: f64, expected: f64| (found - expected).abs() <= expected * 0.01 + 0.002;
            assert!(near(milliseconds("runtime_ns"), run_time), "{run_time} ms and {row}");
            let ours = milliseconds("max_delay_ns");
            assert!(ours > longest - 0.002, "{longest} ms and {row}");
            if counted == found {
                assert!(near(ours, longest), "{longest} ms and {row}");
            }
            compared += 1;
        }
        assert!(compared > 20, "{compared} threads of {}", theirs.len());
    });
}

/// A line of `timehist`: time, CPU, task, and three durations of which each may not be known.
fn history(text: &str) -> Vec<(String, String, [Option<f64>; 3])> {
    let row = |line: &str| {
        let (time, rest) = line.trim().split_once(" [")?;
        let (cpu, rest) = rest.split_once(']')?;
        time.parse::<f64>().ok()?;
        let mut words = rest.trim_end().rsplitn(4, char::is_whitespace).map(str::trim);
        let mut numbers = [None; 3];
        let mut task = rest.trim_end();
        for at in (0..3).rev() {
            let (before, word) = task.trim_end().rsplit_once(' ')?;
            (task, numbers[at]) = (before, word.parse().ok());
        }
        words.next()?;
        Some((format!("{time} {cpu}"), task.trim().to_owned(), numbers))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn the_history_is_that_of_perf() {
    with_perf_as_root("the_history_is_that_of_perf", |folder| {
        let data = record(folder);
        let theirs = history(&perf(&data, &["sched", "timehist"]));
        let ours = history(&ours(&data, &["timehist"]));
        assert!(theirs.len() > 200, "{}", theirs.len());
        assert_eq!(ours.len(), theirs.len());
        let mut equal = 0;
        for ((when, task, found), (expected_when, expected_task, expected)) in
            ours.iter().zip(&theirs)
        {
            assert_eq!(when, expected_when);
            // perf throws threads that have ended together, as thread -1, with the times of another.
            if expected_task.starts_with(":-1") {
                continue;
            }
            assert_eq!(task, expected_task, "{when}");
            // Of what was not seen perf has 0.
            let is_near = |(found, expected): (&Option<f64>, &Option<f64>)| match (found, expected)
            {
                (Some(found), Some(expected)) => (found - expected).abs() < 0.0021,
                _ => true,
            };
            // The first run on a CPU began before: perf has 0 for it, or what was since its own first event.
            if found[0].is_some() {
                assert!(
                    found.iter().zip(expected).all(is_near),
                    "{when} {task}: {found:?}, {expected:?}"
                );
                equal += 1;
            }
        }
        assert!(equal * 10 > ours.len() * 8, "{equal} of {}", ours.len());
    });
}

/// Rows of `--csv`, by name of the column.
fn table(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = text.lines();
    let heads: Vec<&str> = lines.next().expect("heads").split(',').collect();
    let row = |line: &str| {
        heads
            .iter()
            .map(|head| (*head).to_owned())
            .zip(line.split(',').map(str::to_owned))
            .collect()
    };
    lines.map(row).collect()
}

#[test]
fn a_command_is_counted_in_the_kernel() {
    if !is_root("a_command_is_counted_in_the_kernel") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&["cc", "-O1"], "turns.c", folder.path());
    assert!(program.exists());
    let loops = "for i in 1 2 3 4 5; do sleep 0.02; done";
    let output =
        run(pyrograph().args(["sched", "--by", "thread", "--csv", "--", "sh", "-c", loops]));
    let rows = table(&text(&output.stdout));
    let sleeps: Vec<_> = rows.iter().filter(|row| row["name"] == "sleep").collect();
    assert_eq!(sleeps.len(), 5, "{rows:?}");
    for row in sleeps {
        let number = |key: &str| row[key].parse::<u64>().expect(key);
        // It begins, and it goes on after its sleep.
        assert!(number("switches") >= 2, "{row:?}");
        assert!(number("runtime_ns") > 0 && number("runtime_ns") < 20_000_000, "{row:?}");
        assert!(number("max_delay_ns") <= number("avg_delay_ns") * number("delays") + 1, "{row:?}");
    }
}

#[test]
fn events_of_a_command_are_shown_as_they_happen() {
    if !is_root("events_of_a_command_are_shown_as_they_happen") {
        return;
    }
    let output = run(pyrograph().args([
        "sched",
        "timehist",
        "--csv",
        "--state",
        "--",
        "sh",
        "-c",
        "sleep 0.05; exit 0",
    ]));
    let rows = table(&text(&output.stdout));
    let slept = rows.iter().filter(|row| row.values().any(|value| value == "sleep"));
    assert!(slept.count() >= 2, "{rows:?}");
}

#[test]
fn what_is_no_recording_of_the_scheduler_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.folded");
    std::fs::write(&file, "main;work 12\n").expect("a file");
    let output = pyrograph().arg("sched").arg("-i").arg(&file).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let words = text(&output.stderr);
    assert!(words.contains("a.folded") && words.lines().count() <= 2, "{words}");
}
