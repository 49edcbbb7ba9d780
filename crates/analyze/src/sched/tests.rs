//! Views of the events of a scheduler that is simulated, and whose times are therefore known.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use pyrograph_profile::{
    SchedAction, SchedEvent, SchedTask, SchedTasks, StackLine, TaskId, TaskState, WaitReason,
};

use super::*;

const CPUS: usize = 3;
const TASKS: u32 = 6;

/// What a task did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Truth {
    /// How long it ran each time, by CPU.
    runs: Vec<(u32, u64)>,
    /// How long it waited for a CPU each time, on which it got one, since when, and if it had to leave another.
    delays: Vec<(u64, u32, u64, bool)>,
    /// How long it had no CPU each time, and the state in which it had left the one before.
    absences: Vec<(u64, TaskState)>,
}

/// A scheduler.
struct Simulation {
    now: u64,
    events: Vec<SchedEvent>,
    truth: BTreeMap<TaskId, Truth>,
    /// By CPU, the task and since when it has it.
    cpus: [(TaskId, u64); CPUS],
    /// Since when tasks could run, and if they had to leave a CPU.
    ready: BTreeMap<TaskId, (u64, bool)>,
    /// When tasks left their CPUs, in which state.
    left: BTreeMap<TaskId, (u64, TaskState)>,
    with_runtime: bool,
    with_both: bool,
}

impl Simulation {
    fn new(with_runtime: bool, with_both: bool) -> Self {
        Self {
            now: 1000,
            events: Vec::new(),
            truth: BTreeMap::new(),
            cpus: [(TaskId::IDLE, 1000); CPUS],
            ready: BTreeMap::new(),
            left: BTreeMap::new(),
            with_runtime,
            with_both,
        }
    }

    fn emit(&mut self, cpu: usize, action: SchedAction) {
        self.events.push(SchedEvent { time: self.now, cpu: cpu as u32, action, stack: [].into() });
    }

    fn wake(&mut self, task: TaskId, cpu: usize) {
        let runs = self.cpus.iter().any(|(running, _)| *running == task);
        if runs || self.ready.contains_key(&task) {
            return;
        }
        self.ready.insert(task, (self.now, false));
        let waker = self.cpus[cpu].0;
        let wakeup =
            |is_waking| SchedAction::Wakeup { task, waker, target: 0, is_new: false, is_waking };
        self.emit(cpu, wakeup(true));
        if self.with_both {
            self.now += 3;
            self.emit(cpu, wakeup(false));
        }
    }

    fn switch(&mut self, cpu: usize, choice: u8, state: TaskState) {
        let (previous, since) = self.cpus[cpu];
        let next = self.ready.keys().nth(usize::from(choice) % (self.ready.len() + 1)).copied();
        let next = next.unwrap_or(TaskId::IDLE);
        if next == previous {
            return;
        }
        if previous != TaskId::IDLE {
            let time = self.now - since;
            self.truth.entry(previous).or_default().runs.push((cpu as u32, time));
            if self.with_runtime {
                // In two parts, as at a tick.
                for time in [time / 3, time - time / 3] {
                    self.emit(cpu, SchedAction::Runtime { task: previous, time });
                }
            }
            self.left.insert(previous, (self.now, state));
        }
        let reason = WaitReason::Unknown;
        self.emit(cpu, SchedAction::Switch { previous, state, reason, next });
        if next != TaskId::IDLE {
            let of = self.truth.entry(next).or_default();
            let (since, preempted) = self.ready.remove(&next).expect("it is ready");
            of.delays.push((self.now - since, cpu as u32, since, preempted));
            if let Some((since, state)) = self.left.remove(&next) {
                of.absences.push((self.now - since, state));
            }
        }
        if previous != TaskId::IDLE && state == TaskState::Runnable {
            self.ready.insert(previous, (self.now, true));
        }
        self.cpus[cpu] = (next, self.now);
    }

    fn step(&mut self, (what, choice, time): (u8, u8, u16)) {
        self.now += u64::from(time) + 4;
        let cpu = usize::from(what >> 4) % CPUS;
        match what & 7 {
            0..3 => self.wake(TaskId(1 + u32::from(choice) % TASKS), cpu),
            3 | 4 => self.switch(cpu, choice, TaskState::Runnable),
            5 => self.switch(cpu, choice, TaskState::Uninterruptible),
            _ => self.switch(cpu, choice, TaskState::Sleeping),
        }
    }

