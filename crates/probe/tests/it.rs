//! Functions, lines and variables of programs that are compiled here, by what their sources say and by binutils.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSection, ObjectSymbol};
use pyrograph_probe::{Function, Gone, Location, Program, View};
use pyrograph_symbol::{Locator, Module, Source};

/// Compiles a source; the compiler with its flags.
fn compile(folder: &Path, compiler: &[&str], name: &str, source: &str) -> PathBuf {
    let (path, program) = (folder.join(name), folder.join("program"));
    std::fs::write(&path, source).expect("a file");
    let status = Command::new(compiler[0])
        .args(&compiler[1..])
        .arg("-o")
        .args([&program, &path])
        .status()
        .expect("the compiler runs");
    assert!(status.success());
    program
}

fn locator() -> Locator {
    Locator { debug_dirs: Vec::new(), symfs: None, build_id_cache: None, debuginfod: None }
}

fn functions(view: &View<'_>, name: &str) -> Vec<Function> {
    view.functions(|of| of == name)
}

fn signatures(view: &View<'_>, name: &str) -> Vec<String> {
    functions(view, name).into_iter().map(|function| function.signature).collect()
}

/// The variables at a line, as `type name`, and whether they can be read.
fn variables(view: &View<'_>, function: &Function, line: u32) -> Vec<(String, bool)> {
    let lines = view.lines(function);
    let address = *lines[&line].first().expect("an address");
    let body = function.bodies.iter().rfind(|body| body.contains(address)).expect("code");
    let all = view.variables(body, address).into_iter();
    all.map(|of| (format!("{} {}", of.kind, of.name), of.location.is_ok())).collect()
}

const CPP: &str = r#"
#include <string>
namespace shop {
struct Item { int price; const char *name; };
int price(const Item &item) { return item.price; }
int price(Item *items, unsigned count) {
    int sum = 0;
    for (unsigned i = 0; i < count; i++) sum += price(items[i]);
    return sum;
}
struct Order {
    Item items[3];
    virtual int total(double rate) const;
    int first() { return items[0].price; }
};
int Order::total(double rate) const {
    int sum = price(const_cast<Item *>(items), 3);
    return static_cast<int>(sum * rate);
}
template <typename T> T twice(T value) { return value + value; }
}
static int hidden(int (*callback)(int, char **), volatile long *where) {
    return *where > 0 && callback ? 1 : 0;
}
int main(int argc, char **argv) {
    shop::Order order{};
    order.items[0].price = argc;
    std::string text = argc > 1 ? argv[1] : "none";
    long place = argc;
    return order.total(1.5) + order.first() + shop::twice(argc) + hidden(nullptr, &place) + (int)text.size();
}
"#;

#[test]
fn cpp_functions_have_the_names_of_the_source() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = compile(folder.path(), &["g++", "-g", "-O0"], "shop.cpp", CPP);
    let program = Program::open(&path, &locator()).expect("it has debug information");
    let view = program.read().expect("units");
    let expect =
        ["int shop::price(Item *items, unsigned int count)", "int shop::price(const Item &item)"];
    for name in ["price", "shop::price"] {
        let mut found = signatures(&view, name);
        found.sort();
        assert_eq!(found, expect, "{name}");
    }
    assert_eq!(signatures(&view, "_ZN4shop5priceERKNS_4ItemE"), [expect[1]]);
    assert_eq!(signatures(&view, "total"), ["int shop::Order::total(double rate)"]);
    assert_eq!(signatures(&view, "shop::Order::first"), ["int shop::Order::first()"]);
    assert_eq!(
        signatures(&view, "hidden"),
        ["int hidden(int (int, char **) *callback, volatile long int *where)"]
    );
    assert!(signatures(&view, "shop::prices").is_empty());
    let total = &functions(&view, "total")[0];
    assert_eq!(total.linkage_name.as_deref(), Some("_ZNK4shop5Order5totalEd"));
    assert!(total.file.as_deref().is_some_and(|file| file.ends_with("/shop.cpp")));
    assert_eq!((total.line, total.bodies.len()), (16, 1));
    let lines: Vec<u32> = view.lines(total).into_keys().collect();
    assert_eq!(lines, [16, 17, 18, 19]);
    let expect = [("const Order *const this", true), ("double rate", true), ("int sum", true)];
    assert_eq!(variables(&view, total, 18), expect.map(|(of, is)| (of.to_owned(), is)));
    // The function of every symbol is found by its name, at its address. Of constructors, a symbol may be an alias.
    let mut symbols: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for symbol in program.image().functions() {
        let name = symbol.name().unwrap_or_default();
        if name.contains("4shop") || name == "main" {
            symbols.entry(symbol.address()).or_default().push(name);
        }
    }
    assert!(symbols.len() > 5, "{symbols:?}");
    for (address, names) in symbols {
        let found: Vec<Function> = names.iter().flat_map(|name| functions(&view, name)).collect();
        let entries: Vec<u64> = found.iter().map(|of| of.bodies[0].entry).collect();
        assert_eq!(entries, [address], "{names:?}");
    }
}

const RUST: &str = r#"
mod shop {
    pub struct Item { pub price: u32 }
    #[inline(never)]
    pub fn total(items: &[Item], rate: f64) -> u32 {
        let sum: u32 = items.iter().map(|item| item.price).sum();
        (f64::from(sum) * rate) as u32
    }
    #[inline(always)]
    pub fn twice(value: u32) -> u32 {
        value.wrapping_mul(2)
    }
}
fn main() {
    let count = std::env::args().count() as u32;
    let items: Vec<_> = (0..count + 3).map(|price| shop::Item { price }).collect();
    println!("{}", shop::total(&items, 1.5) + shop::twice(count));
}
"#;

