//! Places in a program where one may listen: its functions, and the probes that its authors put into it.

use std::fs::File;
use std::path::Path;

use memmap2::Mmap;
use object::elf::{FileHeader32, FileHeader64, NoteType, PT_LOAD};
use object::read::elf::{ElfFile, FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, SymbolKind};

use crate::module::Error;

/// A probe that was compiled into a program (`sys/sdt.h`, "USDT").
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StaticProbe {
    /// Whose it is, most often the program's.
    pub provider: String,
    /// Its name. A program may have several of one name.
    pub name: String,
    /// Where its instruction is in the file.
    pub offset: u64,
    /// Where the file has its counter: the program skips the probe while it is 0. 0: nowhere.
    pub semaphore: u64,
}

/// The probes of a file, in order.
///
/// # Errors
///
/// If it cannot be read, or is no ELF file.
pub fn static_probes(path: &Path) -> Result<Vec<StaticProbe>, Error> {
    let map = open(path)?;
    let mut probes = match object::File::parse(&map[..]).map_err(|error| bad(path, &error))? {
        object::File::Elf64(elf) => notes::<FileHeader64<Endianness>>(&elf),
        object::File::Elf32(elf) => notes::<FileHeader32<Endianness>>(&elf),
        _ => Vec::new(),
    };
    probes.sort();
    probes.dedup();
    Ok(probes)
}

/// The names of all functions in a file's symbol tables, as they stand there.
///
/// # Errors
///
/// If it cannot be read, or is no ELF file.
pub fn function_names(path: &Path) -> Result<Vec<String>, Error> {
    let map = open(path)?;
    let file = object::File::parse(&map[..]).map_err(|error| bad(path, &error))?;
    let functions = file.symbols().chain(file.dynamic_symbols());
    let mut names: Vec<String> = functions
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
        .filter_map(|symbol| Some(symbol.name().ok()?.to_owned()))
        .collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// The code of each function with this name, from its start to its end; a version behind the name does not count.
///
/// # Errors
///
/// If the file cannot be read, or is no ELF file.
pub fn function_code(path: &Path, name: &str) -> Result<Vec<Vec<u8>>, Error> {
    let map = open(path)?;
    let file = object::File::parse(&map[..]).map_err(|error| bad(path, &error))?;
    let plain = name.split('@').next().unwrap_or(name);
    let functions = file.symbols().chain(file.dynamic_symbols()).filter(|symbol| {
        let is_it = symbol.name().is_ok_and(|known| known == name || known == plain);
        is_it && symbol.kind() == SymbolKind::Text && symbol.is_definition()
    });
    let code = functions.filter_map(|symbol| {
        let section = file.section_by_index(symbol.section_index()?).ok()?;
        let code = section.data_range(symbol.address(), symbol.size()).ok()??;
        Some(code.to_vec())
    });
    let mut code: Vec<_> = code.collect();
    code.sort();
    code.dedup();
    Ok(code)
}

fn open(path: &Path) -> Result<Mmap, Error> {
    let map = |error| Error::Map { path: path.to_owned(), error };
    let file = File::open(path).map_err(map)?;
    // SAFETY: whoever changes the file meanwhile changes what is read; any bytes will do.
    unsafe { Mmap::map(&file) }.map_err(map)
}

fn bad(path: &Path, error: &object::Error) -> Error {
    Error::Elf { path: path.to_owned(), reason: error.to_string() }
}

/// Reads the notes that `sys/sdt.h` makes: addresses of the probe, of `.stapsdt.base` when it was linked
/// and of the counter, then the provider, the name and the arguments, each with a zero behind it.
fn notes<Elf: FileHeader<Endian = Endianness>>(file: &ElfFile<'_, Elf>) -> Vec<StaticProbe> {
    /// The type of such a note (`_SDT_NOTE_TYPE`).
    const PROBE: NoteType = NoteType(3);
    let endian = file.endian();
    let word = if file.is_64() { 8 } else { 4 };
    let base = file.section_by_name(".stapsdt.base").map(|section| section.address());
    let offset = |address: u64| {
        let segments = file.elf_program_headers().iter();
        let mut loaded = segments.filter(|segment| segment.p_type(endian) == PT_LOAD);
        loaded.find_map(|segment| {
            let distance = address.checked_sub(segment.p_vaddr(endian).into())?;
            let inside = distance < segment.p_filesz(endian).into();
            inside.then(|| distance.checked_add(segment.p_offset(endian).into()))?
        })
    };
    let probe = |desc: &[u8]| {
        let mut words = desc.chunks_exact(word).map(|bytes| number(bytes, endian));
        let (at, linked, semaphore) = (words.next()?, words.next()?, words.next()?);
        let mut texts = desc.get(3 * word..)?.split(|byte| *byte == 0);
        let mut text = || Some(String::from_utf8_lossy(texts.next()?).into_owned());
        // Who links a program before it runs may have moved it.
        let moved = base.map_or(0, |base| base.wrapping_sub(linked));
        let semaphore = match semaphore {
            0 => 0,
            address => offset(address.wrapping_add(moved))?,
        };
        let (provider, name) = (text()?, text()?);
        Some(StaticProbe { provider, name, offset: offset(at.wrapping_add(moved))?, semaphore })
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
        let names = function_names(&path).expect("it is an ELF file");
        assert!(names.iter().any(|name| name == "main"));
        assert_eq!(static_probes(&path).expect("it is an ELF file"), []);
        assert!(function_names(Path::new("/dev/null")).is_err());
        assert!(static_probes(Path::new("/nonexistent")).is_err());
    }
}
