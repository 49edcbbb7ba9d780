//! Files that programs have mapped, wherever they are: names must be those of the file that ran.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::in_kernel::{C, Running};
use crate::common::{Folded, compile, is_root, program_source, pyrograph, run};

/// Records a command with each engine that is permitted; the folded stacks and what was said.
fn each_engine(test: &str, folder: &Path, command: &[&str], check: impl Fn(&str, &Folded, &str)) {
    for engine in ["perf", "ebpf"] {
        if engine == "ebpf" && !is_root(&format!("{test}, by programs in the kernel")) {
            continue;
        }
        let out = folder.join("out.folded");
        let mut recording = pyrograph();
        recording
            .args(["record", "-u", "--engine", engine, "-F", "1999", "--count", "samples", "-o"]);
        let output = run(recording.arg(&out).arg("--").args(command).current_dir(folder));
        check(engine, &Folded::read(&out), &String::from_utf8_lossy(&output.stderr));
    }
}

/// Everything is below `main`, but for some milliseconds in which programs start, and no file is said to be missing.
fn has_names(engine: &str, folded: &Folded, said: &str) {
    let share = folded.total_share("main");
    assert!(folded.total() > 300.0, "{engine}: {} samples", folded.total());
    assert!(share > 95.0, "{engine}: {share} %, {:?}", folded.leaves());
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
    let command = [text(&swaps), text(&alpha), text(&bravo), "200"];
    let test = "libraries_that_take_turns_at_one_address_keep_their_names";
    each_engine(test, folder.path(), &command, |engine, folded, _| {
        // By CPU time, 0.8 s: of some 1,600 samples one standard deviation is 1.2 points.
        for (name, known) in [("alpha", 62.5), ("bravo", 37.5)] {
            let has = |stack: &[String]| stack.iter().any(|frame| frame == name);
            folded.check_share(&format!("{engine}: {name}"), known, has);
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
    let command = [text(&loader), text(&split), "800"];
    each_engine(test, folder.path(), &command, has_names);
}

#[test]
fn a_program_that_was_deleted_has_names() {
    let test = "a_program_that_was_deleted_has_names";
    let folder = tempfile::tempdir().expect("a folder");
    let split = program(folder.path());
    // It is removed when it runs, however long that takes. (Both know what `cp` has made.)
    let script = format!(
        "cp {} gone; (until [ /proc/$$/exe -ef gone ]; do sleep 0.02; done; rm gone) & exec ./gone 800",
        text(&split)
    );
    each_engine(test, folder.path(), &["sh", "-c", &script], has_names);
}

/// It had no names, and its callers were guessed: huge pages, into which programs copy their code, are no file.
#[test]
fn code_that_a_program_moved_has_the_names_of_its_file() {
    let test = "code_that_a_program_moved_has_the_names_of_its_file";
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["gcc", "-O1", "-g", "-fno-toplevel-reorder", "-fomit-frame-pointer"];
    let moved = compile(&flags, "moved.c", folder.path());
    let check = |engine: &str, folded: &Folded| {
        for (name, known) in [("hot", 75.0), ("warm", 25.0)] {
            let is_whole =
                |stack: &[String]| stack.ends_with(&["main", "work", name].map(String::from));
            folded.check_share(&format!("{engine}: {name}"), known, is_whole);
        }
    };
    each_engine(test, folder.path(), &[text(&moved), "800"], |engine, folded, _| {
        check(engine, folded);
    });
    // Where it was moved before.
    for engine in ["perf", "ebpf"] {
        if engine == "ebpf" && !is_root(&format!("{test}, attached, by programs in the kernel")) {
            continue;
        }
        let mut child = Command::new(&moved)
            .arg("100000000")
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut line = [0; 6];
        child.stdout.as_mut().expect("a pipe").read_exact(&mut line).expect("it has moved");
        let running = Running(child);
        let out = folder.path().join("attached.folded");
        run(pyrograph()
            .args(["record", "-u", "--engine", engine, "-F", "1999", "--count", "samples"])
            .args(["-d", "1", "-p", &running.0.id().to_string(), "-o"])
            .arg(&out));
        check(engine, &Folded::read(&out));
    }
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
        "mount -t tmpfs none place && cp {} place/program && exec place/program 800",
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
    each_engine(test, folder.path(), &["chroot", "root", "/program", "800"], has_names);
}

/// What is mapped and gone ended the recorder (SIGBUS), and nothing was written.
#[test]
fn a_library_that_is_cut_off_while_it_runs_ends_nothing() {
    let test = "a_library_that_is_cut_off_while_it_runs_ends_nothing";
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&["gcc", "-O2", "-fno-omit-frame-pointer"], "cut.c", folder.path());
    let (whole, library) = (folder.path().join("whole.so"), folder.path().join("libcut.so"));
    // Many macros in its debug information, so that whole pages are beyond the new end.
    run(Command::new("gcc")
        .args(["-O2", "-g3", "-shared", "-fPIC", "-fno-omit-frame-pointer", "-DLIBRARY", "-o"])
        .arg(&whole)
        .arg(program_source("cut.c")));
    run(Command::new("strip").arg("-o").arg(&library).arg(&whole));
    let size = std::fs::metadata(&library).expect("it was made").len();
    let (size, script) = (size.to_string(), r#"cp "$1" "$2" && exec "$0" "$2" "$3""#);
    let command = ["sh", "-c", script, text(&program), text(&whole), text(&library), size.as_str()];
    each_engine(test, folder.path(), &command, |engine, folded, said| {
        has_names(engine, folded, said);
        let expected = "a file was written over while a process had it mapped";
        assert!(said.contains(expected) && said.contains("libcut.so"), "{engine}: {said}");
        assert!(!said.contains("no symbols for libcut.so"), "{engine}: {said}");
    });
}
