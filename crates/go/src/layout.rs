//! Where the table is in a file, and which of its forms it has.

use std::ops::Range;

use object::{Object, ObjectSection, ObjectSegment};

use crate::table::Table;

/// The forms of the table, by the version of Go that brought them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Form {
    Go2,
    Go16,
    Go18,
    Go20,
}

/// Where in a file the table is, and its parts in it: read once.
#[derive(Clone, Debug, Hash)]
pub struct Layout {
    place: Range<usize>,
    pub(crate) form: Form,
    /// The unit of distances between instructions, in bytes.
    pub(crate) quantum: u64,
    /// Virtual address that the addresses of functions are counted from.
    pub(crate) text: u64,
    /// How many functions there are.
    pub(crate) count: usize,
    /// Where parts begin in the table: addresses of functions, names, which files each unit has,
    /// names of files, values by address, and what is known of each function.
    pub(crate) index: usize,
    pub(crate) names: usize,
    pub(crate) units: usize,
    pub(crate) files: usize,
    pub(crate) steps: usize,
    pub(crate) functions: usize,
}

impl Layout {
    /// Finds the table in a little-endian 64-bit ELF file. `None` if there is none, as in all files that are not of
    /// Go.
    pub fn find(elf: &object::File<'_>) -> Option<Self> {
        if !elf.is_64() || !elf.is_little_endian() {
            return None;
        }
        let names = [".gopclntab", ".data.rel.ro.gopclntab"];
        let section = names.iter().find_map(|name| elf.section_by_name(name))?;
        let (offset, size) = section.file_range()?;
        let start = usize::try_from(offset).ok()?;
        let place = start..start.checked_add(usize::try_from(size).ok()?)?;
        let is_code = |address: &u64| {
            let mut code = elf.segments().filter(|segment| segment.permissions().executable());
            code.any(|of| address.checked_sub(of.address()).is_some_and(|at| at < of.size()))
        };
        let layout = Self::parse(section.data().ok()?, place)?;
        // In files that are loaded anywhere it is left to the loader.
        let text = || elf.section_by_name(".text").map(|text| text.address());
        let text = Some(layout.text).filter(is_code).or_else(text)?;
        Some(Self { text, ..layout })
    }

    fn parse(table: &[u8], place: Range<usize>) -> Option<Self> {
        let (magic, rest) = table.split_first_chunk()?;
        let form = match u32::from_le_bytes(*magic) {
            0xffff_fffb => Form::Go2,
            0xffff_fffa => Form::Go16,
            0xffff_fff0 => Form::Go18,
            0xffff_fff1 => Form::Go20,
            _ => return None,
        };
        let &[0, 0, quantum @ (1 | 2 | 4), 8] = rest.first_chunk()? else { return None };
        let word = |at: usize| {
            let bytes = table.get(8 + 8 * at..)?.first_chunk()?;
            usize::try_from(u64::from_le_bytes(*bytes)).ok()
        };
        let count = word(0).filter(|&count| count <= table.len() / 8)?;
        let layout = Self {
            place,
            form,
            quantum: quantum.into(),
            text: 0,
            count,
            index: 16,
            names: 0,
            units: 0,
            files: 0,
            steps: 0,
            functions: 0,
        };
        let at = match form {
            Form::Go2 => {
                // Behind the functions and the end of the last one: where files are.
                let files = table.get(16 + 16 * count + 8..)?.first_chunk()?;
                let files = u32::from_le_bytes(*files) as usize;
                return Some(Self { files, ..layout });
            }
            Form::Go16 => 2,
            Form::Go18 | Form::Go20 => 3,
        };
        let functions = word(at + 4)?;
        Some(Self {
            text: if at == 3 { word(2)? as u64 } else { 0 },
            index: functions,
            names: word(at)?,
            units: word(at + 1)?,
            files: word(at + 2)?,
            steps: word(at + 3)?,
            functions,
            ..layout
        })
    }

    /// Returns true if addresses in the index are whole, or counted from [`Self::text`].
    pub(crate) fn is_relative(&self) -> bool {
        self.form >= Form::Go18
    }

    /// The bytes of the table in the file.
    pub fn range(&self) -> Range<usize> {
        self.place.clone()
    }

    /// The table, in the bytes of the file that this was found in.
    pub fn table<'a>(&'a self, file: &'a [u8]) -> Table<'a> {
        Table { layout: self, bytes: file.get(self.place.clone()).unwrap_or_default() }
    }
}
