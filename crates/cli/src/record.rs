//! `pyrograph record`: takes samples and writes the outputs.

pub mod filters;
mod goroutines;
mod haskell;
pub mod messages;
mod plan;
pub mod question;
pub mod sampling;
mod share;
mod verdict;

use std::cell::Cell;
use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Instant;

use pyrograph_analyze::{Filter, named};
use pyrograph_export::Output;
use pyrograph_session::memory::{self, Resident};
use pyrograph_session::{Child, Engine, Error, Finished, Message, Recorder, Resolved};
use pyrograph_terminal::{Interrupt, Spinner, browser};

use self::messages::{cost, left_out, too_short};
pub use self::plan::Args;
use self::plan::Plan;
use self::verdict::say_verdict;
use crate::live::forward_signal;
use crate::say::{is_quiet, say, say_error};
use crate::streams::{say_nameless, say_written};
use crate::units::{counted, grouped};
use crate::{found, other_rights};

/// Runs `pyrograph record`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut plan = Plan::new(args)?;
    let question = &plan.recording.question;
    let begun = Instant::now();
    let recorded = record(&plan).map_err(|error| {
        if let Error::Engine(error) = &error
            && plan.verbose
        {
            error.details().into_iter().flat_map(str::lines).for_each(|line| say!("{line}"));
        }
        question::refused(error, question)
    })?;
    let (finished, interrupt, too_early) = recorded;
    let Finished { mut resolved, summary, event, engine, child, cpu_time, .. } = finished;
    let filter = Filter { by: plan.levels.clone(), stacks: plan.view, ..Filter::default() };
    // As for files that are read: filters see names in the requested form.
    if let Some(form) = plan.names {
        resolved.profile = named(resolved.profile, form);
    }
    resolved.profile = filter.apply(resolved.profile)?;
    let no_samples = match resolved.stats.samples {
        0 if too_early => Some("it has ended before --delay was over".to_owned()),
        0 => other_rights::of_target(&plan.recording.scope.target),
        _ => None,
    };
    let (name, reason) = (question.name(&event), no_samples.is_some());
    say_verdict(&resolved, &summary, (name, question), reason, plan.verbose);
    if engine == Engine::InKernel && question.thins_stacks() && !question.exact {
        messages::thinned(resolved.stats.samples, begun.elapsed(), question.noun());
    }
    messages::files(&resolved);
    if let Some(left_out) = left_out(&resolved, plan.recording.stack_memory) {
        say!("{left_out}");
    }
    say_nameless(&resolved.profile, resolved.profile.shown, &resolved.stats.rewritten_files);
    // An empty recording must not replace an earlier one; files that were named are written.
    let is_nothing = resolved.stats.samples == 0;
    let before = if is_nothing { plan.files_of_before() } else { Vec::new() };
    if !before.is_empty() {
        let is_unnamed = |output: &Output| plan.unnamed.iter().any(|name| output.goes_to(name));
        plan.outputs.retain(|output| !is_unnamed(output));
        say!("nothing was recorded: kept {} of an earlier recording", before.join(" and "));
    }
    let written = write_all(&plan, &resolved);
    if plan.verbose {
        say!("{}", cost(cpu_time));
        say!("{} (at the end)", messages::memory(&Resident::now()));
    }
    if engine == Engine::Perf {
        too_short(&summary);
    }
    let code = exit_code(child, &interrupt)?;
    written?;
    if let Some(reason) = no_samples {
        say_error!("{reason}");
        return Ok(ExitCode::FAILURE);
    }
    show(&plan);
    Ok(code)
}

