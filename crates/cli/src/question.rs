//! What a recording is to answer: flags, and what they come to.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use pyrograph_record::{Event, Target};

use crate::needed;
use crate::units::parse_duration;

/// The flags.
#[derive(clap::Args)]
#[group(multiple = true)]
pub struct QuestionArgs {
    /// What to sample [default: cycles where the machine counts them, else cpu-clock]
    ///
    /// cycles, cpu-clock, task-clock, page-faults, context-switches, cpu-migrations, any hardware
    /// event name the kernel knows, or a tracepoint (sched:sched_switch). Modifiers as :u and :k.
    /// uprobe:FILE:FUNCTION counts each time that a function of a program or library is called.
    #[arg(short, long, value_name = "EVENT")]
    event: Option<String>,

    /// Where threads wait: the time from when one stops to run until it goes on (needs root)
    #[arg(long, conflicts_with_all = ["event", "frequency", "call_graph"])]
    off_cpu: bool,

    /// Where time passes: waits, and samples of the CPU clock for what runs (needs root)
    #[arg(long, conflicts_with_all = ["event", "off_cpu", "call_graph"])]
    wall: bool,

    /// The shortest wait that counts
    #[arg(long, value_name = "TIME", default_value = "1us", value_parser = parse_duration)]
    min_block: Duration,

    /// What asks for memory: the bytes that malloc and its like are called for (needs root)
    #[arg(long, conflicts_with_all = ["event", "off_cpu", "wall", "frequency", "call_graph"])]
    alloc: bool,

    /// What touches new memory: each page fault. The same as -e page-faults
    #[arg(long, conflicts_with_all = ["event", "off_cpu", "wall", "alloc"])]
    page_faults: bool,

    /// What makes disks work: each request to one. The same as -e block:block_rq_issue
    #[arg(long, conflicts_with_all = ["event", "off_cpu", "wall", "alloc", "page_faults"])]
    block_io: bool,

    /// What calls the kernel: each system call. The same as -e raw_syscalls:sys_enter
    #[arg(long, conflicts_with_all = ["event", "off_cpu", "wall", "alloc", "page_faults", "block_io"])]
    syscalls: bool,
}

/// What makes the in-kernel engine count a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// The event that is opened.
    Event,
    /// A tracepoint.
    Tracepoint { category: String, name: String },
    /// A function of a file, and how far behind its start.
    Function { path: PathBuf, name: String, offset: usize },
    /// The functions of a C library that give memory.
    Allocations { path: PathBuf },
    /// Nothing but waits.
    Nothing,
}

/// What the flags come to.
#[derive(Clone, Debug)]
pub struct Question {
    /// The event, if one was named.
    pub event: Option<Event>,
    /// What the in-kernel engine is to look at.
    pub probe: Probe,
    /// Waits count, if they are as long as this.
    pub min_block: Option<Duration>,
    /// Nothing but the in-kernel engine can answer.
    pub in_kernel_only: bool,
    /// What is counted and its unit, where it is not the event.
    shown: Option<(String, &'static str)>,
}

impl Question {
    /// Reads the flags.
    ///
    /// # Errors
    ///
    /// If what is named is not there.
    pub fn new(args: &QuestionArgs, target: &Target) -> anyhow::Result<Self> {
        let mut question = Self {
            event: None,
            probe: Probe::Event,
            min_block: None,
            in_kernel_only: false,
            shown: None,
        };
        if args.off_cpu || args.wall {
            question.min_block = Some(args.min_block);
            question.in_kernel_only = true;
            question.shown = Some((if args.wall { "wall" } else { "off-cpu" }.to_owned(), "ns"));
            if args.wall {
                question.event = Some(Event::parse("cpu-clock")?);
            } else {
                question.probe = Probe::Nothing;
            }
            return Ok(question);
        }
        if args.alloc {
            question.in_kernel_only = true;
            question.shown = Some(("alloc".to_owned(), "bytes"));
            question.probe = Probe::Allocations { path: c_library(target)? };
            return Ok(question);
        }
        let named = match args {
            QuestionArgs { page_faults: true, .. } => Some("page-faults"),
            QuestionArgs { block_io: true, .. } => Some("block:block_rq_issue"),
            QuestionArgs { syscalls: true, .. } => Some("raw_syscalls:sys_enter"),
            _ => args.event.as_deref(),
        };
        let Some(named) = named else { return Ok(question) };
        if let Some(place) = named.strip_prefix("uprobe:") {
            question.in_kernel_only = true;
            question.shown = Some((named.to_owned(), "count"));
            question.probe = function(place)?;
            return Ok(question);
        }
        let event = Event::parse(named)?;
        if let Some((category, name)) =
            event.name().split_once(':').filter(|_| event.is_tracepoint())
        {
            question.shown = Some((event.name().to_owned(), "count"));
            question.probe =
                Probe::Tracepoint { category: category.to_owned(), name: name.to_owned() };
        }
        question.event = Some(event);
        Ok(question)
    }

