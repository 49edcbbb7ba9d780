//! The programs of each trigger, and how they are attached.

use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd};
use std::path::Path;

use libbpf_rs::{KprobeOpts, Link, Object, TracepointCategory, TracepointOpts, UprobeOpts};
use pyrograph_event::request::{Measure, Trigger};
use pyrograph_event::values::EventValues;

use crate::allocators::{Allocator, Allocators, Names, allocators, cheapest_place_of};
use crate::error::{Error, Reason};
use crate::features;
use crate::layout::CALL_WORDS;
use crate::object::program;
use crate::probes::{self, Probed, probed};
use crate::values::{Plans, places_of};

/// System calls that wait for locks: `futex`, `futex_waitv`, `futex_wait` of x86-64.
const FUTEXES: [u32; 3] = [202, 449, 455];

/// Properties of the programs for a trigger.
pub(crate) trait Programs {
    /// Names of the programs to attach.
    fn programs(&self) -> &'static [&'static str];

    /// Returns true if events are counted when their stacks are taken, and none is kept until it ends.
    fn counts_at_once(&self) -> bool;

    /// Returns true if stacks are sampled by bytes, false if by events; `None` if all are taken.
    fn is_sampled_by_value(&self) -> Option<bool>;

    /// A tracepoint that is needed and that the kernel lacks.
    fn missing(&self) -> Option<&'static str>;

    /// Bit set of the system calls that are recorded.
    fn calls(&self) -> [u64; CALL_WORDS];

    /// Measure of the events.
    fn measure(&self) -> Measure;

    /// Returns true if only calls on regular files count.
    fn files(&self) -> bool;

    /// Returns true if kernel stacks begin, at the leaf, with the code that calls the programs.
    fn is_traced(&self) -> bool;

    /// Attaches the programs. `events` are the perf events, if these are the trigger.
    fn attach<'a>(
        &self,
        object: &Object,
        events: impl Iterator<Item = BorrowedFd<'a>>,
    ) -> Result<Vec<Link>, Error>;
}

