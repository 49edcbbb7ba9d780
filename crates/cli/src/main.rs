//! The command line of Pyrograph: flags, wiring, messages, exit codes.
//!
//! No subcommand computes anything here: each maps its flags to the types of the crate that does.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]
// `eprintln!` panics if standard error is full or closed; `say!` does not.
#![deny(clippy::print_stderr)]

mod annotate;
mod code;
mod convert;
mod diff;
mod ending;
mod filters;
mod flamegraph;
mod fold;
mod found;
mod habits;
mod heatmap;
mod info;
mod interactive;
mod kept;
mod languages;
mod list;
mod live;
mod manual;
mod names;
#[cfg(test)]
mod options_table;
mod other_rights;
mod reading;
mod record;
mod report;
mod say;
mod sched;
mod script;
mod short_help;
mod show;
mod spelling;
mod stat;
mod streams;
mod symbols;
mod tables;
mod targets;
mod top;
mod trace;
mod units;
mod view;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use pyrograph_format::{Advice, ReadError};

use crate::say::{Usage, say, say_error};

/// Limits the memory for reading: the program exits with a message when the limit is exceeded, see [`reading`].
#[global_allocator]
static ALLOCATOR: pyrograph_memory::Limited = pyrograph_memory::Limited;

/// Where does the time go? Samples programs, reads other profilers' files, draws flame graphs.
#[derive(Parser)]
#[command(name = "pyrograph", version, infer_long_args = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Record(Box<record::Args>),
    Fold(Box<fold::Args>),
    Flamegraph(Box<flamegraph::Args>),
    Report(Box<report::Args>),
    View(Box<view::Args>),
    Annotate(Box<annotate::Args>),
    Diff(Box<diff::Args>),
    Heatmap(Box<heatmap::Args>),
    Convert(Box<convert::Args>),
    Info(info::Args),
    Stat(Box<stat::Args>),
    Top(Box<top::Args>),
    Trace(Box<trace::Args>),
    List(list::Args),
    Script(Box<script::Args>),
    Sched(Box<sched::Args>),
    Agent(kept::agent::Args),
    Query(kept::query::Args),
    Store(kept::folder::Args),
    Formats(reading::FormatsArgs),
    Completions(manual::CompletionArgs),
    Manual(manual::ManualArgs),
}

/// Exit code for a command line that makes no sense, independent of the machine and the files.
const BAD_USAGE: u8 = 2;

/// Exit code for a command that was found but could not be run, as in shells.
const COMMAND_NOT_RUN: u8 = 126;

/// Exit code for a command that was not found, as in shells.
const COMMAND_NOT_FOUND: u8 = 127;

/// Exit code for an error.
fn exit_code(error: &anyhow::Error) -> ExitCode {
    use pyrograph_export::OutputError;
    use pyrograph_session::Error;

    let is_misuse = error.is::<Usage>()
        || error.downcast_ref().is_some_and(OutputError::is_unknown)
        || error.downcast_ref().is_some_and(Error::is_misuse);
    match error.downcast_ref() {
        _ if is_misuse => ExitCode::from(BAD_USAGE),
        Some(Error::Record(pyrograph_record::Error::Command { source, .. })) => {
            let is_missing = source.kind() == std::io::ErrorKind::NotFound;
            ExitCode::from(if is_missing { COMMAND_NOT_FOUND } else { COMMAND_NOT_RUN })
        }
        _ => ExitCode::FAILURE,
    }
}

/// The definition of the command line.
fn command() -> clap::Command {
    Cli::command().mut_subcommands(|verb| match verb.get_name() {
        "heatmap" => heatmap::with_requirements(verb),
        _ => short_help::with_short_help(verb),
    })
}

fn main() -> ExitCode {
    pyrograph_memory::survive_cut_files();
    pyrograph_memory::survive_file_limit();
    let arguments = parse(std::env::args_os().collect());
    let done = run(arguments.verb);
    if pyrograph_memory::pages_cut_off() > 0 {
        say!("a file was cut off while it was read, so that what its end had is missing");
    }
    done.unwrap_or_else(|error| {
        if is_broken_pipe(&error) {
            return ExitCode::SUCCESS;
        }
        say_error!("{error:#}");
        if let Some(advice) = advice(&error) {
            say_error!("{advice}");
        }
        exit_code(&error)
    })
}

fn run(verb: Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Record(args) => record::run(*args),
        Verb::Fold(args) => fold::run(*args),
        Verb::Flamegraph(args) => flamegraph::run(*args),
        Verb::Report(args) => report::run(*args),
        Verb::View(args) => view::run(*args),
        Verb::Annotate(args) => annotate::run(*args),
        Verb::Diff(args) => diff::run(*args),
        Verb::Heatmap(args) => heatmap::run(*args),
        Verb::Convert(args) => convert::run(*args),
        Verb::Info(args) => info::run(args),
        Verb::Stat(args) => stat::run(*args),
        Verb::Top(args) => top::run(*args),
        Verb::Trace(args) => trace::run(*args),
        Verb::List(args) => list::run(args),
        Verb::Script(args) => script::run(*args),
        Verb::Sched(args) => sched::run(*args),
        Verb::Agent(args) => kept::agent::run(args),
        Verb::Query(args) => run(parse(kept::query::arguments(args)).verb),
        Verb::Store(args) => kept::folder::run(args),
        Verb::Formats(args) => reading::formats(args),
        Verb::Completions(args) => manual::completions(args),
        Verb::Manual(args) => manual::manual(args),
    }
}

/// Advice about flags that help if an input could not be read.
fn advice(error: &anyhow::Error) -> Option<&'static str> {
    match error.chain().find_map(|cause| cause.downcast_ref())? {
        ReadError::UnknownFormat { advice: Some(Advice::CountedLines), .. } => Some(
            "`pyrograph formats` lists the formats, --from forces one; --from folded reads stacks of one frame",
        ),
        ReadError::UnknownFormat { .. } => {
            Some("`pyrograph formats` lists the formats, --from forces one")
        }
        ReadError::HasUnit { .. } => Some("--unit is for inputs that name none"),
        _ => None,
    }
}

/// Parses the command line; on errors, prints them and exits with code 2.
fn parse(arguments: Vec<OsString>) -> Cli {
    let arguments = match arguments.get(1) {
        Some(verb) if verb == "flamegraph" => spelling::normalized::<flamegraph::Args>(arguments),
        Some(verb) if verb == "heatmap" => spelling::normalized::<heatmap::Args>(arguments),
        Some(verb) if verb == "fold" => spelling::normalized::<fold::Args>(arguments),
        _ => arguments,
    };
    let program = command();
    let arguments = habits::translated(arguments, &program).unwrap_or_else(|line| {
        say_error!("{line}");
        std::process::exit(BAD_USAGE.into())
    });
    let parsed =
        program.try_get_matches_from(arguments).and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.unwrap_or_else(|error| wrong(&error))
}

/// Prints help, or the errors of the command line, and exits. If the arguments contain control characters for the
/// terminal, the text is printed without them and without colours.
fn wrong(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    let plain = pyrograph_terminal::plain(&text);
    if !error.use_stderr() || plain == text {
        error.exit();
    }
    use std::io::Write;
    write!(std::io::stderr(), "{plain}").ok();
    std::process::exit(error.exit_code())
}

/// Returns true if the reader of our output closed the pipe, as `head` does, which is not an error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is_it = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_do_not_contradict_each_other() {
        command().debug_assert();
    }
}
