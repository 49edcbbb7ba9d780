//! Programs built for a test, and what is known about them.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use pyrograph_symbol::{Locator, Module, Options, Source, Symbolization};
use tempfile::TempDir;

/// A built program in a directory of its own.
pub struct Program {
    pub dir: TempDir,
    pub path: PathBuf,
    /// Where the labels and functions are, by `nm` of the program before anything was stripped.
    pub symbols: HashMap<String, u64>,
}

/// Runs a tool of the toolchain, which must be there: a test that passes without it shows nothing.
#[track_caller]
pub fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
}

/// Builds `tests/programs/SOURCE` with `compiler` and `flags`.
#[track_caller]
pub fn build(compiler: &str, source: &str, flags: &[&str]) -> Program {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    run(Command::new(compiler).args(flags).arg(source).arg("-o").arg(&path).current_dir(&dir));
    let symbols = nm(&path);
    Program { dir, path, symbols }
}

pub fn nm(path: &Path) -> HashMap<String, u64> {
    let output = Command::new("nm").arg(path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let symbol = |line: &str| {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        Some((words.nth(1)?.to_owned(), address))
    };
    text.lines().filter_map(symbol).collect()
}

/// Options that look nowhere but beside the module.
pub fn options() -> Options {
    let locator =
        Locator { debug_dirs: Vec::new(), symfs: None, build_id_cache: None, debuginfod: None };
    Options { locator, ..Options::default() }
}

pub fn open(path: &Path) -> Module {
    let source = Source { path: path.to_str().unwrap(), ..Source::default() };
    Module::open(&File::open(path).unwrap(), source).unwrap()
}

impl Program {
    #[track_caller]
    pub fn address(&self, symbol: &str) -> u64 {
        *self.symbols.get(symbol).unwrap_or_else(|| panic!("no {symbol} in {:?}", self.symbols))
    }

    pub fn objcopy(&self, arguments: &[&str]) {
        run(Command::new("objcopy").args(arguments).arg(&self.path).current_dir(&self.dir));
    }

    /// Splits the debug information off into `name`.
    pub fn split(&self, name: &str) -> PathBuf {
        let debug = self.dir.path().join(name);
        run(Command::new("objcopy").arg("--only-keep-debug").arg(&self.path).arg(&debug));
        self.objcopy(&["--strip-all"]);
        debug
    }

    pub fn symbolize(&self, symbol: &str, options: &Options) -> Symbolization {
        open(&self.path).symbolize(&[self.address(symbol)], options)
    }

    /// The frames at `symbol`, innermost first, one a line: `function file:line`, or `function`.
    pub fn frames(&self, symbol: &str, options: &Options) -> String {
        lines(&self.symbolize(symbol, options))
    }
}

/// The frames of the only address, one a line; of the file just its name.
pub fn lines(symbolization: &Symbolization) -> String {
    let [symbolized] = &symbolization.addresses[..] else { panic!("{symbolization:?}") };
    let frame = |frame: &pyrograph_symbol::Frame| match &frame.file {
        Some(file) => {
            let name = Path::new(&**file).file_name().unwrap().to_str().unwrap();
            format!("{} {name}:{}\n", frame.function, frame.line)
        }
        None => format!("{}\n", frame.function),
    };
    symbolized.frames.iter().map(frame).collect()
}

/// The frames at `mark_leaf` of `calls.c` if debug information is found.
pub const LEAF: &str = "leaf calls.c:9\nmiddle calls.c:13\nouter calls.c:17\n";
