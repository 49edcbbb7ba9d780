//! Calls that programs in the kernel hand out.

use super::{TracePlan, Tracer};
use crate::error::Error;

#[cfg(feature = "bpf")]
pub fn load(plan: &TracePlan, processes: Option<Vec<i32>>) -> Result<Box<dyn Tracer>, Error> {
    let tracer = pyrograph_bpf::CallTracer::load(&pyrograph_bpf::CallOptions {
        processes,
        inherit: plan.inherit,
        names: plan.filters.names.clone(),
        group: plan.filters.group,
        calls: plan.calls.clone(),
        failed: plan.failed,
        slower: plan.slower,
        counts: plan.counts,
        text: u32::try_from(plan.text).unwrap_or(u32::MAX),
        memory: plan.memory,
        cache: plan.cache.clone(),
    })?;
    Ok(Box::new(tracer))
}

#[cfg(not(feature = "bpf"))]
pub fn load(_: &TracePlan, _: Option<Vec<i32>>) -> Result<Box<dyn Tracer>, Error> {
    Err(crate::in_kernel::EngineError::NotBuilt.into())
}

#[cfg(feature = "bpf")]
impl Tracer for pyrograph_bpf::CallTracer {
    fn start(&mut self, command: Option<i32>) -> Result<(), Error> {
        if let Some(pid) = command {
            self.expect_command(pid);
        }
        Ok(self.start()?)
    }

    fn stop(&mut self) -> Result<(), Error> {
        Ok(self.stop()?)
    }

    fn fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd()
    }

    fn take(
        &mut self,
        out: &mut dyn FnMut(&pyrograph_event::traced::Traced<'_>),
    ) -> Result<bool, Error> {
        Ok(self.take(out)?)
    }

    fn take_counts(
        &mut self,
        out: &mut dyn FnMut(pyrograph_event::traced::CallCount),
    ) -> Result<(), Error> {
        Ok(self.take_counts(out)?)
    }

    fn lost(&self) -> super::LostCalls {
        let lost = self.lost();
        super::LostCalls { calls: lost.calls, counts: lost.counts, memory: lost.memory }
    }
}
