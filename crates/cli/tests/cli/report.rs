//! `pyrograph report`, as people use it.

use assert_cmd::Command;

/// The total of folded text.
const IN_ALL: &str = "in all (the input names no unit)";
const FOLDED: &str = "app;main;parse;read 6\napp;main;parse 3\napp;main;emit 1\n";

fn report(arguments: &[&str], input: &str) -> (String, String, Option<i32>) {
    let output = Command::cargo_bin("pyrograph")
        .expect("the binary is built")
        .arg("report")
        .args(arguments)
        .write_stdin(input)
        .output()
        .expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (text(output.stdout), text(output.stderr), output.status.code())
}

#[track_caller]
fn check(arguments: &[&str], input: &str, expect: &str) {
    let (out, err, code) = report(arguments, input);
    assert_eq!((out.as_str(), err.as_str(), code), (expect, "", Some(0)), "{arguments:?}");
}

#[test]
fn functions_and_the_call_tree() {
    let expect = "

  Self       Total      Function
60.00%  6   60.00%   6  read
30.00%  3   90.00%   9  parse
10.00%  1   10.00%   1  emit
 0.00%  0  100.00%  10  app
 0.00%  0  100.00%  10  main

Call tree: below each function what it calls, from 0.5% on

  Total        Self  Function
100.00%  10   0.00%  app
100.00%  10   0.00%  main
 90.00%   9  30.00%  ├ parse
 60.00%   6  60.00%  │ read
 10.00%   1  10.00%  └ emit
";
    let expect = &format!("10 {IN_ALL}{expect}");
    check(&[], FOLDED, expect);
    check(&["-"], FOLDED, expect);
    check(&["--callees"], FOLDED, expect);
    assert_eq!(report(&["--callers", "--callees"], FOLDED).2, Some(2));
}

#[test]
fn filters_leave_percentages_of_the_whole() {
    let expect = "
 Total     Function
60.00%  6  read
60.00%  6  parse
60.00%  6  main
60.00%  6  app
";
    let (out, err, code) = report(&["--callers", "--top", "1", "--focus", "read"], FOLDED);
    assert_eq!((err.as_str(), code), ("", Some(0)));
    let all = format!("6 {IN_ALL}: 60.00% of 10, of which all percentages are\n");
    assert!(out.starts_with(&all), "{out}");
    assert!(out.ends_with(expect), "{out}");
    let (out, ..) = report(&["--rescale", "--focus", "read"], FOLDED);
    assert!(
        out.starts_with(&format!("6 {IN_ALL}\n")) && out.contains("100.00%  6  100.00%  6  read\n"),
        "{out}"
    );
}

#[test]
fn nanoseconds_in_folded_text_were_called_samples() {
    let of = |arguments: &[&str]| {
        let (out, err, code) = report(arguments, "a;b 907723145\n");
        assert_eq!((err.as_str(), code), ("", Some(0)), "{arguments:?}");
        out.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(of(&[]), format!("907,723,145 {IN_ALL}"));
    assert_eq!(of(&["--unit", "ns"]), "908 ms of time");
    assert_eq!(of(&["--unit", "bytes"]), "866 MiB of size");
    assert_eq!(of(&["--unit", "samples"]), "907,723,145 samples");
    assert_eq!(of(&["--unit=cycles"]), "907,723,145 cycles");
}

#[test]
fn choices() {
    let expect = "\
| Self | | Total | | Function |
| ---: | ---: | ---: | ---: | --- |
| 0.00% | 0 | 100.00% | 10 | `app` |

and 4 functions more
";
    let arguments = ["--markdown", "--sort", "total", "--top=1", "--depth", "0"];
    check(&arguments, FOLDED, &format!("10 {IN_ALL}\n\n{expect}"));
    let (out, ..) = report(&["--json", "--min", "50%", "--depth=3"], FOLDED);
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(json["total"], 10);
    let nodes: Vec<_> = json["tree"]["nodes"].as_array().expect("nodes").iter().collect();
    assert_eq!(
        nodes.iter().map(|node| &node["name"]).collect::<Vec<_>>(),
        ["app", "main", "parse"]
    );
    assert_eq!(nodes[2]["left_out"], serde_json::json!({ "count": 1, "value": 6 }));
    assert_eq!(report(&["--min", "101"], FOLDED).2, Some(2));
}

#[test]
fn the_ending_of_a_file_chooses_the_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let (markdown, text) = (format!("10 {IN_ALL}\n\n|"), format!("10 {IN_ALL}\n\n "));
    let heads = "function,module,kind,self";
    for (name, beginning) in
        [("a.json", "{"), ("a.md", &markdown[..]), ("a.txt", &text), ("a.csv", heads)]
    {
        let path = folder.path().join(name);
        let done = report(&["-o", &path.display().to_string()], FOLDED);
        let wrote = format!("pyrograph: wrote {}\n", path.display());
        assert_eq!(done, (String::new(), wrote, Some(0)));
        let text = std::fs::read_to_string(path).expect("a file");
        assert!(text.starts_with(beginning), "{text}");
    }
}

