//! `pyrograph flamegraph` as scripts call it.

use std::path::Path;

use assert_cmd::Command;

const FOLDED: &str = "app;main;parse 7\napp;main;read_[k] 3\n";

struct Done {
    out: String,
    err: String,
    code: Option<i32>,
}

fn flamegraph(directory: &Path, input: &str, arguments: &[&str]) -> Done {
    let output = Command::cargo_bin("pyrograph")
        .expect("the binary is built")
        .current_dir(directory)
        .arg("flamegraph")
        .args(arguments)
        .write_stdin(input)
        .output()
        .expect("the binary runs");
    Done {
        out: String::from_utf8(output.stdout).expect("UTF-8"),
        err: String::from_utf8(output.stderr).expect("UTF-8"),
        code: output.status.code(),
    }
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory for the test")
}

#[test]
fn options_of_the_established_script_are_taken_as_it_takes_them() {
    let all = [
        "-title",
        "A",
        "--subtitle=B",
        "-width",
        "800",
        "--height",
        "20",
        "--minwid",
        "0.5%",
        "--fonttype",
        "Arial",
        "--fontsize",
        "11",
        "--fontwidth",
        "0.6",
        "--countname",
        "calls",
        "--nametype",
        "Fn:",
        "--color",
        "java",
        "--bgcolors",
        "#ffffff",
        "-hash",
        "--inverted",
        "--negate",
        "--notes",
        "n",
        "--total",
        "20",
        "--factor",
        "2",
        "--encoding",
        "UTF-8",
    ];
    let done = flamegraph(directory().path(), FOLDED, &all);
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""));
    for part in [
        ">A</text>",
        ">B</text>",
        "viewBox=\"0 0 800 ",
        "stroke-width=\"19\"",
        "viewBox=\"0 0 20 ",
        "font-family=\"Arial,",
        "<title>Fn: parse\n14 calls, 35.00%\nself 14, 35.00%</title>",
        "<!-- n -->",
    ] {
        assert!(done.out.contains(part), "{part} in {}", done.out);
    }
}

#[test]
fn wrong_values_are_refused_with_what_is_right() {
    for (arguments, says) in [
        (["--colors", "rainbow"], "hot, mem"),
        (["--minwidth", "-1"], "percent"),
        (["--width", "0"], "above 0"),
        (["--bgcolors", "x"], "#rrggbb"),
    ] {
        let done = flamegraph(directory().path(), FOLDED, &arguments);
        assert_eq!(done.code, Some(2), "{arguments:?}");
        assert!(done.err.contains(says), "{}", done.err);
    }
}

#[test]
fn an_input_without_stacks_is_said_in_the_picture_and_fails() {
    for input in ["", "nothing here\n", "a;b 0\n"] {
        let done = flamegraph(directory().path(), input, &[]);
        assert_eq!(done.code, Some(1), "{input:?}");
        assert!(done.out.ends_with("</svg>\n") && done.out.contains("class=\"notice\""));
        assert!(done.err.starts_with("pyrograph: "), "{}", done.err);
    }
}

#[test]
fn a_palette_map_keeps_colours_from_picture_to_picture() {
    let directory = directory();
    std::fs::write(directory.path().join("palette.map"), "main->rgb(1,2,3)\ngone->rgb(9,9,9)\n")
        .expect("a palette map");
    let first = flamegraph(directory.path(), FOLDED, &["--cp"]);
    assert!(first.out.contains("stroke=\"#010203\""));
    let map = std::fs::read_to_string(directory.path().join("palette.map")).expect("the map");
    assert!(map.contains("main->rgb(1,2,3)\n") && map.contains("gone->rgb(9,9,9)\n"), "{map}");
    assert!(map.contains("parse->rgb("), "{map}");
    assert_eq!(flamegraph(directory.path(), FOLDED, &["--cp"]).out, first.out);
}

