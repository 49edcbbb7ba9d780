//! The function at an address, and the calls inlined in it.
//!
//! One walk over the entries of a unit finds them for all its addresses. It descends only into functions and
//! inlined calls that cover an address, and does not recurse.

use gimli::{AttributeValue, UnitOffset};

use crate::dwarf::{Dwarf, Extent, Reader, Unit};

/// Maximum number of nested inlined calls. Compilers stay below 64; more means damage.
const MAX_INLINED: usize = 256;

/// An inlined call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// Entry of the inlined function.
    pub function: UnitOffset,
    /// Location of the call: an index into the unit's file table, and the line, 0 if unknown.
    pub file: Option<u64>,
    pub line: u32,
    /// Depth of the entry, to distinguish nested calls from siblings that claim the same address.
    depth: isize,
}

/// The function at an address, and the calls inlined in it there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chain {
    /// Entry of the function, and start of its range that holds the address.
    pub function: Option<(UnitOffset, u64)>,
    /// Inlined calls, outermost first.
    pub calls: Vec<Call>,
}

/// Finds the chains of `addresses` (sorted) in `unit`. Damage ends the walk; results from before it are kept.
pub(crate) fn find(
    dwarf: &Dwarf<'_>,
    unit: &Unit<'_>,
    addresses: &[u64],
    lowest: u64,
) -> Vec<Chain> {
    let mut walk = Walk {
        dwarf,
        unit,
        addresses,
        lowest,
        chains: vec![Chain::default(); addresses.len()],
        scopes: Vec::new(),
        base: 0,
    };
    let _ = walk.run(false);
    // Nested functions (a GNU C extension) are found only by descending into all functions.
    if walk.chains.iter().any(|chain| chain.function.is_none()) {
        let _ = walk.run(true);
    }
    walk.chains
}

struct Walk<'a, 'q> {
    dwarf: &'q Dwarf<'a>,
    unit: &'q Unit<'a>,
    addresses: &'q [u64],
    lowest: u64,
    chains: Vec<Chain>,
    /// Functions and inlined calls that enclose the current entry, outermost first.
    scopes: Vec<Scope>,
    /// Offset to add to the depth that `entries` counts, which restarts at 0 after a jump.
    base: isize,
}

struct Scope {
    depth: isize,
    /// Positions of the covered addresses, ascending.
    covered: Vec<u32>,
}

/// Attributes that locate a function or call.
#[derive(Default)]
struct Place<'a> {
    extent: Extent<'a>,
    sibling: Option<UnitOffset>,
    call_file: Option<u64>,
    call_line: u32,
}

type Entries<'a, 'q> = gimli::EntriesRaw<'q, Reader<'a>>;

