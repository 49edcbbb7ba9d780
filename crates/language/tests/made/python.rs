//! CPython 3.11, and 3.13, which has its offsets in the file.

use super::{Elf, FS, Function, Made, Space};

/// A compact ASCII string, whose characters are so many bytes behind its beginning.
fn text(space: &mut Space, text: &str, head: u64) -> u64 {
    let words = [(16, text.len() as u64), (32, 1 << 6 | 1 << 2)];
    let at = space.words(head as usize + text.len() + 1, &words);
    space.put_bytes(at + head, text.as_bytes());
    at
}

/// One instruction of the first line, and then two of a line each: the bytes of this object are at 32.
fn table_of_lines(space: &mut Space) -> u64 {
    let table = space.words(48, &[(16, 9)]);
    space.put_bytes(table + 32, &[0xd0, 0, 0, 0xd8, 0, 0, 0xd8, 0, 0]);
    table
}

const LINES: [(u32, u32); 4] = [(0, 7), (2, 8), (4, 9), (6, 0)];
const NAMES: [&str; 3] = ["leaf", "Thing.call", "<module>"];

fn functions(codes: [u64; 3]) -> Vec<Function> {
    let functions = codes.into_iter().zip(NAMES);
    functions.map(|(address, name)| Function { address, owner: 0, name }).collect()
}

pub fn made() -> Made {
    let mut space = Space::default();
    let mut elf = Elf::new("python3.11");
    let runtime = space.add(64);
    let code_type = space.add(16);
    let version = space.words(8, &[(0, 0x030b_02f0)]);
    elf.variable("_PyRuntime", runtime);
    elf.variable("PyCode_Type", code_type);
    elf.variable("Py_Version", version);
    elf.function("_PyEval_EvalFrameDefault", &[0x90; 16]);
    let file = elf.bytes(&space);

    let path = text(&mut space, "/srv/app.py", 48);
    let table = table_of_lines(&mut space);
    let codes = NAMES.map(|name| {
        let name = text(&mut space, name, 48);
        let words = [(8, code_type), (112, path), (128, name), (136, table)];
        let code = space.words(256, &words);
        space.put_half(code + 72, 7);
        code
    });
    let mut caller = 0;
    for code in codes.into_iter().rev() {
        caller = space.words(256, &[(32, code), (48, caller), (56, code + 184 + 2)]);
        space.put_half(caller + 68, u32::from(code != codes[0]));
    }
    let c_frame = space.words(16, &[(8, caller)]);
    let other = space.words(160, &[(152, FS + 8)]);
    let thread = space.words(160, &[(8, other), (56, c_frame), (152, FS)]);
    let interpreter = space.words(32, &[(16, thread)]);
    space.put(runtime + 40, interpreter);
    let functions = functions(codes);
    Made { file, memory: space.0, frames: Vec::new(), functions, lines: LINES.to_vec() }
}

/// Words of `_Py_DebugOffsets` of 3.13, and what they are: a mark, the version, offsets.
const DEBUG_OFFSETS: [(u64, u64); 22] = [
    (0, u64::from_le_bytes(*b"xdebugpy")),
    (1, 0x030d_00f0),
    // The first interpreter; the next one and the first thread.
    (5, 632),
    (8, 0),
    (9, 16),
    // Of a thread: the next one, the frame, the identifier.
    (21, 8),
    (23, 72),
    (24, 152),
    // Of a frame: the one before, code, instruction, owner.
    (29, 8),
    (30, 0),
    (31, 56),
    (33, 70),
    // Of code: file, name, lines, first line, instructions.
    (35, 112),
    (36, 120),
    (37, 128),
    (38, 136),
    (39, 68),
    (43, 200),
    // The type of an object; of a string: state, length, characters.
    (45, 8),
    (68, 32),
    (69, 16),
    (70, 40),
];

/// Of 3.13.
pub fn made_3_13() -> Made {
    let mut space = Space::default();
    let mut elf = Elf::new("python3.13");
    let runtime = space.words(648, &DEBUG_OFFSETS.map(|(index, word)| (8 * index, word)));
    let code_type = space.add(16);
    elf.variable("_PyRuntime", runtime);
    elf.variable("PyCode_Type", code_type);
    elf.function("_PyEval_EvalFrameDefault", &[0x90; 16]);
    let file = elf.bytes(&space);

    let path = text(&mut space, "/srv/app.py", 40);
    let table = table_of_lines(&mut space);
    let codes = NAMES.map(|name| {
        let name = text(&mut space, name, 40);
        let words = [(8, code_type), (112, path), (128, name), (136, table)];
        let code = space.words(256, &words);
        space.put_half(code + 68, 7);
        code
    });
    // The outermost frame, and that of the innermost function, are below frames on the C stack, which are of no function.
    let mut caller = 0;
    for code in codes.into_iter().rev() {
        if code != codes[1] {
            caller = space.words(256, &[(8, caller)]);
            space.put_bytes(caller + 70, &[3]);
        }
        caller = space.words(256, &[(0, code), (8, caller), (56, code + 200 + 2)]);
    }
    let other = space.words(160, &[(152, FS + 8)]);
    let thread = space.words(160, &[(8, other), (72, caller), (152, FS)]);
    let interpreter = space.words(32, &[(16, thread)]);
    space.put(runtime + 632, interpreter);
    let functions = functions(codes);
    Made { file, memory: space.0, frames: Vec::new(), functions, lines: LINES.to_vec() }
}
