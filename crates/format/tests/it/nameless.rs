//! Frames of which a profile has only file, build ID and address are looked up in that file, in whatever format it was
//! written.

use std::path::PathBuf;

use pyrograph_format::{
    Input, Locator, Options, SymbolOptions, WriteOptions, read, reader_named, writer_named,
};
use pyrograph_profile::{Address, Frame, Profile, Sample, StackId, ValueType};

#[inline(never)]
extern "C" fn function_to_find(x: u64) -> u64 {
    std::hint::black_box(x) + 1
}

/// This program, an offset in it that is in the function, and its build ID.
fn place() -> (String, u64, String) {
    let program = std::env::current_exe().expect("a program");
    let program = program.to_str().expect("a path").to_owned();
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    let address = function_to_find as *const () as u64 + 1;
    let hex = |text: &str| u64::from_str_radix(text, 16).expect("a number");
    let offset = maps.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let is_it = (hex(start)..hex(end)).contains(&address);
        is_it.then(|| address - hex(start) + hex(fields.nth(1).expect("an offset")))
    });
    let file = std::fs::File::open(&program).expect("a program");
    let source = pyrograph_symbol::Source { path: &program, ..Default::default() };
    let module = pyrograph_symbol::Module::open(&file, source).expect("ELF");
    let build_id = module.build_id().expect("a build ID").to_string();
    (program, offset.expect("mapped"), build_id)
}

/// A profile of this address, as a file of a format.
fn written(format: &str, path: &str, offset: u64, build_id: &str) -> Vec<u8> {
    let mut profile = Profile::new(vec![ValueType::samples()]);
    let module = profile.strings.intern(path);
    let frame = profile.frames.intern(Frame { module, address: offset, ..Frame::default() });
    let stack = profile.stacks.intern(StackId::ROOT, frame);
    let build_id = profile.strings.intern(build_id);
    let address = Address { module, build_id, offset, ..Address::default() };
    let address = (!build_id.is_empty()).then(|| profile.addresses.intern(address));
    profile.push(Sample { address, ..Sample::new(stack) }, &[1]);
    let mut bytes = Vec::new();
    let writer = writer_named(format).expect("a format");
    writer.write(&profile, &WriteOptions::default(), &mut bytes).expect("to memory");
    bytes
}

/// The name of the outermost function, and what is said.
fn names(bytes: Vec<u8>, symbols: SymbolOptions) -> (String, String) {
    let options = Options { symbols, ..Options::default() };
    let (profile, warnings) = read(vec![Input::bytes("x", bytes)], &options).expect("a profile");
    let sample = profile.samples.iter().next().expect("a sample");
    let outermost = profile.stacks.leaf_first(sample.stack).last().expect("a frame");
    let name = profile.strings.get(profile.frames.get(outermost).function).to_owned();
    (name, warnings.iter().map(ToString::to_string).collect())
}

#[test]
fn addresses_in_files_were_left_without_names() {
    let (program, offset, build_id) = place();
    for format in ["pprof", "OTLP"] {
        assert!(reader_named(format).is_some());
        let check = |path: &str, build_id: &str, symbols: SymbolOptions| {
            let (name, said) = names(written(format, path, offset, build_id), symbols);
            (name.ends_with("function_to_find"), said)
        };
        // By its build ID.
        let found = check(&program, &build_id, SymbolOptions::default());
        assert_eq!(found, (true, String::new()), "{format}");
        // Another build.
        let other = "ab".repeat(20);
        let (is_named, said) = check(&program, &other, SymbolOptions::default());
        assert!(!is_named && said.contains("is not here as it was recorded"), "{format}: {said}");
        // By its path alone.
        let (is_named, said) = check(&program, "", SymbolOptions::default());
        let expect =
            "names are those of the files as they are now, for the input has no build IDs of";
        assert!(is_named && said.starts_with(expect), "{format}: {said}");
        // Below another folder.
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::copy(&program, folder.path().join("app")).expect("a copy");
        let locator = Locator { symfs: Some(PathBuf::from(folder.path())), ..Locator::default() };
        let symbols = SymbolOptions { locator, ..SymbolOptions::default() };
        let found = check("/app", &build_id, symbols);
        assert_eq!(found, (true, String::new()), "{format}");
    }
}
