//! `pyrograph agent`: records the machine always, and keeps what it has recorded.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use pyrograph_profile::{Profile, StringId, Thread, ThreadDetail};
use pyrograph_record::{Rate, Target};
use pyrograph_session::{Plan, Recorder, Scope, host_name, memory};
use pyrograph_store::{Range, Retention, StoreError, Writing, age_of};
use pyrograph_terminal::Interrupt;

use super::{DEFAULT, now};
use crate::record::messages;
use crate::record::question::refused;
use crate::say::{be_quiet, say};
use crate::units::{parse_duration, parse_size};

/// Record always, and keep profiles of the last days in a folder
///
/// The whole machine is sampled at a low rate. Every minute what was sampled is written to a segment, and the segments of an hour are
/// merged into one. Every verb reads the folder: `pyrograph report store:/var/lib/pyrograph@-1h..`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pyrograph agent
  pyrograph agent --store /srv/profiles --keep 30d --max-bytes 20G
  pyrograph report store:/var/lib/pyrograph@03:10..03:15
  pyrograph diff store:@-25h..-24h store:@-1h..")]
pub struct Args {
    /// The folder
    #[arg(long, value_name = "DIR", default_value = DEFAULT)]
    store: PathBuf,

    /// How long profiles are kept: 90s, 12h, 14d
    #[arg(long, value_name = "AGE", default_value = "14d", value_parser = parse_age)]
    keep: u64,

    /// How much is kept: bytes, or with K, M, G; the oldest go first
    #[arg(long, value_name = "SIZE", default_value = "5G", value_parser = parse_size)]
    max_bytes: usize,

    /// Samples per second on each CPU
    #[arg(short = 'F', long, value_name = "HZ", default_value_t = 19)]
    freq: u64,

    /// How long a segment is
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    segment: Duration,

    /// Stop after this time
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,

    /// Print errors only
    #[arg(short, long)]
    quiet: bool,
}

/// Time within which samples of a stack are added up.
const STEP: Duration = Duration::from_secs(10);

fn parse_age(text: &str) -> Result<u64, String> {
    age_of(text).filter(|age| *age > 0).ok_or_else(|| "use 90s, 30m, 12h or 14d".to_owned())
}

/// Runs `pyrograph agent`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.quiet {
        be_quiet();
    }
    let retention = Retention { age: args.keep, bytes: args.max_bytes as u64 };
    let mut store = Writing::open(&args.store, retention)?;
    let scope = Scope { duration: args.duration, ..Scope::new(Target::System) };
    let plan = Plan {
        rate: Some(Rate::Hertz(args.freq.max(1))),
        thread_detail: ThreadDetail::Process,
        ..Plan::new(scope)
    };
    memory::keep_none();
    let recorder = Recorder::open(&plan, |message| messages::print(&message, false));
    let mut recorder = recorder.map_err(|error| refused(error, &plan.question))?;
    let interrupt = Interrupt::catch()?;
    say!("keeping profiles of this machine in {}", args.store.display());
    let mut minute = Minute::begin(HashSet::new());
    let step = STEP.min(args.segment);
    let mut next = Instant::now() + step;
    let mut lost = 0;
    while recorder.step().map_err(|error| refused(error, &plan.question))? {
        if interrupt.asked() {
            recorder.stop();
        }
        if Instant::now() < next {
            continue;
        }
        next = (next + step).max(Instant::now());
        let profile = recorder.take_snapshot().map_err(|error| refused(error, &plan.question))?;
        let all_lost = recorder.progress().lost;
        minute.add(profile, all_lost.saturating_sub(lost));
        lost = all_lost;
        // A step begins when the one before is over, and not at a time of its own: by half of one it may be early.
        if minute.begun.elapsed() + step / 2 >= args.segment {
            minute = minute.put(&mut store)?;
        }
    }
    let all_lost = recorder.progress().lost;
    let finished = recorder.finish().map_err(|error| refused(error, &plan.question))?;
    minute.add(finished.resolved.profile, all_lost.saturating_sub(lost));
    minute.put(&mut store)?;
    Ok(ExitCode::SUCCESS)
}

/// The samples of the segment that is recorded now.
struct Minute {
    /// Time of the wall clock, in nanoseconds since 1970.
    from: u64,
    begun: Instant,
    /// Start of the step that is recorded now, since `from`.
    step: Duration,
    profile: Option<Profile>,
    /// The processes in it, and those of the segment before.
    processes: HashSet<i32>,
    processes_before: HashSet<i32>,
}

impl Minute {
    /// Begins a segment; `processes_before` are those of the one before.
    fn begin(processes_before: HashSet<i32>) -> Self {
        Self {
            from: now(),
            begun: Instant::now(),
            step: Duration::ZERO,
            profile: None,
            processes: HashSet::new(),
            processes_before,
        }
    }

    /// Returns what is kept of a process: not its command line, which may have secrets, and its number only if it has run for a
    /// while. Short ones would be a row each.
    fn owner(&mut self, thread: Thread) -> Thread {
        self.processes.extend(thread.pid);
        let pid = thread.pid.filter(|pid| self.processes_before.contains(pid));
        Thread { pid, command_line: StringId::EMPTY, ..thread }
    }

    /// The time of the wall clock, which may be set meanwhile: the segment goes on as it began.
    fn at(&self, since: Duration) -> u64 {
        self.from.saturating_add(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Adds what was recorded in a step.
    fn add(&mut self, mut profile: Profile, lost: u64) {
        let time = self.at(self.step);
        self.step = self.begun.elapsed();
        profile.samples.set_times(time);
        profile.map_threads(|thread| self.owner(thread));
        // Rows are sums of the samples of a step; the machine and the period are known once for all.
        profile.about.sums = true;
        profile.about.lost = lost;
        match &mut self.profile {
            // Both count the same.
            Some(all) => drop(all.merge(&profile)),
            none => *none = Some(profile),
        }
    }

    /// Writes the segment, and begins the next one.
    fn put(self, store: &mut Writing) -> Result<Self, StoreError> {
        let range = Range { from: self.from, to: self.at(self.begun.elapsed()) };
        if let Some(mut profile) = self.profile {
            profile.about.host = host_name();
            profile.about.start = Some(range.from);
            profile.about.duration = Some(range.to - range.from);
            match store.put(&profile, range) {
                // It goes on: there may be room again, and what is missing is a gap.
                Err(full @ StoreError::Full { .. }) => say!("{full}"),
                result => drop(result?),
            }
        }
        Ok(Self::begin(self.processes))
    }
}
