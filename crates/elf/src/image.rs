//! The bytes of an ELF file with its parsed headers.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;

use memmap2::{Mmap, UncheckedAdvice};
use object::elf::SHF_EXECINSTR;
use object::read::elf::ProgramHeader;
use object::{
    Object, ObjectSection, ObjectSegment, ObjectSymbol, SectionFlags, SectionKind, Symbol,
    SymbolKind,
};

/// Reason why a file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened or mapped into memory.
    #[error(transparent)]
    Map(#[from] io::Error),
    /// The file is not an ELF file, or is damaged.
    #[error(transparent)]
    Elf(#[from] object::Error),
}

/// A program header that maps a part of the file (`PT_LOAD`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Virtual address that the file was linked for.
    pub address: u64,
    /// Size in memory, bytes.
    pub size: u64,
    /// Offset in the file.
    pub file_offset: u64,
    /// Size in the file, bytes; at most `size` in a valid file.
    pub file_size: u64,
    /// True if it contains code.
    pub executable: bool,
    /// Addresses and file offsets are equal modulo this.
    pub align: u64,
}

/// Information for the dynamic linker and the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Linked<'a> {
    /// Path of the dynamic linker.
    pub interpreter: Option<&'a [u8]>,
    /// Names of needed libraries.
    pub needed: Vec<&'a [u8]>,
    /// Directories to search for them first, separated by `:`.
    pub run_path: Option<&'a [u8]>,
}

enum Bytes {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl Bytes {
    fn get(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Owned(bytes) => bytes,
        }
    }
}

struct Parsed<'a> {
    elf: object::File<'a>,
    build_id: Option<&'a [u8]>,
    segments: Vec<Segment>,
    /// Segments of the file that this one was split from, if it has debug information only.
    laid_out: Option<Vec<Segment>>,
}

impl<'a> Parsed<'a> {
    fn parse(bytes: &'a Bytes) -> Result<Self, Error> {
        let elf = object::File::parse(bytes.get())?;
        let segments: Vec<_> = elf.segments().map(|segment| segment_of(&segment)).collect();
        let laid_out = is_debug_only(&elf).then(|| laid_out(&segments));
        Ok(Self { build_id: elf.build_id().ok().flatten(), segments, laid_out, elf })
    }
}

/// Returns true if the file has sections of code, all of them without contents.
fn is_debug_only(elf: &object::File<'_>) -> bool {
    let is_code = |flags| matches!(flags, SectionFlags::Elf { sh_flags, .. } if sh_flags.contains(SHF_EXECINSTR));
    let mut code = elf.sections().filter(|section| is_code(section.flags())).peekable();
    let is_empty = |kind| kind == SectionKind::UninitializedData;
    code.peek().is_some() && code.all(|section| is_empty(section.kind()))
}

self_cell::self_cell! {
    struct Cell {
        owner: Bytes,
        #[covariant]
        dependent: Parsed,
    }
}

/// One ELF file, mapped or in memory, with its headers parsed.
pub struct Image(Cell);

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("len", &self.bytes().len()).finish_non_exhaustive()
    }
}

