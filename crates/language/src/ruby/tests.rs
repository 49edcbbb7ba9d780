use super::*;
use crate::measured::Measured;
use crate::memory::Chunks;

const TABLE: &str = include_str!("../../../../benches/languages/offsets/tables/ruby.txt");
const VERSIONS: [(u32, u32); 7] = [(2, 7), (3, 0), (3, 1), (3, 2), (3, 3), (3, 4), (4, 0)];

#[test]
fn layouts_are_as_measured() {
    let columns = Measured::columns(TABLE);
    assert_eq!(columns.len(), VERSIONS.len());
    for column in columns {
        let major = column.version.split('.').next().unwrap().parse().unwrap();
        let layout = layout(major, column.minor()).unwrap();
        assert_eq!(column.value("frame_size"), Some(layout.frame_size), "{}", column.version);
        assert_eq!(column.value("body_lines"), Some(layout.body_lines));
        assert_eq!(column.value("body_local"), Some(layout.body_local));
        assert_eq!(column.value("string_embedded_shift"), layout.string_embedded_shift);
        assert_eq!(column.value("class_path"), layout.class_path);
        assert_eq!(column.value("class_attached"), layout.class_attached);
        assert_eq!(column.value("class_variables"), layout.class_variables);
        assert_eq!(column.value("class_values"), layout.class_values);
        // What a walker reads of a description.
        assert!(layout.body_first_line + 4 <= 96);
    }
    assert_eq!(layout(2, 6), None);
    assert_eq!(layout(4, 1), None);
}

/// A name of a variable that is Ruby's own, as `__classpath__`.
const OWN_NAME: u64 = 0x2000;

/// Objects that are put together, each at an address of its own.
struct Objects {
    it: Interpreter,
    layout: Layout,
    chunks: Vec<(u64, Vec<u8>)>,
}

fn interpreter(major: u32, minor: u32, layout: &Layout) -> Interpreter {
    let mut offsets = offsets(layout);
    (offsets[at::MAJOR], offsets[at::MINOR]) = (major, minor);
    Interpreter {
        language: Language::Ruby,
        to_address: 0,
        symbols: [0; 4],
        place: ThreadPlace::Global(0),
        offsets,
        plan: plan(layout),
        tag: 0,
    }
}

impl Objects {
    fn new((major, minor): (u32, u32)) -> Self {
        let layout = layout(major, minor).unwrap();
        Self { it: interpreter(major, minor, &layout), layout, chunks: Vec::new() }
    }

