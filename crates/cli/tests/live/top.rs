//! `pyrograph top` in a pseudo-terminal, and piped.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::common::in_kernel::wait_for_programs;
use crate::common::terminal::Terminal;
use crate::common::{compile, is_root, pyrograph, run, text, tolerance, wait_until};

/// A process that computes until this is dropped: `split.c`, whose call tree is known.
struct Busy(Child);

impl Busy {
    fn start(folder: &Path) -> Self {
        let program = compile(&["gcc", "-g", "-O1", "-fomit-frame-pointer"], "split.c", folder);
        Self(Command::new(program).arg("100000000").spawn().expect("it runs"))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Watches a process.
fn watch(busy: &Busy, folder: &Path, columns: u16, rows: u16) -> Terminal {
    let mut command = pyrograph();
    command.args(["top", "-p", &busy.pid()]).current_dir(folder);
    Terminal::start(&mut command, columns, rows)
}

#[test]
fn keys_show_views_and_q_leaves_the_terminal_as_it_was() {
    if !is_root("keys_show_views_and_q_leaves_the_terminal_as_it_was") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let busy = Busy::start(folder.path());
    for (columns, rows) in [(80, 24), (200, 60)] {
        let mut terminal = watch(&busy, folder.path(), columns, rows);
        terminal.wait_for("gamma_");
        let screen = terminal.text();
        assert!(screen.contains("Self") && screen.contains("0 lost"), "{screen}");
        for key in
            ["sort", "/ filter", "f flame graph", "Enter callers/callees", "? all keys", "q quit"]
        {
            assert!(screen.contains(key), "{key} in:\n{screen}");
        }
        terminal.press("?");
        terminal.wait_for("write SVG");
        let screen = terminal.text();
        for key in ["process", "thread", "cgroup", "user/kernel", "pause", "range", "filters"] {
            assert!(screen.contains(key), "{key} in:\n{screen}");
        }
        terminal.press("?");
        terminal.wait_for("gamma_");
        terminal.press("/beta\r");
        terminal.wait_for("1 of ");
        assert!(!terminal.text().contains("gamma_"));
        terminal.press("\r");
        terminal.wait_for("callers (2)");
        let screen = terminal.text();
        assert!(screen.contains("alpha") && screen.contains("main"), "{screen}");
        terminal.press("f");
        terminal.wait_for("frames match");
        terminal.wait_for("of all");
        terminal.press("f");
        terminal.wait_for("1 of ");
        terminal.press("p");
        terminal.wait_for(&format!("split_c-{}", busy.pid()));
        terminal.press(" ");
        terminal.wait_for("PAUSED");
        terminal.press(" ");
        terminal.press("w");
        terminal.wait_for("wrote top");
        terminal.press("q");
        assert!(terminal.end().success());
    }
    // The second one did not write over the first.
    for name in ["top.svg", "top-2.svg"] {
        let svg = std::fs::read_to_string(folder.path().join(name)).expect("a picture");
        assert!(svg.contains("beta"), "{name}");
    }
}

#[test]
fn the_table_agrees_with_the_picture_of_the_same_moment() {
    if !is_root("the_table_agrees_with_the_picture_of_the_same_moment") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let busy = Busy::start(folder.path());
    let mut terminal = watch(&busy, folder.path(), 200, 60);
    terminal.wait_for("gamma_");
    terminal.press(" ");
    terminal.wait_for("PAUSED");
    // What was on its way when the pause began has come when nothing changes for longer than between two snapshots.
    let mut last = terminal.text();
    wait_until("nothing comes any more", || {
        std::thread::sleep(Duration::from_millis(1500));
        std::mem::replace(&mut last, terminal.text()) == last
    });
    terminal.press("w");
    terminal.wait_for("wrote top.svg");
    let screen = terminal.text();
    terminal.press("q");
    assert!(terminal.end().success());
    let report = run(pyrograph().args(["report", "--json"]).arg(folder.path().join("top.svg")));
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let whole = report["whole"].as_f64().expect("a number");
    let mut compared = 0;
    for function in report["functions"].as_array().expect("functions") {
        let name = function["name"].as_str().expect("a name");
        let [own, total] =
            ["self", "total"].map(|of| 100.0 * function[of].as_f64().expect("a number") / whole);
        // Of what is narrower than a pixel the picture knows nothing.
        if own < 1.0 {
            continue;
        }
        let row = screen.lines().find(|line| line.trim_end().ends_with(&format!(" {name}")));
        let row = row.unwrap_or_else(|| panic!("{name} in:\n{screen}"));
        let mut shares = row
            .split_whitespace()
            .map(|word| word.trim_end_matches('%').parse::<f64>().expect("a share"));
        let shown = [shares.next().expect("self"), shares.next().expect("total")];
        assert!((shown[0] - own).abs() < 0.11 && (shown[1] - total).abs() < 0.11, "{own} {row}");
        compared += 1;
    }
    assert!(compared >= 5, "{report:#}");
}

#[test]
fn signals_and_crashes_leave_the_terminal_as_it_was() {
    if !is_root("signals_and_crashes_leave_the_terminal_as_it_was") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let busy = Busy::start(folder.path());
    for (signal, code) in
        [(libc::SIGINT, 130), (libc::SIGTERM, 143), (libc::SIGHUP, 129), (libc::SIGQUIT, 131)]
    {
        let terminal = watch(&busy, folder.path(), 80, 24);
        terminal.wait_for("Self");
        terminal.signal(signal);
        assert_eq!(terminal.end().code(), Some(code));
    }
    for signal in [libc::SIGSEGV, libc::SIGABRT, libc::SIGBUS] {
        let terminal = watch(&busy, folder.path(), 80, 24);
        terminal.wait_for("Self");
        terminal.signal(signal);
        assert_eq!(terminal.end().signal(), Some(signal));
    }
    let mut terminal = watch(&busy, folder.path(), 80, 24);
    terminal.wait_for("Self");
    terminal.press("\x03");
    assert!(terminal.end().success(), "Ctrl-C is a key");
}

#[test]
fn a_signal_at_the_very_beginning_leaves_the_terminal_as_it_was() {
    if !is_root("a_signal_at_the_very_beginning_leaves_the_terminal_as_it_was") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let busy = Busy::start(folder.path());
    for _ in 0..5 {
        let terminal = watch(&busy, folder.path(), 80, 24);
        wait_until("it has the screen", || {
            terminal.screen.lock().expect("no panic").screen().alternate_screen()
        });
        terminal.signal(libc::SIGTERM);
        assert_eq!(terminal.end().code(), Some(143));
    }
}

#[test]
fn q_ends_it_before_anything_was_recorded() {
    if !is_root("q_ends_it_before_anything_was_recorded") {
        return;
    }
    // Of the whole machine, whose files are opened and tables made for a while.
    let mut command = pyrograph();
    command.args(["top", "-a", "-i", "60"]);
    let mut terminal = Terminal::start(&mut command, 80, 24);
    terminal.wait_for("quit");
    terminal.press("q");
    assert!(terminal.end().success());
}

/// The share in the second column of a function's row.
fn total(screen: &str, name: &str) -> Option<f64> {
    let row = screen.lines().find(|line| line.ends_with(&format!(" {name}")))?;
    row.split_whitespace().nth(1)?.trim_end_matches('%').parse().ok()
}

#[test]
fn memory_that_is_held_shows_while_it_is_held() {
    if !is_root("memory_that_is_held_shows_while_it_is_held") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&["gcc", "-g", "-O1"], "holds.c", folder.path());
    let mut holds =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it runs");
    let mut input = holds.stdin.take().expect("a pipe");
    let mut command = pyrograph();
    command.args(["top", "--alloc", "--live", "-p", &holds.id().to_string()]);
    let mut terminal = Terminal::start(&mut command, 120, 30);
    terminal.wait_for("held after");
    // That shows while tables are being made; what is allocated before the programs count is not known.
    wait_for_programs(terminal.child.id());
    input.write_all(b"x").expect("it reads");
    // 100 times 1,000 bytes, and 50,000, once it has asked for all of it: nothing counts twice, however often it is read.
    let is_all = |screen: &str| {
        let [keeps, grows] = ["keeps", "grows"].map(|name| total(screen, name));
        keeps.zip(grows).is_some_and(|(keeps, grows)| (keeps / grows - 2.0).abs() < 0.02)
    };
    wait_until("it holds all of its memory", || is_all(&terminal.text()));
    terminal.press(" ");
    terminal.wait_for("PAUSED");
    wait_until("it shows what is held in a pause", || is_all(&terminal.text()));
    assert_eq!(total(&terminal.text(), "gives_back"), None);
    terminal.press("q");
    assert!(terminal.end().success());
    drop(input);
    holds.kill().ok();
    holds.wait().expect("it ends");
}

#[test]
fn control_groups_are_known_at_once() {
    if !is_root("control_groups_are_known_at_once") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let busy = Busy::start(folder.path());
    let mut command = pyrograph();
    // No other snapshot comes while this is shown.
    command.args(["top", "-i", "3", "-p", &busy.pid()]);
    let mut terminal = Terminal::start(&mut command, 120, 30);
    terminal.wait_for("gamma_");
    terminal.press("c");
    terminal.wait_for("Control group");
    assert!(!terminal.text().contains("[not known]"), "{}", terminal.text());
    terminal.press("q");
    assert!(terminal.end().success());
}

#[test]
fn it_stops_and_goes_on_as_the_shell_wants() {
    if !is_root("it_stops_and_goes_on_as_the_shell_wants") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let busy = Busy::start(folder.path());
    let mut terminal = watch(&busy, folder.path(), 80, 24);
    terminal.wait_for("Self");
    let is_stopped = |terminal: &Terminal| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", terminal.child.id()));
        stat.is_ok_and(|stat| stat.contains(") T "))
    };
    terminal.signal(libc::SIGTSTP);
    wait_until("it is stopped", || is_stopped(&terminal));
    terminal.check_restored();
    terminal.signal(libc::SIGCONT);
    terminal.wait_for("Self");
    assert!(terminal.screen.lock().expect("no panic").screen().alternate_screen());
    terminal.press("q");
    assert!(terminal.end().success());
}

