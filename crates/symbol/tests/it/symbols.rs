//! Symbol tables: which symbol an address belongs to, and when to none.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::common::{Program, build, lines, open, options};
use pyrograph_symbol::{BuildId, Error, Module, Options, Source};

fn c(flags: &[&str]) -> Program {
    build("gcc", "calls.c", flags)
}

fn functions_only() -> Options {
    Options { inlines: false, lines: false, ..options() }
}

#[test]
fn functions_labels_and_aliases() {
    let program = c(&["-O2"]);
    let check = |symbol: &str, expect: &str| {
        assert_eq!(program.frames(symbol, &options()), expect, "{symbol}");
    };
    check("main", "main\n");
    check("_start", "_start\n");
    check("mark_main", "main\n");
    check("mark_hidden", "hidden\n");
    check("bare_label", "bare_label\n");
    check("sized", "sized\n");
    check("mark_alias", "alias_target\n");
    let start = program.symbolize("mark_main", &options()).addresses[0].start;
    assert_eq!(start, Some(program.address("main")));
}

/// One name stood for them all, without a word.
#[test]
fn functions_with_the_same_code_say_so() {
    let program = build("g++", "same.cc", &["-O2", "-g"]);
    for options in [options(), functions_only()] {
        let check = |symbol: &str, name: &str, full: Option<&str>| {
            let frame = &program.symbolize(symbol, &options).addresses[0].frames[0];
            assert_eq!((&*frame.function, frame.full.as_deref()), (name, full), "{symbol}");
        };
        check("mark_alpha", "beta", Some("beta [same code as alpha]"));
        let price = "price(int) [same code as cost_of_it(double), shop::count_of_all(long), shop::sum_of_all(long), 1 more]";
        check("mark_price", "price", Some(price));
        check("mark_one", "one", None);
        check("main", "main", None);
    }
}

#[test]
fn past_the_end_of_a_function_is_nothing() {
    let program = c(&["-O2"]);
    let module = open(&program.path);
    let sized = program.address("sized");
    let at = |address| lines(&module.symbolize(&[address], &options()));
    assert_eq!(at(sized + 1), "sized\n");
    assert_eq!(at(sized + 2), "", "the padding after it");
    assert_eq!(at(program.address("bare_label") + 1), "bare_label\n");
    assert_eq!(at(0), "");
    assert_eq!(at(u64::MAX), "");
}

/// A label of assembly took all functions behind it that had no symbol: 45 % of a program's time.
#[test]
fn a_label_ends_where_an_unwind_table_begins_or_ends_a_function() {
    let program = build("gcc", "labels.c", &["-O2", "-nostartfiles", "-nostdlib"]);
    let places = ["bare", "covered", "behind_covered"].map(|name| program.address(name));
    let hidden = program.address("hidden_function");
    program.objcopy(&["--strip-symbol=hidden_function", "--strip-symbol=behind_covered"]);
    let module = open(&program.path);
    let at = |address| lines(&module.symbolize(&[address], &functions_only()));
    let [bare, covered, behind_covered] = places;
    assert_eq!(at(bare + 1), "bare\n", "no table knows it, and it goes on up to the next function");
    assert_eq!(at(hidden), "", "a function of its own");
    assert_eq!(at(hidden + 2), "");
    assert_eq!(at(covered + 1), "covered\n");
    assert_eq!(at(behind_covered), "", "behind the end of the label's function");
}

#[test]
fn with_dynamic_symbols_only() {
    let program = c(&["-O2", "-rdynamic"]);
    program.objcopy(&["--strip-all"]);
    assert_eq!(program.frames("mark_leaf", &options()), "outer\n");
    assert_eq!(program.frames("mark_main", &options()), "main\n");
    assert_eq!(program.frames("mark_hidden", &options()), "", "a static function is not in it");
}

#[test]
fn symbol_versions_are_left_out() {
    let path = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc = path.lines().find(|line| line.contains("/libc.so.6")).unwrap();
    let libc = open(std::path::Path::new(&libc[libc.find('/').unwrap()..]));
    let nm = std::process::Command::new("nm").arg("-D").arg(libc.path()).output().unwrap();
    let nm = String::from_utf8(nm.stdout).unwrap();
    let qsort = nm.lines().find(|line| line.contains(" T qsort@@")).unwrap();
    let address = u64::from_str_radix(qsort.split_once(' ').unwrap().0, 16).unwrap();
    assert_eq!(lines(&libc.symbolize(&[address], &functions_only())), "qsort\n");
}

