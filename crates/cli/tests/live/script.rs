//! `pyrograph script` beside `perf script`, on recordings that are made here; and its filters, against all events.
//!
//! Where the two differ, and why, is in docs/script.md. Tests that record are skipped where there is no `perf`.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::perf::{run_perf, until_perf_reads, with_perf, with_perf_as_root};
use crate::common::{pyrograph, recorded, run, slice};
use serde_json::Value;

fn record(folder: &Path, options: &[&str]) -> PathBuf {
    let flags = ["gcc", "-O2", "-g", "-fno-omit-frame-pointer", "-pthread"];
    let program = crate::common::compile(&flags, "named_threads.c", folder);
    let data = folder.join("perf.data");
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-N"]).args(options).arg("-o").arg(&data).arg("--").arg(program);
    run_perf(&mut perf);
    data
}

fn ours(data: &Path, options: &[&str]) -> String {
    let output = run(pyrograph().arg("script").args(options).arg("-i").arg(data));
    String::from_utf8(output.stdout).expect("text")
}

/// perf prints a line's end in a name as it is: evened out by [`as_printed`].
fn theirs(data: &Path, options: &[&str]) -> String {
    let output = run_perf(Command::new("perf").arg("script").args(options).arg("-i").arg(data));
    as_printed(&String::from_utf8(output.stdout).expect("text"))
}

fn as_printed(text: &str) -> String {
    text.replace("        new\nline", "        new line").replace("new\nline", "new line")
}

/// A frame's line as its address, its symbol and the rest; `None` if it is no frame.
fn frame(line: &str) -> Option<(&str, &str, &str)> {
    let (address, rest) = line.strip_prefix('\t')?.trim_start().split_once(' ')?;
    let (symbol, module) = match rest.starts_with('(') {
        true => ("", rest),
        false => rest.rsplit_once(" (").unwrap_or((rest, "")),
    };
    Some((address, symbol, module))
}

/// All lines must be the same, but for the symbol of an address that has several: most of these, too.
///
/// `clone3` has no unwind table behind its system call. There ours has the callers in the thread that calls it, and none
/// in the new one; perf's stack ends or goes on with a word of the new stack. Ours may also end with the reason why it
/// ends, in brackets.
fn check_alike(ours: &str, theirs: &str) {
    assert!(theirs.lines().count() > 100, "{theirs}");
    let (mut frames, mut same) = (0, 0);
    let mut their_lines = theirs.lines().peekable();
    let (mut is_first, mut is_in_clone) = (false, false);
    for (number, line) in ours.lines().enumerate() {
        let is_reason = |symbol: &str| symbol.starts_with('[') && symbol != "[unknown]";
        let goes_on = frame(line).is_some_and(|one| is_in_clone || is_reason(one.1));
        if goes_on && their_lines.peek() == Some(&"") {
            continue;
        }
        if is_in_clone && line.is_empty() {
            while their_lines.next_if(|other| frame(other).is_some()).is_some() {}
        }
        let other =
            their_lines.next().unwrap_or_else(|| panic!("line {number} is too much: {line}"));
        match (frame(line), frame(other)) {
            (Some(one), Some(another)) => {
                // A thread that was interrupted right behind a system call counts as being in it here.
                let behind = |one: &str| u64::from_str_radix(one, 16).map_or(0, |one| one + 1);
                let is_alike = one.0 == another.0
                    || is_first && Ok(behind(one.0)) == u64::from_str_radix(another.0, 16);
                // perf takes a BPF program for a module of its own; here it is in that of /proc/kallsyms.
                let is_bpf = one.2 == "[bpf])" && another.2.starts_with("bpf_prog_");
                let is_module = one.2 == another.2 || is_bpf;
                assert!(is_alike && is_module, "line {number}: {line}, {other}");
                is_in_clone = one.1.trim_start_matches('_').starts_with("clone3+");
                is_first = false;
                frames += 1;
                same += usize::from(one.1 == another.1);
            }
            _ => {
                assert_eq!(line, other, "line {number}");
                (is_first, is_in_clone) = (true, false);
            }
        }
    }
    assert_eq!(their_lines.next(), None, "a line is missing");
    assert!(same * 10 >= frames * 8, "{same} of {frames} symbols are the same");
}

