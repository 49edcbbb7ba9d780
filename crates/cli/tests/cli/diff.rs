//! `pyrograph diff` as people and continuous integration call it.

use std::collections::BTreeMap;
use std::path::Path;

use assert_cmd::Command;

use crate::common::slice;

struct Done {
    out: String,
    err: String,
    code: Option<i32>,
}

fn diff(directory: &Path, arguments: &[&str]) -> Done {
    let output = Command::cargo_bin("pyrograph")
        .expect("the binary is built")
        .current_dir(directory)
        .arg("diff")
        .args(arguments)
        .output()
        .expect("the binary runs");
    let err = String::from_utf8(output.stderr).expect("UTF-8");
    // Nearly all inputs here are folded text; one test holds what is said of it.
    let lines = err.split_inclusive('\n').filter(|line| !line.contains("name no unit"));
    Done {
        out: String::from_utf8(output.stdout).expect("UTF-8"),
        err: lines.collect(),
        code: output.status.code(),
    }
}

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a directory for the test");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("it can be written");
    }
    folder
}

const BEFORE: &str = "main;parse 4000\nmain;render 5900\nmain;old 100\n";
const AFTER: &str = "main;parse 5500\nmain;render 5920\nmain;new 100\n";

fn two() -> tempfile::TempDir {
    folder(&[("a.folded", BEFORE), ("b.folded", AFTER)])
}

#[test]
fn a_table_says_what_changed_beyond_noise() {
    let folder = two();
    let done = diff(folder.path(), &["--absolute", "a.folded", "b.folded"]);
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""));
    let functions: Vec<&str> =
        done.out.lines().skip(5).filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(functions, ["all", "main", "parse", "new", "old"]);
    assert!(done.out.starts_with("before: a.folded, 10,000 samples\nafter: b.folded, 11,520"));
    assert!(!done.out.contains("render"), "20 samples of 5,900 are noise: {}", done.out);
    let same = diff(folder.path(), &["a.folded", "a.folded"]);
    assert!(same.out.contains("nothing changed beyond noise, of 3 functions"), "{}", same.out);
}

#[test]
fn two_columns_are_those_of_the_established_script() {
    let folder = folder(&[
        ("a", "main;a 10\nmain;b 0x1f 7\nmain;0x7f12ab;c+0xFF 3\nmain;gone 1\n"),
        ("b", "main;a 21\nmain;b 0x2f 14\nmain;0x7f99;c+0xAA 6\nnew 1.5\nmain;a 2\n"),
    ]);
    let of = |arguments: &[&str]| diff(folder.path(), arguments).out;
    // As difffolded.pl prints it for this input, but sorted.
    assert_eq!(
        of(&["--folded", "a", "b"]),
        "main;0x7f12ab;c+0xFF 3.0 0.0\nmain;0x7f99;c+0xAA 0.0 6.0\nmain;a 10.0 23.0\n\
         main;b 0x1f 7.0 0.0\nmain;b 0x2f 0.0 14.0\nmain;gone 1.0 0.0\nnew 0.0 1.5\n"
            .replace(".0", "")
    );
    assert_eq!(
        of(&["--folded", "-s", "a", "b"]),
        "main;0x...;c+0x... 3 6\nmain;a 10 23\nmain;b 0x... 7 14\nmain;gone 1 0\nnew 0 1.5\n"
    );
    // Times 44.5 / 21, cut to whole numbers.
    assert_eq!(
        of(&["-n", "--folded", "-s", "a", "b"]),
        "main;0x...;c+0x... 6 6\nmain;a 21 23\nmain;b 0x... 14 14\nmain;gone 2 0\nnew 0 1.5\n"
    );
    let written = diff(folder.path(), &["-ns", "a", "b", "-o", "c.folded"]);
    assert_eq!((written.code, written.out.as_str()), (Some(0), ""));
    let two = std::fs::read_to_string(folder.path().join("c.folded")).expect("it is written");
    assert!(two.contains("main;a 21 23\n"));
    // Its own output is an input.
    let again = diff(folder.path(), &["c.folded"]);
    assert!(again.out.starts_with("before: first count of c.folded, 43 samples"), "{}", again.out);
}

