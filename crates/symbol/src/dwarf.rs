//! DWARF debug information: sections, units, and address ranges.
//!
//! Section layouts: DWARF Debugging Information Format, versions 2 to 5.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use gimli::{
    Abbreviations, AttributeValue, DebugAbbrev, DebugAbbrevOffset, DebugInfoOffset, DwarfSections,
    Reader as _, RunTimeEndian, Section as _, SectionId,
};
use object::{Object, ObjectSection};
use pyrograph_elf::{Image, Section};

pub(crate) type Reader<'a> = gimli::EndianSlice<'a, RunTimeEndian>;
pub(crate) type Dwarf<'a> = gimli::Dwarf<Reader<'a>>;
pub(crate) type Unit<'a> = gimli::Unit<Reader<'a>>;

/// Sections that symbolization reads; others (locations, macros, indexes) are not loaded.
pub(crate) const READ: [SectionId; 9] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// DWARF sections of one file.
#[derive(Debug)]
pub(crate) struct DebugSections {
    sections: DwarfSections<Section>,
    endian: RunTimeEndian,
}

impl DebugSections {
    /// Returns true if a file has a non-empty `.debug_info` or `.zdebug_info` section.
    pub fn are_in(image: &Image) -> bool {
        let section = |name| image.elf().section_by_name(name);
        let units = |name| section(name).is_some_and(|section| section.size() > 0);
        units(".debug_info") || units(".zdebug_info")
    }

    /// Loads the sections of a file; `None` if it has no debug information.
    pub fn load(image: &Image) -> io::Result<Option<Self>> {
        Self::load_named(image, |id| Some(id.name()))
    }

    /// Takes sections that are already loaded. `section` is called with positions in [`READ`]. Returns `None` if
    /// there is no debug information in them.
    pub fn new(image: &Image, mut section: impl FnMut(usize) -> Section) -> Option<Self> {
        let mut has_units = false;
        let Ok(sections) = DwarfSections::load(|id| {
            let position = READ.iter().position(|read| *read == id);
            let section = position.map_or(Section::EMPTY, &mut section);
            has_units |= id == SectionId::DebugInfo && !section.is_empty();
            Ok::<_, Infallible>(section)
        });
        has_units.then_some(Self { sections, endian: endian_of(image.elf()) })
    }

    pub fn load_named(
        image: &Image,
        name: impl Fn(SectionId) -> Option<&'static str>,
    ) -> io::Result<Option<Self>> {
        let mut has_units = false;
        let sections = DwarfSections::load(|id| {
            let Some(name) = name(id).filter(|_| READ.contains(&id)) else {
                return Ok(Section::EMPTY);
            };
            let section = Section::load(image, name)?;
            has_units |= id == SectionId::DebugInfo && !section.is_empty();
            Ok::<_, io::Error>(section)
        })?;
        Ok(has_units.then_some(Self { sections, endian: endian_of(image.elf()) }))
    }

    pub fn dwarf<'a>(&'a self, image: &'a Image) -> Dwarf<'a> {
        self.sections.borrow(|section| Reader::new(section.bytes(image), self.endian))
    }
}

fn endian_of(elf: &object::File<'_>) -> RunTimeEndian {
    if elf.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big }
}

/// Index from addresses to units. Borrows nothing from the file, so that it can be stored.
#[derive(Debug, Default)]
pub(crate) struct UnitIndex {
    /// Offset of each unit in `.debug_info`, ascending.
    offsets: Vec<usize>,
    /// Address ranges (start, end) and the position in `offsets` of the unit that claims them.
    ranges: Vec<(u64, u64, u32)>,
    /// Units with code but without address ranges: these have to be searched for every address.
    unranged: Vec<u32>,
}

