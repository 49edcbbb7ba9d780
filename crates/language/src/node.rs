//! JavaScript in Node (V8).
//!
//! The file contains offsets, types and other constants of V8, in variables whose names begin with `v8dbg_`, for tools
//! that read memory images (`tools/gen-postmortem-metadata.py` of V8). They are checked, because all that is read here
//! was tested only with these, from Node 16 on.

use std::borrow::Cow;

use memchr::memmem;
use pyrograph_event::interpreter::{ChunkPlan, Interpreter, Language, ThreadPlace};

use crate::file::File;
use crate::memory::Memory;
use crate::native::Native;
use crate::runtime::{Name, Runtime, Unknown};

mod heap;
mod lines;

use heap::Heap;
pub(crate) use lines::Scripts;

/// Name of a symbol that files with V8 and these variables export.
pub(crate) const MARK: &str = "v8dbg_off_fp_function";

/// Major versions that were tested.
const VERSIONS: std::ops::RangeInclusive<u32> = 16..=24;

/// Indexes into `Interpreter::offsets`: `enum node_offset` of the in-kernel programs, followed by those used only for
/// names.
pub(crate) mod at {
    pub const SHARED: usize = 0;
    pub const CODE: usize = 1;
    pub const NAME: usize = 2;
    pub const SCRIPT: usize = 3;
    pub const LENGTH: usize = 4;
    pub const PARAMETERS: usize = 5;
    pub const TOKEN: usize = 6;
    pub const TYPE: usize = 7;
    pub const SHARED_TYPE: usize = 8;
    pub const SHARED_BYTES: usize = 9;
    /// Types of scopes, scripts and `undefined`; the first type that is not a string.
    pub const SCOPE_TYPE: usize = 10;
    pub const SCRIPT_TYPE: usize = 11;
    pub const ODDBALL_TYPE: usize = 12;
    pub const FIRST_NO_STRING: usize = 13;
    /// Offsets in a scope of the number of its variables, and of the first variable.
    pub const SCOPE_VARIABLES: usize = 14;
    pub const SCOPE_FIRST: usize = 15;
    pub const STRING_LENGTH: usize = 16;
    pub const CHARACTERS: usize = 17;
    pub const CONS_FIRST: usize = 18;
    pub const CONS_SECOND: usize = 19;
    pub const SLICE_PARENT: usize = 20;
    pub const SLICE_OFFSET: usize = 21;
    pub const THIN_ACTUAL: usize = 22;
    pub const SCRIPT_NAME: usize = 23;
    pub const SCRIPT_SOURCE: usize = 24;
}

/// Bytes of a word of V8's heap, without pointer compression.
const WORD: i64 = 8;

/// Constants that are hard-coded here and in the in-kernel programs.
const EXPECTED: [(&str, i64); 18] = [
    ("HeapObjectTag", 1),
    ("HeapObjectTagMask", 3),
    ("SmiTag", 0),
    ("SmiTagMask", 1),
    ("SmiShiftSize", 31),
    ("SmiValueShift", 1),
    ("off_fp_function", -16),
    ("off_fp_context", -8),
    ("class_HeapObject__map__Map", 0),
    ("StringRepresentationMask", 7),
    ("SeqStringTag", 0),
    ("ConsStringTag", 1),
    ("SlicedStringTag", 3),
    ("ThinStringTag", 5),
    ("StringEncodingMask", 8),
    ("TwoByteStringTag", 0),
    ("OneByteStringTag", 8),
    ("class_SeqTwoByteString__chars__char", 16),
];

