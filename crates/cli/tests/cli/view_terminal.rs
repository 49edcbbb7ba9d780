//! `pyrograph view --terminal` in a pseudo-terminal, and where there is none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::terminal::Terminal;
use crate::common::{pyrograph, run, text, wait_until};

const BEFORE: &str = "\
main;parse;memchr 300
main;parse 200
main;read;vfs_read_[k] 300
main;evil\x1b[31m\x07name 100
main;計算する 100
";

const AFTER: &str = "\
main;parse;memchr 300
main;parse 600
main;read;vfs_read_[k] 100
main;計算する 100
main;new 100
";

/// Writes files into a folder.
fn files(folder: &Path) -> [PathBuf; 2] {
    [("before.folded", BEFORE), ("after.folded", AFTER)].map(|(name, content)| {
        let path = folder.join(name);
        std::fs::write(&path, content).expect("it can be written");
        path
    })
}

fn view(folder: &Path, arguments: &[&str], columns: u16, rows: u16) -> Terminal {
    let mut command = pyrograph();
    command.args(["view", "--terminal"]).args(arguments).current_dir(folder);
    Terminal::start(&mut command, columns, rows)
}

/// Compares the screen with the one that is kept.
fn check(terminal: &Terminal, name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/screens/{name}.txt"));
    let screen = || -> String {
        terminal.text().lines().map(|line| format!("{}\n", line.trim_end())).collect()
    };
    if std::env::var_os("PYROGRAPH_BLESS").is_some() {
        std::thread::sleep(Duration::from_secs(1));
        std::fs::write(&path, screen()).expect("the screen can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    // What was waited for may stand above what is still being written.
    let until = Instant::now() + Duration::from_secs(10);
    while screen() != kept && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let screen = screen();
    assert_eq!(screen, kept, "{name}: PYROGRAPH_BLESS=1 if that is meant");
}

#[test]
fn a_file_opens_with_all_its_views() {
    let folder = tempfile::tempdir().expect("a folder");
    files(folder.path());
    for (columns, rows) in [(80, 24), (200, 60)] {
        let mut terminal = view(folder.path(), &["before.folded"], columns, rows);
        terminal.wait_for("all: 100.00% of all");
        check(&terminal, &format!("view-flame-{columns}x{rows}"));
        terminal.press("/parse\r");
        terminal.wait_for("1 frames match, 50 %");
        terminal.press("n");
        terminal.wait_for("parse: 50.00% of all");
        terminal.press("e");
        terminal.wait_for("callers (1)");
        check(&terminal, &format!("view-calls-{columns}x{rows}"));
        terminal.press("f");
        terminal.wait_for("parse: 50.00% of all");
        terminal.press("f");
        terminal.wait_for("by self");
        terminal.press("\x1b");
        terminal.wait_for("7 functions · user");
        check(&terminal, &format!("view-table-{columns}x{rows}"));
        terminal.press("w");
        terminal.wait_for("wrote flamegraph");
        terminal.press("q");
        assert!(terminal.end().success());
    }
    for name in ["flamegraph.svg", "flamegraph-2.svg"] {
        let svg = std::fs::read_to_string(folder.path().join(name)).expect("a picture");
        assert!(svg.contains("vfs_read"), "{name}");
    }
}

#[test]
fn filters_are_those_of_the_command_line() {
    let folder = tempfile::tempdir().expect("a folder");
    files(folder.path());
    let mut terminal = view(folder.path(), &["before.folded"], 120, 30);
    terminal.wait_for("all: 100.00%");
    terminal.press("f-ignore parse\r");
    terminal.wait_for("--ignore parse");
    let report = |flags: &[&str]| shares(&folder.path().join("before.folded"), flags);
    assert_eq!(rows(&terminal), report(&["--ignore", "parse"]));
    terminal.press("-hide ^vfs\r");
    terminal.wait_for("--hide '^vfs'");
    assert_eq!(rows(&terminal), report(&["--ignore", "parse", "--hide", "^vfs"]));
    terminal.press("\x7f\x7f");
    terminal.wait_for("7 functions · user");
    assert_eq!(rows(&terminal), report(&[]));
    // One by the function that is selected, the first; one that leaves nothing, and one that is none.
    terminal.press("x");
    let first = format!("--ignore '^{}$'", "memchr");
    wait_until("it is ignored", || {
        terminal.text().contains(&first) || terminal.text().contains("ignore")
    });
    terminal.press("-focus nowhere\r");
    terminal.wait_for("the filters leave nothing");
    terminal.press("-colour red\r");
    terminal.wait_for("from-frame");
    terminal.press("q");
    assert!(terminal.end().success());
}

/// Self and total of each function as the table on the screen has them.
fn rows(terminal: &Terminal) -> BTreeMap<String, [String; 2]> {
    let screen = terminal.text();
    let rows = screen.lines().skip_while(|line| !line.contains("   Self   Total")).skip(1);
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let [own, total] = [words.next()?, words.next()?];
        let name = words.next_back()?;
        total.ends_with('%').then(|| (name.to_owned(), [own.to_owned(), total.to_owned()]))
    };
    rows.map_while(row).collect()
}

/// The same of `report --json`.
fn shares(file: &Path, flags: &[&str]) -> BTreeMap<String, [String; 2]> {
    let report = run(pyrograph().args(["report", "--json"]).args(flags).arg(file));
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let whole = report["whole"].as_f64().expect("a number");
    let functions = report["functions"].as_array().expect("functions");
    let row = |of: &serde_json::Value| {
        let share =
            |key: &str| format!("{:.2}%", 100.0 * of[key].as_f64().expect("a number") / whole);
        // The terminal that reads the screen here drops what stands for what is not shown.
        let name = of["name"].as_str().expect("a name").replace(['\x1b', '\x07'], "");
        (name, ["self", "total"].map(share))
    };
    functions.iter().map(row).collect()
}

#[test]
fn the_table_and_the_search_agree_with_the_report_and_the_folded_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    files(folder.path());
    let file = folder.path().join("before.folded");
    let mut terminal = view(folder.path(), &["before.folded"], 120, 30);
    terminal.wait_for("all: 100.00%");
    // What is inside of a match counts once.
    for (search, expect) in [("a", 100), ("r", 80), ("mem", 30), ("計", 10), ("zzz", 0)] {
        terminal.press(&format!("/{search}\r"));
        let by_lines: u64 = BEFORE
            .lines()
            .filter_map(|line| line.rsplit_once(' '))
            .filter(|(stack, _)| stack.split(';').any(|frame| frame.contains(search)))
            .map(|(_, count)| count.parse::<u64>().expect("a number"))
            .sum();
        assert_eq!(by_lines, expect * 10, "{search}");
        let share = if expect == 0 { "0 %".to_owned() } else { format!("{expect} %") };
        terminal.wait_for(&format!("frames match, {share}"));
        terminal.press("/");
        (0..search.chars().count()).for_each(|_| terminal.press("\x7f"));
        terminal.press("\r");
    }
    terminal.press("f");
    terminal.wait_for("by self");
    assert_eq!(rows(&terminal), shares(&file, &[]));
    assert!(!terminal.text().contains('\u{7}'));
    terminal.press("q");
    assert!(terminal.end().success());
}

#[test]
fn two_files_are_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    files(folder.path());
    for (columns, rows) in [(80, 24), (200, 60)] {
        let mut terminal = view(folder.path(), &["before.folded", "after.folded"], columns, rows);
        terminal.wait_for("before.folded → after.folded");
        terminal.wait_for("widths: after");
        check(&terminal, &format!("view-diff-flame-{columns}x{rows}"));
        terminal.press("v");
        terminal.wait_for("widths: before");
        terminal.press("f");
        terminal.wait_for("Change");
        check(&terminal, &format!("view-diff-table-{columns}x{rows}"));
        terminal.press("/parse\r\r");
        terminal.wait_for("callers and callees of parse");
        check(&terminal, &format!("view-diff-calls-{columns}x{rows}"));
        terminal.press("-ignore new\r");
        terminal.wait_for("--ignore new");
        terminal.press("w");
        terminal.wait_for("wrote flamegraph");
        terminal.press("q");
        assert!(terminal.end().success());
    }
    let svg = std::fs::read_to_string(folder.path().join("flamegraph.svg")).expect("a picture");
    assert!(svg.contains("before.folded") && svg.contains("parse"));
}

