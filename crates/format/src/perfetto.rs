//! Perfetto traces with scheduler events: `.perfetto-trace`, for ui.perfetto.dev and `trace_processor`.
//!
//! Source: `perfetto_trace.proto` in Perfetto's documentation; a test decodes the output with messages that are declared
//! as in that file. Events are ftrace events, in bundles for one CPU each; processes and threads with their names are
//! written at the end.

use std::collections::BTreeMap;
use std::io::{self, Write};

use pyrograph_profile::{SchedAction, SchedEvent, SchedTasks, TaskId, TaskState, WaitReason};

use crate::protobuf::Writer;

/// File name endings of the format, without the leading dot; the usual one first.
pub const PERFETTO_ENDINGS: [&str; 2] = ["perfetto-trace", "pftrace"];

/// Returns true if a file name has one of these endings.
pub fn is_perfetto(file_name: &str) -> bool {
    file_name.rsplit_once('.').is_some_and(|(_, ending)| PERFETTO_ENDINGS.contains(&ending))
}

/// Size in bytes at which a bundle is written.
const BUNDLE: usize = 64 * 1024;

/// `Trace.packet`.
const PACKET: u32 = 1;

/// Fields of `TracePacket`.
mod packet {
    pub const FTRACE_EVENTS: u32 = 1;
    pub const PROCESS_TREE: u32 = 2;
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE: u32 = 10;
}

/// Fields of `FtraceEvent`: the fields of every event, then one for each kind.
mod ftrace {
    pub const TIMESTAMP: u32 = 1;
    pub const TID: u32 = 2;
    pub const SCHED_SWITCH: u32 = 4;
    pub const CPU_FREQUENCY: u32 = 11;
    pub const CPU_IDLE: u32 = 13;
    pub const SCHED_WAKEUP: u32 = 17;
    pub const SCHED_BLOCKED_REASON: u32 = 18;
    pub const SCHED_WAKING: u32 = 20;
    pub const SCHED_WAKEUP_NEW: u32 = 114;
    pub const TASK_RENAME: u32 = 236;
    pub const SCHED_PROCESS_EXIT: u32 = 238;
    pub const SCHED_PROCESS_FORK: u32 = 239;
    pub const SCHED_MIGRATE_TASK: u32 = 491;
}

/// All packets belong to one sequence.
const SEQUENCE: u64 = 1;
/// Default priority of tasks: the events here have no priority.
const PRIORITY: u64 = 120;

/// Writer of a trace. Keeps at most one bundle for each CPU in memory.
pub struct PerfettoTrace<'a> {
    out: &'a mut dyn Write,
    /// Events that are not written yet, by CPU.
    bundles: BTreeMap<u32, Writer>,
    /// The running task, by CPU.
    running: BTreeMap<u32, TaskId>,
    /// By task: true if it waits for a disk.
    waits_for_disk: Vec<bool>,
    last: u64,
}

impl<'a> PerfettoTrace<'a> {
    /// Begins a trace.
    pub fn new(out: &'a mut dyn Write) -> Self {
        let (bundles, running) = (BTreeMap::new(), BTreeMap::new());
        Self { out, bundles, running, waits_for_disk: Vec::new(), last: 0 }
    }

    /// Adds an event; the times of a CPU's events must not decrease. `tasks` contains the tasks known so far.
    ///
    /// # Errors
    ///
    /// If writing to the output fails.
    pub fn push(&mut self, tasks: &SchedTasks, event: &SchedEvent) -> io::Result<()> {
        self.last = self.last.max(event.time);
        let running = self.running.get(&event.cpu).copied().unwrap_or(TaskId::IDLE);
        if let SchedAction::Wakeup { task, .. } = event.action
            && self.waits_for_disk.get_mut(task.index()).is_some_and(std::mem::take)
        {
            self.add(tasks, event, running, ftrace::SCHED_BLOCKED_REASON, |of| {
                of.number(1, number(tasks.get(task).tid));
                of.number(3, 1);
            });
        }
        match event.action {
            SchedAction::Switch { previous, state, reason, next } => {
                self.running.insert(event.cpu, next);
                if reason == WaitReason::Disk {
                    self.waits_for_disk.resize(tasks.len().max(previous.index() + 1), false);
                    self.waits_for_disk[previous.index()] = true;
                }
                self.add(tasks, event, previous, ftrace::SCHED_SWITCH, |of| {
                    task(of, tasks, previous, (1, 2, 3));
                    of.number(4, raw_state(state));
                    task(of, tasks, next, (5, 6, 7));
                });
            }
            SchedAction::Wakeup { task: woken, waker, target, is_new, is_waking } => {
                let kind = match (is_new, is_waking) {
                    (true, _) => ftrace::SCHED_WAKEUP_NEW,
                    (_, true) => ftrace::SCHED_WAKING,
                    _ => ftrace::SCHED_WAKEUP,
                };
                self.add(tasks, event, waker, kind, |of| {
                    task(of, tasks, woken, (1, 2, 3));
                    of.number(4, 1);
                    of.number(5, target.into());
                });
            }
            _ => self.push_rare(tasks, event, running),
        }
        if self.bundles.get(&event.cpu).is_some_and(|bundle| bundle.bytes.len() >= BUNDLE) {
            return self.write_bundle(event.cpu);
        }
        Ok(())
    }

