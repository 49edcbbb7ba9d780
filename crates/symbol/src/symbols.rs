//! Lookup of the symbols that cover addresses, in ELF symbol tables.
//!
//! A symbol table is read once for all addresses, front to back. Nothing is sorted, and only the best symbol of
//! each address is kept: reading the 200,000 symbols of a large program takes a few milliseconds, and memory grows
//! with the number of addresses, not with the file.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use object::elf::{STB_GLOBAL, STB_WEAK, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE};
use object::{
    Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, SectionFlags, SymbolFlags, SymbolIndex,
    SymbolSection, elf,
};
use pyrograph_elf::Image;

/// A symbol that covers an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbol<'a> {
    pub start: u64,
    /// Size in bytes; 0 for a label, which reaches to the next symbol.
    pub size: u64,
    /// Name in the file, without the symbol version.
    pub name: &'a [u8],
    is_function: bool,
    is_exported: bool,
    is_weak: bool,
}

/// Names of the functions that share their code with others, by its start and size.
pub(crate) type SameCode<'a> = BTreeMap<(u64, u64), BTreeSet<&'a [u8]>>;

impl<'a> Symbol<'a> {
    /// Returns true if another symbol of the same code may be another function, and not another name of this one: libraries in
    /// C give their functions further names that are weak or begin with an underscore.
    fn is_own_function(&self) -> bool {
        let is_mangled = [&b"_Z"[..], b"_R"].iter().any(|start| self.name.starts_with(start));
        self.is_function && (is_mangled || !self.is_weak && !self.name.starts_with(b"_"))
    }

    fn end(&self) -> u64 {
        self.start.saturating_add(self.size)
    }

    /// Sort key: the symbol with the largest key names an address. Inner symbols win over outer ones. Among aliases
    /// of one range, functions win over other symbols, then exported symbols over local ones, then names without
    /// `__GI_` (glibc's prefix of names for its internal calls), then names with fewer leading underscores, then
    /// shorter ones: `write`, not `__write` or `__GI___libc_write`. The bytes of the name come last, so that the
    /// result does not depend on the order of the table.
    fn claim(&self) -> impl Ord + use<'a> {
        let underscores = self.name.iter().take_while(|&&b| b == b'_').count();
        (
            self.start,
            Reverse(self.size),
            self.is_function,
            self.is_exported,
            !self.name.starts_with(b"__GI_"),
            Reverse((underscores, self.name.len(), self.name)),
        )
    }
}

/// Finds the symbols of a sorted list of addresses in any number of symbol tables.
pub(crate) struct Finder<'a, 'q> {
    /// Sorted, without duplicates.
    addresses: &'q [u64],
    /// Address ranges of code, sorted.
    text: &'q [Range<u64>],
    /// For each address, the best sized symbol that covers it.
    covering: Vec<Option<Symbol<'a>>>,
    /// Element `i` is the last label after `addresses[i - 1]` and at or before `addresses[i]`.
    labels: Vec<Option<Symbol<'a>>>,
    /// Element `i` is the largest end of the sized symbols that start in the same gap as `labels[i]`.
    ends: Vec<u64>,
    same_code: SameCode<'a>,
}

impl<'a, 'q> Finder<'a, 'q> {
    pub fn new(addresses: &'q [u64], text: &'q [Range<u64>]) -> Self {
        Self {
            addresses,
            text,
            covering: vec![None; addresses.len()],
            labels: vec![None; addresses.len()],
            ends: vec![0; addresses.len()],
            same_code: SameCode::new(),
        }
    }

