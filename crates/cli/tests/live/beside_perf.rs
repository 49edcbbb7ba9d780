//! `perf record` beside our own recordings: neither spoils what the other records.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::in_kernel::{Running, wait_for_programs};
use crate::common::perf::with_perf_as_root;
use crate::common::{Folded, pyrograph, slice, wait_until};

/// Records programs that begin with perf, some times; returns what it says where it fails.
fn perf_records(folder: &Path) -> Result<(), String> {
    // What went wrong did so each time.
    let rounds = if std::env::var_os("PYROGRAPH_NIGHTLY").is_some() { 4 } else { 1 };
    for round in 0..rounds {
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-g", "-e", "cpu-clock", "-o"]);
        perf.arg(folder.join("perf.data"));
        perf.args(["--", "sh", "-c", "for i in 1 2 3 4 5 6; do /bin/ls >&2; done"]);
        let output = perf.output().expect("perf runs");
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(format!("round {round}: {}\n{text}", output.status));
        }
    }
    Ok(())
}

/// Returns true if a recording by perf events has begun to read them.
fn has_reader(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut names = threads.flat_map(|thread| std::fs::read_to_string(thread.path().join("comm")));
    names.any(|name| name == "reader\n")
}

/// An event that asks for build IDs makes Linux write device and inode in place of build IDs into records of
/// other events, and `perf record` ends with "stack smashing detected" on them.
#[test]
fn perf_record_ends_well_beside_a_recording() {
    with_perf_as_root("perf_record_ends_well_beside_a_recording", |folder| {
        let mut busy = Command::new("sh");
        // It starts programs, which map files, and takes CPU time itself.
        let count = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        busy.args(["-c", &format!("while :; do /bin/true; {count}; done")]);
        let busy = Running(busy.spawn().expect("it runs"));
        let pid = busy.0.id().to_string();
        for engine in ["perf", "ebpf"] {
            for &target in slice(&[&["-a"][..], &["-p", &pid]], 1) {
                let out = folder.join("out.folded");
                let mut recording = Running(
                    pyrograph()
                        .args(["record", "--engine", engine, "-F", "99", "-o"])
                        .arg(&out)
                        .args(target)
                        .stderr(Stdio::null())
                        .spawn()
                        .expect("pyrograph runs"),
                );
                match engine {
                    "ebpf" => drop(wait_for_programs(recording.0.id())),
                    _ => wait_until("events are enabled", || has_reader(recording.0.id())),
                }
                let beside = perf_records(folder);
                // SAFETY: it is a child that was not waited for yet.
                unsafe { libc::kill(recording.0.id().cast_signed(), libc::SIGINT) };
                assert!(recording.0.wait().expect("it ends").success());
                if let Err(failure) = beside {
                    // Any program of this machine can do this to perf.
                    if perf_records(folder).is_err() {
                        eprintln!("skipped: something else on this machine asks for build IDs");
                        return;
                    }
                    panic!("{engine} {target:?}, {failure}");
                }
                assert!(Folded::read(&out).total() > 0.0, "{engine} {target:?}");
            }
        }
    });
}
