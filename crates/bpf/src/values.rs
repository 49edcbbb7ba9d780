//! Values of events, as the programs in the kernel read, compare and add them up.

mod layout;

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};
use pyrograph_event::request::Trigger;
use pyrograph_event::values::{
    Bits, Check, EventValues, MOST_VALUES, Memory, Operator, Pattern, Ranges, ReadBase, ReadNumber,
    ReadValue, Sum,
};

pub(crate) use self::layout::KeyText;
use self::layout::{ProbePlan, SumPlan, ValuePlan};
use crate::error::Error;
use crate::object::handle;

/// Number of places of an event: instructions of a program, functions of the kernel, or 1 for a tracepoint.
pub(crate) fn places_of(trigger: &Trigger) -> usize {
    match trigger {
        Trigger::Places { places, .. } => places.len(),
        Trigger::KernelFunctions { names, .. } => names.len(),
        _ => 1,
    }
}

/// Rows of a map of the programs, of which there is one at least.
pub(crate) fn rows(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX).max(1)
}

/// Number of patterns in the filters of events.
pub(crate) fn patterns<'a>(events: impl Iterator<Item = &'a EventValues>) -> usize {
    let is_text = |check: &&Check| matches!(check, Check::Text { .. });
    events.map(|values| values.filter.iter().filter(is_text).count()).sum()
}

/// The plans of events, in the order in which they are attached.
pub(crate) struct Plans {
    plans: MapHandle,
    patterns: MapHandle,
    next: u32,
    next_pattern: u32,
}

impl Plans {
    pub fn new(object: &Object) -> Result<Self, Error> {
        Ok(Self {
            plans: handle(object, "probe_plans")?,
            patterns: handle(object, "patterns")?,
            next: 0,
            next_pattern: 0,
        })
    }

    /// Adds an event by its number, with a row for each of its places. Returns the first row.
    pub fn add(
        &mut self,
        number: u32,
        places: usize,
        values: &EventValues,
        sum: Option<Sum>,
    ) -> Result<u32, Error> {
        let first = self.next;
        let mut plan = ProbePlan { event: number, ..ProbePlan::default() };
        plan.hidden = (values.shown == 0).into();
        plan.of_call = values.need_call().into();
        plan.sum = planned_sum(sum.unwrap_or_default());
        for (to, check) in plan.filter.iter_mut().zip(&values.filter) {
            *to = self.check(check)?;
            plan.checks += 1;
        }
        for index in 0..places {
            let reads = values.reads.get(index).map_or(&[][..], Vec::as_slice);
            plan.values = [ValuePlan::default(); MOST_VALUES];
            for (to, value) in plan.values.iter_mut().zip(reads) {
                *to = planned(value);
            }
            plan.count = u32::try_from(reads.len().min(MOST_VALUES)).unwrap_or(0);
            self.plans
                .update(&self.next.to_ne_bytes(), bytemuck::bytes_of(&plan), MapFlags::ANY)
                .map_err(Error::map("probe_plans"))?;
            self.next += 1;
        }
        Ok(first)
    }

    fn check(&mut self, check: &Check) -> Result<layout::Check, Error> {
        let index = |value: &usize| u32::try_from(*value).unwrap_or(u32::MAX);
        let mut plan = layout::Check::default();
        match check {
            Check::Number { value, operator, number, signed } => {
                plan.kind = layout::CHECK_NUMBER;
                plan.value = index(value);
                plan.operator = match operator {
                    Operator::Equal => layout::CHECK_EQUAL,
                    Operator::Less => layout::CHECK_LESS,
                    Operator::Greater => layout::CHECK_GREATER,
                    Operator::Bits => layout::CHECK_BITS,
                };
                (plan.number, plan.is_signed) = (*number, (*signed).into());
            }
            Check::Text { value, pattern } => {
                let Pattern { by_byte, stays, end } = &**pattern;
                plan.kind = layout::CHECK_TEXT;
                plan.value = index(value);
                (plan.number, plan.stays) = (*end, *stays);
                plan.pattern = self.next_pattern.into();
                self.patterns
                    .update(
                        &self.next_pattern.to_ne_bytes(),
                        bytemuck::cast_slice(by_byte),
                        MapFlags::ANY,
                    )
                    .map_err(Error::map("patterns"))?;
                self.next_pattern += 1;
            }
            Check::And => plan.kind = layout::CHECK_AND,
            Check::Or => plan.kind = layout::CHECK_OR,
            Check::Not => plan.kind = layout::CHECK_NOT,
        }
        Ok(plan)
    }
}

