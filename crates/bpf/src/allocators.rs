//! Functions of a C library that allocate memory, with their offsets in its file.

use std::path::Path;

use object::{ObjectSymbol, Symbol};
use pyrograph_elf::{Error as ElfError, Image, Segment};
use pyrograph_unwind::{Arch, cheapest_breakpoint};

use crate::error::{Error, Reason};

/// Functions that allocate memory, with their numbers in `enum allocation`. `reallocarray` is not among them: in every
/// library it calls `realloc`, by a jump in most.
const ALLOCATIONS: [(&str, u64); 8] = [
    ("malloc", 0),
    ("calloc", 1),
    ("realloc", 2),
    ("posix_memalign", 3),
    ("aligned_alloc", 4),
    ("memalign", 4),
    ("valloc", 5),
    ("pvalloc", 5),
];

/// A function that allocates memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocator {
    /// File offset at which a breakpoint for its calls is cheapest ([`cheapest_breakpoint`]).
    pub offset: u64,
    /// Cookie of the program that is attached there. It encodes the function, the distance of that place from the start
    /// of the library's code, and the size of that code.
    pub cookie: u64,
}

/// Finds the functions of a file that allocate memory, each once: one address may have several names.
///
/// # Errors
///
/// If the file cannot be read, or has no `malloc`.
pub fn allocators(path: &Path) -> Result<Vec<Allocator>, Error> {
    let failed = |reason: Reason| Error::Function {
        path: path.to_owned(),
        function: "malloc".to_owned(),
        reason,
    };
    let image = Image::open(path).map_err(|error| match error {
        ElfError::Map(error) => failed(Reason::of(&error)),
        error => failed(Reason::of(&error)),
    })?;
    let is_text = |segment: &&Segment| segment.executable;
    let mut found: Vec<Allocator> = Vec::new();
    let mut has_malloc = false;
    for symbol in image.functions().filter(|symbol| symbol.is_global()) {
        let Ok(name) = symbol.name() else { continue };
        // A version may follow the name.
        let name = name.split('@').next().unwrap_or(name);
        let function = ALLOCATIONS.iter().find(|(known, _)| *known == name);
        let text = image.segments().iter().filter(is_text).find(|text| {
            symbol.address().checked_sub(text.address).is_some_and(|distance| distance < text.size)
        });
        let (Some((_, function)), Some(text)) = (function, text) else { continue };
        let distance = symbol.address() - text.address + cheapest_place(&image, &symbol);
        let offset = text.file_offset.saturating_add(distance);
        has_malloc |= *function == 0;
        if found.iter().all(|known| known.offset != offset) {
            found.push(Allocator { offset, cookie: cookie(*function, distance, text.size) });
        }
    }
    match has_malloc {
        true => Ok(found),
        false => {
            Err(failed("it has no function of this name in its symbol tables".to_owned().into()))
        }
    }
}

/// Distance from the start of a function to the place at which a breakpoint for its calls is cheapest, in bytes; 0 if
/// the file has several functions of the name with different distances. A version after the name is ignored.
pub fn cheapest_place_of(path: &Path, name: &str) -> usize {
    let Ok(image) = Image::open(path) else { return 0 };
    let functions = image.functions_named(name);
    let mut places = functions.map(|symbol| cheapest_place(&image, &symbol));
    match places.next() {
        Some(first) if places.all(|place| place == first) => usize::try_from(first).unwrap_or(0),
        _ => 0,
    }
}

/// Distance from a function's start to the place at which a breakpoint for its calls is cheapest, in bytes.
fn cheapest_place(image: &Image, symbol: &Symbol<'_, '_>) -> u64 {
    cheapest_breakpoint(Arch::X86_64, image.code_of(symbol).unwrap_or_default()) as u64
}

/// Number of bits of a distance or size in a cookie.
const DISTANCE_BITS: u32 = 28;

/// Encodes a cookie: the function's number in the lower 8 bits, above it the distance from the start of the code and
/// the code's size, 28 bits each.
fn cookie(function: u64, distance: u64, size: u64) -> u64 {
    let most = (1 << DISTANCE_BITS) - 1;
    function | distance.min(most) << 8 | size.min(most) << (8 + DISTANCE_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_is_found_once_whatever_its_names() {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("its own mappings");
        let libc = maps.lines().find_map(|line| {
            let path = &line[line.find('/')?..];
            path.contains("libc.so").then_some(path)
        });
        let Some(libc) = libc else {
            eprintln!("skipped: this test has no C library of its own file");
            return;
        };
        let found = allocators(Path::new(libc)).expect("it has malloc");
        let mut offsets: Vec<u64> = found.iter().map(|function| function.offset).collect();
        offsets.sort_unstable();
        offsets.dedup();
        assert_eq!(offsets.len(), found.len());
        for function in 0..=5 {
            assert!(found.iter().any(|one| one.cookie & 0xff == function), "{function}: {found:?}");
        }
        for Allocator { cookie, .. } in found {
            let distance = cookie >> 8 & ((1 << DISTANCE_BITS) - 1);
            assert!(distance < cookie >> (8 + DISTANCE_BITS));
        }
    }

    #[test]
    fn a_file_without_malloc_is_an_error() {
        assert!(allocators(Path::new("/nonexistent")).is_err());
        assert!(allocators(Path::new("/dev/null")).is_err());
    }
}
