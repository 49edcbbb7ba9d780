//! Stacks that the programs copied out: they are unwound here once the mappings of their processes are known.

use std::collections::VecDeque;

use pyrograph_bpf::{CopiedStack, Engine};
use pyrograph_event::counted::UserFrame;
use pyrograph_resolve::{LiveFiles, Resolver};

use crate::error::Error;

/// More bytes of stacks do not wait: the oldest are then unwound with what is known.
const MOST_WAITING: usize = 64 << 20;

/// How long after a stack was copied a record of a mapping before it may still come: records wait in
/// their buffers for [`super::open::PATIENCE_WITH_RECORDS`] at most, and once more until all CPUs' are in order.
const RECORDS_ARE_LATE_BY_NS: u64 = 300_000_000;

/// Copied stacks, in the order of time.
#[derive(Default)]
pub struct Copies {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    frames: Vec<UserFrame>,
}

struct Waiting {
    stack: CopiedStack,
    /// Part of the stack above the copy, as it was read.
    rest: Vec<u8>,
}

impl Waiting {
    fn bytes(&self) -> usize {
        let root = self.stack.root.as_ref().map_or(0, |(_, bytes)| bytes.len());
        size_of::<Self>() + self.stack.bytes.len() + self.rest.len() + root
    }

    fn as_copied(&self) -> pyrograph_resolve::CopiedStack<'_> {
        pyrograph_resolve::CopiedStack {
            pid: self.stack.pid,
            tid: self.stack.tid,
            registers: &self.stack.registers,
            bytes: &self.stack.bytes,
            root: self.stack.root.as_ref().map(|(address, bytes)| (*address, bytes.as_slice())),
            missing: self.stack.missing(),
            rest: &self.rest,
        }
    }
}

impl Copies {
    /// Takes what was copied since the last call, and reads what is missing while it is still there.
    pub fn receive(
        &mut self,
        engine: &mut Engine,
        resolver: &mut Resolver<LiveFiles>,
    ) -> Result<(), Error> {
        for stack in engine.copies()? {
            let mut waiting = Waiting { stack, rest: Vec::new() };
            waiting.rest = resolver.read_missing(&waiting.as_copied());
            self.bytes += waiting.bytes();
            // Each CPU's are in order.
            let later = |other: &&Waiting| other.stack.time > waiting.stack.time;
            let at = self.waiting.len() - self.waiting.iter().rev().take_while(later).count();
            self.waiting.insert(at, waiting);
        }
        while self.bytes > MOST_WAITING {
            self.unwind_first(engine, resolver)?;
        }
        Ok(())
    }

    /// Unwinds the stacks that were copied before a time: all records until then were taken.
    pub fn unwind_until(
        &mut self,
        time: u64,
        engine: &mut Engine,
        resolver: &mut Resolver<LiveFiles>,
    ) -> Result<(), Error> {
        while self.waiting.front().is_some_and(|first| first.stack.time < time) {
            self.unwind_first(engine, resolver)?;
        }
        Ok(())
    }

    /// Unwinds the stacks before which no record can come any more.
    pub fn unwind_settled(
        &mut self,
        engine: &mut Engine,
        resolver: &mut Resolver<LiveFiles>,
    ) -> Result<(), Error> {
        let time = Engine::now().saturating_sub(RECORDS_ARE_LATE_BY_NS);
        self.unwind_until(time, engine, resolver)
    }

    fn unwind_first(
        &mut self,
        engine: &mut Engine,
        resolver: &mut Resolver<LiveFiles>,
    ) -> Result<(), Error> {
        let Some(first) = self.waiting.pop_front() else { return Ok(()) };
        self.bytes -= first.bytes();
        self.frames.clear();
        let end = resolver.unwind_copied(&first.as_copied(), &mut self.frames);
        engine.unwound(&first.stack, self.frames.iter().copied(), end)?;
        Ok(())
    }
}
