//! `pyrograph heatmap`: draws numbers over time, latencies, or times of samples as an interactive SVG.

mod field;
mod latency;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Arg, ArgGroup, Args as _, Command};
use pyrograph_analyze::{
    EventName, HeatMapOptions, KeyField, Pairing, Percentiles, heat_map, offsets,
};
use pyrograph_export::{Output, Picture};
use pyrograph_format::{Detail, Head, Input, Options, ThreadDetail, TimeUnit, read_points};
use pyrograph_profile::LabelOptions;
use pyrograph_render::{HEX, HeatMapLook, heat_map_svg};

use crate::ending;
use crate::found;
use crate::reading::ReadArgs;
use crate::say::say;
use crate::streams::{event_inputs, inputs, say_wrote, write_picture};
use crate::units::{above_zero, counted};

/// Heading of the flags for pairs of events.
const EVENTS: &str = "Events";

/// Draw numbers over time, as latencies, as an interactive heat map
///
/// An input is text with a time and a value on each line; with --begin and --end, a trace of events
/// (perf.data, or the text of perf script); with --offsets, any profile whose samples have times. The options have the names and meanings
/// that heat map users know; `-title X`, `--title=X` and any beginning of a name that is not
/// ambiguous are taken too.
#[derive(clap::Args)]
#[command(
    args_override_self = true,
    after_help = "\
Examples:
  pyrograph heatmap --unitstime us --unitslabel us trace.txt > heatmap.svg
  pyrograph heatmap --log --unitslabel us trace.txt -o heatmap.svg
  pyrograph heatmap --begin block:block_rq_issue --end block:block_rq_complete perf.data > disk.svg
  pyrograph heatmap --begin syscalls:sys_enter_read --end syscalls:sys_exit_read trace.txt > read.svg
  pyrograph heatmap --begin sched:sched_wakeup --end sched:sched_switch perf.data > wait-for-cpu.svg
  pyrograph heatmap --field len trace.txt > len.svg        of what trace -e 'uprobe:./app:read len' has printed
  pyrograph heatmap --offsets perf.data -o offsets.html    drag in it to see flame graphs"
)]
pub struct Args {
    /// Inputs, `-` for standard input; plain or .gz or .zst [default: standard input; on a terminal the last
    /// recording in the current folder: flamegraph.pb.gz or perf.data]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Where to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Events that begin something, whose latency is drawn: `group:name`, `name`, or `name*`
    #[arg(long, value_name = "EVENT,…", value_delimiter = ',', requires = "end", help_heading = EVENTS)]
    begin: Vec<EventName>,

    /// Events that end it
    #[arg(long, value_name = "EVENT,…", value_delimiter = ',', requires = "begin", help_heading = EVENTS)]
    end: Vec<EventName>,

    /// The fields that pair them, as dev,sector; pid=next_pid where they are called
    /// differently in events that begin and that end; also tid, pid, cpu, comm of the event
    /// [default: dev,sector for block I/O, pid=next_pid up to sched_switch, tid,id for raw system
    /// calls, else tid]
    #[arg(long, value_name = "FIELD,…", value_delimiter = ',', requires = "begin", help_heading = EVENTS)]
    key: Vec<KeyField>,

    /// Draw a field of events over time: ret, bytes, a variable at a probe, duration; of perf.data, the text of perf script,
    /// and what trace and strace print
    #[arg(long, value_name = "FIELD", conflicts_with_all = ["begin", "offsets"], help_heading = EVENTS)]
    field: Option<String>,

    /// With --field: only of these events [default: all that have it]
    #[arg(long, value_name = "EVENT,…", value_delimiter = ',', requires = "field", help_heading = EVENTS)]
    event: Vec<EventName>,