#[test]
fn continuous_integration_fails_over_a_regression_and_nothing_else() {
    let folder = two();
    let run = |more: &[&str]| diff(folder.path(), &[&["a.folded", "b.folded"], more].concat());
    let failed = run(&["--fail-over", "2%", "--absolute"]);
    assert_eq!(failed.code, Some(1));
    assert!(failed.out.contains("parse"), "{}", failed.out);
    assert!(!failed.out.contains("new"), "1 % is allowed: {}", failed.out);
    assert_eq!(run(&["--fail-over", "20%", "--absolute"]).code, Some(0));
    // By share: everything else has less of the whole.
    let shares = run(&["--fail-over", "5%"]);
    assert!(shares.code == Some(1) && shares.out.contains("+7.74 pp"), "{}", shares.out);
    let noise = diff(folder.path(), &["--fail-over", "0%", "a.folded", "a.folded"]);
    assert_eq!((noise.code, noise.err.as_str()), (Some(0), ""));

    for wrong in
        [&["--fail-over", "2%", "a.folded", "missing"][..], &["--fail-over", "x", "a", "b"]]
    {
        assert_eq!(diff(folder.path(), wrong).code, Some(2), "{wrong:?}");
    }
    assert_eq!(diff(folder.path(), &["a.folded", "missing"]).code, Some(1));

    // A benchmark that recorded nothing does not pass.
    std::fs::write(folder.path().join("none.folded"), "main;parse 0\n").expect("a file");
    for sides in [["none.folded", "a.folded"], ["a.folded", "none.folded"]] {
        let nothing = diff(folder.path(), &[&["--fail-over", "2%"][..], &sides].concat());
        assert_eq!(nothing.code, Some(2), "{}", nothing.err);
        assert!(nothing.err.contains("there are no samples"), "{}", nothing.err);
        assert_eq!(diff(folder.path(), &sides).code, Some(0));
    }
}

#[test]
fn tables_are_text_markdown_csv_or_json() {
    let folder = folder(&[
        ("a.folded", "main;x|y` 1000\nmain;z 1000\n"),
        ("b.folded", "main;x|y` 2000\nmain;z 1000\n"),
    ]);
    let run = |form: &str| diff(folder.path(), &[form, "--absolute", "a.folded", "b.folded"]).out;
    let markdown = run("--markdown");
    assert!(markdown.contains("\n|---:|---:|---:|---:|---:|---|\n"), "{markdown}");
    assert!(markdown.contains("| +1,000 | "), "{markdown}");
    assert!(markdown.contains("| `` x\\|y` `` |"), "{markdown}");
    let json: serde_json::Value = serde_json::from_str(&run("--json")).expect("JSON");
    assert_eq!(json["functions"][2]["function"], "x|y`");
    assert_eq!(json["functions"][2]["before"]["value"], 1000.0);
    assert_eq!(json["functions"][2]["is"], "more");
    assert_eq!(json["after"]["samples"], 3000.0);
    assert_eq!(json["regressed"], serde_json::Value::Null);
    let csv = run("--csv");
    let rows: Vec<Vec<&str>> =
        csv.lines().map(|line| line.trim_end().split(',').collect()).collect();
    assert_eq!(rows[0][..4], ["function", "module", "is", "before value"], "{csv}");
    assert_eq!(rows[3][..5], ["x|y`", "", "more", "1000", "2000"], "{csv}");
    let number = |at: usize| rows[3][at].parse::<f64>().expect("a number");
    assert!(number(8) > 0.0 && number(8) < 1000.0 && number(9) > 1000.0, "{csv}");
    // By the file's ending, and several at once.
    let outputs = ["-o", "t.md", "-o", "t.json", "-o", "t.csv", "-o", "t.txt", "-o", "t.svg"];
    let all = [&outputs[..], &["--absolute", "a.folded", "b.folded"]].concat();
    assert_eq!(diff(folder.path(), &all).out, "");
    let read = |name| std::fs::read_to_string(folder.path().join(name)).expect("it is written");
    assert_eq!(read("t.md"), markdown);
    assert_eq!(read("t.csv"), csv);
    assert!(read("t.svg").contains("+1,000, +16.67 points; 95% between +"));
}