#[test]
fn as_perf_prints_stacks_by_frame_pointers() {
    let Some(recorded) = recorded::threads_by_frame_pointers() else { return };
    until_perf_reads("as_perf_prints_stacks_by_frame_pointers", || {
        let data = &recorded.data;
        let printed = as_printed(&std::fs::read_to_string(&recorded.text).expect("it was kept"));
        check_alike(&ours(data, &["--no-inline"]), &printed);
        for fields in ["comm,pid,tid,time,ip,sym", "+pid,-dso,-symoff", "comm,tid,time", "ip,dso"] {
            let options = ["--no-inline", "-F", fields];
            check_alike(&ours(data, &options), &theirs(data, &options));
        }
        let fields = ["--no-inline", "-F", "comm,time,event", "--ns"];
        for more in [&[][..], &["--reltime"], &["--deltatime"]] {
            let options = [&fields[..], more].concat();
            assert_eq!(ours(data, &options), theirs(data, &options), "{more:?}");
        }
    });
}

#[test]
fn as_perf_prints_copied_stacks_with_inlined_calls() {
    with_perf("as_perf_prints_copied_stacks_with_inlined_calls", |folder| {
        let data = record(folder, &["-F", "499", "-e", "cpu-clock", "--call-graph", "dwarf"]);
        check_alike(&ours(&data, &["--no-inline"]), &theirs(&data, &["--no-inline"]));
        let inlined = "inner+0x";
        let (ours, theirs) = (ours(&data, &[]), theirs(&data, &[]));
        let count = |text: &str| {
            text.lines()
                .filter(|line| line.contains(inlined) && line.ends_with(" (inlined)"))
                .count()
        };
        assert_eq!(count(&ours), count(&theirs));
        assert!(count(&ours) > 50, "{ours}");
    });
}

#[test]
fn as_perf_prints_samples_without_stacks() {
    let Some(recorded) = recorded::threads_without_stacks() else { return };
    let bare = &recorded.data;
    with_perf("as_perf_prints_samples_without_stacks", |folder| {
        let fields = ["-F", "comm,tid,time,period,event,ip,dso"];
        assert_eq!(ours(bare, &fields), theirs(bare, &fields));
        let data = record(folder, &["-c", "1", "-d", "-e", "page-faults,context-switches"]);
        let fields = ["-F", "comm,pid,tid,time,period,event"];
        assert_eq!(ours(&data, &fields), theirs(&data, &fields));
    });
}

#[test]
fn as_perf_prints_the_whole_machine() {
    with_perf_as_root("as_perf_prints_the_whole_machine", |folder| {
        let data = record(folder, &["-a", "-F", "499", "-e", "cpu-clock"]);
        let fields = ["-F", "comm,pid,tid,cpu,time,period,event,ip"];
        // A thread that ends has no number any more: perf has no name for it either.
        let named = |text: String| -> Vec<String> {
            text.lines().filter(|line| !line.contains("/-1 ")).map(str::to_owned).collect()
        };
        assert_eq!(named(ours(&data, &fields)), named(theirs(&data, &fields)));
    });
}

/// The name of a thread that has just started is its parent's, which perf does not always have.
#[test]
fn as_perf_prints_the_fields_of_tracepoints() {
    with_perf_as_root("as_perf_prints_the_fields_of_tracepoints", |folder| {
        let events = "sched:sched_switch,sched:sched_process_exec,syscalls:sys_enter_openat,\
            syscalls:sys_exit_read,kmem:mm_page_alloc,kmem:kmalloc,irq:softirq_entry,\
            timer:hrtimer_start,rcu:rcu_utilization,workqueue:workqueue_execute_start";
        let data = record(folder, &["-a", "-e", events]);
        for fields in ["pid,tid,cpu,time,event,trace", "trace"] {
            let options = ["-F", fields];
            let (ours, theirs) = (ours(&data, &options), theirs(&data, &options));
            assert!(theirs.contains("GFP_KERNEL") && theirs.contains(" ==> next_comm="));
            for (one, another) in ours.lines().zip(theirs.lines()) {
                assert_eq!(one, another);
            }
            assert_eq!(ours.lines().count(), theirs.lines().count());
        }
    });
}

