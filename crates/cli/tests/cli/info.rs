//! `pyrograph info` of files of all formats.

use assert_cmd::Command;

use crate::common::text;

fn info(arguments: &[&str], input: &str) -> (String, String, Option<i32>) {
    let mut command = Command::cargo_bin("pyrograph").expect("the binary is built");
    let output = command.arg("info").args(arguments).write_stdin(input).output();
    let output = output.expect("the binary runs");
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

/// Samples of two threads of a process, and of another process.
const SCRIPT: &str = "\
app 7/7 1.0: 10 cycles:\n\t 1 work (/bin/app)\n\t 2 main (/bin/app)\n\n\
app 7/8 2.0: 20 cycles:\n\t 1 work (/bin/app)\n\t 2 main (/bin/app)\n\n\
sh 9/9 3.0: 10 cycles:\n\t 3 wait (/bin/sh)\n\n";

/// It was "not perf.data", also of what `record` writes.
#[test]
fn any_profile_is_described() {
    let (out, err, code) = info(&["-"], SCRIPT);
    assert_eq!((&err[..], code), ("", Some(0)));
    let lines = [
        "format     perf script",
        "value      cycles: 40 cycles",
        "size       3 threads, 3 stack nodes, 3 frames",
        "times      of each sample",
        "process    app (7): 75 %",
        "process    sh (9): 25 %",
    ];
    for line in lines {
        assert!(out.lines().any(|of| of == line), "{line}: {out}");
    }
    let (out, ..) = info(&["-", "--json"], SCRIPT);
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(json["values"][0]["total"], 40);
    assert_eq!(json["processes"][0], serde_json::json!({ "name": "app", "pid": 7, "value": 30 }));
    assert_eq!(json["has_times"], true);
    for (input, says) in [("junk\n", "unrecognized format"), ("", "is empty")] {
        let (_, err, code) = info(&["-"], input);
        assert!(code == Some(1) && err.contains(says), "{err}");
    }
}

#[test]
fn it_is_written_to_files_by_their_endings() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.json");
    let name = path.to_str().expect("UTF-8");
    let done = info(&["-", "-o", name], "a;b 3\n");
    assert_eq!(done, (String::new(), format!("pyrograph: wrote {name}\n"), Some(0)));
    let text = std::fs::read_to_string(&path).expect("a file");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["format"], "folded");
    assert_eq!(info(&["-", "-o", "x.svg"], "a;b 3\n").2, Some(2));
}
