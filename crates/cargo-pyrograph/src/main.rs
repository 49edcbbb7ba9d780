#![doc = include_str!("../README.md")]
//!
//! Cargo runs it for `cargo pyrograph …`, with `pyrograph` as its first argument.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use clap::Parser;
use serde_json::Value;

/// Cargo's way to run it.
#[derive(Parser)]
#[command(name = "cargo", bin_name = "cargo", disable_help_subcommand = true)]
enum Cargo {
    #[command(version)]
    Pyrograph(Args),
}

/// Build a target of this package with line tables, record it, and draw a flame graph
#[derive(clap::Args)]
#[command(
    override_usage = "cargo pyrograph [OPTIONS] [-- <ARGUMENT>...]",
    after_help = "\
Examples:
  cargo pyrograph -- --its-flags               the package's program, built with --release
  cargo pyrograph --example orders --open      and show the picture in the browser
  cargo pyrograph --bench parse -- large       a benchmark
  cargo pyrograph --test it -- one_test        a test
  cargo pyrograph --record '--off-cpu -d 10'   with options of pyrograph record"
)]
struct Args {
    /// The program to record, where the package has several
    #[arg(long, value_name = "NAME", group = "target", help_heading = "Target")]
    bin: Option<String>,

    /// An example to record
    #[arg(long, value_name = "NAME", group = "target", help_heading = "Target")]
    example: Option<String>,

    /// A benchmark to record
    #[arg(long, value_name = "NAME", group = "target", help_heading = "Target")]
    bench: Option<String>,

    /// An integration test to record
    #[arg(long, value_name = "NAME", group = "target", help_heading = "Target")]
    test: Option<String>,

    /// The package that has the target
    #[arg(short, long, value_name = "SPEC", help_heading = "Target")]
    package: Option<String>,

    /// Build as `cargo build --release` does [the default, but for tests]
    #[arg(short, long, group = "how", help_heading = "Build")]
    release: bool,

    /// Build without optimization [the default for tests]
    #[arg(long, group = "how", help_heading = "Build")]
    dev: bool,

    /// Build with this profile
    #[arg(long, value_name = "NAME", group = "how", help_heading = "Build")]
    profile: Option<String>,

    /// Features to build with
    #[arg(short = 'F', long, value_name = "FEATURES", help_heading = "Build")]
    features: Vec<String>,

    /// Build with all features
    #[arg(long, help_heading = "Build")]
    all_features: bool,

    /// Build without the default features
    #[arg(long, help_heading = "Build")]
    no_default_features: bool,

    /// Where Cargo.toml is
    #[arg(long, value_name = "PATH", help_heading = "Build")]
    manifest_path: Option<PathBuf>,

    /// Where to build
    #[arg(long, value_name = "DIR", help_heading = "Build")]
    target_dir: Option<PathBuf>,

    /// Without the network
    #[arg(long, help_heading = "Build")]
    offline: bool,

    /// With the versions of Cargo.lock
    #[arg(long, help_heading = "Build")]
    locked: bool,

    /// Where to write, as for pyrograph record [default: flamegraph.svg]
    #[arg(short, long, value_name = "FILE", help_heading = "Recording")]
    output: Vec<PathBuf>,

    /// Show the flame graph in the browser when it is written
    #[arg(long, help_heading = "Recording")]
    open: bool,

    /// More options of pyrograph record, parted by blanks
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true, help_heading = "Recording")]
    record: Option<String>,

    /// The arguments of the program
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

fn main() -> ExitCode {
    let Cargo::Pyrograph(args) = Cargo::parse();
    let Err(error) = run(&args);
    use std::io::Write;
    // Names in it may be from anywhere.
    let text = pyrograph_terminal::plain(&format!("{error:#}"));
    writeln!(std::io::stderr(), "cargo pyrograph: {text}").ok();
    ExitCode::FAILURE
}

/// Builds, and becomes `pyrograph record`.
fn run(args: &Args) -> anyhow::Result<std::convert::Infallible> {
    let program = build(args)?;
    let mut command = Command::new(pyrograph());
    command.arg("record");
    for output in &args.output {
        command.arg("-o").arg(output);
    }
    if args.open {
        command.arg("--open");
    }
    command.args(args.record.iter().flat_map(|options| options.split_whitespace()));
    command.arg("--").arg(program);
    // As cargo calls the harness of a benchmark.
    command.args(args.bench.iter().map(|_| "--bench")).args(&args.arguments);
    Err(command.exec()).context("failed to run pyrograph, which is installed beside this program")
}

