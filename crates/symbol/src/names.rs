//! Names of functions, from the entries that describe them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use gimli::{AttributeValue, DebugInfoOffset, UnitOffset};

use crate::demangle::demangle;
use crate::dwarf::{Dwarf, Reader, Unit, UnitIndex, light_unit};

/// A specification may refer to another entry, and that to the next. Real chains have up to three
/// links; damaged ones may have a loop.
const MAX_REFERENCES: usize = 16;

/// Finds the names of functions, each once.
pub(crate) struct Names<'a> {
    /// The main file, and the supplementary one that `dwz` moves common entries to.
    files: [Option<(&'a Dwarf<'a>, &'a UnitIndex)>; 2],
    units: HashMap<(usize, usize), Option<Rc<Unit<'a>>>>,
    names: HashMap<(usize, usize), Option<Arc<str>>>,
}

/// What an entry says about its name.
enum Named<'a> {
    Name(Reader<'a>),
    At { file: usize, offset: DebugInfoOffset },
    Nothing,
}

const MAIN: usize = 0;
const SUPPLEMENTARY: usize = 1;

impl<'a> Names<'a> {
    pub fn new(
        main: (&'a Dwarf<'a>, &'a UnitIndex),
        supplementary: Option<(&'a Dwarf<'a>, &'a UnitIndex)>,
    ) -> Self {
        Self { files: [Some(main), supplementary], units: HashMap::new(), names: HashMap::new() }
    }

    /// The demangled name of the function at `offset` of the main file.
    pub fn function(&mut self, offset: DebugInfoOffset) -> Option<Arc<str>> {
        self.resolve(MAIN, offset, MAX_REFERENCES)
    }

    fn resolve(&mut self, file: usize, offset: DebugInfoOffset, links: usize) -> Option<Arc<str>> {
        let key = (file, offset.0);
        if let Some(name) = self.names.get(&key) {
            return name.clone();
        }
        let name = match self.read(file, offset) {
            Ok((Named::Name(name), _)) => Some(readable(name)),
            Ok((Named::At { file, offset }, fallback)) if links > 0 => {
                self.resolve(file, offset, links - 1).or_else(|| fallback.map(readable))
            }
            Ok((_, fallback)) => fallback.map(readable),
            Err(_) => None,
        };
        self.names.insert(key, name.clone());
        name
    }

    /// A linkage name tells all: namespace, type, parameters. It often stands only where the
    /// function is declared, so the plain name waits until the references have been followed.
    fn read(
        &mut self,
        file: usize,
        offset: DebugInfoOffset,
    ) -> gimli::Result<(Named<'a>, Option<Reader<'a>>)> {
        let missing = gimli::Error::NoEntryAtGivenOffset(offset.0 as u64);
        let (dwarf, _) = self.files[file].ok_or(missing)?;
        let unit = self.unit(file, offset).ok_or(missing)?;
        let entry = offset.to_unit_offset(&unit.header).ok_or(missing)?;
        let entry = read_names(dwarf, &unit, entry)?;
        if let Some(name) = entry.linkage_name {
            return Ok((Named::Name(name), None));
        }
        let next = match entry.origin {
            Some(AttributeValue::UnitRef(origin)) => origin
                .to_debug_info_offset(&unit.header)
                .map_or(Named::Nothing, |offset| Named::At { file, offset }),
            Some(AttributeValue::DebugInfoRef(offset)) => Named::At { file, offset },
            Some(AttributeValue::DebugInfoRefSup(offset)) => {
                Named::At { file: SUPPLEMENTARY, offset }
            }
            _ => Named::Nothing,
        };
        Ok((next, entry.name))
    }

    fn unit(&mut self, file: usize, offset: DebugInfoOffset) -> Option<Rc<Unit<'a>>> {
        let (dwarf, index) = self.files[file]?;
        let start = index.containing(offset)?;
        let parse = || {
            let header = dwarf.debug_info.header_from_offset(start).ok()?;
            light_unit(dwarf, header).ok().map(|(unit, _)| Rc::new(unit))
        };
        self.units.entry((file, start.0)).or_insert_with(parse).clone()
    }
}

struct EntryNames<'a> {
    linkage_name: Option<Reader<'a>>,
    name: Option<Reader<'a>>,
    origin: Option<AttributeValue<Reader<'a>>>,
}

fn read_names<'a>(
    dwarf: &Dwarf<'a>,
    unit: &Unit<'a>,
    offset: UnitOffset,
) -> gimli::Result<EntryNames<'a>> {
    let mut names = EntryNames { linkage_name: None, name: None, origin: None };
    let mut entries = unit.entries_raw(Some(offset))?;
    let Some(abbreviation) = entries.read_abbreviation()? else { return Ok(names) };
    for &spec in abbreviation.attributes() {
        let attribute = entries.read_attribute(spec)?;
        match attribute.name() {
            gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                names.linkage_name = dwarf.attr_string(unit, attribute.value()).ok();
            }
            gimli::DW_AT_name => names.name = dwarf.attr_string(unit, attribute.value()).ok(),
            gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                names.origin = Some(attribute.value());
            }
            _ => {}
        }
    }
    Ok(names)
}

fn readable(name: Reader<'_>) -> Arc<str> {
    match name.to_string_lossy() {
        Cow::Borrowed(name) => demangle(name).into(),
        Cow::Owned(name) => demangle(&name).into(),
    }
}
