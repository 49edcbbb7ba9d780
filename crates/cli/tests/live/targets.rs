//! Targets: processes with those that they have started, names, and permissions.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::in_kernel::{C, Running};
use crate::common::{
    Folded, as_nobody, binary, binary_for_others, compile, is_root, pyrograph, record_until,
    wait_until,
};

/// A shell with a program below it and one below a shell below it, and what ends when it does: both programs.
struct Family(Running);

impl Family {
    fn start(program: &Path) -> Self {
        let script =
            format!("{0} 100000000 & sh -c '{0} 100000000; :' & echo; wait", program.display());
        let mut shell = Command::new("setsid");
        shell.args(["sh", "-c", &script]).stdout(Stdio::piped());
        let mut shell = Running(shell.spawn().expect("a shell"));
        let mut line = [0];
        shell.0.stdout.as_mut().expect("a pipe").read_exact(&mut line).expect("it runs");
        let family = Self(shell);
        wait_until("both programs run", || family.has_started(program) == 2);
        family
    }

    /// How many of its processes have become the program.
    fn has_started(&self, program: &Path) -> usize {
        let name = program.file_name().expect("a name").to_string_lossy().into_owned();
        let is_of = |stat: String| {
            // `PID (NAME) STATE PPID PGRP …` (proc_pid_stat(5)).
            let (start, rest) = stat.rsplit_once(')')?;
            let group = rest.split_ascii_whitespace().nth(2)?;
            Some(start.ends_with(&format!("({name}")) && group == self.pid())
        };
        let stats = std::fs::read_dir("/proc").expect("processes").flatten();
        let stats = stats.filter_map(|row| std::fs::read_to_string(row.path().join("stat")).ok());
        stats.filter(|stat| is_of(stat.clone()).unwrap_or(false)).count()
    }

    fn pid(&self) -> String {
        self.0.0.id().to_string()
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        // SAFETY: the group is the shell's own, which was not waited for yet.
        unsafe { libc::kill(-self.0.0.id().cast_signed(), libc::SIGKILL) };
    }
}

fn record(out: &Path, flags: &[&str]) -> Output {
    let mut command = pyrograph();
    command.args(["record", "-o"]).arg(out).args(flags);
    command.output().expect("pyrograph runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn children_that_run_already_are_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(C, "split.c", folder.path());
    let family = Family::start(&program);
    let pid = family.pid();
    let out = folder.path().join("out.folded");
    for engine in ["perf", "ebpf"] {
        if engine == "ebpf"
            && !is_root("children_that_run_already_are_recorded, by programs in the kernel")
        {
            continue;
        }
        let folded = record_until(
            |folded| folded.total() > 1e8,
            |seconds| {
                let output =
                    record(&out, &["--engine", engine, "-p", &pid, "-F", "499", "-d", seconds]);
                assert!(output.status.success(), "{engine}: {}", text(&output));
                Folded::read(&out)
            },
        );
        let share = folded.total_share("main");
        assert!(share > 95.0, "{engine}: {share} % {:?}", folded.leaves());
        let alone = record(&out, &["--engine", engine, "--no-inherit", "-p", &pid, "-d", "0.3"]);
        assert!(text(&alone).contains("no samples"), "{engine}: {}", text(&alone));
    }
}

#[test]
fn a_name_alone_chooses_among_all_that_runs() {
    if !is_root("a_name_alone_chooses_among_all_that_runs") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(C, "split.c", folder.path());
    let _family = Family::start(&program);
    let out = folder.path().join("out.folded");
    record_until(
        |folded| folded.total_share("main") > 90.0,
        |seconds| {
            let output = record(&out, &["--comm", "split_c", "-d", seconds]);
            assert!(output.status.success(), "{}", text(&output));
            Folded::read(&out)
        },
    );
}

#[test]
fn a_name_that_nothing_has_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.folded");
    let own = std::process::id().to_string();
    for target in [&[][..], &["-a"], &["-p", &own]] {
        let output = record(&out, &[&["--comm", "no-such-name"], target].concat());
        assert_eq!(output.status.code(), Some(1), "{target:?}");
        assert!(text(&output).contains("has the name no-such-name"), "{}", text(&output));
    }
}

/// A copy of the program that another user may run, with these capabilities.
fn with_capabilities(folder: &Path, capabilities: &str) -> Option<PathBuf> {
    let copy = folder.join("pyrograph");
    std::fs::copy(binary(), &copy).expect("a copy");
    if capabilities.is_empty() {
        return Some(copy);
    }
    let mut setcap = Command::new("setcap");
    let done = setcap.arg(format!("{capabilities}=ep")).arg(&copy).status();
    done.is_ok_and(|status| status.success()).then_some(copy)
}