impl<'a, 'q> Walk<'a, 'q> {
    fn run(&mut self, look_into_all: bool) -> gimli::Result<()> {
        let unit = self.unit;
        let mut entries = unit.entries_raw(None)?;
        self.base = 0;
        self.scopes.clear();
        while !entries.is_empty() {
            let offset = entries.next_offset();
            let depth = self.base + entries.next_depth();
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            while self.scopes.last().is_some_and(|scope| scope.depth >= depth) {
                self.scopes.pop();
            }
            let tag = abbreviation.tag();
            let is_call = tag == gimli::DW_TAG_inlined_subroutine && !self.scopes.is_empty();
            if tag != gimli::DW_TAG_subprogram && !is_call {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let place = self.read_place(&mut entries, abbreviation)?;
            let mut covered = self.covered(&place, is_call)?;
            if !is_call {
                self.enter_function(offset, &mut covered);
            }
            if covered.is_empty() {
                if abbreviation.has_children() && (is_call || !look_into_all) {
                    self.skip_children(&mut entries, depth, place.sibling)?;
                }
                continue;
            }
            if is_call {
                self.enter_call(offset, depth, &place, &covered);
            }
            let covered = covered.into_iter().map(|(i, _)| i).collect();
            self.scopes.push(Scope { depth, covered });
        }
        Ok(())
    }

    /// Assigns the function to the addresses that it covers and that have no function yet. The linker may have
    /// folded identical functions into one: the first of them is used.
    fn enter_function(&mut self, offset: UnitOffset, covered: &mut Vec<(u32, u64)>) {
        let is_nested = !self.scopes.is_empty();
        covered.retain(|&(i, start)| {
            let chain = &mut self.chains[i as usize];
            let is_its_own = chain.function.is_none() || is_nested;
            if is_its_own {
                *chain = Chain { function: Some((offset, start)), calls: Vec::new() };
            }
            is_its_own
        });
    }

    fn enter_call(
        &mut self,
        function: UnitOffset,
        depth: isize,
        place: &Place<'a>,
        covered: &[(u32, u64)],
    ) {
        let call = Call { function, file: place.call_file, line: place.call_line, depth };
        for &(i, _) in covered {
            let calls = &mut self.chains[i as usize].calls;
            if calls.last().is_none_or(|outer| outer.depth < depth) && calls.len() < MAX_INLINED {
                calls.push(call);
            }
        }
    }

    fn read_place(
        &self,
        entries: &mut Entries<'a, '_>,
        abbreviation: &gimli::Abbreviation,
    ) -> gimli::Result<Place<'a>> {
        let mut place = Place::default();
        for &spec in abbreviation.attributes() {
            let attribute = entries.read_attribute_inline(spec)?;
            match attribute.name() {
                gimli::DW_AT_sibling => {
                    if let AttributeValue::UnitRef(offset) = attribute.value() {
                        place.sibling = Some(offset);
                    }
                }
                gimli::DW_AT_call_file => {
                    // Up to DWARF 4, file 0 means "unknown".
                    if let AttributeValue::FileIndex(file) = attribute.value()
                        && (file > 0 || self.unit.header.version() >= 5)
                    {
                        place.call_file = Some(file);
                    }
                }
                gimli::DW_AT_call_line => {
                    place.call_line =
                        attribute.udata_value().and_then(|line| line.try_into().ok()).unwrap_or(0);
                }
                _ => place.extent.read(self.dwarf, self.unit, &attribute)?,
            }
        }
        Ok(place)
    }

    /// Positions of the addresses in `place`, ascending, each with the start of the range that holds it.
    fn covered(&self, place: &Place<'a>, is_call: bool) -> gimli::Result<Vec<(u32, u64)>> {
        let mut covered = Vec::new();
        place.extent.for_each(self.dwarf, self.unit, |begin, end| {
            self.add_covered(begin, end, is_call, &mut covered);
        })?;
        covered.sort_unstable();
        covered.dedup_by_key(|(i, _)| *i);
        Ok(covered)
    }

    fn add_covered(&self, begin: u64, end: u64, is_call: bool, covered: &mut Vec<(u32, u64)>) {
        // The linker leaves discarded functions at address 0.
        if begin < self.lowest || begin >= end {
            return;
        }
        let address = |i: u32| self.addresses[i as usize];
        match self.scopes.last() {
            Some(scope) if is_call => {
                let first = scope.covered.partition_point(|&i| address(i) < begin);
                let inside = scope.covered[first..].iter().take_while(|&&i| address(i) < end);
                covered.extend(inside.map(|&i| (i, begin)));
            }
            _ => {
                let first = self.addresses.partition_point(|&address| address < begin);
                let inside = self.addresses[first..].iter().take_while(|&&a| a < end).count();
                covered.extend((first..first + inside).map(|i| (i as u32, begin)));
            }
        }
    }

    /// Continues after the children of the entry at `depth`, whose attributes have been read.
    fn skip_children(
        &mut self,
        entries: &mut Entries<'a, 'q>,
        depth: isize,
        sibling: Option<UnitOffset>,
    ) -> gimli::Result<()> {
        if let Some(sibling) = sibling
            && sibling.0 > entries.next_offset().0
            && let Ok(rest) = self.unit.entries_raw(Some(sibling))
        {
            *entries = rest;
            self.base = depth;
            return Ok(());
        }
        while self.base + entries.next_depth() > depth {
            if let Some(abbreviation) = entries.read_abbreviation()? {
                entries.skip_attributes(abbreviation.attributes())?;
            }
        }
        Ok(())
    }
}
