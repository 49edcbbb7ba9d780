//! Builds the timelines of a chart from events.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pyrograph_profile::{SchedAction, SchedEvent, StackLine, TaskId, TaskState, WaitReason};

use super::super::reason;
use super::{Activity, CpuTimeline, IdleSpan, ReadyCause, SchedChart, TaskTimeline};

/// Maximum number of CPUs of any kernel (`CONFIG_NR_CPUS` is at most 8,192).
const MOST_CPUS: u32 = 8192;

/// Builds a chart from events in time order. A time before the previous event's counts as equal to it.
///
/// The state of a task before its first event is derived from that event: it was running if it left a CPU, blocked if
/// it was woken, and runnable if it was given a CPU. Between two events that do not fit together, its state is
/// unknown.
///
/// ```
/// use pyrograph_analyze::{Activity, SchedChartBuilder};
/// use pyrograph_profile::{SchedAction, SchedEvent, TaskId, TaskState, WaitReason};
///
/// let mut builder = SchedChartBuilder::default();
/// let worker = TaskId(1);
/// let switch = |previous, state, next| SchedAction::Switch { previous, state, reason: WaitReason::Disk, next };
/// for (time, action) in [
///     (10, switch(TaskId::IDLE, TaskState::Runnable, worker)),
///     (30, switch(worker, TaskState::Uninterruptible, TaskId::IDLE)),
///     (45, switch(TaskId::IDLE, TaskState::Runnable, worker)),
/// ] {
///     builder.push(&SchedEvent { time, cpu: 0, action, stack: [].into() });
/// }
/// let chart = builder.finish();
/// assert_eq!(chart.tasks[worker.index()].activities[0], Activity::Running { cpu: 0 });
/// assert_eq!(chart.tasks[worker.index()].times(0..100).running, 20);
/// ```
#[derive(Clone, Debug, Default)]
pub struct SchedChartBuilder {
    chart: SchedChart,
    cpus: Vec<Cpu>,
    tasks: Vec<Task>,
    stacks: HashMap<Box<[usize]>, u32, FixedState>,
    /// By stack number, the wait reason of tasks that leave their CPU with this stack. The first element is for
    /// events without a stack.
    reasons: Vec<WaitReason>,
    has_started: bool,
}

/// Current state of a CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    /// Current idle state, and when it began.
    idle: Option<(u64, u32)>,
}

/// Current state of a task.
#[derive(Clone, Copy, Debug, Default)]
struct Task {
    /// Wakeup that occurred while the task was still running. It takes effect if the task then blocks.
    woken_early: Option<ReadyCause>,
    /// True if the task has exited.
    is_over: bool,
}

impl SchedChartBuilder {
    /// Adds an event.
    pub fn push(&mut self, event: &SchedEvent) {
        if event.cpu >= MOST_CPUS {
            self.chart.impossible += 1;
            return;
        }
        if !self.has_started {
            self.has_started = true;
            self.chart.start = event.time;
        }
        let time = event.time.max(self.chart.end).max(self.chart.start);
        self.chart.end = time;
        match &event.action {
            &SchedAction::Switch { previous, state, reason, next } => {
                self.chart.switches += 1;
                let stack = self.stack(&event.stack);
                let reason = match reason {
                    WaitReason::Unknown => {
                        self.reasons.get(stack as usize).copied().unwrap_or_default()
                    }
                    known => known,
                };
                let goes_on = self.run(event.cpu, previous, next, time);
                self.leave(
                    previous,
                    goes_on.then_some(event.cpu),
                    Activity::after(state, reason),
                    stack,
                    time,
                );
                self.enter(next, event.cpu, time);
            }
            &SchedAction::Wakeup { task, waker, is_new, .. } => {
                self.chart.wakeups += 1;
                let cpu = event.cpu as u16;
                self.wake(task, ReadyCause::Woken { waker, cpu }, is_new, time);
            }
            &SchedAction::Fork { parent, child } => {
                let cpu = event.cpu as u16;
                self.wake(child, ReadyCause::Woken { waker: parent, cpu }, true, time);
            }
            &SchedAction::Idle { state } => self.idle(event.cpu, state, time),
            &SchedAction::Frequency { frequency } => {
                self.cpu(event.cpu).frequencies.push((time, frequency));
            }
            SchedAction::Migrate { .. }
            | SchedAction::Rename { .. }
            | SchedAction::Runtime { .. }
            | SchedAction::Exit { .. } => {}
        }
    }

