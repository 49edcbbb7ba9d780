//! What is to be recorded, as the flags say it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use pyrograph_format::Detail;
use pyrograph_profile::{LabelOptions, ValueType};
use pyrograph_record::{Event, Rate, StackMode, Target, Unit};
use pyrograph_resolve::{NATIVE, SymbolOptions};

use crate::output::Output;
use crate::question::{Question, QuestionArgs};
use crate::tables::TableArgs;
use crate::units::{parse_duration, parse_size};
use crate::whom::{Whom, WhomArgs};

/// Sample a command, running processes or the whole machine, and draw a flame graph
///
/// Stacks are right without frame pointers: registers and a copy of the stack are sampled and
/// unwound with the program's own tables. Ctrl-C ends the recording and writes the graph.
#[derive(clap::Args)]
#[expect(rustdoc::broken_intra_doc_links, reason = "clap shows these texts as they are")]
#[command(after_help = "\
Examples:
  pyrograph record -- ./app --its-flags       start it, follow its children and threads
  pyrograph record -p 1234,1235 -d 10         attach to running processes for 10 seconds
  sudo pyrograph record -a -F 99 -d 30        the whole machine
  pyrograph record -o app.folded -- ./app     folded stacks, for grep, sed and awk")]
pub struct Args {
    /// Processes to attach to, with all their threads, and the children they have started or will start
    #[arg(short, long, value_name = "PID", value_delimiter = ',', conflicts_with_all = ["all_cpus", "command"])]
    pid: Vec<i32>,

    /// The whole machine
    #[arg(short, long, conflicts_with = "command")]
    all_cpus: bool,

    /// Samples a second [default: 997 of each thread; with -a 99 of each CPU]
    #[arg(short = 'F', long, value_name = "HZ", value_parser = clap::value_parser!(u64).range(1..))]
    frequency: Option<u64>,

    /// For how long: seconds, or with a unit (500ms, 10s, 5m) [default: until it ends, or Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,

    /// Where to write; the ending says what: .svg, .folded, .pb.gz (pprof) … (see convert). Can be
    /// given several times
    #[arg(short, long, value_name = "FILE", default_value = "flamegraph.svg")]
    output: Vec<PathBuf>,

    #[command(flatten)]
    question: QuestionArgs,

    #[command(flatten)]
    whom: WhomArgs,

    /// The program's part only, without the kernel's
    #[arg(short, long, conflicts_with = "kernel_only")]
    user_only: bool,

    /// The kernel's part only
    #[arg(short, long)]
    kernel_only: bool,

    /// Do not record child processes
    #[arg(long)]
    no_inherit: bool,

    /// How stacks are found: dwarf[,BYTES] copies that many bytes of the stack, fp follows frame
    /// pointers alone (cheapest) [default: unwound in the kernel, else dwarf]
    #[arg(long, value_name = "HOW", value_parser = parse_stack_mode)]
    call_graph: Option<StackMode>,

    /// How stacks are taken: ebpf unwinds and counts them in the kernel, perf copies each one out [default: ebpf
    /// where it is permitted and no output has the time of each sample, else perf]
    #[arg(long, value_name = "WHICH", value_enum)]
    engine: Option<EngineChoice>,

    #[command(flatten)]
    tables: TableArgs,

    /// The most memory for stacks and their names: once it is full, new ones end where they leave those that
    /// are known. Outputs with the time of each sample have no limit
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_stack_memory)]
    stack_memory: usize,

    /// Leave out the calls that the compiler inlined
    #[arg(long)]
    no_inline: bool,

    /// What a stack's value counts: samples, or the event itself (time, for a clock). Alone: samples,
    /// which are calls or requests where these are looked at
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Count::Period,
        num_args = 0..=1, default_missing_value = "samples")]
    count: Count,

    /// Mark the kernel's frames with _[k], inlined ones with _[i], those made at run time with _[j]
    #[arg(long)]
    annotate: bool,

    /// Say who takes the stacks, what was made for it, and what it cost
    #[arg(short, long)]
    verbose: bool,

    /// The graph's title
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    /// The command to run, and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Who takes the stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum EngineChoice {
    /// Programs in the kernel
    Ebpf,
    /// perf_event_open and its buffers
    Perf,
}

/// What a stack's value counts.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Count {
    /// Samples
    Samples,
    /// What the samples stand for
    Period,
}

fn parse_stack_memory(text: &str) -> Result<usize, String> {
    match parse_size(text)? {
        size @ 0x10_0000.. => Ok(size),
        _ => Err("must be 1M at least".to_owned()),
    }
}

fn parse_stack_mode(text: &str) -> Result<StackMode, String> {
    match text.split_once(',') {
        None if text == "fp" => Ok(StackMode::FramePointers),
        None if text == "dwarf" => Ok(StackMode::Dwarf { bytes: StackMode::DEFAULT_BYTES }),
        Some(("dwarf", bytes)) => match bytes.parse::<u32>() {
            Ok(bytes) if (1..=StackMode::MOST_BYTES).contains(&bytes) => {
                Ok(StackMode::Dwarf { bytes: bytes.next_multiple_of(8) })
            }
            _ => Err(format!("the stack copy can have 1 to {} bytes", StackMode::MOST_BYTES)),
        },
        _ => Err("use fp, dwarf, or dwarf,BYTES".to_owned()),
    }
}

