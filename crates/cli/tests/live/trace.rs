//! `pyrograph trace`: calls of programs that make a known number of them, and of others beside `strace`.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{
    as_nobody, binary_for_others, compile, is_root, pyrograph, remarks, run, wait_until,
};
use serde_json::Value;

/// Runs `pyrograph trace` of a command, with its output in a file; returns the lines and what it said.
pub fn trace(folder: &Path, flags: &[&str], command: &[&str]) -> (Vec<String>, String) {
    let path = folder.join("trace.txt");
    let mut trace = pyrograph();
    trace.arg("trace").args(flags).arg("-o").arg(&path).arg("--").args(command);
    let output = trace.env("PYTHONHASHSEED", "0").output().expect("pyrograph runs");
    let lines = std::fs::read_to_string(&path).unwrap_or_default();
    (lines.lines().map(str::to_owned).collect(), remarks(&output.stderr))
}

/// A line without its thread and time.
pub fn call_of(line: &str) -> &str {
    line.splitn(3, ' ').nth(2).unwrap_or_default()
}

/// A program that makes known calls: so many threads, so many calls each, and a child.
pub fn known(folder: &Path) -> String {
    compile(&["gcc", "-O1", "-pthread"], "asks_kernel.c", folder).to_string_lossy().into_owned()
}

#[test]
fn each_call_is_a_line() {
    if !is_root("each_call_is_a_line") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = known(folder.path());
    let flags = ["--string-limit", "200"];
    let (lines, said) = trace(folder.path(), &flags, &[&program, "3", "1000"]);
    assert_eq!(said, "");
    let count = |text: &str| lines.iter().filter(|line| call_of(line).starts_with(text)).count();
    let first = format!("execve(\"{program}\", [\"{program}\", \"3\", ");
    assert!(call_of(&lines[0]).starts_with(&first), "{}", lines[0]);
    assert_eq!(count("getppid()"), 4000);
    assert_eq!(count("fchdir(-7)"), 4000);
    assert_eq!(count("openat(AT_FDCWD, \"/no/such/file\", O_RDONLY|O_CLOEXEC) = -1 ENOENT"), 400);
    assert_eq!(count("+++ exited with 3 +++"), 1, "the child");
    assert_eq!(count("exit_group(3)"), 1);
    // Each thread's calls are in the order of time.
    let mut last: BTreeMap<&str, &str> = BTreeMap::new();
    for line in &lines {
        let mut words = line.split(' ');
        let (thread, time) = (words.next().expect("a thread"), words.next().expect("a time"));
        assert!(last.insert(thread, time).is_none_or(|before| before <= time), "{line}");
    }
}

#[test]
fn calls_are_chosen_by_name_group_and_result() {
    if !is_root("calls_are_chosen_by_name_group_and_result") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = known(folder.path());
    let names = |flags: &[&str]| {
        let (lines, said) = trace(folder.path(), flags, &[&program, "1", "50"]);
        assert_eq!(said, "");
        let mut names: Vec<String> = lines
            .iter()
            .map(|line| call_of(line).split('(').next().unwrap_or_default().to_owned())
            .filter(|name| !name.starts_with(['+', '-']))
            .collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        (names, all)
    };
    assert_eq!(names(&["-e", "getppid,fchdir"]), (vec!["fchdir".into(), "getppid".into()], 200));
    let (found, _) = names(&["-e", "%process"]);
    assert!(found.contains(&"execve".into()) && !found.contains(&"openat".into()), "{found:?}");
    let (found, _) = names(&["-e", "!getppid"]);
    assert!(found.contains(&"fchdir".into()) && !found.contains(&"getppid".into()), "{found:?}");
    assert_eq!(names(&["-e", "*ppid", "--no-inherit"]), (vec!["getppid".into()], 50));
    let (found, _) = names(&["--failed", "-e", "getppid,fchdir,openat"]);
    assert_eq!(found, ["fchdir", "openat"]);
    let (found, all) = names(&["--slower", "60s"]);
    assert_eq!((found.len(), all), (0, 0));
    let (_, said) = trace(folder.path(), &["-e", "opneat"], &["true"]);
    assert!(said.contains("did you mean openat"), "{said}");
}

