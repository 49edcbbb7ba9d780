//! HotSpot of JDK 17.

use super::{Elf, Frame, Function, Made, Space};

/// Fields: class, name, type, offset.
const FIELDS: [(&str, &str, &str, u64); 31] = [
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
    ("Method", "_access_flags", "AccessFlags", 32),
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
];
const SIZES: [(&str, u64); 4] =
    [("HeapBlock", 16), ("ConstMethod", 48), ("ConstantPool", 72), ("PcDesc", 16)];

fn text(space: &mut Space, text: &str) -> u64 {
    let at = space.add(text.len() + 1);
    space.put_bytes(at, text.as_bytes());
    at
}

/// The tables for debuggers; returns the address of the variable with the heaps.
fn tables(space: &mut Space, elf: &mut Elf) -> u64 {
    let heaps = space.add(16);
    let numbers = space.words(24, &[(0, 17), (8, 0), (16, 9)]);
    let version = |name, at: u64| ("Abstract_VM_Version", name, "int", 1, numbers + 8 * at);
    let fields = FIELDS.map(|(class, name, of, offset)| (class, name, of, 0, offset));
    let variables = [
        version("_vm_major_version", 0),
        version("_vm_minor_version", 1),
        version("_vm_security_version", 2),
        ("CodeCache", "_heaps", "GrowableArray<CodeHeap*>*", 1, heaps),
    ];
    let all: Vec<_> = fields.into_iter().chain(variables).collect();
    let (structures, types) = (space.add(48 * (all.len() + 1)), space.add(40 * (SIZES.len() + 1)));
    for (at, (class, name, of, is_static, value)) in (0..).map(|at| structures + 48 * at).zip(all) {
        for (field, text_of) in [(0, class), (8, name), (16, of)] {
            let text = text(space, text_of);
            space.put(at + field, text);
        }
        space.put(at + 24, is_static);
        space.put(at + if is_static == 1 { 40 } else { 32 }, value);
    }
    for (at, (class, size)) in (0..).map(|at| types + 40 * at).zip(SIZES) {
        let text = text(space, class);
        space.put(at, text);
        space.put(at + 32, size);
    }
    for (name, table) in [("gHotSpotVMStructs", structures), ("gHotSpotVMTypes", types)] {
        let variable = space.words(8, &[(0, table)]);
        elf.variable(name, variable);
    }
    heaps
}

fn symbol(space: &mut Space, text: &str) -> u64 {
    let at = space.add(6 + text.len());
    space.put_bytes(at + 4, &(text.len() as u16).to_le_bytes());
    space.put_bytes(at + 6, text.as_bytes());
    at
}

/// A method of `app.Main`, whose bytecodes from 0 on are of `line`, and from 5 on of the one after.
fn method(space: &mut Space, name: &str, signature: &str, line: u8) -> u64 {
    let [name, signature, file, class_name] =
        [name, signature, "Main.java", "app/Main"].map(|text| symbol(space, text));
    let class = space.words(64, &[(24, class_name)]);
    let words = [(24, class), (72 + 8, name), (72 + 16, signature), (72 + 24, file)];
    let constants = space.words(72 + 4 * 8, &words);
    space.put_bytes(constants + 54, &[3, 0]);
    let constant = space.words(48 + 9 + 4 + 300, &[(8, constants)]);
    for (at, value) in [(28, 1u8), (32, 9), (34, 1), (36, 2)] {
        space.put_bytes(constant + at, &[value, 0]);
    }
    space.put_bytes(constant + 48 + 9, &[0xff, 0, 2 * line, 5 << 3 | 1, 0]);
    space.words(88, &[(8, constant)])
}

/// Code of methods, of which each is called by the one before, as the compiler has put them together: 16 bytes each.
fn compiled(space: &mut Space, methods: &[u64]) -> u64 {
    let name = text(space, "nmethod");
    let blob = space.words(400, &[(96, name), (104, methods[0])]);
    let metadata = space.add(8 * methods.len());
    let (mut bytes, mut places, mut caller) = (vec![99], vec![-1i32, 0, 0, 0], 0u8);
    for (index, method) in (0u8..).zip(methods) {
        space.put(metadata + 8 * u64::from(index), *method);
        places.extend([16 * (i32::from(index) + 1), bytes.len() as i32, 0, 0]);
        let at = bytes.len() as u8;
        bytes.extend([caller, index + 1, 1 + 6]);
        caller = at;
    }
    places.extend([i32::MAX, 0, 0, 0]);
    bytes.resize(bytes.len().next_multiple_of(16), 0);
    let scopes = space.add(bytes.len());
    space.put_bytes(scopes, &bytes);
    let places: Vec<u8> = places.into_iter().flat_map(i32::to_le_bytes).collect();
    let at = space.add(places.len());
    space.put_bytes(at, &places);
    space.put(blob + 112, scopes);
    space.put(blob + 32, blob + 320);
    for (field, address) in [(260, metadata), (268, at), (272, at + places.len() as u64)] {
        space.put_half(blob + field, (address - blob) as u32);
    }
    space.put_half(blob + 304, 77);
    blob
}

pub fn made() -> Made {
    let mut space = Space::default();
    let mut elf = Elf::new("");
    tables(&mut space, &mut elf);
    elf.function("JNI_CreateJavaVM", &[0x90; 16]);
    let file = elf.bytes(&space);

    let methods = [
        method(&mut space, "run", "()V", 10),
        method(&mut space, "call", "(I[J)Z", 20),
        method(&mut space, "leaf", "(Ljava/util/List;)[[Ljava/lang/String;", 30),
    ];
    let blob = compiled(&mut space, &methods);
    let stub_name = text(&mut space, "StubRoutines (1)");
    let stub = space.words(128, &[(96, stub_name)]);
    // An interpreted frame: bytecode and method below the frame pointer.
    let constant = space.word(methods[1] + 8);
    let frame = space.words(80, &[(0, constant + 48 + 5), (40, methods[1])]);
    // Behind the interpreted one a virtual thread's callers are in the heap.
    let frames = [
        (1 | blob, 0, blob + 330),
        (3, frame + 64, 0x7000_0000),
        (5 | stub, 0, stub + 100),
        (2 | stub, 0, stub + 120),
    ];
    let frames = frames.map(|(blob, fp, at)| Frame { sp: frame, fp, at, is_made: true, blob });
    let function = |address, name| Function { address, owner: 0, name };
    let functions = vec![
        function(blob | 1, "void app.Main.run()"),
        function(methods[1], "boolean app.Main.call(int, long[])"),
        function(stub | 2, "StubRoutines (1)"),
    ];
    Made { file, memory: space.0, frames: frames.to_vec(), functions, lines: Vec::new() }
}
