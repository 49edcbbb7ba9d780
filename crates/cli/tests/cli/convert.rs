//! `pyrograph convert`: what it writes is opened by the tools that it is written for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::{pyrograph, run, text};

/// A file of the readers' tests.
fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../format/tests/formats").join(name)
}

/// Returns true if a program is installed. If not, says that a test is skipped.
fn has(program: &str, test: &str) -> bool {
    let there = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !there {
        eprintln!("skipped: {test} needs {program}");
    }
    there
}

fn convert(arguments: &[&str], input: &Path) -> Output {
    pyrograph().arg("convert").arg(input).args(arguments).output().expect("pyrograph runs")
}

/// The output of `go tool pprof` for a profile.
fn go_pprof(arguments: &[&str], profile: &Path) -> String {
    let arguments = [&["tool", "pprof"], arguments].concat();
    text(&run(Command::new("go").args(arguments).arg(profile)).stdout)
}

/// The distinct stacks of Go's tool, with their values. Those that differ only in addresses,
/// which are not shown, are one.
fn stacks(index: &str, label: &str, profile: &Path) -> BTreeMap<String, u64> {
    let index = format!("-sample_index={index}");
    // In units so small that nothing is rounded.
    let unit = if label == "bytes" { "-unit=B" } else { "-unit=ns" };
    let shown = go_pprof(&["-traces", &index, unit], profile);
    let mut stacks = BTreeMap::new();
    for block in shown.split("-----------+").skip(1) {
        let lines = block.lines().skip(1).map(str::trim);
        let stack: Vec<&str> = lines.filter(|line| !line.starts_with(label)).collect();
        let Some((value, stack)) =
            stack.join("\n").split_once(' ').map(|(v, s)| (v.to_owned(), s.to_owned()))
        else {
            continue;
        };
        let digits: String = value.chars().take_while(char::is_ascii_digit).collect();
        *stacks.entry(stack.trim().to_owned()).or_default() +=
            digits.parse::<u64>().unwrap_or_else(|_| panic!("{value}"));
    }
    stacks
}

/// Every stack with its values, as Go's own tool reads the file: the same before and after, but for
/// labels that name no thread, which are said to be left out.
#[test]
fn go_reads_the_same_stacks_from_what_is_written() {
    if !has("go", "go_reads_the_same_stacks_from_what_is_written") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (name, said) in [("go-cpu", "request"), ("go-heap", "bytes")] {
        let before = sample(&format!("pprof/{name}.pb.gz"));
        let after = folder.path().join("after.pb.gz");
        let output = convert(&["-o", after.to_str().expect("UTF-8")], &before);
        assert!(output.status.success());
        let expected = format!(
            "pyrograph: labels of samples are left out: {said}\npyrograph: wrote {}\n",
            after.display()
        );
        assert_eq!(text(&output.stderr), expected);
        for index in ["0", "1"] {
            let (before, after) = (stacks(index, said, &before), stacks(index, said, &after));
            assert!(before.len() >= 3, "{before:?}");
            assert_eq!(before, after);
        }
        let lines = |profile: &Path| go_pprof(&["-top", "-lines"], profile);
        let (before, after) = (lines(&before), lines(&after));
        assert_eq!(before, after);
    }
}

#[test]
fn what_a_format_has_no_place_for_is_said() {
    let cpu = sample("pprof/go-cpu.pb.gz");
    let output = convert(&["--to", "speedscope"], &cpu);
    assert_eq!(
        text(&output.stderr),
        "pyrograph: labels of samples are left out: request\n\
         pyrograph: left out, as speedscope has no place for it: modules; source lines; \
         which calls were inlined; when it was recorded\n"
    );
    assert!(output.status.success());
}

#[test]
fn the_table_of_functions_is_for_spreadsheets() {
    let output = convert(&["--to", "csv"], &sample("pprof/go-cpu.pb.gz"));
    let table = text(&output.stdout);
    let mut lines = table.split("\r\n");
    assert_eq!(lines.next(), Some("function,module,kind,self cpu (ns),total cpu (ns)"));
    assert_eq!(lines.next(), Some("main.scale,/opt/app,inlined,120000000,130000000"));
}

