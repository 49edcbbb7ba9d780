//! Names and declaration lines of functions, from their DWARF entries.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use gimli::{AttributeValue, DebugInfoOffset, UnitOffset};

use crate::dwarf::{Dwarf, Reader, Unit, UnitIndex, light_unit};
use crate::function_name::FunctionName;
use crate::scopes::Scopes;

/// Maximum length of a chain of references. An entry may refer to another for its name, which may refer to a third.
/// Real chains have up to three links, and functions are nested a few levels deep; damaged ones may loop.
const MAX_REFERENCES: usize = 16;

const MAIN: usize = 0;
const SUPPLEMENTARY: usize = 1;

/// Name and line of a function in its source, if known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Declared {
    /// Demangled name.
    pub name: Option<FunctionName>,
    /// Declaration line, from 1; 0 if unknown.
    pub line: u32,
}

/// Finds the names of functions, and caches them.
pub(crate) struct Names<'a> {
    /// The main file, and the supplementary file to which `dwz` moves common entries.
    files: [Option<(&'a Dwarf<'a>, &'a UnitIndex)>; 2],
    /// Keyed by file and offset of the unit.
    units: HashMap<(usize, usize), Option<Rc<Unit<'a>>>>,
    scopes: HashMap<(usize, usize), Rc<Scopes<'a>>>,
    /// Keyed by file and offset of the entry.
    names: HashMap<(usize, usize), Declared>,
}

impl<'a> Names<'a> {
    pub fn new(
        main: (&'a Dwarf<'a>, &'a UnitIndex),
        supplementary: Option<(&'a Dwarf<'a>, &'a UnitIndex)>,
    ) -> Self {
        Self {
            files: [Some(main), supplementary],
            units: HashMap::new(),
            scopes: HashMap::new(),
            names: HashMap::new(),
        }
    }

    /// Name and line of the function at `offset` in the main file.
    pub fn function(&mut self, offset: DebugInfoOffset) -> Declared {
        self.resolve(MAIN, offset, MAX_REFERENCES)
    }

    fn resolve(&mut self, file: usize, offset: DebugInfoOffset, references: usize) -> Declared {
        let key = (file, offset.0);
        if let Some(known) = self.names.get(&key) {
            return known.clone();
        }
        // Ends a loop of references.
        self.names.insert(key, Declared::default());
        let Some(references) = references.checked_sub(1) else { return Declared::default() };
        let found = self.find(file, offset, references).unwrap_or_default();
        self.names.insert(key, found.clone());
        found
    }

    /// Finds name and line of an entry. A linkage name is complete: namespace, type, parameters. Often only the
    /// declaration has one, so the plain name is used only if following the references finds no name. The line of
    /// the definition, which is more exact, is preferred to the line of the declaration.
    fn find(
        &mut self,
        file: usize,
        offset: DebugInfoOffset,
        references: usize,
    ) -> Option<Declared> {
        let (dwarf, _) = self.files[file]?;
        let unit = self.unit(file, offset)?;
        let at = offset.to_unit_offset(&unit.header)?;
        let names = read(dwarf, &unit, at).ok()?;
        if let Some(name) = names.linkage_name.filter(|_| names.line > 0 || names.origin.is_none())
        {
            return Some(Declared { name: Some(readable(name)), line: names.line });
        }
        let origin = match names.origin {
            Some(AttributeValue::UnitRef(origin)) => {
                origin.to_debug_info_offset(&unit.header).map(|offset| (file, offset))
            }
            Some(AttributeValue::DebugInfoRef(origin)) => Some((file, origin)),
            Some(AttributeValue::DebugInfoRefSup(origin)) => Some((SUPPLEMENTARY, origin)),
            _ => None,
        };
        let declared = origin.map_or_else(Declared::default, |(file, origin)| {
            self.resolve(file, origin, references)
        });
        let name = names.linkage_name.map(readable).or(declared.name);
        let qualified = || Some(self.qualify(file, &unit, at, names.name?, references).into());
        let name = name.or_else(qualified);
        Some(Declared { name, line: if names.line > 0 { names.line } else { declared.line } })
    }

    /// Qualifies a name with the scopes that enclose its entry.
    fn qualify(
        &mut self,
        file: usize,
        unit: &Rc<Unit<'a>>,
        at: UnitOffset,
        name: Reader<'a>,
        references: usize,
    ) -> Arc<str> {
        let mut parts = vec![readable(name).name];
        for scope in self.scopes(file, unit).around(at) {
            if scope.tag == gimli::DW_TAG_subprogram {
                // The name of a function is qualified already.
                let offset = scope.offset.to_debug_info_offset(&unit.header);
                let around = offset.map(|offset| self.resolve(file, offset, references));
                parts.extend(
                    around.and_then(|function| function.name).map(|function| function.name),
                );
                break;
            }
            // An unnamed class with a call operator is the class of a lambda.
            let anonymous = match scope.tag {
                gimli::DW_TAG_namespace => "(anonymous namespace)",
                _ if parts.len() == 1 && matches!(&*parts[0], "operator()" | "_FUN") => "{lambda}",
                _ => "{unnamed}",
            };
            parts.push(scope.name.map_or_else(|| anonymous.into(), |name| text(&name).into()));
        }
        if let [name] = &parts[..] {
            return name.clone();
        }
        parts.reverse();
        parts.join("::").into()
    }

    fn unit(&mut self, file: usize, offset: DebugInfoOffset) -> Option<Rc<Unit<'a>>> {
        let (dwarf, index) = self.files[file]?;
        let start = index.containing(offset)?;
        let parse = || {
            let header = dwarf.debug_info.header_from_offset(start).ok()?;
            let abbreviations = dwarf.abbreviations(&header).ok()?;
            light_unit(dwarf, header, abbreviations).ok().map(|(unit, _)| Rc::new(unit))
        };
        self.units.entry((file, start.0)).or_insert_with(parse).clone()
    }

    fn scopes(&mut self, file: usize, unit: &Rc<Unit<'a>>) -> Rc<Scopes<'a>> {
        let Some(((dwarf, _), offset)) = self.files[file].zip(unit.header.debug_info_offset())
        else {
            return Rc::default();
        };
        let read = || Rc::new(Scopes::read(dwarf, unit));
        self.scopes.entry((file, offset.0)).or_insert_with(read).clone()
    }
}

struct EntryNames<'a> {
    linkage_name: Option<Reader<'a>>,
    name: Option<Reader<'a>>,
    origin: Option<AttributeValue<Reader<'a>>>,
    /// Line of the declaration; 0 if unknown.
    line: u32,
}

fn read<'a>(
    dwarf: &Dwarf<'a>,
    unit: &Unit<'a>,
    offset: UnitOffset,
) -> gimli::Result<EntryNames<'a>> {
    let mut names = EntryNames { linkage_name: None, name: None, origin: None, line: 0 };
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
            gimli::DW_AT_decl_line => {
                let line = attribute.udata_value().and_then(|line| line.try_into().ok());
                names.line = line.unwrap_or(0);
            }
            _ => {}
        }
    }
    Ok(names)
}

fn readable(name: Reader<'_>) -> FunctionName {
    FunctionName::demangled(&text(&name))
}

fn text<'a>(name: &Reader<'a>) -> Cow<'a, str> {
    name.to_string_lossy()
}
