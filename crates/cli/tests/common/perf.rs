//! Recording with `perf`, as robust as it can be.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::{Folded, pyrograph, run};

/// If `perf` can record here, a lock to hold while it does; otherwise says that the test is skipped.
///
/// Only one test may record at a time, be the others threads or processes: what records the whole
/// machine would see their programs, and perf 6.1 aborts if two write its cache of build IDs at
/// once. The lock ends when the file is closed.
pub fn has_perf(test: &str) -> Option<File> {
    let alone = lock_file();
    alone.lock().expect("files here can be locked");
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-N", "-e", "cpu-clock", "-o", "/dev/null", "true"]);
    let can = perf.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if !can {
        eprintln!("skipped: {test} needs perf, and the permission to record");
    }
    can.then_some(alone)
}

/// The same for what only root may record.
pub fn has_perf_as_root(test: &str) -> Option<File> {
    if super::is_root(test) { has_perf(test) } else { None }
}

/// A file that all tests which record share, whatever checkout they are of.
fn lock_file() -> File {
    let path = std::env::temp_dir().join("pyrograph-perf-tests.lock");
    // The file may be another user's, which not even root may open to create; to lock it, reading
    // is enough. If that is forbidden too, the tests of one checkout can still share its source.
    File::open(&path)
        .or_else(|_| File::options().append(true).create(true).open(&path))
        .or_else(|_| File::open(super::program_source("calls.c")))
        .expect("a file to lock")
}

/// Runs perf, which must succeed. perf 6.1 now and then aborts in its own build-ID code, after the
/// recording: it tries again.
pub fn run_perf(command: &mut Command) -> Output {
    const ATTEMPTS: usize = 8;
    for _ in 1..ATTEMPTS {
        let output = command.output().expect("perf runs");
        if output.status.success() {
            return output;
        }
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.signal() == Some(libc::SIGABRT), "{command:?}: {text}");
    }
    run(command)
}

/// What `pyrograph fold` makes of a file.
pub fn fold(input: &Path, options: &[&str]) -> Folded {
    let output = run(pyrograph().args(["fold", "--no-inline"]).args(options).arg(input));
    Folded::parse(&String::from_utf8(output.stdout).expect("names are text"))
}

/// What it makes of the text that `perf script` makes of the file.
pub fn fold_script(data: &Path, options: &[&str]) -> Folded {
    let script = data.with_extension("txt");
    let text = run(Command::new("perf").args(["script", "--no-inline", "-i"]).arg(data)).stdout;
    std::fs::write(&script, text).expect("a temporary file");
    fold(&script, options)
}

/// A stack with what is only another name made equal: glibc has several for one address, of which
/// perf shows an internal one or one with a version; perf drops what the compiler appends to a C++
/// function's name; and perf has no marks for stacks that were cut off.
fn alike(stack: &[String]) -> Vec<String> {
    let marks = ["[truncated]", "[unwinding failed]", "[user stack unreadable]"];
    let alike = |frame: &String| {
        let frame = frame.trim_start_matches("__GI_").trim_start_matches('_');
        let frame = frame.split('@').next().unwrap_or(frame);
        let variant = [".part.", ".constprop.", ".isra."].iter().find_map(|part| frame.find(part));
        let frame = &frame[..variant.unwrap_or(frame.len())];
        let frame = frame.trim_start_matches("libc_").trim_end_matches("_impl");
        let frame = frame.replace("64", "").replace("dl_start_user", "start");
        frame.replace("memmove", "memcpy").replace(' ', "_")
    };
    stack.iter().filter(|frame| !marks.contains(&frame.as_str())).map(alike).collect()
}

/// By how much of the weight two folded texts agree, in percent.
pub fn agreement(ours: &Folded, theirs: &Folded) -> f64 {
    let sum = |folded: &Folded| {
        let mut sums: HashMap<Vec<String>, f64> = HashMap::new();
        for (stack, value) in &folded.stacks {
            *sums.entry(alike(stack)).or_default() += value;
        }
        sums
    };
    let (a, b) = (sum(ours), sum(theirs));
    let same: f64 =
        a.iter().map(|(stack, &value)| b.get(stack).map_or(0.0, |b| b.min(value))).sum();
    for (stack, value) in &a {
        let other = b.get(stack).copied().unwrap_or(0.0);
        if (value - other).abs() > 0.002 * ours.total() {
            eprintln!("ours {value}, theirs {other}: {}", stack.join(";"));
        }
    }
    100.0 * same / ours.total().max(theirs.total())
}