    /// The event to be opened for the in-kernel engine: where a probe triggers, it only tells of
    /// processes.
    pub fn event_beside_probe(&self) -> anyhow::Result<Option<Event>> {
        match self.probe {
            Probe::Event => Ok(self.event.clone()),
            _ => Ok(Some(Event::parse("dummy")?)),
        }
    }

    /// What is counted, as the user asked for it; `event` is what is open.
    pub fn name<'a>(&'a self, event: &'a Event) -> &'a str {
        self.shown.as_ref().map_or_else(|| event.name(), |(name, _)| name)
    }

    /// Its unit, where it is not the event's.
    pub fn unit(&self) -> Option<&'static str> {
        self.shown.as_ref().map(|(_, unit)| *unit)
    }
}

/// `FILE:FUNCTION` or `FILE:FUNCTION+OFFSET`.
fn function(place: &str) -> anyhow::Result<Probe> {
    let Some((path, name)) =
        place.rsplit_once(':').filter(|(path, name)| !path.is_empty() && !name.is_empty())
    else {
        bail!("uprobe:{place}: use uprobe:FILE:FUNCTION, for example uprobe:/bin/bash:readline")
    };
    let (name, offset) = name.rsplit_once('+').unwrap_or((name, "0"));
    let number = match offset.strip_prefix("0x") {
        Some(digits) => usize::from_str_radix(digits, 16),
        None => offset.parse(),
    };
    let offset = number.with_context(|| format!("uprobe:{place}: '{offset}' is no offset"))?;
    Ok(Probe::Function { path: path.into(), name: name.to_owned(), offset })
}

/// The C library of the process, or this machine's; the program itself if it has none.
fn c_library(target: &Target) -> anyhow::Result<PathBuf> {
    let process = match target {
        Target::Processes(pids) if pids.len() > 1 => {
            bail!(
                "--alloc looks at one process, or with -a at all that use this machine's C library"
            )
        }
        Target::Processes(pids) => {
            pids.first().map_or_else(|| "self".to_owned(), ToString::to_string)
        }
        Target::System => "self".to_owned(),
        Target::Command(argv) => {
            let files: Vec<_> =
                argv.first().into_iter().flat_map(|program| needed::files(program)).collect();
            let library = files.iter().find(|file| file.to_str().is_some_and(is_c_library));
            let found = library.or(files.first()).cloned();
            return found.context("--alloc: there is no such program");
        }
    };
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps"))
        .with_context(|| format!("the mappings of process {process}"))?;
    let mut paths = maps.lines().filter_map(|line| Some(&line[line.find('/')?..]));
    let path = paths.find(|path| is_c_library(path));
    Ok(match path {
        Some(path) => format!("/proc/{process}/root{path}").into(),
        None => format!("/proc/{process}/exe").into(),
    })
}

fn is_c_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.starts_with("libc.so") || name.starts_with("libc-") || name.starts_with("ld-musl")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_programs() {
        let place = |name: &str, offset| {
            let name = name.to_owned();
            Some(Probe::Function { path: "/bin/a:b".into(), name, offset })
        };
        assert_eq!(function("/bin/a:b:main").ok(), place("main", 0));
        assert_eq!(function("/bin/a:b:main+0x10").ok(), place("main", 16));
        assert_eq!(function("/bin/a:b:main+7").ok(), place("main", 7));
        for bad in ["", "main", ":main", "/bin/a:", "/bin/a:main+x"] {
            assert!(function(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_process_has_a_c_library() {
        let pid = i32::try_from(std::process::id()).expect("a small number");
        let path = c_library(&Target::Processes(vec![pid])).expect("its mappings can be read");
        assert!(path.exists(), "{}", path.display());
    }
}
