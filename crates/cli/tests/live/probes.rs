//! Places in programs by their source: lines and inlined functions, counted, traced and recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::common::{compile, counts, is_root, of, program_source, pyrograph, text};
use serde_json::Value;

const SOURCE: &str = "source_lines.c";

/// Without optimization, with it, and with LLVM's compiler.
const COMPILERS: [&[&str]; 3] =
    [&["gcc", "-g", "-O0"], &["gcc", "-g", "-O2"], &["clang", "-g", "-O2"]];

/// Rounds of the program, and what it does in them: calls, steps, steps of even rounds.
const ROUNDS: u64 = 100;
const STEPS: u64 = 200;
const EVEN_STEPS: u64 = 100;

/// The line of the source with this remark.
fn line_with(remark: &str) -> u64 {
    line_in(SOURCE, remark)
}

fn line_in(source: &str, remark: &str) -> u64 {
    let source = std::fs::read_to_string(program_source(source)).expect("a source");
    let line = source.lines().position(|line| line.ends_with(&format!("// {remark}")));
    line.expect("a line") as u64 + 1
}

fn program(compiler: &[&str], folder: &Path) -> String {
    compile(compiler, SOURCE, folder).to_str().expect("a plain path").to_owned()
}

fn list(arguments: &[&str]) -> (String, String) {
    let output = pyrograph().arg("list").args(arguments).output().expect("pyrograph runs");
    (text(&output.stdout), text(&output.stderr))
}

/// A line at which the compiler lets code begin: it may leave some out.
fn has_line(program: &str, function: &str, line: u64) -> bool {
    let (json, said) = list(&["--json", &format!("uprobe:{program}:{function}")]);
    assert_eq!(said, "");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let lines = json["functions"][0]["lines"].as_array().expect("lines");
    lines.iter().any(|of| of["line"] == line && of["places"].as_u64() > Some(0))
}

#[test]
fn lines_and_inlined_calls_are_counted_as_often_as_they_run() {
    if !is_root("lines_and_inlined_calls_are_counted_as_often_as_they_run") {
        return;
    }
    for compiler in COMPILERS {
        let folder = tempfile::tempdir().expect("a folder");
        let program = program(compiler, folder.path());
        let place = |place: &str| format!("uprobe:{program}:{place}");
        let mut expect = BTreeMap::from([
            (place("handle"), ROUNDS),
            (place("mix"), STEPS + EVEN_STEPS),
            (format!("uretprobe:{program}:handle"), ROUNDS),
        ]);
        for (remark, times) in [("once", ROUNDS), ("an even step", EVEN_STEPS)] {
            let line = line_with(remark);
            if compiler[2] == "-O0" || has_line(&program, "handle", line) {
                expect.insert(place(&format!("handle:{line}")), times);
                expect.insert(place(&format!("@{SOURCE}:{line}")), times);
                expect.insert(place(&format!("handle@programs/{SOURCE}:{line}")), times);
            }
        }
        let events: Vec<String> = expect.keys().cloned().collect();
        let output = pyrograph()
            .args(["stat", "--json", "-e", &format!("task-clock,{},page-faults", events.join(","))])
            .args([&program, "100"])
            .output()
            .expect("pyrograph runs");
        let counts = counts(&output);
        for (event, times) in &expect {
            let said = text(&output.stderr);
            assert_eq!(of(&counts, event), *times as f64, "{compiler:?} {event} {said}");
        }
        assert!(of(&counts, "task-clock") > 0.0 && of(&counts, "page-faults") > 0.0);
    }
}

/// By debug information of their own, the lines are those that binutils reads.
#[test]
fn lines_with_code_are_those_of_binutils() {
    for compiler in COMPILERS {
        let folder = tempfile::tempdir().expect("a folder");
        let program = program(compiler, folder.path());
        let mut ours = BTreeSet::new();
        for function in ["handle", "mix", "main"] {
            let (json, said) = list(&["--json", &format!("uprobe:{program}:{function}")]);
            assert_eq!(said, "");
            let json: Value = serde_json::from_str(&json).expect("JSON");
            let lines = json["functions"][0]["lines"].as_array().expect("lines");
            let with_code = lines.iter().filter(|line| line["places"].as_u64() > Some(0));
            ours.extend(with_code.filter_map(|line| line["line"].as_u64()));
        }
        let output = Command::new("objdump").args(["--dwarf=decodedline", &program]).output();
        let table = text(&output.expect("binutils are installed").stdout);
        // `source_lines.c   22   0x1230   1   x`
        let statement = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let is_statement = words.first() == Some(&SOURCE) && words.last() == Some(&"x");
            words.get(1)?.parse::<u64>().ok().filter(|line| is_statement && *line > 0)
        };
        let theirs: BTreeSet<u64> = table.lines().filter_map(statement).collect();
        assert!(theirs.len() > 15, "{table}");
        assert_eq!(ours, theirs, "{compiler:?}");
    }
}

