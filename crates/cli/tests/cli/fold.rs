//! `pyrograph fold`, as people use it: files and pipes, exit codes, and what goes wrong.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::slice;

const TEXT: &str = "app 12/13 [000] 1.5: 250 cycles: \n\
                    \t    4a1 work+0x1 (/bin/app)\n\
                    \tffffffff821f2fa7 read+0x7 ([kernel.kallsyms])\n\n";

fn pyrograph() -> Command {
    Command::new(env!("CARGO_BIN_EXE_pyrograph"))
}

/// Runs `pyrograph fold` with this standard input.
fn fold(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = pyrograph()
        .arg("fold")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("pyrograph runs");
    // It may end without reading all of it.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait_with_output().expect("it ends")
}

/// Standard error but for the lines about the unit of counts and the file.
fn without_counts(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr).into_owned();
    let others = ["pyrograph: counts are ", "pyrograph: wrote "];
    let is_other = |line: &&str| others.iter().any(|other| line.starts_with(other));
    text.split_inclusive('\n').filter(|line| !is_other(line)).collect()
}

fn check(arguments: &[&str], input: &[u8], code: i32, stdout: &str, stderr: &str) {
    let output = fold(arguments, input);
    assert_eq!(String::from_utf8_lossy(&output.stdout), stdout, "{arguments:?}");
    assert_eq!(without_counts(&output.stderr), stderr, "{arguments:?}");
    assert_eq!(output.status.code(), Some(code), "{arguments:?}");
}

#[test]
fn options_of_the_established_collapser() {
    let text = TEXT.as_bytes();
    check(&[], text, 0, "app;read;work 250\n", "");
    check(&["--pid"], text, 0, "app-12;read;work 250\n", "");
    check(&["-tid", "-kernel"], text, 0, "app-12/13;read_[k];work 250\n", "");
    check(&["--al", "-"], text, 0, "app;read_[k];work 250\n", "");
    check(&["--count", "samples"], text, 0, "app;read;work 1\n", "");
    check(&["--event-filter=cycles"], text, 0, "app;read;work 250\n", "");
    let found = "pyrograph: failed to fold: find event faults; the input has cycles\n";
    check(&["--event-filter", "faults"], text, 1, "", found);
}

#[test]
fn events_are_told_apart_by_a_field() {
    let event = |fields: &str| {
        format!(
            "app 12/13 [000] 1.5: probe_app:work: (4a1) {fields}\n\t 4a1 work+0x1 (/bin/app)\n\n"
        )
    };
    let text = [event("len=5 name=\"a b\""), event("len=7 name=\"c\""), event("len=5")].concat();
    let stack = |root: &str, count| format!("{root};app;work {count}\n");
    check(&["--by", "len"], text.as_bytes(), 0, &(stack("len=5", 2) + &stack("len=7", 1)), "");
    let unknown = stack("[unknown]", 1);
    let names = unknown + &stack("name=a b", 1) + &stack("name=c", 1);
    check(&["--by", "name"], text.as_bytes(), 0, &names, "");
    check(
        &["--by", "cpu,len"],
        text.as_bytes(),
        0,
        "CPU 0;len=5;app;work 2\nCPU 0;len=7;app;work 1\n",
        "",
    );
    let said = |by: &str| {
        String::from_utf8_lossy(&fold(&["--by", by], text.as_bytes()).stderr).into_owned()
    };
    assert!(said("length").contains("no event that is counted has a field 'length'"));
    assert!(said("len,name").contains("--by takes one field"));
    assert!(said("a-b").contains("invalid value 'a-b'"));
}

#[test]
fn options_without_anything_to_work_on_are_named() {
    let said = |option: &str, input: &[u8]| without_counts(&fold(&[option], input).stderr);
    for option in ["--kernel", "--jit", "--addrs", "--srcline", "--inline"] {
        let said = said(option, b"a;b 1\n");
        assert!(said.starts_with(&format!("pyrograph: {option} has no effect: ")), "{said}");
    }
    assert_eq!(said("--kernel", TEXT.as_bytes()), "");
    assert_eq!(said("--all", b"a;b 1\n"), "");
}

#[test]
fn text_that_is_mostly_something_else_is_refused() {
    let code = "fn main() {\n\tadd (1);\n\tfor x in y {\n\t\tz();\n\t}\n}\n".repeat(20);
    let output = fold(&[], code.as_bytes());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("it looks like perf script, but "), "{said}");
    assert!(said.contains("\n  line 3: for x in y {\n"), "{said}");
}

#[test]
fn values_without_a_unit_are_listed_by_their_names() {
    let said = "pyrograph: failed to fold: no value cycles; the input has value\n";
    check(&["--value", "cycles"], b"a;b 1\n", 1, "", said);
}

