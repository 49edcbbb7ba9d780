//! Functions, with their code: their own, and that of each call of them that was inlined.

use std::collections::HashMap;
use std::ops::Range;

use gimli::{Attribute, AttributeValue, DW_TAG_inlined_subroutine, DW_TAG_subprogram, DwTag};
use pyrograph_symbol::demangle;

use crate::program::{EntryId, Reader, Value, View};

/// A function that has code.
#[derive(Clone, Debug)]
pub struct Function {
    /// Name in the source, with its namespaces, without parameters.
    pub name: String,
    /// Name in symbol tables, if it differs.
    pub linkage_name: Option<String>,
    /// The function as it is declared: return type, name, parameters.
    pub signature: String,
    /// Source file.
    pub file: Option<String>,
    /// Line of its declaration, from 1; 0 if unknown.
    pub line: u32,
    /// Its code: its own, then that of inlined calls.
    pub bodies: Vec<Body>,
    /// An entry with code of it.
    pub(crate) declared: EntryId,
}

/// Code of a function or of an inlined call of it.
#[derive(Clone, Debug)]
pub struct Body {
    /// Address of its first instruction, in the file.
    pub entry: u64,
    /// Addresses of its instructions. A function may have several ranges.
    pub ranges: Vec<Range<u64>>,
    /// The function into which the call was inlined. `None` for a function's own code.
    pub inlined_into: Option<String>,
    pub(crate) id: EntryId,
    /// The function whose frame the code uses.
    pub(crate) frame: EntryId,
}

impl Body {
    /// Returns true if an instruction is of this code.
    pub fn contains(&self, address: u64) -> bool {
        self.ranges.iter().any(|range| range.contains(&address))
    }
}

/// Names by which a function can be asked for.
pub(crate) struct Names {
    /// The plain name, without namespaces.
    pub plain: Option<String>,
    /// The name in symbol tables.
    pub linkage: Option<String>,
    /// The demangled name.
    pub full: Option<String>,
}

impl<'a> View<'a> {
    /// Returns the functions of which `wanted` accepts a name: the one in the source with or without namespaces, or
    /// the one in symbol tables. Sorted by name, file and line.
    pub fn functions(&self, wanted: impl Fn(&str) -> bool) -> Vec<Function> {
        let mut search =
            Search { view: self, wanted: &wanted, known: HashMap::new(), found: Vec::new() };
        for unit in 0..self.units.len() {
            // Functions before damage are kept.
            let _ = search.read_unit(unit);
        }
        let mut found = search.found;
        for function in &mut found {
            function.bodies.sort_by_key(|body| (body.inlined_into.is_some(), body.entry));
            function.bodies.dedup_by_key(|body| (body.inlined_into.is_some(), body.entry));
        }
        found.retain(|function| !function.bodies.is_empty());
        let key = |of: &Function| (of.name.clone(), of.file.clone(), of.line, of.bodies[0].entry);
        found.sort_by_key(key);
        found
    }

    pub(crate) fn names(&self, id: EntryId) -> Names {
        let linkage = self.text(id, gimli::DW_AT_linkage_name);
        let linkage = linkage.or_else(|| self.text(id, gimli::DW_AT_MIPS_linkage_name));
        let full = linkage.as_deref().map(|name| demangle(name).into_owned());
        Names { plain: self.text(id, gimli::DW_AT_name), linkage, full }
    }

    /// The source file in which an entry is declared.
    pub(crate) fn declared_in(&self, id: EntryId) -> Option<String> {
        let (unit, value) = self.attribute(id, gimli::DW_AT_decl_file)?;
        match value {
            AttributeValue::FileIndex(file) => self.file(unit, file),
            value => self.file(unit, value.udata_value()?),
        }
    }

    /// `body` is an entry with code of the function.
    fn function(&self, body: EntryId, names: Names) -> Function {
        let Names { plain, linkage, full } = names;
        let name = full.or(plain).unwrap_or_default();
        // Of the definition, if it has them, and not of a declaration elsewhere.
        let file = self.declared_in(body);
        let line = self.number(body, gimli::DW_AT_decl_line).unwrap_or(0);
        Function {
            signature: self.signature(body, &name),
            linkage_name: linkage.filter(|linkage| *linkage != name),
            name,
            file,
            line: u32::try_from(line).unwrap_or(0),
            bodies: Vec::new(),
            declared: body,
        }
    }
}

