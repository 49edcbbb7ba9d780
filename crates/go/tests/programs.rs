//! The tables of real programs of Go, whole and damaged.

use std::path::PathBuf;
use std::process::Command;

use object::{Object, ObjectSymbol};
use pyrograph_go::{Function, InlineTrees, Layout, Table};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const SOURCE: &str = "\
package main

//go:noinline
func other() {
	println(1)
}

var total int

func small(by int) { if by > 3 { total += by * by } }

//go:noinline
func around(by int) {
	small(by)
}

func main() {
	other()
	around(total)
}
";

/// A stripped program, by `go` and by what the variable `GO` names, which may be of another version; none if Go is
/// not installed.
fn programs(name: &str) -> Vec<Vec<u8>> {
    let named = std::env::var_os("GO").map(PathBuf::from);
    let compilers = [PathBuf::from("go")].into_iter().chain(named);
    let files: Vec<_> = compilers.enumerate().filter_map(|of| program(name, of)).collect();
    if files.is_empty() {
        eprintln!("skipped: {name} needs golang-go");
    }
    files
}

fn program(name: &str, (number, go): (usize, PathBuf)) -> Option<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("go-{name}-{number}"));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (source, out) = (folder.join("main.go"), folder.join("main"));
    std::fs::write(&source, SOURCE).expect("a file");
    let mut build = Command::new(go);
    build.envs([("GO111MODULE", "off"), ("GOTOOLCHAIN", "local")]);
    build.args(["build", "-ldflags=-s -w", "-o"]).args([&out, &source]);
    assert!(build.status().ok()?.success());
    Some(std::fs::read(out).expect("it was built"))
}

/// With C in it, the system's linker makes the program: it puts other code first, and the table among other data.
#[test]
fn functions_are_where_the_symbols_say_in_programs_with_c() {
    let named = std::env::var_os("GO").map(PathBuf::from);
    let compilers = [PathBuf::from("go")].into_iter().chain(named);
    let mut any = false;
    for (number, go) in compilers.enumerate() {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("go-with-c-{number}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        let source = SOURCE.replace("package main", "package main\nimport \"C\"");
        std::fs::write(folder.join("main.go"), source).expect("a file");
        for mode in ["exe", "pie"] {
            let mut build = Command::new(&go);
            build.envs([("GO111MODULE", "off"), ("GOTOOLCHAIN", "local"), ("CGO_ENABLED", "1")]);
            build.current_dir(&folder);
            // Some compilers link what has no code of C themselves.
            let flags = ["-ldflags=-linkmode=external", "-o", mode];
            let Ok(built) = build.args(["build", "-buildmode", mode]).args(flags).status() else {
                continue;
            };
            assert!(built.success());
            let file = std::fs::read(folder.join(mode)).expect("it was built");
            check_places(&file);
            any = true;
        }
    }
    if !any {
        eprintln!(
            "skipped: functions_are_where_the_symbols_say_in_programs_with_c needs golang-go"
        );
    }
}

fn check_places(file: &[u8]) {
    let elf = elf(file).expect("an ELF file");
    let layout = Layout::find(&elf).expect("a program of Go");
    let table = layout.table(file);
    let mut compared = 0;
    for symbol in elf.symbols() {
        let Ok(name) = symbol.name_bytes() else { continue };
        if !name.starts_with(b"runtime.") || symbol.kind() != object::SymbolKind::Text {
            continue;
        }
        let Some(function) = table.lookup(symbol.address()) else { continue };
        let found = function.name().expect("a name");
        // Entries of other calling conventions have names of their own in the symbol table.
        if name == found || name.strip_suffix(b".abi0") == Some(found) {
            assert_eq!(function.start, symbol.address());
            compared += 1;
        }
    }
    assert!(compared > 500, "{compared} functions");
}

fn elf(file: &[u8]) -> Option<object::File<'_>> {
    object::File::parse(file).ok()
}