    /// Memory with words at offsets, and text.
    fn put(&mut self, words: &[(u32, u64)], text: (u32, &str)) -> u64 {
        let mut bytes = vec![0; 200];
        for (offset, value) in words {
            let at = *offset as usize;
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        let at = text.0 as usize;
        bytes[at..at + text.1.len()].copy_from_slice(text.1.as_bytes());
        let address = 0x10000 + 0x1000 * self.chunks.len() as u64;
        self.chunks.push((address, bytes));
        address
    }

    fn string(&mut self, text: &str) -> u64 {
        self.string_with(0, text)
    }

    fn string_with(&mut self, flags: u32, text: &str) -> u64 {
        let layout = self.layout;
        let (kind, len) = (u64::from(layout.type_string | flags), text.len() as u64);
        match (layout.string_embedded_shift, len) {
            (Some(shift), ..24) => {
                self.put(&[(0, kind | len << shift)], (layout.string_embedded, text))
            }
            (None, ..24) => {
                self.put(&[(0, kind), (layout.string_length, len)], (layout.string_embedded, text))
            }
            _ => {
                let data = self.put(&[], (0, text));
                let heap = kind | u64::from(layout.string_heap);
                let words = [(0, heap), (layout.string_length, len), (layout.string_pointer, data)];
                self.put(&words, (32, ""))
            }
        }
    }

    fn iseq(&mut self, label: &str) -> u64 {
        let layout = self.layout;
        let label = self.string(label);
        let path = self.string("/a/b.rb");
        let elements = u64::from(layout.type_array | layout.array_embedded_flag);
        let path = self.put(&[(0, elements), (layout.array_embedded, path)], (0, ""));
        let line = if has_number_objects(&self.it) { 2 * 12 + 1 } else { 12 };
        let words =
            [(layout.body_label, label), (layout.body_path, path), (layout.body_first_line, line)];
        let body = self.put(&words, (0, ""));
        self.put(&[(0, 0x701a), (layout.iseq_body, body)], (0, ""))
    }

    /// A class of a version that has its name in it, or among its variables.
    fn class(&mut self, name: &str) -> u64 {
        let kind = u64::from(self.layout.type_class_object);
        let name = self.string_with(self.layout.string_interned, name);
        let own = self.string("Other");
        // A variable that the program has named, and one of Ruby's own.
        self.class_with(kind, self.layout.class_path, [(0x1002, own), (OWN_NAME, name)])
    }

    /// The class of one object.
    fn class_of(&mut self, object: u64) -> u64 {
        let flags = u64::from(self.layout.type_class_object | self.layout.class_singleton);
        let own = self.string("a value");
        self.class_with(flags, self.layout.class_attached, [(OWN_NAME, object), (0x1002, own)])
    }

    /// A class with what a field has, or with variables.
    fn class_with(&mut self, flags: u64, field: Option<u32>, variables: [(u64, u64); 2]) -> u64 {
        let layout = self.layout;
        if let Some(field) = field {
            let value = variables.iter().find(|(name, _)| *name == OWN_NAME).unwrap().1;
            return self.put(&[(0, flags), (field, value)], (0, ""));
        }
        let [first, second] = variables;
        if let Some(values) = layout.class_values {
            let of_class = self.put(&[(0, first.1), (8, second.1)], (0, ""));
            return self.put(&[(0, flags), (values, of_class)], (0, ""));
        }
        let extension = layout.class_extension.unwrap();
        let words = [(8, first.0), (16, first.1), (32, second.0), (40, second.1)];
        let entries = self.put(&words, (0, ""));
        let table = self.put(&[(layout.table_entries.unwrap(), entries)], (0, ""));
        let variables = self.put(&[(layout.class_variables.unwrap(), table)], (0, ""));
        self.put(&[(0, flags), (extension, variables)], (0, ""))
    }

    fn name_of(&self, function: u64, owner: u64) -> Option<String> {
        let memory = Chunks { chunks: &self.chunks, rest: () };
        name(&self.it, &memory, function, owner).map(|name| name.function)
    }

    fn name(&self, function: u64) -> Option<Name> {
        name(&self.it, &Chunks { chunks: &self.chunks, rest: () }, function, 0)
    }
}

#[test]
fn methods_and_blocks_are_named() {
    for version in VERSIONS {
        let mut objects = Objects::new(version);
        for label in
            ["call", "block (2 levels) in call", "a_name_that_is_longer_than_others", "<main>"]
        {
            let iseq = objects.iseq(label);
            let (function, file) = (label.to_owned(), Some("/a/b.rb".to_owned()));
            let expected = Name { function, file, start_line: 12 };
            assert_eq!(objects.name(iseq), Some(expected), "{version:?}");
        }
        let text = objects.string("sort_by");
        let expected = Name { function: "sort_by".to_owned(), file: None, start_line: 0 };
        assert_eq!(objects.name(text | NAME), Some(expected));
        // A string is no sequence of instructions.
        assert_eq!(objects.name(text), None);
    }
}

#[test]
fn methods_have_their_classes() {
    for version in VERSIONS {
        let mut objects = Objects::new(version);
        let class = objects.class("App::Thing");
        let long = objects.class("AClassWhoseNameIsLongerThanOthers");
        let anonymous = objects.class("#<Class:0x00007f0011223344>::Inner");
        let (single, of_object) = (objects.class_of(class), objects.string("an object"));
        let of_object = objects.class_of(of_object);
        for (label, owner, expected) in [
            ("call", class, "App::Thing#call"),
            ("block in call", class, "block in App::Thing#call"),
            (
                "block (2 levels) in call",
                long,
                "block (2 levels) in AClassWhoseNameIsLongerThanOthers#call",
            ),
            ("rescue in block in call", single, "rescue in block in App::Thing.call"),
            ("<=>", class, "App::Thing#<=>"),
            ("call", anonymous, "call"),
            ("call", of_object, "call"),
            // What is no method, and what is no class.
            ("<main>", class, "<main>"),
            ("block in <class:Thing>", class, "block in <class:Thing>"),
            ("<top (required)>", class, "<top (required)>"),
            ("singleton class", class, "singleton class"),
            ("call", 0, "call"),
            ("call", class + 8, "call"),
        ] {
            let iseq = objects.iseq(label);
            assert_eq!(objects.name_of(iseq, owner).as_deref(), Some(expected), "{version:?}");
        }
        let each = objects.string("each");
        assert_eq!(objects.name_of(each | NAME, class).as_deref(), Some("App::Thing#each"));
    }
}

#[test]
fn the_pieces_that_are_planned_name_a_method() {
    for version in VERSIONS {
        let mut objects = Objects::new(version);
        let block = objects.iseq("block (2 levels) in a_method");
        let class = objects.class("AClassWhoseNameIsLongerThanOthers");
        let owner = objects.class_of(class);
        let read = |address: u64, len: usize| {
            let found = objects
                .chunks
                .iter()
                .find(|(start, bytes)| (*start..start + bytes.len() as u64).contains(&address));
            let rest = found.map(|(start, bytes)| &bytes[(address - start) as usize..]);
            rest.map_or(Vec::new(), |rest| rest[..len.min(rest.len())].to_vec())
        };
        let mut pieces: Vec<(u64, Vec<u8>)> = Vec::new();
        for (number, plan) in objects.it.plan.iter().enumerate() {
            let from =
                pieces.get(usize::from(plan.from)).filter(|_| number > 0).map(|(_, bytes)| {
                    let word = bytes.get(plan.offset.into()..usize::from(plan.offset) + 8);
                    word.map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap()))
                });
            let address = match plan.from {
                ChunkPlan::OWNER => owner,
                _ => from.unwrap_or(block),
            };
            pieces.push((address, read(address, plan.len.into())));
        }
        let found = name(&objects.it, &Chunks { chunks: &pieces, rest: () }, block, owner);
        let found = found.unwrap();
        let expected = "block (2 levels) in AClassWhoseNameIsLongerThanOthers.a_method";
        assert_eq!(found.function, expected, "{version:?}");
        assert_eq!((found.file.as_deref(), found.start_line), (Some("/a/b.rb"), 12));
    }
}