#[test]
fn attributes_that_could_run_a_script_are_refused_by_line() {
    let directory = directory();
    let file = "parse\thref=https://example.org/?a\tonclick=x\nmain\thref=javascript:x\n";
    std::fs::write(directory.path().join("attributes"), file).expect("the file");
    let done = flamegraph(directory.path(), FOLDED, &["--nameattr", "attributes"]);
    assert_eq!(done.code, Some(0));
    assert!(done.out.contains("<a href=\"https://example.org/?a\">"));
    assert!(!done.out.contains("onclick") && !done.out.contains("javascript:"));
    let refused: Vec<&str> = done.err.lines().map(|line| &line[..30.min(line.len())]).collect();
    assert_eq!(
        refused,
        ["pyrograph: attributes: line 1: ", "pyrograph: attributes: line 2: "].map(|l| &l[..30])
    );
}

#[test]
fn two_columns_are_a_comparison_and_order_is_kept_in_a_chart() {
    let done = flamegraph(directory().path(), "a;b 5 10\na;c 5 0\n", &[]);
    assert!(done.out.contains("10, 100.00%; before 5, 50.00%; self +50.00%"));
    let chart = flamegraph(directory().path(), "z 1\na 1\nz 1\n", &["--flamechart"]);
    assert_eq!(chart.out.matches("<title>z\n").count(), 2);
    assert!(chart.out.contains(">Flame Chart</text>"));
}

#[test]
fn a_chart_of_more_samples_than_memory_permits_says_so() {
    let text = "main;a 1\nmain;b 2\n".repeat(500_000);
    let arguments = ["--flamechart", "--max-memory", "16M"];
    let done = flamegraph(directory().path(), &text, &arguments);
    let said = "pyrograph: failed to read: this input needs more than 16 MiB of memory; --max-memory permits more\n";
    assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (Some(1), "", said));
    // Their order is not kept for anything else.
    let done = flamegraph(directory().path(), &text, &arguments[1..]);
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""));
}

/// The heap is that of GNU's C library.
#[test]
#[cfg(target_env = "gnu")]
fn what_is_read_lies_in_large_pages() {
    use std::io::Write;
    use std::process::Stdio;

    if !Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
        eprintln!("skipped: what_is_read_lies_in_large_pages needs a kernel with large pages");
        return;
    }
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("pyrograph"))
        .arg("flamegraph")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary runs");
    let mut input = child.stdin.take().expect("a pipe");
    // More than a pipe holds: reading has begun when it is written.
    let text = FOLDED.repeat(8192);
    input.write_all(text.as_bytes()).expect("it reads");
    let maps = std::fs::read_to_string(format!("/proc/{}/smaps", child.id())).expect("its memory");
    drop(input);
    assert!(child.wait().expect("it ends").success());
    // Each mapping ends with its flags: `hg` is the advice.
    let flags = maps.split("[heap]").skip(1).filter_map(|heap| heap.split("VmFlags:").nth(1));
    let flags: Vec<_> = flags.filter_map(|flags| flags.lines().next()).collect();
    assert!(flags.iter().any(|flags| flags.contains(" hg")), "{flags:?}");
}

#[test]
fn a_file_is_whole_or_not_there() {
    let directory = directory();
    let target = directory.path().join("graph.svg");
    let done = flamegraph(directory.path(), FOLDED, &["-o", "graph.svg"]);
    assert_eq!((done.code, done.out.as_str()), (Some(0), ""));
    assert!(std::fs::read_to_string(&target).expect("the picture").ends_with("</svg>\n"));
    let entries = std::fs::read_dir(directory.path()).expect("the directory").count();
    assert_eq!(entries, 1, "no temporary file is left");
}

#[test]
fn percentages_of_what_filters_leave_stay_those_of_the_whole() {
    let directory = directory();
    let done = flamegraph(directory.path(), FOLDED, &["--focus", "parse"]);
    assert_eq!((done.err.as_str(), done.code), ("", Some(0)));
    assert!(done.out.contains("<title>parse\n7, 70.00%\nself 7, 70.00%</title>"), "{}", done.out);
    assert!(done.out.contains("viewBox=\"0 0 7 ") && done.out.contains("data-whole=\"10\""));
    assert!(done.out.contains("70.00% of the whole input"));
    let done = flamegraph(directory.path(), FOLDED, &["--focus", "parse", "--rescale"]);
    assert!(done.out.contains("<title>parse\n7, 100.00%\nself 7, 100.00%</title>"), "{}", done.out);
    assert!(!done.out.contains("data-whole="));
}

