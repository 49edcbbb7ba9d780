//! The scheduler's tables of what runs.

mod common;

use std::collections::BTreeMap;

use common::{is_root, pyrograph, run, text};

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
