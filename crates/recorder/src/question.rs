//! Questions that a recording answers: the time on the CPU, waits, system calls, memory, any event or place in a program.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use pyrograph_event::request::{Measure, Trigger, Waits};
use pyrograph_record::{Event, Target};

use crate::calls;
use crate::error::Error;
use crate::needed;
use crate::places;

/// A question that a recording answers. The default is the time on the CPU.
#[derive(Clone, Debug)]
pub struct Question {
    /// The event, if one was named.
    pub event: Option<Event>,
    /// Trigger of the in-kernel engine.
    pub trigger: Trigger,
    /// Waits that the in-kernel engine counts.
    pub waits: Waits,
    /// The shortest wait that counts.
    pub min_block: Duration,
    /// Leave out waits for work: for conditions in programs, and in system calls that wait for requests, events,
    /// signals and children.
    pub no_idle: bool,
    /// Take the stack of each event, however many there are.
    pub exact: bool,
    /// Nothing but the in-kernel engine can answer.
    pub(crate) in_kernel_only: bool,
    /// Name and unit of the values, where they are not the event's.
    shown: Option<(String, &'static str)>,
    /// Noun for one of the things that happen.
    noun: &'static str,
}

impl Default for Question {
    fn default() -> Self {
        Self {
            event: None,
            trigger: Trigger::PerfEvents,
            waits: Waits::None,
            min_block: Duration::from_micros(1),
            no_idle: false,
            exact: false,
            in_kernel_only: false,
            shown: None,
            noun: "sample",
        }
    }
}

impl Question {
    /// True if perf events or a tracepoint are sampled, by a rate or a period.
    pub fn is_sampled(&self) -> bool {
        let is_event = matches!(self.trigger, Trigger::PerfEvents | Trigger::Tracepoint { .. });
        is_event && self.waits == Waits::None
    }

    /// True if a CPU that has very many of its events takes the stacks of some only, unless [`Self::exact`] is set.
    pub fn thins_stacks(&self) -> bool {
        !matches!(
            self.trigger,
            Trigger::PerfEvents
                | Trigger::BlockRequests { .. }
                | Trigger::Locks
                | Trigger::Sockets
                | Trigger::None
        )
    }

    /// The event of this name ([`Event::parse`]), or a place in a program: `uprobe:FILE:FUNCTION` and
    /// `uretprobe:FILE:FUNCTION` for the calls and returns of a function, `usdt:FILE:PROVIDER:NAME` for a probe that
    /// its authors put into it.
    ///
    /// # Errors
    ///
    /// If there is no such event, file, function or probe.
    pub fn event(named: &str) -> Result<Self, Error> {
        for (prefix, returns) in [("uprobe:", false), ("uretprobe:", true)] {
            if let Some(place) = named.strip_prefix(prefix) {
                return Ok(Self::named(named, "count", "hit", places::function(place, returns)?));
            }
        }
        if let Some(place) = named.strip_prefix("usdt:") {
            return Ok(Self::named(named, "count", "hit", places::static_probe(place)?));
        }
        let event = Event::parse(named)?;
        let mut question = Self::default();
        if let Some((category, name)) =
            event.name().split_once(':').filter(|_| event.is_tracepoint())
        {
            question.shown = Some((event.name().to_owned(), "count"));
            question.trigger =
                Trigger::Tracepoint { category: category.to_owned(), name: name.to_owned() };
        }
        question.event = Some(event);
        Ok(question)
    }

    /// Waits, by the time from when a thread stops to run until it runs again.
    pub fn waits(waits: Waits) -> Self {
        let name = match waits {
            Waits::None | Waits::Alone => "off-cpu",
            Waits::Wakers => "wakeup",
            Waits::WithWakers => "off-wake",
        };
        Self { waits, ..Self::named(name, "ns", "wait", Trigger::None) }
    }

    /// Elapsed time: waits, and samples of the CPU clock for threads that run.
    pub fn elapsed() -> Self {
        Self {
            waits: Waits::Alone,
            event: Some(Event::cpu_clock()),
            ..Self::named("wall", "ns", "sample", Trigger::PerfEvents)
        }
    }

    /// Memory allocations, by the bytes that are requested of the target's C library; `live`: only memory that is
    /// not freed before the recording ends.
    ///
    /// # Errors
    ///
    /// If the C library cannot be found.
    pub fn allocations(target: &Target, live: bool) -> Result<Self, Error> {
        let name = if live { "live" } else { "alloc" };
        let trigger = Trigger::Allocations { path: c_library(target)?, live };
        Ok(Self::named(name, "bytes", "allocation", trigger))
    }

    /// Waits for locks of the kernel and of programs, by the time until the thread has the lock.
    pub fn locks() -> Self {
        Self::named("locks", "ns", "wait", Trigger::Locks)
    }

    /// Bytes that are sent and received through sockets.
    pub fn sockets() -> Self {
        Self::named("net", "bytes", "transfer", Trigger::Sockets)
    }

    /// System calls that read and write files.
    pub fn file_io(measure: Measure) -> Self {
        let trigger = Trigger::Calls { numbers: calls::of_files(), measure, files: true };
        Self::named("file-io", unit(measure, "calls"), "system call", trigger)
    }

