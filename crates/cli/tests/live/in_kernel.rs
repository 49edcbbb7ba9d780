//! The in-kernel engine: what it counts must be what programs do, and nothing of it may stay behind.

use std::cell::RefCell;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::in_kernel::{
    C, Running, has_feature, map_of, record_command, value_of, wait_for_programs,
};
use crate::common::{
    Folded, compile, cpu_time, is_root, program_source, pyrograph, record_until, run, sharp,
    tolerance, wait_until,
};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

fn record(pid: u32, out: &Path, flags: &[&str]) -> Folded {
    run(pyrograph().args(["record", "-p", &pid.to_string(), "-o"]).arg(out).args(flags));
    Folded::read(out)
}

#[test]
fn shares_agree_with_those_of_the_perf_event_engine() {
    if !is_root("shares_agree_with_those_of_the_perf_event_engine") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(C, "split.c", folder.path());
    let busy = Running(Command::new(&program).arg("1000000").spawn().expect("the program runs"));
    let take = |engine| {
        let out = folder.path().join(engine).with_extension("folded");
        let flags = ["--engine", engine, "-F", "4999", "--count", "samples", "-d"];
        let record = |seconds: &str| record(busy.0.id(), &out, &[&flags[..], &[seconds]].concat());
        record_until(|folded| folded.total() >= sharp(2500.0, 12_000.0), record)
    };
    let (ours, theirs) = (take("ebpf"), take("perf"));
    // The variance of the difference of two shares is the sum of theirs.
    let samples = 1.0 / (1.0 / ours.total() + 1.0 / theirs.total());
    for function in ["alpha", "beta", "gamma_", "delta", "epsilon", "compare"] {
        let (ours, theirs) = (ours.total_share(function), theirs.total_share(function));
        let most = tolerance((ours + theirs) / 2.0, samples);
        assert!((ours - theirs).abs() < most, "{function}: {ours:.1} %, {theirs:.1} % ± {most:.1}");
    }
    // Its work takes all of its time, and no part of a stack is missing.
    assert!(ours.total_share("main") > 99.0, "{:?}", ours.leaves());
    assert!(ours.total_share("_start") > 99.0, "{:?}", ours.leaves());
}

