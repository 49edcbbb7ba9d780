//! Tracks which task each CPU runs, and since when other tasks wait for one.
//!
//! Events may be missing, because they were lost or never recorded: then a switch comes from a task that was not
//! known to be running. In that case, the run times of this task and of the one before are unknown, and they are not
//! estimated.

use pyrograph_profile::{SchedAction, SchedEvent, TaskId, TaskState, WaitReason};

/// Tracks tasks and CPUs, one event at a time.
#[derive(Clone, Debug, Default)]
pub struct SchedTrack {
    tasks: Vec<TaskNow>,
    cpus: Vec<CpuNow>,
    /// Number of switches that must be missing between those seen.
    missing: u64,
}

/// A context switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switched {
    /// Time of the outgoing task on the CPU.
    pub left: Stint,
    /// Arrival of the incoming task on the CPU.
    pub came: Arrival,
}

/// Uninterrupted time of a task on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stint {
    /// The task.
    pub task: TaskId,
    /// Arrival on the CPU; `None` if that was not seen.
    pub arrival: Option<Arrival>,
    /// Time at which the task left, in nanoseconds.
    pub end: u64,
    /// Run time as counted by the kernel, if the trace contains it, in nanoseconds.
    pub counted: Option<u64>,
    /// State of the task when it left.
    pub state: TaskState,
    /// Reason for the wait that follows.
    pub reason: WaitReason,
}

/// Arrival of a task on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The task.
    pub task: TaskId,
    /// Time of the arrival, in nanoseconds.
    pub time: u64,
    /// How the task had left its previous CPU, if that was seen.
    pub absence: Option<Absence>,
    /// Since when the task was runnable, if known.
    pub ready: Option<Ready>,
}

/// When and how a task left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absence {
    /// Time in nanoseconds.
    pub since: u64,
    /// State of the task.
    pub state: TaskState,
    /// Reason for the wait.
    pub reason: WaitReason,
}

/// Runnable state of a task without a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Time since when it is runnable, in nanoseconds on the recording's clock.
    pub since: u64,
    /// True if the task was preempted, false if it was woken or started.
    pub preempted: bool,
}

impl Stint {
    /// Time from one switch to the next in nanoseconds, if both were seen.
    pub fn on_cpu(&self) -> Option<u64> {
        self.arrival.map(|arrival| self.end.saturating_sub(arrival.time))
    }

    /// Run time in nanoseconds: the kernel's count if known, otherwise the time between the switches.
    pub fn run_time(&self) -> Option<u64> {
        self.counted.or(self.on_cpu())
    }
}

impl Arrival {
    /// Run queue latency: time from runnable to running, in nanoseconds.
    pub fn delay(&self) -> Option<u64> {
        self.ready.map(|ready| self.time.saturating_sub(ready.since))
    }

