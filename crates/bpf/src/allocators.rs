//! Functions of a C library or another allocator that allocate and free memory, with their offsets in its file.

use std::path::Path;

use object::{ObjectSymbol, Symbol};
use pyrograph_elf::{Error as ElfError, Image, Segment};
use pyrograph_unwind::{Arch, cheapest_breakpoint};

use crate::error::{Error, Reason};

/// Functions of the C library that allocate memory, with their numbers in `enum allocation`. `reallocarray` is not among
/// them: it calls `realloc`, by a jump in most libraries.
const ALLOCATIONS: [(&str, u64); 8] = [
    ("malloc", MALLOC),
    ("calloc", 1),
    ("realloc", 2),
    ("posix_memalign", 3),
    ("aligned_alloc", 4),
    ("memalign", 4),
    ("valloc", 5),
    ("pvalloc", 5),
];

/// Functions that only jemalloc has.
const JEMALLOC: [(&str, u64); 2] = [("mallocx", 0), ("rallocx", 2)];

/// Functions that only mimalloc has, after its prefix. Those with the size first are 5 where they may call another.
const MIMALLOC: [(&str, u64); 21] = [
    ("zalloc", 0),
    ("malloc_small", 0),
    ("zalloc_small", 0),
    ("mallocn", 1),
    ("calloc_aligned", 1),
    ("new_n", 1),
    ("rezalloc", 2),
    ("reallocf", 2),
    ("realloc_aligned", 2),
    ("rezalloc_aligned", 2),
    ("new_realloc", 2),
    ("malloc_aligned", 5),
    ("zalloc_aligned", 5),
    ("new", 5),
    ("new_nothrow", 5),
    ("new_aligned", 5),
    ("new_aligned_nothrow", 5),
    ("reallocn", 6),
    ("reallocarray", 6),
    ("recalloc", 6),
    ("new_reallocn", 6),
];

/// C++'s operators `new`, which need not call `malloc`, with the endings that they may have: arrays, `nothrow`, alignment.
/// Other endings are placements.
const NEW: [&str; 2] = ["_Znwm", "_Znam"];
const NEW_ENDINGS: [&str; 4] =
    ["", "RKSt9nothrow_t", "St11align_val_t", "St11align_val_tRKSt9nothrow_t"];
/// Number of `malloc` in `enum allocation`.
const MALLOC: u64 = 0;
/// Number of an operator `new` in `enum allocation`.
const BY_ANOTHER: u64 = 5;
/// Flag beside a function's number: it may call a function of another file.
const PASSES_ON: u64 = 0x80;

/// C++'s operators `delete`, with or without a size.
const DELETE: [&str; 4] = ["_ZdlPvm", "_ZdaPvm", "_ZdlPv", "_ZdaPv"];

/// Functions that free memory, of the C library, jemalloc and mimalloc.
const FREES: [&str; 6] =
    ["free", "dallocx", "sdallocx", "free_size", "free_aligned", "free_size_aligned"];

/// Prefixes of allocators that a program has beside the C library's: jemalloc's in Rust programs and by itself (Redis),
/// mimalloc's.
const PREFIXES: [&str; 3] = ["_rjem_", "je_", "mi_"];

/// Role of a function in memory allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Allocates it, with this number in `enum allocation`.
    Gives(u64),
    Frees,
}

/// Role of a function by its name, and whether it has the prefix of an allocator.
fn role_of(name: &str) -> Option<(Role, bool)> {
    // A version may follow the name.
    let name = name.split('@').next().unwrap_or(name);
    let ending_of = |starts: &[&str]| starts.iter().find_map(|start| name.strip_prefix(start));
    let is_operator =
        |starts: &[&str]| ending_of(starts).is_some_and(|ending| NEW_ENDINGS.contains(&ending));
    if is_operator(&NEW) {
        return Some((Role::Gives(BY_ANOTHER), false));
    }
    if is_operator(&DELETE) {
        return Some((Role::Frees, false));
    }
    let stripped = |prefix: &&'static str| Some((*prefix, name.strip_prefix(*prefix)?));
    let (prefix, base) = PREFIXES.iter().find_map(stripped).unwrap_or(("", name));
    let is_prefixed = !prefix.is_empty();
    if FREES.contains(&base) {
        return Some((Role::Frees, is_prefixed));
    }
    let others = if prefix == "mi_" { &MIMALLOC[..] } else { &JEMALLOC };
    let (_, number) = ALLOCATIONS.iter().chain(others).find(|(known, _)| *known == base)?;
    Some((Role::Gives(*number), is_prefixed))
}

/// A function that allocates memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocator {
    /// File offset at which a breakpoint for its calls is cheapest ([`cheapest_breakpoint`]).
    pub offset: u64,
    /// Cookie of the program that is attached there. It encodes the function, the distance of that place from the start
    /// of the library's code, and the size of that code.
    pub cookie: u64,
}

/// The functions of a file that allocate and free memory, each once: one address may have several names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocators {
    /// Functions that allocate memory.
    pub gives: Vec<Allocator>,
    /// File offsets at which breakpoints for the calls of functions that free memory are cheapest.
    pub frees: Vec<u64>,
}

