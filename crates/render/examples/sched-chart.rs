//! Draws the chart of a machine that is simulated: `sched-chart SWITCHES OUT.html|.svg [WIDTH]`.
//!
//! Eight CPUs run a web server's workers, a database that waits for its disk, compilers that compete for CPUs, and daemons that
//! wake up now and then. The same number of switches gives the same chart.

use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;

use pyrograph_analyze::SchedChartBuilder;
use pyrograph_profile::{
    SchedAction, SchedEvent, SchedTask, SchedTasks, StackLine, TaskId, TaskState, WaitReason,
};
use pyrograph_render::{SchedChartLook, sched_chart_html, sched_chart_svg};

const CPUS: u32 = 8;

/// How a task spends its time: the mean of a run and of a wait in microseconds, and what it waits for.
struct Habit {
    name: &'static str,
    threads: u32,
    run: u64,
    wait: u64,
    state: TaskState,
    reason: WaitReason,
}

const HABITS: [Habit; 7] = [
    habit("nginx", 8, 60, 500, TaskState::Sleeping, WaitReason::Network),
    habit("postgres", 6, 150, 900, TaskState::Uninterruptible, WaitReason::Disk),
    habit("cc1plus", 3, 2500, 300, TaskState::Uninterruptible, WaitReason::Disk),
    habit("java", 24, 90, 1500, TaskState::Sleeping, WaitReason::Lock),
    habit("make", 1, 200, 9000, TaskState::Sleeping, WaitReason::Child),
    habit("sshd", 2, 40, 12_000, TaskState::Sleeping, WaitReason::Pipe),
    habit("kworker", 12, 15, 8000, TaskState::IdleKernel, WaitReason::Unknown),
];

const fn habit(
    name: &'static str,
    threads: u32,
    run: u64,
    wait: u64,
    state: TaskState,
    reason: WaitReason,
) -> Habit {
    Habit { name, threads, run, wait, state, reason }
}

/// Numbers that look random, the same ones each time (PCG of 32 bits).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = ((self.0 >> 18) ^ self.0) >> 27;
        (u64::from((mixed as u32).rotate_right((self.0 >> 59) as u32)) * limit) >> 32
    }

    /// A time with this mean, mostly shorter, in nanoseconds.
    fn time(&mut self, microseconds: u64) -> u64 {
        let share = (1 + self.below(1000)) as f64 / 1001.0;
        (-share.ln() * microseconds as f64 * 1000.0) as u64 + 900
    }
}

struct Machine {
    numbers: Numbers,
    habit_of: Vec<usize>,
    /// By CPU: its task, and when that wants to leave.
    running: Vec<(TaskId, u64)>,
    ready: std::collections::VecDeque<TaskId>,
    /// When each blocked task will be woken.
    blocked: std::collections::BinaryHeap<std::cmp::Reverse<(u64, u32)>>,
    stacks: Vec<Arc<[Arc<StackLine>]>>,
    builder: SchedChartBuilder,
}

impl Machine {
    fn add(&mut self, time: u64, cpu: u32, action: SchedAction, habit: Option<usize>) {
        let stack = match habit {
            Some(habit) => {
                let at = habit * 4 + self.numbers.below(4) as usize;
                Arc::clone(&self.stacks[at])
            }
            None => [].into(),
        };
        self.builder.push(&SchedEvent { time, cpu, action, stack });
    }