#[test]
fn stacks_are_whole() {
    if !is_root("stacks_are_whole") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(C, "split.c", folder.path());
    let busy = Running(Command::new(&program).arg("1000000").spawn().expect("the program runs"));
    let out = folder.path().join("split.folded");
    let record = |seconds: &str| {
        let output = pyrograph()
            .args(["record", "-p", &busy.0.id().to_string(), "--engine", "ebpf", "-o"])
            .arg(&out)
            .args(["-F", "4999", "--count", "samples", "-d", seconds])
            .output()
            .expect("pyrograph runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Folded::read(&out)
    };
    let folded = record_until(|folded| folded.total() >= 2000.0, record);
    let whole = folded.total_share("_start");
    assert!(whole >= 99.5, "{whole} %, {:?}", folded.leaves());
}

// In containers one file system lies over another, and files have other numbers than the kernel gives them.
#[test]
fn files_in_layers_are_known_from_the_first_stack_on() {
    if !is_root("files_in_layers_are_known_from_the_first_stack_on") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for layer in ["lower", "upper", "merged"] {
        fs::create_dir(folder.path().join(layer)).expect("own folder");
    }
    compile(C, "split.c", &folder.path().join("lower"));
    let script =
        "mount -t overlay overlay -o lowerdir=lower:upper merged && exec merged/split_c 1000000";
    let busy =
        Command::new("unshare").args(["-m", "sh", "-c", script]).current_dir(folder.path()).spawn();
    let mut busy = Running(busy.expect("unshare runs"));
    let name = format!("/proc/{}/comm", busy.0.id());
    let pid = busy.0.id();
    // Its libraries are loaded when it is at work.
    let works = || {
        let is_it = fs::read_to_string(&name).is_ok_and(|name| name == "split_c\n");
        is_it && cpu_time(pid) > Duration::from_millis(200)
    };
    wait_until("the program works", || busy.0.try_wait().expect("its state").is_some() || works());
    if busy.0.try_wait().expect("its state").is_some() {
        eprintln!("skipped: this machine cannot lay file systems over one another");
        return;
    }
    let output = pyrograph()
        .args(["record", "-v", "-p", &busy.0.id().to_string(), "-F", "999", "-d", "1", "-o"])
        .arg(folder.path().join("out.folded"))
        .output()
        .expect("pyrograph runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(" 0 copied out and unwound in user space"), "{said}");
    let folded = Folded::read(&folder.path().join("out.folded"));
    assert!(folded.total_share("main") > 90.0, "{said}");
}

#[test]
fn tables_that_are_hit_have_the_memory() {
    if !is_root("tables_that_are_hit_have_the_memory") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let library = |name: &str, rows: usize| {
        let flags = ["-O2", "-fomit-frame-pointer", "-shared", "-fPIC", "-o"];
        let defines = [format!("-DNAME={name}"), format!("-DROWS={rows}")];
        let file = folder.path().join(format!("lib{name}.so"));
        let mut gcc = Command::new("gcc");
        run(gcc.args(flags).arg(file).args(defines).arg(program_source("rows.c")));
    };
    let record = |seconds: &str| {
        let mut program = Command::new(folder.path().join("meets"));
        program.arg(folder.path().join("libthree.so")).stdin(Stdio::piped());
        let mut program = Running(program.spawn().expect("the program runs"));
        let maps = format!("/proc/{}/maps", program.0.id());
        wait_until("its libraries are mapped", || {
            let maps = fs::read_to_string(&maps).unwrap_or_default();
            ["one", "two"].iter().all(|name| maps.contains(&format!("/lib{name}.so")))
        });
        let (out, said) = (folder.path().join("out.folded"), folder.path().join("said"));
        let mut record = pyrograph();
        record.args(["record", "-v", "-p", &program.0.id().to_string(), "-d", seconds]);
        record.args(["--table-memory", "1M", "--count", "samples", "-F", "997", "-o"]).arg(&out);
        record.stderr(fs::File::create(&said).expect("own folder"));
        let mut recording = Running(record.spawn().expect("pyrograph runs"));
        wait_for_programs(recording.0.id());
        program.0.stdin.take().expect("a pipe").write_all(b"x").expect("it waits for this");
        let status = recording.0.wait().expect("it ends");
        let said = fs::read_to_string(&said).expect("what it said");
        assert!(status.success(), "{said}");
        (Folded::read(&out), said)
    };
    // One MiB has room for the tables of two libraries, which are there when the third is loaded.
    for (name, rows) in [("one", 90_000), ("two", 90_000), ("three", 110_000)] {
        library(name, rows);
    }
    let flags = ["-O2", "-fomit-frame-pointer", "-Wl,--no-as-needed", "-L.", "-lone", "-ltwo"];
    let mut gcc = Command::new("gcc");
    gcc.current_dir(folder.path()).args(["-o", "meets"]).arg(program_source("meets.c"));
    run(gcc.args(flags).arg("-Wl,-rpath,$ORIGIN"));
    let said = RefCell::new(String::new());
    let record_and_keep = |seconds: &str| {
        let (folded, lines) = record(seconds);
        said.replace(lines);
        folded
    };
    // It came in when its code ran, for one whose code did not.
    let in_kernel = || number_before(&said.borrow(), "user stacks unwound in the kernel");
    let copied = || number_before(&said.borrow(), "copied out and unwound in user space");
    let folded =
        record_until(|folded| folded.total() >= 200.0 && in_kernel() > copied(), record_and_keep);
    assert!(folded.total_share("three") > 99.0, "{said:?}");
    let said = said.take();
    assert!(said.contains("in 1 MiB, "), "{said}");
    assert!(said.contains("1 MiB did not hold all unwind tables (--table-memory): 1 "), "{said}");

    // A table that can never fit is left out for good, and no other for it: then stacks are copied.
    library("three", 300_000);
    let mut said = String::new();
    let folded = record_until(
        |folded| folded.total() >= 200.0,
        |seconds| {
            let (folded, lines) = record(seconds);
            said = lines;
            folded
        },
    );
    let has = |stack: &[String], name: &str| stack.iter().any(|frame| frame == name);
    let through = folded.share(|stack| has(stack, "three") && has(stack, "main"));
    // Its start takes some samples on an emulated machine.
    assert!(through > 95.0, "{:?}", folded.leaves());
    assert!(said.contains("(--table-memory): 1 left out at the end"), "{said}");
    assert!(number_before(&said, "copied out and unwound in user space") >= 200, "{said}");
}

/// The number that stands before some words.
fn number_before(said: &str, words: &str) -> u64 {
    let before = said.split(&format!(" {words}")).next().unwrap_or_default();
    let number = before.rsplit(' ').next().unwrap_or_default().replace(',', "");
    number.parse().unwrap_or(0)
}

/// Waits until each thread of a process, all of which wait, is known to do so.
fn wait_for_waits(pyrograph: &Running, program: u32) {
    let map =
        |wanted: &str| map_of(pyrograph.0.id(), |name| name == wanted).expect("it counts waits");
    // Which of them is used depends on the events of the kernel.
    let (absences, blocked) = (map("absences"), map("blocked"));
    let holds = |map: &MapHandle, key: [u8; 4]| {
        map.lookup(&key, MapFlags::ANY).is_ok_and(|row| row.is_some())
    };
    let is_known = |tid: u32| {
        /// The descriptor is of a thread (Linux 6.9).
        const PIDFD_THREAD: i32 = libc::O_EXCL;
        if holds(&blocked, tid.to_ne_bytes()) {
            return true;
        }
        // SAFETY: it takes numbers, and gives a descriptor that is ours alone.
        let thread = unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_open, tid, PIDFD_THREAD);
            i32::try_from(fd).ok().filter(|fd| *fd >= 0).map(|fd| OwnedFd::from_raw_fd(fd))
        };
        thread.is_some_and(|thread| holds(&absences, thread.as_raw_fd().to_ne_bytes()))
    };
    wait_until("all waits are known", || {
        let threads = fs::read_dir(format!("/proc/{program}/task")).expect("it runs").flatten();
        let mut tids = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
        tids.all(is_known)
    });
}

