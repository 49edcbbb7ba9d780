//! `pyrograph record` of Java, whose frames and methods are read from the virtual machine's memory: of each version that is
//! there, interpreted, compiled, and both, without `-XX:+PreserveFramePointer`.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::interpreters::interpreters;
use common::{Folded, is_root, program_source, pyrograph, run};

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

/// Sampled shares differ from the true ones by this much at most; so does what was interpreted at first.
const POINTS: f64 = 2.0;

/// Runs a test with a folder that holds the compiled program, for each virtual machine of a version that is read.
fn with_each(test: &str, body: impl Fn(&Path, &str, &Path)) {
    if !is_root(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let source = program_source("Calls.java");
    let compiled = Command::new("javac")
        .args(["--release", "11", "-d"])
        .arg(folder.path())
        .arg(source)
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        eprintln!("skipped: {test} needs a JDK");
        return;
    }
    for (name, java) in interpreters("java", "java") {
        body(folder.path(), &name, &java);
    }
}

/// Records the program; returns stacks, and what was said.
fn record(
    folder: &Path,
    java: &Path,
    options: &[&str],
    words: [&str; 2],
    flags: &[&str],
) -> (Folded, String) {
    let out: PathBuf = folder.join("out.folded");
    let mut recorder = pyrograph();
    recorder
        .args(["record", "-v", "--engine", "ebpf", "-o"])
        .arg(&out)
        .args(flags)
        .arg("--")
        .arg(java);
    recorder.args(options).arg("-cp").arg(folder).arg("Calls").args(words);
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
    with_each("methods_have_their_shares_and_stacks_their_roots", |folder, name, java| {
        for options in COMPILERS {
            let (folded, said) = record(folder, java, options, ["split", "5"], &["--no-attach"]);
            let shares = SPLIT.map(|(name, _)| folded.self_share(name));
            let sum: f64 = shares.iter().sum();
            let context = || {
                format!("{name} {options:?}: {shares:?} of {sum}: {:?}\n{said}", folded.leaves())
            };
            assert!(sum > 40.0, "{}", context());
            // At 997 Hz: a busy machine gives few samples, of which a share may be off by four standard deviations.
            let samples = (folded.total() * sum / 100.0 / 1_003_009.0).max(1.0);
            let points = POINTS.max(4.0 * 50.0 / samples.sqrt());
            for (share, (_, expect)) in shares.iter().zip(SPLIT) {
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
            assert!(folded.share(sorted) >= 0.99 * called, "{}", context());
        }
    });
}

/// With the methods put into each other, each in another way: all, none, and one of them interpreted.
#[test]
fn methods_that_were_put_into_others_are_in_order() {
    let ways: [&[&str]; 4] = [
        &["-XX:CompileCommand=quiet", "-XX:CompileCommand=inline,Calls.*"],
        &["-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Calls.*"],
        &["-XX:CompileCommand=quiet", "-XX:CompileCommand=exclude,Calls.second"],
        &["-Xint"],
    ];
    with_each("methods_that_were_put_into_others_are_in_order", |folder, name, java| {
        for options in ways {
            let (folded, said) = record(folder, java, options, ["chain", "3"], &["--no-attach"]);
            let third = folded.share(|stack| has(stack, CHAIN[3]));
            let ordered = folded.share(|stack| stack.windows(4).any(|part| part == CHAIN));
            let context = || format!("{name} {options:?}: {third} %, {ordered} % in order\n{said}");
            assert!(third > 40.0, "{}: {:?}", context(), folded.leaves());
            assert!(ordered >= 0.99 * third, "{}: {:?}", context(), folded.leaves());
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
    with_each("lines_are_those_of_the_calls", |folder, name, java| {
        for options in
            [&["-XX:CompileCommand=quiet", "-XX:CompileCommand=inline,Calls.*"][..], &["-Xint"]]
        {
            let flags = ["--no-attach", "--lines"];
            let (folded, said) = record(folder, java, options, ["chain", "3"], &flags);
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
