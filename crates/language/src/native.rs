//! Native functions of an interpreter's file: which ones run its loop, and which ones are worth showing.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl};

use crate::file::File;

/// Functions of an interpreter's file, as ranges of file offsets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Native {
    /// Code of the interpreter loop, sorted.
    loops: Vec<Range<u64>>,
    /// Code of functions that are called only by the loop and count as part of it, sorted.
    inner: Vec<Range<u64>>,
    /// Code of named functions, except those through which interpreted functions call each other, sorted.
    shown: Vec<Range<u64>>,
    /// Functions at which a program starts: `main`, `_start`.
    starts: Vec<Range<u64>>,
    /// Calls may also run in JIT-compiled code, in a frame of their own.
    has_made_code: bool,
    /// JIT-compiled code may take the place of the loop in its frame.
    has_traces: bool,
}

impl Native {
    /// Builds the struct from file offsets: of the loop, of functions that are shown, and of functions at which a
    /// program starts.
    pub fn from_ranges(
        mut loops: Vec<Range<u64>>,
        mut shown: Vec<Range<u64>>,
        mut starts: Vec<Range<u64>>,
    ) -> Self {
        for ranges in [&mut loops, &mut shown, &mut starts] {
            ranges.sort_unstable_by_key(|range| (range.start, range.end));
        }
        Self { loops, shown, starts, ..Self::default() }
    }

    /// For an interpreter that compiles functions: each call has a native frame of its own.
    #[must_use]
    pub fn with_made_code(self) -> Self {
        Self { has_made_code: true, ..self }
    }

    /// Returns true if each call has a native frame of its own, in the loop or in JIT-compiled code.
    pub fn has_made_code(&self) -> bool {
        self.has_made_code
    }

    /// For an interpreter that continues in JIT-compiled code in the loop's own frame.
    #[must_use]
    pub fn with_traces(self) -> Self {
        Self { has_traces: true, ..self }
    }

    /// Returns true if JIT-compiled code may take the place of the loop in its frame.
    pub fn has_traces(&self) -> bool {
        self.has_traces
    }

    /// Functions of a file whose loop is at `code` (addresses). `is_glue` returns true for names of functions that are
    /// not shown.
    pub(crate) fn of_code(
        file: &File<'_>,
        code: &Range<u64>,
        is_glue: impl Fn(&str) -> bool,
    ) -> Self {
        let mut native = Self::new(file, |_| false, is_glue);
        if let Some(to_address) = file.to_address() {
            let code = code.start.wrapping_sub(to_address)..code.end.wrapping_sub(to_address);
            native.shown.retain(|range| !code.contains(&range.start));
            native.loops = vec![code];
        }
        native
    }

    /// Functions of a file; `is_loop` and `is_glue` classify them by name.
    pub(crate) fn new(
        file: &File<'_>,
        is_loop: impl Fn(&str) -> bool,
        is_glue: impl Fn(&str) -> bool,
    ) -> Self {
        Self::of_functions(file, &file.functions(), is_loop, is_glue)
    }

