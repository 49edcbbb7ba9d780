//! Tracepoints of the scheduler and the meaning of their fields.

use pyrograph_event::{ByteOrder, type_id};
use pyrograph_profile::{FieldValue, NamedThread, SchedFact, TaskState, WaitReason};

use crate::events::Event;
use crate::tracepoint::{Tracepoint, TracepointField};

/// A tracepoint of the scheduler.
#[derive(Debug)]
pub struct Point {
    kind: Kind,
    /// Thread that the event is about: for a switch, the one that stopped running; for a fork, the parent.
    thread: ThreadFields,
    /// Thread that runs next, or that was started.
    other: ThreadFields,
    /// Numeric fields, depending on the kind: state; CPUs; time; frequency.
    numbers: [Option<TracepointField>; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Switch,
    Wakeup { is_new: bool, is_waking: bool },
    Migrate,
    Fork,
    Rename,
    Exit,
    Runtime,
    Idle,
    Frequency,
}

/// Fields with the ID and the name of a thread.
#[derive(Debug, Default)]
struct ThreadFields {
    tid: Option<TracepointField>,
    name: Option<TracepointField>,
}

/// Returns the decoder of an event; `None` if it is not a scheduler event.
pub fn point_of(event: &Event, tracepoints: &[Tracepoint]) -> Option<Point> {
    let is_it = |known: &&Tracepoint| known.id == event.attr.config;
    let found =
        tracepoints.iter().find(is_it).filter(|_| event.attr.type_ == type_id::TRACEPOINT)?;
    let field = |name: &str| found.fields.iter().find(|field| field.name == name).cloned();
    let wakeup = |is_new, is_waking| Kind::Wakeup { is_new, is_waking };
    let (kind, threads, numbers) = match &found.name[..] {
        "sched:sched_switch" => {
            let threads = [("prev_pid", "prev_comm"), ("next_pid", "next_comm")];
            (Kind::Switch, threads, ["prev_state", ""])
        }
        "sched:sched_wakeup" => (wakeup(false, false), THREAD, ["target_cpu", ""]),
        "sched:sched_waking" => (wakeup(false, true), THREAD, ["target_cpu", ""]),
        "sched:sched_wakeup_new" => (wakeup(true, false), THREAD, ["target_cpu", ""]),
        "sched:sched_migrate_task" => (Kind::Migrate, THREAD, ["orig_cpu", "dest_cpu"]),
        "sched:sched_process_fork" => {
            let threads = [("parent_pid", "parent_comm"), ("child_pid", "child_comm")];
            (Kind::Fork, threads, ["", ""])
        }
        "task:task_rename" => (Kind::Rename, [("pid", "newcomm"), ("", "")], ["", ""]),
        "sched:sched_process_exit" => (Kind::Exit, THREAD, ["", ""]),
        "sched:sched_stat_runtime" => (Kind::Runtime, THREAD, ["runtime", ""]),
        "power:cpu_idle" => (Kind::Idle, [("", ""), ("", "")], ["state", ""]),
        "power:cpu_frequency" => (Kind::Frequency, [("", ""), ("", "")], ["state", ""]),
        _ => return None,
    };
    let [thread, other] =
        threads.map(|(tid, name)| ThreadFields { tid: field(tid), name: field(name) });
    Some(Point { kind, thread, other, numbers: numbers.map(field) })
}

/// Field names of most tracepoints.
const THREAD: [(&str, &str); 2] = [("pid", "comm"), ("", "")];

/// Task states by number; the numbers depend on the kernel.
#[derive(Debug, Default)]
pub struct States(Vec<(u64, TaskState)>);

impl Point {
    pub fn is_switch(&self) -> bool {
        self.kind == Kind::Switch
    }

    /// Decodes a sample's raw data; `None` if it is too short, or lacks a field that an event of this kind has.
    pub fn read<'a>(
        &'a self,
        raw: &'a [u8],
        order: ByteOrder,
        states: &mut States,
    ) -> Option<SchedFact<'a>> {
        let thread = || self.thread.read(raw, order);
        let number = |at: usize| self.numbers[at].as_ref()?.value(raw, order)?.as_u64();
        let small = |at| u32::try_from(number(at)?).ok();
        Some(match self.kind {
            Kind::Switch => SchedFact::Switch {
                previous: thread()?,
                state: states.read(self.numbers[0].as_ref()?, raw, order)?,
                reason: WaitReason::Unknown,
                next: self.other.read(raw, order)?,
            },
            Kind::Wakeup { is_new, is_waking } => {
                SchedFact::Wakeup { thread: thread()?, target: small(0)?, is_new, is_waking }
            }
            Kind::Migrate => {
                SchedFact::Migrate { thread: thread()?, from: small(0)?, to: small(1)? }
            }
            Kind::Fork => SchedFact::Fork {
                parent: thread()?,
                child: self.other.read(raw, order)?,
                child_process: None,
            },
            Kind::Rename => SchedFact::Rename { thread: thread()?, process: None },
            Kind::Exit => SchedFact::Exit { thread: thread()? },
            Kind::Runtime => SchedFact::Runtime { thread: thread()?, time: number(0)? },
            Kind::Idle => SchedFact::Idle { state: small(0).filter(|state| *state != LEAVES_IDLE) },
            Kind::Frequency => SchedFact::Frequency { frequency: small(0)? },
        })
    }
}

/// `PWR_EVENT_EXIT`, −1: the CPU leaves its idle state.
const LEAVES_IDLE: u32 = u32::MAX;

impl ThreadFields {
    fn read<'a>(&'a self, raw: &'a [u8], order: ByteOrder) -> Option<NamedThread<'a>> {
        let tid = self.tid.as_ref()?.value(raw, order)?.as_i64()?;
        let name = self.name.as_ref().and_then(|field| field.text(raw, order)).unwrap_or_default();
        Some(NamedThread { tid: i32::try_from(tid).ok()?, name })
    }
}

impl States {
    fn read(&mut self, field: &TracepointField, raw: &[u8], order: ByteOrder) -> Option<TaskState> {
        let number = field.number(raw, order)?;
        if let Some((_, state)) = self.0.iter().find(|(known, _)| *known == number) {
            return Some(*state);
        }
        let state = match field.value(raw, order)? {
            FieldValue::Text(text) => TaskState::from_text(&text),
            _ => TaskState::from_bits(number),
        };
        // There are about a dozen, except in a damaged file.
        if self.0.len() < 64 {
            self.0.push((number, state));
        }
        Some(state)
    }
}
