//! `pyrograph record` of Java, whose frames and methods are read from the virtual machine's memory: of each version that is
//! there, interpreted, compiled, and both, without `-XX:+PreserveFramePointer`.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::in_kernel::Running;
use crate::common::interpreters::interpreters;
use crate::common::{
    Folded, compile_java, is_root, program_source, pyrograph, run, sharp, slice, tolerance,
};

const SPLIT: [(&str, f64); 3] = [
    ("int Calls.six(int, int)", 60.0),
    ("int Calls.three(int, int)", 30.0),
    ("int Calls.compare(java.lang.Integer, java.lang.Integer)", 10.0),
];

const CHAIN: [&str; 4] = [
    "void Calls.main(java.lang.String[])",
    "int Calls.first(int)",
    "int Calls.second(int)",
    "int Calls.third(int)",
];

/// So many points are what was interpreted at first.
const POINTS: f64 = 2.0;

/// Runs a test with a folder that holds a compiled program, for each virtual machine of a version that is read.
fn with_each(test: &str, program: &str, body: impl Fn(&Path, &str, &Path)) {
    if !is_root(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    if !compile_java(&format!("{program}.java"), folder.path()) {
        eprintln!("skipped: {test} needs a JDK");
        return;
    }
    for (name, java) in interpreters("java", "java") {
        body(folder.path(), &name, &java);
    }
}

/// Records a program with its arguments; returns stacks, and what was said.
fn record(
    folder: &Path,
    java: &Path,
    options: &[&str],
    words: [&str; 3],
    flags: &[&str],
) -> (Folded, String) {
    let out: PathBuf = folder.join("out.folded");
    let mut recorder = pyrograph();
    recorder
        .args(["record", "-v", "--count", "samples", "--engine", "ebpf", "-o"])
        .arg(&out)
        .args(flags);
    if !flags.contains(&"--off-cpu") {
        recorder.args(["-F", "1999"]);
    }
    recorder.arg("--").arg(java);
    recorder.args(options).arg("-cp").arg(folder).args(words);
    let Output { stderr, .. } = run(&mut recorder);
    (Folded::read(&out), String::from_utf8(stderr).expect("text"))
}

fn has(stack: &[String], name: &str) -> bool {
    stack.iter().any(|frame| frame.starts_with(name))
}

/// The share of stacks in Java that lead to the thread's root.
fn whole(folded: &Folded) -> f64 {
    let is_java = |stack: &[String]| {
        stack.iter().any(|frame| frame.contains(" Calls.") || frame.contains(" java."))
    };
    let is_whole = |stack: &[String]| {
        is_java(stack) && has(stack, CHAIN[0]) && !stack.iter().any(|frame| frame.starts_with('['))
    };
    100.0 * folded.share(is_whole) / folded.share(is_java)
}

/// Compilers that take turns; one alone; none.
const COMPILERS: [&[&str]; 3] = [&[], &["-XX:TieredStopAtLevel=1"], &["-Xint"]];

#[test]
fn methods_have_their_shares_and_stacks_their_roots() {
    with_each("methods_have_their_shares_and_stacks_their_roots", "Calls", |folder, name, java| {
        for &options in slice(&COMPILERS, 1) {
            let (folded, said) = record(
                folder,
                java,
                options,
                ["Calls", "split", sharp("4", "5")],
                &["--no-attach"],
            );
            let shares = SPLIT.map(|(name, _)| folded.self_share(name));
            let sum: f64 = shares.iter().sum();
            let context = || {
                format!("{name} {options:?}: {shares:?} of {sum}: {:?}\n{said}", folded.leaves())
            };
            assert!(sum > 40.0, "{}", context());
            let samples = folded.total() * sum / 100.0;
            for (share, (_, expect)) in shares.iter().zip(SPLIT) {
                let points = POINTS + tolerance(expect, samples);
                assert!((100.0 * share / sum - expect).abs() <= points, "{}", context());
            }
            assert!(whole(&folded) >= 95.0, "{} % whole, {}", whole(&folded), context());
            // The comparator is called by the sort.
            let sorted = |stack: &[String]| {
                let sort = stack.iter().position(|frame| frame.contains("Arrays.sort"));
                let compare = stack.iter().position(|frame| frame == SPLIT[2].0);
                compare.is_some() && sort < compare && sort.is_some()
            };
            let called = folded.share(|stack| has(stack, SPLIT[2].0));
            // Code that is soon replaced by better code may have no name: with JDK 25, 7 % of these stacks in one of four
            // recordings.
            assert!(folded.share(sorted) >= sharp(0.8, 0.99) * called, "{}", context());
        }
    });
}

/// With the methods put into each other, each in another way: all, none, and one of them interpreted.
#[test]
fn shares_of_methods_that_were_put_into_others_are_in_order() {
    let ways: [&[&str]; 4] = [
        &["-XX:CompileCommand=quiet", "-XX:CompileCommand=inline,Calls.*"],
        &["-XX:CompileCommand=quiet", "-XX:CompileCommand=exclude,Calls.second"],
        &["-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Calls.*"],
        &["-Xint"],
    ];
    with_each(
        "shares_of_methods_that_were_put_into_others_are_in_order",
        "Calls",
        |folder, name, java| {
            for &options in slice(&ways, 2) {
                let (folded, said) =
                    record(folder, java, options, ["Calls", "chain", "1"], &["--no-attach"]);
                let third = folded.share(|stack| has(stack, CHAIN[3]));
                let ordered = folded.share(|stack| stack.windows(4).any(|part| part == CHAIN));
                let context =
                    || format!("{name} {options:?}: {third} %, {ordered} % in order\n{said}");
                assert!(third > 40.0, "{}: {:?}", context(), folded.leaves());
                let is_other = |(stack, _): &&(Vec<String>, f64)| {
                    has(stack, CHAIN[3]) && !stack.windows(4).any(|part| part == CHAIN)
                };
                let others: Vec<_> = folded.stacks.iter().filter(is_other).take(5).collect();
                let least = sharp(0.9, 0.99);
                assert!(ordered >= least * third, "{}: {others:?}", context());
            }
        },
    );
}

/// The virtual machine's own options say in which kind of code the methods run.
#[test]
fn compiled_methods_were_said_to_be_interpreted() {
    let quiet = "-XX:CompileCommand=quiet";
    let ways: [(&[&str], [&str; 2]); 3] = [
        (&[quiet, "-XX:CompileCommand=inline,Calls.*"], ["_[j]", "_[i]"]),
        (&["-Xint"], ["", ""]),
        (&[quiet, "-XX:CompileCommand=dontinline,Calls.*"], ["_[j]", "_[j]"]),
    ];
    with_each("compiled_methods_were_said_to_be_interpreted", "Calls", |folder, name, java| {
        for &(options, [first, second]) in slice(&ways, 2) {
            let flags = ["--no-attach", "--annotate"];
            let (folded, said) = record(folder, java, options, ["Calls", "chain", "1"], &flags);
            let expected = [format!("{}{first}", CHAIN[1]), format!("{}{second}", CHAIN[2])];
            let all = folded.share(|stack| has(stack, CHAIN[3]));
            let is_so = |stack: &[String]| expected.iter().all(|name| stack.contains(name));
            let found = folded.share(is_so);
            // What was interpreted at first.
            assert!(
                all > 40.0 && found >= 0.8 * all,
                "{name} {options:?}: {found} of {all} %: {:?}\n{said}",
                folded.leaves()
            );
        }
    });
}

#[test]
fn lines_are_those_of_the_calls() {
    let source = std::fs::read_to_string(program_source("Calls.java")).expect("a program");
    let line =
        |text: &str| 1 + source.lines().position(|line| line.contains(text)).expect("a line");
    let expected = [
        format!("{} (Calls.java:{})", CHAIN[0], line("sink += first(sink)")),
        format!("{} (Calls.java:{})", CHAIN[1], line("return second(x)")),
        format!("{} (Calls.java:{})", CHAIN[2], line("return third(x)")),
    ];
    with_each("lines_are_those_of_the_calls", "Calls", |folder, name, java| {
        for options in
            [&["-XX:CompileCommand=quiet", "-XX:CompileCommand=inline,Calls.*"][..], &["-Xint"]]
        {
            let flags = ["--no-attach", "--lines"];
            let (folded, said) = record(folder, java, options, ["Calls", "chain", "1"], &flags);
            let third = folded.share(|stack| has(stack, CHAIN[3]));
            let called = folded.share(|stack| stack.windows(3).any(|part| part == expected));
            assert!(
                third > 40.0 && called >= 0.98 * third,
                "{name} {options:?}: {called} of {third} %: {:?}\n{said}",
                folded.leaves()
            );
        }
    });
}

/// Threads that wait before the recording begins, and until after it ends, interpreted and compiled.
#[test]
fn threads_that_only_wait_have_their_methods() {
    let ways: [&[&str]; 2] = [
        &["-Xint"],
        &["-Xcomp", "-XX:CompileCommand=quiet", "-XX:CompileCommand=compileonly,Waits.*"],
    ];
    let waits = [
        ("void Waits.naps()", "void java.lang.Thread.sleep("),
        ("void Waits.waits()", "void java.lang.Object.wait("),
        ("void Waits.parks()", "void java.util.concurrent.locks.LockSupport.park("),
        ("void Waits.reads()", "int java.io.FileInputStream.readBytes("),
        ("void Waits.accepts()", "java.net.Socket java.net.ServerSocket.accept("),
    ];
    with_each("threads_that_only_wait_have_their_methods", "Waits", |folder, name, java| {
        for options in ways {
            let mut program = Command::new(java);
            program.args(options).arg("-cp").arg(folder).arg("Waits");
            let child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
            let mut child = Running(child.expect("it runs"));
            let mut byte = [0];
            child.0.stdout.as_mut().expect("a pipe").read_exact(&mut byte).expect("all wait");
            let out = folder.join("waits.folded");
            let pid = child.0.id().to_string();
            run(pyrograph()
                .args(["record", "--engine", "ebpf", "--off-cpu", "--no-attach", "-d", "0.5"])
                .args(["-p", &pid, "-o"])
                .arg(&out));
            let folded = Folded::read(&out);
            for (method, callee) in waits {
                // From the thread's root to the kernel, and at the leaf the kind of wait.
                let is_whole = |stack: &[String]| {
                    let at = |name: &str| stack.iter().position(|frame| frame.starts_with(name));
                    let chain =
                        ["void java.lang.Thread.run()", "void Waits.outer(", method, callee];
                    let places = chain.map(at);
                    places[0].is_some()
                        && places.is_sorted()
                        && at("start_thread") < places[0]
                        && at("entry_SYSCALL_64") > places[3]
                        && !stack[..stack.len() - 1].iter().any(|frame| frame.starts_with('['))
                };
                let found = folded.stacks.iter().any(|(stack, _)| is_whole(stack));
                assert!(found, "{name} {options:?} {method}: {:#?}", folded.stacks);
            }
        }
    });
}

/// Virtual threads have their methods down to the continuation, and their carriers' below, which wait, too. What lies between
/// is in the heap where they have gone on: that is marked.
#[test]
fn virtual_threads_are_on_their_carriers() {
    const METHODS: [(&str, f64); 3] = [
        ("void Virtual.six()", 60.0),
        ("void Virtual.three()", 30.0),
        ("void Virtual.one()", 10.0),
    ];
    const CARRIER: &str = "void java.util.concurrent.ForkJoinWorkerThread.run()";
    let is_virtual = |stack: &[String]| METHODS.iter().any(|(name, _)| has(stack, name));
    let is_carried = |stack: &[String]| {
        let at = |name: &str| stack.iter().position(|frame| frame.starts_with(name));
        let between = at("[frozen frames]").or(at("void java.lang.VirtualThread.run("));
        at(CARRIER).is_some() && between > at(CARRIER) && between < at("void Virtual.")
    };
    with_each("virtual_threads_are_on_their_carriers", "Virtual", |folder, name, java| {
        let version = name.strip_prefix("java-").and_then(|version| version.parse().ok());
        if version.is_none_or(|version: u32| version < 21) {
            return;
        }
        for &options in slice(&COMPILERS, 1) {
            let flags = ["--no-attach"];
            let (folded, said) = record(folder, java, options, ["Virtual", "2", "6"], &flags);
            let context = |what: &str| format!("{what}: {name} {options:?}: {said}");
            let all = folded.share(is_virtual);
            let samples = folded.total() * all / 100.0;
            for (method, expected) in METHODS {
                let found = 100.0 * folded.total_share(method) / all;
                let points = POINTS + tolerance(expected, samples);
                assert!((found - expected).abs() <= points, "{}", context(method));
            }
            let carried = folded.share(|stack| is_virtual(stack) && is_carried(stack));
            assert!(
                carried >= 0.95 * all && all > 30.0,
                "{}",
                context(&format!("{carried}, {all}"))
            );
            let frozen = folded.share(|stack| has(stack, "[frozen frames]"));
            assert!(frozen > 0.5 * all, "{}", context("they have gone on"));
            assert!(
                said.contains(" of virtual threads without the callers whose frames"),
                "{said}"
            );
        }
        let (folded, said) =
            record(folder, java, &[], ["Virtual", "1.5", "6"], &["--no-attach", "--off-cpu"]);
        let is_whole = |stack: &[String]| {
            let marks = ["[unwinding failed]", "[truncated]"];
            // From JDK 25 on, one of these threads wakes the others.
            (has(stack, CARRIER) || has(stack, "void java.util.concurrent.DelayScheduler.run()"))
                && !marks.iter().any(|mark| has(stack, mark))
        };
        let carriers = folded.share(|stack| stack[0].starts_with("ForkJoinPool"));
        let found = folded.share(|stack| stack[0].starts_with("ForkJoinPool") && is_whole(stack));
        assert!(carriers > 0.0 && found >= 0.95 * carriers, "{found} of {carriers} %: {said}");
    });
}