/// Names of calls with how many there were, and how many failed, of a table in JSON.
pub fn table(flags: &[&str], command: &[&str]) -> BTreeMap<String, (u64, u64)> {
    let mut trace = pyrograph();
    let trace = trace.args(["trace", "-s", "--by", "none", "--json"]).args(flags).arg("--");
    let output = trace.args(command).env("PYTHONHASHSEED", "0").output().expect("pyrograph runs");
    // What the command writes goes to standard error.
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("pyrograph:"), "{said}");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = json["groups"][0]["calls"].as_array().expect("calls").iter();
    let numbers = |row: &Value| {
        let failed = row["errors"].as_object().expect("errors").values();
        let failed = failed.map(|count| count.as_u64().expect("a count")).sum();
        (row["calls"].as_u64().expect("a count"), failed)
    };
    rows.map(|row| (row["call"].as_str().expect("a name").to_owned(), numbers(row))).collect()
}

#[test]
fn tables_count_each_call_and_error() {
    if !is_root("tables_count_each_call_and_error") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = known(folder.path());
    for (threads, calls) in [(1, 10), (8, 12_345)] {
        let (threads, calls): (u64, u64) = (threads, calls);
        let table = table(&[], &[&program, &threads.to_string(), &calls.to_string()]);
        let makers = threads + 1;
        assert_eq!(table["getppid"], (makers * calls, 0));
        assert_eq!(table["fchdir"], (makers * calls, makers * calls));
        let opened = makers * calls.div_ceil(10);
        let (all, failed) = table["openat"];
        assert_eq!(failed - opened, all - opened - 2, "{table:?}");
    }
}