impl Image {
    /// Maps an open file. It may be from `/proc/PID/map_files`, which gives the running file even if its path now
    /// belongs to another one.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be mapped, or is not ELF.
    pub fn map(file: &File) -> Result<Self, Error> {
        // A directory or a FIFO cannot be mapped, and the error would not be clear.
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file").into());
        }
        if metadata.len() == 0 {
            return Self::from_bytes(Vec::new());
        }
        // SAFETY: the mapping is private and read-only. Others may write to the file meanwhile, which the type system
        // cannot prevent: all readers accept any bytes. If the file is truncated, programs are protected by
        // `pyrograph_memory::survive_cut_files`. Linkers and package managers replace a file in use by a new one.
        Self::new(Bytes::Mapped(unsafe { Mmap::map(file)? }))
    }

    /// Maps the file at `path`.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be opened or mapped, or is not ELF.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::map(&File::open(path)?)
    }

    /// Parses bytes in memory, such as the vDSO read from a process, or a fuzzer's input.
    ///
    /// # Errors
    ///
    /// Returns an error if they are not ELF.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, Error> {
        Self::new(Bytes::Owned(bytes))
    }

    fn new(bytes: Bytes) -> Result<Self, Error> {
        Cell::try_new(bytes, |bytes| Parsed::parse(bytes)).map(Self)
    }

    /// Returns the bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        self.0.borrow_owner().get()
    }

    /// Returns the parsed file.
    pub fn elf(&self) -> &object::File<'_> {
        &self.0.borrow_dependent().elf
    }

    /// Returns the build ID from its notes.
    pub fn build_id(&self) -> Option<&[u8]> {
        self.0.borrow_dependent().build_id
    }

    /// Returns the `PT_LOAD` segments, in the file's order.
    pub fn segments(&self) -> &[Segment] {
        &self.0.borrow_dependent().segments
    }

    /// Returns the address of the byte at file offset `offset`, or `None` if no segment maps it. If two segments do,
    /// the executable one is used. If this file has debug information only, the offset is one in the file that it was
    /// split from.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let holds = |segment: &&Segment| {
            offset.checked_sub(segment.file_offset).is_some_and(|at| at < segment.file_size)
        };
        let laid_out = self.0.borrow_dependent().laid_out.as_deref();
        let segments = laid_out.filter(|of| !of.is_empty()).unwrap_or(self.segments());
        let segment = (segments.iter().filter(|segment| segment.executable).find(holds))
            .or_else(|| segments.iter().find(holds))?;
        segment.address.checked_add(offset - segment.file_offset)
    }

    /// Returns true if the file does not contain the code itself: `objcopy --only-keep-debug` and the like keep only
    /// headers and notes.
    pub fn is_debug_only(&self) -> bool {
        self.0.borrow_dependent().laid_out.is_some()
    }

    /// Returns the file offset of the byte at an address.
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        self.segments().iter().find_map(|segment| {
            let distance = address.checked_sub(segment.address)?;
            (distance < segment.file_size).then(|| segment.file_offset.checked_add(distance))?
        })
    }

    /// Returns `len` bytes at an address; `None` if the file does not have all of them.
    pub fn bytes_at(&self, address: u64, len: usize) -> Option<&[u8]> {
        let offset = usize::try_from(self.offset_of(address)?).ok()?;
        self.bytes().get(offset..offset.checked_add(len)?)
    }

    /// Returns up to `most` bytes from an address on, as many as the file has.
    pub fn first_bytes(&self, address: u64, most: usize) -> Option<&[u8]> {
        let offset = usize::try_from(self.offset_of(address)?).ok()?;
        let bytes = self.bytes().get(offset..)?;
        Some(&bytes[..most.min(bytes.len())])
    }

    /// Returns the functions that the file defines, from both symbol tables: many appear twice, and some under several
    /// names.
    pub fn functions(&self) -> impl Iterator<Item = Symbol<'_, '_>> {
        let symbols = self.elf().symbols().chain(self.elf().dynamic_symbols());
        symbols.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
    }

    /// Returns the functions of this name, ignoring a symbol version (`memcpy@GLIBC_2.14`).
    pub fn functions_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Symbol<'a, 'a>> {
        let plain = name.split('@').next().unwrap_or(name);
        self.functions()
            .filter(move |symbol| symbol.name().is_ok_and(|known| known == name || known == plain))
    }

    /// Returns true if the file defines a function of this name that other files may call, too.
    pub fn has_global(&self, name: &str) -> bool {
        self.functions_named(name).any(|symbol| symbol.is_global())
    }

    /// Returns the code of a function.
    pub fn code_of(&self, function: &Symbol<'_, '_>) -> Option<&[u8]> {
        let section = self.elf().section_by_index(function.section_index()?).ok()?;
        section.data_range(function.address(), function.size()).ok()?
    }

    /// Returns the information for the dynamic linker; empty if it is not a 64-bit file.
    pub fn linked(&self) -> Linked<'_> {
        let object::File::Elf64(elf) = self.elf() else { return Linked::default() };
        let mut linked = Linked::default();
        for segment in elf.elf_program_headers() {
            if let Ok(Some(path)) = segment.interpreter(elf.endian(), self.bytes()) {
                linked.interpreter = Some(path);
            }
        }
        let Ok(table) = elf.elf_dynamic_table() else { return linked };
        for entry in table.iter() {
            match entry.tag {
                object::elf::DT_NEEDED => linked.needed.extend(table.string(entry)),
                object::elf::DT_RUNPATH | object::elf::DT_RPATH => {
                    linked.run_path = table.string(entry).ok();
                }
                _ => {}
            }
        }
        linked
    }

    /// Returns size and alignment, in bytes, of the file's thread-local storage block (`PT_TLS`).
    pub fn thread_block(&self) -> Option<(u64, u64)> {
        let object::File::Elf64(elf) = self.elf() else { return None };
        let endian = elf.endian();
        let headers = elf.elf_program_headers().iter();
        let mut blocks = headers.filter(|header| header.p_type(endian) == object::elf::PT_TLS);
        blocks.next().map(|block| (block.p_memsz(endian), block.p_align(endian)))
    }

    /// Releases the pages of the file that were read. Pages that are needed later are read again, usually from the
    /// kernel's page cache.
    pub fn give_pages_back(&self) {
        if let Bytes::Mapped(map) = self.0.borrow_owner() {
            // SAFETY: nobody writes to the mapping, so its pages contain nothing that the file does not.
            let _ = unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed) };
        }
    }
}

