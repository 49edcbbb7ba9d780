//! Values of events: counts, sums and ranges by them, and filters. What is expected are sums over what the program says that
//! it did.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::common::{compile, is_root, pyrograph, text};
use serde_json::Value;
use tempfile::TempDir;

const COMPILERS: [&[&str]; 3] =
    [&["gcc", "-g", "-O0"], &["gcc", "-g", "-O2"], &["clang", "-g", "-O2"]];

const REQUESTS: usize = 240;

/// A request, as the program says.
#[derive(Clone, Debug)]
struct Request {
    length: i64,
    kind: &'static str,
    name: String,
    host: String,
    flags: i64,
    result: i64,
}

/// The program, in a folder of its own.
fn build(compiler: &[&str]) -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(compiler, "requests.c", folder.path());
    let program = program.to_str().expect("a plain path").to_owned();
    (folder, program)
}

fn requests(program: &str) -> Vec<Request> {
    let output = Command::new(program).arg(REQUESTS.to_string()).output().expect("it runs");
    let request = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<i64>().expect("a number");
        let kind = ["", "GET", "PUT", "", "", "", "", "DELETE"][number(1) as usize];
        let (name, host) = (words[2].to_owned(), words[3].to_owned());
        Request { length: number(0), kind, name, host, flags: number(4), result: number(5) }
    };
    let all: Vec<Request> = text(&output.stdout).lines().map(request).collect();
    assert_eq!(all.len(), REQUESTS);
    all
}

/// Counts by key, ranges by key and first value, and what was said.
pub struct Counted {
    pub counts: BTreeMap<String, i64>,
    pub ranges: BTreeMap<(String, Option<i64>), u64>,
    pub said: String,
}

pub fn stat(folder: &Path, program: &[&str], arguments: &[&str]) -> Counted {
    let json = folder.join("counts.json");
    let output = pyrograph()
        .args(["stat", "--json", "-o", json.to_str().expect("a plain path")])
        .args(arguments)
        .arg("--")
        .args(program)
        .output()
        .expect("pyrograph runs");
    let said = text(&output.stderr);
    let json = std::fs::read_to_string(json).unwrap_or_default();
    let Ok(json) = serde_json::from_str::<Value>(&json) else {
        return Counted { counts: BTreeMap::new(), ranges: BTreeMap::new(), said };
    };
    let key = |row: &Value| row["key"].as_str().expect("a key").to_owned();
    let count = |row: &Value| (key(row), row["value"]["mean"].as_f64().expect("a value") as i64);
    let range =
        |row: &Value| ((key(row), row["first"].as_i64()), row["events"].as_u64().expect("a count"));
    let rows = |name: &str| json[name].as_array().cloned().unwrap_or_default();
    Counted {
        counts: rows("events").iter().map(count).collect(),
        ranges: rows("ranges").iter().map(range).collect(),
        said,
    }
}

/// Sums by key.
fn sums<'a, K: ToString>(
    requests: impl IntoIterator<Item = &'a Request>,
    value: impl Fn(&Request) -> (K, i64),
) -> BTreeMap<String, i64> {
    let mut sums = BTreeMap::new();
    for request in requests {
        let (key, value) = value(request);
        *sums.entry(key.to_string()).or_insert(0) += value;
    }
    sums
}

