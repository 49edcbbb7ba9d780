//! Reports of small profiles.

use pyrograph_analyze::{CallTreeOptions, ReportOptions, report};
use pyrograph_profile::{Frame, FrameKind, Profile, Sample, ValueType};

use super::*;

/// One stack a line; `f@lib:x.c:3` is a function in a module, at a line of a file.
fn profile(value_type: ValueType, text: &str) -> Profile {
    let mut profile = Profile::new(vec![value_type]);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (stack, value) = line.rsplit_once(' ').expect("a count");
        let frames: Vec<_> = stack
            .split(';')
            .map(|frame| {
                let mut parts = frame.split(['@', ':']);
                let mut text = || profile.strings.intern(parts.next().unwrap_or_default());
                let (function, module, file) = (text(), text(), text());
                let line = parts.next().map_or(0, |line| line.parse().expect("a line"));
                let frame = Frame { module, file, line, ..Frame::named(function, FrameKind::User) };
                profile.frames.intern(frame)
            })
            .collect();
        let stack = profile.stacks.intern_path(frames);
        profile.push(Sample::new(stack), &[value.parse().expect("a count")]);
    }
    profile
}

const STACKS: &str = "
    main@/bin/app;run@/bin/app;parse@/bin/app:p.c:7;read@/lib/libc.so.6 600
    main@/bin/app;run@/bin/app;parse@/bin/app:p.c:9 300
    main@/bin/app;run@/bin/app;emit@/bin/app 90
    main@/bin/app;exit@/lib/libc.so.6 6
    main@/bin/app;init@/bin/app 4";

fn text(profile: &Profile, options: &ReportOptions, width: Option<usize>) -> String {
    let mut out = Vec::new();
    report_text(
        &report(profile, options),
        ReportStyle { width, ..ReportStyle::default() },
        &mut out,
    )
    .expect("to memory");
    String::from_utf8(out).expect("UTF-8")
}

fn options() -> ReportOptions {
    let tree = CallTreeOptions { min_share: 0.01, ..CallTreeOptions::default() };
    ReportOptions { tree, ..ReportOptions::default() }
}

#[test]
fn functions_then_calls() {
    let profile = profile(ValueType::samples(), STACKS);
    let options = ReportOptions { functions: Some(3), lines: true, ..options() };
    let expect = "\
1,000 samples

  Self        Total       Module     Function
60.00%  600  60.00%  600  libc.so.6  read
30.00%  300  90.00%  900  app        parse
30.00%  300  30.00%  300               p.c:9
 0.00%    0  60.00%  600               p.c:7
 9.00%   90   9.00%   90  app        emit
and 4 functions more

Call tree: below each function what it calls, from 1% on

  Total           Self  Function
100.00%  1,000   0.00%  main
 99.00%    990   0.00%  ├ run
 90.00%    900  30.00%  │ ├ parse
 60.00%    600  60.00%  │ │ read
  9.00%     90   9.00%  │ └ emit
  1.00%     10          └ … 2 functions more
";
    assert_eq!(text(&profile, &options, None), expect);
}

#[test]
fn light_lines_are_counted() {
    let lines = "f@app:f.c:1 90\nf@app:f.c:2 6\nf@app:f.c:3 4\n";
    let mut options = ReportOptions { lines: true, ..options() };
    options.tree.min_share = 0.07;
    options.tree.depth = Some(0);
    let profile = profile(ValueType::samples(), lines);
    let expect = "\
100 samples

   Self         Total       Module  Function
100.00%  100  100.00%  100  app     f
 90.00%   90   90.00%   90            f.c:1
                                      … 2 lines more
";
    assert_eq!(text(&profile, &options, None), expect);
    let mut out = Vec::new();
    report_markdown(&report(&profile, &options), &mut out).expect("to memory");
    let markdown = String::from_utf8(out).expect("UTF-8");
    assert!(markdown.ends_with("| – `f.c:1` |  |\n| | | | | – 2 lines more |  |\n"), "{markdown}");
}