#[test]
fn several_runs_a_side_are_compared_by_how_much_they_differ() {
    // `part` takes 30 % to 50 % in any run; `slow` twice as much after.
    let run =
        |part: u32, slow: u32| format!("main;part {part}\nmain;slow {slow}\nmain;rest 3000\n");
    let runs = [(3000, 1000), (5000, 1050), (4000, 960), (3600, 2000), (5200, 2040), (3100, 1930)];
    let files: Vec<(String, String)> = runs
        .iter()
        .enumerate()
        .map(|(n, (part, slow))| (format!("{n}.folded"), run(*part, *slow)))
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (&n[..], &t[..])).collect();
    let folder = folder(&files);
    let single = diff(folder.path(), &["--absolute", "0.folded", "3.folded"]).out;
    assert!(single.contains("part"), "one run does not know how much they differ: {single}");
    let before = ["--absolute", "--before", "0.folded", "1.folded", "2.folded"];
    let after = ["--after", "3.folded", "4.folded", "5.folded"];
    let several = diff(folder.path(), &[&before[..], &after[..]].concat());
    assert_eq!(several.code, Some(0), "{}", several.err);
    assert!(several.out.contains("before: 0.folded … 2.folded (3 runs)"), "{}", several.out);
    assert!(several.out.contains("  slow\n"), "{}", several.out);
    assert!(!several.out.contains("  part\n"), "{}", several.out);
}

/// Two samples of a clock of 10 ms.
const CLOCK: &str = "\
app 1 1.00: 10000000 cpu-clock: \n\t    401000 main+0x1 (/bin/app)\n
app 1 1.01: 10000000 cpu-clock: \n\t    401000 main+0x1 (/bin/app)\n
";

#[test]
fn shares_of_folded_text_are_compared_with_those_of_times() {
    let folder = folder(&[("clock", CLOCK), ("its-own.folded", "app;main 20000000\n")]);
    let done = diff(folder.path(), &["clock", "its-own.folded"]);
    let unlike = "before counts cpu-clock (ns), after values without a unit: shares are compared";
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains(unlike), "{}", done.err);
    assert!(done.out.contains(unlike), "{}", done.out);
    assert!(done.out.contains("nothing changed beyond noise"), "{}", done.out);
    let picture = diff(folder.path(), &["--svg", "clock", "its-own.folded"]).out;
    assert!(picture.contains(&format!("widths: after; {unlike}; ")), "{picture}");
    // Each side in its own unit, and no difference of the two.
    assert!(
        picture.contains(
            "<title>main\nafter 20,000,000, 100.00%\nbefore 20.0 ms, 100.00%\n+0.00 points"
        ),
        "{picture}"
    );
    let json = diff(folder.path(), &["--json", "clock", "its-own.folded"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["before"]["value"]["unit"], "ns");
    assert_eq!(json["after"]["value"]["unit"], "");
    let two = diff(folder.path(), &["--folded", "-n", "clock", "its-own.folded"]);
    assert_eq!((two.code, two.out.as_str()), (Some(0), "app;main 20000000 20000000\n"));
}

