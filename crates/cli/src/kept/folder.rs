//! `pyrograph store`: what is in a folder of segments, and whether it is whole.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use chrono::{DateTime, Local};
use pyrograph_store::{Directory, Entry, open};

use super::DEFAULT;
use crate::say::say_error;
use crate::streams::write_output;
use crate::units::counted;

/// Look after a folder of kept profiles
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pyrograph store ls
  pyrograph store check /srv/profiles")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// List the segments: their times, sizes and samples
    Ls(Folder),
    /// Read every segment; fails if one is not as it was written
    Check(Folder),
}

#[derive(clap::Args)]
struct Folder {
    /// The folder
    #[arg(value_name = "DIR", default_value = DEFAULT)]
    folder: PathBuf,
}

/// Runs `pyrograph store`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.verb {
        Verb::Ls(Folder { folder }) => list(&folder),
        Verb::Check(Folder { folder }) => check(&folder),
    }
}

fn list(folder: &Path) -> anyhow::Result<ExitCode> {
    let entries = Directory::open(folder)?.entries()?;
    write_output(None, |out| {
        for entry in &entries {
            writeln!(out, "{}", line(entry))?;
        }
        let bytes: u64 = entries.iter().map(|entry| entry.bytes).sum();
        writeln!(out, "{}, {:.1} MB", counted(entries.len() as u64, "segment"), bytes as f64 / 1e6)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// `2026-11-29 13:52:00  13:53:00    68.1 kB  1,140 rows`
fn line(entry: &Entry) -> String {
    let time = |time: u64| DateTime::from_timestamp_nanos(time.cast_signed()).with_timezone(&Local);
    let times = format!(
        "{}  {}",
        time(entry.from).format("%Y-%m-%d %H:%M:%S"),
        time(entry.to).format("%H:%M:%S")
    );
    let what = match open(&entry.path) {
        Ok(segment) => counted(segment.rows(), "row"),
        Err(error) => error.to_string(),
    };
    format!("{times}  {:9.1} kB  {what}", entry.bytes as f64 / 1e3)
}

fn check(folder: &Path) -> anyhow::Result<ExitCode> {
    let entries = Directory::open(folder)?.entries()?;
    let mut bad = 0;
    for entry in &entries {
        let read = open(&entry.path).map_err(anyhow::Error::from);
        if let Err(error) = read.and_then(|segment| segment.profile().context("its columns")) {
            say_error!("{error:#}");
            bad += 1;
        }
    }
    write_output(None, |out| {
        writeln!(out, "{}, {bad} of them damaged", counted(entries.len() as u64, "segment"))
    })?;
    Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