#[test]
fn it_fills_the_terminal_when_that_changes() {
    if !is_root("it_fills_the_terminal_when_that_changes") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let busy = Busy::start(folder.path());
    let mut terminal = watch(&busy, folder.path(), 80, 24);
    terminal.wait_for("Self");
    for (columns, rows) in [(200, 60), (40, 10), (10, 4), (80, 24)] {
        terminal.resize(columns, rows);
        let last_row = || {
            let text = terminal.text();
            let lines: Vec<&str> = text.lines().collect();
            match columns {
                10 => text.contains("too small") || text.contains("the term"),
                _ => lines.len() == usize::from(rows) && !lines[lines.len() - 1].is_empty(),
            }
        };
        wait_until("the last row has keys", last_row);
    }
    terminal.press("q");
    assert!(terminal.end().success());
}

#[test]
fn a_command_is_watched_and_its_output_kept_from_the_screen() {
    if !is_root("a_command_is_watched_and_its_output_kept_from_the_screen") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let marker = folder.path().join("written");
    let script = "echo pri''nted; echo wro''ng >&2; cat; : >\"$0\"; while :; do :; done";
    let mut command = pyrograph();
    command.args(["top", "--", "sh", "-c", script]).arg(&marker);
    let mut terminal = Terminal::start(&mut command, 80, 24);
    terminal.wait_for("Self");
    wait_until("it has written", || marker.exists());
    wait_until("it has a row", || terminal.text().contains("sh"));
    assert!(!terminal.text().contains("printed") && !terminal.text().contains("wrong"));
    terminal.press("q");
    let screen = Arc::clone(&terminal.screen);
    assert!(terminal.end().success());
    // What is written last may still be on its way through the terminal.
    wait_until("its output is shown", || {
        let text = screen.lock().expect("no panic").screen().contents();
        text.contains("printed") && text.contains("wrong")
    });
}