/// Offsets, and the names that versions of V8 have for them.
const OFFSETS: [(usize, &[&str]); 22] = [
    (at::SHARED, &["class_JSFunction__shared__SharedFunctionInfo"]),
    (
        at::NAME,
        &[
            "class_SharedFunctionInfo__name_or_scope_info__Object",
            "class_SharedFunctionInfo__name_or_scope_info__Tagged_Object_",
            "class_SharedFunctionInfo__name_or_scope_info__Tagged_NameOrScopeInfoT_",
        ],
    ),
    (
        at::SCRIPT,
        &[
            "class_SharedFunctionInfo__script_or_debug_info__HeapObject",
            "class_SharedFunctionInfo__script__Tagged_HeapObject_",
        ],
    ),
    (at::LENGTH, &["class_SharedFunctionInfo__length__uint16_t"]),
    (at::PARAMETERS, &["class_SharedFunctionInfo__internal_formal_parameter_count__uint16_t"]),
    (at::TOKEN, &["class_SharedFunctionInfo__raw_function_token_offset__int16_t"]),
    (at::TYPE, &["class_Map__instance_type__uint16_t"]),
    (at::SHARED_TYPE, &["type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE"]),
    (at::SCOPE_TYPE, &["type_ScopeInfo__SCOPE_INFO_TYPE"]),
    (at::SCRIPT_TYPE, &["type_Script__SCRIPT_TYPE"]),
    (at::ODDBALL_TYPE, &["type_Oddball__ODDBALL_TYPE"]),
    (at::FIRST_NO_STRING, &["FirstNonstringType"]),
    (at::SCOPE_VARIABLES, &["scopeinfo_idx_ncontextlocals"]),
    (at::SCOPE_FIRST, &["scopeinfo_idx_first_vars"]),
    (at::STRING_LENGTH, &["class_String__length__int32_t"]),
    (at::CHARACTERS, &["class_SeqOneByteString__chars__char"]),
    (at::CONS_FIRST, &["class_ConsString__first__String"]),
    (at::CONS_SECOND, &["class_ConsString__second__String"]),
    (at::SLICE_PARENT, &["class_SlicedString__parent__String"]),
    (at::SLICE_OFFSET, &["class_SlicedString__offset__SMI"]),
    (at::THIN_ACTUAL, &["class_ThinString__actual__String"]),
    (at::SCRIPT_NAME, &["class_Script__name__Object"]),
];

/// Finds the interpreter in a file; `None` if the file does not contain V8.
pub(crate) fn find(file: &File<'_>) -> Option<Result<Runtime, Unknown>> {
    // An addon may import the variable without defining it.
    file.symbol(MARK)?;
    let Some(version) = version(file.constants()) else {
        let interpreter = "V8".to_owned();
        return Some(Err(Unknown { interpreter, reason: "it is of no version of Node" }));
    };
    let name = format!("Node {version}");
    let major = version.split('.').next().and_then(|major| major.parse().ok());
    if !major.is_some_and(|major| VERSIONS.contains(&major)) {
        return Some(Err(Unknown::layout(name)));
    }
    let fail = |reason| Some(Err(Unknown { interpreter: name.clone(), reason }));
    if constant(file, "TaggedSize") != Some(WORD) {
        return fail("its pointers are compressed");
    }
    if EXPECTED.iter().any(|(name, value)| constant(file, name) != Some(*value)) {
        return Some(Err(Unknown::layout(name)));
    }
    let Some(offsets) = offsets(file) else { return fail("an offset is missing in `v8dbg_…`") };
    let Some(to_address) = file.to_address() else { return fail("its code is in several places") };
    let mut functions: Vec<_> =
        file.functions().into_iter().map(|(range, name)| (range, Cow::Borrowed(name))).collect();
    if !functions.iter().any(|(_, name)| is_builtin(name)) {
        let found = pyrograph_elf::v8::builtins(file.image).into_iter().flatten();
        functions.extend(found.map(|(range, name)| {
            let offset = |address: u64| address.wrapping_sub(to_address);
            (offset(range.start)..offset(range.end), Cow::Owned(name))
        }));
    }
    let builtins = functions.iter().filter(|(_, name)| is_builtin(name)).map(|(range, _)| range);
    let Some(builtins) = builtins.cloned().reduce(|a, b| a.start.min(b.start)..a.end.max(b.end))
    else {
        return fail("its builtins cannot be found");
    };
    let builtins = builtins.start.wrapping_add(to_address)..builtins.end.wrapping_add(to_address);
    let interpreter = Interpreter {
        language: Language::JavaScript,
        to_address,
        symbols: [builtins.start, builtins.end, 0, 0],
        place: ThreadPlace::Global(0),
        plan: plan(&offsets),
        offsets,
        tag: 3,
    };
    let native = Native::of_functions(file, &functions, is_interpreter, is_glue).with_made_code();
    Some(Ok(Runtime::new(version, "v8dbg_*", interpreter, native)))
}

/// Returns the value of a `v8dbg_` variable.
fn constant(file: &File<'_>, name: &str) -> Option<i64> {
    let address = file.symbol(&format!("v8dbg_{name}"))?;
    Some(file.constant(address).cast_signed().into())
}

/// Returns the version, from the download URL of the release.
fn version(constants: &[u8]) -> Option<String> {
    let mark = b"/node-v";
    memmem::find_iter(constants, mark).find_map(|at| {
        let rest = &constants[at + mark.len()..];
        let end = rest.iter().take(16).position(|c| !c.is_ascii_digit() && *c != b'.')?;
        let version = str::from_utf8(&rest[..end]).ok()?.trim_end_matches('.');
        (version.matches('.').count() == 2).then(|| version.to_owned())
    })
}

