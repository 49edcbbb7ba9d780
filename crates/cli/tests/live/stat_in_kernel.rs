//! `pyrograph stat` with programs in the kernel: the same counts as perf_event_open's, and counts by who runs.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::in_kernel::Running;
use crate::common::{
    Counts, as_nobody, binary, binary_for_others, compile, counts, is_root, of, pyrograph, stolen,
    text,
};
use serde_json::Value;

const C: &[&str] = &["gcc", "-O1", "-pthread"];

/// The calls of `distinct_calls.c`, in its order.
const CALLS: [&str; 12] = [
    "getppid",
    "getuid",
    "getgid",
    "geteuid",
    "getegid",
    "getpgrp",
    "gettid",
    "sched_yield",
    "getpgid",
    "getsid",
    "sched_getscheduler",
    "sched_getparam",
];

fn stat(flags: &[&str], target: &[&str]) -> Counts {
    let output = pyrograph().args(["stat", "--json"]).args(flags).args(target).output();
    counts(&output.expect("pyrograph runs"))
}

fn program(folder: &Path, source: &str) -> String {
    compile(C, source, folder).to_str().expect("a plain path").to_owned()
}

/// A program by a name of its own, for tests of the whole machine: others run it beside them.
fn program_named(folder: &Path, source: &str, name: &str) -> String {
    let own = folder.join(name);
    std::fs::rename(program(folder, source), &own).expect("our file");
    own.to_str().expect("a plain path").to_owned()
}

/// Begins and returns of all calls that it makes, and `writev`.
fn tracepoints() -> Vec<String> {
    let both =
        |name: &&str| [format!("syscalls:sys_enter_{name}"), format!("syscalls:sys_exit_{name}")];
    CALLS.iter().chain(&["writev"]).flat_map(both).collect()
}

/// Calls by the numbers of 32-bit programs are nobody's, as in the kernel's own tracepoints.
#[test]
fn both_engines_and_perf_count_26_tracepoints_alike() {
    const NAME: &str = "both_engines_and_perf_count_26_tracepoints_alike";
    if !is_root(NAME) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = program(folder.path(), "distinct_calls.c");
    let said = Command::new(&program).arg("1").output().expect("it runs").stdout;
    let times = 37.0;
    let events = tracepoints();
    let list = events.join(",");
    let expected = |event: &str| {
        let call = CALLS.iter().position(|call| {
            event.ends_with(&format!("r_{call}")) || event.ends_with(&format!("t_{call}"))
        });
        call.map_or(0.0, |at| 2.0 * times * (at as f64 + 1.0))
    };
    for engine in ["ebpf", "perf"] {
        let flags = ["--engine", engine, "-e", &list];
        let all = stat(&flags, &["--", &program, "37"]);
        for event in &events {
            assert_eq!(of(&all, event), expected(event), "{engine}: {event}: {all:?}");
        }
    }
    crate::common::perf::with_perf_as_root(
        "both_engines_and_perf_count_26_tracepoints_alike, perf",
        |_| {
            let mut perf = Command::new("perf");
            perf.args(["stat", "-x", ",", "-e", &list, "--", &program, "37"]);
            let table = text(&crate::common::perf::run_perf(&mut perf).stderr);
            for event in &events {
                let line = table.lines().find(|line| line.split(',').nth(2) == Some(event));
                let count = line.and_then(|line| line.split(',').next()?.parse::<f64>().ok());
                assert_eq!(count, Some(expected(event)), "{table}");
            }
        },
    );
    // All of its calls, and those of 32-bit programs, are in the tracepoint of all calls. (By perf_event_open, to open all
    // of the others takes half a minute.)
    let old: f64 = text(&said).trim().parse().expect("a number");
    if old == 0.0 {
        eprintln!("skipped: {NAME}: this kernel takes no calls of 32-bit programs");
    }
    let all = stat(&["-e", "raw_syscalls:sys_enter,syscalls:sys_enter_*"], &["--", &program, "5"]);
    let raw = of(&all, "raw_syscalls:sys_enter");
    let named: f64 = all.values().sum::<f64>() - raw;
    assert_eq!(raw - named, old, "{all:?}");
}

