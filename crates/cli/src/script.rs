//! `pyrograph script`: prints the events of an input one by one.

mod records;
pub mod times;

use std::ops::{ControlFlow, RangeInclusive};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use pyrograph_format::{EventInput, Options, Reader, SymbolOptions, Warnings};
use pyrograph_profile::{EventFilter, EventKind, EventRecord};
use pyrograph_render::{ScriptField, ScriptFields, ScriptOptions, ScriptTimes, ScriptWriter};
use pyrograph_terminal::standard_output;

use self::records::{RecordArgs, missing};
use self::times::Times;
use crate::ending;
use crate::filters::cpus;
use crate::reading::{format, limit_memory};
use crate::say::say;
use crate::streams::{event_inputs, write_output};
use crate::symbols::SymbolArgs;
use crate::units::parse_size;

/// Print the events of a recording one by one, as `perf script` does
///
/// One line an event, and below it its stack, in the layout of perf, which many scripts read. Inputs
/// are perf.data and other formats that hold samples with their times.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pyrograph script                                  of perf.data
  pyrograph script -F comm,tid,time,event,trace     some fields; +srcline adds one, -dso leaves one out
  pyrograph script --time 10%-20% --comm cc1 a.data
  pyrograph script --json | jq .comm
  pyrograph script | stackcollapse-perf.pl")]
pub struct Args {
    /// The input, `-` for standard input [default: perf.data, or standard input where that is a pipe]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// The same, as perf has it
    #[arg(short, long, value_name = "FILE", conflicts_with = "file")]
    input: Option<PathBuf>,

    /// Where to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// The fields to print, of comm, tid, pid, time, cpu, event, trace, ip, sym, symoff, dso, srcline, addr,
    /// period, weight, data_src, phys_addr, iregs, uregs, brstack, data_page_size, code_page_size. `+FIELD` adds one to the usual fields, `-FIELD` leaves one out,
    /// and `trace:…`, `sw:…`, `hw:…` before a list are for these events alone
    #[arg(short = 'F', long, value_name = "FIELD,…", allow_hyphen_values = true)]
    fields: Vec<String>,

    /// An object of JSON a line
    #[arg(long)]
    json: bool,

    /// Leave out stacks
    #[arg(short = 'G', long)]
    hide_call_graph: bool,

    /// Print times with nanoseconds
    #[arg(long)]
    ns: bool,

    /// Print times since the first event that is printed
    #[arg(long, conflicts_with_all = ["deltatime", "json"])]
    reltime: bool,

    /// Print times since the event before
    #[arg(long, conflicts_with = "json")]
    deltatime: bool,

    /// Print the whole paths of source files
    #[arg(long)]
    full_source_path: bool,

    /// The format of the input [default: by its content]; `pyrograph formats` lists them
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    from: Option<&'static dyn Reader>,

    /// Print these events, by their names with or without modifiers; `*` stands for any part of a name
    #[arg(long, value_name = "EVENT,…", value_delimiter = ',', help_heading = "Filters")]
    event_filter: Vec<String>,

    /// Print events of these processes
    #[arg(long, value_name = "PID,…", value_delimiter = ',', help_heading = "Filters")]
    pid: Vec<i32>,

    /// Print events of these threads
    #[arg(long, value_name = "TID,…", value_delimiter = ',', help_heading = "Filters")]
    tid: Vec<i32>,

    /// Print events of threads of these names
    #[arg(
        short,
        long,
        alias = "comms",
        value_name = "NAME,…",
        value_delimiter = ',',
        help_heading = "Filters"
    )]
    comm: Vec<String>,

    /// Print events on these CPUs: 0,4-7
    #[arg(short = 'C', long, value_name = "CPU,…", value_delimiter = ',', value_parser = cpus,
        help_heading = "Filters")]
    cpu: Vec<RangeInclusive<u32>>,

    /// Print events of this time: seconds on the recording's clock (START,STOP; each may be missing), parts of
    /// the whole (10%-20%; 10%/2 is the second such part), or, as other verbs have it, seconds from the first event
    /// (0.5..1.5)
    #[arg(long, value_name = "TIME", help_heading = "Filters")]
    time: Option<Times>,

    /// Memory that reading may take: bytes, or with K, M, G [default: three quarters of what is free]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_memory: Option<usize>,

    #[command(flatten)]
    records: RecordArgs,

    #[command(flatten)]
    symbols: SymbolArgs,
}

