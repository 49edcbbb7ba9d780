//! Messages about a recording, during and after it.

use std::time::Duration;

use pyrograph_resolve::{FoundInterpreter, InterpreterVersion, Unknown, Warning};
use pyrograph_session::memory::Resident;
use pyrograph_session::{
    Engine, EngineReport, Feature, JvmReport, LostBy, Message, Resolved, StackMemory, Summary,
    TableStats, cpu_time, kernel_features,
};

use crate::say::say;
use crate::units::{counted, grouped, percent};

/// Prints a message of the recorder; with `verbose`, also messages about the recording itself.
pub fn print(message: &Message, verbose: bool) {
    match message {
        Message::FellBack(error) => {
            if verbose {
                error.details().into_iter().flat_map(str::lines).for_each(|line| say!("{line}"));
            }
            if !error.is_expected() {
                say!("{error}; recording with perf_event instead");
            }
        }
        Message::Engine(Engine::InKernel) if verbose => {
            say!("stacks are taken by the in-kernel engine");
            let (there, missing) = kernel_features();
            let names: Vec<_> = there.iter().map(|feature| feature.name()).collect();
            say!("the kernel has {}", names.join(", "));
            missing.into_iter().for_each(print_lack);
        }
        Message::Engine(Engine::Perf) if verbose => say!("stacks are taken by perf_event_open"),
        // With `verbose`, all missing features are printed above.
        Message::Lacks(feature) if !verbose => print_lack(*feature),
        Message::LanguagesRefused { languages, error } => {
            let names: Vec<_> = languages.iter().map(|it| it.name()).collect();
            say!(
                "functions of {} are not read: with them, {error}; please report this with the output of -v and of uname -r",
                names.join(", ")
            );
            if verbose {
                error.details().into_iter().flat_map(str::lines).for_each(|line| say!("{line}"));
            }
        }
        Message::Notice(notice) => say!("{notice}"),
        Message::AllocationCost(cost) => say!("{}", allocation_cost(*cost)),
        Message::Started(tables) if verbose => {
            say!("recording; {}", unwind_tables(tables));
        }
        Message::Jvm(report) => java(report, verbose),
        Message::InKernel(report) if verbose => {
            let EngineReport { tables, resident, kernel_bytes, .. } = report;
            say!("{}; {}", unwind_tables(tables), stacks_taken(report));
            if report.lost.total() > 0 {
                say!("{}", lost(&report.lost));
            }
            say!(
                "{}; and {} MiB in the kernel, of which --table-memory limits the tables",
                memory(resident),
                kernel_bytes >> 20
            );
        }
        Message::TablesLeftOut { bytes, omitted, files } => {
            say!("{}", tables_left_out(*bytes, *omitted, files, verbose));
        }
        Message::InterpretersLeftOut { files, limit } => {
            say!(
                "{} of interpreters beyond the first {limit} have native frames; record fewer processes, or name languages \
                 with --lang",
                counted(*files as u64, "file")
            );
        }
        Message::InterpretersNotRead(interpreters) => {
            let names =
                interpreters.iter().map(|it| format!("{} {}", it.language.name(), it.version));
            say!(
                "functions of {} are not shown, but those of the interpreter: --engine ebpf finds them, which takes root or \
                 CAP_BPF and CAP_PERFMON",
                names.collect::<Vec<_>>().join(", ")
            );
        }
        Message::Interpreter(found) => print_interpreter(found, verbose),
        Message::GoroutinesLeftOut(waits @ 1..) => say!(
            "{} of goroutines of Go's runtime (garbage collector and others) are left out",
            counted(*waits, "wait")
        ),
        Message::ValuesLeftOut { unread, negative } => {
            if *unread > 0 {
                say!(
                    "{} left out: a value was in memory that was not there yet, which the kernel does not wait for",
                    counted(*unread, "event")
                );
            }
            if *negative > 0 {
                say!(
                    "{} left out: a negative value has no width; --filter 'VALUE >= 0' chooses",
                    counted(*negative, "event")
                );
            }
        }
        Message::StillRun(processes) => say!("{}", still_run(processes)),
        Message::Memory(resident) if verbose => say!("{}", memory(resident)),
        Message::Stacks(memory) if verbose => say!("{}", stacks_held(memory)),
        Message::Engine(_)
        | Message::Lacks(_)
        | Message::Started(_)
        | Message::InKernel(_)
        | Message::GoroutinesLeftOut(0)
        | Message::Memory(_)
        | Message::Stacks(_) => {}
    }
}

fn print_interpreter(found: &FoundInterpreter, verbose: bool) {
    let path = &found.path;
    match &found.interpreter {
        Ok(InterpreterVersion { language, version, source }) if verbose => {
            say!("{} {version} ({path}): offsets by {source}", language.name());
        }
        Ok(_) => {}
        Err(Unknown { interpreter, reason }) => {
            say!("{interpreter} ({path}): {reason}; native frames");
        }
    }
}

fn print_lack(feature: Feature) {
    say!("the kernel lacks {} ({}): {}", feature.name(), feature.since(), without(feature));
}

