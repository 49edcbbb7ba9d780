//! `pyrograph view`: a page that every verb reads back. What it shows is tested in tests/browser.

use std::path::Path;

use crate::common::{pyrograph, run, text};

const PERF: &str = "app 70/70 [001] 5000.000001: 7 cycles:\n\t10 parse (/bin/app)\n\t20 main (/bin/app)\n\n\
                    worker 70/71 [000] 5000.500000: 9 cycles:\n\t10 read (/lib/libc.so.6)\n\t20 main (/bin/app)\n\n\
                    app 70/70 [001] 5001.250000: 11 cycles:\n\t30 [unknown] (/bin/app)\n\n";

fn of(verb: &[&str], input: &Path) -> String {
    text(&run(pyrograph().args(verb).arg(input)).stdout)
}

#[test]
fn every_verb_reads_a_page_as_what_it_was_made_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, page) = (folder.path().join("in.txt"), folder.path().join("out.html"));
    std::fs::write(&input, PERF).expect("it is written");
    run(pyrograph().arg("view").arg(&input).arg("-o").arg(&page));
    for verb in [
        &["fold"][..],
        &["fold", "--time", "0.4..1"],
        &["fold", "--by", "thread"],
        &["fold", "--by", "cpu"],
        &["report", "--json"],
        &["flamegraph", "--title", "x"],
        &["convert", "--to", "firefox", "--title", "x"],
        &["heatmap", "--offsets", "--title", "x"],
        &["view", "--title", "x"],
    ] {
        assert_eq!(of(verb, &page), of(verb, &input), "{verb:?}");
    }
}

#[test]
fn outputs_that_end_in_html_are_pages() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a.folded"), "main;a 5\nmain;b 3\n").expect("it is written");
    std::fs::write(path("b.folded"), "main;a 900\nmain;c 200\n").expect("it is written");
    run(pyrograph().arg("convert").arg(path("a.folded")).arg("-o").arg(path("a.html")));
    assert_eq!(of(&["fold"], &path("a.html")), "main;a 5\nmain;b 3\n");
    let diff = [path("a.folded"), path("b.folded")];
    run(pyrograph().arg("diff").args(diff).arg("-o").arg(path("diff.html")));
    // Both sides.
    assert_eq!(of(&["fold"], &path("diff.html")), "main;a 5 900\nmain;b 3 0\nmain;c 0 200\n");
}

/// Of these names c++filt says `shop::price(int)` and `a::shop::add(char const*, long)`.
#[test]
fn a_page_that_was_read_back_had_lost_the_full_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let mangled = "main;_ZN4shop5priceEi 3\nmain;_ZN1a4shop3addEPKcl 4\n";
    std::fs::write(path("in.folded"), mangled).expect("a file");
    let full = "main;a::shop::add(char const*, long) 4\nmain;shop::price(int) 3\n";
    for (form, names) in [
        (None, "main;a::shop::add 4\nmain;shop::price 3\n"),
        (Some("short"), "main;shop::add 4\nmain;shop::price 3\n"),
    ] {
        let mut convert = pyrograph();
        convert.arg("convert").arg(path("in.folded")).arg("-o").arg(path("a.html"));
        run(convert.args(form.iter().flat_map(|form| ["--names", *form])));
        run(pyrograph().arg("convert").arg(path("a.html")).arg("-o").arg(path("b.html")));
        for page in ["a.html", "b.html"] {
            assert_eq!(of(&["fold"], &path(page)), names, "{form:?}");
            assert_eq!(of(&["fold", "--names", "full"], &path(page)), full, "{form:?}");
        }
    }
}

#[test]
fn what_is_no_page_of_ours_or_damaged_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("x.html");
    let head = "<!DOCTYPE html>\n<html><head><meta name=\"generator\" content=\"Pyrograph\">";
    for (body, expect) in [
        ("", "there is no profile in this page"),
        (
            "<script type=\"text/plain\" id=\"pyrograph-profile\">\nH4sI",
            "the page ends within the profile",
        ),
        (
            "<script type=\"text/plain\" id=\"pyrograph-profile\">\nH4sI\n</script>",
            "the profile in it is damaged",
        ),
    ] {
        std::fs::write(&page, format!("{head}{body}")).expect("it is written");
        let output = pyrograph().arg("fold").arg(&page).output().expect("pyrograph runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(expect), "{said}");
    }
}

/// A browser that had the limit of `--max-memory` aborted.
#[test]
fn the_browser_has_the_limits_that_pyrograph_was_started_with() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a.folded"), "main;a 5\n").expect("it is written");
    let script =
        format!("#!/bin/sh\nulimit -d > {0}.new; mv {0}.new {0}\n", path("limit").display());
    std::fs::write(path("browser"), script).expect("it is written");
    std::fs::set_permissions(path("browser"), PermissionsExt::from_mode(0o755)).expect("own file");
    let mut view = pyrograph();
    view.args(["view", "--open", "--max-memory", "64M", "-o"]).arg(path("a.html"));
    run(view.arg(path("a.folded")).env("BROWSER", path("browser")));
    crate::common::wait_until("the browser has run", || path("limit").exists());
    let limit = std::fs::read_to_string(path("limit")).expect("what it wrote");
    let own = run(std::process::Command::new("sh").args(["-c", "ulimit -d"]));
    assert_eq!(limit, text(&own.stdout));
}
