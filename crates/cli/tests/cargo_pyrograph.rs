//! `cargo pyrograph`, with a package of its own.

mod common;

use std::fs;
use std::process::Command;

use common::{Folded, run};

#[test]
fn programs_examples_and_tests_of_a_package_are_built_and_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("own folder");
        fs::write(path, text).expect("a file");
    };
    write(
        "Cargo.toml",
        "[package]\nname = \"busy\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n\
         [features]\nlong = []\n\n[profile.release]\nstrip = true\n\n[workspace]\n",
    );
    // Inlined: without line tables it has no name.
    let busy = "#[inline(always)]\nfn hot(rounds: u64) -> u64 {\n    \
                (0..rounds).fold(1, |sum, i| std::hint::black_box(sum ^ i.wrapping_mul(sum | 7)))\n}\n";
    let main = "fn main() {\n    println!(\"{}\", hot(300_000_000));\n}\n";
    write("src/main.rs", &format!("{busy}{main}"));
    write("examples/other.rs", &format!("{busy}#[cfg(feature = \"long\")]\n{main}"));
    let record = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-pyrograph"));
        command.current_dir(folder.path()).env_remove("CARGO_TARGET_DIR").arg("pyrograph");
        command.args(["--offline", "-o", "x.folded"]).args(arguments);
        command
    };
    for arguments in [&[][..], &["--bin", "busy"], &["--example", "other", "--features", "long"]] {
        run(&mut record(arguments));
        let folded = Folded::read(&folder.path().join("x.folded"));
        let share = folded.share(|stack| stack.iter().any(|frame| frame.contains("hot")));
        assert!(share > 50.0, "{arguments:?}: {:?}", folded.leaves());
    }
    let failed = record(&["--example", "other"]).output().expect("it runs");
    assert!(!failed.status.success(), "without the feature there is no main");
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(said.contains("cargo pyrograph: the build failed"), "{said}");
}
