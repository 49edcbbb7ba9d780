//! Files made elsewhere: see `fixtures/README.md`.

use std::path::{Path, PathBuf};

use crate::common::{lines, open, options};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

#[test]
fn aarch64_functions_and_stubs() {
    let module = open(&fixture("aarch64.so"));
    let check = |address: u64, expect: &str| {
        assert_eq!(lines(&module.symbolize(&[address], &options())), expect, "{address:#x}");
    };
    check(0x2c0, ""); // the first entry calls the dynamic linker
    for address in (0x2e0..0x2f0).step_by(4) {
        check(address, "puts@plt\n");
    }
    for address in (0x2f0..0x300).step_by(4) {
        check(address, "malloc@plt\n");
    }
    // Here is the mapping symbol `$x`, too.
    check(0x300, "inner\n");
    check(0x308, "inner\n");
    check(0x30c, "");
    check(0x310, "outer\n");
}

const DWZ: &str = "common::Counter::next h.h:2\ncommon::twice<int> h.h:3\nwork1 p1.cc:2\n";

#[test]
fn names_that_dwz_moved_to_another_file() {
    let module = open(&fixture("dwz/program"));
    for address in [0x2d0, 0x2d7] {
        let found = module.symbolize(&[address], &options());
        assert_eq!(lines(&found), DWZ);
        assert_eq!(found.warnings, []);
    }
}

#[test]
fn a_missing_supplementary_file_is_said() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["program", "p1.debug"] {
        std::fs::copy(fixture("dwz").join(name), dir.path().join(name)).unwrap();
    }
    let found = open(&dir.path().join("program")).symbolize(&[0x2d0], &options());
    assert!(found.warnings[0].to_string().contains("common.debug is missing"), "{found:?}");
    let outermost = found.addresses[0].frames.last().unwrap();
    assert_eq!(&*outermost.function, "work1");
}
