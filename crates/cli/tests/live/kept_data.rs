//! The data that every recording leaves, and the recordings that subcommands read if they are given none.

use std::fs;
use std::process::{Command, Stdio};

use super::command_line::{folder, record, stderr};
use crate::common::{
    Folded, as_nobody, binary, binary_for_others, compile, is_root, pyrograph, run,
};

#[test]
fn record_once_look_many_times() {
    let folder = folder();
    let program = compile(&["gcc", "-O2", "-g"], "split.c", folder.path());
    let program = program.to_str().expect("a plain path");
    for _ in 0..2 {
        let output = record(folder.path(), &["--", program, "300"]);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let look = |arguments: &[&str]| {
        let mut command = pyrograph();
        let output = run(command.current_dir(folder.path()).args(arguments).stdin(Stdio::null()));
        (String::from_utf8_lossy(&output.stdout).into_owned(), stderr(&output))
    };
    let (table, said) = look(&["report"]);
    assert!(table.contains("alpha") && table.contains("cpu-clock"), "{table}");
    let reading = format!("pyrograph: reading flamegraph.pb.gz: `{program} 300`, cpu-clock, ");
    assert!(said.starts_with(&reading) && said.ends_with(" ago\n"), "{said}");
    assert!(look(&["flamegraph"]).0.contains("alpha"));
    let (_, said) = look(&["diff"]);
    let comparing = format!("comparing flamegraph.old.pb.gz (`{program} 300`, cpu-clock, ");
    assert!(said.contains(&comparing) && said.contains(") with flamegraph.pb.gz (`"), "{said}");
    // Everything is in it: what is too narrow to be drawn, too, and each thread.
    let all = Folded::parse(&look(&["fold", "flamegraph.pb.gz"]).0);
    assert!(all.total_share("alpha") > 20.0);
    let (by, _) = look(&["fold", "--by", "thread", "flamegraph.pb.gz"]);
    assert!(by.starts_with("split_c-"), "{by}");
    // A recording of nothing takes the place of none.
    let files = ["flamegraph.svg", "flamegraph.pb.gz", "flamegraph.old.pb.gz"];
    let read = || files.map(|name| fs::read(folder.path().join(name)).expect("a file"));
    let good = read();
    let output = record(folder.path(), &["-F", "1", "--", "true"]);
    let kept =
        "nothing was recorded: kept flamegraph.svg and flamegraph.pb.gz of an earlier recording";
    assert!(stderr(&output).contains(kept), "{}", stderr(&output));
    assert!(read() == good);
    // The newer recording is taken.
    fs::write(folder.path().join("perf.data"), "other;text 1\n").expect("a file");
    let (table, said) = look(&["report"]);
    assert!(table.contains("other") && said.contains("reading perf.data"), "{said}{table}");
}

/// After `record -o x.html`, `report` had shown an older recording.
#[test]
fn every_recording_leaves_its_data() {
    let folder = folder();
    let program = compile(&["gcc", "-O2", "-g"], "split.c", folder.path());
    let program = program.to_str().expect("a plain path");
    let said = |arguments: &[&str]| {
        let mut command = pyrograph();
        let output = command.current_dir(folder.path()).args(arguments).stdin(Stdio::null());
        let output = output.output().expect("pyrograph runs");
        (
            output.status.code(),
            stderr(&output),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    assert!(record(folder.path(), &["-o", "a.folded", "--", program, "100"]).status.success());
    assert!(said(&["report"]).1.contains(&format!("`{program} 100`")));
    assert!(record(folder.path(), &["-o", "b.html", "--", program, "200"]).status.success());
    assert!(said(&["report"]).1.contains(&format!("`{program} 200`")));
    // It has the times that the page has.
    let (code, text, _) = said(&["heatmap", "-o", "when.svg"]);
    assert_eq!(code, Some(0), "{text}");
    let (_, _, info) = said(&["info"]);
    for part in
        ["format     pprof", &format!("command    {program} 200"), "times      of each sample"]
    {
        assert!(info.contains(part), "{part}: {info}");
    }
    // A named profile is the data.
    let before = fs::read(folder.path().join("flamegraph.pb.gz")).expect("a file");
    assert!(record(folder.path(), &["-o", "c.pb.gz", "--", program, "100"]).status.success());
    assert!(fs::read(folder.path().join("flamegraph.pb.gz")).expect("a file") == before);
    // Single events are in perf's files alone, however old these are.
    fs::write(folder.path().join("perf.data"), "x 1/1 5.0: 1 cycles:\n\t 1 f (/bin/x)\n")
        .expect("a file");
    let old = fs::File::open(folder.path().join("perf.data")).expect("a file");
    old.set_modified(std::time::UNIX_EPOCH).expect("its owner");
    let (code, text, lines) = said(&["script"]);
    assert!(code == Some(0) && lines.contains("cycles"), "{text}{lines}");
    assert!(text.contains("reading perf.data, written"), "{text}");
    fs::remove_file(folder.path().join("perf.data")).expect("it is there");
    let (code, text, _) = said(&["sched"]);
    assert!(code == Some(2) && text.contains("no single events"), "{text}");
}

/// Nothing is recorded: files of an earlier recording stay, a file that was named is written.
#[test]
fn nothing_replaces_no_data() {
    let folder = folder();
    let program = compile(&["gcc", "-O2", "-g"], "split.c", folder.path());
    let program = program.to_str().expect("a plain path");
    assert!(record(folder.path(), &["--", program, "100"]).status.success());
    let data = || fs::read(folder.path().join("flamegraph.pb.gz")).expect("a file");
    let good = data();
    let output = record(folder.path(), &["-F", "1", "-o", "x.folded", "--", "true"]);
    let kept = "nothing was recorded: kept flamegraph.pb.gz of an earlier recording";
    assert!(stderr(&output).contains(kept), "{}", stderr(&output));
    assert!(data() == good && folder.path().join("x.folded").is_file());
}

#[test]
fn on_a_full_disk_the_recording_goes_elsewhere() {
    if !is_root("on_a_full_disk_the_recording_goes_elsewhere") {
        return;
    }
    let folder = folder();
    let program = compile(&["gcc", "-O2", "-g"], "split.c", folder.path());
    let (full, elsewhere) = (folder.path().join("full"), folder.path().join("elsewhere"));
    fs::create_dir(&full).expect("a folder");
    fs::create_dir(&elsewhere).expect("a folder");
    let script = format!(
        "mount -t tmpfs -o size=8k none full && cd full && echo good > flamegraph.pb.gz && dd if=/dev/zero of=fill bs=4096 \
         count=1 2>/dev/null && {} record -- {} 200; echo code $?; cat flamegraph.pb.gz; ls -a",
        binary().display(),
        program.display()
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).current_dir(folder.path()).env("TMPDIR", &elsewhere);
    let output = run(&mut command);
    let (said, printed) = (stderr(&output), String::from_utf8_lossy(&output.stdout));
    assert!(said.contains("No space left on device"), "{said}");
    assert!(said.contains("the recording is in "), "{said}");
    // The recording before is where it was.
    assert!(printed.ends_with("code 1\ngood\n.\n..\nfill\nflamegraph.pb.gz\n"), "{printed}");
    let file = fs::read_dir(&elsewhere).expect("a folder").next().expect("a file").expect("a name");
    let folded = run(pyrograph().arg("fold").arg(file.path()));
    assert!(String::from_utf8_lossy(&folded.stdout).contains("alpha"));
}

#[test]
fn a_folder_that_cannot_be_written_is_no_obstacle_to_named_files() {
    if !is_root("a_folder_that_cannot_be_written_is_no_obstacle_to_named_files") {
        return;
    }
    // The folder is another user's, the file a device.
    let folder = folder();
    let own = binary_for_others(folder.path(), 0o755);
    let mut command = as_nobody(own);
    command.args(["record", "-o", "/dev/null", "--to", "folded", "--", "true"]);
    let output = command.current_dir(folder.path()).output().expect("it runs");
    let said = stderr(&output);
    assert!(said.contains("only what -o names is written"), "{said}");
    assert_eq!(output.status.code(), Some(0), "{said}");
}