    /// Tasks that have a CPU in the end run until the last event; where the kernel's counts are in the trace, these alone count.
    fn end(&mut self) {
        let last = self.events.last().map_or(0, |event| event.time);
        let is_counted =
            self.events.iter().any(|event| matches!(event.action, SchedAction::Runtime { .. }));
        for (cpu, (task, since)) in self.cpus.into_iter().enumerate() {
            if task != TaskId::IDLE && !is_counted {
                self.truth.entry(task).or_default().runs.push((cpu as u32, last - since));
            }
        }
    }
}

fn tasks() -> SchedTasks {
    let mut tasks = SchedTasks::default();
    for tid in 1..=TASKS as i32 {
        tasks.add(SchedTask { pid: tid / 2, tid, name: format!("task{tid}"), parent: None });
    }
    tasks
}

fn simulated(steps: &[(u8, u8, u16)], with_runtime: bool, with_both: bool) -> Simulation {
    let mut simulation = Simulation::new(with_runtime, with_both);
    steps.iter().for_each(|step| simulation.step(*step));
    simulation.end();
    simulation
}

fn latency(simulation: &Simulation, filter: &SchedFilter, by_cpu: bool) -> SchedLatency {
    let (tasks, mut latency) = (tasks(), SchedLatency::new(by_cpu));
    simulation.events.iter().for_each(|event| latency.push(&tasks, filter, event));
    latency.finish(&tasks, filter);
    latency
}

fn steps() -> impl Strategy<Value = Vec<(u8, u8, u16)>> {
    prop::collection::vec(any::<(u8, u8, u16)>(), 0..300)
}