/// Changes of threads, names and ends are the same, whoever counts.
#[test]
fn other_tracepoints_count_what_perf_events_count() {
    if !is_root("other_tracepoints_count_what_perf_events_count") {
        return;
    }
    const EVENTS: &str = "sched:sched_process_fork,sched:sched_process_exec,sched:sched_process_exit,\
                          task:task_rename,task:task_newtask,signal:signal_deliver,sched:sched_process_wait,\
                          sched:sched_stat_runtime,page-faults";
    let script = "for i in 1 2 3; do /bin/true; done; kill -USR1 $$ || :; exec /bin/true";
    let command = ["--", "sh", "-c", &format!("trap : USR1; {script}")];
    let by = |engine: &str| stat(&["--engine", engine, "-e", EVENTS], &command);
    let (in_kernel, by_perf) = (by("ebpf"), by("perf"));
    // Linux 6.1 of 2025 takes a thread's events from it before it says that it ends, as `perf stat` shows there.
    let known = |event: &&str| *event != "sched:sched_process_exit" || of(&by_perf, event) > 0.0;
    for event in EVENTS.split(',').take(6).filter(known) {
        assert!(of(&by_perf, event) > 0.0, "{event}: {by_perf:?}");
        assert_eq!(of(&in_kernel, event), of(&by_perf, event), "{event}");
    }
    assert_eq!(of(&in_kernel, "sched:sched_process_exit"), 4.0);
    assert_eq!(of(&in_kernel, "sched:sched_process_fork"), 3.0);
    assert_eq!(of(&in_kernel, "sched:sched_process_exec"), 5.0);
    // A sum of nanoseconds, as perf events have it, and not a number of hits.
    assert!(of(&in_kernel, "sched:sched_stat_runtime") > 10_000.0, "{in_kernel:?}");
    assert!(of(&in_kernel, "page-faults") > 100.0, "other events are in the same table");
}

