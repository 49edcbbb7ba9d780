use proptest::prelude::*;
use pyrograph_profile::SchedAction;
use pyrograph_profile::{SchedEvent, SchedTask};

use super::*;

fn event(time: u64, cpu: u32, action: SchedAction) -> SchedEvent {
    SchedEvent { time, cpu, action, stack: [].into() }
}

fn switch(previous: u32, state: TaskState, next: u32) -> SchedAction {
    let (previous, next) = (TaskId(previous), TaskId(next));
    SchedAction::Switch { previous, state, reason: WaitReason::Unknown, next }
}

fn wakeup(task: u32, waker: u32) -> SchedAction {
    let (task, waker) = (TaskId(task), TaskId(waker));
    SchedAction::Wakeup { task, waker, target: 0, is_new: false, is_waking: true }
}

fn chart(events: &[SchedEvent]) -> SchedChart {
    let mut builder = SchedChartBuilder::default();
    events.iter().for_each(|event| builder.push(event));
    builder.finish()
}

/// The spans of a task, as text.
fn spans(chart: &SchedChart, task: usize) -> String {
    let text = |(range, activity): (Range<u64>, Activity)| {
        let what = match activity {
            Activity::Unknown => "unknown".to_owned(),
            Activity::Running { cpu } => format!("on {cpu}"),
            Activity::Ready(ReadyCause::Unknown) => "ready".to_owned(),
            Activity::Ready(ReadyCause::Preempted) => "preempted".to_owned(),
            Activity::Ready(ReadyCause::Woken { waker, cpu }) => {
                format!("woken by {} on {cpu}", waker.0)
            }
            Activity::Blocked { state, .. } => state.map_or('?', TaskState::letter).to_string(),
        };
        format!("{}-{} {what}", range.start, range.end)
    };
    chart.tasks[task].spans().map(text).collect::<Vec<_>>().join(", ")
}

#[test]
fn what_was_before_a_first_event_follows_from_it() {
    let events = [
        event(10, 1, switch(0, TaskState::Runnable, 4)),
        event(20, 0, wakeup(2, 1)),
        event(30, 0, switch(1, TaskState::Sleeping, 2)),
        event(40, 0, switch(2, TaskState::Runnable, 3)),
        event(50, 0, switch(3, TaskState::Dead, 0)),
    ];
    let chart = chart(&events);
    assert_eq!(spans(&chart, 1), "10-30 on 0, 30-50 S");
    assert_eq!(spans(&chart, 2), "10-20 ?, 20-30 woken by 1 on 0, 30-40 on 0, 40-50 preempted");
    assert_eq!(spans(&chart, 3), "10-40 ready, 40-50 on 0");
    assert_eq!(spans(&chart, 4), "10-50 on 1");
    let runs: Vec<_> =
        chart.cpus[0].runs(chart.end).map(|(range, task)| (range, task.map(|t| t.0))).collect();
    assert_eq!(runs, [(10..30, Some(1)), (30..40, Some(2)), (40..50, Some(3)), (50..50, Some(0))]);
}

#[test]
fn without_wakeups_nobody_is_known_to_have_been_ready() {
    let events = [
        event(10, 0, switch(1, TaskState::Sleeping, 0)),
        event(20, 0, switch(0, TaskState::Runnable, 2)),
    ];
    assert_eq!(spans(&chart(&events), 2), "10-20 unknown, 20-20 on 0");
}

#[test]
fn a_wakeup_on_the_way_off_the_cpu_counts() {
    let events = [
        event(10, 0, switch(0, TaskState::Runnable, 1)),
        event(20, 1, wakeup(1, 2)),
        event(21, 0, switch(1, TaskState::Sleeping, 0)),
        event(25, 0, switch(0, TaskState::Runnable, 1)),
        // This one was for a wait that did not come: nothing is known of the next wake-up.
        event(30, 1, wakeup(1, 2)),
        event(40, 0, switch(1, TaskState::Runnable, 0)),
        event(50, 0, switch(0, TaskState::Runnable, 1)),
        event(60, 0, switch(1, TaskState::Sleeping, 0)),
        event(70, 0, switch(0, TaskState::Runnable, 1)),
    ];
    assert_eq!(
        spans(&chart(&events), 1),
        "10-21 on 0, 21-25 woken by 2 on 1, 25-40 on 0, 40-50 preempted, 50-60 on 0, 60-70 S, 70-70 on 0"
    );
}

