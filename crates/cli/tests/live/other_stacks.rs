//! Programs that leave a thread's stack for another, or unwind it themselves: signal handlers with a
//! stack of their own, coroutines, exceptions, Go's scheduler. Their stacks must be whole with either engine, and as
//! they are known to be. The trees stand at the top of each program.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Folded, compile, is_root, pyrograph, run, sharp, slice, tolerance};

/// Frames in place of a stack's outer part.
const MARKS: [&str; 3] = ["[truncated]", "[unwinding failed]", "[user stack unreadable]"];

fn record(program: &Path, rounds: &str, engine: &str) -> Folded {
    let folded = program.with_extension("folded");
    run(pyrograph()
        .args(["record", "-u", "-F", "4999", "--count", "samples", "--engine", engine, "-o"])
        .arg(&folded)
        .arg("--")
        .args([program.as_os_str(), rounds.as_ref()]));
    // Copies of stacks need much room at this rate.
    Folded::read(&folded).without_lost(sharp(25.0, 5.0))
}

/// Checks the share of whole stacks, and of those that end with each of these paths.
fn check(folded: &Folded, engine: &str, whole: f64, paths: &[(&[&str], f64)]) {
    assert!(folded.total() > 100.0, "{engine}: {} samples", folded.total());
    let context = || format!("{engine}: {:?}", folded.leaves());
    let cut = folded.share(|stack| stack.iter().any(|frame| MARKS.contains(&frame.as_str())));
    let most = 99.5 - whole + tolerance(whole, folded.total());
    assert!(cut <= most, "{cut:.2} % not whole, {}", context());
    for (path, percent) in paths {
        let ends_with = |stack: &[String]| {
            let tail = stack.len().checked_sub(path.len()).map(|from| &stack[from..]);
            tail.is_some_and(|tail| tail.iter().eq(path.iter()))
        };
        folded.check_share(&format!("{engine}: {}", path.join(" → ")), *percent, ends_with);
    }
}

/// Tests with each engine that can be used here.
fn with_each_engine(test: &str, check: impl Fn(&str)) {
    let engines: &[&str] = if is_root(test) { &["perf", "ebpf"] } else { &["perf"] };
    engines.iter().for_each(|engine| check(engine));
}

#[test]
fn cpp_exceptions_are_whole_while_they_are_thrown() {
    let folder = tempfile::tempdir().expect("a folder");
    let program =
        compile(&["g++", "-O2", "-g", "-fomit-frame-pointer"], "raises.cpp", folder.path());
    with_each_engine("exceptions, counted in the kernel", |engine| {
        let folded = record(&program, "4000", engine);
        check(&folded, engine, 99.0, &[]);
        let in_runtime = folded.total_share("_Unwind_Resume");
        assert!(in_runtime > 30.0, "{engine}: {in_runtime:.1} % {:?}", folded.leaves());
        assert!(folded.total_share("main") > 98.0, "{engine}: {:?}", folded.leaves());
    });
}

#[test]
fn signal_handlers_with_a_stack_of_their_own_have_callers() {
    let folder = tempfile::tempdir().expect("a folder");
    let program =
        compile(&["gcc", "-O2", "-g", "-fomit-frame-pointer"], "own_stack.c", folder.path());
    let trampoline = "__restore_rt";
    let paths: &[(&[&str], f64)] = &[
        (&["main", "one"], 10.0),
        (&["main", "one", trampoline, "handler"], 10.0),
        (&["main", "one", trampoline, "handler", "handled"], 20.0),
        (&["main", "two"], 30.0),
        (&["main", "two", trampoline, "handler"], 10.0),
        (&["main", "two", trampoline, "handler", "handled"], 20.0),
    ];
    with_each_engine("signal stacks, counted in the kernel", |engine| {
        let folded = record(&program, "10", engine);
        match engine {
            // The other stack is read from the process milliseconds later, when another signal may have come: such
            // stacks are marked. Those that are not are as true as all others.
            "perf" => {
                check(&folded, engine, 60.0, &[]);
                let handled = |by: &str| {
                    folded.share(|stack| {
                        stack.iter().any(|it| it == by) && stack.iter().any(|it| it == "handler")
                    })
                };
                let (one, two) = (handled("one"), handled("two"));
                let part = 100.0 * one / (one + two);
                // Each handler is interrupted as a whole, or not: there are 20.
                assert!((part - 50.0).abs() < 20.0, "{one:.1} and {two:.1} %");
            }
            _ => check(&folded, engine, 99.0, paths),
        }
    });
}