impl UnitIndex {
    /// Reads the root entry of each unit. `lowest` is the lowest address of code.
    pub fn build(dwarf: &Dwarf<'_>, lowest: u64) -> gimli::Result<Self> {
        let mut index = Self::default();
        let mut units = dwarf.units();
        while let Some(header) = units.next()? {
            let Some(offset) = header.debug_info_offset() else { continue };
            let position = u32::try_from(index.offsets.len()).unwrap_or(u32::MAX);
            index.offsets.push(offset.0);
            // Partial units hold entries that other units refer to, type units hold types: neither has code.
            if !matches!(
                header.type_(),
                gimli::UnitType::Compilation
                    | gimli::UnitType::Skeleton(_)
                    | gimli::UnitType::SplitCompilation(_)
            ) {
                continue;
            }
            // A damaged unit does not invalidate the others.
            let _ = index.add_unit(dwarf, header, position, lowest);
        }
        Ok(index)
    }

    fn add_unit(
        &mut self,
        dwarf: &Dwarf<'_>,
        header: gimli::UnitHeader<Reader<'_>>,
        position: u32,
        lowest: u64,
    ) -> gimli::Result<()> {
        let abbreviations = Arc::new(root_abbreviations(dwarf, &header)?);
        let (unit, root) = light_unit(dwarf, header, abbreviations)?;
        let mut extent = Extent::default();
        for attribute in root.attrs() {
            extent.read(dwarf, &unit, attribute)?;
        }
        let before = self.ranges.len();
        extent.for_each(dwarf, &unit, |begin, end| {
            // The linker leaves discarded functions with an address of 0 (or 1, in `.debug_ranges`).
            if begin >= lowest && begin < end {
                self.ranges.push((begin, end, position));
            }
        })?;
        let says_where = root.has_attr(gimli::DW_AT_ranges) || root.has_attr(gimli::DW_AT_high_pc);
        if self.ranges.len() == before && !says_where && has_lines(dwarf, &unit, &root) {
            self.unranged.push(position);
        }
        Ok(())
    }

    /// Returns each unit that claims some of `addresses` (sorted), as its position and the positions of these
    /// addresses, in the order of the units; then the units without ranges, each with all addresses.
    pub fn units_of(&self, addresses: &[u64]) -> impl Iterator<Item = (u32, Vec<u32>)> {
        let mut claims: Vec<(u32, u32)> = Vec::new();
        for &(begin, end, unit) in &self.ranges {
            let first = addresses.partition_point(|&address| address < begin);
            let count = addresses[first..].iter().take_while(|&&address| address < end).count();
            claims.extend((first..first + count).map(|i| (unit, i as u32)));
        }
        claims.sort_unstable();
        claims.dedup();
        let units: Vec<_> = claims
            .chunk_by(|a, b| a.0 == b.0)
            .map(|chunk| (chunk[0].0, chunk.iter().map(|&(_, i)| i).collect()))
            .collect();
        let count = addresses.len() as u32;
        // The list of all addresses is made for one unit at a time.
        units.into_iter().chain(self.unranged.iter().map(move |&unit| (unit, (0..count).collect())))
    }

    /// Serializes the index, for [`Self::from_bytes`].
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        let counts = [self.offsets.len(), self.ranges.len(), self.unranged.len()];
        let offsets = self.offsets.iter().copied();
        let words = counts.into_iter().chain(offsets).map(|word| word as u64);
        let ranges = self.ranges.iter().flat_map(|&(begin, end, at)| [begin, end, at.into()]);
        let unranged = self.unranged.iter().copied().map(u64::from);
        out.extend(words.chain(ranges).chain(unranged).flat_map(u64::to_le_bytes));
    }

    /// Reads a serialized index; `None` if it is damaged.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut words = bytes.as_chunks().0.iter().copied().map(u64::from_le_bytes);
        let mut count = || words.next()?.try_into().ok();
        let (offsets, ranges, unranged): (usize, usize, usize) = (count()?, count()?, count()?);
        let needed = ranges.checked_mul(3)?.checked_add(offsets)?.checked_add(unranged)?;
        if words.len() != needed {
            return None;
        }
        let offset = |word: u64| usize::try_from(word).ok();
        let unit = |word: u64| u32::try_from(word).ok().filter(|at| (*at as usize) < offsets);
        Some(Self {
            offsets: words.by_ref().take(offsets).map(offset).collect::<Option<_>>()?,
            ranges: (0..ranges)
                .map(|_| Some((words.next()?, words.next()?, unit(words.next()?)?)))
                .collect::<Option<_>>()?,
            unranged: words.map(unit).collect::<Option<_>>()?,
        })
    }

    pub fn offset(&self, position: u32) -> DebugInfoOffset {
        DebugInfoOffset(self.offsets[position as usize])
    }

    /// Offset of the unit that contains the entry at `offset`.
    pub fn containing(&self, offset: DebugInfoOffset) -> Option<DebugInfoOffset> {
        let after = self.offsets.partition_point(|&unit| unit <= offset.0);
        Some(DebugInfoOffset(self.offsets[after.checked_sub(1)?]))
    }
}

