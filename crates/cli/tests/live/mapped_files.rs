//! Files that programs have mapped, wherever they are: names must be those of the file that ran.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::in_kernel::C;
use crate::common::{Folded, compile, is_root, program_source, pyrograph, run, up_to_three_times};

/// Records a command with each engine that is permitted; the folded stacks and what was said.
fn each_engine(test: &str, folder: &Path, command: &[&str], check: impl Fn(&str, &Folded, &str)) {
    for engine in ["perf", "ebpf"] {
        if engine == "ebpf" && !is_root(&format!("{test}, by programs in the kernel")) {
            continue;
        }
        up_to_three_times(|| {
            let out = folder.join("out.folded");
            let mut recording = pyrograph();
            recording.args(["record", "-u", "--engine", engine, "-F", "997", "-o"]).arg(&out);
            let output = run(recording.arg("--").args(command).current_dir(folder));
            check(engine, &Folded::read(&out), &String::from_utf8_lossy(&output.stderr));
        });
    }
}

/// Everything is below `main`, and no file is said to be missing.
fn has_names(engine: &str, folded: &Folded, said: &str) {
    let share = folded.total_share("main");
    assert!(share > 97.0, "{engine}: {share} %, {:?}", folded.leaves());
    assert!(!said.contains("could not be opened"), "{engine}: {said}");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn program(folder: &Path) -> PathBuf {
    compile(C, "split.c", folder)
}

/// The file at an address was opened late, when the other library was there, and one of them got all samples.
#[test]
fn libraries_that_take_turns_at_one_address_keep_their_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let swaps = compile(C, "swaps.c", folder.path());
    let library = |name: &str| {
        let path = folder.path().join(format!("lib{name}.so"));
        run(Command::new("gcc")
            .args(["-O2", "-g", "-shared", "-fPIC", &format!("-DLIBRARY={name}"), "-o"])
            .arg(&path)
            .arg(program_source("swaps.c")));
        path
    };
    let (alpha, bravo) = (library("alpha"), library("bravo"));
    let command = [text(&swaps), text(&alpha), text(&bravo), "400"];
    let test = "libraries_that_take_turns_at_one_address_keep_their_names";
    each_engine(test, folder.path(), &command, |engine, folded, _| {
        for (name, known) in [("alpha", 62.5), ("bravo", 37.5)] {
            let share = folded.total_share(name);
            assert!((share - known).abs() < 5.0, "{engine}: {name} {share} %");
        }
    });
}

#[test]
fn a_program_that_lies_in_memory_alone_has_names() {
    let test = "a_program_that_lies_in_memory_alone_has_names";
    if !is_root(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let loader = compile(&["gcc", "-O2"], "from_memory.c", folder.path());
    let split = program(folder.path());
    let command = [text(&loader), text(&split), "1000"];
    each_engine(test, folder.path(), &command, has_names);
}

#[test]
fn a_program_that_was_deleted_has_names() {
    let test = "a_program_that_was_deleted_has_names";
    let folder = tempfile::tempdir().expect("a folder");
    let split = program(folder.path());
    let script =
        format!("cp {} gone && (sleep 0.1; rm gone) & sleep 0.05; exec ./gone 1500", text(&split));
    each_engine(test, folder.path(), &["sh", "-c", &script], has_names);
}

#[test]
fn a_program_of_another_mount_namespace_has_names() {
    let test = "a_program_of_another_mount_namespace_has_names";
    if !is_root(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let split = program(folder.path());
    std::fs::create_dir(folder.path().join("place")).expect("a folder");
    let script = format!(
        "mount -t tmpfs none place && cp {} place/program && exec place/program 1500",
        text(&split)
    );
    each_engine(test, folder.path(), &["unshare", "-m", "sh", "-c", &script], has_names);
}

#[test]
fn a_program_in_a_changed_root_has_names() {
    let test = "a_program_in_a_changed_root_has_names";
    if !is_root(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["gcc", "-O2", "-g", "-static", "-fomit-frame-pointer"];
    let split = compile(&flags, "split.c", folder.path());
    let root = folder.path().join("root");
    std::fs::create_dir(&root).expect("a folder");
    std::fs::rename(split, root.join("program")).expect("the same file system");
    each_engine(test, folder.path(), &["chroot", "root", "/program", "1500"], has_names);
}
