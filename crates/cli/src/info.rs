//! `pyrograph info`: metadata of a recording.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use pyrograph_format::recording_info;
use pyrograph_render::{info_json, info_text};
use pyrograph_terminal::standard_output;

use crate::streams::open;

/// Show the metadata of a perf.data file: host, command, events, time, processes
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pyrograph info perf.data
  pyrograph info --json perf.data | jq .events")]
pub struct Args {
    /// The file, or `-` for standard input
    #[arg(value_name = "FILE", default_value = "perf.data")]
    file: PathBuf,

    /// All of it, as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `pyrograph info`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let info = recording_info(open(&args.file)?).context("failed to show")?;
    let mut out = standard_output();
    let write = if args.json { info_json } else { info_text };
    write(&info, &mut out)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
