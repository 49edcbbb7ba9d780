//! Recording with the in-kernel engine: programs in the kernel unwind and count, and what is done here
//! is to tell them what they need to know, and to take what they counted.

mod adder;
mod copies;
mod follower;
mod maps;
mod pace;
mod running;

use std::time::{Duration, Instant};

pub use pyrograph_bpf::Engine;
use pyrograph_bpf::{Stats, prefer_this_thread};
use pyrograph_event::engine::{Feature, TableBackend, TableStats};
use pyrograph_record::{
    Child, Error as RecordError, Event, Notice, Rate, Recording, Session, Summary, Target, Unit,
    Waiting, descendants,
};
use pyrograph_resolve::{LiveFiles, Resolver};

use self::running::{Running, tell_files};
use crate::answers;
use crate::cpu_time::cpu_time;
use crate::memory::Resident;
use crate::needed;
use crate::progress::Progress;
use crate::question::Question;
use crate::say::say;
use crate::tables::{self, TableArgs};
use crate::units::{counted, grouped};
use crate::whom::Whom;

/// How old records of processes may get: the programs themselves know at once what they need.
pub const PATIENCE_WITH_RECORDS: Duration = Duration::from_millis(100);

/// Whom and what to record.
pub struct InKernel<'a> {
    /// Whom.
    pub target: &'a Target,
    /// Follow the children of the target.
    pub inherit: bool,
    /// For how long.
    pub duration: Option<Duration>,
    /// Whether the user has seen enough.
    pub interrupted: &'a dyn Fn() -> bool,
    /// Say more.
    pub verbose: bool,
    /// The function whose returns are counted, if that was asked for.
    pub returned: Option<&'a str>,
    /// It is counted what asks for memory.
    pub allocations: bool,
}

/// What a recording leaves besides its profile.
pub struct Recorded {
    /// How it went.
    pub summary: Summary,
    /// The command, if one was started.
    pub child: Option<Child>,
    /// CPU time of this process when it began, and when it ended.
    pub cpu_time: (Duration, Duration),
    /// When it began, and when it ended.
    pub span: (Instant, Instant),
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Opening events.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The programs.
    #[error(transparent)]
    Engine(#[from] pyrograph_bpf::Error),
}

/// How often a second each CPU has a stack taken, if a clock says when. (Where none is named it may be the
/// counter of cycles, which the kernel has keep to a rate, too.)
fn hertz(options: &pyrograph_record::Options) -> Option<u64> {
    let event = options.event.clone().unwrap_or_else(Event::cpu_clock);
    match options.rate.unwrap_or_else(|| Rate::default_for(&options.target, &event)) {
        Rate::Hertz(hertz) if event.unit() == Unit::Nanoseconds => Some(hertz),
        Rate::Every(period) if event.unit() == Unit::Nanoseconds => {
            Some((1_000_000_000 / period.max(1)).max(1))
        }
        _ => None,
    }
}

/// The processes that those which were asked for have started, if these are followed.
fn started_by(options: &pyrograph_record::Options) -> Vec<i32> {
    match &options.target {
        Target::Processes(pids) if options.inherit => descendants(pids),
        _ => Vec::new(),
    }
}

/// Loads the engine.
pub fn load(
    options: &pyrograph_record::Options,
    question: &Question,
    whom: &Whom,
    tables: TableArgs,
) -> Result<Engine, pyrograph_bpf::Error> {
    let processes = match &options.target {
        Target::Processes(pids) => Some(pids.iter().copied().chain(started_by(options)).collect()),
        Target::Command(_) => Some(Vec::new()),
        Target::System => None,
    };
    Engine::load(&pyrograph_bpf::Options {
        processes,
        inherit: options.inherit,
        user: options.user,
        kernel: options.kernel,
        trigger: answers::trigger(question),
        hertz: hertz(options),
        waits: answers::waits(question),
        min_block: question.waits.map_or(Duration::ZERO, |(_, min_block)| min_block),
        counts_events: question.counts_events,
        no_idle: question.no_idle,
        exact: question.exact,
        names: whom.names.clone(),
        group: whom.group,
        by_cpu: whom.by_cpu(),
        table_budget: tables.budget(),
        table_backend: tables.tables.map(|backend| match backend {
            tables::TableBackend::Arena => TableBackend::Arena,
            tables::TableBackend::Arrays => TableBackend::Arrays,
        }),
        at_switches: tables.at_switches,
        no_guess: tables.no_guess,
        cache: tables.cache(),
    })
}

impl InKernel<'_> {
    /// Records until the target ends, the time is over, or the user has seen enough.
    pub fn record(
        &self,
        engine: Engine,
        session: Session,
        command: Option<Waiting>,
        resolver: &mut Resolver<LiveFiles>,
    ) -> anyhow::Result<Recorded> {
        // What went wrong with a command has an exit code of its own.
        self.run(engine, session, command, resolver).map_err(|error| match error {
            Error::Record(error) => error.into(),
            Error::Engine(error) => error.into(),
        })
    }

