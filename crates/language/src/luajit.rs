//! Lua in LuaJIT 2.1 with 64-bit references (GC64).
//!
//! The version does not determine the layout: forks have other layouts, and most users build from a branch, not a
//! release. But the interpreter is written in assembly, and its instructions contain the offsets of the fields that it
//! uses; these differ between layouts.

use std::ops::Range;

use memchr::memmem;
use pyrograph_event::interpreter::{ChunkPlan, Interpreter, Language, ThreadPlace};

use crate::file::File;
use crate::memory::{Memory, Reader, readable};
use crate::native::Native;
use crate::runtime::{Name, Runtime, Unknown, base_name};

mod layout;

use layout::{LAYOUTS, Layout};

/// Name of a symbol that files with LuaJIT export.
pub(crate) const MARK: &str = "luaJIT_setmode";

/// Indexes into `Interpreter::offsets`: `enum luajit_offset` of the in-kernel programs, followed by those used only for
/// names.
mod at {
    pub const CURRENT: usize = 0;
    pub const JIT_BASE: usize = 1;
    pub const VM_STATE: usize = 2;
    pub const DISPATCH_TO_GLOBAL: usize = 3;
    pub const GLOBAL: usize = 4;
    pub const BASE: usize = 5;
    pub const STACK: usize = 6;
    pub const STACK_SIZE: usize = 7;
    pub const C_FRAME: usize = 8;
    pub const KIND: usize = 9;
    pub const CODE: usize = 10;
    pub const PROTOTYPE_SIZE: usize = 11;
    pub const INSTRUCTIONS: usize = 12;
    pub const CHUNK: usize = 13;
    pub const FIRST_LINE: usize = 14;
    pub const LINE_COUNT: usize = 15;
    pub const TYPE: usize = 16;
    pub const TYPE_PROTOTYPE: usize = 17;
    pub const TYPE_COROUTINE: usize = 18;
    pub const TRACES: usize = 19;
    pub const LINES: usize = 20;
    pub const STRING_LENGTH: usize = 21;
    pub const STRING_DATA: usize = 22;
}

/// Number of characters of a chunk that are shown instead of a name.
const LONGEST_STRING: usize = 40;

/// First line of a built-in function.
const BUILT_IN: u32 = u32::MAX;

/// Finds the interpreter in a file; `None` if the file does not contain LuaJIT.
pub(crate) fn find(file: &File<'_>) -> Option<Result<Runtime, Unknown>> {
    // Programs that use the library import the name without defining it.
    file.symbol(MARK)?;
    let version = version(file.constants());
    let name = match &version {
        Some(version) => format!("LuaJIT {version}"),
        None => "LuaJIT".to_owned(),
    };
    let fail = |reason| Some(Err(Unknown { interpreter: name.clone(), reason }));
    let Some(version) = version else { return fail("its version cannot be found") };
    let Some(to_address) = file.to_address() else { return fail("its code is in several places") };
    let code = assembler(file);
    let bytes = code.clone().and_then(|code| {
        Some((file.bytes(code.start, usize::try_from(code.end - code.start).ok()?)?, code))
    });
    let Some((bytes, code)) = bytes else { return fail("its interpreter cannot be found") };
    if memmem::find(bytes, ADD_NARROW).is_some() && memmem::find(bytes, ADD).is_none() {
        return fail("its references have 32 bits (built without GC64)");
    }
    let Some(layout) = layout(bytes) else { return Some(Err(Unknown::layout(name))) };
    let mut offsets = offsets(&layout);
    offsets[at::TRACES] = traces(bytes, &layout).unwrap_or(Interpreter::NO_OFFSET);
    let interpreter = Interpreter {
        language: Language::Lua,
        to_address,
        symbols: [code.start, code.end, 0, 0],
        place: ThreadPlace::Global(0),
        plan: plan(&layout),
        offsets,
        tag: 0,
    };
    let native = Native::of_code(file, &code, is_glue).with_traces();
    Some(Ok(Runtime::new(version, "its instructions, and table", interpreter, native)))
}