/// The callers of a recursion that is deeper than a copy are among the first frames, which the kernel copies, too. The
/// other engine reads them later, and says so.
#[test]
fn shares_of_recursions_deeper_than_a_copy_have_their_own_callers() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["gcc", "-O2", "-g", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"];
    let program = compile(&flags, "depth.c", folder.path());
    with_each_engine("deep recursion, counted in the kernel", |engine| {
        let folded = program.with_extension("folded");
        let output = run(pyrograph()
            .args(["record", "-u", "-F", "499", "--count", "samples", "--engine", engine, "-o"])
            .arg(&folded)
            .arg("--")
            .arg(&program)
            .args(["10000", sharp("120", "250")]));
        let said = String::from_utf8_lossy(&output.stderr);
        let folded = Folded::read(&folded);
        let share = |way: &str, end: &str| {
            folded.share(|stack| {
                stack.iter().any(|it| it == way) && stack.last().is_some_and(|it| it == end)
            })
        };
        let whole = folded.share(|stack| stack.len() > 1000 && stack.iter().any(|it| it == "main"));
        // They are completed from the running process, if the recorder has a CPU in time: none were before.
        let least = if engine == "ebpf" { sharp(10.0, 95.0) } else { sharp(1.0, 60.0) };
        assert!(whole > least, "{engine}: {whole:.1} % whole, {said}");
        let crossed = share("left", "ground") + share("right", "bottom");
        if engine == "ebpf" {
            assert!(crossed < 0.5, "{crossed:.1} % with callers of another moment");
            let (left, right) = (share("left", "bottom"), share("right", "ground"));
            let (found, part) = (left + right, 100.0 * left / (left + right));
            // What goes down takes a part, too.
            let most = tolerance(70.0, folded.total() * found / 100.0) + 2.0;
            assert!((part - 70.0).abs() < most, "{part:.1} % of {found:.1} %");
        } else {
            assert!(said.contains("of recursions deeper than the copy"), "{said}");
        }
    });
}

/// The recorder looked for copies ten times a second, when threads of 0.1 to 0.3 ms had ended: 1 % of their stacks
/// were whole.
#[test]
fn shares_of_stacks_that_are_longer_than_a_copy_are_read_at_once() {
    if !is_root("short threads with a large frame") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let flags =
        ["gcc", "-O2", "-g", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-pthread"];
    let program = compile(&flags, "wide_frame.c", folder.path());
    let folded = record(&program, "3000", "ebpf");
    let has = |stack: &[String], name: &str| stack.iter().any(|it| it == name);
    let deep = folded.share(|stack| has(stack, "recurses"));
    let whole = folded.share(|stack| has(stack, "left") || has(stack, "right"));
    assert!(deep > 80.0, "{deep:.1} % in recursions");
    // How soon the recorder gets a CPU is the machine's affair: on one that does nothing else a third is whole.
    let least = sharp(0.03, 0.1);
    assert!(whole > least * deep, "{whole:.1} of {deep:.1} % whole");
}

#[test]
fn coroutines_of_ucontext_have_their_shares_and_begin_where_they_were_made_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let program =
        compile(&["gcc", "-O2", "-g", "-fomit-frame-pointer"], "hands_over.c", folder.path());
    let paths: &[(&[&str], f64)] =
        &[(&["first"], 20.0), (&["first", "deep"], 40.0), (&["second"], 40.0)];
    with_each_engine("coroutines, counted in the kernel", |engine| {
        check(&record(&program, sharp("1500", "6000"), engine), engine, 99.0, paths);
    });
}

