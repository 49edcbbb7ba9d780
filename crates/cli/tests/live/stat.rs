//! `pyrograph stat` and `list`, by programs whose counts are known.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::in_kernel::{Running, start_in_chroot};
use crate::common::{
    Counts, as_nobody, binary, binary_for_others, compile, is_root, of, pyrograph, stolen, text,
    wait_for_threads, wait_until,
};
use serde_json::Value;

const C: &[&str] = &["gcc", "-O1", "-pthread"];

/// The events of the three calls that `known_calls.c` makes, and one that it never makes.
const CALLS: &str = "syscalls:sys_enter_getppid,syscalls:sys_enter_getuid,syscalls:sys_enter_getgid,\
                     syscalls:sys_exit_getppid,syscalls:sys_exit_getuid,syscalls:sys_exit_getgid,\
                     syscalls:sys_enter_acct";

fn stat(flags: &[&str], target: &[&str]) -> Output {
    let output = pyrograph().arg("stat").args(flags).args(target).output();
    output.expect("pyrograph runs")
}

/// The counts in the output of `--json`, by call and key.
fn counts(output: &Output) -> Counts {
    let of = |((name, key), count): ((String, String), f64)| {
        let call = name.rsplit_once("_").map_or(&*name, |(_, call)| call);
        let call = if name.contains("exit") { format!("exit {call}") } else { call.to_owned() };
        ((call, key), count)
    };
    crate::common::counts(output).into_iter().map(of).collect()
}

fn counted(folder: &Path) -> String {
    compile(C, "known_calls.c", folder).to_str().expect("a plain path").to_owned()
}

#[test]
fn calls_of_a_command_its_threads_and_children_are_counted_exactly() {
    if !is_root("calls_of_a_command_its_threads_and_children_are_counted_exactly") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = counted(folder.path());
    let output = stat(&["--json", "-e", CALLS], &["--", &program, "1000"]);
    let all = counts(&output);
    for (call, expected) in [("getppid", 1000.0), ("getuid", 2000.0), ("getgid", 3000.0)] {
        assert_eq!(of(&all, call), expected, "{call}: {all:?}");
        assert_eq!(of(&all, &format!("exit {call}")), expected, "{call}: {all:?}");
    }
    assert_eq!(of(&all, "acct"), 0.0);
    let alone = counts(&stat(&["--json", "--no-inherit", "-e", CALLS], &["--", &program, "10"]));
    assert_eq!((of(&alone, "getppid"), of(&alone, "getuid")), (10.0, 20.0), "its threads");
    assert_eq!(of(&alone, "getgid"), 0.0, "not its child");
    // Each CPU for itself, on whichever they ran.
    let apart = counts(&stat(&["--json", "--by", "cpu", "-e", CALLS], &["--", &program, "500"]));
    assert_eq!((of(&apart, "getppid"), of(&apart, "getgid")), (500.0, 1500.0), "{apart:?}");
    assert!(apart.keys().all(|(_, key)| key.starts_with("CPU ")), "{apart:?}");
}