/// `EPERM` was taken for "no such process", and nothing said which capabilities are needed.
#[test]
fn another_users_process_is_refused_or_recorded_as_capabilities_say() {
    const TEST: &str = "another_users_process_is_refused_or_recorded_as_capabilities_say";
    if !is_root(TEST) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), readable).expect("our folder");
    let program = compile(C, "split.c", folder.path());
    let busy = Running(Command::new(program).arg("100000000").spawn().expect("it runs"));
    let pid = busy.0.id().to_string();
    let as_nobody = |program: &Path, flags: &[&str]| {
        let mut command = as_nobody(program);
        command
            .args(["record", "-p", &pid, "-d", "0.5", "-o"])
            .arg(folder.path().join("out.folded"));
        command.args(flags).env("XDG_CACHE_HOME", folder.path().join("cache"));
        command.output().expect("setpriv runs")
    };
    let bare = with_capabilities(folder.path(), "").expect("a copy");
    let bare_again = folder.path().join("without");
    std::fs::copy(&bare, &bare_again).expect("a copy");
    let refused = text(&as_nobody(&bare, &[]));
    assert!(refused.contains("belongs to another user"), "{refused}");
    let (_, setcap) = refused.split_once("sudo setcap ").expect(&refused);
    let (capabilities, rest) = setcap.split_once("=ep ").expect(&refused);
    assert!(rest.starts_with(&*bare.to_string_lossy()), "{refused}");

    let Some(capable) = with_capabilities(folder.path(), capabilities) else {
        return eprintln!("skipped: {TEST} needs setcap");
    };
    for flags in [&[][..], &["--engine", "ebpf"], &["--off-cpu"], &["--syscalls"]] {
        let recorded = as_nobody(&capable, flags);
        assert!(recorded.status.success(), "{flags:?}: {}", text(&recorded));
    }
    let folded = Folded::read(&{
        let recorded = as_nobody(&capable, &["--engine", "perf", "-F", "997"]);
        assert!(recorded.status.success(), "{}", text(&recorded));
        folder.path().join("out.folded")
    });
    assert!(folded.total_share("main") > 90.0, "{:?}", folded.leaves());
    // Without capabilities not even the mappings can be read, and nothing but that was said.
    for program in [&bare_again, &capable] {
        let refused = as_nobody(program, &["--alloc"]);
        assert!(text(&refused).contains("need root"), "{}", text(&refused));
        assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    }
}

#[test]
fn a_process_that_is_gone_is_said() {
    let mut child = Command::new("true").spawn().expect("it runs");
    child.wait().expect("it ends");
    let out = tempfile::tempdir().expect("a folder");
    let output = record(&out.path().join("x.folded"), &["-p", &child.id().to_string()]);
    assert!(text(&output).contains("no process has the PID"), "{}", text(&output));
    if is_root("a_process_that_is_gone_is_said, of allocations") {
        let flags = ["--alloc", "-p", &child.id().to_string()];
        let output = record(&out.path().join("x.folded"), &flags);
        assert!(text(&output).contains("no process has the PID"), "{}", text(&output));
    }
}

/// Stops one thread of a process, as a busy machine may.
struct Stopped(i32);

impl Stopped {
    fn new(tid: i32) -> Self {
        // SAFETY: neither request has the kernel write to this process.
        unsafe {
            assert_eq!(libc::ptrace(libc::PTRACE_SEIZE, tid, 0, 0), 0, "thread {tid}");
            assert_eq!(libc::ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0), 0, "thread {tid}");
            let mut status = 0;
            assert_eq!(libc::waitpid(tid, &raw mut status, libc::__WALL), tid);
        }
        Self(tid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, self.0, 0, 0) };
    }
}

#[test]
fn nothing_is_counted_after_the_end_however_late_it_is_seen() {
    if !is_root("nothing_is_counted_after_the_end_however_late_it_is_seen") {
        return;
    }
    const LATE: Duration = Duration::from_secs(2);
    let folder = tempfile::tempdir().expect("a folder");
    // Without work a CPU has few samples.
    let cpus = std::thread::available_parallelism().expect("a number").get();
    let busy =
        || Running(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh"));
    let _busy: Vec<Running> = (0..cpus).map(|_| busy()).collect();
    let cpus = cpus as f64;
    let out = folder.path().join("out.folded");
    let mut recording = pyrograph();
    recording.args(["record", "-a", "--engine", "ebpf", "-o"]).arg(&out);
    recording.args(["--", "sh", "-c", "echo; sleep 1; echo"]).stdout(Stdio::piped());
    let mut recording = recording.spawn().expect("pyrograph runs");
    let mut lines = recording.stdout.take().expect("a pipe");
    lines.read_exact(&mut [0]).expect("the command runs");
    // It counts since a moment before; what it took to prepare is none of it.
    let begun = Instant::now();
    let stopped = Stopped::new(recording.id().cast_signed());
    lines.read_exact(&mut [0]).expect("the command ends");
    let ended = begun.elapsed();
    std::thread::sleep(LATE);
    drop(stopped);
    assert!(recording.wait().expect("it ends").success());
    let recorded = Folded::read(&out).total() / 1e9 / cpus;
    assert!(recorded < (ended + LATE / 2).as_secs_f64(), "{recorded} s of {ended:?}");
    // It has a second for that, of which a host may take a part.
    assert!(recorded > 0.2, "{recorded} s");
}

/// "Fewer events than one sampling period has", of a program that ran for half a second.
#[test]
fn a_program_that_gets_other_rights_is_said_not_to_be_recorded() {
    const TEST: &str = "a_program_that_gets_other_rights_is_said_not_to_be_recorded";
    if !is_root(TEST) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    let own = binary_for_others(folder.path(), 0o777);
    let program = compile(C, "split.c", folder.path());
    let record = |verb: &str, output: &str| {
        let mut command = as_nobody(&own);
        command.arg(verb).arg("-o").arg(folder.path().join(output));
        command.arg("--").arg(&program).arg("300");
        command.env("XDG_CACHE_HOME", folder.path().join("cache")).current_dir(folder.path());
        command.output().expect("setpriv runs")
    };
    let words = "is set-user-ID: the kernel ends what is counted";
    for (rights, is_said) in [(0o755, false), (0o4755, true)] {
        std::fs::set_permissions(&program, mode(rights)).expect("our file");
        let recorded = record("record", "out.folded");
        assert_eq!(text(&recorded).contains(words), is_said, "{}", text(&recorded));
        assert_eq!(recorded.status.success(), !is_said, "{}", text(&recorded));
        let counted = record("stat", "out.txt");
        assert_eq!(text(&counted).contains(words), is_said, "{}", text(&counted));
    }
}