#[test]
fn values_of_places_are_counted_and_added_up() {
    if !is_root("values_of_places_are_counted_and_added_up") {
        return;
    }
    for compiler in COMPILERS {
        let (folder, program) = build(compiler);
        let program = &program[..];
        let all = requests(program);
        let call = format!("uprobe:{program}:handle");
        let returns = format!("uretprobe:{program}:handle");
        let count = |arguments: &[&str]| stat(folder.path(), &[program, "240"], arguments);
        let check = |arguments: &[&str], expect: BTreeMap<String, i64>| {
            let counted = count(arguments);
            assert_eq!(counted.counts, expect, "{compiler:?} {arguments:?} {}", counted.said);
        };
        check(&["-e", &call, "--by", "request->kind"], sums(&all, |of| (of.kind, 1)));
        check(&["-e", &call, "--by", "request->flags"], sums(&all, |of| (of.flags, 1)));
        check(
            &["-e", &call, "--by", "request->host:string", "--value", "request->length"],
            sums(&all, |of| (of.host.clone(), of.length)),
        );
        let named = format!("{call} length=request->length name=request->name:string");
        check(
            &["-e", &named, "--by", "name", "--value", "length"],
            sums(&all, |of| (of.name.clone(), of.length)),
        );
        // Results are below 0, too.
        check(&["-e", &returns, "--value", "$retval"], sums(&all, |of| ("", of.result)));
        let comm = Path::new(program).file_name().expect("a name").to_string_lossy().into_owned();
        check(&["-e", &call, "--by", "comm"], BTreeMap::from([(comm, 240)]));
        check(
            &["-e", &call, "--filter", "request->length > 1000"],
            BTreeMap::from([(String::new(), 0)]),
        );
        // Filters of numbers, of names, of texts.
        let only = |filter: &str, is_in: &dyn Fn(&Request) -> bool| {
            let expect = sums(all.iter().filter(|of| is_in(of)), |of| (of.kind, 1));
            assert!(!expect.is_empty() && expect.values().sum::<i64>() < 240, "{filter}");
            check(&["-e", &call, "--by", "request->kind", "--filter", filter], expect);
        };
        only("request->length >= 100", &|of| of.length >= 100);
        only("request->length < 100 || request->flags == 2", &|of| {
            of.length < 100 || of.flags == 2
        });
        only("request->kind == PUT && factor == -1", &|of| of.kind == "PUT" && of.length % 2 == 0);
        only("!(request->kind == PUT) && request->flags & 1", &|of| {
            of.kind != "PUT" && of.flags & 1 == 1
        });
        only("request->host ~ '*a.*.org'", &|of| of.host == "gamma.example.org");
        only("request->host != 'beta'", &|of| of.host != "beta");
        only("request->name ~ 'name-?' && request->name !~ '*3'", &|of| of.name != "name-3");
    }
}

/// Sums of the values of folded stacks, by the text behind `=` of the frame below the program's name; by nothing if there is
/// none.
pub fn by_root(folded: &str, name: &str) -> BTreeMap<String, i64> {
    let mut sums = BTreeMap::new();
    for line in folded.lines() {
        let (stack, value) = line.rsplit_once(' ').expect("a value");
        let root = stack.split(';').nth(1).unwrap_or_default();
        let key = root.strip_prefix(name).and_then(|root| root.strip_prefix('='));
        *sums.entry(key.unwrap_or_default().to_owned()).or_insert(0) +=
            value.parse::<i64>().expect("a number");
    }
    sums
}