/// The `pyrograph` beside this program, or the one of the search path.
fn pyrograph() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name("pyrograph"));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| "pyrograph".into())
}

/// Builds the target; returns the program.
fn build(args: &Args) -> anyhow::Result<PathBuf> {
    let (verb, kind, name) = match args {
        Args { example: Some(name), .. } => ("build", "example", Some(name)),
        Args { bench: Some(name), .. } => ("bench", "bench", Some(name)),
        Args { test: Some(name), .. } => ("test", "test", Some(name)),
        Args { bin, .. } => ("build", "bin", bin.as_ref()),
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([verb, "--message-format=json-render-diagnostics"]);
    match name {
        Some(name) => command.arg(format!("--{kind}")).arg(name),
        None => command.arg("--bins"),
    };
    if verb != "build" {
        command.arg("--no-run");
    }
    let profile = profile(args, verb);
    command.args(["--profile", &profile]);
    for (name, value) in line_tables(&profile) {
        if std::env::var_os(&name).is_none() {
            command.env(name, value);
        }
    }
    let package = args.package.iter().flat_map(|package| ["--package", package]);
    command.args(package).args(args.features.iter().flat_map(|features| ["--features", features]));
    let flags = [
        ("--all-features", args.all_features),
        ("--no-default-features", args.no_default_features),
        ("--offline", args.offline),
        ("--locked", args.locked),
    ];
    command.args(flags.into_iter().filter(|(_, is_on)| *is_on).map(|(flag, _)| flag));
    for (flag, path) in
        [("--manifest-path", &args.manifest_path), ("--target-dir", &args.target_dir)]
    {
        if let Some(path) = path {
            command.arg(flag).arg(path);
        }
    }
    let output = command.stderr(Stdio::inherit()).output().context("failed to run cargo")?;
    if !output.status.success() {
        bail!("the build failed");
    }
    let programs = programs(&String::from_utf8_lossy(&output.stdout), kind);
    match &programs[..] {
        [(_, program)] => Ok(program.clone()),
        [] => bail!(
            "this package has no program to record: name a target with --bin, --example, --bench or --test"
        ),
        several => {
            let names: Vec<&str> = several.iter().map(|(name, _)| name.as_str()).collect();
            bail!("there are several programs: choose one with --bin ({})", names.join(", "))
        }
    }
}

/// The profile to build with.
fn profile(args: &Args, verb: &str) -> String {
    match (&args.profile, verb) {
        (Some(profile), _) => profile.clone(),
        (None, "bench") if !args.dev => "bench".to_owned(),
        (None, "test") if !args.release => "test".to_owned(),
        (None, _) if args.dev => "dev".to_owned(),
        (None, _) => "release".to_owned(),
    }
}

/// The variables that make Cargo keep line tables and symbols in a profile (The Cargo Book, "Environment
/// Variables").
fn line_tables(profile: &str) -> [(String, &'static str); 2] {
    let name = profile.to_uppercase().replace('-', "_");
    [
        (format!("CARGO_PROFILE_{name}_DEBUG"), "line-tables-only"),
        (format!("CARGO_PROFILE_{name}_STRIP"), "none"),
    ]
}

/// Name and path of each program of a kind that Cargo says it has built. A line of each is
/// `{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"app"},"executable":"/…/app"}`.
fn programs(messages: &str, kind: &str) -> Vec<(String, PathBuf)> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let program = |message: Value| {
        let target = &message["target"];
        let is_it = target["kind"].as_array()?.iter().any(|found| found == kind);
        let program = message["executable"].as_str().filter(|_| is_it)?;
        Some((target["name"].as_str()?.to_owned(), PathBuf::from(program)))
    };
    messages.filter_map(program).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_do_not_contradict_each_other() {
        use clap::CommandFactory;
        Cargo::command().debug_assert();
    }

    #[test]
    fn programs_are_those_of_the_kind_that_was_asked_for() {
        let messages = r#"not JSON
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"l"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"a"},"executable":"/t/a"}
{"reason":"compiler-artifact","target":{"kind":["bench"],"name":"b"},"executable":"/t/b"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(programs(messages, "bin"), [("a".to_owned(), PathBuf::from("/t/a"))]);
        assert_eq!(programs(messages, "bench"), [("b".to_owned(), PathBuf::from("/t/b"))]);
        assert!(programs(messages, "test").is_empty());
    }
}
