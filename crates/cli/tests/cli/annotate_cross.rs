//! `pyrograph annotate` of programs for another machine, with samples at addresses that the test chooses.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::pprof::{self, Mapping};
use crate::common::{program_source, pyrograph, run, text};
use serde_json::Value;

/// Compiles a program for AArch64: clang can for all machines, and Rust has a linker for all. None where clang is not
/// installed, which is said.
fn compile(test: &str, folder: &Path) -> Option<PathBuf> {
    let object = folder.join("cross.o");
    let mut clang = Command::new("clang");
    clang.args(["--target=aarch64-linux-gnu", "-O2", "-g", "-ffreestanding"]);
    clang.args(["-mno-outline-atomics", "-c", "-o"]).arg(&object);
    clang.arg(program_source("cross.c"));
    if Command::new("clang").arg("--version").output().is_err() {
        eprintln!("skipped: {test} needs clang");
        return None;
    }
    run(&mut clang);
    let sysroot = run(Command::new("rustc").args(["--print", "sysroot"])).stdout;
    let host = format!("lib/rustlib/{}-unknown-linux-gnu/bin/rust-lld", std::env::consts::ARCH);
    let linker = Path::new(text(&sysroot).trim()).join(host);
    if !linker.exists() {
        eprintln!("skipped: {test} needs the linker of rustup's toolchains");
        return None;
    }
    let program = folder.join("cross");
    let mut link = Command::new(linker);
    link.args(["-flavor", "gnu", "-static", "--build-id=sha1", "-o"]).arg(&program).arg(&object);
    run(&mut link);
    Some(program)
}

/// The addresses of a function, by the program's symbols.
fn function(program: &Path, name: &str) -> Range<u64> {
    let symbols = run(Command::new("nm").arg("-S").arg(program)).stdout;
    for line in text(&symbols).lines() {
        if let [start, size, _, of] = line.split_ascii_whitespace().collect::<Vec<_>>()[..]
            && of == name
        {
            let number = |digits| u64::from_str_radix(digits, 16).expect("hexadecimal digits");
            return number(start)..number(start) + number(size);
        }
    }
    panic!("there is no {name}");
}

fn hexadecimal(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().expect("a text"), 16).expect("hexadecimal digits")
}

#[test]
fn aarch64_has_the_shares_lines_and_jumps_that_it_was_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = compile("annotate, AArch64", folder.path()) else { return };
    let sum = function(&program, "sum");
    let expect: BTreeMap<u64, u64> =
        sum.clone().step_by(4).zip(0..).filter(|(_, at)| at % 3 > 0).collect();
    // Where it is mapped is not where it was linked to be.
    let moved = 0x10_0000;
    let mapping = Mapping {
        start: 0x20_0000 + moved,
        limit: 0x40_0000 + moved,
        offset: 0,
        file: program.to_str().expect("UTF-8"),
        build_id: "",
    };
    let offset = |address: u64| {
        // lld puts each segment's bytes at its address, less the program's first one and whole pages.
        let output = run(Command::new("readelf").args(["-lW"]).arg(&program)).stdout;
        let number = |digits: &str| u64::from_str_radix(&digits[2..], 16).expect("hexadecimal");
        let text = text(&output);
        let mut loads = text.lines().filter_map(|line| line.trim().strip_prefix("LOAD "));
        loads.find_map(|line| {
            let of: Vec<&str> = line.split_ascii_whitespace().collect();
            let (offset, start, size) = (number(of[0]), number(of[1]), number(of[3]));
            (start..start + size).contains(&address).then(|| address - start + offset)
        })
    };
    let first = offset(sum.start).expect("it is loaded");
    let samples: Vec<(&str, u64, u64)> = expect
        .iter()
        .map(|(address, value)| ("sum", mapping.start + first + address - sum.start, *value))
        .collect();
    let profile = folder.path().join("profile.pb");
    pprof::write(&profile, &mapping, &samples);
    run(Command::new("gzip").arg(&profile));
    let profile = folder.path().join("profile.pb.gz");

    let output = run(pyrograph().args(["annotate", "sum", "--json"]).arg(&profile));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let instructions = found["instructions"].as_array().expect("a list");
    let addresses: Vec<u64> = instructions.iter().map(|of| hexadecimal(&of["address"])).collect();
    assert_eq!(addresses, sum.step_by(4).collect::<Vec<_>>());
    let values = instructions.iter().map(|of| of["values"][0].as_u64().expect("a number"));
    let values: BTreeMap<u64, u64> =
        addresses.iter().copied().zip(values).filter(|(_, value)| *value > 0).collect();
    assert_eq!(values, expect);
    assert_eq!(found["self"][0], expect.values().sum::<u64>());

    // `tbz w9, #0x0, 210188`: the last operand.
    let mut jumps = 0;
    for instruction in instructions {
        let words = instruction["text"].as_str().expect("a text");
        let mnemonic = words.split(' ').next().unwrap_or_default();
        let last = words.rsplit(' ').next().unwrap_or_default();
        let is_jump =
            mnemonic.starts_with("b.") || ["b", "tbz", "tbnz", "cbz", "cbnz"].contains(&mnemonic);
        assert_eq!(instruction["target"].as_str(), is_jump.then_some(last), "{words}");
        jumps += usize::from(is_jump);
    }
    assert!(jumps > 1, "{found}");
    let inlined = instructions.iter().filter(|of| of["inlined"][0]["function"] == "mix");
    assert!(inlined.count() > 2, "{found}");
    let lines =
        instructions.iter().filter(|of| of["source"]["line"].as_u64().is_some_and(|line| line > 0));
    // clang gives some no line.
    assert!(4 * lines.count() > 3 * instructions.len(), "{found}");

    let shown = text(&run(pyrograph().args(["annotate", "sum", "--all"]).arg(&profile)).stdout);
    for part in [
        "all += table[seed & 1023];",
        "mix, inlined at cross.c:17:  seed = mix(seed);",
        "┌",
        "►",
        "ldxr",
        "adrp",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let total = expect.values().sum::<u64>() as f64;
    for (address, value) in expect {
        let share = format!("{:.2}", 100.0 * value as f64 / total);
        let address = format!(" {address:x}  ");
        let line = shown.lines().find(|line| line.contains(&address));
        assert!(
            line.is_some_and(|line| line.trim().starts_with(&share)),
            "{share} {address} in {shown}"
        );
    }
}
