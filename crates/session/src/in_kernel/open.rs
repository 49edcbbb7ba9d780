//! Opening: from a plan to programs in the kernel that are attached, and do not count yet.

use std::hint::black_box;
use std::time::{Duration, Instant};

use pyrograph_bpf::{Engine, RefusedLanguages, prefer_this_thread};
use pyrograph_event::request::Trigger;
use pyrograph_profile::ThreadDetail;
use pyrograph_record::{Event, Options, Rate, Session, StackMode, Target, Unit};
use pyrograph_resolve::{LiveFiles, Resolver};

use super::feed::add_files;
use super::running::Running;
use crate::engine_error::EngineError;
use crate::error::Error;
use crate::message::{Message, Report};
use crate::needed;
use crate::plan::{self, Plan};
use crate::sampler::Opened;

/// Maximum age of records of processes in the ring buffers. The programs themselves learn at once what they need.
pub const PATIENCE_WITH_RECORDS: Duration = Duration::from_millis(100);

/// Opens the engine. Returns the inner error if it cannot be used, so that another engine can be tried.
pub(crate) fn open(plan: &Plan, report: &mut Report) -> Result<Result<Opened, EngineError>, Error> {
    let engine = match load(plan) {
        Ok(engine) => engine,
        Err(error) => return Ok(Err(error.into())),
    };
    report(Message::Engine(plan::Engine::InKernel));
    engine.lacks().into_iter().for_each(|feature| report(Message::Lacks(feature)));
    open_with(engine, plan, report).map(Ok)
}

fn open_with(mut engine: Engine, plan: &Plan, report: &mut Report) -> Result<Opened, Error> {
    plan.scope.target.check()?;
    // The child is forked before limits are raised, so that it has the limits of its user.
    let command = plan.scope.target.fork(plan.scope.beside.as_ref(), &plan.scope.launch)?;
    let session = Session::open(&events(plan)?)?;
    session.notices().iter().for_each(|notice| report(Message::Notice(notice.clone())));
    let event = session.event().clone();
    let mut options = plan.resolve_options(&event);
    if let Some(RefusedLanguages { languages, error }) = engine.refused_languages() {
        options.languages.retain(|language| !languages.contains(language));
        report(Message::LanguagesRefused { languages, error: error.into() });
    }
    let mut resolver = Resolver::new(LiveFiles, options);
    resolver.expect_file("[vdso]");
    if let Target::Command(argv) = &plan.scope.target {
        for path in argv.first().into_iter().flat_map(|program| needed::files(program)) {
            resolver.expect_file(&path.to_string_lossy());
        }
    }
    add_files(&mut engine, &mut resolver);
    prefer_this_thread();
    let running = Running::prepare(plan, engine, session, command)?;
    if matches!(plan.question.trigger(), Trigger::Allocations { .. }) {
        report(Message::AllocationCost(cost_of_allocations()));
    }
    Ok(Opened { sampler: Box::new(running), resolver, event, monotonic_time: true })
}

/// Loads the programs.
fn load(plan: &Plan) -> Result<Engine, pyrograph_bpf::Error> {
    let question = &plan.question;
    let engine = Engine::load(&pyrograph_bpf::Options {
        scope: plan.scope.in_kernel(),
        user: plan.user,
        kernel: plan.kernel,
        trigger: question.trigger().clone(),
        hertz: hertz(plan),
        waits: question.waits(),
        min_block: question.min_block,
        counts_events: plan.count_samples,
        no_idle: question.no_idle,
        exact: question.exact,
        by_cpu: plan.scope.filters.by_cpu || plan.keep_times,
        keep_times: plan.keep_times,
        table_memory: plan.table_memory,
        at_switches: plan.at_switches,
        guessing: plan.guessing,
        languages: if plan.user { plan.languages.clone() } else { Vec::new() },
        command_lines: plan.thread_detail != ThreadDetail::Name,
        lines: plan.lines,
    })?;
    for pid in plan.scope.target.family(plan.scope.inherit).into_iter().flatten() {
        engine.add_target(pid)?;
    }
    Ok(engine)
}

/// Sample rate of each CPU in Hz, if the trigger is a clock. (Without a named event, the trigger may be the counter of
/// cycles, for which the kernel keeps to a rate as well.)
fn hertz(plan: &Plan) -> Option<u64> {
    let event = plan.question.event().cloned().unwrap_or_else(Event::cpu_clock);
    match plan.rate.unwrap_or_else(|| Rate::default_for(&plan.scope.target, &event)) {
        Rate::Hertz(hertz) if event.unit() == Unit::Nanoseconds => Some(hertz),
        Rate::Every(period) if event.unit() == Unit::Nanoseconds => {
            Some((1_000_000_000 / period.max(1)).max(1))
        }
        _ => None,
    }
}

/// Options of the events to open. They are for the whole machine: the programs select the targets.
fn events(plan: &Plan) -> Result<Options, Error> {
    // With another trigger, the event only provides records of processes.
    let event = match plan.question.trigger() {
        Trigger::PerfEvents => plan.question.event().cloned(),
        _ => Some(Event::parse("dummy")?),
    };
    let rate = Rate::default_for(&plan.scope.target, event.as_ref().unwrap_or(&Event::cpu_clock()));
    Ok(Options {
        target: Target::System,
        stack: StackMode::None,
        rate: Some(plan.rate.unwrap_or(rate)),
        event,
        patience: PATIENCE_WITH_RECORDS,
        initial: plan.scope.target.processes(),
        duration: None,
        ..plan.events()
    })
}

/// Measures the time of a call that allocates memory while such calls are probed. The calls of this process are probed
/// if it uses the same C library. Returns `None` if they are not.
fn cost_of_allocations() -> Option<Duration> {
    const CALLS: u32 = 200;
    /// Minimum time of a probed call. Without a probe, a call takes some ten nanoseconds.
    const LEAST: Duration = Duration::from_nanos(300);
    let started = Instant::now();
    for _ in 0..CALLS {
        drop(black_box(Vec::<u8>::with_capacity(black_box(64))));
    }
    let each = started.elapsed() / CALLS;
    (each > LEAST).then_some(each)
}