impl Programs for Trigger {
    fn programs(&self) -> &'static [&'static str] {
        use Measure::{Bytes, Count, Time};
        match self {
            Self::PerfEvents => &["on_event"],
            Self::Tracepoint { category, name } => match probed(category, name) {
                None => &["on_tracepoint"],
                Some(Probed::User) => &["on_uprobe"],
                Some(Probed::Kernel) => &["on_kernel_probe"],
            },
            Self::Function { .. } | Self::Places { .. } => &["on_uprobe"],
            Self::KernelFunctions { .. } => &["on_kernel_probe"],
            Self::Allocations { live: false, .. } => &["on_allocation"],
            // An allocation whose end is missed would be live for ever, so `free` comes first.
            Self::Allocations { live: true, .. } => &["on_free", "on_given", "on_ask"],
            Self::Calls { measure: Count, .. } => &["on_call"],
            Self::Calls { measure: Bytes, .. } => &["on_return"],
            // Programs for the end are attached first: otherwise an end might be missed.
            Self::Calls { measure: Time, .. } => &["on_return", "on_call"],
            Self::BlockRequests { measure } => match (measure, features::has_block_requests()) {
                (Time, true) => &["on_request_done", "on_request"],
                (_, true) => &["on_request"],
                (Time, false) => &["on_complete", "on_issue"],
                (_, false) => &["on_issue"],
            },
            Self::Locks if features::has_kernel_locks() => {
                &["on_return", "on_call", "on_contention_end", "on_contention"]
            }
            Self::Locks => &["on_return", "on_call"],
            Self::Goroutines { .. } => &["on_unpark", "on_park"],
            Self::Sockets => &["on_sent", "on_received"],
            Self::Values { of, values, .. } => match **of {
                Self::Tracepoint { .. } => &["on_tracepoint_values"],
                _ if values.need_call() => &["on_place_values", "on_called"],
                _ => &["on_place_values"],
            },
            Self::None => &[],
        }
    }

    fn counts_at_once(&self) -> bool {
        match self {
            Self::PerfEvents
            | Self::Tracepoint { .. }
            | Self::Function { .. }
            | Self::Places { .. }
            | Self::KernelFunctions { .. }
            | Self::Allocations { live: false, .. }
            | Self::Sockets
            | Self::Values { .. }
            | Self::None => true,
            Self::Calls { measure, .. } | Self::BlockRequests { measure } => {
                *measure != Measure::Time
            }
            Self::Allocations { live: true, .. } | Self::Locks | Self::Goroutines { .. } => false,
        }
    }

    fn is_sampled_by_value(&self) -> Option<bool> {
        match self {
            Self::Allocations { live: false, .. } | Self::Calls { measure: Measure::Bytes, .. } => {
                Some(true)
            }
            Self::Tracepoint { .. }
            | Self::Function { .. }
            | Self::Places { .. }
            | Self::KernelFunctions { .. }
            | Self::Calls { measure: Measure::Count, .. } => Some(false),
            // What stands for others has one value of the event by which stacks are kept apart.
            Self::Values { sum, .. } if sum.by.is_none() => Some(false),
            _ => None,
        }
    }

    fn missing(&self) -> Option<&'static str> {
        let is_there = match self {
            Self::Sockets => features::has_sockets(),
            _ => true,
        };
        (!is_there).then_some("the tracepoint sock_send_length (Linux 6.3)")
    }

    fn calls(&self) -> [u64; CALL_WORDS] {
        let numbers = match self {
            Self::Calls { numbers, .. } => &numbers[..],
            Self::Locks => &FUTEXES[..],
            _ => &[],
        };
        let mut bits = [0; CALL_WORDS];
        for number in numbers {
            if let Some(word) = bits.get_mut(*number as usize / 64) {
                *word |= 1 << (number % 64);
            }
        }
        bits
    }

    fn measure(&self) -> Measure {
        match self {
            Self::Calls { measure, .. } | Self::BlockRequests { measure } => *measure,
            Self::Locks | Self::Goroutines { .. } => Measure::Time,
            _ => Measure::Count,
        }
    }

    fn files(&self) -> bool {
        matches!(self, Self::Calls { files: true, .. })
    }

    fn is_traced(&self) -> bool {
        matches!(self, Self::BlockRequests { .. } | Self::Locks | Self::Sockets)
    }

    fn attach<'a>(
        &self,
        object: &Object,
        events: impl Iterator<Item = BorrowedFd<'a>>,
    ) -> Result<Vec<Link>, Error> {
        let mut links = Vec::new();
        match self {
            Self::PerfEvents => {
                let program = program(object, "on_event")?;
                for event in events {
                    // The link closes its descriptor when it is dropped: the caller keeps its own.
                    let own = event.try_clone_to_owned().map_err(Error::map("events"))?;
                    let link = program.attach_perf_event(own.as_raw_fd());
                    links.push(link.map_err(Error::attach("on_event"))?);
                    let _ = own.into_raw_fd();
                }
            }
            Self::Tracepoint { category, name } => {
                for program_name in self.programs() {
                    let program = program(object, program_name)?;
                    let link = match *program_name {
                        "on_tracepoint" => {
                            let category = TracepointCategory::Custom(category.clone());
                            program.attach_tracepoint(category, name)
                        }
                        _ => probes::attach(&program, category, name),
                    };
                    links.push(link.map_err(Error::attach(program_name))?);
                }
            }
            Self::Function { .. } | Self::Places { .. } => {
                attach_places(object, "on_uprobe", self, |_| 0, &mut links)?;
            }
            Self::KernelFunctions { .. } => {
                attach_places(object, "on_kernel_probe", self, |_| 0, &mut links)?;
            }
            Self::Values { of, values, sum } => {
                let first = Plans::new(object)?.add(0, places_of(of), values, Some(*sum))?;
                let first = u64::from(first);
                match (&**of, self.programs()) {
                    (Self::Tracepoint { category, name }, [program]) => {
                        links.push(attach_to_data(object, program, category, name, first)?);
                    }
                    (place, [program, ..]) => {
                        attach_calls(object, place, values, first, &mut links)?;
                        attach_places(object, program, place, |index| first + index, &mut links)?;
                    }
                    _ => return Err(Error::Lacks { what: "values of such an event" }),
                }
            }
            Self::Goroutines { path, functions } => {
                // A wait whose end is missed would last until the end of the recording, so ends come first.
                for (name, offset) in
                    [("on_unpark", functions.execute), ("on_park", functions.park)]
                {
                    links.push(attach_at(object, name, path, offset, UprobeOpts::default())?);
                }
            }
            Self::Allocations { path, .. } => {
                attach_allocators(object, self.programs(), path, Names::All, &mut links)?;
            }
            _ => {
                for name in self.programs() {
                    let link = program(object, name)?.attach();
                    links.push(link.map_err(Error::attach(name))?);
                }
            }
        }
        Ok(links)
    }
}