/// A search through the entries of all units.
struct Search<'a, 'q> {
    view: &'q View<'a>,
    wanted: &'q dyn Fn(&str) -> bool,
    /// For each declaring entry, the index of its function if it is wanted.
    known: HashMap<EntryId, Option<usize>>,
    found: Vec<Function>,
}

/// A function or inlined call around the current entry.
struct Around {
    depth: isize,
    id: EntryId,
}

impl<'a> Search<'a, '_> {
    fn read_unit(&mut self, unit: usize) -> gimli::Result<()> {
        let view = self.view;
        let Some(of) = view.units.get(unit) else { return Ok(()) };
        let mut entries = of.entries_raw(None)?;
        let mut around: Vec<Around> = Vec::new();
        while !entries.is_empty() {
            let (offset, depth) = (entries.next_offset(), entries.next_depth());
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            while around.last().is_some_and(|around| around.depth >= depth) {
                around.pop();
            }
            let tag = abbreviation.tag();
            if tag != DW_TAG_subprogram && tag != DW_TAG_inlined_subroutine {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let (mut origin, mut has_code) = (None, false);
            for &spec in abbreviation.attributes() {
                let attribute = entries.read_attribute_inline(spec)?;
                has_code |= is_code(&attribute);
                origin = origin.or_else(|| origin_of(&attribute));
            }
            let id = EntryId { unit, offset };
            if has_code {
                self.add(id, tag, origin, around.last().map(|around| around.id));
            }
            if tag == DW_TAG_subprogram {
                around.push(Around { depth, id });
            }
        }
        Ok(())
    }

    /// Adds code to its function, if that is wanted.
    fn add(&mut self, id: EntryId, tag: DwTag, origin: Option<Value<'a>>, around: Option<EntryId>) {
        let view = self.view;
        let root = match origin.and_then(|origin| view.referred(id.unit, origin)) {
            Some(origin) => view.origins(origin).last().map_or(origin, |(id, _)| *id),
            None => id,
        };
        // Of a constructor, each variant has a symbol of its own.
        let index = self.index(root, id).or_else(|| self.index(id, id));
        let Some(index) = index else { return };
        let Some(entry) = view.entry(id) else { return };
        let ranges = view.ranges(id, &entry);
        let Some(first) = ranges.first().map(|range| range.start) else { return };
        let unit = &view.units[id.unit];
        let at = match entry.attr_value(gimli::DW_AT_entry_pc) {
            // Since DWARF 5, it may be an offset.
            Some(value) => match value.udata_value() {
                Some(offset) => first.checked_add(offset),
                None => view.dwarf.attr_address(unit, value).ok().flatten(),
            },
            None => None,
        };
        let at = at.filter(|at| ranges.iter().any(|range| range.contains(at))).unwrap_or(first);
        let is_inlined = tag == DW_TAG_inlined_subroutine;
        let inlined_into = is_inlined.then(|| {
            let names = around.map(|around| view.names(around));
            names.and_then(|names| names.full.or(names.plain)).unwrap_or_default()
        });
        let frame = around.filter(|_| is_inlined).unwrap_or(id);
        self.found[index].bodies.push(Body { entry: at, ranges, inlined_into, id, frame });
    }

    /// Index of the function that `root` declares, if it is wanted; `body` is an entry with code of it.
    fn index(&mut self, root: EntryId, body: EntryId) -> Option<usize> {
        if let Some(known) = self.known.get(&root) {
            return *known;
        }
        let names = self.view.names(root);
        let all = [&names.plain, &names.linkage, &names.full];
        let is_wanted = all.into_iter().flatten().any(|name| (self.wanted)(name));
        let index = is_wanted.then(|| {
            self.found.push(self.view.function(body, names));
            self.found.len() - 1
        });
        self.known.insert(root, index);
        index
    }
}

fn is_code(attribute: &Attribute<Reader<'_>>) -> bool {
    matches!(attribute.name(), gimli::DW_AT_low_pc | gimli::DW_AT_ranges)
}

fn origin_of<'a>(attribute: &Attribute<Reader<'a>>) -> Option<Value<'a>> {
    let names = [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification];
    names.contains(&attribute.name()).then(|| attribute.value())
}