/// Runs `pyrograph script`.
///
/// # Errors
///
/// If the input cannot be read, or standard output is closed.
pub fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    ending::set_flag(args.output.as_deref(), &mut [("json", &mut args.json)])?;
    limit_memory(args.max_memory);
    let mut fields = ScriptFields::default();
    args.fields.iter().try_for_each(|typed| fields.add(typed)).map_err(misuse)?;
    if args.hide_call_graph {
        fields.add("-ip,-sym,-symoff,-dso,-srcline").map_err(misuse)?;
    }
    let file = args.input.as_ref().or(args.file.as_ref());
    let mut inputs = event_inputs(file.map(std::slice::from_ref).unwrap_or_default())?;
    let Some(input) = inputs.pop() else { bail!("failed to read: no input") };
    let lines = args.fields.iter().any(|typed| typed.contains("srcline"));
    let options = Options {
        from: args.from,
        symbols: SymbolOptions { lines, ..args.symbols.options() },
        ..Options::default()
    };
    let events = EventInput::open(input, &options).context("failed to print events")?;
    say_all(events.warnings());
    let kinds = events.kinds();
    fields.check(kinds).map_err(misuse)?;
    let filter = filter(&args, kinds, events.time_span())?;
    let with_stacks: Vec<bool> =
        kinds.iter().map(|kind| fields.of(kind).has(ScriptField::Ip)).collect();
    let with_trace = fields.any(kinds, ScriptField::Trace);
    let wanted = filter.records.clone();
    if !wanted.is_empty() && !events.has_records() {
        say!("the input holds samples alone: --show-… prints nothing; perf.data has such records");
    }
    let chosen = events.choose(filter, &with_stacks);
    let options = ScriptOptions {
        nanoseconds: args.ns,
        times: match (args.reltime, args.deltatime) {
            (true, _) => ScriptTimes::SinceFirst,
            (_, true) => ScriptTimes::SinceLast,
            _ => ScriptTimes::Clock,
        },
        full_paths: args.full_source_path,
        json: args.json,
    };
    let mut warnings = Warnings::default();
    let mut printed = Vec::new();
    let print = |out: &mut dyn std::io::Write| {
        let mut writer = ScriptWriter::new(out, kinds, &fields, chosen.locations(), options);
        let mut failed = Ok(());
        warnings = chosen.each(with_trace, &mut |event| {
            if let Some(group) = event.record.map(EventRecord::group)
                && !printed.contains(&group)
            {
                printed.push(group);
            }
            match writer.event(event) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Err(error);
                    ControlFlow::Break(())
                }
            }
        });
        failed.and_then(|()| writer.finish())
    };
    match args.output.as_deref() {
        Some(path) if path != Path::new("-") => write_output(Some(path), print)?,
        _ => {
            let mut print = print;
            print(&mut standard_output())?;
        }
    }
    say_all(&warnings);
    if events.has_records() {
        missing(&wanted, &printed).iter().for_each(|line| say!("{line}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn misuse(error: pyrograph_render::FieldError) -> anyhow::Error {
    crate::say::Usage(format!("failed to {error}")).into()
}

fn say_all(warnings: &Warnings) {
    for (_, line) in warnings.lines() {
        say!("{line}");
    }
}

fn filter(
    args: &Args,
    kinds: &[EventKind],
    span: Option<(u64, u64)>,
) -> anyhow::Result<EventFilter> {
    let mut filter = EventFilter {
        pids: args.pid.clone(),
        tids: args.tid.clone(),
        comms: args.comm.clone(),
        cpus: args.cpu.clone(),
        records: args.records.groups(),
        ..EventFilter::default()
    };
    for wanted in &args.event_filter {
        let found: Vec<usize> =
            (0..kinds.len()).filter(|&kind| is_called(&kinds[kind].name, wanted)).collect();
        if found.is_empty() {
            let known = kinds.iter().map(|kind| &kind.name[..]).collect::<Vec<_>>().join(", ");
            bail!("failed to find event {wanted}; the input has {known}");
        }
        filter.kinds.extend(found);
    }
    if let Some(times) = &args.time {
        let Some(span) = span else { bail!("failed to choose by --time: no event has a time") };
        filter.times = times.ranges(span);
    }
    Ok(filter)
}

/// Returns true if an event has this name, with or without modifiers.
fn is_called(name: &str, wanted: &str) -> bool {
    let rest = |wanted: &str| name.strip_prefix(wanted).map(str::to_owned);
    match wanted.split_once('*') {
        None => rest(wanted).is_some_and(|rest| {
            rest.is_empty()
                || rest.starts_with(':') && !wanted.contains(':')
                || rest.starts_with('/')
        }),
        Some((before, after)) => rest(before).is_some_and(|rest| {
            let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
            ends.any(|at| match after.contains('*') {
                true => is_called(&rest[at..], after),
                false => rest[at..] == *after,
            })
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_events() {
        for (name, wanted, expect) in [
            ("cycles:ppp", "cycles", true),
            ("cycles:ppp", "cycles:p", false),
            ("cpu/cycles/", "cpu", true),
            ("sched:sched_switch", "sched:sched_switch", true),
            ("sched:sched_switch", "sched:sched_sw", false),
            ("sched:sched_switch", "sched:*", true),
            ("sched:sched_switch", "*switch", true),
            ("sched:sched_switch", "*:*_switch", true),
            ("sched:sched_switch", "*:*_wakeup", false),
            ("sched:sched_switch", "*", true),
        ] {
            assert_eq!(is_called(name, wanted), expect, "{name} {wanted}");
        }
    }
}
