//! System calls by `ptrace`, of real programs: beside `strace` of the same program, and through all that can happen to a thread.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use pyrograph_record::ptrace::{Traced, TracedCall, Tracer};
use pyrograph_record::{Error, Launch, Waiting};
use pyrograph_syscall::{Files, Written, arguments, by_number, result};

/// Runs a command to its end, and returns what it did.
fn trace(command: &[&str]) -> Vec<Traced> {
    let mut all = Vec::new();
    step_through(command, |traced| all.push(traced)).expect("the command can be traced");
    all
}

fn step_through(command: &[&str], mut f: impl FnMut(Traced)) -> Result<(), Error> {
    let argv: Vec<OsString> = command.iter().map(OsString::from).collect();
    let mut tracer = Tracer::command(
        Waiting::fork(&argv, &Launch { output_to_stderr: true, ..Launch::default() })?,
        32,
    )?;
    while !tracer.is_done() {
        if let Some(traced) = tracer.step()? {
            f(traced);
        }
    }
    Ok(())
}

/// Looks descriptors up in `/proc`, while the process is stopped.
struct Process(i32);

impl Files for Process {
    fn name(&self, descriptor: i32) -> Option<Cow<'_, str>> {
        let path = fs::read_link(format!("/proc/{}/fd/{descriptor}", self.0)).ok()?;
        Some(path.to_string_lossy().into_owned().into())
    }
}

/// Writes a call as `strace` does.
fn line(call: &TracedCall, files: &dyn Files) -> String {
    let name = by_number(call.number).map_or("?", |known| known.name);
    call.seen(|seen| {
        let words: Vec<String> =
            arguments(seen, files, &Written::default()).into_iter().map(|(_, word)| word).collect();
        format!("{name}({}) = {}", words.join(", "), result(seen, files))
    })
}

/// What differs between two runs of a program: addresses, and the order of names in a set of flags.
fn normal(line: &str) -> String {
    let mut out = String::new();
    // The number of a socket.
    let mut parts = line.split("socket:[");
    let first = parts.next().unwrap_or_default().to_owned();
    let line = parts.fold(first, |all, part| {
        all + "socket:" + part.split_once(']').map_or(part, |(_, rest)| rest)
    });
    for (index, word) in line.split(' ').filter(|word| !word.is_empty()).enumerate() {
        if index > 0 {
            out.push(' ');
        }
        let (word, tail) = match word.find([',', ')', '}', ']']) {
            Some(end) => word.split_at(end),
            None => (word, ""),
        };
        // `iov_base=` and `(` may come before an address.
        let from = word.rfind(['=', '(', '[', '{']).map_or(0, |at| at + 1);
        let (head, value) = word.split_at(from);
        out.push_str(head);
        match value {
            _ if value.starts_with("0x") && value.len() > 8 => out.push_str("ADDRESS"),
            _ if value.contains('|') && !value.contains('"') => {
                let mut names: Vec<&str> = value.split('|').collect();
                names.sort_unstable();
                out.push_str(&names.join("|"));
            }
            _ => out.push_str(value),
        }
        out.push_str(tail);
    }
    out
}

/// Compares the calls of a program of one thread with what `strace` shows of it, argument by argument.
fn check_beside_strace(command: &[&str], at_least: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("strace");
    let run = Command::new("strace")
        .arg("-y")
        .arg("-o")
        .arg(&file)
        .args(command)
        .stdout(std::io::stderr())
        .status();
    if run.is_err() {
        eprintln!("skipped: strace is not installed");
        return;
    }
    let text = String::from_utf8_lossy(&fs::read(&file).expect("strace wrote")).into_owned();
    let here = std::env::current_dir().expect("a folder");
    let is_call = |line: &&str| !line.starts_with(['-', '+']);
    // `strace` adds the working directory.
    let cwd = format!("AT_FDCWD<{}>", here.display());
    let theirs: Vec<String> =
        text.lines().filter(is_call).map(|line| normal(&line.replace(&cwd, "AT_FDCWD"))).collect();

    let mut ours = Vec::new();
    let done = step_through(command, |traced| {
        if let Traced::Call(call) = traced {
            ours.push(normal(&line(&call, &Process(call.process))));
        }
    });
    done.expect("the command can be traced");

    let name = |line: &String| line.split('(').next().unwrap_or_default().to_owned();
    let names = |lines: &[String]| lines.iter().map(name).collect::<Vec<_>>();
    assert_eq!(names(&ours), names(&theirs), "the same calls in the same order");
    assert!(ours.len() >= at_least, "{} calls", ours.len());
    // Numbers that differ each time, and a file that has been closed when its name is looked up.
    let varies = [
        "getrandom",
        "set_tid_address",
        "getpid",
        "getppid",
        "gettid",
        "sysinfo",
        "close",
        "dup2",
        "clone",
        "kill",
        "rt_sigreturn",
    ];
    let different: Vec<_> = ours
        .iter()
        .zip(&theirs)
        .filter(|(ours, theirs)| ours != theirs && !varies.contains(&name(ours).as_str()))
        .collect();
    assert!(different.is_empty(), "{different:#?}");
}

#[test]
fn calls_of_a_listing_are_those_of_strace() {
    check_beside_strace(&["ls", "-l", "/etc/ssl"], 100);
}