/// Addresses of an entry, from its attributes. (`gimli::Dwarf::die_ranges` does the same, but overflows on a
/// damaged size.)
#[derive(Clone, Copy, Default)]
pub(crate) struct Extent<'a> {
    low_pc: Option<u64>,
    high_pc: Option<u64>,
    size: Option<u64>,
    ranges: Option<AttributeValue<Reader<'a>>>,
}

impl<'a> Extent<'a> {
    /// Records an attribute, if it is about addresses.
    pub fn read(
        &mut self,
        dwarf: &Dwarf<'a>,
        unit: &Unit<'a>,
        attribute: &gimli::Attribute<Reader<'a>>,
    ) -> gimli::Result<()> {
        match attribute.name() {
            gimli::DW_AT_low_pc => self.low_pc = dwarf.attr_address(unit, attribute.value())?,
            gimli::DW_AT_high_pc => match attribute.value() {
                AttributeValue::Udata(size) => self.size = Some(size),
                value => self.high_pc = dwarf.attr_address(unit, value)?,
            },
            gimli::DW_AT_ranges => self.ranges = Some(attribute.value()),
            _ => {}
        }
        Ok(())
    }

    /// Calls `with` with the start and end of each range; ranges may be empty.
    pub fn for_each(
        &self,
        dwarf: &Dwarf<'a>,
        unit: &Unit<'a>,
        mut with: impl FnMut(u64, u64),
    ) -> gimli::Result<()> {
        if let Some(ranges) = self.ranges {
            // The base address of a range list is not a range itself.
            if let Some(mut ranges) = dwarf.attr_ranges(unit, ranges)? {
                while let Some(range) = ranges.next()? {
                    with(range.begin, range.end);
                }
            }
        } else if let Some(low) = self.low_pc {
            let end = self.size.map(|size| low.saturating_add(size)).or(self.high_pc);
            with(low, end.unwrap_or(low));
        }
        Ok(())
    }
}

/// Reads the abbreviations up to the one of the unit's root entry, which comes first: reading all of them takes
/// most of the time of building an index.
fn root_abbreviations(
    dwarf: &Dwarf<'_>,
    header: &gimli::UnitHeader<Reader<'_>>,
) -> gimli::Result<Abbreviations> {
    let code = header.range_from(header.root_offset()..)?.read_uleb128()?;
    let mut declarations = *dwarf.debug_abbrev.reader();
    declarations.skip(header.debug_abbrev_offset().0)?;
    let mut rest = declarations;
    loop {
        // Code, tag, has-children flag; then pairs of name and form (DWARF 5, 7.5.3).
        let declared = rest.read_uleb128()?;
        if declared == 0 {
            break;
        }
        rest.read_uleb128()?;
        rest.read_u8()?;
        loop {
            let (name, form) = (rest.read_uleb128()?, rest.read_uleb128()?);
            if form == u64::from(gimli::DW_FORM_implicit_const.0) {
                rest.read_sleb128()?;
            }
            if (name, form) == (0, 0) {
                break;
            }
        }
        if declared == code {
            break;
        }
    }
    declarations.truncate(declarations.len() - rest.len())?;
    DebugAbbrev::from(declarations).abbreviations(DebugAbbrevOffset(0))
}

