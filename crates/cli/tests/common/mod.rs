//! What the tests that record have in common.

#![expect(dead_code, reason = "each test uses a part of it")]

pub mod perf;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The programs that are recorded.
pub fn program_source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Compiles a test program; `compiler` with its flags, the source's name, and where to put it.
pub fn compile(compiler: &[&str], source: &str, folder: &Path) -> PathBuf {
    let program = folder.join(source.replace('.', "_"));
    run(Command::new(compiler[0])
        .args(&compiler[1..])
        .arg("-o")
        .arg(&program)
        .arg(program_source(source)));
    program
}

/// Runs a command that must succeed.
pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// `pyrograph` as it was built for this test.
pub fn pyrograph() -> Command {
    Command::new(env!("CARGO_BIN_EXE_pyrograph"))
}

/// Whether this runs as root. If not, says that a test is skipped.
pub fn is_root(test: &str) -> bool {
    // SAFETY: The call takes nothing and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        eprintln!("skipped: {test} needs root");
    }
    root
}

/// Folded text, read back.
pub struct Folded {
    /// Each stack, root first, with its value.
    pub stacks: Vec<(Vec<String>, f64)>,
}

impl Folded {
    /// From the lines of folded text.
    pub fn parse(text: &str) -> Self {
        let stacks = text
            .lines()
            .map(|line| {
                let (stack, value) = line.rsplit_once(' ').expect("a count");
                let value = value.parse().expect("a number");
                (stack.split(';').map(str::to_owned).collect(), value)
            })
            .collect();
        Self { stacks }
    }

    /// Reads a file of folded text.
    pub fn read(path: &Path) -> Self {
        Self::parse(&std::fs::read_to_string(path).expect("folded text was written"))
    }

    /// The sum of all values.
    pub fn total(&self) -> f64 {
        self.stacks.iter().map(|(_, value)| value).sum()
    }

    /// The share, in percent, of the stacks that `wanted` chooses.
    pub fn share(&self, wanted: impl Fn(&[String]) -> bool) -> f64 {
        let part: f64 =
            self.stacks.iter().filter(|(stack, _)| wanted(stack)).map(|(_, value)| value).sum();
        part * 100.0 / self.total()
    }

    /// The share, in percent, of stacks with `function` anywhere in them.
    pub fn total_share(&self, function: &str) -> f64 {
        self.share(|stack| stack.iter().any(|frame| frame == function))
    }

    /// The share, in percent, of stacks that end in `function`.
    pub fn self_share(&self, function: &str) -> f64 {
        self.share(|stack| stack.last().is_some_and(|frame| frame == function))
    }

    /// The heaviest leaf functions, for messages.
    pub fn leaves(&self) -> Vec<(String, f64)> {
        let mut leaves: HashMap<String, f64> = HashMap::new();
        for (stack, value) in &self.stacks {
            *leaves.entry(stack.last().cloned().unwrap_or_default()).or_default() += value;
        }
        let mut leaves: Vec<_> = leaves.into_iter().collect();
        leaves.sort_by(|a, b| b.1.total_cmp(&a.1));
        leaves.truncate(12);
        leaves
    }
}