#[test]
fn calls_of_reading_a_file_are_those_of_strace() {
    check_beside_strace(&["tail", "-n", "3", "/etc/passwd"], 30);
}

#[test]
fn calls_of_a_shell_are_those_of_strace() {
    check_beside_strace(
        &["sh", "-c", "cd /tmp; umask 027; ulimit -n 100; trap : TERM; kill -TERM $$; echo done"],
        40,
    );
}

fn calls(all: &[Traced]) -> impl Iterator<Item = &TracedCall> {
    all.iter().filter_map(|traced| match traced {
        Traced::Call(call) => Some(call),
        _ => None,
    })
}

fn lines(all: &[Traced]) -> Vec<String> {
    calls(all).map(|call| line(call, &())).collect()
}

#[test]
fn the_first_call_is_the_execve_that_succeeds() {
    let all = trace(&["true"]);
    let lines = lines(&all);
    assert!(
        lines[0].starts_with("execve(\"") && lines[0].contains("[\"true\"], 0x"),
        "{}",
        lines[0]
    );
    assert!(lines[0].ends_with(" = 0"), "{}", lines[0]);
    assert_eq!(lines.last().map(String::as_str), Some("exit_group(0) = ?"));
    assert!(matches!(all.last(), Some(Traced::Ended { status: 0, .. })), "{:?}", all.last());
}

#[test]
fn a_command_that_is_not_there_is_an_error() {
    let error = step_through(&["/no/such/program"], |_| {}).expect_err("it cannot run");
    assert!(matches!(error, Error::Command { .. }), "{error}");
}

#[test]
fn children_and_threads_are_followed() {
    let all = trace(&["sh", "-c", "true & /bin/true; wait"]);
    let started = all.iter().filter(|traced| matches!(traced, Traced::Started { .. })).count();
    let ended = all.iter().filter(|traced| matches!(traced, Traced::Ended { .. })).count();
    assert_eq!((started, ended), (2, 3), "the shell itself is there from the start");
    let programs = lines(&all)
        .iter()
        .filter(|line| line.starts_with("execve(") && line.ends_with(" = 0"))
        .count();
    assert!(programs >= 2, "{programs}");
    let mut last: HashMap<i32, u64> = HashMap::new();
    for call in calls(&all) {
        let before = last.insert(call.thread, call.time).unwrap_or(0);
        assert!(before <= call.time, "calls of a thread are in order");
    }
}

#[test]
fn signals_reach_the_program_and_are_reported() {
    let all = trace(&["sh", "-c", "trap 'exit 7' USR1; kill -USR1 $$; exit 1"]);
    let signals: Vec<i32> = all
        .iter()
        .filter_map(|traced| match traced {
            Traced::Signal { signal, info, .. } => {
                assert_eq!(info.len(), 128);
                Some(*signal)
            }
            _ => None,
        })
        .collect();
    assert_eq!(signals, [libc::SIGUSR1]);
    assert!(
        matches!(all.last(), Some(Traced::Ended { status, .. }) if libc::WEXITSTATUS(*status) == 7),
        "{:?}",
        all.last()
    );
}

#[test]
fn a_call_that_a_kill_ends_has_no_result() {
    let all = trace(&["sh", "-c", "sleep 100 & kill -KILL $!; wait"]);
    let killed = all.iter().any(|traced| matches!(traced, Traced::Ended { status, .. } if libc::WTERMSIG(*status) == libc::SIGKILL));
    assert!(killed);
}

#[test]
fn a_stopped_process_stays_stopped_and_continues() {
    let all = trace(&[
        "sh",
        "-c",
        "(kill -STOP $BASHPID 2>/dev/null || kill -STOP $(sh -c 'echo $PPID'); echo on) & sleep 0.3; kill -CONT $!; wait $!",
    ]);
    let lines = lines(&all);
    assert!(lines.iter().any(|line| line.starts_with("write(1, \"on\\n\"")), "it went on");
}

/// Steps until a call comes whose line contains `wanted`.
fn step_until(tracer: &mut Tracer, wanted: &str) -> bool {
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        let step = tracer.step();
        if matches!(step, Ok(Some(Traced::Call(call))) if line(&call, &()).contains(wanted)) {
            return true;
        }
    }
    false
}

#[test]
fn a_running_process_is_attached_to_and_let_go() {
    let mut child =
        Command::new("sh").args(["-c", "while :; do sleep 0.05; done"]).spawn().expect("a shell");
    let pid = child.id().cast_signed();
    std::thread::sleep(Duration::from_millis(100));
    let mut tracer = Tracer::attach(&[pid], 32).expect("it can be traced");
    assert!(step_until(&mut tracer, "[\"sleep\", \"0.05\"]"), "its children are followed");
    tracer.detach().expect("it is let go");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs on");
    assert!(status.contains("TracerPid:\t0"), "{status}");
    child.kill().expect("it is there");
    child.wait().expect("it ends");
}

#[test]
fn no_process_cannot_be_attached_to() {
    let error = Tracer::attach(&[i32::MAX], 32).expect_err("there is no such process");
    assert!(matches!(error, Error::NoSuchProcess { pid: i32::MAX }), "{error}");
}
