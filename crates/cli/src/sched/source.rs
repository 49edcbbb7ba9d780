//! Where the scheduler's events come from: a file, or what runs.

use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::ExitCode;

use pyrograph_analyze::SchedFilter;
use pyrograph_format::{Options, SchedInput, SymbolOptions};
use pyrograph_profile::{SchedEvent, SchedTasks};
use pyrograph_recorder::Cpus;

use crate::reading::limit_memory;
use crate::say::{misuse, say};
use crate::script::times::Times;
use crate::streams::inputs;
use crate::symbols::SymbolArgs;
use crate::targets::TargetArgs;
use crate::units::{grouped, parse_size};

/// Where events come from, and which of them are shown.
#[derive(clap::Args)]
pub struct SourceArgs {
    /// The perf.data of `perf sched record`, or the text that `perf script` makes of it; - is standard input [default:
    /// perf.data]
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,

    #[command(flatten)]
    target: TargetArgs,

    /// Only these threads
    #[arg(short, long, value_name = "TID,…", value_delimiter = ',', help_heading = "Filters")]
    tid: Vec<i32>,

    /// Only threads of these names
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "Filters")]
    comm: Vec<String>,

    /// Only this time: seconds on the recording's clock (START,STOP; each may be missing), parts of the whole
    /// (10%-20%), or seconds from the first event (0.5..1.5)
    #[arg(long, value_name = "TIME", help_heading = "Filters")]
    time: Option<Times>,

    /// Memory that reading may take: bytes, or with K, M, G [default: three quarters of what is free]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_memory: Option<usize>,

    #[command(flatten)]
    symbols: SymbolArgs,
}

/// An opened source.
pub struct Source {
    input: SchedInput,
    options: Options,
    times: Option<Times>,
    filter: SchedFilter,
}

/// The end of a source.
pub struct SourceEnd {
    /// All tasks.
    pub tasks: SchedTasks,
    /// What was shown.
    pub filter: SchedFilter,
    /// The exit code of the command, if one was run.
    pub exit_code: ExitCode,
}

impl SourceEnd {
    /// Says how many switches are missing in the trace.
    pub fn say_missing(&self, missing: u64) {
        if missing > 0 {
            say!(
                "{} not in the recording: times that one of them began or ended are not known, and left out",
                match missing {
                    1 => "1 switch is".to_owned(),
                    _ => format!("{} switches are", grouped(missing)),
                }
            );
        }
    }
}

impl SourceArgs {
    /// Opens the file or begins to record.
    pub fn open(mut self) -> anyhow::Result<Source> {
        limit_memory(self.max_memory);
        let file = match self.input.take() {
            Some(file) => Some(file),
            None => self.file_of_command()?,
        };
        let filter = SchedFilter {
            pids: self.target.processes().to_vec(),
            tids: self.tid,
            names: self.comm,
            cpus: self.target.cpus().to_vec(),
            times: Vec::new(),
        };
        let mut inputs = inputs(file.as_ref().map(std::slice::from_ref).unwrap_or_default())?;
        let Some(input) = inputs.pop() else { misuse!("no input") };
        let input = SchedInput::open(input)?;
        if input.time_span().is_none() && self.time.as_ref().is_some_and(Times::has_shares) {
            misuse!("--time in percent needs perf.data: of text it is not known where it ends");
        }
        let symbols = SymbolOptions { lines: false, ..self.symbols.options() };
        let options = Options { symbols, ..Options::default() };
        Ok(Source { input, options, times: self.time, filter })
    }

    /// Chooses CPUs, as -C does.
    pub fn choose_cpus(&mut self, cpus: Cpus) {
        self.target.cpu = Some(cpus);
    }

    /// The first word of the command, if it is a file that cannot be run.
    fn file_of_command(&mut self) -> anyhow::Result<Option<PathBuf>> {
        let Some(word) = self.target.command.first() else { return Ok(None) };
        let path = PathBuf::from(word);
        let is_program =
            |of: std::fs::Metadata| !of.is_file() || of.permissions().mode() & 0o111 != 0;
        if path.metadata().is_ok_and(is_program) || !path.exists() {
            return Ok(None);
        }
        if self.target.command.len() > 1 {
            misuse!(
                "{} is a file that is read: flags go before it, or -i names it",
                path.display()
            );
        }
        self.target.command.clear();
        Ok(Some(path))
    }
}

impl Source {
    /// How many CPUs the machine has; 0 if that is not known.
    pub fn cpus(&self) -> u32 {
        self.input.cpus().unwrap_or(0)
    }

    /// Hands over each event in the order of time, with the tasks that were seen so far, and what is to be shown: all
    /// events are to be followed. Says what could not be read. `with_stacks`: with the stacks that were recorded.
    pub fn each(
        self,
        with_stacks: bool,
        on_event: &mut dyn FnMut(&SchedTasks, &SchedFilter, SchedEvent) -> anyhow::Result<()>,
    ) -> anyhow::Result<SourceEnd> {
        let Self { input, options, times, mut filter } = self;
        let span = input.time_span();
        let mut is_first = true;
        let mut done = Ok(());
        let (tasks, warnings) = input.each(with_stacks, &options, &mut |tasks, event| {
            if std::mem::replace(&mut is_first, false)
                && let Some(times) = &times
            {
                filter.times = times.ranges(span.unwrap_or((event.time, u64::MAX)));
            }
            done = on_event(tasks, &filter, event);
            match done {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        done?;
        for (_, line) in warnings.lines() {
            say!("{line}");
        }
        Ok(SourceEnd { tasks, filter, exit_code: ExitCode::SUCCESS })
    }
}