#[test]
fn order_and_repetition_do_not_matter() {
    let program = c(&["-O2", "-g"]);
    let module = open(&program.path);
    let (main, leaf) = (program.address("mark_main"), program.address("mark_leaf"));
    let mixed = module.symbolize(&[main, leaf, 1, main, leaf], &options());
    let sorted = module.symbolize(&[1, leaf.min(main), leaf.max(main)], &options());
    assert_eq!(mixed.addresses.len(), 5);
    assert_eq!(mixed.addresses[0], mixed.addresses[3]);
    assert_eq!(mixed.addresses[1], mixed.addresses[4]);
    let of = |address: u64| {
        let position = [1, leaf.min(main), leaf.max(main)].iter().position(|&a| a == address);
        &sorted.addresses[position.unwrap()]
    };
    assert_eq!(&mixed.addresses[1], of(leaf));
    assert_eq!(&mixed.addresses[0], of(main));
    assert!(module.symbolize(&[], &options()).addresses.is_empty());
}

/// Every instruction of each stub must have the name, and the stub as its extent; the truth is objdump's.
#[track_caller]
fn check_plt(flags: &[&str], expect: &[&str]) {
    let program = c(flags);
    let objdump = std::process::Command::new("objdump").arg("-d").arg(&program.path).output();
    let objdump = String::from_utf8(objdump.unwrap().stdout).unwrap();
    // Each begins with a line `0000000000001030 <puts@plt>:`; its instructions are `  1036:\t68 00 00 00 00 \tpush $0x0`.
    let stubs: Vec<(u64, &str, u64)> = objdump
        .split("\n\n")
        .filter_map(|stub| {
            let (name, instructions) = stub.trim_start().split_once("@plt>:\n")?;
            let (address, name) = name.split_once(" <")?;
            let bytes = instructions.lines().filter_map(|line| line.split('\t').nth(1));
            let size: usize = bytes.map(|bytes| bytes.split_whitespace().count()).sum();
            Some((u64::from_str_radix(address, 16).unwrap(), name, size as u64))
        })
        .collect();
    for name in expect {
        assert!(stubs.iter().any(|(_, stub, _)| stub == name), "{name} in {stubs:?}");
    }
    let module = open(&program.path);
    for (address, name, size) in stubs {
        let expect = format!("{name}@plt\n");
        for at in [address, address + 4, address + 7] {
            let found = module.symbolize(&[at], &options());
            assert_eq!(lines(&found), expect, "{at:#x} with {flags:?}");
            let extent = module.extent(at, &options().locator).expect("its stub");
            assert_eq!(extent, address..address + size, "{at:#x} with {flags:?}");
        }
    }
}

#[test]
fn stubs_of_lazy_calls() {
    check_plt(&["-O2", "-Wl,-z,lazy", "-fcf-protection=none"], &["puts", "getenv"]);
}

#[test]
fn stubs_with_branch_tracking() {
    let flags = ["-O2", "-Wl,-z,lazy,-z,ibtplt", "-fcf-protection=full"];
    check_plt(&flags, &["puts", "getenv"]);
}

#[test]
fn stubs_of_static_programs() {
    let program = c(&["-O2", "-static"]);
    let sections =
        std::process::Command::new("readelf").arg("-SW").arg(&program.path).output().unwrap();
    let sections = String::from_utf8(sections.stdout).unwrap();
    let plt = sections.lines().find(|line| line.contains(" .plt ")).unwrap();
    let words: Vec<_> = plt.split_once(" .plt ").unwrap().1.split_whitespace().collect();
    let address = u64::from_str_radix(words[1], 16).unwrap();
    let size = u64::from_str_radix(words[3], 16).unwrap();
    let addresses: Vec<_> = (address..address + size).step_by(8).collect();
    let found = open(&program.path).symbolize(&addresses, &options());
    let name = |i: usize| found.addresses[i].frames.first().map(|frame| frame.function.to_string());
    assert!((0..addresses.len()).all(|i| name(i).is_some_and(|n| n.ends_with("@plt"))));
    assert!((0..addresses.len()).any(|i| name(i).unwrap().starts_with("str")));
}

