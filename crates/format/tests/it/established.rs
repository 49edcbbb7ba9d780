//! The established collapser's own results, for every option it was recorded with.
//!
//! The inputs and results are not part of this repository: they are looked for beside it, and the
//! test says so and passes if they are not there. Where the two rightly differ, the difference is
//! made here, named, and nothing else is allowed. `docs/fold.md` has the same list.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use pyrograph_format::{Input, Options, ThreadDetail, read, write_folded};
use pyrograph_profile::{LabelOptions, ProcessLabel, Tree};

/// Inputs without a blank line at their end: the established collapser loses their last sample.
const LAST_SAMPLE_LOST: &[&str] = &[
    "perf-dd-stacks-01",
    "perf-iperf-stacks-pidtid-01",
    "perf-java-stacks-01",
    "perf-mirageos-stacks-01",
    "perf-numa-stacks-01",
    "perf-vertx-stacks-01",
];

/// Results that are older than the established collapser's current code, which strips the `L` of
/// Java classes with `--pid` and `--tid`, too.
const OLD_RESULTS: &[(&str, &str)] = &[
    ("perf-java-faults-01", "pid"),
    ("perf-java-faults-01", "tid"),
    ("perf-java-stacks-01", "pid"),
    ("perf-java-stacks-01", "tid"),
    ("perf-java-stacks-02", "pid"),
    ("perf-java-stacks-02", "tid"),
    ("perf-vertx-stacks-01", "pid"),
    ("perf-vertx-stacks-01", "tid"),
];

/// The vDSO is not kernel code, though its name is in square brackets.
const VDSO: (&str, &[&str]) = ("perf-iperf-stacks-pidtid-01", &["all", "kernel"]);

/// Three samples whose leaf perf printed with a module but no symbol: the established collapser
/// makes a frame of a blank of it, and `--addrs` does not apply.
const BLANK_FRAME: &str = "perf-vertx-stacks-01";

fn name_blank_frame(results: &str, option: &str) -> String {
    let named: &[&str] = match option {
        "addrs" => &[";[libc-2.15.so <7f1e2215d058>] 2", ";[libc-2.15.so <7f1e2215d0c0>] 1"],
        _ => &[";[libc-2.15.so] 3"],
    };
    let mut lines: Vec<String> = Vec::new();
    for line in results.lines() {
        match line.strip_suffix(";  3") {
            Some(callers) => lines.extend(named.iter().map(|leaf| format!("{callers}{leaf}\n"))),
            None => lines.push(format!("{line}\n")),
        }
    }
    assert_eq!(lines.len(), results.lines().count() + named.len() - 1);
    lines.sort_unstable();
    lines.concat()
}

fn fixtures() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/flamegraph");
    folder.is_dir().then_some(folder)
}

fn fold(text: &[u8], option: &str) -> String {
    let mut options = Options::default();
    let mut labels = LabelOptions::default();
    match option {
        "pid" => {
            options.threads = ThreadDetail::Process;
            labels.process = ProcessLabel::Pid;
        }
        "tid" => {
            options.threads = ThreadDetail::Thread;
            labels.process = ProcessLabel::PidTid;
        }
        "addrs" => options.unknown_addresses = true,
        "all" => (labels.mark_kernel, labels.mark_jit, labels.mark_inlined) = (true, true, true),
        "kernel" => labels.mark_kernel = true,
        "jit" => (labels.mark_jit, labels.mark_inlined) = (true, true),
        option => panic!("option {option}"),
    }
    let (profile, warnings) =
        read(vec![Input::bytes("x", text)], &options).expect("perf script text");
    assert!(!warnings.any_loss(), "{warnings:?}");
    let mut out = Vec::new();
    write_folded(&Tree::new(&profile, &labels), &mut out).expect("writing to memory");
    String::from_utf8(out).expect("folded text is UTF-8")
}

