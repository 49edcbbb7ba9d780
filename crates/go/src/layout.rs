//! Finds the table in a file, and its version.

use std::ops::Range;

use object::{Object, ObjectSection, ObjectSegment};

use crate::module::Module;
use crate::table::Table;

/// Versions of the table's format, named by the version of Go that introduced them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Form {
    Go2,
    Go16,
    Go18,
    Go20,
}

/// Location of the table in a file, and of its parts: read once.
#[derive(Clone, Debug, Hash)]
pub struct Layout {
    place: Range<usize>,
    /// Virtual address of the table.
    pub(crate) address: u64,
    pub(crate) form: Form,
    /// Minimum instruction size, in bytes: the unit of distances between instructions.
    pub(crate) quantum: u64,
    /// Virtual address that function addresses are relative to.
    pub(crate) text: u64,
    /// Number of functions.
    pub(crate) count: usize,
    /// Offsets of the parts in the table: function addresses, names, the files of each compilation unit, names of
    /// files, pc-value tables, and function data.
    pub(crate) index: usize,
    pub(crate) names: usize,
    pub(crate) units: usize,
    pub(crate) files: usize,
    pub(crate) steps: usize,
    pub(crate) functions: usize,
}

impl Layout {
    /// Finds the table in a little-endian 64-bit ELF file. `None` if there is none, which is the case for all files not
    /// compiled from Go.
    pub fn find(elf: &object::File<'_>) -> Option<Self> {
        if !elf.is_64() || !elf.is_little_endian() {
            return None;
        }
        let names = [".gopclntab", ".data.rel.ro.gopclntab"];
        let layout = match names.iter().find_map(|name| elf.section_by_name(name)) {
            Some(section) => Self::in_section(&section, |_| Some(0))?,
            // In position-independent files, the system's linker puts it among other data.
            None => {
                elf.section_by_name(".go.buildinfo")?;
                Self::in_section(&elf.section_by_name(".data.rel.ro")?, first_table)?
            }
        };
        let is_code = |address: &u64| {
            let mut code = elf.segments().filter(|segment| segment.permissions().executable());
            code.any(|of| address.checked_sub(of.address()).is_some_and(|at| at < of.size()))
        };
        // Since Go 1.26 the table does not contain the address, and in position-independent files the loader relocates
        // it. The section begins elsewhere if C code was linked before it.
        let in_module = || {
            let module = Module::find(elf, layout.address, layout.names)?;
            Some(module.text()).filter(|_| layout.is_relative()).filter(is_code)
        };
        let of_section = || elf.section_by_name(".text").map(|text| text.address());
        let text = Some(layout.text).filter(is_code).or_else(in_module).or_else(of_section)?;
        Some(Self { text, ..layout })
    }

    /// Parses the table that begins in a section at the offset returned by `at`.
    fn in_section<'a>(
        section: &impl ObjectSection<'a>,
        at: impl Fn(&[u8]) -> Option<usize>,
    ) -> Option<Self> {
        let (offset, size) = section.file_range()?;
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(size).ok()?)?;
        let data = section.data().ok()?;
        let at = at(data)?;
        let place = start.checked_add(at)?..end;
        let address = section.address().checked_add(at as u64)?;
        Some(Self { address, ..Self::parse(data.get(at..)?, place)? })
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
            address: 0,
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
                // The offset of the file names follows the functions and the end of the last one.
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

    /// Returns true if addresses in the index are relative to [`Self::text`], false if they are absolute.
    pub(crate) fn is_relative(&self) -> bool {
        self.form >= Form::Go18
    }

    /// Returns the range of the table in the file.
    pub fn range(&self) -> Range<usize> {
        self.place.clone()
    }

    /// Returns the table, given the bytes of the file in which this was found.
    pub fn table<'a>(&'a self, file: &'a [u8]) -> Table<'a> {
        Table { layout: self, bytes: file.get(self.place.clone()).unwrap_or_default() }
    }
}

/// Returns the offset of the first table in some data: it must look like one, with all parts inside the data and in
/// order.
fn first_table(data: &[u8]) -> Option<usize> {
    const ALIGNMENT: usize = 8;
    (0..data.len()).step_by(ALIGNMENT).find(|&at| {
        Layout::parse(&data[at..], 0..0).is_some_and(|of| {
            let parts = [of.names, of.units, of.files, of.steps, of.functions];
            of.is_relative()
                && of.count > 0
                && parts.is_sorted()
                && of.names > 0
                && parts[4] < data.len() - at
        })
    })
}