#[test]
fn missing_switches_are_counted_and_their_time_is_not_known() {
    let events = [
        event(10, 0, switch(0, TaskState::Runnable, 1)),
        event(30, 0, switch(2, TaskState::Sleeping, 3)),
        event(40, 0, switch(3, TaskState::Dead, 0)),
        event(60, 1, switch(3, TaskState::Sleeping, 0)),
    ];
    let chart = chart(&events);
    assert_eq!(chart.gaps, 1);
    assert_eq!(spans(&chart, 1), "10-60 unknown");
    assert_eq!(spans(&chart, 2), "10-30 unknown, 30-60 S");
    assert_eq!(spans(&chart, 3), "10-30 unknown, 30-40 on 0, 40-60 unknown, 60-60 S");
    assert_eq!(chart.cpus[0].tasks, [None, Some(TaskId(3)), Some(TaskId(0))]);
}

#[test]
fn idle_states_end_where_others_begin_and_with_the_chart() {
    let idle = |state| SchedAction::Idle { state };
    let events = [
        event(10, 1, idle(Some(3))),
        event(20, 1, idle(None)),
        event(30, 1, idle(Some(1))),
        event(35, 1, SchedAction::Frequency { frequency: 2_000_000 }),
        event(50, 9000, idle(None)),
        event(60, 0, idle(None)),
    ];
    let chart = chart(&events);
    let spans: Vec<_> = chart.cpus[1].idle.iter().map(|at| (at.start, at.end, at.state)).collect();
    assert_eq!(spans, [(10, 20, 3), (30, 60, 1)]);
    assert_eq!(chart.cpus[1].frequencies, [(35, 2_000_000)]);
    assert_eq!(chart.impossible, 1);
}

#[test]
fn processes_stand_by_how_long_they_ran() {
    let mut tasks = SchedTasks::default();
    for (pid, tid, name) in
        [(7, 7, "app"), (7, 8, "worker"), (9, 9, "busy"), (-1, 5, "?"), (-1, 6, "?")]
    {
        tasks.add(SchedTask { pid, tid, name: name.to_owned(), parent: None });
    }
    let events = [
        event(0, 0, switch(0, TaskState::Runnable, 1)),
        event(10, 0, switch(1, TaskState::Sleeping, 2)),
        event(40, 0, switch(2, TaskState::Sleeping, 3)),
        event(90, 0, switch(3, TaskState::Sleeping, 4)),
        event(91, 0, switch(4, TaskState::Sleeping, 5)),
        event(95, 0, switch(5, TaskState::Sleeping, 0)),
    ];
    let shown: Vec<_> = chart(&events)
        .processes(&tasks)
        .into_iter()
        .map(|of| (of.pid, of.name, of.tasks.iter().map(|id| id.0).collect::<Vec<_>>(), of.running))
        .collect();
    let row =
        |pid, name: &str, tasks: &[u32], running| (pid, name.to_owned(), tasks.to_vec(), running);
    assert_eq!(
        shown,
        [
            row(9, "busy", &[3], 50),
            row(7, "app", &[2, 1], 40),
            row(-1, "?", &[5], 4),
            row(-1, "?", &[4], 1)
        ]
    );
}

#[test]
fn each_stack_is_kept_once_and_ends_in_its_frame() {
    let line =
        |name: &str| Arc::new(StackLine { function: name.to_owned(), ..StackLine::default() });
    let (main, read, wait) = (line("main"), line("read"), line("wait"));
    let mut events = Vec::new();
    for (at, stack) in [[&read, &main], [&wait, &main], [&read, &main]].into_iter().enumerate() {
        let time = 10 * at as u64;
        events.push(event(time, 0, switch(0, TaskState::Runnable, 1)));
        let stack: Arc<[Arc<StackLine>]> = stack.into_iter().cloned().collect();
        events.push(SchedEvent { stack, ..event(time + 5, 0, switch(1, TaskState::Sleeping, 0)) });
    }
    let chart = chart(&events);
    assert_eq!(chart.tasks[1].stacks, [0, 1, 0, 2, 0, 1]);
    let timed = chart.stack_graph().expect("a graph").expect("stacks");
    let name = |frame: u32| timed.graph.names.get(timed.graph.frames[frame as usize].name);
    let ends: Vec<_> =
        timed.samples.iter().map(|sample| (sample.time, name(sample.frame))).collect();
    assert_eq!(ends, [(1, "read"), (2, "wait")]);
}