fn planned_sum(sum: Sum) -> SumPlan {
    let index = |value: Option<usize>| {
        value.and_then(|value| u32::try_from(value).ok()).unwrap_or(layout::NO_VALUE)
    };
    let mut plan = SumPlan {
        by: if sum.by.is_some() { layout::BY_VALUE } else { layout::BY_KEY },
        key: index(sum.by),
        value: index(sum.value),
        frame: index(sum.frame),
        keyed: sum.keyed.into(),
        ..SumPlan::default()
    };
    match sum.ranges {
        Ranges::None => plan.ranges = layout::RANGES_NONE,
        Ranges::Powers => plan.ranges = layout::RANGES_POWERS,
        Ranges::Equal { least, size, count } => {
            plan.ranges = layout::RANGES_EQUAL;
            (plan.least, plan.size, plan.count) = (least, size, count.into());
        }
    }
    plan
}

fn planned(value: &ReadValue) -> ValuePlan {
    let mut plan = ValuePlan::default();
    match value {
        ReadValue::Number(value, Bits { first, count, signed }) => {
            plan.kind = layout::VALUE_NUMBER;
            plan.value = number(value);
            (plan.first, plan.bits, plan.is_signed) = (*first, *count, (*signed).into());
        }
        ReadValue::Text(value, memory) => {
            plan.kind = layout::VALUE_TEXT;
            plan.value = number(value);
            plan.of_kernel = (*memory == Memory::Kernel).into();
        }
        ReadValue::TextOf(value, length) => {
            plan.kind = layout::VALUE_TEXT_OF;
            (plan.value, plan.length) = (number(value), number(length));
        }
        ReadValue::TextInData(value) => {
            plan.kind = layout::VALUE_TEXT_IN_DATA;
            plan.value = number(value);
            plan.of_kernel = 1;
        }
        ReadValue::ThreadName => plan.kind = layout::VALUE_COMM,
        ReadValue::Process => plan.kind = layout::VALUE_PROCESS,
        ReadValue::Thread => plan.kind = layout::VALUE_THREAD,
        ReadValue::Cpu => plan.kind = layout::VALUE_CPU,
    }
    plan
}

fn number(of: &ReadNumber) -> layout::ReadNumber {
    let (base, number) = match of.base {
        ReadBase::Register(register) => (layout::BASE_REGISTER, register.into()),
        ReadBase::Called(register) => {
            (layout::BASE_REGISTER, layout::REGISTERS_OF_CALL + u64::from(register))
        }
        ReadBase::Data => (layout::BASE_REGISTER, layout::REGISTER_DATA),
        ReadBase::Distance(distance) => (layout::BASE_STATIC, distance.cast_unsigned()),
        ReadBase::Constant(number) => (layout::BASE_CONSTANT, number),
        ReadBase::Thread(distance) => (layout::BASE_THREAD, distance.cast_unsigned()),
    };
    let mut plan = layout::ReadNumber { number, base, ..layout::ReadNumber::default() };
    for (to, step) in plan.steps.iter_mut().zip(&of.steps) {
        let memory = if step.memory == Memory::Kernel { layout::LOAD_OF_KERNEL } else { 0 };
        let load = if step.load == 0 { 0 } else { u64::from(step.load) | memory };
        *to = layout::ReadStep { add: step.add, load };
        plan.count += 1;
    }
    plan
}