/// Starts a program; when this returns, its libraries are loaded, and it waits for a byte on standard input.
fn begin(program: &Path) -> Running {
    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let running = Running(command.spawn().expect("the program runs"));
    // The system call that it is in and what it is given: `read`, of descriptor 0.
    let call = format!("/proc/{}/syscall", running.0.id());
    wait_until("the program waits", || {
        fs::read_to_string(&call).is_ok_and(|call| call.starts_with("0 0x0 "))
    });
    running
}

/// Records a program from when it waits for a byte on standard input until its end; what it wrote, too.
fn record_to_the_end(program: &Path, flags: &[&str]) -> (Folded, String) {
    let mut running = begin(program);
    let out = program.with_extension("folded");
    let mut recording = Running(
        pyrograph()
            .args(["record", "-p", &running.0.id().to_string(), "-o"])
            .arg(&out)
            .args(flags)
            .spawn()
            .expect("pyrograph runs"),
    );
    wait_for_programs(recording.0.id());
    if flags.contains(&"--off-cpu") {
        wait_for_waits(&recording, running.0.id());
    }
    running.0.stdin.take().expect("a pipe").write_all(b"x").expect("it waits for this");
    let mut text = String::new();
    running.0.stdout.take().expect("a pipe").read_to_string(&mut text).expect("what it wrote");
    running.0.wait().expect("it ends");
    assert!(recording.0.wait().expect("it ends with its target").success());
    (Folded::read(&out), text)
}

#[test]
fn each_event_is_counted_where_it_happens() {
    if !is_root("each_event_is_counted_where_it_happens") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(C, "asks.c", folder.path());
    let probe = format!("uprobe:{}:ask", program.display());

    let (folded, _) = record_to_the_end(&program, &["-e", &probe]);
    assert_eq!((folded.total(), value_of(&folded, "ask")), (1000.0, 1000.0));
    assert_eq!(value_of(&folded, "main"), 1000.0, "{:?}", folded.leaves());
    let (folded, _) = record_to_the_end(&program, &["--alloc"]);
    assert_eq!(value_of(&folded, "ask"), 1_000_000.0, "{:?}", folded.leaves());
    let (folded, _) = record_to_the_end(&program, &["--page-faults"]);
    assert_eq!(value_of(&folded, "touch"), 500.0, "{:?}", folded.leaves());
    let (folded, _) = record_to_the_end(&program, &["--syscalls"]);
    assert_eq!(value_of(&folded, "touch"), 2.0, "{:?}", folded.leaves());
}

