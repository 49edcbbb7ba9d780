//! `pyrograph trace` beside strace: calls, arguments and tables.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::common::{is_root, pyrograph};

use super::trace::{call_of, known, table, table_of_file, trace};

/// The calls and errors that `strace -f -c` counts.
fn counted_by_strace(folder: &Path, command: &[&str]) -> Option<BTreeMap<String, (u64, u64)>> {
    let path = folder.join("strace.txt");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-c", "-o"]).arg(&path).args(command).env("PYTHONHASHSEED", "0");
    // A shell asks the kernel for its folder where `PWD` names another one.
    strace.current_dir(pyrograph().get_current_dir().expect("a folder"));
    strace.output().ok()?;
    let text = std::fs::read_to_string(&path).ok()?;
    let rows = text.lines().skip(2).take_while(|line| !line.starts_with("---"));
    // % time, seconds, usecs/call, calls, errors (or none), name
    let row = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let errors = if words.len() > 5 { words[4].parse().ok()? } else { 0 };
        Some(((*words.last()?).to_owned(), (words.get(3)?.parse().ok()?, errors)))
    };
    rows.map(row).collect()
}

/// The calls by which functions are entered, and return, that a recording beside a test counts, as we name them and as an older
/// strace does: they are not the program's own.
const RETURNS: [&str; 4] = ["uretprobe", "syscall_0x14f", "uprobe", "syscall_0x150"];

/// Name, result and raw addresses in the arguments of a call that has returned.
fn parts_of(call: &str) -> Option<(String, String, usize)> {
    let (call, result) = call.rsplit_once(" = ")?;
    let (name, arguments) = call.split_once('(').filter(|(name, _)| !RETURNS.contains(name))?;
    let result = result.split([' ', '<']).next().unwrap_or_default();
    // Addresses and numbers of descriptors' files differ from run to run.
    let result = if result.starts_with("0x") { "address" } else { result };
    let addresses = arguments.split(|c: char| !c.is_ascii_alphanumeric());
    let addresses = addresses.filter(|word| word.starts_with("0x") && word.len() > 7).count();
    Some((name.to_owned(), result.to_owned(), addresses))
}

#[test]
fn calls_and_their_arguments_are_those_of_strace() {
    if !is_root("calls_and_their_arguments_are_those_of_strace") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("strace.txt");
    for command in [&["ls", "-l", "/usr"][..], &["perl", "-e", "opendir D, '/'; print <D>"]] {
        let whole = [&["setarch", "-R"], command].concat();
        if Command::new("strace").arg("-o").arg(&path).args(&whole).output().is_err() {
            println!("skipped: strace is not installed");
            return;
        }
        let theirs = std::fs::read_to_string(&path).expect("lines");
        let theirs: Vec<_> = theirs.lines().filter_map(parts_of).collect();
        let (ours, _) = trace(folder.path(), &[], &whole);
        let ours: Vec<_> = ours.iter().filter_map(|line| parts_of(call_of(line))).collect();
        let results = |calls: &[(String, String, usize)]| {
            let known = calls.iter().filter(|(name, ..)| name != "set_tid_address");
            known.map(|(name, result, _)| format!("{name} = {result}")).collect::<Vec<_>>()
        };
        for (ours, theirs) in results(&ours).iter().zip(results(&theirs)) {
            assert_eq!(*ours, theirs, "{command:?}");
        }
        assert_eq!(ours.len(), theirs.len(), "{command:?}");
        // Addresses that strace has words for.
        let raw = ours.iter().zip(&theirs).filter(|(ours, theirs)| ours.2 > theirs.2).count();
        assert!(
            ours.len() > 100 && raw * 100 <= ours.len(),
            "{command:?}: {raw} of {}",
            ours.len()
        );
    }
}

#[test]
fn tables_are_those_of_strace() {
    if !is_root("tables_are_those_of_strace") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    // How often memory is asked for depends on where the heap begins, which is drawn by lot; and how often a shell waits for its
    // children, and `cat` for the other end of its pipe, on who comes first.
    const BY_CHANCE: [&str; 5] = ["brk", "wait4", "rt_sigsuspend", "rt_sigreturn", "read"];
    for (command, by_chance) in [
        (&["ls", "/"][..], &BY_CHANCE[..1]),
        (&["sh", "-c", "ls /nonexistent; ls / | cat"], &BY_CHANCE),
        (
            &["perl", "-MPOSIX", "-e", "open(F, '<', '/nonexistent'); print POSIX::floor(1.5)"],
            &BY_CHANCE[..1],
        ),
    ] {
        let Some(mut theirs) = counted_by_strace(folder.path(), command) else {
            eprintln!("skipped: strace is not installed");
            return;
        };
        let mut ours = table(&[], command);
        for call in RETURNS.iter().chain(by_chance) {
            let [ours, theirs] = [&mut ours, &mut theirs].map(|table| table.remove(*call));
            // Of those by chance, a few more or fewer; calls that are lost or counted twice would be many.
            let [ours, theirs] =
                [ours, theirs].map(|numbers| numbers.map_or(0, |(calls, _)| calls));
            let is_own = by_chance.contains(call);
            assert!(!is_own || ours.abs_diff(theirs) <= 6, "{call}: {ours} and {theirs}");
        }
        assert!(ours.len() > 10, "{ours:?}");
        assert_eq!(ours, theirs, "{command:?}");
    }
}

#[test]
fn files_of_strace_and_of_our_own_give_the_same_table() {
    if !is_root("files_of_strace_and_of_our_own_give_the_same_table") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = known(folder.path());
    let known = |table: &BTreeMap<String, (u64, u64)>| {
        assert_eq!(table["getppid"], (300, 0));
        assert_eq!(table["fchdir"], (300, 300));
        let (all, failed) = table["openat"];
        assert_eq!(failed - 30, all - 32, "{table:?}");
    };
    let (lines, said) = trace(folder.path(), &[], &[&program, "2", "100"]);
    assert_eq!(said, "");
    assert!(lines.len() > 600);
    known(&table_of_file(&folder.path().join("trace.txt")));
    let theirs = folder.path().join("strace.txt");
    for flags in [&["-f"][..], &["-f", "-ttt", "-T"], &["-f", "-t", "-Y", "-y"]] {
        let mut strace = Command::new("strace");
        let strace = strace.args(flags).arg("-o").arg(&theirs).args([&program, "2", "100"]);
        if strace.output().is_err() {
            eprintln!("skipped: strace is not installed");
            return;
        }
        known(&table_of_file(&theirs));
    }
}
