//! A program with its debug information.

use std::fs::File;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimli::{
    AttributeValue, DebugInfoOffset, DebuggingInformationEntry, DwAt, Dwarf, DwarfSections,
    EndianSlice, RunTimeEndian, SectionId, Unit, UnitOffset,
};
use object::Object;
use pyrograph_elf::{Image, Section};
use pyrograph_symbol::{Locator, Module, Source, source_path};

use crate::error::Error;

pub(crate) type Reader<'a> = EndianSlice<'a, RunTimeEndian>;
pub(crate) type Entry<'a> = DebuggingInformationEntry<Reader<'a>>;
pub(crate) type Value<'a> = AttributeValue<Reader<'a>>;

/// Maximum length of a chain of references between entries. Real chains have up to three; damaged ones may loop.
pub(crate) const MAX_REFERENCES: usize = 16;

/// An ELF file with DWARF debug information, its own or that of a separate debug file.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    image: Arc<Image>,
    debug: Arc<Image>,
    sections: DwarfSections<Section>,
    endian: RunTimeEndian,
}

impl Program {
    /// Opens a file and finds its debug information.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is not ELF, or neither it nor a separate debug file has debug information.
    pub fn open(path: &Path, locator: &Locator) -> Result<Self, Error> {
        let file = File::open(path)
            .map_err(|source| Error::Unreadable { path: path.to_owned(), source })?;
        let name = path.to_string_lossy();
        let module = Module::open(&file, Source { path: &name, ..Source::default() })?;
        Self::new(&module, locator)
    }

    /// Finds the debug information of a module.
    ///
    /// # Errors
    ///
    /// If neither it nor a separate debug file has debug information, or that is damaged.
    pub fn new(module: &Module, locator: &Locator) -> Result<Self, Error> {
        let path = module.path().to_owned();
        let debug = module.debug_image(locator).unwrap_or(module.image());
        let mut has_units = false;
        let load = |id: SectionId| {
            let section = Section::load(debug, id.name())?;
            has_units |= id == SectionId::DebugInfo && !section.is_empty();
            Ok(section)
        };
        let sections = DwarfSections::load(load)
            .map_err(|source| Error::Unreadable { path: path.clone(), source })?;
        if !has_units {
            return Err(Error::NoDebugInfo { path });
        }
        let is_little = debug.elf().is_little_endian();
        let endian = if is_little { RunTimeEndian::Little } else { RunTimeEndian::Big };
        let (image, debug) = (Arc::clone(module.image()), Arc::clone(debug));
        Ok(Self { path, image, debug, sections, endian })
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file.
    pub fn image(&self) -> &Image {
        &self.image
    }

    pub(crate) fn debug_image(&self) -> &Image {
        &self.debug
    }

    pub(crate) fn endian(&self) -> RunTimeEndian {
        self.endian
    }

    /// Reads the headers of the debug information's units.
    ///
    /// # Errors
    ///
    /// If it is damaged at its beginning. Units behind damage are left out.
    pub fn read(&self) -> Result<View<'_>, Error> {
        let dwarf =
            self.sections.borrow(|section| Reader::new(section.bytes(&self.debug), self.endian));
        let mut units = Vec::new();
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            units.extend(dwarf.unit(header).ok());
        }
        if units.is_empty() {
            return Err(Error::Damaged { path: self.path.clone() });
        }
        Ok(View { program: self, dwarf, units })
    }
}

impl From<pyrograph_symbol::Error> for Error {
    fn from(source: pyrograph_symbol::Error) -> Self {
        Self::File(source)
    }
}

/// The units of a program's debug information.
pub struct View<'a> {
    pub(crate) program: &'a Program,
    pub(crate) dwarf: Dwarf<Reader<'a>>,
    pub(crate) units: Vec<Unit<Reader<'a>>>,
}

/// An entry of the debug information: the index of its unit, and its offset there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EntryId {
    pub unit: usize,
    pub offset: UnitOffset,
}

