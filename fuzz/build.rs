//! Compiles the kernel's unwinder and its walkers of languages for the targets `kernel_unwinder` and `kernel_walkers`,
//! with the checks and the coverage that the fuzzer's own code has.

use std::path::Path;
use std::process::Command;

fn main() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/bpf/src/programs");
    println!("cargo::rerun-if-changed={}", sources.display());
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    for (source, name) in [("unwind", "kernel_unwinder"), ("calls", "kernel_walkers")] {
        let (object, library) = (format!("{out}/{source}.o"), format!("{out}/lib{name}.a"));
        run(Command::new("clang")
            .args(["-std=gnu11", "-O1", "-g", "-DPYROGRAPH_FUZZ", "-fno-strict-aliasing"])
            .args(["-fsanitize=address,bounds,fuzzer-no-link", "-fsanitize-trap=bounds"])
            .args(["-Wno-unknown-attributes", "-I"])
            .arg(sources.join("user_space"))
            .args(["-c", "-o", &object])
            .arg(sources.join("user_space").join(source).with_extension("c")));
        run(Command::new("ar").args(["rcs", &library, &object]));
    }
    println!("cargo::rustc-link-search={out}");
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