/// Consequence of a missing kernel feature.
fn without(feature: Feature) -> &'static str {
    match feature {
        Feature::AttachCookies => "--alloc does not work",
        Feature::Loops => "programs loop over the rows of a table instead",
        Feature::OtherThreads => {
            "of threads that wait already when a recording begins only the kernel's part of their stacks is recorded"
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
        Feature::Resume => {
            "--off-cpu and --wall do not know the stacks of some longer waits where there are very many"
        }
        Feature::Types | Feature::RingBuffers | Feature::ThreadStorage | Feature::UserRegisters => {
            "there is no in-kernel engine"
        }
    }
}

/// Message about the cost of recording allocations.
fn allocation_cost(cost: Option<Duration>) -> String {
    let cost = match cost {
        Some(each) => format!("{:.1} µs, as measured here", each.as_secs_f64() * 1e6),
        None => "one to some microseconds".to_owned(),
    };
    format!(
        "each call for memory traps into the kernel, which takes {cost}, whatever is recorded; --page-faults shows who \
         touches new memory, and is cheap"
    )
}

/// Describes unwind tables: `412 unwind tables of 3,114,212 rows in 21 MiB, 310 of them from the cache, made in 35 ms`.
fn unwind_tables(tables: &TableStats) -> String {
    let TableStats { tables, rows, bytes, cached, time, .. } = tables;
    format!(
        "{} of {} rows in {} MiB, {} of them from the cache, made in {} ms",
        counted(*tables, "unwind table"),
        grouped(*rows),
        bytes >> 20,
        grouped(*cached),
        time.as_millis()
    )
}

/// Prints how names were requested from a Java virtual machine.
fn java(report: &JvmReport, verbose: bool) {
    match report {
        JvmReport::Named { pid, release, names, took } if verbose => {
            let release = release.as_deref().unwrap_or("of an unknown version");
            say!(
                "java {release} (PID {pid}) names its code: {} in {} ms",
                counted(*names as u64, "name"),
                took.as_millis()
            );
        }
        JvmReport::Done { pid, names, times, took } if verbose => say!(
            "java (PID {pid}) was asked for names {}, {} ms in all; {} at last",
            counted((*times).into(), "time"),
            took.as_millis(),
            counted(*names as u64, "name")
        ),
        JvmReport::Failed { pid, error } if verbose || !error.is_expected() => {
            say!("java (PID {pid}) does not name the code that it compiles: {error}");
        }
        JvmReport::Named { .. } | JvmReport::Done { .. } | JvmReport::Failed { .. } => {}
    }
}

/// Describes how user stacks were unwound: in the kernel or in user space.
fn stacks_taken(report: &EngineReport) -> String {
    format!(
        "{} unwound in the kernel, {} copied out and unwound in user space; {} not copied for lack of room",
        counted(report.unwound, "user stack"),
        grouped(report.copied),
        grouped(report.not_copied)
    )
}

/// Reasons for lost events.
fn lost(lost: &LostBy) -> String {
    let causes = [
        (lost.counts, "for want of room in the table of counts"),
        (lost.stacks, "for want of room for their stacks, which the recorder did not take in time"),
        (lost.busy, "while the CPU was at work on others"),
        (lost.unknown, "whose stacks never came"),
    ];
    let causes = causes.iter().filter(|(number, _)| *number > 0);
    let causes: Vec<_> =
        causes.map(|(number, why)| format!("{} {why}", grouped(*number))).collect();
    format!("lost: {}", causes.join(", "))
}

/// Describes unwind tables that were omitted for lack of memory, and the stacks that are incomplete because of it.
fn tables_left_out(bytes: u64, omitted: u64, files: &[(String, u64)], all: bool) -> String {
    const MOST: usize = 5;
    let shown = if all { files.len() } else { MOST };
    let mut places: Vec<_> = files
        .iter()
        .take(shown)
        .map(|(path, stacks)| format!("{} in {path}", grouped(*stacks)))
        .collect();
    let rest: u64 = files.iter().skip(shown).map(|(_, stacks)| stacks).sum();
    if rest > 0 {
        places.push(format!("{} in others", grouped(rest)));
    }
    format!(
        "{} MiB did not hold all unwind tables (--table-memory): {} left out at the end; stacks that end for \
         this: {}",
        bytes >> 20,
        grouped(omitted),
        if places.is_empty() { "none".to_owned() } else { places.join(", ") }
    )
}

/// Message: `the command has ended, but 1 process that it started still runs: nginx (PID 12); -p 12 records it`.
fn still_run(processes: &[(i32, String)]) -> String {
    const SHOWN: usize = 4;
    let named = |(pid, name): &(i32, String)| format!("{name} (PID {pid})");
    let mut names: Vec<String> = processes.iter().take(SHOWN).map(named).collect();
    if processes.len() > SHOWN {
        names.push(format!("{} more", processes.len() - SHOWN));
    }
    let numbers: Vec<String> =
        processes.iter().take(SHOWN).map(|(pid, _)| pid.to_string()).collect();
    let (count, run, them) = match processes.len() {
        1 => ("1 process".to_owned(), "runs", "it"),
        many => (format!("{many} processes"), "run", "them"),
    };
    format!(
        "the command has ended, but {count} that it started still {run}: {}; -p {} records {them}",
        names.join(", "),
        numbers.join(",")
    )
}

