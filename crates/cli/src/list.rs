//! `pyrograph list`: lists the events that are available on this machine.

mod source;

use std::path::PathBuf;
use std::process::ExitCode;

use pyrograph_render::{ListedEvent, events_json, events_text, functions_json, functions_text};
use pyrograph_session::{
    Error, EventClass, KnownEvent, known_events, known_places, known_probes_of, source_functions,
};

use crate::ending;
use crate::say::say;
use crate::streams::write_output;
use crate::units::{counted, parse_id};

/// List the events that can be counted, sampled and traced here
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pyrograph list                      all of them
  pyrograph list faults               those with this in their name
  pyrograph list -v 'sched:*'         by a pattern; tracepoints with their fields and types
  pyrograph list usdt:FILE            the probes that are compiled into a program or library
  pyrograph list 'uprobe:FILE:mal*'   its functions
  pyrograph list uprobe:FILE:malloc   the lines of a function, and where it is inlined; needs debug information
  pyrograph list uprobe:FILE:main:42  the variables at a line
  pyrograph list 'kprobe:vfs_*'       functions of the kernel")]
pub struct Args {
    /// A part of their names, or a pattern with `*` and `?`; a class: hw, sw, cache, pmu, tracepoint; usdt:FILE or
    /// uprobe:FILE, with :PATTERN behind it; uprobe:FILE:FUNCTION, uprobe:FILE:FUNCTION:LINE, uprobe:FILE:@SOURCE:LINE;
    /// kprobe:PATTERN
    #[arg(default_value = "", hide_default_value = true)]
    pattern: String,

    /// The probes of all files that a process has mapped
    #[arg(short, long, value_name = "PID", conflicts_with = "pattern",
        value_parser = parse_id)]
    pid: Option<i32>,

    /// Show the fields of tracepoints with their types
    #[arg(short, long)]
    verbose: bool,

    /// JSON
    #[arg(long)]
    json: bool,

    /// Where to write; the ending .json chooses the format [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs `pyrograph list`.
///
/// # Errors
///
/// If an event or process is not found, or standard output is closed.
pub fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    ending::set_flag(args.output.as_deref(), &mut [("json", &mut args.json)])?;
    if args.pid.is_none()
        && let Some(functions) = source_functions(&args.pattern)
    {
        let functions = source::listed(functions.map_err(Error::Place)?);
        write_output(args.output.as_deref(), |out| match args.json {
            true => writeln!(out, "{:#}", functions_json(&functions)),
            false => functions_text(&functions, out),
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut missing = Vec::new();
    let (events, denied) = match (args.pid, known_places(&args.pattern)) {
        (Some(pid), _) => {
            let probes;
            (probes, missing) = known_probes_of(pid)?;
            (probes, None)
        }
        (None, Some(places)) => (places.map_err(Error::Place)?, None),
        (None, None) => match class(&args.pattern) {
            Some(is_of_class) => {
                let (mut events, denied) = known_events("");
                events.retain(|event| is_of_class(&event.class));
                (events, denied.filter(|_| args.pattern == "tracepoint"))
            }
            None => known_events(&args.pattern),
        },
    };
    let is_found = !events.is_empty();
    let events: Vec<ListedEvent> = events.into_iter().map(listed).collect();
    write_output(args.output.as_deref(), |out| match args.json {
        true => writeln!(out, "{:#}", events_json(&events)),
        false => events_text(&events, args.verbose, out),
    })?;
    if let Some(path) = missing.first() {
        let files = counted(missing.len() as u64, "mapped file");
        say!(
            "{files} of the process cannot be found, and probes of these are not listed: {}",
            path.display()
        );
    }
    if let Some(denied) = denied {
        say!("tracepoints are not listed: {denied}");
    }
    if !is_found {
        match args.pid {
            Some(pid) => say!("the files of process {pid} have no probes (USDT)"),
            None if args.pattern == "sdt" => {
                say!(
                    "probes of programs are listed by file, `pyrograph list usdt:FILE`, or by process, -p PID"
                );
            }
            None => say!("nothing here matches '{}'", args.pattern),
        }
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// The class of events that `perf list` calls so.
fn class(word: &str) -> Option<fn(&EventClass) -> bool> {
    Some(match word {
        "hw" | "hardware" => |class| matches!(class, EventClass::Hardware),
        "sw" | "software" => |class| matches!(class, EventClass::Software),
        "cache" | "hwcache" => |class| matches!(class, EventClass::Cache),
        "pmu" => |class| matches!(class, EventClass::Pmu(_)),
        "tracepoint" => |class| matches!(class, EventClass::Tracepoint(_)),
        _ => return None,
    })
}

fn listed(event: KnownEvent) -> ListedEvent {
    let KnownEvent { name, aliases, class, about, fields, refused } = event;
    let refused = refused.map(|refused| refused.to_string());
    ListedEvent { name, aliases, class: class.to_string(), about, fields, refused }
}
