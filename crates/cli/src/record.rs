//! `pyrograph record`: samples, and writes what came of it.

mod plan;
mod said;

use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pyrograph_record::{
    Child, Error, Event, Next, Rate, Session, StackMode, Stopper, Summary, Target, Waiting,
};
use pyrograph_resolve::{LiveFiles, Resolved, Resolver};

pub use self::plan::Args;
use self::plan::{EngineChoice, Plan};
use self::said::{closing_line, cost, left_out, stacks_held, too_short};
use crate::browser;
use crate::cpu_time::cpu_time;
use crate::found;
use crate::in_kernel::{self, Engine, InKernel, Recorded};
use crate::interrupt::Interrupt;
use crate::memory::{self, Resident};
use crate::nameless;
use crate::output::Output;
use crate::progress::Progress;
use crate::say::{misuse, say, say_error};
use crate::units::{counted, grouped};

/// How long to wait for records before looking at the clock and for signals.
const TICK: Duration = Duration::from_millis(50);

/// Runs `pyrograph record`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let plan = Plan::new(args)?;
    let sampled = sample(&plan).map_err(|error| plan.question.refused(error))?;
    let Sampled { resolver, summary, event, child, interrupt, in_kernel, cpu_time, times } =
        sampled;
    if plan.verbose {
        say!("{}", stacks_held(&resolver.stack_memory()));
    }
    let mut resolved = resolver.finish();
    resolved.profile = plan.whom.put_levels(resolved.profile)?;
    let about = &mut resolved.profile.about;
    about.start = Some(times.0);
    about.duration = Some(times.1);
    about.host = host();
    about.lost = summary.lost;
    closing_line(&resolved, &summary, plan.question.name(&event), &plan.question);
    if let Some(left_out) = left_out(&resolved, plan.stack_memory) {
        say!("{left_out}");
    }
    nameless::advice(&resolved.profile, resolved.profile.shown)
        .iter()
        .for_each(|line| say!("{line}"));
    let written = write_all(&plan, &resolved);
    if plan.verbose {
        say!("{}", cost(cpu_time));
        say!("{} (at the end)", Resident::now());
    }
    if !in_kernel {
        too_short(&summary);
    }
    let is_written = written.is_ok();
    let code = exit_code(child, &interrupt)?;
    written?;
    if is_written {
        show(&plan);
    }
    Ok(code)
}

/// Shows the picture, or says on a terminal how to.
fn show(plan: &Plan) {
    let Some(picture) = plan.outputs.iter().find_map(Output::picture) else { return };
    if plan.open {
        browser::open(picture);
    } else if std::io::stderr().is_terminal() {
        say!("to see it: {}", browser::command_line(picture));
    }
}

/// Writes every output, whatever becomes of the others; the first error is returned.
fn write_all(plan: &Plan, resolved: &Resolved) -> anyhow::Result<()> {
    let mut result = Ok(());
    for output in &plan.outputs {
        if output.is_kept() {
            found::keep_before();
        }
        match output.write(&resolved.profile, &plan.labels, &plan.title, &plan.picture) {
            Ok(()) => {
                if output.holds_sources() {
                    output
                        .not_held(&resolved.profile)
                        .iter()
                        .for_each(|lost| say!("{output}: {lost}"));
                }
                say!("wrote {output}");
                if let Some(counts) = output.counts(&resolved.profile) {
                    let samples =
                        if plan.counts_periods() { "; --count samples counts samples" } else { "" };
                    say!("{output}: {counts}{samples}");
                }
                if let Some(which) = output.which() {
                    say!("{which}");
                }
            }
            Err(error) if result.is_ok() => result = Err(error),
            Err(error) => say_error!("{error:#}"),
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
    /// When the recording began, in nanoseconds since 1970, and how long it took.
    times: (u64, u64),
}

/// Nanoseconds from 1970 to when a recording began, and from then to its end.
fn times(begun: Instant, ended: Instant) -> (u64, u64) {
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (nanoseconds(now.saturating_sub(begun.elapsed())), nanoseconds(ended - begun))
}

/// The name of this machine.
fn host() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
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
            misuse!(
                "only the in-kernel engine can record this: leave out --engine perf and --call-graph"
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
        Target::Command(argv) => Some(argv),
        Target::Processes(_) | Target::System => plan.beside.as_ref(),
    };
    let command = command.map(|argv| Waiting::fork(argv, plan.options.output_to_stderr));
    let command = command.transpose()?;
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
    let Recorded { summary, child, cpu_time, span } =
        recording.record(engine, session, command, &mut resolver)?;
    Ok(Sampled {
        resolver,
        summary,
        event,
        child,
        interrupt,
        in_kernel: true,
        cpu_time,
        times: times(span.0, span.1),
    })
}

/// With the samples that the kernel copies out.
fn sample_by_perf(plan: &Plan) -> Result<Sampled, Error> {
    // Before limits are raised, so that it has those of its user.
    let beside = plan.beside.as_ref();
    let beside =
        beside.map(|argv| Waiting::fork(argv, plan.options.output_to_stderr)).transpose()?;
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
    let beside = beside.map(Waiting::run).transpose()?;
    if let Some(child) = &beside {
        stop_with(child.pid(), recording.stopper());
    }

    let (began, begun) = (Instant::now(), cpu_time());
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
            format!("{samples}, {} lost; Ctrl-C ends it", grouped(recording.lost()))
        });
    }
    progress.end();
    let times = times(began, Instant::now());

    for notice in recording.notices() {
        say!("{notice}");
    }
    if plan.verbose {
        say!("{}", Resident::now());
    }
    let child = recording.take_child().or(beside);
    let (summary, cpu_time) = (recording.finish(), (begun, cpu_time()));
    Ok(Sampled { resolver, summary, event, child, interrupt, in_kernel: false, cpu_time, times })
}

/// Ends a recording at once when a child ends, however busy this thread is.
fn stop_with(pid: i32, stopper: Stopper) {
    let wait = move || {
        // SAFETY: `siginfo_t` is valid when zero; the kernel fills it in, and does not reap the child.
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let flags = libc::WEXITED | libc::WNOWAIT;
            libc::waitid(libc::P_PID, pid.cast_unsigned(), &raw mut info, flags);
        }
        stopper.stop();
    };
    // Without a thread it ends with Ctrl-C or the time.
    std::thread::Builder::new().name("child".to_owned()).spawn(wait).ok();
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
            say!("waiting for the command, which still runs (PID {})", child.pid());
            child.wait()?
        }
    };
    if let Some(signal) = status.signal().filter(|_| !interrupt.asked()) {
        let name = signal_hook::low_level::signal_name(signal).unwrap_or("a real-time signal");
        say!("the command was killed by signal {signal} ({name})");
    }
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}