#[test]
fn commands_are_recorded_from_their_first_instruction() {
    if !is_root("commands_are_recorded_from_their_first_instruction") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(C, "asks.c", folder.path());
    let probe = format!("uprobe:{}:ask", program.display());
    let (folded, _) = record_command(&program, &[], &["-e", &probe]);
    assert_eq!((folded.total(), value_of(&folded, "ask")), (1000.0, 1000.0));
    // Its tables were made before it ran.
    assert_eq!(value_of(&folded, "_start"), 1000.0, "{:?}", folded.stacks);
    let (folded, _) = record_command(&program, &[], &["--alloc"]);
    assert_eq!(value_of(&folded, "ask"), 1_000_000.0, "{:?}", folded.stacks);
    let (folded, _) = record_command(&program, &[], &["--page-faults", "--engine", "ebpf"]);
    assert_eq!(value_of(&folded, "touch"), 500.0, "{:?}", folded.leaves());

    let program = compile(C, "waits.c", folder.path());
    let (folded, text) = record_command(&program, &[], &["--off-cpu"]);
    agrees_with_what_it_measured(&folded, &text);
    // How it waited to be let go is no part of it.
    assert_eq!(value_of(&folded, "pyrograph::main"), 0.0, "{:?}", folded.stacks);
}

#[test]
fn children_are_recorded_and_exit_codes_handed_on() {
    if !is_root("children_are_recorded_and_exit_codes_handed_on") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(C, "asks.c", folder.path());
    let out = folder.path().join("out.folded");
    let script = format!("(echo x | {0}) && echo x | {0}; exit 7", program.display());
    let status = pyrograph()
        .args(["record", "-e", &format!("uprobe:{}:ask", program.display()), "-o"])
        .arg(&out)
        .args(["--", "sh", "-c", &script])
        .status()
        .expect("pyrograph runs");
    assert_eq!(status.code(), Some(7));
    // Before its table is made, stacks of a new program may end early, and yet have their names.
    let folded = Folded::read(&out);
    assert_eq!(value_of(&folded, "ask"), 2000.0, "{:?}", folded.stacks);
}

// In an `execve`, the memory is the new program's while the registers are the old one's; the C library's
// `vfork` has its return address in a register.
#[test]
fn stacks_of_programs_that_start_and_end_are_whole() {
    if !is_root("stacks_of_programs_that_start_and_end_are_whole") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(C, "starts.c", folder.path());
    let record = |seconds: &str| {
        let flags = ["--engine", "ebpf", "-F", "4999", "--count", "samples", "--annotate"];
        record_command(&program, &[seconds], &flags).0
    };
    let folded = record_until(|folded| folded.total() >= 2000.0, record);
    let share_in =
        |function: &str| folded.share(|stack| stack.iter().any(|frame| frame == function));
    assert!(share_in("__x64_sys_execve_[k]") > 1.0, "{:?}", folded.leaves());
    assert!(share_in("vfork") > 1.0, "{:?}", folded.leaves());
    // A child of `vfork` that is in its `execve` may see how its parent has gone on: some 0.1 %.
    let cut = folded.share(|stack| stack.get(1).is_some_and(|frame| frame.starts_with('[')));
    assert!(cut < 2.0, "{cut} %: {:?}", folded.stacks);
}

#[test]
fn only_what_is_asked_for_is_counted() {
    if !is_root("only_what_is_asked_for_is_counted") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(C, "asks.c", folder.path());
    let probe = format!("uprobe:{}:ask", program.display());
    let calls =
        |flags: &[&str]| record_command(&program, &[], &[&["-e", &probe], flags].concat()).0;
    assert_eq!(calls(&["--comm", "asks_c"]).total(), 1000.0);
    assert_eq!(calls(&["--comm", "other"]).total(), 0.0);
    let by = calls(&["--by", "cpu,process"]);
    assert_eq!(by.total(), 1000.0);
    for (stack, _) in &by.stacks {
        assert!(stack[0].starts_with("cpu") || stack[0].starts_with("CPU"), "{stack:?}");
        assert!(stack[1].starts_with("asks_c-"), "{stack:?}");
    }
}

