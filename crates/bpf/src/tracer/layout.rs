//! Data that is shared with the programs that trace system calls: the structures of `programs/trace.h`.

use bytemuck::{Pod, Zeroable};

pub const MAX_CALLS: u32 = 512;
pub const MAX_COPIES: usize = 4;
/// Number of latency buckets in a row.
pub const BUCKETS: usize = 4 * (40 - 4) + 2;

pub const EXTENT_TEXT: u8 = 0;
pub const EXTENT_FIXED: u8 = 1;
pub const EXTENT_UP_TO: u8 = 2;
pub const EXTENT_ARGUMENT: u8 = 3;
pub const EXTENT_RESULT: u8 = 4;
pub const EXTENT_POINTED: u8 = 5;
pub const EXTENT_STRINGS: u8 = 6;
pub const EXTENT_VECTOR: u8 = 7;
pub const EXTENT_MESSAGE: u8 = 8;

#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Copy {
    pub argument: u8,
    pub at_exit: u8,
    pub extent: u8,
    pub other: u8,
    pub text: u8,
    pub filled: u8,
    pub pad: u16,
    pub size: u32,
}

#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Plan {
    pub copies: [Copy; MAX_COPIES],
    pub count: u32,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Config {
    pub calls: [u64; 8],
    pub followed: [u64; 8],
    pub shown: [u64; 8],
    pub slower: u64,
    pub group: u64,
    pub filter: u32,
    pub inherit: u32,
    pub names: u32,
    pub failed: u32,
    pub filtered: u32,
    pub most: u32,
    pub wake: u32,
    pub compat: u32,
    pub stacks: u32,
    pub pad: u32,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct State {
    pub side: u32,
    pub on: u32,
    pub lost: u64,
    pub lost_rows: u64,
    pub lost_threads: u64,
    pub command: u32,
    pub pid_level: u32,
    pub pid_namespace: u64,
    pub unread: u64,
}

/// Kinds of records: `enum record_kind`. Kind 1 is a call that has returned.
pub const RECORD_LAST_CALL: u16 = 2;
pub const RECORD_UNFINISHED: u16 = 3;
pub const RECORD_RETURN: u16 = 4;
pub const RECORD_SIGNAL: u16 = 5;
pub const RECORD_EXIT: u16 = 6;
pub const RECORD_FORK: u16 = 7;
pub const RECORD_EVENT: u16 = 8;
pub const RECORD_FAULT: u16 = 9;
pub const RECORD_STACK: u16 = 10;

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Record {
    pub time: u64,
    pub duration: u64,
    pub tgid: i32,
    pub pid: i32,
    pub kind: u16,
    pub compat: u16,
    pub number: u32,
    pub result: i64,
    pub arguments: [u64; 6],
    pub comm: [u8; 16],
    pub missed: u32,
    pub used: u32,
    pub stack: u32,
    pub only_followed: u32,
}

pub const MAX_PLACES: usize = 12;

#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct EventPlace {
    pub offset: u16,
    pub relative: u16,
}

#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct EventPlan {
    pub size: u32,
    pub count: u32,
    pub filter: u32,
    pub places: [EventPlace; MAX_PLACES],
}

/// Number of rows of the map `stacks` for each CPU.
pub const STACKS_A_CPU: u32 = 2;
#[cfg(test)]
pub const MAX_STACK: usize = 256 << 10;
pub const ROOT_STACK: usize = 16 << 10;
pub const UNKNOWN_STACK: usize = 16 << 10;
pub const MAX_KERNEL_FRAMES: usize = 64;

/// The header in `struct stack`, between the record and the bytes of the stack.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Stack {
    pub registers: [u64; 17],
    pub end: u64,
    pub root: u64,
    pub len: u32,
    pub limit: u32,
    pub depth: u32,
    pub pad: u32,
    pub kernel: [u64; MAX_KERNEL_FRAMES],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Copied {
    pub copy: u8,
    pub pad: u8,
    pub bytes: u16,
    pub length: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(C)]
pub struct RowKey {
    pub pid: i32,
    pub number: u32,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Row {
    pub group: u64,
    pub calls: u64,
    pub errors: u64,
    pub total: u64,
    pub least: u64,
    pub longest: u64,
    pub tgid: i32,
    pub compat: u32,
    pub comm: [u8; 16],
    pub buckets: [u32; BUCKETS],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct ErrorKey {
    pub pid: i32,
    pub number: u32,
    pub error: i32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Layout, assert_layouts, layout};

    #[test]
    fn structures_are_those_of_the_programs() {
        let structures = [
            layout!("call_plan": Plan { copies, count }),
            layout!("call_copy": Copy { argument, at_exit, extent, other, text, filled, pad, size }),
            layout!("config": Config { calls, followed, shown, slower, group, filter, inherit, names, failed, filtered, most, wake, compat, stacks, pad }),
            layout!("state": State { side, on, lost, lost_rows, lost_threads, command, pid_level, pid_namespace, unread }),
            layout!("call_record": Record { time, duration, tgid, pid, kind, compat, number, result, arguments, comm, missed, used, stack, only_followed }),
            layout!("event_place": EventPlace { offset, relative }),
            layout!("event_plan": EventPlan { size, count, filter, places }),
            layout!("row_key": RowKey { pid, number }),
            layout!("row": Row { group, calls, errors, total, least, longest, tgid, compat, comm, buckets }),
            layout!("error_key": ErrorKey { pid, number, error }),
        ];
        assert_layouts(&crate::tracer::PROGRAMS, &structures);
        // There, the record in front and the bytes behind are parts of it.
        let own = layout!("stack": Stack { registers, end, root, len, limit, depth, pad, kernel });
        let bytes = size_of::<Record>() + own.size;
        let behind = [("record", 0), ("bytes", bytes), ("root_bytes", bytes + MAX_STACK)];
        let own = own.fields.iter().map(|(field, offset)| (*field, size_of::<Record>() + offset));
        let stack = Layout {
            name: "stack",
            size: bytes + MAX_STACK + ROOT_STACK,
            fields: own.chain(behind).collect(),
        };
        assert_layouts(&crate::tracer::PROGRAMS, &[stack]);
    }
}