#[test]
fn stacks_are_recorded_by_values() {
    if !is_root("stacks_are_recorded_by_values") {
        return;
    }
    for compiler in COMPILERS {
        let (folder, program) = build(compiler);
        let program = &program[..];
        let all = requests(program);
        let call = format!("uprobe:{program}:handle");
        let returns = format!("uretprobe:{program}:handle");
        let record = |arguments: &[&str]| {
            let output = pyrograph()
                .args(["record", "-u", "-o", "x.folded", "-o", "x.pb.gz"])
                .args(arguments)
                .args(["--", program, "240"])
                .current_dir(folder.path())
                .output()
                .expect("pyrograph runs");
            let folded = std::fs::read_to_string(folder.path().join("x.folded"));
            (folded.unwrap_or_default(), text(&output.stderr))
        };
        let check = |arguments: &[&str], name: &str, expect: BTreeMap<String, i64>| {
            let (folded, said) = record(arguments);
            assert_eq!(by_root(&folded, name), expect, "{compiler:?} {arguments:?} {said}");
            assert!(said.contains("0 lost, all stacks whole"), "{said}");
            // Compiled code is called by `main`, wherever it was inlined.
            assert!(folded.lines().all(|line| line.contains(";main")), "{folded}");
        };
        check(
            &["-e", &call, "--by", "request->kind"],
            "request->kind",
            sums(&all, |of| (of.kind, 1)),
        );
        check(
            &["-e", &call, "--by", "request->host:string", "--value", "request->length"],
            "request->host",
            sums(&all, |of| (of.host.clone(), of.length)),
        );
        let named = format!("{call} length=request->length name=request->name:string");
        check(
            &["-e", &named, "--by", "name", "--value", "length", "--filter", "length > 99"],
            "name",
            sums(all.iter().filter(|of| of.length > 99), |of| (of.name.clone(), of.length)),
        );
        // What is negative has no width, and is said.
        let (folded, said) = record(&["-e", &returns, "--value", "$retval"]);
        let (negative, rest): (Vec<_>, Vec<_>) = all.iter().partition(|of| of.result < 0);
        let sum: i64 = rest.iter().map(|of| of.result).sum();
        assert_eq!(by_root(&folded, "").values().sum::<i64>(), sum, "{said}");
        let left_out = format!("{} events left out: a negative value has no width", negative.len());
        assert!(said.contains(&left_out), "{said}");
        // Other names of an event have their values, too, and the file of the recording has all of it.
        let written = ["-e", "syscalls:sys_enter_write", "--by", "fd", "--value", "count"];
        let (folded, said) = record(&written);
        let lines = std::fs::read_to_string(folder.path().join("x.folded")).expect("folded text");
        assert_eq!(by_root(&folded, "fd").get("3"), Some(&(240 * 241 / 2)), "{said}");
        let output = pyrograph()
            .args(["fold", "-o", "-", "x.pb.gz"])
            .current_dir(folder.path())
            .output()
            .expect("pyrograph runs");
        assert_eq!(by_root(&text(&output.stdout), "fd"), by_root(&lines, "fd"));
    }
}

#[test]
fn sums_of_values_are_exact_where_stacks_are_sampled() {
    if !is_root("sums_of_values_are_exact_where_stacks_are_sampled") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let write = ["dd", "if=/dev/zero", "of=/dev/null", "bs=7", "count=100000", "status=none"];
    for more in [&[][..], &["--by", "fd"], &["--exact"]] {
        let output = pyrograph()
            .args(["record", "-u", "-o", "x.folded", "-e", "syscalls:sys_enter_write"])
            .args(["--value", "count", "--filter", "fd == 1"])
            .args(more)
            .arg("--")
            .args(write)
            .current_dir(folder.path())
            .output()
            .expect("pyrograph runs");
        let said = text(&output.stderr);
        let folded = std::fs::read_to_string(folder.path().join("x.folded")).expect("folded text");
        assert_eq!(by_root(&folded, "fd").values().sum::<i64>(), 700_000, "{more:?} {said}");
        assert!(said.contains("100,000 hits of syscalls:sys_enter_write, 0 lost"), "{said}");
    }
}

#[test]
fn values_are_counted_in_ranges() {
    if !is_root("values_are_counted_in_ranges") {
        return;
    }
    let (folder, program) = build(&["gcc", "-g", "-O1"]);
    let program = &program[..];
    let all = requests(program);
    let returns = format!("uretprobe:{program}:handle");
    let power = |value: i64| match value {
        0 => 0,
        // The last one of the power's negative range is the first.
        value if value < 0 => -((1i64 << (value.unsigned_abs().ilog2() + 1)) - 1),
        value => 1 << value.ilog2(),
    };
    let mut expect = BTreeMap::new();
    for of in &all {
        *expect.entry((String::new(), Some(power(of.result)))).or_insert(0) += 1u64;
    }
    let counted = stat(folder.path(), &[program, "240"], &["-e", &returns, "--hist", "$retval"]);
    assert_eq!(counted.ranges, expect, "{}", counted.said);
    assert_eq!(counted.counts, BTreeMap::from([(String::new(), 240)]));
    // Ranges of equal size by another value, and what is outside of them.
    let call = format!("uprobe:{program}:handle");
    let mut expect = BTreeMap::new();
    for of in &all {
        let first = match of.length {
            ..50 => None,
            length @ 50..250 => Some(length / 50 * 50),
            _ => Some(250),
        };
        *expect.entry((of.kind.to_owned(), first)).or_insert(0) += 1u64;
    }
    let arguments = ["-e", &call, "--lhist", "request->length,50,250,50", "--by", "request->kind"];
    let counted = stat(folder.path(), &[program, "240"], &arguments);
    assert_eq!(counted.ranges, expect, "{}", counted.said);
    assert_eq!(counted.counts, sums(&all, |of| (of.kind, 1)));
    // In intervals, too.
    let output = pyrograph()
        .args([
            "stat",
            "-I",
            "10s",
            "--csv",
            "-e",
            &call,
            "--hist",
            "request->length",
            "--",
            program,
        ])
        .args(["240"])
        .output()
        .expect("pyrograph runs");
    let lines = text(&output.stdout);
    let events = |line: &str| line.rsplit(',').nth(1).and_then(|count| count.parse::<u64>().ok());
    let is_range = |line: &&str| line.contains(",uprobe:");
    let all: u64 = lines.lines().filter(is_range).filter_map(events).sum();
    assert!(lines.contains("seconds,key,event,first,last,events,unit"), "{lines}");
    assert_eq!(all, 240, "{lines}");
}

