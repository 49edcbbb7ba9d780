//! Tracing by eBPF programs.

use pyrograph_event::values::EventValues;

use super::plan::TracePlan;
use super::tracer::Tracer;
use crate::engine_error::EngineError;
#[cfg(feature = "bpf")]
use crate::error::Error;

/// Filters of calls, by their numbers.
type Filters = Vec<(u32, EventValues)>;

#[cfg(feature = "bpf")]
pub fn load(
    plan: &TracePlan,
    filters: Option<Filters>,
    processes: Option<Vec<i32>>,
) -> Result<Box<dyn Tracer>, EngineError> {
    let tracer = pyrograph_bpf::CallTracer::load(&pyrograph_bpf::CallOptions {
        scope: plan.scope.in_kernel(),
        calls: plan.calls.clone(),
        followed: plan.followed(),
        failed: plan.failed,
        slower: plan.slower,
        filters,
        counts: plan.counts,
        events: plan.events.iter().map(|event| event.source.clone()).collect(),
        faults: (plan.faults.major, plan.faults.minor),
        stacks: plan.stacks,
        text: u32::try_from(plan.text).unwrap_or(u32::MAX),
        memory: plan.memory,
    })?;
    for pid in processes.into_iter().flatten() {
        tracer.add_target(pid)?;
    }
    Ok(Box::new(tracer))
}

#[cfg(not(feature = "bpf"))]
pub fn load(
    _: &TracePlan,
    _: Option<Filters>,
    _: Option<Vec<i32>>,
) -> Result<Box<dyn Tracer>, EngineError> {
    Err(EngineError::NotBuilt)
}

#[cfg(feature = "bpf")]
impl Tracer for pyrograph_bpf::CallTracer {
    fn start(
        &mut self,
        command: Option<pyrograph_record::Waiting>,
        is_target: bool,
    ) -> Result<Option<pyrograph_record::Child>, Error> {
        if let Some(command) = command.as_ref().filter(|_| is_target) {
            self.expect_command(command.pid());
        }
        self.start()?;
        Ok(command.map(pyrograph_record::Waiting::run).transpose()?)
    }

    fn end_of_lines(&self) -> Option<Box<dyn FnOnce() + Send>> {
        (!self.counts()).then(|| Box::new(self.end_of_calls()) as Box<dyn FnOnce() + Send>)
    }

    fn stop(&mut self) -> Result<(), Error> {
        Ok(self.stop()?)
    }

    fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        Some(self.fd())
    }

    fn is_done(&self) -> bool {
        false
    }

    fn counts(&self) -> bool {
        self.counts()
    }

    fn take(
        &mut self,
        out: &mut dyn FnMut(&pyrograph_event::traced::Traced<'_>),
    ) -> Result<bool, Error> {
        Ok(self.take(out)?)
    }

    fn trace_faults(
        &mut self,
        major: bool,
        events: &pyrograph_record::Session,
    ) -> Result<(), Error> {
        Ok(self.trace_faults(major, events.events())?)
    }

    fn take_counts(
        &mut self,
        out: &mut dyn FnMut(pyrograph_event::traced::CallCount),
    ) -> Result<(), Error> {
        Ok(self.take_counts(out)?)
    }

    fn lost(&self) -> pyrograph_event::traced::LostCalls {
        self.lost()
    }

    fn exit_code(&self) -> Option<u8> {
        None
    }
}
