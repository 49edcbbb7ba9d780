//! Sections and symbol tables of an ELF file that unwinding uses.

use std::ops::Range;

use object::read::elf::{ElfFile64, ProgramHeader, SectionHeader};
use object::{Architecture, Object, elf};
use pyrograph_elf::{Image, Segment};

use crate::info::Error;
use crate::registers::Arch;

/// A section that is mapped with the code.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Mapped {
    /// Range of bytes in the file.
    pub range: Range<usize>,
    /// Virtual address.
    pub svma: u64,
}

/// Locations of code, unwind tables and symbols in an ELF file.
#[derive(Debug, Hash)]
pub(crate) struct Layout {
    pub arch: Arch,
    /// Virtual address of the program's entry point; 0 if there is none.
    pub entry: u64,
    /// Segments of code, cut to the bytes that the file has.
    pub code: Vec<Segment>,
    /// Virtual addresses of the sections with code: a segment of code may contain much else.
    pub code_sections: Vec<Range<u64>>,
    pub eh_frame: Option<Mapped>,
    pub eh_frame_hdr: Option<Mapped>,
    /// Range of bytes in the file, compressed or not.
    pub debug_frame: Option<Range<usize>>,
    /// Virtual addresses of PLT sections, and of `.init` and `.fini`: code that pushes at most two words, for which
    /// some linkers and C libraries emit no table.
    pub stubs: Vec<Range<u64>>,
    /// Symbol tables, as ranges of bytes in the file.
    pub symbols: Vec<Range<usize>>,
    /// Virtual addresses of `.text` and `.got`, to which some tables are relative.
    pub text: Option<u64>,
    pub got: Option<u64>,
}

impl Layout {
    pub(crate) fn of(image: &Image) -> Result<Self, Error> {
        let object::File::Elf64(file) = image.elf() else { return Err(Error::UnsupportedArch) };
        let arch = match file.architecture() {
            _ if !file.is_little_endian() => return Err(Error::UnsupportedArch),
            Architecture::X86_64 => Arch::X86_64,
            Architecture::Aarch64 => Arch::Aarch64,
            _ => return Err(Error::UnsupportedArch),
        };
        let mut layout = Self { entry: file.entry(), ..Self::new(arch) };
        layout.read_segments(image, file);
        // A file without section headers (a vDSO may have none) still has its segments.
        layout.read_sections(image.bytes(), file);
        if layout.eh_frame.is_none() {
            layout.eh_frame = layout.eh_frame_by_header(image);
        }
        Ok(layout)
    }

    fn new(arch: Arch) -> Self {
        Self {
            arch,
            entry: 0,
            code: Vec::new(),
            code_sections: Vec::new(),
            eh_frame: None,
            eh_frame_hdr: None,
            debug_frame: None,
            stubs: Vec::new(),
            symbols: Vec::new(),
            text: None,
            got: None,
        }
    }

    /// Layout of `len` bytes of code that are not in a file.
    pub(crate) fn of_code(arch: Arch, address: u64, len: usize) -> Self {
        let size = len as u64;
        let (file_offset, file_size, align) = (0, size, 1);
        let executable = true;
        let segment = Segment { address, size, file_offset, file_size, executable, align };
        Self { code: vec![segment], ..Self::new(arch) }
    }

    fn read_segments(&mut self, image: &Image, elf: &ElfFile64<'_>) {
        let len = image.bytes().len() as u64;
        let code = image.segments().iter().filter(|segment| segment.executable);
        self.code.extend(code.map(|segment| {
            // Bytes beyond the end of the file are not code, whatever the header says.
            let file_size = segment.file_size.min(len.saturating_sub(segment.file_offset));
            Segment { file_size, ..*segment }
        }));
        let endian = elf.endian();
        for segment in elf.elf_program_headers() {
            if segment.p_type(endian) == elf::PT_GNU_EH_FRAME {
                let (offset, size) = segment.file_range(endian);
                let svma = segment.p_vaddr(endian);
                self.eh_frame_hdr =
                    file_range(image.bytes(), offset, size).map(|range| Mapped { range, svma });
            }
        }
    }

    fn read_sections(&mut self, file: &[u8], elf: &ElfFile64<'_>) {
        let (endian, sections) = (elf.endian(), elf.elf_section_table());
        for section in sections.iter() {
            let Ok(name) = sections.section_name(endian, section) else { continue };
            let svma = section.sh_addr(endian);
            let range = section
                .file_range(endian)
                .and_then(|(offset, size)| file_range(file, offset, size))
                .filter(|range| !range.is_empty());
            if matches!(section.sh_type(endian), elf::SHT_SYMTAB | elf::SHT_DYNSYM) {
                self.symbols.extend(range);
                continue;
            }
            let flags = section.sh_flags(endian);
            if flags.contains(elf::SHF_EXECINSTR) {
                let end = svma.saturating_add(section.sh_size(endian));
                self.code_sections.push(svma..end);
            }
            match name {
                b".eh_frame" => self.eh_frame = range.map(|range| Mapped { range, svma }),
                b".eh_frame_hdr" if self.eh_frame_hdr.is_none() => {
                    self.eh_frame_hdr = range.map(|range| Mapped { range, svma });
                }
                b".debug_frame" => self.debug_frame = range,
                b".text" => self.text = Some(svma),
                b".got" => self.got = Some(svma),
                name if is_stubs(name) => {
                    self.stubs.push(svma..svma.saturating_add(section.sh_size(endian)));
                }
                _ => {}
            }
        }
    }

    /// Locates `.eh_frame` without section headers: it begins where `.eh_frame_hdr` says, and ends somewhere in the
    /// same segment (an entry of length 0 ends it).
    fn eh_frame_by_header(&self, image: &Image) -> Option<Mapped> {
        let (file, hdr) = (image.bytes(), self.eh_frame_hdr.as_ref()?);
        let bases = gimli::BaseAddresses::default().set_eh_frame_hdr(hdr.svma);
        let parsed = gimli::EhFrameHdr::new(file.get(hdr.range.clone())?, gimli::LittleEndian)
            .parse(&bases, 8)
            .ok()?;
        let svma = parsed.eh_frame_ptr().direct().ok()?;
        image.segments().iter().find_map(|segment| {
            let into =
                svma.checked_sub(segment.address).filter(|&into| into < segment.file_size)?;
            let offset = segment.file_offset.checked_add(into)?;
            Some(Mapped { range: file_range(file, offset, segment.file_size - into)?, svma })
        })
    }
}

fn is_stubs(name: &[u8]) -> bool {
    name.starts_with(b".plt") || matches!(name, b".iplt" | b".init" | b".fini")
}

/// Range of bytes in the file, cut at the end of the file.
fn file_range(file: &[u8], offset: u64, size: u64) -> Option<Range<usize>> {
    let start = usize::try_from(offset).ok().filter(|&start| start <= file.len())?;
    let end = usize::try_from(offset.saturating_add(size)).unwrap_or(usize::MAX);
    Some(start..end.min(file.len()))
}
