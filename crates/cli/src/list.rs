//! `pyrograph list`: the events that can be asked for here.

use std::io::Write;
use std::process::ExitCode;

use pyrograph_recorder::{KnownEvent, known_events};
use pyrograph_render::{ListedEvent, events_json, events_text};
use pyrograph_terminal::standard_output;

use crate::say::say;

/// List the events that can be counted, sampled and traced here
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pyrograph list                      all of them
  pyrograph list faults               those with this in their name
  pyrograph list -v 'sched:*'         by a pattern; tracepoints with their fields and types")]
pub struct Args {
    /// A part of their names, or a pattern with `*` and `?`
    #[arg(default_value = "", hide_default_value = true)]
    pattern: String,

    /// Show the fields of tracepoints with their types
    #[arg(short, long)]
    verbose: bool,

    /// JSON
    #[arg(long)]
    json: bool,
}

/// Runs `pyrograph list`.
///
/// # Errors
///
/// If nobody reads it.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (events, denied) = known_events(&args.pattern);
    let is_found = !events.is_empty();
    let events: Vec<ListedEvent> = events.into_iter().map(listed).collect();
    let mut out = standard_output();
    match args.json {
        true => writeln!(out, "{:#}", events_json(&events))?,
        false => events_text(&events, args.verbose, &mut out)?,
    }
    out.flush()?;
    if let Some(denied) = denied {
        say!("tracepoints are not listed: {denied}");
    }
    if !is_found {
        say!("no event here has '{}' in its name", args.pattern);
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn listed(event: KnownEvent) -> ListedEvent {
    let KnownEvent { name, aliases, class, about, fields, refused } = event;
    let refused = refused.map(|refused| refused.to_string());
    ListedEvent { name, aliases, class: class.to_string(), about, fields, refused }
}