#[test]
fn folded_text_lost_its_unit_in_silence() {
    let said = |arguments: &[&str], input: &str| {
        let output = fold(arguments, input.as_bytes());
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let clock = TEXT.replace("250 cycles", "250 cpu-clock");
    let ns = "pyrograph: counts are ns of cpu-clock; --count samples counts samples\n";
    assert_eq!(said(&[], &clock), ns);
    assert_eq!(said(&["--count", "samples"], &clock), "");
    assert_eq!(said(&[], TEXT), "pyrograph: counts are cycles; --count samples counts samples\n");
    // Of folded text nobody knows, until it is said.
    assert_eq!(said(&[], "a;b 907723145\n"), "");
    assert_eq!(said(&["--unit", "bytes"], "a;b 9\n"), "pyrograph: counts are bytes of size\n");
    let known = fold(&["--unit", "bytes"], clock.as_bytes());
    assert_eq!(
        String::from_utf8_lossy(&known.stderr),
        "pyrograph: failed to fold: read standard input as counting something else: it counts cpu-clock (ns)\n\
         pyrograph: --unit is for inputs that name none\n"
    );
}

#[test]
fn a_small_compressed_file_took_all_memory_and_aborted() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = folder.path().join("bomb");
    // A value type, and 50 million empty samples: 16 bytes of memory for two.
    let mut bytes = vec![0x0a, 4, 8, 1, 16, 2];
    bytes.extend_from_slice(&[0x12, 0].repeat(50_000_000));
    fs::write(&plain, bytes).expect("a file");
    if !Command::new("gzip").args(["-1"]).arg(&plain).status().is_ok_and(|done| done.success()) {
        println!("skipped: there is no gzip");
        return;
    }
    let bomb = plain.with_extension("gz").display().to_string();
    let said = "pyrograph: failed to read: this input needs more than 200 MiB of memory; --max-memory permits more\n";
    check(&["--max-memory", "200M", &bomb], b"", 1, "", said);
}

/// Has the kernel refuse files without a name (`O_TMPFILE`), as some file systems do.
fn refuse_files_without_a_name(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    const NUMBER: u32 = 0;
    const LOW_HALF_OF_FLAGS: u32 = 16 + 2 * 8;
    const O_TMPFILE: u32 = 0x40_0000;
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = |at| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at);
    let jump = |kind, k, yes, no| step(libc::BPF_JMP | kind | libc::BPF_K, yes, no, k);
    let end = |with| step(libc::BPF_RET | libc::BPF_K, 0, 0, with);
    let mut filter = [
        load(NUMBER),
        jump(libc::BPF_JEQ, libc::SYS_openat as u32, 0, 3),
        load(LOW_HALF_OF_FLAGS),
        jump(libc::BPF_JSET, O_TMPFILE, 0, 1),
        end(libc::SECCOMP_RET_ERRNO | libc::EOPNOTSUPP.cast_unsigned()),
        end(libc::SECCOMP_RET_ALLOW),
    ];
    let install = move || {
        let program = libc::sock_fprog { len: 6, filter: filter.as_mut_ptr() };
        // SAFETY: the filter is alive while it is copied.
        let installed = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
                    == 0
        };
        if installed { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: two system calls, which are safe after a fork.
    unsafe { command.pre_exec(install) };
}

#[test]
fn what_ran_out_of_memory_left_a_temporary_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let stacks = (0u64..30_000).map(|stack| {
        let names = (0..40).map(|frame| (((stack + 1) * (frame + 1) * 0x9e37_79b9) >> 13) % 3001);
        let names: Vec<_> = names.map(|name| name.to_string()).collect();
        format!("{} {}\n", names.join(";"), stack + 1)
    });
    fs::write(folder.path().join("in.folded"), stacks.collect::<String>()).expect("a file");
    let out = folder.path().join("out.json");
    let mut codes = Vec::new();
    // The least is not enough to read it, the most is enough for all.
    for &mib in slice(&[16, 1000, 50, 30, 40, 60, 70, 80, 100], 3) {
        let mut command = pyrograph();
        command.args(["convert", "--max-memory", &format!("{mib}M"), "in.folded", "-o"]).arg(&out);
        refuse_files_without_a_name(&mut command);
        let output = command.current_dir(folder.path()).output().expect("pyrograph runs");
        let is_whole = fs::remove_file(&out).is_ok();
        assert_eq!(output.status.success(), is_whole, "{mib} MiB: {output:?}");
        codes.push(output.status.code());
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "{mib} MiB");
    }
    assert_eq!((codes[0], codes[1]), (Some(1), Some(0)), "{codes:?}");
}