    /// Adds an event that is neither a context switch nor a wake-up.
    fn push_rare(&mut self, tasks: &SchedTasks, event: &SchedEvent, running: TaskId) {
        match &event.action {
            &SchedAction::Migrate { task: moved, from, to } => {
                self.add(tasks, event, running, ftrace::SCHED_MIGRATE_TASK, |of| {
                    task(of, tasks, moved, (1, 2, 3));
                    of.number(4, from.into());
                    of.number(5, to.into());
                });
            }
            &SchedAction::Fork { parent, child } => {
                self.add(tasks, event, parent, ftrace::SCHED_PROCESS_FORK, |of| {
                    of.put(1, tasks.get(parent).name.as_bytes());
                    of.number(2, number(tasks.get(parent).tid));
                    of.put(3, tasks.get(child).name.as_bytes());
                    of.number(4, number(tasks.get(child).tid));
                });
            }
            SchedAction::Rename { task, name } => {
                self.add(tasks, event, *task, ftrace::TASK_RENAME, |of| {
                    of.number(1, number(tasks.get(*task).tid));
                    of.put(3, name.as_bytes());
                });
            }
            &SchedAction::Exit { task: ended } => {
                self.add(tasks, event, ended, ftrace::SCHED_PROCESS_EXIT, |of| {
                    of.put(1, tasks.get(ended).name.as_bytes());
                    of.number(2, number(tasks.get(ended).tid));
                    of.number(3, number(process(tasks, ended)));
                    of.number(4, PRIORITY);
                });
            }
            SchedAction::Idle { state } => {
                self.add(tasks, event, TaskId::IDLE, ftrace::CPU_IDLE, |of| {
                    // All ones: the CPU leaves its idle state.
                    of.number(1, state.unwrap_or(u32::MAX).into());
                    of.number(2, event.cpu.into());
                });
            }
            SchedAction::Frequency { frequency } => {
                self.add(tasks, event, running, ftrace::CPU_FREQUENCY, |of| {
                    of.number(1, (*frequency).into());
                    of.number(2, event.cpu.into());
                });
            }
            // Perfetto has no such event: it computes run times from context switches.
            SchedAction::Runtime { .. }
            | SchedAction::Switch { .. }
            | SchedAction::Wakeup { .. } => {}
        }
    }

    /// Writes the remaining events, and the processes and threads.
    ///
    /// # Errors
    ///
    /// If writing to the output fails.
    pub fn finish(mut self, tasks: &SchedTasks) -> io::Result<()> {
        let cpus: Vec<u32> = self.bundles.keys().copied().collect();
        cpus.into_iter().try_for_each(|cpu| self.write_bundle(cpu))?;
        let mut names: BTreeMap<i32, &str> = BTreeMap::new();
        for (id, task) in tasks.iter().skip(1) {
            let pid = process(tasks, id);
            if pid == task.tid {
                names.insert(pid, &task.name);
            } else {
                names.entry(pid).or_insert(&task.name);
            }
        }
        let mut tree = Writer::default();
        for (pid, name) in &names {
            tree.message(1, |process| {
                process.number(1, number(*pid));
                process.put(3, name.as_bytes());
            });
        }
        for (id, task) in tasks.iter().skip(1) {
            tree.message(2, |thread| {
                thread.number(1, number(task.tid));
                thread.put(2, task.name.as_bytes());
                thread.number(3, number(process(tasks, id)));
            });
        }
        let last = self.last;
        self.write_packet(|packet| {
            packet.number(packet::TIMESTAMP, last);
            packet.put(packet::PROCESS_TREE, &tree.bytes);
        })
    }

    fn add(
        &mut self,
        tasks: &SchedTasks,
        event: &SchedEvent,
        running: TaskId,
        kind: u32,
        fill: impl FnOnce(&mut Writer),
    ) {
        let bundle = self.bundles.entry(event.cpu).or_default();
        // FtraceEventBundle.event
        bundle.message(2, |of| {
            of.number(ftrace::TIMESTAMP, event.time);
            of.number(ftrace::TID, number(tasks.get(running).tid));
            of.message(kind, fill);
        });
    }