#[test]
fn source_lines_as_far_as_they_are_known() {
    let text = "app 1 1.5: 2 cycles: \n\t 4a1 work+0x1 (/bin/app)\n  app.c:7\n\t 4b2 main (/bin/app)\n  \
                app.c:30\n\n\
                app 1 1.6: 3 cycles: \n\t 4a8 work+0x8 (/bin/app)\n  app.c:9\n\t 4b2 main (/bin/app)\n  \
                app.c:30\n\n";
    let expect = "\
5 cycles

   Self       Total     Module  Function
100.00%  5  100.00%  5  app     work
 60.00%  3   60.00%  3            app.c:9
 40.00%  2   40.00%  2            app.c:7
  0.00%  0  100.00%  5  app     main
  0.00%  0  100.00%  5            app.c:30
";
    check(&["--lines", "--depth=0"], text, expect);
    let (out, err, _) = report(&["--lines", "--depth=0"], FOLDED);
    assert!(out.starts_with(&format!("10 {IN_ALL}\n")));
    assert!(err.starts_with("pyrograph: no source lines:"), "{err}");
}

#[test]
fn nothing_to_report() {
    let (out, err, code) = report(&["--focus", "nowhere"], FOLDED);
    let expect = "pyrograph: failed to report: the filters leave nothing: no stack has a frame like 'nowhere'\n";
    assert_eq!((out.as_str(), err.as_str(), code), ("", expect, Some(1)));
    let (_, err, code) = report(&["--focus", "("], FOLDED);
    assert!(err.contains("unclosed group") && code == Some(2), "{err}");
}

/// The lines of the table: figures, and what stands behind them, without blanks between columns.
fn table(out: &str) -> Vec<String> {
    let lines = out.lines().skip_while(|line| !line.contains("Self")).skip(1);
    lines
        .take_while(|line| !line.is_empty())
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn tiers_of_one_function_were_rows_that_looked_alike() {
    let input = "m;JS:*parse /srv/app.js:12 4\nm;JS:~parse /srv/app.js:12 6\nm;f (app.py:3) 10\n";
    let expect = [
        "50.00% 10 50.00% 10 f",
        "50.00% 10 50.00% 10 parse (interpreted, optimized)",
        "0.00% 0 100.00% 20 m",
    ];
    let (out, ..) = report(&[], input);
    assert_eq!(table(&out), expect, "{out}");
    // Asked for, names are what they are.
    let (out, ..) = report(&["--names", "raw", "--depth", "0"], input);
    assert!(out.contains("JS:*parse") && out.contains("JS:~parse"), "{out}");
    // Other programs read the names of the input.
    let (out, ..) = report(&["--json"], input);
    assert!(out.contains("JS:*parse") && out.contains("JS:~parse"), "{out}");
}

#[test]
fn functions_of_two_files_of_one_name_looked_alike() {
    let sample = |module: &str| {
        format!("app 1/1 [000] 1.000000000: 1 cpu-clock:\n\t10 main+0x1 ({module})\n\n")
    };
    let input = ["/usr/bin/app", "/opt/bin/app", "/opt/bin/other"].map(sample).concat();
    for arguments in [&["--depth", "0"][..], &["--markdown", "--depth", "0"]] {
        let (out, ..) = report(arguments, &input);
        let count = |text: &str| out.matches(text).count();
        let found =
            [count("usr/bin/app"), count("opt/bin/app"), count("other"), count("bin/other")];
        assert_eq!(found, [1, 1, 1, 0], "{out}");
    }
}

#[test]
fn functions_that_runs_number_were_several_in_several_inputs() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.to_str().expect("text").to_owned()
    };
    let first = write("a", "m;a.Shop$$Lambda$14/0x0000000800066840.apply 4\nm;_ZN4shop3addEv 1\n");
    let second = write("b", "m;a.Shop$$Lambda$9/0x000000080006c040.apply 6\nm;_ZN4shop3addEv 9\n");
    let (out, ..) = report(&["--depth", "0", &first, &second], "");
    let expect = [
        "50.00% 10 50.00% 10 Shop$$Lambda.apply",
        "50.00% 10 50.00% 10 shop::add",
        "0.00% 0 100.00% 20 m",
    ];
    assert_eq!(table(&out), expect, "{out}");
    let (out, ..) = report(&["--depth", "0", "--names", "raw", &first, &second], "");
    assert!(out.contains("Lambda$14") && out.contains("Lambda$9"), "{out}");
}