/// Nothing is counted twice, or not at all, where one table ends and the next begins.
#[test]
fn tables_of_intervals_add_up_to_what_the_program_does() {
    let test = "tables_of_intervals_add_up_to_what_the_program_does";
    if !is_root(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = known(folder.path());
    let (threads, calls) = (4, 400_000);
    let arguments = [threads.to_string(), calls.to_string()];
    let mut trace = pyrograph();
    trace.args(["trace", "-s", "-I", "100ms", "--by", "none", "--json", "-e", "getppid,fchdir"]);
    let output = run(trace.arg("--").arg(&program).args(&arguments));
    let tables: Vec<Value> = serde_json::Deserializer::from_slice(&output.stdout)
        .into_iter()
        .map(|table| table.expect("JSON"))
        .collect();
    let mut end = 0.0;
    let mut counts = BTreeMap::new();
    for table in &tables {
        let [seconds, until] =
            ["seconds", "end_seconds"].map(|of| table[of].as_f64().expect("a time"));
        assert!((until - seconds - end).abs() < 1e-6, "{until} follows {end}, of {seconds}");
        end = until;
        for row in
            table["groups"].as_array().expect("a list").iter().flat_map(|of| of["calls"].as_array())
        {
            for row in row {
                *counts.entry(row["call"].as_str().expect("a name").to_owned()).or_insert(0) +=
                    row["calls"].as_u64().expect("a count");
            }
        }
    }
    assert!(tables.len() >= 3, "{tables:#?}");
    let all = (threads + 1) * calls;
    assert_eq!(counts, ["fchdir", "getppid"].map(|name| (name.to_owned(), all)).into());
    // By ptrace.
    let (code, said) = trace_as_nobody(
        folder.path(),
        &[
            "-s",
            "-I",
            "100ms",
            "--by",
            "none",
            "-e",
            "getppid",
            "--csv",
            "-o",
            "tables.csv",
            "--",
            &program,
            "2",
            "3000",
        ],
    );
    assert_eq!(code, Some(0), "{said}");
    let text = std::fs::read_to_string(folder.path().join("tables.csv")).expect("tables");
    let counted = |line: &str| line.split(',').nth(3).and_then(|count| count.parse::<u64>().ok());
    assert!(text.starts_with("end_s,of,call,calls,"), "{text}");
    assert_eq!(text.lines().filter_map(counted).sum::<u64>(), 3 * 3000, "{text}");
}

/// The name that a thread has on the line of each `execve` that succeeds, and the one of its next line.
fn names_of_executed(lines: &str) -> Vec<(String, Option<String>)> {
    let name = |line: &str| {
        let (thread, rest) = line.split_once('<')?;
        Some((thread.to_owned(), rest.split_once("> ")?.0.to_owned()))
    };
    let all: Vec<&str> = lines.lines().collect();
    let executed = all
        .iter()
        .enumerate()
        .filter(|(_, line)| call_of(line).starts_with("execve(") && line.contains(") = 0 "));
    executed
        .filter_map(|(at, line)| {
            let (thread, own) = name(line)?;
            let mut after = all[at + 1..].iter().filter_map(|line| name(line));
            Some((own, after.find(|(other, _)| *other == thread).map(|(_, name)| name)))
        })
        .collect()
}

/// The line had the name of before.
#[test]
fn the_line_of_execve_has_the_name_of_the_program() {
    if !is_root("the_line_of_execve_has_the_name_of_the_program") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let long = folder.path().join("longer_than_fifteen");
    std::fs::write(&long, "#!/bin/sh\n/no/such/program; exec true\n").expect("a script");
    std::fs::set_permissions(&long, PermissionsExt::from_mode(0o755)).expect("our file");
    let long = long.to_str().expect("a plain path");
    let expect = ["longer_than_fif", "true"].map(|name| (name.to_owned(), Some(name.to_owned())));
    let (lines, said) = trace(folder.path(), &[], &[long]);
    assert_eq!(names_of_executed(&lines.join("\n")), expect, "{lines:#?}{said}");
    let failed = lines.iter().find(|line| line.contains(" execve(\"/no/such/program\""));
    assert!(failed.expect("it is tried").contains("<longer_than_fif> "), "{failed:?}");
    let (_, said) = trace_as_nobody(folder.path(), &["-o", "by_ptrace.txt", "--", long]);
    let lines = std::fs::read_to_string(folder.path().join("by_ptrace.txt")).expect("lines");
    assert_eq!(names_of_executed(&lines), expect, "{lines}{said}");
}

/// `pyrograph trace` without privilege in this folder.
fn tracer_as_nobody(folder: &Path, args: &[&str]) -> Command {
    let mut command = as_nobody(binary_for_others(folder, 0o777));
    command.arg("trace").args(args).current_dir(folder);
    command
}

/// Runs it; returns its exit code and what it said.
fn trace_as_nobody(folder: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = tracer_as_nobody(folder, args).output().expect("setpriv runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The kernel killed it with the tracer.
#[test]
fn a_command_that_is_traced_by_ptrace_outlives_a_tracer_that_is_killed() {
    if !is_root("a_command_that_is_traced_by_ptrace_outlives_a_tracer_that_is_killed") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = "echo > begun; while [ ! -e killed ]; do sleep 0.05; done; echo > ended";
    let args = ["-o", "trace.txt", "--", "sh", "-c", script];
    let mut tracing = tracer_as_nobody(folder.path(), &args).spawn().expect("setpriv runs");
    let exists = |name: &str| folder.path().join(name).exists();
    wait_until("the command runs", || exists("begun"));
    tracing.kill().expect("own child");
    tracing.wait().expect("it ends");
    std::fs::write(folder.path().join("killed"), "").expect("own folder");
    wait_until("the command has ended", || exists("ended"));
}

#[test]
fn without_privilege_ptrace_serves() {
    if !is_root("without_privilege_ptrace_serves") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = known(folder.path());
    let as_nobody = |args: &[&str]| trace_as_nobody(folder.path(), args);
    let (code, said) = as_nobody(&["-o", "trace.txt", "--", &program, "2", "100"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("by ptrace") && said.contains("CAP_BPF"), "{said}");
    let lines = std::fs::read_to_string(folder.path().join("trace.txt")).expect("lines");
    let count = |text: &str| lines.lines().filter(|line| call_of(line).starts_with(text)).count();
    assert!(call_of(&lines).starts_with("execve("), "{lines}");
    assert_eq!(count("getppid()"), 300);
    assert_eq!(count("fchdir(-7)"), 300);
    assert_eq!(count("openat(AT_FDCWD, \"/no/such/file\", O_RDONLY|O_CLOEXEC) = -1 ENOENT"), 30);
    assert_eq!(count("+++ exited with 3 +++"), 1, "the child");
    // The exit code is the command's; what ptrace cannot do is refused.
    let (code, said) = as_nobody(&["-s", "--", "sh", "-c", "exit 7"]);
    assert_eq!(code, Some(7), "{said}");
    // It goes on when tracing has ended, and is waited for.
    let (code, said) = as_nobody(&["-d", "0.8", "--", "sh", "-c", "sleep 2; exit 7"]);
    assert_eq!(code, Some(7), "{said}");
    for call in ["wait4(-1, ", "clock_nanosleep("] {
        let is_it =
            |line: &&str| call_of(line).starts_with(call) && line.contains(" <unfinished ...> <");
        assert_eq!(said.lines().filter(is_it).count(), 1, "{call}: {said}");
    }
    let (code, said) = as_nobody(&["-a", "-d", "1"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("CAP_BPF"), "{said}");
}

#[test]
fn processes_that_run_are_traced() {
    if !is_root("processes_that_run_are_traced") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.txt");
    // Its standard input has nothing, for 20 ms.
    let script = "while :; do read x < /dev/null; read -t 0.02 x; done";
    let mut process = Command::new("bash");
    let process = process.args(["-c", script]).stdin(Stdio::piped()).spawn().expect("bash runs");
    let process = crate::common::in_kernel::Running(process);
    let pid = process.0.id().to_string();
    let mut trace = pyrograph();
    trace.args(["trace", "-o"]).arg(&path).args(["-p", &pid]);
    let mut tracing = trace.spawn().expect("pyrograph runs");
    let lines = || std::fs::read_to_string(&path).unwrap_or_default();
    wait_until("it has opened the file some times", || lines().matches("openat(").count() > 10);
    // SAFETY: it is a child that was not waited for.
    assert_eq!(unsafe { libc::kill(tracing.id().cast_signed(), libc::SIGINT) }, 0);
    assert!(tracing.wait().expect("it ends").success());
    let lines = lines();
    let is_whole = |line: &&str| line.contains("openat(") && !line.contains("<unfinished ...>");
    let whole: Vec<&str> = lines.lines().filter(is_whole).collect();
    for line in whole {
        assert!(line.starts_with(&format!("{pid}<bash> ")), "{line}");
        assert!(
            line.contains("openat(AT_FDCWD, \"/dev/null\", O_RDONLY) = ")
                && line.contains("</dev/null> <"),
            "{line}"
        );
    }
}

#[test]
fn calls_that_have_not_returned_are_shown_at_the_end() {
    if !is_root("calls_that_have_not_returned_are_shown_at_the_end") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (lines, _) = trace(folder.path(), &["-d", "0.8"], &["sleep", "2"]);
    let last = lines.last().expect("lines");
    assert!(
        call_of(last).starts_with("clock_nanosleep(CLOCK_REALTIME, 0, {tv_sec=2, tv_nsec=0}"),
        "{last}"
    );
    assert!(last.contains(" <unfinished ...> <0."), "{last}");
}

/// The calls and errors of a file, by name.
#[test]
fn what_a_process_waits_for_is_shown_at_once() {
    if !is_root("what_a_process_waits_for_is_shown_at_once") {
        return;
    }
    let mut sleep = Command::new("sleep");
    let process = crate::common::in_kernel::Running(sleep.arg("1000").spawn().expect("sleep runs"));
    let pid = process.0.id().to_string();
    // Until it sleeps.
    let wchan = || std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    while !wchan().starts_with(&libc::SYS_clock_nanosleep.to_string()) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let said = |flags: &[&str]| {
        let mut trace = pyrograph();
        let output = trace.arg("trace").args(flags).args(["-d", "0.2", "-p", &pid]).output();
        String::from_utf8(output.expect("pyrograph runs").stderr).expect("text")
    };
    let lines = said(&[]);
    let call = "clock_nanosleep(CLOCK_REALTIME, 0, {tv_sec=1000, tv_nsec=0}, ";
    assert!(call_of(&lines).starts_with(call) && lines.ends_with(" <unfinished ...>\n"), "{lines}");
    assert_eq!(lines.lines().count(), 1, "{lines}");
    assert_eq!(said(&["-e", "read"]), "");
    let not_returned = "not in the table: 1 call that had not returned in the end";
    assert_eq!(said(&["-s"]), format!("pyrograph: {not_returned} (clock_nanosleep 1)\n"));
}

#[test]
fn files_are_named_though_only_writes_are_shown() {
    if !is_root("files_are_named_though_only_writes_are_shown") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    // One descriptor for several files, in a process that is gone when its lines are made, and in a child.
    let script = "cd $0; for i in 1 2 3; do exec 7>$i; echo $i >&7; done; (echo child >&7); exec 7>&-; echo x >&7";
    let own = folder.path().to_str().expect("text");
    let check = |lines: &[String], said: &str| {
        let writes: Vec<String> = lines
            .iter()
            .filter(|line| call_of(line).starts_with("write("))
            .filter_map(|line| call_of(line).split(", ").next().map(str::to_owned))
            .collect();
        let file = |name: &str| format!("write(1<{own}/{name}>");
        assert_eq!(writes[..4], [file("1"), file("2"), file("3"), file("3")], "{said} {lines:?}");
    };
    for flags in [&["-e", "write"][..], &["-e", "write,dup2"], &["-e", "!read"]] {
        let (lines, said) = trace(folder.path(), flags, &["sh", "-c", script, own]);
        check(&lines, &said);
    }
    // The same by ptrace.
    for name in ["1", "2", "3"] {
        std::fs::remove_file(folder.path().join(name)).expect("written before");
    }
    let args = ["-e", "write", "-o", "by_ptrace.txt", "--", "sh", "-c", script, own];
    let (_, said) = trace_as_nobody(folder.path(), &args);
    assert!(said.contains("by ptrace"), "{said}");
    let lines = std::fs::read_to_string(folder.path().join("by_ptrace.txt")).expect("lines");
    check(&lines.lines().map(str::to_owned).collect::<Vec<_>>(), &said);
}

pub fn table_of_file(path: &Path) -> BTreeMap<String, (u64, u64)> {
    let mut trace = pyrograph();
    let output = trace.args(["trace", "-s", "--by", "none", "--json", "-i"]).arg(path).output();
    let output = output.expect("pyrograph runs");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = json["groups"][0]["calls"].as_array().expect("calls").iter();
    let failed = |row: &Value| {
        let failed = row["errors"].as_object().expect("errors").values();
        failed.map(|count| count.as_u64().expect("a count")).sum()
    };
    let row = |row: &Value| {
        let name = row["call"].as_str().expect("a name").to_owned();
        (name, (row["calls"].as_u64().expect("a count"), failed(row)))
    };
    rows.map(row).collect()
}

#[test]
fn tracepoints_of_a_recording_are_calls() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = known(folder.path());
    crate::common::perf::with_perf_as_root("tracepoints_of_a_recording_are_calls", |_| {
        let data = folder.path().join("perf.data");
        for events in [
            "raw_syscalls:sys_enter,raw_syscalls:sys_exit",
            "syscalls:sys_enter_getppid,syscalls:sys_exit_getppid,syscalls:sys_enter_fchdir,syscalls:sys_exit_fchdir",
        ] {
            let mut perf = Command::new("perf");
            perf.args(["record", "-q", "-m", "1024", "-e", events, "-o"]).arg(&data);
            run(perf.args([&program, "2", "100"]));
            let table = table_of_file(&data);
            assert_eq!(table["getppid"], (300, 0));
            assert_eq!(table["fchdir"], (300, 300));
        }
        // Of a call that had begun before, only the end is there; what is read from a file goes to standard output.
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-e", "raw_syscalls:sys_exit", "-o"]).arg(&data);
        run(perf.args([&program, "1", "10"]));
        let output = pyrograph().args(["trace", "-e", "fchdir,brk"]).arg(&data).output();
        let lines = String::from_utf8(output.expect("pyrograph runs").stdout).expect("text");
        let calls: Vec<&str> = lines.lines().map(call_of).collect();
        let fails = |call: &&&str| {
            call.starts_with("fchdir(...)") && call.ends_with("= -1 EBADF (Bad file descriptor)")
        };
        assert_eq!(calls.iter().filter(fails).count(), 20, "{lines}");
        let breaks = |call: &&&str| call.starts_with("brk(...)") && call.contains(" = 0x");
        assert!(calls.iter().filter(breaks).count() > 0, "{lines}");
    });
}

#[test]
fn names_of_threads_forge_no_lines() {
    if !is_root("names_of_threads_forge_no_lines") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = r#"$0 = "x\n1<y> \e[31m"; open(F, "<", "/dev/null")"#;
    let (lines, said) = trace(folder.path(), &["-e", "openat"], &["perl", "-e", script]);
    assert_eq!(said, "");
    let line = lines.iter().rfind(|line| line.contains("\"/dev/null\"")).expect("a line");
    assert!(line.contains("<x\\121<y> \\33[31m> "), "{line}");
    assert!(lines.iter().all(|line| !line.contains('\u{1b}')));
}

/// `i386_295(…) = -2`, and nothing at all of `-e openat`.
#[test]
fn calls_of_32_bit_programs_have_names_and_errors() {
    if !is_root("calls_of_32_bit_programs_have_names_and_errors") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = crate::common::compile32("calls32.c", folder.path()) else { return };
    let program = program.to_str().expect("a path in UTF-8");
    let trace = |flags: &[&str]| trace(folder.path(), flags, &[program]).0;
    let all = trace(&[]);
    for line in [
        "open(\"/proc/self/stat\", O_RDONLY) = ",
        "</proc/",
        "openat(AT_FDCWD, \"/nonexistent\", O_RDONLY) = -1 ENOENT (No such file or directory)",
        "execve(\"/nonexistent/b\", [\"a\", \"bc\"], ",
        "\"x\\n\", 2) = 2",
        "mmap2(0x0, 0x1000, 0x3",
        "exit_group(3",
    ] {
        let squeezed = all.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(squeezed.contains(line), "{line} is not in {all:#?}");
    }
    for (of, count) in [("openat", 1), ("%file", 4), ("write", 1), ("mmap", 1)] {
        let some = trace(&["-e", of]);
        let calls = some.iter().filter(|line| line.contains('(') && !line.contains("+++"));
        assert_eq!(calls.count(), count, "{of}: {some:#?}");
    }
}

/// Ends and signals of whatever ran stood among the slow calls of the machine.
#[test]
fn slow_calls_of_the_machine_are_calls_alone() {
    if !is_root("slow_calls_of_the_machine_are_calls_alone") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let command = ["sh", "-c", "trap : CHLD; sleep 0.02; true & wait; kill -CHLD $$"];
    let (lines, said) = trace(folder.path(), &["-a", "--slower", "5ms"], &command);
    assert!(lines.iter().any(|line| line.contains("clock_nanosleep")), "{lines:?} {said}");
    let is_other = |line: &&String| line.contains("+++ exited") || line.contains("--- SIG");
    assert_eq!(lines.iter().find(is_other), None);
    let (lines, _) = trace(folder.path(), &["--slower", "5ms"], &command);
    assert!(lines.iter().any(|line| line.contains("+++ exited")), "{lines:?}");
}