    /// Number of switches so far.
    pub fn switches(&self) -> u64 {
        self.chart.switches
    }

    /// Returns the chart of all added events.
    pub fn finish(mut self) -> SchedChart {
        let end = self.chart.end;
        for (cpu, present) in self.chart.cpus.iter_mut().zip(&self.cpus) {
            cpu.idle.extend(present.idle.map(|(start, state)| IdleSpan { start, end, state }));
        }
        for (timeline, present) in self.chart.tasks.iter_mut().zip(&self.tasks) {
            if !present.is_over {
                timeline.end = end;
            }
            if self.chart.wakeups == 0 {
                // Without wakeups, the task may as well have been blocked.
                for activity in &mut timeline.activities {
                    if *activity == Activity::Ready(ReadyCause::Unknown) {
                        *activity = Activity::Unknown;
                    }
                }
            }
            if self.chart.stacks.is_empty() {
                timeline.stacks = Vec::new();
            }
        }
        self.chart
    }

    fn cpu(&mut self, cpu: u32) -> &mut CpuTimeline {
        let index = cpu as usize;
        if self.cpus.len() <= index {
            self.cpus.resize(index + 1, Cpu::default());
            self.chart.cpus.resize(index + 1, CpuTimeline::default());
        }
        &mut self.chart.cpus[index]
    }

    fn task(&mut self, task: TaskId) -> (&mut TaskTimeline, &mut Task) {
        let index = task.index();
        if self.tasks.len() <= index {
            self.tasks.resize(index + 1, Task::default());
            self.chart.tasks.resize(index + 1, TaskTimeline::default());
        }
        (&mut self.chart.tasks[index], &mut self.tasks[index])
    }

    /// Switches a CPU from one task to another. Returns false if it is unknown when the former began to run.
    fn run(&mut self, cpu: u32, previous: TaskId, next: TaskId, time: u64) -> bool {
        let start = self.chart.start;
        let timeline = self.cpu(cpu);
        let missed = match timeline.tasks.last_mut() {
            None => {
                timeline.starts.push(start);
                timeline.tasks.push(Some(previous));
                None
            }
            Some(last) if *last == Some(previous) => None,
            // Unknown when the CPU switched to `previous`.
            Some(last) => last.take(),
        };
        if timeline.starts.last() == Some(&time) {
            // Avoid spans without a duration, such as before the very first event.
            timeline.starts.pop();
            timeline.tasks.pop();
        }
        timeline.starts.push(time);
        timeline.tasks.push(Some(next));
        let Some(missed) = missed else { return true };
        self.chart.gaps += 1;
        let (timeline, _) = self.task(missed);
        if timeline.activities.last() == Some(&Activity::Running { cpu }) {
            timeline.forget_last();
        }
        false
    }

    /// Ends a task's run on a CPU. `on` is the CPU if the task is known to have run there until now; `after` is
    /// `None` if the task exits.
    fn leave(
        &mut self,
        task: TaskId,
        on: Option<u32>,
        after: Option<Activity>,
        stack: u32,
        time: u64,
    ) {
        if task == TaskId::IDLE {
            return;
        }
        let start = self.chart.start;
        let (timeline, present) = self.task(task);
        match timeline.activities.last() {
            None => {
                let before = on.map_or(Activity::Unknown, |cpu| Activity::Running { cpu });
                timeline.begin(start, before, 0);
            }
            Some(Activity::Running { cpu }) if on == Some(*cpu) && !present.is_over => {}
            Some(_) => timeline.missed(present, time),
        }
        match after {
            Some(activity) => {
                if matches!(activity, Activity::Ready(_)) {
                    present.woken_early = None;
                }
                timeline.begin(time, activity, stack);
            }
            None => {
                timeline.end = time;
                present.is_over = true;
            }
        }
    }