    fn write_bundle(&mut self, cpu: u32) -> io::Result<()> {
        let mut bundle = Writer::default();
        bundle.explicit_number(1, cpu.into());
        if let Some(events) = self.bundles.get_mut(&cpu) {
            bundle.bytes.append(&mut events.bytes);
        }
        self.write_packet(|packet| packet.put(packet::FTRACE_EVENTS, &bundle.bytes))
    }

    fn write_packet(&mut self, fill: impl FnOnce(&mut Writer)) -> io::Result<()> {
        let mut trace = Writer::default();
        trace.message(PACKET, |packet| {
            packet.number(packet::SEQUENCE, SEQUENCE);
            fill(packet);
        });
        self.out.write_all(&trace.bytes)
    }
}

/// Encodes a signed 32-bit number, which is sign-extended to 64 bits on the wire.
fn number(value: i32) -> u64 {
    i64::from(value) as u64
}

/// Process of a task; if unknown, the task is treated as a process of its own.
fn process(tasks: &SchedTasks, task: TaskId) -> i32 {
    let task = tasks.get(task);
    if task.pid < 0 { task.tid } else { task.pid }
}

/// Writes name, thread ID and priority of a task.
fn task(of: &mut Writer, tasks: &SchedTasks, task: TaskId, (name, tid, priority): (u32, u32, u32)) {
    let row = tasks.get(task);
    of.put(name, row.name.as_bytes());
    of.number(tid, number(row.tid));
    of.number(priority, PRIORITY);
}

