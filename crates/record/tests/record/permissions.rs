//! Recordings of a user without rights.

use std::process::Command;

use pyrograph_record::*;

use crate::recorded::{command, shell, to_the_end};

#[test]
fn the_setting_that_forbids_it_to_a_user_without_rights_is_named() {
    // SAFETY: the call takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    Command::new("chmod").arg("-R").arg("a+rx").arg(dir.path()).status().unwrap();
    let status = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"])
        .arg(&program)
        .args(["--exact", "permissions::unprivileged", "--ignored", "--nocapture"])
        .current_dir("/")
        .status();
    match status {
        Ok(status) => assert!(status.success()),
        Err(error) => eprintln!("skipped: setpriv: {error}"),
    }
}

#[test]
#[ignore = "run by another test as a user without rights"]
fn unprivileged() {
    // SAFETY: it takes no arguments and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        return eprintln!("skipped: this is root; another test runs it");
    }
    let setting = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    let paranoid: i32 = setting.trim().parse().unwrap();
    let cause = |options: &Options| match Session::open(options) {
        Err(Error::NotPermitted(refused)) => Some(refused.cause),
        Err(error) => panic!("{error}"),
        Ok(_) => None,
    };
    let forbidden =
        |needed| (paranoid > needed).then_some(Cause::Paranoid { value: paranoid, needed });
    assert_eq!(cause(&Options::new(Target::System)), forbidden(0));
    assert_eq!(
        cause(&Options { event: Event::parse("cs").ok(), ..command(["true"]) }),
        forbidden(1)
    );
    assert_eq!(cause(&Options { user: false, ..command(["true"]) }), forbidden(1));
    if paranoid <= 2 {
        assert_eq!(cause(&Options::new(Target::Processes(vec![1]))), Some(Cause::OtherUser));
        let options = shell("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done");
        let session = Session::open(&options).unwrap();
        assert_eq!(session.samples_kernel(), paranoid <= 1);
        let excluded =
            session.notices().iter().any(|notice| matches!(notice, Notice::KernelExcluded(_)));
        assert_eq!(excluded, paranoid > 1);
        drop(session);
        let recorded = to_the_end(&options).unwrap();
        assert!(recorded.stacks > 10 && recorded.kernel_addresses == 0);
    } else {
        assert_eq!(cause(&command(["true"])), forbidden(2));
    }
}
