//! Values of calls, static probes and lines, beyond variables: how long calls take, arguments that need no debug information, and
//! a pointer that is followed over time.

use std::collections::BTreeMap;
use std::process::Command;

use crate::common::perf::{perf_script, run_perf, with_perf_as_root};
use crate::common::{compile, is_root, pyrograph, text};
use crate::values::{by_root, stat};

#[test]
fn calls_take_as_long_as_they_sleep() {
    if !is_root("calls_take_as_long_as_they_sleep") {
        return;
    }
    const MS: i64 = 1_000_000;
    for compiler in [
        &["gcc", "-g", "-O0"][..],
        &["gcc", "-g", "-O2", "-fno-optimize-sibling-calls"],
        &["gcc", "-O1", "-s"],
    ] {
        let has_variables = compiler.contains(&"-g");
        let folder = tempfile::tempdir().expect("a folder");
        let compiler = match has_variables {
            true => compiler.to_vec(),
            // Symbols for the dynamic linker stay.
            false => [compiler, &["-rdynamic"]].concat(),
        };
        let program = compile(&compiler, "calls_take.c", folder.path());
        let program = program.to_str().expect("a plain path").to_owned();
        // The numbers of calls whose range begins at least there, by key.
        let measure = |function: &str, more: &[&str]| {
            let event = format!("uprobe:{program}:{function}");
            let arguments = [&["-e", &event, "--latency"], more].concat();
            let counted = stat(folder.path(), &[&program], &arguments);
            assert!(!counted.ranges.is_empty(), "{compiler:?}: {}", counted.said);
            move |key: &str, from: i64| -> u64 {
                let of = |((of, first), count): (&(String, Option<i64>), &u64)| {
                    (of == key && first.is_some_and(|first| first >= from)).then_some(*count)
                };
                counted.ranges.iter().filter_map(of).sum()
            }
        };
        let by = if has_variables { "route:string" } else { "arg2:string" };
        let found = measure("nap", &["--by", by]);
        // Of powers of two: 1 ms is in the range from 524,288 on, or by its overhead in the next.
        assert_eq!((found("fast", MS / 2), found("fast", 0)), (10, 10), "{compiler:?}");
        assert_eq!((found("slow", 8 * MS), found("slow", 0)), (10, 10), "{compiler:?}");
        // A machine that is busy lets some sleep for longer.
        assert!(found("fast", 8 * MS) < 8, "{compiler:?}");
        // Each call of a recursion is one of its own: 8, 6, 4 and 2 ms at least, and one that does not sleep.
        let found = measure("nest", &[]);
        assert_eq!(found("", 0), 5, "{compiler:?}");
        assert!(found("", MS) == 4 && found("", 4 * MS) >= 2, "{compiler:?}");
        let long = if has_variables { "microseconds > 5000" } else { "arg1 > 5000" };
        assert_eq!(measure("nap", &["--filter", long])("", 0), 10, "{compiler:?}");
        let returns = format!("uretprobe:{program}:nest");
        let returned = ["-e", &returns, "--lhist", "$retval,0,5,1"];
        let counted = stat(folder.path(), &[&program], &returned);
        let once = |value: i64| ((String::new(), Some(value)), 1);
        assert_eq!(counted.ranges, (0..5).map(once).collect(), "{compiler:?}: {}", counted.said);
        let event = format!("uprobe:{program}:nap:7");
        let refused = stat(folder.path(), &[&program], &["-e", &event, "--latency"]);
        assert!(refused.said.contains("only calls of functions return"), "{}", refused.said);
    }
}

