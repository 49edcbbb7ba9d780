//! Programs whose call trees are known, built without frame pointers: what is recorded must be what
//! they do. The trees stand at the top of each program.

use std::path::Path;
use std::process::Command;

use crate::common::recorded;
use crate::common::{Folded, compile, is_root, pyrograph, run, sharp, tolerance};

/// A call path below `main`, and the share, in percent, of samples whose stack is exactly it.
type Expected<'a> = &'a [(&'a [&'a str], f64)];

fn record(program: &Path, extra: &[&str]) -> Folded {
    let folded = program.with_extension("folded");
    // A round takes some 0.6 ms of CPU time: at 4,999 Hz these give 4,500 samples, and one standard deviation of a share is 0.75
    // points at most; the sharp ones 0.4. The kernel's own part, a fraction of a percent, is left out of the known split.
    run(pyrograph()
        .args(["record", "-u", "-F", "4999", "--count", "samples", "-o"])
        .arg(&folded)
        .args(extra)
        .arg("--")
        .arg(program)
        .arg(sharp("1500", "5000")));
    Folded::read(&folded).without_lost(sharp(5.0, 0.0))
}

fn check(program: &str, folded: &Folded, main: &str, expected: Expected<'_>) {
    // Fewer were not sampled all along.
    assert!(folded.total() > 1000.0, "{program}: {} samples", folded.total());
    let context = || format!("{program}: {:?}", folded.leaves());
    let known: f64 = expected.iter().map(|(_, percent)| percent).sum();
    let whole = folded.total_share(main);
    let least = known - (tolerance(known, folded.total()) + 0.5);
    assert!(whole > least, "{main}: {whole:.1} % of the samples\n{}", context());

    let mut functions: Vec<&str> =
        expected.iter().flat_map(|(path, _)| path.iter().copied()).collect();
    functions.sort_unstable();
    functions.dedup();
    // The program's own frames below main: what lies between them (`qsort` and what it calls) is the
    // library's, and has other names with and without the library's debug symbols.
    let own_path = |stack: &[String]| -> Vec<String> {
        let start = stack.iter().position(|frame| frame == main).map_or(stack.len(), |at| at + 1);
        let own = stack[start..].iter().filter(|frame| functions.contains(&frame.as_str()));
        own.cloned().collect()
    };
    for (path, percent) in expected {
        let what = format!("{program}: main → {}", path.join(" → "));
        folded.check_share(&what, *percent, |stack| own_path(stack) == *path);
    }
    // Totals, from the same known tree.
    for function in functions {
        let known: f64 = expected
            .iter()
            .filter(|(path, _)| path.contains(&function))
            .map(|(_, percent)| percent)
            .sum();
        let has = |stack: &[String]| stack.iter().any(|frame| frame == function);
        folded.check_share(&format!("{program}: {function}, in total"), known, has);
    }
}

const C: Expected<'_> = &[
    (&["alpha"], 10.0),
    (&["alpha", "beta"], 30.0),
    (&["gamma_"], 20.0),
    (&["gamma_", "delta"], 5.0),
    (&["gamma_", "delta", "epsilon"], 10.0),
    (&["compare"], 10.0),
    (&["beta"], 15.0),
];

/// The engines that can be used here.
fn engines() -> &'static [&'static str] {
    if is_root("known shares, counted in the kernel") { &["perf", "ebpf"] } else { &["perf"] }
}

#[test]
fn c_without_frame_pointers_has_its_shares() {
    for engine in engines() {
        check(engine, &Folded::read(&recorded::split(engine)), "main", C);
    }
}

#[test]
fn c_static_and_without_debug_info_has_its_shares() {
    let folder = tempfile::tempdir().expect("a folder");
    let program =
        compile(&["gcc", "-O2", "-static", "-fomit-frame-pointer"], "split.c", folder.path());
    // Nothing says what was inlined: it counts for the function it was inlined into.
    let expected: Expected<'_> = &[
        (&["alpha"], 10.0),
        (&["alpha", "beta"], 30.0),
        (&["gamma_"], 35.0),
        (&["compare"], 10.0),
        (&["beta"], 15.0),
    ];
    check("static", &record(&program, &[]), "main", expected);
}

#[test]
fn c_with_frame_pointers_alone_has_its_shares() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["gcc", "-O2", "-g", "-fno-omit-frame-pointer", "-DKEEP_FRAME"];
    let program = compile(&flags, "split.c", folder.path());
    // The C library keeps other things in the register: what `qsort` calls has lost its caller.
    let expected: Vec<_> = C.iter().copied().filter(|(path, _)| *path != ["compare"]).collect();
    check("by frame pointers", &record(&program, &["--call-graph", "fp"]), "main", &expected);
}

#[test]
fn shares_without_inlined_calls_are_those_of_their_callers() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&["gcc", "-O2", "-g", "-fomit-frame-pointer"], "split.c", folder.path());
    let folded = record(&program, &["--no-inline"]);
    let leaf = |stack: &[String]| stack.last().is_some_and(|frame| frame == "gamma_");
    folded.check_share("gamma_", 35.0, leaf);
    assert_eq!(folded.total_share("epsilon"), 0.0);
}

#[test]
fn cpp_virtual_template_lambda_and_exception_have_their_shares() {
    let folder = tempfile::tempdir().expect("a folder");
    let program =
        compile(&["g++", "-O2", "-g", "-fomit-frame-pointer"], "split.cpp", folder.path());
    let folded = record(&program, &[]);
    let share = |function: &str, known: f64| {
        let leaf = |stack: &[String]| stack.last().is_some_and(|frame| frame.starts_with(function));
        folded.check_share(function, known, leaf);
    };
    share("shapes::Circle::area", 20.0);
    share("shapes::detail::sum<double>", 30.0);
    share("(anonymous namespace)::thrower", 20.0);
    share("main::{lambda", 30.0);
    let in_area = |stack: &[String]| stack.iter().any(|frame| frame == "shapes::Circle::area");
    folded.check_share("area, in total", 50.0, in_area);
    assert!(folded.total_share("main") > 98.0, "{:?}", folded.leaves());
}

#[test]
fn rust_closures_traits_and_inlined_calls_have_their_shares() {
    let folder = tempfile::tempdir().expect("a folder");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let program = folder.path().join("split");
    run(Command::new(rustc)
        .args(["-O", "-g", "--edition=2024", "-C", "force-frame-pointers=no", "-o"])
        .arg(&program)
        .arg(crate::common::program_source("split.rs")));
    let expected: Expected<'_> = &[
        (&["split::outer"], 15.0),
        (&["split::outer", "split::inlined_one"], 10.0),
        (&["split::outer", "split::inlined_one", "split::inlined_two"], 20.0),
        (&["<split::Worker as split::Work>::run"], 25.0),
        (&["split::apply", "split::main::{{closure}}"], 30.0),
    ];
    check("Rust", &record(&program, &[]), "split::main", expected);
}
