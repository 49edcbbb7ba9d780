//! Stacks get their names while it is recorded, if they may take but little memory: nothing else changes.

use crate::common::{Folded, compile, is_root, pyrograph};

#[test]
fn in_little_memory_the_profile_is_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&["gcc", "-O1"], "many_places.c", folder.path());
    let out = folder.path().join("out.folded");
    let engines: &[&str] = if is_root("the in-kernel engine in little memory") {
        &["perf", "ebpf"]
    } else {
        &["perf"]
    };
    for engine in engines {
        let output = pyrograph()
            .args([
                "record",
                "-v",
                "--engine",
                engine,
                "--stack-memory",
                "1536K",
                "-F",
                "4999",
                "-o",
            ])
            .arg(&out)
            .args(["--count", "samples", "--"])
            .arg(&program)
            .output()
            .expect("pyrograph runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(said.contains(" of 1 MiB (--stack-memory); they got names "), "{said}");
        assert!(!said.contains("they got names 0 times"), "{said}");
        assert!(!said.contains("did not hold all stacks"), "{said}");
        let folded = Folded::read(&out);
        // At this rate there are 5,000 samples, in nearly as many places.
        assert!(folded.total() > 2000.0 && folded.total_share("main") > 90.0, "{said}");
        let functions = ["one", "two", "three", "four", "five", "six", "seven", "eight"];
        for function in functions {
            // An eighth; of 5,000 samples one standard deviation is half a point.
            folded.check_share(function, 12.5, |stack| stack.iter().any(|frame| frame == function));
        }
    }
}

#[test]
fn a_limit_that_holds_nothing_is_none() {
    let output = pyrograph().args(["record", "--stack-memory", "1K", "--", "true"]).output();
    let output = output.expect("pyrograph runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("must be 1M at least"), "{said}");
}
