//! Scheduler events with the stacks of the tasks that stop running.

use std::sync::Arc;

use pyrograph_event::sched::SchedRecord;
use pyrograph_event::traced::{Stack, ThreadStack};
use pyrograph_profile::StackLine;

use crate::tracing::{Moment, Placed};

/// A record and its stack, if it has one.
pub struct Taken {
    pub record: SchedRecord,
    stack: Option<Result<Box<ThreadStack>, Lost>>,
}

/// The stack was lost because there was no room for it.
struct Lost;

impl Taken {
    pub fn new(record: SchedRecord, stack: Stack<'_>) -> Self {
        let stack = match stack {
            Stack::NotTaken => None,
            Stack::Lost => Some(Err(Lost)),
            Stack::Taken(stack) => Some(Ok(Box::new(stack.clone()))),
        };
        Self { record, stack }
    }

    /// Time and stack of the record, for unwinding.
    pub fn moment(&self) -> Moment<'_> {
        let stack = match &self.stack {
            None => Stack::NotTaken,
            Some(Err(Lost)) => Stack::Lost,
            Some(Ok(stack)) => Stack::Taken(stack),
        };
        Moment { time: self.record.time, stack, place: None }
    }
}

/// A record that waits for the symbols of its stack.
pub struct Named {
    pub record: SchedRecord,
    /// IDs of the process and the thread that the stack belongs to.
    pub thread: (i32, i32),
    pub stack: Option<Arc<[Arc<StackLine>]>>,
}

impl Placed for Named {
    fn thread(&self) -> (i32, i32) {
        self.thread
    }

    fn set_stack(&mut self, stack: Vec<Arc<StackLine>>) {
        self.stack = Some(stack.into());
    }
}
