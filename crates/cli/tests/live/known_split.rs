//! Programs whose call trees are known, built without frame pointers: what is recorded must be what
//! they do. The trees stand at the top of each program.

use std::path::Path;
use std::process::Command;

use crate::common::{Folded, compile, pyrograph, run, up_to_three_times};

/// Percentage points by which a share may differ from the known one.
const TOLERANCE: f64 = 3.0;

/// A call path below `main`, and the share, in percent, of samples whose stack is exactly it.
type Expected<'a> = &'a [(&'a [&'a str], f64)];

fn record(program: &Path, extra: &[&str]) -> Folded {
    let folded = program.with_extension("folded");
    // At 4,999 Hz two seconds give 10,000 samples: one standard deviation is half a point. The
    // kernel's own part, a fraction of a percent, is left out of the known split.
    run(pyrograph()
        .args(["record", "-u", "-F", "4999", "-o"])
        .arg(&folded)
        .args(extra)
        .arg("--")
        .arg(program)
        .arg("5000"));
    Folded::read(&folded)
}

fn check(program: &Path, folded: &Folded, main: &str, expected: Expected<'_>) {
    assert!(folded.total() > 0.0);
    let context = || format!("{}: {:?}", program.display(), folded.leaves());
    let known: f64 = expected.iter().map(|(_, percent)| percent).sum();
    let whole = folded.total_share(main);
    assert!(whole > known - 1.0, "{main}: {whole:.1} % of the samples\n{}", context());

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
        let found = folded.share(|stack| own_path(stack) == *path);
        assert!(
            (found - percent).abs() <= TOLERANCE,
            "main → {}: {found:.1} %, known to be {percent} %\n{}",
            path.join(" → "),
            context()
        );
    }
    // Totals, from the same known tree.
    for function in functions {
        let known: f64 = expected
            .iter()
            .filter(|(path, _)| path.contains(&function))
            .map(|(_, percent)| percent)
            .sum();
        let found = folded.total_share(function);
        assert!(
            (found - known).abs() <= TOLERANCE,
            "{function}, in total: {found:.1} %, known to be {known} %\n{}",
            context()
        );
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

#[test]
fn c_without_frame_pointers() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&["gcc", "-O2", "-g", "-fomit-frame-pointer"], "split.c", folder.path());
    up_to_three_times(|| check(&program, &record(&program, &[]), "main", C));
}

#[test]
fn c_static_and_without_debug_info() {
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
    up_to_three_times(|| check(&program, &record(&program, &[]), "main", expected));
}

#[test]
fn c_with_frame_pointers_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    // With optimization gcc makes no frame in functions that call nothing, asked for or not.
    let flags = ["gcc", "-O0", "-g", "-fno-omit-frame-pointer"];
    let program = compile(&flags, "split.c", folder.path());
    // The C library keeps other things in the register: what `qsort` calls has lost its caller.
    let expected: Vec<_> = C.iter().copied().filter(|(path, _)| *path != ["compare"]).collect();
    up_to_three_times(|| {
        check(&program, &record(&program, &["--call-graph", "fp"]), "main", &expected);
    });
}

#[test]
fn inlined_calls_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&["gcc", "-O2", "-g", "-fomit-frame-pointer"], "split.c", folder.path());
    up_to_three_times(|| {
        let folded = record(&program, &["--no-inline"]);
        assert!((folded.self_share("gamma_") - 35.0).abs() <= TOLERANCE, "{:?}", folded.leaves());
        assert_eq!(folded.total_share("epsilon"), 0.0);
    });
}

#[test]
fn cpp_virtual_template_lambda_and_exception() {
    let folder = tempfile::tempdir().expect("a folder");
    let program =
        compile(&["g++", "-O2", "-g", "-fomit-frame-pointer"], "split.cpp", folder.path());
    up_to_three_times(|| {
        let folded = record(&program, &[]);
        let share = |function: &str, known: f64| {
            let found = folded.self_share(function);
            assert!(
                (found - known).abs() <= TOLERANCE,
                "{function}: {found:.1} %\n{:?}",
                folded.leaves()
            );
        };
        share("shapes::Circle::area", 20.0);
        share("shapes::detail::sum<double>", 30.0);
        share("(anonymous namespace)::thrower", 20.0);
        let lambda = folded
            .share(|stack| stack.last().is_some_and(|frame| frame.starts_with("main::{lambda")));
        assert!((lambda - 30.0).abs() <= TOLERANCE, "{lambda:.1}\n{:?}", folded.leaves());
        let area = folded.total_share("shapes::Circle::area");
        assert!((area - 50.0).abs() <= TOLERANCE, "{area:.1}\n{:?}", folded.leaves());
        assert!(folded.total_share("main") > 99.0, "{:?}", folded.leaves());
    });
}

#[test]
fn rust_closures_traits_and_inlined_calls() {
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
    up_to_three_times(|| check(&program, &record(&program, &[]), "split::main", expected));
}