/// Threads have names of their own, which folded text of `perf.data` has not; and without stacks, there is no room for
/// inlined calls.
#[test]
fn folding_the_text_gives_what_folding_the_recording_gives() {
    let (Some(by_pointers), Some(bare)) =
        (recorded::threads_by_frame_pointers(), recorded::threads_without_stacks())
    else {
        return;
    };
    with_perf("folding_the_text_gives_what_folding_the_recording_gives", |folder| {
        let copied = ["-F", "999", "-e", "cpu-clock", "--call-graph", "dwarf,1024"];
        let copied = record(folder, &copied);
        for (data, options) in [(&by_pointers.data, "-g"), (&copied, "dwarf"), (&bare.data, "")] {
            let text = folder.join("perf.txt");
            std::fs::write(&text, ours(data, &[])).expect("a temporary file");
            let fold = |file: &Path| {
                let mut fold = pyrograph();
                fold.args(["fold", "--no-include-tname"]);
                if options.is_empty() {
                    fold.arg("--no-inline");
                }
                let output = run(fold.arg(file));
                String::from_utf8(output.stdout).expect("text")
            };
            let folded = fold(data);
            assert!(folded.contains("computes"), "{folded}");
            assert_eq!(fold(&text), folded, "{options:?}");
        }
    });
}

#[test]
fn as_perf_prints_registers() {
    with_perf("as_perf_prints_registers", |folder| {
        for call_graph in [&[][..], &["-g"]] {
            let options = ["-F", "999", "-e", "cpu-clock", "--user-regs=ip,sp,ax,r15"];
            let options = [&options[..], &["--intr-regs=ip,bx"], call_graph].concat();
            let data = record(folder, &options);
            for fields in ["comm,tid,uregs", "comm,time,iregs", "time,ip,iregs,uregs"] {
                let options = ["--no-inline", "-F", fields];
                let (ours, theirs) = (ours(&data, &options), theirs(&data, &options));
                assert!(theirs.contains("ABI:2 ") && theirs.contains("    IP:0x"), "{theirs}");
                assert_eq!(ours, theirs, "{fields} {call_graph:?}");
            }
            let text = ours(&data, &["--json", "-F", "uregs,iregs"]);
            let mut known = 0;
            for line in text.lines() {
                let event: Value = serde_json::from_str(line).expect("JSON");
                known += usize::from(event["uregs"]["R15"].as_str().is_some());
                assert!(event["iregs"]["BX"].as_str().is_some(), "{line}");
            }
            assert!(known > 10, "{text}");
        }
    });
}

#[test]
fn as_perf_prints_sizes_of_pages() {
    with_perf("as_perf_prints_sizes_of_pages", |folder| {
        let options = ["-d", "-c", "1", "-e", "page-faults"];
        let data = record(
            folder,
            &[&options[..], &["--phys-data", "--data-page-size", "--code-page-size"]].concat(),
        );
        for fields in ["comm,tid,data_page_size,code_page_size", "time,ip,phys_addr,code_page_size"]
        {
            let options = ["-F", fields];
            let (ours, theirs) = (ours(&data, &options), theirs(&data, &options));
            assert!(theirs.contains(" 4K") || theirs.contains(" N/A"), "{theirs}");
            assert_eq!(ours, theirs, "{fields}");
        }
    });
}