#[test]
fn the_vdso_of_this_process() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let range = maps.lines().find(|line| line.ends_with("[vdso]")).unwrap();
    let (start, end) = range.split_once(' ').unwrap().0.split_once('-').unwrap();
    let start = u64::from_str_radix(start, 16).unwrap();
    let mut bytes = vec![0; (u64::from_str_radix(end, 16).unwrap() - start) as usize];
    File::open("/proc/self/mem").unwrap().read_exact_at(&mut bytes, start).unwrap();

    let source = Source { path: "[vdso]", ..Source::default() };
    let module = Module::from_bytes(bytes, source).unwrap();
    let segment = module.segments()[0];
    assert!(segment.executable && module.build_id().is_some());
    // Every exported function must be found at some address of the text.
    let size = segment.file_size;
    let offsets: Vec<_> = (0..size).step_by(16).collect();
    let addresses: Vec<_> =
        offsets.iter().map(|&offset| module.file_offset_to_address(offset).unwrap()).collect();
    let found = module.symbolize(&addresses, &options());
    let has = |name: &str| {
        found.addresses.iter().flat_map(|a| &*a.frames).any(|frame| &*frame.function == name)
    };
    assert!(has("clock_gettime") || has("__kernel_clock_gettime"), "{found:?}");
}

#[test]
fn an_address_of_this_process() {
    let function = an_address_of_this_process as fn() as usize as u64;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let (offset, path) = maps
        .lines()
        .find_map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            let (start, end) = words[0].split_once('-')?;
            let start = u64::from_str_radix(start, 16).ok()?;
            let end = u64::from_str_radix(end, 16).ok()?;
            let offset = u64::from_str_radix(words[2], 16).ok()?;
            (start..end).contains(&function).then(|| (function - start + offset, words[5]))
        })
        .unwrap();
    let module = open(std::path::Path::new(path));
    let address = module.file_offset_to_address(offset).unwrap();
    let found = module.symbolize(&[address], &options());
    let function = found.addresses[0].frames.last().unwrap();
    assert_eq!(&*function.function, "it::symbols::an_address_of_this_process");
    assert!(function.file.as_ref().is_some_and(|file| file.ends_with("tests/it/symbols.rs")));
    assert_eq!(found.addresses[0].start, Some(address));
    assert_eq!(module.file_offset_to_address(u64::MAX), None);
}

#[test]
fn another_build_is_refused() {
    let program = c(&["-O2"]);
    let path = program.path.to_str().unwrap();
    let open = |build_id: &BuildId| {
        let source = Source { path, build_id: Some(build_id), root: None };
        Module::open(&File::open(path).unwrap(), source)
    };
    let build_id = crate::common::open(&program.path).build_id().unwrap().clone();
    assert_eq!(build_id.as_bytes().len(), 20);
    assert!(open(&build_id).is_ok());
    let other = BuildId::new(&[1; 20]).unwrap();
    let error = open(&other).unwrap_err();
    assert!(matches!(&error, Error::BuildId { found: Some(found), .. } if *found == build_id));
    assert!(error.to_string().contains(&build_id.to_string()), "{error}");
}

#[test]
fn what_is_no_elf_file_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let source = Source { path: "x", ..Source::default() };
    let result = Module::open(&File::open(dir.path()).unwrap(), source);
    assert!(matches!(result, Err(Error::Map { .. })));
    for bytes in [&b""[..], b"#!/bin/sh\n", b"\x7fELF"] {
        assert!(matches!(Module::from_bytes(bytes.to_vec(), source), Err(Error::Elf { .. })));
    }
}

/// A pass by symbols in order, and by what the pass before has found, names as one that reads all of them.
#[test]
fn kept_names_are_the_same() {
    let own = std::env::current_exe().unwrap();
    let program = c(&["-O2"]);
    let programs = [program.path.clone(), own, "/lib/x86_64-linux-gnu/libc.so.6".into()];
    for module in programs.iter().filter(|path| path.exists()).map(|path| open(path)) {
        let text = *module.segments().iter().find(|segment| segment.executable).unwrap();
        let addresses: Vec<u64> =
            (0..2000).map(|i| text.address + i * 7919 * (i % 5 + 1) % text.size).collect();
        for options in [options(), functions_only()] {
            let expect = module.symbolize(&addresses, &options).addresses;
            for count in [1, 1000, 2000, 2000] {
                let found = module.symbolize_again(&addresses[..count], &options).addresses;
                assert_eq!(found, expect[..count]);
            }
            assert!(module.kept_bytes() > 0);
            module.forget_names();
            assert_eq!(module.kept_bytes(), 0);
        }
    }
}

#[test]
fn modules_go_to_other_threads() {
    fn check<T: Send + Sync>() {}
    check::<Module>();
}
