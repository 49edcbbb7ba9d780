//! `pyrograph query`: kept samples of a time, as a report or a file.

use std::ffi::OsString;
use std::path::PathBuf;

use super::{DEFAULT, PREFIX};

/// Show what was kept of a time: a report, or a file
///
/// Same as `report` and `convert` of `store:DIR@TIME?service=NAME`, which every verb reads.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pyrograph query --last 1h
  pyrograph query --time 03:10..03:15 --service 'check*' -o incident.svg
  pyrograph flamegraph 'store:/srv/profiles@-1h..?service=checkout' > checkout.svg")]
pub struct Args {
    /// The folder
    #[arg(long, value_name = "DIR", default_value = DEFAULT)]
    store: PathBuf,

    /// The last minutes, hours or days: 30m, 1h, 2d
    #[arg(long, value_name = "AGE", conflicts_with = "time")]
    last: Option<String>,

    /// From when to when, each a time or an age: 03:10..03:15, 2026-11-22T03:10.., -2h..-1h [default: all]
    #[arg(long, value_name = "A..B", allow_hyphen_values = true)]
    time: Option<String>,

    /// Services: systemd units, containers, or names of processes, also by a pattern
    #[arg(long, value_name = "NAME")]
    service: Option<String>,

    /// Machines, also by a pattern
    #[arg(long, value_name = "NAME")]
    host: Option<String>,

    /// Where to write: .svg, .html, .folded, .pb.gz … [default: a report on standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The command line of the verb that does it.
pub fn arguments(args: Args) -> Vec<OsString> {
    let mut input = OsString::from(PREFIX);
    input.push(args.store);
    let time = args.last.map(|age| format!("-{age}..")).or(args.time);
    if let Some(time) = time {
        input.push(format!("@{time}"));
    }
    let pairs = [("service", args.service), ("host", args.host)];
    let pairs = pairs.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?)));
    let pairs: Vec<String> = pairs.collect();
    if !pairs.is_empty() {
        input.push(format!("?{}", pairs.join("&")));
    }
    let mut line = vec![OsString::from("pyrograph")];
    match args.output {
        Some(output) => {
            line.extend(["convert".into(), "-o".into(), output.into_os_string(), input])
        }
        None => line.extend(["report".into(), input]),
    }
    line
}