#[test]
fn the_end_of_what_is_recorded_is_said() {
    if !is_root("the_end_of_what_is_recorded_is_said") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let busy = Busy::start(folder.path());
    let mut terminal = watch(&busy, folder.path(), 80, 24);
    terminal.wait_for("gamma_");
    drop(busy);
    terminal.wait_for("ENDED");
    assert!(terminal.text().contains("gamma_"), "what was recorded is still there");
    terminal.press("f");
    terminal.wait_for("of all");
    terminal.press("q");
    assert!(terminal.end().success());
}

#[test]
fn what_cannot_be_recorded_is_said_after_the_screen() {
    let mut command = pyrograph();
    command.args(["top", "--", "/nonexistent/program"]);
    let terminal = Terminal::start(&mut command, 80, 24);
    let screen = Arc::clone(&terminal.screen);
    assert_eq!(terminal.end().code(), Some(127));
    let said = || {
        let text = screen.lock().expect("no panic").screen().contents();
        text.contains("pyrograph: ") && text.contains("nonexistent")
    };
    wait_until("it says why", said);
}

#[test]
fn without_a_terminal_there_are_tables() {
    if !is_root("without_a_terminal_there_are_tables") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let busy = Busy::start(folder.path());
    let top = |flags: &[&str]| {
        text(&run(pyrograph().args(["top", "-p", &busy.pid(), "-i", "0.5"]).args(flags)).stdout)
    };
    let tables = top(&["-n", "2", "-E", "3"]);
    assert_eq!(tables.matches("Self    Total").count(), 2, "{tables}");
    assert_eq!(tables.lines().filter(|line| line.contains("beta")).count(), 2, "{tables}");
    assert!(tables.contains("0 lost"), "{tables}");
    let by_process = top(&["-n", "1", "--by", "process", "-K"]);
    assert!(by_process.contains(&format!("split_c-{}", busy.pid())), "{by_process}");
    assert!(!by_process.contains("[kernel.kallsyms]"), "{by_process}");
    let mut samples = 0;
    for line in top(&["-n", "3", "--json", "-E", "0"]).lines() {
        let table: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let own = |of: &serde_json::Value| of["self"].as_u64().expect("a number");
        let sum: u64 = table["functions"].as_array().expect("functions").iter().map(own).sum();
        assert_eq!(sum, table["whole"].as_u64().expect("a number"), "each sample is in one row");
        samples += table["samples"].as_u64().expect("a number");
    }
    assert!(samples > 20, "{samples} in three tables");
    // The reader goes away after a line.
    let mut piped = pyrograph();
    piped.args(["top", "-p", &busy.pid(), "-i", "0.2"]).stdout(Stdio::piped());
    let mut piped = piped.spawn().expect("it runs");
    let mut byte = [0];
    piped.stdout.take().expect("a pipe").read_exact(&mut byte).expect("a table");
    assert!(piped.wait().expect("it ends").success());
}

