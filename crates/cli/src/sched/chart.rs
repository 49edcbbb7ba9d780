//! `pyrograph sched chart`: CPUs and threads over time as a picture, a page, or a Perfetto trace.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use pyrograph_analyze::{SchedChart, SchedChartBuilder};
use pyrograph_format::{PERFETTO_ENDINGS, is_perfetto};
use pyrograph_render::{SchedChartLook, sched_chart_html, sched_chart_svg};

use super::perfetto;
use super::source::{Source, SourceArgs, SourceEnd};
use crate::say::misuse;
use crate::streams::{write_output, write_picture};
use crate::units::above_zero;

/// Draw what CPUs and threads did over time: ran, waited for a CPU, were blocked and by what, and who woke them
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pyrograph sched chart -o chart.html          a page: zoom, who woke whom, tables and flame graphs of any span
  pyrograph sched chart --time 1.2..1.4 -o chart.svg
  pyrograph sched chart -o trace.perfetto-trace    for ui.perfetto.dev")]
pub struct ChartArgs {
    /// Where to write: a name that ends in .svg (a picture), .html (a page) or .perfetto-trace
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// The heading
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    /// The width of the picture in pixels
    #[arg(long, value_name = "PX", default_value_t = 1200.0, value_parser = above_zero)]
    width: f64,

    /// Rows of threads in the picture; the rest is counted
    #[arg(long, value_name = "COUNT", default_value_t = 60)]
    rows: usize,

    #[command(flatten)]
    source: SourceArgs,
}

/// Runs `pyrograph sched chart`.
///
/// # Errors
///
/// If the input cannot be read, or the chart cannot be written.
pub fn run(args: ChartArgs) -> anyhow::Result<ExitCode> {
    let path = args.output.as_path();
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if is_perfetto(name) {
        return write_perfetto(args.source.open()?, path);
    }
    let is_page = match name.rsplit_once('.') {
        Some((_, "html" | "htm")) => true,
        Some((_, "svg" | "png")) => false,
        _ => misuse!("give a name that ends in .svg, .html or .{} (-o FILE)", PERFETTO_ENDINGS[0]),
    };
    let source = args.source.open()?;
    // The page has flame graphs; for a file, stacks also show what threads wait for.
    let with_stacks = is_page || source.is_file();
    let (chart, end) = chart(source, with_stacks)?;
    let default = SchedChartLook::default();
    let title = args.title.unwrap_or(default.title);
    let look = SchedChartLook { title, width: args.width, rows: args.rows, ..default };
    if is_page {
        write_output(Some(path), |out| sched_chart_html(&chart, &end.tasks, &look, out))?;
    } else {
        write_picture(Some(path), |out| sched_chart_svg(&chart, &end.tasks, &look, out))?;
    }
    Ok(end.exit_code)
}

fn chart(source: Source, with_stacks: bool) -> anyhow::Result<(SchedChart, SourceEnd)> {
    let mut builder = SchedChartBuilder::default();
    let end = source.each(with_stacks, &mut |_, _, event| {
        event.iter().for_each(|event| builder.push(event));
        Ok(())
    })?;
    end.say_remarks();
    let mut chart = builder.finish().shown(&end.filter, &end.tasks);
    if !end.is_whole {
        // Gaps between the target's events are other tasks, which were not requested.
        chart.gaps = 0;
    }
    if chart.tasks.iter().all(|task| task.starts.is_empty()) {
        bail!("there is nothing to draw: no thread is left");
    }
    Ok((chart, end))
}

/// Writes the events as a Perfetto trace.
fn write_perfetto(source: Source, path: &Path) -> anyhow::Result<ExitCode> {
    perfetto::write(Some(path), |push| {
        let end = source.each(false, &mut |tasks, filter, event| {
            let Some(event) = event else { return Ok(()) };
            let is_shown = filter.keeps_time(event.time) && filter.keeps_cpu(event.cpu);
            if is_shown { push(tasks, &event) } else { Ok(()) }
        })?;
        end.say_remarks();
        Ok((end.tasks, end.exit_code))
    })
}
