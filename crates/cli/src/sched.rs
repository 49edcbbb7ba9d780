//! `pyrograph sched`: shows why threads do not run.

mod chart;
mod latency;
mod live;
mod map;
pub mod perfetto;
mod script;
mod source;
mod timehist;

use std::process::ExitCode;

/// Show what the scheduler did: who ran, who waited for a CPU, and for how long
///
/// Without a view, the latencies of tasks. Of a command, processes or the machine, or of the perf.data of `perf sched record`.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  pyrograph sched -- make -j4                  how long each task of a command ran, and waited for a CPU
  pyrograph sched -a -d 10                     the same of the machine, counted in the kernel
  pyrograph sched perf.data                    how long each task ran, and waited for a CPU
  pyrograph sched latency -s max --histogram   sorted by the longest delay; how many delays were how long
  pyrograph sched timehist -MVwn -p 1234       a line for each switch
  pyrograph sched map                          the CPUs over time as letters
  pyrograph sched script                       the events
  pyrograph sched chart -o chart.html          CPUs and threads over time as a page"
)]
pub struct Args {
    #[command(subcommand)]
    view: Option<View>,

    #[command(flatten)]
    latency: latency::LatencyArgs,
}

#[derive(clap::Subcommand)]
enum View {
    Latency(Box<latency::LatencyArgs>),
    Timehist(Box<timehist::TimehistArgs>),
    Map(Box<map::MapArgs>),
    Script(Box<script::ScriptArgs>),
    Chart(Box<chart::ChartArgs>),
}

/// Runs `pyrograph sched`.
///
/// # Errors
///
/// If the input cannot be read, or the result cannot be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.view {
        None => latency::run(args.latency),
        Some(View::Latency(args)) => latency::run(*args),
        Some(View::Timehist(args)) => timehist::run(*args),
        Some(View::Map(args)) => map::run(*args),
        Some(View::Script(args)) => script::run(*args),
        Some(View::Chart(args)) => chart::run(*args),
    }
}