#[test]
fn functions_have_names_and_places() {
    programs("names").iter().for_each(|file| check_names(file));
}

fn named<'a>(table: &Table<'a>, name: &[u8]) -> Function<'a> {
    table.functions().find(|function| function.name() == Some(name)).expect("a function")
}

fn check_names(file: &[u8]) {
    let layout = Layout::find(&elf(file).expect("an ELF file")).expect("a program of Go");
    let table = layout.table(file);
    assert!(table.functions().count() > 500);
    let other = named(&table, b"main.other");
    let place = other.place(other.start + 10).expect("a place");
    assert!(place.file.ends_with(b"/main.go"), "{place:?}");
    assert!((4..=6).contains(&place.line), "{place:?}");
    for function in [other, named(&table, b"runtime.goexit"), named(&table, b"runtime.mallocgc")] {
        for address in [function.start, function.end - 1] {
            let found = table.lookup(address).expect("a function");
            assert_eq!((found.start, found.name()), (function.start, function.name()));
        }
        let ends: Vec<_> = function.frame_sizes().collect();
        assert_eq!(
            ends.first().map(|(range, size)| (range.start, *size)),
            Some((function.start, 0))
        );
        assert!(ends.windows(2).all(|pair| pair[0].0.end == pair[1].0.start));
    }
    assert!(table.lookup(0).is_none() && table.lookup(u64::MAX).is_none());
    // Go's table has it since 1.20.
    assert!(matches!(other.start_line(), None | Some(4)), "{:?}", other.start_line());
}

#[test]
fn code_of_inlined_calls_is_told_apart() {
    programs("inlined").iter().for_each(|file| check_inlined(file));
}

fn check_inlined(file: &[u8]) {
    let layout = Layout::find(&elf(file).expect("an ELF file")).expect("a program of Go");
    let table = layout.table(file);
    let around = named(&table, b"main.around");
    let inlined = |at: &u64| around.is_inlined(*at);
    let (inside, own): (Vec<u64>, Vec<u64>) = (around.start..around.end).partition(inlined);
    let lines = |addresses: &[u64]| {
        let lines = addresses.iter().filter_map(|&at| around.place(at)).map(|place| place.line);
        lines.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(lines(&inside).into_iter().collect::<Vec<_>>(), [10]);
    assert!(lines(&own).iter().all(|line| (13..=15).contains(line)), "{:?}", lines(&own));
    let other = named(&table, b"main.other");
    assert!(!(other.start..other.end).any(|at| other.is_inlined(at)));
}

#[test]
fn damaged_tables_have_other_contents_and_no_more() {
    programs("damage").iter().for_each(|file| check_damage(file));
}

fn check_damage(file: &[u8]) {
    let layout = Layout::find(&elf(file).expect("an ELF file")).expect("a program of Go");
    let place = layout.range();
    let mut random = StdRng::seed_from_u64(7);
    for round in 0..60 {
        let mut damaged = file.to_vec();
        // The header, the index, or anywhere.
        let reach = [72, 1 << 14, place.len()][round % 3].min(place.len());
        for _ in 0..1 + random.random_range(0..40) {
            damaged[place.start + random.random_range(0..reach)] = random.random::<u8>();
        }
        let Some(elf) = elf(&damaged) else { continue };
        let Some(layout) = Layout::find(&elf) else { continue };
        let table = layout.table(&damaged);
        let trees = InlineTrees::find(&elf, table);
        for function in table.functions().take(2000) {
            let _ = function.name();
            let _ = function.place(function.start.wrapping_add(3));
            let _ = function.is_inlined(function.start.wrapping_add(3));
            let _ = function.start_line();
            let calls = trees.map(|trees| function.calls(&trees, function.start.wrapping_add(9)));
            assert!(calls.flatten().is_none_or(|calls| !calls.is_empty()));
            assert!(function.frame_sizes().take(1000).all(|(range, _)| range.start <= range.end));
            let _ = table.lookup(function.start);
        }
    }
}
