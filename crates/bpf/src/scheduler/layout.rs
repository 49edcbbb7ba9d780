//! Data that is shared with the programs that follow the scheduler: the structures of `programs/sched.h`.

use bytemuck::{Pod, Zeroable};

pub const KEY_TASK: u32 = 0;
pub const KEY_CPU: u32 = 1;

pub const SCHED_TASK: u16 = 1;
pub const SCHED_SWITCH: u16 = 2;
pub const SCHED_WAKEUP: u16 = 3;
pub const SCHED_NEW: u16 = 4;
pub const SCHED_MIGRATE: u16 = 5;
pub const SCHED_FORK: u16 = 6;
pub const SCHED_RENAME: u16 = 7;
pub const SCHED_IDLE: u16 = 9;
pub const SCHED_FREQUENCY: u16 = 10;

pub const WAITS_FOR_IO: u16 = 1;
pub const WAITS_FOR_TIME: u16 = 2;
pub const HAS_STACK: u16 = 4;
/// Mask of the file type in a mode (`S_IFMT`).
pub const FILE_TYPE: u16 = 0o170_000;
pub const NO_CALL: u16 = 0xffff;

const LEAST_BITS: usize = 4;
const MOST_BITS: usize = 40;
pub const BUCKETS: usize = 4 * (MOST_BITS - LEAST_BITS) + 2;

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Config {
    pub group: u64,
    pub filter: u32,
    pub inherit: u32,
    pub names: u32,
    pub members: u32,
    pub key: u32,
    pub wake: u32,
    pub events: u32,
    pub stacks: u32,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct State {
    pub on: u32,
    pub tasks: u32,
    pub pid_level: u32,
    pub interval: u32,
    pub pid_namespace: u64,
    pub is_woken: u32,
    pub spares: u32,
    pub lost: u64,
    pub lost_threads: u64,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Record {
    pub time: u64,
    pub kind: u16,
    pub cpu: u16,
    pub task: u32,
    pub other: u32,
    pub detail: u32,
    pub more: u32,
    pub call: u16,
    pub flags: u16,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct TaskRecord {
    pub record: Record,
    pub tgid: u32,
    pub tid: u32,
    pub comm: [u8; 16],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Extremes {
    pub interval: u32,
    pub pad: u32,
    pub least: u64,
    pub longest: u64,
    pub longest_since: u64,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Counts {
    pub run_time: u64,
    pub switches: u64,
    pub delay: u64,
    pub extremes: [Extremes; 2],
    pub buckets: [u32; BUCKETS],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Spans {
    pub on_time: u64,
    pub off_time: u64,
    pub on: [u32; BUCKETS],
    pub off: [u32; BUCKETS],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Row {
    pub record: Record,
    pub tgid: u32,
    pub tid: u32,
    pub comm: [u8; 16],
    pub member: u32,
    pub is_known: u32,
    pub running: u64,
    pub ran: u64,
    pub early: u64,
    pub runnable: u64,
    pub left: u64,
    pub given: u64,
    pub gone: u64,
    pub woken: u64,
    pub waker: u32,
    pub waker_cpu: u32,
    pub counts: Counts,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{assert_layouts, layout};

    #[test]
    fn structures_are_those_of_the_programs() {
        let structures = [
            layout!("config": Config { group, filter, inherit, names, members, key, wake, events, stacks }),
            layout!("state": State { on, tasks, pid_level, interval, pid_namespace, is_woken, spares, lost, lost_threads }),
            layout!("record": Record { time, kind, cpu, task, other, detail, more, call, flags }),
            layout!("extremes": Extremes { interval, pad, least, longest, longest_since }),
            layout!("counts": Counts { run_time, switches, delay, extremes, buckets }),
            layout!("spans": Spans { on_time, off_time, on, off }),
            layout!("row": Row { record, tgid, tid, comm, member, is_known, running, ran, early, runnable, left, given, gone, woken, waker, waker_cpu, counts }),
        ];
        assert_layouts(&crate::scheduler::PROGRAMS, &structures);
        // As sched.h asserts: the programs' types are without it.
        assert_eq!(size_of::<TaskRecord>(), 56);
    }
}