#[test]
fn what_cannot_be_compared_is_said() {
    let folder = folder(&[
        ("a", "main 1\n"),
        ("two", "main 1 2\n"),
        ("none", "# nothing\nmain 0\n"),
        ("clock", CLOCK),
        (
            "bytes.json",
            r#"{"$schema":"https://www.speedscope.app/file-format-schema.json",
            "shared":{"frames":[{"name":"main"}]},"profiles":[{"type":"sampled","name":"heap",
            "unit":"bytes","startValue":0,"endValue":64,"samples":[[0]],"weights":[64]}]}"#,
        ),
    ]);
    let run = |arguments: &[&str]| diff(folder.path(), arguments);
    for (arguments, expect) in [
        (&["a"][..], "a is one profile: name another to compare it with: pyrograph diff BEFORE a"),
        (&["a", "two"], "two has two counts a stack: it is a comparison already"),
        (
            &["--absolute", "a", "clock"],
            "one counts values without a unit, another cpu-clock (ns): of these only shares can be compared; \
             with no --absolute they are",
        ),
        (&["--folded", "clock", "a"], "with --normalize they are"),
        (&["clock", "bytes.json"], "only what counts the same can be compared; --value or"),
        (
            &["--before", "a", "clock", "--after", "a"],
            "of the runs on one side one counts values without a unit, another cpu-clock (ns)",
        ),
        (&["none", "none"], "the values of both sides add up to 0"),
    ] {
        let done = run(arguments);
        assert_eq!(done.code, Some(1), "{arguments:?}");
        assert!(done.err.contains(expect), "{arguments:?}: {}", done.err);
    }
    assert_eq!(run(&[]).code, Some(2));
    for (arguments, expect) in [
        (&["-n", "a", "a"][..], "--normalize is for folded output"),
        (&["a", "a", "-o", "x.doc"], "unknown format"),
    ] {
        let done = run(arguments);
        assert!(done.code == Some(2) && done.err.contains(expect), "{arguments:?}: {}", done.err);
    }
    assert_eq!(run(&["--before", "a"]).code, Some(2));
    assert_eq!(run(&["a", "a", "--confidence", "100"]).code, Some(2));
    let picture = run(&["none", "none", "--svg"]);
    assert!(picture.out.contains("there is nothing to compare"), "{}", picture.out);
    let one_side = run(&["none", "a", "--svg"]);
    assert_eq!(one_side.code, Some(0));
    assert!(one_side.err.contains("there are no samples before"), "{}", one_side.err);
    assert!(one_side.out.contains("<title>main\nafter 1, 100.00%\nbefore 0, 0.00%"));
}

#[test]
fn the_same_input_gives_the_same_picture() {
    let folder = two();
    let options = ["--svg", "--colors", "orange-blue", "--change", "self", "--inverted"];
    let picture = || diff(folder.path(), &[&options[..], &["a.folded", "b.folded"]].concat()).out;
    let first = picture();
    assert_eq!(first, picture());
    for part in [
        "<title>new\nafter 100, 0.87%\nbefore 0, 0.00%\nself after 100, 0.87%",
        "new, beyond noise</title>",
        "gone, beyond noise</title>",
        "less, beyond noise</title>",
        "more, beyond noise</title>",
        "data-other=\"M",
        "data-view=\"after\"",
        ">same or noise</text>",
        "before: a.folded, after: b.folded",
    ] {
        assert!(first.contains(part), "{part} in {first}");
    }
    let embedded = diff(folder.path(), &["--svg", "--embed", "a.folded", "b.folded"]).out;
    assert!(!embedded.contains("<script") && embedded.starts_with("<svg"));
    let before = diff(folder.path(), &["--svg", "--view", "before", "a.folded", "b.folded"]).out;
    assert!(before.contains("widths: before; "));
}

