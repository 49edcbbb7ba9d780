//! `pyrograph record` of Java, whose virtual machine is asked for the names of what it compiles, by the engine that does not
//! read these from its memory.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::in_kernel::Running;
use crate::common::{
    Folded, compile, compile_java, cpu_time, is_root, pyrograph, run, slice, tolerance, wait_until,
};

/// The methods of `Split.java`, and their shares.
const METHODS: [(&str, f64); 3] = [
    ("int Split.six(int, int)", 60.0),
    ("int Split.three(int, int)", 30.0),
    ("int Split.one(int, int)", 10.0),
];

/// So many points are what the interpreter took at first.
const POINTS: f64 = 2.0;

/// Rounds of the methods for ever; a hundred take a second.
const FOREVER: &str = "1000000000";

const ENGINES: [&str; 2] = ["ebpf", "perf"];

/// Runs a test with a folder that holds the compiled program, if there is a JDK that can be asked.
fn with_java(test: &str, body: impl FnOnce(&Path)) {
    let version = Command::new("java").arg("--version").output();
    // `openjdk 17.0.15 2025-04-15`
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let number =
        version.as_ref().ok().and_then(|text| text.split([' ', '.', '\n']).nth(1)?.parse().ok());
    let folder = tempfile::tempdir().expect("a folder");
    if number.unwrap_or(0) < 17 || !compile_java("Split.java", folder.path()) {
        eprintln!("skipped: {test} needs a JDK, 17 or newer");
        return;
    }
    // For other users.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("own folder");
    body(folder.path());
}

/// The engines that can be used here.
fn engines(test: &str) -> impl Iterator<Item = &'static str> {
    ENGINES.into_iter().filter(move |engine| *engine == "perf" || is_root(test))
}

fn java(classes: &Path, flags: &[&str], words: &[&str]) -> Command {
    let mut command = Command::new("java");
    command.args(flags).arg("-cp").arg(classes).arg("Split").args(words);
    command
}

/// Records a process with these flags until there are some samples: a busy machine may give it little.
fn attach(folder: &Path, flags: &[&str]) -> (Folded, String) {
    let mut last = None;
    for seconds in ["1", "4", "16"] {
        let (folded, said) = record(folder, &[flags, &["-d", seconds]].concat(), None);
        if folded.total() >= 300.0 {
            return (folded, said);
        }
        last = Some(said);
    }
    panic!("too few samples: {last:?}");
}

/// Returns true if machines take long to answer, as on a busy machine. They are asked for at most a fiftieth of the time: then
/// what is compiled later may have no name yet when the machine ends.
fn answers_slowly(said: &str) -> bool {
    // `java (PID 21658) was asked for names 2 times, 212 ms in all`
    let numbers =
        said.lines().find_map(|line| line.split_once("was asked for names ")).map(|it| it.1);
    let mut words =
        numbers.unwrap_or_default().split([' ', ',']).filter_map(|word| word.parse().ok());
    match (words.next(), words.next()) {
        (Some(times), Some(milliseconds)) => {
            let (times, milliseconds): (f64, f64) = (times, milliseconds);
            milliseconds / times > 20.0
        }
        _ => false,
    }
}

/// Records with these flags; returns stacks, and what was said.
fn record(folder: &Path, flags: &[&str], command: Option<&Command>) -> (Folded, String) {
    let out = folder.join("out.folded");
    let mut recorder = pyrograph();
    recorder.args(["record", "-v", "-F", "1999", "--count", "samples", "-o"]).arg(&out).args(flags);
    if let Some(command) = command {
        recorder.arg("--").arg(command.get_program()).args(command.get_args());
    }
    let Output { stderr, .. } = run(&mut recorder);
    (Folded::read(&out), String::from_utf8(stderr).expect("text"))
}

/// Starts a program, and waits until its methods have been compiled: `pid` is its own where others start it.
fn start(command: &mut Command, pid: impl Fn(u32) -> Option<u32>) -> (Running, u32) {
    let running = Running(command.spawn().expect("it starts"));
    let mut found = None;
    wait_until("it runs", || {
        found = pid(running.0.id());
        found.is_some_and(|pid| has_thread(pid, "VM Thread") && cpu_time(pid).as_secs() >= 1)
    });
    (running, found.expect("it runs"))
}

