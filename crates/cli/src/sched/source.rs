//! Sources of scheduler events: a file, or a live recording.

use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use pyrograph_analyze::SchedFilter;
use pyrograph_format::{Options, SchedInput, SymbolOptions};
use pyrograph_profile::{SchedCount, SchedEvent, SchedTasks};
use pyrograph_session::{Cpus, SchedKey};

use super::live::{Live, LiveArgs, OnInterval};
use crate::reading::limit_memory;
use crate::say::{misuse, say};
use crate::script::times::Times;
use crate::streams::{Destination, event_inputs};
use crate::symbols::SymbolArgs;
use crate::units::{grouped, parse_size};

/// Where events come from, and which of them are shown.
#[derive(clap::Args)]
pub struct SourceArgs {
    /// Read the perf.data of `perf sched record`, or the text that `perf script` makes of it; - is standard input [default:
    /// perf.data, where no target is named]
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,

    #[command(flatten)]
    live: LiveArgs,

    /// Only these threads
    #[arg(short, long, value_name = "TID,…", value_delimiter = ',', help_heading = "Filters")]
    tid: Vec<i32>,

    /// Only threads of these names
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "Filters")]
    comm: Vec<String>,

    /// Only this time of a file: seconds on the recording's clock (START,STOP; each may be missing), parts of the whole
    /// (10%-20%), or seconds from the first event (0.5..1.5)
    #[arg(long, value_name = "TIME", help_heading = "Filters")]
    time: Option<Times>,

    /// Memory that reading may take: bytes, or with K, M, G [default: three quarters of what is free]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_memory: Option<usize>,

    #[command(flatten)]
    symbols: SymbolArgs,
}

/// Callback for an event, with the tasks seen so far and the filter of what to show. `None` means that no events will
/// come for a while, so that buffered output should be flushed.
pub type OnEvent<'a> =
    dyn FnMut(&SchedTasks, &SchedFilter, Option<SchedEvent>) -> anyhow::Result<()> + 'a;

/// An open file, or a live recording that has not begun.
pub struct Source {
    from: From,
    times: Option<Times>,
    filter: SchedFilter,
}

enum From {
    File(SchedInput, Box<Options>),
    Live(Live),
}

/// Result of reading a source to its end.
pub struct SourceEnd {
    /// All tasks.
    pub tasks: SchedTasks,
    /// The filter of what was shown.
    pub filter: SchedFilter,
    /// Exit code of the command, if one was run.
    pub exit_code: ExitCode,
    /// True if the events of the whole machine were requested.
    pub is_whole: bool,
    /// Warnings about events that could not be read or followed.
    remarks: Vec<String>,
}

impl SourceEnd {
    /// Prints the warnings. Call this after all lines are written, because they would appear between them.
    pub fn say_remarks(&self) {
        self.remarks.iter().for_each(|line| say!("{line}"));
    }

    /// Prints the warnings, and the number of context switches missing in the trace if it should contain all of them.
    pub fn say_missing(&self, missing: u64) {
        self.say_remarks();
        if missing > 0 && self.is_whole {
            say!(
                "{} missing in the recording: times that one of them began or ended are not known, and left out",
                match missing {
                    1 => "1 switch is".to_owned(),
                    _ => format!("{} switches are", grouped(missing)),
                }
            );
        }
    }
}

impl SourceArgs {
    /// Opens the file, or prepares the live recording.
    pub fn open(mut self) -> anyhow::Result<Source> {
        let file = match self.input.take() {
            Some(file) => Some(file),
            None => self.file_of_command()?,
        };
        let mut filter = SchedFilter {
            tids: self.tid,
            names: self.comm,
            cpus: self.live.target.cpus().to_vec(),
            ..SchedFilter::default()
        };
        let times = self.time;
        if file.is_none()
            && let Some(live) = self.live.plan(&filter.names)?
        {
            if times.is_some() {
                misuse!("--time is for files; of what runs, -d says for how long");
            }
            return Ok(Source { from: From::Live(live), times, filter });
        }
        limit_memory(self.max_memory);
        if self.live.cgroup.is_some() || self.live.duration.is_some() {
            misuse!("--cgroup and -d are for what runs, not for a file");
        }
        filter.pids = self.live.target.processes().to_vec();
        let mut inputs = event_inputs(file.as_slice())?;
        let Some(input) = inputs.pop() else { misuse!("no input") };
        let input = SchedInput::open(input)?;
        if input.time_span().is_none() && times.as_ref().is_some_and(Times::has_shares) {
            misuse!("--time in percent needs perf.data: of text it is not known where it ends");
        }
        let symbols = SymbolOptions { lines: false, ..self.symbols.options() };
        let options = Box::new(Options { symbols, ..Options::default() });
        Ok(Source { from: From::File(input, options), times, filter })
    }

