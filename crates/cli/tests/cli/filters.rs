//! The filters, through `pyrograph fold` and files as they come.

use std::fs;
use std::path::Path;

use assert_cmd::Command;

const SCRIPT: &str = "\
app 12/13 [000] 10.5: 250 cycles: \n\t 4a1 work+0x1 (/bin/app)\n\t 4b2 main (/bin/app)\n
app 12/14 [001] 11.5: 100 cycles: \n\t 4a1 idle+0x1 (/lib/libidle.so)\n\t 4b2 main (/bin/app)\n
job 20/20 [001] 12.5: 7 cycles: \n\t 4b2 main (/bin/job)\n
";

fn run(folder: &Path, arguments: &[&str], input: &str) -> (String, String, Option<i32>) {
    let output = Command::cargo_bin("pyrograph")
        .expect("the binary is built")
        .current_dir(folder)
        .args(arguments)
        .write_stdin(input)
        .output()
        .expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    // The line about the unit of counts is tested by `fold.rs`.
    let said = text(output.stderr);
    let said =
        said.split_inclusive('\n').filter(|line| !line.starts_with("pyrograph: counts are "));
    (text(output.stdout), said.collect(), output.status.code())
}

fn fold(arguments: &[&str], input: &str) -> (String, String, Option<i32>) {
    run(Path::new("."), &[&["fold"], arguments].concat(), input)
}

#[track_caller]
fn check(arguments: &[&str], expect: &str) {
    let (out, err, code) = fold(arguments, SCRIPT);
    assert_eq!((out.as_str(), err.as_str(), code), (expect, "", Some(0)), "{arguments:?}");
}

#[track_caller]
fn refused(arguments: &[&str], input: &str, expect: &str) {
    let (out, err, code) = fold(arguments, input);
    let expect = format!("pyrograph: failed to fold: {expect}\n");
    assert_eq!((out.as_str(), err.as_str(), code), ("", expect.as_str(), Some(1)), "{arguments:?}");
}

#[test]
fn by_function() {
    check(&["--focus", "work"], "app;main;work 250\n");
    check(&["--focus=^main$", "--ignore", "app"], "job;main 7\n");
    check(&["--focus", "module:libidle"], "app;main;idle 100\n");
    check(&["--hide", "main", "--hide", "job"], "[unknown] 7\napp;idle 100\napp;work 250\n");
    check(&["--from-frame", "^main$"], "main 7\nmain;idle 100\nmain;work 250\n");
    check(&["--skip-after", "work"], "app;main;idle 100\napp;work 250\njob;main 7\n");
    // A value may begin with a hyphen, as with the established scripts.
    refused(
        &["--focus", "-x"],
        SCRIPT,
        "the filters leave nothing: no stack has a frame like '-x'",
    );
}

#[test]
fn by_who_where_and_when() {
    check(&["--pid=12"], "app;main;idle 100\napp;main;work 250\n");
    check(&["--tid=13,20"], "app;main;work 250\njob;main 7\n");
    check(&["--comm", "job"], "job;main 7\n");
    check(&["--cpu", "1-3", "--comm=app"], "app;main;idle 100\n");
    check(&["--time", "1..2"], "app;main;idle 100\n");
    check(&["--time", "@11.5.."], "app;main;idle 100\njob;main 7\n");
    check(&["--pid", "--pid=20"], "job-20;main 7\n");
}

#[test]
fn the_bare_option_of_the_established_collapser_takes_no_value() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("12"), SCRIPT).expect("a file");
    let (out, err, _) = run(folder.path(), &["fold", "--pid", "12"], "");
    assert_eq!((out.lines().next(), err.as_str()), (Some("app-12;main;idle 100"), ""));
    // And where nothing is known of processes, it says nothing.
    assert_eq!(fold(&["--pid"], "a;b 1\n").0, "a;b 1\n");
}

#[test]
fn levels() {
    check(
        &["--by", "thread"],
        "app-12/13;main;work 250\napp-12/14;main;idle 100\njob-20/20;main 7\n",
    );
    let by_cpu = "CPU 0;app;main;work 250\nCPU 1;app;main;idle 100\nCPU 1;job;main 7\n";
    check(&["--by=cpu"], by_cpu);
    let both = "CPU 0;app-12;main;work 250\nCPU 1;app-12;main;idle 100\nCPU 1;job-20;main 7\n";
    check(&["--by=cpu,process"], both);
    check(&["--by=cpu", "--pid"], both);
}