#[test]
fn calls_of_running_processes_are_counted_exactly_by_thread_and_in_intervals() {
    if !is_root("calls_of_running_processes_are_counted_exactly_by_thread_and_in_intervals") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = counted(folder.path());
    for flags in [
        &["--json"][..],
        &["--json", "--by", "thread"],
        &["--csv", "-I", "50ms"],
        &["--json", "--engine", "perf"],
        &["--json", "--by", "thread", "--engine", "perf"],
        &["--csv", "-I", "50ms", "--engine", "perf"],
    ] {
        let mut running = Command::new(&program);
        running.args(["700", "wait"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = running.spawn().expect("it runs");
        let mut said = BufReader::new(running.stdout.take().expect("its output"));
        let mut line = String::new();
        said.read_line(&mut line).expect("it is ready");
        let mut command = pyrograph();
        command.arg("stat").args(flags).args(["-e", CALLS, "-p", &running.id().to_string()]);
        let counting = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut counting = counting.expect("pyrograph runs");
        crate::common::wait_until_counting(counting.id());
        let mut table = BufReader::new(counting.stdout.take().expect("its output"));
        let mut printed = String::new();
        if flags[0] == "--csv" {
            // An interval in which nothing is called: there are several.
            for _ in 0..2 {
                table.read_line(&mut printed).expect("a heading, and an interval");
            }
        }
        running.stdin.as_mut().expect("its input").write_all(b"x").expect("it listens");
        said.read_line(&mut line).expect("it is done");
        running.stdin.take().expect("its input").write_all(b"x").expect("it listens");
        running.wait().expect("it ends");
        table.read_to_string(&mut printed).expect("text");
        let mut output = counting.wait_with_output().expect("it ends with the process");
        output.stdout = printed.into_bytes();
        if flags[0] == "--csv" {
            let table = text(&output.stdout);
            let mut lines = table.lines();
            let heads: Vec<&str> = lines.next().expect("a heading").trim().split(',').collect();
            let column = |name: &str| {
                let name = format!("syscalls:sys_enter_{name}");
                let at = heads.iter().position(|head| *head == name).expect("a column");
                let cell = |line: &str| -> f64 {
                    line.trim().split(',').nth(at).and_then(|cell| cell.parse().ok()).expect(line)
                };
                table.lines().skip(1).map(cell).sum::<f64>()
            };
            assert!(table.lines().count() > 2, "{table}");
            assert_eq!((column("getppid"), column("getuid")), (700.0, 1400.0), "{table}");
            assert_eq!(column("getgid"), 2100.0, "{table}");
            continue;
        }
        let all = counts(&output);
        assert_eq!((of(&all, "getppid"), of(&all, "getuid")), (700.0, 1400.0), "{all:?}");
        assert_eq!(of(&all, "getgid"), 2100.0, "its child: {all:?}");
        if flags.contains(&"thread") {
            let of_thread =
                all.iter().filter(|((call, _), count)| call == "getuid" && **count > 0.0);
            assert_eq!(of_thread.count(), 1, "{all:?}");
        }
    }
}

/// CPU time, by the kernel's two ways to count it.
#[test]
fn cpu_time_is_that_of_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(C, "paced.c", folder.path());
    let program = program.to_str().expect("a plain path");
    let before = stolen();
    let output = stat(&["--json", "-e", "task-clock"], &["--", program, "300", "2"]);
    // The event's clock goes on while a CPU is taken away, and the program's own does not.
    let taken = (stolen() - before).as_nanos() as f64;
    // Its own output is on standard error, since the JSON is on standard output.
    let used = text(&output.stderr).lines().find_map(|line| line.trim().parse::<f64>().ok());
    let used = used.expect("its CPU time");
    // By a user it is counted in user mode, which it is nearly all along.
    let counts = counts(&output);
    let counted = of(&counts, "task-clock") + of(&counts, "task-clock:u");
    let most = 0.05 * used + 10e6 + taken;
    assert!((counted - used).abs() < most, "{counted} ns, {used} by its own clock, {taken} stolen");
}

/// As many files may be opened as are needed, where this process may raise its limit (CAP_SYS_RESOURCE), or it is said how many
/// that is: it was less than what was permitted.
#[test]
fn as_many_counters_are_opened_as_threads_need() {
    if !is_root("as_many_counters_are_opened_as_threads_need") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(C, "crowd.c", folder.path());
    let crowd = Running(Command::new(program).args(["100", "20"]).spawn().expect("it runs"));
    let pid = crowd.0.id().to_string();
    wait_for_threads(crowd.0.id(), 100);
    let limited = |then: &str| {
        let line = format!("ulimit -n 300; {then}");
        Command::new("sh").args(["-c", &line]).arg(binary()).output().expect("a shell")
    };
    let events = "task-clock,context-switches,page-faults";
    let output = limited(&format!("exec \"$0\" stat --json -d 0.3 -p {pid} -e {events}"));
    if limited("ulimit -n 600").status.success() {
        let counts = crate::common::counts(&output);
        assert!(of(&counts, "context-switches") >= 100.0, "{counts:?}");
        return;
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let needed = said.split_once("101 threads need ").and_then(|(_, rest)| rest.split(' ').next());
    let needed: usize = needed.and_then(|number| number.parse().ok()).unwrap_or(0);
    // One for each event, and one for each CPU.
    assert!(needed > 4 * 101 && said.contains("300 are allowed"), "{said}");
}

#[test]
fn two_commands_are_compared_beyond_noise() {
    if !is_root("two_commands_are_compared_beyond_noise") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = counted(folder.path());
    let event = "syscalls:sys_enter_getppid";
    let compare = |before: &str, after: &str, flags: &[&str]| {
        let mut all = vec!["-r", "4", "-e", event];
        all.extend(flags);
        stat(&all, &["--", &program, before, "--vs", &program, after])
    };
    let output = compare("100", "120", &["--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let change = &value["events"][0];
    assert_eq!(change["verdict"], "more", "{value:#}");
    assert!((change["change"].as_f64().expect("a change") - 0.2).abs() < 1e-9, "{value:#}");
    assert!(output.status.success());
    let worse = compare("100", "120", &["--fail-over", "10"]);
    assert_eq!(worse.status.code(), Some(1), "{}", text(&worse.stderr));
    assert!(text(&worse.stderr).contains("+20.0 %"), "{}", text(&worse.stderr));
    let better = compare("120", "100", &["--fail-over", "1000"]);
    assert!(better.status.success(), "{}", text(&better.stderr));
}

#[test]
fn several_runs_have_means() {
    let output = stat(&["-r", "6", "-e", "page-faults:u,task-clock:u"], &["--", "true"]);
    let table = text(&output.stderr);
    assert!(output.status.success() && table.contains("6 runs"), "{table}");
    assert!(table.contains("page-faults:u") && table.contains("± "), "{table}");
}

/// Events that cannot be counted are not left out in silence, and the others are counted.
#[test]
fn a_user_without_privilege_counts_what_is_permitted() {
    if !is_root("a_user_without_privilege_counts_what_is_permitted") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = binary_for_others(folder.path(), 0o777);
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    if paranoid.expect("a setting").trim() != "2" {
        return eprintln!(
            "skipped: a_user_without_privilege_counts_what_is_permitted: perf_event_paranoid is not 2"
        );
    }
    let output = as_nobody(&program).args(["stat", "--", "true"]).output().expect("setpriv runs");
    let table = text(&output.stderr);
    assert!(output.status.success(), "{table}");
    assert!(table.contains("task-clock:u") && table.contains("page-faults:u"), "{table}");
    let refused = table.lines().find(|line| line.contains("context-switches")).expect("a line");
    assert!(
        refused.contains("cpu-migrations") && refused.contains("perf_event_paranoid"),
        "{table}"
    );
}

#[test]
fn what_cannot_be_is_refused() {
    let unknown = match is_root("patterns of tracepoints") {
        true => "unknown event 'nosuch:*'",
        false => "tracepoint 'nosuch:*' cannot be looked up",
    };
    for (flags, message) in [
        (&["-e", "cycels", "--", "true"][..], "did you mean cycles"),
        (&["-e", "nosuch:*", "--", "true"], unknown),
        (&[], "nothing to count"),
        (&["--by", "process", "-C", "0"], "-C counts CPUs"),
        (&["-r", "3", "-a"], "-r repeats a command"),
        (&["--", "true", "--vs"], "two commands"),
        (&["--fail-over", "5", "--", "true"], "--fail-over needs --vs"),
        (&["-I", "0.1ms", "--", "true"], "1 ms at least"),
        (&["-I", "1000", "--", "true"], "1000ms or 1000s"),
    ] {
        let output = stat(flags, &[]);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(message), "{flags:?}: {}", text(&output.stderr));
    }
    let output = stat(&[], &["--", "/no/such/program"]);
    assert_eq!(output.status.code(), Some(127), "{}", text(&output.stderr));
    assert_eq!(stat(&[], &["--", "sh", "-c", "exit 3"]).status.code(), Some(3));
}

/// As soon as the command runs: its first instruction is too late for a handler of signals.
#[test]
fn an_interrupt_ends_the_counting_and_keeps_the_counts() {
    let mut verbs = vec![(&["stat", "-e", "task-clock:u"][..], "elapsed")];
    if is_root("an_interrupt_ends_the_counting_and_keeps_the_counts, tracing and the scheduler") {
        verbs.extend([(&["trace", "-s"][..], "clock_nanosleep"), (&["sched"], "sleep")]);
    }
    for (verb, expect) in verbs {
        let mut command = pyrograph();
        command
            .args(verb)
            .args(["--", "sleep", "1000"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let counting = command.spawn().expect("pyrograph runs");
        wait_until("the command runs", || {
            let children = format!("/proc/{0}/task/{0}/children", counting.id());
            let child = std::fs::read_to_string(children).unwrap_or_default();
            // Its number, its name, and that it sleeps.
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.trim()));
            stat.is_ok_and(|stat| stat.contains(" (sleep) S "))
        });
        let pid = counting.id().cast_signed();
        // SAFETY: the process is ours, and has not been waited for.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
        let output = counting.wait_with_output().expect("it ends");
        assert!(text(&output.stderr).contains(expect), "{verb:?}: {}", text(&output.stderr));
    }
}

#[test]
fn events_are_listed_by_a_part_of_their_names_and_by_patterns() {
    let list = |arguments: &[&str]| {
        let output = pyrograph().arg("list").args(arguments).output().expect("pyrograph runs");
        (text(&output.stdout), text(&output.stderr), output.status.code())
    };
    let (faults, ..) = list(&["faults"]);
    assert!(faults.contains("page-faults, faults") && !faults.contains("cycles"), "{faults}");
    let (json, ..) = list(&["--json", "cpu-clock"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json[0]["name"], "cpu-clock");
    assert_eq!(json[0]["is_counted"], true, "{json:#}");
    let (raw, ..) = list(&["r01c2"]);
    assert!(raw.contains("r01c2  code 0x1c2"), "{raw}");
    let (nothing, said, code) = list(&["nosuchevent"]);
    assert_eq!((&nothing[..], code), ("", Some(1)), "{said}");
    if is_root("events_are_listed_by_a_part_of_their_names_and_by_patterns, tracepoints") {
        let (fields, ..) = list(&["-v", "*:sched_switch"]);
        assert!(fields.contains("char prev_comm[16]"), "{fields}");
        let (calls, ..) = list(&["syscalls:sys_enter_openat"]);
        assert!(calls.contains("call of openat(dfd, filename, flags, mode)"), "{calls}");
    }
}

#[test]
fn places_in_programs_are_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&["gcc", "-O1"], "probes.c", folder.path());
    let program = program.to_str().expect("a plain path");
    let list = |arguments: &[&str]| {
        let output = pyrograph().arg("list").args(arguments).output().expect("pyrograph runs");
        (text(&output.stdout), text(&output.stderr), output.status.code())
    };
    let (probes, said, code) = list(&[&format!("usdt:{program}")]);
    assert!(probes.contains(&format!("usdt:{program}:test:step")), "{probes}{said}");
    assert_eq!(code, Some(0));
    let (functions, ..) = list(&[&format!("uprobe:{program}:mai*")]);
    assert!(functions.contains(&format!("uprobe:{program}:main\n")), "{functions}");
    assert!(!functions.contains("_start"), "{functions}");
    let (_, said, code) = list(&["usdt:/no/such/file"]);
    assert!(said.contains("No such file") && code == Some(1), "{said}");
    let (_, said, code) = list(&["-p", "999999999"]);
    assert!(said.contains("999999999") && code == Some(1), "{said}");
}

/// The path in its mappings may be another file here, or none: the probes of that were listed, in silence.
#[test]
fn probes_of_a_process_are_those_of_its_own_mount_namespace() {
    if !is_root("probes_of_a_process_are_those_of_its_own_mount_namespace") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (real, seen) = (folder.path().join("real"), folder.path().join("seen"));
    for folder in [&real, &seen] {
        std::fs::create_dir(folder).expect("a folder");
    }
    compile(&["gcc", "-O1"], "probes.c", &real);
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", "mount --bind \"$0\" \"$1\" && exec \"$1/probes_c\""]);
    let process = command.arg(&real).arg(&seen).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let process = Running(process.expect("unshare runs"));
    let pid = process.0.id();
    wait_until("the program runs", || {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"));
        maps.is_ok_and(|maps| maps.contains("/probes_c\n"))
    });
    let output = pyrograph().args(["list", "-p", &pid.to_string()]).output();
    let output = output.expect("pyrograph runs");
    let probes = text(&output.stdout);
    let line = probes.lines().find(|line| line.contains("test:step")).unwrap_or_default();
    let path = line.trim().strip_prefix("usdt:").and_then(|line| line.strip_suffix(":test:step"));
    let path = path.unwrap_or_else(|| panic!("{probes}{}", text(&output.stderr)));
    assert!(path.starts_with(&format!("/proc/{pid}/root/")), "{path}");
    assert!(Path::new(path).exists(), "{path}");
    // A file that is gone is named.
    std::fs::remove_file(real.join("probes_c")).expect("the program");
    let output = pyrograph().args(["list", "-p", &pid.to_string()]).output();
    let said = text(&output.expect("pyrograph runs").stderr);
    let missing =
        "1 mapped file of the process cannot be found, and probes of these are not listed: ";
    assert!(said.contains(missing) && said.contains("/seen/probes_c (deleted)"), "{said}");
}