/// Returns the version, such as `2.1.0-beta3` or `2.1.1737090214`.
fn version(constants: &[u8]) -> Option<String> {
    let mark = b"LuaJIT 2.";
    memmem::find_iter(constants, mark).find_map(|at| {
        let rest = constants.get(at + b"LuaJIT ".len()..)?;
        let text = rest.get(..rest.iter().take(40).position(|byte| *byte == 0)?)?;
        let is_version = text.iter().all(|c| c.is_ascii_alphanumeric() || b".-+".contains(c));
        is_version.then(|| String::from_utf8_lossy(text).into_owned())
    })
}

/// `jmp [r14 + rbp * 8]`: jumps to the code of the next instruction.
const NEXT: &[u8] = &[0x41, 0xff, 0x24, 0xee];
/// `add r14, …`: from the global state to the dispatch table. With 32-bit references, `add r14d, …`.
const ADD: &[u8] = &[0x49, 0x81, 0xc6];
const ADD_NARROW: &[u8] = &[0x41, 0x81, 0xc6];
/// Start of a C frame: `push rbp; push rbx; push r15; push r14; sub rsp, 40`.
const ENTRY: &[u8] = &[0x55, 0x53, 0x41, 0x57, 0x41, 0x56, 0x48, 0x83, 0xec, 0x28];
/// Start of a trace: `sub rsp, 16; mov [rsp + 16], r12; mov [rsp + 8], r13`.
const TRACE: &[u8] =
    &[0x48, 0x83, 0xec, 0x10, 0x4c, 0x89, 0x64, 0x24, 0x10, 0x4c, 0x89, 0x6c, 0x24, 0x08];

/// Returns the addresses of the assembly code, which has one entry in the unwind tables.
fn assembler(file: &File<'_>) -> Option<Range<u64>> {
    /// Lua has 89 bytecode instructions, most of which end with one or more jumps to the next.
    const FEWEST: usize = 60;
    let mut found: Vec<(usize, Range<u64>)> = Vec::new();
    for (start, code) in file.code() {
        for at in memmem::find_iter(code, NEXT) {
            let address = start.wrapping_add(at as u64);
            match found.last_mut() {
                Some((count, range)) if range.contains(&address) => *count += 1,
                _ => found.extend(file.extent(address).map(|range| (1, range))),
            }
        }
    }
    let most = found.into_iter().max_by_key(|(count, _)| *count)?;
    (most.0 >= FEWEST).then_some(most.1)
}

/// Determines the layout from the interpreter's code; `None` if it is not a known one.
fn layout(code: &[u8]) -> Option<Layout> {
    let mut distances = memmem::find_iter(code, ADD)
        .filter_map(|at| code.get(at + ADD.len()..)?.first_chunk())
        .map(|bytes| u32::from_le_bytes(*bytes));
    let first = distances.next()?;
    if distances.any(|other| other != first) {
        return None;
    }
    // `mov [r14 + …], rbp`, `mov [r14 + …], rdx`, `mov dword [r14 + …], -1`.
    let uses = |opcode: [u8; 3], offset: u32, value: &[u8]| {
        let distance = offset.wrapping_sub(first).to_le_bytes();
        memmem::find(code, &[&opcode[..], &distance, value].concat()).is_some()
    };
    let is_it = |layout: &&Layout| {
        layout.dispatch_to_global == first
            && uses([0x49, 0x89, 0xae], layout.global_current, &[])
            && uses([0x49, 0x89, 0x96], layout.global_jit_base, &[])
            && uses([0x41, 0xc7, 0x86], layout.global_vm_state, &[0xff; 4])
    };
    let layout = LAYOUTS.iter().find(is_it).copied()?;
    let has = |pattern: &[u8]| memmem::find(code, pattern).is_some();
    (has(ENTRY) && has(TRACE)).then_some(layout)
}

