//! `pyrograph heatmap`: numbers over time to an interactive SVG.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use pyrograph_analyze::{HeatMap, HeatMapOptions, heat_map};
use pyrograph_format::{Head, TimeUnit, read_points};
use pyrograph_render::{HeatMapLook, heat_map_svg};

use crate::say::say;
use crate::streams::{inputs, write_output};

/// Draw numbers over time, as latencies, as an interactive heat map
///
/// An input is text with a time and a value on each line. The options have the names and meanings
/// that heat map users know; `-title X`, `--title=X` and any beginning of a name that is not
/// ambiguous are taken too.
#[derive(clap::Args)]
#[command(
    args_override_self = true,
    after_help = "\
Examples:
  pyrograph heatmap --unitstime us --unitslabel us trace.txt > heatmap.svg
  pyrograph heatmap --log --unitslabel us trace.txt -o heatmap.svg"
)]
pub struct Args {
    /// Inputs, `-` for standard input; plain or .gz or .zst [default: standard input]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Where to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// The unit of times: s, ms, us or ns
    #[arg(long, value_name = "UNIT", default_value = "s", value_parser = time_unit, help_heading = "Grid")]
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
    #[arg(
        long,
        value_name = "VALUE",
        value_parser = size,
        conflicts_with_all = ["rows", "log"],
        help_heading = "Grid"
    )]
    steplat: Option<f64>,

    /// The seconds of a column [default: a round number that makes up to 120 columns]
    #[arg(long, value_name = "SECONDS", value_parser = size, help_heading = "Grid")]
    stepsec: Option<f64>,

    /// Leave out what is right of so many columns, and say how much
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Grid")]
    maxcol: Option<u32>,

    /// Rows of equal ratio, for values that differ by powers of ten
    #[arg(long, help_heading = "Grid")]
    log: bool,

    /// Percentiles to follow over time; `none` for none
    #[arg(long, value_name = "PERCENT,…", default_value = "50,90,99", value_parser = percents, help_heading = "Grid")]
    percentiles: Percents,

    /// The heading
    #[arg(long, value_name = "TEXT", help_heading = "Look")]
    title: Option<String>,

    /// A second line below the heading
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        help_heading = "Look"
    )]
    subtitle: String,

    /// The width and height of a cell in pixels [default: by the window]
    #[arg(long, value_name = "PX", value_parser = size, help_heading = "Look")]
    boxsize: Option<f64>,

    /// The font size in pixels
    #[arg(long, value_name = "PX", default_value_t = 12.0, value_parser = size, help_heading = "Look")]
    fontsize: f64,

    /// The font family [default: the reader's interface font]
    #[arg(
        long,
        value_name = "FONT",
        default_value = "",
        hide_default_value = true,
        help_heading = "Look"
    )]
    fonttype: String,

    /// Draw grid lines
    #[arg(long, help_heading = "Look")]
    grid: bool,

    /// Say of each cell how many points of its column lie in it and below
    #[arg(long, help_heading = "Look")]
    accstats: bool,

    /// Without XML prolog and script: a still picture with tooltips, to paste into any page
    #[arg(long, help_heading = "Look")]
    embed: bool,
}

/// Draws a heat map.
///
/// # Errors
///
/// When the input cannot be read, there is nothing to draw, or the output cannot be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (times, values) = points(&args)?;
    let map = heat_map(&times, &values, &map_options(&args))?;
    write(&args, &map)?;
    Ok(ExitCode::SUCCESS)
}

/// The points of text with two columns.
fn points(args: &Args) -> anyhow::Result<(Vec<f64>, Vec<f64>)> {
    let heads = heads(args)?;
    let (points, warnings) =
        read_points(heads, args.unitstime).map_err(|error| anyhow::anyhow!("failed to {error}"))?;
    for warning in &warnings {
        say!("{warning}");
    }
    Ok((points.times, points.values))
}

fn heads(args: &Args) -> anyhow::Result<Vec<Head>> {
    let begin = |input: pyrograph_format::Input| {
        let name = input.name().to_owned();
        input.begin().with_context(|| format!("failed to read {name}"))
    };
    inputs(&args.files)?.into_iter().map(begin).collect()
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
        percentiles: args.percentiles.0.clone(),
    }
}

fn write(args: &Args, map: &HeatMap) -> anyhow::Result<()> {
    let look = HeatMapLook {
        title: args.title.clone().unwrap_or_else(|| "Latency Heat Map".to_owned()),
        subtitle: args.subtitle.clone(),
        unit: args.unitslabel.clone().unwrap_or_default(),
        noun: "events".to_owned(),
        cell: args.boxsize,
        font: args.fonttype.clone(),
        font_size: args.fontsize,
        grid: args.grid,
        accumulated: args.accstats,
        embed: args.embed,
    };
    write_output(args.output.as_deref(), |out| heat_map_svg(map, &look, out))
}

/// A list of percentiles.
#[derive(Clone, Debug, PartialEq)]
struct Percents(Vec<f64>);

fn percents(text: &str) -> Result<Percents, String> {
    if text == "none" {
        return Ok(Percents(Vec::new()));
    }
    let percent = |text: &str| match text.trim().trim_start_matches('p').parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err(format!("'{text}' is not a percentile from 0 to 100")),
    };
    text.split(',').map(percent).collect::<Result<_, _>>().map(Percents)
}

fn time_unit(text: &str) -> Result<TimeUnit, String> {
    match text {
        "s" => Ok(TimeUnit::Seconds),
        "ms" => Ok(TimeUnit::Milliseconds),
        "us" | "µs" => Ok(TimeUnit::Microseconds),
        "ns" => Ok(TimeUnit::Nanoseconds),
        _ => Err("use s, ms, us or ns".to_owned()),
    }
}

fn finite(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|value: &f64| value.is_finite())
        .ok_or_else(|| "not a number".to_owned())
}

/// A number above 0.
fn size(text: &str) -> Result<f64, String> {
    finite(text).ok().filter(|value| *value > 0.0).ok_or_else(|| "not a number above 0".to_owned())
}
