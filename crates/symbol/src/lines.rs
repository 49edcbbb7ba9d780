//! File and line of an address, from a unit's line number program.

use std::collections::HashMap;
use std::sync::Arc;

use crate::dwarf::{Dwarf, Reader, Unit};

/// Row of the line table: an index into the unit's file table, and the line, 0 if unknown.
pub(crate) type Row = (u64, u32);

/// Runs the line program of `unit` once and finds the row of each of `addresses` (sorted). Damage ends the run;
/// rows found before it are kept.
pub(crate) fn find(unit: &Unit<'_>, addresses: &[u64], lowest: u64) -> Vec<Option<Row>> {
    let mut found = vec![None; addresses.len()];
    let Some(program) = unit.line_program.clone() else { return found };
    let mut rows = program.rows();
    // The previous row's address and contents, and the position of the first of `addresses` at or after it.
    let mut last: Option<(u64, Row, usize)> = None;
    while let Ok(Some((_, row))) = rows.next_row() {
        let address = row.address();
        let mut next = match last {
            Some((_, _, next)) => next,
            // The first row of a sequence.
            None => addresses.partition_point(|&a| a < address),
        };
        if let Some((start, place, _)) = last
            && start >= lowest
        {
            while next < addresses.len() && addresses[next] < address {
                found[next].get_or_insert(place);
                next += 1;
            }
        }
        last = if row.end_sequence() {
            None
        } else {
            let line = row.line().map_or(0, |line| line.get().try_into().unwrap_or(0));
            Some((address, (row.file_index(), line), next))
        };
    }
    found
}

/// Paths of a unit's file table, each built once.
pub(crate) struct Files<'a, 'q> {
    dwarf: &'q Dwarf<'a>,
    unit: &'q Unit<'a>,
    /// False if paths are not needed: then [`Self::path`] returns `None`.
    wanted: bool,
    paths: HashMap<u64, Option<Arc<str>>>,
}

impl<'a, 'q> Files<'a, 'q> {
    pub fn new(dwarf: &'q Dwarf<'a>, unit: &'q Unit<'a>, wanted: bool) -> Self {
        Self { dwarf, unit, wanted, paths: HashMap::new() }
    }

    pub fn path(&mut self, file: u64) -> Option<Arc<str>> {
        if !self.wanted {
            return None;
        }
        let (dwarf, unit) = (self.dwarf, self.unit);
        self.paths.entry(file).or_insert_with(|| source_path(dwarf, unit, file)).clone()
    }
}

/// Returns path and text of the source files that the line program embeds (`DW_LNCT_LLVM_source`).
pub(crate) fn embedded(dwarf: &Dwarf<'_>, unit: &Unit<'_>) -> Vec<(Arc<str>, String)> {
    let Some(program) = &unit.line_program else { return Vec::new() };
    let files = (0u64..).zip(program.header().file_names());
    let first = u64::from(program.header().version() < 5);
    let source = |(at, file): (u64, &gimli::FileEntry<Reader<'_>>)| {
        let text = dwarf.attr_string(unit, file.source()?).ok()?.to_string_lossy().into_owned();
        Some((source_path(dwarf, unit, at + first)?, text)).filter(|(_, text)| !text.is_empty())
    };
    files.filter_map(source).collect()
}

/// Returns the path of a file in the line table of a unit, from the compilation directory on. `None` if it is not in the table.
pub fn source_path(dwarf: &Dwarf<'_>, unit: &Unit<'_>, file: u64) -> Option<Arc<str>> {
    let header = unit.line_program.as_ref()?.header();
    let file = header.file(file)?;
    let text = |reader: Reader<'_>| reader.to_string_lossy().into_owned();
    let mut path = unit.comp_dir.map(text).unwrap_or_default();
    // Directory 0 is the compilation directory of the unit.
    if file.directory_index() != 0
        && let Some(directory) = file.directory(header)
    {
        push(&mut path, &text(dwarf.attr_string(unit, directory).ok()?));
    }
    push(&mut path, &text(dwarf.attr_string(unit, file.path_name()).ok()?));
    Some(path.into())
}

fn push(path: &mut String, part: &str) {
    if part.starts_with('/') {
        path.clear();
    } else if !path.is_empty() && !path.ends_with('/') {
        path.push('/');
    }
    path.push_str(part);
}
