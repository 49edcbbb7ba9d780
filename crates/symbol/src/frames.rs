//! Frames from DWARF: one pass over the units that hold the addresses.

use std::path::Path;
use std::sync::Arc;

use gimli::UnitOffset;
use pyrograph_elf::Image;

use crate::debug::{DwarfFile, DwarfInfo};
use crate::dwarf::{Dwarf, Unit, UnitIndex};
use crate::function_name::FunctionName;
use crate::inline::{self, Chain};
use crate::lines::{self, Files, Row};
use crate::names::{Declared, Names};
use crate::split::{self, Split};
use crate::symbolize::Warning;

/// Functions and source locations of one address, from DWARF.
#[derive(Clone, Debug, Default)]
pub(crate) struct DwarfFrames {
    /// Innermost first; the last is the function that was really called.
    pub frames: Vec<DwarfFrame>,
    /// Start of the range of that function that holds the address.
    pub start: Option<u64>,
}

/// A function and a source location in it; each part may be unknown.
#[derive(Clone, Debug, Default)]
pub(crate) struct DwarfFrame {
    pub function: Option<FunctionName>,
    pub file: Option<Arc<str>>,
    pub line: u32,
    /// Line of the function's declaration; 0 if unknown.
    pub start_line: u32,
}

/// Finds the frames at `addresses` (sorted) in `debug`, which belongs to the file `image` at `path`. `lowest` is
/// the lowest address of code. `with_lines` requests source files and lines as well.
pub(crate) fn find(
    debug: &DwarfInfo,
    (path, image): (&Path, &Image),
    addresses: &[u64],
    lowest: u64,
    with_lines: bool,
    warnings: &mut Vec<Warning>,
) -> Vec<DwarfFrames> {
    let mut frames = vec![DwarfFrames::default(); addresses.len()];
    let Some(file) = &debug.main else { return frames };
    let (mut dwarf, index) = open(file, image, lowest);
    let supplementary = debug.supplementary.as_ref().map(|(image, file)| open(file, image, lowest));
    if let Some((image, file)) = &debug.supplementary {
        // Attributes of the main file refer to strings in the supplementary file.
        dwarf.set_sup(file.sections.dwarf(image));
    }
    let supplementary = supplementary.as_ref().map(|(dwarf, index)| (dwarf, *index));
    let split = Split::new(path.to_owned(), debug);
    let mut names = Names::new((&dwarf, index), supplementary);
    let mut missing = 0;
    for (position, claimed) in index.units_of(addresses) {
        // If units overlap, the first one that knows a function is used.
        let open: Vec<u32> =
            claimed.into_iter().filter(|&i| frames[i as usize].start.is_none()).collect();
        let wanted: Vec<u64> = open.iter().map(|&i| addresses[i as usize]).collect();
        let mut pass = Pass { addresses: &wanted, lowest, with_lines, found: Vec::new() };
        // A damaged unit is skipped: the symbol table names its addresses.
        let unit = dwarf
            .debug_info
            .header_from_offset(index.offset(position))
            .and_then(|header| dwarf.unit(header));
        let Ok(unit) = unit else { continue };
        if let Err(split::Missing) = pass.unit(&dwarf, &unit, &split, &mut names) {
            missing += 1;
        }
        for (i, found) in open.into_iter().zip(pass.found) {
            if !found.frames.is_empty() {
                frames[i as usize] = found;
            }
        }
    }
    if missing > 0 {
        let reason = format!("{missing} of its .dwo files are missing, and no .dwp has them");
        warnings.push(Warning::DebugInfo { path: split.path, reason });
    }
    frames
}

pub(crate) fn open<'a>(
    file: &'a DwarfFile,
    image: &'a Image,
    lowest: u64,
) -> (Dwarf<'a>, &'a UnitIndex) {
    let dwarf = file.sections.dwarf(image);
    let index = file.index.get_or_init(|| UnitIndex::build(&dwarf, lowest).unwrap_or_default());
    (dwarf, index)
}

/// State of the search in one unit, for the addresses that the unit claims.
struct Pass<'q> {
    addresses: &'q [u64],
    lowest: u64,
    with_lines: bool,
    found: Vec<DwarfFrames>,
}

impl Pass<'_> {
    /// Searches a unit. The line table is in `unit` itself even if its functions are in a split unit.
    fn unit<'a>(
        &mut self,
        dwarf: &Dwarf<'a>,
        unit: &Unit<'a>,
        split: &Split<'_>,
        names: &mut Names<'a>,
    ) -> Result<(), split::Missing> {
        let rows = match self.with_lines {
            true => lines::find(unit, self.addresses, self.lowest),
            false => vec![None; self.addresses.len()],
        };
        let mut files = Files::new(dwarf, unit, self.with_lines);
        let Some(id) = unit.dwo_id else {
            let chains = inline::find(dwarf, unit, self.addresses, self.lowest);
            self.add(unit, &chains, &rows, &mut files, names);
            return Ok(());
        };
        split
            .with_unit(dwarf, unit, id, |dwarf, unit, names| {
                let chains = inline::find(dwarf, unit, self.addresses, self.lowest);
                self.add(unit, &chains, &rows, &mut files, names);
            })
            .inspect_err(|_| {
                let chains = inline::find(dwarf, unit, self.addresses, self.lowest);
                self.add(unit, &chains, &rows, &mut files, names);
            })
    }

    fn add(
        &mut self,
        unit: &Unit<'_>,
        chains: &[Chain],
        rows: &[Option<Row>],
        files: &mut Files<'_, '_>,
        names: &mut Names<'_>,
    ) {
        let mut declared = |offset: UnitOffset| {
            let offset = offset.to_debug_info_offset(&unit.header);
            offset.map(|offset| names.function(offset)).unwrap_or_default()
        };
        self.found = chains
            .iter()
            .zip(rows)
            .map(|(chain, row)| match (chain.function, row) {
                (None, None) => DwarfFrames::default(),
                (function, row) => DwarfFrames {
                    frames: list(chain, *row, &mut declared, files),
                    start: function.map(|(_, start)| start),
                },
            })
            .collect();
    }
}

/// Builds the frames of a chain, innermost first. The line table has the location of the innermost frame; each
/// outer frame has the location of the call below it.
fn list(
    chain: &Chain,
    row: Option<Row>,
    declared: &mut impl FnMut(UnitOffset) -> Declared,
    files: &mut Files<'_, '_>,
) -> Vec<DwarfFrame> {
    let mut frames = Vec::with_capacity(chain.calls.len() + 1);
    let mut place = row.map_or((None, 0), |(file, line)| (Some(file), line));
    let mut push = |declared: Declared, (file, line): (Option<u64>, u32)| {
        let file = file.and_then(|file| files.path(file));
        let Declared { name: function, line: start_line } = declared;
        frames.push(DwarfFrame { function, file, line, start_line });
    };
    for call in chain.calls.iter().rev() {
        push(declared(call.function), place);
        place = (call.file, call.line);
    }
    push(chain.function.map(|(function, _)| declared(function)).unwrap_or_default(), place);
    frames
}
