//! `pyrograph sched timehist`: a line for each context switch.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use pyrograph_analyze::Timehist;
use pyrograph_render::{
    TimehistLook, TimehistStyle, TimehistWriter, write_sched_summary, write_sched_waits,
};

use super::source::SourceArgs;
use crate::ending;

/// Show each switch: what the task that left its CPU had waited for, and how long it ran
///
/// Wait time is the time without a CPU; sch delay the part of it after the task was woken; run time the time on the
/// CPU. A dash stands for what is not known: the events before are missing.
#[derive(clap::Args)]
pub struct TimehistArgs {
    /// Lines for tasks that are moved to other CPUs
    #[arg(short = 'M', long)]
    migrations: bool,

    /// A column for each CPU, with a mark where the event was: s for a switch, i for one from idle, m for a migration
    #[arg(short = 'V', long)]
    cpu_visual: bool,

    /// Lines for tasks that wake others
    #[arg(short, long)]
    wakeups: bool,

    /// The task that runs next
    #[arg(short, long)]
    next: bool,

    /// The stack of the task that left its CPU; of a file, where stacks were recorded
    #[arg(short = 'g', long)]
    call_graph: bool,

    /// Only times in which CPUs were idle; with -g, the stack of the task that left the CPU before
    #[arg(short = 'I', long)]
    idle_hist: bool,

    /// The longest stack to show, in frames
    #[arg(long, value_name = "N", default_value = "5")]
    max_stack: usize,

    /// The state in which a task left its CPU; in the summary, what it waited for
    #[arg(long)]
    state: bool,

    /// The sums of each task alone
    #[arg(short, long, conflicts_with_all = ["json", "csv"])]
    summary: bool,

    /// The sums of each task after the lines
    #[arg(short = 'S', long, conflicts_with_all = ["json", "csv"])]
    with_summary: bool,

    /// An object of JSON a line
    #[arg(long, conflicts_with = "csv")]
    json: bool,

    /// Comma-separated values
    #[arg(long)]
    csv: bool,

    /// Where to write [default: standard output; text where a command runs, standard error]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    source: SourceArgs,
}

/// Runs `pyrograph sched timehist`.
///
/// # Errors
///
/// If the input cannot be read, or the history cannot be written.
pub fn run(mut args: TimehistArgs) -> anyhow::Result<ExitCode> {
    ending::set_flag(
        args.output.as_deref(),
        &mut [("json", &mut args.json), ("csv", &mut args.csv)],
    )?;
    let mut source = args.source.open()?;
    let look = TimehistLook {
        style: match (args.json, args.csv) {
            (true, _) => TimehistStyle::Json,
            (_, true) => TimehistStyle::Csv,
            _ => TimehistStyle::Text,
        },
        cpus: if args.cpu_visual { source.cpus() } else { 0 },
        wakeups: args.wakeups,
        migrations: args.migrations,
        next: args.next,
        state: args.state,
        frames: if args.call_graph { args.max_stack } else { 0 },
        idle: args.idle_hist,
    };
    let destination = source.destination(args.output.as_deref(), look.style == TimehistStyle::Text);
    destination.check()?;
    let mut out = destination.open()?;
    let mut history = Timehist::default();
    let end = {
        let mut nothing = io::sink();
        let lines: &mut dyn Write = if args.summary { &mut nothing } else { &mut out };
        let mut writer = TimehistWriter::new(look, lines)?;
        source.each(args.call_graph, &mut |tasks, filter, event| {
            let Some(event) = event else { return Ok(writer.flush()?) };
            if let Some(row) = history.push(tasks, filter, &event)
                && !args.summary
            {
                writer.row(tasks, &row)?;
            }
            Ok(())
        })?
    };
    if args.summary || args.with_summary {
        let write = if args.state { write_sched_waits } else { write_sched_summary };
        write(history.summary(), &end.tasks, &mut out)?;
    }
    out.flush()?;
    end.say_missing(history.missing());
    Ok(end.exit_code)
}
