//! Methods in memory that is put together as JDK 17 has it, and as 24 has it, as it is and damaged.

use super::*;
use crate::memory::Chunks;

/// Fields of JDK 17.
const FIELDS: [(&str, &str, &str, u64); 34] = [
    ("CodeHeap", "_memory", "VirtualSpace", 8),
    ("CodeHeap", "_segmap", "VirtualSpace", 120),
    ("CodeHeap", "_log2_segment_size", "int", 256),
    ("VirtualSpace", "_low", "char*", 16),
    ("VirtualSpace", "_high", "char*", 24),
    ("GrowableArrayBase", "_len", "int", 0),
    ("GrowableArray<int>", "_data", "int*", 8),
    ("CodeBlob", "_name", "const char*", 96),
    ("CodeBlob", "_frame_size", "int", 28),
    ("CodeBlob", "_frame_complete_offset", "int", 20),
    ("CodeBlob", "_code_begin", "address", 32),
    ("CompiledMethod", "_method", "Method*", 104),
    ("CompiledMethod", "_scopes_data_begin", "address", 112),
    ("nmethod", "_compile_id", "int", 304),
    ("nmethod", "_metadata_offset", "int", 260),
    ("nmethod", "_scopes_pcs_offset", "int", 268),
    ("nmethod", "_dependencies_offset", "int", 272),
    ("PcDesc", "_pc_offset", "int", 0),
    ("PcDesc", "_scope_decode_offset", "int", 4),
    ("Method", "_constMethod", "ConstMethod*", 8),
    ("ConstMethod", "_constants", "ConstantPool*", 8),
    ("ConstMethod", "_flags", "u2", 28),
    ("ConstMethod", "_code_size", "u2", 32),
    ("ConstMethod", "_name_index", "u2", 34),
    ("ConstMethod", "_signature_index", "u2", 36),
    ("ConstantPool", "_pool_holder", "InstanceKlass*", 24),
    ("ConstantPool", "_source_file_name_index", "u2", 54),
    ("Klass", "_name", "Symbol*", 24),
    ("Symbol", "_length", "u2", 4),
    ("Symbol", "_body", "", 6),
    ("Method", "_access_flags", "AccessFlags", 32),
    ("Method", "_code", "CompiledMethod*", 64),
    ("nmethod", "_state", "char", 315),
    ("nmethod", "_entry_bci", "int", 192),
];
const SIZES: [(&str, u64); 4] =
    [("HeapBlock", 16), ("ConstMethod", 48), ("ConstantPool", 72), ("PcDesc", 16)];

/// Fields of JDK 24, which has no `CompiledMethod`.
const FIELDS_24: [(&str, &str, &str, u64); 7] = [
    ("CodeBlob", "_size", "int", 16),
    ("CodeBlob", "_data_offset", "int", 24),
    ("nmethod", "_method", "Method*", 104),
    ("nmethod", "_immutable_data", "address", 120),
    ("nmethod", "_immutable_data_size", "int", 128),
    ("nmethod", "_scopes_pcs_offset", "int", 132),
    ("nmethod", "_scopes_data_offset", "int", 136),
];

fn runtime() -> Runtime {
    runtime_of(17, &FIELDS)
}

fn runtime_24() -> Runtime {
    let gone = |field: &&(&str, &str, &str, u64)| {
        field.0 != "CompiledMethod"
            && field.1 != "_scopes_pcs_offset"
            && field.1 != "_metadata_offset"
    };
    let fields: Vec<_> = FIELDS.iter().filter(gone).chain(&FIELDS_24).copied().collect();
    runtime_of(24, &fields)
}