#[test]
fn a_function_is_listed_with_its_lines_and_variables() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = program(COMPILERS[0], folder.path());
    let (lines, _) = list(&[&format!("uprobe:{program}:handle")]);
    assert!(
        lines.starts_with("long int handle(struct request *request, int flags, double factor)\n"),
        "{lines}"
    );
    let step = line_with("a step");
    assert!(lines.contains(&format!("\n{step:>7} *  ")), "{lines}");
    let (variables, _) = list(&[&format!("uprobe:{program}:handle:{step}")]);
    let rows: Vec<Vec<&str>> =
        variables.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
    let names: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(names, ["request", "flags", "factor", "sum", "color", "i"], "{variables}");
    assert!(
        rows.iter().all(|row| row.last().is_some_and(|place| place.starts_with("[rbp"))),
        "{variables}"
    );
    let (_, said) = list(&[&format!("uprobe:{program}:handle:1")]);
    assert!(said.contains("no code of handle") && said.contains("it does at"), "{said}");
    let (_, said) = list(&[&format!("uprobe:{program}:@sauce_lines.c:1")]);
    assert!(said.contains("did you mean source_lines.c?"), "{said}");
    // Without debug information there are symbols alone, and a line needs more.
    let plain = folder.path().join("plain");
    let status = Command::new("strip").args(["-g", "-o"]).arg(&plain).arg(&program).status();
    assert!(status.is_ok_and(|status| status.success()));
    let plain = plain.to_string_lossy();
    let (symbols, _) = list(&[&format!("uprobe:{plain}:handle")]);
    assert!(symbols.contains(&format!("uprobe:{plain}:handle\n")), "{symbols}");
    let (_, said) = list(&[&format!("uprobe:{plain}:handle:{step}")]);
    assert!(said.contains("has no debug information"), "{said}");
}

#[test]
fn lines_are_traced_and_recorded() {
    if !is_root("lines_are_traced_and_recorded") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = program(COMPILERS[0], folder.path());
    let once = format!("uprobe:{program}:handle:{}", line_with("once"));
    let traced = folder.path().join("traced");
    let status = pyrograph()
        .args(["trace", "-e", &once, "-o"])
        .arg(&traced)
        .args([&program, "100"])
        .status();
    assert!(status.is_ok_and(|status| status.success()));
    let lines = std::fs::read_to_string(&traced).expect("it was written");
    assert_eq!(lines.matches(&once).count() as u64, ROUNDS, "{lines}");

    let folded = folder.path().join("out.folded");
    let output = pyrograph()
        .args(["record", "-e", &once, "-o"])
        .arg(&folded)
        .args([&program, "100"])
        .output()
        .expect("pyrograph runs");
    let stacks = std::fs::read_to_string(&folded).unwrap_or_default();
    let (stack, count) = stacks.trim_end().rsplit_once(' ').expect("a stack");
    assert!(stack.ends_with(";main;handle") && !stack.contains('\n'), "{stacks}");
    assert_eq!(count, ROUNDS.to_string(), "{}", text(&output.stderr));
    // A line of a function that does not return, and of one that is not there.
    for (place, expect) in [
        (format!("uretprobe:{program}:handle:9"), "a return has no line"),
        (format!("uprobe:{program}:handel"), "did you mean handle?"),
        (format!("{{uprobe:{program}:handle,task-clock}}"), "unknown event"),
        (format!("{once} sum"), "what is wanted of the values?"),
    ] {
        let output = pyrograph().args(["stat", "-e", &place, "true"]).output().expect("it runs");
        assert!(text(&output.stderr).contains(expect), "{}", text(&output.stderr));
    }
    let flags = ["stat", "--engine", "perf", "-e", &once, "-e", "task-clock", "true"];
    let output = pyrograph().args(flags).output().expect("it runs");
    let said = text(&output.stderr);
    assert!(said.contains("counted by programs in the kernel"), "{said}");
}

const VALUES: &str = "source_values.c";

