//! The questions that only the in-kernel engine can answer: what is recorded of programs that know the
//! truth about themselves.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::common::in_kernel::{C, has_feature, record_command, record_to, value_of};
use crate::common::{Folded, compile, compile32, is_root, pyrograph, sharp, wait_until};

/// A folder and a program in it; `None`, which is said, if it cannot be recorded.
fn program(test: &str, source: &str) -> Option<(tempfile::TempDir, PathBuf)> {
    is_root(test).then(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let program = compile(C, source, folder.path());
        (folder, program)
    })
}

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

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is text")
}

#[test]
fn files_are_read_and_written_by_who_does_so() {
    let Some((folder, program)) = program("files_are_read_and_written_by_who_does_so", "moves.c")
    else {
        return;
    };
    let file = folder.path().join("data");
    let record = |flags: &[&str]| record_command(&program, &[text(&file)], flags).0;

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
    let record = |flags: &[&str]| record_command(&program, &[text(&file)], flags).0;

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
    let (folded, _) = record_command(&program, &[text(&file)], &["--net"]);
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
        File::open(&file).and_then(|file| file.sync_all()).expect("it is on the disk");
    };
    fill();
    let record = |flags: &[&str]| record_command(&program, &[text(&file)], flags).0;
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

// `realloc` of nothing calls `malloc`, `aligned_alloc` and `memalign` are one function with two names, and so on.
#[test]
fn each_allocation_counts_once_whatever_function_gives_it() {
    let name = "each_allocation_counts_once_whatever_function_gives_it";
    let Some((_folder, program)) = program(name, "allocates.c") else { return };
    let expect = [
        ("by_malloc", 100.0),
        ("by_calloc", 110.0),
        ("by_realloc_of_nothing", 120.0),
        ("by_realloc", 130.0),
        ("by_reallocarray_of_nothing", 140.0),
        ("by_aligned_alloc", 160.0),
        ("by_aligned_alloc_of_pages", 8192.0),
        ("by_memalign", 170.0),
        ("by_memalign_of_lines", 190.0),
        ("by_valloc", 200.0),
        ("by_pvalloc", 210.0),
        ("by_strdup", 350.0),
        ("by_posix_memalign", 220.0),
        ("by_turns", 8.0 * 230.0),
    ];
    for flags in [&["--alloc"][..], &["--alloc", "--live"]] {
        let (folded, _) = record_command(&program, &[], flags);
        for (function, bytes) in expect {
            // `realloc` gives back what the function before it was given.
            let given_back = function == "by_realloc_of_nothing" && flags.contains(&"--live");
            let bytes = if given_back { 0.0 } else { 100.0 * bytes };
            assert_eq!(
                value_of(&folded, function),
                bytes,
                "{function} {flags:?}: {:?}",
                folded.stacks
            );
        }
    }
    let (folded, _) = record_command(&program, &[], &["--alloc", "--count"]);
    for (function, _) in expect {
        let calls = if function == "by_turns" { 800.0 } else { 100.0 };
        assert_eq!(value_of(&folded, function), calls, "{function}: {:?}", folded.stacks);
    }
}

/// Bytes that the functions of `own_allocators.c` ask for, each 100 times.
const OWN: [(&str, f64); 9] = [
    ("by_malloc", 100.0),
    ("by_jemalloc", 110.0),
    ("by_jemalloc_with_flags", 120.0),
    ("by_jemalloc_of_zeros", 130.0),
    ("by_jemalloc_again", 140.0),
    ("by_mimalloc", 150.0),
    ("by_mimalloc_of_lines", 160.0),
    ("by_mimalloc_of_an_array", 170.0),
    ("given_back", 370.0),
];

/// Nothing was seen of Rust programs with jemalloc or mimalloc.
#[test]
fn memory_of_a_programs_own_allocators_counts() {
    let name = "memory_of_a_programs_own_allocators_counts";
    let Some((_folder, program)) = program(name, "own_allocators.c") else { return };
    // Each of the two that reallocate gives back what the function before it was given.
    let reallocated = ["by_jemalloc_of_zeros", "by_mimalloc_of_lines"];
    allocates_and_holds(&program, &OWN, &reallocated);
}

/// As Python loads Polars.
#[test]
fn memory_of_a_library_that_is_loaded_later_counts() {
    let name = "memory_of_a_library_that_is_loaded_later_counts";
    let Some((folder, program)) = program(name, "own_allocators.c") else { return };
    let _turn = turn();
    let place = folder.path().join("library");
    std::fs::create_dir(&place).expect("a folder");
    let library = compile(&["gcc", "-O2", "-g", "-shared", "-fPIC"], "own_allocators.c", &place);
    let (folded, _) = record_command(&program, &[text(&library)], &["--alloc"]);
    for (function, bytes) in OWN {
        // It is called once before.
        let times = if function == "by_malloc" { 101.0 } else { 100.0 };
        assert_eq!(value_of(&folded, function), times * bytes, "{function}: {:?}", folded.stacks);
    }
}

/// Bytes that the functions of `operators.cpp` ask for, each 100 times.
const OPERATORS: [(&str, f64); 6] = [
    ("by_malloc", 100.0),
    ("by_new", 110.0),
    ("by_new_of_an_array", 120.0),
    ("by_new_of_lines", 130.0),
    ("by_new_that_does_not_throw", 140.0),
    ("given_back", 480.0),
];

/// An operator `new` that does not call `malloc`, as in jemalloc, tcmalloc and mimalloc, was not seen.
#[test]
fn operators_new_count() {
    if !is_root("operators_new_count") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(CPP, "operators.cpp", folder.path());
    allocates_and_holds(&program, &OPERATORS, &[]);
}