/// Reconstructs the file offsets of segments before their contents were stripped: each segment follows the one before,
/// at the first offset that its alignment permits. Linkers lay out code like this; memory without file contents
/// (`.bss`) is at the end.
fn laid_out(segments: &[Segment]) -> Vec<Segment> {
    let mut end = 0u64;
    let place = |segment: &Segment| {
        let align = segment.align.max(1);
        let (wanted, here) = (segment.address % align, end % align);
        let distance = if wanted < here { align - (here - wanted) } else { wanted - here };
        let file_offset = end.checked_add(distance)?;
        end = file_offset.checked_add(segment.size)?;
        Some(Segment { file_offset, file_size: segment.size, ..*segment })
    };
    segments.iter().map_while(place).collect()
}

fn segment_of<'a>(segment: &impl ObjectSegment<'a>) -> Segment {
    let (file_offset, file_size) = segment.file_range();
    Segment {
        address: segment.address(),
        size: segment.size(),
        file_offset,
        file_size,
        executable: segment.permissions().executable(),
        align: segment.align(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Image {
        Image::open(&std::env::current_exe().expect("a path")).expect("an ELF file")
    }

    #[test]
    fn addresses_lead_to_offsets_and_back() {
        let image = own();
        let main = image.functions_named("main").next().expect("a function");
        let offset = image.offset_of(main.address()).expect("it is in the file");
        assert_eq!(image.address_of(offset), Some(main.address()));
        let at = usize::try_from(offset).expect("it fits");
        let code = image.code_of(&main).expect("its code");
        assert!(!code.is_empty());
        assert_eq!(image.bytes().get(at..at + code.len()), Some(code));
    }

    /// As `objcopy --only-keep-debug` leaves program headers: nothing of the file is mapped.
    fn without_code(image: &Image) -> Image {
        const PLACE: usize = 8;
        const SIZE_IN_FILE: usize = 32;
        let mut bytes = image.bytes().to_vec();
        let word =
            |at: usize| usize::from_ne_bytes(image.bytes()[at..at + 8].try_into().expect("eight"));
        let short =
            |at: usize| usize::from(u16::from_ne_bytes([image.bytes()[at], image.bytes()[at + 1]]));
        let (headers, size, count) = (word(32), short(54), short(56));
        for header in (0..count).map(|number| headers + number * size) {
            for field in [PLACE, SIZE_IN_FILE] {
                bytes[header + field..header + field + 8].fill(0);
            }
        }
        // Of sections: the type, and the flag of code.
        let (headers, size, count) = (word(40), short(58), short(60));
        for header in (0..count).map(|number| headers + number * size) {
            if word(header + 8) & 4 != 0 {
                bytes[header + 4] = 8;
            }
        }
        Image::from_bytes(bytes).expect("an ELF file")
    }

    #[test]
    fn places_in_a_file_are_known_by_what_is_left_without_its_code() {
        let mut images = vec![own()];
        images.extend(
            ["/bin/sh", "/usr/bin/perl"]
                .iter()
                .filter_map(|path| Image::open(Path::new(path)).ok()),
        );
        for image in images {
            let left = without_code(&image);
            assert!(left.is_debug_only() && !image.is_debug_only());
            let code: Vec<_> = image.segments().iter().filter(|of| of.executable).collect();
            assert!(!code.is_empty());
            for segment in code {
                for at in [0, segment.file_size / 2, segment.file_size - 1] {
                    let offset = segment.file_offset + at;
                    assert_eq!(left.address_of(offset), image.address_of(offset), "{image:?}");
                }
                assert_eq!(left.offset_of(segment.address), None);
            }
        }
    }

    #[test]
    fn alignments_of_damaged_files_overflow_nothing() {
        let segment = |address, size, align| Segment {
            address,
            size,
            align,
            file_offset: 0,
            file_size: 0,
            executable: true,
        };
        for align in [0, 1, u64::MAX, 1 << 63] {
            let all = [segment(u64::MAX, 5, align), segment(7, u64::MAX, align), segment(0, 1, 0)];
            assert!(laid_out(&all).len() < 3);
        }
    }

    #[test]
    fn a_program_asks_for_its_linker_and_libraries() {
        let image = own();
        let linked = image.linked();
        assert_eq!(linked.interpreter.is_some(), !linked.needed.is_empty(), "{linked:?}");
    }

    #[test]
    fn what_is_no_file_or_no_elf_is_an_error() {
        assert!(matches!(Image::open(Path::new("/dev/null")), Err(Error::Map(_))));
        assert!(matches!(Image::open(Path::new("/nonexistent")), Err(Error::Map(_))));
        assert!(matches!(Image::from_bytes(Vec::new()), Err(Error::Elf(_))));
    }
}