/// A recording of one sample with these branches: from, to and flags. Few machines can make one.
fn with_branches(branches: &[[u64; 3]]) -> Vec<u8> {
    const SAMPLE_TYPE: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 11;
    const HARDWARE: u64 = 0;
    const ATTR_SIZE: u64 = 112;
    let bytes =
        |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let record = |kind: u64, misc: u64, body: &[u8]| {
        [&bytes(&[kind | misc << 32 | (body.len() as u64 + 8) << 48])[..], body].concat()
    };
    let thread = 7 | 7 << 32;
    let name = u64::from_le_bytes(*b"branchy\0");
    let mut body = vec![0x40_1000, thread, 1000, branches.len() as u64];
    body.extend(branches.iter().flatten());
    let comm = record(3, 0, &bytes(&[thread, name, thread, 500]));
    let records = [comm, record(9, 2, &bytes(&body))].concat();
    let mut attr = [0; ATTR_SIZE as usize / 8];
    // Type and size, period, fields, `sample_id_all`, branches of the program.
    (attr[0], attr[2], attr[3], attr[5]) = (HARDWARE | ATTR_SIZE << 32, 1000, SAMPLE_TYPE, 1 << 18);
    attr[9] = 1;
    let (header, attrs) = (104, ATTR_SIZE + 16);
    let magic = u64::from_le_bytes(*b"PERFILE2");
    let len = records.len() as u64;
    let head = [magic, header, attrs, header, attrs, header + attrs, len, 0, 0, 0, 0, 0, 0];
    [bytes(&head), bytes(&attr), bytes(&[0, 0]), records].concat()
}

#[test]
fn as_perf_prints_branches() {
    with_perf("as_perf_prints_branches", |folder| {
        let data = folder.join("perf.data");
        let mut branches = vec![
            [0x40_1136, 0x40_1106, 1 << 1 | 12 << 4 | 4 << 20],
            [0x40_1100, 0xffff_ffff_8100_0000, 1 | 1 << 2 | 1 << 3],
            [1, 2, 0],
        ];
        branches.extend((1..15).map(|kind| [3, 4, kind << 20]));
        std::fs::write(&data, with_branches(&branches)).expect("a temporary file");
        for fields in ["comm,tid,time,brstack", "comm,ip,brstack"] {
            let options = ["-F", fields];
            let (ours, theirs) = (ours(&data, &options), theirs(&data, &options));
            assert!(theirs.contains(" 0x401136/0x401106/P/-/-/12/CALL "), "{theirs}");
            assert_eq!(ours, theirs, "{fields}");
        }
        let text = ours(&data, &["--json", "-F", "brstack"]);
        let event: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(event["brstack"].as_array().map(Vec::len), Some(branches.len()));
        assert_eq!(event["brstack"][0]["type"], "CALL");
        assert_eq!(event["brstack"][1]["mispredicted"], true);
    });
}

/// Time and number of the calls of each thread, by name and error, added up from the lines.
fn added_up(text: &str) -> BTreeMap<(String, String), (u64, u64)> {
    let mut totals = BTreeMap::new();
    let mut begun = BTreeMap::new();
    for line in text.lines() {
        let (thread, rest) = line.split_once(' ').expect("a thread");
        let rest = rest.trim_start();
        let name = match rest.strip_prefix("<... ") {
            Some(resumed) => resumed.split(' ').next().expect("a name").to_owned(),
            None => rest.split('(').next().expect("a name").to_owned(),
        };
        if rest.contains("<unfinished ...>") {
            begun.insert(thread.to_owned(), name);
            continue;
        }
        if rest.starts_with("+++") || rest.starts_with("---") {
            continue;
        }
        begun.remove(thread);
        let after = rest.rsplit_once(" = ").map_or("", |(_, result)| result);
        // What is interrupted and begins again has not failed: `? ERESTARTSYS (To be restarted)`.
        let error = after.strip_prefix("-1 ").and_then(|rest| rest.split(' ').next()).unwrap_or("");
        let took = rest.rsplit_once('<').and_then(|(_, time)| time.strip_suffix('>'));
        let took = took.and_then(|time| time.replace('.', "").parse::<u64>().ok()).unwrap_or(0);
        let leaf = match error {
            "" => name,
            error => format!("{name};[{error}]"),
        };
        let total = totals.entry((thread.to_owned(), leaf)).or_insert((0, 0));
        *total = (total.0 + 1000 * took, total.1 + 1);
    }
    for (thread, name) in begun {
        let leaf = format!("{name};[unfinished]");
        totals.entry((thread, leaf)).or_insert((0, 0)).1 += 1;
    }
    totals
}