    /// Requests to block devices.
    pub fn block_io(measure: Measure) -> Self {
        let trigger = Trigger::BlockRequests { measure };
        Self::named("block-io", unit(measure, "requests"), "request", trigger)
    }

    /// System calls by their names, with commas between them; all, if there are none.
    ///
    /// # Errors
    ///
    /// If no system call has one of the names.
    pub fn system_calls(names: &str, measure: Measure) -> Result<Self, Error> {
        let trigger = Trigger::Calls { numbers: calls::numbers(names)?, measure, files: false };
        let mut question = Self::named("syscalls", unit(measure, "calls"), "system call", trigger);
        // Where it is only to be counted, perf_event can do it, too, but without the names of calls. It cannot where
        // the tracepoint's number may not be read: without root.
        if measure == Measure::Count
            && names.is_empty()
            && let Ok(event) = Event::parse("raw_syscalls:sys_enter")
        {
            question.in_kernel_only = false;
            question.event = Some(event);
        }
        Ok(question)
    }

    /// One that only the in-kernel engine can answer.
    fn named(name: &str, unit: &'static str, noun: &'static str, trigger: Trigger) -> Self {
        let shown = Some((name.to_owned(), unit));
        Self { trigger, in_kernel_only: true, shown, noun, ..Self::default() }
    }

    /// Nothing but the in-kernel engine can answer.
    pub fn needs_in_kernel(&self) -> bool {
        self.in_kernel_only
    }

    /// Name of what is counted, where it is not an event such as `cycles`: `off-cpu`, `sched:sched_switch`.
    pub fn own_name(&self) -> Option<&str> {
        self.shown.as_ref().map(|(name, _)| name.as_str())
    }

    /// Name of what is counted; `event` is what is open.
    pub fn name<'a>(&'a self, event: &'a Event) -> &'a str {
        self.own_name().unwrap_or_else(|| event.name())
    }

    /// Its unit, where it is not the event's.
    pub fn unit(&self) -> Option<&'static str> {
        self.shown.as_ref().map(|(_, unit)| *unit)
    }

    /// One of the things that happen: `sample`, `wait`, `system call`.
    pub fn noun(&self) -> &'static str {
        self.noun
    }
}

/// The unit of a measure, where `things` are counted.
fn unit(measure: Measure, things: &'static str) -> &'static str {
    match measure {
        Measure::Count => things,
        Measure::Time => "ns",
        Measure::Bytes => "bytes",
    }
}

/// The C library of the process, or this machine's; the program itself if it has none.
fn c_library(target: &Target) -> Result<PathBuf, Error> {
    let process = match target {
        Target::Processes(pids) if pids.len() > 1 => {
            return Err(Error::SeveralProcesses);
        }
        Target::Processes(pids) => {
            pids.first().map_or_else(|| "self".to_owned(), ToString::to_string)
        }
        Target::System => "self".to_owned(),
        Target::Command(argv) => {
            let files: Vec<_> =
                argv.first().into_iter().flat_map(|program| needed::files(program)).collect();
            let library = allocator(&files).or(files.first());
            // The error that running it would give.
            let missing = || pyrograph_record::Error::Command {
                program: argv
                    .first()
                    .map(|name| name.to_string_lossy().into_owned())
                    .unwrap_or_default(),
                source: io::Error::from_raw_os_error(libc::ENOENT),
            };
            return Ok(library.cloned().ok_or_else(missing)?);
        }
    };
    let paths = mapped_files(&process)?;
    Ok(match allocator(&paths) {
        Some(path) => format!("/proc/{process}/root{}", path.display()).into(),
        None => format!("/proc/{process}/exe").into(),
    })
}

/// The files that a process (by its name in `/proc`) has mapped, in its own mount namespace: once for each mapping.
pub(crate) fn mapped_files(process: &str) -> Result<Vec<PathBuf>, Error> {
    let mappings = pyrograph_record::mappings(process).map_err(|source| {
        match (source.kind(), process.parse()) {
            (io::ErrorKind::NotFound, Ok(pid)) => {
                pyrograph_record::Error::NoSuchProcess { pid }.into()
            }
            _ => Error::Mappings { process: process.to_owned(), source },
        }
    })?;
    let files = mappings.into_iter().filter(pyrograph_record::Mapping::is_of_file);
    Ok(files.map(|mapping| OsString::from_vec(mapping.path).into()).collect())
}

/// The library among these whose `malloc` is called: one that was put before the C library, or that.
fn allocator(paths: &[PathBuf]) -> Option<&PathBuf> {
    const LIBRARIES: [&str; 6] =
        ["libjemalloc.so", "libtcmalloc", "libmimalloc.so", "libc.so", "libc-", "ld-musl"];
    let is_named = |path: &PathBuf, library: &str| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(library))
    };
    LIBRARIES.iter().find_map(|library| paths.iter().find(|path| is_named(path, library)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_process_has_a_c_library() {
        let pid = i32::try_from(std::process::id()).expect("a small number");
        let path = c_library(&Target::Processes(vec![pid])).expect("its mappings can be read");
        assert!(path.exists(), "{}", path.display());
    }
}
