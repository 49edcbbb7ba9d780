//! Parameters of functions at their returns, and registers, compared with what the program prints.

use std::collections::BTreeMap;
use std::process::Command;

use crate::common::{compile, is_root, pyrograph, text};
use crate::values::{by_root, stat};

const COMPILERS: [&[&str]; 4] = [
    &["gcc", "-g", "-O0"],
    &["gcc", "-g", "-O2", "-fno-optimize-sibling-calls"],
    &["clang", "-g", "-O0"],
    &["clang", "-g", "-O2", "-fno-optimize-sibling-calls"],
];

const CALLS: &str = "30";

/// The words that the program prints for each call of a function.
fn said(program: &str, function: &str) -> Vec<Vec<String>> {
    let output = Command::new(program).arg(CALLS).output().expect("it runs");
    let output = text(&output.stdout);
    let lines = output.lines().filter_map(|line| line.strip_prefix(&format!("{function} ")));
    lines.map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

/// The values of all lines of `trace`, by name, without quotes.
fn traced(program: &str, event: &str) -> Vec<BTreeMap<String, String>> {
    let output = pyrograph()
        .args(["trace", "-e", event, "--", program, CALLS])
        .output()
        .expect("pyrograph runs");
    assert!(output.status.success(), "{event}: {}", text(&output.stderr));
    let said = text(&output.stderr);
    let values = |line: &str| {
        let (_, values) = line.split_once(" u")?.1.split_once('(')?;
        let values = values.strip_suffix(')')?.split(' ').filter_map(|value| value.split_once('='));
        Some(values.map(|(name, value)| (name.to_owned(), value.replace('"', ""))).collect())
    };
    said.lines().filter_map(values).collect()
}

#[test]
fn parameters_are_known_where_functions_return() {
    if !is_root("parameters_are_known_where_functions_return") {
        return;
    }
    for compiler in COMPILERS {
        let folder = tempfile::tempdir().expect("a folder");
        let program = compile(compiler, "returns.c", folder.path());
        let program = program.to_str().expect("a plain path");
        // A number, memory and text that a parameter leads to as they are at the return, a parameter on the stack, a static variable.
        let values = "flags id=request->id name=request->name:string b on_stack";
        let shown = [("flags", 0), ("id", 1), ("name", 2), ("b", 4), ("on_stack", 5)];
        let place = format!("uretprobe:{program}:handle");
        // clang without optimization finds what is on the stack by a frame that is gone.
        let has_stack = !(compiler[0] == "clang" && compiler[2] == "-O0");
        let values = if has_stack { values.to_owned() } else { values.replace(" on_stack", "") };
        let lines = traced(program, &format!("{place} {values} total result=$retval"));
        let expect = said(program, "handle");
        assert_eq!(lines.len(), expect.len(), "{compiler:?}: {lines:?}");
        for (line, words) in lines.iter().zip(&expect) {
            let shown = shown.iter().filter(|(name, _)| has_stack || *name != "on_stack");
            for (name, at) in shown.chain(&[("total", 6), ("result", 7)]) {
                assert_eq!(line.get(*name), words.get(*at), "{compiler:?}: {line:?}");
            }
        }
        // Calls within calls are others.
        let deep = format!("uretprobe:{program}:deep");
        let lines = traced(program, &format!("{deep} depth result=$retval"));
        let expect: Vec<BTreeMap<String, String>> = said(program, "deep")
            .into_iter()
            .map(|words| ["depth", "result"].map(str::to_owned).into_iter().zip(words).collect())
            .collect();
        assert_eq!(lines, expect, "{compiler:?}");
        // Counted, and recorded with stacks.
        let counted = stat(folder.path(), &[program, CALLS], &["-e", &deep, "--by", "depth"]);
        let each: BTreeMap<String, i64> = (0..=30).map(|depth| (depth.to_string(), 1)).collect();
        assert_eq!(counted.counts, each, "{compiler:?}: {}", counted.said);
        let out = folder.path().join("out.folded");
        let record = ["record", "-e", &deep, "--by", "depth", "--value", "$retval", "-o"];
        let mut command = pyrograph();
        command.args(record).arg(&out).args(["--", program, CALLS]);
        let output = command.output().expect("pyrograph runs");
        let folded = std::fs::read_to_string(&out).unwrap_or_default();
        let sums = said(program, "deep")
            .into_iter()
            .map(|words| (words[0].clone(), words[1].parse::<i64>().expect("a number")));
        assert_eq!(by_root(&folded, "depth"), sums.collect(), "{}", text(&output.stderr));
        for (value, why) in [
            (
                "result",
                "when a function returns, its variables are gone; there are $retval, request",
            ),
            ("weight", if compiler[2] == "-O0" { "it was in a vector register" } else { "xmm0" }),
        ] {
            let counted = stat(folder.path(), &["true"], &["-e", &place, "--by", value]);
            assert!(counted.said.contains(why), "{compiler:?} {value}: {}", counted.said);
        }
    }
}

/// Registers, and functions of which nothing else is known.
#[test]
fn registers_are_values() {
    if !is_root("registers_are_values") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&["gcc", "-O1", "-s"], "returns.c", folder.path());
    let program = program.to_str().expect("a plain path");
    let libc = text(&Command::new("ldd").arg(program).output().expect("ldd runs").stdout);
    let libc = libc.split_whitespace().find(|word| word.starts_with('/') && word.contains("libc"));
    let libc = libc.expect("it has a C library");
    // Its output is written when it ends, all at once: as long as it is.
    let long = Command::new(program).arg(CALLS).output().expect("it runs").stdout.len().to_string();
    let out = folder.path().join("out");
    let shell = format!("{program} {CALLS} > {}", out.display());
    let run = ["sh", "-c", &shell];
    for (event, by) in [
        ("uprobe", "%dx"),
        ("uprobe", "%rdx"),
        ("uprobe", "arg3"),
        ("uretprobe", "arg3"),
        ("uretprobe", "%ax"),
        ("uretprobe", "$retval"),
    ] {
        let place = format!("{event}:{libc}:write");
        let key = if by.starts_with('%') {
            format!("{:#x}", long.parse::<u64>().expect("a number"))
        } else {
            long.clone()
        };
        let counted = stat(
            folder.path(),
            &run,
            &["-e", &place, "--by", by, "--filter", &format!("{by} > 0")],
        );
        assert_eq!(counted.counts, BTreeMap::from([(key, 1)]), "{event} {by}: {}", counted.said);
    }
    // The text that was written, when that is done.
    let place = format!("uretprobe:{libc}:write");
    let counted = stat(folder.path(), &run, &["-e", &place, "--by", "arg2:string"]);
    let first = counted.counts.keys().next().cloned().unwrap_or_default();
    assert!(first.starts_with("handle -2 0 zero 97"), "{first}: {}", counted.said);
    let counted = stat(folder.path(), &["true"], &["-e", &place, "--by", "%edx"]);
    assert!(
        counted.said.contains("there is no register %edx; there are ax, dx"),
        "{}",
        counted.said
    );
}