#[test]
fn folding_the_text_of_strace_gives_what_its_lines_add_up_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("strace.txt");
    let script = "ls /usr/bin >/dev/null; cat /nonexistent 2>/dev/null; (sleep 0.01 & wait); true";
    let mut strace = Command::new("strace");
    strace.args(["-f", "-T", "-o"]).arg(&file).args(["sh", "-c", script]);
    if !strace.status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: strace is not there, or may not trace");
        return;
    }
    let text = std::fs::read_to_string(&file).expect("strace's text");
    let expect = added_up(&text);
    assert!(expect.len() > 20 && expect.keys().any(|(_, leaf)| leaf.ends_with(";[ENOENT]")));
    for (value, of) in [("time", 0), ("calls", 1)] {
        let output = run(pyrograph().args(["fold", "--value", value]).arg(&file));
        let folded = String::from_utf8(output.stdout).expect("text");
        let found: BTreeMap<String, u64> = folded
            .lines()
            .map(|line| line.rsplit_once(' ').expect("a stack and a number"))
            .map(|(stack, number)| (stack.to_owned(), number.parse().expect("a number")))
            .collect();
        let expect = expect.iter().map(|((thread, leaf), total)| {
            (format!("{thread};{leaf}"), if of == 0 { total.0 } else { total.1 })
        });
        let expect: BTreeMap<String, u64> = expect.filter(|(_, total)| *total > 0).collect();
        let known: BTreeMap<String, u64> = found
            .into_iter()
            .filter(|(stack, _)| !stack.ends_with("[unfinished]") || of == 1)
            .collect();
        assert_eq!(known, expect, "{value}");
    }
}

/// The lines of records beside samples.
fn records(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| line.contains("PERF_RECORD_"))
}

const SHOWN: [(&str, &[&str]); 6] = [
    ("--show-task-events", &["COMM: ", "COMM exec: ", "FORK(", "EXIT("]),
    ("--show-mmap-events", &["MMAP2 "]),
    ("--show-switch-events", &["SWITCH OUT ", "SWITCH IN "]),
    ("--show-namespace-events", &["NAMESPACES "]),
    ("--show-cgroup-events", &["CGROUP cgroup: "]),
    ("--show-lost-events", &[]),
];

#[test]
fn as_perf_prints_records_beside_samples() {
    with_perf_as_root("as_perf_prints_records_beside_samples", |folder| {
        let beside = ["--switch-events", "--namespaces", "--all-cgroups"];
        for &more in slice(&[&["-g"][..], &["--buildid-mmap"], &["-d"]], 1) {
            let event = ["-F", "999", "-e", "cpu-clock"];
            let data = record(folder, &[&event[..], &beside, more].concat());
            for (shown, names) in SHOWN {
                for fields in ["comm,tid,time", "comm,pid,tid,time,ip,event", "time"] {
                    let options = [shown, "--no-inline", "-F", fields];
                    let (ours, theirs) = (ours(&data, &options), theirs(&data, &options));
                    for name in names {
                        let name = format!("PERF_RECORD_{name}");
                        assert!(theirs.contains(&name), "{more:?} {name}: {theirs}");
                    }
                    assert_eq!(ours, theirs, "{more:?} {shown} {fields}");
                }
            }
        }
    });
}

