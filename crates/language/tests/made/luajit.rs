//! LuaJIT as of 2021-03-23.

use super::{Elf, Frame, Function, Made, Space};

/// What its assembler has: a C frame is made; the distance of the global state from the table of instructions, and uses of
/// that; how a trace is entered, and what one begins with.
fn assembler() -> Vec<u8> {
    let distance = |offset: u32| offset.wrapping_sub(3968).to_le_bytes();
    let code = [
        &[0x55, 0x53, 0x41, 0x57, 0x41, 0x56, 0x48, 0x83, 0xec, 0x28][..],
        &[0x49, 0x81, 0xc6],
        &3968u32.to_le_bytes(),
        &[0x49, 0x89, 0xae],
        &distance(368),
        &[0x49, 0x89, 0x96],
        &distance(376),
        &[0x41, 0xc7, 0x86],
        &distance(184),
        &[0xff; 4],
        &[0x49, 0x8b, 0x8e],
        &distance(1112),
        &[0x48, 0x8b, 0x04, 0xc1, 0x48, 0x8b, 0x40, 0x58],
        &[0x48, 0x83, 0xec, 0x10, 0x4c, 0x89, 0x64, 0x24, 0x10, 0x4c, 0x89, 0x6c, 0x24, 0x08],
    ];
    // Each instruction ends with a jump to the next.
    [&code.concat()[..], &[0x41, 0xff, 0x24, 0xee].repeat(80)].concat()
}

/// A prototype with four instructions; returns where these begin.
fn prototype(space: &mut Space, chunk: u64, first: u32) -> u64 {
    let lines = space.add(8);
    space.put_bytes(lines, &[0, 1, 2]);
    let at = space.words(104 + 16, &[(64, chunk), (80, lines)]);
    space.put_bytes(at + 9, &[7]);
    space.put_half(at + 12, 4);
    space.put_half(at + 72, first);
    space.put_half(at + 76, 5);
    // The result of a call goes to the register 3.
    for instruction in 0..4 {
        space.put_half(at + 104 + 4 * instruction, 3 << 8);
    }
    at + 104
}

/// A slot with a function: its type, and the address.
fn slot(space: &mut Space, code: u64) -> u64 {
    space.words(48, &[(32, code)]) | 0x1fff7 << 47
}

pub fn made() -> Made {
    let mut space = Space::default();
    let mut elf = Elf::new("LuaJIT 2.1.1616453862");
    elf.function("luaJIT_setmode", &[0xc3]);
    let run = elf.function("lj_vm_asm_begin", &assembler()) + 16;
    let file = {
        space.add(16);
        elf.bytes(&space)
    };

    let text = b"@/srv/app.lua";
    let chunk = space.add(24 + text.len() + 1);
    space.put_half(chunk + 20, text.len() as u32);
    space.put_bytes(chunk + 24, text);
    let codes = [10, 20, 0].map(|first| prototype(&mut space, chunk, first));
    let slots = codes.map(|code| slot(&mut space, code));
    // From the outermost on: what C has called, and what that and the next call by their second instructions.
    let stack = space.add(8 * 20);
    let [leaf, call, main] = codes.map(|code| code + 8);
    for (at, word) in [(2, slots[2]), (3, 17), (7, slots[1]), (8, main), (12, slots[0]), (13, call)]
    {
        space.put(stack + 8 * at, word);
    }
    let global = space.add(1200);
    let words = [(16, global), (32, stack + 8 * 14), (56, stack), (88, 20)];
    let coroutine = space.words(104, &words);
    space.put_bytes(coroutine + 9, &[6]);
    let c_frame = space.words(80, &[(16, coroutine), (24, leaf)]);
    space.put(coroutine + 80, c_frame);
    space.put(global + 368, coroutine);
    let frames = vec![Frame { sp: c_frame, at: run, ..Frame::default() }];
    let functions = codes.into_iter().zip(["app.lua:10", "app.lua:20", "main chunk of app.lua"]);
    let functions = functions.map(|(code, name)| Function { address: code - 104, owner: 0, name });
    let functions = functions.collect();
    Made { file, memory: space.0, frames, functions, lines: vec![(2, 10), (3, 11), (4, 12)] }
}