#[test]
fn values_may_begin_with_a_hyphen_and_what_is_ambiguous_is_refused() {
    let folder = directory();
    let run = |arguments: &[&str]| flamegraph(folder.path(), FOLDED, arguments);
    assert!(run(&["-titl=x", "--subtitle", "--width", "-"]).out.contains(">--width</text>"));
    for wrong in [&["--t", "x"][..], &["--nothing"], &["--title"]] {
        assert_eq!(run(wrong).code, Some(2), "{wrong:?}");
    }
    // Behind two hyphens are files.
    assert!(run(&["--", "-title"]).err.contains("failed to open -title"));
    assert_eq!(run(&["-o", "x.svg"]).code, Some(0));
    assert!(folder.path().join("x.svg").exists());
}

/// An input that cannot be read drew an error over a picture that was there.
#[test]
fn a_good_picture_stays_if_there_is_nothing_to_draw() {
    let directory = directory();
    let picture = directory.path().join("good.svg");
    let done = flamegraph(directory.path(), FOLDED, &["-o", "good.svg"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let good = std::fs::read(&picture).expect("a picture");
    for input in ["", "junk\n"] {
        let done = flamegraph(directory.path(), input, &["-o", "good.svg"]);
        assert_eq!(done.code, Some(1), "{}", done.err);
        assert!(done.err.contains("good.svg stays as it is"), "{}", done.err);
        assert!(std::fs::read(&picture).expect("a picture") == good);
    }
    // Without one, and on standard output, the picture says so.
    let done = flamegraph(directory.path(), "junk\n", &["-o", "new.svg"]);
    let new = std::fs::read_to_string(directory.path().join("new.svg")).expect("a picture");
    assert!(done.code == Some(1) && new.contains("unrecognized format"), "{new}");
    assert!(flamegraph(directory.path(), "junk\n", &[]).out.contains("unrecognized format"));
}

/// It was SVG.
#[test]
fn a_file_that_ends_in_html_is_a_page() {
    let directory = directory();
    let done = flamegraph(directory.path(), FOLDED, &["-o", "x.html", "--title", "A page"]);
    assert_eq!((done.code, &done.err[..]), (Some(0), "pyrograph: wrote x.html\n"));
    let page = std::fs::read_to_string(directory.path().join("x.html")).expect("a page");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("A page"), "{page}");
    let done = flamegraph(directory.path(), FOLDED, &["-o", "y.html", "--flamechart"]);
    assert_eq!(done.code, Some(2), "{}", done.err);
    assert!(done.err.contains("--flamechart is for SVG pictures"), "{}", done.err);
}

/// SVG in a file that ends in `.html`, folded text in one that ends in `.svg`.
#[test]
fn endings_of_other_formats_are_refused_in_every_verb() {
    let directory = directory();
    std::fs::write(directory.path().join("x.folded"), FOLDED).expect("a file");
    for (verb, output, endings) in [
        ("flamegraph", "x.csv", "ends in .svg, .png, .html, .htm"),
        ("fold", "x.svg", "ends in .folded, .collapsed, .txt"),
        ("view", "x.svg", "ends in .html, .htm"),
        ("report", "x.svg", "ends in .json, .csv, .md, .txt"),
        ("heatmap", "x.csv", "ends in .svg, .png, .html, .htm"),
    ] {
        let output = Command::cargo_bin("pyrograph")
            .expect("the binary is built")
            .current_dir(directory.path())
            .args([verb, "x.folded", "-o", output])
            .output()
            .expect("the binary runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{verb}: {said}");
        assert!(said.contains(endings), "{verb}: {said}");
    }
}
