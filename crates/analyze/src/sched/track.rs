//! Which task has which CPU, and since when others wait for one.
//!
//! Events may be missing, lost or never recorded: a switch from a task that was not known to run. Then it is not known since
//! when it ran, nor how long the task before did, and neither is made up.

use pyrograph_profile::{SchedAction, SchedEvent, TaskId, TaskState, WaitReason};

/// Follows tasks and CPUs, an event at a time.
#[derive(Clone, Debug, Default)]
pub struct SchedTrack {
    tasks: Vec<TaskNow>,
    cpus: Vec<CpuNow>,
    /// How many switches are missing before those that were seen.
    missing: u64,
}

/// A switch of a CPU from one task to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switched {
    /// What the task that left the CPU had done there.
    pub left: Stint,
    /// What the task that has it now had waited for.
    pub came: Arrival,
}

/// The time of a task on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stint {
    /// The task.
    pub task: TaskId,
    /// How it came to the CPU; `None` if that was not seen.
    pub arrival: Option<Arrival>,
    /// When it left, in nanoseconds.
    pub end: u64,
    /// The time that the kernel says it ran, where the trace has that.
    pub counted: Option<u64>,
    /// Its state when it left.
    pub state: TaskState,
    /// What it waits for from then on.
    pub reason: WaitReason,
}

/// How a task came to a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The task.
    pub task: TaskId,
    /// When, in nanoseconds.
    pub time: u64,
    /// When it had left its CPU before, and in which state, if that was seen.
    pub absence: Option<Absence>,
    /// Since when it could run, if that is known.
    pub ready: Option<Ready>,
}

/// When and how a task left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absence {
    /// When, in nanoseconds.
    pub since: u64,
    /// In which state.
    pub state: TaskState,
    /// What for.
    pub reason: WaitReason,
}

/// Since when a task can run, without a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Nanoseconds on the recording's clock.
    pub since: u64,
    /// It had to leave its CPU; otherwise it was woken or started.
    pub preempted: bool,
}

impl Stint {
    /// The time that the task had the CPU, from one switch to the other, if both were seen; in nanoseconds.
    pub fn on_cpu(&self) -> Option<u64> {
        self.arrival.map(|arrival| self.end.saturating_sub(arrival.time))
    }

    /// The time that it ran: what the kernel says, or else from one switch to the other.
    pub fn run_time(&self) -> Option<u64> {
        self.counted.or(self.on_cpu())
    }
}

impl Arrival {
    /// How long it waited for a CPU after it could run, in nanoseconds.
    pub fn delay(&self) -> Option<u64> {
        self.ready.map(|ready| self.time.saturating_sub(ready.since))
    }

    /// How long it had no CPU, in nanoseconds.
    pub fn absent(&self) -> Option<u64> {
        self.absence.map(|absence| self.time.saturating_sub(absence.since))
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct TaskNow {
    absence: Option<Absence>,
    ready: Option<Ready>,
    /// The CPU that it has.
    cpu: Option<u32>,
    /// A waking was seen while it still had its CPU.
    woken_early: bool,
    /// `sched_waking` was seen, behind which `sched_wakeup` says the same once more.
    is_waking: bool,
    /// What the kernel counted since it has the CPU.
    counted: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct CpuNow {
    arrival: Option<Arrival>,
    /// When it was idle last, and is not now.
    idle: Option<Absence>,
}

impl SchedTrack {
    /// How many switches are missing: of so many tasks it was not seen how they came to the CPU that they left, though the
    /// CPU's switch before was.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// The task that has a CPU, and how it came there, as far as it was seen.
    pub fn on(&self, cpu: u32) -> Option<&Arrival> {
        self.cpus.get(cpu as usize)?.arrival.as_ref()
    }

    /// All CPUs on which something was seen, and the tasks that have them.
    pub fn cpus(&self) -> impl Iterator<Item = (u32, &Arrival)> {
        (0..).zip(&self.cpus).filter_map(|(cpu, now)| Some((cpu, now.arrival.as_ref()?)))
    }

    /// What the kernel counted of a task since it has its CPU.
    pub fn counted(&self, task: TaskId) -> Option<u64> {
        self.tasks.get(task.index())?.counted
    }

    /// Since when a task waits for a CPU.
    pub fn ready(&self, task: TaskId) -> Option<Ready> {
        self.tasks.get(task.index())?.ready
    }

    /// Follows an event. Returns what a switch ended and began.
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
        // More CPUs than any kernel has are those of a damaged file: they share a place.
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
                // It left at some time, somehow.
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
                    // How it left that CPU was not seen.
                    self.missing += 1;
                    let place = self.cpu(other);
                    place.arrival = place.arrival.filter(|arrival| arrival.task != task);
                }
                // Who wakes a task that is just leaving its CPU does so before it has left.
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
            // It was about to sleep when it had to leave its CPU.
            Some(Ready { preempted: true, .. }) => {}
            Some(_) if is_same => {}
            // Only a task that sleeps is woken: it ran since, which was not seen.
            Some(_) => now.ready = Some(ready),
        }
    }
}
