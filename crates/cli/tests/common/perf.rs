//! Recording with `perf`, as robust as it can be.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

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
    super::run(command)
}
