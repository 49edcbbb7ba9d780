//! Events that are traced in addition to calls: tracepoints, probes in programs, page faults.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd};

use libbpf_rs::{Link, MapCore, MapFlags, Object, libbpf_sys};
use pyrograph_event::request::Trigger;
use pyrograph_event::traced::EventSource;

use super::CallOptions;
use super::layout::{EventPlace, EventPlan, MAX_PLACES};
use crate::error::Error;
use crate::object::{handle, program};
use crate::trigger::{attach_calls, attach_places, attach_to_data};
use crate::values::{Plans, patterns, places_of};

/// Returns true if the event is a tracepoint, not a probe in a program.
pub fn is_tracepoint(event: &EventSource) -> bool {
    matches!(event.trigger, Trigger::Tracepoint { .. })
}

/// Tells the programs which bytes each tracepoint has, which values are read of each event, and which calls are wanted.
pub fn set_plans(object: &Object, options: &CallOptions) -> Result<(), Error> {
    let plans = handle(object, "event_plans")?;
    let mut values = Plans::new(object)?;
    for (number, event) in (0u32..).zip(&options.events) {
        let first = values.add(number, places_of(&event.trigger), &event.values, None)?;
        let mut plan = EventPlan { size: event.size, ..EventPlan::default() };
        if is_tracepoint(event) && !event.values.filter.is_empty() {
            plan.filter = first + 1;
        }
        for (to, place) in plan.places.iter_mut().zip(event.places.iter().take(MAX_PLACES)) {
            *to = EventPlace { offset: place.offset, relative: place.relative.into() };
            plan.count += 1;
        }
        plans
            .update(&number.to_ne_bytes(), bytemuck::bytes_of(&plan), MapFlags::ANY)
            .map_err(Error::map("event_plans"))?;
    }
    let filters = handle(object, "call_filters")?;
    for (call, of_call) in options.filters.iter().flatten() {
        let row = values.add(*call, 1, of_call, None)? + 1;
        filters
            .update(&call.to_ne_bytes(), &row.to_ne_bytes(), MapFlags::ANY)
            .map_err(Error::map("call_filters"))?;
    }
    Ok(())
}

/// Rows of the map `probe_plans`, and of `patterns`.
pub fn plans(options: &CallOptions) -> (usize, usize) {
    let of_calls = || options.filters.iter().flatten().map(|(_, values)| values);
    let places: usize = options.events.iter().map(|event| places_of(&event.trigger)).sum();
    let patterns = patterns(options.events.iter().map(|event| &event.values).chain(of_calls()));
    (places + of_calls().count(), patterns)
}

/// Attaches the programs of events; each tracepoint gets the number of its event as a cookie, each place in a program its
/// own number.
pub fn attach(object: &Object, events: &[EventSource]) -> Result<Vec<Link>, Error> {
    let mut links = Vec::new();
    let mut first = 0u64;
    for (cookie, event) in (0u64..).zip(events) {
        match &event.trigger {
            Trigger::Tracepoint { category, name } => {
                links.push(attach_to_data(object, "on_event", category, name, cookie)?);
            }
            place => {
                attach_calls(object, place, &event.values, first, &mut links)?;
                attach_places(object, "on_probe", place, |index| first + index, &mut links)?;
            }
        }
        first += places_of(&event.trigger) as u64;
    }
    Ok(links)
}

/// Attaches a program to perf events that count page faults, one for each CPU.
pub fn attach_faults<'a>(
    object: &Object,
    major: bool,
    events: impl Iterator<Item = BorrowedFd<'a>>,
) -> Result<Vec<Link>, Error> {
    let name = if major { "on_major_fault" } else { "on_minor_fault" };
    let program = program(object, name)?;
    let attach = |event: BorrowedFd<'_>| {
        // The link closes its descriptor when it is dropped: the caller keeps its own.
        let own = event.try_clone_to_owned().map_err(Error::map("events"))?;
        let link = program.attach_perf_event(own.as_raw_fd()).map_err(Error::attach(name))?;
        let _ = own.into_raw_fd();
        Ok(link)
    };
    events.map(attach).collect()
}

/// Number of events that the kernel did not pass to the programs, because one of them was running on the CPU.
pub fn missed(object: &Object, options: &CallOptions) -> u64 {
    let loaded = object.progs().filter(|program| options.loads(&program.name().to_string_lossy()));
    loaded.map(|program| misses_of(program.as_fd())).sum()
}

fn misses_of(program: BorrowedFd<'_>) -> u64 {
    let mut info = MaybeUninit::<libbpf_sys::bpf_prog_info>::zeroed();
    let mut len = size_of::<libbpf_sys::bpf_prog_info>() as u32;
    // SAFETY: the kernel writes at most `len` bytes; any bytes are valid numbers, and the rest is 0.
    unsafe {
        let to = info.as_mut_ptr();
        match libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), to, &mut len) {
            0 => info.assume_init().recursion_misses,
            _ => 0,
        }
    }
}
