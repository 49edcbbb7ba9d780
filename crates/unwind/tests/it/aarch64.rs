//! Unwinds aarch64 stacks of a program that runs in an emulator, and compares with its own
//! `backtrace`.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use object::{Object, ObjectSegment};
use pyrograph_unwind::{AddressSpace, Arch, Registers, StackCopy, StackEnd, UnwindInfo, Unwinder};

/// The next 8 bytes.
fn take(from: &mut &[u8]) -> u64 {
    let (word, rest) = from.split_first_chunk().unwrap();
    *from = rest;
    u64::from_le_bytes(*word)
}

fn check(name: &str, options: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/capture.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut gcc = Command::new("aarch64-linux-gnu-gcc");
    gcc.args(["-static", "-no-pie"]).args(options).arg("-o").arg(&program).arg(source);
    assert!(gcc.status().expect("a cross compiler is installed").success());
    let run = Command::new("qemu-aarch64").arg(&program).output().expect("qemu is installed");
    assert!(run.status.success());

    let bytes = std::fs::read(&program).unwrap();
    let mut space = AddressSpace::new();
    let info = Arc::new(UnwindInfo::from_bytes(bytes.clone()).unwrap());
    for segment in object::File::parse(&*bytes).unwrap().segments() {
        if segment.permissions().executable() {
            let range = segment.address()..segment.address() + segment.size();
            space.map(range, segment.file_range().0, Some(Arc::clone(&info)), 0);
        }
    }
    let mut unwinder = Unwinder::new(Arch::Aarch64);
    let mut output = &*run.stdout;
    let mut captures = 0;
    while !output.is_empty() {
        let values: Vec<u64> = (0..33).map(|_| take(&mut output)).collect();
        let registers = Registers::from_perf(Arch::Aarch64, (1 << 33) - 1, &values);
        let count = take(&mut output);
        let want: Vec<u64> = (0..count).map(|_| take(&mut output)).collect();
        let size = take(&mut output) as usize;
        let (stack, rest) = output.split_at(size);
        output = rest;
        let mut frames = Vec::new();
        let copy = StackCopy { start: registers.sp().unwrap(), bytes: stack };
        let unwound = unwinder.unwind(&space, &registers, copy, 256, &mut frames);
        let got: Vec<u64> = frames.iter().map(|frame| frame.address).collect();
        assert_eq!(unwound.end, StackEnd::Root, "{got:x?} {want:x?}");
        // The first is where each of the two looked at the same function.
        assert_eq!(got[1..], want[1..]);
        captures += 1;
    }
    assert!(captures >= 6);
}

#[test]
#[ignore = "nightly: needs aarch64-linux-gnu-gcc and qemu-aarch64"]
fn optimized() {
    check("aarch64", &["-O2"]);
}

#[test]
#[ignore = "nightly: needs aarch64-linux-gnu-gcc and qemu-aarch64"]
fn without_frame_pointers() {
    check("aarch64-omit", &["-O2", "-fomit-frame-pointer"]);
}

#[test]
#[ignore = "nightly: needs aarch64-linux-gnu-gcc and qemu-aarch64"]
fn authenticated_return_addresses() {
    check("aarch64-pac", &["-O2", "-mbranch-protection=standard"]);
}
