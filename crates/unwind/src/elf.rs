//! Headers, sections and symbols of an ELF file, as far as unwinding needs them.

use std::io::Read;
use std::ops::Range;

use flate2::read::ZlibDecoder;
use object::LittleEndian;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

use crate::info::Error;
use crate::registers::Arch;

type Header = elf::FileHeader64<LittleEndian>;

/// A loadable segment with code.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Segment {
    pub offset: u64,
    pub size: u64,
    pub svma: u64,
}

/// A section that is mapped with the code.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Mapped {
    /// Place in the file.
    pub range: Range<usize>,
    /// Virtual address.
    pub svma: u64,
}

/// Where a section's contents are in the file.
#[derive(Clone, Debug, Hash)]
pub(crate) enum Contents {
    Plain(Range<usize>),
    Compressed(Compressed),
}

/// A compressed section.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Compressed {
    range: Range<usize>,
    format: Format,
    size: u64,
}

#[derive(Clone, Copy, Debug, Hash)]
enum Format {
    Zlib,
    Zstd,
}

impl Compressed {
    /// Larger than any real `.debug_frame`: the size comes from the file.
    const MOST: u64 = 1 << 30;

    pub(crate) fn decompress(&self, file: &[u8]) -> Option<Vec<u8>> {
        let data = file.get(self.range.clone())?;
        let size = self.size.min(Self::MOST);
        let mut bytes = Vec::new();
        match self.format {
            Format::Zlib => ZlibDecoder::new(data).take(size).read_to_end(&mut bytes),
            Format::Zstd => zstd::Decoder::new(data).ok()?.take(size).read_to_end(&mut bytes),
        }
        .ok()?;
        Some(bytes)
    }
}

/// Where in an ELF file things are.
#[derive(Debug, Hash)]
pub(crate) struct Layout {
    pub build_id: Option<Vec<u8>>,
    pub arch: Arch,
    /// Virtual address of the file's first instruction; 0 for none.
    pub entry: u64,
    pub code: Vec<Segment>,
    /// Virtual addresses of the sections with code: its segment may hold much else.
    pub code_sections: Vec<Range<u64>>,
    pub eh_frame: Option<Mapped>,
    pub eh_frame_hdr: Option<Mapped>,
    pub debug_frame: Option<Contents>,
    /// Virtual addresses of procedure linkage tables and of `.init` and `.fini`: code that pushes at
    /// most two words, for which some linkers and C libraries make no table.
    pub stubs: Vec<Range<u64>>,
    /// Symbol tables, place in the file.
    pub symbols: Vec<Range<usize>>,
    /// Virtual addresses of `.text` and `.got`, to which some tables are relative.
    pub text: Option<u64>,
    pub got: Option<u64>,
}

impl Layout {
    pub(crate) fn parse(file: &[u8]) -> Result<Self, Error> {
        let header = Header::parse(file).map_err(|_| Error::NotElf("no header"))?;
        let endian = LittleEndian;
        if !header.is_class_64() || header.is_big_endian() {
            return Err(Error::UnsupportedArch);
        }
        let arch = match header.e_machine(endian) {
            elf::EM_X86_64 => Arch::X86_64,
            elf::EM_AARCH64 => Arch::Aarch64,
            _ => return Err(Error::UnsupportedArch),
        };
        let mut layout = Self { entry: header.e_entry(endian), ..Self::new(arch) };
        layout.read_segments(header, file)?;
        // A file without section headers (a vDSO may have none) still has its segments.
        layout.read_sections(header, file);
        if layout.eh_frame.is_none() {
            layout.eh_frame = layout.eh_frame_by_header(header, file);
        }
        Ok(layout)
    }