/// What the flags come to.
pub(super) struct Plan {
    pub options: pyrograph_record::Options,
    pub outputs: Vec<Output>,
    pub duration: Option<Duration>,
    pub count: Count,
    pub engine: Option<EngineChoice>,
    pub question: Question,
    pub whom: Whom,
    pub tables: TableArgs,
    pub stack_memory: usize,
    pub verbose: bool,
    pub inlines: bool,
    pub labels: LabelOptions,
    pub title: String,
}

impl Plan {
    pub fn new(args: Args) -> anyhow::Result<Self> {
        let outputs = args.output.iter().map(|path| Output::new(path)).collect::<Result<_, _>>()?;
        let whom = Whom::new(args.whom)?;
        let target = if args.all_cpus {
            Target::System
        } else if !args.pid.is_empty() {
            Target::Processes(args.pid)
        } else if !args.command.is_empty() {
            Target::Command(args.command)
        } else if whom.chooses() {
            Target::System
        } else {
            bail!(
                "nothing to record: give a command after --, processes with -p, or the machine with -a"
            );
        };
        whom.find_names(&target, !args.no_inherit)?;
        let counts = args.count == Count::Samples;
        let question = Question::new(&args.question, counts, &target)?;
        Ok(Self {
            title: args.title.unwrap_or_else(|| title(&target)),
            options: pyrograph_record::Options {
                event: question.event.clone(),
                rate: args.frequency.map(Rate::Hertz),
                stack: args
                    .call_graph
                    .unwrap_or(StackMode::Dwarf { bytes: StackMode::DEFAULT_BYTES }),
                user: !args.kernel_only,
                kernel: !args.user_only,
                inherit: !args.no_inherit,
                duration: args.duration,
                ..pyrograph_record::Options::new(target)
            },
            outputs,
            duration: args.duration,
            count: args.count,
            // Who says how stacks are to be found wants it done so.
            engine: args
                .engine
                .or(args.call_graph.map(|_| EngineChoice::Perf))
                .or((question.in_kernel_only || !whom.is_all()).then_some(EngineChoice::Ebpf)),
            question,
            whom,
            tables: args.tables,
            stack_memory: args.stack_memory,
            verbose: args.verbose,
            inlines: !args.no_inline,
            labels: LabelOptions {
                mark_kernel: args.annotate,
                mark_jit: args.annotate,
                mark_inlined: args.annotate,
                ..LabelOptions::default()
            },
        })
    }

    /// Whether an output has each sample with its time.
    pub fn keeps_times(&self) -> bool {
        self.outputs.iter().any(|output| output.detail() == Detail::Samples)
    }

    pub fn resolve_options(&self, event: &Event) -> pyrograph_resolve::Options {
        let unit = self.question.unit().unwrap_or(match event.unit() {
            Unit::Nanoseconds => "ns",
            Unit::Count => "count",
        });
        let value_type = match self.count {
            Count::Samples if self.question.unit().is_none() => ValueType::samples(),
            Count::Samples => {
                let noun = format!("{}s", self.question.noun());
                ValueType::new(self.question.name(event), &noun)
            }
            Count::Period => ValueType::new(self.question.name(event), unit),
        };
        pyrograph_resolve::Options {
            value_type,
            count_samples: self.count == Count::Samples,
            keep_time: self.keeps_times(),
            stack_memory: Some(self.stack_memory),
            threads: self
                .outputs
                .iter()
                .map(Output::threads)
                .chain([self.whom.threads()])
                .max()
                .unwrap_or_default(),
            // That of the programs in the kernel.
            monotonic_time: true,
            guessing: !self.tables.no_guess,
            user_only: !self.options.kernel,
            addresses: true,
            arch: NATIVE,
            symbols: SymbolOptions {
                inlines: self.inlines,
                lines: self.outputs.iter().any(Output::holds_sources),
                cache: self.tables.cache(),
                ..SymbolOptions::default()
            },
        }
    }
}

/// The title of a recording's graph: what was recorded.
fn title(target: &Target) -> String {
    match target {
        Target::Command(command) => {
            let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
            shortened(&words.join(" "))
        }
        Target::Processes(pids) => {
            let names: Vec<String> = pids.iter().map(|pid| process_name(*pid)).collect();
            names.join(", ")
        }
        Target::System => "Whole machine".to_owned(),
    }
}

/// The beginning of a long text: a command may have thousands of arguments.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 90;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// `name (PID)`, as long as the process lives.
fn process_name(pid: i32) -> String {
    match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("{} ({pid})", name.trim_end()),
        Err(_) => format!("process {pid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stack_modes() {
        let dwarf = |bytes| Ok(StackMode::Dwarf { bytes });
        assert_eq!(parse_stack_mode("fp"), Ok(StackMode::FramePointers));
        assert_eq!(parse_stack_mode("dwarf"), dwarf(StackMode::DEFAULT_BYTES));
        assert_eq!(parse_stack_mode("dwarf,8192"), dwarf(8192));
        assert_eq!(parse_stack_mode("dwarf,8189"), dwarf(8192));
        for text in ["", "lbr", "fp,1", "dwarf,", "dwarf,0", "dwarf,65536", "dwarf,-8"] {
            assert!(parse_stack_mode(text).is_err(), "{text}");
        }
    }
}
