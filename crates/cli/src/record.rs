//! `pyrograph record`: samples, and writes what came of it.

mod plan;
mod said;

use std::os::unix::process::ExitStatusExt;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use pyrograph_record::{
    Child, Error, Event, Next, Rate, Session, StackMode, Summary, Target, Waiting,
};
use pyrograph_resolve::{LiveFiles, Resolved, Resolver};

pub use self::plan::Args;
use self::plan::{EngineChoice, Plan};
use self::said::{closing_line, cost, left_out, stacks_held, too_short};
use crate::cpu_time::cpu_time;
use crate::in_kernel::{self, Engine, InKernel, Recorded};
use crate::interrupt::Interrupt;
use crate::memory::{self, Resident};
use crate::progress::Progress;
use crate::question::NotThere;
use crate::say::say;
use crate::units::{counted, grouped};

/// The exit code for a command that could not be run, as shells have it.
const COMMAND_NOT_RUN: u8 = 127;

/// How long to wait for records before looking at the clock and for signals.
const TICK: Duration = Duration::from_millis(50);

/// Runs `pyrograph record`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let plan = match Plan::new(args) {
        Ok(plan) => plan,
        Err(error) => {
            say!("{error:#}");
            return Ok(ExitCode::from(if error.is::<NotThere>() { 1 } else { 2 }));
        }
    };
    match sample(&plan) {
        Err(error) if matches!(error.downcast_ref(), Some(Error::Command { .. })) => {
            say!("{error}");
            Ok(ExitCode::from(COMMAND_NOT_RUN))
        }
        sampled => {
            let Sampled { resolver, summary, event, child, interrupt, in_kernel, cpu_time } =
                sampled.map_err(|error| plan.question.refused(error))?;
            if plan.verbose {
                say!("{}", stacks_held(&resolver.stack_memory()));
            }
            let mut resolved = resolver.finish();
            resolved.profile = plan.whom.put_levels(resolved.profile)?;
            closing_line(&resolved, &summary, plan.question.name(&event), plan.question.noun());
            if let Some(left_out) = left_out(&resolved, plan.stack_memory) {
                say!("{left_out}");
            }
            let written = write_all(&plan, &resolved);
            if plan.verbose {
                say!("{}", cost(cpu_time));
                say!("{} (at the end)", Resident::now());
            }
            let code = exit_code(child, &interrupt)?;
            written?;
            if !in_kernel {
                too_short(&summary);
            }
            Ok(code)
        }
    }
}

/// Writes every output, whatever becomes of the others; the first error is returned.
fn write_all(plan: &Plan, resolved: &Resolved) -> anyhow::Result<()> {
    let mut result = Ok(());
    for output in &plan.outputs {
        match output.write(&resolved.profile, &plan.labels, &plan.title) {
            Ok(()) => {
                if output.holds_sources() {
                    output
                        .not_held(&resolved.profile)
                        .iter()
                        .for_each(|lost| say!("{output}: {lost}"));
                }
                say!("wrote {output}");
                if let Some(which) = output.which() {
                    say!("{which}");
                }
            }
            Err(error) if result.is_ok() => result = Err(error),
            Err(error) => say!("{error:#}"),
        }
    }
    result
}

/// What a recording leaves.
struct Sampled {
    resolver: Resolver<LiveFiles>,
    summary: Summary,
    event: Event,
    child: Option<Child>,
    interrupt: Interrupt,
    in_kernel: bool,
    /// CPU time of this process when the recording began, and when it ended.
    cpu_time: (Duration, Duration),
}

/// Records until the target ends, the time is over, or the user has seen enough.
fn sample(plan: &Plan) -> anyhow::Result<Sampled> {
    memory::keep_none();
    match load_engine(plan)? {
        Some(engine) => {
            if plan.verbose {
                say!("stacks are taken by the in-kernel engine");
                in_kernel::say_features();
            } else {
                in_kernel::say_lacks(&engine);
            }
            sample_in_kernel(plan, engine)
        }
        None => {
            if plan.verbose {
                say!("stacks are taken by perf_event_open");
            }
            Ok(sample_by_perf(plan)?)
        }
    }
}

/// The in-kernel engine, if it is to serve.
fn load_engine(plan: &Plan) -> anyhow::Result<Option<Engine>> {
    let load = || {
        let engine = in_kernel::load(&plan.options, &plan.question, &plan.whom, plan.tables);
        engine.inspect_err(|error| {
            let details = error.details().filter(|_| plan.verbose).unwrap_or_default();
            details.lines().for_each(|line| say!("{line}"));
        })
    };
    match plan.engine {
        Some(EngineChoice::Perf) if plan.question.in_kernel_only || !plan.whom.is_all() => {
            bail!(
                "only the in-kernel engine can tell this: leave out --engine perf and --call-graph"
            )
        }
        Some(EngineChoice::Perf) => Ok(None),
        Some(EngineChoice::Ebpf) => Ok(Some(load()?)),
        // What the kernel has counted has no times.
        None if plan.keeps_times() && !plan.question.tells_more_in_kernel() => Ok(None),
        None => match load() {
            Ok(engine) => Ok(Some(engine)),
            // Then it needs no word: perf_event says what it may not.
            Err(error) if error.is_permission() => Ok(None),
            Err(error) => {
                say!("{error}; recording with perf_event instead");
                Ok(None)
            }
        },
    }
}

