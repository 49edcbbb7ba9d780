//! The questions that only the in-kernel engine can answer: what is recorded of programs that know the
//! truth about themselves.

use std::os::unix::fs::MetadataExt;

use crate::common::in_kernel::{has_feature, path_text, program, record_command, value_of};
use crate::common::{Folded, compile32, is_root, pyrograph, sharp, wait_until};

/// Returns true if the kernel has the events of a question; if not, the message must say so, with this exit code.
fn is_supported(question: &str, feature: &str, code: i32) -> bool {
    if has_feature(feature) {
        return true;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.folded");
    let output = pyrograph()
        .args(["record", question, "-o"])
        .arg(&out)
        .args(["--", "true"])
        .output()
        .expect("pyrograph runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(feature) && output.status.code() == Some(code), "{said}");
    false
}

/// The sum of the values of stacks in which these frames stand in this order, others between them.
fn value_of_chain(folded: &Folded, chain: &[&str]) -> f64 {
    let has = |stack: &[String]| {
        let mut frames = stack.iter();
        chain.iter().all(|wanted| frames.any(|frame| frame == wanted))
    };
    folded.stacks.iter().filter(|(stack, _)| has(stack)).map(|(_, value)| value).sum()
}

/// The counts that a program printed of itself: `function 1234`.
fn measured(text: &str, function: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(function)?.strip_prefix(' '));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{function}: {text}"))
}

#[test]
fn files_are_read_and_written_by_who_does_so() {
    let Some((folder, program)) = program("files_are_read_and_written_by_who_does_so", "moves.c")
    else {
        return;
    };
    let file = folder.path().join("data");
    let record = |flags: &[&str]| record_command(&program, &[path_text(&file)], flags).0;

    let bytes = record(&["--file-io", "--bytes"]);
    assert_eq!(value_of_chain(&bytes, &["main", "writes", "sys_write"]), 819_200.0);
    assert_eq!(value_of_chain(&bytes, &["main", "reads", "sys_pread64"]), 819_200.0);
    assert_eq!(value_of(&bytes, "pipes"), 0.0, "{:?}", bytes.stacks);
    let calls = record(&["--file-io", "--count"]);
    assert_eq!((value_of(&calls, "writes"), value_of(&calls, "reads")), (200.0, 200.0));
    assert_eq!(value_of(&calls, "pipes"), 0.0, "{:?}", calls.stacks);
    let time = record(&["--file-io"]);
    // Each takes at least some hundred nanoseconds.
    assert!(value_of(&time, "writes") > 20_000.0, "{:?}", time.stacks);
    assert!(value_of(&time, "writes") < 60e9 && value_of(&time, "pipes") == 0.0);
}

#[test]
fn system_calls_have_names() {
    let Some((folder, program)) = program("system_calls_have_names", "moves.c") else { return };
    let file = folder.path().join("data");
    let record = |flags: &[&str]| record_command(&program, &[path_text(&file)], flags).0;

    let all = record(&["--syscalls", "--engine", "ebpf"]);
    assert_eq!(value_of_chain(&all, &["main", "pipes", "sys_write"]), 100.0);
    assert_eq!(value_of_chain(&all, &["main", "reads", "sys_pread64"]), 200.0);
    let some = record(&["--syscalls=write,pread64"]);
    assert_eq!(value_of_chain(&some, &["main", "pipes", "sys_write"]), 100.0);
    let is_other = |stack: &[String]| {
        stack.last().is_none_or(|leaf| leaf != "sys_write" && leaf != "sys_pread64")
    };
    assert_eq!(some.share(is_other), 0.0, "{:?}", some.stacks);
    let time = record(&["--syscalls=write", "--time"]);
    assert!(value_of(&time, "sys_write") > 20_000.0, "{:?}", time.stacks);
}

/// Calls with numbers that have no name, or are those of 32-bit programs, were left out without a word.
#[test]
fn all_system_calls_count_whatever_their_numbers() {
    let test = "all_system_calls_count_whatever_their_numbers";
    let Some((folder, program)) = program(test, "unknown_calls.c") else { return };
    let all = record_command(&program, &[], &["--syscalls", "--engine", "ebpf", "--exact"]).0;
    for call in ["sys_getppid", "sys_1000", "sys_[unknown]"] {
        assert_eq!(value_of(&all, call), 100.0, "{call}: {:?}", all.stacks);
    }
    let Some(program) = compile32("calls32.c", folder.path()) else { return };
    let all = folder.path().join("all.folded");
    let mut record = pyrograph();
    record.args(["record", "--syscalls", "--exact", "-o"]).arg(&all).arg("--").arg(program);
    // It exits with 3.
    assert_eq!(record.output().expect("it runs").status.code(), Some(3));
    let all = Folded::read(&all);
    for call in ["open", "openat", "write", "mmap2", "exit_group"] {
        assert_eq!(value_of(&all, &format!("ia32_sys_{call}")), 1.0, "{call}: {:?}", all.stacks);
    }
    assert!(value_of(&all, "ia32_sys_times") > 2.0, "{:?}", all.stacks);
}

// Where the kernel is called very often not all stacks are taken; how often each thread called it is exact all the same.
#[test]
fn many_calls_are_counted_exactly() {
    let Some((_folder, program)) = program("many_calls_are_counted_exactly", "many_calls.c") else {
        return;
    };
    let (folded, _) = record_command(&program, &[], &["--syscalls=getppid"]);
    assert_eq!(folded.total(), 300_000.0, "{:?}", folded.stacks);
    // One standard deviation is some 0.03: after the first 4,000 stacks there are some hundred.
    let share = value_of(&folded, "calls_twice") / folded.total();
    assert!((0.53..=0.8).contains(&share), "{share}: {:?}", folded.stacks);
    let (folded, _) = record_command(&program, &[], &["--syscalls=getppid", "--exact"]);
    assert_eq!(value_of(&folded, "calls_once"), 100_000.0, "{:?}", folded.stacks);
    assert_eq!(value_of(&folded, "calls_twice"), 200_000.0, "{:?}", folded.stacks);
}

/// A split of 500 for 333 was a sample, and nothing said so.
#[test]
fn what_is_sampled_is_said_to_be() {
    if !is_root("what_is_sampled_is_said_to_be") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (exact, count, is_said) in
        [(None, "300000", true), (Some("--exact"), "300000", false), (None, "50", false)]
    {
        let mut command = pyrograph();
        command.args(["record", "--syscalls=read"]).args(exact).arg("-o");
        command.arg(folder.path().join("out.folded")).args(["--", "dd", "if=/dev/zero"]);
        let output = command.args(["of=/dev/null", "bs=1", &format!("count={count}")]).output();
        let said = String::from_utf8_lossy(&output.expect("it runs").stderr).into_owned();
        assert_eq!(said.contains("stacks are sampled: sums are exact"), is_said, "{said}");
    }
}

#[test]
fn sockets_send_and_receive() {
    let Some((folder, program)) = program("sockets_send_and_receive", "moves.c") else { return };
    if !is_supported("--net", "sock_send_length", 1) {
        return;
    }
    let file = folder.path().join("data");
    let (folded, _) = record_command(&program, &[path_text(&file)], &["--net"]);
    let moved = |function, what| value_of_chain(&folded, &["main", function, "[Unix]", what]);
    assert_eq!(moved("sends", "[sent]"), 300_000.0, "{:?}", folded.stacks);
    assert_eq!(moved("receives", "[received]"), 300_000.0, "{:?}", folded.stacks);
    assert_eq!(folded.total(), 600_000.0, "{:?}", folded.stacks);
    // Nothing of what took the stacks is in them.
    let is_own = |frame: &String| frame.contains("bpf_") || frame.contains("trace");
    assert_eq!(folded.share(|stack| stack.iter().any(is_own)), 0.0, "{:?}", folded.stacks);
}

#[test]
fn disks_are_written_by_who_does_so() {
    let Some((folder, program)) = program("disks_are_written_by_who_does_so", "direct.c") else {
        return;
    };
    // File systems without a device have the major number 0.
    let device = folder.path().metadata().expect("a folder").dev();
    if libc::major(device) == 0 {
        eprintln!("skipped: the folder for temporary files is on no block device");
        return;
    }
    let file = folder.path().join("data");
    let fill = || {
        std::fs::write(&file, vec![1; 50 * 65536]).expect("a file");
        std::fs::File::open(&file).and_then(|file| file.sync_all()).expect("it is on the disk");
    };
    fill();
    let record = |flags: &[&str]| record_command(&program, &[path_text(&file)], flags).0;
    let bytes = record(&["--block-io", "--bytes"]);
    assert_eq!(value_of(&bytes, "writes_to_disk"), 50.0 * 65536.0, "{:?}", bytes.stacks);
    let requests = record(&["--block-io", "--count"]);
    assert!(value_of(&requests, "writes_to_disk") >= 50.0, "{:?}", requests.stacks);
    let time = record(&["--block-io"]);
    // A disk takes at least a microsecond for each.
    assert!(value_of(&time, "writes_to_disk") > 50_000.0, "{:?}", time.stacks);
}

#[test]
fn waits_for_locks_have_their_shares_of_time_where_they_wait() {
    let Some((_folder, program)) =
        program("waits_for_locks_have_their_shares_of_time_where_they_wait", "waits.c")
    else {
        return;
    };
    let (folded, text) = record_command(&program, &[], &["--locks"]);
    let share = value_of(&folded, "locks") / measured(&text, "locks");
    // It is in the system call nearly all of the time that it does not run, but may have to wait for a
    // CPU outside of it; and the call takes some time in which it runs.
    let least = sharp(0.5, 0.8);
    assert!((least..=1.05).contains(&share), "{share}: {:?}", folded.stacks);
    // It reads clocks, for which the kernel may wait for a lock of its own.
    let slept = |stack: &[String]| {
        stack.iter().any(|frame| frame == "sleeps") && stack.last().unwrap() != "[spinlock]"
    };
    let slept = folded.stacks.iter().find(|(stack, _)| slept(stack));
    assert_eq!(slept, None, "{:?}", folded.stacks);
}

// Pools of threads that wait for work hid the locks that somebody waits for.
#[test]
fn shares_of_conditions_differ_from_those_of_locks() {
    let Some((_folder, program)) =
        program("shares_of_conditions_differ_from_those_of_locks", "conditions.c")
    else {
        return;
    };
    let ways = ["for_lock", "for_reading", "for_condition", "for_semaphore", "for_thread"];
    // Each waits ten times for 5 ms; on a busy machine it comes too late for some of them.
    let least = sharp(10e6, 25e6);
    for (question, lock, condition) in [
        ("--locks", "[lock]", "[condition]"),
        ("--off-cpu", "[waiting for a lock]", "[waiting for a condition]"),
    ] {
        let (folded, _) = record_command(&program, &[], &[question]);
        for function in ways {
            let leaf = match function {
                "for_lock" | "for_reading" => lock,
                _ => condition,
            };
            let waited = value_of_chain(&folded, &[function, leaf]);
            assert!(waited >= least, "{question} {function}: {waited}: {:?}", folded.stacks);
        }
        let (folded, _) = record_command(&program, &[], &[question, "--no-idle"]);
        for function in ways {
            let is_lock = matches!(function, "for_lock" | "for_reading");
            let waited =
                value_of_chain(&folded, &[function, if is_lock { lock } else { condition }]);
            assert_eq!(waited >= least, is_lock, "{question} {function}: {waited}");
            assert!(is_lock || waited == 0.0, "{question} {function}: {waited}");
        }
        // The kernel may wait for a lock of its own for some microseconds.
        let polled = value_of(&folded, "polls");
        assert!(polled < least / 10.0, "{question}: {polled}: {:?}", folded.stacks);
    }
}

// Threads that waited for a lock before a recording began had frames of the kernel, and those that came later had none.
#[test]
fn one_wait_is_one_stack() {
    let Some((folder, program)) = program("one_wait_is_one_stack", "conditions.c") else { return };
    let out = folder.path().join("out.folded");
    let mut child = std::process::Command::new(&program);
    let child = child.arg("forever").stdin(std::process::Stdio::null()).spawn().expect("it runs");
    let running = crate::common::in_kernel::Running(child);
    let pid = running.0.id().to_string();
    // 202 is `futex`, of x86-64.
    let waits = |thread: std::fs::DirEntry| {
        std::fs::read_to_string(thread.path().join("syscall"))
            .is_ok_and(|call| call.starts_with("202 "))
    };
    wait_until("a thread waits for the other", || {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
        threads.map(waits).filter(|waits| *waits).count() >= 1
    });
    let output = pyrograph()
        .args(["record", "--locks", "-p", &pid, "-d", "1", "-o"])
        .arg(&out)
        .output()
        .expect("pyrograph runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let folded = Folded::read(&out);
    let of = |(stack, _): &&(Vec<String>, f64)| stack.iter().any(|frame| frame == "turns_of_two");
    let leaves: Vec<_> = folded.stacks.iter().filter(of).map(|(stack, _)| stack.last()).collect();
    // Two threads wait for a second, half of the time for one another.
    assert!(!leaves.is_empty() && value_of(&folded, "turns_of_two") > 0.5e9, "{:?}", folded.stacks);
    let is_kernel =
        |frame: &String| frame.contains("futex_wait_queue") || frame.contains("do_syscall");
    // The kernel's own locks are waited for in the kernel.
    let of_program = |stack: &[String]| {
        matches!(stack.last().map(String::as_str), Some("[lock]" | "[condition]"))
    };
    let with_kernel = folded.share(|stack| of_program(stack) && stack.iter().any(is_kernel));
    assert_eq!(with_kernel, 0.0, "{:?}", folded.stacks);
}

#[test]
fn locks_of_the_kernel_have_their_sort() {
    let Some((_folder, program)) = program("locks_of_the_kernel_have_their_sort", "contends.c")
    else {
        return;
    };
    if !is_supported("--locks", "contention_begin", 0) {
        return;
    }
    let (folded, _) = record_command(&program, &[], &["--locks"]);
    let waited = value_of_chain(&folded, &["maps", "[rwsem: write]"]);
    assert!(waited > 1e6 && waited < 600e9, "{waited}: {:?}", folded.leaves());
    // The programs of recordings beside this one take locks, too, but not this.
    let is_own = |frame: &String| frame.contains("bpf_") || frame.contains("trace_contention");
    let has_own = |stack: &[String]| {
        stack.last().is_some_and(|sort| sort == "[rwsem: write]") && stack.iter().any(is_own)
    };
    assert_eq!(folded.share(has_own), 0.0, "{:?}", folded.stacks);
}

#[test]
fn wakers_have_their_shares_of_time() {
    let Some((_folder, program)) = program("wakers_have_their_shares_of_time", "wakes.c") else {
        return;
    };
    let (folded, text) = record_command(&program, &[], &["--wakeup"]);
    // The partner slept for 20 ms before each; what came between waking and running is not counted, nor
    // what came between asking and waiting: on a busy machine others may run there.
    let woken = value_of(&folded, "wakes_partner");
    let least = sharp(0.25, 0.5);
    assert!(woken >= least * 40.0 * 20e6, "{woken}: {:?}", folded.stacks);
    assert!(woken <= 1.02 * measured(&text, "waits_for_partner"), "{woken}: {text}");
    // Each sleep is ended by an interrupt, which no program has part in.
    let clock = value_of(&folded, "[interrupt]");
    assert!(clock >= least * 40.0 * 30e6, "{clock}: {:?}", folded.stacks);
    assert_eq!(value_of_chain(&folded, &["[interrupt]", "main"]), 0.0, "{:?}", folded.stacks);
}

#[test]
fn wakers_stand_behind_what_waits_with_their_shares() {
    let Some((_folder, program)) =
        program("wakers_stand_behind_what_waits_with_their_shares", "wakes.c")
    else {
        return;
    };
    let (folded, text) = record_command(&program, &[], &["--off-wake"]);
    let waited = |function| value_of_chain(&folded, &["main", function]);
    for function in ["waits_for_partner", "waits_for_clock"] {
        let share = waited(function) / measured(&text, function);
        // The program may have to wait for a CPU between its clocks and its waits.
        let (least, most) = sharp((0.85, 1.04), (0.95, 1.02));
        assert!((least..=most).contains(&share), "{function}: {share}: {:?}", folded.stacks);
    }
    // Nobody ends the wait of who could run: on a busy machine that is a part of it, too.
    let chain = ["main", "waits_for_partner", "--", "wakes_partner", "partner"];
    let by_partner = value_of_chain(&folded, &chain);
    let least = sharp(0.25, 0.5);
    assert!(by_partner >= least * 40.0 * 20e6, "{by_partner}: {:?}", folded.stacks);
    let by_clock = value_of_chain(&folded, &["main", "waits_for_clock", "--", "[interrupt]"]);
    assert!(by_clock >= least * 40.0 * 10e6, "{by_clock}: {:?}", folded.stacks);
}

#[test]
fn probes_in_programs_are_counted() {
    let Some((_folder, program)) = program("probes_in_programs_are_counted", "probes.c") else {
        return;
    };
    let probe = |name| format!("usdt:{}:test:{name}", program.display());
    let (folded, _) = record_command(&program, &[], &["-e", &probe("step")]);
    // The program skips it while nobody listens.
    assert_eq!(value_of_chain(&folded, &["main", "steps"]), 500.0, "{:?}", folded.stacks);
    let (folded, _) = record_command(&program, &[], &["-e", &probe("begun")]);
    assert_eq!(value_of_chain(&folded, &["main", "begins"]), 1.0, "{:?}", folded.stacks);
    let returns = format!("uretprobe:{}:steps", program.display());
    let (folded, _) = record_command(&program, &[], &["-e", &returns]);
    assert_eq!(value_of_chain(&folded, &["main", "steps"]), 500.0, "{:?}", folded.stacks);
}

// In place of the return address of a function whose return is probed stands one of the kernel's.
#[test]
fn callers_of_functions_whose_return_is_probed_are_found() {
    let name = "callers_of_functions_whose_return_is_probed_are_found";
    let Some((_folder, program)) = program(name, "probes.c") else { return };
    let returns = format!("uretprobe:{}:nests", program.display());
    let (folded, _) = record_command(&program, &[], &["-e", &returns]);
    for depth in 1..=5 {
        let chain = [&["_start", "main"][..], &["nests"].repeat(depth)].concat();
        let calls = (6 - depth) as f64;
        assert_eq!(value_of_chain(&folded, &chain), calls, "{depth}: {:?}", folded.stacks);
    }
}

#[test]
fn places_that_are_not_there_are_named() {
    let Some((folder, program)) = program("places_that_are_not_there_are_named", "probes.c") else {
        return;
    };
    let program = path_text(&program);
    let cases = [
        (format!("uprobe:{program}:setps"), "steps"),
        (format!("uretprobe:{program}:begns"), "begins"),
        (format!("usdt:{program}:test:stpe"), "test:step"),
        (format!("usdt:{program}:tset:begun"), "test:begun"),
    ];
    let out = folder.path().join("out.svg");
    for (probe, near) in cases {
        let mut command = pyrograph();
        command.args(["record", "-a", "-d", "1", "-e", &probe, "-o"]).arg(&out);
        let output = command.output().expect("pyrograph runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{probe}: {said}");
        assert!(said.contains(&format!("did you mean {near}")), "{probe}: {said}");
        assert!(!out.exists(), "{probe}");
    }
}

#[test]
fn a_function_that_is_not_there_is_an_error() {
    if !is_root("a_function_that_is_not_there_is_an_error") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.svg");
    let probe = "uprobe:/bin/sh:no_such_function";
    let output = pyrograph()
        .args(["record", "-a", "-d", "1", "-e", probe, "-o"])
        .arg(&out)
        .output()
        .expect("pyrograph runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no_such_function") && said.contains("/bin/sh"), "{said}");
    assert!(!out.exists());
}