const CPP: &[&str] = &["g++", "-O1", "-g", "-std=c++17"];

/// As a service is started by a script: what the script calls for memory is another library's, or another program's.
#[test]
fn memory_of_a_program_that_begins_later_counts() {
    let name = "memory_of_a_program_that_begins_later_counts";
    let Some((folder, own)) = program(name, "own_allocators.c") else { return };
    let _turn = turn();
    let operators = compile(CPP, "operators.cpp", folder.path());
    for (program, expect, times) in [(own, &OWN[..], 101.0), (operators, &OPERATORS, 100.0)] {
        let script = folder.path().join("start.sh");
        std::fs::write(&script, format!("LATE=1 exec {}\n", program.display())).expect("a script");
        let shell = Path::new("/bin/sh");
        let out = folder.path().join("out.folded");
        let (folded, _) = record_to(&out, shell, &[text(&script)], &["--alloc"]);
        for (function, bytes) in expect {
            let times = if *function == "by_malloc" { times } else { 100.0 };
            let found = value_of(&folded, function);
            assert_eq!(found, times * bytes, "{function}: {:?}", folded.stacks);
        }
    }
}

/// What a library passes on to the C library, whose functions the script called, counted twice.
#[test]
fn memory_that_a_preloaded_library_passes_on_counts_once() {
    let name = "memory_that_a_preloaded_library_passes_on_counts_once";
    let Some((folder, program)) = program(name, "wraps.c") else { return };
    let _turn = turn();
    let place = folder.path().join("library");
    std::fs::create_dir(&place).expect("a folder");
    let flags = &["gcc", "-O2", "-g", "-shared", "-fPIC", "-fno-builtin", "-DLIBRARY"];
    let library = compile(flags, "wraps.c", &place);
    let script = folder.path().join("start.sh");
    let line = format!("LD_PRELOAD={} exec {}\n", library.display(), program.display());
    std::fs::write(&script, line).expect("a script");
    let out = folder.path().join("out.folded");
    let (folded, _) = record_to(&out, Path::new("/bin/sh"), &[text(&script)], &["--alloc"]);
    for (function, bytes) in [("by_malloc", 100.0), ("by_calloc", 110.0), ("by_realloc", 120.0)] {
        let found = value_of(&folded, function);
        assert_eq!(found, 100.0 * bytes, "{function}: {:?}", folded.stacks);
    }
}

/// Of the whole machine, only the C library's functions were watched. Compilers beside this ask for memory a million times a second, so
/// that stacks are sampled: of each function there are some.
#[test]
fn memory_of_other_allocators_counts_on_the_whole_machine() {
    let name = "memory_of_other_allocators_counts_on_the_whole_machine";
    let Some((folder, program)) = program(name, "own_allocators.c") else { return };
    let _turn = turn();
    // Other tests run the same program.
    let own = folder.path().join("on_the_machine");
    std::fs::rename(&program, &own).expect("a folder");
    let out = folder.path().join("out.folded");
    let arguments = ["LATE=1", "TIMES=30000", text(&own)];
    let (folded, _) = record_to(&out, Path::new("/usr/bin/env"), &arguments, &["-a", "--alloc"]);
    let is_own = |stack: &[String]| stack.first().is_some_and(|comm| comm == "on_the_machine");
    let own = folded.stacks.iter().filter(|(stack, _)| is_own(stack));
    let found: BTreeSet<&str> = own.flat_map(|(stack, _)| stack).map(String::as_str).collect();
    let missing: Vec<_> = OWN.iter().filter(|(function, _)| !found.contains(function)).collect();
    assert!(missing.is_empty(), "{missing:?}: {found:?}");
}

/// Others that watch the whole machine put breakpoints into the same files, and a program that waits for those of its own recorder
/// would begin before they are there: such tests take turns, by this lock.
fn turn() -> File {
    let path = std::env::temp_dir().join("pyrograph-memory-tests.lock");
    let lock = File::options().create(true).append(true).open(path).expect("a file");
    lock.lock().expect("others end");
    lock
}

/// Each function allocates 100 times as many bytes, and holds them at the end but for `given_back` and those of `reallocated`.
fn allocates_and_holds(program: &Path, expect: &[(&str, f64)], reallocated: &[&str]) {
    for flags in [&["--alloc"][..], &["--alloc", "--live"]] {
        let (folded, _) = record_command(program, &[], flags);
        for (function, bytes) in expect {
            let is_given_back = *function == "given_back" || reallocated.contains(function);
            let is_gone = is_given_back && flags.contains(&"--live");
            let bytes = if is_gone { 0.0 } else { 100.0 * bytes };
            let found = value_of(&folded, function);
            assert_eq!(found, bytes, "{function} {flags:?}: {:?}", folded.stacks);
        }
    }
}

#[test]
fn memory_that_is_held_is_supported() {
    let Some((_folder, program)) = program("live_memory_is_reported", "holds.c") else {
        return;
    };
    let (folded, _) = record_command(&program, &[], &["--alloc", "--live"]);
    let held = |function| value_of(&folded, function);
    assert_eq!(held("keeps"), 100_000.0, "{:?}", folded.stacks);
    assert_eq!(held("gives_back"), 0.0, "{:?}", folded.stacks);
    assert_eq!(held("aligns"), 40_960.0, "{:?}", folded.stacks);
    assert_eq!(held("grows"), 50_000.0, "{:?}", folded.stacks);
    assert_eq!(value_of(&folded, "_start"), folded.total(), "{:?}", folded.stacks);
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
    let program = text(&program);
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
