//! Filters of single events: by process, thread, name, CPU and time.

use pyrograph_profile::{FieldValue, TraceEvent};

use crate::filter::{Filter, Moment};

/// Returns true if a filter keeps an event by its process, thread, name and CPU. If the event has fields with these names,
/// they take precedence: `sched_wakeup` has the ID of the woken thread.
pub(crate) fn wants_event(filter: &Filter, event: &TraceEvent<'_>) -> bool {
    let number = |names: &[&str], own: Option<i32>| -> Option<i64> {
        let field = names.iter().find_map(|name| event.field(name));
        field.map_or(own.map(i64::from), FieldValue::as_i64)
    };
    let is_one = |wanted: &[i32], number: Option<i64>| {
        wanted.is_empty()
            || number.is_some_and(|number| wanted.iter().any(|&of| i64::from(of) == number))
    };
    let plain = |name: &str| name.replace(' ', "_");
    let is_named = |wanted: &[String]| {
        let comm = event.field("comm").map(FieldValue::to_string);
        let comm = plain(comm.as_deref().unwrap_or(event.comm));
        wanted.is_empty() || wanted.iter().any(|of| plain(of) == comm)
    };
    let is_on = |cpu: u32| filter.cpus.iter().any(|cpus| cpus.contains(&cpu));
    is_one(&filter.pids, number(&["pid"], event.pid))
        && is_one(&filter.tids, number(&["tid", "pid"], event.tid))
        && is_named(&filter.comms)
        && (filter.cpus.is_empty() || event.cpu.is_some_and(is_on))
}

/// Returns true if a filter keeps a time. `start` is the time of the first event.
pub(crate) fn wants_time(filter: &Filter, time: u64, start: u64) -> bool {
    let Some(range) = filter.time else { return true };
    let clock = |moment| match moment {
        Moment::SinceStart(after) => start.saturating_add(after),
        Moment::Clock(time) => time,
    };
    range.from.is_none_or(|from| clock(from) <= time) && range.to.is_none_or(|to| time < clock(to))
}
