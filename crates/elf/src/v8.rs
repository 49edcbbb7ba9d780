//! V8's builtins in a file: code of V8's own compiler, in one piece. Where a file has their symbols, these say where and what
//! they are. In libraries whose symbols are stripped, as those of distributions are, V8's own tables do
//! (`src/snapshot/embedded/embedded-data.h`, `src/builtins/builtins.cc` of V8), which exported functions lead to.

use std::collections::HashSet;
use std::ops::Range;

use memchr::memmem;
use object::{Object, ObjectSection, ObjectSymbol};

use crate::{Image, Loaded};

/// How many bytes of code there are, as a number in the file.
const SIZE: &str = "v8_Default_embedded_blob_code_size_";
/// The code's first byte; in old versions a pointer to that, beside a symbol with the second name.
const CODE: &str = "v8_Default_embedded_blob_code_";
const OLD_CODE: &str = "v8_Default_embedded_blob_code_data_";

/// Functions that return the address of the code, its size, and the address of its table; and one that returns a builtin's name.
const CODE_OF: &str = "_ZN2v88internal23DefaultEmbeddedBlobCodeEv";
const SIZE_OF: &str = "_ZN2v88internal27DefaultEmbeddedBlobCodeSizeEv";
const TABLE_OF: &str = "_ZN2v88internal23DefaultEmbeddedBlobDataEv";
const NAME_OF: &str = "_ZN2v88internal8Builtins4nameENS0_7BuiltinE";

/// There are about two thousand.
const MOST: u64 = 1 << 13;
/// The bytes of a name and what else is known of a builtin: `BuiltinMetadata`.
const NAME_BYTES: u64 = 24;

/// The addresses of the builtins' code; `None` if the file has none, or it cannot be found.
pub fn code(image: &Image) -> Option<Range<u64>> {
    by_symbols(image).or_else(|| by_functions(&Exported::of(image)?))
}

/// The builtins' ranges of addresses by V8's tables, each with the name that its symbol has where there are symbols
/// (`Builtins_ArrayMap`); `None` if the file has none, or does not export what leads to the tables.
pub fn builtins(image: &Image) -> Option<Vec<(Range<u64>, String)>> {
    let exported = Exported::of(image)?;
    let code = by_functions(&exported)?;
    let table = exported.returned(TABLE_OF)?;
    let names = names(&exported)?;
    let places = places(&exported.loaded, table, code.end - code.start, names.len())?;
    let builtin = |(name, (start, len)): (&str, (u64, u64))| {
        let start = code.start.wrapping_add(start);
        (start..start.wrapping_add(len), format!("Builtins_{name}"))
    };
    Some(names.into_iter().zip(places).map(builtin).collect())
}

fn by_symbols(image: &Image) -> Option<Range<u64>> {
    // Few files have them: their bytes are compared, before all symbols are.
    let names = image.elf().section_by_name(".strtab")?.data().ok()?;
    memmem::find(names, SIZE.as_bytes())?;
    let (mut size, mut code, mut old_code) = (None, None, None);
    for symbol in image.elf().symbols() {
        match symbol.name() {
            Ok(SIZE) => size = Some(symbol.address()),
            Ok(CODE) => code = Some(symbol.address()),
            Ok(OLD_CODE) => old_code = Some(symbol.address()),
            _ => {}
        }
    }
    let start = old_code.or(code)?;
    let size = image.bytes_at(size?, 4)?.first_chunk().map(|size| u32::from_le_bytes(*size))?;
    Some(start..start.checked_add(size.into())?)
}

fn by_functions(exported: &Exported<'_>) -> Option<Range<u64>> {
    let (start, size) = (exported.returned(CODE_OF)?, exported.returned(SIZE_OF)?);
    Some(start..start.checked_add(size & 0xffff_ffff)?)
}

/// A file that exports V8's functions.
struct Exported<'a> {
    image: &'a Image,
    loaded: Loaded<'a>,
}

impl<'a> Exported<'a> {
    fn of(image: &'a Image) -> Option<Self> {
        let names = image.elf().section_by_name(".dynstr")?.data().ok()?;
        memmem::find(names, CODE_OF.as_bytes())?;
        Some(Self { image, loaded: Loaded::new(image) })
    }