/// What a task does, as a machine that is simulated knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Truth {
    NotThere,
    On(u32),
    Ready,
    Blocked(WaitReason),
}

struct Machine {
    /// By CPU: its task.
    cpus: Vec<usize>,
    now: Vec<Truth>,
    /// By nanosecond, what each task did in it.
    history: Vec<Vec<Truth>>,
    events: Vec<SchedEvent>,
}

const REASONS: [WaitReason; 3] = [WaitReason::Disk, WaitReason::Lock, WaitReason::Unknown];

impl Machine {
    /// Lets a machine do what the numbers say, one thing after the other. Tasks 1 to `cpus` run at first.
    fn run(cpus: u32, tasks: usize, steps: &[(u8, u8, u8)]) -> Self {
        let now = (0..=tasks).map(|task| match task as u32 {
            0 => Truth::NotThere,
            task if task <= cpus => Truth::On(task - 1),
            task if task % 2 == 0 => Truth::Ready,
            _ => Truth::Blocked(WaitReason::Unknown),
        });
        let mut machine = Self {
            cpus: (1..=cpus as usize).collect(),
            now: now.collect(),
            history: Vec::new(),
            events: Vec::new(),
        };
        for &(pause, what, whom) in steps {
            for _ in 0..pause % 5 + 1 {
                machine.history.push(machine.now.clone());
            }
            match what % 3 {
                0 => machine.wake(whom),
                _ => machine.switch(what, whom),
            }
        }
        machine
    }

    fn add(&mut self, cpu: u32, action: SchedAction) {
        self.events.push(event(self.history.len() as u64, cpu, action));
    }

    fn wake(&mut self, whom: u8) {
        let blocked = |task: &usize| matches!(self.now[*task], Truth::Blocked(_));
        let tasks: Vec<usize> = (1..self.now.len()).filter(blocked).collect();
        let Some(&task) = tasks.get(usize::from(whom) % tasks.len().max(1)) else { return };
        self.now[task] = Truth::Ready;
        let cpu = u32::from(whom) % self.cpus.len() as u32;
        let waker = self.cpus[cpu as usize] as u32;
        self.add(cpu, wakeup(task as u32, waker));
    }

    fn switch(&mut self, what: u8, whom: u8) {
        let cpu = usize::from(whom) % self.cpus.len();
        let ready: Vec<usize> =
            (1..self.now.len()).filter(|task| self.now[*task] == Truth::Ready).collect();
        let next = ready.get(usize::from(what) % (ready.len() + 1)).copied().unwrap_or(0);
        let previous = self.cpus[cpu];
        if next == previous {
            return;
        }
        let reason = REASONS[usize::from(what / 3) % 3];
        let stays = what.is_multiple_of(2) || previous == 0;
        let state = if stays { TaskState::Runnable } else { TaskState::Sleeping };
        if previous > 0 {
            self.now[previous] = if stays { Truth::Ready } else { Truth::Blocked(reason) };
        }
        if next > 0 {
            self.now[next] = Truth::On(cpu as u32);
        }
        self.cpus[cpu] = next;
        let (previous, next) = (TaskId(previous as u32), TaskId(next as u32));
        self.add(cpu as u32, SchedAction::Switch { previous, state, reason, next });
    }
}

/// The same sum, nanosecond by nanosecond.
fn counted(machine: &Machine, task: usize, within: Range<u64>) -> ActivityTimes {
    let mut times = ActivityTimes::default();
    for truth in &machine.history[within.start as usize..within.end as usize] {
        match truth[task] {
            Truth::NotThere => {}
            Truth::On(_) => times.running += 1,
            Truth::Ready => times.ready += 1,
            Truth::Blocked(reason) => times.blocked[reason as usize] += 1,
        }
    }
    times
}

