use super::*;
use crate::measured::Measured;
use crate::memory::Chunks;

const TABLE: &str = include_str!("../../../../benches/languages/offsets/tables/luajit.txt");

#[test]
fn layouts_are_as_measured() {
    let columns = Measured::columns(TABLE);
    assert_eq!(columns.len(), 18);
    for column in columns {
        let key =
            ["dispatch_to_global", "global_current"].map(|field| column.value(field).unwrap());
        let layout = LAYOUTS.iter().find(|layout| told_by(layout) == key).unwrap();
        let expected = [
            ("global_current", layout.global_current),
            ("global_jit_base", layout.global_jit_base),
            ("global_vm_state", layout.global_vm_state),
            ("prototype_lines", layout.prototype_lines),
            ("string_length", layout.string_length),
        ];
        for (field, value) in expected {
            assert_eq!(column.value(field), Some(value), "{} {field}", column.version);
        }
        // What a walker reads of a coroutine and a prototype, at once or as words.
        assert!(layout.state_stack_size + 4 <= 96 && layout.state_c_frame + 8 <= 96);
        assert!(layout.prototype_size <= 256 && layout.prototype_first_line.is_multiple_of(8));
    }
    // Each is told from all others by these two.
    for (at, layout) in LAYOUTS.iter().enumerate() {
        assert!(!LAYOUTS[at + 1..].iter().any(|other| told_by(other) == told_by(layout)));
    }
    let known = |key: &(u32, u32)| LAYOUTS.iter().any(|layout| told_by(layout) == [key.0, key.1]);
    assert!(WITH_SNAPSHOTS.iter().all(known));
}

fn told_by(layout: &Layout) -> [u32; 2] {
    [layout.dispatch_to_global, layout.global_current]
}

/// Code of an interpreter as a layout has it.
fn code(layout: &Layout) -> Vec<u8> {
    let distance = |offset: u32| offset.wrapping_sub(layout.dispatch_to_global).to_le_bytes();
    let global = layout.dispatch_to_global.to_le_bytes();
    [
        ENTRY,
        ADD,
        &global,
        &[0x49, 0x89, 0xae],
        &distance(layout.global_current),
        &[0x49, 0x89, 0x96],
        &distance(layout.global_jit_base),
        &[0x41, 0xc7, 0x86],
        &distance(layout.global_vm_state),
        &[0xff; 4],
        &[0x49, 0x8b, 0x8e],
        &distance(layout.dispatch_to_global - 2856),
        &[0x48, 0x8b, 0x04, 0xc1, 0x48, 0x8b, 0x40, 0x58],
        TRACE,
        ADD,
        &global,
    ]
    .concat()
}

#[test]
fn layouts_are_told_by_instructions() {
    for expected in LAYOUTS {
        let code = code(&expected);
        assert_eq!(layout(&code), Some(expected));
        let distance = expected.dispatch_to_global;
        // From the versions of 2021 on; 4000 is one of 2020, too.
        let is_new = distance >= 3968 && expected.global_current >= 368;
        let known = (is_new && told_by(&expected) != [4000, 368]).then(|| distance - 2856);
        assert_eq!(traces(&code, &expected), known);
        // Anything else is none: also if a single place is another one.
        for at in 0..code.len() {
            let mut other = code.clone();
            other[at] ^= 0x10;
            assert!(layout(&other).is_none_or(|layout| layout == expected), "{at}");
            assert!(layout(&code[..at]).is_none_or(|layout| layout == expected), "{at}");
        }
    }
    assert_eq!(layout(&[]), None);
    let mut other = LAYOUTS[0];
    other.dispatch_to_global = 3924;
    assert_eq!(layout(&code(&other)), None);
}

#[test]
fn versions_are_found() {
    let version_of = |text: &str| version(format!("\0abc{text}\0def").as_bytes());
    assert_eq!(version_of("LuaJIT 2.1.0-beta3").as_deref(), Some("2.1.0-beta3"));
    assert_eq!(version_of("LuaJIT 2.1.1737090214").as_deref(), Some("2.1.1737090214"));
    assert_eq!(version_of("LuaJIT 2.1\x1b[2J"), None);
    assert_eq!(version_of("LuaJIT 3.0"), None);
    assert_eq!(version(b"LuaJIT 2.1.0"), None);
}

const PROTOTYPE: u64 = 0x1000;
const CHUNK: u64 = 0x2000;
const TABLE_AT: u64 = 0x3000;

fn interpreter(layout: &Layout) -> Interpreter {
    Interpreter {
        language: Language::Lua,
        to_address: 0,
        symbols: [0; 4],
        place: ThreadPlace::Global(0),
        offsets: offsets(layout),
        plan: plan(layout),
        tag: 0,
    }
}

