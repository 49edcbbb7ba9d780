//! Programs whose code has no unwind tables in part: libgmp's assembly, musl, functions of our own. A stack through
//! them is a guess, which must be right, and is marked. The known shares stand at the top of each program.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::in_kernel::Running;
use crate::common::{
    Folded, compile, is_root, program_source, pyrograph, record_until, run, sharp, tolerance,
};

/// The least share of stacks, in percent, that are whole.
const WHOLE: f64 = 99.0;

const FLAGS: [&str; 4] = ["-O2", "-g", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"];

/// The mark of a guess behind a frame's name.
const GUESS: &str = "_[g]";

/// Records a program that runs already, for a while.
fn attach(program: &mut Command, engine: &str, flags: &[&str], folder: &Path) -> Folded {
    let running = Running(program.stdin(Stdio::null()).spawn().expect("the program starts"));
    let folded = folder.join("out.folded");
    let record = |seconds: &str| {
        run(pyrograph()
            .args(["record", "-u", "-F", "4999", "--count", "samples", "-d", seconds])
            .args(["--engine", engine, "-o"])
            .arg(&folded)
            .args(["-p", &running.0.id().to_string()])
            .args(flags));
        Folded::read(&folded)
    };
    // One standard deviation of a quarter is a point at most.
    record_until(|folded| folded.total() >= sharp(2000.0, 12_000.0), record)
}

/// Returns true if a stack has these functions in this order; others may lie between them.
fn leads_through(stack: &[String], path: &[&str]) -> bool {
    let mut frames = stack.iter();
    path.iter().all(|function| frames.any(|frame| frame.trim_end_matches(GUESS) == *function))
}

/// Checks that stacks are whole, and the shares of paths.
fn check(folded: &Folded, context: &str, paths: &[(&[&str], f64)]) {
    let context = || format!("{context}: {:?}", folded.leaves());
    let whole = folded.share(|stack| leads_through(stack, &["main"]));
    // musl has a frame of 7,568 bytes where it prints numbers: by perf_event, what is outside of it may lie beyond the copy, and be
    // read from the process later, when it is another.
    let whole_at_least = sharp(95.0, WHOLE);
    let least = whole_at_least + 0.5 - tolerance(whole_at_least, folded.total());
    assert!(whole >= least, "{whole:.1} % whole, {}", context());
    for (path, known) in paths {
        // Those that are not whole may all be of one path.
        let (share, most) =
            (folded.share(|stack| leads_through(stack, path)), tolerance(*known, folded.total()));
        let is_known = (known - most - (100.0 - whole)..=known + most).contains(&share);
        assert!(
            is_known,
            "{path:?}: {share:.1} % and not {known} ± {most:.1}, {whole:.1} % whole, {}",
            context()
        );
    }
}

/// Records a program with each engine that is permitted.
fn each_engine(test: &str, program: &[&Path], check: impl Fn(&Folded, &str)) {
    let folder = program[0].parent().expect("a folder");
    for engine in ["perf", "ebpf"] {
        if engine == "ebpf" && !is_root(&format!("{test}, in the kernel")) {
            continue;
        }
        let mut command = Command::new(program[0]);
        command.args(&program[1..]);
        check(&attach(&mut command, engine, &["--mark-guesses"], folder), engine);
    }
}

const QUARTERS: &[(&[&str], f64)] = &[(&["often"], 75.0), (&["seldom"], 25.0)];

/// Assembly that has no tables, and uses the frame pointer for something else: 0, half of the time.
#[test]
#[cfg(target_arch = "x86_64")]
fn callers_of_bare_assembly_have_their_shares_and_are_marked_as_guesses() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&[&["gcc"], &FLAGS[..]].concat(), "bare.c", folder.path());
    let paths: &[(&[&str], f64)] = &[
        (&["often", "outer", "inner"], 45.0),
        (&["often", "outer"], 60.0),
        (&["seldom", "outer", "inner"], 15.0),
        (&["seldom", "outer"], 20.0),
        (&["often", "leaf"], 15.0),
        (&["seldom", "leaf"], 5.0),
    ];
    each_engine("bare assembly", &[&program], |folded, engine| {
        check(folded, engine, paths);
        // A guess is what lies outside of code without a table: neither that code itself, if it runs, nor `main`, which
        // the table of `often` leads to.
        let marked = |function: &str| folded.total_share(&format!("{function}{GUESS}"));
        let context = || format!("{engine}: {:?}", folded.stacks);
        for (function, known) in [("outer", 60.0), ("often", 75.0)] {
            let guess = format!("{function}{GUESS}");
            let is_marked = |stack: &[String]| stack.contains(&guess);
            folded.check_share(&format!("{engine}: {guess}"), known, is_marked);
        }
        for function in ["inner", "leaf", "main"] {
            assert!(marked(function) < 0.1, "{function}: {} %, {}", marked(function), context());
        }
    });
}

