//! Replacement for the eBPF programs in a build without them: `perf_event_open` counts all events.

use pyrograph_record::Counters;

use super::CountPlan;
use super::choice::Choice;
use super::readings::Reading;
use crate::engine_error::EngineError;
use crate::error::Error;
use crate::keys::Keys;
use crate::plan::Engine;

/// No value of this type exists.
pub(super) enum InKernel {}

/// Selects `perf_event_open` for all events.
pub(super) fn open(plan: &CountPlan) -> Result<(Option<InKernel>, Choice), Error> {
    if plan.is_by_who_runs() || plan.engine == Some(Engine::InKernel) {
        return Err(EngineError::NotBuilt.into());
    }
    let all: Vec<usize> = (0..plan.events().count()).collect();
    Ok((None, Choice::of(plan, &all, 0)))
}

impl InKernel {
    pub fn start(&mut self, _: &CountPlan, _: Option<i32>, _: &Counters) -> Result<(), Error> {
        match *self {}
    }

    pub fn events(&self) -> impl Iterator<Item = usize> + use<> {
        std::iter::empty()
    }

    pub fn settle(&self, _: &Keys) -> Result<(), Error> {
        match *self {}
    }

    pub fn read(&self, _: &Keys) -> Result<Vec<Reading>, Error> {
        match *self {}
    }

    pub fn lost(&self) -> u64 {
        match *self {}
    }

    pub fn missed(&self) -> Vec<(usize, u64)> {
        match *self {}
    }

    pub fn unread(&self) -> u64 {
        match *self {}
    }

    pub fn range(&self, _: &Reading) -> Option<(i64, i64, bool)> {
        match *self {}
    }
}