#[test]
fn events_stand_side_by_side_as_samples() {
    let text = format!("{SCRIPT}app 12/13 [000] 10.6: 3 page-faults: \n\t 4b2 main (/bin/app)\n\n");
    let expect = "\
cycles;app;main;idle 1\ncycles;app;main;work 1\ncycles;job;main 1\npage-faults;app;main 1\n";
    assert_eq!(fold(&["--by", "event"], &text), (expect.to_owned(), String::new(), Some(0)));
    let chosen = fold(&["--by", "event", "--event-filter", "page-faults"], &text).0;
    assert_eq!(chosen, "page-faults;app;main 3\n");
}

#[test]
fn what_is_missing_and_what_left_nothing_is_said() {
    let folded = "a;b 1\n";
    let missing = "filter by time: the input does not record times";
    refused(&["--time", "0..1"], folded, missing);
    refused(&["--cpu", "0"], folded, "filter by cpu: the input does not record CPUs");
    refused(&["--pid=1"], folded, "filter by pid: the input does not record process numbers");
    refused(&["--by=host"], folded, "group by host: the input does not record hosts");
    refused(&["--time", "9.."], SCRIPT, "the filters leave nothing: no sample is of that time");
    refused(&["--pid=99"], SCRIPT, "the filters leave nothing: no sample is of process 99");
    assert_eq!(fold(&["--time", "1"], SCRIPT).2, Some(2));
    assert_eq!(fold(&["--focus", "["], SCRIPT).2, Some(2));
}

#[test]
fn profiles_of_several_machines() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    fs::write(path.join("a.folded"), "app;main 1\n").expect("a file");
    fs::write(path.join("b.folded"), "app;main 2\n").expect("a file");
    fs::create_dir(path.join("old")).expect("a folder");
    fs::write(path.join("old/a.folded"), "app;main 4\n").expect("a file");
    fs::write(path.join("x=y"), "app;main 8\n").expect("a file");
    let fold = |arguments: &[&str], input: &str| {
        let (out, err, code) = run(path, &[&["fold"], arguments].concat(), input);
        assert_eq!((err.as_str(), code), ("", Some(0)), "{arguments:?}");
        out
    };
    let labelled = ["one=a.folded", "two=b.folded"];
    assert_eq!(fold(&labelled, ""), "app;main 3\n");
    let by_host = [&labelled[..], &["--by", "host"]].concat();
    assert_eq!(fold(&by_host, ""), "one;app;main 1\ntwo;app;main 2\n");
    assert_eq!(fold(&["--merge", "a.folded", "b.folded"], ""), "a;app;main 1\nb;app;main 2\n");
    let alike = ["--merge", "a.folded", "old/a.folded", "in=-"];
    let expect = "a.folded;app;main 1\nin;c 5\nold/a.folded;app;main 4\n";
    assert_eq!(fold(&alike, "c 5\n"), expect);
    // A file of that very name is no label.
    assert_eq!(fold(&["--merge", "x=y"], ""), "x=y;app;main 8\n");
}

#[test]
fn folded_text_and_what_it_was_made_from_are_filtered_alike() {
    let (folded, ..) = fold(&[], SCRIPT);
    for filter in [
        ["--focus", "app"],
        ["--ignore", "^app$"],
        ["--hide", "app|main"],
        ["--from-frame", "app|main"],
        ["--fold-recursion", "--rescale"],
    ] {
        assert_eq!(fold(&filter, SCRIPT).0, fold(&filter, &folded).0, "{filter:?}");
    }
}

#[test]
fn sums_without_room_are_said_to_be_too_low() {
    let (out, err, code) = fold(&[], "a;b 18446744073709551615\na;c 5\n");
    assert_eq!((out.as_str(), code), ("a;b 18446744073709551615\na;c 5\n", Some(0)));
    let expect = "pyrograph: the values add up to more than 2^64: sums are too low, and so are \
                  percentages\n";
    assert_eq!(err, expect);
}
