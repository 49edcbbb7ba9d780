//! `pyrograph sched latency`: run times of tasks, and the times that they waited for a CPU.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use pyrograph_analyze::{LatencyBy, LatencySort, LatencyTable, SchedLatency, sched_latency_table};
use pyrograph_render::{LatencyStyle, write_latency};
use pyrograph_session::SchedKey;

use super::source::SourceArgs;
use crate::ending;
use crate::units::{one_of, parse_interval};

/// Show how long each task ran, and how long it waited for a CPU when it could have run
#[derive(clap::Args)]
pub struct LatencyArgs {
    /// What to sort by, the highest first: several, of which the first counts most
    #[arg(short, long, value_name = "KEY,…", value_delimiter = ',', value_parser = one_of(SORT),
        default_value = "avg,max,switch,runtime", hide_default_value = true)]
    sort: Vec<LatencySort>,

    /// What a row is of [default: name, of --histogram total]
    #[arg(long, value_name = "WHAT", value_parser = one_of(BY))]
    by: Option<LatencyBy>,

    /// A row for each thread, as perf has it: the same as --by thread
    #[arg(long, conflicts_with = "by")]
    pids: bool,

    /// How many delays were how long, in powers of two, as bcc's runqlat has it; of all tasks together, or with --by of each.
    /// And, but for --by name and thread of what runs, how long tasks had a CPU each time, and how long none (cpudist)
    #[arg(long)]
    histogram: bool,

    /// A table each interval, of what was counted in it: seconds, or with a unit (500ms); as JSON a line each
    #[arg(short = 'I', long, value_name = "TIME", value_parser = parse_interval)]
    interval: Option<Duration>,

    /// The table with the columns and labels of perf sched latency, 143 wide
    #[arg(long, conflicts_with_all = ["json", "csv", "markdown", "histogram"])]
    perf: bool,

    /// The table as JSON
    #[arg(long, conflicts_with_all = ["csv", "markdown"])]
    json: bool,

    /// The table as CSV
    #[arg(long, conflicts_with = "markdown")]
    csv: bool,

    /// The table as Markdown
    #[arg(long, conflicts_with = "histogram")]
    markdown: bool,

    /// Where to write [default: standard output; text where a command runs, standard error]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    source: SourceArgs,
}

const SORT: [(LatencySort, &str, &str); 4] = [
    (LatencySort::Runtime, "runtime", "How long it ran"),
    (LatencySort::Switches, "switch", "How often it was given a CPU"),
    (LatencySort::Average, "avg", "The mean delay"),
    (LatencySort::Longest, "max", "The longest delay"),
];

const BY: [(LatencyBy, &str, &str); 4] = [
    (LatencyBy::Name, "name", "All threads of a name"),
    (LatencyBy::Thread, "thread", "Each thread"),
    (LatencyBy::Cpu, "cpu", "Each CPU"),
    (LatencyBy::Total, "total", "All together"),
];

/// Runs `pyrograph sched latency`.
///
/// # Errors
///
/// If the input cannot be read, or the table cannot be written.
pub fn run(mut args: LatencyArgs) -> anyhow::Result<ExitCode> {
    let LatencyArgs { output, json, csv, markdown, .. } = &mut args;
    ending::set_flag(output.as_deref(), &mut [("json", json), ("csv", csv), ("md", markdown)])?;
    let by = match (args.by, args.pids, args.histogram) {
        (Some(by), ..) => by,
        (None, true, _) => LatencyBy::Thread,
        (None, false, true) => LatencyBy::Total,
        (None, false, false) => LatencyBy::Name,
    };
    let style = match &args {
        LatencyArgs { json: true, .. } => LatencyStyle::Json,
        LatencyArgs { csv: true, .. } => LatencyStyle::Csv,
        LatencyArgs { markdown: true, .. } => LatencyStyle::Markdown,
        LatencyArgs { histogram: true, .. } => LatencyStyle::Histogram,
        LatencyArgs { perf: true, .. } => LatencyStyle::Perf,
        _ => LatencyStyle::Text,
    };
    let key = match by {
        LatencyBy::Name | LatencyBy::Thread => SchedKey::Task,
        LatencyBy::Cpu => SchedKey::Cpu,
        LatencyBy::Total => SchedKey::Total,
    };
    let mut source = args.source.open()?;
    let is_for_terminal = style.is_text() && style != LatencyStyle::Markdown;
    let destination = source.destination(args.output.as_deref(), is_for_terminal);
    destination.check()?;
    let mut out = args.interval.map(|_| destination.open()).transpose()?;
    let counted = source.counts(key, args.interval, &mut |interval, counts| {
        let Some(out) = &mut out else { return Ok(()) };
        let table = sched_latency_table(counts, by, &args.sort);
        write_latency(style, &LatencyTable { interval: Some(interval), ..table }, out)?;
        Ok(out.flush()?)
    })?;
    let (counts, exit_code) = match counted {
        Ok((_, exit_code)) if args.interval.is_some() => return Ok(exit_code),
        Ok(counts) => counts,
        Err(source) => {
            let mut latency = SchedLatency::new(by == LatencyBy::Cpu);
            let end = source.each(false, &mut |tasks, filter, event| {
                event.iter().for_each(|event| latency.push(tasks, filter, event));
                Ok(())
            })?;
            latency.finish(&end.tasks, &end.filter);
            end.say_missing(latency.missing());
            (latency.counts(&end.tasks), end.exit_code)
        }
    };
    let table = sched_latency_table(&counts, by, &args.sort);
    destination.write(|out| write_latency(style, &table, out))?;
    Ok(exit_code)
}
