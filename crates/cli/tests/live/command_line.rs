//! The command line of `pyrograph record`: habits of perf's users, slips, and what is refused before anything runs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::in_kernel::Running;
use crate::common::{
    Folded, as_nobody, binary, binary_for_others, compile, is_root, pyrograph, run,
};

/// Runs `pyrograph record` in a folder.
pub fn record(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = pyrograph();
    command.current_dir(folder).arg("record").args(arguments).stdin(Stdio::null());
    command.output().expect("pyrograph runs")
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Checks what is said, the exit code, and that the command (which makes a file) was not run.
fn refused(arguments: &[&str], code: i32, said: &str) {
    let folder = folder();
    let output = record(folder.path(), &[arguments, &["--", "touch", "ran"]].concat());
    let text = stderr(&output);
    assert!(text.contains(said), "{arguments:?}: {text}");
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
    let left = fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(left, 0, "{arguments:?} left something: {text}");
}

#[test]
fn an_unknown_option_is_not_taken_for_the_command() {
    refused(&["--frequncy", "99"], 2, "'--frequency'");
    refused(&["-p", "1", "--durtion", "1"], 2, "'--duration'");
    refused(&["-Z"], 2, "unexpected argument '-Z'");
    // But what is behind the command is its own.
    let folder = folder();
    let output =
        record(folder.path(), &["-q", "-o", "x.folded", "sh", "-c", "exit 3", "--frequncy"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
}

#[test]
fn g_is_taken_and_explained_once_on_request() {
    let folder = folder();
    let output = record(folder.path(), &["-g", "-o", "x.folded", "--", "true"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!stderr(&output).contains("-g does"), "{}", stderr(&output));
    let output = record(folder.path(), &["-g", "-v", "-o", "x.folded", "--", "true"]);
    assert_eq!(stderr(&output).matches("-g does nothing").count(), 1, "{}", stderr(&output));
}

#[test]
fn with_all_or_processes_a_command_says_for_how_long() {
    if !is_root("with_all_or_processes_a_command_says_for_how_long") {
        return;
    }
    let folder = folder();
    let program = compile(&["gcc", "-O2", "-g"], "split.c", folder.path());
    let busy = Running(Command::new(&program).arg("1000000").spawn().expect("it runs"));
    let pid = busy.0.id().to_string();
    for engine in ["ebpf", "perf"] {
        for target in [&["-a"][..], &["-p", &pid], &["-t", &pid], &["-C", "0-1"]] {
            if target[0] == "-t" && engine == "ebpf" {
                continue;
            }
            let flags = ["--engine", engine, "-o", "x.folded"];
            let is_seen = |command: &str| {
                let command = ["--", "sh", "-c", command];
                let output = record(folder.path(), &[&flags[..], target, &command].concat());
                let text = stderr(&output);
                assert_eq!(output.status.code(), Some(9), "{engine} {target:?}: {text}");
                Folded::read(&folder.path().join("x.folded")).total_share("alpha") > 0.0
            };
            // How long it takes until the program gets a CPU is the machine's affair.
            let mut commands = ["sleep 0.3; exit 9", "sleep 3; exit 9", "sleep 20; exit 9"].iter();
            assert!(commands.any(|command| is_seen(command)), "{engine} {target:?}");
        }
    }
}

#[test]
fn one_cpu_of_two_is_sampled() {
    if !is_root("one_cpu_of_two_is_sampled") {
        return;
    }
    let folder = folder();
    let program = compile(&["gcc", "-O2", "-g"], "split.c", folder.path());
    // A name of its own among all that runs.
    let alone = folder.path().join("on-one-cpu");
    fs::rename(program, &alone).expect("own folder");
    let program = alone.to_str().expect("a plain path");
    let path = folder.path().join("x.folded");
    for engine in ["ebpf", "perf"] {
        let flags = ["--engine", engine, "-o", "x.folded"];
        for (cpu, is_there) in [("0", true), ("1", false)] {
            let busy = ["--", "taskset", "-c", "0", program, "400"];
            let output = record(folder.path(), &[&flags[..], &["-C", cpu], &busy].concat());
            if stderr(&output).contains("not online") {
                eprintln!("skipped: one_cpu_of_two_is_sampled needs two CPUs");
                return;
            }
            assert!(output.status.success(), "{}", stderr(&output));
            let found = Folded::read(&path).share(|stack| stack[0] == "on-one-cpu") > 0.0;
            assert_eq!(found, is_there, "{engine}, CPU {cpu}: {}", stderr(&output));
        }
    }
    let output = record(folder.path(), &["-C", "60000", "--", "true"]);
    assert!(stderr(&output).contains("CPU 60000 is not online"), "{}", stderr(&output));
}

#[test]
fn a_thread_alone_is_sampled() {
    let folder = folder();
    // The shell waits, and its child is busy.
    let script = "i=0; while :; do i=$((i+1)); done & echo $!; wait";
    let mut shell =
        Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().expect("sh");
    let mut child = String::new();
    let out = shell.stdout.take().expect("piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut child).expect("a number");
    let child = child.trim();
    let output = record(folder.path(), &["-t", child, "-d", "1", "-o", "child.folded"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(Folded::read(&folder.path().join("child.folded")).total() > 0.0);
    let alone = shell.id().to_string();
    let output = record(folder.path(), &["-t", &alone, "-d", "1", "-o", "shell.folded"]);
    let folded = fs::read_to_string(folder.path().join("shell.folded")).expect("written");
    assert_eq!(folded, "", "the child of a thread is not recorded: {}", stderr(&output));
    run(Command::new("kill").args([child, &alone]));
    shell.wait().expect("it ends");
    let output = record(folder.path(), &["-t", "999999999"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no thread has the TID 999999999"), "{}", stderr(&output));
}

#[test]
fn one_sample_for_each_count() {
    let folder = folder();
    let path = folder.path().join("x.folded");
    let faults = |count: &str, engine: &str| {
        let flags = ["-e", "page-faults", "-c", count, "--engine", engine, "-o", "x.folded"];
        let command = ["--", "perl", "-e", "my $x = 'a' x 40_000_000"];
        let output = record(folder.path(), &[&flags[..], &command].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let text = stderr(&output);
        let line = text.lines().find(|line| line.contains(" of page-faults")).expect("a line");
        // Users have little room for samples.
        let before = |word: &str| {
            let number = line.split(word).next().and_then(|rest| rest.rsplit(' ').next());
            number.and_then(|number| number.replace(',', "").parse::<f64>().ok()).expect("a number")
        };
        (before(" samples of") + before(" lost"), Folded::read(&path).total())
    };
    let engines = ["perf", "ebpf"];
    let permitted = if is_root("one sample for each count, in the kernel") { 2 } else { 1 };
    for engine in &engines[..permitted] {
        let (each, all) = faults("1", engine);
        let (some, same) = faults("50", engine);
        assert!((0.8..1.2).contains(&(each / some / 50.0)), "{each} and {some} samples");
        // By perf events each stood for one, whatever the period.
        assert!((0.8..1.2).contains(&(all / same)), "{all} and {same} page faults");
    }
    refused(&["-c", "1", "-F", "9"], 2, "cannot be used with");
    refused(&["-e", "cpu-clock", "-c", "1"], 1, "10000 at least");
}

/// At 99 a second, the kernel's periods of 10,050 page faults had a sum of 800,000.
#[test]
fn events_that_are_counted_have_no_frequency() {
    let folder = folder();
    let command = ["--", "perl", "-e", "my $x = 'a' x 40_000_000"];
    let faults = |flags: &[&str]| {
        let flags = [&["-e", "page-faults", "-o", "x.folded"], flags, &command].concat();
        let output = record(folder.path(), &flags);
        assert!(output.status.success(), "{}", stderr(&output));
        (stderr(&output), Folded::read(&folder.path().join("x.folded")).total())
    };
    let (_, each) = faults(&[]);
    let (said, same) = faults(&["-F", "99"]);
    assert!(said.contains("-F 99 has no effect: each of page-faults counts"), "{said}");
    assert!((0.8..1.2).contains(&(each / same)), "{each} and {same} page faults");
}

#[test]
fn r_is_the_frequency_of_other_tools() {
    let folder = folder();
    let output = record(folder.path(), &["-r", "499", "-o", "x.folded", "--", "true"]);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn standard_output_is_the_profiles_alone() {
    let folder = folder();
    let script = "echo from the command; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    for flags in [&["--to", "folded"][..], &["--to", "folded", "-o", "-"]] {
        let output = record(folder.path(), &[flags, &["--", "sh", "-c", script]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(Folded::parse(&String::from_utf8_lossy(&output.stdout)).total() > 0.0);
        assert!(stderr(&output).contains("from the command"), "{}", stderr(&output));
    }
    refused(&["-o", "-"], 2, "-o - needs --to FORMAT");
    refused(&["--to", "foldde"], 2, "foldde: unknown format");
}

#[test]
fn quiet_is_quiet_but_for_errors() {
    let folder = folder();
    let output = record(folder.path(), &["-q", "-o", "x.folded", "--", "true"]);
    assert_eq!((stderr(&output).as_str(), output.status.code()), ("", Some(0)));
    let output = record(folder.path(), &["-q", "-o", "x.folded", "--", "./none"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(stderr(&output).contains("failed to run './none'"), "{}", stderr(&output));
}

#[test]
fn open_shows_the_picture_in_the_browser() {
    let folder = folder();
    let seen = folder.path().join("seen");
    let browser = folder.path().join("browser");
    fs::write(&browser, format!("#!/bin/sh\necho \"$@\" >{}\n", seen.display())).expect("a script");
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).expect("own file");
    let mut command = pyrograph();
    command.current_dir(folder.path()).env("BROWSER", &browser);
    run(command.args(["record", "--open", "-o", "x.svg", "--", "true"]));
    crate::common::wait_until("the browser was started", || {
        fs::read_to_string(&seen).is_ok_and(|text| text.ends_with("/x.svg\n"))
    });
    refused(&["--open", "-o", "x.folded"], 2, "--open shows a picture");
}

#[test]
fn what_cannot_be_recorded_or_written_is_refused_before_the_command_runs() {
    refused(&["-p", "0"], 2, "'0' for '--pid <PID>': not the ID of a process");
    refused(&["-p", "12x"], 2, "'12x' for '--pid <PID>': not the ID of a process");
    refused(&["-F", "1e3"], 2, "not a whole number from 1 on");
    refused(&["-p", "999999999"], 1, "no process has the PID 999999999");
    refused(&["-t", "0"], 2, "not the ID of a process or thread");
    refused(&["-o", "none/x.svg"], 1, "the folder none does not exist");
    refused(&["-o", "/"], 2, "unknown format");
    // Root may write everywhere, but these file systems take no files.
    refused(&["-o", "/proc/x.svg"], 1, "nothing can be written into the folder /proc");
    refused(&["-o", "/sys/x.svg"], 1, "nothing can be written into the folder /sys");
    refused(
        &["--alloc", "-o", "x.folded", "--", "./none"],
        127,
        "'./none': No such file or directory (os error 2)\n",
    );
    refused(&["-o", "x.folded", "--", "/etc/passwd"], 126, "'/etc/passwd': Permission denied");
    if is_root("a name that no process has") {
        refused(&["-a", "--comm", "nosuch"], 1, "no process or thread has the name nosuch");
    }
}

#[test]
fn a_file_that_may_not_be_written_is_not_replaced() {
    // SAFETY: The call takes nothing and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        let folder = folder();
        let own = binary_for_others(folder.path(), 0o777);
        let readonly = folder.path().join("x.svg");
        fs::write(&readonly, "mine").expect("a file");
        fs::set_permissions(&readonly, fs::Permissions::from_mode(0o444)).expect("own file");
        let output = as_nobody(&own)
            .args(["record", "-o", "x.svg", "--", "touch", "ran"])
            .current_dir(folder.path())
            .output()
            .expect("setpriv runs");
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains("x.svg is not writable"), "{}", stderr(&output));
        assert!(!folder.path().join("ran").exists());
    }
}

#[test]
fn options_without_effect_are_errors() {
    refused(&["--min-block", "1ms"], 2, "--min-block is for");
    refused(&["--exact"], 2, "--exact is for");
    refused(&["--no-inherit", "-a"], 2, "--no-inherit has no effect");
    refused(&["--engine", "ebpf", "--call-graph", "fp"], 2, "--call-graph is for --engine perf");
    refused(&["--engine", "perf", "--table-memory", "64M"], 2, "is for the in-kernel engine");
    refused(&["--off-cpu", "-C", "0"], 2, "-C is for events that are sampled");
    refused(&["--off-cpu", "--engine", "perf"], 2, "leave out --engine perf");
}

#[test]
fn a_crash_of_the_command_is_said() {
    let folder = folder();
    let output = record(folder.path(), &["-o", "x.folded", "--", "sh", "-c", "kill -SEGV $$"]);
    assert_eq!(output.status.code(), Some(139));
    let text = stderr(&output);
    assert!(text.contains("the command was killed by signal 11 (SIGSEGV)"), "{text}");
}

#[test]
fn a_command_that_outlives_the_recording_is_waited_for_and_that_is_said() {
    let folder = folder();
    let flags = ["-d", "200ms", "-o", "x.folded", "--", "sh", "-c", "sleep 2; exit 4"];
    let output = record(folder.path(), &flags);
    assert_eq!(output.status.code(), Some(4));
    let text = stderr(&output);
    assert!(text.contains("waiting for the command, which still runs (PID "), "{text}");
}

/// A recording of a command that makes itself a daemon ended without a word, and without what the daemon did.
#[test]
fn processes_that_outlive_their_command_are_named() {
    let folder = folder();
    for engine in ["perf", "ebpf"] {
        if engine == "ebpf" && !is_root("what a command leaves, in the kernel") {
            continue;
        }
        let script = "setsid sleep 2 >/dev/null 2>&1 & echo $!; exit 0";
        let flags = ["--engine", engine, "-o", "x.folded", "--", "sh", "-c", script];
        let output = record(folder.path(), &flags);
        let (text, out) = (stderr(&output), String::from_utf8_lossy(&output.stdout).into_owned());
        let said = "the command has ended, but 1 process that it started still runs: ";
        assert!(text.contains(said), "{engine}: {text}");
        assert!(
            text.contains(&format!("; -p {} records it", out.trim())),
            "{engine}: {out} {text}"
        );
    }
    let output = record(folder.path(), &["-o", "x.folded", "--", "sh", "-c", "sleep 0.1 & wait"]);
    assert!(!stderr(&output).contains("still run"), "{}", stderr(&output));
}

/// Runs a command line on a terminal of its own, and returns what the terminal shows.
fn on_a_terminal(folder: &Path, command_line: &str) -> String {
    let output = Command::new("script")
        .args(["-q", "-e", "-c", command_line, "/dev/null"])
        .current_dir(folder)
        .env("TERM", "xterm")
        .env("PAGER", "cat")
        .stdin(Stdio::null())
        .output()
        .expect("script, of bsdutils, is on each Debian machine");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn names_in_a_profile_do_not_command_the_terminal() {
    let folder = folder();
    // A title, a clear screen in one C1 byte, a carriage return; in the file's name, too.
    let evil = "a\u{1b}]0;owned\u{7}\u{9b}2J\rb";
    fs::write(folder.path().join(format!("{evil}.folded")), format!("main;{evil} 5\n"))
        .expect("a file");
    let program = binary().display().to_string();
    for command in [
        "report *.folded",
        "fold *.folded",
        "report --markdown *.folded",
        "diff *.folded *.folded",
        "report \"--$(ls *.folded)\"",
        "report \"$(ls *.folded)none\"",
        "record -o \"$(ls *.folded).none\" -- true",
        "record -- \"./$(ls *.folded)\"",
        "convert --to \"$(ls *.folded)\" *.folded",
    ] {
        let shown = on_a_terminal(folder.path(), &format!("{program} {command}"));
        assert!(shown.contains("2J"), "{command}: {shown:?}");
        let bad = ["\u{1b}]", "\u{9b}", "\u{7}", "\rb"].iter().find(|bad| shown.contains(**bad));
        assert_eq!(bad, None, "{command}: {shown:?}");
    }
}

#[test]
fn a_command_runs_as_the_user_that_is_named() {
    if !is_root("a_command_runs_as_the_user_that_is_named") {
        return;
    }
    let folder = folder();
    let ids = "id -un; id -Gn; echo $HOME";
    let expect = run(Command::new("setpriv").args([
        "--reuid=nobody",
        "--regid=nogroup",
        "--init-groups",
        "sh",
        "-c",
        "id -un; id -Gn; echo ~nobody",
    ]));
    for verb in [&["record", "-o", "x.folded"][..], &["stat"], &["trace", "-s"], &["sched"]] {
        let mut command = pyrograph();
        command
            .current_dir(folder.path())
            .args(verb)
            .args(["--user", "nobody", "--", "sh", "-c", ids]);
        let output = run(&mut command);
        assert_eq!(output.stdout, expect.stdout, "{verb:?}: {}", stderr(&output));
    }
    let output = record(folder.path(), &["--user", "nobodyy", "--", "true"]);
    assert!(stderr(&output).contains("no user"), "{}", stderr(&output));
    // Under sudo, it is said who runs the command.
    let mut command = pyrograph();
    command.current_dir(folder.path()).args(["stat", "--", "true"]);
    let output = run(command.envs([("SUDO_UID", "65534"), ("SUDO_USER", "nobody")]));
    let said = "true runs as root; --user nobody runs it as nobody";
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
    // Only root becomes another.
    let mut command = as_nobody(binary_for_others(folder.path(), 0o755));
    let output = command.args(["stat", "--user", "root", "--", "true"]).output().expect("it runs");
    assert!(stderr(&output).contains("only root may"), "{}", stderr(&output));
}

#[test]
fn on_a_terminal_nothing_waits_for_standard_input_in_silence() {
    let folder = folder();
    let program = binary().display().to_string();
    for verb in ["report", "flamegraph", "fold", "convert --to folded"] {
        let shown = on_a_terminal(folder.path(), &format!("{program} {verb}; echo code $?"));
        assert!(shown.contains("no input: name a file") && shown.contains("code 2"), "{shown}");
    }
    let shown = on_a_terminal(folder.path(), &format!("timeout 5 {program} report -"));
    assert!(shown.contains("reading standard input; Ctrl-D ends it"), "{shown}");
}

#[test]
fn a_report_on_a_terminal_fits_it_and_has_colours() {
    let folder = folder();
    let name = "a_function_with_a_long_name_".repeat(8);
    let text = format!("main;{name} 990000\nmain;hot 9999\nmain;cold 1\n");
    fs::write(folder.path().join("x.folded"), text).expect("a file");
    let program = binary().display().to_string();
    let report = |flags: &str| {
        on_a_terminal(
            folder.path(),
            &format!("stty cols 60 rows 24; {program} report {flags} x.folded"),
        )
    };
    let shown = report("");
    assert!(shown.contains("\u{1b}[31m99.00%"), "{shown:?}");
    let plain = report("--color never");
    assert!(!plain.contains('\u{1b}') && plain.contains('…'), "{plain:?}");
    assert!(
        plain.lines().filter(|line| line.contains("% ")).all(|line| line.chars().count() <= 60),
        "{plain}"
    );
    // The table has no rows of 0.00 %: they are counted.
    let table = plain.split("Call tree").next().expect("a table");
    assert!(!table.contains(" 0.00%"), "{plain}");
    assert!(table.contains("and 2 functions more"), "{plain}");
    let no_color = format!("NO_COLOR=1 {program} report x.folded");
    assert!(!on_a_terminal(folder.path(), &no_color).contains('\u{1b}'));
    // In a pipe there are none of both, unless they are asked for.
    let piped = |flags: &[&str]| {
        let output =
            run(pyrograph().current_dir(folder.path()).arg("report").args(flags).arg("x.folded"));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(!piped(&[]).contains('\u{1b}') && piped(&[]).contains(&name));
    assert!(piped(&["--color", "always"]).contains("\u{1b}[31m"));
    // The pager is the user's.
    let paged = format!("PAGER='tr a-z A-Z' {program} report --color never x.folded");
    assert!(on_a_terminal(folder.path(), &paged).contains("FUNCTION"));
}

#[test]
fn nameless_libraries_and_code_made_at_run_time_are_explained() {
    let folder = folder();
    let program = compile(&["gcc", "-O2", "-s"], "split.c", folder.path());
    let output = record(folder.path(), &["--", program.to_str().expect("a plain path"), "400"]);
    let text = stderr(&output);
    assert!(text.contains("no symbols for split_c ("), "{text}");
    assert!(text.contains("DEBUGINFOD_URLS"), "{text}");
}

#[test]
fn options_of_other_renderers_are_taken_or_explained() {
    let folder = folder();
    fs::write(folder.path().join("x.folded"), "main;f;g 3\nother 4\n").expect("a file");
    let look = |arguments: &[&str]| {
        let mut command = pyrograph();
        let output = run(command.current_dir(folder.path()).args(arguments).arg("x.folded"));
        (String::from_utf8_lossy(&output.stdout).into_owned(), stderr(&output))
    };
    let (svg, said) =
        look(&["flamegraph", "--search-color", "red", "--uicolor=blue", "-stroke-color", "none"]);
    assert!(svg.contains("</svg>"));
    for option in ["--search-color", "--uicolor", "--stroke-color"] {
        assert!(said.contains(&format!("{option} has no effect: ")), "{said}");
    }
    let (_, said) = look(&["fold", "--includeoffset", "--no-modules"]);
    assert!(said.contains("--includeoffset has") && said.contains("--no-modules has"), "{said}");
    let (based, _) = look(&["fold", "--base", "f"]);
    assert_eq!(based, "f;g 3\n");
}

#[test]
fn man_pages_have_a_synopsis_that_fits_exit_codes_and_examples() {
    const COLUMNS: usize = 73;
    let folder = folder();
    run(pyrograph().arg("manual").arg(folder.path()));
    for verb in ["-record", "-report", "-diff", "-fold", "-flamegraph", "-convert", "-heatmap", ""]
    {
        let path = folder.path().join(format!("pyrograph{verb}.1"));
        let page = fs::read_to_string(&path).expect("a page");
        let sections: Vec<&str> = page
            .lines()
            .filter_map(|line| line.strip_prefix(".SH "))
            .map(|name| name.trim_matches('"'))
            .collect();
        let at = |name: &str| sections.iter().position(|section| *section == name);
        for name in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS"] {
            assert!(at(name).is_some(), "{verb}: no {name} in {sections:?}");
        }
        assert_eq!(at("EXAMPLES").is_some(), !verb.is_empty(), "{verb}");
        let examples = page.split(".SH \"EXAMPLES\"").nth(1).unwrap_or_default();
        let examples = examples.split(".SH").next().unwrap_or_default().replace('\\', "");
        assert!(examples.lines().all(|line| line.len() <= COLUMNS + 2), "{examples}");
        let synopsis =
            page.split(".SH \"SYNOPSIS\"").nth(1).and_then(|rest| rest.split(".SH").next());
        let lines = synopsis.expect("a section").lines();
        let usage: Vec<String> = lines
            .filter_map(|line| line.strip_prefix("\\&"))
            .map(|line| line.replace('\\', ""))
            .collect();
        assert!((1..=3).contains(&usage.len()), "{usage:?}");
        assert!(usage.iter().all(|line| line.len() <= COLUMNS), "{usage:?}");
    }
}

/// `trace` and `sched` swallowed an early Ctrl-C, and the command ran to its end.
#[test]
fn ctrl_c_ends_the_command_before_it_runs_too() {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    if !is_root("ctrl_c_ends_the_command_before_it_runs_too") {
        return;
    }
    let folder = folder();
    for verb in [&["trace"][..], &["trace", "-s"], &["sched"], &["stat"], &["record"]] {
        for after in [10, 40, 80, 150] {
            let mut command = pyrograph();
            command.current_dir(folder.path()).args(verb).args(["--", "sleep", "1000"]);
            command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
            with_interrupt(&mut command, libc::SIG_DFL);
            let mut child = command.spawn().expect("pyrograph runs");
            std::thread::sleep(std::time::Duration::from_millis(after));
            let group = -child.id().cast_signed();
            // SAFETY: `kill` touches no memory.
            assert_eq!(unsafe { libc::kill(group, libc::SIGINT) }, 0);
            let status = child.wait().expect("it ends");
            // By its handler, or before that was there.
            let is_interrupted =
                status.code() == Some(130) || status.signal() == Some(libc::SIGINT);
            // What was recorded until then is written. Where the signal is swallowed, the command runs for longer than a test may.
            let is_written = verb == ["record"]
                && status.success()
                && folder.path().join("flamegraph.svg").exists();
            assert!(is_interrupted || is_written, "{verb:?} after {after} ms: {status:?}");
        }
    }
}

/// Sets what SIGINT does in a command when it begins: these tests may themselves run where it is ignored.
fn with_interrupt(command: &mut Command, disposition: libc::sighandler_t) {
    use std::os::unix::process::CommandExt;
    let set = move || {
        // SAFETY: it is async-signal-safe.
        unsafe { libc::signal(libc::SIGINT, disposition) };
        Ok(())
    };
    // SAFETY: it calls nothing else between fork and exec.
    unsafe { command.pre_exec(set) };
}

/// Shell scripts start background jobs with SIGINT ignored, and so is it in the command: `kill -INT $!` ended the recording, which
/// then waited for the command.
#[test]
fn an_interrupt_ends_the_command_of_a_background_job() {
    if !is_root("an_interrupt_ends_the_command_of_a_background_job") {
        return;
    }
    let folder = folder();
    for verb in [&["trace"][..], &["trace", "-s"], &["sched"], &["stat"], &["record"]] {
        let mut command = pyrograph();
        command.current_dir(folder.path()).args(verb).args(["--", "sleep", "1000"]);
        with_interrupt(command.stdout(Stdio::null()).stderr(Stdio::null()), libc::SIG_IGN);
        let mut job = command.spawn().expect("pyrograph runs");
        crate::common::wait_until("the command sleeps", || {
            let children = format!("/proc/{0}/task/{0}/children", job.id());
            let child = fs::read_to_string(children).unwrap_or_default();
            let stat = fs::read_to_string(format!("/proc/{}/stat", child.trim()));
            stat.is_ok_and(|stat| stat.contains(" (sleep) S "))
        });
        // SAFETY: `kill` touches no memory, and the process has not been waited for.
        assert_eq!(unsafe { libc::kill(job.id().cast_signed(), libc::SIGINT) }, 0);
        // For longer than a test may run, if the command goes on.
        job.wait().expect("it ends");
    }
}