/// A prototype: its chunk's name, first line, number of lines, and the table of lines.
fn memory(
    layout: &Layout,
    chunk: &str,
    (first, count): (u32, u32),
    table: &[u8],
) -> Vec<(u64, Vec<u8>)> {
    let mut prototype = vec![0; 104];
    let mut put = |at: u32, value: u64, len: usize| {
        let at = at as usize;
        prototype[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
    };
    put(layout.object_type, layout.type_prototype.into(), 1);
    put(layout.prototype_chunk, CHUNK, 8);
    put(layout.prototype_first_line, first.into(), 4);
    put(layout.prototype_line_count, count.into(), 4);
    put(layout.prototype_instructions, 4, 4);
    put(layout.prototype_lines, if table.is_empty() { 0 } else { TABLE_AT }, 8);
    let mut text = vec![0; layout.string_data as usize];
    let at = layout.string_length as usize;
    text[at..at + 4].copy_from_slice(&(chunk.len() as u32).to_le_bytes());
    text.extend(chunk.as_bytes());
    text.push(0);
    vec![(PROTOTYPE, prototype), (CHUNK, text), (TABLE_AT, table.to_vec())]
}

#[test]
fn functions_are_named_by_where_they_begin() {
    let lines = &[0, 1, 2][..];
    let cases = [
        ("@/a/b.lua", 12, lines, "b.lua:12", Some("/a/b.lua"), 12),
        ("@b.lua", 1, lines, "b.lua:1", Some("b.lua"), 1),
        ("@/a/b.lua", 0, lines, "main chunk of b.lua", Some("/a/b.lua"), 0),
        ("=(command line)", 3, lines, "(command line):3", None, 3),
        ("=stdin", 0, lines, "main chunk of stdin", None, 0),
        ("return 1", 0, lines, "main chunk of [string \"return 1\"]", None, 0),
        ("f()\ng()", 2, lines, "[string \"f()...\"]:2", None, 2),
        ("@/a/b.luac", 0, &[], "b.luac:?", Some("/a/b.luac"), 0),
        ("=table.foreach", BUILT_IN, &[], "[builtin table.foreach]", None, 0),
        ("@a\x1b[2J.lua", 2, lines, "a\\u{1b}[2J.lua:2", Some("a\\u{1b}[2J.lua"), 2),
    ];
    for layout in LAYOUTS {
        let it = interpreter(&layout);
        for (chunk, first, table, expected, file, line) in cases {
            let chunks = memory(&layout, chunk, (first, 5), table);
            let found = name(&it, &Chunks { chunks: &chunks, rest: () }, PROTOTYPE).unwrap();
            assert_eq!(found.function, expected);
            assert_eq!((found.file.as_deref(), found.start_line), (file, line), "{chunk}");
            // The pieces that the programs read hold what is needed.
            assert!(it.plan.iter().zip(&chunks).all(|(plan, (_, bytes))| {
                usize::from(plan.len) >= bytes.len() || bytes.len() > 160
            }));
        }
    }
}

#[test]
fn instructions_have_lines() {
    let layout = LAYOUTS[3];
    let it = interpreter(&layout);
    let cases: [(u32, &[u8]); 3] = [
        (7, &[0, 1, 7]),
        (300, &[0, 0, 1, 0, 7, 1]),
        (70_000, &[0, 0, 0, 0, 1, 0, 0, 0, 7, 1, 1, 0]),
    ];
    for (count, table) in cases {
        let chunks = memory(&layout, "@b.lua", (10, count), table);
        let lines = lines(&it, &Chunks { chunks: &chunks, rest: () }, PROTOTYPE).unwrap();
        let last = 10 + [7, 263, 65_799][table.len() / 4 - usize::from(table.len() > 6)];
        let found = [0, 1, 2, 3, 4, 5, u32::MAX].map(|behind| lines.line(behind));
        assert_eq!(found, [0, 0, 10, 11, last, 0, 0]);
    }
    let chunks = memory(&layout, "@b.lua", (10, 7), &[]);
    assert!(lines(&it, &Chunks { chunks: &chunks, rest: () }, PROTOTYPE).is_none());
}

#[test]
fn damaged_memory_gives_no_panic() {
    let layout = LAYOUTS[5];
    let it = interpreter(&layout);
    let whole = memory(&layout, "@b.lua", (10, 7), &[0, 1, 7]);
    let look = |chunks: &[(u64, Vec<u8>)]| {
        let memory = Chunks { chunks, rest: () };
        let found = name(&it, &memory, PROTOTYPE);
        assert!(found.is_none_or(|name| name.function.len() <= 600));
        if let Some(lines) = lines(&it, &memory, PROTOTYPE) {
            [0, 2, 5, u32::MAX]
                .into_iter()
                .for_each(|behind| assert!(lines.line(behind) < u32::MAX));
        }
    };
    for at in 0..whole.len() {
        for word in 0..whole[at].1.len() / 8 {
            for value in [0, 1, PROTOTYPE, CHUNK + 1, u64::MAX, u64::MAX - 20, 1 << 63] {
                let mut damaged = whole.clone();
                damaged[at].1[8 * word..8 * word + 8].copy_from_slice(&value.to_le_bytes());
                look(&damaged);
            }
        }
        for len in 0..whole[at].1.len() {
            let mut cut = whole.clone();
            cut[at].1.truncate(len);
            look(&cut);
        }
    }
}