    /// Gives a CPU to a task.
    fn enter(&mut self, task: TaskId, cpu: u32, time: u64) {
        if task == TaskId::IDLE {
            return;
        }
        let start = self.chart.start;
        let (timeline, present) = self.task(task);
        let woken_early = present.woken_early.take();
        match (timeline.activities.last_mut(), woken_early) {
            (None, _) if time > start => {
                timeline.begin(start, Activity::Ready(ReadyCause::Unknown), 0);
            }
            (None, _) => {}
            (Some(_), _) if present.is_over => timeline.missed(present, time),
            (Some(Activity::Running { .. }), _) => timeline.missed(present, time),
            // Without another wakeup in between, the early wakeup must be why it runs.
            (Some(last @ Activity::Blocked { .. }), Some(cause)) => *last = Activity::Ready(cause),
            (Some(_), _) => {}
        }
        timeline.begin(time, Activity::Running { cpu }, 0);
    }

    fn wake(&mut self, task: TaskId, cause: ReadyCause, is_new: bool, time: u64) {
        if task == TaskId::IDLE {
            return;
        }
        let start = self.chart.start;
        let (timeline, present) = self.task(task);
        match timeline.activities.last() {
            None => {
                if !is_new && time > start {
                    let blocked = Activity::Blocked { state: None, reason: WaitReason::Unknown };
                    timeline.begin(start, blocked, 0);
                }
                timeline.begin(time, Activity::Ready(cause), 0);
            }
            Some(_) if present.is_over => {}
            Some(Activity::Blocked { .. } | Activity::Unknown) => {
                present.woken_early = None;
                timeline.begin(time, Activity::Ready(cause), 0);
            }
            Some(Activity::Running { .. }) => present.woken_early = Some(cause),
            // Second event for the same wakeup: `sched_wakeup` after `sched_waking`, or `sched_wakeup_new` after a
            // fork.
            Some(Activity::Ready(_)) => {}
        }
    }

    fn idle(&mut self, cpu: u32, state: Option<u32>, time: u64) {
        self.cpu(cpu);
        let present = &mut self.cpus[cpu as usize];
        let was = std::mem::replace(&mut present.idle, state.map(|state| (time, state)));
        if let Some((start, state)) = was {
            self.cpu(cpu).idle.push(IdleSpan { start, end: time, state });
        }
    }

    /// Number of a stack, starting at 1; 0 for an empty stack. Frames are shared, so stacks are compared by the
    /// addresses of their frames.
    fn stack(&mut self, stack: &Arc<[Arc<StackLine>]>) -> u32 {
        if stack.is_empty() {
            return 0;
        }
        let key: Box<[usize]> = stack.iter().map(|line| Arc::as_ptr(line).addr()).collect();
        *self.stacks.entry(key).or_insert_with(|| {
            self.chart.stacks.push(Arc::clone(stack));
            let number = self.chart.stacks.len();
            self.reasons.resize(number, WaitReason::Unknown);
            self.reasons.push(reason::of_stack(stack));
            number as u32
        })
    }
}

impl Activity {
    /// Activity after a task has left its CPU in a state; `None` if it has exited.
    fn after(state: TaskState, reason: WaitReason) -> Option<Self> {
        match state {
            TaskState::Runnable => Some(Self::Ready(ReadyCause::Preempted)),
            TaskState::Dead => None,
            _ => Some(Self::Blocked { state: Some(state), reason }),
        }
    }
}

impl TaskTimeline {
    /// Begins a span, replacing a previous span without a duration.
    fn begin(&mut self, time: u64, activity: Activity, stack: u32) {
        if self.starts.last() == Some(&time) {
            self.starts.pop();
            self.activities.pop();
            self.stacks.pop();
        }
        self.starts.push(time);
        self.activities.push(activity);
        self.stacks.push(stack);
    }

    /// Marks the time since the last span began as unknown, because events are missing.
    fn missed(&mut self, present: &mut Task, time: u64) {
        if std::mem::take(&mut present.is_over) {
            let end = self.end;
            if end < time {
                self.begin(end, Activity::Unknown, 0);
            }
        } else {
            self.forget_last();
        }
    }

    fn forget_last(&mut self) {
        if let Some(last) = self.activities.last_mut() {
            *last = Activity::Unknown;
        }
    }
}