/// Layouts, by `dispatch_to_global` and `global_current`, of versions whose trace snapshots contain the code offset
/// they belong to (`SnapShot.mcofs`): LuaJIT from 2021-03-23 on, OpenResty from 2021-12-10 on.
const WITH_SNAPSHOTS: [(u32, u32); 7] =
    [(3968, 368), (3976, 368), (3992, 368), (4000, 376), (4008, 368), (4016, 368), (4040, 376)];

/// Returns the offset in the global state of the table of traces, found from the code that enters a trace. The fields
/// of traces that are read are the same in all of [`WITH_SNAPSHOTS`]; `None` for other layouts.
fn traces(code: &[u8], layout: &Layout) -> Option<u32> {
    // `mov rcx, [r14 + …]; mov rax, [rcx + rax * 8]; mov rax, [rax + 88]`.
    const LOAD: &[u8] = &[0x49, 0x8b, 0x8e];
    const ENTER: &[u8] = &[0x48, 0x8b, 0x04, 0xc1, 0x48, 0x8b, 0x40, 0x58];
    let mut loads = memmem::find_iter(code, LOAD).filter_map(|at| {
        let (distance, rest) = code.get(at + LOAD.len()..)?.split_first_chunk()?;
        rest.starts_with(ENTER).then(|| i32::from_le_bytes(*distance))
    });
    let known = (layout.dispatch_to_global, layout.global_current);
    let distance = loads.next().filter(|_| WITH_SNAPSHOTS.contains(&known))?;
    layout.dispatch_to_global.checked_add_signed(distance)
}

fn offsets(layout: &Layout) -> [u32; Interpreter::OFFSETS] {
    Interpreter::offsets([
        (at::CURRENT, layout.global_current),
        (at::JIT_BASE, layout.global_jit_base),
        (at::VM_STATE, layout.global_vm_state),
        (at::DISPATCH_TO_GLOBAL, layout.dispatch_to_global),
        (at::GLOBAL, layout.state_global),
        (at::BASE, layout.state_base),
        (at::STACK, layout.state_stack),
        (at::STACK_SIZE, layout.state_stack_size),
        (at::C_FRAME, layout.state_c_frame),
        (at::KIND, layout.function_kind),
        (at::CODE, layout.function_code),
        (at::PROTOTYPE_SIZE, layout.prototype_size),
        (at::INSTRUCTIONS, layout.prototype_instructions),
        (at::CHUNK, layout.prototype_chunk),
        (at::FIRST_LINE, layout.prototype_first_line),
        (at::LINE_COUNT, layout.prototype_line_count),
        (at::TYPE, layout.object_type),
        (at::TYPE_PROTOTYPE, layout.type_prototype),
        (at::TYPE_COROUTINE, layout.type_coroutine),
        (at::LINES, layout.prototype_lines),
        (at::STRING_LENGTH, layout.string_length),
        (at::STRING_DATA, layout.string_data),
    ])
}

/// Pieces of memory that name a function: the prototype, the name of its chunk, its lines.
fn plan(layout: &Layout) -> Vec<ChunkPlan> {
    let chunk = |offset, len| ChunkPlan::new(0, offset, len);
    vec![
        chunk(0, layout.prototype_size as u16),
        chunk(layout.prototype_chunk, Interpreter::CHUNK_BYTES),
        chunk(layout.prototype_lines, Interpreter::CHUNK_BYTES),
    ]
}