/// Expressions, and how a debugger prints each.
const EXPRESSIONS: &[(&str, &str)] = &[
    ("index", "%d"),
    ("large", "%lld"),
    ("unsigned_large", "%lu"),
    ("count", "%hu"),
    ("seven", "%d"),
    ("weight", "%g"),
    ("ratio", "%g"),
    ("visits", "%d"),
    ("total", "%ld"),
    ("bytes[2]", "%u"),
    ("bytes[3]", "%u"),
    ("first_node->id", "%d"),
    ("first_node->next->id", "%d"),
    ("node->id", "%d"),
    ("node->points[2].y", "%hd"),
    ("node->points[1].x", "%hd"),
    ("node->whole", "%ld"),
    ("node->low", "%d"),
    ("node->high", "%d"),
    ("node->first", "%u"),
    ("node->second", "%u"),
    ("node->third", "%d"),
    ("node->weight", "%g"),
    ("node->flag", "%d"),
    ("point.x", "%hd"),
    ("point.y", "%hd"),
    ("list[2]", "%d"),
    ("*second", "%d"),
    ("second[-1]", "%d"),
    ("*list", "%d"),
    ("per_thread", "%ld"),
    ("pairs[1]", "%hd"),
    ("((struct node *)anything)->id", "%d"),
    ("((node_t *)anything)->points[2].y", "%hd"),
    ("*(short *)list", "%hd"),
    ("(*first_node).points[0].x", "%hd"),
];

/// Values that gdb prints at a line of `source_values.c`, by visit; `None` if gdb is not installed.
fn by_debugger(program: &str, line: u64, expressions: &[(&str, &str)]) -> Option<Vec<Vec<String>>> {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("script");
    let print =
        |(expression, format): &(&str, &str)| format!("printf \"={format}\\n\", {expression}\n");
    let prints: String = expressions.iter().map(print).collect();
    // After its commands a program goes on with the next line; two visits.
    let round = format!("echo .\\n\n{prints}continue\n");
    let commands = format!("set confirm off\nbreak {VALUES}:{line}\nrun\n{round}{round}");
    std::fs::write(&script, commands).expect("a file");
    let output =
        Command::new("gdb").args(["-batch", "-nx", "-x"]).arg(&script).arg(program).output();
    let Ok(output) = output else {
        eprintln!("skipped: gdb is not installed");
        return None;
    };
    let said = text(&output.stdout);
    let rounds = said.split(".\n").skip(1).map(|round| {
        let values = round.lines().filter_map(|line| line.strip_prefix('='));
        values.map(str::to_owned).collect::<Vec<_>>()
    });
    Some(rounds.filter(|values| !values.is_empty()).collect())
}

/// Values that `trace` prints, by visit; its error message if it refuses one.
fn by_trace(program: &str, line: u64, expressions: &[&str]) -> Result<Vec<Vec<String>>, String> {
    by_trace_of(program, "visit", line, expressions)
}

fn by_trace_of(
    program: &str,
    function: &str,
    line: u64,
    expressions: &[&str],
) -> Result<Vec<Vec<String>>, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    let mut command = pyrograph();
    command.args(["trace", "-o"]).arg(&out);
    // The program is at the place once for all of them, in any order.
    let named: Vec<String> =
        expressions.iter().enumerate().map(|(at, of)| format!("v{at}={of}")).collect();
    for some in named.chunks(8) {
        let values = some.join(" ");
        command.args(["-e", &format!("uprobe:{program}:{function}:{line} {values}")]);
    }
    let output = command.arg(program).output().expect("pyrograph runs");
    if !output.status.success() {
        return Err(text(&output.stderr));
    }
    let lines = std::fs::read_to_string(&out).expect("it was written");
    let mut seen: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for line in lines.lines() {
        let (_, values) = line.split_once("(v").expect("values");
        for value in values.strip_suffix(')').expect("an end").split(" v") {
            let (number, value) = value.split_once('=').expect("a value");
            let number = number.parse().expect("a number");
            seen.entry(number).or_default().push(value.to_owned());
        }
    }
    let visits = seen.values().map(Vec::len).max().unwrap_or(0);
    assert!(seen.values().all(|of| of.len() == visits), "{lines}");
    let visit = |visit: usize| seen.values().map(|of| of[visit].clone()).collect();
    Ok((0..visits).map(visit).collect())
}

