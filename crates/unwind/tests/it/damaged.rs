//! Damaged files and stacks: any result will do, as long as there is one.
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use object::{Object, ObjectSection};
use pyrograph_elf::Image;
use pyrograph_unwind::{AddressSpace, Arch, Registers, StackCopy, UnwindInfo, Unwinder};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Numbers at which arithmetic goes wrong, and others.
fn value(random: &mut StdRng) -> u64 {
    match random.random_range(0..6) {
        0 => random.random_range(u64::MAX - 15..=u64::MAX),
        1 => i64::MAX as u64 + random.random_range(0..16),
        2 => random.random_range(0..64),
        3 => random.random_range(0x7000..0x8000),
        4 => random.random_range(0x40_0000..0x50_0000),
        _ => random.random::<u64>(),
    }
}

fn program(name: &str, options: &[&str]) -> Vec<u8> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/calls.c");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let status = Command::new("gcc").args(options).arg("-o").arg(&out).arg(source).status();
    assert!(status.expect("gcc is installed").success());
    std::fs::read(out).unwrap()
}

/// Unwind at random places with random registers and a random stack.
fn unwind(info: UnwindInfo, unwinder: &mut Unwinder, random: &mut StdRng) {
    let mut space = AddressSpace::new();
    let file_offset = if random.random_range(0..8) == 0 { value(random) } else { 0x1000 };
    let start = 0x40_0000;
    space.map(start..start + 0x10_0000, file_offset, Some(Arc::new(info)), 0);
    let mut bytes = vec![0; random.random_range(0..0x1000)];
    for word in bytes.chunks_mut(8) {
        let value = value(random).to_le_bytes();
        word.copy_from_slice(&value[..word.len()]);
    }
    let mut frames = Vec::new();
    for _ in 0..20 {
        let mut registers = Registers::new(unwinder.arch());
        for register in 0..40 {
            registers.set(register, value(random));
        }
        let sp = if random.random_range(0..8) == 0 { value(random) } else { 0x7000 };
        registers.set(unwinder.arch().sp(), sp);
        // The code is in the first pages of the mapping.
        registers.set(unwinder.arch().ip(), start + random.random_range(0..0x800));
        let beyond = |address: u64| address.is_multiple_of(3).then_some(address);
        frames.clear();
        let stack = StackCopy { start: sp, bytes: &bytes };
        unwinder.unwind(&space, &registers, stack, 64, &mut frames);
        unwinder.unwind_live(&space, &registers, stack, &beyond, 128, &mut frames);
        assert!(frames.len() <= 192);
    }
}

/// Damage some bytes of the sections that unwinding reads, or of the headers.
fn check(file: &[u8], rounds: usize, seed: u64) {
    let parsed = object::File::parse(file).unwrap();
    let sections = [".eh_frame", ".eh_frame_hdr", ".debug_frame"];
    let sections = sections.iter().filter_map(|name| parsed.section_by_name(name)?.file_range());
    let mut ranges: Vec<_> = sections.map(|(at, len)| (at as usize, len as usize)).collect();
    assert!(!ranges.is_empty());
    // The ELF header and the program headers.
    ranges.push((0, 64 + 56 * 13));
    let mut random = StdRng::seed_from_u64(seed);
    let mut unwinder = Unwinder::new(Arch::X86_64);
    let mut arm = Unwinder::new(Arch::Aarch64);
    for _ in 0..rounds {
        let mut damaged = file.to_vec();
        let (at, len) = ranges[random.random_range(0..ranges.len())];
        for _ in 0..=random.random_range(0..24) {
            damaged[at + random.random_range(0..len)] = match random.random_range(0..4) {
                0 => 0xff,
                1 => 0x80,
                _ => random.random::<u8>(),
            };
        }
        if random.random_range(0..10) == 0 {
            damaged.truncate(random.random_range(0..file.len()));
        }
        let with_debug = random.random_range(0..4) == 0;
        if let Ok(image) = Image::from_bytes(damaged.clone()).map(Arc::new)
            && let debug = with_debug.then(|| Arc::clone(&image))
            && let Ok(info) = UnwindInfo::from_elf(image, debug)
        {
            match info.arch() {
                Arch::X86_64 => unwind(info, &mut unwinder, &mut random),
                Arch::Aarch64 => unwind(info, &mut arm, &mut random),
            }
        }
        if damaged.len() > 0x14 {
            damaged[0x12] = 183; // EM_AARCH64
            if let Ok(info) = UnwindInfo::from_bytes(damaged) {
                unwind(info, &mut arm, &mut random);
            }
        }
    }
}

/// Damage by a seed depends on every byte of the compiled program: a few seeds are more than one
/// compiler's luck.
const SEEDS: [u64; 4] = [1, 4, 6, 10];

#[test]
fn damaged_eh_frame() {
    let file = program("damaged", &["-O2"]);
    SEEDS.iter().for_each(|&seed| check(&file, 1500, seed));
}

#[test]
fn damaged_eh_frame_without_search_table() {
    let file = program("damaged-no-header", &["-O2", "-Wl,--no-eh-frame-hdr"]);
    SEEDS.iter().for_each(|&seed| check(&file, 1500, seed));
}

#[test]
fn damaged_debug_frame() {
    let file = program("damaged-debug", &["-O2", "-g", "-fno-asynchronous-unwind-tables"]);
    SEEDS.iter().for_each(|&seed| check(&file, 1500, seed));
    let file = program("damaged-zip", &["-O2", "-g", "-gz", "-fno-asynchronous-unwind-tables"]);
    check(&file, 500, 1);
}

/// A segment of code that is said to be as large as memory: neither searching it nor making its table takes
/// longer than its bytes explain.
#[test]
fn code_that_is_said_to_be_endless() {
    let mut file = program("endless", &["-O2", "-Wl,-z,noseparate-code"]);
    let parsed = object::File::parse(&*file).unwrap();
    let table = parsed.section_by_name(".eh_frame").unwrap().file_range().unwrap();
    let headers = u64::from_le_bytes(file[0x20..0x28].try_into().unwrap()) as usize;
    let count = usize::from(u16::from_le_bytes(file[0x38..0x3a].try_into().unwrap()));
    for at in (0..count).map(|number| headers + 56 * number) {
        let header = &mut file[at..at + 56];
        if header[0] == 1 && header[4] & 1 != 0 {
            header[0x20..0x28].copy_from_slice(&(u64::MAX / 2).to_le_bytes());
            header[0x28..0x30].copy_from_slice(&(u64::MAX / 2).to_le_bytes());
        }
    }
    file[table.0 as usize..(table.0 + table.1) as usize].fill(0);
    // No sections, which say better where code is: e_shoff, e_shentsize, e_shnum, e_shstrndx.
    file[0x28..0x30].fill(0);
    file[0x3a..0x40].fill(0);
    let len = file.len();
    let info = UnwindInfo::from_bytes(file).unwrap();
    assert!(info.table().rows.len() < len);
    let mut unwinder = Unwinder::new(Arch::X86_64);
    unwind(info, &mut unwinder, &mut StdRng::seed_from_u64(1));
}
