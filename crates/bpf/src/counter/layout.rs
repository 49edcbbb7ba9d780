//! Data that is shared with the programs that count events: the structures of `programs/counter.h`.

use bytemuck::{Pod, Zeroable};

pub const MAX_CALLS: u32 = 512;
pub const MAX_VALUES: usize = 32;
/// Placeholder in a program's instructions that is replaced by the index of its event.
pub const EVENT_INDEX: i32 = 0x5059_0001;

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Config {
    pub group: u64,
    pub filter: u32,
    pub inherit: u32,
    pub names: u32,
    pub members: u32,
    pub key: u32,
    pub values: u32,
    pub clocks: u32,
    pub cpus: u32,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct State {
    pub on: u32,
    pub command: u32,
    pub pid_level: u32,
    pub spares: u32,
    pub pid_namespace: u64,
    pub lost: u64,
    pub unread: u64,
}

/// In [`SumKey::event`]: the value that sums are kept apart by could not be read.
pub const UNREAD_KEY: u32 = 0x8000_0000;

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct SumKey {
    pub by: u64,
    pub event: u32,
    pub range: u32,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Sum {
    pub events: u64,
    pub value: i64,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct RowKey {
    pub key: u64,
    pub event: u32,
    pub pad: u32,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Value {
    pub count: u64,
    pub enabled: u64,
    pub running: u64,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Owner {
    pub comm: [u8; 16],
    pub values: [Value; MAX_VALUES],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{assert_layouts, layout};

    #[test]
    fn structures_are_those_of_the_programs() {
        let structures = [
            layout!("config": Config { group, filter, inherit, names, members, key, values, clocks, cpus }),
            layout!("state": State { on, command, pid_level, spares, pid_namespace, lost, unread }),
            layout!("sum_key": SumKey { by, event, range }),
            layout!("sum": Sum { events, value }),
            layout!("row_key": RowKey { key, event, pad }),
            layout!("value": Value { count, enabled, running }),
            layout!("owner": Owner { comm, values }),
        ];
        assert_layouts(&crate::counter::PROGRAMS, &structures);
    }
}