    /// Takes the names of functions that share their code with others: compilers and linkers keep one of functions whose
    /// instructions are the same (`-fipa-icf`, `--icf`).
    pub fn same_code(&mut self) -> SameCode<'a> {
        std::mem::take(&mut self.same_code)
    }

    /// Adds the symbols in `.symtab` and `.dynsym` of `elf`.
    pub fn read(&mut self, elf: &object::File<'a>) {
        for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
            self.take(&symbol);
        }
    }

    /// Like [`Self::read`], but uses a sorted index of these tables to read only the symbols near the addresses.
    pub fn read_sorted(&mut self, elf: &object::File<'a>, sorted: &Sorted) {
        let tables = [elf.symbol_table(), elf.dynamic_symbol_table()];
        let symbol = |place: u32| {
            let table = tables[usize::from(place & Sorted::DYNAMIC != 0)].as_ref()?;
            table.symbol_by_index(SymbolIndex((place & !Sorted::DYNAMIC) as usize)).ok()
        };
        for (i, &address) in self.addresses.iter().enumerate() {
            let sized = &sorted.sized;
            let sized = &sized[..sized.partition_point(|(start, ..)| *start <= address)];
            let furthest = sized.last().map_or(0, |(_, furthest, _)| *furthest);
            self.ends[i] = self.ends[i].max(furthest);
            let covering = sized.iter().rev().take_while(|(_, furthest, _)| *furthest > address);
            let labels = &sorted.labels;
            let labels = &labels[..labels.partition_point(|(start, _)| *start <= address)];
            let last = labels.last().map(|(start, _)| *start);
            let last = labels.iter().rev().take_while(|(start, _)| Some(*start) == last);
            let places = covering.map(|(.., place)| *place).chain(last.map(|(_, place)| *place));
            for symbol in places.filter_map(symbol) {
                self.take(&symbol);
            }
        }
    }

    fn take(&mut self, symbol: &object::Symbol<'a, '_>) {
        let Some(is_function) = is_function(symbol) else { return };
        let (start, size) = (symbol.address(), symbol.size());
        let first = self.addresses.partition_point(|&address| address < start);
        let Some(address) = self.addresses.get(first) else { return };
        // Most symbols cover none of the requested addresses. Their names are scattered over the file, and reading
        // them would take most of the time.
        if is_function && size > 0 && *address >= start.saturating_add(size) {
            self.ends[first] = self.ends[first].max(start.saturating_add(size));
            return;
        }
        let Some(name) = name_of(symbol, is_function) else { return };
        let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { return };
        let bind = st_info.st_bind();
        let is_weak = bind == STB_WEAK;
        let is_exported = bind == STB_GLOBAL || is_weak;
        self.add(Symbol { start, size, name, is_function, is_exported, is_weak }, first);
    }

    fn add(&mut self, symbol: Symbol<'a>, first: usize) {
        let better = |old: &Option<Symbol<'a>>| old.is_none_or(|old| old.claim() < symbol.claim());
        if symbol.size == 0 {
            if better(&self.labels[first]) {
                self.labels[first] = Some(symbol);
            }
            return;
        }
        self.ends[first] = self.ends[first].max(symbol.end());
        for (address, best) in self.addresses[first..].iter().zip(&mut self.covering[first..]) {
            if *address >= symbol.end() {
                break;
            }
            if let Some(old) = best
                && (old.start, old.size) == (symbol.start, symbol.size)
                && old.name != symbol.name
            {
                for own in [*old, symbol].into_iter().filter(Symbol::is_own_function) {
                    self.same_code.entry((own.start, own.size)).or_default().insert(own.name);
                }
            }
            if better(best) {
                *best = Some(symbol);
            }
        }
    }

    /// Returns true if a sized symbol covers every address, so that no further symbol table is needed.
    pub fn is_complete(&self) -> bool {
        self.covering.iter().all(Option::is_some)
    }

    /// Returns the symbol that covers each address. A label covers the code up to the next symbol or the end of its
    /// section, unless the label lies within a sized symbol, or `divided(label, address)` returns true: then a
    /// function begins or ends between the two.
    pub fn finish(mut self, mut divided: impl FnMut(u64, u64) -> bool) -> Vec<Option<Symbol<'a>>> {
        let mut label: Option<Symbol<'a>> = None;
        let mut end = 0;
        for (i, &address) in self.addresses.iter().enumerate() {
            label = self.labels[i].or(label);
            end = end.max(self.ends[i]);
            if self.covering[i].is_none()
                && let Some(label) = label
                && end <= label.start
                && same_range(self.text, label.start, address)
                && !divided(label.start, address)
            {
                self.covering[i] = Some(label);
            }
        }
        self.covering
    }
}

