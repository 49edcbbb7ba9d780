//! `pyrograph view`: a page with all views of any input, or these views on the terminal.

mod terminal;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use pyrograph_export::{Output, Picture};
use pyrograph_format::{Options, ThreadDetail};
use pyrograph_profile::LabelOptions;
use pyrograph_terminal::{Screen, browser};

use crate::code::CodeArgs;
use crate::ending;
use crate::reading::ReadArgs;
use crate::say::{misuse, say};
use crate::streams::{PictureArgs, inputs};

/// Name of the output if none is given.
const DEFAULT_OUTPUT: &str = "flamegraph.html";

/// Make a page with all views of a profile: flame graph, table, tree, callers, timeline
///
/// The page is one file with everything in it, and needs no network: send it, keep it, open it years later. Every verb
/// reads it back. With --terminal, and on a terminal without a display, the views are on the terminal; two files are
/// compared there.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pyrograph view perf.data --open              in the browser
  pyrograph view a.folded b.folded -o app.html
  pyrograph view --theme dark --title Checkout app.pb.gz > checkout.html
  pyrograph view --terminal perf.data          on the terminal: its keys are shown there
  pyrograph view --terminal before.pb.gz after.pb.gz
  pyrograph report app.html                    as from any other input")]
pub struct Args {
    /// Inputs, `-` for standard input [default: standard input; on a terminal the last
    /// recording in the current folder: flamegraph.pb.gz or perf.data]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Where to write [default: standard output; on a terminal and with --open flamegraph.html]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Show it in the browser ($BROWSER, or xdg-open)
    #[arg(long)]
    open: bool,

    /// Show it on the terminal; of two files the difference, unless --merge makes one of them [default: where there is
    /// neither a display nor $BROWSER]
    #[arg(long, conflicts_with_all = ["output", "open"])]
    terminal: bool,

    /// The heading [default: the name of the first input]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    #[command(flatten)]
    code: CodeArgs,

    #[command(flatten)]
    picture: PictureArgs,

    #[command(flatten)]
    reading: ReadArgs,
}

impl Args {
    /// Title of the page.
    fn title(&self) -> String {
        self.title.clone().unwrap_or_else(|| {
            let first = self.files.first().and_then(|file| file.file_name());
            first.map_or_else(|| "Profile".to_owned(), |name| name.to_string_lossy().into_owned())
        })
    }

    /// Returns true if the views are shown on the terminal.
    fn is_for_terminal(&self) -> bool {
        let is_elsewhere = self.output.is_some() || self.open || browser::is_likely();
        self.terminal || !is_elsewhere && Screen::is_there()
    }
}

/// Writes the page, or shows the views on the terminal.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.is_for_terminal() {
        if !Screen::is_there() {
            misuse!(
                "--terminal needs a terminal, which standard output is not; -o FILE.html writes a page"
            );
        }
        return terminal::run(&args);
    }
    ending::check(args.output.as_deref(), &["html", "htm"])?;
    let path = path(&args);
    let output = Output::named(path.as_deref(), "html").context("failed to make a page")?;
    let title = args.title();
    let doing = "failed to make a page";
    write(&output, &args.files, &args.reading, &title, args.picture.into(), &args.code, doing)?;
    let Some(path) = path else { return Ok(ExitCode::SUCCESS) };
    say!("wrote {output}");
    if args.open {
        crate::show::open(&path);
    } else if std::io::stderr().is_terminal() {
        say!("to see it: {}", browser::command_line(&path));
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the inputs and writes their page. `picture` has the options of its look, and `failed` begins errors of reading.
pub fn write(
    output: &Output,
    files: &[PathBuf],
    reading: &ReadArgs,
    title: &str,
    picture: Picture,
    code: &CodeArgs,
    failed: &'static str,
) -> anyhow::Result<()> {
    let options = Options {
        detail: output.detail(),
        threads: ThreadDetail::Thread,
        instructions: output.holds_instructions(),
        ..Options::default()
    };
    let (profile, _) = reading.read(inputs(files)?, options).context(failed)?;
    let code = code.of(&profile, &reading.symbols());
    let keeps_names = reading.names().is_some();
    let picture = Picture { code, keeps_names, ..picture };
    Ok(output.write(&profile, &LabelOptions::default(), title, &picture).map(drop)?)
}

/// Path of the file to write; `None` for standard output.
fn path(args: &Args) -> Option<PathBuf> {
    match &args.output {
        Some(path) => Some(path.clone()).filter(|path| path.as_os_str() != "-"),
        None => {
            (args.open || std::io::stdout().is_terminal()).then(|| PathBuf::from(DEFAULT_OUTPUT))
        }
    }
}