fn itself(pid: u32) -> Option<u32> {
    Some(pid)
}

fn has_thread(pid: u32, name: &str) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut names =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
    names.any(|found| found.trim_end() == name)
}

/// Shares of the methods, of all that they have together; which part of all samples that is.
fn split(folded: &Folded) -> ([f64; 3], f64) {
    let shares = METHODS.map(|(name, _)| folded.self_share(name));
    let sum: f64 = shares.iter().sum();
    (shares.map(|share| 100.0 * share / sum), sum)
}

#[track_caller]
fn check_split(folded: &Folded, least: f64, said: &str) {
    let (shares, sum) = split(folded);
    assert!(sum >= least, "{sum} %: {:?}\n{said}", folded.leaves());
    let samples = folded.total() * sum / 100.0;
    assert!(samples > 100.0, "{samples} samples\n{said}");
    for (share, (name, expect)) in shares.iter().zip(METHODS) {
        let points = POINTS + tolerance(expect, samples);
        assert!(
            (share - expect).abs() <= points,
            "{name}: {share} % ± {points}: {:?}",
            folded.leaves()
        );
    }
}

#[track_caller]
fn check_nameless(folded: &Folded) {
    let named = folded.share(|stack| stack.iter().any(|frame| frame.contains("Split.")));
    assert_eq!(named, 0.0, "{:?}", folded.leaves());
    let unknown =
        |stack: &[String]| stack.last().is_some_and(|frame| frame.starts_with("[unknown"));
    assert!(folded.share(unknown) > 50.0, "{:?}", folded.leaves());
}

/// The processes that were asked.
fn asked(said: &str) -> Vec<&str> {
    let lines = said.lines().filter(|line| line.contains("names its code"));
    lines.filter_map(|line| Some(line.split_once("(PID ")?.1.split_once(')')?.0)).collect()
}

#[test]
fn compiled_methods_have_names() {
    let test = "compiled_methods_have_names";
    with_java(test, |folder| {
        // The in-kernel engine records Java in java_calls.rs each time.
        for &engine in slice(&["perf", "ebpf"], 1) {
            if !engines(test).any(|usable| usable == engine) {
                continue;
            }
            let command = java(folder, &[], &["250"]);
            let (folded, said) = record(folder, &["--engine", engine], Some(&command));
            // The in-kernel engine reads names itself.
            if engine == "perf" && answers_slowly(&said) {
                eprintln!(
                    "skipped: names of what is compiled late: the machine takes too long to answer"
                );
            } else {
                check_split(&folded, 50.0, &said);
            }
            let pids = asked(&said);
            assert!(pids.len() <= 1 && (engine == "ebpf" || pids.len() == 1), "{said}");
            // What is there because it was asked is removed.
            let Some(pid) = pids.first() else { continue };
            for name in [format!("perf-{pid}.map"), format!(".attach_pid{pid}")] {
                assert!(!Path::new("/tmp").join(&name).exists(), "{name}\n{said}");
            }
        }
    });
}

#[test]
#[ignore = "nightly: ten seconds of Java, of which others here have parts"]
fn methods_that_are_compiled_later_have_names_when_the_command_has_ended() {
    let test = "methods_that_are_compiled_later_have_names_when_the_command_has_ended";
    with_java(test, |folder| {
        for engine in engines(test) {
            let command = java(folder, &[], &["late", "150"]);
            let (folded, said) = record(folder, &["--engine", engine], Some(&command));
            let shares = METHODS.map(|(name, _)| folded.self_share(name));
            if engine == "perf" && answers_slowly(&said) {
                eprintln!(
                    "skipped: names of what is compiled late: the machine takes too long to answer"
                );
                continue;
            }
            assert!(shares[0] > 25.0 && shares[1] > 25.0, "{shares:?}\n{said}");
        }
    });
}