proptest! {
    #[test]
    fn times_are_those_of_the_machine(
        cpus in 1u32..4,
        others in 0usize..5,
        steps in prop::collection::vec(any::<(u8, u8, u8)>(), 1..120),
        window: (u16, u16),
    ) {
        let machine = Machine::run(cpus, cpus as usize + others, &steps);
        let Some(first) = machine.events.first() else { return Ok(()) };
        let has_wakeups = machine.events.iter().any(|event| matches!(event.action, SchedAction::Wakeup { .. }));
        let chart = chart(&machine.events);
        prop_assert_eq!((chart.gaps, chart.start), (0, first.time));
        let length = chart.end - chart.start;
        let at = |share: u16| chart.start + u64::from(share) * length / u64::from(u16::MAX);
        let within = at(window.0.min(window.1))..at(window.0.max(window.1));
        for (task, timeline) in chart.tasks.iter().enumerate().skip(1) {
            if timeline.starts.is_empty() {
                continue;
            }
            let times = timeline.times(within.clone());
            let mut expect = counted(&machine, task, within.clone());
            if !has_wakeups {
                // Whether it was ready before it was given a CPU first is not known then.
                expect.ready -= times.unknown;
                expect.unknown = times.unknown;
            }
            prop_assert_eq!(times, expect, "task {} of {:?}", task, spans(&chart, task));
            prop_assert_eq!(times.total(), within.end - within.start);
        }
        for (cpu, timeline) in chart.cpus.iter().enumerate() {
            for (range, task) in timeline.runs(chart.end) {
                let task = task.expect("nothing is missing").index();
                for moment in &machine.history[range.start as usize..range.end as usize] {
                    prop_assert!(task == 0 || moment[task] == Truth::On(cpu as u32));
                }
            }
        }
    }

    #[test]
    fn a_part_of_the_time_has_its_times(
        steps in prop::collection::vec(any::<(u8, u8, u8)>(), 1..120),
        window: (u8, u8),
    ) {
        let machine = Machine::run(2, 5, &steps);
        let whole = chart(&machine.events);
        let from = whole.start + u64::from(window.0.min(window.1));
        let to = (whole.start + u64::from(window.0.max(window.1))).min(whole.end);
        let filter = SchedFilter { times: vec![from..=to], ..SchedFilter::default() };
        let part = whole.clone().shown(&filter, &SchedTasks::default());
        let everything = 0..u64::MAX;
        for (task, of_part) in whole.tasks.iter().zip(&part.tasks) {
            prop_assert_eq!(of_part.times(everything.clone()), task.times(from..to));
            prop_assert_eq!(of_part.starts.len(), of_part.activities.len());
        }
        for (cpu, of_part) in whole.cpus.iter().zip(&part.cpus) {
            let cut = cpu.runs(whole.end).map(|(run, task)| (run.start.max(from)..run.end.min(to), task));
            let cut: Vec<_> = cut.filter(|(run, _)| run.start < run.end).collect();
            let found: Vec<_> = of_part.runs(part.end).filter(|(run, _)| run.start < run.end).collect();
            prop_assert_eq!(found, cut);
        }
    }

    #[test]
    fn what_is_missing_leaves_no_gap(
        steps in prop::collection::vec(any::<(u8, u8, u8)>(), 1..120),
        lost in prop::collection::vec(any::<bool>(), 120),
    ) {
        let machine = Machine::run(2, 5, &steps);
        let kept: Vec<SchedEvent> =
            machine.events.iter().zip(&lost).filter(|(_, lost)| !**lost).map(|(event, _)| event.clone()).collect();
        let chart = chart(&kept);
        for (number, task) in chart.tasks.iter().enumerate() {
            prop_assert!(task.starts.is_sorted_by(|a, b| a < b), "{}", spans(&chart, number));
            let Some(first) = task.starts.first() else { continue };
            let all = task.times(chart.start..chart.end);
            prop_assert_eq!(all.total(), task.end - first);
            // A task that the chart has on a CPU is there, or events of it are missing.
            for (range, activity) in task.spans() {
                let Activity::Running { cpu } = activity else { continue };
                let runs = chart.cpus[cpu as usize].runs(chart.end);
                let there: u64 = runs
                    .filter(|(_, task)| *task == Some(TaskId(number as u32)))
                    .map(|(run, _)| run.end.min(range.end).saturating_sub(run.start.max(range.start)))
                    .sum();
                prop_assert_eq!(there, range.end - range.start);
            }
        }
    }
}
