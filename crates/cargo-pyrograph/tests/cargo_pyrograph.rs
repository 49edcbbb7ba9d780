//! `cargo pyrograph`, with a package of its own.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn programs_examples_and_tests_of_a_package_are_built_and_recorded() {
    let program = Path::new(env!("CARGO_BIN_EXE_cargo-pyrograph"));
    if !program.with_file_name("pyrograph").exists() {
        eprintln!("skipped: cargo pyrograph needs pyrograph beside it (cargo build -p pyrograph)");
        return;
    }
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
        let mut command = Command::new(program);
        command.current_dir(folder.path()).env_remove("CARGO_TARGET_DIR").arg("pyrograph");
        command.args(["--offline", "-o", "x.folded"]).args(arguments);
        command
    };
    for arguments in [&[][..], &["--bin", "busy"], &["--example", "other", "--features", "long"]] {
        let output = record(arguments).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let folded = fs::read_to_string(folder.path().join("x.folded")).expect("it was written");
        let [mut hot, mut all] = [0; 2];
        for (stack, count) in folded.lines().filter_map(|line| line.rsplit_once(' ')) {
            let count: u64 = count.parse().expect("a count");
            all += count;
            hot += if stack.contains("hot") { count } else { 0 };
        }
        assert!(2 * hot > all, "{arguments:?}: {folded}");
    }
    let failed = record(&["--example", "other"]).output().expect("it runs");
    assert!(!failed.status.success(), "without the feature there is no main");
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(said.contains("cargo pyrograph: the build failed"), "{said}");
}
