//! Stacks that the programs copied out. They are unwound here once the mappings of their processes at that time are
//! known.

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

/// Maximum size of waiting stacks in bytes. Beyond it, the oldest are unwound with what is known.
const MOST_WAITING: usize = 64 << 20;

/// Maximum delay in ns of a mapping record after a stack that was copied later. Records wait in the ring buffers for at
/// most [`super::open::PATIENCE_WITH_RECORDS`], and as long again until the records of all CPUs are in order.
const RECORDS_ARE_LATE_BY_NS: u64 = 300_000_000;

/// Maximum time that an ending recording waits for code to be analysed.
const PATIENCE_AT_THE_END: Duration = Duration::from_millis(200);

/// Copied stacks.
#[derive(Default)]
pub struct Copies {
    /// Stacks whose mappings may not be known yet, in order of time.
    waiting: VecDeque<Waiting>,
    /// Stacks for which code is being analysed.
    held: VecDeque<Held>,
    bytes: usize,
    frames: Vec<UserFrame>,
    code: CodeAhead,
}

struct Waiting {
    copied: Arc<Copied>,
    /// True if the analysis of code was requested.
    asked: bool,
}

struct Held {
    waiting: Waiting,
    at: Moment,
}

/// Time at which a stack was first to be unwound, and the mappings of its process at that time.
type Moment = (Instant, AddressSpace);

impl Copies {
    /// Makes an empty list. Results of analysing code are cached below a directory such as `~/.cache`.
    pub fn new(cache: Option<PathBuf>) -> Self {
        Self { code: CodeAhead::new(cache), ..Self::default() }
    }

    /// Ends the analysis of code. When the returned guard is dropped, the results have been written.
    pub fn keep(self) -> Option<Keeping> {
        self.code.keep()
    }

    /// Takes the stacks that were copied since the last call, and reads the missing parts of them while the process
    /// still has them.
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
            // The stacks of each CPU are in order of time.
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

    /// Unwinds the stacks that were copied before a time. All records until then must have been taken.
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

    /// Unwinds the stacks for which no earlier record can arrive any more, and the stacks whose code has been analysed.
    pub fn unwind_settled(
        &mut self,
        engine: &mut Engine,
        resolver: &mut Resolver<LiveFiles>,
    ) -> Result<(), Error> {
        let time = Engine::now().saturating_sub(RECORDS_ARE_LATE_BY_NS);
        self.unwind_until(time, engine, resolver)?;
        self.unwind_held(Engine::POSTPONED_FOR, engine, resolver)
    }

    /// Unwinds the remaining stacks, after waiting shortly for code that is being analysed.
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

    /// Unwinds the stacks whose code has been analysed, or that have waited for `longest`.
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
                // The thread's queue was full.
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
