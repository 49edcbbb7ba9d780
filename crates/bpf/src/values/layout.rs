//! Data that is shared with programs that read values: the structures of `programs/values_plan.h`.

use bytemuck::{Pod, Zeroable};
use pyrograph_event::values::{MOST_CHECKS, MOST_STEPS, MOST_VALUES};

pub const BASE_REGISTER: u32 = 0;
pub const BASE_STATIC: u32 = 1;
pub const BASE_CONSTANT: u32 = 2;
pub const BASE_THREAD: u32 = 3;
/// The register that holds the address of a tracepoint's data.
pub const REGISTER_DATA: u64 = 31;
/// The first of the registers as they were when the function was called that returns.
pub const REGISTERS_OF_CALL: u64 = 32;

pub const VALUE_NUMBER: u32 = 0;
pub const VALUE_TEXT: u32 = 1;
pub const VALUE_TEXT_OF: u32 = 2;
pub const VALUE_TEXT_IN_DATA: u32 = 3;
pub const VALUE_COMM: u32 = 4;
pub const VALUE_PROCESS: u32 = 5;
pub const VALUE_THREAD: u32 = 6;
pub const VALUE_CPU: u32 = 7;

pub const LOAD_OF_KERNEL: u64 = 0x100;

pub const CHECK_NUMBER: u32 = 0;
pub const CHECK_TEXT: u32 = 1;
pub const CHECK_AND: u32 = 2;
pub const CHECK_OR: u32 = 3;
pub const CHECK_NOT: u32 = 4;

pub const CHECK_EQUAL: u32 = 0;
pub const CHECK_LESS: u32 = 1;
pub const CHECK_GREATER: u32 = 2;
pub const CHECK_BITS: u32 = 3;

pub const BY_KEY: u32 = 0;
pub const BY_VALUE: u32 = 1;
pub const RANGES_NONE: u32 = 0;
pub const RANGES_POWERS: u32 = 1;
pub const RANGES_EQUAL: u32 = 2;
pub const NO_VALUE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ReadStep {
    pub add: i64,
    pub load: u64,
}

#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ReadNumber {
    pub number: u64,
    pub base: u32,
    pub count: u32,
    pub steps: [ReadStep; MOST_STEPS],
}

#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ValuePlan {
    pub value: ReadNumber,
    pub length: ReadNumber,
    pub kind: u32,
    pub first: u8,
    pub bits: u8,
    pub is_signed: u8,
    pub of_kernel: u8,
}

#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Check {
    pub kind: u32,
    pub value: u32,
    pub operator: u32,
    pub is_signed: u32,
    pub number: u64,
    pub stays: u64,
    pub pattern: u64,
}

#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct SumPlan {
    pub by: u32,
    pub key: u32,
    pub value: u32,
    pub ranges: u32,
    pub frame: u32,
    pub keyed: u32,
    pub least: i64,
    pub size: u64,
    pub count: u64,
}

#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ProbePlan {
    pub event: u32,
    pub count: u32,
    pub checks: u32,
    pub hidden: u32,
    pub of_call: u32,
    pub pad: u32,
    pub values: [ValuePlan; MOST_VALUES],
    pub filter: [Check; MOST_CHECKS],
    pub sum: SumPlan,
}

/// Bytes of a text that events are kept apart by.
pub const MAX_KEY_TEXT: usize = 64;

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct KeyText {
    pub length: u32,
    pub all: u32,
    pub bytes: [u8; MAX_KEY_TEXT],
}

impl KeyText {
    /// The bytes that are kept of it.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length as usize).unwrap_or(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{assert_layouts, layout};

    #[test]
    fn structures_are_those_of_the_programs() {
        let structures = || {
            [
                layout!("read_step": ReadStep { add, load }),
                layout!("read_number": ReadNumber { number, base, count, steps }),
                layout!("value_plan": ValuePlan { value, length, kind, first, bits, is_signed, of_kernel }),
                layout!("check": Check { kind, value, operator, is_signed, number, stays, pattern }),
                layout!("sum_plan": SumPlan { by, key, value, ranges, frame, keyed, least, size, count }),
                layout!("key_text": KeyText { length, all, bytes }),
                layout!("probe_plan": ProbePlan { event, count, checks, hidden, of_call, pad, values, filter, sum }),
            ]
        };
        assert_layouts(&crate::counter::PROGRAMS, &structures());
        assert_layouts(&crate::load::PROGRAMS, &structures());
        // It keeps nothing apart by texts.
        let traced = structures().into_iter().filter(|of| of.name != "key_text");
        assert_layouts(&crate::tracer::PROGRAMS, &traced.collect::<Vec<_>>());
    }
}