/// Index of a file's symbols by address, to look up a few addresses without reading the whole table.
#[derive(Debug)]
pub(crate) struct Sorted {
    /// Start, largest end of this and all preceding symbols, and position in the file's tables; sorted.
    sized: Vec<(u64, u64, u32)>,
    labels: Vec<(u64, u32)>,
}

impl Sorted {
    /// Flag of a position: it refers to `.dynsym`, not to `.symtab`.
    const DYNAMIC: u32 = 1 << 31;
    /// Maximum number of symbols. The index of a file with more would take too much memory: over 6 MiB.
    const MOST: usize = 1 << 18;

    /// Indexes `.symtab` and `.dynsym` of a file; `None` if they hold more than [`Self::MOST`] symbols.
    pub fn new(elf: &object::File<'_>) -> Option<Self> {
        let mut sorted = Self { sized: Vec::new(), labels: Vec::new() };
        let symbols = elf.symbols().map(|symbol| (symbol, 0));
        let dynamic = elf.dynamic_symbols().map(|symbol| (symbol, Self::DYNAMIC));
        for (symbol, table) in symbols.chain(dynamic) {
            let Some(is_function) = is_function(&symbol) else { continue };
            let (start, place) = (symbol.address(), symbol.index().0 as u32 | table);
            match symbol.size() {
                0 if name_of(&symbol, is_function).is_none() => {}
                0 => sorted.labels.push((start, place)),
                size => sorted.sized.push((start, start.saturating_add(size), place)),
            }
            if sorted.labels.len() + sorted.sized.len() > Self::MOST {
                return None;
            }
        }
        sorted.labels.sort_unstable();
        sorted.sized.sort_unstable();
        let mut furthest = 0;
        for (_, end, _) in &mut sorted.sized {
            furthest = furthest.max(*end);
            *end = furthest;
        }
        Some(sorted)
    }

    /// Size of the index in bytes.
    pub fn bytes(&self) -> usize {
        self.sized.capacity() * size_of::<(u64, u64, u32)>()
            + self.labels.capacity() * size_of::<(u64, u32)>()
    }
}

/// Returns true if a symbol is a function, false if it is a label; `None` if it is not a location in code.
fn is_function(symbol: &object::Symbol<'_, '_>) -> Option<bool> {
    let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { return None };
    let kind = st_info.st_type();
    let is_function = kind == STT_FUNC || kind == STT_GNU_IFUNC;
    // Assembler labels have no type. Undefined symbols refer to other files.
    if !(is_function || kind == STT_NOTYPE) || symbol.is_undefined() {
        return None;
    }
    // An absolute symbol without a type is a constant, not an address.
    (is_function || symbol.section() != SymbolSection::Absolute).then_some(is_function)
}

/// Name of a function or label, without the symbol version; `None` if it has no usable name.
fn name_of<'a>(symbol: &object::Symbol<'a, '_>, is_function: bool) -> Option<&'a [u8]> {
    let name = without_version(symbol.name_bytes().ok()?);
    (!name.is_empty() && (is_function || !is_mapping_symbol(name))).then_some(name)
}

fn same_range(ranges: &[Range<u64>], start: u64, address: u64) -> bool {
    ranges.iter().any(|range| range.contains(&start) && range.contains(&address))
}

/// Removes the symbol version: `memcpy@@GLIBC_2.14` → `memcpy`.
pub(crate) fn without_version(name: &[u8]) -> &[u8] {
    match name.iter().position(|&b| b == b'@') {
        Some(at) if at > 0 => &name[..at],
        _ => name,
    }
}

/// Returns true for labels that separate code from data, not functions from each other: `$x`, `$d.12` (ELF for the
/// Arm 64-bit Architecture, 5.5.1), and the assembler's local labels, `.L…`.
fn is_mapping_symbol(name: &[u8]) -> bool {
    name.starts_with(b"$") || name.starts_with(b".L")
}

