//! Lowers the rate of a clock during a recording, if taking stacks takes too much of the time.

use std::time::Duration;

use pyrograph_bpf::Engine;
use pyrograph_record::{Notice, Pacer, possible_rate};

/// Number of stacks that are sufficient to measure the time of one.
const ENOUGH: u64 = 1_000;

/// Sample rate of a clock on each CPU.
pub struct Pace {
    /// Sample period.
    period: Duration,
    interrupt: Duration,
    pacer: Pacer,
    /// Number of stacks until the last check, and the time that they took.
    seen: (u64, Duration),
}

impl Pace {
    /// `interrupt`: time that each tick takes without its stack.
    pub fn new(period: Duration, interrupt: Duration, pacer: Pacer) -> Self {
        Self { period, interrupt, pacer, seen: (0, Duration::ZERO) }
    }

    /// Lowers the rate if stacks take more than their share of the time. Returns the notice about it.
    pub fn keep(&mut self, engine: &mut Engine) -> Option<Notice> {
        let stats = engine.stats();
        let (taken, spent) = (stats.ticks - self.seen.0, stats.spent.saturating_sub(self.seen.1));
        if taken < ENOUGH {
            return None;
        }
        self.seen = (stats.ticks, stats.spent);
        let cost = self.interrupt + spent / u32::try_from(taken).unwrap_or(u32::MAX);
        let asked = (1.0 / self.period.as_secs_f64()).round() as u64;
        let possible = possible_rate(cost);
        // Small changes are not made: only to less than four fifths of the rate.
        if possible * 5 >= asked * 4 {
            return None;
        }
        self.period = Duration::from_secs(1) / u32::try_from(possible).unwrap_or(u32::MAX);
        self.pacer.set(self.period);
        engine.set_period(self.period);
        Some(Notice::RateTooHigh { asked, possible, cost })
    }
}