#[test]
fn as_perf_prints_switches_of_cpus() {
    with_perf_as_root("as_perf_prints_switches_of_cpus", |folder| {
        let data = record(folder, &["-a", "-F", "99", "-e", "cpu-clock", "--switch-events"]);
        let options = ["--show-switch-events", "-F", "pid,tid,cpu,time"];
        let (all, theirs) = (ours(&data, &options), theirs(&data, &options));
        for name in ["OUT          next pid/tid: ", "IN           prev pid/tid: "] {
            assert!(theirs.contains(name), "{theirs}");
        }
        assert_eq!(all, theirs);
        let of_cpu: Vec<&str> = records(&all).filter(|line| line.contains("[000]")).collect();
        let found = ours(&data, &[&options[..], &["-C", "0"]].concat());
        assert!(!of_cpu.is_empty());
        assert_eq!(records(&found).collect::<Vec<_>>(), of_cpu);
    });
}

/// A recording of a single loss.
fn with_loss() -> Vec<u8> {
    const LOST: u64 = 2;
    let mut data = with_branches(&[[1, 2, 0]]);
    let thread = 7 | 7 << 32;
    let words = [LOST | 40 << 48, 1, 4711, thread, 2000];
    data.extend(words.iter().flat_map(|word: &u64| word.to_le_bytes()));
    let size = u64::from_le_bytes(data[48..56].try_into().expect("eight bytes")) + 40;
    data[48..56].copy_from_slice(&size.to_le_bytes());
    data
}

#[test]
fn as_perf_prints_losses() {
    with_perf("as_perf_prints_losses", |folder| {
        let data = folder.join("perf.data");
        std::fs::write(&data, with_loss()).expect("a temporary file");
        let options = ["--show-lost-events", "-F", "comm,tid,time"];
        let (ours, theirs) = (ours(&data, &options), theirs(&data, &options));
        assert!(theirs.contains("PERF_RECORD_LOST lost 4711"), "{theirs}");
        assert_eq!(ours, theirs);
    });
}

#[test]
fn filters_hold_for_records_beside_samples() {
    let Some(recorded) = recorded::threads_without_stacks() else { return };
    until_perf_reads("filters_hold_for_records_beside_samples", || {
        let data = &recorded.data;
        let json = |options: &[&str]| -> Vec<Value> {
            let shown = ["--json", "-F", "+pid", "--show-task-events", "--show-mmap-events"];
            let text = ours(data, &[&shown[..], options].concat());
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
        };
        let all = json(&[]);
        let forks = kept(&all, |event| event["record"] == "FORK");
        assert!(forks.len() > 1 && all.iter().any(|event| event["record"] == "MMAP2"));
        assert!(all.iter().any(|event| event["record"].is_null()));
        let tid = &forks[0]["fields"]["tid"];
        let of_thread = kept(&all, |event| event["tid"] == *tid || event["fields"]["tid"] == *tid);
        assert!(of_thread.contains(&forks[0]) && of_thread.len() < all.len());
        assert_eq!(json(&["--tid", &tid.to_string()]), of_thread);
        let time = forks[0]["time_ns"].as_u64().expect("a time");
        let from = format!("{}.{:09},", time / 1_000_000_000, time % 1_000_000_000);
        let later = kept(&all, |event| event["time_ns"].as_u64() >= Some(time));
        assert!(later.len() < all.len());
        assert_eq!(json(&["--time", &from]), later);
    });
}

#[test]
fn records_that_are_missing_are_named() {
    let Some(recorded) = recorded::threads_without_stacks() else { return };
    until_perf_reads("records_that_are_missing_are_named", || {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let data = &recorded.data;
        let profile = folder.join("profile.json");
        let mut convert = pyrograph();
        run(convert.arg("convert").arg(data).arg("-o").arg(&profile).args(["--to", "firefox"]));
        for (file, said) in [
            (data, "no switches are in what was printed; `perf record --switch-events` records"),
            (&profile, "the input holds samples alone: --show-… prints nothing"),
        ] {
            let output = run(pyrograph().args(["script", "--show-switch-events"]).arg(file));
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(text.contains(said), "{text}");
        }
    });
}

