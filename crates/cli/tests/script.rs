//! `pyrograph script` beside `perf script`, on recordings that are made here; and its filters, against all events.
//!
//! Where the two differ, and why, is in docs/script.md. Tests that record are skipped where there is no `perf`.

mod common;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::perf::{run_perf, with_perf, with_perf_as_root};
use common::{pyrograph, run};
use serde_json::Value;

fn record(folder: &Path, options: &[&str]) -> PathBuf {
    let flags = ["gcc", "-O2", "-g", "-fno-omit-frame-pointer", "-pthread"];
    let program = common::compile(&flags, "named_threads.c", folder);
    let data = folder.join("perf.data");
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-N"]).args(options).arg("-o").arg(&data).arg("--").arg(program);
    run_perf(&mut perf);
    data
}

fn ours(data: &Path, options: &[&str]) -> String {
    let output = run(pyrograph().arg("script").args(options).arg("-i").arg(data));
    String::from_utf8(output.stdout).expect("text")
}

/// perf prints a line's end in a name as it is.
fn theirs(data: &Path, options: &[&str]) -> String {
    let output = run_perf(Command::new("perf").arg("script").args(options).arg("-i").arg(data));
    let text = String::from_utf8(output.stdout).expect("text");
    text.replace("        new\nline", "        new line").replace("new\nline", "new line")
}

/// A frame's line as its address, its symbol and the rest; `None` if it is no frame.
fn frame(line: &str) -> Option<(&str, &str, &str)> {
    let (address, rest) = line.strip_prefix('\t')?.trim_start().split_once(' ')?;
    let (symbol, module) = match rest.starts_with('(') {
        true => ("", rest),
        false => rest.rsplit_once(" (").unwrap_or((rest, "")),
    };
    Some((address, symbol, module))
}

/// All lines must be the same, but for the symbol of an address that has several: most of these, too.
fn check_alike(ours: &str, theirs: &str) {
    assert!(theirs.lines().count() > 100, "{theirs}");
    let (mut frames, mut same) = (0, 0);
    let mut their_lines = theirs.lines();
    for (number, line) in ours.lines().enumerate() {
        let other =
            their_lines.next().unwrap_or_else(|| panic!("line {number} is too much: {line}"));
        match (frame(line), frame(other)) {
            (Some(one), Some(another)) => {
                assert_eq!((one.0, one.2), (another.0, another.2), "line {number}");
                frames += 1;
                same += usize::from(one.1 == another.1);
            }
            _ => assert_eq!(line, other, "line {number}"),
        }
    }
    assert_eq!(their_lines.next(), None, "a line is missing");
    assert!(same * 10 >= frames * 8, "{same} of {frames} symbols are the same");
}

#[test]
fn as_perf_prints_stacks_by_frame_pointers() {
    with_perf("as_perf_prints_stacks_by_frame_pointers", |folder| {
        let data = record(folder, &["-F", "999", "-e", "cpu-clock", "-g"]);
        check_alike(&ours(&data, &["--no-inline"]), &theirs(&data, &["--no-inline"]));
        for fields in ["comm,pid,tid,time,ip,sym", "+pid,-dso,-symoff", "comm,tid,time", "ip,dso"] {
            let options = ["--no-inline", "-F", fields];
            check_alike(&ours(&data, &options), &theirs(&data, &options));
        }
        let options = ["--no-inline", "-F", "comm,time,event", "--ns"];
        assert_eq!(ours(&data, &options), theirs(&data, &options));
    });
}

#[test]
fn as_perf_prints_copied_stacks_with_inlined_calls() {
    with_perf("as_perf_prints_copied_stacks_with_inlined_calls", |folder| {
        let data = record(folder, &["-F", "499", "-e", "cpu-clock", "--call-graph", "dwarf"]);
        check_alike(&ours(&data, &["--no-inline"]), &theirs(&data, &["--no-inline"]));
        let inlined = "inner+0x";
        let (ours, theirs) = (ours(&data, &[]), theirs(&data, &[]));
        let count = |text: &str| {
            text.lines()
                .filter(|line| line.contains(inlined) && line.ends_with(" (inlined)"))
                .count()
        };
        assert_eq!(count(&ours), count(&theirs));
        assert!(count(&ours) > 50, "{ours}");
    });
}

#[test]
fn as_perf_prints_samples_without_stacks() {
    with_perf("as_perf_prints_samples_without_stacks", |folder| {
        let data = record(folder, &["-F", "999", "-e", "cpu-clock"]);
        let fields = ["-F", "comm,tid,time,period,event,ip,dso"];
        assert_eq!(ours(&data, &fields), theirs(&data, &fields));
        let data = record(folder, &["-c", "1", "-d", "-e", "page-faults,context-switches"]);
        let fields = ["-F", "comm,pid,tid,time,period,event"];
        assert_eq!(ours(&data, &fields), theirs(&data, &fields));
    });
}

#[test]
fn as_perf_prints_the_whole_machine() {
    with_perf_as_root("as_perf_prints_the_whole_machine", |folder| {
        let data = record(folder, &["-a", "-F", "499", "-e", "cpu-clock"]);
        let fields = ["-F", "comm,pid,tid,cpu,time,period,event,ip"];
        assert_eq!(ours(&data, &fields), theirs(&data, &fields));
    });
}