#[test]
fn changes_are_those_of_the_comparison() {
    let folder = tempfile::tempdir().expect("a folder");
    let [before, after] = files(folder.path());
    let diff = run(pyrograph().args(["diff", "--json"]).args([&before, &after]));
    let diff: serde_json::Value = serde_json::from_slice(&diff.stdout).expect("JSON");
    let changed = diff["functions"].as_array().expect("functions");
    assert!(changed.len() >= 3, "{diff:#}");
    let mut terminal = view(folder.path(), &["before.folded", "after.folded"], 120, 30);
    terminal.wait_for("widths: after");
    terminal.press("f");
    terminal.wait_for("Change");
    let screen = terminal.text();
    assert!(screen.contains(&format!("{} changed beyond noise", changed.len())), "{screen}");
    for of in changed {
        let name = of["function"].as_str().expect("a name").replace(['\x1b', '\x07'], "");
        let row = screen.lines().find(|line| line.trim_end().ends_with(&format!(" {name}")));
        let row = row.unwrap_or_else(|| panic!("{name} in:\n{screen}"));
        let mark = if row.contains('▲') { "more" } else { "less" };
        let shown: Vec<f64> = row
            .split_whitespace()
            .take(3)
            .map(|word| word.trim_end_matches('%').parse().expect("a number"))
            .collect();
        let numbers =
            ["before", "after"].map(|side| 100.0 * of[side]["rate"].as_f64().expect("a number"));
        assert!((0..2).all(|side| (shown[side] - numbers[side]).abs() < 0.0051), "{row}");
        assert!((shown[2] - (numbers[1] - numbers[0])).abs() < 0.006, "{row}");
        assert_eq!(mark == "more", numbers[1] > numbers[0], "{row}");
    }
    terminal.press("q");
    assert!(terminal.end().success());
}