/// Records until the target ends, the time is over, or the user stops it. The flag that is returned is true if that was
/// before the delay was over.
fn record(plan: &Plan) -> Result<(Finished, Interrupt, bool), Error> {
    memory::keep_none();
    let verbose = plan.verbose;
    // Time at which the command was started, or at which sampling of other targets began.
    let started = Rc::new(Cell::new(None));
    let starts = Rc::clone(&started);
    let mut recorder = Recorder::open(&plan.recording, move |message: Message| {
        if matches!(message, Message::Started(_) | Message::Engine(Engine::Perf)) {
            starts.set(Some(Instant::now()));
        }
        messages::print(&message, verbose);
    })?;
    let mut delay = plan.delay;
    if delay.is_some() {
        recorder.pause()?;
    }
    let interrupt = Interrupt::catch().map_err(|source| pyrograph_record::Error::System {
        doing: "catching signals".to_owned(),
        source,
    })?;
    let mut spinner = Some(Spinner::start(!is_quiet()));
    while recorder.step()? {
        if interrupt.asked() {
            if let Some(spinner) = spinner.take() {
                spinner.end();
                say!("writing {}; Ctrl-C again loses the recording", plan.names_of_outputs());
            }
            recorder.stop();
        }
        if let (Some(time), Some(started)) = (delay, started.get())
            && started.elapsed() >= time
        {
            recorder.resume()?;
            delay = None;
        }
        if let Some(spinner) = &spinner {
            spinner.say(|| {
                let pyrograph_session::Progress { samples, lost } = recorder.progress();
                format!("{}, {} lost; Ctrl-C ends it", counted(samples, "sample"), grouped(lost))
            });
        }
    }
    drop(spinner);
    Ok((recorder.finish()?, interrupt, delay.is_some()))
}

/// Opens the picture in the browser, or prints on a terminal how to open it.
fn show(plan: &Plan) {
    let Some(picture) = plan.outputs.iter().find_map(Output::picture) else { return };
    if plan.open {
        crate::show::open(picture);
    } else if std::io::stderr().is_terminal() {
        say!("to see it: {}", browser::command_line(picture));
    }
}

/// Writes all outputs even if some fail; returns the first error. If no file has the whole recording, because the disk is
/// full, for example, writes it to the folder for temporary files.
fn write_all(plan: &Plan, resolved: &Resolved) -> anyhow::Result<()> {
    let mut result = Ok(());
    let mut has_data = false;
    let mut picture = plan.picture.clone();
    if plan.outputs.iter().any(Output::is_page) {
        picture.code = plan.code.of(&resolved.profile, &plan.recording.symbol_options());
    }
    for output in &plan.outputs {
        let before = output.is_kept().then(found::Before::hold);
        match output.write(&resolved.profile, &plan.labels, &plan.title, &picture) {
            Ok(written) => {
                has_data |= output.is_data();
                if let Some(before) = before {
                    before.replaced();
                }
                say_written(written);
                if output.holds_sources() {
                    output
                        .not_held(&resolved.profile)
                        .iter()
                        .for_each(|lost| say!("{output}: {lost}"));
                }
                say!("wrote {output}");
                if let Some(counts) = output.counts(&resolved.profile) {
                    let samples = match plan.recording.count_samples {
                        true => "",
                        false => "; --count samples counts samples",
                    };
                    say!("{output}: {counts}{samples}");
                }
                if let Some(which) = output.which() {
                    say!("{which}");
                }
            }
            Err(error) if result.is_ok() && !(output.is_kept() && plan.has_names()) => {
                result = Err(error.into());
            }
            Err(error) => say_error!("{:#}", anyhow::Error::from(error)),
        }
    }
    if result.is_err() && !has_data {
        rescue(plan, resolved);
    }
    result
}

/// Writes the whole recording to the folder for temporary files.
fn rescue(plan: &Plan, resolved: &Resolved) {
    let name = format!("flamegraph-{}.pb.gz", std::process::id());
    let written = Output::kept(&std::env::temp_dir().join(name)).map_err(anyhow::Error::from);
    let written = written.and_then(|output| {
        output.write(&resolved.profile, &plan.labels, &plan.title, &plan.picture)?;
        Ok(output)
    });
    match written {
        Ok(output) => {
            say_error!("the recording is in {output}: pyrograph flamegraph {output} draws it");
        }
        Err(error) => say_error!("{error:#}"),
    }
}

/// Exit code of the command; 128 plus the number of the signal if a signal killed it, as in shells. If the command still
/// runs, waits for it: the recording is over, but the command is still the user's program.
fn exit_code(child: Option<Child>, interrupt: &Interrupt) -> anyhow::Result<ExitCode> {
    let Some(mut child) = child else { return Ok(ExitCode::SUCCESS) };
    forward_signal(&child, interrupt);
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
    Ok(ExitCode::from(child.exit_code()?))
}
