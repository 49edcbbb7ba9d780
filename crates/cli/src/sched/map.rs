//! `pyrograph sched map`: the tasks on each CPU over time, as letters.

use std::io::{IsTerminal, Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use pyrograph_analyze::SchedMap;
use pyrograph_render::{MapLook, write_map_line};
use pyrograph_session::Cpus;

use super::source::SourceArgs;
use crate::ending;

/// Show which task each CPU had over time, as letters: a line for each switch
///
/// A star marks the CPU that has another task, a dot stands for an idle one.
#[derive(clap::Args)]
pub struct MapArgs {
    /// Only CPUs on which something happened have a column
    #[arg(long)]
    compact: bool,

    /// Only these CPUs: 0-3,8
    #[arg(long, value_name = "CPUS", conflicts_with = "cpu")]
    cpus: Option<Cpus>,

    /// Let these CPUs stand out
    #[arg(long, value_name = "CPUS")]
    color_cpus: Option<Cpus>,

    /// Let these threads stand out
    #[arg(long, value_name = "TID,…", value_delimiter = ',')]
    color_pids: Vec<i32>,

    /// Where to write [default: standard output; text where a command runs, standard error]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    source: SourceArgs,
}

/// Runs `pyrograph sched map`.
///
/// # Errors
///
/// If the input cannot be read, or the map cannot be written.
pub fn run(args: MapArgs) -> anyhow::Result<ExitCode> {
    ending::check(args.output.as_deref(), &["txt"])?;
    let mut source = args.source.open()?;
    if let Some(cpus) = args.cpus {
        source.choose_cpus(cpus);
    }
    let to_terminal = args.output.is_none() && stdout().is_terminal();
    let look = MapLook {
        colors: to_terminal,
        compact: args.compact,
        cpus: source.cpus() as usize,
        color_cpus: args.color_cpus.map(|cpus| cpus.0).unwrap_or_default(),
        color_tids: args.color_pids,
    };
    let destination = source.destination(args.output.as_deref(), true);
    destination.check()?;
    // Does not filter control characters: colours must reach the terminal, and names were made safe when the lines were
    // built.
    let mut out: Box<dyn Write> = match to_terminal {
        true => Box::new(std::io::BufWriter::new(stdout())),
        false => destination.open()?,
    };
    let mut map = SchedMap::default();
    let mut line_of = |tasks: &_, filter: &_, event: &_, out: &mut dyn Write| {
        let Some(line) = map.push(tasks, filter, event) else { return Ok(()) };
        write_map_line(&look, &line, tasks, out)
    };
    let end = source.each(false, &mut |tasks, filter, event| match event {
        Some(event) => Ok(line_of(tasks, filter, &event, &mut out)?),
        None => Ok(out.flush()?),
    })?;
    out.flush()?;
    end.say_missing(map.missing());
    Ok(end.exit_code)
}