    /// Time without a CPU, in nanoseconds.
    pub fn absent(&self) -> Option<u64> {
        self.absence.map(|absence| self.time.saturating_sub(absence.since))
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct TaskNow {
    absence: Option<Absence>,
    ready: Option<Ready>,
    /// CPU that runs the task.
    cpu: Option<u32>,
    /// True if a wakeup was seen while the task was still on its CPU.
    woken_early: bool,
    /// True after `sched_waking`, which `sched_wakeup` repeats.
    is_waking: bool,
    /// Run time that the kernel has counted since the task's arrival on its CPU.
    counted: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct CpuNow {
    arrival: Option<Arrival>,
    /// Last idle time; `None` while the CPU is idle.
    idle: Option<Absence>,
}

impl SchedTrack {
    /// Number of missing switches: switches from a task other than the one that the previous switch gave the CPU to,
    /// and arrivals of tasks that were still on another CPU.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Arrival of the task that a CPU runs, if it was seen.
    pub fn on(&self, cpu: u32) -> Option<&Arrival> {
        self.cpus.get(cpu as usize)?.arrival.as_ref()
    }

    /// All CPUs with known tasks, and the arrivals of these.
    pub fn cpus(&self) -> impl Iterator<Item = (u32, &Arrival)> {
        (0..).zip(&self.cpus).filter_map(|(cpu, now)| Some((cpu, now.arrival.as_ref()?)))
    }

    /// Run time that the kernel has counted for a task since its arrival on its CPU.
    pub fn counted(&self, task: TaskId) -> Option<u64> {
        self.tasks.get(task.index())?.counted
    }

    /// Since when a task waits for a CPU.
    pub fn ready(&self, task: TaskId) -> Option<Ready> {
        self.tasks.get(task.index())?.ready
    }

    /// Processes an event. Returns the outgoing and incoming task of a switch.
    pub fn event(&mut self, event: &SchedEvent) -> Option<Switched> {
        match event.action {
            SchedAction::Switch { previous, state, reason, next } => {
                let absence = Absence { since: event.time, state, reason };
                let left = self.leave(event.cpu, previous, absence);
                let came = self.come(event.cpu, next, event.time);
                return Some(Switched { left, came });
            }
            SchedAction::Wakeup { task, is_waking, .. } => self.wake(task, event.time, is_waking),
            SchedAction::Runtime { task, time } => {
                let now = self.task(task);
                now.counted = Some(now.counted.unwrap_or(0).saturating_add(time));
            }
            SchedAction::Migrate { .. }
            | SchedAction::Fork { .. }
            | SchedAction::Rename { .. }
            | SchedAction::Exit { .. }
            | SchedAction::Idle { .. }
            | SchedAction::Frequency { .. } => {}
        }
        None
    }

    fn task(&mut self, task: TaskId) -> &mut TaskNow {
        let at = task.index();
        if self.tasks.len() <= at {
            self.tasks.resize(at + 1, TaskNow::default());
        }
        &mut self.tasks[at]
    }

    fn cpu(&mut self, cpu: u32) -> &mut CpuNow {
        // Higher CPU numbers are from damaged files: they share one entry.
        const MOST: usize = 1 << 16;
        let at = (cpu as usize).min(MOST);
        if self.cpus.len() <= at {
            self.cpus.resize(at + 1, CpuNow::default());
        }
        &mut self.cpus[at]
    }

    fn leave(&mut self, cpu: u32, task: TaskId, absence: Absence) -> Stint {
        let current = self.cpu(cpu).arrival.take();
        let arrival = current.filter(|arrival| arrival.task == task);
        if let (Some(other), None) = (current, arrival) {
            self.missing += 1;
            if other.task != TaskId::IDLE {
                // When and how the other task left is unknown.
                *self.task(other.task) = TaskNow::default();
            }
        }
        let end = absence.since;
        let (state, reason) = (absence.state, absence.reason);
        if task == TaskId::IDLE {
            self.cpu(cpu).idle = Some(absence);
            return Stint { task, arrival, end, counted: None, state, reason };
        }
        let now = self.task(task);
        let counted = now.counted.take();
        let is_ready = state == TaskState::Runnable;
        let ready = is_ready.then_some(Ready { since: end, preempted: true });
        *now = TaskNow { absence: Some(absence), ready, cpu: None, counted: None, ..*now };
        Stint { task, arrival, end, counted, state, reason }
    }

    fn come(&mut self, cpu: u32, task: TaskId, time: u64) -> Arrival {
        let arrival = match task {
            TaskId::IDLE => {
                let absence = self.cpu(cpu).idle.take();
                Arrival { task, time, absence, ready: None }
            }
            _ => {
                let now = std::mem::replace(
                    self.task(task),
                    TaskNow { cpu: Some(cpu), ..TaskNow::default() },
                );
                if let Some(other) = now.cpu {
                    // Its departure from that CPU was not seen.
                    self.missing += 1;
                    let place = self.cpu(other);
                    place.arrival = place.arrival.filter(|arrival| arrival.task != task);
                }
                // A task that is about to leave its CPU may be woken before it has left.
                let early = now.absence.filter(|_| now.woken_early);
                let early = early.map(|it| Ready { since: it.since, preempted: false });
                Arrival { task, time, absence: now.absence, ready: now.ready.or(early) }
            }
        };
        self.cpu(cpu).arrival = Some(arrival);
        arrival
    }

    fn wake(&mut self, task: TaskId, time: u64, is_waking: bool) {
        if task == TaskId::IDLE {
            return;
        }
        let now = self.task(task);
        let is_same = std::mem::replace(&mut now.is_waking, is_waking) && !is_waking;
        let ready = Ready { since: time, preempted: false };
        match now.ready {
            _ if now.cpu.is_some() => now.woken_early = true,
            None => now.ready = Some(ready),
            // The task was about to sleep when it was preempted.
            Some(Ready { preempted: true, .. }) => {}
            Some(_) if is_same => {}
            // Only sleeping tasks are woken, so the task must have run since, which was not seen.
            Some(_) => now.ready = Some(ready),
        }
    }
}
