use super::*;
use crate::memory::Chunks;

const SHARED_TYPE: u32 = 262;
const SCOPE_TYPE: u32 = 261;
const SCRIPT_TYPE: u32 = 167;
const ODDBALL_TYPE: u32 = 131;
const ONE_BYTE: u32 = 0x28;
const TWO_BYTE: u32 = 0x20;
const CONS: u32 = 0x29;
const SLICED: u32 = 0x2b;
const THIN: u32 = 0x2d;

/// As of Node 20.
fn interpreter() -> Interpreter {
    let mut offsets = [Interpreter::NO_OFFSET; Interpreter::OFFSETS];
    let fields = [
        (at::SHARED, 24),
        (at::CODE, 8),
        (at::NAME, 16),
        (at::SCRIPT, 32),
        (at::LENGTH, 40),
        (at::PARAMETERS, 42),
        (at::TOKEN, 44),
        (at::TYPE, 12),
        (at::SHARED_TYPE, SHARED_TYPE),
        (at::SHARED_BYTES, 56),
        (at::SCOPE_TYPE, SCOPE_TYPE),
        (at::SCRIPT_TYPE, SCRIPT_TYPE),
        (at::ODDBALL_TYPE, ODDBALL_TYPE),
        (at::FIRST_NO_STRING, 128),
        (at::SCOPE_VARIABLES, 24),
        (at::SCOPE_FIRST, 32),
        (at::STRING_LENGTH, 12),
        (at::CHARACTERS, 16),
        (at::CONS_FIRST, 16),
        (at::CONS_SECOND, 24),
        (at::SLICE_PARENT, 16),
        (at::SLICE_OFFSET, 24),
        (at::THIN_ACTUAL, 16),
        (at::SCRIPT_NAME, 16),
        (at::SCRIPT_SOURCE, 8),
    ];
    for (field, offset) in fields {
        offsets[field] = offset;
    }
    Interpreter {
        language: Language::JavaScript,
        to_address: 0,
        symbols: [0; 4],
        place: ThreadPlace::Global(0),
        plan: plan(&offsets),
        offsets,
        tag: 3,
    }
}

fn name_by(it: Interpreter, image: &Image, function: u64) -> Option<Name> {
    let scripts = Scripts::default();
    let memory = Chunks { chunks: &image.0, rest: () };
    Heap::new(&it, &memory, &scripts).name(function)
}

/// A word of an object.
#[derive(Clone, Copy)]
enum Word {
    /// A number.
    N(i32),
    /// Another object.
    O(u64),
}

use Word::{N, O};

/// A heap that is put together, as pieces of memory.
#[derive(Default)]
struct Image(Vec<(u64, Vec<u8>)>);

impl Image {
    /// Adds bytes, and returns their address.
    fn add(&mut self, bytes: Vec<u8>) -> u64 {
        let address = 0x10000 + 0x1000 * self.0.len() as u64;
        self.0.push((address, bytes));
        address
    }

    fn head(&mut self, of: u32) -> Vec<u8> {
        let mut map = vec![0; 16];
        map[12..14].copy_from_slice(&(of as u16).to_le_bytes());
        (self.add(map) + 1).to_le_bytes().to_vec()
    }

