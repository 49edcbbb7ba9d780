//! How recordings begin and end, and what cannot be recorded.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant};

use pyrograph_record::*;

use crate::recorded::{command, pid, record, shell, to_the_end};

#[test]
fn the_exit_status_passes_through() {
    let Some(recorded) = to_the_end(&shell("exit 7")) else { return };
    assert_eq!(recorded.summary.status.unwrap().code(), Some(7));
    let recorded = to_the_end(&shell("kill -TERM $$")).unwrap();
    assert_eq!(recorded.summary.status.unwrap().signal(), Some(libc::SIGTERM));
}

#[test]
fn a_recording_can_be_stopped_before_the_command_ends() {
    let start = Instant::now();
    let mut child = None;
    let recorded = record(&command(["sleep", "100"]), |recording| {
        child = recording.child().map(|child| child.pid());
        start.elapsed() > Duration::from_millis(100)
    });
    let Some(recorded) = recorded else { return };
    assert_eq!((recorded.summary.ended, recorded.summary.status), (Ended::Stopped, None));
    // SAFETY: our own child, that has not been waited for.
    assert_eq!(unsafe { libc::kill(child.unwrap(), libc::SIGKILL) }, 0, "it still ran");
}

#[test]
fn commands_that_cannot_run() {
    let fail = |words: &[&str]| {
        let argv = words.iter().map(OsString::from).collect();
        let opened = Session::open(&Options::new(Target::Command(argv)));
        let error = opened.and_then(Session::start).map(drop).unwrap_err();
        match std::error::Error::source(&error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        }
    };
    assert_eq!(
        fail(&["./no-such-program"]),
        "failed to run './no-such-program': No such file or directory (os error 2)"
    );
    assert_eq!(
        fail(&["/etc/passwd"]),
        "failed to run '/etc/passwd': Permission denied (os error 13)"
    );
    assert_eq!(fail(&[]), "no command to run");
}

#[test]
fn a_command_that_was_never_started_does_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    let options = command(["touch", file.to_str().unwrap()]);
    drop(Session::open(&options));
    assert!(!file.exists());
}

#[test]
fn a_process_that_does_not_exist() {
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let pid = pid(&gone);
    let error = Session::open(&Options::new(Target::Processes(vec![pid]))).unwrap_err();
    assert_eq!(error.to_string(), format!("no process has the PID {pid}"));
}

#[test]
fn options_out_of_their_range() {
    let fail = |options: Options| Session::open(&options).unwrap_err().to_string();
    let base = || command(["true"]);
    let stack = Options { stack: StackMode::Dwarf { bytes: 65_529 }, ..base() };
    assert_eq!(fail(stack), "stack size 65529 is out of range: a multiple of 8, up to 65528");
    assert_eq!(
        fail(Options { rate: Some(Rate::Hertz(0)), ..base() }),
        "frequency 0 is out of range: at least 1 a second"
    );
    assert_eq!(
        fail(Options { user: false, kernel: false, ..base() }),
        "nothing to sample: both user and kernel mode are excluded"
    );
}

/// A Ctrl-C right after the fork, before the child had taken away this program's handlers, was swallowed by them, and the command
/// ran on.
#[test]
fn a_signal_right_after_the_fork_ends_the_command() {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGHUP, nothing as extern "C" fn(i32) as libc::sighandler_t) };
    for round in 0..300 {
        let argv: Vec<OsString> = ["sleep", "1000"].map(OsString::from).into();
        let waiting = Waiting::fork(&argv, &Launch::default()).unwrap();
        let pid = waiting.pid();
        // SAFETY: the child is ours, and has not been waited for.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGHUP) }, 0);
        let status = match waiting.run() {
            Ok(mut child) => child.wait().unwrap(),
            // It was gone before it could execute the program.
            Err(_) => continue,
        };
        assert_eq!(status.signal(), Some(libc::SIGHUP), "round {round}");
    }
}
