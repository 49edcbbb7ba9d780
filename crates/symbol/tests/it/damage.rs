//! Damaged files: whatever is in them, no panic, no endless loop, no memory without bound.

use std::sync::LazyLock;

use crate::common::{build, options};
use proptest::prelude::*;
use pyrograph_symbol::{Module, Source};

/// Programs with all that is read: symbol tables, stubs, DWARF 4 and 5, mini debug information.
static SAMPLES: LazyLock<Vec<(Vec<u8>, Vec<u64>)>> = LazyLock::new(|| {
    let mini = {
        let program = build("gcc", "calls.c", &["-O2"]);
        let elf = std::fs::read(&program.path).unwrap();
        let mut packed = Vec::new();
        std::io::Read::read_to_end(&mut liblzma::read::XzEncoder::new(&elf[..], 1), &mut packed)
            .unwrap();
        std::fs::write(program.dir.path().join("mini.xz"), packed).unwrap();
        program.objcopy(&["--strip-all", "--add-section=.gnu_debugdata=mini.xz"]);
        program
    };
    let programs = [
        build("gcc", "calls.c", &["-O2", "-g", "-Wl,-z,lazy"]),
        build("g++", "calls.cc", &["-O2", "-gdwarf-4", "-Wl,-z,lazy"]),
        mini,
    ];
    let sample = |program: &crate::common::Program| {
        let mut addresses: Vec<u64> = program.symbols.values().copied().collect();
        // Stubs and code without symbols.
        addresses.extend((0x1000..0x1400).step_by(8));
        (std::fs::read(&program.path).unwrap(), addresses)
    };
    programs.iter().map(sample).collect()
});

fn symbolize(bytes: Vec<u8>, addresses: &[u64]) {
    let source = Source { path: "/no/such/file", ..Source::default() };
    if let Ok(module) = Module::from_bytes(bytes, source) {
        let result = module.symbolize(addresses, &options());
        assert_eq!(result.addresses.len(), addresses.len());
        let _ = module.file_offset_to_address(addresses[0]);
    }
}

/// Where in a file the parts are that lead the reader: damage there does most.
fn sections(bytes: &[u8]) -> Vec<(usize, usize)> {
    use object::{Object, ObjectSection};
    let elf = object::File::parse(bytes).unwrap();
    let mut ranges: Vec<(usize, usize)> = elf
        .sections()
        .filter(|section| {
            let name = section.name().unwrap_or("");
            [".debug", ".sym", ".dyn", ".plt", ".rela", ".gnu_debug", ".note", ".eh_frame"]
                .iter()
                .any(|start| name.starts_with(start))
        })
        .filter_map(|section| section.file_range())
        .map(|(offset, size)| (offset as usize, size as usize))
        .filter(|&(_, size)| size > 0)
        .collect();
    ranges.push((0, 64)); // the ELF header
    ranges.push((bytes.len() - 2048, 2048)); // the section table
    ranges
}

#[test]
fn functions_in_front_of_their_unwind_section_were_a_panic() {
    use object::{Object, ObjectSection};
    let (mut bytes, addresses) = SAMPLES[0].clone();
    let elf = object::File::parse(&*bytes).unwrap();
    let header = elf.section_by_name(".eh_frame_hdr").expect("it has one");
    let (at, _) = header.file_range().expect("it is in the file");
    // Where the section is that the table's entries are in, from here on: far behind them.
    let at = at as usize + 4;
    bytes[at..at + 4].copy_from_slice(&i32::MAX.to_le_bytes());
    symbolize(bytes, &addresses);
}

#[test]
fn more_functions_than_fit_an_unwind_table_were_a_panic() {
    use object::{Object, ObjectSection};
    let (mut bytes, addresses) = SAMPLES[0].clone();
    let elf = object::File::parse(&*bytes).unwrap();
    let header = elf.section_by_name(".eh_frame_hdr").expect("it has one");
    let at = header.file_range().expect("it is in the file").0 as usize;
    // The number of functions, in 8 bytes.
    bytes[at + 2] = 4;
    bytes[at + 8..at + 16].fill(0xff);
    symbolize(bytes, &addresses);
}

proptest! {
    #[test]
    fn changed_bytes(
        sample in 0..3_usize,
        changes in prop::collection::vec((any::<u16>(), any::<u32>(), any::<u8>()), 1..20),
    ) {
        let (mut bytes, addresses) = SAMPLES[sample].clone();
        let sections = sections(&bytes);
        for (section, at, value) in changes {
            let (offset, size) = sections[usize::from(section) % sections.len()];
            bytes[offset + at as usize % size] = value;
        }
        symbolize(bytes, &addresses);
    }

    #[test]
    fn cut_short(sample in 0..3_usize, part in 0..1000_usize) {
        let (mut bytes, addresses) = SAMPLES[sample].clone();
        bytes.truncate(bytes.len() * part / 1000);
        symbolize(bytes, &addresses);
    }

    #[test]
    fn a_section_of_noise(
        sample in 0..3_usize,
        section in any::<u16>(),
        noise in prop::collection::vec(any::<u8>(), 1..4096),
    ) {
        let (mut bytes, addresses) = SAMPLES[sample].clone();
        let sections = sections(&bytes);
        let (offset, size) = sections[usize::from(section) % sections.len()];
        for (byte, noise) in bytes[offset..offset + size].iter_mut().zip(noise.iter().cycle()) {
            *byte = *noise;
        }
        symbolize(bytes, &addresses);
    }
}

#[test]
fn the_samples_are_sound() {
    for (bytes, addresses) in &*SAMPLES {
        let source = Source { path: "/no/such/file", ..Source::default() };
        let module = Module::from_bytes(bytes.clone(), source).unwrap();
        let found = module.symbolize(addresses, &options());
        assert!(found.addresses.iter().any(|a| a.frames.iter().any(|f| &*f.function == "main")));
        assert!(
            found.addresses.iter().any(|a| a.frames.iter().any(|f| f.function.ends_with("@plt")))
        );
    }
}