/// Such code is read piece by piece, on a thread of its own where the kernel takes the samples; stacks wait for it.
#[test]
#[cfg(target_arch = "x86_64")]
fn callers_through_much_code_without_tables_have_their_shares() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&["gcc", "-O1"], "much_code.c", folder.path());
    let path = |chain: &str| [0, 1, 35, 69, 70].map(|at| format!("{chain}_{at}"));
    let paths = [(path("sixty"), 60.0), (path("thirty"), 30.0), (path("ten"), 10.0)];
    let paths = paths.each_ref().map(|(path, known)| (path.each_ref().map(String::as_str), known));
    let paths = paths.each_ref().map(|(path, known)| (&path[..], **known));
    each_engine("much code", &[&program], |folded, engine| check(folded, engine, &paths));
}

/// Code is read once: a file with anything new in it would be written anew. Beside other work not all of it runs in the first recording.
#[test]
#[cfg(target_arch = "x86_64")]
fn code_that_was_read_is_known_to_the_next_recording() {
    if !is_root("code_that_was_read_is_known_to_the_next_recording") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&["gcc", "-O1"], "much_code.c", folder.path());
    let running = Running(Command::new(&program).spawn().expect("the program starts"));
    let (cache, out) = (folder.path().join("cache"), folder.path().join("out.folded"));
    std::fs::create_dir(&cache).expect("a folder");
    let record = |seconds: &str| {
        let pid = running.0.id().to_string();
        let args = ["record", "--engine", "ebpf", "-F", "999", "-d", seconds, "-p", &pid, "-o"];
        run(pyrograph().env("XDG_CACHE_HOME", &cache).args(args).arg(&out));
        Folded::read(&out)
    };
    let kept = || {
        let files = std::fs::read_dir(cache.join("pyrograph/code")).expect("a folder");
        let files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        let data = std::fs::metadata(&files[0]).expect("it was written");
        (data.ino(), data.modified().expect("a time"))
    };
    // Each stack leads through all code of one of three chains.
    record_until(|folded| folded.total() > 2e8, record);
    let mut known = kept();
    let reads_nothing = |_| {
        let folded = record_until(|folded| folded.total() > 1e8, record);
        let before = std::mem::replace(&mut known, kept());
        (known == before).then_some(folded)
    };
    let folded = (0..5).find_map(reads_nothing).expect("code is not read again each time");
    let whole = folded.share(|stack| leads_through(stack, &["main"]));
    assert!(whole >= WHOLE, "{whole:.1} % whole: {:?}", folded.leaves());
}

#[test]
#[cfg(target_arch = "x86_64")]
fn refused_guesses_leave_nothing_marked_and_nothing_guessed() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&[&["gcc"], &FLAGS[..]].concat(), "bare.c", folder.path());
    for engine in ["perf", "ebpf"] {
        if engine == "ebpf" && !is_root("refused guesses, in the kernel") {
            continue;
        }
        let flags = ["--no-guess", "--mark-guesses"];
        let folded = attach(&mut Command::new(&program), engine, &flags, folder.path());
        assert!(folded.total() > 0.0, "{engine}");
        let guessed = folded.share(|stack| stack.iter().any(|frame| frame.ends_with(GUESS)));
        assert_eq!(guessed, 0.0, "{engine}: {:?}", folded.leaves());
        let inner = folded.share(|stack| leads_through(stack, &["often", "outer", "inner"]));
        assert_eq!(inner, 0.0, "{engine}: {:?}", folded.leaves());
    }
}

