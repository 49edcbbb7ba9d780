//! An interpreter's file: symbols, code, constants and function extents.

use std::collections::HashMap;
use std::ops::Range;

use memchr::memmem;
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use pyrograph_elf::Image;

/// An ELF file with its symbols indexed by name.
pub(crate) struct File<'a> {
    pub image: &'a Image,
    /// Addresses by symbol name: dynamic symbols first, then the others.
    symbols: HashMap<&'a str, u64>,
    /// Offsets in the file's thread-local storage block, by symbol name.
    thread_symbols: HashMap<&'a str, u64>,
    /// Maps an address to the address range of its function, from the unwind tables.
    extent: Extent<'a>,
}

/// Maps an address in code to the address range of the function, or of the part of a function, that contains it.
pub type Extent<'a> = &'a dyn Fn(u64) -> Option<Range<u64>>;

/// String table with the names that a file exports. A search in it rules out most files quickly: few are interpreters.
#[derive(Clone, Copy)]
pub(crate) struct ExportedNames<'a>(&'a [u8]);

impl<'a> ExportedNames<'a> {
    pub fn of(image: &'a Image) -> Self {
        // Only statically linked files export nothing.
        let mut sections = [".dynstr", ".strtab"].into_iter();
        let names = sections.find_map(|name| image.elf().section_by_name(name)?.data().ok());
        Self(names.unwrap_or_default())
    }

    /// Returns true if a name contains this text.
    pub fn mention(self, name: &str) -> bool {
        memmem::find(self.0, name.as_bytes()).is_some()
    }
}

impl<'a> File<'a> {
    pub fn new(image: &'a Image, extent: Extent<'a>) -> Self {
        let (mut symbols, mut thread_symbols) = (HashMap::new(), HashMap::new());
        for symbol in image.elf().dynamic_symbols().chain(image.elf().symbols()) {
            let Ok(name) = symbol.name() else { continue };
            let of = match symbol.kind() {
                SymbolKind::Tls if !symbol.is_undefined() => &mut thread_symbols,
                _ if symbol.is_definition() => &mut symbols,
                _ => continue,
            };
            of.entry(name).or_insert(symbol.address());
        }
        Self { image, symbols, thread_symbols, extent }
    }

    /// Returns the address of a symbol.
    pub fn symbol(&self, name: &str) -> Option<u64> {
        self.symbols.get(name).copied()
    }

    /// Returns the offset of a thread-local variable from the start of the file's thread-local storage block.
    pub fn thread_symbol(&self, name: &str) -> Option<u64> {
        self.thread_symbols.get(name).copied()
    }

    /// Returns the bytes that the file has for an address; `None` if it does not have all of them.
    pub fn bytes(&self, address: u64, len: usize) -> Option<&'a [u8]> {
        self.image.bytes_at(address, len)
    }

    /// Returns up to `most` bytes that the file has from an address on.
    pub fn first_bytes(&self, address: u64, most: usize) -> Option<&'a [u8]> {
        self.image.first_bytes(address, most)
    }

    pub fn u64(&self, address: u64) -> Option<u64> {
        self.bytes(address, 8)?.try_into().ok().map(u64::from_le_bytes)
    }

    /// Returns a 32-bit constant. Constants that are zero may not be stored in the file.
    pub fn constant(&self, address: u64) -> u32 {
        let bytes = self.bytes(address, 4).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    /// Returns the difference between the addresses and the file offsets of code, if it is the same for all code of the
    /// file.
    pub fn to_address(&self) -> Option<u64> {
        let code = self.image.segments().iter().filter(|segment| segment.executable);
        let mut distances = code.map(|code| code.address.wrapping_sub(code.file_offset));
        let first = distances.next()?;
        distances.all(|other| other == first).then_some(first)
    }

    /// Returns the address range of the function, or of the part of a function, that contains an address.
    pub fn extent(&self, address: u64) -> Option<Range<u64>> {
        (self.extent)(address).filter(|range| range.contains(&address))
    }

    /// Returns true if a function symbol begins at an address.
    pub fn has_function(&self, address: u64) -> bool {
        self.image.functions().any(|function| function.address() == address)
    }

    /// Returns the file's code with its start addresses.
    pub fn code(&self) -> impl Iterator<Item = (u64, &'a [u8])> {
        let segments = self.image.segments().iter().filter(|segment| segment.executable);
        segments.filter_map(|segment| {
            let len = usize::try_from(segment.file_size).ok()?;
            Some((segment.address, self.bytes(segment.address, len)?))
        })
    }

    /// Returns the contents of `.rodata`.
    pub fn constants(&self) -> &'a [u8] {
        let section = self.image.elf().section_by_name(".rodata");
        section.and_then(|section| section.data().ok()).unwrap_or(&[])
    }

    /// Returns each function's range of file offsets and its name, sorted.
    pub fn functions(&self) -> Vec<(Range<u64>, &'a str)> {
        let function = |symbol: object::Symbol<'a, 'a>| {
            let start = self.image.offset_of(symbol.address())?;
            let name = symbol.name().ok()?;
            (symbol.size() > 0).then_some((start..start.checked_add(symbol.size())?, name))
        };
        let mut functions: Vec<_> = self.image.functions().filter_map(function).collect();
        functions.sort_unstable_by_key(|(range, name)| (range.start, range.end, *name));
        functions.dedup();
        functions
    }
}
