//! Lowering the rate of a clock while it is recorded, where taking stacks turns out to take too much.

use std::time::Duration;

use pyrograph_bpf::Engine;
use pyrograph_record::{Notice, Pacer, possible_rate};

/// Stacks that are enough to measure the cost of one.
const ENOUGH: u64 = 1_000;

/// How often a clock ticks on each CPU.
pub struct Pace {
    /// The time between two ticks.
    period: Duration,
    interrupt: Duration,
    pacer: Pacer,
    /// Stacks that were taken until the last check, and how long that took.
    seen: (u64, Duration),
}

impl Pace {
    /// `interrupt`: what each tick takes, stacks aside.
    pub fn new(period: Duration, interrupt: Duration, pacer: Pacer) -> Self {
        Self { period, interrupt, pacer, seen: (0, Duration::ZERO) }
    }

    /// Lowers the rate if stacks take more of the time than they may, and returns so.
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
        // Not for a little.
        if possible * 5 >= asked * 4 {
            return None;
        }
        self.period = Duration::from_secs(1) / u32::try_from(possible).unwrap_or(u32::MAX);
        self.pacer.set(self.period);
        engine.set_period(self.period);
        Some(Notice::RateTooHigh { asked, possible, cost })
    }
}
