//! Inlined calls of a `perf.data` file with copied stacks, beside what `perf script` shows of them.
//!
//! perf 6.1 asks `addr2line`. That leaves out the namespace of what was inlined, and in place of the
//! innermost inlined call it may show the function that holds them all, though the line that it prints
//! is of the inlined one. Both is evened out here. Skipped where there is no `perf`.

use std::path::Path;
use std::process::Command;

use crate::common::perf::{perf_script, run_perf, with_perf};
use pyrograph_format::{Detail, Input, Options, read};
use pyrograph_profile::FrameKind;

/// Each sample's frames in the order of time, leaf first; whether a call was inlined.
fn samples(path: &Path) -> Vec<Vec<(String, bool)>> {
    let options = Options { detail: Detail::Samples, ..Options::default() };
    let input = Input::open(path).expect("it is there");
    let (profile, _) = read(vec![input], &options).expect("a profile");
    let frame = |id| {
        let frame = profile.frames.get(id);
        let name = profile.strings.get(frame.function);
        (last_part(name).to_owned(), frame.kind == FrameKind::Inlined)
    };
    let stacks = profile.samples.iter().map(|sample| profile.stacks.leaf_first(sample.stack));
    stacks.map(|stack| stack.map(frame).collect()).collect()
}

/// A function's name without what it is in, and without its template's arguments.
fn last_part(name: &str) -> &str {
    // `operator<`, `operator->`: the rest is the name.
    let end = match name.find("operator") {
        Some(at) => return &name[at..],
        None => name.find('<').unwrap_or(name.len()),
    };
    let start = name[..end].rfind("::").map_or(0, |at| at + 2);
    name[start..end].trim_start_matches('_').trim_end_matches("_impl")
}

/// The function that holds the call at `at`: the next that was not inlined.
fn holder(stack: &[(String, bool)], at: usize) -> &str {
    stack[at..].iter().find(|(_, inlined)| !inlined).map_or("", |(name, _)| name)
}

#[test]
fn inlined_calls() {
    with_perf("inlined calls", |folder| {
        let program = crate::common::compile(&["g++", "-O2", "-g"], "inlined.cpp", folder);
        let data = folder.join("perf.data");
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-N", "-F", "2999", "-e", "cpu-clock:u"]);
        perf.args(["--call-graph", "dwarf,16384", "-o"]).arg(&data);
        run_perf(perf.arg("--").arg(&program));
        let (ours, theirs) = (samples(&data), samples(&perf_script(&data, &[])));
        assert_eq!(ours.len(), theirs.len());
        let (mut agree, mut same) = (0, 0);
        // Before `main` there is the dynamic linker, whose functions have several names, and so have
        // `malloc` and `free`.
        let of_main = |stack: &[(String, bool)]| {
            let has = |function| stack.iter().any(|(name, _)| name == function);
            has("main") && !has("malloc") && !has("free")
        };
        let pairs: Vec<_> = ours.iter().zip(&theirs).filter(|(our, _)| of_main(our)).collect();
        for (our, their) in &pairs {
            let is_same = |at: usize| our[at].0 == their[at].0;
            let is_alike = |at: usize| is_same(at) || (our[at].1 && their[at].0 == holder(our, at));
            let deep = our.len() == their.len();
            same += usize::from(deep && (0..our.len()).all(is_same));
            if deep && (0..our.len()).all(is_alike) {
                agree += 1;
            } else {
                eprintln!("ours {our:?}\ntheirs {their:?}");
            }
        }
        let all = pairs.len();
        assert!(agree * 100 >= all * 99 && same > 0, "{agree} alike, {same} the same of {all}");
        let inlined = pairs.iter().filter(|(our, _)| our[0].1).count();
        assert!(inlined * 2 > all, "most of the time is in inlined calls: {inlined} of {all}");
    });
}