#[test]
fn bytes_were_compared_with_nanoseconds_where_folded_text_had_lost_its_unit() {
    let folder = two();
    let output = Command::cargo_bin("pyrograph")
        .expect("the binary is built")
        .current_dir(folder.path())
        .args(["diff", "a.folded", "b.folded"])
        .output()
        .expect("the binary runs");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "pyrograph: the values name no unit and are taken for samples; --unit ns, bytes, samples … says it\n"
    );
    let run = |unit: &str| diff(folder.path(), &["--unit", unit, "a.folded", "b.folded"]);
    assert_eq!(run("samples").err, "");
    std::fs::write(folder.path().join("clock"), CLOCK).expect("a file");
    let bytes = r#"{"$schema":"https://www.speedscope.app/file-format-schema.json",
        "shared":{"frames":[{"name":"main"}]},"profiles":[{"type":"sampled","name":"heap",
        "unit":"bytes","startValue":0,"endValue":64,"samples":[[0]],"weights":[64]}]}"#;
    std::fs::write(folder.path().join("bytes.json"), bytes).expect("a file");
    for sides in [["clock", "bytes.json"], ["bytes.json", "clock"]] {
        let refused = diff(folder.path(), &sides);
        assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""));
        assert!(
            refused.err.contains("only what counts the same can be compared"),
            "{}",
            refused.err
        );
        assert_eq!(refused.err.lines().count(), 1);
    }
}

/// See `differences/README.md`.
#[test]
fn two_columns_of_recordings_are_those_that_the_established_script_printed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differences");
    for option in ["", "-n", "-s", "-ns"] {
        let expected = std::fs::read_to_string(folder.join(format!("two{option}.folded")));
        let arguments = ["--folded", "before.folded", "after.folded", option];
        let done = diff(&folder, if option.is_empty() { &arguments[..3] } else { &arguments });
        assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{option}");
        assert_eq!(done.out, expected.expect("what the script printed"), "{option}");
    }
}

/// The result of `difffolded.pl` (which printed the same for these files when this was written):
/// sums of both files, with `-n` the first times the ratio of the totals, cut to whole numbers.
fn established(before: &str, after: &str, normalized: bool) -> String {
    let mut sums: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    let mut totals = [0; 2];
    for (side, text) in [before, after].into_iter().enumerate() {
        for line in text.lines() {
            let (stack, count) = line.rsplit_once(' ').expect("a count");
            let count: u64 = count.parse().expect("a whole number");
            sums.entry(stack).or_default()[side] += count;
            totals[side] += count;
        }
    }
    let mut lines: Vec<String> = Vec::new();
    for (stack, [mut before, after]) in sums {
        if normalized && totals[0] != totals[1] {
            before = (before as f64 * totals[1] as f64 / totals[0] as f64) as u64;
        }
        // The script also prints what is cut to nothing.
        if (before, after) != (0, 0) {
            lines.push(format!("{stack} {before} {after}\n"));
        }
    }
    lines.sort_unstable();
    lines.concat()
}

/// The files are not part of this repository: they are looked for beside it.
#[test]
fn two_columns_of_the_shared_fixtures_are_those_of_the_established_script() {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/flamegraph/results");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: there is no {}", folder.display());
        return;
    };
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string());
    let mut names: Vec<String> = names.map(|name| name.expect("UTF-8")).collect();
    // The stacks of vertx have frames that are a blank, which nothing else takes for a name.
    names.retain(|name| name.ends_with("-collapsed-all.txt") && !name.contains("vertx"));
    names.sort_unstable();
    assert!(names.len() > 10, "{names:?}");
    for pair in names.windows(2) {
        let texts = pair.iter().map(|name| std::fs::read_to_string(folder.join(name)));
        let texts: Vec<String> = texts.map(|text| text.expect("a result")).collect();
        for option in [&[][..], &["-n"]] {
            let flags = ["--no-demangle", "--folded", &pair[0], &pair[1]];
            let done = diff(&folder, &[&flags[..], option].concat());
            assert_eq!(done.code, Some(0), "{}", done.err);
            let expected = established(&texts[0], &texts[1], !option.is_empty());
            assert!(done.out == expected, "{option:?} {pair:?}");
        }
    }
}

