//! `completions` and `manual`: made from the same flags that are parsed.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

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
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "pyrograph", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `pyrograph manual`.
pub fn manual(args: ManualArgs) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(&args.folder)
        .with_context(|| format!("failed to make the folder {}", args.folder.display()))?;
    let mut command = crate::Cli::command().disable_help_subcommand(true);
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

/// A man page with the sections of man-pages(7).
fn page(man: &Man, command: &clap::Command) -> std::io::Result<Vec<u8>> {
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
    let environment = match name {
        "record" => RECORD_ENVIRONMENT,
        "report" => REPORT_ENVIRONMENT,
        _ => ENVIRONMENT,
    };
    section(&mut page, "ENVIRONMENT", environment)?;
    Ok(page)
}

/// Width of a line, without the margins of man(1), on a terminal of 80 columns.
const COLUMNS: usize = 73;

/// An example in lines that fit: what it does below the command, and a long command in parts.
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

/// The exit codes of a verb.
fn exit_status(verb: &str) -> String {
    let first = match verb {
        "record" => {
            "The command's own, if one was run and the profile was written; 128 and the signal's number if a signal \
             ended it.\n"
        }
        _ => "",
    };
    let success = match verb {
        "diff" => "0  success; with --fail-over: nothing takes more\n",
        _ => "0  success\n",
    };
    let failure = match verb {
        "diff" => "1  failure; with --fail-over: something takes more\n",
        _ => "1  failure: something is not there, not permitted, not readable or not writable\n",
    };
    let usage = match verb {
        "diff" => "2  wrong usage; with --fail-over: the profiles could not be compared",
        _ => "2  wrong usage: an unknown option, a wrong value, options that contradict each other",
    };
    let last = match verb {
        "record" => "\n127  the command could not be run",
        "fold" => "\n3  with --strict: some of the input was skipped",
        _ => "",
    };
    [first, success, failure, usage, last].concat()
}

/// Variables that all verbs look at.
const ENVIRONMENT: &str = "\
DEBUGINFOD_URLS  servers to download debug files from; none if it is not set
XDG_CACHE_HOME  the folder of the cache: unwind tables, unpacked debug files [~/.cache]";

/// Those of `record`.
const RECORD_ENVIRONMENT: &str = "\
BROWSER  the browser that --open starts [xdg-open]
DEBUGINFOD_URLS  servers to download debug files from; none if it is not set
XDG_CACHE_HOME  the folder of the cache: unwind tables, unpacked debug files [~/.cache]";

/// Those of `report`.
const REPORT_ENVIRONMENT: &str = "\
PAGER  the pager for reports on a terminal [less]
NO_COLOR  no colours, if it is set
DEBUGINFOD_URLS  servers to download debug files from; none if it is not set
XDG_CACHE_HOME  the folder of the cache: unwind tables, unpacked debug files [~/.cache]";

/// Writes a section of lines that are to stay as they are (groff_man(7)).
fn section(page: &mut Vec<u8>, heading: &str, text: &str) -> std::io::Result<()> {
    writeln!(page, ".SH \"{heading}\"\n.nf")?;
    for line in text.lines() {
        // A dot or an apostrophe in front would be a request.
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        writeln!(page, "\\&{line}")?;
    }
    writeln!(page, ".fi")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn man_pages_have_a_synopsis_that_fits_exit_codes_and_examples() {
        let folder = tempfile::tempdir().expect("a folder");
        manual(ManualArgs { folder: folder.path().to_owned() }).expect("pages");
        for verb in
            ["-record", "-report", "-diff", "-fold", "-flamegraph", "-convert", "-heatmap", ""]
        {
            let path = folder.path().join(format!("pyrograph{verb}.1"));
            let page = std::fs::read_to_string(&path).expect("a page");
            let sections: Vec<&str> = page
                .lines()
                .filter_map(|line| line.strip_prefix(".SH "))
                .map(|name| name.trim_matches('"'))
                .collect();
            let at = |name: &str| sections.iter().position(|section| *section == name);
            for name in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS"] {
                assert!(at(name).is_some(), "{verb}: no {name} in {sections:?}");
            }
            assert_eq!(at("EXAMPLES").is_some(), !verb.is_empty(), "{verb}");
            let examples = page.split(".SH \"EXAMPLES\"").nth(1).unwrap_or_default();
            let examples = examples.split(".SH").next().unwrap_or_default().replace('\\', "");
            assert!(examples.lines().all(|line| line.len() <= COLUMNS + 2), "{examples}");
            let synopsis =
                page.split(".SH \"SYNOPSIS\"").nth(1).and_then(|rest| rest.split(".SH").next());
            let lines = synopsis.expect("a section").lines();
            let usage: Vec<String> = lines
                .filter_map(|line| line.strip_prefix("\\&"))
                .map(|line| line.replace('\\', ""))
                .collect();
            assert!((1..=3).contains(&usage.len()), "{usage:?}");
            assert!(usage.iter().all(|line| line.len() <= COLUMNS), "{usage:?}");
        }
    }
}
