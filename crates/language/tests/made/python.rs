//! CPython 3.11.

use super::{Elf, FS, Function, Made, Space};

/// A compact ASCII string.
fn text(space: &mut Space, text: &str) -> u64 {
    let at = space.words(48 + text.len() + 1, &[(16, text.len() as u64), (32, 1 << 6 | 1 << 2)]);
    space.put_bytes(at + 48, text.as_bytes());
    at
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

    let path = text(&mut space, "/srv/app.py");
    // One instruction of the first line, and then two of a line each: the bytes of this object are at 32.
    let table = space.words(48, &[(16, 9)]);
    space.put_bytes(table + 32, &[0xd0, 0, 0, 0xd8, 0, 0, 0xd8, 0, 0]);
    let names = ["leaf", "Thing.call", "<module>"];
    let codes = names.map(|name| {
        let name = text(&mut space, name);
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
    let functions = codes.into_iter().zip(names);
    let functions = functions.map(|(address, name)| Function { address, owner: 0, name });
    let functions = functions.collect();
    let lines = vec![(0, 7), (2, 8), (4, 9), (6, 0)];
    Made { file, memory: space.0, frames: Vec::new(), functions, lines }
}