#[test]
#[ignore = "nightly: other coroutines are recorded each time"]
fn boost_fibers_have_their_shares_and_begin_where_they_were_made_to() {
    let headers = "#include <boost/fiber/all.hpp>";
    let test = format!("echo '{headers}' | g++ -x c++ -fsyntax-only -");
    if !Command::new("sh").args(["-c", &test]).output().is_ok_and(|tried| tried.status.success()) {
        eprintln!(
            "skipped: boost_fibers_have_their_shares_and_begin_where_they_were_made_to needs libboost-fiber-dev"
        );
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("fibers");
    run(Command::new("g++")
        .args(["-O2", "-g", "-fomit-frame-pointer", "-o"])
        .arg(&program)
        .arg(crate::common::program_source("yields.cpp"))
        .args(["-lboost_fiber", "-lboost_context", "-lpthread"]));
    let paths: &[(&[&str], f64)] =
        &[(&["first"], 20.0), (&["first", "deep"], 40.0), (&["second"], 40.0)];
    with_each_engine("fibers, counted in the kernel", |engine| {
        check(&record(&program, sharp("1500", "6000"), engine), engine, 99.0, paths);
    });
}

/// Builds the Go program; none if Go is not installed.
fn go_program(test: &str, folder: &Path, flags: &[&str]) -> Option<PathBuf> {
    build_go(test, "requests", folder, flags)
}

fn build_go(test: &str, name: &str, folder: &Path, flags: &[&str]) -> Option<PathBuf> {
    if !Command::new("go").arg("version").output().is_ok_and(|tried| tried.status.success()) {
        eprintln!("skipped: {test} needs golang-go");
        return None;
    }
    let program = folder.join(name);
    run(Command::new("go")
        .env("GO111MODULE", "off")
        .arg("build")
        .args(flags)
        .arg("-o")
        .arg(&program)
        .arg(crate::common::program_source(&format!("{name}.go"))));
    Some(program)
}

fn check_go(folded: &Folded, engine: &str) {
    // What runs on the stack of the thread for a goroutine, as the collector does at times, has its callers on that of the
    // goroutine, of which there is no copy.
    let whole = if engine == "perf" { 85.0 } else { 99.0 };
    check(folded, engine, whole, &[]);
    let ends = |path: &[&str]| {
        folded.share(|stack| {
            let tail = stack.len().checked_sub(path.len()).map(|from| &stack[from..]);
            tail.is_some_and(|tail| tail.iter().eq(path.iter()))
        })
    };
    let (direct, deep) = (ends(&["main.work", "main.spin"]), ends(&["main.deep", "main.spin"]));
    let part = 100.0 * deep / (deep + direct);
    let context = || format!("{engine}: {direct} and {deep}, {:?}", folded.leaves());
    let most = 1.0 + tolerance(66.7, folded.total() * (deep + direct) / 100.0);
    assert!((part - 66.7).abs() < most, "{}", context());
    // Goroutines, threads and the scheduler begin in one of these.
    let roots = ["runtime.goexit", "runtime.mcall", "runtime.mstart"];
    let is_root = |frame: &String| roots.contains(&frame.trim_end_matches(".abi0"));
    let begun = folded.share(|stack| stack.iter().take(2).any(is_root));
    assert!(begun > whole - 2.0, "{begun:.1} %, {}", context());
}

#[test]
#[ignore = "nightly: other programs of Go are recorded each time"]
fn shares_of_go_services_are_whole_up_to_where_the_scheduler_begins() {
    let folder = tempfile::tempdir().expect("a folder");
    let test = "shares_of_go_services_are_whole_up_to_where_the_scheduler_begins";
    let Some(program) = go_program(test, folder.path(), &[]) else { return };
    with_each_engine("Go, counted in the kernel", |engine| {
        check_go(&record(&program, sharp("800", "4000"), engine), engine);
    });
}

#[test]
fn stripped_go_has_its_names_stacks_and_shares() {
    let folder = tempfile::tempdir().expect("a folder");
    let test = "stripped_go_has_its_names_stacks_and_shares";
    for &flags in slice(&[&["-ldflags=-s -w", "-buildmode=pie"][..], &["-ldflags=-s -w"]], 1) {
        let Some(program) = go_program(test, folder.path(), flags) else { return };
        with_each_engine("stripped Go, counted in the kernel", |engine| {
            check_go(&record(&program, sharp("800", "4000"), engine), engine);
        });
    }
}

#[test]
fn waiting_threads_of_go_are_whole() {
    let test = "waiting_threads_of_go_are_whole";
    if !is_root(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = go_program(test, folder.path(), &[]) else { return };
    for question in ["--wall", "--off-cpu"] {
        let folded = program.with_extension("folded");
        let output = run(pyrograph()
            .args(["record", "-u", question, "--count", "samples", "-o"])
            .arg(&folded)
            .arg("--")
            .args([program.as_os_str(), "800".as_ref()]));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("threads of Go's that wait for work"), "{said}");
        check(&Folded::read(&folded), question, 99.0, &[]);
    }
}

/// As long as the program's own clock says, wherever a goroutine waits, though its thread runs others meanwhile.
#[test]
fn waits_of_goroutines_are_as_long_as_they_are() {
    let test = "waits_of_goroutines_are_as_long_as_they_are";
    if !is_root(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for flags in [&[][..], &["-ldflags=-s -w", "-buildmode=pie"]] {
        let Some(program) = build_go(test, "parks", folder.path(), flags) else { return };
        let folded = program.with_extension("folded");
        let output = run(pyrograph()
            .args(["record", "--goroutines", "-o"])
            .arg(&folded)
            .arg("--")
            .arg(&program));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains("waits of goroutines") && said.contains(", 0 lost, all stacks whole"),
            "{said}"
        );
        let folded = Folded::read(&folded);
        let sum =
            |wanted: &dyn Fn(&[String]) -> bool| folded.share(wanted) * folded.total() / 100.0;
        let printed = String::from_utf8_lossy(&output.stdout);
        for line in printed.lines() {
            let (name, known) = line.split_once(' ').expect("a name and a time");
            let known: f64 = known.parse().expect("nanoseconds");
            let function = format!("main.{name}");
            let found = sum(&|stack| {
                stack.contains(&function)
                    && stack.last().is_some_and(|leaf| leaf == "runtime.gopark")
            });
            // Between its clock and the wait it may have to wait for a CPU: six goroutines a round.
            assert!(
                found > 0.85 * known && found < 1.02 * known + 2e6,
                "{function}: {found} of {known}: {said}"
            );
        }
        assert!(printed.lines().count() == 7, "{printed}");
        // Of the runtime's own there are none, and the main goroutine's are.
        let starts = |name: &str| sum(&|stack| stack.iter().any(|frame| frame == name));
        assert!(starts("runtime.bgsweep") == 0.0 && starts("runtime.main") > 0.0);
    }
}

#[test]
fn goroutines_of_what_is_not_gos_are_refused() {
    let refused = |arguments: &[&str]| {
        let output = pyrograph().args(["record", "--goroutines"]).args(arguments).output();
        let output = output.expect("pyrograph runs");
        (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code())
    };
    let (said, code) = refused(&["--", "true"]);
    assert!(said.contains("is not a program of Go") && code == Some(1), "{said}");
    let (said, code) = refused(&["-a", "-d", "1"]);
    assert!(said.contains("of a command or of one process") && code == Some(2), "{said}");
}

/// C runs on the stack of the thread: its callers are on that of the goroutine, where Go is when C calls it, too.
#[test]
fn callers_of_c_are_those_on_the_stack_of_the_goroutine() {
    let test = "callers_of_c_are_those_on_the_stack_of_the_goroutine";
    let folder = tempfile::tempdir().expect("a folder");
    let all = [&["-buildmode=exe"][..], &["-buildmode=pie", "-ldflags=-s -w"]];
    for &flags in slice(&all, 1) {
        for name in ["main.go", "burn.c", "burn.h"] {
            let source = crate::common::program_source(&format!("cgo/{name}"));
            std::fs::copy(source, folder.path().join(name)).expect("a file");
        }
        let mut build = Command::new("go");
        build.arg("build").args(flags).args(["-o", "calls"]).current_dir(folder.path());
        build.envs([("GO111MODULE", "off"), ("GOTOOLCHAIN", "local"), ("CGO_ENABLED", "1")]);
        let Ok(built) = build.status() else {
            eprintln!("skipped: {test} needs golang-go");
            return;
        };
        assert!(built.success());
        if !is_root(test) {
            return;
        }
        let folded = record(&folder.path().join("calls"), sharp("1000", "5000"), "ebpf");
        let context = || format!("{flags:?}: {:?}", folded.stacks);
        for (function, expected) in [("main.one", 20.0), ("main.two", 40.0), ("main.back", 40.0)] {
            let found = folded.total_share(function);
            let most = 1.0 + tolerance(expected, folded.total());
            assert!((found - expected).abs() < most, "{function}: {found:.1} %, {}", context());
        }
        let in_order = |stack: &[String]| {
            let mut frames = stack.iter();
            ["runtime.main", "main.main", "runtime.cgocall"]
                .iter()
                .all(|of| frames.any(|frame| frame.trim_end_matches(".abi0") == *of))
        };
        // Where Go's own threads and its scheduler begin: the longer it runs, the more these have.
        let is_of_runtime = |stack: &[String]| {
            let begin = stack.get(1).map(|frame| frame.trim_end_matches(".abi0"));
            ["_start", "runtime.mcall", "runtime.mstart", "runtime.rt0_go"]
                .map(Some)
                .contains(&begin)
        };
        let whole = folded.share(in_order) / (100.0 - folded.share(is_of_runtime)) * 100.0;
        assert!(whole > 98.0, "{whole:.1} %, {}", context());
    }
}

/// The jitdump file has the only tables of this code; its frame pointer is 0, and guesses are refused.
#[test]
#[cfg(target_arch = "x86_64")]
fn code_made_at_run_time_is_unwound_by_the_tables_of_its_jitdump_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let program =
        compile(&["gcc", "-O2", "-g", "-fomit-frame-pointer"], "jit_tables.c", folder.path());
    with_each_engine("code made at run time, counted in the kernel", |engine| {
        let folded = program.with_extension("folded");
        run(pyrograph()
            .args(["record", "-u", "-F", "4999", "--no-guess", "--count", "samples"])
            .args(["--engine", engine, "-o"])
            .arg(&folded)
            .arg("--")
            .args([program.as_os_str(), "3000".as_ref()])
            .current_dir(folder.path()));
        let folded = Folded::read(&folded);
        let outer = ["main", "work", "outer"];
        let inner = ["main", "work", "outer", "inner"];
        check(&folded, engine, 99.0, &[(&outer, 25.0), (&inner, 75.0)]);
    });
}