#[test]
fn which_json_was_written_is_said_unless_it_was_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let cpu = sample("pprof/go-cpu.pb.gz");
    let said = |arguments: &[&str]| text(&convert(arguments, &cpu).stderr);
    let note = "is in the firefox format; end its name in .speedscope.json for speedscope, \
                .trace.json for Chrome trace\n";
    let plain = path("x.json");
    assert!(said(&["-o", &plain]).ends_with(&format!("pyrograph: {plain} {note}")));
    assert!(!said(&["-o", &plain, "--to", "gecko"]).contains(".trace.json"));
    assert!(!said(&["-o", &path("x.speedscope.json")]).contains(".trace.json"));
    assert!(!said(&["-o", &path("x.firefox.json")]).contains(".trace.json"));
}

#[test]
fn a_format_must_be_named() {
    let cpu = sample("pprof/go-cpu.pb.gz");
    for (arguments, code, said) in [
        (&[][..], 2, "give a file to write (-o FILE) or a format (--to FORMAT)"),
        (&["--to", "nonsense"], 2, "nonsense: unknown format; these can be written: folded, pprof"),
        (
            &["-o", "x.nonsense"],
            2,
            "x.nonsense: unknown format; use a name that ends in .svg, .png, .html, .csv, .folded",
        ),
        (&["-o", "none/x.pb.gz"], 1, "none/x.pb.gz: the folder none does not exist"),
    ] {
        let output = convert(arguments, &cpu);
        assert_eq!(output.status.code(), Some(code));
        let expected = format!("pyrograph: failed to convert: {said}");
        assert!(text(&output.stderr).starts_with(&expected), "{}", text(&output.stderr));
    }
}