#[test]
fn control_groups_are_kept_apart() {
    if !is_root("control_groups_are_kept_apart") {
        return;
    }
    let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
    let root = mounts.lines().find_map(|line| line.strip_prefix("cgroup2 ")?.split(' ').next());
    let Some(root) = root else {
        eprintln!("skipped: there are no control groups of version 2");
        return;
    };
    let group = Path::new(root).join(format!("pyrograph-test-{}", std::process::id()));
    if fs::create_dir(&group).is_err() {
        eprintln!("skipped: no control group can be made in {root}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(C, "asks.c", folder.path());
    let out = folder.path().join("out.folded");
    let inside = format!("echo $BASHPID > {}/cgroup.procs", group.display());
    let script = format!("echo x | {0}; ({inside}; echo x | {0})", program.display());
    let status = pyrograph()
        .args(["record", "-e", &format!("uprobe:{}:ask", program.display()), "-o"])
        .arg(&out)
        .arg("--cgroup")
        .arg(&group)
        .args(["--", "bash", "-c", &script])
        .status();
    let page = folder.path().join("out.html");
    // The program itself is gone before anybody can ask where it was: it was where its parent is.
    let script = format!("echo x | {0}; ({inside}; echo x | {0}; sleep 2)", program.display());
    let by_group = pyrograph()
        .args(["record", "-e", &format!("uprobe:{}:ask", program.display()), "-o"])
        .arg(&page)
        .args(["--", "bash", "-c", &script])
        .status();
    // Its processes have ended, or the group could not be removed.
    fs::remove_dir(&group).expect("an empty group");
    assert!(status.expect("pyrograph runs").success());
    assert_eq!(value_of(&Folded::read(&out), "ask"), 1000.0);

    // Without a filter, one group beside the other.
    assert!(by_group.expect("pyrograph runs").success());
    let folded = run(pyrograph().args(["fold", "--by", "cgroup"]).arg(&page));
    fs::write(&out, &folded.stdout).expect("a file");
    let folded = Folded::read(&out);
    let name = group.file_name().expect("a name").to_str().expect("UTF-8");
    let inside = |stack: &[String]| stack[0].ends_with(name);
    assert_eq!(folded.share(inside), 50.0, "{:?}", folded.stacks);
    assert!(folded.stacks.iter().all(|(stack, _)| stack[0].starts_with('/')));
}

/// `waits.c` prints how long each of its functions took.
fn agrees_with_what_it_measured(folded: &Folded, text: &str) {
    assert!(text.lines().count() > 2, "{text}");
    for line in text.lines() {
        let (function, measured) = line.split_once(' ').expect("a name and a number");
        let measured: f64 = measured.parse().expect("nanoseconds");
        let share = value_of(folded, function) / measured;
        // Between the clocks that the program reads and those of the recording lie some microseconds
        // for each of its 30 waits of tens of milliseconds, or some milliseconds where others want the CPU then.
        let (least, most) = sharp((0.93, 1.05), (0.98, 1.02));
        assert!((least..=most).contains(&share), "{function}: {share} of {measured} ns");
    }
}

#[test]
fn waits_have_their_shares_of_time_where_they_wait() {
    if !is_root("waits_have_their_shares_of_time_where_they_wait") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(C, "waits.c", folder.path());
    // Later kernels can be asked to do as those before Linux 6.16.
    waits_of_a_program(&program, &["--off-cpu"]);
    waits_of_a_program(&program, &["--off-cpu", "--at-switches"]);
}

fn waits_of_a_program(program: &Path, flags: &[&str]) {
    let (folded, text) = record_to_the_end(program, flags);
    let recorded = |function| value_of(&folded, function);
    agrees_with_what_it_measured(&folded, &text);
    let total_of_main: f64 =
        text.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum();
    let before = match has_feature("copy_from_user_task") {
        true => "forever",
        false => "[stack not taken]",
    };
    assert!(recorded(before) >= total_of_main, "it waited before the recording, and all along");
    assert!(folded.share(|stack| stack.iter().any(|frame| frame.contains("failed"))) < 0.1);
    let reason = |function: &str, reason: &str| {
        let both = |stack: &[String]| {
            stack.iter().any(|frame| frame == function) && stack.last().is_some_and(|f| f == reason)
        };
        folded.share(both) > 1.0
    };
    assert!(reason("locks", "[waiting for a lock]") && reason("sleeps", "[sleeping]"));
}

#[test]
fn tables_are_kept_for_the_next_recording() {
    if !is_root("tables_are_kept_for_the_next_recording") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(C, "waits.c", folder.path());
    let cache = folder.path().join("cache");
    // It waits until it is killed; the C library's table is one of the larger ones.
    let waiting = begin(&program);
    let tables = || fs::read_dir(cache.join("pyrograph/tables")).into_iter().flatten().count();
    let record = |flags: &[&str]| {
        let mut recording = Running(
            pyrograph()
                .args(["record", "-v", "--off-cpu", "-p", &waiting.0.id().to_string(), "-o"])
                .arg(folder.path().join("out.folded"))
                .args(flags)
                .env("XDG_CACHE_HOME", &cache)
                .stderr(Stdio::piped())
                .spawn()
                .expect("pyrograph runs"),
        );
        wait_for_programs(recording.0.id());
        let meanwhile = tables();
        let pid = recording.0.id().cast_signed();
        // SAFETY: it is a child that was not waited for.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
        let mut said = String::new();
        recording.0.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
        assert!(recording.0.wait().expect("it ends").success(), "{said}");
        let (before, _) = said.split_once(" of them from the cache").expect("it says so");
        let read = before.rsplit(' ').next().and_then(|word| word.parse::<usize>().ok());
        (meanwhile, tables(), read.expect("a number"))
    };
    assert_eq!(record(&["--no-cache"]), (0, 0, 0));
    let (meanwhile, kept, read) = record(&[]);
    assert_eq!((meanwhile, read), (0, 0), "it writes when the recording is over");
    assert!(kept > 0);
    assert_eq!(record(&[]), (kept, kept, kept));
    assert_eq!(record(&["--no-cache"]).2, 0);
}

#[test]
fn killed_it_leaves_no_program_in_the_kernel() {
    if !is_root("killed_it_leaves_no_program_in_the_kernel") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut recording = Running(
        pyrograph()
            .args(["record", "--wall", "-a", "-o"])
            .arg(folder.path().join("out.svg"))
            .spawn()
            .expect("pyrograph runs"),
    );
    let programs = wait_for_programs(recording.0.id());
    let is_there = |id: &u32| libbpf_rs::Program::fd_from_id(*id).is_ok();
    assert!(programs.len() >= 4 && programs.iter().all(is_there), "{programs:?}");
    recording.0.kill().expect("it runs");
    recording.0.wait().expect("it ends");
    wait_until("no program is left in the kernel", || !programs.iter().any(is_there));
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0);
}

// In a container, numbers of processes are others than the kernel's own.
#[test]
fn processes_are_recorded_from_inside_of_a_pid_namespace() {
    if !is_root("processes_are_recorded_from_inside_of_a_pid_namespace") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    // A name that no process of another test has.
    let program = folder.path().join("ns_split");
    fs::rename(compile(C, "split.c", folder.path()), &program).expect("own folder");
    let script = "
        $PROGRAM 1000000 & busy=$!
        $PYROGRAPH record --engine ebpf -F 999 -d 0.5 -p $busy -o attached.folded
        $PYROGRAPH record --engine ebpf -F 999 -d 0.5 -a --comm ns_split -o machine.folded
        $PYROGRAPH record --engine ebpf --wall -d 0.5 -p $busy -o wall.folded
        kill $busy
        $PYROGRAPH record --engine ebpf -F 499 -o command.folded -- sh -c \"$PROGRAM 500; true\"
    ";
    let pyrograph = pyrograph();
    let output = run(Command::new("unshare")
        .args(["-m", "-p", "-f", "--mount-proc", "sh", "-c", script])
        .envs(pyrograph.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("PYROGRAPH", pyrograph.get_program())
        .env("PROGRAM", &program)
        .current_dir(folder.path()));
    let said = String::from_utf8_lossy(&output.stderr);
    for name in ["attached", "machine", "wall", "command"] {
        let folded = Folded::read(&folder.path().join(name).with_extension("folded"));
        // Of a command its start, too, which takes a tenth of this on an emulated machine.
        let least = if name == "command" { 75.0 } else { 90.0 };
        assert!(folded.total_share("main") > least, "{name}: {said} {:?}", folded.leaves());
    }
    // A program outside has no number in there.
    let outside = Running(Command::new(&program).arg("1000000").spawn().expect("it runs"));
    let all = "$PYROGRAPH record --engine ebpf -F 499 -d 0.5 -a --by process -o all.folded";
    run(Command::new("unshare")
        .args(["-m", "-p", "-f", "--mount-proc", "sh", "-c", all])
        .envs(pyrograph.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("PYROGRAPH", pyrograph.get_program())
        .current_dir(folder.path()));
    drop(outside);
    let all = fs::read_to_string(folder.path().join("all.folded")).expect("it was written");
    assert!(all.contains("ns_split-?;") && !all.contains("ns_split--1"), "{all}");
}

/// The stack of a 32-bit program is not unwound, but where it was interrupted has a name.
#[test]
fn leaves_of_32_bit_programs_have_names() {
    if !is_root("leaves_of_32_bit_programs_have_names") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = crate::common::compile32("calls32.c", folder.path()) else { return };
    let out = folder.path().join("out.folded");
    let mut command = pyrograph();
    command.args(["record", "-u", "--engine", "ebpf", "-F", "499", "-o"]).arg(&out);
    command.arg("--").arg(&program).output().expect("it runs");
    let folded = Folded::read(&out);
    let share = folded.self_share("work");
    assert!(share > 95.0, "{share} %: {:?}", folded.leaves());
}
