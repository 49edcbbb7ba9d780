//! `pyrograph info`: metadata of a recording.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use pyrograph_format::{Described, describe};
use pyrograph_render::{info_json, info_text, profile_json, profile_text};

use crate::say::say;
use crate::streams::{open, write_output};
use crate::{ending, found};

/// Show the metadata of a recording: host, command, events, time, processes
///
/// All headers of perf.data; the metadata that its format has of any other profile.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pyrograph info perf.data
  pyrograph info --json perf.data | jq .events")]
pub struct Args {
    /// The file, or `-` for standard input [default: the last recording in the current folder: flamegraph.pb.gz or
    /// perf.data]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// All of it, as JSON
    #[arg(long)]
    json: bool,

    /// Where to write; the ending .json chooses the format [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs `pyrograph info`.
pub fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    ending::set_flag(args.output.as_deref(), &mut [("json", &mut args.json)])?;
    let file = match &args.file {
        Some(file) => file,
        None => found::profile()?.unwrap_or(Path::new("-")),
    };
    let described = describe(open(file)?).context("failed to show")?;
    if args.file.is_none() && file.as_os_str() != "-" {
        found::say_reading(file);
    }
    if let Described::Profile { warnings, .. } = &described {
        warnings.lines().for_each(|(_, line)| say!("{line}"));
    }
    write_output(args.output.as_deref(), |out| write(&described, args.json, out))?;
    Ok(ExitCode::SUCCESS)
}

fn write(described: &Described, as_json: bool, out: &mut dyn Write) -> io::Result<()> {
    match described {
        Described::Recording(info) if as_json => info_json(info, out),
        Described::Recording(info) => info_text(info, out),
        Described::Profile { format, profile, .. } if as_json => profile_json(format, profile, out),
        Described::Profile { format, profile, .. } => profile_text(format, profile, out),
    }
}