    fn object(&mut self, of: u32, words: &[Word]) -> u64 {
        let mut bytes = self.head(of);
        for word in words {
            let word = match *word {
                N(number) => (number as u64) << 32,
                O(object) => object + 1,
            };
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend([0; 16]);
        self.add(bytes)
    }

    fn text(&mut self, text: &str) -> u64 {
        let mut bytes = self.head(if text.is_ascii() { ONE_BYTE } else { TWO_BYTE });
        let units: Vec<u16> = text.encode_utf16().collect();
        bytes.extend([0; 4]);
        bytes.extend((units.len() as u32).to_le_bytes());
        match text.is_ascii() {
            true => bytes.extend(text.bytes()),
            false => bytes.extend(units.iter().flat_map(|unit| unit.to_le_bytes())),
        }
        self.add(bytes)
    }

    /// A string made of others: its length, and the words behind.
    fn made(&mut self, of: u32, len: u32, words: &[Word]) -> u64 {
        let object = self.object(of, &[&[N(0)], words].concat());
        let bytes = &mut self.0.last_mut().expect("it was added").1;
        bytes[12..16].copy_from_slice(&len.to_le_bytes());
        object
    }

    fn script(&mut self, name: &str, source: &str) -> u64 {
        let (name, source) = (self.text(name), self.text(source));
        self.object(SCRIPT_TYPE, &[O(source), O(name)])
    }

    fn function(&mut self, name: Word, script: Word) -> u64 {
        self.object(SHARED_TYPE, &[N(0), name, N(0), script, N(0), N(0)])
    }

    /// The name of the last function that was added.
    fn name(&self, function: u64) -> Option<Name> {
        name_by(interpreter(), self, function)
    }
}

fn expect(function: &str, file: &str, start_line: u32) -> Option<Name> {
    let file = (!file.is_empty()).then(|| file.to_owned());
    Some(Name { function: function.to_owned(), file, start_line })
}

const SOURCE: &str = "first;\nsecond;\r\nthird;\rfourth;";

/// A scope with variables, and these words behind them.
fn scope(image: &mut Image, variables: i32, words: &[Word]) -> u64 {
    let variable = image.text("v");
    let head = [N(0), N(0), N(variables)];
    let of = (0..variables).map(|_| O(variable));
    let infos = (0..variables).map(|_| N(0));
    let words: Vec<Word> =
        head.into_iter().chain(of).chain(infos).chain(words.iter().copied()).collect();
    image.object(SCOPE_TYPE, &words)
}

#[test]
fn names_and_positions_are_behind_the_variables_of_a_scope() {
    for variables in [0, 1, 7, 8, 40, 74] {
        let mut image = Image::default();
        let script = image.script("/srv/app.js", SOURCE);
        let (own, none) = (image.text("own"), image.text(""));
        let undefined = image.object(ODDBALL_TYPE, &[]);
        let outer = scope(&mut image, 0, &[]);
        let inferred = image.text("a.b");
        let mut check = |words: &[Word], function: &str, line: u32| {
            let scope = scope(&mut image, variables, words);
            let shared = image.function(O(scope), O(script));
            let expected = expect(function, "/srv/app.js", line);
            assert_eq!(image.name(shared), expected, "{variables} variables");
        };
        check(&[O(own), N(-1), N(8), N(20), O(outer), N(1), N(2)], "own", 2);
        // The number of a class's variable comes before.
        check(&[N(5), O(own), N(-1), N(17), N(20), O(outer)], "own", 3);
        check(&[O(none), N(-1), O(inferred), N(3), N(20), O(outer)], "a.b", 1);
        check(&[N(0), N(-1), O(undefined), N(25), N(30), O(outer)], "(anonymous)", 4);
        // Not in the script, or in no order.
        check(&[O(own), N(-1), N(25), N(3), O(outer)], "own", 0);
        check(&[O(own), N(-1), N(2500), N(3000), O(outer)], "own", 0);
    }
}

#[test]
fn many_variables_are_in_a_table() {
    let mut image = Image::default();
    let script = image.script("/srv/app.js", SOURCE);
    let (own, table) = (image.text("own"), image.object(500, &[]));
    let outer = scope(&mut image, 0, &[]);
    let mut words = vec![N(0), N(0), N(100), O(table)];
    words.extend((0..100).map(|_| N(0)));
    words.extend([O(own), N(-1), N(8), N(20), O(outer)]);
    let scope = image.object(SCOPE_TYPE, &words);
    let shared = image.function(O(scope), O(script));
    assert_eq!(image.name(shared), expect("own", "/srv/app.js", 2));
}

#[test]
fn positions_may_be_before_the_variables() {
    let mut image = Image::default();
    let script = image.script("file:///srv/app.mjs", SOURCE);
    let own = image.text("own");
    let words = [N(0), N(0), N(0), N(8), N(20), O(own), N(-1), N(1)];
    let scope = image.object(SCOPE_TYPE, &words);
    let shared = image.function(O(scope), O(script));
    let mut it = interpreter();
    it.offsets[at::SCOPE_FIRST] = 48;
    let found = name_by(it, &image, shared);
    assert_eq!(found, expect("own", "/srv/app.mjs", 2));
}

#[test]
fn strings_of_all_kinds_are_read() {
    let mut image = Image::default();
    let ascii = image.text("abcdef");
    let wide = image.text("日本語 function");
    let empty = image.text("");
    let cons = image.made(CONS, 18, &[O(ascii), O(wide)]);
    let slice = image.made(SLICED, 3, &[O(ascii), N(2)]);
    let wide_slice = image.made(SLICED & !8, 2, &[O(wide), N(1)]);
    let flat = image.made(CONS, 6, &[O(ascii), O(empty)]);
    let thin = image.made(THIN, 6, &[O(flat)]);
    let external = image.made(0x2a, 6, &[N(0), N(0)]);
    let mut check = |string: u64, expected: Option<&str>| {
        let shared = image.function(O(string), N(0));
        assert_eq!(image.name(shared).map(|name| name.function).as_deref(), expected);
    };
    check(ascii, Some("abcdef"));
    check(wide, Some("日本語 function"));
    check(cons, Some("abcdef日本語 function"));
    check(slice, Some("cde"));
    check(wide_slice, Some("本語"));
    check(thin, Some("abcdef"));
    check(empty, Some("(anonymous)"));
    // Its characters are not in the heap.
    check(external, None);
}

/// As a process that is gone leaves it: some pieces are missing, cut or something else by now.
#[test]
fn damaged_memory_gives_fewer_names_and_no_panic() {
    let mut image = Image::default();
    let script = image.script("/srv/app.js", &SOURCE.repeat(20));
    let own = image.text("own");
    let scope = scope(&mut image, 3, &[O(own), N(-1), N(8), N(20)]);
    let shared = image.function(O(scope), O(script));
    let whole = image.name(shared).expect("a name");
    assert_eq!(whole.function, "own");
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    let mut named = 0;
    for _ in 0..20_000 {
        let mut damaged = Image(image.0.clone());
        for _ in 0..=random(3) {
            let number = random(damaged.0.len());
            let bytes = &mut damaged.0[number].1;
            match random(4) {
                0 => bytes.clear(),
                1 => bytes.truncate(random(bytes.len().max(1))),
                _ if bytes.is_empty() => {}
                2 => bytes.fill(random(256) as u8),
                _ => {
                    let at = random(bytes.len());
                    bytes[at] = random(256) as u8;
                }
            }
        }
        named += usize::from(damaged.name(shared).is_some_and(|name| name.function == "own"));
    }
    assert!(named > 2_000, "{named} of 20,000: much of it is not damaged where it counts");
    // A string that is made of itself.
    let mut image = Image::default();
    let string = image.made(CONS, 6, &[O(0x11000), O(0x11000)]);
    assert_eq!(string, 0x11000);
    let shared = image.function(O(string), N(0));
    let name = image.name(shared).map(|name| name.function);
    assert!(name.is_none_or(|name| name == "(anonymous)"));
}

#[test]
fn versions_are_those_of_releases() {
    let constants =
        b"x\0https://nodejs.org/download/release/v20.20.2/node-v20.20.2-headers.tar.gz\0";
    assert_eq!(version(constants).as_deref(), Some("20.20.2"));
    assert_eq!(version(b"/node-v20.20.2.tar.gz").as_deref(), Some("20.20.2"));
    assert_eq!(version(b"/node-v20 and"), None);
    assert_eq!(version(b"/node-v"), None);
}