    /// One CPU does what is next on it.
    fn step(&mut self) {
        const SLICE: u64 = 3_000_000;
        let (cpu, &(task, until)) = self
            .running
            .iter()
            .enumerate()
            .min_by_key(|(_, (_, until))| *until)
            .expect("there are CPUs");
        let cpu = cpu as u32;
        let woken = self.blocked.peek().map(|next| next.0);
        if let Some((time, whom)) = woken.filter(|(time, _)| *time <= until) {
            self.blocked.pop();
            let on = self.numbers.below(CPUS.into()) as u32;
            let waker = self.running[on as usize].0;
            let task = TaskId(whom);
            let action =
                SchedAction::Wakeup { task, waker, target: on, is_new: false, is_waking: true };
            self.add(time, on, action, None);
            self.ready.push_back(task);
            let idle = self.running.iter().position(|(task, _)| *task == TaskId::IDLE);
            if let Some(idle) = idle {
                let delay = self.numbers.time(8);
                self.running[idle].1 = self.running[idle].1.min(time + delay);
            }
            return;
        }
        let next = self.ready.pop_front().unwrap_or(TaskId::IDLE);
        if next == task {
            self.running[cpu as usize].1 = until + 1_000_000;
            return;
        }
        let habit = self.habit_of.get(task.index()).copied().unwrap_or(0);
        let of = &HABITS[habit];
        let preempted = self.numbers.below(8) == 0 && task != TaskId::IDLE;
        let (state, reason) = match task {
            TaskId::IDLE => (TaskState::Runnable, WaitReason::Unknown),
            _ if preempted => (TaskState::Runnable, WaitReason::Unknown),
            _ => (of.state, of.reason),
        };
        let stack = (task != TaskId::IDLE).then_some(habit);
        self.add(until, cpu, SchedAction::Switch { previous: task, state, reason, next }, stack);
        if task == TaskId::IDLE {
            self.add(until, cpu, SchedAction::Idle { state: None }, None);
        } else if preempted {
            self.ready.push_back(task);
        } else {
            // Load comes and goes.
            let busy = 1.0 + 0.9 * (until as f64 / 2.1e9).sin() * (until as f64 / 3.7e8).cos();
            let wait = self.numbers.time((of.wait as f64 * busy * 2.0) as u64);
            self.blocked.push(std::cmp::Reverse((until + wait, task.0)));
        }
        let habit = self.habit_of.get(next.index()).copied().unwrap_or(0);
        let length = match next {
            TaskId::IDLE => {
                let state = 1 + self.numbers.below(3) as u32;
                self.add(until, cpu, SchedAction::Idle { state: Some(state) }, None);
                4_000_000
            }
            _ => self.numbers.time(HABITS[habit].run).min(SLICE),
        };
        self.running[cpu as usize] = (next, until + length);
    }
}

fn stacks() -> Vec<Arc<[Arc<StackLine>]>> {
    let line = |function: &str| {
        Arc::new(StackLine { function: function.to_owned(), ..StackLine::default() })
    };
    let (main, schedule) = (line("main"), line("schedule"));
    let names = ["request", "flush", "accept", "poll"];
    let calls =
        HABITS.iter().flat_map(|habit| names.map(|name| line(&format!("{}_{name}", habit.name))));
    calls.map(|call| [Arc::clone(&schedule), call, Arc::clone(&main)].into()).collect()
}

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, switches, out, more @ ..] = &arguments[..] else {
        return Err(std::io::Error::other("usage: sched-chart SWITCHES OUT.html|OUT.svg [WIDTH]"));
    };
    let switches: u64 = switches.parse().map_err(std::io::Error::other)?;
    let mut tasks = SchedTasks::default();
    let mut habit_of = vec![0];
    for (habit, of) in HABITS.iter().enumerate() {
        let first = 1000 + 100 * habit as i32;
        for thread in 0..of.threads as i32 {
            let pid =
                if of.name == "kworker" || of.name == "cc1plus" { first + thread } else { first };
            let name = if of.threads > 1 && pid == first && thread > 0 {
                format!("{}-{thread}", of.name)
            } else {
                of.name.to_owned()
            };
            tasks.add(SchedTask { pid, tid: first + thread, name, parent: None });
            habit_of.push(habit);
        }
    }
    let all = (1..tasks.len() as u32).map(TaskId);
    let mut machine = Machine {
        numbers: Numbers(42),
        habit_of,
        running: (0..CPUS).map(|cpu| (TaskId::IDLE, u64::from(cpu) * 1500 + 1000)).collect(),
        ready: all.collect(),
        blocked: std::collections::BinaryHeap::new(),
        stacks: stacks(),
        builder: SchedChartBuilder::default(),
    };
    while machine.builder.switches() < switches {
        machine.step();
    }
    let chart = machine.builder.finish();
    let mut look = SchedChartLook {
        title: "A machine that is simulated".to_owned(),
        ..SchedChartLook::default()
    };
    if let Some(width) = more.first() {
        look.width = width.parse().map_err(std::io::Error::other)?;
    }
    let mut file = BufWriter::new(File::create(out)?);
    match out.ends_with(".html") {
        true => sched_chart_html(&chart, &tasks, &look, &mut file),
        false => sched_chart_svg(&chart, &tasks, &look, &mut file),
    }
}
