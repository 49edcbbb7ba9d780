//! Kept profiles: `agent` and the verbs that read what it keeps. What is expected is the kernel's account of CPU time.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::in_kernel::Running;
use crate::common::{Folded, compile, cpu_time, is_root, pyrograph, text};

const C: &[&str] =
    &["gcc", "-O2", "-g", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-pthread"];

fn run(arguments: &[&str]) -> Output {
    pyrograph().args(arguments).output().expect("pyrograph runs")
}

/// Seconds of a service in a part of a store.
fn seconds(input: &str) -> f64 {
    let output = run(&["fold", input]);
    Folded::parse(&text(&output.stdout)).total() / 1e9
}

fn segments(folder: &Path) -> usize {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter(|file| file.path().extension().is_some_and(|of| of == "parquet")).count()
}

#[test]
fn what_an_agent_keeps_is_what_ran() {
    if !is_root("what_an_agent_keeps_is_what_ran") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("kept_program");
    std::fs::rename(compile(C, "paced.c", folder.path()), &program).expect("our file");
    let mut spinning = Command::new(&program);
    let spinning = spinning.args(["1", "1", "endless"]).stdout(Stdio::null()).spawn();
    let spinning = Running(spinning.expect("it runs"));
    let pid = spinning.0.id();
    let store = folder.path().join("store");
    let path = store.to_str().expect("a plain path");
    let at_start = cpu_time(pid);
    let agent = ["agent", "--store", path, "-F", "199", "--segment", "2s", "-d", "7"];
    let mut agent = pyrograph().args(agent).stderr(Stdio::piped()).spawn().expect("an agent");
    let begun = Instant::now();
    while segments(&store) == 0 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let at_first = cpu_time(pid);
    let second = run(&["agent", "--store", path, "-d", "1"]);
    assert!(text(&second.stderr).contains("another pyrograph writes to it"), "{second:?}");
    assert_eq!(second.status.code(), Some(1));
    let ended = agent.wait().expect("it ends");
    let at_end = cpu_time(pid);
    assert!(ended.success());
    assert!(segments(&store) >= 3, "{} segments", segments(&store));
    // The first segment is of two seconds, which begin while the agent starts.
    let kept = seconds(&format!("store:{path}?service=kept_pro*"));
    let [least, most] = [at_first, at_start].map(|begin| (at_end - begin).as_secs_f64());
    assert!(kept > 0.9 * least && kept < 1.1 * most, "{kept} s kept of {least} to {most} s");
    // The two halves of the time have all of it.
    let middle = "-3s";
    let halves = [format!("..{middle}"), format!("{middle}..")];
    let report = |range: &str| seconds(&format!("store:{path}@{range}?service=kept_pro*"));
    let first = report(&halves[0]);
    assert!(first > 0.0 && first < kept, "{first} of {kept}");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let of_host = seconds(&format!("store:{path}?service=kept_pro*&host={}", host.trim()));
    assert_eq!(of_host, kept);
    // What may be secret is not kept.
    let files = std::fs::read_dir(&store).expect("a folder").flatten().map(|file| file.path());
    for file in files.filter(|path| path.extension().is_some_and(|of| of == "parquet")) {
        let lines = run(&["fold", "--by", "cmdline", file.to_str().expect("a plain path")]);
        assert!(!text(&lines.stdout).contains("endless"), "{}", file.display());
    }
    // By the verb, as another file, and as itself.
    let picture = folder.path().join("x.svg");
    let args = ["query", "--store", path, "--last", "1h", "-o"];
    let output = pyrograph().args(args).arg(&picture).output().expect("pyrograph runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let picture = std::fs::read_to_string(&picture).expect("a picture");
    assert!(picture.contains("kept_program"), "{}", text(&output.stderr));
    let report = run(&["query", "--store", path, "--service", "nosuch"]);
    assert!(text(&report.stderr).contains("has no samples of this time"), "{report:?}");
    let whole = run(&["store", "check", path]);
    assert!(whole.status.success() && text(&whole.stdout).contains(" 0 of them damaged"));
    // What is damaged is said, and the rest is shown.
    let file = std::fs::read_dir(&store).expect("a folder").flatten();
    let mut files: Vec<_> = file.map(|file| file.path()).collect();
    files.retain(|path| path.extension().is_some_and(|of| of == "parquet"));
    files.sort();
    let mut bytes = std::fs::read(&files[1]).expect("a segment");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&files[1], bytes).expect("it is written");
    let checked = run(&["store", "check", path]);
    assert_eq!(checked.status.code(), Some(1), "{checked:?}");
    assert!(text(&checked.stderr).contains("it is damaged: the checksum"), "{checked:?}");
    let rest = run(&["fold", &format!("store:{path}?service=kept_pro*")]);
    assert!(text(&rest.stderr).contains("it is damaged"), "{}", text(&rest.stderr));
    let rest = Folded::parse(&text(&rest.stdout)).total() / 1e9;
    assert!(rest > 0.0 && rest < kept, "{rest} of {kept}");
}
