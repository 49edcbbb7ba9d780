//! Events that are traced in addition to calls: tracepoints, probes in programs, page faults.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd};

use libbpf_rs::{Link, MapCore, MapFlags, Object, TracepointOpts, libbpf_sys};
use pyrograph_event::request::Trigger;
use pyrograph_event::traced::{EventSource, ReadBase, ReadNumber, ReadValue};

use super::CallOptions;
use super::layout::{
    self, EventPlace, EventPlan, MAX_PLACES, MAX_READS, ProbePlan, VALUE_NUMBER, VALUE_TEXT,
    VALUE_TEXT_OF, ValuePlan,
};
use crate::error::{Error, Reason};
use crate::object::{handle, program};
use crate::probes::probed;
use crate::trigger::attach_places;

/// Returns true if the event is a tracepoint, not a probe in a program.
pub fn is_tracepoint(event: &EventSource) -> bool {
    matches!(event.trigger, Trigger::Tracepoint { .. })
}

/// Tells the programs which bytes each tracepoint has.
pub fn set_plans(object: &Object, events: &[EventSource]) -> Result<(), Error> {
    let plans = handle(object, "event_plans")?;
    for (number, event) in (0u32..).zip(events) {
        let mut plan = EventPlan { size: event.size, ..EventPlan::default() };
        for (to, place) in plan.places.iter_mut().zip(event.places.iter().take(MAX_PLACES)) {
            *to = EventPlace { offset: place.offset, relative: place.relative.into() };
            plan.count += 1;
        }
        plans
            .update(&number.to_ne_bytes(), bytemuck::bytes_of(&plan), MapFlags::ANY)
            .map_err(Error::map("event_plans"))?;
    }
    set_probe_plans(object, events)
}

/// Number of places of events in programs.
pub fn places(events: &[EventSource]) -> usize {
    events.iter().map(places_of).sum()
}

fn places_of(event: &EventSource) -> usize {
    match &event.trigger {
        Trigger::Places { places, .. } => places.len(),
        Trigger::Function { .. } => 1,
        _ => 0,
    }
}

/// Tells the programs of which event each place is, and which values are read there.
fn set_probe_plans(object: &Object, events: &[EventSource]) -> Result<(), Error> {
    let plans = handle(object, "probe_plans")?;
    let mut row = 0u32;
    for (number, event) in (0u32..).zip(events) {
        for index in 0..places_of(event) {
            let mut plan = ProbePlan { event: number, ..ProbePlan::default() };
            let values = event.values.get(index).map_or(&[][..], Vec::as_slice);
            for (to, value) in plan.values.iter_mut().zip(values.iter().take(MAX_READS)) {
                *to = planned(value);
                plan.count += 1;
            }
            plans
                .update(&row.to_ne_bytes(), bytemuck::bytes_of(&plan), MapFlags::ANY)
                .map_err(Error::map("probe_plans"))?;
            row += 1;
        }
    }
    Ok(())
}

fn planned(value: &ReadValue) -> ValuePlan {
    let plan = |kind, value, length| ValuePlan { value, length, kind };
    match value {
        ReadValue::Number(value) => {
            plan(VALUE_NUMBER, number(value), layout::ReadNumber::default())
        }
        ReadValue::Text(value) => plan(VALUE_TEXT, number(value), layout::ReadNumber::default()),
        ReadValue::TextOf(value, length) => plan(VALUE_TEXT_OF, number(value), number(length)),
    }
}

fn number(of: &ReadNumber) -> layout::ReadNumber {
    let (base, number) = match of.base {
        ReadBase::Register(register) => (layout::BASE_REGISTER, register.into()),
        ReadBase::Distance(distance) => (layout::BASE_STATIC, distance.cast_unsigned()),
        ReadBase::Constant(number) => (layout::BASE_CONSTANT, number),
    };
    let mut plan = layout::ReadNumber { number, base, ..layout::ReadNumber::default() };
    for (to, step) in plan.steps.iter_mut().zip(&of.steps) {
        *to = layout::ReadStep { add: step.add, load: step.load.into() };
        plan.count += 1;
    }
    plan
}

/// Attaches the programs of events; each tracepoint gets the number of its event as a cookie, each place in a program its
/// own number.
pub fn attach(object: &Object, events: &[EventSource]) -> Result<Vec<Link>, Error> {
    let mut links = Vec::new();
    let mut first = 0u64;
    for (cookie, event) in (0u64..).zip(events) {
        match &event.trigger {
            Trigger::Tracepoint { category, name } if probed(category, name).is_some() => {
                return Err(Error::Tracepoint {
                    name: format!("{category}:{name}"),
                    reason: Reason::from(
                        "the kernel hands programs no values of a probe; record -e samples it, and perf record has its values"
                            .to_owned(),
                    ),
                });
            }
            Trigger::Tracepoint { category, name } => {
                let options = TracepointOpts { cookie, ..TracepointOpts::default() };
                let link = program(object, "on_event")?.attach_tracepoint_with_opts(
                    libbpf_rs::TracepointCategory::Custom(category.clone()),
                    name,
                    options,
                );
                links.push(link.map_err(|error| Error::Tracepoint {
                    name: format!("{category}:{name}"),
                    reason: Reason::of(&error),
                })?);
            }
            place => {
                attach_places(object, "on_probe", place, |index| first + index, &mut links)?;
                first += places_of(event) as u64;
            }
        }
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