    /// Returns the first word of the command if it is a file that is not executable, as the input to read. Fails if more
    /// words follow it.
    fn file_of_command(&mut self) -> anyhow::Result<Option<PathBuf>> {
        let command = &mut self.live.target.command;
        let Some(word) = command.first() else { return Ok(None) };
        let path = PathBuf::from(word);
        let is_program =
            |of: std::fs::Metadata| !of.is_file() || of.permissions().mode() & 0o111 != 0;
        if path.metadata().is_ok_and(is_program) || !path.exists() {
            return Ok(None);
        }
        if command.len() > 1 {
            misuse!(
                "{} is a file that is read: flags go before it, or -i names it",
                path.display()
            );
        }
        command.clear();
        Ok(Some(path))
    }
}

impl Source {
    /// Number of CPUs of the machine; 0 if unknown.
    pub fn cpus(&self) -> u32 {
        match &self.from {
            From::File(input, _) => input.cpus().unwrap_or(0),
            From::Live(_) => std::thread::available_parallelism()
                .map_or(0, |cpus| u32::try_from(cpus.get()).unwrap_or(0)),
        }
    }

    /// Restricts the output to these CPUs.
    pub fn choose_cpus(&mut self, cpus: Cpus) {
        self.filter.cpus = cpus.0;
    }

    /// Destination of the output. Where a command runs, text goes to standard error, apart from the output of the command.
    pub fn destination<'a>(&mut self, output: Option<&'a Path>, is_text: bool) -> Destination<'a> {
        let runs_command = matches!(&self.from, From::Live(live) if live.runs_command());
        let destination = Destination { path: output, is_text: is_text && runs_command };
        if let From::Live(live) = &mut self.from {
            live.output_to_stderr(destination.is_standard_output());
        }
        destination
    }

    /// Returns true if the source is a file.
    pub fn is_file(&self) -> bool {
        matches!(self.from, From::File(..))
    }

    /// Counts events in the kernel if possible, that is, for a live recording without filters by CPU or thread;
    /// otherwise returns the source back. `key` selects what is counted separately. `on_interval` gets the counts of
    /// each interval.
    pub fn counts(
        self,
        key: SchedKey,
        interval: Option<Duration>,
        on_interval: &mut OnInterval<'_>,
    ) -> anyhow::Result<Result<(Vec<SchedCount>, ExitCode), Self>> {
        let is_all = self.filter.cpus.is_empty() && self.filter.tids.is_empty();
        match self.from {
            From::Live(live) if is_all => live.counts(key, interval, on_interval).map(Ok),
            From::File(..) if interval.is_some() => misuse!("-I is for what runs, not for a file"),
            _ if interval.is_some() => misuse!(
                "-I shows what the kernel counts, which is not by CPU or thread: choose with -p, --comm or --cgroup"
            ),
            _ => Ok(Err(self)),
        }
    }

    /// Calls `on_event` for each event in order of time. All events must be processed, even those that the filter does
    /// not show. `with_stacks`: include recorded stacks, or take stacks. The caller must print the warnings in the
    /// result.
    pub fn each(self, with_stacks: bool, on_event: &mut OnEvent<'_>) -> anyhow::Result<SourceEnd> {
        let Self { from, times, mut filter } = self;
        let (input, options) = match from {
            From::File(input, options) => (input, options),
            From::Live(live) => {
                let is_whole = live.is_whole();
                let (tasks, exit_code, remarks) = live.each(with_stacks, &mut filter, on_event)?;
                return Ok(SourceEnd { tasks, filter, exit_code, is_whole, remarks });
            }
        };
        let span = input.time_span();
        let mut is_first = true;
        let mut done = Ok(());
        let (tasks, warnings) = input.each(with_stacks, &options, &mut |tasks, event| {
            if std::mem::replace(&mut is_first, false)
                && let Some(times) = &times
            {
                filter.times = times
                    .ranges((event.time, span.map_or(u64::MAX, |span| span.1.max(event.time))));
            }
            done = on_event(tasks, &filter, Some(event));
            match done {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        done?;
        let remarks = warnings.lines().map(|(_, line)| line).collect();
        Ok(SourceEnd { tasks, filter, exit_code: ExitCode::SUCCESS, is_whole: true, remarks })
    }
}