/// Returns true for functions through which Lua and C call each other, and that start a script.
fn is_glue(name: &str) -> bool {
    const NAMES: [&str; 19] = [
        "docall",
        "dochunk",
        "dofile",
        "dolibrary",
        "dostring",
        "handle_script",
        "lj_trace_exit",
        "lua_call",
        "lua_cpcall",
        "lua_pcall",
        "lua_resume",
        "luaL_callmeta",
        "main",
        "pmain",
        "runcmdopt",
        "trace_exit_cp",
        "lj_cf_pcall",
        "lj_cf_xpcall",
        "lj_cf_dofile",
    ];
    const PREFIXES: [&str; 5] = ["lj_vm_", "lj_BC_", "lj_ff_", "lj_ccallback_", "lj_dispatch_"];
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns the name of a function, by its prototype. Lua functions have no names of their own, only the variables that
/// hold them do: the name is the place where the function begins.
pub(crate) fn name(it: &Interpreter, memory: &dyn Memory, prototype: u64) -> Option<Name> {
    let reader = Reader(memory);
    let at = |field: usize| prototype.wrapping_add(it.offsets[field].into());
    let [kind] = reader.bytes::<1>(at(at::TYPE))?;
    if u32::from(kind) != it.offsets[at::TYPE_PROTOTYPE] {
        return None;
    }
    let chunk = reader.pointer(at(at::CHUNK))?;
    let len = reader.u32(chunk.wrapping_add(it.offsets[at::STRING_LENGTH].into()))?;
    if len > 1 << 24 {
        return None;
    }
    let text = reader.text(chunk.wrapping_add(it.offsets[at::STRING_DATA].into()), len.into())?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = reader.u32(at(at::FIRST_LINE))?;
    // Code compiled without debug information (`luajit -b`) has no lines.
    let has_lines = reader.u64(at(at::LINES))? != 0;
    let (file, place) = match text.split_at_checked(1) {
        Some(("@", path)) => (Some(path), base_name(path).to_owned()),
        Some(("=", name)) => (None, name.to_owned()),
        // A string that was compiled: show its first line.
        _ => {
            let line = text.lines().next().unwrap_or_default();
            let start: String = line.chars().take(LONGEST_STRING).collect();
            let dots = if start.len() < text.trim_end().len() { "..." } else { "" };
            (None, format!("[string \"{start}{dots}\"]"))
        }
    };
    let (function, start_line) = match line {
        BUILT_IN => (format!("[builtin {place}]"), 0),
        _ if !has_lines => (format!("{place}:?"), 0),
        0 => (format!("main chunk of {place}"), 0),
        line => (format!("{place}:{line}"), line),
    };
    Some(Name {
        function: readable(&function)?,
        file: file.and_then(readable),
        start_line: if start_line < 1 << 30 { start_line } else { 0 },
    })
}

/// Line table of a function.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    first: u32,
    /// For each instruction after the first, its line minus the first line.
    distances: Vec<u8>,
    /// Bytes per entry of `distances`.
    width: usize,
}

/// Reads the lines of a function, by its prototype. `None` if it has none, or they cannot be read.
pub(crate) fn lines(it: &Interpreter, memory: &dyn Memory, prototype: u64) -> Option<Lines> {
    let reader = Reader(memory);
    let at = |field: usize| prototype.wrapping_add(it.offsets[field].into());
    let first = reader.u32(at(at::FIRST_LINE)).filter(|line| *line < 1 << 30)?;
    let width = match reader.u32(at(at::LINE_COUNT))? {
        0..256 => 1,
        256..65536 => 2,
        _ => 4,
    };
    let instructions = reader.u32(at(at::INSTRUCTIONS))?.checked_sub(1)?;
    let table = reader.pointer(at(at::LINES))?;
    let distances = reader.all(table, u64::from(instructions) * width as u64)?;
    Some(Lines { first, distances, width })
}

impl Lines {
    /// Returns the line of the instruction before index `behind`; 0 if it is not known.
    pub fn line(&self, behind: u32) -> u32 {
        // The first instruction is not in the table.
        let number = (behind as usize).wrapping_sub(2);
        let start = number.checked_mul(self.width);
        let bytes = start.and_then(|at| self.distances.get(at..at.checked_add(self.width)?));
        let Some(bytes) = bytes else { return 0 };
        let mut distance = [0; 4];
        distance[..self.width].copy_from_slice(bytes);
        self.first.saturating_add(u32::from_le_bytes(distance))
    }
}

#[cfg(test)]
mod tests;