/// valgrind's own tool shows the costs of each function that are in the profile.
#[test]
fn callgrind_annotate_shows_what_is_written() {
    if !has("callgrind_annotate", "callgrind_annotate_shows_what_is_written") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("callgrind.out.1");
    let output = convert(&["-o", out.to_str().expect("UTF-8")], &sample("pprof/go-cpu.pb.gz"));
    assert!(text(&output.stderr).contains("no place for it: whole stacks"));
    let shown = run(Command::new("callgrind_annotate")
        .args(["--threshold=100", "--auto=no", "--tree=calling", "--inclusive=yes"])
        .arg(&out));
    let shown = text(&shown.stdout);
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let line_with = |name: &str, mark: &str| {
        let lines = shown.lines().filter(|line| line.contains(mark));
        let mut found = lines.filter(|line| line.contains(name)).map(words);
        found.next().unwrap_or_else(|| panic!("{name}: {shown}"))
    };
    let totals = line_with("PROGRAM TOTALS", "PROGRAM");
    assert_eq!((&*totals[0], &*totals[2]), ("14", "140,000,000"), "{totals:?}");
    // With what it calls, and what it calls: the first is marked with a star.
    let scale = line_with(":main.double", " * ");
    assert_eq!((&*scale[0], &*scale[2]), ("13", "130,000,000"), "{scale:?}");
    let callee = line_with(":main.scale", " > ");
    assert_eq!((&*callee[0], &*callee[2]), ("13", "130,000,000"), "{callee:?}");

    // Read again, every function has its own cost, and every stack is as it was: here no function
    // is called in two ways.
    let again = convert(&["--to", "folded", "--value", "cpu"], &out);
    let before = convert(&["--to", "folded", "--value", "cpu"], &sample("pprof/go-cpu.pb.gz"));
    let without_fib = |output: &Output| {
        let text = text(&output.stdout);
        text.lines().filter(|line| !line.contains("fib")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(without_fib(&again), without_fib(&before));
}

#[cfg(feature = "png")]
/// Width and height of a PNG file, as its header says.
fn png_size(path: &Path) -> (u32, u32) {
    let bytes = std::fs::read(path).expect("a picture");
    assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n");
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    (number(16), number(20))
}

#[cfg(not(feature = "png"))]
#[test]
fn without_pixels_it_says_what_writes_them() {
    let folder = picture_inputs();
    let path = |name: &str| folder.path().join(name);
    for (verb, inputs) in PICTURES {
        let inputs = inputs.iter().map(|name| path(name));
        let mut command = pyrograph();
        command.arg(verb).args(inputs).arg("-o").arg(path("x.png"));
        let output = command.output().expect("pyrograph runs");
        assert_eq!(output.status.code(), Some(1), "{verb}");
        let said = text(&output.stderr);
        assert!(said.contains("--features png") && said.contains("rsvg-convert"), "{said}");
    }
}

/// A folder with the inputs of `PICTURES`.
fn picture_inputs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.folded"), "main;a 3\nmain;b 4\n").expect("a file");
    std::fs::write(folder.path().join("times"), "1 5\n2 6\n").expect("a file");
    folder
}

/// Subcommands that write pictures, and what they read.
const PICTURES: [(&str, &[&str]); 4] = [
    ("convert", &["a.folded"]),
    ("flamegraph", &["a.folded"]),
    ("diff", &["a.folded", "a.folded"]),
    ("heatmap", &["times"]),
];

#[cfg(feature = "png")]
#[test]
fn every_picture_can_be_pixels() {
    let folder = picture_inputs();
    let path = |name: &str| folder.path().join(name);
    for (verb, inputs) in PICTURES {
        let output = path(&format!("{verb}.png"));
        run(pyrograph()
            .arg(verb)
            .args(inputs.iter().map(|name| path(name)))
            .arg("-o")
            .arg(&output));
        // Twice the size on the page.
        let (width, height) = png_size(&output);
        assert!(width == 2400 && height > 200, "{verb}: {width} × {height}");
    }
}

/// Files that root writes for somebody were root's.
#[test]
fn files_belong_to_who_called_sudo_or_to_whom_they_belonged() {
    use std::os::unix::fs::{MetadataExt, chown};

    if !crate::common::is_root("files_belong_to_who_called_sudo_or_to_whom_they_belonged") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (theirs, others) = (folder.path().join("theirs"), folder.path().join("others"));
    for (path, user) in [(&theirs, 4321), (&others, 0)] {
        std::fs::create_dir(path).expect("own folder");
        chown(path, Some(user), None).expect("this is root");
    }
    let old = others.join("old.json");
    std::fs::write(&old, "").expect("own folder");
    chown(&old, Some(1234), Some(2345)).expect("this is root");
    let owner = |path: &Path| {
        let mut command = pyrograph();
        command.arg("convert").arg(sample("pprof/go-cpu.pb.gz"));
        run(command.arg("-o").arg(path).env("SUDO_UID", "4321").env("SUDO_GID", "5432"));
        let written = std::fs::metadata(path).expect("it is there");
        (written.uid(), written.gid())
    };
    assert_eq!(owner(&theirs.join("new.json")), (4321, 5432));
    assert_eq!(owner(&old), (1234, 2345));
    // A folder that is not theirs.
    assert_eq!(owner(&others.join("new.json")), (0, 0));
}

/// A flame graph of what is written as pprof or OTLP is that of the profile itself, colour for colour: interpreted, compiled
/// at run time, inlined, the kernel's, guessed, markers.
#[test]
fn colours_were_lost_on_the_way_through_pprof_and_otlp() {
    let folder = tempfile::tempdir().expect("a folder");
    let all_kinds = folder.path().join("all.folded");
    let lines = "app;main;inner_[i];deep_[i];vfs_read_[k] 5\napp;main;run_[j];call_[j];[sleeping] 7\n\
                 app;[truncated];main;work 3\napp;main;--;waker_[k] 2\napp;main;a;[lock] 1\n";
    std::fs::write(&all_kinds, lines).expect("written");
    let fixture = |name: &str| {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../format/tests/fixtures").join(name)
    };
    let inputs = [
        all_kinds,
        fixture("node.perf"),
        sample("cpuprofile/node.cpuprofile"),
        sample("jfr/spin.jfr.zst"),
        sample("pprof/go-cpu.pb.gz"),
        sample("firefox/samply.json.gz"),
    ];
    for input in inputs {
        let draw = |from: &Path| {
            let to = folder.path().join("drawn.svg");
            let output = pyrograph()
                .args(["flamegraph", "--title", "same", "-o"])
                .args([&to, from])
                .output()
                .expect("pyrograph runs");
            assert!(output.status.success(), "{}: {}", from.display(), text(&output.stderr));
            std::fs::read_to_string(to).expect("drawn")
        };
        let direct = draw(&input);
        for ending in ["pb.gz", "otlp"] {
            let between = folder.path().join(format!("between.{ending}"));
            let output = convert(&["-o", between.to_str().expect("UTF-8")], &input);
            assert!(output.status.success(), "{}", text(&output.stderr));
            assert!(draw(&between) == direct, "{} by {ending}", input.display());
        }
    }
}
