//! Where the unwind tables of a mapped file are.

use std::path::{Path, PathBuf};
use std::process::Command;

use pyrograph_unwind::{AddressSpace, Arch, Registers, StackCopy, Unwinder};

use super::*;

/// One file, however it is asked for.
struct OneFile(PathBuf);

impl Files for OneFile {
    fn open(&mut self, _mapped: &MappedFile<'_>) -> Option<(File, bool)> {
        Some((File::open(&self.0).ok()?, true))
    }

    fn perf_map(&mut self, _pid: i32) -> Option<File> {
        None
    }
}

fn run(command: &str, arguments: &[&str], directory: &Path) -> String {
    let output = Command::new(command).args(arguments).current_dir(directory).output();
    let output = output.unwrap_or_else(|error| panic!("{command}: {error}"));
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Where the function returns to: nothing is mapped there, so that only a table leads to it.
const CALLER: u64 = 0x1234_5678;

/// Leaves a function of the library by what is known of it: the frames that were found, and for how
/// many there was no table.
fn unwind(library: &Path, debug_dirs: Vec<PathBuf>, address: u64) -> (Vec<u64>, u32) {
    let locator = Locator { debug_dirs, symfs: None, build_id_cache: None, debuginfod: None };
    let mut modules = Modules::new(locator);
    let path = library.to_str().expect("a path in UTF-8");
    let range = 0..1 << 16;
    let mapped = MappedFile { pid: 1, range: range.clone(), path, identity: &Identity::Unknown };
    let id = modules.mapped(&mut OneFile(library.to_owned()), &mapped);
    let mut space = AddressSpace::new();
    space.map(range, 0, modules.unwind(id).cloned(), 0);
    let mut registers = Registers::new(Arch::X86_64);
    registers.set(Arch::X86_64.ip(), address);
    registers.set(Arch::X86_64.sp(), 0x7000);
    let mut bytes = [0; 64];
    bytes[..8].copy_from_slice(&CALLER.to_le_bytes());
    let stack = StackCopy { start: 0x7000, bytes: &bytes };
    let mut frames = Vec::new();
    let unwound = Unwinder::new(Arch::X86_64).unwind(&space, &registers, stack, 2, &mut frames);
    (frames.iter().map(|frame| frame.address).collect(), unwound.without_table)
}

/// A compiler whose flags exclude `.eh_frame` puts its table into `.debug_frame`, and `strip`
/// takes that along with the other debug information.
#[test]
fn a_separate_debug_file_may_have_the_only_unwind_table() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let here = directory.path();
    std::fs::write(here.join("a.c"), "int middle(int n) { return n * 3; }\n").expect("written");
    let options = "-shared -nostdlib -fPIC -O1 -g -fomit-frame-pointer -fno-unwind-tables \
                   -fno-asynchronous-unwind-tables -Wl,--build-id=0xabcdef01 -o a.so a.c";
    run("gcc", &options.split_whitespace().collect::<Vec<_>>(), here);
    let debug = here.join("debug/.build-id/ab");
    std::fs::create_dir_all(&debug).expect("a directory");
    let debug_file = debug.join("cdef01.debug");
    let debug_file = debug_file.to_str().expect("a path in UTF-8");
    run("objcopy", &["--only-keep-debug", "a.so", debug_file], here);
    run("strip", &["a.so"], here);
    let symbols = run("nm", &["-D", "a.so"], here);
    let symbol = symbols.lines().find(|line| line.ends_with(" middle")).expect("a symbol");
    let address = u64::from_str_radix(&symbol[..16], 16).expect("an address");

    let library = here.join("a.so");
    assert_ne!(unwind(&library, Vec::new(), address), (vec![address, CALLER], 0));
    let found = unwind(&library, vec![here.join("debug")], address);
    assert_eq!(found, (vec![address, CALLER], 0));
}