/// Describes memory use: `memory: 60 MiB, of which 21 MiB are pages of files, and 70 MiB at most`.
pub fn memory(resident: &Resident) -> String {
    let Resident { all, files, peak } = resident;
    let [all, files, peak] = [all, files, peak].map(|bytes| bytes >> 20);
    format!("memory: {all} MiB, of which {files} MiB are pages of files, and {peak} MiB at most")
}

/// Reports if there were so many events that stacks were sampled; `time` is at least as long as the recording.
pub fn thinned(events: u64, time: Duration, noun: &str) {
    /// Limit in events per second and CPU, as in the help of `--exact`.
    const MOST: f64 = 2000.0;
    if events as f64 > MOST * time.as_secs_f64() {
        say!(
            "of more than 2,000 {noun}s a second on a CPU, stacks are sampled: sums are exact, shares of functions are \
             estimates; --exact takes every stack"
        );
    }
}

/// Reports files and symbols that were not available.
pub fn files(resolved: &Resolved) {
    let names = &resolved.stats.names;
    if names.kernel_hidden {
        say!(
            "the kernel hides its symbols from this user; to permit them: \
             sudo sysctl kernel.kptr_restrict=0"
        );
    }
    let missing = &resolved.stats.missing_files;
    if !missing.is_empty() {
        say!(
            "{} could not be opened or had been replaced, so that functions in it have no \
             names: {}",
            counted(missing.len() as u64, "mapped file"),
            first(missing)
        );
    }
    let rewritten = &resolved.stats.rewritten_files;
    if !rewritten.is_empty() {
        say!(
            "{} written over while a process had it mapped, so that names and callers of functions in it may be missing or \
             wrong: {}; record again, and put new files in the place of old ones (install, mv), not into them (cp, strip)",
            match rewritten.len() {
                1 => "a file was".to_owned(),
                more => format!("{} files were", grouped(more as u64)),
            },
            first(rewritten)
        );
    }
    for (first, more) in Warning::by_kind(&names.warnings) {
        match more {
            0 => say!("{first}"),
            more => say!("{first}; and {} like this", counted(more, "file")),
        }
    }
}

/// The first few of many paths.
fn first(paths: &[String]) -> String {
    const NAMED: usize = 3;
    let first = paths.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if paths.len() > NAMED { ", …" } else { "" };
    format!("{first}{more}")
}

/// Memory used by stacks when a recording ends:
/// `stacks take 3 MiB of 256 MiB (--stack-memory); they got names 2 times meanwhile, in 0.52 s`.
fn stacks_held(memory: &StackMemory) -> String {
    let StackMemory { bytes, limit, settled, took } = memory;
    let held = format!("stacks take {:.1} MiB", *bytes as f64 / f64::from(1 << 20));
    match limit {
        None => format!("{held}, with the time of each sample: they have no limit"),
        Some(limit) => format!(
            "{held} of {} MiB (--stack-memory); they got names {} meanwhile, in {:.2} s",
            limit >> 20,
            counted((*settled).into(), "time"),
            took.as_secs_f64()
        ),
    }
}

/// Describes stacks that were left out for lack of memory; `None` if there are none.
pub fn left_out(resolved: &Resolved, limit: usize) -> Option<String> {
    let left_out = resolved.stats.left_out;
    let share = percent(left_out, resolved.profile.samples.total(0));
    (left_out > 0).then(|| {
        format!(
            "{} MiB did not hold all stacks (--stack-memory): those of {share} end early, with [stack left \
             out], and later threads of one name count as one",
            limit >> 20
        )
    })
}

/// CPU time of the recorder: `own CPU time: 0.09 s to prepare, 0.01 s while it recorded, 0.12 s for names and writing`.
/// The argument is `Finished::cpu_time`.
pub fn cost((begun, ended): (Duration, Duration)) -> String {
    let seconds = |from: Duration, to: Duration| to.saturating_sub(from).as_secs_f64();
    format!(
        "own CPU time: {:.2} s to prepare, {:.2} s while it recorded, {:.2} s for names and writing",
        seconds(Duration::ZERO, begun),
        seconds(begun, ended),
        seconds(ended, cpu_time())
    )
}

/// Reports if much of the target's CPU time is in no sample. If each thread has an event of its own on each CPU, its
/// first sample comes after one period: a thread that runs for less than that is never sampled.
pub fn too_short(summary: &Summary) {
    let Some((time, used)) = summary.unsampled.zip(summary.used) else { return };
    let (time, used) = (time.as_secs_f64(), used.as_secs_f64());
    if used > 0.1 && time > 0.3 * used {
        say!(
            "{time:.2} s of {used:.2} s of CPU time are in no sample: most threads ran for less than the time \
             between two samples; -F raises the rate, and -a samples whatever runs"
        );
    }
}
