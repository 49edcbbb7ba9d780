//! The text of `perf report`, in the forms that perf prints it in, against `perf script` of the same recording: shares of
//! functions agree, or the form is refused.

use std::collections::BTreeSet;
use std::process::Command;

use crate::common::perf::{fold, run_perf};
use crate::common::recorded::{self, OfPerf};
use crate::common::{Folded, pyrograph};

/// In points of percent: perf prints two decimals.
const TOLERANCE: f64 = 0.1;

/// Options, and whether all callers are printed: without a limit, perf leaves out what is below 0.5 %.
const FORMS: &[(&str, bool)] = &[
    ("", false),
    ("-n", false),
    ("-g graph,0,caller", true),
    ("-n -g graph,0,caller", true),
    ("-g graph,0,caller,count", true),
    ("-n -g graph,0,caller,period", true),
    ("-g fractal,0,caller", true),
    ("-g folded,0,caller,count", true),
    ("-g caller,0,address", true),
    ("--no-children", false),
    ("--no-children -n -g graph,0,callee", true),
    ("--no-children -g graph,0,caller", true),
    ("--no-children -g flat,0", true),
];

/// Forms that have each sample several times, which nothing separates, and one that lacks callers.
const REFUSED: &[&str] = &[
    "-g callee,0",
    "-n -g graph,0,callee",
    "-s dso -g caller,0",
    "-s sym -g caller,0",
    "--hierarchy",
];

/// Not those of the threads with odd names: a line end in a name parts an entry.
fn recordings() -> Vec<OfPerf> {
    let all = [recorded::calls_by_frame_pointers(), recorded::annotate_by_frame_pointers()];
    all.into_iter().flatten().collect()
}

fn report(of: &OfPerf, form: &str) -> std::path::PathBuf {
    let mut perf = Command::new("perf");
    perf.args(["report", "--stdio", "--no-inline", "-i"])
        .arg(&of.data)
        .args(form.split_whitespace());
    let text = of.data.with_extension(format!("report{}", form.replace([' ', ','], "_")));
    std::fs::write(&text, run_perf(&mut perf).stdout).expect("a file beside the recording");
    text
}

/// All functions. What has no name is called otherwise by both.
fn functions(of: &Folded) -> BTreeSet<String> {
    let frames = of.stacks.iter().flat_map(|(stack, _)| stack);
    frames.filter(|frame| !frame.starts_with('[')).cloned().collect()
}

#[test]
fn shares_of_functions_are_those_of_perf_script() {
    for of in recordings() {
        let script = fold(&of.text, &["--count", "samples", "--no-include-tname"]);
        for &(form, is_whole) in FORMS {
            // There is no thread where there is no column of commands.
            // A stack may be off by one sample where two decimals of a percent do not decide.
            let tolerance = TOLERANCE + 100.0 / script.total();
            let ours = fold(&report(&of, form), &["--no-include-tname"]);
            for function in functions(&script) {
                let (found, expected) = (ours.self_share(&function), script.self_share(&function));
                assert!(
                    (found - expected).abs() <= tolerance,
                    "{form}: {function} has {found:.3} % itself, of {expected:.3} %"
                );
                // What ended in a function that calls others is not in it (a warning says so): it is in those that are called.
                if form.contains("fractal") {
                    continue;
                }
                let (found, expected) =
                    (ours.total_share(&function), script.total_share(&function));
                assert!(
                    found <= expected + tolerance && (!is_whole || found >= expected - tolerance),
                    "{form}: {function} has {found:.3} %, of {expected:.3} %"
                );
            }
        }
    }
}

#[test]
fn what_cannot_be_separated_is_refused() {
    for of in recordings() {
        for form in REFUSED {
            let output = pyrograph().arg("fold").arg(report(&of, form)).output().expect("it runs");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{form}: {said}");
            assert!(output.stdout.is_empty(), "{form}");
        }
    }
}