impl<'a> View<'a> {
    pub(crate) fn entry(&self, id: EntryId) -> Option<Entry<'a>> {
        self.units.get(id.unit)?.entry(id.offset).ok()
    }

    /// The entry that an attribute of an entry in `unit` refers to.
    pub(crate) fn referred(&self, unit: usize, value: Value<'a>) -> Option<EntryId> {
        match value {
            AttributeValue::UnitRef(offset) => Some(EntryId { unit, offset }),
            AttributeValue::DebugInfoRef(offset) => self.at(offset),
            _ => None,
        }
    }

    /// The entry at an offset in `.debug_info`.
    fn at(&self, offset: DebugInfoOffset) -> Option<EntryId> {
        let start = |unit: &Unit<Reader<'_>>| unit.header.debug_info_offset().map_or(0, |at| at.0);
        let unit = self.units.partition_point(|unit| start(unit) <= offset.0).checked_sub(1)?;
        let offset = offset.to_unit_offset(&self.units[unit].header)?;
        Some(EntryId { unit, offset })
    }

    /// The entries that say what an entry is: itself, then what it is an instance or a definition of.
    pub(crate) fn origins(&self, id: EntryId) -> Vec<(EntryId, Entry<'a>)> {
        let mut all: Vec<(EntryId, Entry<'a>)> = Vec::new();
        let mut at = Some(id);
        while let Some(id) = at.filter(|_| all.len() < MAX_REFERENCES) {
            let Some(entry) = self.entry(id) else { break };
            let origin = entry.attr_value(gimli::DW_AT_abstract_origin);
            let origin = origin.or_else(|| entry.attr_value(gimli::DW_AT_specification));
            at = origin.and_then(|origin| self.referred(id.unit, origin));
            all.push((id, entry));
        }
        all
    }

    /// An attribute of an entry, or of what it is an instance or a definition of, with the unit that has it.
    pub(crate) fn attribute(&self, id: EntryId, name: DwAt) -> Option<(usize, Value<'a>)> {
        let of = |(id, entry): &(EntryId, Entry<'a>)| Some((id.unit, entry.attr_value(name)?));
        self.origins(id).iter().find_map(of)
    }

    /// A text of an entry, or of what it is an instance or a definition of.
    pub(crate) fn text(&self, id: EntryId, name: DwAt) -> Option<String> {
        let (unit, value) = self.attribute(id, name)?;
        self.string(unit, value)
    }

    pub(crate) fn string(&self, unit: usize, value: Value<'a>) -> Option<String> {
        let text = self.dwarf.attr_string(self.units.get(unit)?, value).ok()?;
        Some(text.to_string_lossy().into_owned())
    }

    /// A number of an entry, or of what it is an instance or a definition of.
    pub(crate) fn number(&self, id: EntryId, name: DwAt) -> Option<u64> {
        let (_, value) = self.attribute(id, name)?;
        value.udata_value().or_else(|| value.sdata_value().map(i64::cast_unsigned))
    }

    /// The entries directly below an entry.
    pub(crate) fn children(&self, id: EntryId) -> Vec<(EntryId, Entry<'a>)> {
        let mut all = Vec::new();
        let mut read = || -> gimli::Result<()> {
            let Some(unit) = self.units.get(id.unit) else { return Ok(()) };
            let mut tree = unit.entries_tree(Some(id.offset))?;
            let mut children = tree.root()?.children();
            while let Some(child) = children.next()? {
                let entry = child.entry().clone();
                all.push((EntryId { unit: id.unit, offset: entry.offset() }, entry));
            }
            Ok(())
        };
        // Entries before damage are kept.
        let _ = read();
        all
    }

    /// Path of a file in the line table of a unit. `None` if it is unknown.
    pub(crate) fn file(&self, unit: usize, file: u64) -> Option<String> {
        source_path(&self.dwarf, self.units.get(unit)?, file).map(|path| path.to_string())
    }

    /// Address ranges of an entry. The linker leaves discarded functions at address 0.
    pub(crate) fn ranges(&self, id: EntryId, entry: &Entry<'a>) -> Vec<Range<u64>> {
        let mut all = Vec::new();
        let _ = self.read_ranges(id, entry, &mut all);
        all.retain(|range| range.start > 1 && range.start < range.end);
        all
    }

    fn read_ranges(
        &self,
        id: EntryId,
        entry: &Entry<'a>,
        all: &mut Vec<Range<u64>>,
    ) -> gimli::Result<()> {
        let Some(unit) = self.units.get(id.unit) else { return Ok(()) };
        if let Some(low) = entry.attr_value(gimli::DW_AT_low_pc)
            && let Some(high) = entry.attr_value(gimli::DW_AT_high_pc)
            && let Some(low) = self.dwarf.attr_address(unit, low)?
        {
            let end = match high.udata_value() {
                Some(length) => low.checked_add(length),
                None => self.dwarf.attr_address(unit, high)?,
            };
            all.extend(end.map(|end| low..end));
        }
        if let Some(ranges) = entry.attr_value(gimli::DW_AT_ranges)
            && let Some(mut ranges) = self.dwarf.attr_ranges(unit, ranges)?
        {
            while let Some(range) = ranges.next()? {
                all.push(range.begin..range.end);
            }
        }
        Ok(())
    }
}