#[test]
fn a_file_with_both_sides_is_a_comparison() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("both.folded"), "main;a 100 300\nmain;b 300 100\n")
        .expect("it can be written");
    let mut terminal = view(folder.path(), &["both.folded"], 80, 24);
    terminal.wait_for("widths: after");
    terminal.press("f");
    terminal.wait_for("Change");
    assert!(terminal.text().contains("+50.00 ▲"), "{}", terminal.text());
    terminal.press("q");
    assert!(terminal.end().success());
}

#[test]
fn what_cannot_be_shown_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    files(folder.path());
    std::fs::write(folder.path().join("broken.pb.gz"), b"\x1f\x8b\x08broken").expect("a file");
    let output = pyrograph()
        .args(["view", "--terminal", "before.folded"])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--terminal needs a terminal"));
    for (file, word) in [("broken.pb.gz", "broken.pb.gz"), ("nowhere.folded", "nowhere.folded")] {
        let terminal = view(folder.path(), &[file], 80, 24);
        terminal.wait_for(word);
        assert_eq!(terminal.end().code(), Some(1), "{file}");
    }
}

#[test]
fn it_fills_the_terminal_when_that_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    files(folder.path());
    let terminal = view(folder.path(), &["before.folded"], 80, 24);
    terminal.wait_for("all: 100.00%");
    for (columns, rows) in [(200, 60), (40, 10), (80, 24)] {
        terminal.resize(columns, rows);
        wait_until("the last row has keys", || {
            let screen = terminal.text();
            let lines: Vec<&str> = screen.lines().collect();
            lines.len() == usize::from(rows) && !lines[lines.len() - 1].is_empty()
        });
    }
    terminal.signal(libc::SIGTERM);
    assert_eq!(terminal.end().code(), Some(143));
}

#[test]
fn a_large_file_is_searched_and_zoomed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut folded = String::new();
    for stack in 0..20_000u32 {
        let [a, b, c] = [stack % 7, stack % 101, stack];
        folded.push_str(&format!("main;a{a};b{b};c{c};leaf {}\n", stack % 5 + 1));
    }
    let sum = |wanted: &dyn Fn(u32) -> bool| -> u64 {
        (0..20_000u32).filter(|&stack| wanted(stack)).map(|stack| u64::from(stack % 5 + 1)).sum()
    };
    std::fs::write(folder.path().join("large.folded"), &folded).expect("a file");
    let mut terminal = view(folder.path(), &["large.folded"], 80, 24);
    terminal.wait_for("all: 100.00%");
    // Frames that are too narrow to be seen count, too.
    terminal.press("/b42\r");
    let share = 100.0 * sum(&|stack| stack % 101 == 42) as f64 / sum(&|_| true) as f64;
    terminal.wait_for(&format!("7 frames match, {share:.1} %"));
    terminal.press("n");
    terminal.wait_for("b42: ");
    terminal.press("q");
    assert!(terminal.end().success());
}