/// `prev_state` of `sched_switch` in kernels since 4.14 (`include/trace/events/sched.h`).
fn raw_state(state: TaskState) -> u64 {
    match state {
        TaskState::Runnable => 0,
        TaskState::Sleeping => 1,
        TaskState::Uninterruptible => 2,
        TaskState::Stopped => 4,
        TaskState::Traced => 8,
        TaskState::Dead => 0x10,
        TaskState::Parked => 0x40,
        TaskState::IdleKernel => 0x80,
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use pyrograph_profile::SchedTask;

    use super::*;

    // As `perfetto_trace.proto` declares them, the fields that are read here.
    #[derive(Message)]
    struct Trace {
        #[prost(message, repeated, tag = "1")]
        packet: Vec<TracePacket>,
    }
    #[derive(Message)]
    struct TracePacket {
        #[prost(message, optional, tag = "1")]
        ftrace_events: Option<FtraceEventBundle>,
        #[prost(message, optional, tag = "2")]
        process_tree: Option<ProcessTree>,
    }
    #[derive(Message)]
    struct FtraceEventBundle {
        #[prost(uint32, optional, tag = "1")]
        cpu: Option<u32>,
        #[prost(message, repeated, tag = "2")]
        event: Vec<FtraceEvent>,
    }
    #[derive(Message)]
    struct FtraceEvent {
        #[prost(uint64, optional, tag = "1")]
        timestamp: Option<u64>,
        #[prost(uint32, optional, tag = "2")]
        pid: Option<u32>,
        #[prost(message, optional, tag = "4")]
        sched_switch: Option<SchedSwitch>,
        #[prost(message, optional, tag = "13")]
        cpu_idle: Option<CpuIdle>,
        #[prost(message, optional, tag = "18")]
        sched_blocked_reason: Option<BlockedReason>,
        #[prost(message, optional, tag = "20")]
        sched_waking: Option<Wakeup>,
    }
    #[derive(Message)]
    struct SchedSwitch {
        #[prost(string, optional, tag = "1")]
        prev_comm: Option<String>,
        #[prost(int32, optional, tag = "2")]
        prev_pid: Option<i32>,
        #[prost(int64, optional, tag = "4")]
        prev_state: Option<i64>,
        #[prost(string, optional, tag = "5")]
        next_comm: Option<String>,
        #[prost(int32, optional, tag = "6")]
        next_pid: Option<i32>,
    }
    #[derive(Message)]
    struct Wakeup {
        #[prost(string, optional, tag = "1")]
        comm: Option<String>,
        #[prost(int32, optional, tag = "2")]
        pid: Option<i32>,
        #[prost(int32, optional, tag = "5")]
        target_cpu: Option<i32>,
    }
    #[derive(Message)]
    struct BlockedReason {
        #[prost(int32, optional, tag = "1")]
        pid: Option<i32>,
        #[prost(uint32, optional, tag = "3")]
        io_wait: Option<u32>,
    }
    #[derive(Message)]
    struct CpuIdle {
        #[prost(uint32, optional, tag = "1")]
        state: Option<u32>,
        #[prost(uint32, optional, tag = "2")]
        cpu_id: Option<u32>,
    }
    #[derive(Message)]
    struct ProcessTree {
        #[prost(message, repeated, tag = "1")]
        processes: Vec<Process>,
        #[prost(message, repeated, tag = "2")]
        threads: Vec<Thread>,
    }
    #[derive(Message)]
    struct Process {
        #[prost(int32, optional, tag = "1")]
        pid: Option<i32>,
        #[prost(string, repeated, tag = "3")]
        cmdline: Vec<String>,
    }
    #[derive(Message)]
    struct Thread {
        #[prost(int32, optional, tag = "1")]
        tid: Option<i32>,
        #[prost(string, optional, tag = "2")]
        name: Option<String>,
        #[prost(int32, optional, tag = "3")]
        tgid: Option<i32>,
    }

    fn tasks() -> SchedTasks {
        let mut tasks = SchedTasks::default();
        for (pid, tid, name) in [(7, 7, "app"), (7, 8, "worker"), (-1, 9, "stray")] {
            tasks.add(SchedTask { pid, tid, name: name.to_owned(), parent: None });
        }
        tasks
    }

    fn trace(events: &[(u64, u32, SchedAction)]) -> Trace {
        let (tasks, mut out) = (tasks(), Vec::new());
        let mut trace = PerfettoTrace::new(&mut out);
        for (time, cpu, action) in events {
            let event =
                SchedEvent { time: *time, cpu: *cpu, action: action.clone(), stack: [].into() };
            trace.push(&tasks, &event).expect("memory");
        }
        trace.finish(&tasks).expect("memory");
        Trace::decode(&out[..]).expect("a trace")
    }

    #[test]
    fn events_are_those_of_ftrace() {
        let (app, worker) = (TaskId(1), TaskId(2));
        let switch =
            |previous, state, reason, next| SchedAction::Switch { previous, state, reason, next };
        let waking = SchedAction::Wakeup {
            task: app,
            waker: worker,
            target: 3,
            is_new: false,
            is_waking: true,
        };
        let trace = trace(&[
            (100, 3, switch(app, TaskState::Uninterruptible, WaitReason::Disk, TaskId::IDLE)),
            (110, 3, SchedAction::Idle { state: None }),
            (150, 0, waking),
        ]);
        let bundles: Vec<&FtraceEventBundle> =
            trace.packet.iter().filter_map(|packet| packet.ftrace_events.as_ref()).collect();
        assert_eq!(bundles.iter().map(|of| of.cpu).collect::<Vec<_>>(), [Some(0), Some(3)]);
        let of_cpu_3 = &bundles[1].event;
        assert_eq!((of_cpu_3[0].timestamp, of_cpu_3[0].pid), (Some(100), Some(7)));
        let switch = of_cpu_3[0].sched_switch.as_ref().expect("a switch");
        assert_eq!(
            (
                switch.prev_comm(),
                switch.prev_pid(),
                switch.prev_state(),
                switch.next_comm(),
                switch.next_pid()
            ),
            ("app", 7, 2, "swapper", 0)
        );
        let idle = of_cpu_3[1].cpu_idle.as_ref().expect("an idle state");
        assert_eq!((idle.state(), idle.cpu_id()), (u32::MAX, 3));
        // That it waited for a disk is said when that is over, as the kernel does.
        let reason = bundles[0].event[0].sched_blocked_reason.as_ref().expect("a reason");
        assert_eq!((reason.pid(), reason.io_wait()), (7, 1));
        let waking = bundles[0].event[1].sched_waking.as_ref().expect("a wake-up");
        assert_eq!((bundles[0].event[1].pid(), waking.pid(), waking.target_cpu()), (8, 7, 3));
        assert_eq!(waking.comm(), "app");
        let tree =
            trace.packet.last().and_then(|packet| packet.process_tree.as_ref()).expect("a tree");
        let processes: Vec<_> =
            tree.processes.iter().map(|of| (of.pid(), &of.cmdline[..])).collect();
        assert_eq!(processes, [(7, &["app".to_owned()][..]), (9, &["stray".to_owned()][..])]);
        let threads: Vec<_> =
            tree.threads.iter().map(|of| (of.tid(), of.tgid(), of.name())).collect();
        assert_eq!(threads, [(7, 7, "app"), (8, 7, "worker"), (9, 9, "stray")]);
    }

    #[test]
    fn bundles_are_written_before_they_are_large() {
        let events: Vec<_> = (0..20_000)
            .map(|at| (at, (at % 2) as u32, SchedAction::Idle { state: Some(1) }))
            .collect();
        let trace = trace(&events);
        let bundles = trace.packet.iter().filter_map(|packet| packet.ftrace_events.as_ref());
        let lengths: Vec<usize> = bundles.map(Message::encoded_len).collect();
        assert!(lengths.len() > 2, "{lengths:?}");
        assert!(lengths.iter().all(|length| *length < 2 * BUNDLE), "{lengths:?}");
        let count: usize = trace
            .packet
            .iter()
            .filter_map(|packet| packet.ftrace_events.as_ref())
            .map(|of| of.event.len())
            .sum();
        assert_eq!(count, 20_000);
    }
}
