//! Recordings of allocations, by programs that know how much they ask for, and by which function.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::common::in_kernel::{
    Running, path_text, program, record_command, record_to, start_in_chroot, value_of,
    wait_for_programs,
};
use crate::common::{Folded, compile, is_root, pyrograph};

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

/// In its list of mappings its C library has the path that we see, which begins with its root folder.
#[test]
fn memory_of_a_process_in_a_chroot_counts() {
    let name = "memory_of_a_process_in_a_chroot_counts";
    let Some((folder, program)) = program(name, "allocates.c") else { return };
    let mut process = start_in_chroot(&program, &folder.path().join("root"));
    let out = folder.path().join("out.folded");
    let mut recording = pyrograph();
    recording.args(["record", "--alloc", "-p", &process.0.id().to_string(), "-o"]).arg(&out);
    let mut recording = Running(recording.spawn().expect("pyrograph runs"));
    wait_for_programs(recording.0.id());
    process.0.stdin.take().expect("a pipe").write_all(b"x").expect("it waits for this");
    process.0.wait().expect("it ends");
    assert!(recording.0.wait().expect("it ends with its target").success());
    let folded = Folded::read(&out);
    assert_eq!(value_of(&folded, "by_malloc"), 100.0 * 100.0, "{:?}", folded.stacks);
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
    let library = library(&[], "own_allocators.c", folder.path());
    let (folded, _) = record_command(&program, &[path_text(&library)], &["--alloc"]);
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
        let (folded, _) = record_to(&out, shell, &[path_text(&script)], &["--alloc"]);
        for (function, bytes) in expect {
            let times = if *function == "by_malloc" { times } else { 100.0 };
            let found = value_of(&folded, function);
            assert_eq!(found, times * bytes, "{function}: {:?}", folded.stacks);
        }
    }
}

/// Such an allocation counted twice: the script calls the C library's `malloc`, so that breakpoints are in both.
#[test]
fn memory_that_a_preloaded_library_passes_on_counts_once() {
    let name = "memory_that_a_preloaded_library_passes_on_counts_once";
    let Some((folder, program)) = program(name, "wraps.c") else { return };
    let _turn = turn();
    let library = library(&["-fno-builtin", "-DLIBRARY"], "wraps.c", folder.path());
    let script = folder.path().join("start.sh");
    let line = format!("LD_PRELOAD={} exec {}\n", library.display(), program.display());
    std::fs::write(&script, line).expect("a script");
    let out = folder.path().join("out.folded");
    let (folded, _) = record_to(&out, Path::new("/bin/sh"), &[path_text(&script)], &["--alloc"]);
    for (function, bytes) in [("by_malloc", 100.0), ("by_calloc", 110.0), ("by_realloc", 120.0)] {
        let found = value_of(&folded, function);
        assert_eq!(found, 100.0 * bytes, "{function}: {:?}", folded.stacks);
    }
}

/// With `-a`, only the C library's functions were watched. Beside compilers, which allocate a million times a second, stacks are
/// sampled: each function has to appear in some.
#[test]
fn memory_of_other_allocators_counts_on_the_whole_machine() {
    let name = "memory_of_other_allocators_counts_on_the_whole_machine";
    let Some((folder, program)) = program(name, "own_allocators.c") else { return };
    let _turn = turn();
    // Other tests run the same program.
    let own = folder.path().join("on_the_machine");
    std::fs::rename(&program, &own).expect("a folder");
    let out = folder.path().join("out.folded");
    let arguments = ["LATE=1", "TIMES=30000", path_text(&own)];
    let (folded, _) = record_to(&out, Path::new("/usr/bin/env"), &arguments, &["-a", "--alloc"]);
    let is_own = |stack: &[String]| stack.first().is_some_and(|comm| comm == "on_the_machine");
    let own = folded.stacks.iter().filter(|(stack, _)| is_own(stack));
    let found: BTreeSet<&str> = own.flat_map(|(stack, _)| stack).map(String::as_str).collect();
    let missing: Vec<_> = OWN.iter().filter(|(function, _)| !found.contains(function)).collect();
    assert!(missing.is_empty(), "{missing:?}: {found:?}");
}

/// Compiles a program's source as a library, in a folder of its own.
fn library(flags: &[&str], source: &str, folder: &Path) -> PathBuf {
    let folder = folder.join("library");
    std::fs::create_dir(&folder).expect("a folder");
    let flags = [&["gcc", "-O2", "-g", "-shared", "-fPIC"], flags].concat();
    compile(&flags, source, &folder)
}

/// Lock for tests whose programs wait for breakpoints: a recorder of the whole machine beside them puts some into the same files, and
/// a program would start before those of its own recorder are there.
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