fn runtime_of(version: u32, fields: &[(&'static str, &'static str, &'static str, u64)]) -> Runtime {
    let tables = Tables::of(fields, &SIZES);
    let interpreter = Interpreter {
        language: Language::Java,
        to_address: 0,
        symbols: [0; Interpreter::SYMBOLS],
        place: ThreadPlace::Global(0),
        plan: Vec::new(),
        offsets: offsets(&tables).expect("all are there"),
        tag: 0,
    };
    let native = Native::from_ranges(Vec::new(), Vec::new(), Vec::new());
    let mut runtime = Runtime::new("17.0.9".to_owned(), "test", interpreter, native);
    runtime.java = Some(Arc::new(Layout {
        method: method::Layout::read(&tables, version).expect("all are there"),
        compiled: compiled::Layout::read(&tables, version),
    }));
    runtime
}

/// Memory that is put together, and the least byte of a number in it: 1 from JDK 20 on.
struct Image(Vec<u8>, u8);

const START: u64 = 0x10000;

impl Image {
    /// Reserves so many bytes, and returns their address.
    fn add(&mut self, len: usize) -> u64 {
        let at = self.0.len().next_multiple_of(8);
        self.0.resize(at + len, 0);
        START + at as u64
    }

    fn put(&mut self, address: u64, bytes: &[u8]) {
        let at = (address - START) as usize;
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn symbol(&mut self, text: &str) -> u64 {
        let at = self.add(6 + text.len());
        self.put(at + 4, &(text.len() as u16).to_le_bytes());
        self.put(at + 6, text.as_bytes());
        at
    }

    /// A method of `app/Main`, whose bytecodes from 0 on are of `line`, and from 5 on of the one after.
    fn method(&mut self, name: &str, signature: &str, line: u8) -> u64 {
        let [name, signature, file, class_name] =
            [name, signature, "Main.java", "app/Main"].map(|text| self.symbol(text));
        let class = self.add(64);
        self.put(class + 24, &class_name.to_le_bytes());
        let constants = self.add(72 + 4 * 8);
        self.put(constants + 24, &class.to_le_bytes());
        self.put(constants + 54, &3u16.to_le_bytes());
        for (index, symbol) in (1..).zip([name, signature, file]) {
            self.put(constants + 72 + 8 * index, &symbol.to_le_bytes());
        }
        let constant = self.add(48 + 9 + 4 + 300);
        self.put(constant + 8, &constants.to_le_bytes());
        for (at, value) in [(28, 1u16), (32, 9), (34, 1), (36, 2)] {
            self.put(constant + at, &value.to_le_bytes());
        }
        // One step of the bytecode by 5 and the line by 1, behind the first with a sign.
        let number = |number: u8| number + self.1;
        let lines = [0xff, number(0), number(2 * line), 5 << 3 | 1, 0];
        self.put(constant + 48 + 9, &lines);
        let method = self.add(88);
        self.put(method + 8, &constant.to_le_bytes());
        method
    }

    /// Code of `methods`, of which each is called by the one before, at bytecode 6: up to 16 bytes of code by the first
    /// alone, up to 32 by the first two, and so on.
    fn compiled(&mut self, methods: &[u64]) -> u64 {
        let blob = self.add(400);
        let name = self.add(8);
        self.put(name, b"nmethod\0");
        let metadata = self.add(8 * methods.len());
        for (index, method) in (0..).zip(methods) {
            self.put(metadata + 8 * index, &method.to_le_bytes());
        }
        // Nothing is at 0.
        let scopes = metadata + 8 * methods.len() as u64;
        let (mut bytes, mut pcs, mut caller) = (vec![99], vec![-1i32, 0, 0, 0], 0u8);
        for index in 0..methods.len() as u8 {
            pcs.extend([16 * (i32::from(index) + 1), bytes.len() as i32, 0, 0]);
            let at = bytes.len() as u8;
            bytes.extend([caller, index + 1, 1 + 6]);
            caller = at;
        }
        pcs.extend([i32::MAX, 0, 0, 0]);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let at = self.add(bytes.len());
        assert_eq!(at, scopes);
        self.put(at, &bytes);
        let at = self.add(4 * pcs.len());
        let words: Vec<u8> = pcs.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.put(at, &words);
        let distance = |address: u64| ((address - blob) as u32).to_le_bytes();
        self.put(blob + 96, &name.to_le_bytes());
        self.put(blob + 104, &methods[0].to_le_bytes());
        self.put(blob + 112, &scopes.to_le_bytes());
        self.put(blob + 260, &distance(metadata));
        self.put(blob + 268, &distance(at));
        self.put(blob + 272, &distance(at + words.len() as u64));
        self.put(blob + 304, &77u32.to_le_bytes());
        blob
    }

    /// The same code as JDK 24 has it, with these words before the metadata.
    fn compiled_24(&mut self, methods: &[u64], objects: &[u64], scopes_are_first: bool) -> u64 {
        let data: Vec<u64> = objects.iter().chain(methods).chain(objects).copied().collect();
        let blob = self.add(400);
        let name = self.add(8);
        self.put(name, b"nmethod\0");
        let start = self.add(8 * data.len());
        self.put(start, &data.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>());
        let (mut scopes, mut pcs, mut caller) = (vec![99], vec![-1i32, 0, 0, 0], 0u8);
        for index in 0..methods.len() as u8 {
            pcs.extend([16 * (i32::from(index) + 1), scopes.len() as i32, 0, 0]);
            let at = scopes.len() as u8;
            scopes.extend([caller, index + 1, 1 + 6].map(|number| number + self.1));
            caller = at;
        }
        // Behind the last place is something else.
        pcs.extend([i32::MAX, 0, 0, 0, 7, 7, 7, 7]);
        scopes.resize(scopes.len().next_multiple_of(8), 0);
        let pcs: Vec<u8> = pcs.iter().flat_map(|word| word.to_le_bytes()).collect();
        // Dependencies are before both.
        let (scopes_at, pcs_at) =
            if scopes_are_first { (8, 8 + scopes.len()) } else { (8 + pcs.len(), 8) };
        let size = 8 + scopes.len() + pcs.len();
        let fixed = self.add(size);
        self.put(fixed + scopes_at as u64, &scopes);
        self.put(fixed + pcs_at as u64, &pcs);
        let half = |number: usize| (number as u32).to_le_bytes();
        self.put(blob + 16, &half((start - blob) as usize + 8 * data.len()));
        self.put(blob + 24, &half((start - blob) as usize));
        self.put(blob + 96, &name.to_le_bytes());
        self.put(blob + 104, &methods[0].to_le_bytes());
        self.put(blob + 120, &fixed.to_le_bytes());
        self.put(blob + 128, &half(size));
        self.put(blob + 132, &half(pcs_at));
        self.put(blob + 136, &half(scopes_at));
        self.put(blob + 304, &77u32.to_le_bytes());
        blob
    }

    fn with_memory<T>(&self, body: impl FnOnce(&dyn Memory) -> T) -> T {
        let chunks = [(START, self.0.clone())];
        body(&Chunks { chunks: &chunks, rest: () })
    }
}

/// Methods `run`, `call` and `leaf`, each called by the one before, and the code of all.
fn image() -> (Image, [u64; 3], u64) {
    let mut image = Image(Vec::new(), 0);
    let methods = methods(&mut image);
    let blob = image.compiled(&methods);
    (image, methods, blob)
}

fn methods(image: &mut Image) -> [u64; 3] {
    [
        image.method("run", "()V", 10),
        image.method("call", "(I[J)Z", 20),
        image.method("leaf", "(Ljava/util/List;)[[Ljava/lang/String;", 30),
    ]
}

const NAMES: [&str; 3] = [
    "void app.Main.run()",
    "boolean app.Main.call(int, long[])",
    "java.lang.String[][] app.Main.leaf(java.util.List)",
];

#[test]
fn interpreted_methods_have_names_and_lines() {
    let (image, methods, _) = image();
    let runtime = runtime();
    image.with_memory(|memory| {
        for ((method, expect), line) in methods.iter().zip(NAMES).zip([10, 20, 30]) {
            let name = runtime.name(memory, *method, 0).expect("a name");
            let file = Some("Main.java".to_owned());
            assert_eq!(name, Name { function: expect.to_owned(), file, start_line: line });
            let lines = runtime.lines(memory, *method);
            // Bytecodes are counted from 1.
            assert_eq!([1, 5, 6, 9].map(|at| lines.line(at)), [line, line, line + 1, line + 1]);
        }
    });
}

#[test]
fn code_is_of_the_methods_that_are_in_it() {
    let (image, _, blob) = image();
    let runtime = runtime();
    image.with_memory(|memory| {
        let function = blob | COMPILED;
        assert_eq!(
            runtime.name(memory, function, 0).map(|name| name.function).as_deref(),
            Some(NAMES[0])
        );
        check_calls(&runtime.lines(memory, function));
        let code = Code::of(&runtime, memory).expect("Java");
        let identity = code.identity(function).expect("an identity");
        assert!(runtime.is_same(memory, function, identity));
        assert!(!runtime.is_same(memory, function, identity ^ 1));
        assert_eq!(runtime.name(&(), function, 0), None);
    });
}

/// Checks the calls at each place of the code of the three methods.
fn check_calls(lines: &crate::Lines) {
    for place in 1..60u32 {
        let depth = (place.div_ceil(16) as usize).min(3);
        for (flag, lines_of) in [(0, [0; 3]), (1 << 23, [11, 21, 31])] {
            let calls = lines.calls(place | flag).expect("calls");
            let found: Vec<_> =
                calls.iter().map(|call| (&*call.name.function, call.line)).collect();
            let mut expect: Vec<_> = NAMES.into_iter().zip(lines_of).take(depth).collect();
            expect.reverse();
            assert_eq!(found, expect, "{place}");
        }
    }
}

/// Nothing says where JDK 23 and 24 have the metadata of a method: objects lie before, how many is not known.
#[test]
fn metadata_is_found_by_the_methods_in_it() {
    let runtime = runtime_24();
    for objects in [&[][..], &[5, 0x7_0000_0000, 0], &[START, START + 8]] {
        for scopes_are_first in [false, true] {
            let mut image = Image(Vec::new(), 1);
            let methods = methods(&mut image);
            let blob = image.compiled_24(&methods, objects, scopes_are_first);
            image.with_memory(|memory| check_calls(&runtime.lines(memory, blob | COMPILED)));
        }
    }
    // Two places fit, or none does: the code has the name of its own method alone.
    for (objects, damage) in [(3, false), (0, true)] {
        let mut image = Image(Vec::new(), 1);
        let methods = methods(&mut image);
        let blob = image.compiled_24(&methods, &methods[..objects], true);
        if damage {
            image.put(blob + 104, &(methods[0] + 8).to_le_bytes());
        }
        image.with_memory(|memory| {
            let lines = runtime.lines(memory, blob | COMPILED);
            assert!(lines.calls(5).is_none(), "{objects} {damage}");
            let name = runtime.name(memory, blob | COMPILED, 0).map(|name| name.function);
            assert_eq!(name.as_deref(), (!damage).then_some(NAMES[0]));
        });
    }
}

/// Any word with any of some values: nothing, or something else, and no panic.
#[test]
fn damaged_memory_gives_no_panic() {
    let (image, methods, blob) = image();
    damage(&image, &methods, blob, &runtime());
    let mut image = Image(Vec::new(), 1);
    let methods = self::methods(&mut image);
    let blob = image.compiled_24(&methods, &[5], true);
    damage(&image, &methods, blob, &runtime_24());
}

fn damage(image: &Image, methods: &[u64], blob: u64, runtime: &Runtime) {
    for at in (0..image.0.len()).step_by(4) {
        for value in [0u32, 1, 0xff, 0x7fff_ffff, u32::MAX, START as u32, blob as u32 + 112] {
            let mut damaged = Image(image.0.clone(), image.1);
            let end = damaged.0.len().min(at + 4);
            damaged.0[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
            damaged.with_memory(|memory| {
                for function in methods.iter().copied().chain([blob | COMPILED, blob | 2]) {
                    if let Some(name) = runtime.name(memory, function, 0) {
                        assert!(!name.function.chars().any(char::is_control), "{name:?}");
                    }
                    let lines = runtime.lines(memory, function);
                    for place in [0, 1, 17, 40, 1 << 20] {
                        lines.line(place);
                        assert!(lines.calls(place).is_none_or(|calls| calls.len() <= 256));
                    }
                }
            });
        }
    }
}