#[test]
fn a_machine_that_runs_is_asked() {
    let test = "a_machine_that_runs_is_asked";
    with_java(test, |folder| {
        let flags: [&[&str]; 3] = [&["-XX:-UsePerfData", "-XX:+UseSerialGC"], &["-Xrs"], &[]];
        for flags in slice(&flags, 1) {
            let mut command = java(folder, flags, &[FOREVER]);
            let (mut running, pid) = start(command.stdout(Stdio::piped()), itself);
            for engine in engines(test) {
                let pid = pid.to_string();
                let flags = ["-p", &pid, "--engine", engine];
                let (folded, said) = attach(folder, &flags);
                check_split(&folded, 80.0, &said);
            }
            assert!(running.0.try_wait().expect("own child").is_none(), "it goes on");
            assert_eq!(end(running), "", "{flags:?}");
        }
    });
}

/// Ends a program; returns what it wrote.
fn end(mut running: Running) -> String {
    running.0.kill().expect("own child");
    let mut stdout = running.0.stdout.take().expect("a pipe");
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut text).expect("text");
    text
}

#[test]
#[ignore = "nightly: one in a container, of another user too, is asked each time"]
fn the_machine_of_another_user_is_asked() {
    let test = "the_machine_of_another_user_is_asked";
    if !is_root(test) {
        return;
    }
    with_java(test, |folder| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=4321", "--regid=5432", "--clear-groups", "java", "-cp"]);
        let (_running, pid) = start(command.arg(folder).args(["Split", FOREVER]), itself);
        for engine in ENGINES {
            let pid = pid.to_string();
            let (folded, said) = attach(folder, &["-p", &pid, "--engine", engine]);
            check_split(&folded, 80.0, &said);
        }
    });
}

/// In namespaces of its own, of users too, where it is root, has another number, and another `/tmp`. The last one finds
/// there what was left by the one before, which had the same number.
#[test]
fn a_machine_in_a_container_is_asked() {
    const INSIDE: &str =
        "mount --bind \"$0\" /mnt && mount --bind \"$1\" /tmp && exec java -cp /mnt Split \"$2\"";
    let test = "a_machine_in_a_container_is_asked";
    if !is_root(test) {
        return;
    }
    let namespaces = ["-U", "-r", "-m", "-p", "-f", "--kill-child"];
    let unshare =
        Command::new("unshare").args(namespaces).args(["mount", "--bind", "/tmp", "/mnt"]).output();
    if !unshare.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: {test} needs user namespaces");
        return;
    }
    with_java(test, |folder| {
        for (user, engine) in [(0, "ebpf"), (4321, "perf"), (4321, "ebpf")] {
            let tmp = folder.join("tmp").join(user.to_string());
            fs::create_dir_all(&tmp).expect("own folder");
            let for_all = fs::Permissions::from_mode(0o1777);
            fs::set_permissions(&tmp, for_all).expect("own folder");
            let mut command = Command::new("setpriv");
            command.args([format!("--reuid={user}"), format!("--regid={user}")]);
            command.args(["--clear-groups", "unshare"]).args(namespaces);
            command.args(["sh", "-c", INSIDE]).args([folder, &tmp]).arg(FOREVER);
            // The child of what was started.
            let child = |pid: u32| {
                let of = format!("/proc/{pid}/task/{pid}/children");
                fs::read_to_string(of).ok()?.split(' ').next()?.parse().ok()
            };
            let (running, pid) = start(&mut command, child);
            let pid = pid.to_string();
            let flags = ["-p", &pid, "--engine", engine];
            let (folded, said) = attach(folder, &flags);
            check_split(&folded, 80.0, &said);
            drop(running);
            let left = fs::read_dir(&tmp).expect("own folder").flatten();
            let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
            let is_ours = |name: &str| name.starts_with("perf-") || name.starts_with(".attach");
            assert!(!left.iter().any(|name| is_ours(&name.to_string_lossy())), "{left:?}");
        }
    });
}

/// With this flag the machine answers the signal with the stacks of all threads on its standard output.
#[test]
#[ignore = "nightly: five seconds of Java"]
fn a_machine_that_may_not_be_attached_to_is_left_alone() {
    let test = "a_machine_that_may_not_be_attached_to_is_left_alone";
    with_java(test, |folder| {
        let mut command = java(folder, &["-XX:+DisableAttachMechanism"], &[FOREVER]);
        let (running, pid) = start(command.stdout(Stdio::piped()), itself);
        for engine in engines(test) {
            let pid = pid.to_string();
            let flags = ["-p", &pid, "--engine", engine];
            let (folded, said) = attach(folder, &flags);
            if engine == "ebpf" {
                check_split(&folded, 80.0, &said);
                continue;
            }
            check_nameless(&folded);
            assert!(said.contains("was started with -XX:+DisableAttachMechanism"), "{said}");
        }
        assert_eq!(end(running), "");
    });
}

