//! Ruby 2.7, whose context is in a global variable, and 3.3, whose context is in one of each thread.

use super::{CODE, Elf, FS, Function, Made, START, Space};

const STRING: u64 = 5;
const ARRAY: u64 = 7;
/// Elements in the object itself.
const EMBEDDED: u64 = 0x2000;
/// Of the flags of environments: kinds of frames; C has called; a method's own.
const METHOD: u64 = 0x1111_0001;
const BLOCK: u64 = 0x2222_0001;
const IN_C: u64 = 0x5555_0001;
const TOP: u64 = 0x7777_0001;
const FINISH: u64 = 32;
const LOCAL: u64 = 2;
/// Of the flags of a class: it is that of one object.
const SINGLETON: u64 = 1 << 12;
/// The number of a symbol, which is the first of those that are no operators.
const SYMBOL: u64 = 20;

/// A version.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    V2_7,
    V3_3,
}
use Version::{V2_7, V3_3};

/// A string in its object, or apart from it.
fn text(space: &mut Space, version: Version, text: &str) -> u64 {
    let len = text.len() as u64;
    if len < 24 && version == V3_3 {
        let at = space.words(48, &[(0, STRING), (16, len)]);
        space.put_bytes(at + 24, text.as_bytes());
        return at;
    }
    if len < 24 {
        let at = space.words(40, &[(0, STRING | len << 14)]);
        space.put_bytes(at + 16, text.as_bytes());
        return at;
    }
    let data = space.add(text.len());
    space.put_bytes(data, text.as_bytes());
    space.words(40, &[(0, STRING | 0x2000), (16, len), (24, data)])
}

/// A class, or (of) that of an object, with a field or with variables: one that the program has named comes first.
fn class(space: &mut Space, version: Version, flags: u64, of: u64) -> u64 {
    if version == V3_3 {
        let field = if flags & SINGLETON == 0 { 152 } else { 128 };
        return space.words(168, &[(0, flags), (field, of)]);
    }
    let entries = space.words(144, &[(8, 0x1002), (16, of), (32, 0x2000), (40, of)]);
    let table = space.words(64, &[(48, entries)]);
    let variables = space.words(32, &[(8, table)]);
    space.words(40, &[(0, flags), (24, variables)])
}

/// A sequence of instructions.
fn sequence(space: &mut Space, version: Version, label: &str) -> u64 {
    let (label, path) = (text(space, version, label), text(space, version, "/srv/app.rb"));
    let path = space.words(40, &[(0, ARRAY | EMBEDDED), (16, path)]);
    // Two lines, of which the second begins at the third instruction.
    let lines = match version {
        V2_7 => space.words(16, &[(0, 8), (8, 9)]),
        V3_3 => space.words(24, &[(0, 8), (8, 9 << 32)]),
    };
    let mut positions = [0; 6];
    for at in 0..54 {
        positions[at / 9] |= (1 + u64::from(at >= 3)) << (at % 9 * 7);
    }
    let table = space.add(48);
    for (at, word) in (0..).zip(positions) {
        space.put(table + 8 * at, word);
    }
    // The first line is an object, and then a number; before the lines is a word less.
    let (first, less) = if version == V2_7 { (2 * 8 + 1, 0) } else { (8, 8) };
    let words = [(64, path), (80, label), (88, first), (120 - less, lines), (144 - less, table)];
    let body = space.words(200, &words);
    space.put(body + 8, START);
    space.put_half(body + 4, 12);
    space.put_half(body + 136 - less, 2);
    space.words(40, &[(0, 0x701a), (16, body)])
}

/// Code of `rb_id2str`: compares with the last operator, with the last symbol, and reads the table 16 bytes behind.
fn symbol_code(at: u64, table: u64) -> Vec<u8> {
    let distance = |to: u64, end: u64| (to.wrapping_sub(at + end) as u32).to_le_bytes();
    let last = distance(table - 16, 14);
    let table = distance(table, 21);
    [
        &[0x48, 0x81, 0xff, 0xa9, 0, 0, 0, 0x48, 0x3b, 0x3d][..],
        &last,
        &[0x48, 0x8b, 0x05],
        &table,
        &[0xc3],
    ]
    .concat()
}