    fn run(
        &self,
        mut engine: Engine,
        session: Session,
        command: Option<Waiting>,
        resolver: &mut Resolver<LiveFiles>,
    ) -> Result<Recorded, Error> {
        resolver.expect_file("[vdso]");
        if let Target::Command(argv) = self.target {
            for path in argv.first().into_iter().flat_map(|program| needed::files(program)) {
                resolver.expect_file(&path.to_string_lossy());
            }
        }
        tell_files(&mut engine, resolver);
        prefer_this_thread();
        let mut running = Running::prepare(self, engine, session, command, resolver)?;
        if self.allocations {
            answers::say_cost_of_allocations();
        }
        let progress = Progress::start();
        while running.step()? {
            progress.say(|| {
                let samples = counted(running.samples(), "sample");
                format!("{samples}, {} lost; Ctrl-C ends it", grouped(running.engine.stats().lost))
            });
        }
        progress.end();
        running.finish()?;
        let ended = running.engine.end().at().unwrap_or_else(Instant::now);
        let Running { engine, recording, child, prepared, begun, .. } = running;
        if self.verbose {
            say!("{}; {}", tables(&engine), stacks(&engine.stats()));
            say!("{}", memory_said(&engine));
        }
        if let Some(left_out) = left_out(&engine, resolver, self.verbose) {
            say!("{left_out}");
        }
        let cpu_time = (prepared, cpu_time());
        let span = (begun.unwrap_or(ended), ended);
        Ok(Recorded { summary: summary(recording, &engine), child, cpu_time, span })
    }
}

/// `412 unwind tables of 3,114,212 rows in 21 MiB of an arena, 310 of them from the cache, made in 35 ms`.
fn tables(engine: &Engine) -> String {
    let TableStats { tables, rows, bytes, cached, time, .. } = engine.table_stats();
    format!(
        "{} of {} rows in {} MiB of {}, {} of them from the cache, made in {} ms",
        counted(tables, "unwind table"),
        grouped(rows),
        bytes >> 20,
        match engine.table_backend() {
            TableBackend::Arena => "an arena",
            TableBackend::Arrays => "arrays",
        },
        grouped(cached),
        time.as_millis()
    )
}