/// Returns true if a compiler can make programs with a library; says so if not.
fn can_build(test: &str, compiler: &[&str], source: &str, package: &str) -> bool {
    let command = format!("echo '{source}' | {} -x c -fsyntax-only -", compiler.join(" "));
    let output = Command::new("sh").args(["-c", &command]).output();
    let can = output.is_ok_and(|output| output.status.success());
    if !can {
        eprintln!("skipped: {test} needs {package}");
    }
    can
}

#[test]
fn callers_of_libgmp_have_their_shares() {
    let test = "callers_of_libgmp_have_their_shares";
    if !can_build(test, &["gcc"], "#include <gmp.h>", "libgmp-dev") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("pi");
    run(Command::new("gcc")
        .args(FLAGS)
        .arg("-o")
        .arg(&program)
        .arg(program_source("pi.c"))
        .arg("-lgmp"));
    each_engine(test, &[&program], |folded, engine| check(folded, engine, QUARTERS));
}

fn build_with_musl(output: &Path, flags: &[&str]) {
    let mut compiler = Command::new("musl-gcc");
    compiler.args(FLAGS).args(flags).arg("-o").arg(output).arg(program_source("libc.c"));
    run(&mut compiler);
}

/// musl has no unwind table at all: neither its `memcpy`, nor its `snprintf`, nor what calls `main`.
#[test]
#[ignore = "nightly: other programs without tables are recorded each time"]
fn callers_in_musl_have_their_shares() {
    let test = "callers_in_musl_have_their_shares";
    if !can_build(test, &["musl-gcc"], "", "musl-tools") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for flags in [&["-static"][..], &[]] {
        let program = folder.path().join("libc");
        build_with_musl(&program, flags);
        each_engine(test, &[&program], |folded, engine| {
            let context = format!("{engine}, {flags:?}");
            check(folded, &context, QUARTERS);
            for (caller, function) in [("copies", "memcpy"), ("prints", "snprintf")] {
                let often =
                    folded.share(|stack| leads_through(stack, &["often", caller, function]));
                let all = folded.share(|stack| leads_through(stack, &[caller, function]));
                let part = 100.0 * often / all;
                let most = tolerance(75.0, folded.total() * all / 100.0);
                assert!((part - 75.0).abs() <= most, "{function}: {part} %, {context}");
            }
        });
    }
}

/// The program's files are those of its own root folder.
#[test]
fn callers_in_a_chroot_have_their_shares() {
    let test = "callers_in_a_chroot_have_their_shares";
    if !is_root(test) || !can_build(test, &["musl-gcc"], "", "musl-tools") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let library = folder.path().join("lib");
    std::fs::create_dir(&library).expect("a folder");
    let loaders = std::fs::read_dir("/lib").expect("the folder of libraries");
    let loaders = loaders.filter_map(|entry| Some(entry.ok()?.path()));
    let is_loader = |path: &PathBuf| path.to_string_lossy().contains("/ld-musl-");
    let loader = loaders.into_iter().find(is_loader).expect("musl's loader");
    std::fs::copy(&loader, library.join(loader.file_name().expect("a name"))).expect("a copy");
    let program = folder.path().join("libc");
    build_with_musl(&program, &[]);
    for engine in ["perf", "ebpf"] {
        let mut command = Command::new("chroot");
        command.arg(folder.path()).arg("/libc");
        let folded = attach(&mut command, engine, &["--mark-guesses"], folder.path());
        check(&folded, engine, QUARTERS);
    }
}

/// The callers of a function of glibc, which has tables: nothing is a guess.
#[test]
fn shares_with_tables_have_no_guess() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&[&["gcc"], &FLAGS[..]].concat(), "libc.c", folder.path());
    each_engine("tables everywhere", &[&program], |folded, engine| {
        check(folded, engine, QUARTERS);
        let guessed = folded.share(|stack| stack.iter().any(|frame| frame.ends_with(GUESS)));
        assert!(guessed < 0.1, "{engine}: {guessed} %");
    });
}
