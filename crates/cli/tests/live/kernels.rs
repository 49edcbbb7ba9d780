//! Other kernels: whether they take the programs of each question. Their verifiers differ, and what one refuses another takes.

use std::path::Path;
use std::process::Command;

use crate::common::{binary, package};

/// A question for each program and way to compile it.
const QUESTIONS: [&str; 9] = [
    "-F 99",
    "--off-cpu",
    "--off-wake",
    "--wakeup",
    "--locks",
    "--alloc --live",
    "--syscalls",
    "--block-io",
    "-e sched:sched_process_exec",
];

/// Kernels of Debian that `tests/kernels/fetch` has got.
fn kernels(folder: &Path) -> Vec<String> {
    let Ok(all) = folder.read_dir() else { return Vec::new() };
    let names = all.filter_map(|entry| Some(entry.ok()?.path()));
    let got = names.filter(|path| path.join("root/boot").is_dir());
    got.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect()
}

#[test]
fn other_kernels_take_all_programs() {
    let root = package().join("../..");
    let kernels = kernels(&root.join("target/kernels"));
    let has = |program: &str| {
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .any(|folder| folder.join(program).is_file())
    };
    if kernels.is_empty() || !has("qemu-system-x86_64") {
        eprintln!(
            "skipped: other_kernels_take_all_programs needs a kernel that tests/kernels/fetch has got, and \
             qemu-system-x86"
        );
        return;
    }
    let program = binary().display().to_string();
    let mut job = String::new();
    // Pages: programs are longer where counts have times.
    let questions = QUESTIONS.map(|question| format!("record -v {question} -o x.html -- true"));
    let verbs = ["stat -e syscalls:sys_enter_read --by thread", "trace", "sched"];
    let verbs = verbs.map(|verb| format!("{verb} -a -- true"));
    for arguments in questions.iter().chain(&verbs) {
        job += &format!("echo '== {arguments}'; timeout 120 {program} {arguments} >x.txt 2>&1; ");
        job += "ended=$?; tail -n 30 x.txt; echo \"ended: $ended\"\n";
    }
    for kernel in kernels {
        let mut machine = Command::new(root.join("tests/kernels/run"));
        machine.arg(&kernel).envs([
            ("JOB", job.as_str()),
            ("MEMORY", "4G"),
            ("SECONDS_AT_MOST", "400"),
        ]);
        let output = machine.output().expect("it runs");
        let said = format!("\n{}", String::from_utf8_lossy(&output.stdout));
        let mut parts = said.split("\n== ").skip(1).peekable();
        for arguments in questions.iter().chain(&verbs) {
            let part = parts.next().unwrap_or_default();
            // Emulation is slow, and may stand still.
            if part.is_empty() || parts.peek().is_none() && !part.contains("\nended: ") {
                eprintln!("skipped: {arguments} on {kernel}: the virtual machine took too long");
                break;
            }
            let refused = part.contains("does not take") || part.contains("taken by perf_event");
            assert!(!refused && part.contains("\nended: 0"), "{kernel}: {part}");
        }
    }
}