    fn address(&self, name: &str) -> Option<u64> {
        let mut symbols = self.image.elf().dynamic_symbols();
        let symbol = symbols.find(|symbol| symbol.is_definition() && symbol.name() == Ok(name))?;
        Some(symbol.address())
    }

    fn returned(&self, name: &str) -> Option<u64> {
        self.loaded.returned(self.address(name)?)
    }
}

/// The names of builtins, in the order of their numbers.
fn names<'a>(exported: &Exported<'a>) -> Option<Vec<&'a str>> {
    let function = exported.address(NAME_OF)?;
    let code = exported.image.first_bytes(function, 32)?;
    // lea REGISTER,[rip+distance], or mov rax,[rax*8+table] in a program that is loaded where it was linked for.
    let is_lea = |bytes: &[u8]| bytes[..2] == [0x48, 0x8d] && bytes[2] & 0xc7 == 5;
    let is_mov = |bytes: &[u8]| bytes[..4] == [0x48, 0x8b, 0x04, 0xc5];
    let number = |at: usize| code.get(at..)?.first_chunk().map(|bytes| i32::from_le_bytes(*bytes));
    let table = match code.windows(7).position(is_lea) {
        Some(at) => {
            function.wrapping_add(at as u64 + 7).wrapping_add_signed(number(at + 3)?.into())
        }
        None => u64::from(number(code.windows(8).position(is_mov)? + 4)?.cast_unsigned()),
    };
    let loaded = &exported.loaded;
    let name = |index: u64| {
        let text = loaded.text(loaded.word(table.wrapping_add(index * NAME_BYTES))?)?;
        let is_name = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
        (!text.is_empty() && text.bytes().all(is_name)).then_some(text)
    };
    let names: Vec<&str> = (0..MOST).map_while(name).collect();
    names.contains(&"InterpreterEntryTrampoline").then_some(names)
}

/// Where in the code each builtin begins, and how many bytes it has: the first two numbers of each row of a table behind some
/// hashes. How many these are, and what else is in a row, differs by version: it is what makes sense for all builtins.
fn places(
    loaded: &Loaded<'_>,
    table: u64,
    code_size: u64,
    count: usize,
) -> Option<Vec<(u64, u64)>> {
    const ALIGNMENT: u64 = 32;
    let with = |first: u64, bytes: u64| -> Option<Vec<(u64, u64)>> {
        let mut starts = HashSet::new();
        let place = |index: u64| {
            let row = loaded.word(table.wrapping_add(first + index * bytes))?;
            let (start, len) = (row & 0xffff_ffff, row >> 32);
            let fits = start % ALIGNMENT == 0 && len > 0 && start + len <= code_size;
            (fits && starts.insert(start)).then_some((start, len))
        };
        (0..count as u64).map(place).collect()
    };
    let firsts = (8..=40).step_by(4);
    let mut all = firsts.flat_map(|first| (8..=32).step_by(4).map(move |bytes| (first, bytes)));
    all.find_map(|(first, bytes)| with(first, bytes))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    /// Node as it is released has the symbols as well.
    #[test]
    fn places_and_names_are_those_of_symbols() {
        let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/interpreters");
        let others = unpacked.read_dir().into_iter().flatten().flatten();
        let nodes = others.map(|entry| entry.path().join("node"));
        let mut compared = 0;
        for node in nodes.chain([PathBuf::from("/usr/bin/node")]) {
            let Ok(image) = Image::open(&node) else { continue };
            let (Some(range), Some(found)) = (by_symbols(&image), builtins(&image)) else {
                continue;
            };
            assert_eq!(Exported::of(&image).and_then(|of| by_functions(&of)), Some(range.clone()));
            let builtin = |symbol: object::Symbol<'_, '_>| {
                let name = symbol.name().ok()?;
                name.starts_with("Builtins_").then(|| (symbol.address(), name.to_owned()))
            };
            let symbols: HashSet<(u64, String)> =
                image.elf().symbols().filter_map(builtin).collect();
            assert!(found.len() > 1000, "{}: {}", node.display(), found.len());
            assert!(symbols.iter().all(|(start, _)| range.contains(start)), "{range:x?}");
            for (range, name) in found {
                assert!(
                    symbols.contains(&(range.start, name.clone())),
                    "{}: {name}",
                    node.display()
                );
            }
            compared += 1;
        }
        if compared == 0 {
            eprintln!("skipped: there is no Node that exports where its builtins are");
        }
    }
}