/// The input as the established collapser reads it.
fn without_last_sample(text: &[u8]) -> &[u8] {
    assert!(!text.ends_with(b"\n\n"));
    let last = text.windows(2).rposition(|pair| pair == b"\n\n").expect("several samples");
    &text[..last + 2]
}

/// Strips the `L` from every frame that names a Java class, and adds up what became equal.
fn with_java_classes_stripped(results: &str) -> String {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for line in results.lines() {
        let (stack, count) = line.rsplit_once(' ').expect("a count");
        let strip = |frame: &str| match frame.strip_prefix('L') {
            Some(class) if class.contains('/') => class.to_owned(),
            _ => frame.to_owned(),
        };
        let stack: Vec<String> = stack.split(';').map(strip).collect();
        *sums.entry(stack.join(";")).or_default() += count.parse::<u64>().expect("a number");
    }
    sums.into_iter().map(|(stack, count)| format!("{stack} {count}\n")).collect()
}

#[test]
fn the_established_results_come_out() {
    let Some(folder) = fixtures() else {
        eprintln!("skipped: the established collapser's results are not beside this repository");
        return;
    };
    let mut pairs = 0;
    for entry in fs::read_dir(folder.join("results")).expect("a folder of results") {
        let path = entry.expect("an entry").path();
        let file = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        let (input, option) = file.split_once("-collapsed-").expect("NAME-collapsed-OPTION");
        let text = fs::read(folder.join(format!("{input}.txt"))).expect("an input");
        let mut expected = fs::read_to_string(&path).expect("a result");
        let mut text = text.as_slice();
        if LAST_SAMPLE_LOST.contains(&input) {
            text = without_last_sample(text);
        }
        if OLD_RESULTS.contains(&(input, option)) {
            expected = with_java_classes_stripped(&expected);
        }
        if BLANK_FRAME == input {
            expected = name_blank_frame(&expected, option);
        }
        if VDSO.0 == input && VDSO.1.contains(&option) {
            let marked = "__vdso_gettimeofday_[k]";
            assert!(expected.contains(marked));
            expected = expected.replace(marked, "__vdso_gettimeofday");
        }
        let folded = fold(text, option);
        let differs = folded.lines().zip(expected.lines()).find(|(ours, theirs)| ours != theirs);
        assert_eq!(differs, None, "{file}");
        assert_eq!(folded.len(), expected.len(), "{file}");
        pairs += 1;
    }
    assert_eq!(pairs, 78);
}

/// Output of the established collapser of DTrace's text for the example, where no name has
/// parameters and nothing is inlined: three lines of header, frames without their offset.
fn dtrace_collapsed(text: &str) -> String {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let mut stack: Vec<&str> = Vec::new();
    for line in text.lines().skip(3).map(str::trim).filter(|line| !line.is_empty()) {
        match line.parse::<u64>() {
            Ok(count) => {
                stack.reverse();
                *sums.entry(stack.join(";")).or_default() += count;
                stack.clear();
            }
            Err(_) => stack.push(line.split('+').next().expect("a first part")),
        }
    }
    sums.iter().map(|(stack, count)| format!("{stack} {count}\n")).collect()
}

#[test]
fn dtrace_text_comes_out_as_from_the_established_collapser() {
    let Some(folder) = fixtures() else {
        eprintln!("skipped: the example is not beside this repository");
        return;
    };
    let gzip = fs::read(folder.join("example-dtrace-stacks.txt.gz")).expect("the example");
    let input = || Input::bytes("x", gzip.clone());
    let mut text = String::new();
    let mut stream = input().begin().expect("gzip").into_stream();
    stream.read_to_string(&mut text).expect("text");
    let (profile, warnings) = read(vec![input()], &Options::default()).expect("DTrace's text");
    assert!(warnings.is_empty(), "{warnings:?}");
    let mut out = Vec::new();
    write_folded(&Tree::new(&profile, &LabelOptions::default()), &mut out).expect("to memory");
    assert!(String::from_utf8(out).expect("text") == dtrace_collapsed(&text));
}