/// Which functions of a file are called for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// All: `malloc` is called in this file.
    All,
    /// All if the file has a `malloc` that other files may call, otherwise as for `Prefixed`.
    AllIfMalloc,
    /// Those with the prefix of an allocator (`_rjem_malloc`, `mi_malloc`): `malloc` is called in another file.
    Prefixed,
}

/// Finds the functions of a file that allocate and free memory.
///
/// # Errors
///
/// If the file cannot be read, or has no `malloc` where all names are asked for.
pub fn allocators(path: &Path, names: Names) -> Result<Allocators, Error> {
    let failed = |reason: Reason| Error::Function {
        path: path.to_owned(),
        function: "malloc".to_owned(),
        reason,
    };
    let image = Image::open(path).map_err(|error| match error {
        ElfError::Map(error) => failed(Reason::of(&error)),
        error => failed(Reason::of(&error)),
    })?;
    let mut places: Vec<Place> = Vec::new();
    let mut is_c_library = false;
    for symbol in image.functions() {
        let Ok(name) = symbol.name() else { continue };
        is_c_library |= name.starts_with(START);
        let Some((role, is_prefixed)) = role_of(name) else { continue };
        // One that only this file can call is another with that name.
        if !is_prefixed && (names == Names::Prefixed || !symbol.is_global()) {
            continue;
        }
        places.extend(Place::of(&image, &symbol, role, is_prefixed));
    }
    let is_malloc = |place: &Place| place.role == Role::Gives(MALLOC) && !place.is_prefixed;
    if !places.iter().any(is_malloc) {
        if names == Names::All {
            let reason = "it has no function of this name in its symbol tables";
            return Err(failed(reason.to_owned().into()));
        }
        places.retain(|place| place.is_prefixed);
    }
    // A library may pass calls on to the C library, as those of memory debuggers do.
    let passes_on = !is_c_library && image.linked().interpreter.is_none();
    Ok(each_once(&places, passes_on))
}

/// Start of the name of the C library's function that starts programs, in glibc and musl.
const START: &str = "__libc_start_main";

/// A function of a file that allocates or frees memory.
struct Place {
    role: Role,
    is_prefixed: bool,
    /// File offset at which a breakpoint for its calls is cheapest.
    offset: u64,
    /// Distance of that place from the start of the file's code.
    distance: u64,
    /// Size of that code.
    text_size: u64,
}

impl Place {
    /// Returns none if the function is not in the file's code.
    fn of(image: &Image, symbol: &Symbol<'_, '_>, role: Role, is_prefixed: bool) -> Option<Self> {
        let mut texts = image.segments().iter().filter(|segment| segment.executable);
        let is_in = |text: &&Segment| {
            symbol.address().checked_sub(text.address).is_some_and(|distance| distance < text.size)
        };
        let text = texts.find(is_in)?;
        let distance = symbol.address() - text.address + cheapest_place(image, symbol);
        let offset = text.file_offset.saturating_add(distance);
        Some(Self { role, is_prefixed, offset, distance, text_size: text.size })
    }
}

/// Returns the functions of a file, each once. `passes_on`: those without a prefix may call those of another file.
fn each_once(places: &[Place], passes_on: bool) -> Allocators {
    let mut found = Allocators::default();
    for Place { role, is_prefixed, offset, distance, text_size } in places {
        match role {
            Role::Frees if !found.frees.contains(offset) => found.frees.push(*offset),
            Role::Gives(number) if found.gives.iter().all(|known| known.offset != *offset) => {
                let flag = if passes_on && !is_prefixed { PASSES_ON } else { 0 };
                let cookie = cookie(number | flag, *distance, *text_size);
                found.gives.push(Allocator { offset: *offset, cookie });
            }
            _ => {}
        }
    }
    found
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

/// Encodes a cookie: the function's number and flag in the lower 8 bits, above it the distance from the start of the code and
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
        let Allocators { gives: found, frees } =
            allocators(Path::new(libc), Names::All).expect("it has malloc");
        assert_eq!(frees.len(), 1);
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
        assert!(allocators(Path::new("/nonexistent"), Names::All).is_err());
        assert!(allocators(Path::new("/dev/null"), Names::All).is_err());
    }

    #[test]
    fn allocators_of_their_own_have_prefixes() {
        let gives = |number, is_prefixed| Some((Role::Gives(number), is_prefixed));
        assert_eq!(role_of("malloc"), gives(0, false));
        assert_eq!(role_of("realloc@@GLIBC_2.2.5"), gives(2, false));
        assert_eq!(role_of("_rjem_mallocx"), gives(0, true));
        assert_eq!(role_of("je_aligned_alloc"), gives(4, true));
        assert_eq!(role_of("mi_malloc_aligned"), gives(5, true));
        assert_eq!(role_of("mi_reallocarray"), gives(6, true));
        assert_eq!(role_of("_ZnwmSt11align_val_t"), gives(5, false));
        assert_eq!(role_of("_ZdaPvmSt11align_val_t"), Some((Role::Frees, false)));
        assert_eq!(role_of("_rjem_sdallocx"), Some((Role::Frees, true)));
        for other in ["_ZnwmPv", "_ZdlPvS_", "new", "malloc_aligned", "reallocarray", "xmalloc"] {
            assert_eq!(role_of(other), None, "{other}");
        }
    }
}