#[test]
fn callers_of_each_function_in_units_of_time() {
    let nanoseconds = ValueType::new("cpu-clock", "ns");
    let text_of = "main;run;read 1500000000\nmain;read 500000000\nidle 2000000000\n";
    let mut profile = profile(nanoseconds, text_of);
    profile.unfiltered = vec![8_000_000_000];
    let mut options = options();
    options.functions = Some(0);
    options.tree.direction = Direction::Callers;
    let expect = "\
4.00 s of cpu-clock: 50.00% of 8.00 s, of which all percentages are

Callers: below each function what calls it, from 1% on

 Total          Function
25.00%  2.00 s  idle
25.00%  2.00 s  read
18.75%  1.50 s    ├ run
18.75%  1.50 s    │ main
 6.25%  500 ms    └ main
";
    assert_eq!(text(&profile, &options, None), expect);
}

#[test]
fn long_names_are_cut_where_there_is_a_width() {
    let long = "alloc::vec::Vec<core::option::Option<T>>::with_capacity_in";
    let profile = profile(ValueType::samples(), &format!("main;{} 1", long.replace(':', ".")));
    let lines = text(&profile, &options(), Some(60));
    let name = "alloc..vec..Vec<co….with_capacity_in";
    assert!(lines.lines().skip(2).all(|line| line.chars().count() <= 60), "{lines}");
    assert!(lines.contains(name), "{lines}");
    let lines = text(&profile, &options(), Some(5));
    assert!(lines.contains("alloc..v…city_in"), "{lines}");
    assert!(!text(&profile, &options(), None).contains('…'));
}

#[test]
fn a_tree_that_branches_everywhere_stays_in_its_width() {
    let mut stacks = String::new();
    let mut path = "main".to_owned();
    for depth in 0..60 {
        stacks.push_str(&format!("{path};leaf 1\n"));
        path.push_str(&format!(";f{depth}"));
    }
    let profile = profile(ValueType::samples(), &stacks);
    let lines = text(&profile, &options(), Some(80));
    assert!(lines.lines().all(|line| line.chars().count() <= 80), "{lines}");
}

#[test]
fn names_cannot_command_a_terminal_or_break_a_table() {
    let evil = "a\u{1b}[31m|b`c\u{202e}";
    let profile = profile(ValueType::samples(), &format!("{evil} 1"));
    assert!(text(&profile, &options(), None).contains("a\u{fffd}[31m|b`c\u{fffd}"));
    let mut out = Vec::new();
    report_markdown(&report(&profile, &options()), &mut out).expect("to memory");
    let expect = "\
1 sample

| Self | | Total | | Function |
| ---: | ---: | ---: | ---: | --- |
| 100.00% | 1 | 100.00% | 1 | ``a\u{fffd}[31m\\|b`c\u{fffd}`` |

Call tree: below each function what it calls, from 1% on

```text
 100.00%  a\u{fffd}[31m|b`c\u{fffd}
```
";
    assert_eq!(String::from_utf8(out).expect("UTF-8"), expect);
}

#[test]
fn json_holds_all_of_it() {
    let tenths = ValueType { decimals: 1, ..ValueType::samples() };
    let profile = profile(tenths, "main@/bin/app;f@/bin/app:f.c:3 15\nmain@/bin/app 5\n");
    let options = ReportOptions { lines: true, ..options() };
    let mut out = Vec::new();
    report_json(&report(&profile, &options), &mut out).expect("to memory");
    let json: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
    let expect = serde_json::json!({
        "version": 1,
        "value_type": { "name": "samples", "unit": "count" },
        "total": 2.0,
        "whole": 2.0,
        "functions": [
            {
                "name": "f", "module": "/bin/app", "kind": "user", "self": 1.5, "total": 1.5,
                "lines": [{ "file": "f.c", "line": 3, "text": "", "self": 1.5, "total": 1.5 }],
                "more_lines": 0,
            },
            {
                "name": "main", "module": "/bin/app", "kind": "user", "self": 0.5, "total": 2.0,
                "lines": [], "more_lines": 0,
            },
        ],
        "more_functions": 0,
        "tree": {
            "direction": "callees",
            "min_percent": 1.0,
            "left_out": { "count": 0, "value": 0.0 },
            "nodes": [
                {
                    "depth": 0, "name": "main", "module": "/bin/app", "kind": "user",
                    "self": 0.5, "total": 2.0, "left_out": { "count": 0, "value": 0.0 },
                },
                {
                    "depth": 1, "name": "f", "module": "/bin/app", "kind": "user",
                    "self": 1.5, "total": 1.5, "left_out": { "count": 0, "value": 0.0 },
                },
            ],
        },
    });
    assert_eq!(json, expect);
}