/// Durations of requests that change threads, matched by a number or a text.
#[test]
fn times_between_two_events_are_found_by_a_key() {
    if !is_root("times_between_two_events_are_found_by_a_key") {
        return;
    }
    const MS: i64 = 1_000_000;
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&["gcc", "-g", "-O1", "-pthread"], "handed_over.c", folder.path());
    let program = program.to_str().expect("a plain path").to_owned();
    let place = |function: &str| format!("uprobe:{program}:{function}");
    for (begin, end) in
        [("key=request->id", "key=number"), ("key=request->name:string", "key=called:string")]
    {
        let (begin, end) =
            (format!("{} {begin}", place("begins")), format!("{} {end}", place("ends")));
        let measure = |more: &[&str]| {
            let arguments =
                [&["-e", &begin, "-e", &end, "--latency", "--key", "key"], more].concat();
            let counted = stat(folder.path(), &[&program], &arguments);
            assert!(!counted.ranges.is_empty(), "{}", counted.said);
            move |key: &str, from: i64| -> u64 {
                let of = |((of, first), count): (&(String, Option<i64>), &u64)| {
                    (of == key && first.is_some_and(|first| first >= from)).then_some(*count)
                };
                counted.ranges.iter().filter_map(of).sum()
            }
        };
        let found = measure(&["--by", "request->kind:string"]);
        assert_eq!((found("fast", MS / 2), found("fast", 0)), (10, 10), "{begin}");
        assert_eq!((found("slow", 8 * MS), found("slow", 0)), (10, 10), "{begin}");
        // A machine that is busy lets some sleep for longer.
        assert!(found("fast", 8 * MS) < 8, "{begin}");
        let found = measure(&["--filter", "request->microseconds > 5000"]);
        assert_eq!((found("", 8 * MS), found("", 0)), (10, 10), "{begin}");
    }
    // Tracepoints: from the start of a process to its end.
    let events =
        ["-e", "sched:sched_process_fork key=child_pid", "-e", "sched:sched_process_exit key=pid"];
    let arguments = [&events[..], &["--latency", "--key", "key"]].concat();
    let counted = stat(folder.path(), &["sh", "-c", "sleep 0.1; sleep 0.1; true"], &arguments);
    let long = |((_, first), count): (&(String, Option<i64>), &u64)| {
        first.is_some_and(|first| first >= 60 * MS).then_some(*count)
    };
    assert_eq!(counted.ranges.iter().filter_map(long).sum::<u64>(), 2, "{}", counted.said);
    let refused =
        stat(folder.path(), &["true"], &["-e", &place("ends"), "--latency", "--key", "number"]);
    assert!(refused.said.contains("there are 1 in -e"), "{}", refused.said);
}

#[test]
fn arguments_of_static_probes_are_what_the_program_hands_over() {
    if !is_root("arguments_of_static_probes_are_what_the_program_hands_over") {
        return;
    }
    for compiler in [&["gcc", "-O0"][..], &["gcc", "-O2"], &["clang", "-O2"]] {
        let folder = tempfile::tempdir().expect("a folder");
        let program = compile(compiler, "probe_arguments.c", folder.path());
        let program = program.to_str().expect("a plain path").to_owned();
        let probe = format!("usdt:{program}:test:handled");
        // What the program says: number, length, text, sum.
        let output = Command::new(&program).arg("30").output().expect("it runs");
        let own = text(&output.stdout);
        let handed: Vec<Vec<String>> = own
            .lines()
            .map(|line| {
                let (number, rest) = line.split_once(' ').expect("a length");
                let (length, rest) = rest.split_once(' ').expect("a text");
                let (text, sum) = rest.rsplit_once(' ').expect("a sum");
                [number, length, text, sum].map(str::to_owned).to_vec()
            })
            .collect();
        assert_eq!(handed.len(), 34);
        let trace = |event: &str, more: &[&str]| {
            let output = pyrograph()
                .args(["trace", "-e", event])
                .args(more)
                .args(["--", &program, "30"])
                .output()
                .expect("pyrograph runs");
            text(&output.stderr)
        };
        let named = format!("{probe} number=arg1 length=arg2 text=arg3:string arg4");
        let lines = trace(&named, &[]);
        let expect: Vec<String> = handed
            .iter()
            .map(|of| {
                let (number, length, text, sum) = (&of[0], &of[1], &of[2], &of[3]);
                format!("(number={number} length={length} text=\"{text}\" arg4={sum})")
            })
            .collect();
        let found: Vec<&str> = lines
            .lines()
            .filter_map(|line| line.split_once("test:handled").map(|(_, values)| values))
            .collect();
        assert_eq!(found, expect, "{compiler:?}: {lines}");
        // Without a choice all are shown; a condition chooses events.
        let lines = trace(&probe, &["--filter", "arg1 >= 28"]);
        let shown: Vec<_> = lines.lines().filter(|line| line.contains("(arg1=")).collect();
        assert!(shown.len() == 2 && shown[0].contains("(arg1=28 arg2=9 arg3="), "{lines}");
        let count = ["-e", &probe[..], "--by", "arg3:string", "--value", "arg2"];
        let counted = stat(folder.path(), &[&program, "30"], &count);
        let mut expect = BTreeMap::new();
        for of in &handed {
            *expect.entry(of[2].clone()).or_insert(0) += of[1].parse::<i64>().expect("a number");
        }
        assert_eq!(counted.counts, expect, "{}", counted.said);
        let refused = stat(folder.path(), &[&program], &["-e", &probe, "--by", "arg5"]);
        let why = "test:handled has no field 'arg5'; it has arg1, arg2, arg3, arg4";
        assert!(refused.said.contains(why), "{}", refused.said);
    }
}