/// The unwind tables for which there was no room, and the stacks that are incomplete for it.
fn left_out(engine: &Engine, resolver: &Resolver<LiveFiles>, all: bool) -> Option<String> {
    const MOST: usize = 5;
    let TableStats { bytes, omitted, .. } = engine.table_stats();
    let modules = engine.left_out();
    if omitted == 0 && modules.is_empty() {
        return None;
    }
    let shown = if all { modules.len() } else { MOST };
    let mut places: Vec<_> = modules
        .iter()
        .take(shown)
        .map(|(module, events)| {
            format!("{} in {}", grouped(*events), resolver.module_path(*module))
        })
        .collect();
    let rest: u64 = modules.iter().skip(shown).map(|(_, events)| events).sum();
    if rest > 0 {
        places.push(format!("{} in others", grouped(rest)));
    }
    Some(format!(
        "{} MiB did not hold all unwind tables (--table-memory): {} left out at the end; stacks that end for \
         this: {}",
        bytes >> 20,
        grouped(omitted),
        if places.is_empty() { "none".to_owned() } else { places.join(", ") }
    ))
}

/// What of memory the recording took at its end.
fn memory_said(engine: &Engine) -> String {
    // The kernel does not count what is in an arena.
    let arena = match engine.table_backend() {
        TableBackend::Arena => engine.table_stats().bytes,
        TableBackend::Arrays => 0,
    };
    format!(
        "{}; and {} MiB in the kernel, of which --table-memory limits the tables",
        Resident::now(),
        maps::memory_of_maps().saturating_add(arena) >> 20
    )
}

/// How user stacks ended in the kernel.
fn stacks(stats: &Stats) -> String {
    format!(
        "{} unwound in the kernel, {} copied out and unwound in user space; {} not copied for lack of room",
        counted(stats.ends.iter().sum(), "user stack"),
        grouped(stats.copied),
        grouped(stats.copies_refused)
    )
}

fn summary(recording: Recording, engine: &Engine) -> Summary {
    for notice in recording.notices() {
        // Of processes that were just ending: the programs look up mappings themselves.
        if !matches!(notice, Notice::ProcessesUnreadable { .. }) {
            say!("{notice}");
        }
    }
    let mut summary = recording.finish();
    let stats = engine.stats();
    summary.lost = summary.lost.saturating_add(stats.lost);
    summary.skipped = stats.skipped;
    summary
}

/// Says what the kernel has of what the engine makes use of, and what it lacks.
pub fn say_features() {
    let (there, missing) = pyrograph_bpf::features();
    let names: Vec<_> = there.iter().map(|feature| feature.name()).collect();
    say!("the kernel has {}", names.join(", "));
    missing.into_iter().for_each(say_lack);
}

/// Says what the kernel lacks for what is asked.
pub fn say_lacks(engine: &Engine) {
    engine.lacks().into_iter().for_each(say_lack);
}

fn say_lack(feature: Feature) {
    say!("the kernel lacks {} ({}): {}", feature.name(), feature.since(), without(feature));
}

/// What is different without a feature of the kernel.
fn without(feature: Feature) -> &'static str {
    match feature {
        Feature::AttachCookies => "--alloc does not work",
        Feature::Loops => "programs loop over the rows of a table instead",
        Feature::OtherThreads => {
            "of threads that wait already when a recording begins only the kernel's part of their stacks is told"
        }
        Feature::KernelLocks => {
            "--locks counts waits for locks of programs and not for those of the kernel"
        }
        Feature::MapleTrees => "stacks may end too early while their process changes its mappings",
        Feature::MapMemory => "--alloc --live takes its memory in the kernel at once",
        Feature::Sockets => "--net does not work",
        Feature::BlockRequests => {
            "--block-io looks at requests when the driver gets them, and not when they are made"
        }
        Feature::Arenas => "unwind tables are in arrays, and a stack takes a little longer",
        Feature::Resume => {
            "--off-cpu and --wall do not know the stacks of some longer waits where there are very many"
        }
        Feature::Types | Feature::RingBuffers | Feature::ThreadStorage | Feature::UserRegisters => {
            "there is no in-kernel engine"
        }
    }
}

/// Whether a process with this number runs.
pub fn is_running(pid: i32) -> bool {
    // SAFETY: signal 0 is not delivered.
    let sent = unsafe { libc::kill(pid, 0) };
    // It may be another user's, which this one may not send a signal.
    sent == 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}
