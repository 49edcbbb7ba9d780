//! Compiles the kernel's unwinder for the target `kernel_unwinder`, with the checks and the coverage that the
//! fuzzer's own code has.

use std::path::Path;
use std::process::Command;

fn main() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/bpf/src/programs");
    println!("cargo::rerun-if-changed={}", sources.display());
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    let (object, library) = (format!("{out}/unwind.o"), format!("{out}/libkernel_unwinder.a"));
    run(Command::new("clang")
        .args(["-std=gnu11", "-O1", "-g", "-DPYROGRAPH_FUZZ", "-fno-strict-aliasing"])
        .args(["-fsanitize=address,fuzzer-no-link", "-Wno-unknown-attributes"])
        .arg("-I")
        .arg(sources.join("user_space"))
        .args(["-c", "-o", &object])
        .arg(sources.join("user_space/unwind.c")));
    run(Command::new("ar").args(["rcs", &library, &object]));
    println!("cargo::rustc-link-search={out}");
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