    /// As [`Self::new`], for a list of functions that includes the file's symbols.
    pub(crate) fn of_functions(
        file: &File<'_>,
        functions: &[(Range<u64>, impl AsRef<str>)],
        is_loop: impl Fn(&str) -> bool,
        is_glue: impl Fn(&str) -> bool,
    ) -> Self {
        let of = |wanted: &dyn Fn(&str) -> bool| -> Vec<Range<u64>> {
            let found = functions.iter().filter(|(_, name)| wanted(name.as_ref()));
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

    /// Functions of a file whose loop is at `code` (addresses), may have no name, and has callers that do nothing but
    /// run it. `is_glue` returns true for names of functions that are not shown.
    pub(crate) fn of_loop(
        file: &File<'_>,
        code: &Range<u64>,
        is_glue: impl Fn(&str) -> bool,
    ) -> Self {
        let mut native = Self::new(file, |_| false, is_glue);
        let Some(to_address) = file.to_address() else { return native };
        let with_parts = |code: &Range<u64>| {
            let code = code.start.wrapping_sub(to_address)..code.end.wrapping_sub(to_address);
            let mut all = far_parts(file, &code);
            all.push(code);
            all
        };
        let callers = callers(file, code);
        // The compiler may have inlined the loop into its caller.
        if callers.is_empty() {
            native.loops = with_parts(code);
        } else {
            native.inner = with_parts(code);
            native.loops = callers.iter().flat_map(with_parts).collect();
        }
        let Self { loops, inner, shown, .. } = &mut native;
        for ranges in [&mut *loops, &mut *inner] {
            ranges.sort_unstable_by_key(|range| (range.start, range.end));
        }
        let is_loop = |at: &u64| loops.iter().chain(&*inner).any(|part| part.contains(at));
        shown.retain(|range| !is_loop(&range.start));
        native
    }

    /// Returns true if the loop is in this file. Java's is generated by the virtual machine when it starts.
    pub fn has_loop(&self) -> bool {
        !self.loops.is_empty()
    }

    /// Returns true if a file offset is in the interpreter loop.
    pub fn is_loop(&self, offset: u64) -> bool {
        holds(&self.loops, offset)
    }

    /// Returns true if a file offset is in a function that is called only by the loop and counts as part of it.
    pub fn is_inner(&self, offset: u64) -> bool {
        holds(&self.inner, offset)
    }

    /// Returns true if a file offset is in a named function that is not just glue between calls.
    pub fn is_shown(&self, offset: u64) -> bool {
        holds(&self.shown, offset)
    }

    /// Returns true if a file offset is in a function at which a program starts.
    pub fn is_start(&self, offset: u64) -> bool {
        holds(&self.starts, offset)
    }
}

fn holds(ranges: &[Range<u64>], offset: u64) -> bool {
    let end = ranges.partition_point(|range| range.start <= offset);
    // Ranges of aliases and of parts of functions may overlap.
    ranges[..end].iter().rev().take(8).any(|range| range.contains(&offset))
}

/// Finds the function with by far the most indirect jumps: an interpreter loop that jumps from one instruction to the
/// next. `None` if there is no such function.
pub(crate) fn most_jumps(file: &File<'_>) -> Option<Range<u64>> {
    /// Loops have more: one for each bytecode instruction that does not share its end with another.
    const FEWEST: usize = 60;
    const CANDIDATES: usize = 8;
    let mut likely: Vec<(usize, Range<u64>)> = Vec::new();
    for (start, code) in file.code() {
        for at in memchr::memchr_iter(0xff, code) {
            // A jump to a register or through the word it points to, but not through a jump table.
            let is_jump = code.get(at + 1).is_some_and(|byte| {
                byte & 0x38 == 0x20 && *byte != 0x25 && !(0xa0..0xc0).contains(byte)
            });
            let address = start.wrapping_add(at as u64);
            match likely.last_mut() {
                Some((count, range)) if is_jump && range.contains(&address) => *count += 1,
                _ if is_jump => likely.extend(file.extent(address).map(|range| (1, range))),
                _ => {}
            }
        }
    }
    // Bytes may look like a jump without being one.
    likely.sort_unstable_by_key(|(count, range)| (std::cmp::Reverse(*count), range.start));
    let jumps = |range: &Range<u64>| {
        let len = usize::try_from(range.end - range.start).ok()?;
        let code = file.bytes(range.start, len)?;
        let decoder = Decoder::with_ip(64, code, range.start, DecoderOptions::NONE);
        let jumps = decoder.into_iter().filter(|instruction| {
            instruction.flow_control() == FlowControl::IndirectBranch
                && !instruction.is_ip_rel_memory_operand()
        });
        Some(jumps.count())
    };
    let counted =
        likely.iter().take(CANDIDATES).filter_map(|(_, range)| Some((jumps(range)?, range)));
    let mut counted: Vec<_> = counted.collect();
    counted.sort_unstable_by_key(|(count, range)| (std::cmp::Reverse(*count), range.start));
    let second = counted.get(1).map_or(0, |(count, _)| *count);
    let (count, range) = counted.first()?;
    (*count >= FEWEST && *count > second + second / 2).then(|| (*range).clone())
}

/// Returns the address ranges of the functions that call a function.
fn callers(file: &File<'_>, function: &Range<u64>) -> Vec<Range<u64>> {
    /// Opcode of a direct call; a displacement relative to the next instruction follows.
    const CALL: u8 = 0xe8;
    let mut callers: Vec<Range<u64>> = Vec::new();
    for (start, code) in file.code() {
        for at in memchr::memchr_iter(CALL, code) {
            let Some((distance, _)) = code.get(at + 1..).and_then(<[u8]>::split_first_chunk::<4>)
            else {
                continue;
            };
            let distance = i64::from(i32::from_le_bytes(*distance));
            let address = start.wrapping_add(at as u64);
            if address.wrapping_add(5).wrapping_add_signed(distance) == function.start
                && !function.contains(&address)
            {
                callers.extend(file.extent(address));
            }
        }
    }
    callers.sort_unstable_by_key(|range| (range.start, range.end));
    callers.dedup();
    callers
}

/// Returns the parts of a function that a compiler has moved away because they are rarely run, and that have no name in
/// a stripped file: code that the function jumps to, and that jumps back.
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
        // The bounds of a part are known only from the unwind tables.
        let Some(part) = file.extent(target) else { continue };
        // Code with a name is another function, reached by a tail call.
        if part.end - part.start < 1 << 24 && !file.has_function(part.start) {
            parts.push(part);
        }
    }
    parts
        .iter()
        .map(|part| part.start.wrapping_sub(to_address)..part.end.wrapping_sub(to_address))
        .collect()
}
