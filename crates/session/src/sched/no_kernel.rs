//! Replacement for the eBPF programs in a build without them: the scheduler cannot be followed.

use std::os::fd::BorrowedFd;

use pyrograph_event::sched::{SchedCounts, SchedRecord};
use pyrograph_event::traced::Stack;

use super::SchedPlan;
use crate::engine_error::EngineError;
use crate::error::Error;

/// No value of this type exists.
pub enum SchedTracer {}

pub fn load(_: &SchedPlan) -> Result<SchedTracer, EngineError> {
    Err(EngineError::NotBuilt)
}

impl SchedTracer {
    pub fn add_threads(&self, _: &[i32]) -> Result<(), Error> {
        match *self {}
    }

    pub fn attach(&mut self) -> Result<(), Error> {
        match *self {}
    }

    pub fn start(&mut self) -> Result<(), Error> {
        match *self {}
    }

    pub fn stop(&mut self) -> Result<(), Error> {
        match *self {}
    }

    pub fn end_of_events(&self) -> fn() {
        match *self {}
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        match *self {}
    }

    pub fn take(&mut self, _: &mut dyn FnMut(SchedRecord, Stack<'_>)) -> Result<bool, Error> {
        match *self {}
    }

    pub fn take_ended(&mut self, _: &mut dyn FnMut(SchedCounts)) -> Result<bool, Error> {
        match *self {}
    }

    pub fn take_counts(&mut self, _: &mut dyn FnMut(SchedCounts)) -> Result<(), Error> {
        match *self {}
    }

    pub fn lost(&self) -> (u64, u64) {
        match *self {}
    }
}
