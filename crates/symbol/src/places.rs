//! Locations in a program where probes can be attached: its functions, and its static probes (USDT).

use object::elf::NoteType;
use object::read::elf::{ElfFile, FileHeader, SectionHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol};
use pyrograph_elf::Image;

/// A static probe that was compiled into a program (`sys/sdt.h`, "USDT").
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StaticProbe {
    /// Provider of the probe: most often the program's name.
    pub provider: String,
    /// Name of the probe. A program may have several probes of one name.
    pub name: String,
    /// File offset of the probe's instruction.
    pub offset: u64,
    /// File offset of the probe's semaphore, a counter: the program skips the probe while it is 0. 0 if the probe
    /// has no semaphore.
    pub semaphore: u64,
    /// Where its arguments are, separated by blanks: `-4@%edi 8@16(%rsp) 8@$5`. Each has its size in bytes, negative if it is
    /// signed, and an operand of the assembler.
    pub arguments: String,
}

/// Returns the static probes of a file, sorted.
pub fn static_probes(image: &Image) -> Vec<StaticProbe> {
    let mut probes = match image.elf() {
        object::File::Elf64(elf) => notes(image, elf),
        object::File::Elf32(elf) => notes(image, elf),
        _ => Vec::new(),
    };
    probes.sort();
    probes.dedup();
    probes
}

/// Returns the names of all functions in a file's symbol tables, unchanged, sorted and without duplicates.
pub fn function_names(image: &Image) -> Vec<&str> {
    let mut names: Vec<_> = image.functions().filter_map(|symbol| symbol.name().ok()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the code of each function with this name. A symbol version after the name is ignored.
pub fn function_code<'a>(image: &'a Image, name: &'a str) -> Vec<&'a [u8]> {
    let functions = image.functions_named(name);
    let mut code: Vec<_> = functions.filter_map(|symbol| image.code_of(&symbol)).collect();
    code.sort_unstable();
    code.dedup();
    code
}

/// Reads the notes that `sys/sdt.h` emits: addresses of the probe, of `.stapsdt.base` at link time, and of the
/// semaphore; then provider, name and arguments, each terminated by a zero byte.
fn notes<Elf: FileHeader<Endian = Endianness>>(
    image: &Image,
    file: &ElfFile<'_, Elf>,
) -> Vec<StaticProbe> {
    /// Type of these notes (`_SDT_NOTE_TYPE`).
    const PROBE: NoteType = NoteType(3);
    let endian = file.endian();
    let word = if file.is_64() { 8 } else { 4 };
    let base = file.section_by_name(".stapsdt.base").map(|section| section.address());
    let probe = |desc: &[u8]| {
        let mut words = desc.chunks_exact(word).map(|bytes| number(bytes, endian));
        let (at, linked, semaphore) = (words.next()?, words.next()?, words.next()?);
        let mut texts = desc.get(3 * word..)?.split(|byte| *byte == 0);
        let mut text = || Some(String::from_utf8_lossy(texts.next()?).into_owned());
        // A prelinker may have moved the program.
        let moved = base.map_or(0, |base| base.wrapping_sub(linked));
        let semaphore = match semaphore {
            0 => 0,
            address => image.offset_of(address.wrapping_add(moved))?,
        };
        let (provider, name) = (text()?, text()?);
        let arguments = text().unwrap_or_default();
        let offset = image.offset_of(at.wrapping_add(moved))?;
        Some(StaticProbe { provider, name, offset, semaphore, arguments })
    };
    let section = file.elf_section_table().section_by_name(endian, b".note.stapsdt");
    let Some((_, section)) = section else { return Vec::new() };
    let Ok(Some(mut notes)) = section.notes(endian, file.data()) else { return Vec::new() };
    let mut probes = Vec::new();
    while let Ok(Some(note)) = notes.next() {
        if note.n_type(endian) == PROBE && note.name() == b"stapsdt" {
            probes.extend(probe(note.desc()));
        }
    }
    probes
}

fn number(bytes: &[u8], endian: Endianness) -> u64 {
    let little = bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    match (endian, bytes.len()) {
        (Endianness::Little, _) => little,
        (Endianness::Big, 4) => little.swap_bytes() >> 32,
        (Endianness::Big, _) => little.swap_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_functions_and_no_probes() {
        let path = std::env::current_exe().expect("a path");
        let image = Image::open(&path).expect("it is an ELF file");
        assert!(function_names(&image).contains(&"main"));
        assert_eq!(static_probes(&image), []);
    }
}