    /// When within a second samples of a profile were taken: seconds to the right, the offset upwards
    #[arg(long, help_heading = "Samples",
        conflicts_with_all = ["begin", "unitstime", "unitslabel", "minlat", "maxlat", "steplat", "log"])]
    offsets: bool,

    /// The unit of times: s, ms, us or ns
    #[arg(long, value_name = "UNIT", default_value = "s", help_heading = "Grid")]
    unitstime: TimeUnit,

    /// The unit of values; times (ns, us, ms, s) are shown in the unit that fits
    #[arg(long, value_name = "TEXT", help_heading = "Grid")]
    unitslabel: Option<String>,

    /// Leave out lower values, and say how many
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true, value_parser = finite, help_heading = "Grid")]
    minlat: Option<f64>,

    /// Leave out higher values, and say how many
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true, value_parser = finite, help_heading = "Grid")]
    maxlat: Option<f64>,

    /// How many rows [default: up to 50 of a round height]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Grid")]
    rows: Option<u32>,

    /// The height of a row, in place of their number
    #[arg(long, value_name = "VALUE", value_parser = above_zero, help_heading = "Grid",
        conflicts_with_all = ["rows", "log"])]
    steplat: Option<f64>,

    /// The seconds of a column [default: a round number that makes up to 120 columns]
    #[arg(long, value_name = "SECONDS", value_parser = above_zero, help_heading = "Grid")]
    stepsec: Option<f64>,

    /// Leave out what is right of so many columns, and say how much
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Grid")]
    maxcol: Option<u32>,

    /// Rows of equal ratio, for values that differ by powers of ten
    #[arg(long, help_heading = "Grid")]
    log: bool,

    /// Percentiles to follow over time; `none` for none [default: 50,90,99; of addresses none]
    #[arg(long, value_name = "PERCENT,…", help_heading = "Grid")]
    percentiles: Option<Percentiles>,

    /// The heading
    #[arg(long, value_name = "TEXT", help_heading = "Look")]
    title: Option<String>,

    /// A second line below the heading [default: for events, what they are]
    #[arg(long, value_name = "TEXT", help_heading = "Look")]
    subtitle: Option<String>,

    /// The width and height of a cell in pixels [default: by the window]
    #[arg(long, value_name = "PX", value_parser = above_zero, help_heading = "Look")]
    boxsize: Option<f64>,

    /// The font size in pixels
    #[arg(long, value_name = "PX", default_value_t = 12.0, value_parser = above_zero, help_heading = "Look")]
    fontsize: f64,

    /// The font family [default: the reader's interface font]
    #[arg(long, value_name = "FONT", help_heading = "Look")]
    fonttype: Option<String>,

    /// Draw grid lines
    #[arg(long, help_heading = "Look")]
    grid: bool,

    /// Show for each cell how many points of its column lie in it and below
    #[arg(long, help_heading = "Look")]
    accstats: bool,

    /// Without XML prolog and script: a still picture with tooltips, to paste into any page
    #[arg(long, help_heading = "Look")]
    embed: bool,

    #[command(flatten)]
    reading: ReadArgs,
}

/// Makes the options for reading profiles require `--offsets`, because two columns of text have no profile. Those that
/// select by thread, CPU and time also work with `--begin`.
pub fn with_requirements(command: Command) -> Command {
    const OF_EVENTS: [&str; 6] = ["pid", "tid", "comm", "cpu", "time", "max_memory"];
    const HAS_EVENTS: &str = "has_events";
    let group = ArgGroup::new(HAS_EVENTS).args(["offsets", "begin", "field"]).multiple(true);
    let reading = ReadArgs::augment_args(Command::new("reading"));
    reading.get_arguments().map(Arg::get_id).fold(command.group(group), |command, name| {
        let wanted = if OF_EVENTS.contains(&name.as_str()) { HAS_EVENTS } else { "offsets" };
        command.mut_arg(name, |argument| argument.requires(wanted))
    })
}

/// Maximum number of cells for zooming in: more would make the file too large (this many take up to 80 KB).
const FINE_CELLS: usize = 20_000;

