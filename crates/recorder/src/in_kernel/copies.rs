//! Stacks that the programs copied out: they are unwound here once the mappings of their processes are known.

use std::collections::VecDeque;
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pyrograph_bpf::{Engine, Keeping};
use pyrograph_event::counted::UserFrame;
use pyrograph_resolve::{AddressSpace, LiveFiles, Resolver, UnreadCode, UnwoundCopy};

use super::code_ahead::{CodeAhead, Copied};
use crate::error::Error;

/// More bytes of stacks do not wait: the oldest are then unwound with what is known.
const MOST_WAITING: usize = 64 << 20;

/// How long after a stack was copied a record of a mapping before it may still come: records wait in
/// their buffers for [`super::open::PATIENCE_WITH_RECORDS`] at most, and once more until all CPUs' are in order.
const RECORDS_ARE_LATE_BY_NS: u64 = 300_000_000;

/// How long a recording that ends waits for code to be read.
const PATIENCE_AT_THE_END: Duration = Duration::from_millis(200);

/// Copied stacks.
#[derive(Default)]
pub struct Copies {
    /// In the order of time.
    waiting: VecDeque<Waiting>,
    /// Those for which code is being read.
    held: VecDeque<Held>,
    bytes: usize,
    frames: Vec<UserFrame>,
    code: CodeAhead,
}

struct Waiting {
    copied: Arc<Copied>,
    /// Code was asked for.
    asked: bool,
}

struct Held {
    waiting: Waiting,
    at: Moment,
}

/// When a stack was to be unwound, and the mappings of its process then.
type Moment = (Instant, AddressSpace);

impl Copies {
    /// No stacks yet. Results of reading code are kept below a folder such as `~/.cache`.
    pub fn new(cache: Option<PathBuf>) -> Self {
        Self { code: CodeAhead::new(cache), ..Self::default() }
    }

    /// Ends the reading of code. The guard has the results written by the time that it is dropped.
    pub fn keep(self) -> Option<Keeping> {
        self.code.keep()
    }

    /// Takes what was copied since the last call, and reads what is missing while it is still there.
    pub fn receive(
        &mut self,
        engine: &mut Engine,
        resolver: &mut Resolver<LiveFiles>,
    ) -> Result<(), Error> {
        for stack in engine.copies()? {
            let mut copied = Copied::new(stack);
            let (rest, unread) = resolver.read_missing(&copied.as_copied(), UnreadCode::Stop);
            copied.rest = rest;
            self.bytes += copied.bytes();
            let copied = Arc::new(copied);
            let asked = unread.is_some_and(|unread| self.code.ask(&copied, unread));
            // Each CPU's are in order.
            let later = |other: &&Waiting| other.copied.stack.time > copied.stack.time;
            let at = self.waiting.len() - self.waiting.iter().rev().take_while(later).count();
            self.waiting.insert(at, Waiting { copied, asked });
        }
        while self.bytes > MOST_WAITING {
            let next = self.waiting.pop_front().map(|waiting| (waiting, None));
            let held = || self.held.pop_front().map(|held| (held.waiting, Some(held.at)));
            let Some((waiting, held)) = next.or_else(held) else { break };
            self.unwind(waiting, held, UnreadCode::Skip, engine, resolver)?;
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
        while let Some(first) = self.waiting.pop_front_if(|first| first.copied.stack.time < time) {
            match first.asked && !first.copied.is_read() {
                true => self.hold(first, None, engine, resolver),
                false => self.unwind(first, None, UnreadCode::Stop, engine, resolver)?,
            }
        }
        Ok(())
    }

    /// Unwinds the stacks before which no record can come any more, and those whose code was read.
    pub fn unwind_settled(
        &mut self,
        engine: &mut Engine,
        resolver: &mut Resolver<LiveFiles>,
    ) -> Result<(), Error> {
        let time = Engine::now().saturating_sub(RECORDS_ARE_LATE_BY_NS);
        self.unwind_until(time, engine, resolver)?;
        self.unwind_held(Engine::POSTPONED_FOR, engine, resolver)
    }

    /// Unwinds those that are held: it waits a moment for code that is being read.
    pub fn unwind_rest(
        &mut self,
        engine: &mut Engine,
        resolver: &mut Resolver<LiveFiles>,
    ) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE_AT_THE_END;
        while !self.held.is_empty() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
            self.unwind_held(Engine::POSTPONED_FOR, engine, resolver)?;
        }
        self.unwind_held(Duration::ZERO, engine, resolver)
    }

    /// Unwinds the stacks whose code was read, or which were held for so long.
    fn unwind_held(
        &mut self,
        longest: Duration,
        engine: &mut Engine,
        resolver: &mut Resolver<LiveFiles>,
    ) -> Result<(), Error> {
        for held in mem::take(&mut self.held) {
            let Held { waiting, at } = held;
            let unread = match at.0.elapsed() >= longest {
                true => UnreadCode::Skip,
                false if waiting.copied.is_read() => UnreadCode::Read,
                false if waiting.asked => {
                    self.held.push_back(Held { waiting, at });
                    continue;
                }
                // The thread had too much to do.
                false => UnreadCode::Stop,
            };
            self.unwind(waiting, Some(at), unread, engine, resolver)?;
        }
        Ok(())
    }

    fn unwind(
        &mut self,
        waiting: Waiting,
        held: Option<Moment>,
        unread: UnreadCode,
        engine: &mut Engine,
        resolver: &mut Resolver<LiveFiles>,
    ) -> Result<(), Error> {
        let copied = &waiting.copied;
        self.frames.clear();
        let space = held.as_ref().map(|(_, space)| space);
        match resolver.unwind_copied(&copied.as_copied(), space, unread, &mut self.frames) {
            UnwoundCopy::Frames(cut, guessed) => {
                self.bytes -= copied.bytes();
                let frames = self.frames.iter().copied();
                engine.unwound(&copied.stack, frames, (cut, guessed))?;
            }
            UnwoundCopy::Unread(unread) => {
                let asked = self.code.ask(copied, unread);
                self.hold(Waiting { asked, ..waiting }, held, engine, resolver);
            }
        }
        Ok(())
    }

    fn hold(
        &mut self,
        waiting: Waiting,
        held: Option<Moment>,
        engine: &mut Engine,
        resolver: &Resolver<LiveFiles>,
    ) {
        let stack = &waiting.copied.stack;
        let at = held.unwrap_or_else(|| {
            engine.postpone(stack);
            (Instant::now(), resolver.space(stack.pid))
        });
        self.held.push_back(Held { waiting, at });
    }
}
