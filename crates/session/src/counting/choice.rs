//! Selects the events that eBPF programs count, and those that `perf_event_open` counts.

use pyrograph_event::request::Trigger;
use pyrograph_record::{CounterOptions, CounterTarget, Event, Refusal, Target};

use super::CountPlan;
use crate::keys::KeyKind;
use crate::plan::Engine;

/// An event that eBPF programs can count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InKernelEvent {
    /// Entry of the system call with a number.
    Call(u32),
    /// Return of the system call with a number.
    Return(u32),
    /// Tracepoint with this name, without its system's name.
    Tracepoint(String),
    /// A place in a program.
    Place(Trigger),
    /// An event that is counted by its values, by its index in [`CountPlan::values`].
    Values(usize),
}

/// The events of a plan, with their indexes in it, by the engine that counts them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    /// Events that eBPF programs count.
    pub in_kernel: Vec<(usize, InKernelEvent)>,
    /// Events that `perf_event_open` counts, in groups.
    pub by_perf: Vec<Vec<(usize, Event)>>,
    /// Events that cannot be counted in this way, with the reason.
    pub refused: Vec<(usize, Refusal)>,
}

impl CountPlan {
    /// Returns true if counts are kept apart or filtered by what runs on a CPU (thread, process, control group), which
    /// only eBPF programs can do.
    pub fn is_by_who_runs(&self) -> bool {
        let is_of_machine = !matches!(self.scope.target, Target::Processes(_));
        self.scope.filters.chooses()
            || match self.by {
                Some(KeyKind::Group) => true,
                Some(KeyKind::Thread | KeyKind::Process) => is_of_machine,
                _ => false,
            }
    }

    /// Returns true if the counts of CPUs are kept apart.
    pub(crate) fn is_by_cpu(&self) -> bool {
        self.by.is_some_and(KeyKind::is_of_cpus)
    }

    /// Returns true if all events on the machine are counted into one sum.
    pub(crate) fn is_of_all_together(&self) -> bool {
        let is_all = self.scope.is_machine() && self.cpus.is_none();
        is_all && self.by.is_none() && !self.scope.filters.chooses()
    }
}

impl Choice {
    /// Selects the engine for each event. `not_in_kernel`: indexes of events that the programs turned out unable to
    /// count.
    pub fn of(plan: &CountPlan, not_in_kernel: &[usize], most_counters: usize) -> Self {
        let mut choice = Self::default();
        let by_who_runs = plan.is_by_who_runs();
        let mut index = 0;
        let mut counters = 0;
        for group in &plan.groups {
            let mut rest = Vec::new();
            for event in group {
                let is_permitted = plan.engine != Some(Engine::Perf)
                    && !not_in_kernel.contains(&index)
                    // The other events of a group may have to wait for the hardware.
                    && group.len() == 1;
                let valued = plan.values.sources.get(index).map(|_| InKernelEvent::Values(index));
                match valued.or_else(|| in_kernel(event, plan)).filter(|_| is_permitted) {
                    Some(event) => choice.in_kernel.push((index, event)),
                    None if plan.values.sources.get(index).is_some() => {
                        let why = "values are read by programs in the kernel";
                        choice.refused.push((index, Refusal::NotByPerf(why)));
                    }
                    None if event.place().is_some() => {
                        let why = "places in programs are counted by programs in the kernel, and not in groups";
                        choice.refused.push((index, Refusal::NotByPerf(why)));
                    }
                    None if by_who_runs && event.is_cgroup_switches() => {
                        let why = "it happens between two threads, and is neither's";
                        choice.refused.push((index, Refusal::NotApart(why)));
                    }
                    None if by_who_runs && counters == most_counters => {
                        let why = "no more than 32 counters at a time are kept apart by who runs";
                        choice.refused.push((index, Refusal::NotApart(why)));
                    }
                    None => {
                        counters += 1;
                        rest.push((index, event.clone()));
                    }
                }
                index += 1;
            }
            if !rest.is_empty() {
                choice.by_perf.push(rest);
            }
        }
        choice
    }

    /// Options for the events that `perf_event_open` is to count. `command` is the process of the command that is the
    /// target.
    pub fn counters(&self, plan: &CountPlan, command: Option<i32>) -> CounterOptions {
        let events = |group: &Vec<(usize, Event)>| {
            group.iter().map(|(_, event)| event.clone()).collect::<Vec<_>>()
        };
        let groups = self.by_perf.iter().map(events).collect();
        // Programs keep the counts of CPUs apart by what runs there.
        let of_cpus = plan.is_by_who_runs();
        let target = match (&plan.scope.target, command) {
            _ if of_cpus => CounterTarget::Cpus(None),
            (Target::Processes(pids), _) => CounterTarget::Processes(pids.clone()),
            (_, Some(command)) => CounterTarget::Command(command),
            (_, None) => CounterTarget::Cpus(plan.cpus.clone()),
        };
        let by_cpu = of_cpus || plan.is_by_cpu();
        CounterOptions { target, groups, inherit: plan.scope.inherit, by_cpu }
    }

    /// Returns the indexes in the plan of the events that `perf_event_open` counts.
    pub fn indexes(&self) -> Vec<usize> {
        self.by_perf.iter().flatten().map(|(index, _)| *index).collect()
    }
}

/// Returns the event for eBPF programs, if they count it as `perf_event_open` does.
fn in_kernel(event: &Event, plan: &CountPlan) -> Option<InKernelEvent> {
    if let Some(place) = event.place() {
        return Some(InKernelEvent::Place(place.clone()));
    }
    let by_who_runs = plan.is_by_who_runs();
    if by_who_runs && event.is_context_switches() {
        return Some(InKernelEvent::Tracepoint("sched_switch".to_owned()));
    }
    let (system, point) = event.plain_tracepoint()?;
    if system == "syscalls" {
        let number = |name| pyrograph_syscall::number_of_tracepoint(name);
        return match (point.strip_prefix("sys_enter_"), point.strip_prefix("sys_exit_")) {
            (Some(name), _) => number(name).map(InKernelEvent::Call),
            (_, Some(name)) => number(name).map(InKernelEvent::Return),
            _ => None,
        };
    }
    // include/trace/events/sched.h: for these, perf events add up a value (`__perf_count`), …
    let is_sum = system == "sched" && point.starts_with("sched_stat_");
    // … and these are counted for the thread that is woken, too (`__perf_task`).
    let is_of_two = system == "sched" && point.starts_with("sched_wak");
    let is_of_machine = plan.scope.is_machine();
    let is_alike = !is_sum && (!is_of_two || is_of_machine || by_who_runs);
    // If an interrupt hits the same tracepoint while a program runs on it, the program does not run for that event. The
    // kernel counts these misses, but not by thread. The tracepoints below do not occur in interrupts, or only when no
    // interrupt can occur.
    let is_never_missed = matches!(system, "raw_syscalls" | "sched" | "task" | "signal");
    let is_exact = is_never_missed || plan.is_of_all_together();
    let is_wanted = is_exact || by_who_runs || plan.engine == Some(Engine::InKernel);
    (is_alike && is_wanted).then(|| InKernelEvent::Tracepoint(point.to_owned()))
}