#[test]
fn folded_text_took_16_bytes_a_line_whatever_it_said() {
    let text = "main;work;inner 1\n".repeat(1_500_000);
    // 24 MB as it was, and 27 MB of text.
    check(&["--max-memory", "16M"], text.as_bytes(), 0, "main;work;inner 1500000\n", "");
}

#[test]
fn a_hyphen_is_standard_output_and_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    for verb in ["fold", "flamegraph", "report"] {
        let run = |more: &[&str]| {
            let mut command = pyrograph();
            command
                .arg(verb)
                .args(more)
                .arg("../in.folded")
                .current_dir(folder.path().join("here"));
            command.output().expect("pyrograph runs")
        };
        fs::create_dir_all(folder.path().join("here")).expect("a folder");
        fs::write(folder.path().join("in.folded"), "a;b 1\n").expect("a file");
        let (named, plain) = (run(&["-o", "-"]), run(&[]));
        assert!(named.status.success() && !plain.stdout.is_empty());
        assert_eq!(named.stdout, plain.stdout, "{verb}");
        assert_eq!(fs::read_dir(folder.path().join("here")).expect("a folder").count(), 0);
        let missing = run(&["-o", "not/there"]);
        assert_eq!(missing.status.code(), Some(1));
        let said = "pyrograph: not/there: the folder not does not exist\n";
        assert_eq!(String::from_utf8_lossy(&missing.stderr), said, "{verb}");
    }
}

