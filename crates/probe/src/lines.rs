//! Lines of functions, and the instructions at which they begin.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use gimli::AttributeValue;

use crate::functions::{Body, Function};
use crate::program::{EntryId, View};

/// A row of a line table: the instructions from an address on.
#[derive(Clone, Debug)]
struct Row {
    start: u64,
    end: u64,
    file: u64,
    line: u32,
    is_statement: bool,
}

/// Declaration of a function: its source file and line.
struct Declared {
    file: Option<String>,
    line: u64,
}

/// A call that is inlined.
struct Call {
    ranges: Vec<Range<u64>>,
    of: Declared,
    /// Index of the caller's file in the line table, and the line of the call there.
    at: (Option<u64>, Option<u64>),
    /// True if the caller is the function, and not inlined into it.
    is_direct: bool,
}

impl Declared {
    /// Returns true if a line is of this function, where its code and that of its caller are mixed. In one file, a
    /// function's lines lie between its declaration and the next one.
    fn has(&self, caller: &Self, file: Option<&str>, line: u64) -> bool {
        let is_of_file = self.file.as_deref() == file;
        let is_behind = caller.file == self.file && self.line < caller.line;
        is_of_file && line >= self.line && !(is_behind && line >= caller.line)
    }
}

fn contains(ranges: &[Range<u64>], address: u64) -> bool {
    ranges.iter().any(|range| range.contains(&address))
}

impl View<'_> {
    /// Returns the lines of a function at which code begins, each with the addresses of these instructions. A line whose
    /// code was moved apart by the compiler begins in several places, and one that was inlined in each of its bodies.
    pub fn lines(&self, function: &Function) -> BTreeMap<u32, BTreeSet<u64>> {
        let mut lines: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
        let mut tables: HashMap<usize, Vec<Row>> = HashMap::new();
        for body in &function.bodies {
            let unit = body.id.unit;
            let rows = tables.entry(unit).or_insert_with(|| self.rows(unit));
            self.add_lines(function, body, rows, &mut lines);
        }
        lines
    }

    fn add_lines(
        &self,
        function: &Function,
        body: &Body,
        rows: &[Row],
        lines: &mut BTreeMap<u32, BTreeSet<u64>>,
    ) {
        let calls = self.calls_in(body.id);
        let own = self.declared(body.id);
        let caller = body.inlined_into.as_ref().map(|_| self.declared(body.frame));
        let mut files: HashMap<u64, Option<String>> = HashMap::new();
        let mut of_body: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
        // Where the previous row of the function's own code ends, its line, and true if that has begun there or before.
        let mut before: Option<(u64, u32, bool)> = None;
        for row in rows.iter().filter(|row| body.contains(row.start)) {
            let file = files.entry(row.file).or_insert_with(|| self.file(body.id.unit, row.file));
            let (file, line) = (file.as_deref(), u64::from(row.line));
            let is_of_call =
                |call: &Call| contains(&call.ranges, row.start) && call.of.has(&own, file, line);
            let is_of_caller = caller.as_ref().is_some_and(|caller| !own.has(caller, file, line));
            if calls.iter().any(is_of_call) || is_of_caller {
                // A line goes on behind what is inlined in it.
                if let Some((end, ..)) = before.as_mut().filter(|(end, ..)| *end == row.start) {
                    *end = row.end;
                }
                continue;
            }
            let goes_on = before == Some((row.start, row.line, true));
            before = Some((row.end, row.line, goes_on || row.is_statement));
            let is_of_file = function.file.is_none() || file == function.file.as_deref();
            if row.is_statement && is_of_file && line >= own.line.max(1) && !goes_on {
                of_body.entry(row.line).or_default().insert(row.start);
            }
        }
        // Of a line that does nothing but call what is inlined there, the line table may know nothing.
        for call in calls.iter().filter(|call| call.is_direct) {
            let (Some(file), Some(Ok(line))) = (call.at.0, call.at.1.map(u32::try_from)) else {
                continue;
            };
            let is_of_file = self.file(body.id.unit, file) == function.file;
            let start = call.ranges.iter().map(|range| range.start).min();
            if is_of_file && u64::from(line) >= own.line && !of_body.contains_key(&line) {
                of_body.entry(line).or_default().extend(start);
            }
        }
        for (line, addresses) in of_body {
            lines.entry(line).or_default().extend(addresses);
        }
    }

    fn declared(&self, id: EntryId) -> Declared {
        let line = self.number(id, gimli::DW_AT_decl_line).unwrap_or(0);
        Declared { file: self.declared_in(id), line }
    }

    /// The calls that are inlined in a function, and functions in it, with those in them.
    fn calls_in(&self, id: EntryId) -> Vec<Call> {
        let mut all = Vec::new();
        let mut below = vec![(id, true)];
        while let Some((id, is_direct)) = below.pop() {
            for (id, entry) in self.children(id) {
                let is_call = matches!(
                    entry.tag(),
                    gimli::DW_TAG_inlined_subroutine | gimli::DW_TAG_subprogram
                );
                if is_call {
                    let number = |name| match entry.attr_value(name) {
                        Some(AttributeValue::FileIndex(file)) => Some(file),
                        value => value.and_then(|value| value.udata_value()),
                    };
                    all.push(Call {
                        ranges: self.ranges(id, &entry),
                        of: self.declared(id),
                        at: (number(gimli::DW_AT_call_file), number(gimli::DW_AT_call_line)),
                        is_direct,
                    });
                }
                if is_call || entry.tag() == gimli::DW_TAG_lexical_block {
                    below.push((id, is_direct && !is_call));
                }
            }
        }
        all
    }

    /// Rows of a unit's line table, by address.
    fn rows(&self, unit: usize) -> Vec<Row> {
        let mut all: Vec<Row> = Vec::new();
        let Some(program) = self.units.get(unit).and_then(|unit| unit.line_program.clone()) else {
            return all;
        };
        let mut rows = program.rows();
        let mut open: Option<Row> = None;
        while let Ok(Some((_, row))) = rows.next_row() {
            if let Some(mut last) = open.take() {
                last.end = row.address();
                all.push(last);
            }
            if !row.end_sequence() {
                let line = row.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(0));
                open = Some(Row {
                    start: row.address(),
                    end: row.address(),
                    file: row.file_index(),
                    line,
                    is_statement: row.is_stmt(),
                });
            }
        }
        // Rows of one address stay in their order.
        all.sort_by_key(|row| row.start);
        all
    }
}