/// In its list of mappings, paths begin with its root folder.
#[test]
fn probes_of_a_process_in_a_chroot_are_listed() {
    if !is_root("probes_of_a_process_in_a_chroot_are_listed") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&["gcc", "-O1"], "probes.c", folder.path());
    let process = start_in_chroot(&program, &folder.path().join("root"));
    let output = pyrograph().args(["list", "-p", &process.0.id().to_string()]).output();
    let output = output.expect("pyrograph runs");
    let (probes, said) = (text(&output.stdout), text(&output.stderr));
    assert!(probes.contains("/program:test:step"), "{probes}{said}");
    assert!(!said.contains("cannot be found"), "{said}");
}

/// The same counts as perf's, of the same program.
#[test]
fn perf_counts_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = counted(folder.path());
    crate::common::perf::with_perf_as_root("perf_counts_the_same", |_| {
        let mut perf = Command::new("perf");
        perf.args(["stat", "-x", ",", "-e", CALLS, "--", &program, "250"]);
        let table = text(&crate::common::perf::run_perf(&mut perf).stderr);
        let theirs: BTreeMap<&str, f64> = table
            .lines()
            .filter_map(|line| {
                let mut cells = line.split(',');
                let count = cells.next()?.parse().ok()?;
                Some((cells.nth(1)?, count))
            })
            .collect();
        assert_eq!(theirs.len(), 7, "{table}");
        let output = stat(&["--csv", "-e", CALLS], &["--", &program, "250"]);
        let ours = text(&output.stdout);
        for (event, count) in theirs {
            let line = ours.lines().find(|line| line.split(',').nth(1) == Some(event));
            let value =
                line.and_then(|line| line.split(',').nth(2)).and_then(|text| text.parse().ok());
            assert_eq!(value, Some(count), "{event}: {ours}");
        }
    });
}