/// Runs `pyrograph heatmap`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    ending::check(args.output.as_deref(), &["svg", "png", "html", "htm"])?;
    let page = ending::is_page(args.output.as_deref());
    let has_events = !args.begin.is_empty() || args.field.is_some();
    if args.offsets || !has_events && are_profiles(&args.files) {
        return draw_offsets(&args, page);
    }
    if page {
        bail!("a page is written with --offsets only: give a name that ends in .svg");
    }
    let (times, values, default) = match &args.field {
        Some(field) => field_points(&args, field)?,
        None if args.begin.is_empty() => points(&args)?,
        None => latencies(&args)?,
    };
    let mut options = map_options(&args);
    if default.unit == HEX && args.unitslabel.is_none() && !options.log {
        field::set_rows_of_addresses(&mut options, &values);
        if args.percentiles.is_none() {
            options.percentiles.clear();
        }
    }
    let map = heat_map(&times, &values, &options)?;
    let look = look(&args, default);
    write_picture(args.output.as_deref(), |out| heat_map_svg(&map, &look, out))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns true if the inputs are files with profiles, not with text: only the times of their samples can be drawn.
fn are_profiles(files: &[PathBuf]) -> bool {
    let is_binary = |path: &PathBuf| {
        let head = Input::open(path).and_then(Input::begin);
        head.is_ok_and(|head| head.bytes().contains(&0))
    };
    match files {
        [] => matches!(found::profile(), Ok(Some(_))),
        files => files.iter().all(is_binary),
    }
}

/// Reads points from text with two columns, and the default look of their heat map.
fn points(args: &Args) -> anyhow::Result<(Vec<f64>, Vec<f64>, HeatMapLook)> {
    let heads = heads(args)?;
    let (points, warnings) = read_points(heads, args.unitstime).map_err(|error| {
        anyhow::anyhow!(
            "failed to {error}; of a profile --offsets draws when samples were taken, of events \
             --begin and --end draw latencies, and --field FIELD draws a field"
        )
    })?;
    for (_, line) in warnings.lines() {
        say!("{line}");
    }
    // Values in another unit than time are not latencies.
    let axis = match args.unitslabel.as_deref() {
        Some(unit) if TimeUnit::named(unit).is_none() => "Value",
        _ => "Latency",
    };
    let look = HeatMapLook { axis: axis.to_owned(), ..HeatMapLook::default() };
    Ok((points.times, points.values, look))
}

/// Reads a field of events, as points.
fn field_points(args: &Args, field: &str) -> anyhow::Result<(Vec<f64>, Vec<f64>, HeatMapLook)> {
    let filter = args.reading.of_events()?;
    let points = field::read(field, &args.event, &filter, heads(args)?)?;
    let start = points.times.iter().copied().min().unwrap_or(0);
    let times = points.times.iter().map(|time| (time - start) as f64).collect();
    let unit = match points.addresses == points.values.len() {
        true => HEX,
        false if field == "duration" => "ns",
        false => "",
    };
    let names: Vec<String> = args.event.iter().map(ToString::to_string).collect();
    let look = HeatMapLook {
        title: format!("{field} over time"),
        subtitle: names.join(", "),
        axis: field.to_owned(),
        unit: unit.to_owned(),
        ..HeatMapLook::default()
    };
    Ok((times, points.values, look))
}

/// Reads latencies of pairs of events, as points.
fn latencies(args: &Args) -> anyhow::Result<(Vec<f64>, Vec<f64>, HeatMapLook)> {
    let filter = args.reading.of_events()?;
    let pairing = Pairing::new(&args.begin, &args.end, &args.key).wanted(filter);
    let (latencies, subtitle) = latency::read(&pairing, heads(args)?)?;
    // Converts values to the unit that the options use.
    let unit = args.unitslabel.as_deref().unwrap_or("us");
    let Some(nanoseconds) = TimeUnit::named(unit).map(|unit| unit.nanoseconds() as f64) else {
        bail!("latencies are times: use --unitslabel ns, us, ms or s");
    };
    let start = latencies.times.iter().copied().min().unwrap_or(0);
    let times = latencies.times.iter().map(|time| (time - start) as f64).collect();
    let values = latencies.values.iter().map(|value| *value as f64 / nanoseconds).collect();
    let look = HeatMapLook { subtitle, unit: unit.to_owned(), ..HeatMapLook::default() };
    Ok((times, values, look))
}

