//! Node 20.

use super::{Elf, Frame, Function, Made, Space};

/// Variables of the file for debuggers, with their values in Node 20.
const VARIABLES: [(&str, i32); 42] = [
    ("TaggedSize", 8),
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
    ("class_JSFunction__shared__SharedFunctionInfo", 24),
    ("class_SharedFunctionInfo__name_or_scope_info__Object", 16),
    ("class_SharedFunctionInfo__script_or_debug_info__HeapObject", 32),
    ("class_SharedFunctionInfo__length__uint16_t", 40),
    ("class_SharedFunctionInfo__internal_formal_parameter_count__uint16_t", 42),
    ("class_SharedFunctionInfo__raw_function_token_offset__int16_t", 44),
    ("class_Map__instance_type__uint16_t", 12),
    ("type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE", SHARED as i32),
    ("type_ScopeInfo__SCOPE_INFO_TYPE", SCOPE as i32),
    ("type_Script__SCRIPT_TYPE", SCRIPT as i32),
    ("type_Oddball__ODDBALL_TYPE", 131),
    ("FirstNonstringType", 128),
    ("scopeinfo_idx_ncontextlocals", 2),
    ("scopeinfo_idx_first_vars", 3),
    ("class_String__length__int32_t", 12),
    ("class_SeqOneByteString__chars__char", 16),
    ("class_ConsString__first__String", 16),
    ("class_ConsString__second__String", 24),
    ("class_SlicedString__parent__String", 16),
    ("class_SlicedString__offset__SMI", 24),
    ("class_ThinString__actual__String", 16),
    ("class_Script__name__Object", 16),
    ("off_fp_args", 16),
];

/// Types of objects.
const SHARED: u64 = 262;
const SCOPE: u64 = 261;
const SCRIPT: u64 = 167;
const FUNCTION: u64 = 2058;
const ONE_BYTE: u64 = 0x28;
const CONS: u64 = 0x29;

/// An object of a type, with words behind its map; returns a pointer to it.
fn object(space: &mut Space, of: u64, words: &[u64]) -> u64 {
    let map = space.words(16, &[(8, of << 32)]);
    let at = space.words(16 + 8 * words.len(), &[(0, map + 1)]);
    for (number, word) in (1..).zip(words) {
        space.put(at + 8 * number, *word);
    }
    at + 1
}

fn number(number: i32) -> u64 {
    (number as u64) << 32
}

fn text(space: &mut Space, text: &str) -> u64 {
    let object = object(space, ONE_BYTE, &[(text.len() as u64) << 32, 0, 0, 0, 0, 0]);
    space.put_bytes(object + 15, text.as_bytes());
    object
}

/// A function: its scope has a variable, its name and where it is.
fn function(space: &mut Space, name: u64, place: [i32; 2], script: u64) -> u64 {
    let variable = text(space, "x");
    let [start, end] = place.map(number);
    let words = [0, 0, number(1), variable, 0, name, number(-1), start, end];
    let scope = object(space, SCOPE, &words);
    object(space, SHARED, &[script, scope, 0, script, 0x1_0001, 0])
}

pub fn made() -> Made {
    let mut space = Space::default();
    let mut elf =
        Elf::new("https://nodejs.org/download/release/v20.9.0/node-v20.9.0-headers.tar.gz");
    for (name, value) in VARIABLES {
        let at = space.add(8);
        space.put_half(at, value as u32);
        elf.variable(&format!("v8dbg_{name}"), at);
    }
    let interpreted = elf.function("Builtins_InterpreterEntryTrampoline", &[0x90; 64]) + 8;
    let native = elf.function("main", &[0x90; 64]) + 8;
    let file = elf.bytes(&space);

    let (folder, path) = (text(&mut space, "file:///srv/"), text(&mut space, "app.mjs"));
    let path = object(&mut space, CONS, &[19 << 32, folder, path]);
    let source = text(&mut space, "first;\nsecond;\r\nthird;\rfourth;");
    let script = object(&mut space, SCRIPT, &[source, path]);
    let names = ["leaf", "call", "main"];
    let mut shared = [0; 3];
    for ((shared, name), place) in shared.iter_mut().zip(names).zip([[8, 20], [17, 20], [1, 3]]) {
        let name = text(&mut space, name);
        *shared = function(&mut space, name, place, script);
    }
    let context = object(&mut space, 150, &[]);
    // Each frame has, below its frame pointer, the function and the context.
    let stack = space.add(4 * 64);
    let frames = [(shared[0], true), (shared[1], false), (0, false), (shared[2], true)];
    let frames = (0..).zip(frames).map(|(at, (shared, is_made))| {
        let (sp, fp) = (stack + 64 * at, stack + 64 * at + 48);
        let at = match (is_made, shared) {
            (true, _) => 0x7000_0000 + at,
            (false, 0) => native,
            (false, _) => interpreted,
        };
        if shared != 0 {
            let closure = object(&mut space, FUNCTION, &[0, 0, shared, context]);
            space.put(fp - 16, closure);
            space.put(fp - 8, context);
        }
        Frame { sp, fp, at, is_made, blob: 0 }
    });
    let frames = frames.collect();
    let functions = shared.into_iter().zip(names);
    let functions =
        functions.map(|(shared, name)| Function { address: shared - 1, owner: 0, name });
    let functions = functions.collect();
    Made { file, memory: space.0, frames, functions, lines: vec![(12, 12)] }
}