/// The chase of the perf tutorial's chapter on `perf probe`: which addresses does a line touch, in which order?
#[test]
fn a_line_and_its_pointer_are_followed_through_an_array() {
    if !is_root("a_line_and_its_pointer_are_followed_through_an_array") {
        return;
    }
    const ROUNDS: u64 = 12;
    const ARRAY: u64 = 4 << 20;
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&["gcc", "-g", "-O1"], "stride.c", folder.path());
    let program = program.to_str().expect("a plain path").to_owned();
    let run = |arguments: &[&str]| {
        let output =
            pyrograph().args(arguments).current_dir(folder.path()).output().expect("it runs");
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    // The line is found in the listing, and its variables.
    let place = format!("uprobe:{program}:walk");
    let listing = run(&["list", &place]);
    let line = listing.lines().find(|line| line.contains("sum += *p")).expect("the line");
    let line = line.split_whitespace().next().expect("its number");
    let place = format!("{place}:{line}");
    assert!(run(&["list", &place]).contains("p     unsigned char *"));
    let steps: Vec<u64> = (0..ROUNDS).map(|round| 4096 << (round % 3)).collect();
    let expect: u64 = steps.iter().map(|step| ARRAY / step).sum();
    let by_step = |step: u64| steps.iter().filter(|of| **of == step).count() as u64 * ARRAY / step;
    let rounds = ROUNDS.to_string();
    let counted = stat(folder.path(), &[&program, &rounds], &["-e", &place]);
    assert_eq!(counted.counts.values().sum::<i64>() as u64, expect, "{}", counted.said);
    // Each value in order: within a round, pointers are a step apart.
    let traced = format!("{place} p step");
    run(&["trace", "-e", &traced, "-o", "trace.txt", "--", &program, &rounds]);
    let lines = std::fs::read_to_string(folder.path().join("trace.txt")).expect("the trace");
    let values: Vec<(u64, u64)> = lines
        .lines()
        .filter_map(|line| {
            let (pointer, step) =
                line.split_once("(p=0x")?.1.strip_suffix(')')?.split_once(" step=")?;
            Some((u64::from_str_radix(pointer, 16).ok()?, step.parse().ok()?))
        })
        .collect();
    assert_eq!(values.len() as u64, expect, "{lines}");
    let turns = values.windows(2).filter(|pair| pair[1].0 != pair[0].0 + pair[0].1).count();
    assert_eq!(turns as u64, ROUNDS - 1);
    // Stacks by a value, and all of it over time.
    run(&["record", "-u", "-o", "x.folded", "-e", &place, "--by", "step", "--", &program, &rounds]);
    let folded = std::fs::read_to_string(folder.path().join("x.folded")).expect("folded text");
    let sums = by_root(&folded, "step");
    let of = |step: u64| (step.to_string(), by_step(step).cast_signed());
    assert_eq!(sums, BTreeMap::from([of(4096), of(8192), of(16384)]), "{folded}");
    let picture = run(&["heatmap", "--field", "p", "trace.txt"]);
    let (_, rows) = picture.split_once("data-edges=\"").expect("the edges of rows");
    let edge = |text: Option<&str>| text.expect("an edge").parse::<f64>().expect("a number");
    let rows = rows.split('"').next().expect("its end");
    let (low, high) = (edge(rows.split(' ').next()), edge(rows.rsplit(' ').next()));
    assert!((high - low - ARRAY as f64).abs() < 0.1 * ARRAY as f64, "{low} to {high}");
    assert!(picture.contains(&format!("n = {}", grouped(expect))), "{picture}");
}

/// What perf has recorded is told apart by a field, by its data and by its text.
#[test]
fn recordings_of_perf_are_told_apart_by_a_field() {
    with_perf_as_root("recordings_of_perf_are_told_apart_by_a_field", |folder| {
        let (data, script) = (folder.join("x.data"), "dd if=/dev/zero of=/dev/null status=none");
        let script = format!("{script} bs=700 count=50; {script} bs=300 count=20");
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-g", "-e", "syscalls:sys_enter_write", "-o"]).arg(&data);
        run_perf(perf.args(["--", "sh", "-c", &script]));
        let fold = |input: &std::path::Path| {
            let output = pyrograph().args(["fold", "--by", "count"]).arg(input).output();
            let output = output.expect("pyrograph runs");
            assert!(output.status.success(), "{}", text(&output.stderr));
            let mut sums = BTreeMap::new();
            for line in text(&output.stdout).lines() {
                let (stack, count) = line.rsplit_once(' ').expect("a count");
                let root = stack.split(';').next().expect("a root").to_owned();
                *sums.entry(root).or_insert(0) += count.parse::<u64>().expect("a number");
            }
            sums
        };
        let roots = |roots: [(&str, u64); 2]| roots.map(|(root, sum)| (root.to_owned(), sum));
        assert_eq!(fold(&data), roots([("count=300", 20), ("count=700", 50)]).into());
        // Its text has numbers as they are printed.
        let printed = roots([("count=0x0000012c", 20), ("count=0x000002bc", 50)]);
        assert_eq!(fold(&perf_script(&data, &[])), printed.into());
    });
}

fn grouped(number: u64) -> String {
    let (thousands, rest) = (number / 1000, number % 1000);
    if thousands == 0 { rest.to_string() } else { format!("{thousands},{rest:03}") }
}
