//! Functions of an interpreter's file: which run its loop, and which are worth to be seen.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl};

use crate::file::File;

/// Functions of an interpreter's file, by file offsets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Native {
    /// Code of the loop of the interpreter, in order.
    loops: Vec<Range<u64>>,
    /// Code of functions with a name that are none of those by which interpreted functions call each other, in order.
    shown: Vec<Range<u64>>,
    /// Where a program starts: `main`, `_start`.
    starts: Vec<Range<u64>>,
    /// Calls run in code that is made at run time, too.
    has_made_code: bool,
}

impl Native {
    /// From file offsets: of the loop, of functions that are shown, of those that a program starts with.
    pub fn from_ranges(
        mut loops: Vec<Range<u64>>,
        mut shown: Vec<Range<u64>>,
        mut starts: Vec<Range<u64>>,
    ) -> Self {
        for ranges in [&mut loops, &mut shown, &mut starts] {
            ranges.sort_unstable_by_key(|range| (range.start, range.end));
        }
        Self { loops, shown, starts, has_made_code: false }
    }

    /// Of an interpreter that compiles functions: each call has a native frame of its own.
    #[must_use]
    pub fn with_made_code(self) -> Self {
        Self { has_made_code: true, ..self }
    }

    /// Returns true if each call has a native frame of its own, in the loop or in code that is made at run time.
    pub fn has_made_code(&self) -> bool {
        self.has_made_code
    }

    /// `is_loop`, `is_glue`: of functions, by name.
    pub(crate) fn new(
        file: &File<'_>,
        is_loop: impl Fn(&str) -> bool,
        is_glue: impl Fn(&str) -> bool,
    ) -> Self {
        let functions = file.functions();
        let of = |wanted: &dyn Fn(&str) -> bool| -> Vec<Range<u64>> {
            let found = functions.iter().filter(|(_, name)| wanted(name));
            found.map(|(range, _)| range.clone()).collect()
        };
        let mut loops = of(&is_loop);
        let parts: Vec<_> = loops.iter().flat_map(|range| far_parts(file, range)).collect();
        loops.extend(parts);
        let starts = of(&|name| name == "main" || name == "_start");
        let mut shown = of(&|name| !is_loop(name) && !is_glue(name));
        shown.retain(|range| !loops.iter().any(|part| part.contains(&range.start)));
        Self::from_ranges(loops, shown, starts)
    }

    /// Returns true if a place is in the interpreter's loop.
    pub fn is_loop(&self, offset: u64) -> bool {
        holds(&self.loops, offset)
    }

    /// Returns true if a place is in a function that has a name and does more than to call.
    pub fn is_shown(&self, offset: u64) -> bool {
        holds(&self.shown, offset)
    }

    /// Returns true if a place is in a function that a program starts with.
    pub fn is_start(&self, offset: u64) -> bool {
        holds(&self.starts, offset)
    }
}

fn holds(ranges: &[Range<u64>], offset: u64) -> bool {
    let end = ranges.partition_point(|range| range.start <= offset);
    // Aliases and parts of functions may lie in one another.
    ranges[..end].iter().rev().take(8).any(|range| range.contains(&offset))
}

/// The parts of a function that a compiler has moved away, since they are rarely run, and that have no name in a stripped
/// file: code that is jumped to, and from which it is jumped back.
fn far_parts(file: &File<'_>, function: &Range<u64>) -> Vec<Range<u64>> {
    let Some(to_address) = file.to_address() else { return Vec::new() };
    let start = function.start.wrapping_add(to_address);
    let end = function.end.wrapping_add(to_address);
    let Some(code) =
        usize::try_from(end.wrapping_sub(start)).ok().and_then(|len| file.bytes(start, len))
    else {
        return Vec::new();
    };
    let mut targets = Vec::new();
    for instruction in &mut Decoder::with_ip(64, code, start, DecoderOptions::NONE) {
        let jumps = matches!(
            instruction.flow_control(),
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
        );
        let target = instruction.near_branch_target();
        if jumps && target != 0 && !(start..end).contains(&target) {
            targets.push(target);
        }
    }
    targets.sort_unstable();
    let mut parts: Vec<Range<u64>> = Vec::new();
    for target in targets {
        if parts.last().is_some_and(|part| part.contains(&target)) {
            continue;
        }
        // Where it begins and ends is known from the tables for unwinding alone.
        let Some(part) = file.extent(target) else { continue };
        // What has a name is another function, that is called last.
        if part.end - part.start < 1 << 24 && !file.has_function(part.start) {
            parts.push(part);
        }
    }
    parts
        .iter()
        .map(|part| part.start.wrapping_sub(to_address)..part.end.wrapping_sub(to_address))
        .collect()
}