#[test]
fn where_nothing_changed_the_largest_changes_are_shown_with_the_samples_they_would_take() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("a file");
    };
    write("a.folded", "main;f 500\nmain;g 300\nmain;h 200\n");
    write("b.folded", "main;f 510\nmain;g 295\nmain;h 195\n");
    let unit = ["--unit", "samples"];
    let done = diff(folder.path(), &[&unit[..], &["a.folded", "b.folded"]].concat());
    assert!(done.out.contains("nothing changed beyond noise"), "{}", done.out);
    let line = done.out.lines().find(|line| line.starts_with("the largest, within noise: "));
    let line = line.expect("a line of the largest");
    assert!(
        line.contains(" f (takes some ") && line.contains(" g (") && line.contains(" h ("),
        "{line}"
    );
    // As many samples as it says, in the same shares, show the change.
    let needed =
        line.split("takes some ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a number");
    let times = needed.replace(',', "").parse::<u64>().expect("a number") / 1000 * 2;
    let scaled = |counts: [u64; 3]| {
        let [f, g, h] = counts.map(|count| count * times);
        format!("main;f {f}\nmain;g {g}\nmain;h {h}\n")
    };
    write("a.folded", &scaled([500, 300, 200]));
    write("b.folded", &scaled([510, 295, 195]));
    let shown = diff(folder.path(), &[&unit[..], &["a.folded", "b.folded"]].concat());
    assert!(shown.out.contains("changed beyond noise"), "{}", shown.out);
    assert!(!shown.out.contains("nothing changed"), "{}", shown.out);
}

#[test]
fn two_commands_of_different_names_compare() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    };
    let before = write("before.folded", "old;_start;main;a 500\nold;_start;main;b 500\n");
    let after = write("after.folded", "new;_start;main;a 900\nnew;_start;main;b 100\n");
    let run = |flags: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pyrograph"));
        command.args(["diff", "--unit", "samples"]).args(flags).args([&before, &after]);
        let output = command.output().expect("pyrograph runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    };
    let said = "compared as one: old before and new after; --keep-names compares them apart";
    let (table, errors) = run(&[]);
    assert!(table.contains("2 of 2 functions changed"), "{table}");
    assert!(errors.contains(said), "{errors}");
    let (table, errors) = run(&["--keep-names"]);
    for name in ["a", "b", "new", "old"] {
        assert!(table.lines().any(|line| line.ends_with(&format!("  {name}"))), "{table}");
    }
    assert!(!errors.contains("compared as one"), "{errors}");
    // As the established script writes it.
    let (folded, errors) = run(&["--folded"]);
    assert!(folded.starts_with("new;_start;main;a 0 900\n"), "{folded}");
    assert!(!errors.contains("compared as one"), "{errors}");
}

#[test]
fn comparing_folded_text_took_16_bytes_a_line_whatever_it_said() {
    let text = "main;a 1\nmain;b 2\n".repeat(500_000);
    let folder = folder(&[("a.folded", &text), ("b.folded", &text)]);
    for &form in slice(&["--absolute", "--folded"], 1) {
        // 16 MB a side as it was.
        let done = diff(folder.path(), &["--max-memory", "16M", form, "a.folded", "b.folded"]);
        assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{form}");
        let shown = if form == "--folded" { "main;b 1000000 1000000\n" } else { "nothing changed" };
        assert!(done.out.contains(shown), "{form}: {}", done.out);
    }
}

#[test]
fn options_that_change_names_or_choose_stacks_hold_for_folded_output() {
    let folder = folder(&[("a", "main;a 1\n"), ("b", "main;a 2\nmain;b 3\n")]);
    for (more, expect) in [
        (&[][..], "main;a 1 2\nmain;b 0 3\n"),
        (&["-n"], "main;a 5 2\nmain;b 0 3\n"),
        (&["--ignore", "b"], "main;a 1 2\n"),
        (&["--hide", "a$"], "main 1 2\nmain;b 0 3\n"),
        (&["--merge"], "a;main;a 1 0\nb;main;a 0 2\nb;main;b 0 3\n"),
    ] {
        let done = diff(folder.path(), &[&["--folded", "a", "b"], more].concat());
        assert_eq!((done.code, done.out.as_str()), (Some(0), expect), "{more:?}: {}", done.err);
    }
}