#[test]
fn rust_functions_have_the_names_of_the_source() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["rustc", "--edition=2021", "-g", "-Copt-level=0"];
    let path = compile(folder.path(), &flags, "goods.rs", RUST);
    let program = Program::open(&path, &locator()).expect("it has debug information");
    let view = program.read().expect("units");
    let total = &functions(&view, "goods::shop::total")[0];
    assert_eq!(total.signature, "u32 goods::shop::total(&[goods::shop::Item] items, f64 rate)");
    assert_eq!(total.line, 5);
    let at = variables(&view, total, 7);
    assert!(at.contains(&("u32 sum".to_owned(), true)), "{at:?}");
    assert!(at.contains(&("f64 rate".to_owned(), true)), "{at:?}");
    let twice = &functions(&view, "twice")[0];
    assert!(twice.bodies.iter().any(|body| body.inlined_into.as_deref() == Some("goods::main")));
    assert!(view.lines(twice).contains_key(&11), "{twice:?}");
}

/// With optimization, variables are in registers, known, gone, or elsewhere.
#[test]
fn optimized_variables_are_where_the_compiler_says() {
    const C: &str = "
#include <stdlib.h>
__attribute__((noinline)) int keep(int value) { volatile int kept = value; return kept; }
__attribute__((noinline)) int work(int *list, int length) {
    const int limit = 7;
    int unused = length * 3;
    int sum = 0;
    for (int i = 0; i < length; i++)
        sum += keep(list[i] + limit);
    return sum;
}
int main(int argc, char **argv) {
    int list[3] = { argc, 2, 3 };
    return work(list, argv[0] ? 3 : 2);
}
";
    let folder = tempfile::tempdir().expect("a folder");
    let path = compile(folder.path(), &["gcc", "-g", "-O2"], "work.c", C);
    let program = Program::open(&path, &locator()).expect("it has debug information");
    let view = program.read().expect("units");
    let work = &functions(&view, "work")[0];
    let first = work.bodies[0].entry;
    let all = view.variables(&work.bodies[0], first);
    let of = |name: &str| all.iter().find(|of| of.name == name).map(|of| of.location.clone());
    // The first two arguments are in rdi and rsi (5 and 4 in DWARF).
    assert_eq!(of("list"), Some(Ok(Location::Register(5))));
    assert_eq!(of("length"), Some(Ok(Location::Register(4))));
    assert_eq!(of("limit").map(|at| at.map(|at| at.text())), Some(Ok("constant 7".to_owned())));
    assert!(of("nothing").is_none());
    let gone = all.iter().filter_map(|of| of.location.clone().err());
    assert!(gone.clone().all(|gone| gone != Gone::NotFollowed("damaged debug information")));
}

#[test]
fn without_debug_information_the_error_says_what_is_needed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = compile(folder.path(), &["gcc", "-g0"], "empty.c", "int main(void) { return 0; }");
    let error = Program::open(&path, &locator()).expect_err("there is none").to_string();
    assert!(error.contains("has no debug information") && error.contains("-g"), "{error}");
    let error = Program::open(folder.path(), &locator()).expect_err("a folder").to_string();
    assert!(!error.is_empty());
    let text = folder.path().join("text");
    std::fs::write(&text, "no program").expect("a file");
    let error = Program::open(&text, &locator()).expect_err("no ELF file").to_string();
    assert!(error.contains("not an ELF file"), "{error}");
}

/// Any debug information is read to an end, without a panic.
#[test]
fn damaged_debug_information_is_read_to_an_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = compile(folder.path(), &["g++", "-g", "-O1"], "shop.cpp", CPP);
    let bytes = std::fs::read(path).expect("a program");
    let sections = {
        let elf = object::File::parse(bytes.as_slice()).expect("ELF");
        let is_read = |section: &object::Section<'_, '_>| {
            section.name().is_ok_and(|name| name.starts_with(".debug_") || name == ".eh_frame")
        };
        let places = elf.sections().filter(is_read).filter_map(|section| section.file_range());
        places.map(|(start, len)| start as usize..(start + len) as usize).collect::<Vec<_>>()
    };
    // A multiplier and an increment of full period (Knuth).
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    for round in 0..120 {
        let mut damaged = bytes.clone();
        for _ in 0..1 + round % 40 {
            let section = sections[random(sections.len())].clone();
            let at = section.start + random(section.len());
            damaged[at] = match random(4) {
                0 => 0xff,
                1 => damaged[at].wrapping_add(1),
                _ => random(256) as u8,
            };
        }
        let Ok(module) = Module::from_bytes(damaged, Source::default()) else { continue };
        let Ok(program) = Program::new(&module, &locator()) else { continue };
        let Ok(view) = program.read() else { continue };
        for function in view.functions(|name| name.contains("shop") || name == "main") {
            for &address in view.lines(&function).values().flatten().take(4) {
                let Some(body) = function.bodies.iter().rfind(|body| body.contains(address)) else {
                    continue;
                };
                for variable in view.variables(body, address) {
                    let _ = variable.location.map(|location| location.text());
                    for steps in ["", "->price", "[1].name", "->items[2]"] {
                        let expression = format!("{}{steps}", variable.name);
                        let value =
                            view.value(&function, body, Some(address), &expression, round % 2 == 0);
                        let _ = value.map(|value| value.shape.text(u64::MAX));
                    }
                }
                view.after_entry(&function, body);
            }
        }
    }
}
