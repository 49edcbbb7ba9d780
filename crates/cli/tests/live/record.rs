//! `pyrograph record`, as people use it: real programs, their exit codes, and what goes wrong.
//!
//! Shares are known only as well as there are samples: of N, one standard deviation of a share of 40 %
//! is 49 points / √N. Commands are sampled by the CPU time that they use, so that N does not depend on
//! how busy the machine is; what runs on is recorded until N is large enough.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{
    Folded, as_nobody, binary, compile, cpu_time, is_root, pyrograph, record_until, run, wait_until,
};

/// A second of CPU time and more gives 2,000 samples or more at the rate of [`OFTEN`]: one standard
/// deviation of a share of 40 % is 1.1 points.
const MANY: f64 = 2000.0;

/// Flags to sample at this rate, and to count samples.
pub const OFTEN: [&str; 4] = ["-F", "1999", "--count", "samples"];

/// A folder, a program in it that is busy for as many rounds as its argument says, and a place for output.
pub struct Case {
    folder: tempfile::TempDir,
    pub program: PathBuf,
}

impl Case {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // Others than root shall be able to run what is in it.
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("own folder");
        let program =
            compile(&["gcc", "-O2", "-g", "-fomit-frame-pointer"], "split.c", folder.path());
        Self { folder, program }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn folded(&self) -> PathBuf {
        self.path("out.folded")
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// As `split.c` says.
#[track_caller]
fn check_alpha(folded: &Folded) {
    assert!(folded.total() > 500.0, "{} samples", folded.total());
    folded.check_share("alpha", 40.0, |stack| stack.iter().any(|frame| frame == "alpha"));
}

fn signal(child: &Child, signal: libc::c_int) {
    let pid = i32::try_from(child.id()).expect("a process number");
    // SAFETY: The call takes numbers only; the child was not waited for, so the number is its own.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

#[test]
fn the_default_is_an_svg_in_the_present_folder() {
    let case = Case::new();
    let output = run(pyrograph()
        .current_dir(case.folder.path())
        .args(["record", "--"])
        .arg(&case.program)
        .arg("300"));
    let svg = fs::read_to_string(case.path("flamegraph.svg")).expect("the graph was written");
    assert!(svg.contains("alpha") && svg.contains("</svg>"));
    assert!(output.stdout.is_empty());
    let text = stderr(&output);
    assert!(text.contains("flamegraph.svg") && text.contains("samples"), "{text}");
}

#[test]
fn a_recorded_graph_can_be_inverted_and_dark() {
    let case = Case::new();
    let svg = case.path("x.svg");
    let mut record = pyrograph();
    record.args(["record", "--inverted", "--theme", "dark", "-o"]).arg(&svg);
    run(record.arg("--").arg(&case.program).arg("50"));
    let svg = fs::read_to_string(svg).expect("it is written");
    assert!(svg.contains(" data-inverted=\"\"") && svg.contains(" data-theme=\"dark\""));
    // The event, the machine and the time.
    assert!(svg.contains(" UTC</text>") && svg.contains(" on "), "the subtitle");
    // The root is in the first row.
    let rows = &svg[svg.find("class=\"frames\"").expect("frames")..];
    let first = &rows[rows.find("translate(0 ").expect("a row")..];
    assert!(first.starts_with("translate(0 8.5)"), "{}", &first[..20]);
}

#[test]
fn the_commands_exit_status_passes_through_after_the_graph_is_written() {
    let case = Case::new();
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
        let folded = case.path(&format!("{code}.folded"));
        let program = case.program.display();
        let output = pyrograph()
            .args(["record", "-F", "4999", "-o"])
            .arg(&folded)
            .args(["--", "sh", "-c", &format!("{program} 200; {script}")])
            .output()
            .expect("pyrograph runs");
        assert_eq!(output.status.code(), Some(code), "{script}: {}", stderr(&output));
        assert!(Folded::read(&folded).total_share("alpha") > 20.0, "{script}");
    }
}

#[test]
fn a_command_that_is_not_there_is_an_error_and_leaves_nothing() {
    let case = Case::new();
    let output = pyrograph()
        .current_dir(case.folder.path())
        .args(["record", "--", "./no-such-program"])
        .output()
        .expect("pyrograph runs");
    assert_eq!(output.status.code(), Some(127));
    let text = stderr(&output);
    assert!(text.contains("no-such-program") && text.contains("No such file"), "{text}");
    assert!(!case.path("flamegraph.svg").exists());
}

#[test]
fn standard_input_and_output_are_the_commands() {
    use std::io::Write;

    let case = Case::new();
    let mut child = pyrograph()
        .args(["record", "-o"])
        .arg(case.path("read.svg"))
        .args(["--", "tr", "a-z", "A-Z"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("pyrograph runs");
    child.stdin.take().expect("piped").write_all(b"through a pipe\n").expect("tr reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.stdout, b"THROUGH A PIPE\n");
    assert!(case.path("read.svg").exists());
}

#[test]
fn interrupted_it_still_writes_the_graph() {
    let case = Case::new();
    for (name, number) in [("int", libc::SIGINT), ("term", libc::SIGTERM)] {
        let folded = case.path(&format!("{name}.folded"));
        let ready = case.path(&format!("{name}.ready"));
        let script =
            format!("echo $$ >{}; exec {} 1000000", ready.display(), case.program.display());
        let mut recording = pyrograph();
        recording.args(["record", "-o"]).arg(&folded).args(["--", "sh", "-c", &script]);
        // A group of its own, as a shell gives each job.
        recording.stderr(Stdio::piped()).process_group(0);
        // SAFETY: The call takes numbers only, and may be made between fork and exec.
        unsafe {
            recording.pre_exec(|| {
                // Programs that a script starts in the background ignore it, and so do theirs.
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
        let child = recording.spawn().expect("pyrograph runs");
        let pid = || fs::read_to_string(&ready).ok()?.trim().parse().ok();
        wait_until("the command runs", || pid().is_some());
        let pid = pid().expect("its number");
        wait_until("some hundred samples", || cpu_time(pid) > Duration::from_millis(500));
        let group = i32::try_from(child.id()).expect("a process number");
        if number == libc::SIGINT {
            // Ctrl-C reaches all of the terminal's foreground group.
            // SAFETY: The call takes numbers only; the group is the child's own.
            assert_eq!(unsafe { libc::kill(-group, number) }, 0);
        } else {
            signal(&child, number);
        }
        let output = child.wait_with_output().expect("it ends");
        assert!(Folded::read(&folded).total_share("alpha") > 20.0, "{name}: {}", stderr(&output));
        assert_eq!(output.status.code(), Some(128 + number), "{name}");
        let writes =
            format!("writing {} and flamegraph.pb.gz; Ctrl-C again loses", folded.display());
        assert!(stderr(&output).contains(&writes), "{name}: {}", stderr(&output));
    }
}

#[test]
fn attaches_to_running_processes_and_all_their_threads() {
    let case = Case::new();
    let mut busy: Vec<Child> = (0..2)
        .map(|_| Command::new(&case.program).arg("1000000").spawn().expect("the program runs"))
        .collect();
    let pids = format!("{},{}", busy[0].id(), busy[1].id());
    let record = |seconds: &str| {
        let mut command = pyrograph();
        command.args(["record", "-p", &pids, "-d", seconds, "-o"]).arg(case.folded());
        run(command.args(OFTEN));
        Folded::read(&case.folded())
    };
    let folded = record_until(|folded| folded.total() >= MANY, record);
    for child in &mut busy {
        child.kill().expect("it still runs: attaching does not disturb");
        child.wait().expect("it ends");
    }
    check_alpha(&folded);
    assert!(folded.total_share("main") > 95.0, "{:?}", folded.leaves());
}

#[test]
fn a_process_that_is_not_there_is_an_error() {
    let output = pyrograph().args(["record", "-p", "999999999"]).output().expect("pyrograph runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("999999999"), "{}", stderr(&output));
}

#[test]
fn a_process_that_ends_early_ends_the_recording() {
    let case = Case::new();
    // How long it takes until all is ready to record depends on the machine: the process must not be
    // gone by then.
    for rounds in ["2000", "8000", "32000"] {
        let mut busy = Command::new(&case.program).arg(rounds).spawn().expect("the program runs");
        let pid = busy.id().to_string();
        // Else its number would stay in use until the end of the test.
        let waiting = std::thread::spawn(move || busy.wait());
        let start = Instant::now();
        let output = pyrograph()
            .args(["record", "-d", "1000", "-p", &pid, "-o"])
            .arg(case.folded())
            .output()
            .expect("pyrograph runs");
        assert!(start.elapsed() < Duration::from_secs(500), "it waited for the end of its time");
        waiting.join().expect("no panic").expect("it ends");
        let was_gone = stderr(&output).contains(&pid);
        assert!(output.status.success() || was_gone, "{}", stderr(&output));
        if output.status.success() && Folded::read(&case.folded()).total_share("alpha") > 20.0 {
            return;
        }
    }
    panic!("there are no samples of a process that runs for a quarter of a minute");
}

#[test]
fn the_whole_machine() {
    if !is_root("the_whole_machine") {
        return;
    }
    let case = Case::new();
    let mut busy = Command::new(&case.program).arg("1000000").spawn().expect("the program runs");
    let program = case.program.file_name().and_then(|name| name.to_str()).expect("plain name");
    // Other programs that run meanwhile are not known.
    let of_program = |mut folded: Folded| {
        folded.stacks.retain(|(stack, _)| stack[0] == program);
        folded
    };
    let record = |seconds: &str| {
        let mut command = pyrograph();
        command.args(["record", "-a", "-d", seconds, "-o"]).arg(case.folded());
        run(command.args(["-F", "1999", "--count", "samples"]));
        of_program(Folded::read(&case.folded()))
    };
    // Until its unwind table is made, some milliseconds after it is first seen, there are no callers.
    let folded = record_until(|folded| folded.total() >= 600.0, record);
    busy.kill().expect("it still runs");
    busy.wait().expect("it ends");
    assert!(folded.total_share("main") > 90.0, "{:?}", folded.leaves());
}

#[test]
fn children_that_live_for_milliseconds() {
    let case = Case::new();
    let script =
        format!("i=0; while [ $i -lt 60 ]; do {} 8; i=$((i+1)); done", case.program.display());
    run(pyrograph()
        .args(["record", "-F", "4999", "-o"])
        .arg(case.folded())
        .args(["--", "sh", "-c", &script]));
    let folded = Folded::read(&case.folded());
    let program = case.program.file_name().and_then(|name| name.to_str()).expect("plain name");
    let whole = folded.share(|stack| stack[0] == program && stack.iter().any(|f| f == "alpha"));
    assert!(whole > 5.0, "{whole}: {:?}", folded.leaves());
    run(pyrograph()
        .args(["record", "--no-inherit", "-o"])
        .arg(case.folded())
        .args(["--", "sh", "-c", &script]));
    assert_eq!(Folded::read(&case.folded()).total_share("alpha"), 0.0, "children were left out");
}

#[test]
fn what_cannot_be_said_costs_nothing() {
    let case = Case::new();
    let full = fs::File::options().write(true).open("/dev/full").expect("the device");
    let status = pyrograph()
        .args(["record", "-F", "4999", "-o"])
        .arg(case.folded())
        .args(["--", "sh", "-c", &format!("{} 300; exit 7", case.program.display())])
        .stderr(full)
        .status()
        .expect("pyrograph runs");
    assert_eq!(status.code(), Some(7));
    assert!(Folded::read(&case.folded()).total_share("alpha") > 20.0);
}

/// `ulimit -f`: a write beyond it ended the recording by a signal, be it to a file that is only kept for the next one.
#[test]
fn a_limit_for_files_does_not_cost_the_recording() {
    let case = Case::new();
    let command = format!("{} 300; head -c 5000 /dev/zero >large", case.program.display());
    let output = Command::new("sh")
        .args(["-c", "ulimit -f 1; exec \"$0\" record -F 4999 --to folded -- sh -c \"$1\""])
        .args([binary().as_os_str(), command.as_ref()])
        .current_dir(case.path(""))
        .env("XDG_CACHE_HOME", case.path("cache"))
        .output()
        .expect("a shell");
    let folded = Folded::parse(&String::from_utf8_lossy(&output.stdout));
    assert!(folded.total_share("alpha") > 20.0, "{}", stderr(&output));
    // The command has the signal.
    assert_eq!(output.status.code(), Some(128 + libc::SIGXFSZ));
}

/// Root created it, and what was kept in it.
#[test]
fn a_home_that_does_not_exist_is_not_created() {
    let case = Case::new();
    let home = case.path("home");
    let mut command = Command::new(binary());
    command.env("HOME", &home).env_remove("XDG_CACHE_HOME").current_dir(case.path(""));
    command.args(["record", "-o"]);
    run(command.arg(case.folded()).arg("--").arg(&case.program).arg("100"));
    assert!(!home.exists());
}

#[test]
fn one_output_that_fails_does_not_cost_the_others() {
    let case = Case::new();
    let full = case.path("full.svg");
    std::os::unix::fs::symlink("/dev/full", &full).expect("a link");
    let output = pyrograph()
        .args(["record", "-F", "4999", "-o"])
        .arg(&full)
        .arg("-o")
        .arg(case.folded())
        .arg("--")
        .arg(&case.program)
        .arg("300")
        .output()
        .expect("pyrograph runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("full.svg"), "{}", stderr(&output));
    assert!(Folded::read(&case.folded()).total_share("alpha") > 20.0);
}

#[test]
fn signal_handlers_hang_from_what_they_interrupt() {
    let case = Case::new();
    let source = case.path("signal.c");
    fs::write(
        &source,
        // The work is measured by the clock, for how long it takes differs between machines.
        "#include <signal.h>\n#include <sys/time.h>\n#include <time.h>\n\
         static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);\n\
         return t.tv_sec * 1e3 + t.tv_nsec / 1e6; }\n\
         __attribute__((noinline)) static void spin(double ms) {\n\
         for (double end = now() + ms; now() < end;) { } }\n\
         static volatile sig_atomic_t handled;\n\
         static void handler(int s) { (void)s; spin(3); handled++; }\n\
         int main(void) { signal(SIGALRM, handler);\n\
         for (int i = 0; i < 100; i++) {\n\
         struct itimerval once = {{0, 0}, {0, 1000}}; setitimer(ITIMER_REAL, &once, 0);\n\
         while (handled == i) spin(0.1); spin(3); } return 0; }\n",
    )
    .expect("own folder");
    let program = case.path("signal");
    run(Command::new("gcc").args(["-O1", "-g", "-o"]).arg(&program).arg(&source));
    run(pyrograph().args(["record", "-u", "-o"]).arg(case.folded()).arg("--").arg(&program));
    let folded = Folded::read(&case.folded());
    let below = |stack: &[String]| {
        let at = stack.iter().position(|frame| frame == "handler")?;
        Some(stack[at - 1].clone())
    };
    let handled = folded.share(|stack| below(stack).is_some());
    assert!(handled > 5.0, "{:?}", folded.leaves());
    // The trampoline has a name only where the C library's own symbols are.
    let wrong = folded.share(|stack| {
        below(stack).is_some_and(|frame| frame.ends_with("f") && frame.starts_with("libc"))
    });
    assert_eq!(wrong, 0.0, "the trampoline was looked up one byte below its start");
}

#[test]
fn vfork_has_its_return_address_in_a_register() {
    // The program's own part is too small.
    if !is_root("vfork_has_its_return_address_in_a_register") {
        return;
    }
    let case = Case::new();
    let source = case.path("forks.c");
    fs::write(
        &source,
        "#include <sys/wait.h>\n#include <unistd.h>\n\
         int main(void) { for (int i = 0; i < 5000; i++) {\n\
         pid_t child = vfork(); if (child == 0) _exit(0);\n\
         waitpid(child, 0, 0); } return 0; }\n",
    )
    .expect("own folder");
    let program = case.path("forks");
    run(Command::new("gcc").args(["-O1", "-o"]).arg(&program).arg(&source));
    run(pyrograph()
        .args(["record", "-F", "4999", "-o"])
        .arg(case.folded())
        .arg("--")
        .arg(&program));
    let folded = Folded::read(&case.folded());
    let in_vfork = |stack: &[String]| stack.iter().any(|frame| frame == "vfork");
    assert!(folded.share(in_vfork) > 5.0, "{:?}", folded.leaves());
    let broken = folded.share(|stack| in_vfork(stack) && stack[1] == "[unwinding failed]");
    assert_eq!(broken, 0.0);
}

#[test]
fn a_program_that_is_deleted_while_it_runs() {
    if !is_root("a_program_that_is_deleted_while_it_runs") {
        return;
    }
    let case = Case::new();
    let copy = case.path("doomed");
    fs::copy(&case.program, &copy).expect("a copy");
    let mut busy = Command::new(&copy).arg("1000000").spawn().expect("the program runs");
    fs::remove_file(&copy).expect("own file");
    // Another program takes its name: its symbols must not be used.
    fs::copy("/bin/true", &copy).expect("a copy");
    let record = |seconds: &str| {
        let mut command = pyrograph();
        command.args(["record", "-d", seconds, "-p", &busy.id().to_string(), "-o"]);
        run(command.arg(case.folded()).args(OFTEN));
        Folded::read(&case.folded())
    };
    let folded = record_until(|folded| folded.total() >= MANY, record);
    busy.kill().expect("it still runs");
    busy.wait().expect("it ends");
    check_alpha(&folded);
}

#[test]
fn a_program_in_a_mount_and_pid_namespace_of_its_own() {
    if !is_root("a_program_in_a_mount_and_pid_namespace_of_its_own") {
        return;
    }
    let case = Case::new();
    // The program is on a file system that only its own namespace sees.
    let hidden = case.path("hidden");
    fs::create_dir(&hidden).expect("a folder");
    let script = format!(
        "mount -t tmpfs none {0} && cp {1} {0}/inner && {0}/inner 500",
        hidden.display(),
        case.program.display()
    );
    run(pyrograph()
        .args(["record", "-o"])
        .arg(case.folded())
        .args(["--", "unshare", "--mount", "--pid", "--fork", "sh", "-c", &script]));
    let folded = Folded::read(&case.folded());
    let inner = folded.share(|stack| stack[0] == "inner" && stack.iter().any(|f| f == "alpha"));
    assert!(inner > 20.0, "{inner}: {:?}", folded.leaves());
}

#[test]
fn events_that_count() {
    let case = Case::new();
    let of_users = ["page-faults", "task-clock", "cpu-clock"];
    let of_kernel = ["context-switches", "cpu-migrations"].into_iter();
    let of_kernel = of_kernel.filter(|_| is_root("events that count, in the kernel"));
    for event in of_users.into_iter().chain(of_kernel) {
        let output =
            run(pyrograph().args(["record", "-e", event, "-o"]).arg(case.folded()).args([
                "--",
                "sh",
                "-c",
                "i=0; while [ $i -lt 40 ]; do ls / >/dev/null; i=$((i+1)); done",
            ]));
        if event != "cpu-migrations" {
            assert!(Folded::read(&case.folded()).total() > 20.0, "{event}: {}", stderr(&output));
        }
    }
    let output = pyrograph().args(["record", "-e", "cycels", "--", "true"]).output().expect("runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("cycles"), "a near name is offered: {}", stderr(&output));
}

#[test]
fn user_or_kernel_only() {
    if !is_root("user_or_kernel_only") {
        return;
    }
    let case = Case::new();
    let record =
        |flag: &[&str]| {
            run(pyrograph()
                .args(["record", "--annotate", "-o"])
                .arg(case.folded())
                .args(flag)
                .args(["--", "dd", "if=/dev/zero", "of=/dev/null", "bs=64", "count=400000"]));
            let folded = Folded::read(&case.folded());
            folded.share(|stack| stack.iter().any(|frame| frame.ends_with("_[k]")))
        };
    assert!(record(&[]) > 20.0);
    assert_eq!(record(&["-u"]), 0.0);
    assert!(record(&["-k"]) > 99.0);
}

#[test]
fn several_outputs_and_one_that_is_no_format() {
    let case = Case::new();
    run(pyrograph()
        .args(["record", "-o"])
        .arg(case.path("a.svg"))
        .arg("-o")
        .arg(case.folded())
        .arg("--")
        .arg(&case.program)
        .arg("200"));
    assert!(case.path("a.svg").exists() && case.folded().exists());
    let output = pyrograph()
        .args(["record", "-o", "x.pdf", "--", "touch"])
        .arg(case.path("touched"))
        .output()
        .expect("pyrograph runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains(".svg"), "{}", stderr(&output));
    assert!(!case.path("touched").exists(), "the command was not run in vain");
}

#[test]
fn nothing_to_sample_is_said() {
    let case = Case::new();
    let output = pyrograph()
        .args(["record", "-e", "cpu-clock", "-F", "1", "-o"])
        .arg(case.path("empty.svg"))
        .args(["--", "true"])
        .output()
        .expect("pyrograph runs");
    assert!(output.status.success());
    assert!(stderr(&output).contains("no samples"), "{}", stderr(&output));
    assert!(fs::read_to_string(case.path("empty.svg")).expect("a picture").contains("</svg>"));
}

#[test]
fn without_privileges_the_users_own_part_is_recorded() {
    if !is_root("without_privileges_the_users_own_part_is_recorded") {
        return;
    }
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").expect("the setting");
    if paranoid.trim() != "2" {
        eprintln!("skipped: kernel.perf_event_paranoid is {}, the test is for 2", paranoid.trim());
        return;
    }
    let case = Case::new();
    // The test's own folder may be closed to others: a copy is not.
    let own = case.path("pyrograph");
    fs::copy(binary(), &own).expect("a copy");
    let as_nobody = |args: &[&str]| {
        let mut command = as_nobody(&own);
        command.args(args).current_dir(case.folder.path());
        command
    };
    let folded = case.folded();
    let output = run(as_nobody(&["record", "-o", folded.to_str().expect("plain path")])
        .args(OFTEN)
        .arg("--")
        .arg(&case.program)
        .arg("1500"));
    let text = stderr(&output);
    assert!(text.contains("kernel.perf_event_paranoid") && text.contains('2'), "{text}");
    let folded = Folded::read(&folded);
    check_alpha(&folded);

    let output = as_nobody(&["record", "-a", "-d", "1"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains("perf_event_paranoid") && text.contains("sysctl"), "{text}");

    // Not samples of the CPU clock by another name: it is refused, and says what was and what would permit it.
    for flag in ["--syscalls", "--off-cpu", "--locks"] {
        let output = as_nobody(&["record", flag, "--", "true"]).output().expect("it runs");
        let text = stderr(&output);
        assert!(!output.status.success(), "{flag}: {text}");
        assert!(text.contains(&format!("{flag}: ")) && text.contains("for root"), "{text}");
        assert!(text.contains("sudo setcap") && !text.contains("wrote"), "{text}");
    }
}