fn offsets(file: &File<'_>) -> Option<[u32; Interpreter::OFFSETS]> {
    let mut offsets = [Interpreter::NO_OFFSET; Interpreter::OFFSETS];
    for (field, names) in OFFSETS {
        let value = names.iter().find_map(|name| constant(file, name))?;
        offsets[field] = u32::try_from(value).ok().filter(|value| *value < 1 << 15)?;
    }
    for index in [at::SCOPE_VARIABLES, at::SCOPE_FIRST] {
        // The constants are numbers of words after the map.
        offsets[index] = (offsets[index] + 1) * WORD as u32;
    }
    // The first fields, which are not named in all versions: a function's code, which is a number in builtins; a
    // script's text, whose type is checked.
    offsets[at::CODE] = WORD as u32;
    offsets[at::SCRIPT_SOURCE] = WORD as u32;
    let read = [at::CODE, at::NAME, at::SCRIPT, at::LENGTH, at::PARAMETERS, at::TOKEN];
    let last = read.into_iter().map(|field| offsets[field]).max()?;
    offsets[at::SHARED_BYTES] = (last + 8).next_multiple_of(8);
    (last < 120).then_some(offsets)
}

fn is_builtin(name: &str) -> bool {
    name.starts_with("Builtins_")
}

/// Returns true for the functions that interpret bytecode; each call of one has a frame.
fn is_interpreter(name: &str) -> bool {
    name.starts_with("Builtins_InterpreterEntryTrampoline")
}

/// Returns true for functions through which JavaScript functions call each other, and are called by others. They show
/// nothing but that there was a call.
fn is_glue(name: &str) -> bool {
    const BUILTINS: [&str; 9] = [
        "AdaptorWithBuiltinExitFrame",
        "ArgumentsAdaptorTrampoline",
        "BaselineOrInterpreterEnter",
        "BaselineOutOfLinePrologue",
        "CEntry_",
        "Call",
        "Construct",
        "InterpreterPushArgs",
        "JS",
    ];
    const CPP: [&str; 4] = [
        "_ZN2v84base",
        "_ZN2v88internal9Execution",
        "_ZN2v88internal12_GLOBAL__N_16Invoke",
        "_ZN2v88Function4Call",
    ];
    match name.strip_prefix("Builtins_") {
        // Handler of one bytecode.
        Some(builtin) if builtin.ends_with("Handler") => true,
        Some(builtin) => BUILTINS.iter().any(|prefix| builtin.starts_with(prefix)),
        None => CPP.iter().any(|prefix| name.starts_with(prefix)),
    }
}

/// Pieces of memory that name a function.
fn plan(offsets: &[u32; Interpreter::OFFSETS]) -> Vec<ChunkPlan> {
    let of = |field: usize| offsets[field];
    let chunk = ChunkPlan::new;
    // Words of a scope behind its variables, which take two words each.
    let behind = |word: u32| ChunkPlan {
        pairs: of(at::SCOPE_VARIABLES) as u16,
        ..chunk(1, of(at::SCOPE_FIRST) + 8 * word, Interpreter::CHUNK_BYTES)
    };
    vec![
        chunk(0, 0, of(at::SHARED_BYTES) as u16),
        // 1, 2: name or scope, and its map. 3, 4: script. 5, 6: the script's name. 7, 8: first part of that name.
        chunk(0, of(at::NAME), Interpreter::CHUNK_BYTES),
        chunk(1, 0, 16),
        chunk(0, of(at::SCRIPT), 64),
        chunk(3, 0, 16),
        chunk(3, of(at::SCRIPT_NAME), Interpreter::CHUNK_BYTES),
        chunk(5, 0, 16),
        chunk(5, of(at::CONS_FIRST), Interpreter::CHUNK_BYTES),
        chunk(7, 0, 16),
        // One of these contains the name.
        behind(0),
        chunk(9, 0, 16),
        behind(1),
        chunk(11, 0, 16),
        behind(2),
        chunk(13, 0, 16),
    ]
}

/// Returns the name of a function, by its `SharedFunctionInfo`.
pub(crate) fn name(runtime: &Runtime, memory: &dyn Memory, function: u64) -> Option<Name> {
    Heap::new(&runtime.interpreter, memory, &runtime.scripts).name(function)
}

#[cfg(test)]
mod tests;