/// A process that waits for a byte, with two threads; `known_calls.c`.
struct Waiting {
    process: std::process::Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Waiting {
    fn start(program: &str, times: &str) -> Self {
        let mut command = Command::new(program);
        command.args([times, "wait"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("it runs");
        let mut said = BufReader::new(process.stdout.take().expect("its output"));
        said.read_line(&mut String::new()).expect("it is ready");
        Self { process, said }
    }

    fn go_on_to_the_end(mut self) {
        let mut input = self.process.stdin.take().expect("its input");
        input.write_all(b"x").expect("it listens");
        self.said.read_line(&mut String::new()).expect("it is done");
        input.write_all(b"x").expect("it listens");
        self.process.wait().expect("it ends");
    }
}

/// Counts a process that runs already; `flags` may have more.
fn counted_while_running(program: &str, flags: &[&str]) -> Counts {
    let waiting = Waiting::start(program, "300");
    let mut command = pyrograph();
    command.args(["stat", "--json"]).args(flags);
    if !flags.contains(&"-a") {
        command.args(["-p", &waiting.process.id().to_string()]);
    }
    let counting = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let counting = counting.expect("pyrograph runs");
    crate::common::wait_until_counting(counting.id());
    waiting.go_on_to_the_end();
    if flags.contains(&"-a") {
        // SAFETY: the process is ours, and has not been waited for.
        assert_eq!(unsafe { libc::kill(counting.id().cast_signed(), libc::SIGINT) }, 0);
    }
    counts(&counting.wait_with_output().expect("it ends"))
}

const KNOWN: &str = "syscalls:sys_enter_getppid,syscalls:sys_exit_getuid,syscalls:sys_enter_getgid";

#[test]
fn running_processes_are_followed() {
    if !is_root("running_processes_are_followed") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = program(folder.path(), "known_calls.c");
    let known = |all: &Counts| {
        ["sys_enter_getppid", "sys_exit_getuid", "sys_enter_getgid"]
            .map(|call| of(all, &format!("syscalls:{call}")))
    };
    for flags in [&[][..], &["--by", "thread"], &["--by", "process"], &["--by", "cpu"]] {
        let all =
            counted_while_running(&program, &[&["--engine", "ebpf", "-e", KNOWN], flags].concat());
        assert_eq!(known(&all), [300.0, 600.0, 900.0], "{flags:?}: {all:?}");
        if flags == ["--by", "thread"] {
            // Its child is the first thread's.
            let keys = |call: &str| -> Vec<&str> {
                let name = format!("syscalls:{call}");
                all.keys().filter(|(event, _)| *event == name).map(|(_, key)| &key[..]).collect()
            };
            assert_eq!(keys("sys_enter_getppid"), keys("sys_enter_getgid"), "{all:?}");
            assert_ne!(keys("sys_enter_getppid"), keys("sys_exit_getuid"), "{all:?}");
        }
    }
    let alone = counted_while_running(&program, &["--no-inherit", "--engine", "ebpf", "-e", KNOWN]);
    assert_eq!(known(&alone), [300.0, 600.0, 0.0], "{alone:?}");
}

/// All that runs, by who it is: the numbers of one process are its own.
#[test]
fn the_machine_is_counted_by_thread_and_process() {
    if !is_root("the_machine_is_counted_by_thread_and_process") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = program_named(folder.path(), "known_calls.c", "counts_here");
    for (by, expect) in [("process", [1, 1, 1]), ("thread", [1, 1, 1])] {
        let flags = ["-a", "--by", by, "-e", KNOWN, "--comm", "counts_here"];
        let all = counted_while_running(&program, &flags);
        let of = |call: &str| -> Vec<(&str, f64)> {
            let name = format!("syscalls:{call}");
            let of_call = all.iter().filter(|((event, _), _)| *event == name);
            of_call.map(|((_, key), count)| (&key[..], *count)).collect()
        };
        let [first, second, child] =
            ["sys_enter_getppid", "sys_exit_getuid", "sys_enter_getgid"].map(of);
        assert_eq!([first.len(), second.len(), child.len()], expect, "{all:?}");
        assert_eq!([first[0].1, second[0].1, child[0].1], [300.0, 600.0, 900.0], "{all:?}");
        assert_eq!(first[0].0 == second[0].0, by == "process", "{all:?}");
        assert_ne!(first[0].0, child[0].0, "{all:?}");
        assert!(child[0].0.starts_with("counts_here "), "{all:?}");
    }
}

/// Seen from a PID namespace, all others were one row with the name of one of them and the number -1.
#[test]
fn what_is_in_other_pid_namespaces_is_said_to_be() {
    if !is_root("what_is_in_other_pid_namespaces_is_said_to_be") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("counts.json");
    let ours = pyrograph();
    let mut command = Command::new("unshare");
    command.args(["-p", "-f", "--mount-proc"]).arg(ours.get_program());
    command.args([
        "stat",
        "-a",
        "--by",
        "process",
        "-e",
        "task-clock",
        "--json",
        "-d",
        "0.2",
        "-o",
    ]);
    // Somebody runs outside of it.
    let busy = Running(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh"));
    if !command.arg(&out).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: unshare -p is not permitted");
        return;
    }
    drop(busy);
    let said = std::fs::read_to_string(&out).expect("written");
    assert!(said.contains("[other PID namespaces]") && !said.contains("4294967295"), "{said}");
}

/// CPU time of a program among others, by its own clock.
#[test]
fn cpu_time_is_that_of_who_ran() {
    if !is_root("cpu_time_is_that_of_who_ran") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = program_named(folder.path(), "paced.c", "paced_by_who");
    let mut command = pyrograph();
    command.args(["stat", "--json", "-a", "--by", "process", "-e", "task-clock,context-switches"]);
    let script = "\"$0\" 1; \"$0\" 300 2 & \"$0\" 100; wait";
    let before = stolen();
    let output = command.args(["--", "sh", "-c", script, &program]).output();
    let taken = (stolen() - before).as_nanos() as f64;
    let output = output.expect("pyrograph runs");
    let mut used: Vec<f64> =
        text(&output.stderr).lines().filter_map(|line| line.trim().parse().ok()).collect();
    let all = counts(&output);
    let mut counted: Vec<f64> = all
        .iter()
        .filter(|((event, key), _)| event == "task-clock" && key.starts_with("paced_by_who "))
        .map(|(_, count)| *count)
        .collect();
    used.sort_by(f64::total_cmp);
    counted.sort_by(f64::total_cmp);
    assert_eq!((used.len(), counted.len()), (3, 3), "{}{all:?}", text(&output.stderr));
    for (used, counted) in used.iter().zip(&counted) {
        let most = 0.05 * used + 10e6 + taken;
        assert!(
            (counted - used).abs() < most,
            "{counted} ns, and {used} by its own clock: {all:?}"
        );
    }
    let idle = ("task-clock".to_owned(), "idle".to_owned());
    assert!(!all.contains_key(&idle), "idle CPUs use no time: {all:?}");
}

/// A control group of the test, that goes with it.
struct Group(PathBuf);

impl Group {
    fn new(name: &str) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("mounts");
        let root = mounts.lines().find_map(|line| line.strip_prefix("cgroup2 ")?.split(' ').next());
        let root = root.or_else(|| {
            let of_type = |line: &&str| line.split(' ').nth(2) == Some("cgroup2");
            mounts.lines().find(of_type)?.split(' ').nth(1)
        });
        let path = Path::new(root?).join(format!("pyrograph-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("inner")).ok()?;
        Some(Self(path))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes have ended.
        let _ = std::fs::remove_dir(self.0.join("inner"));
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn control_groups_and_names_are_counted_exactly() {
    const NAME: &str = "control_groups_and_names_are_counted_exactly";
    if !is_root(NAME) {
        return;
    }
    let Some(group) = Group::new("stat") else {
        return eprintln!("skipped: {NAME}: no control group of version 2 can be made");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let program = program(folder.path(), "known_calls.c");
    let path = group.0.to_str().expect("a plain path");
    // Outside, in the group, and in the one inside of it.
    let script = "\"$0\" 1000; (echo $BASHPID > \"$1/cgroup.procs\"; \"$0\" 10); \
                  (echo $BASHPID > \"$1/inner/cgroup.procs\"; \"$0\" 200)";
    let command = ["--", "bash", "-c", script, &program, path];
    let event = "syscalls:sys_enter_getgid";
    let events = ["-e", "syscalls:sys_enter_getgid,task-clock,context-switches,page-faults"];
    for target in [&[][..], &["-a"]] {
        let flags = [&events[..], &["--cgroup", path], target].concat();
        let all = stat(&flags, &command);
        assert_eq!(of(&all, event), 630.0, "{target:?}: {all:?}");
        assert!(of(&all, "task-clock") > 0.0 && of(&all, "page-faults") > 50.0, "{all:?}");
        let flags = [&events[..], &["--by", "cgroup"], target].concat();
        let all = stat(&flags, &command);
        let name = group.0.file_name().and_then(|name| name.to_str()).expect("a name");
        let of_group =
            |event: &str, key: String| all.get(&(event.to_owned(), key)).copied().unwrap_or(0.0);
        let inner = format!("/{name}/inner");
        assert_eq!(of_group(event, format!("/{name}")), 30.0, "{target:?}: {all:?}");
        assert_eq!(of_group(event, inner.clone()), 600.0, "{target:?}: {all:?}");
        // `bash` asks for it, too.
        assert!(of_group(event, "/".to_owned()) >= 3000.0, "{target:?}: {all:?}");
        assert!(of_group("page-faults", inner.clone()) > 20.0, "{all:?}");
        assert!(of_group("task-clock", inner.clone()) > 0.0, "{all:?}");
        assert!(of_group("context-switches", inner) > 0.0, "{all:?}");
    }
    let flags = ["-e", event, "--comm", "known_calls_c"];
    assert_eq!(of(&stat(&flags, &command), event), 3630.0);
    let flags = ["-e", event, "--comm", "known_calls_c", "--cgroup", path, "--by", "cpu"];
    let all = stat(&flags, &command);
    assert_eq!(of(&all, event), 630.0);
    assert!(all.keys().all(|(_, key)| key.starts_with("CPU ")), "{all:?}");
    let shells = of(&stat(&["-e", event, "--comm", "bash"], &command), event);
    assert!((1.0..30.0).contains(&shells), "{shells}");
}

/// The title was "the machine", and the rows were in the order of names.
#[test]
fn what_is_counted_is_in_the_title_and_who_has_most_comes_first() {
    const NAME: &str = "what_is_counted_is_in_the_title_and_who_has_most_comes_first";
    if !is_root(NAME) {
        return;
    }
    let Some(group) = Group::new("title") else {
        return eprintln!("skipped: {NAME}: no control group of version 2 can be made");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let program = &program_named(folder.path(), "known_calls.c", "counts_most");
    let path = group.0.to_str().expect("a plain path");
    let script =
        "echo $BASHPID > \"$1/cgroup.procs\"; for n in 10 300 20; do \"$0\" $n; done; true";
    let command = ["--", "bash", "-c", script, program, path];
    let run = |flags: &[&str]| {
        let events = ["stat", "-e", "syscalls:sys_enter_getppid"];
        let output = pyrograph().args(events).args(flags).args(command).output();
        let output = output.expect("pyrograph runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let name = group.0.file_name().and_then(|name| name.to_str()).expect("a name");
    let by_process = run(&["-a", "--cgroup", path, "--by", "process"]);
    assert!(by_process.contains(&format!("counts of control group /{name}\n")), "{by_process}");
    let counts: Vec<&str> = by_process
        .lines()
        .filter(|line| line.contains("counts_most"))
        .filter_map(|line| line.split("sys_enter_getppid").nth(1)?.split_whitespace().next())
        .collect();
    assert_eq!(counts, ["300", "20", "10"], "{by_process}");
    let of_command = run(&["--cgroup", path, "--comm", "bash,counts_most"]);
    let only =
        format!(", only processes and threads named bash, counts_most in control group /{name}\n");
    assert!(of_command.contains(&only), "{of_command}");
}

/// The numbers of processes and threads are those of the PID namespace that Pyrograph runs in.
#[test]
fn a_pid_namespace_has_its_own_numbers() {
    const NAME: &str = "a_pid_namespace_has_its_own_numbers";
    if !is_root(NAME) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = program(folder.path(), "known_calls.c");
    let script = "\"$0\" stat --json --by process -e syscalls:sys_enter_getppid,task-clock -- \
                  sh -c 'echo $$ >&2; \"$0\" 40; exit 0' \"$1\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", script]);
    let output = command.arg(binary()).arg(&program).output();
    let output = output.expect("unshare runs");
    let said = text(&output.stderr);
    let shell: i32 = said.lines().find_map(|line| line.parse().ok()).expect(&said);
    assert!(shell < 20, "{said}");
    let all = counts(&output);
    let key = (String::from("syscalls:sys_enter_getppid"), format!("known_calls_c {}", shell + 1));
    assert_eq!(all.get(&key), Some(&40.0), "{all:?}");
    assert!(all.contains_key(&("task-clock".to_owned(), format!("sh {shell}"))), "{all:?}");
}

#[test]
fn intervals_add_up_by_process() {
    if !is_root("intervals_add_up_by_process") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = program(folder.path(), "known_calls.c");
    let script = "for i in 1 2 3; do \"$0\" 100; sleep 0.1; done";
    let mut command = pyrograph();
    command.args([
        "stat",
        "--json",
        "-I",
        "40ms",
        "--by",
        "process",
        "-e",
        "syscalls:sys_exit_getppid",
    ]);
    let output =
        command.args(["--comm", "known_calls_c", "--", "sh", "-c", script, &program]).output();
    let output = output.expect("pyrograph runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut by_key: BTreeMap<String, f64> = BTreeMap::new();
    for line in text(&output.stdout).lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        for (key, count) in line["counts"].as_object().expect("counts") {
            *by_key.entry(key.clone()).or_default() += count.as_f64().expect("a count");
        }
    }
    by_key.retain(|_, count| *count > 0.0);
    assert_eq!(by_key.values().copied().collect::<Vec<_>>(), [100.0; 3], "{by_key:?}");
}

/// Errors name the privilege that is missing, and nothing is left out in silence.
#[test]
fn a_user_without_privilege_is_told_what_is_missing() {
    const NAME: &str = "a_user_without_privilege_is_told_what_is_missing";
    if !is_root(NAME) {
        return;
    }
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    if paranoid.expect("a setting").trim() != "2" {
        return eprintln!("skipped: {NAME}: perf_event_paranoid is not 2");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let ours = binary_for_others(folder.path(), 0o777);
    let as_nobody = |arguments: &[&str]| {
        as_nobody(arguments[0]).args(&arguments[1..]).output().expect("setpriv runs")
    };
    let ours = ours.to_str().expect("a plain path");
    let refused = as_nobody(&[ours, "stat", "--by", "process", "--", "true"]);
    let said = text(&refused.stderr);
    assert!(!refused.status.success(), "{said}");
    assert!(
        said.contains("--by needs programs in the kernel") && said.contains("CAP_BPF"),
        "{said}"
    );
    // A program that may be run and not be read: nobody else may look at its process.
    let hidden = folder.path().join("hidden");
    std::fs::copy("/bin/sleep", &hidden).expect("a copy");
    let unreadable = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    std::fs::set_permissions(&hidden, unreadable).expect("our file");
    let script = "\"$1\" 60 & child=$!; until grep -q hidden /proc/$child/comm; do sleep 0.02; done; \
                  \"$0\" stat -e task-clock:u -p $$ -d 0.1; kill $child";
    let output = as_nobody(&["sh", "-c", script, ours, hidden.to_str().expect("a plain path")]);
    let said = text(&output.stderr);
    assert!(said.contains("1 process that the target has started is not counted"), "{said}");
    assert!(said.contains("task-clock:u"), "{said}");
}

#[test]
fn what_cannot_be_written_or_kept_apart_is_refused_before_the_command_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let mark = folder.path().join("mark");
    let mark = mark.to_str().expect("a plain path");
    let run = |flags: &[&str]| {
        let output = pyrograph().arg("stat").args(flags).args(["--", "touch", mark]).output();
        let output = output.expect("pyrograph runs");
        assert!(!Path::new(mark).exists(), "{flags:?}: the command ran");
        (output.status.code(), text(&output.stderr))
    };
    let (code, said) = run(&["-e", "task-clock:u", "-o", "/nonexistent/file"]);
    assert!(code == Some(1) && said.contains("/nonexistent/file"), "{said}");
    let (code, said) = run(&["--by", "cgroup", "--engine", "perf"]);
    assert!(code == Some(2) && said.contains("leave out --engine perf"), "{said}");
    let (code, said) = run(&["--by", "process", "-C", "0"]);
    assert!(code == Some(2) && said.contains("-C counts CPUs"), "{said}");
    let (code, said) = run(&["--cgroup", "/etc"]);
    assert!(code == Some(1) && said.contains("/etc is not a folder of control groups"), "{said}");
    let (code, said) = run(&["-a", "--comm", "no_such_name_at_all"]);
    assert!(code == Some(1) && said.contains("no_such_name_at_all"), "{said}");
}
