//! `pyrograph convert`: converts any input to any format.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use pyrograph_export::{Output, Picture};
use pyrograph_format::{
    Options, PERFETTO_ENDINGS, SchedInput, SymbolOptions, ThreadDetail, is_perfetto,
};
use pyrograph_profile::LabelOptions;

use crate::code::CodeArgs;
use crate::reading::ReadArgs;
use crate::say::{misuse, say};
use crate::sched::perfetto;
use crate::streams::{PictureArgs, event_inputs, inputs, say_written, say_wrote};

/// Turn any input into a file for another tool
///
/// The format is that of the output's ending: .folded, .pb.gz (pprof), .speedscope.json, … or a
/// picture: .svg. `pyrograph formats` lists them. All values, threads and, where the format has room,
/// times are kept; what it has no place for is said. Of a recording of the scheduler (`perf sched record`), .perfetto-trace holds
/// all events.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pyrograph convert perf.data -o app.pb.gz && go tool pprof app.pb.gz
  pyrograph convert perf.data -o app.speedscope.json
  pyrograph convert heap.pb.gz --value alloc_space -o heap.svg
  pyrograph convert app.pb.gz --to folded | grep malloc
  pyrograph convert sched.data -o sched.perfetto-trace")]
pub struct Args {
    /// Inputs, `-` for standard input [default: standard input; on a terminal the last
    /// recording in the current folder: flamegraph.pb.gz or perf.data]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Where to write [default: standard output, if --to says what]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// The format to write [default: by the output's ending]; `pyrograph formats` lists them
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,

    /// The title, in formats that have one [default: the name of the first input]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    #[command(flatten)]
    code: CodeArgs,

    #[command(flatten)]
    picture: PictureArgs,

    #[command(flatten)]
    reading: ReadArgs,
}

/// Runs `pyrograph convert`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if is_trace_of_scheduler(&args) {
        return write_scheduler(&args);
    }
    let output = output(&args).context("failed to convert")?;
    let options = Options {
        detail: output.detail(),
        threads: ThreadDetail::Thread,
        instructions: output.holds_instructions(),
        symbols: SymbolOptions { lines: output.holds_sources(), ..SymbolOptions::default() },
        ..Options::default()
    };
    let inputs = inputs(&args.files)?;
    let title = args.title.clone().unwrap_or_else(|| {
        let first = args.files.first().and_then(|file| file.file_name());
        first.map_or_else(|| "profile".to_owned(), |name| name.to_string_lossy().into_owned())
    });
    let (profile, _) = args.reading.read(inputs, options).context("failed to convert")?;
    for (_, line) in output.not_held(&profile).lines() {
        say!("{line}");
    }
    if output.leaves_out_values(&profile) {
        say!("--value chooses which value is written");
    }
    let mut picture = Picture::from(args.picture);
    picture.keeps_names = args.reading.names().is_some();
    if output.is_page() {
        picture.code = args.code.of(&profile, &args.reading.symbols());
    }
    say_written(output.write(&profile, &LabelOptions::default(), &title, &picture)?);
    say_wrote(args.output.as_deref());
    if let Some(counts) = output.counts(&profile) {
        say!("{output}: {counts}");
    }
    if let Some(which) = output.which() {
        say!("{which}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns true if scheduler events are requested, which are not part of any profile.
fn is_trace_of_scheduler(args: &Args) -> bool {
    let name =
        args.output.as_deref().and_then(|path| path.file_name()).and_then(|name| name.to_str());
    match &args.to {
        Some(format) => PERFETTO_ENDINGS.contains(&format.as_str()),
        None => name.is_some_and(is_perfetto),
    }
}

fn write_scheduler(args: &Args) -> anyhow::Result<ExitCode> {
    if !args.reading.keeps_all() {
        misuse!(
            "filters of profiles choose no events of the scheduler: pyrograph sched chart has its own"
        );
    }
    args.reading.limit_memory();
    let mut inputs = event_inputs(&args.files)?;
    let (Some(input), None) = (inputs.pop(), inputs.pop()) else {
        misuse!("a trace of the scheduler is made of one input");
    };
    let options = Options { symbols: SymbolOptions::default(), ..Options::default() };
    perfetto::write(args.output.as_deref(), |push| {
        let mut pushed = Ok(());
        let (tasks, warnings) = SchedInput::open(input)?
            .each(false, &options, &mut |tasks, event| {
                pushed = push(tasks, &event);
                if pushed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })
            .context("failed to convert; of samples, .trace.json is what Perfetto opens")?;
        pushed?;
        for (_, line) in warnings.lines() {
            say!("{line}");
        }
        Ok((tasks, ExitCode::SUCCESS))
    })
}

fn output(args: &Args) -> anyhow::Result<Output> {
    let path = args.output.as_deref().filter(|path| path.as_os_str() != "-");
    match (&args.to, path) {
        (Some(format), path) => Ok(Output::named(path, format)?),
        (None, Some(path)) => Ok(Output::new(path)?),
        (None, None) => misuse!("give a file to write (-o FILE) or a format (--to FORMAT)"),
    }
}
