//! Scopes of C++ functions: namespaces, classes, other functions.
//!
//! GCC emits no linkage name for some functions that it inlines: members of local classes, which includes all
//! lambdas, and templates over them. `operator()` alone is meaningless in a flame graph.

use gimli::{DwLang, DwTag, UnitOffset};

use crate::dwarf::{Dwarf, Reader, Unit};

/// Entries of a unit that can enclose a function.
#[derive(Debug, Default)]
pub(crate) struct Scopes<'a> {
    /// By offset; nested scopes come after the scopes around them.
    scopes: Vec<Scope<'a>>,
}

/// A namespace, class or function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    pub offset: UnitOffset,
    end: UnitOffset,
    /// Position of the enclosing scope, plus one; 0 for none.
    parent: u32,
    pub tag: DwTag,
    pub name: Option<Reader<'a>>,
}

impl<'a> Scopes<'a> {
    /// Reads the scopes of a unit; none if it is not C++, because names in other languages are complete.
    pub fn read(dwarf: &Dwarf<'a>, unit: &Unit<'a>) -> Self {
        let mut scopes = Self::default();
        // If the unit is damaged, scopes from before the damage are kept.
        let _ = scopes.walk(dwarf, unit);
        scopes
    }

    fn walk(&mut self, dwarf: &Dwarf<'a>, unit: &Unit<'a>) -> gimli::Result<()> {
        let mut entries = unit.entries_raw(None)?;
        let mut entry = gimli::DebuggingInformationEntry::null();
        // Position in `scopes`, and depth, of each scope that encloses the current entry.
        let mut around: Vec<(u32, isize)> = Vec::new();
        while !entries.is_empty() {
            let offset = entries.next_offset();
            let depth = entries.next_depth();
            while let Some(&(innermost, _)) = around.last().filter(|(_, d)| *d >= depth) {
                self.scopes[innermost as usize].end = offset;
                around.pop();
            }
            if !entries.read_entry(&mut entry)? {
                continue;
            }
            if offset == unit.header.root_offset() && !is_cpp(&entry) {
                return Ok(());
            }
            let tag = entry.tag();
            if !entry.has_children() || !is_scope(tag) {
                continue;
            }
            let name = entry.attr_value(gimli::DW_AT_name);
            let name = name.and_then(|name| dwarf.attr_string(unit, name).ok());
            let parent = around.last().map_or(0, |(parent, _)| parent + 1);
            let Ok(position) = u32::try_from(self.scopes.len()) else { return Ok(()) };
            // Provisional, until the end is found.
            let end = UnitOffset(usize::MAX);
            self.scopes.push(Scope { offset, end, parent, tag, name });
            around.push((position, depth));
        }
        Ok(())
    }

    /// Scopes that enclose the entry at `offset`, innermost first.
    pub fn around(&self, offset: UnitOffset) -> Vec<Scope<'a>> {
        let mut found = Vec::new();
        let mut next = self.scopes.partition_point(|scope| scope.offset < offset);
        while let Some(scope) = next.checked_sub(1).map(|i| self.scopes[i]) {
            if offset < scope.end {
                found.push(scope);
            }
            next = scope.parent as usize;
        }
        found
    }
}

fn is_scope(tag: DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_namespace
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_subprogram
    )
}

fn is_cpp(root: &gimli::DebuggingInformationEntry<Reader<'_>>) -> bool {
    // Not in DWARF 5 yet; codes from the list at dwarfstd.org/languages.html.
    const CPP_17: DwLang = DwLang(0x2a);
    const CPP_20: DwLang = DwLang(0x2b);
    matches!(
        root.attr_value(gimli::DW_AT_language),
        Some(gimli::AttributeValue::Language(
            gimli::DW_LANG_C_plus_plus
                | gimli::DW_LANG_C_plus_plus_03
                | gimli::DW_LANG_C_plus_plus_11
                | gimli::DW_LANG_C_plus_plus_14
                | CPP_17
                | CPP_20
        ))
    )
}