#[test]
fn a_format_that_was_asked_for_but_is_not_there_is_an_error() {
    for format in ["gdb", "dtrace", "jstack", "perf-script"] {
        let output = fold(&["--from", format], b"a;b 1\n");
        assert_eq!(output.status.code(), Some(1), "{format}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("standard input: nothing in it is of the format"), "{said}");
    }
    check(&["--from", "folded"], b"a;b 1\n", 0, "a;b 1\n", "");
}

#[test]
fn formats_lists_what_is_read_and_what_is_written() {
    let output = pyrograph().arg("formats").output().expect("pyrograph runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let (read, written) = text.split_once("\nWritten by").expect("two lists");
    assert!(read.contains("\n  perf script ") && read.contains("\n  dtrace "), "{read}");
    assert!(written.contains("\n  pprof ") && written.contains(" .pb.gz"), "{written}");
    assert!(!written.contains("dtrace"), "{written}");
}

/// It said "counts are ", and no more.
#[test]
fn periods_of_an_event_that_is_not_printed_have_no_unit() {
    let text = "worker 7/7 [000] 1001001\n\t401000 f+0x0 (/a)\n\n".repeat(2);
    let output = fold(&[], text.as_bytes());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "worker;f 2002002\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn what_was_skipped_is_said_and_strict_makes_it_an_exit_code() {
    let text = format!("{TEXT}app 12 1.5: 1 cycles: \n\tnot a frame\n\t    4b2 main (/bin/app)\n");
    let folded = "app;main 1\napp;read;work 250\n";
    let said = "pyrograph: 1 line within samples was skipped: not a frame (standard input:6)\n";
    check(&[], text.as_bytes(), 0, folded, said);
    check(&["--strict"], text.as_bytes(), 3, folded, said);
    check(&["--strict"], TEXT.as_bytes(), 0, "app;read;work 250\n", "");
}

#[test]
fn inputs_that_cannot_be_read() {
    check(&[], b"", 1, "", "pyrograph: failed to fold: standard input is empty\n");
    let output = fold(&[], b"hello world\n");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.starts_with("pyrograph: failed to fold: read standard input: unrecognized format (")
    );
    assert!(
        said.ends_with("pyrograph: `pyrograph formats` lists the formats, --from forces one\n")
    );
    let counted = fold(&[], b"hello world 1\nfoo bar 2\n");
    let said = String::from_utf8_lossy(&counted.stderr).into_owned();
    assert!(said.contains("its lines end in numbers") && said.contains("--from folded"), "{said}");
    assert_eq!(output.status.code(), Some(1));
    let missing = "pyrograph: failed to open no/such: No such file or directory (os error 2)\n";
    check(&["no/such"], b"", 1, "", missing);
    assert_eq!(fold(&["--nonsense"], b"").status.code(), Some(2));
}

#[test]
fn files_are_added_up_and_the_output_is_whole_or_not_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("a"), TEXT).expect("a file");
    fs::write(path("b"), TEXT.repeat(2)).expect("a file");
    let out = path("out.folded");
    check(&[&path("a"), &path("b"), "-o", &out], b"", 0, "", "");
    assert_eq!(fs::read_to_string(&out).expect("a file"), "app;read;work 750\n");

    // A second run that fails leaves the first one's file.
    assert_eq!(fold(&[&path("none"), "-o", &out], b"").status.code(), Some(1));
    assert_eq!(fs::read_to_string(&out).expect("a file"), "app;read;work 750\n");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 3);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut text = String::new();
    for n in 0..200_000 {
        text.push_str(&format!("main;function{n} 1\n"));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("long");
    fs::write(&path, text).expect("a file");
    let mut child = pyrograph()
        .arg("fold")
        .arg(&path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("pyrograph runs");
    let mut first = [0; 10];
    child.stdout.take().expect("a pipe").read_exact(&mut first).expect("some lines");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

/// A C program whose addresses are looked up as if perf had printed them.
#[test]
fn inlined_calls_are_looked_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = "volatile long sink;\n\
                  static inline __attribute__((always_inline)) void inner(long n) { sink += n; }\n\
                  __attribute__((noinline)) void outer(long n) {\n\
                  \x20   for (long i = 0; i < n; i++)\n\
                  \x20       inner(i);\n\
                  }\n\
                  int main(void) { outer(1000); return 0; }\n";
    fs::write(folder.path().join("in.c"), source).expect("a file");
    let compiled = Command::new("gcc")
        .args(["-O2", "-g", "-o", "in", "in.c"])
        .current_dir(folder.path())
        .status()
        .expect("gcc runs");
    assert!(compiled.success());
    let program = folder.path().join("in");
    let (start, size) = symbol(&program, "outer");
    let module = program.display();
    let text: String = (0..size)
        .map(|at| format!("in 1 1.5: 1 cycles: \n\t {:x} outer+{at:#x} ({module})\n\n", start + at))
        .collect();

    let output = fold(&["--inline", "--context"], text.as_bytes());
    let folded = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(without_counts(&output.stderr), "");
    assert!(folded.contains("in;outer:in.c:5;inner:in.c:2 "), "{folded}");
    assert!(folded.lines().all(|line| line.starts_with("in;outer:in.c:")), "{folded}");
    let output = fold(&["--inline", "--all"], text.as_bytes());
    let folded = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(folded.contains("in;outer;inner_[i] "), "{folded}");
}

/// Address and size of a function, as `nm` prints them. The program is small, and so an address in
/// its code is the offset in the file.
fn symbol(program: &Path, name: &str) -> (u64, u64) {
    let output = Command::new("nm").arg("-S").arg(program).output().expect("nm runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.ends_with(name)).expect("the function");
    let mut words = line.split(' ').map(|word| u64::from_str_radix(word, 16));
    let mut number = || words.next().expect("a word").expect("a number");
    (number(), number())
}

#[test]
fn options_of_the_collapser_for_thread_dumps() {
    let dump = b"Full thread dump X:\n\n\"pool-1-thread-12\" #12 nid=0x10 runnable\n   java.lang.Thread.State: RUNNABLE\n\tat a.bc.D.f(D.java:1)\n\n";
    check(&[], dump, 0, "pool-1-thread;a.bc.D.f 1\n", "");
    check(&["--no-include-tname"], dump, 0, "a.bc.D.f 1\n", "");
    check(&["--include-tname", "--shorten-pkgs"], dump, 0, "pool-1-thread;a.b.D.f 1\n", "");
    check(&["--include-tid"], dump, 0, "pool-1-thread-12-?/16;a.bc.D.f 1\n", "");
}

/// Other collapsers of Xdebug's traces sort the lines of the file that they are given, in place.
#[test]
fn the_trace_of_xdebug_is_never_edited() {
    let sample =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../format/tests/formats/xdebug/calls.xt");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("calls.xt");
    fs::copy(sample, &path).expect("the sample");
    let written = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let file = fs::File::options().write(true).open(&path).expect("the copy");
    file.set_modified(written).expect("a time");
    drop(file);
    let before = fs::read(&path).expect("the copy");
    for verb in ["fold", "report", "flamegraph"] {
        let output = pyrograph().arg(verb).arg(&path).output().expect("pyrograph runs");
        assert!(output.status.success() && !output.stdout.is_empty(), "{verb}: {output:?}");
    }
    assert!(fs::read(&path).expect("the copy") == before);
    let modified = fs::metadata(&path).and_then(|data| data.modified()).expect("a time");
    assert_eq!(modified, written);
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1);
}

#[test]
fn spellings_of_the_established_collapser_are_taken() {
    check(&["-pid", "-ev=cycles", "-"], TEXT.as_bytes(), 0, "app-12;read;work 250\n", "");
    check(&["-pid=12,5", "--tid", "-"], TEXT.as_bytes(), 0, "app-12/13;read;work 250\n", "");
}
