//! Debug sections that had to be decompressed, kept for the next recording.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::common::{LEAF, Program, build, options};
use pyrograph_symbol::Options;

fn compressed(kind: &str) -> Program {
    let program = build("gcc", "calls.c", &["-O2", "-g"]);
    program.objcopy(&[&format!("--compress-debug-sections={kind}")]);
    program
}

fn keeping(base: &Path) -> Options {
    Options { cache: Some(base.to_owned()), ..options() }
}

#[track_caller]
fn check(program: &Program, base: &Path) {
    assert_eq!(program.frames("mark_leaf", &keeping(base)), LEAF);
}

fn files(base: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(base.join("pyrograph/debug")).into_iter().flatten();
    entries.map(|entry| entry.expect("it is listed").path()).collect()
}

/// The only file that is kept.
#[track_caller]
fn kept(base: &Path) -> PathBuf {
    let [file] = &files(base)[..] else { panic!("{:?}", files(base)) };
    file.clone()
}

#[test]
fn what_was_kept_is_used() {
    for kind in ["zlib", "zstd"] {
        let (program, base) = (compressed(kind), tempfile::tempdir().expect("a folder"));
        check(&program, base.path());
        let file = kept(base.path());
        let inode = |file: &Path| fs::metadata(file).expect("it is there").ino();
        let first = inode(&file);
        check(&program, base.path());
        // Unusable files are written anew.
        assert_eq!((kept(base.path()), inode(&file)), (file, first), "{kind}");
        let without = Options { inlines: false, lines: false, ..keeping(base.path()) };
        assert_eq!(program.frames("mark_leaf", &without), "outer\n");
    }
}

#[test]
fn what_is_damaged_is_written_anew() {
    let (program, base) = (compressed("zlib"), tempfile::tempdir().expect("a folder"));
    check(&program, base.path());
    let file = kept(base.path());
    let whole = fs::read(&file).expect("it was written");
    let flip = |at: usize| {
        let mut turned = whole.clone();
        turned[at] ^= 4;
        turned
    };
    // Each byte of what stands before the sections, and some of these.
    let places = (0..176).chain((176..whole.len()).step_by(whole.len() / 64));
    let cut = [1, 15, 16, 31, 32, 175, 176, whole.len() - 1];
    let damaged = places.map(flip).chain(cut.map(|len| whole[..len].to_vec()));
    for bytes in damaged {
        fs::write(&file, &bytes).expect("it is ours");
        check(&program, base.path());
        assert!(fs::read(&file).expect("it was written") == whole, "it is whole again");
    }
    fs::write(&file, [&whole[..], b"more"].concat()).expect("it is ours");
    check(&program, base.path());
    assert!(fs::read(&file).expect("it was written") == whole, "it is whole again");
}

#[test]
fn what_was_kept_of_another_program_is_not_used() {
    let base = tempfile::tempdir().expect("a folder");
    let program = compressed("zlib");
    check(&program, base.path());
    let file = kept(base.path());
    // The same addresses, and another name.
    let other = Program {
        path: program.dir.path().join("other"),
        symbols: program.symbols.clone(),
        dir: tempfile::tempdir().expect("a folder"),
    };
    let source = fs::read_to_string("tests/programs/calls.c").expect("it is there");
    let changed = other.dir.path().join("calls.c");
    fs::write(&changed, source.replace("leaf", "LEAF")).expect("a file");
    crate::common::run(
        std::process::Command::new("gcc")
            .args(["-O2", "-g", "-gz=zlib", "-Wl,--build-id=none"])
            .arg(&changed)
            .arg("-o")
            .arg(&other.path),
    );
    let other = Program { symbols: crate::common::nm(&other.path), ..other };
    let frames = other.frames("mark_LEAF", &keeping(base.path()));
    assert_eq!(frames, LEAF.replace("leaf", "LEAF"));
    assert_eq!(files(base.path()).len(), 2);
    // If its file were taken for the other's, it would be found out.
    let theirs = files(base.path()).into_iter().find(|path| *path != file).expect("its file");
    fs::copy(&theirs, &file).expect("it is ours");
    check(&program, base.path());
}

#[test]
fn where_nothing_can_be_kept_it_works_as_well() {
    let base = tempfile::tempdir().expect("a folder");
    fs::write(base.path().join("pyrograph"), "no folder").expect("a file");
    check(&compressed("zlib"), base.path());
    check(&compressed("zlib"), &base.path().join("pyrograph/none"));
}

#[test]
fn what_is_not_compressed_is_not_kept() {
    let base = tempfile::tempdir().expect("a folder");
    check(&build("gcc", "calls.c", &["-O2", "-g"]), base.path());
    assert_eq!(files(base.path()), [] as [PathBuf; 0]);
}