/// Functions apart by a value of the event, with the sum of another.
#[test]
fn functions_are_kept_apart_by_a_value() {
    if !is_root("functions_are_kept_apart_by_a_value") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = "dd if=/dev/zero of=/dev/null status=none bs=700 count=50; \
                  dd if=/dev/zero of=/dev/null status=none bs=300 count=20";
    let top = |flags: &[&str]| {
        let mut top = pyrograph();
        top.args(["top", "-b", "-i", "60", "-e", "syscalls:sys_enter_write"]).args(flags);
        let output = top.args(["--", "sh", "-c", script]).current_dir(folder.path()).output();
        text(&output.expect("it runs").stdout)
    };
    let last = top(&["--by", "count", "--json", "-E", "0"]);
    let table: serde_json::Value =
        serde_json::from_str(last.lines().last().expect("a table")).expect("JSON");
    let mut own = std::collections::BTreeMap::new();
    for row in table["functions"].as_array().expect("functions") {
        let key = row["value"].as_str().expect("a value").to_owned();
        *own.entry(key).or_insert(0) += row["self"].as_u64().expect("a number");
    }
    let expect = [("count=300".to_owned(), 20), ("count=700".to_owned(), 50)];
    assert_eq!(own, expect.into(), "{last}");
    let text = top(&["--by", "comm"]);
    assert!(text.contains("comm=dd") && text.contains("Value"), "{text}");
}

/// Programs in the kernel take each event of a tracepoint, whatever `-c` says.
#[test]
fn a_sample_of_a_tracepoint_stands_for_as_many_events_as_asked() {
    if !is_root("a_sample_of_a_tracepoint_stands_for_as_many_events_as_asked") {
        return;
    }
    let mut command = pyrograph();
    command.args(["top", "--json", "-n", "1", "-i", "0.5", "-c", "10"]);
    command.args(["-e", "syscalls:sys_enter_read", "--", "dd", "if=/dev/zero", "of=/dev/null"]);
    let output = run(command.args(["bs=1", "count=50000000"]));
    let table: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let [samples, whole] = ["samples", "whole"].map(|name| table[name].as_u64().expect("a number"));
    assert!(samples > 100 && whole == 10 * samples, "{samples} samples of {whole} events");
}

#[test]
fn shares_are_those_of_the_program() {
    if !is_root("shares_are_those_of_the_program") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let busy = Busy::start(folder.path());
    let mut command = pyrograph();
    command.args(["top", "-p", &busy.pid(), "-F", "2999", "-i", "1", "-n", "1", "--json"]);
    let output = run(&mut command);
    let table: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let whole = table["whole"].as_f64().expect("a number");
    let share = |name: &str, of: &str| {
        let functions = table["functions"].as_array().expect("functions");
        let found = functions.iter().find(|function| function["name"] == name);
        100.0
            * found.unwrap_or_else(|| panic!("{name} in {table:#}"))[of].as_f64().expect("a number")
            / whole
    };
    let samples = table["samples"].as_f64().expect("a number");
    assert!(samples > 100.0, "{samples} in a second");
    // As split.c says.
    for (name, of, expect) in [
        ("alpha", "total", 40.0),
        ("beta", "self", 45.0),
        ("gamma_", "total", 35.0),
        ("main", "total", 100.0),
    ] {
        let found = share(name, of);
        let most = tolerance(expect, samples);
        assert!((found - expect).abs() < most, "{name}: {found}, not {expect} ± {most}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |flags: &[&str]| {
        let output = pyrograph().arg("top").args(flags).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        text(&output.stderr)
    };
    assert!(refused(&["-o", "top.folded"]).contains(".svg"));
    assert!(refused(&["-i", "1ms"]).contains("100ms"));
    assert!(refused(&["-c", "5", "--off-cpu"]).contains("-c is for events"));
    assert!(refused(&["-K", "-U"]).contains("cannot be used"));
}
