//! `pyrograph sched script`: prints scheduler events one by one.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use pyrograph_analyze::SchedTrack;
use pyrograph_profile::SchedAction;
use pyrograph_render::{SchedScriptStyle, write_sched_event};

use super::source::SourceArgs;
use crate::ending;
use crate::say::misuse;

/// Print the scheduler's events one by one, as perf script does
///
/// The text can be read again: `pyrograph sched script | pyrograph sched -i -`.
#[derive(clap::Args)]
pub struct ScriptArgs {
    /// The stack below each event, where stacks were recorded
    #[arg(short = 'g', long)]
    call_graph: bool,

    /// An object of JSON a line
    #[arg(long)]
    json: bool,

    /// Where to write [default: standard output; text where a command runs, standard error]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    source: SourceArgs,
}

/// Runs `pyrograph sched script`.
///
/// # Errors
///
/// If the input cannot be read, or the events cannot be written.
pub fn run(mut args: ScriptArgs) -> anyhow::Result<ExitCode> {
    ending::set_flag(args.output.as_deref(), &mut [("json", &mut args.json)])?;
    let mut source = args.source.open()?;
    if args.call_graph && !source.is_file() {
        misuse!(
            "no stacks are taken of what runs: perf sched record -g takes them, and -i reads its file"
        );
    }
    let style = if args.json { SchedScriptStyle::Json } else { SchedScriptStyle::Text };
    let destination = source.destination(args.output.as_deref(), !args.json);
    destination.check()?;
    let mut out = destination.open()?;
    let mut track = SchedTrack::default();
    let end = source.each(args.call_graph, &mut |tasks, filter, event| {
        let Some(event) = event else { return Ok(out.flush()?) };
        let on_cpu = track.on(event.cpu).map(|arrival| arrival.task);
        let (current, others) = match event.action {
            SchedAction::Switch { previous, next, .. } => (previous, Some(next)),
            SchedAction::Wakeup { task, waker, .. } => (waker, Some(task)),
            SchedAction::Fork { parent, child } => (parent, Some(child)),
            SchedAction::Migrate { task, .. } => (on_cpu.unwrap_or_default(), Some(task)),
            SchedAction::Runtime { task, .. }
            | SchedAction::Rename { task, .. }
            | SchedAction::Exit { task } => (task, None),
            SchedAction::Idle { .. } | SchedAction::Frequency { .. } => {
                (on_cpu.unwrap_or_default(), None)
            }
        };
        track.event(&event);
        let is_kept = filter.keeps_time(event.time)
            && filter.keeps_cpu(event.cpu)
            && [Some(current), others].iter().flatten().any(|task| filter.keeps_task(tasks, *task));
        if is_kept {
            write_sched_event(style, tasks, current, &event, &mut out)?;
        }
        Ok(())
    })?;
    out.flush()?;
    end.say_missing(track.missing());
    Ok(end.exit_code)
}