#[test]
fn damaged_memory_gives_no_panic() {
    let mut objects = Objects::new((3, 1));
    let block = objects.iseq("block (2 levels) in a_method");
    let class = objects.class("A");
    let owner = objects.class_of(class);
    let whole = objects.chunks.clone();
    let check = |chunks: &[(u64, Vec<u8>)]| {
        let memory = Chunks { chunks, rest: () };
        let name = name(&objects.it, &memory, block, owner);
        // Control characters are written as up to six others.
        assert!(name.is_none_or(|name| name.function.len() <= 6 * 512));
        lines(&objects.it, &memory, block);
    };
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        for word in 0..whole[at].1.len() / 8 {
            let place = 8 * word..8 * word + 8;
            for value in [0, 1, block, whole[0].0 + 1, u64::MAX, u64::MAX - 20, 0x701a] {
                damaged[at].1[place.clone()].copy_from_slice(&value.to_le_bytes());
                check(&damaged);
            }
            damaged[at].1[place.clone()].copy_from_slice(&whole[at].1[place]);
        }
        for len in 0..whole[at].1.len() {
            damaged[at].1 = whole[at].1[..len].to_vec();
            check(&damaged);
        }
    }
}

/// A table of positions, put together from the places where lines begin.
fn positions(starts: &[u32], size: u32) -> Vec<u64> {
    let begun = |position: u32| starts.iter().filter(|start| **start <= position).count() as u64;
    let mut table = vec![0; DIRECT_WORDS];
    for position in 0..DIRECT {
        table[(position / 9) as usize] |= begun(position) << (position % 9 * 7);
    }
    for block in 0..size.saturating_sub(DIRECT).div_ceil(BLOCK) {
        let first = DIRECT + block * BLOCK;
        let before = begun(first - 1);
        let ranks = (1..8).map(|word| (begun(first + 64 * word - 1) - before) << ((word - 1) * 9));
        table.extend([before, ranks.sum()]);
        table.extend((0..8).map(|word| {
            let bit = |bit: u32| u64::from(starts.contains(&(first + 64 * word + bit))) << bit;
            (0..64).map(bit).sum::<u64>()
        }));
    }
    table
}

#[test]
fn lines_are_those_that_begin_last() {
    for (size, step) in [(10, 3), (54, 4), (55, 4), (600, 5), (1100, 9), (3000, 23)] {
        let starts: Vec<u32> = (0..size).step_by(step).collect();
        let numbers: Vec<u32> = (0..starts.len() as u32).map(|index| 100 + 2 * index).collect();
        let lines = Lines { positions: positions(&starts, size), lines: numbers.clone() };
        for position in 0..size {
            let begun = starts.iter().filter(|start| **start <= position).count();
            assert_eq!(lines.line(position + 1), numbers[begun - 1], "{position} of {size}");
        }
        // Behind the last, and before the first.
        lines.line(u32::MAX);
        assert_eq!(lines.line(0), 0);
    }
    let one = Lines { positions: Vec::new(), lines: vec![7] };
    assert_eq!(one.line(30), 7);
    assert_eq!(Lines { positions: vec![u64::MAX; 3], lines: vec![7] }.line(40), 0);
}

/// Code as compilers make it of `get_id_serial_entry`, at address 0.
#[test]
fn the_table_of_symbols_is_behind_the_last_number() {
    let check = |code: &[u8], expected| {
        assert_eq!(SymbolCode::default().table(0, code, false), expected);
    };
    // 3.1: cmp rdi, [rip + 0x1000]; mov rax, [rip + …], 16 bytes behind.
    let of_3_1 = [0x48, 0x3b, 0x3d, 0, 0x10, 0, 0, 0x48, 0x8b, 0x05, 9, 0x10, 0, 0];
    check(&of_3_1, Some(0x1017));
    // 4.0: another variable is compared with 0 before; mov eax, [rip + …]; cmp ebx, eax; mov rdi, [rip + …].
    let of_4_0 = [
        &[0x48, 0x83, 0x3d, 0xfe, 0x5d, 0x4b, 0, 0, 0x8b, 0x05, 0xaa, 0xfc, 0x4a, 0, 0x39, 0xc3][..],
        &[0x48, 0x8b, 0x3d, 0xb1, 0xfc, 0x4a, 0],
    ];
    check(&of_4_0.concat(), Some(0x4a_fcc8));
    // Another variable.
    check(&[0x48, 0x3b, 0x3d, 0, 0x10, 0, 0, 0x48, 0x8b, 0x05, 1, 0x10, 0, 0], None);
}