/// Attaches a program that reads the data of a tracepoint, with a number that it can read.
pub(crate) fn attach_to_data(
    object: &Object,
    program_name: &'static str,
    category: &str,
    name: &str,
    cookie: u64,
) -> Result<Link, Error> {
    let refuse = |reason| Error::Tracepoint { name: format!("{category}:{name}"), reason };
    if probed(category, name).is_some() {
        let why = "the kernel hands programs no values of a probe; record -e samples it, and perf record has its values";
        return Err(refuse(Reason::from(why.to_owned())));
    }
    let options = TracepointOpts { cookie, ..TracepointOpts::default() };
    let category = TracepointCategory::Custom(category.to_owned());
    let link = program(object, program_name)?.attach_tracepoint_with_opts(category, name, options);
    link.map_err(|error| refuse(Reason::of(&error)))
}

/// Attaches a program to a function of a program or of the kernel, or to instructions, for all processes. At each place the program can read a number,
/// `cookie` of its index.
pub(crate) fn attach_places(
    object: &Object,
    name: &'static str,
    trigger: &Trigger,
    cookie: impl Fn(u64) -> u64,
    links: &mut Vec<Link>,
) -> Result<(), Error> {
    match trigger {
        Trigger::Function { path, name: function, offset, returns } => {
            let func_name = Some(function.clone());
            let (retprobe, cookie) = (*returns, cookie(0));
            let options = UprobeOpts { func_name, retprobe, cookie, ..UprobeOpts::default() };
            let place = if *offset == 0 { cheapest_place_of(path, function) } else { *offset };
            let link = program(object, name)?.attach_uprobe_with_opts(-1, path, place, options);
            links.push(link.map_err(|error| Error::function(path, function, &error))?);
        }
        Trigger::Places { path, places, returns } => {
            for (index, place) in (0u64..).zip(places) {
                let ref_ctr_offset = usize::try_from(place.semaphore).unwrap_or(0);
                let (retprobe, cookie) = (*returns, cookie(index));
                let rest = UprobeOpts::default();
                let options = UprobeOpts { ref_ctr_offset, retprobe, cookie, ..rest };
                links.push(attach_at(object, name, path, place.offset, options)?);
            }
        }
        Trigger::KernelFunctions { names, returns } => {
            let program = program(object, name)?;
            for (index, function) in (0u64..).zip(names) {
                let options = KprobeOpts { cookie: cookie(index), ..KprobeOpts::default() };
                let link = program.attach_kprobe_with_opts(*returns, function, options);
                links.push(link.map_err(|error| Error::KernelFunction {
                    name: function.clone(),
                    reason: Reason::of(&error),
                })?);
            }
        }
        _ => return Err(Error::Lacks { what: "a place in a program for this event" }),
    }
    Ok(())
}

/// Attaches the program that keeps what functions are called with, if values of their returns are of that. `first` is the row of
/// the first place.
pub(crate) fn attach_calls(
    object: &Object,
    trigger: &Trigger,
    values: &EventValues,
    first: u64,
    links: &mut Vec<Link>,
) -> Result<(), Error> {
    if !values.need_call() {
        return Ok(());
    }
    let mut calls = trigger.clone();
    if let Trigger::Function { returns, .. }
    | Trigger::Places { returns, .. }
    | Trigger::KernelFunctions { returns, .. } = &mut calls
    {
        *returns = false;
    }
    attach_places(object, "on_called", &calls, |index| first + index, links)
}

/// Attaches a program to the instruction at an offset in a file, for all processes.
fn attach_at(
    object: &Object,
    name: &'static str,
    path: &Path,
    offset: u64,
    options: UprobeOpts,
) -> Result<Link, Error> {
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    let link = program(object, name)?.attach_uprobe_with_opts(-1, path, offset, options);
    link.map_err(|error| Error::function(path, &format!("{offset:#x}"), &error))
}

/// Attaches these programs to the functions of a file that allocate and free memory.
pub(crate) fn attach_allocators(
    object: &Object,
    programs: &[&'static str],
    path: &Path,
    names: Names,
    links: &mut Vec<Link>,
) -> Result<(), Error> {
    let Allocators { gives, frees } = allocators(path, names)?;
    for name in programs {
        let retprobe = *name == "on_given";
        let given = gives.iter().map(|Allocator { offset, cookie }| (*offset, *cookie));
        let freed = frees.iter().map(|offset| (*offset, 0));
        let places: Vec<(u64, u64)> =
            if *name == "on_free" { freed.collect() } else { given.collect() };
        for (offset, cookie) in places {
            let options = UprobeOpts { cookie, retprobe, ..UprobeOpts::default() };
            links.push(attach_at(object, name, path, offset, options)?);
        }
    }
    Ok(())
}