/// The name of a thread that has just started is its parent's, which perf does not always have.
#[test]
fn as_perf_prints_the_fields_of_tracepoints() {
    with_perf_as_root("as_perf_prints_the_fields_of_tracepoints", |folder| {
        let events = "sched:sched_switch,sched:sched_process_exec,syscalls:sys_enter_openat,\
            syscalls:sys_exit_read,kmem:mm_page_alloc,kmem:kmalloc,irq:softirq_entry,\
            timer:hrtimer_start,rcu:rcu_utilization,workqueue:workqueue_execute_start";
        let data = record(folder, &["-a", "-e", events]);
        for fields in ["pid,tid,cpu,time,event,trace", "trace"] {
            let options = ["-F", fields];
            let (ours, theirs) = (ours(&data, &options), theirs(&data, &options));
            assert!(theirs.contains("GFP_KERNEL") && theirs.contains(" ==> next_comm="));
            for (one, another) in ours.lines().zip(theirs.lines()) {
                assert_eq!(one, another);
            }
            assert_eq!(ours.lines().count(), theirs.lines().count());
        }
    });
}

/// Threads have names of their own, which folded text of `perf.data` has not; and without stacks, there is no room for
/// inlined calls.
#[test]
fn folding_the_text_gives_what_folding_the_recording_gives() {
    with_perf("folding_the_text_gives_what_folding_the_recording_gives", |folder| {
        for options in [&["-g"][..], &["--call-graph", "dwarf,1024"], &[]] {
            let data = record(folder, &[&["-F", "999", "-e", "cpu-clock"], options].concat());
            let text = folder.join("perf.txt");
            std::fs::write(&text, ours(&data, &[])).expect("a temporary file");
            let fold = |file: &Path| {
                let mut fold = pyrograph();
                fold.args(["fold", "--no-include-tname"]);
                if options.is_empty() {
                    fold.arg("--no-inline");
                }
                let output = run(fold.arg(file));
                String::from_utf8(output.stdout).expect("text")
            };
            let folded = fold(&data);
            assert!(folded.contains("computes"), "{folded}");
            assert_eq!(fold(&text), folded, "{options:?}");
        }
    });
}

/// The lines of JSON that a condition holds for.
fn kept(all: &[Value], keep: impl Fn(&Value) -> bool) -> Vec<Value> {
    all.iter().filter(|event| keep(event)).cloned().collect()
}

#[test]
fn filters_keep_what_they_say() {
    with_perf("filters_keep_what_they_say", |folder| {
        let data = record(folder, &["-F", "2999", "-g", "-e", "cpu-clock,page-faults"]);
        let json = |options: &[&str]| -> Vec<Value> {
            let options = [&["--json", "-F", "+pid"], options].concat();
            let text = ours(&data, &options);
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
        };
        let all = json(&[]);
        assert!(all.len() > 200);
        let number = |event: &Value, key: &str| event[key].as_u64().expect("a number");
        let tid = number(&all[all.len() / 2], "tid");
        assert_eq!(json(&["--tid", &tid.to_string()]), kept(&all, |event| event["tid"] == tid));
        let comm = kept(&all, |event| event["comm"] == "a:b 12" || event["comm"] == "two words");
        assert!(!comm.is_empty());
        assert_eq!(json(&["--comm", "a:b 12,two words"]), comm);
        let faults = kept(&all, |event| event["event"] != "cpu-clock");
        assert!(!faults.is_empty());
        assert_eq!(json(&["--event-filter", "page-*"]), faults);
        let times: Vec<u64> = all.iter().map(|event| number(event, "time_ns")).collect();
        let (first, last) = (times[0], times[times.len() - 1]);
        let (from, to) = (first + (last - first) / 4, first + (last - first) / 2);
        let seconds = |time: u64| format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000);
        let between = |from: u64, to: u64| {
            kept(&all, |event| (from..=to).contains(&number(event, "time_ns")))
        };
        let span = format!("{},{}", seconds(from), seconds(to));
        let found = json(&["--time", &span]);
        assert!(!found.is_empty() && found.len() < all.len());
        assert_eq!(found, between(from, to));
        assert_eq!(json(&["--time", &format!(",{}", seconds(from))]), between(0, from));
        // Tenths share no event, and miss none.
        let tenths: Vec<Value> =
            (1..=10).flat_map(|number| json(&["--time", &format!("10%/{number}")])).collect();
        assert_eq!(tenths, all);
    });
}

#[test]
fn samples_of_other_formats_are_events() {
    with_perf("samples_of_other_formats_are_events", |folder| {
        let data = record(folder, &["-F", "999", "-g", "-e", "cpu-clock"]);
        let profile = folder.join("profile.json");
        run(pyrograph()
            .arg("convert")
            .arg(&data)
            .arg("-o")
            .arg(&profile)
            .args(["--to", "firefox"]));
        let fields = ["-F", "sym"];
        let stacks = |file: &Path| -> Vec<String> {
            let text = ours(file, &["-F", "ip,sym"]);
            let blocks = text.split("\n\n").map(|block| {
                let names = block.lines().filter_map(|line| line.strip_prefix('\t'));
                names
                    .map(|line| line.trim_start().split_once(' ').map_or("", |(_, name)| name))
                    .collect::<Vec<_>>()
                    .join(";")
            });
            blocks.collect()
        };
        assert_eq!(ours(&profile, &fields).lines().count(), ours(&data, &fields).lines().count());
        let (mut one, mut other) = (stacks(&profile), stacks(&data));
        one.sort();
        other.sort();
        assert_eq!(one, other);
    });
}

#[test]
fn totals_are_no_events() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("stacks.folded");
    std::fs::write(&file, "a;b 1\n").expect("a temporary file");
    let output = pyrograph().arg("script").arg(&file).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("does not hold single events"), "{said}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    with_perf("a_reader_that_goes_away_is_no_error", |folder| {
        let data = record(folder, &["-F", "2999", "-g", "-e", "cpu-clock"]);
        let mut child = pyrograph()
            .args(["script", "-i"])
            .arg(&data)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut begin = [0; 16];
        child.stdout.take().expect("a pipe").read_exact(&mut begin).expect("some output");
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success());
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    });
}
