//! `completions` and `manual`: generated from the definitions of the command line.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use pyrograph_format::READERS;
use pyrograph_session::Event;

use crate::record::question::QUESTIONS;

/// Print the completion script of a shell
#[derive(clap::Args)]
pub struct CompletionArgs {
    /// The shell
    shell: Shell,
}

/// Write the man pages, one for each verb, into a folder
#[derive(clap::Args)]
pub struct ManualArgs {
    /// The folder; it is created if it does not exist
    #[arg(default_value = ".")]
    folder: PathBuf,
}

/// Runs `pyrograph completions`.
pub fn completions(args: CompletionArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut with_values(crate::command()),
        "pyrograph",
        &mut script,
    );
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Gives options the values to complete. They take other spellings, too, and `-e` far more.
fn with_values(command: Command) -> Command {
    let verb = command.get_name().to_owned();
    command.mut_args(|option| with_values_of(option, &verb)).mut_subcommands(with_values)
}

fn with_values_of(option: Arg, verb: &str) -> Arg {
    // `perf script` is perf-script on the command line.
    let word = |name: &str| name.to_lowercase().replace([' ', '/'], "-");
    let values: Vec<String> = match (option.get_id().as_str(), verb) {
        ("from", _) => READERS.iter().map(|reader| word(reader.name())).collect(),
        ("to", _) => pyrograph_export::formats().iter().map(|(name, _)| word(name)).collect(),
        ("event", "record" | "top") => {
            QUESTIONS.iter().map(ToString::to_string).chain(Event::known_names()).collect()
        }
        ("event", "stat") => Event::known_names(),
        _ => return option,
    };
    // The program ends when the script is written.
    option.value_parser(PossibleValuesParser::new(values.into_iter().map(|value| &*value.leak())))
}

/// Runs `pyrograph manual`.
pub fn manual(args: ManualArgs) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(&args.folder)
        .with_context(|| format!("failed to make the folder {}", args.folder.display()))?;
    let mut command = crate::command().disable_help_subcommand(true);
    command.build();
    for command in command.get_subcommands().chain([&command]).filter(|verb| !verb.is_hide_set()) {
        let man = Man::new(command.clone()).manual("Pyrograph");
        let path = args.folder.join(man.get_filename());
        let page = page(&man, command).context("failed to make a man page")?;
        std::fs::write(&path, page)
            .with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Renders a man page with the sections of man-pages(7).
fn page(man: &Man, command: &Command) -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").lines().map(str::trim).collect::<Vec<_>>();
    section(&mut page, "SYNOPSIS", &usage.join("\n"))?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let name = command.get_name();
    section(&mut page, "EXIT STATUS", &exit_status(name))?;
    let more = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let examples =
        more.strip_prefix("Examples:\n").map(|more| more.split("\n\n").next().unwrap_or(more));
    if let Some(examples) = examples {
        let examples: Vec<String> = examples.lines().flat_map(example).collect();
        section(&mut page, "EXAMPLES", &examples.join("\n"))?;
    }
    section(&mut page, "ENVIRONMENT", &environment(name))?;
    Ok(page)
}

/// Width of a line on a terminal of 80 columns, without the margins of man(1).
const COLUMNS: usize = 73;

/// Splits an example into lines that fit: a long command in parts, with its description below.
fn example(line: &str) -> Vec<String> {
    let line = line.trim();
    if line.len() <= COLUMNS {
        return vec![line.to_owned()];
    }
    let (command, says) = line.split_once("   ").unwrap_or((line, ""));
    let mut lines = Vec::new();
    let mut rest = command;
    while rest.len() > COLUMNS
        && let Some((part, after)) =
            rest[..COLUMNS - 2].rsplit_once(' ').map(|(part, _)| rest.split_at(part.len()))
    {
        lines.push(format!("{part} \\"));
        rest = after.trim_start();
    }
    lines.push(rest.to_owned());
    if !says.is_empty() {
        lines.push(format!("    # {}", says.trim()));
    }
    lines
}

/// Text about the exit codes of a subcommand.
fn exit_status(verb: &str) -> String {
    let [success, failure, usage] = match verb {
        "diff" => [
            "success; with --fail-over: nothing takes more",
            "failure; with --fail-over: something takes more",
            "wrong usage; with --fail-over: the profiles could not be compared",
        ],
        _ => [
            "success",
            "failure: something is not there, not permitted, not readable or not writable",
            "wrong usage: an unknown option, a wrong value, options that contradict each other",
        ],
    };
    let codes = format!("0  {success}\n1  {failure}\n2  {usage}");
    match verb {
        "record" => format!(
            "The command's own, if one was run and the profile was written; 128 and the signal's number if a signal \
             ended it.\n{codes}\n126  the command could not be run\n127  the command was not found"
        ),
        "fold" => format!("{codes}\n3  with --strict: some of the input was skipped"),
        _ => codes,
    }
}

/// Text about the environment variables that a subcommand reads.
fn environment(verb: &str) -> String {
    let own = match verb {
        "record" => "BROWSER  the browser that --open starts [xdg-open]\n",
        "report" => {
            "PAGER  the pager for reports on a terminal [less]\nNO_COLOR  no colours, if it is set\n"
        }
        _ => "",
    };
    let all = "\
DEBUGINFOD_URLS  servers to download debug files from; none if it is not set
XDG_CACHE_HOME  the folder of the cache: unwind tables, unpacked debug files [~/.cache]";
    [own, all].concat()
}

/// Writes a section whose lines are not filled (groff_man(7)).
fn section(page: &mut Vec<u8>, heading: &str, text: &str) -> std::io::Result<()> {
    writeln!(page, ".SH \"{heading}\"\n.nf")?;
    for line in text.lines() {
        // A dot or an apostrophe at the start of a line would be a request.
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        writeln!(page, "\\&{line}")?;
    }
    writeln!(page, ".fi")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They were the names of files.
    #[test]
    fn completed_values_are_taken() {
        let command = with_values(crate::command());
        let values = |verb: &str, option: &str| -> Vec<String> {
            let verb = command.find_subcommand(verb).expect("a verb");
            let option =
                verb.get_arguments().find(|arg| arg.get_id() == option).expect("an option");
            option.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect()
        };
        let formats = values("fold", "from");
        assert!(formats.len() > 70 && formats.contains(&"perf-script".to_owned()), "{formats:?}");
        for format in formats {
            assert!(crate::reading::format(&format).is_ok(), "{format}");
        }
        assert!(values("convert", "to").contains(&"chrome-trace".to_owned()));
        let events = values("record", "event");
        assert!(["off-cpu", "page-faults"].iter().all(|name| events.iter().any(|it| it == name)));
        for event in events {
            let is_known = crate::record::question::named(&event).is_some();
            assert!(is_known || Event::parse(&event).is_ok(), "{event}");
        }
    }
}