/// The lines of JSON that a condition holds for.
fn kept(all: &[Value], keep: impl Fn(&Value) -> bool) -> Vec<Value> {
    all.iter().filter(|event| keep(event)).cloned().collect()
}

#[test]
fn filters_keep_what_they_say() {
    let Some(recorded) = recorded::threads_with_two_events() else { return };
    until_perf_reads("filters_keep_what_they_say", || {
        let data = &recorded.data;
        let json = |options: &[&str]| -> Vec<Value> {
            let options = [&["--json", "-F", "+pid"], options].concat();
            let text = ours(data, &options);
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
        };
        let all = json(&[]);
        assert!(all.len() > 200);
        let number = |event: &Value, key: &str| event[key].as_u64().expect("a number");
        let tid = number(&all[all.len() / 2], "tid");
        assert_eq!(json(&["--tid", &tid.to_string()]), kept(&all, |event| event["tid"] == tid));
        let comm = kept(&all, |event| event["comm"] == "a:b 12" || event["comm"] == "two words");
        assert!(!comm.is_empty());
        assert_eq!(json(&["--comm", "a:b 12,two words"]), comm);
        let faults = kept(&all, |event| event["event"] != "cpu-clock");
        assert!(!faults.is_empty());
        assert_eq!(json(&["--event-filter", "page-*"]), faults);
        let times: Vec<u64> = all.iter().map(|event| number(event, "time_ns")).collect();
        let (first, last) = (times[0], times[times.len() - 1]);
        let (from, to) = (first + (last - first) / 4, first + (last - first) / 2);
        let seconds = |time: u64| format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000);
        let between = |from: u64, to: u64| {
            kept(&all, |event| (from..=to).contains(&number(event, "time_ns")))
        };
        let span = format!("{},{}", seconds(from), seconds(to));
        let found = json(&["--time", &span]);
        assert!(!found.is_empty() && found.len() < all.len());
        assert_eq!(found, between(from, to));
        assert_eq!(json(&["--time", &format!(",{}", seconds(from))]), between(0, from));
        // Tenths share no event, and miss none.
        let tenths: Vec<Value> =
            (1..=10).flat_map(|number| json(&["--time", &format!("10%/{number}")])).collect();
        assert_eq!(tenths, all);
    });
}

#[test]
fn samples_of_other_formats_are_events() {
    let Some(recorded) = recorded::threads_by_frame_pointers() else { return };
    until_perf_reads("samples_of_other_formats_are_events", || {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let data = &recorded.data;
        let profile = folder.join("profile.json");
        run(pyrograph().arg("convert").arg(data).arg("-o").arg(&profile).args(["--to", "firefox"]));
        let fields = ["-F", "sym"];
        let stacks = |file: &Path| -> Vec<String> {
            let text = ours(file, &["-F", "ip,sym"]);
            let blocks = text.split("\n\n").map(|block| {
                let names = block.lines().filter_map(|line| line.strip_prefix('\t'));
                names
                    .map(|line| line.trim_start().split_once(' ').map_or("", |(_, name)| name))
                    .collect::<Vec<_>>()
                    .join(";")
            });
            blocks.collect()
        };
        assert_eq!(ours(&profile, &fields).lines().count(), ours(data, &fields).lines().count());
        let (mut one, mut other) = (stacks(&profile), stacks(data));
        one.sort();
        other.sort();
        assert_eq!(one, other);
    });
}

#[test]
fn totals_are_no_events() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("stacks.folded");
    std::fs::write(&file, "a;b 1\n").expect("a temporary file");
    let output = pyrograph().arg("script").arg(&file).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("does not hold single events"), "{said}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let Some(recorded) = recorded::threads_with_two_events() else { return };
    until_perf_reads("a_reader_that_goes_away_is_no_error", || {
        let data = &recorded.data;
        let mut child = pyrograph()
            .args(["script", "-i"])
            .arg(data)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut begin = [0; 16];
        child.stdout.take().expect("a pipe").read_exact(&mut begin).expect("some output");
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success());
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    });
}