/// Without optimization every variable has a place in memory: all values are those of a debugger.
#[test]
fn values_are_those_of_a_debugger() {
    if !is_root("values_are_those_of_a_debugger") {
        return;
    }
    let line = line_in(VALUES, "here");
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&["gcc", "-g", "-O0"], VALUES, folder.path());
    let program = program.to_str().expect("a plain path");
    let Some(expect) = by_debugger(program, line, EXPRESSIONS) else { return };
    assert!(expect.len() == 2 && expect[0].len() == EXPRESSIONS.len(), "{expect:?}");
    let expressions: Vec<&str> = EXPRESSIONS.iter().map(|(expression, _)| *expression).collect();
    let values = by_trace(program, line, &expressions).expect("all can be read");
    for (visit, (ours, theirs)) in values.iter().zip(&expect).enumerate() {
        for ((expression, our), their) in expressions.iter().zip(ours).zip(theirs) {
            assert_eq!(our, their, "visit {visit}: {expression}");
        }
    }
    // What a debugger writes in another way.
    let others = [
        ("color", ["GREEN", "BLUE"]),
        ("is_first", ["true", "false"]),
        ("node->shade", ["GREEN", "BLUE"]),
        ("letter", ["'b'", "'c'"]),
        ("text:string", [r#""first""#, r#""second \"quoted\"""#]),
        ("node->name:string", [r#""first""#, r#""second \"quoted\"""#]),
        ("node->tag:string", [r#""seventh""#, r#""tag2""#]),
        ("own:string", [r#""own1""#, r#""own2""#]),
        ("second", ["?", "?"]),
    ];
    let names: Vec<&str> = others.iter().map(|(name, _)| *name).collect();
    let values = by_trace(program, line, &names).expect("all can be read");
    for (at, (name, expect)) in others.iter().enumerate() {
        for (visit, expect) in expect.iter().enumerate() {
            let value = &values[visit][at];
            // An address differs from run to run.
            assert!(
                value == expect || *name == "second" && value.starts_with("0x7f"),
                "{name} {value}"
            );
        }
    }
}

/// With optimization a value is that of a debugger, or refused with a reason.
#[test]
fn values_of_optimized_code_are_right_or_refused() {
    if !is_root("values_of_optimized_code_are_right_or_refused") {
        return;
    }
    let line = line_in(VALUES, "here");
    for compiler in [&["gcc", "-g", "-O2"], &["clang", "-g", "-O1"]] {
        let folder = tempfile::tempdir().expect("a folder");
        let program = compile(compiler, VALUES, folder.path());
        let program = program.to_str().expect("a plain path");
        let mut right = 0;
        for of in EXPRESSIONS.iter().step_by(3) {
            match by_trace(program, line, &[of.0]) {
                Ok(ours) => {
                    let Some(expect) = by_debugger(program, line, &[*of]) else { return };
                    assert_eq!(ours, expect, "{compiler:?} {}", of.0);
                    right += 1;
                }
                Err(said) => {
                    let is_reason = ["cannot be read there: ", "no code of visit"]
                        .iter()
                        .any(|of| said.contains(of));
                    assert!(is_reason, "{compiler:?} {}: {said}", of.0);
                }
            }
        }
        assert!(right > 2, "{compiler:?}: {right}");
        // A structure in a register.
        let corner = line_in(VALUES, "a corner");
        let values = by_trace_of(program, "corner", corner, &["point.x", "point.y", "color"]);
        let expect = [["9", "10", "GREEN"], ["-3", "4", "BLUE"]];
        match values {
            Ok(values) => assert_eq!(values, expect, "{compiler:?}"),
            // LLVM puts such a variable together by arithmetic.
            Err(said) => assert!(compiler[0] != "gcc" && said.contains("cannot be read there")),
        }
    }
}

/// Objects that are texts, behind references, too.
#[test]
fn texts_and_lists_of_cpp_and_rust_are_read() {
    if !is_root("texts_and_lists_of_cpp_and_rust_are_read") {
        return;
    }
    for (compiler, source) in [
        (&["g++", "-g", "-O0"][..], "texts.cpp"),
        (&["rustc", "--edition=2021", "-g", "-Copt-level=0"], "texts.rs"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let program = compile(compiler, source, folder.path());
        let program = program.to_str().expect("a plain path");
        let line = line_in(source, "here");
        let values = ["plain", "reference", "long_one", "numbers[0]", "numbers[1]", "numbers[2]"];
        let shown = by_trace_of(program, "greet", line, &values).expect("all can be read");
        let long_one = format!("\"{}\"", "long ".repeat(20));
        let expect = ["\"hi\"", "\"you there\"", long_one.as_str(), "3", "-4", "5"];
        assert_eq!(shown[0], expect, "{source}");
        if source == "texts.rs" {
            let refused = by_trace_of(program, "greet", line, &["maybe"]);
            let why = refused.expect_err("it may be none");
            assert!(why.contains("is None or Some; which"), "{why}");
        }
    }
}

/// Go passes arguments in registers of its own, texts and slices in several.
#[test]
fn values_of_go_are_read() {
    if !is_root("values_of_go_are_read") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("values_go");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(program_source("values.go"));
    build.env("GOCACHE", folder.path().join("cache")).env("GOFLAGS", "-mod=mod");
    if !build.output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: go is not installed");
        return;
    }
    let place = format!("uprobe:{}:main.handle", program.display());
    let values = "name items[1] items.len flag request.ID request.Name request.Tags[1]";
    let mut trace = pyrograph();
    trace.args(["trace", "-e", &format!("{place} {values}"), "--"]).arg(&program);
    let said = text(&trace.output().expect("it runs").stderr);
    for round in 0..5 {
        let next = round + 1;
        let expect = format!(
            "(name=\"name-{round}\" items[1]={next} items.len=3 flag={} request.ID={round} \
             request.Name=\"request-{round}\" request.Tags[1]=\"b\")",
            round % 2 == 0
        );
        assert!(said.contains(&expect), "{expect}: {said}");
    }
}

#[test]
fn values_that_cannot_be_read_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&["gcc", "-g", "-O0"], VALUES, folder.path());
    let program = program.to_str().expect("a plain path");
    let line = line_in(VALUES, "here");
    for (values, expect) in [
        ("nothing", "no such variable; there are node, text, count"),
        ("node->nothing", "has no member 'nothing'; it has id, next, name, tag"),
        ("node->", "a name of a member is expected"),
        ("index->id", "has no members"),
        ("*index", "is no pointer"),
        ("index[1]", "has no elements"),
        ("point", "has several values; its members are x, y"),
        ("list", "has several values: [0] is the first"),
        ("index:string", "is no text"),
        ("index index index index index index index index index", "at most 8 values"),
    ] {
        let event = format!("uprobe:{program}:visit:{line} {values}");
        let output = pyrograph().args(["trace", "-e", &event, program]).output().expect("it runs");
        assert!(text(&output.stderr).contains(expect), "{values}: {}", text(&output.stderr));
        assert!(!output.status.success(), "{values}");
    }
}

/// Functions by a pattern: each is counted and traced for itself, and together they are one event whose stacks are recorded.
#[test]
fn patterns_stand_for_several_functions() {
    if !is_root("patterns_stand_for_several_functions") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&["gcc", "-g", "-O0"], "calls_take.c", folder.path());
    let program = program.to_str().expect("a plain path");
    let run = |arguments: &[&str]| {
        let mut command = pyrograph();
        command.args(arguments).args(["--", program]).current_dir(folder.path());
        command.output().expect("pyrograph runs")
    };
    let place = |function: &str| format!("uprobe:{program}:{function}");
    let counted = counts(&run(&["stat", "--json", "-e", &format!("page-faults,{}", place("ne*"))]));
    assert_eq!(of(&counted, &place("nest")), 5.0, "{counted:?}");
    let counted = counts(&run(&["stat", "--json", "-e", &place("n?p*"), "-e", "page-faults"]));
    assert_eq!(of(&counted, &place("nap")), 20.0, "{counted:?}");
    assert!(of(&counted, "page-faults") > 0.0, "{counted:?}");
    let traced = text(&run(&["trace", "-e", &format!("{} arg1", place("n*"))]).stderr);
    let lines = |function: &str| {
        let call = format!("{}(arg1=", place(function));
        traced.lines().filter(|line| line.contains(&call)).count()
    };
    assert_eq!((lines("nap"), lines("nest")), (20, 5), "{traced}");
    run(&["record", "-u", "-o", "x.folded", "-e", &place("n*")]);
    let folded = std::fs::read_to_string(folder.path().join("x.folded")).expect("stacks");
    let ends = |function: &str| {
        let leaf = format!(";{function}");
        let stacks = folded.lines().filter_map(|line| line.rsplit_once(' '));
        let of = stacks.filter(|(stack, _)| stack.ends_with(&leaf));
        of.map(|(_, count)| count.parse::<u64>().expect("a count")).sum::<u64>()
    };
    assert_eq!((ends("nap"), ends("nest")), (20, 5), "{folded}");
    let said = |event: &str| text(&run(&["stat", "-e", event]).stderr);
    assert!(said(&place("no_such_*")).contains("matches nothing"));
    assert!(said("usdt:/bin/sh:*:*").contains("matches nothing"));
}