    fn new(arch: Arch) -> Self {
        Self {
            build_id: None,
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

    /// Of code that is in no file: `len` bytes.
    pub(crate) fn of_code(arch: Arch, address: u64, len: usize) -> Self {
        let segment = Segment { offset: 0, size: len as u64, svma: address };
        Self { code: vec![segment], ..Self::new(arch) }
    }

    fn read_segments(&mut self, header: &Header, file: &[u8]) -> Result<(), Error> {
        let endian = LittleEndian;
        let segments = header
            .program_headers(endian, file)
            .map_err(|_| Error::NotElf("program headers outside of the file"))?;
        for segment in segments {
            let (offset, size) = segment.file_range(endian);
            let svma = segment.p_vaddr(endian);
            match segment.p_type(endian) {
                elf::PT_LOAD if segment.p_flags(endian).contains(elf::PF_X) => {
                    // Bytes beyond the file's end are no code, whatever the header says.
                    let size = size.min((file.len() as u64).saturating_sub(offset));
                    self.code.push(Segment { offset, size, svma });
                }
                elf::PT_GNU_EH_FRAME => {
                    self.eh_frame_hdr =
                        file_range(file, offset, size).map(|range| Mapped { range, svma });
                }
                elf::PT_NOTE if self.build_id.is_none() => {
                    self.build_id = build_id(segment, file).map(<[u8]>::to_vec);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read_sections(&mut self, header: &Header, file: &[u8]) {
        let endian = LittleEndian;
        let Ok(sections) = header.sections(endian, file) else { return };
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
                b".debug_frame" => self.debug_frame = contents(section, file, range),
                b".text" => self.text = Some(svma),
                b".got" => self.got = Some(svma),
                name if is_stubs(name) => {
                    self.stubs.push(svma..svma.saturating_add(section.sh_size(endian)));
                }
                _ => {}
            }
        }
    }

    /// Without section headers: `.eh_frame` begins where `.eh_frame_hdr` says, and ends somewhere
    /// in the same segment (an entry of length 0 ends it).
    fn eh_frame_by_header(&self, header: &Header, file: &[u8]) -> Option<Mapped> {
        let endian = LittleEndian;
        let hdr = self.eh_frame_hdr.as_ref()?;
        let bases = gimli::BaseAddresses::default().set_eh_frame_hdr(hdr.svma);
        let parsed = gimli::EhFrameHdr::new(file.get(hdr.range.clone())?, gimli::LittleEndian)
            .parse(&bases, 8)
            .ok()?;
        let svma = parsed.eh_frame_ptr().direct().ok()?;
        header.program_headers(endian, file).ok()?.iter().find_map(|segment| {
            let (offset, size) = segment.file_range(endian);
            let into = svma.checked_sub(segment.p_vaddr(endian))?;
            if segment.p_type(endian) != elf::PT_LOAD || into >= size {
                return None;
            }
            let range = file_range(file, offset.checked_add(into)?, size - into)?;
            Some(Mapped { range, svma })
        })
    }
}

/// The build ID, if it is among these notes.
fn build_id<'a>(segment: &elf::ProgramHeader64<LittleEndian>, file: &'a [u8]) -> Option<&'a [u8]> {
    let mut notes = segment.notes(LittleEndian, file).ok()??;
    while let Ok(Some(note)) = notes.next() {
        if note.name() == elf::ELF_NOTE_GNU && note.n_type(LittleEndian) == elf::NT_GNU_BUILD_ID {
            return Some(note.desc());
        }
    }
    None
}

fn is_stubs(name: &[u8]) -> bool {
    name.starts_with(b".plt") || matches!(name, b".iplt" | b".init" | b".fini")
}

/// The place of a range in the file, cut where the file ends.
fn file_range(file: &[u8], offset: u64, size: u64) -> Option<Range<usize>> {
    let start = usize::try_from(offset).ok().filter(|&start| start <= file.len())?;
    let end = usize::try_from(offset.saturating_add(size)).unwrap_or(usize::MAX);
    Some(start..end.min(file.len()))
}

fn contents(
    section: &elf::SectionHeader64<LittleEndian>,
    file: &[u8],
    range: Option<Range<usize>>,
) -> Option<Contents> {
    let Some((header, offset, size)) = section.compression(LittleEndian, file).ok()? else {
        return range.map(Contents::Plain);
    };
    let format = match header.ch_type.get(LittleEndian) {
        elf::ELFCOMPRESS_ZLIB => Format::Zlib,
        elf::ELFCOMPRESS_ZSTD => Format::Zstd,
        _ => return None,
    };
    Some(Contents::Compressed(Compressed {
        range: file_range(file, offset, size)?,
        format,
        size: header.ch_size.get(LittleEndian),
    }))
}