/// Address ranges that hold code: the executable sections or, if the section table is stripped, the executable
/// segments. Sorted.
pub(crate) fn text_ranges(image: &Image) -> Vec<Range<u64>> {
    let is_text = |flags| matches!(flags, SectionFlags::Elf { sh_flags, .. } if sh_flags.contains(elf::SHF_EXECINSTR));
    let mut ranges: Vec<_> = image
        .elf()
        .sections()
        .filter(|section| is_text(section.flags()))
        .map(|section| section.address()..section.address().saturating_add(section.size()))
        .collect();
    if ranges.is_empty() {
        ranges = image
            .segments()
            .iter()
            .filter(|segment| segment.executable)
            .map(|segment| segment.address..segment.address.saturating_add(segment.size))
            .collect();
    }
    ranges.sort_unstable_by_key(|range| range.start);
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: [Range<u64>; 2] = [0x100..0x200, 0x200..0x300];

    /// `(name, start, size, is_function, is_exported)`
    type Row = (&'static str, u64, u64, bool, bool);

    #[track_caller]
    fn check(table: &[Row], expect: &[(u64, &str)]) {
        let addresses: Vec<u64> = expect.iter().map(|(address, _)| *address).collect();
        // The result must not depend on the order of the table.
        for rotation in 0..table.len() {
            let mut finder = Finder::new(&addresses, &TEXT);
            for &(name, start, size, is_function, is_exported) in
                table[rotation..].iter().chain(&table[..rotation])
            {
                let first = addresses.partition_point(|&address| address < start);
                if first < addresses.len() {
                    let name = name.as_bytes();
                    let is_weak = false;
                    finder.add(
                        Symbol { start, size, name, is_function, is_exported, is_weak },
                        first,
                    );
                }
            }
            let found = finder.finish(|_, _| false);
            let names: Vec<&str> =
                found.iter().map(|s| s.map_or("", |s| str::from_utf8(s.name).unwrap())).collect();
            let expect: Vec<&str> = expect.iter().map(|(_, name)| *name).collect();
            assert_eq!(names, expect, "rotated by {rotation}");
        }
    }

    #[test]
    fn sizes_end_functions() {
        let table = [("a", 0x110, 0x10, true, true), ("b", 0x130, 0x10, true, true)];
        check(&table, &[(0x10f, ""), (0x110, "a"), (0x11f, "a"), (0x120, ""), (0x13f, "b")]);
    }

    #[test]
    fn inner_functions_win() {
        let table = [("outer", 0x110, 0x40, true, true), ("inner", 0x120, 0x10, true, false)];
        check(&table, &[(0x11f, "outer"), (0x120, "inner"), (0x12f, "inner"), (0x130, "outer")]);
    }

    #[test]
    fn labels_reach_to_the_next_symbol_of_their_section() {
        let table = [
            ("label", 0x110, 0, false, false),
            ("function", 0x120, 0x10, true, true),
            ("inside", 0x128, 0, false, true),
            ("last", 0x1f0, 0, false, false),
        ];
        let expect = [
            (0x10f, ""),
            (0x110, "label"),
            (0x11f, "label"),
            (0x129, "function"),
            (0x130, ""),
            (0x1ff, "last"),
            (0x200, ""),
        ];
        check(&table, &expect);
    }

    #[test]
    fn aliases() {
        let best = |table: &[Row], expect: &str| check(table, &[(0x110, expect)]);
        let row = |name, is_exported| (name, 0x110, 0x10, true, is_exported);
        best(&[row("__write", true), row("write", true), row("__GI___libc_write", false)], "write");
        best(&[row("__GI_strtold_l", false), row("____strtold_l", false)], "____strtold_l");
        best(&[row("local", false), row("_exported", true)], "_exported");
        best(&[row("b", true), row("a", true)], "a");
        best(&[("untyped", 0x110, 0x10, false, true), row("typed", false)], "typed");
    }

    #[test]
    fn names() {
        for (name, expect) in [("f@@V_1.2", "f"), ("f@V_1", "f"), ("@x", "@x"), ("f", "f")] {
            assert_eq!(without_version(name.as_bytes()), expect.as_bytes());
        }
        assert!(
            is_mapping_symbol(b"$x") && is_mapping_symbol(b"$d.12") && is_mapping_symbol(b".L1")
        );
        assert!(!is_mapping_symbol(b"x$"));
    }
}