/// With programs in the kernel that unwind and count.
fn sample_in_kernel(plan: &Plan, engine: Engine) -> anyhow::Result<Sampled> {
    let target = &plan.options.target;
    if let Target::Processes(pids) = target
        && let Some(pid) = pids.iter().find(|pid| !in_kernel::is_running(**pid))
    {
        return Err(Error::NoSuchProcess { pid: *pid }.into());
    }
    // The child is made before limits are raised, so that it has those of its user.
    let command = match target {
        Target::Command(argv) => Some(Waiting::fork(argv)?),
        Target::Processes(_) | Target::System => None,
    };
    // The programs choose among all that runs.
    let event = plan.question.event_beside_probe()?;
    let rate = Rate::default_for(target, event.as_ref().unwrap_or(&Event::cpu_clock()));
    let options = pyrograph_record::Options {
        target: Target::System,
        stack: StackMode::Untold,
        rate: Some(plan.options.rate.unwrap_or(rate)),
        event,
        patience: in_kernel::PATIENCE_WITH_RECORDS,
        told: match target {
            Target::Processes(pids) => Some(pids.clone()),
            Target::Command(_) => Some(Vec::new()),
            Target::System => None,
        },
        duration: None,
        ..plan.options.clone()
    };
    let session = Session::open(&options)?;
    for notice in session.notices() {
        say!("{notice}");
    }
    let event = session.event().clone();
    let mut resolver = Resolver::new(LiveFiles, plan.resolve_options(&event));
    let interrupt = Interrupt::catch()
        .map_err(|source| Error::System { doing: "catching signals".to_owned(), source })?;
    let interrupted = || interrupt.asked();
    let recording = InKernel {
        target,
        inherit: plan.options.inherit,
        duration: plan.duration,
        interrupted: &interrupted,
        verbose: plan.verbose,
        returned: plan.question.returned(),
        allocations: plan.question.is_of_allocations(),
    };
    let Recorded { summary, child, cpu_time } =
        recording.record(engine, session, command, &mut resolver)?;
    Ok(Sampled { resolver, summary, event, child, interrupt, in_kernel: true, cpu_time })
}

/// With the samples that the kernel copies out.
fn sample_by_perf(plan: &Plan) -> Result<Sampled, Error> {
    let session = Session::open(&plan.options)?;
    for notice in session.notices() {
        say!("{notice}");
    }
    let event = session.event().clone();
    let layout = session.layout();
    let monotonic_time = session.has_monotonic_time();
    let options = pyrograph_resolve::Options { monotonic_time, ..plan.resolve_options(&event) };
    let mut resolver = Resolver::new(LiveFiles, options);
    let interrupt = Interrupt::catch()
        .map_err(|source| Error::System { doing: "catching signals".to_owned(), source })?;
    let mut recording = session.start()?;

    let begun = cpu_time();
    let stopper = recording.stopper();
    let progress = Progress::start();
    loop {
        match recording.next(TICK) {
            Next::End => break,
            Next::Waiting => {}
            Next::Batch(batch) => {
                for record in batch.iter() {
                    match layout.decode(record) {
                        Ok(record) => resolver.record(&record),
                        Err(_) => resolver.unreadable(),
                    }
                }
                if resolver.settle() {
                    memory::give_back();
                }
            }
        }
        // The reader knows when the time is over.
        if interrupt.asked() {
            stopper.stop();
        }
        progress.say(|| {
            let samples = counted(resolver.stats().samples, "sample");
            format!("{samples}, {} lost", grouped(recording.lost()))
        });
    }
    progress.end();

    for notice in recording.notices() {
        say!("{notice}");
    }
    if plan.verbose {
        say!("{}", Resident::now());
    }
    let child = recording.take_child();
    let (summary, cpu_time) = (recording.finish(), (begun, cpu_time()));
    Ok(Sampled { resolver, summary, event, child, interrupt, in_kernel: false, cpu_time })
}

/// The command's own exit code; 128 and the signal's number if one ended it, as shells have it. A
/// command that still runs is waited for: recording is over, but it is still the user's program.
fn exit_code(child: Option<Child>, interrupt: &Interrupt) -> anyhow::Result<ExitCode> {
    let Some(mut child) = child else { return Ok(ExitCode::SUCCESS) };
    if interrupt.only_us() {
        child.signal(libc::SIGTERM).ok();
    }
    let status = match child.try_wait()? {
        Some(status) => status,
        None => {
            say!("the command goes on (PID {})", child.pid());
            child.wait()?
        }
    };
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}