/// Draws the times of samples: as a picture, or as the page of `pyrograph view`, in which a time range can be selected.
fn draw_offsets(args: &Args, page: bool) -> anyhow::Result<ExitCode> {
    let threads = if page { ThreadDetail::Thread } else { ThreadDetail::default() };
    let options = Options { detail: Detail::Samples, threads, ..Options::default() };
    let (profile, _) = args.reading.read(inputs(&args.files)?, options)?;
    let column = profile.shown;
    let seconds = args.stepsec.unwrap_or(1.0);
    let period = ((seconds * 1e9).round() as u64).max(1);
    let offsets = offsets(&profile, column, period);
    if offsets.times.is_empty() {
        bail!(
            "there is nothing to draw: no sample has a time; perf.data has them, and recordings with a page: \
             pyrograph record -o x.html"
        );
    }
    if offsets.without_time > 0 {
        say!("{} without a time not drawn", counted(offsets.without_time, "sample"));
    }
    let default = HeatMapLook::of_offsets(seconds);
    if page {
        let output = Output::named(args.output.as_deref(), "html")?;
        let title = args.title.as_ref().unwrap_or(&default.title);
        let subtitle = args.subtitle.clone();
        let picture = Picture { subtitle, second: Some(period), ..Picture::default() };
        output.write(&profile, &LabelOptions::default(), title, &picture)?;
        say_wrote(args.output.as_deref());
        return Ok(ExitCode::SUCCESS);
    }
    let options = HeatMapOptions {
        column_step: Some(period as f64),
        rows: Some(args.rows.unwrap_or(50)),
        low: Some(0.0),
        high: Some(period as f64),
        percentiles: Vec::new(),
        ..map_options(args)
    };
    let map = heat_map(&offsets.times, &offsets.values, &options)?;
    let look = look(args, default);
    write_picture(args.output.as_deref(), |out| heat_map_svg(&map, &look, out))?;
    Ok(ExitCode::SUCCESS)
}

fn heads(args: &Args) -> anyhow::Result<Vec<Head>> {
    let begin = |input: Input| {
        let name = input.name().to_owned();
        input.begin().with_context(|| format!("failed to read {name}"))
    };
    event_inputs(&args.files)?.into_iter().map(begin).collect()
}

fn map_options(args: &Args) -> HeatMapOptions {
    HeatMapOptions {
        column_step: args.stepsec.map(|seconds| seconds * 1e9),
        most_columns: args.maxcol,
        rows: args.rows,
        row_step: args.steplat,
        low: args.minlat,
        high: args.maxlat,
        log: args.log,
        percentiles: match &args.percentiles {
            Some(percentiles) => percentiles.0.clone(),
            None => vec![50.0, 90.0, 99.0],
        },
        // A still picture cannot be zoomed.
        most_fine: if args.embed { 0 } else { FINE_CELLS },
    }
}

fn look(args: &Args, default: HeatMapLook) -> HeatMapLook {
    HeatMapLook {
        title: args.title.clone().unwrap_or(default.title),
        subtitle: args.subtitle.clone().unwrap_or(default.subtitle),
        unit: args.unitslabel.clone().unwrap_or(default.unit),
        cell: args.boxsize,
        font: args.fonttype.clone().unwrap_or_default(),
        font_size: args.fontsize,
        grid: args.grid,
        accumulated: args.accstats,
        embed: args.embed,
        ..default
    }
}

fn finite(text: &str) -> Result<f64, &'static str> {
    text.parse().ok().filter(|value: &f64| value.is_finite()).ok_or("not a number")
}
