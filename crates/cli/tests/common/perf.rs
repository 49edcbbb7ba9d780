//! Recording with `perf`, as robust as it can be.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::{Folded, pyrograph, run};

/// perf 6.1 has aborted, as it now and then does in its own build-ID code (`assertion failed at
/// util/build-id.c`): after a recording, or on reading some of those that it made itself. Some with
/// programs that were loaded into the kernel meanwhile (records of type 17) it cannot read at all. It is no matter of how
/// it is called, and only another recording helps.
struct PerfAborted;

/// How often a test begins anew because perf aborted.
const ATTEMPTS: usize = 10;

/// Runs a test that records with `perf` into a folder of its own, and runs it again, in another
/// folder, where perf itself aborts, and for nothing else. Where `perf` cannot record, the test is said to be skipped.
///
/// Only one test may record at a time, be the others threads or processes: what records the whole
/// machine would see their programs, and perf 6.1 aborts if two write its cache of build IDs at
/// once. The lock ends when its file is closed.
pub fn with_perf(test: &str, body: impl Fn(&Path)) {
    let folder = || tempfile::tempdir().expect("a folder");
    until_perf_ends_well(test, || {
        let folder = folder();
        body(folder.path());
    });
}

/// The same without a folder; returns true if the body ran to its end.
pub fn until_perf_ends_well(test: &str, body: impl Fn()) -> bool {
    let alone = lock_file();
    alone.lock().expect("files here can be locked");
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-N", "-e", "cpu-clock", "-o", "/dev/null", "true"]);
    if !perf.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: {test} needs perf, and the permission to record");
        return false;
    }
    until_perf_reads(test, body);
    true
}

/// Runs a test that only has `perf` read recordings, which is done beside others, until that does not abort.
pub fn until_perf_reads(test: &str, body: impl Fn()) {
    for _ in 0..ATTEMPTS {
        match catch_unwind(AssertUnwindSafe(&body)) {
            Ok(()) => return,
            Err(cause) if cause.is::<PerfAborted>() => eprintln!("{test}: perf aborted"),
            Err(cause) => resume_unwind(cause),
        }
    }
    panic!("perf aborted each of {ATTEMPTS} times");
}

/// The same for what only root may record.
pub fn with_perf_as_root(test: &str, body: impl Fn(&Path)) {
    if super::is_root(test) {
        with_perf(test, body);
    }
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

/// Runs perf, which must succeed. Where it aborts, the test that [`with_perf`] runs begins anew.
pub fn run_perf(command: &mut Command) -> Output {
    let output = command.output().expect("perf runs");
    if output.status.signal() == Some(libc::SIGABRT) {
        // Unlike a panic, this prints nothing.
        resume_unwind(Box::new(PerfAborted));
    }
    let text = String::from_utf8_lossy(&output.stderr);
    if text.contains("failed to process type: 17 [Bad address]") {
        resume_unwind(Box::new(PerfAborted));
    }
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    output
}

/// The output of `perf script` for a recording, in a file beside it.
pub fn perf_script(data: &Path, options: &[&str]) -> PathBuf {
    let script = data.with_extension("txt");
    let text =
        run_perf(Command::new("perf").arg("script").args(options).arg("-i").arg(data)).stdout;
    std::fs::write(&script, text).expect("a temporary file");
    script
}

/// The output of `pyrograph fold` for a file.
pub fn fold(input: &Path, options: &[&str]) -> Folded {
    let output = run(pyrograph().args(["fold", "--no-inline"]).args(options).arg(input));
    Folded::parse(&String::from_utf8(output.stdout).expect("names are text"))
}

/// The output of `pyrograph fold` for the text that `perf script` makes of the file.
pub fn fold_script(data: &Path, options: &[&str]) -> Folded {
    fold(&perf_script(data, &["--no-inline"]), options)
}

/// A stack with what is only another name made equal: glibc and the kernel have several for one
/// address, of which perf shows an internal one or one with a version; perf drops what the compiler appends to a C++
/// function's name, and the parameters that tell overloads apart; and perf has no marks for stacks that were cut off.
fn alike(stack: &[String]) -> Vec<String> {
    let marks = ["[truncated]", "[unwinding failed]", "[user stack unreadable]"];
    let alike = |frame: &String| {
        let frame = pyrograph_names::without_parameters(frame);
        let frame = frame.trim_start_matches("__GI_").trim_start_matches("__pi_");
        let frame = frame.trim_start_matches('_');
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