#[test]
fn values_of_tracepoints_are_counted() {
    if !is_root("values_of_tracepoints_are_counted") {
        return;
    }
    let (folder, program) = build(&["gcc", "-g", "-O1"]);
    let program = &program[..];
    let count = |arguments: &[&str]| stat(folder.path(), &[program, "1000"], arguments);
    // The program writes 1, 2 ... 1,000 bytes to a file of its own; to standard output more at a time.
    let of_file = "fd == 3 && count <= 1000";
    let enter = "syscalls:sys_enter_write";
    let counted = count(&["-e", enter, "--value", "count", "--filter", of_file]);
    assert_eq!(counted.counts, BTreeMap::from([(String::new(), 500_500)]), "{}", counted.said);
    let counted = count(&["-e", enter, "--hist", "count", "--filter", of_file]);
    let power = |first: i64, events| ((String::new(), Some(first)), events);
    let mut expect: BTreeMap<_, _> = (0..9).map(|bits| power(1 << bits, 1u64 << bits)).collect();
    expect.extend([power(512, 489)]);
    assert_eq!(counted.ranges, expect, "{}", counted.said);
    let counted = count(&["-e", "syscalls:sys_exit_write", "--by", "ret", "--filter", "ret <= 3"]);
    let once = |key: &str| (key.to_owned(), 1);
    assert_eq!(counted.counts, BTreeMap::from(["1", "2", "3"].map(once)), "{}", counted.said);
    // A text in the program's memory: when the call begins, the kernel has not brought it there, which is said.
    let counted = count(&[
        "-e",
        "syscalls:sys_enter_openat",
        "--by",
        "comm",
        "--filter",
        "filename ~ '/dev/n*'",
    ]);
    assert_eq!(counted.counts, BTreeMap::from([(String::new(), 0)]), "{}", counted.said);
    assert!(counted.said.contains("not counted: a value could not be read"), "{}", counted.said);
    // A text in the data of the tracepoint itself, and one whose place is in it.
    let comm = Path::new(program).file_name().expect("a name").to_string_lossy().into_owned();
    let exec = ["-e", "sched:sched_process_exec", "--by", "filename"];
    let counted = count(&exec);
    assert_eq!(counted.counts, BTreeMap::from([(program.to_owned(), 1)]), "{}", counted.said);
    let filter = format!("comm == '{}'", &comm[..comm.len().min(15)]);
    let counted = count(&["-e", "sched:sched_process_exit", "--by", "comm", "--filter", &filter]);
    assert_eq!(counted.counts.values().sum::<i64>(), 1, "{}", counted.said);
}