proptest! {
    #[test]
    fn latencies_are_those_of_the_scheduler(
        steps in steps(), with_runtime: bool, with_both: bool, by_cpu: bool, only_cpu in 0..4_u32
    ) {
        let simulation = simulated(&steps, with_runtime, with_both);
        // 3 stands for all CPUs.
        let cpus = if only_cpu < 3 { vec![only_cpu] } else { Vec::new() };
        let keeps = |cpu: u32| only_cpu == 3 || cpu == only_cpu;
        let filter = SchedFilter { cpus, ..SchedFilter::default() };
        let latency = latency(&simulation, &filter, by_cpu);
        prop_assert_eq!(latency.missing(), 0);
        let mut found = BTreeMap::new();
        for count in latency.counts(&tasks()) {
            prop_assert_eq!(count.cpu.is_some(), by_cpu);
            found.insert((TaskId(count.tid as u32), count.cpu), count);
        }
        for (&task, truth) in &simulation.truth {
            let places: Vec<Option<u32>> = if by_cpu { (0..3).map(Some).collect() } else { vec![None] };
            for place in places {
                let is_it = |cpu: u32| keeps(cpu) && place.is_none_or(|place| place == cpu);
                let run: u64 = truth.runs.iter().filter(|(cpu, _)| is_it(*cpu)).map(|it| it.1).sum();
                let delays: Vec<_> = truth.delays.iter().filter(|it| is_it(it.1)).collect();
                let Some(count) = found.remove(&(task, place)) else {
                    prop_assert!(run == 0 && delays.is_empty(), "{task:?} is missing");
                    continue;
                };
                prop_assert_eq!(count.run_time, run);
                prop_assert_eq!(count.switches, delays.len() as u64);
                prop_assert_eq!(count.delays.count, delays.len() as u64);
                prop_assert_eq!(count.delays.total, delays.iter().map(|it| it.0).sum::<u64>());
                let longest = delays.iter().map(|it| it.0).max().unwrap_or(0);
                prop_assert_eq!(count.delays.longest, longest);
                // The first of those that are as long.
                let since = delays.iter().find(|it| it.0 == longest).map_or(0, |it| it.2);
                prop_assert_eq!(count.longest_since, since);
            }
        }
        prop_assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn the_history_is_that_of_the_scheduler(steps in steps(), with_runtime: bool, with_both: bool) {
        let simulation = simulated(&steps, with_runtime, with_both);
        let (tasks, filter, mut history) = (tasks(), SchedFilter::default(), Timehist::default());
        let mut found: BTreeMap<TaskId, Truth> = BTreeMap::new();
        for event in &simulation.events {
            let Some(row) = history.push(&tasks, &filter, event) else { continue };
            let TimehistEvent::Switch { stint, .. } = row.what else { continue };
            if row.task == TaskId::IDLE {
                continue;
            }
            let of = found.entry(row.task).or_default();
            let arrival = stint.arrival.expect("all was seen");
            of.runs.push((row.cpu, stint.run_time().expect("all was seen")));
            let ready = arrival.ready.expect("all was seen");
            let delay = arrival.delay().expect("all was seen");
            of.delays.push((delay, row.cpu, ready.since, ready.preempted));
            of.absences.extend(arrival.absence.map(|it| (arrival.time - it.since, it.state)));
        }
        for (task, truth) in &simulation.truth {
            let of = found.remove(task).unwrap_or_default();
            // Those that run still have no row.
            let rows = of.runs.len();
            prop_assert!(truth.delays.len() - rows <= 1);
            prop_assert_eq!(&of.runs[..], &truth.runs[..rows]);
            prop_assert_eq!(&of.delays[..], &truth.delays[..rows]);
            prop_assert_eq!(&of.absences[..], &truth.absences[..of.absences.len()]);
            let sums = history.summary().tasks.get(task).cloned().unwrap_or_default();
            let of_state = |wanted| {
                of.absences.iter().filter(|it| it.1 == wanted).map(|it| it.0).sum::<u64>()
            };
            prop_assert_eq!(sums.sleep, of_state(TaskState::Sleeping));
            prop_assert_eq!(sums.preempted, of_state(TaskState::Runnable));
            prop_assert_eq!(sums.uninterruptible, of_state(TaskState::Uninterruptible));
            let woken = of.delays.iter().filter(|it| !it.3).map(|it| it.0).sum::<u64>();
            prop_assert_eq!(sums.delay, woken);
            prop_assert_eq!(sums.run.total, of.runs.iter().map(|it| it.1).sum::<u64>());
            prop_assert_eq!(sums.run.most, of.runs.iter().map(|it| it.1).max().unwrap_or(0));
            prop_assert_eq!(sums.run.least, of.runs.iter().map(|it| it.1).min().unwrap_or(0));
        }
        prop_assert!(found.is_empty());
    }

    /// Events that are lost: on no CPU does a task run before the one before has left it, and sums stay within the time
    /// that passed.
    #[test]
    fn nothing_is_made_up_where_switches_are_missing(
        steps in steps(), lost in prop::collection::vec(any::<u8>(), 300), with_runtime: bool
    ) {
        let mut simulation = simulated(&steps, with_runtime, false);
        let mut lost = lost.into_iter().cycle();
        let is_switch = |event: &SchedEvent| matches!(event.action, SchedAction::Switch { .. });
        simulation.events.retain(|event| !is_switch(event) || lost.next().is_some_and(|it| it > 60));
        let mut track = SchedTrack::default();
        let mut free = [0; CPUS];
        for event in &simulation.events {
            let Some(Switched { left, .. }) = track.event(event) else { continue };
            let of_cpu = &mut free[event.cpu as usize];
            if let Some(arrival) = left.arrival {
                prop_assert!(arrival.time >= *of_cpu && arrival.time <= left.end);
            }
            *of_cpu = left.end;
        }
        let latency = latency(&simulation, &SchedFilter::default(), false);
        let span = simulation.events.last().map_or(0, |event| event.time - 1000);
        let switches = simulation.events.iter().filter(|event| is_switch(event)).count() as u64;
        for count in latency.counts(&tasks()) {
            prop_assert!(count.run_time <= span);
            prop_assert!(count.delays.longest <= span);
            prop_assert!(count.switches <= switches + track.missing());
        }
    }
}

fn event(time: u64, cpu: u32, action: SchedAction) -> SchedEvent {
    SchedEvent { time, cpu, action, stack: [].into() }
}

fn switch(previous: u32, state: TaskState, next: u32) -> SchedAction {
    let (previous, next) = (TaskId(previous), TaskId(next));
    SchedAction::Switch { previous, state, reason: WaitReason::Unknown, next }
}

fn waking(task: u32) -> SchedAction {
    let (task, waker) = (TaskId(task), TaskId::IDLE);
    SchedAction::Wakeup { task, waker, target: 0, is_new: false, is_waking: true }
}

/// Rows as text: task, wait, delay, run time.
fn rows(events: &[SchedEvent]) -> Vec<String> {
    let (tasks, filter, mut history) = (tasks(), SchedFilter::default(), Timehist::default());
    let mut rows = Vec::new();
    for event in events {
        let Some(row) = history.push(&tasks, &filter, event) else { continue };
        let TimehistEvent::Switch { stint, .. } = row.what else { continue };
        let text = |time: Option<u64>| time.map_or("-".to_owned(), |time| time.to_string());
        let arrival = stint.arrival;
        let absent = text(arrival.and_then(|arrival| arrival.absent()));
        let delay = text(arrival.and_then(|arrival| arrival.delay()));
        rows.push(format!("{} {absent} {delay} {}", row.task.0, text(stint.run_time())));
    }
    rows
}

#[test]
fn a_switch_from_a_task_that_was_not_known_to_run() {
    use TaskState::{Runnable, Sleeping};
    let found = rows(&[
        event(100, 0, switch(1, Sleeping, 2)),
        // From 2 to 3, and to 1, nothing was seen.
        event(200, 0, switch(1, Runnable, 3)),
        event(250, 0, switch(3, Sleeping, 1)),
        event(300, 0, SchedAction::Runtime { task: TaskId(2), time: 7 }),
        event(310, 0, switch(2, Sleeping, 0)),
    ]);
    assert_eq!(found, ["1 - - -", "1 - - -", "3 - - 50", "2 - - 7"]);
}

#[test]
fn who_wakes_a_task_that_just_leaves_its_cpu_does_so_before() {
    use TaskState::{Runnable, Sleeping};
    let found = rows(&[
        event(100, 0, switch(0, Runnable, 1)),
        event(190, 1, waking(1)),
        event(200, 0, switch(1, Sleeping, 0)),
        event(230, 0, switch(0, Runnable, 1)),
        event(240, 0, switch(1, Sleeping, 0)),
    ]);
    assert_eq!(found[1..4], ["1 - - 100", "0 100 - 30", "1 30 30 10"]);
}

#[test]
fn a_second_waking_is_of_another_sleep() {
    use TaskState::{Runnable, Sleeping};
    let found = rows(&[
        event(100, 0, waking(1)),
        // It ran and slept, which was not seen.
        event(500, 0, waking(1)),
        event(510, 0, switch(0, Runnable, 1)),
        event(520, 0, switch(1, Sleeping, 0)),
    ]);
    assert_eq!(found[1], "1 - 10 10");
}

#[test]
fn cpus_are_idle_whatever_tasks_are_shown() {
    use TaskState::{Runnable, Sleeping};
    let filter = SchedFilter { tids: vec![2], ..SchedFilter::default() };
    let mut history = Timehist::default();
    for event in [
        event(100, 0, switch(1, Sleeping, 0)),
        event(130, 0, switch(0, Runnable, 1)),
        event(150, 0, switch(1, Sleeping, 2)),
        event(155, 1, switch(1, Sleeping, 3)),
        event(190, 0, switch(2, Sleeping, 0)),
    ] {
        history.push(&tasks(), &filter, &event);
    }
    let summary = history.summary();
    assert_eq!(summary.idle, BTreeMap::from([(0, Some(30)), (1, None)]));
    assert_eq!((summary.switches, summary.tasks.len()), (1, 1));
}

/// A hypervisor may take all of the time that a task has its CPU, of which the kernel then counts nothing.
#[test]
fn a_stay_without_a_count_of_the_kernel_adds_no_run_time() {
    use TaskState::{Runnable, Sleeping};
    let mut latency = SchedLatency::new(false);
    let (tasks, filter) = (tasks(), SchedFilter::default());
    for event in [
        event(100, 0, switch(0, Runnable, 1)),
        event(150, 0, SchedAction::Runtime { task: TaskId(1), time: 45 }),
        event(150, 0, switch(1, Runnable, 2)),
        event(170, 0, switch(2, Sleeping, 1)),
        event(190, 0, switch(1, Runnable, 2)),
        event(200, 0, switch(2, Sleeping, 0)),
    ] {
        latency.push(&tasks, &filter, &event);
    }
    latency.finish(&tasks, &filter);
    let times: Vec<u64> = latency.counts(&tasks).iter().map(|count| count.run_time).collect();
    assert_eq!(times, [45, 30]);
}

/// The row of an idle time has the stack with which it began.
#[test]
fn idle_time_has_the_stack_of_the_task_before() {
    use TaskState::{Runnable, Sleeping};
    let (tasks, filter, mut history) = (tasks(), SchedFilter::default(), Timehist::default());
    let stack = |name: &str| -> Arc<[Arc<StackLine>]> {
        [Arc::new(StackLine { function: name.to_owned(), ..StackLine::default() })].into()
    };
    let mut found = Vec::new();
    for (event, name) in [
        (event(100, 0, switch(1, Sleeping, 0)), "do_nanosleep"),
        (event(110, 1, switch(2, Sleeping, 0)), "pipe_read"),
        (event(150, 0, switch(0, Runnable, 1)), "do_idle"),
        (event(160, 0, switch(1, Runnable, 2)), "work"),
    ] {
        let event = SchedEvent { stack: stack(name), ..event };
        let row = history.push(&tasks, &filter, &event).expect("a row");
        let TimehistEvent::Switch { idle_since, .. } = row.what else { panic!("{row:?}") };
        found.push(idle_since.map(|stack| stack[0].function.clone()));
    }
    assert_eq!(found, [None, None, Some("do_nanosleep".to_owned()), None]);
}
