//! `pyrograph trace` of events beside system calls: tracepoints, places in programs.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::{compile, is_root, pyrograph, remarks};

/// Runs `pyrograph trace` of a command, with its output in a file; returns the lines and what it said.
fn trace(folder: &Path, flags: &[&str], command: &[&str]) -> (Vec<String>, String) {
    let path = folder.join("trace.txt");
    let mut trace = pyrograph();
    trace.arg("trace").args(flags).arg("-o").arg(&path).arg("--").args(command);
    let output = trace.output().expect("pyrograph runs");
    let lines = std::fs::read_to_string(&path).unwrap_or_default();
    (lines.lines().map(str::to_owned).collect(), remarks(&output.stderr))
}

/// A line without its thread and time.
fn event_of(line: &str) -> &str {
    line.splitn(3, ' ').nth(2).unwrap_or_default()
}

fn count(lines: &[String], text: &str) -> usize {
    lines.iter().filter(|line| event_of(line).starts_with(text)).count()
}

/// True if tracepoints can be looked up.
fn has_tracefs() -> bool {
    let is_there = std::fs::exists("/sys/kernel/tracing/events/sched").unwrap_or(false)
        || std::fs::exists("/sys/kernel/debug/tracing/events/sched").unwrap_or(false);
    if !is_there {
        eprintln!("skipped: tracefs is not mounted");
    }
    is_there
}

fn known(folder: &Path) -> String {
    compile(&["gcc", "-O1", "-pthread"], "asks_kernel.c", folder).to_string_lossy().into_owned()
}

#[test]
fn tracepoints_are_lines_beside_the_calls() {
    if !is_root("tracepoints_are_lines_beside_the_calls") || !has_tracefs() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = known(folder.path());
    let events = "getppid,syscalls:sys_*_getppid,sched:sched_process_exit";
    let (lines, said) = trace(folder.path(), &["-e", events], &[&program, "3", "1000"]);
    assert_eq!(said, "");
    assert_eq!(count(&lines, "getppid() "), 4000);
    assert_eq!(count(&lines, "syscalls:sys_enter_getppid()"), 4000);
    assert_eq!(count(&lines, "syscalls:sys_exit_getppid(0x"), 4000);
    // The program, its threads, and the child.
    assert_eq!(count(&lines, "sched:sched_process_exit(comm="), 5, "{lines:#?}");
    // In each thread, a call's line is behind its begin.
    let mut begun: BTreeMap<&str, i32> = BTreeMap::new();
    for line in &lines {
        let thread = line.split(' ').next().expect("a thread");
        let open = begun.entry(thread).or_default();
        match event_of(line) {
            text if text.starts_with("syscalls:sys_enter") => *open += 1,
            text if text.starts_with("getppid") => *open -= 1,
            _ => continue,
        }
        assert!((0..=1).contains(open), "{line}");
    }
    // The file is read again, calls and events.
    let mut again = pyrograph();
    again.args(["trace", "-e", "syscalls:*enter*", "-o", "-", "-i"]);
    let output = again.arg(folder.path().join("trace.txt")).output().expect("pyrograph runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(text.lines().count(), 4000);
    assert_eq!(text.matches("syscalls:sys_enter_getppid()").count(), 4000);
}

#[test]
fn the_texts_of_tracepoints_are_those_of_the_kernel() {
    if !is_root("the_texts_of_tracepoints_are_those_of_the_kernel") || !has_tracefs() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    // A text whose place is in a field, and one of a fixed size.
    let events = "sched:sched_process_exec,task:task_rename";
    let (lines, said) = trace(folder.path(), &["-e", events], &["/bin/sh", "-c", "/bin/true; :"]);
    assert_eq!(said, "");
    let line = lines.iter().find(|line| line.contains("filename=/bin/true")).expect("a line");
    let (thread, rest) = line.split_once('<').expect("a thread");
    let exec =
        format!("sched:sched_process_exec(filename=/bin/true pid={thread} old_pid={thread})");
    assert!(rest.starts_with("true> ") && line.ends_with(&exec), "{line}");
    let (lines, _) =
        trace(folder.path(), &["-e", "task:task_rename"], &["perl", "-e", "$0 = 'two w'"]);
    assert!(lines.iter().any(|line| line.contains("newcomm=two w")), "{lines:?}");
}

#[test]
fn if_only_events_are_named_no_calls_are_shown() {
    if !is_root("if_only_events_are_named_no_calls_are_shown") || !has_tracefs() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = known(folder.path());
    let (lines, said) =
        trace(folder.path(), &["-e", "sched:sched_process_*"], &[&program, "2", "10"]);
    assert_eq!(said, "");
    assert!(lines.iter().all(|line| event_of(line).starts_with("sched:")), "{lines:#?}");
    assert_eq!(count(&lines, "sched:sched_process_fork("), 3);
    assert_eq!(count(&lines, "sched:sched_process_exit("), 4);
    // Only of threads that are traced.
    let names = &["-e", "sched:sched_process_exit", "--comm", "nobody-has-it"];
    let (lines, _) = trace(folder.path(), names, &[&program, "2", "10"]);
    assert!(lines.is_empty(), "{lines:#?}");
    let (lines, _) = trace(
        folder.path(),
        &["-e", "sched:sched_process_exit", "--no-inherit"],
        &[&program, "2", "10"],
    );
    assert_eq!(count(&lines, "sched:sched_process_exit("), 3, "without the child");
}

#[test]
fn places_in_programs_are_lines() {
    if !is_root("places_in_programs_are_lines") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&["gcc", "-O1", "-g"], "seven_calls.c", folder.path());
    let program = program.to_string_lossy();
    let (called, returned) =
        (format!("uprobe:{program}:doubled"), format!("uretprobe:{program}:doubled"));
    let events = format!("{called},{returned}");
    let (lines, said) = trace(folder.path(), &["-e", &events], &[&program]);
    assert_eq!(said, "");
    assert_eq!(count(&lines, &format!("{called}()")), 7);
    let results: Vec<&str> = lines.iter().filter_map(|line| line.split("result=").nth(1)).collect();
    let expect: Vec<String> = (0..7).map(|number| format!("{:#x})", 2 * number)).collect();
    assert_eq!(results, expect);
}

#[test]
fn events_that_cannot_be_traced_are_refused_with_the_reason() {
    let refuse = |args: &[&str], expect: &str| {
        let output = pyrograph().arg("trace").args(args).output().expect("pyrograph runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expect), "{said}");
    };
    if !is_root("events_that_cannot_be_traced_are_refused_with_the_reason") || !has_tracefs() {
        return;
    }
    refuse(&["-e", "sched:sched_swich", "--", "true"], "did you mean sched:sched_switch");
    refuse(&["-e", "lock:*", "--", "true"], "record --locks");
    refuse(
        &["-s", "-e", "sched:sched_switch", "--", "true"],
        "pyrograph stat -e sched:sched_switch",
    );
}