#[test]
fn traced_events_and_calls_are_filtered() {
    if !is_root("traced_events_and_calls_are_filtered") {
        return;
    }
    let (_folder, program) = build(&["gcc", "-g", "-O1"]);
    let program = &program[..];
    let all = requests(program);
    let trace = |arguments: &[&str]| {
        let output = pyrograph()
            .arg("trace")
            .args(arguments)
            .args(["--", program, "240"])
            .output()
            .expect("pyrograph runs");
        text(&output.stderr)
    };
    let call = format!("uprobe:{program}:handle length=request->length");
    let lines = trace(&["-e", &call, "--filter", "length > 250 && request->kind == GET"]);
    let lengths: Vec<i64> = lines
        .lines()
        .filter_map(|line| line.split_once("(length=")?.1.strip_suffix(')')?.parse().ok())
        .collect();
    let expect: Vec<i64> =
        all.iter().filter(|of| of.length > 250 && of.kind == "GET").map(|of| of.length).collect();
    assert!(!expect.is_empty());
    assert_eq!(lengths, expect, "{lines}");
    // Without values of its own, an event has none.
    let returns = format!("uretprobe:{program}:handle");
    let lines = trace(&["-e", &returns, "--filter", "$retval < -40000"]);
    let expect = all.iter().filter(|of| of.result < -40000).count();
    assert!(expect > 0);
    assert_eq!(lines.matches("uretprobe:").count(), expect, "{lines}");
    assert!(!lines.contains('?'), "{lines}");
    let count = |lines: &str, word: &str| lines.matches(word).count();
    let lines = trace(&["--filter", "fd == 3 && ret > 230"]);
    assert_eq!(count(&lines, " write(3</dev/null>, "), 10, "{lines}");
    assert_eq!(count(&lines, "openat("), 0, "{lines}");
    let lines = trace(&["-e", "openat", "--filter", "filename ~ '*/null'"]);
    assert_eq!((count(&lines, "openat("), count(&lines, "\"/dev/null\"")), (1, 1), "{lines}");
    let lines = trace(&["-e", "syscalls:sys_enter_write", "--filter", "count == 7"]);
    assert_eq!(count(&lines, "syscalls:sys_enter_write("), 1, "{lines}");
}

#[test]
fn values_that_an_event_has_not_are_refused_with_the_reason() {
    if !is_root("values_that_an_event_has_not_are_refused_with_the_reason") {
        return;
    }
    let (folder, program) = build(&["gcc", "-g", "-O1"]);
    let program = &program[..];
    let call = format!("uprobe:{program}:handle");
    for (arguments, why) in [
        (["-e", &call, "--by", "request->lenght"], "has no member 'lenght'; it has length, kind"),
        (["-e", &call, "--value", "request->host:string"], "it is a text"),
        (["-e", &call, "--filter", "request->length == 'x'"], "int is no text"),
        (["-e", &call, "--filter", "request->kind == POST"], "a name that it does not have"),
        (["-e", "sched:sched_switch", "--by", "prev_com"], "did you mean prev_comm"),
        (
            ["-e", "task-clock", "--by", "nosuch"],
            "values are read of functions, lines and tracepoints",
        ),
        (["-e", &call, "--filter", "request->length >"], "is expected at the end"),
        (["-e", &call, "--lhist", "request->length,0,10"], "VALUE,MIN,MAX,STEP is expected"),
        (
            ["-e", &format!("{call} request->length"), "--by", "cpu"],
            "what is wanted of the values?",
        ),
    ] {
        let counted = stat(folder.path(), &["true"], &arguments);
        assert!(counted.said.contains(why), "{arguments:?}: {}", counted.said);
    }
    for (arguments, why) in [
        (&["--by", "request->kind"][..], "levels are process, pool, thread, cpu, cgroup, cmdline"),
        (&["--value", "count"], "of values of the event that -e names"),
        (&["-e", "sched:sched_process_ex*", "--by", "pid"], "by the values of one event"),
        (&["-e", &call, "--by", "request->kind,request->flags"], "--by takes one value"),
        (&["-e", &call, "--by", "request->kind", "--engine", "perf"], "only the in-kernel engine"),
        (&["-e", &format!("{call} request->length")], "what is wanted of the values?"),
    ] {
        let output = pyrograph()
            .args(["record", "-o", "x.folded"])
            .args(arguments)
            .args(["--", "true"])
            .current_dir(folder.path())
            .output()
            .expect("pyrograph runs");
        let said = text(&output.stderr);
        assert!(said.contains(why) && !output.status.success(), "{arguments:?}: {said}");
    }
}