#[test]
#[ignore = "nightly: five seconds of Java"]
fn no_attach_leaves_machines_alone() {
    let test = "no_attach_leaves_machines_alone";
    with_java(test, |folder| {
        let (_running, pid) = start(&mut java(folder, &[], &[FOREVER]), itself);
        for engine in engines(test) {
            let id = pid.to_string();
            let flags = ["-p", &id, "--engine", engine, "--no-attach"];
            let (folded, said) = attach(folder, &flags);
            match engine {
                "ebpf" => check_split(&folded, 80.0, &said),
                _ => check_nameless(&folded),
            }
            assert!(!said.contains("java (PID") && asked(&said).is_empty(), "{said}");
            assert!(!has_thread(pid, "Attach Listener"));
        }
    });
}

/// The machine would write over a map that is there, or would say that it cannot.
#[test]
fn maps_that_are_there_stay() {
    let test = "maps_that_are_there_stay";
    if !is_root(test) {
        return;
    }
    with_java(test, |folder| {
        let mut command = java(folder, &[], &[FOREVER]);
        let (running, pid) = start(command.stdout(Stdio::piped()), itself);
        let map = PathBuf::from(format!("/tmp/perf-{pid}.map"));
        fs::write(&map, "1000 10 other\n").expect("a map");
        std::os::unix::fs::chown(&map, Some(4321), None).expect("this is root");
        let id = pid.to_string();
        let flags = ["-p", &id, "--engine", "perf"];
        let (folded, said) = attach(folder, &flags);
        check_nameless(&folded);
        assert!(said.contains(&format!("/tmp/perf-{pid}.map is there and not its own")), "{said}");
        assert_eq!(fs::read_to_string(&map).expect("a map"), "1000 10 other\n");

        // One of its own is a newer one afterwards.
        std::os::unix::fs::chown(&map, Some(0), None).expect("this is root");
        let (folded, said) = attach(folder, &flags);
        check_split(&folded, 80.0, &said);
        assert!(fs::metadata(&map).expect("a map").size() > 1000);
        fs::remove_file(&map).expect("own file");

        // One that an agent in it writes.
        drop(running);
        let agents = File::create(&map).expect("a map");
        let mut command = java(folder, &[], &[FOREVER]);
        command.stdin(agents.try_clone().expect("a descriptor"));
        let (_running, pid) = start(&mut command, itself);
        let own = PathBuf::from(format!("/tmp/perf-{pid}.map"));
        fs::rename(&map, &own).expect("own file");
        let (folded, said) = attach(folder, &["-p", &pid.to_string(), "--engine", "perf"]);
        check_nameless(&folded);
        assert!(said.contains("an agent in it writes a map already"), "{said}");
        assert_eq!(fs::metadata(&own).expect("a map").size(), 0);
        fs::remove_file(&own).expect("own file");
    });
}

/// SIGQUIT would end it.
#[test]
fn what_maps_the_library_and_is_no_machine_is_left_alone() {
    let test = "what_maps_the_library_and_is_no_machine_is_left_alone";
    with_java(test, |folder| {
        let properties = run(Command::new("java").args(["-XshowSettings:properties", "-version"]));
        let properties = String::from_utf8_lossy(&properties.stderr).into_owned();
        let home = properties.lines().find_map(|line| line.trim().strip_prefix("java.home = "));
        let library = Path::new(home.expect("a home")).join("lib/server/libjvm.so");
        assert!(library.exists(), "{library:?}");
        let program = compile(&["gcc", "-O1"], "no_machine.c", folder);
        for engine in engines(test) {
            for word in ["", "handler"] {
                let mut command = Command::new(&program);
                command.arg(&library).args(Some(word).filter(|word| !word.is_empty()));
                // Its exit code, 0, is that of the recorder.
                let (folded, said) = record(folder, &["--engine", engine], Some(&command));
                assert!(folded.total_share("main") > 50.0, "{:?}", folded.leaves());
                assert!(!said.contains("killed") && asked(&said).is_empty(), "{said}");
            }
        }
    });
}
