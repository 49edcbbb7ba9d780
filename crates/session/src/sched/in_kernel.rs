//! Loads the eBPF programs that follow the scheduler.

pub use pyrograph_bpf::SchedTracer;
use pyrograph_bpf::{SchedKey as Key, SchedOptions};

use super::{SchedKey, SchedPlan};
use crate::engine_error::EngineError;

pub fn load(plan: &SchedPlan) -> Result<SchedTracer, EngineError> {
    let key = |key| match key {
        SchedKey::Task => Key::Task,
        SchedKey::Cpu | SchedKey::Total => Key::Cpu,
    };
    Ok(SchedTracer::load(&SchedOptions {
        scope: plan.scope.in_kernel(),
        counts: plan.counts.map(key),
        stacks: plan.stacks,
        memory: plan.memory,
    })?)
}