/// The table of symbols, with the name of [`SYMBOL`]: an array of arrays with two elements for each.
fn table_of_symbols(space: &mut Space, name: u64) -> u64 {
    let array = |space: &mut Space, elements| space.words(40, &[(0, ARRAY), (32, elements)]);
    let inner = space.words(16 * 21, &[(8 * 2 * SYMBOL, name)]);
    let inner = array(space, inner);
    let outer = space.words(16, &[(0, inner)]);
    array(space, outer)
}

/// Of 2.7.
pub fn made() -> Made {
    made_of(V2_7)
}

/// Of 3.3.
pub fn made_3_3() -> Made {
    made_of(V3_3)
}

fn made_of(version: Version) -> Made {
    let mut space = Space::default();
    let mut elf = Elf::new("");
    // In a thread's own block, which ends at what `fs` points to; or where the program has it.
    let variable = space.add(16);
    let (text_of_version, symbols) = (space.add(16), space.add(32) + 16);
    space.put_bytes(text_of_version, if version == V2_7 { b"2.7.4" } else { b"3.3.8" });
    elf.variable("ruby_version", text_of_version);
    if version == V2_7 {
        elf.variable("ruby_current_execution_context_ptr", variable);
        elf.function("rb_thread_current", &[0xc3; 8]);
    } else {
        assert_eq!(variable, FS - 8);
        // mov rax, fs:[-8]; ret
        elf.function("rb_thread_current", &[0x64, 0x48, 0x8b, 4, 0x25, 0xf8, 255, 255, 255, 0xc3]);
    }
    let code = symbol_code(elf.next(), symbols);
    elf.function("rb_id2str", &code);
    assert!(symbols < CODE && symbols > START);
    // jmp rax, for each instruction.
    elf.function("loop", &[0xff, 0xe0].repeat(80));
    let file = elf.bytes(&space);

    let name = text(&mut space, version, "each");
    let table = table_of_symbols(&mut space, name);
    space.put(symbols, table);

    let thing_name = text(&mut space, version, "App::AThingWithALongName");
    let thing = class(&mut space, version, 2, thing_name);
    let single = class(&mut space, version, 2 | SINGLETON, thing);
    let method = |space: &mut Space, owner, symbol: u64| {
        space.words(48, &[(0, 0x601a), (24, symbol << 4), (32, owner)])
    };
    let own = method(&mut space, thing, 7);
    let of_class = method(&mut space, single, 7);
    let in_c = method(&mut space, thing, SYMBOL);

    let sequences =
        ["call", "block in make", "<main>"].map(|label| sequence(&mut space, version, label));
    // Environments: method, the environment around, flags.
    let make = space.words(24, &[(0, of_class), (16, METHOD | LOCAL)]) + 16;
    let environments = [
        space.words(24, &[(0, own), (16, METHOD | LOCAL)]),
        space.words(24, &[(0, in_c), (16, IN_C | LOCAL)]),
        space.words(24, &[(8, make), (16, BLOCK | FINISH)]),
        space.words(24, &[(16, TOP | LOCAL | FINISH)]),
    ];
    let frames = space.add(4 * 56);
    let [call, block, main] = sequences;
    for ((at, sequence), environment) in (0..).zip([call, 0, block, main]).zip(environments) {
        let frame = frames + 56 * at;
        let instruction = if sequence == 0 { 0 } else { START + 24 };
        space.put(frame, instruction);
        space.put(frame + 16, sequence);
        space.put(frame + 32, environment + 16);
    }
    let thread = space.words(80, &[(72, FS)]);
    let words = [(0, frames), (8, 4 * 7), (16, frames), (56, thread)];
    let context = space.words(64, &words);
    space.put(variable, context);
    let function = |address, owner, name| Function { address, owner, name };
    let functions = vec![
        function(call, thing, "App::AThingWithALongName#call"),
        function(name | 1, thing, "App::AThingWithALongName#each"),
        function(block, single, "block in App::AThingWithALongName.make"),
        function(main, 0, "<main>"),
    ];
    let lines = vec![(1, 8), (3, 8), (4, 9), (11, 9)];
    Made { file, memory: space.0, frames: Vec::new(), functions, lines }
}