/// Returns true if a unit has a non-empty line program. Units that define only data have an empty one, and a
/// library can have thousands of such units.
fn has_lines<'a>(
    dwarf: &Dwarf<'a>,
    unit: &Unit<'a>,
    root: &gimli::DebuggingInformationEntry<Reader<'a>>,
) -> bool {
    let Some(AttributeValue::DebugLineRef(offset)) = root.attr_value(gimli::DW_AT_stmt_list) else {
        return false;
    };
    let size = unit.encoding().address_size;
    let program = dwarf.debug_line.program(offset, size, None, None);
    !program.is_ok_and(|program| matches!(program.rows().next_row(), Ok(None)))
}

/// Reads a unit's root entry and the attributes needed to read its other entries. Unlike `gimli::Unit::new`, it
/// does not parse the file table of the line program, which is expensive if there are thousands of units.
pub(crate) fn light_unit<'a>(
    dwarf: &Dwarf<'a>,
    header: gimli::UnitHeader<Reader<'a>>,
    abbreviations: Arc<Abbreviations>,
) -> gimli::Result<(Unit<'a>, gimli::DebuggingInformationEntry<Reader<'a>>)> {
    let encoding = header.encoding();
    let mut unit = gimli::Unit {
        abbreviations,
        name: None,
        comp_dir: None,
        low_pc: 0,
        str_offsets_base: gimli::DebugStrOffsetsBase::default_for_encoding_and_file(
            encoding,
            dwarf.file_type,
        ),
        addr_base: gimli::DebugAddrBase(0),
        loclists_base: gimli::DebugLocListsBase(0),
        rnglists_base: gimli::DebugRngListsBase::default_for_encoding_and_file(
            encoding,
            dwarf.file_type,
        ),
        line_program: None,
        dwo_id: None,
        header,
    };
    let mut root = gimli::DebuggingInformationEntry::null();
    if !unit.entries_raw(None)?.read_entry(&mut root)? {
        return Err(gimli::Error::MissingUnitDie);
    }
    for attribute in root.attrs() {
        match attribute.value() {
            AttributeValue::DebugStrOffsetsBase(base) => unit.str_offsets_base = base,
            AttributeValue::DebugAddrBase(base) => unit.addr_base = base,
            AttributeValue::DebugRngListsBase(base) => unit.rnglists_base = base,
            _ => {}
        }
    }
    if let Some(low_pc) = root.attr_value(gimli::DW_AT_low_pc) {
        unit.low_pc = dwarf.attr_address(&unit, low_pc)?.unwrap_or(0);
    }
    Ok((unit, root))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    /// They were asked for every address of the file, and had a list of all of them each: 200 MB for a library with
    /// thousands of such units.
    #[test]
    fn units_of_data_only_are_not_asked_for_addresses() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            fs::write(folder.path().join(name), text).expect("it is writable");
        };
        write("data.c", "int data[] = { 1, 2 };\n");
        write("code.c", "extern int data[];\nint main(void) { return data[0]; }\n");
        for version in ["-gdwarf-2", "-gdwarf-4", "-gdwarf-5"] {
            let gcc = Command::new("gcc")
                .args([version, "-o", "program", "code.c", "data.c"])
                .current_dir(&folder)
                .status();
            assert!(gcc.is_ok_and(|status| status.success()));
            let bytes = fs::read(folder.path().join("program")).expect("it was built");
            let image = Image::from_bytes(bytes).expect("an ELF file");
            let sections = DebugSections::load(&image).expect("readable").expect("there are some");
            let index = UnitIndex::build(&sections.dwarf(&image), 1).expect("whole");
            let counts = (index.offsets.len(), index.ranges.len(), index.unranged.len());
            assert_eq!(counts, (2, 1, 0), "{version}");
        }
    }
}
